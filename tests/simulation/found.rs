//! What the simulation found, as short as it could make it.

mod commits;
mod edits;
mod ledgers;
mod races;
mod sessions;

use super::{
    Run,
    action::{
        Action::{self, *},
        Behind, Garbled, Luck, Manner, Setup, Shown, State as Told, Step, Steps,
        Style::{self, Exact, Full, Minimal, Split},
    },
    hush,
};

/// Plays a run among strict and willing models; everything must hold.
#[track_caller]
fn check(setup: Setup, files: &[&'static str], actions: Vec<Action>) {
    hush();
    let run = Run {
        setup,
        files: files.to_vec(),
        actions,
    };
    if let (_, Err(violation)) = run.play(false) {
        run.play(true).1.ok();
        panic!("{violation}");
    }
}

/// The editor deals with what it is asked, and its messages arrive.
fn editor_works(n: usize) -> Vec<Action> {
    (0..n)
        .flat_map(|_| [handle(0, Manner::Right(Exact)), Deliver, Deliver])
        .collect()
}

fn edit(file: u8, at: u16, chars: u8, new: &'static str) -> Step {
    Step::Edit {
        file,
        at,
        chars,
        new,
        all: false,
    }
}

fn change(session: u8, steps: &[Step]) -> Action {
    Change {
        session,
        steps: Steps(steps.to_vec()),
        guard: None,
        dry_run: false,
    }
}

fn write(file: u8, text: &'static str) -> Step {
    Step::Write {
        file,
        text,
        keep: false,
    }
}

fn read(session: u8, file: u8) -> Action {
    Read {
        session,
        file,
        from: 0,
        lines: 0,
    }
}

fn type_at(file: u8, at: u16, text: &'static str) -> Action {
    Type { file, at, text }
}

fn erase(file: u8, at: u16, chars: u8) -> Action {
    Erase { file, at, chars }
}

fn flush(file: u8) -> Action {
    Flush { file, style: Exact }
}

fn close(file: u8, flush: bool) -> Action {
    Close { file, flush }
}

fn reload(file: u8, same_version: bool) -> Action {
    Reload { file, same_version }
}

fn meddle(file: u8, how: Behind) -> Action {
    Meddle { file, how }
}

fn handle(nth: u8, manner: Manner) -> Action {
    Handle { nth, manner }
}

fn work(nth: u8, luck: Luck) -> Action {
    Work { nth, luck }
}

/// Opens a file and has a session read it.
fn open_and_read() -> Vec<Action> {
    let mut actions = vec![
        OpenSession { session: 0 },
        Open { file: 0 },
        Deliver,
        read(0, 0),
    ];
    actions.extend(editor_works(1));
    actions
}

fn read_of_disk(file: u8) -> [Action; 3] {
    [read(0, file), work(0, Luck::Good), Finish { nth: 0 }]
}

const QUIET: Setup = Setup {
    sync: false,
    ..Setup::STRICT
};
