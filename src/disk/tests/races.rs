//! Somebody else changes files meanwhile: no save is lost.

use std::{
    os::unix::fs::FileExt,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use rustix::io::Errno;

use super::*;
use crate::disk::fs::Call;

/// What a human does at one moment of a change.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Human {
    SavesInPlace,
    SavesByRename,
    /// In place, through a file that was opened before everything.
    SavesLate,
    Removes,
}

/// Lets the human act on `a` just before the n-th call; returns whether there was an n-th call, and which.
fn act_at(
    folder: &Folder,
    human: Human,
    n: usize,
    missing: &'static [Call],
) -> (Fs, Arc<Mutex<Option<Call>>>) {
    let n_calls = AtomicUsize::new(0);
    let acted = Arc::new(Mutex::new(None));
    let acted_at = Arc::clone(&acted);
    let path = folder.path("a");
    let beside = folder.path("human's");
    let open = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("open");
    let fs = Fs::gated(move |call| {
        if missing.contains(&call) {
            return Err(Errno::INVAL);
        }
        if n_calls.fetch_add(1, Ordering::Relaxed) == n {
            *acted_at.lock().expect("no panic") = Some(call);
            match human {
                Human::SavesInPlace => fs::write(&path, "human").expect("saved"),
                Human::SavesByRename => {
                    fs::write(&beside, "human").expect("saved");
                    fs::rename(&beside, &path).expect("renamed");
                }
                Human::SavesLate => {
                    open.set_len(0).expect("truncated");
                    open.write_all_at(b"human", 0).expect("saved");
                }
                Human::Removes => fs::remove_file(&path).expect("removed"),
            }
        }
        Ok(())
    });
    (fs, acted)
}

/// A change of `a` and of other files meets a human who acts on `a`, at every moment. `a` stays as the human has it.
#[track_caller]
fn check(human: Human, missing: &'static [Call], is_doomed: bool) {
    let mut n_committed = 0;
    for n in 0.. {
        let folder = Folder::quick(&[("a", "A"), ("b", "B"), ("c", "C")]);
        let mut changes = vec![
            folder.replace("b", "B", "BB"),
            folder.replace("a", "A", "AA"),
            folder.delete("c", "C"),
            folder.create("d", "D"),
        ];
        if is_doomed {
            changes.push(folder.create("e", "E"));
        }
        let (fs, acted) = act_at(&folder, human, n, missing);
        let disk = folder.disk_on(&fs);
        let staged = disk.stage(&changes);
        if is_doomed {
            folder.write("e", "theirs");
        }
        let result = staged.and_then(|staged| disk.commit(staged));
        if result.is_ok() {
            // Seen once, taken the second time.
            let watched = std::mem::take(&mut *lock(&disk.watched));
            folder.disk.watch(watched);
            let late = [(); 3].map(|()| folder.disk.look_back().len());
            assert!(matches!(late, [0, 0 | 1, 0]), "{late:?}");
        }
        let call = *acted.lock().expect("no panic");
        let context = format!("{human:?} before call {n}, {call:?}: {result:?}");
        let Some(_) = call else {
            assert_eq!(result.is_ok(), !is_doomed, "{context}");
            break;
        };
        let shows = folder.shows();
        let (a, others) = match shows.split_once(' ') {
            Some((a, others)) if a.starts_with("a=") => (a, others),
            _ => ("", &shows[..]),
        };
        match &result {
            Ok(_) => {
                n_committed += 1;
                assert_eq!(others, "b=BB d=D", "{context}");
            }
            Err(failure) => {
                let e = if is_doomed { " e=theirs" } else { "" };
                assert_eq!(others, format!("b=B c=C{e}"), "{context}");
                assert!(matches!(&failure.unrestored[..], [] | [1]), "{context}");
                assert_eq!(failure.kept, Vec::<PathBuf>::new(), "{context}");
            }
        }
        let expected = match human {
            Human::Removes => "",
            _ => "a=human",
        };
        assert_eq!(a, expected, "{context}");
    }
    assert_eq!(n_committed > 0, !is_doomed);
}

const HUMANS: [Human; 4] = [
    Human::SavesInPlace,
    Human::SavesByRename,
    Human::SavesLate,
    Human::Removes,
];

#[test]
fn a_human_who_acts_at_any_moment_of_a_change_wins() {
    for human in HUMANS {
        check(human, &[], false);
    }
}

#[test]
fn a_human_who_acts_at_any_moment_of_a_change_that_is_taken_back_wins() {
    for human in HUMANS {
        check(human, &[], true);
    }
}

#[test]
fn a_human_who_saves_in_place_wins_even_where_files_cannot_be_exchanged() {
    for human in [Human::SavesInPlace, Human::SavesLate] {
        check(human, &[Call::Exchange], false);
        check(human, &[Call::Exchange], true);
        check(human, &[Call::Exchange, Call::Link], false);
    }
}

#[test]
fn late_saves_are_put_where_their_writers_believe_them_to_be() {
    for (after, expected) in [
        ("nothing", "a=late"),
        ("a save", "a=newer"),
        ("a removal", ""),
        ("nothing, of a deletion", "a=late"),
        ("a creation, of a deletion", "a=newer"),
    ] {
        let folder = Folder::new(&[("a", "old")]);
        folder.chmod("a", 0o640);
        let path = folder.path("a");
        let writer = fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("open");
        let changes = if after.contains("deletion") {
            [folder.delete("a", "old")]
        } else {
            [folder.replace("a", "old", "ours")]
        };
        folder.change(&changes).expect("changed");
        let mut kept_texts = Vec::new();
        let mut look_back = || {
            let saves = folder.disk.look_back();
            for kept in saves.iter().filter_map(|it| it.kept.as_ref()) {
                kept_texts.push(fs::read_to_string(kept).expect("kept"));
                fs::remove_file(kept).expect("kept");
            }
            saves
        };
        assert_eq!(look_back(), []);
        match after {
            "a save" | "a creation, of a deletion" => folder.write("a", "newer"),
            "a removal" => fs::remove_file(&path).expect("removed"),
            _ => {}
        }
        // Half of the save stands still for longer than one look, and is followed by the other half.
        writer.set_len(0).expect("truncated");
        assert_eq!(look_back(), []);
        assert_eq!(look_back().len(), 1);
        writer.write_all_at(b"late", 0).expect("written");
        assert_eq!(look_back(), []);
        let saves = look_back();
        let [LateSave { path: at, kept }] = &saves[..] else {
            panic!("{after}: {saves:?}")
        };
        assert_eq!((at, look_back()), (&path, Vec::new()), "{after}");
        assert_eq!(folder.shows(), expected, "{after}");
        if expected == "a=late" {
            assert_eq!(kept, &None);
            assert_eq!(kept_texts, [""; 0]);
            assert_eq!(folder.mode("a"), 0o640);
        } else {
            assert_eq!(kept_texts, ["", "late"], "{after}");
        }
    }
}

#[test]
fn a_save_into_our_own_file_while_it_is_taken_back_wins() {
    let folder = Folder::new(&[("a", "A")]);
    let changes = [folder.replace("a", "A", "AA"), folder.create("b", "B")];
    let path = folder.path("a");
    let opened = Mutex::new(None);
    let n_exchanges = AtomicUsize::new(0);
    let fs = Fs::gated(move |call| {
        let mut opened = opened.lock().expect("no panic");
        match call {
            Call::Exchange if n_exchanges.fetch_add(1, Ordering::Relaxed) == 1 => {
                let file = fs::OpenOptions::new().write(true).open(&path);
                *opened = Some(file.expect("our file"));
            }
            Call::Sync => {
                if let Some(file) = opened.take() {
                    file.write_all_at(b"human", 0).expect("saved");
                }
            }
            _ => {}
        }
        Ok(())
    });
    let disk = folder.ready_disk_on(&fs);
    let staged = disk.stage(&changes).expect("staged");
    folder.write("b", "theirs");
    let failure = disk.commit(staged).expect_err("failed");
    assert_eq!((failure.change, &failure.unrestored[..]), (1, &[0][..]));
    assert_eq!(folder.shows(), "a=human b=theirs");
}

#[test]
fn a_late_save_into_our_own_file_that_was_taken_back_is_put_in_place() {
    let folder = Folder::new(&[("a", "A")]);
    let path = folder.path("a");
    let opened = Arc::new(Mutex::new(None));
    let opening = Arc::clone(&opened);
    // Opened while it is in place.
    let fs = Fs::gated(move |call| {
        if call == Call::RenameNew {
            let file = fs::OpenOptions::new().write(true).open(&path);
            *opening.lock().expect("no panic") = Some(file.expect("our file"));
        }
        Ok(())
    });
    let disk = folder.disk_on(&fs);
    let changes = [folder.replace("a", "A", "AA"), folder.create("b", "B")];
    let staged = disk.stage(&changes).expect("staged");
    folder.write("b", "theirs");
    disk.commit(staged).expect_err("failed");
    assert_eq!(
        (disk.look_back(), folder.shows()),
        (Vec::new(), "a=A b=theirs".to_string())
    );
    let file = opened.lock().expect("no panic").take().expect("opened");
    file.write_all_at(b"late", 0).expect("saved");
    let n_saves = [(); 3].map(|()| disk.look_back().len());
    assert_eq!(n_saves, [0, 1, 0]);
    assert_eq!(folder.shows(), "a=late b=theirs");
}

#[test]
fn of_many_creators_one_wins_and_the_others_leave_nothing() {
    const N: usize = 8;
    for _ in 0..20 {
        let folder = Folder::quick(&[]);
        let barrier = Barrier::new(N);
        let outcomes: Vec<_> = thread::scope(|scope| {
            let creators: Vec<_> = (0..N)
                .map(|creator| {
                    let (folder, barrier) = (&folder, &barrier);
                    let changes = [
                        folder.create(&format!("x/{creator}/own"), "own"),
                        folder.create("x/y/z/a", &format!("by {creator}")),
                    ];
                    scope.spawn(move || {
                        barrier.wait();
                        outcome(folder.change(&changes))
                    })
                })
                .collect();
            creators
                .into_iter()
                .map(|creator| creator.join().expect("no panic"))
                .collect()
        });
        let winners: Vec<_> = (0..N)
            .filter(|&creator| outcomes[creator] == "ok")
            .collect();
        let [winner] = winners[..] else {
            panic!("{outcomes:?}")
        };
        let exists = "1 Exists: a file is there already";
        assert_eq!(
            outcomes.iter().filter(|&it| it == exists).count(),
            N - 1,
            "{outcomes:?}"
        );
        let expected = format!("x/ x/{winner}/ x/{winner}/own=own x/y/ x/y/z/ x/y/z/a=by {winner}");
        assert_eq!(folder.shows(), expected);
    }
}

#[test]
fn creators_of_different_files_do_not_lose_their_directories_to_each_other() {
    const N: usize = 8;
    for _ in 0..20 {
        let folder = Folder::quick(&[]);
        let barrier = Barrier::new(N);
        thread::scope(|scope| {
            for creator in 0..N {
                let (folder, barrier) = (&folder, &barrier);
                scope.spawn(move || {
                    let changes = [folder.create(&format!("x/y/{creator}"), "")];
                    barrier.wait();
                    let staged = folder.disk.stage(&changes).expect("staged");
                    if creator % 2 == 0 {
                        folder.disk.abort(staged);
                    } else {
                        folder.disk.commit(staged).expect("committed");
                    }
                });
            }
        });
        assert_eq!(folder.shows(), "x/ x/y/ x/y/1= x/y/3= x/y/5= x/y/7=");
    }
}
