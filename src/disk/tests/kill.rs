//! A process that dies at any moment of a change, and the next one, which finds what it left.

use std::{
    env,
    process::{Command, ExitStatus},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use rustix::{
    io::Errno,
    process::{Signal, getpid, kill_process},
};

use super::*;

/// What a child process is to do: the folder, the directory of journals, the fixture, and before which call it dies.
const CHILD: &str = "ABREAST_TEST_KILLED";
/// Fixtures of one change each, of five, and of twenty.
const ONE: [&str; 5] = ["u", "c", "d", "r", "h"];
const FIVE: &str = "ucdrh";
const TWENTY: &str = "ucdrhhurdcurcdhhucdr";

/// A change for each letter, of texts without blanks: update, create, delete, rename, and a file with another name, which is changed in place.
fn fixture(letters: &str) -> (Folder, Vec<DiskChange>) {
    let folder = Folder::quick(&[("z", "Z")]);
    for (n, letter) in letters.chars().enumerate() {
        match letter {
            'c' => {}
            'h' => {
                folder.write(&format!("h{n}"), old_in_place(n));
                let (from, to) = (format!("h{n}"), format!("link{n}"));
                fs::hard_link(folder.path(&from), folder.path(&to)).expect("linked");
            }
            _ => folder.write(&format!("{letter}{n}"), &format!("old-{n}")),
        }
    }
    let changes = changes(&folder.path, letters);
    (folder, changes)
}

fn old_in_place(n: usize) -> &'static str {
    if n.is_multiple_of(2) {
        "a-long-old-text"
    } else {
        "old"
    }
}

fn changes(folder: &Path, letters: &str) -> Vec<DiskChange> {
    let change = |(n, letter): (usize, char)| {
        let path = folder.join(format!("{letter}{n}"));
        let expected = text(&format!("old-{n}"));
        match letter {
            'u' => DiskChange::Replace {
                path,
                expected,
                text: text("new"),
            },
            'c' => DiskChange::Create {
                path: folder.join(format!("made{n}/dir/c{n}")),
                text: text("new"),
            },
            'd' => DiskChange::Delete { path, expected },
            'r' => DiskChange::Rename {
                from: path,
                to: folder.join(format!("moved{n}/r{n}")),
                expected,
            },
            _ => DiskChange::Replace {
                path,
                expected: text(old_in_place(n)),
                text: text("a-new-text"),
            },
        }
    };
    letters.chars().enumerate().map(change).collect()
}

/// What the folder shows before and after the changes.
fn old_and_new(letters: &str) -> (String, String) {
    let (folder, changes) = fixture(letters);
    let old = folder.shows();
    folder.change(&changes).expect("changed");
    (old, folder.shows())
}

/// A system on which nothing happens any more from the n-th call on, and which counts the calls.
fn dying_at(n: usize) -> (Fs, Arc<AtomicUsize>) {
    let n_calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&n_calls);
    let fs = Fs::gated(move |_| {
        if counter.fetch_add(1, Ordering::Relaxed) >= n {
            return Err(Errno::IO);
        }
        Ok(())
    });
    (fs, n_calls)
}

/// Another process comes, until nothing is left: a test that starts a process lets it hold a lock for a moment.
fn settle(folder: &Folder) {
    let next = folder.disk_on(&Fs::default());
    for _ in 0..10_000 {
        next.recover();
        if fs::read_dir(folder.state.path())
            .expect("there")
            .next()
            .is_none()
        {
            break;
        }
        thread::yield_now();
    }
}

/// Another process comes: all must be old or new, and nothing of ours left. Returns whether all is new.
#[track_caller]
fn check_next(
    folder: &Folder,
    (old, new): &(String, String),
    by_change: bool,
    context: &str,
) -> bool {
    let next = folder.disk_on(&Fs::default());
    if by_change {
        change_on(&next, &[folder.replace("z", "Z", "ZZ")]).expect("changed");
        change_on(&next, &[folder.replace("z", "ZZ", "Z")]).expect("changed");
    } else {
        next.recover();
    }
    drop(next);
    settle(folder);
    let shows = folder.shows();
    assert!(shows == *old || shows == *new, "{context}: {shows}");
    let left: Vec<_> = fs::read_dir(folder.state.path()).expect("there").collect();
    assert!(left.is_empty(), "{context}: {left:?}");
    shows == *new
}

#[test]
fn who_dies_while_settling_what_another_left_can_be_followed_too() {
    let expected = old_and_new(FIVE);
    let mut n_deaths = 0;
    for n in 0.. {
        let (folder, changes) = fixture(FIVE);
        let (fs, n_calls) = dying_at(n);
        let _ = change_on(&folder.disk_on(&fs), &changes);
        if n_calls.load(Ordering::Relaxed) <= n {
            break;
        }
        for second in (n % 7..).step_by(7) {
            let (fs, n_calls) = dying_at(second);
            folder.disk_on(&fs).recover();
            if n_calls.load(Ordering::Relaxed) <= second {
                break;
            }
            n_deaths += 1;
        }
        check_next(
            &folder,
            &expected,
            false,
            &format!("{FIVE} dies before call {n}"),
        );
    }
    assert!(n_deaths > 100, "{n_deaths}");
}

#[test]
fn where_files_cannot_be_exchanged_all_is_old_or_new_too() {
    use crate::disk::fs::Call;
    for missing in [
        &[Call::Exchange][..],
        &[Call::Exchange, Call::RenameNew],
        &[Call::Exchange, Call::Link],
    ] {
        let expected = old_and_new(FIVE);
        for n in 0.. {
            let (folder, changes) = fixture(FIVE);
            let n_calls = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&n_calls);
            let fs = Fs::gated(move |call| {
                if counter.fetch_add(1, Ordering::Relaxed) >= n {
                    return Err(Errno::IO);
                }
                if missing.contains(&call) {
                    return Err(Errno::INVAL);
                }
                Ok(())
            });
            let _ = change_on(&folder.disk_on(&fs), &changes);
            if n_calls.load(Ordering::Relaxed) <= n {
                break;
            }
            check_next(
                &folder,
                &expected,
                false,
                &format!("{missing:?}, dies before call {n}"),
            );
        }
    }
}

#[test]
fn a_disk_that_fails_once_leaves_all_old_or_all_new() {
    for letters in ONE.into_iter().chain([FIVE, TWENTY]) {
        let expected = old_and_new(letters);
        for n in 0.. {
            let (folder, changes) = fixture(letters);
            let n_calls = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&n_calls);
            let fs = Fs::gated(move |_| {
                if counter.fetch_add(1, Ordering::Relaxed) == n {
                    return Err(Errno::IO);
                }
                Ok(())
            });
            let result = change_on(&folder.disk_on(&fs), &changes);
            let shows = folder.shows();
            let context = format!("{letters}, call {n} fails: {result:?}");
            let is_right = match &result {
                Ok(_) => shows == expected.1,
                Err(failure) => failure.unrestored.is_empty() && shows == expected.0,
            };
            assert!(is_right, "{context}: {shows}");
            check_next(&folder, &expected, false, &context);
            if n_calls.load(Ordering::Relaxed) <= n {
                break;
            }
        }
    }
}

#[test]
fn a_living_process_is_not_meddled_with() {
    let expected = old_and_new(FIVE);
    for n in 0.. {
        let (folder, changes) = fixture(FIVE);
        let n_calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&n_calls);
        let other = folder.disk_on(&Fs::default());
        let fs = Fs::gated(move |_| {
            if counter.fetch_add(1, Ordering::Relaxed) == n {
                other.recover();
            }
            Ok(())
        });
        let result = change_on(&folder.disk_on(&fs), &changes);
        assert_eq!(outcome(result), "ok", "another starts before call {n}");
        assert_eq!(folder.shows(), expected.1, "another starts before call {n}");
        if n_calls.load(Ordering::Relaxed) <= n {
            break;
        }
    }
}

/// Everything but directories and the names of one file.
fn others<'a>(shows: &'a str, file: &str) -> Vec<&'a str> {
    let names = if file == "h4" {
        &["h4", "link4"][..]
    } else {
        &[file]
    };
    let is_other = |entry: &&str| {
        let name = entry.split('=').next();
        !entry.ends_with('/') && name.is_some_and(|name| !names.contains(&name))
    };
    shows.split(' ').filter(is_other).collect()
}

#[test]
fn what_somebody_saves_before_the_next_process_comes_is_kept() {
    let (old, new) = old_and_new(FIVE);
    let files = ["u0", "made1/dir/c1", "d2", "r3", "moved3/r3", "h4"];
    let mut n_kept = 0;
    for (file, by_rename) in files
        .iter()
        .flat_map(|file| [(*file, false), (*file, true)])
    {
        for n in 0.. {
            let (folder, changes) = fixture(FIVE);
            let (fs, n_calls) = dying_at(n);
            let _ = change_on(&folder.disk_on(&fs), &changes);
            if n_calls.load(Ordering::Relaxed) <= n {
                break;
            }
            if by_rename {
                folder.write("beside", "human");
                let parent = folder
                    .path(file)
                    .parent()
                    .expect("not the root")
                    .to_path_buf();
                fs::create_dir_all(parent).expect("made");
                fs::rename(folder.path("beside"), folder.path(file)).expect("renamed");
            } else {
                folder.write(file, "human");
            }
            settle(&folder);
            let shows = folder.shows();
            let context = format!("{file}, by rename: {by_rename}, dies before call {n}: {shows}");
            let kept = fs::read_to_string(folder.path(file)).expect(&context);
            assert_eq!(kept, "human", "{context}");
            let rest = others(&shows, file);
            assert!(
                rest == others(&old, file) || rest == others(&new, file),
                "{context}"
            );
            n_kept += 1;
        }
    }
    eprintln!("{n_kept} saves before the next process, 0 lost");
}

/// The child of the test below: changes files until it is killed.
#[test]
fn a_child_that_is_killed() {
    let Ok(task) = env::var(CHILD) else {
        return;
    };
    let [folder, state, letters, n] = task.split('|').collect::<Vec<_>>()[..] else {
        panic!("{task}")
    };
    let n: usize = n.parse().expect("a number");
    let n_calls = AtomicUsize::new(0);
    let fs = Fs::gated(move |_| {
        if n_calls.fetch_add(1, Ordering::Relaxed) == n {
            kill_process(getpid(), Signal::KILL).expect("it may");
            loop {
                thread::park();
            }
        }
        Ok(())
    });
    let disk = RealDisk::on(fs, vec![PathBuf::from(state)]);
    change_on(&disk, &changes(Path::new(folder), letters)).expect("changed");
}

fn run_child(folder: &Folder, letters: &str, n: usize) -> ExitStatus {
    let (path, state) = (folder.path.display(), folder.state.path().display());
    let exe = env::current_exe().expect("this test");
    let output = Command::new(exe)
        .args(["--exact", "disk::tests::kill::a_child_that_is_killed"])
        .env(CHILD, format!("{path}|{state}|{letters}|{n}"))
        .output();
    output.expect("it starts").status
}

/// Kills a process before every call.
fn check_killing(letters: &str) {
    let expected = old_and_new(letters);
    let n_threads = thread::available_parallelism().map_or(2, usize::from) * 2;
    let n_new = AtomicUsize::new(0);
    let n_killed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for first in 0..n_threads {
            let (expected, n_new, n_killed) = (&expected, &n_new, &n_killed);
            scope.spawn(move || {
                for n in (first..).step_by(n_threads) {
                    let (folder, _) = fixture(letters);
                    let status = run_child(&folder, letters, n);
                    let context = format!("{letters} killed before call {n}, {status}");
                    let is_new = check_next(&folder, expected, n % 2 == 0, &context);
                    if status.success() {
                        assert!(is_new, "{context}");
                        break;
                    }
                    assert_eq!(status.code(), None, "{context}");
                    n_killed.fetch_add(1, Ordering::Relaxed);
                    n_new.fetch_add(usize::from(is_new), Ordering::Relaxed);
                }
            });
        }
    });
    let (n_killed, n_new) = (n_killed.into_inner(), n_new.into_inner());
    eprintln!(
        "{letters}: killed {n_killed} times: {} all old, {n_new} all new",
        n_killed - n_new
    );
    assert!(n_killed > 10 && n_new > 0);
}

#[test]
fn kill_9_at_any_moment_leaves_all_old_or_all_new() {
    for letters in ONE {
        check_killing(letters);
    }
    check_killing(FIVE);
    check_killing(TWENTY);
}
