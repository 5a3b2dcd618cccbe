//! DeepSeek Harness's edge cases that need a disk that misbehaves, by their ids.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use rustix::io::Errno;

use super::*;
use crate::disk::fs::Call;

#[test]
fn dsh_w10_a_file_that_stood_in_the_way_and_is_gone_is_not_created_over_either() {
    let folder = Folder::new(&[]);
    let path = folder.path("a");
    let is_there = Mutex::new(false);
    let fs = Fs::gated(move |call| {
        let mut is_there = is_there.lock().expect("no panic");
        match call {
            Call::RenameNew => {
                fs::write(&path, "theirs").expect("written");
                *is_there = true;
            }
            Call::Stat if std::mem::take(&mut *is_there) => {
                fs::remove_file(&path).expect("removed");
            }
            _ => {}
        }
        Ok(())
    });
    let result = change_on(&folder.disk_on(&fs), &[folder.create("a", "ours")]);
    assert_eq!(outcome(result), "0 Exists: a file is there already");
    assert_eq!(folder.shows(), "");
}

#[test]
fn dsh_w21_staged_files_are_private_and_take_no_name_that_is_taken() {
    let folder = Folder::new(&[("a", "A")]);
    let disk = folder.ready_disk_on(&Fs::default());
    let id = disk.journal().expect("a journal").id.clone();
    let taken = format!(".abreast.{id}.0");
    folder.write(&taken, "theirs");
    let staged = disk
        .stage(&[folder.replace("a", "A", "x")])
        .expect("staged");
    assert_eq!(folder.mode(&format!(".abreast.{id}.1")), folder.mode("a"));
    disk.commit(staged).expect("committed");
    assert_eq!(folder.shows(), format!("{taken}=theirs a=x"));
    // Before they have the owner of the file they are for nobody else.
    let fs = Fs::gated(|call| match call {
        Call::Xattr => Err(Errno::IO),
        _ => Ok(()),
    });
    let modes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&modes);
    let path = folder.path.clone();
    let looking = Fs::gated(move |call| {
        if call == Call::Write {
            let names = fs::read_dir(&path).expect("there").flatten();
            let dots = names.filter(|it| it.file_name().to_string_lossy().contains(".abreast"));
            let modes = dots.map(|it| it.metadata().expect("there").permissions().mode() & 0o7777);
            seen.lock().expect("no panic").extend(modes);
        }
        Ok(())
    });
    fs::remove_file(folder.path(&taken)).expect("ours");
    change_on(&folder.disk_on(&looking), &[folder.replace("a", "x", "y")]).expect("changed");
    let modes = modes.lock().expect("no panic").clone();
    assert!(!modes.is_empty() && modes.contains(&0o600), "{modes:?}");
    // And they are gone if that fails.
    change_on(&folder.disk_on(&fs), &[folder.replace("a", "y", "z")]).expect_err("failed");
    assert_eq!(folder.shows(), "a=y");
}

#[test]
fn dsh_w29_what_was_staged_is_gone_if_a_directory_takes_its_place() {
    let folder = Folder::new(&[]);
    let staged = folder
        .disk
        .stage(&[folder.create("a", "A")])
        .expect("staged");
    folder.write("a/theirs", "T");
    let result = outcome(folder.disk.commit(staged));
    assert_eq!(result, "0 NotRegularFile: a directory");
    assert_eq!(folder.shows(), "a/ a/theirs=T");
}

#[test]
fn dsh_w30_what_cannot_be_cleaned_up_makes_no_failure_of_a_success() {
    let folder = Folder::new(&[("a", "A"), ("b", "B")]);
    let fs = Fs::gated(|call| match call {
        Call::Unlink => Err(Errno::IO),
        _ => Ok(()),
    });
    let changes = [folder.replace("a", "A", "x"), folder.delete("b", "B")];
    let committed = change_on(&folder.disk_on(&fs), &changes).expect("committed");
    assert_eq!(committed.residue.len(), 2);
    for path in committed.residue {
        fs::remove_file(path).expect("it was left");
    }
    assert_eq!(folder.shows(), "a=x");
}

#[test]
fn dsh_w38_what_changes_while_it_is_read_is_not_written_over() {
    for (what, shows) in [
        ("grows", "a=AA"),
        ("shrinks", "a="),
        ("vanishes", ""),
        ("becomes a directory", "a/"),
        ("becomes a link", "a->elsewhere"),
    ] {
        for nth in 0.. {
            let folder = Folder::new(&[("a", "A")]);
            let path = folder.path("a");
            let n_reads = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&n_reads);
            let fs = Fs::gated(move |call| {
                if call != Call::Read || counter.fetch_add(1, Ordering::Relaxed) != nth {
                    return Ok(());
                }
                match what {
                    "grows" => fs::write(&path, "AA").expect("written"),
                    "shrinks" => fs::write(&path, "").expect("written"),
                    _ => fs::remove_file(&path).expect("removed"),
                }
                match what {
                    "becomes a directory" => fs::create_dir(&path).expect("made"),
                    "becomes a link" => {
                        std::os::unix::fs::symlink("elsewhere", &path).expect("linked");
                    }
                    _ => {}
                }
                Ok(())
            });
            let disk = folder.disk_on(&fs);
            let result = change_on(&disk, &[folder.replace("a", "A", "x")]);
            let n_reads = n_reads.load(Ordering::Relaxed);
            if n_reads <= nth {
                assert_eq!(folder.shows(), "a=x", "{what}");
                break;
            }
            assert_eq!(folder.shows(), shows, "{what} at read {nth}: {result:?}");
        }
    }
}
