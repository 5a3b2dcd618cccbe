//! Another process saves the same file all the time: no save is lost, and no edit of the agent.
//!
//! A save is lost if the saver, when it looks again, finds neither it nor an edit that was made on it, and if it was
//! not kept beside the file and reported either. An edit is lost if it is gone though nobody saved since; a saver that
//! had read before the edit and saves after it takes the edit away itself, which is counted, but is no loss of ours.

use std::{
    collections::HashSet,
    env,
    fs::{File, OpenOptions},
    io::Write,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::*;
use crate::simulation::scale;

/// What the saver is to do: the file, how, every how many milliseconds, for how many.
const SAVER: &str = "ABREAST_TEST_SAVER";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Save {
    InPlace,
    ByRename,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Agent {
    Ours,
    /// As most programs do it: read, compare, write beside, sync, rename over.
    CheckThenRename,
}

/// A file of two lines: `H:` counts the human's saves, `A:` the agent's edits.
fn parse(text: &str) -> Option<(u32, u32)> {
    let (human, agent) = text
        .strip_prefix("H:")?
        .strip_suffix('\n')?
        .split_once("\nA:")?;
    Some((human.parse().ok()?, agent.parse().ok()?))
}

/// The child process: prints how often it saved, its newest save, and the saves that it did not find again.
#[test]
fn a_child_that_saves() {
    let Ok(task) = env::var(SAVER) else {
        return;
    };
    let [path, save, period_ms, time_ms] = task.split('|').collect::<Vec<_>>()[..] else {
        panic!("{task}")
    };
    let beside = format!("{path}.human's");
    let period_ms: u64 = period_ms.parse().expect("a number");
    let end = Instant::now() + Duration::from_millis(time_ms.parse().expect("a number"));
    let (mut n_saves, mut newest, mut lost) = (0, 0, Vec::new());
    while Instant::now() < end {
        let text = fs::read_to_string(path).unwrap_or_default();
        if let Some((found, agent)) = parse(&text) {
            lost.retain(|&save| save != found);
            if found != newest {
                lost.push(newest);
            }
            newest = newest.max(found) + 1;
            let text = format!("H:{newest}\nA:{agent}\n");
            if save == "InPlace" {
                fs::write(path, text).expect("saved");
            } else {
                fs::write(&beside, text).expect("saved");
                fs::rename(&beside, path).expect("renamed");
            }
            n_saves += 1;
        }
        // Between half of the period and one and a half.
        thread::sleep(Duration::from_millis(period_ms).mul_f64(0.5 + f64::from(n_saves % 8) / 7.0));
    }
    let lost: Vec<_> = lost.iter().map(u32::to_string).collect();
    fs::write(
        format!("{path}.saves"),
        format!("{n_saves} {newest} {}", lost.join(" ")),
    )
    .expect("written");
}

fn start_saver(path: &Path, save: Save, period_ms: u64, time: Duration) -> Child {
    let task = format!(
        "{}|{save:?}|{period_ms}|{}",
        path.display(),
        time.as_millis()
    );
    Command::new(env::current_exe().expect("this test"))
        .args(["--exact", "disk::tests::adversary::a_child_that_saves"])
        .env(SAVER, task)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts")
}

#[derive(Debug, Default)]
struct Count {
    n_saves: u32,
    n_edits: u32,
    n_stale: u32,
    /// Edits that a saver took away who had read before them.
    n_saved_over: u32,
    n_kept: usize,
    lost_saves: Vec<u32>,
    lost_edits: Vec<u32>,
}

fn race(agent: Agent, save: Save, period_ms: u64, time: Duration) -> Count {
    let folder = Folder::new(&[("a", "H:0\nA:0\n")]);
    let path = folder.path("a");
    let mut child = start_saver(&path, save, period_ms, time);
    let mut count = Count::default();
    let mut kept = HashSet::new();
    // The agent's last edit, and the save that it was made on.
    let mut last: Option<(u32, u32)> = None;
    loop {
        let is_over = child.try_wait().expect("it is ours").is_some();
        let now = match folder.disk.look(&path, 100) {
            Ok(Look::Text(Text::Flat(now))) => now,
            _ => Arc::default(),
        };
        if let Some((human, edit)) = parse(&now) {
            if let Some((last_human, last_edit)) = last
                && edit != last_edit
            {
                if human == last_human {
                    count.lost_edits.push(last_edit);
                } else {
                    count.n_saved_over += 1;
                }
                last = None;
            }
            let new = format!("H:{human}\nA:{}\n", edit + 1);
            let is_done = match agent {
                Agent::Ours => edit_as_we_do(&folder, &now, &new, &mut kept),
                Agent::CheckThenRename => check_then_rename(&path, &now, &new),
            };
            if is_done {
                count.n_edits += 1;
                last = Some((human, edit + 1));
            } else {
                count.n_stale += 1;
            }
        }
        note_kept(&folder, &mut kept);
        if is_over {
            break;
        }
    }
    while folder.disk.is_holding_displaced() {
        note_kept(&folder, &mut kept);
    }
    let report = fs::read_to_string(folder.path("a.saves")).expect("the saver reports");
    let mut numbers = report
        .split_whitespace()
        .map(|it| it.parse().expect("a number"));
    count.n_saves = numbers.next().expect("the saves");
    let newest = numbers.next().expect("the newest save");
    let found = fs::read_to_string(&path).expect("it is there");
    let found = parse(&found).map(|(human, _)| human);
    count.lost_saves = numbers.filter(|save| !kept.contains(save)).collect();
    if found != Some(newest) && !kept.contains(&newest) {
        count.lost_saves.push(newest);
    }
    count.n_kept = kept.len();
    let shows = folder.shows();
    assert!(!shows.contains(".abreast"), "{shows}");
    count
}

fn edit_as_we_do(folder: &Folder, now: &str, new: &str, kept: &mut HashSet<u32>) -> bool {
    match folder.change(&[folder.replace("a", now, new)]) {
        Ok(_) => true,
        Err(failure) => {
            assert_eq!(failure.error.kind, DiskErrorKind::Stale, "{failure:?}");
            failure.kept.iter().for_each(|path| take_kept(path, kept));
            false
        }
    }
}

fn note_kept(folder: &Folder, kept: &mut HashSet<u32>) {
    let saves = folder.disk.look_back();
    let paths = saves.iter().filter_map(|it| it.kept.as_ref());
    paths.for_each(|path| take_kept(path, kept));
}

fn take_kept(path: &Path, kept: &mut HashSet<u32>) {
    let text = fs::read_to_string(path).expect("kept");
    kept.extend(parse(&text).map(|(human, _)| human));
    fs::remove_file(path).expect("kept");
}

fn check_then_rename(path: &Path, now: &str, new: &str) -> bool {
    if fs::read_to_string(path).ok().as_deref() != Some(now) {
        return false;
    }
    let beside = path.with_extension("agent's");
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside)
        .expect("nothing is there");
    file.write_all(new.as_bytes()).expect("written");
    File::sync_all(&file).expect("synced");
    fs::rename(&beside, path).expect("renamed");
    true
}

const ADVERSARIES: [(Save, u64); 4] = [
    (Save::InPlace, 5),
    (Save::InPlace, 50),
    (Save::ByRename, 5),
    (Save::ByRename, 50),
];

/// All adversaries at the same time, each with a file and an agent of its own.
fn races(agent: Agent) -> Vec<Count> {
    let time = Duration::from_secs(3).mul_f64(scale());
    thread::scope(|scope| {
        let races = ADVERSARIES
            .map(|(save, period_ms)| scope.spawn(move || race(agent, save, period_ms, time)));
        races.map(|race| race.join().expect("no panic")).into()
    })
}

#[test]
fn no_save_and_no_edit_is_lost_to_who_saves_all_the_time_as_checking_before_renaming_loses_them() {
    let ours = races(Agent::Ours);
    let others = races(Agent::CheckThenRename);
    for (agent, counts) in [("ours", &ours), ("check, then rename", &others)] {
        for ((save, period_ms), count) in ADVERSARIES.iter().zip(counts) {
            eprintln!(
                "{agent}, saved {save:?} every {period_ms} ms: {} saves, {} lost, {} kept beside; {} edits, {} lost, {} saved over, {} stale",
                count.n_saves,
                count.lost_saves.len(),
                count.n_kept,
                count.n_edits,
                count.lost_edits.len(),
                count.n_saved_over,
                count.n_stale,
            );
        }
    }
    for count in &ours {
        assert!(
            count.lost_saves.is_empty() && count.lost_edits.is_empty(),
            "{count:?}"
        );
        assert!(count.n_saves > 10 && count.n_edits > 5, "{count:?}");
    }
    let n_lost: usize = others.iter().map(|it| it.lost_saves.len()).sum();
    assert!(n_lost > 0, "the adversary is no adversary");
}
