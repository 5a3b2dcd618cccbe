//! The server is killed while it changes files on disk.

use std::{fs, thread};

use abreast::replay::editor::{Editor, Options};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, directory, server};

const N_FILES: usize = 20;

/// The changed files' texts one by one, `o` for the old and `n` for the new one, and what else is there.
fn shows(world: &World) -> String {
    let mut shown = String::new();
    for path in world.listing() {
        let text = fs::read_to_string(world.root().join(&path)).unwrap();
        match &text[..] {
            "old\n" if !path.starts_with('.') => shown.push('o'),
            "new\n" if !path.starts_with('.') => shown.push('n'),
            _ => shown += &format!("{path} "),
        }
    }
    shown
}

fn name(nth: usize) -> String {
    format!("{nth:02}.txt")
}

/// Kills the server when `n_new` files of a call have their new text, and lets another server start.
#[track_caller]
fn check(n_new: usize) {
    let (_directory, state) = directory();
    let names: Vec<_> = (0..N_FILES).map(name).collect();
    let files: Vec<_> = names.iter().map(|it| (it.as_str(), "old\n")).collect();
    let with_state = |options: &mut Options| {
        let state = ("XDG_STATE_HOME".into(), state.clone().into());
        options.server.environment.push(state);
    };
    let mut world = World::with(&files, with_state);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let session = world.session_that_read("s", &names);
    let changes: Vec<Value> = names
        .iter()
        .map(|it| json!({ "kind": "edit", "path": it, "oldString": "old", "newString": "new" }))
        .collect();
    let _pending = session.start_apply(json!(changes));
    let has_come = || match n_new.checked_sub(1) {
        Some(last) => fs::read(world.root().join(name(last))).unwrap() == b"new\n",
        None => world.listing().len() > N_FILES,
    };
    while !has_come() {
        thread::yield_now();
    }
    let process = i32::try_from(world.editor.process_id()).unwrap();
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    world.editor.wait_for_end(PATIENCE).unwrap();
    let left = shows(&world);

    let mut options = Options::new(server(), world.root());
    with_state(&mut options);
    let editor = Editor::start(&options).unwrap();
    let now = shows(&world);
    let all = ["o", "n"].map(|it| it.repeat(N_FILES));
    assert!(all.contains(&now), "{n_new} new, then {left}, then {now}");
    let session = editor.session("s").unwrap();
    session.read("00.txt").unwrap();
    session.edit("00.txt", &now[..1], "and on").unwrap();
}

#[test]
fn a_call_under_way_is_finished_or_taken_back_by_the_next_server() {
    for n_new in 0..=N_FILES {
        check(n_new);
    }
}
