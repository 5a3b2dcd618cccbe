//! Every call of a change fails once: all is old, or all is new.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::io::Errno;

use super::*;
use crate::disk::fs::Call;

/// Calls that the file system under test does not have.
type Missing = &'static [Call];

/// A system whose n-th call fails, and which counts the calls.
fn failing_at(n: usize, errno: Errno, missing: Missing) -> (Fs, Arc<AtomicUsize>) {
    let n_calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&n_calls);
    let fs = Fs::gated(move |call| {
        if missing.contains(&call) {
            return Err(Errno::INVAL);
        }
        if counter.fetch_add(1, Ordering::Relaxed) == n {
            Err(errno)
        } else {
            Ok(())
        }
    });
    (fs, n_calls)
}

fn fixture() -> (Folder, Vec<DiskChange>) {
    let folder = Folder::quick(&[
        ("a", "A"),
        ("b", "B"),
        ("dir/c", "C"),
        ("d", "D"),
        ("h", "long hard link"),
    ]);
    folder.chmod("a", 0o751);
    fs::hard_link(folder.path("h"), folder.path("i")).expect("linked");
    let changes = vec![
        folder.replace("a", "A", "AA"),
        folder.create("new/dir/n", "N"),
        folder.replace("h", "long hard link", "short"),
        folder.delete("b", "B"),
        folder.rename("dir/c", "new/c", "C"),
        folder.replace("new/c", "C", "CC"),
        folder.replace("h", "short", "a longer text"),
        folder.replace("d", "D", "DD"),
    ];
    (folder, changes)
}

const OLD: &str = "a=A b=B d=D dir/ dir/c=C h=long hard link i=long hard link";
const NEW: &str =
    "a=AA d=DD dir/ h=a longer text i=a longer text new/ new/c=CC new/dir/ new/dir/n=N";

#[track_caller]
fn check(errno: Errno, missing: Missing) {
    let mut n_failed = 0;
    let mut n_committed = 0;
    for n in 0.. {
        let (folder, changes) = fixture();
        let (fs, n_calls) = failing_at(n, errno, missing);
        let result = change_on(&folder.disk_on(&fs), &changes);
        let context = format!("call {n} fails with {errno}: {result:?}");
        assert_eq!(folder.mode("a"), 0o751, "{context}");
        match result {
            Ok(committed) => {
                n_committed += 1;
                assert_eq!(folder.shows(), NEW, "{context}");
                assert_eq!(committed.residue, Vec::<PathBuf>::new(), "{context}");
            }
            Err(failure) => {
                n_failed += 1;
                assert_eq!(folder.shows(), OLD, "{context}");
                assert!(failure.unrestored.is_empty(), "{context}");
                assert_eq!(failure.unrestored, Vec::<usize>::new(), "{context}");
                assert_eq!(failure.kept, Vec::<PathBuf>::new(), "{context}");
            }
        }
        if n_calls.load(Ordering::Relaxed) <= n {
            break;
        }
    }
    assert!(
        n_failed > 150 && n_committed > 5,
        "{n_failed}, {n_committed}"
    );
}

#[test]
fn one_failing_call_leaves_all_old_or_all_new() {
    check(Errno::IO, &[]);
}

#[test]
fn a_full_disk_leaves_all_old_or_all_new() {
    check(Errno::NOSPC, &[]);
}

#[test]
fn a_refused_call_leaves_all_old_or_all_new() {
    check(Errno::PERM, &[]);
}

#[test]
fn one_failing_call_leaves_all_old_or_all_new_where_files_cannot_be_exchanged() {
    check(Errno::IO, &[Call::Exchange]);
    check(Errno::IO, &[Call::Exchange, Call::RenameNew]);
    check(Errno::IO, &[Call::Exchange, Call::Link]);
}

#[test]
fn a_commit_that_is_called_back_at_any_moment_leaves_all_old_or_all_new() {
    let mut n_taken_back = 0;
    let mut n_committed = 0;
    for n in 0.. {
        let (folder, changes) = fixture();
        let recall: Arc<Mutex<Option<Recall>>> = Arc::default();
        let n_calls = Arc::new(AtomicUsize::new(0));
        let (called, counter) = (Arc::clone(&recall), Arc::clone(&n_calls));
        let fs = Fs::gated(move |_| {
            if let Some(recall) = &*lock(&called)
                && counter.fetch_add(1, Ordering::Relaxed) == n
            {
                recall.call();
            }
            Ok(())
        });
        let disk = folder.disk_on(&fs);
        let staged = disk.stage(&changes).expect("it can be staged");
        *lock(&recall) = Some(staged.recall());
        let result = disk.commit(staged);
        let context = format!("called back at call {n}: {result:?}");
        match result {
            Ok(_) => {
                n_committed += 1;
                assert_eq!(folder.shows(), NEW, "{context}");
            }
            Err(failure) => {
                n_taken_back += 1;
                assert_eq!(folder.shows(), OLD, "{context}");
                assert_eq!(failure.error.kind, DiskErrorKind::Stale, "{context}");
                assert!(failure.unrestored.is_empty(), "{context}");
            }
        }
        if n_calls.load(Ordering::Relaxed) <= n {
            break;
        }
    }
    assert!(
        n_taken_back > 50 && n_committed > 5,
        "{n_taken_back}, {n_committed}"
    );
}

/// Stages and commits, refusing all calls of a kind as the system would for other users than root.
#[track_caller]
fn check_refused(refused: Call, expected: &str) {
    let folder = Folder::new(&[("a", "A")]);
    let fs = Fs::gated(move |call| {
        if call == refused {
            Err(Errno::ACCESS)
        } else {
            Ok(())
        }
    });
    let changes = [folder.create("b", "B"), folder.replace("a", "A", "x")];
    assert_eq!(
        outcome(change_on(&folder.ready_disk_on(&fs), &changes)),
        expected
    );
    assert_eq!(folder.shows(), "a=A");
}

#[test]
fn what_the_system_refuses_is_permission_denied() {
    check_refused(
        Call::Create,
        "0 PermissionDenied: the directory is read-only",
    );
    check_refused(Call::Access, "1 PermissionDenied: the file is read-only");
    check_refused(
        Call::Exchange,
        "1 PermissionDenied: cannot replace the file: permission denied (os error 13)",
    );
    check_refused(
        Call::RenameNew,
        "0 PermissionDenied: cannot create the file: permission denied (os error 13)",
    );
}

#[test]
fn a_file_whose_owner_cannot_be_kept_is_changed_in_place() {
    let folder = Folder::new(&[("a", "A"), ("b", "B")]);
    let path = folder.path("a");
    if std::os::unix::fs::chown(&path, Some(1234), Some(1234)).is_err() {
        return; // only root can set this up
    }
    let fs = Fs::gated(|call| {
        if call == Call::Chown {
            Err(Errno::PERM)
        } else {
            Ok(())
        }
    });
    let changes = [folder.replace("a", "A", "x"), folder.replace("b", "B", "y")];
    let committed = change_on(&folder.ready_disk_on(&fs), &changes).expect("committed");
    assert_eq!(committed.in_place, [true, false]);
    assert_eq!(folder.shows(), "a=x b=y");
}

#[test]
fn what_cannot_be_taken_back_is_kept_and_reported() {
    let folder = Folder::new(&[("a", "A"), ("b", "B")]);
    let n_exchanges = AtomicUsize::new(0);
    let path = folder.path("b");
    // The first exchange succeeds, and then the disk breaks while somebody saves the second file.
    let fs = Fs::gated(move |call| {
        if call == Call::Exchange && n_exchanges.fetch_add(1, Ordering::Relaxed) > 0 {
            fs::write(&path, "human").expect("written");
            return Err(Errno::IO);
        }
        Ok(())
    });
    let changes = [folder.replace("a", "A", "x"), folder.replace("b", "B", "y")];
    let failure = change_on(&folder.ready_disk_on(&fs), &changes).expect_err("failed");
    assert_eq!((failure.change, &failure.unrestored[..]), (1, &[0][..]));
    let [kept] = &failure.kept[..] else {
        panic!("{failure:?}")
    };
    assert_eq!(fs::read_to_string(kept).expect("kept"), "A");
    let name = kept
        .strip_prefix(&folder.path)
        .expect("in the folder")
        .display();
    assert_eq!(folder.shows(), format!("{name}=A a=x b=human"));
}

#[test]
fn residue_is_reported_with_the_success() {
    let folder = Folder::new(&[("a", "A")]);
    let fs = Fs::gated(|call| {
        if call == Call::Unlink {
            Err(Errno::IO)
        } else {
            Ok(())
        }
    });
    let committed =
        change_on(&folder.ready_disk_on(&fs), &[folder.replace("a", "A", "x")]).expect("committed");
    assert_eq!(committed.residue.len(), 1);
    assert_eq!(fs::read_to_string(folder.path("a")).expect("read"), "x");
}

#[test]
fn a_file_of_ours_that_cannot_be_removed_is_removed_by_the_next_process() {
    let folder = Folder::new(&[("a", "A")]);
    let fs = Fs::gated(|call| {
        if call == Call::Unlink {
            Err(Errno::ACCESS)
        } else {
            Ok(())
        }
    });
    let disk = folder.ready_disk_on(&fs);
    let committed = change_on(&disk, &[folder.replace("a", "A", "x")]).expect("committed");
    assert_eq!(committed.residue.len(), 1);
    drop(disk);
    assert!(folder.shows().starts_with(".abreast."));
    folder.disk_on(&Fs::default()).recover();
    assert_eq!(folder.shows(), "a=x");
}
