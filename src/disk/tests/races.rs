//! Somebody else changes files meanwhile: no save is lost.

use std::{
    os::unix::fs::FileExt,
    sync::{
        Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
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
        let staged = stage::stage(&fs, &changes);
        if is_doomed {
            folder.write("e", "theirs");
        }
        let mut result = staged.and_then(commit::commit);
        if let Ok(committed) = &mut result {
            // Seen once, taken the second time.
            let late = [(); 3].map(|()| RealDisk::new().look_back(&mut committed.watch).len());
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
        let mut watch = change(&changes).expect("changed").watch;
        let mut look_back = || RealDisk::new().look_back(&mut watch);
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
        let restored = expected == "a=late";
        let late = LateSave {
            change: 0,
            path: path.clone(),
            bytes: b"late".to_vec(),
            restored,
        };
        assert_eq!(
            (look_back(), look_back()),
            (vec![late], Vec::new()),
            "{after}"
        );
        assert_eq!(folder.shows(), expected, "{after}");
        if restored {
            assert_eq!(folder.mode("a"), 0o640);
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
    let staged = stage::stage(&fs, &changes).expect("staged");
    folder.write("b", "theirs");
    let failure = commit::commit(staged).expect_err("failed");
    assert_eq!((failure.change, &failure.unrestored[..]), (1, &[0][..]));
    assert_eq!(folder.shows(), "a=human b=theirs");
}

/// A file of two lines: `H:` counts the human's saves, `A:` the agent's.
fn parse(text: &str) -> Option<(u32, u32)> {
    let (human, agent) = text
        .strip_prefix("H:")?
        .strip_suffix('\n')?
        .split_once("\nA:")?;
    Some((human.parse().ok()?, agent.parse().ok()?))
}

/// For how long an agent looks for late saves.
const WATCH_MS: u64 = 200;

/// What became of the work of a human and an agent on one file.
#[derive(Debug, Default)]
struct Count {
    n_saves: u32,
    n_commits: u32,
    n_stale: u32,
    /// Saves that the human did not find again.
    lost: Vec<u32>,
    /// Saves that met another save in the very moment of a change: kept beside the file, or reported.
    kept: Vec<u32>,
}

/// A human saves about every 5 ms, as an editor that takes what is on disk; an agent changes the file all the time.
fn race(human: Human) -> Count {
    let folder = Folder::new(&[("a", "H:0\nA:0\n")]);
    let end = Instant::now() + Duration::from_secs(2);
    let mut count = Count::default();
    thread::scope(|scope| {
        let human_thread = scope.spawn(|| save_until(end, &folder, human));
        let mut watches = Vec::new();
        let mut kept_files = Vec::new();
        while Instant::now() < end {
            let Ok(Look::Text(Text::Flat(old))) = RealDisk::new().look(&folder.path("a"), 100)
            else {
                continue;
            };
            let Some((human, agent)) = parse(&old) else {
                continue;
            };
            let new = format!("H:{human}\nA:{}\n", agent + 1);
            match change(&[folder.replace("a", &old, &new)]) {
                Ok(committed) => {
                    count.n_commits += 1;
                    watches.push((Instant::now(), committed.watch));
                }
                Err(failure) => {
                    assert_eq!(failure.error.kind, DiskErrorKind::Stale, "{failure:?}");
                    count.n_stale += 1;
                    kept_files.extend(failure.kept);
                }
            }
            let late = watches
                .iter_mut()
                .flat_map(|(_, watch)| RealDisk::new().look_back(watch));
            for late in late.filter(|late| !late.restored) {
                let text = String::from_utf8(late.bytes).expect("a text");
                count.kept.extend(parse(&text).map(|(human, _)| human));
            }
            watches.retain(|(since, _)| since.elapsed() < Duration::from_millis(WATCH_MS));
        }
        (count.n_saves, count.lost) = human_thread.join().expect("no panic");
        for kept in kept_files {
            let text = fs::read_to_string(&kept).expect("kept");
            count.kept.extend(parse(&text).map(|(human, _)| human));
            fs::remove_file(kept).expect("kept");
        }
    });
    let shows = folder.shows();
    assert!(
        shows.starts_with("a=") && !shows.contains(".abreast"),
        "{shows}"
    );
    count
}

/// Returns how often the human saved, and the saves that were gone when the human looked again, and stayed so.
fn save_until(end: Instant, folder: &Folder, human: Human) -> (u32, Vec<u32>) {
    let (path, beside) = (folder.path("a"), folder.path("human's"));
    let (mut n_saves, mut newest, mut lost) = (0, 0, Vec::new());
    while Instant::now() < end {
        let text = fs::read_to_string(&path).unwrap_or_default();
        if let Some((found, agent)) = parse(&text) {
            lost.retain(|&save| save != found);
            if found != newest {
                lost.push(newest);
            }
            newest = newest.max(found) + 1;
            let text = format!("H:{newest}\nA:{agent}\n");
            if human == Human::SavesInPlace {
                fs::write(&path, text).expect("saved");
            } else {
                fs::write(&beside, text).expect("saved");
                fs::rename(&beside, &path).expect("renamed");
            }
            n_saves += 1;
        }
        thread::sleep(Duration::from_micros(2500 + 5000 * u64::from(n_saves % 2)));
    }
    (n_saves, lost)
}

#[track_caller]
fn check_race(human: Human) {
    let count = race(human);
    assert!(
        count.lost.iter().all(|save| count.kept.contains(save)),
        "{count:?}"
    );
    assert!(count.n_saves > 20 && count.n_commits > 5, "{count:?}");
}

#[test]
fn no_save_in_place_is_lost_to_an_agent_that_never_rests() {
    check_race(Human::SavesInPlace);
}

#[test]
fn no_save_by_rename_is_lost_to_an_agent_that_never_rests() {
    check_race(Human::SavesByRename);
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
                        outcome(change(&changes))
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
                    let staged = RealDisk::new().stage(&changes).expect("staged");
                    if creator % 2 == 0 {
                        RealDisk::new().abort(staged);
                    } else {
                        RealDisk::new().commit(staged).expect("committed");
                    }
                });
            }
        });
        assert_eq!(folder.shows(), "x/ x/y/ x/y/1= x/y/3= x/y/5= x/y/7=");
    }
}
