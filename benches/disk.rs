//! An edit of a closed file beside the least that any program must do for it: `cargo bench --bench disk`.
//! Compare rows of one run only.
//!
//! The least is: read the file, search the old text, write the new content beside it, and rename it over. "With fsync"
//! is a directory on a disk, where the least syncs the new file and its directory, as we do; "without" is a directory
//! in memory, where a sync costs nothing. There is no switch that turns syncs off. Give the directories by
//! `ABREAST_BENCH_DISK` and `ABREAST_BENCH_MEMORY`; else they are below `target` and `/dev/shm`.

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use abreast::{
    disk::{Disk, DiskChange, Look, RealDisk},
    replay::{
        client::ServerCommand,
        editor::{Editor, Options},
        session::Session,
    },
    text::{
        Text,
        matching::find,
        splice::{Splice, Splices},
    },
};
use memchr::memmem;
use tempfile::TempDir;

const SIZES: [(&str, usize); 5] = [
    ("1 KB", 1_000),
    ("100 KB", 100_000),
    ("1 MB", 1_000_000),
    ("10 MB", 10_000_000),
    ("100 MB", 100_000_000),
];
/// How long a row is measured, at least three rounds.
const ROW: Duration = Duration::from_secs(2);
const N_ROUNDS_MAX: usize = 300;
const LIMIT_BYTES: u64 = 1 << 30;

/// Changes this text to the other and back.
const TEXTS: [&str; 2] = ["the needle, once", "the needle, twice"];

fn content(n_bytes: usize) -> String {
    let line = "    let value = compute(index, &mut state); // an ordinary line of source text\n";
    let mut text = line.repeat(n_bytes / line.len() + 1);
    text.truncate(n_bytes);
    // Near the end, so that the search has something to do.
    text.replace_range(n_bytes - 100..n_bytes - 100 + TEXTS[0].len(), TEXTS[0]);
    text
}

fn least(path: &Path, old: &str, new: &str, sync: bool) {
    let bytes = fs::read(path).expect("the file is there");
    let at = memmem::find(&bytes, old.as_bytes()).expect("the text is there");
    let mut changed = Vec::with_capacity(bytes.len() + new.len());
    changed.extend_from_slice(&bytes[..at]);
    changed.extend_from_slice(new.as_bytes());
    changed.extend_from_slice(&bytes[at + old.len()..]);
    let beside = path.with_extension("beside");
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside)
        .expect("nothing is there");
    file.write_all(&changed).expect("there is room");
    if sync {
        file.sync_all().expect("it can be synced");
    }
    fs::rename(&beside, path).expect("it can be renamed");
    if sync {
        let dir = File::open(path.parent().expect("not the root")).expect("a directory");
        dir.sync_all().expect("it can be synced");
    }
}

fn ours(disk: &RealDisk, path: &Path, old: &str, new: &str) {
    let Ok(Look::Text(expected)) = disk.look(path, LIMIT_BYTES) else {
        panic!("the file is a text")
    };
    let hits = find(&expected, old, 2);
    let [range] = &hits.ranges[..] else {
        panic!("the text is there once")
    };
    let mut splices = Splices::default();
    splices.then(Splice {
        range: range.clone(),
        text: new.to_string(),
    });
    let text: Text = expected.apply(&splices);
    let path = path.to_path_buf();
    let change = DiskChange::Replace {
        path,
        expected,
        text,
    };
    let staged = disk.stage(&[change]).expect("staged");
    disk.commit(staged).expect("committed");
}

/// The shortest and the median time of each, measured by turns.
fn measure(mut fs: [&mut dyn FnMut(usize); 3]) -> [(Duration, Duration); 3] {
    let mut times = [const { Vec::new() }; 3];
    let start = Instant::now();
    for round in 0..N_ROUNDS_MAX {
        if round >= 3 && start.elapsed() > ROW {
            break;
        }
        for (f, times) in fs.iter_mut().zip(&mut times) {
            let start = Instant::now();
            f(round);
            times.push(start.elapsed());
        }
    }
    times.map(|mut times| {
        times.sort();
        (times[0], times[times.len() / 2])
    })
}

fn edit(session: &Session, path: &str, old: &str, new: &str) {
    session.edit(path, old, new).expect("edited");
}

fn bench(name: &str, dir: &Path, sync: bool) {
    let dir = TempDir::new_in(dir).expect("a directory");
    let root = dir.path().canonicalize().expect("it is there");
    let state = root.join("state");
    let disk = RealDisk::with_journal_in(vec![state.clone()]);
    let mut server = ServerCommand::serve(env!("CARGO_BIN_EXE_abreast"));
    let state = ("XDG_STATE_HOME".into(), state.into());
    server.environment.push(state);
    let editor = Editor::start(&Options::new(server, &root)).expect("the server starts");
    let session = editor.session("bench").expect("a session");
    for (size, n_bytes) in SIZES {
        let paths = ["least", "ours", "wire"].map(|name| root.join(format!("{name}.txt")));
        for path in &paths {
            fs::write(path, content(n_bytes)).expect("there is room");
            File::open(path)
                .and_then(|it| it.sync_all())
                .expect("it can be synced");
        }
        session.read_window("wire.txt", 1, 1).expect("read");
        let old_new = |round: usize| (TEXTS[round % 2], TEXTS[(round + 1) % 2]);
        let times = measure([
            &mut |round| {
                let (old, new) = old_new(round);
                least(&paths[0], old, new, sync);
            },
            &mut |round| {
                let (old, new) = old_new(round);
                ours(&disk, &paths[1], old, new);
            },
            &mut |round| {
                let (old, new) = old_new(round);
                edit(&session, "wire.txt", old, new);
            },
        ]);
        while disk.is_holding_displaced() {
            disk.look_back();
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let [
            (least, least_median),
            (ours, ours_median),
            (wire, wire_median),
        ] = times;
        println!(
            "{name:14} {size:>7} | {:9.3} {:9.3} {:9.3} | {:9.3} {:9.3} {:9.3} | {:6.2} {:6.2} | {:6.2} {:6.2}",
            ms(least),
            ms(ours),
            ms(wire),
            ms(least_median),
            ms(ours_median),
            ms(wire_median),
            ms(ours) / ms(least),
            ms(ours_median) / ms(least_median),
            ms(wire) / ms(least),
            ms(wire_median) / ms(least_median),
        );
    }
}

fn dir(variable: &str, otherwise: &str) -> PathBuf {
    PathBuf::from(env::var_os(variable).unwrap_or_else(|| otherwise.into()))
}

fn main() {
    println!(
        "{:14} {:>7} | {:>9} {:>9} {:>9} | {:>9} {:>9} {:>9} | {:>13} | {:>13}",
        "",
        "",
        "least",
        "process",
        "stdio",
        "least",
        "process",
        "stdio",
        "process/least",
        "stdio/least"
    );
    println!(
        "{:22} | shortest, in ms{:14} | median, in ms{:16} | min    median | min    median",
        "", "", ""
    );
    bench(
        "without fsync",
        &dir("ABREAST_BENCH_MEMORY", "/dev/shm"),
        false,
    );
    bench(
        "with fsync",
        &dir("ABREAST_BENCH_DISK", env!("CARGO_TARGET_TMPDIR")),
        true,
    );
}
