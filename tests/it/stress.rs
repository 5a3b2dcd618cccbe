//! Everybody at once, through the real process: people type, agents edit, and somebody sends whatever comes to mind.
//!
//! Invariant: nobody waits longer than their own answer, so there are as many messages as the server can take, and no
//! more; and none of the threads knows what the others do.

#![allow(clippy::print_stderr, reason = "the seed and the counts")]

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use abreast::replay::{client::CallError, document::Typing, session::Session};
use serde_json::{Value, json};

use crate::support::{Choices, PATIENCE, World, read_when_synchronised, scaled_time};

const N_DOCUMENTS: usize = 100;
const N_SESSIONS: usize = 10;
const N_LINES: usize = 40;
/// A tenth of what `ABREAST_TEST_SCALE=10` plays.
const DURATION: Duration = Duration::from_secs(3);
const SEED: u64 = 0x5EED_0001;
/// Most resident memory of the server, in KiB: an idle one takes about a tenth.
const MEMORY_KIB: u64 = 100 << 10;

/// What a call may come to while everybody else goes on.
const TIMELY_REFUSALS: [&str; 7] = [
    "FS_STALE_VERSION",
    "FS_EDIT_NOT_FOUND",
    "FS_AMBIGUOUS_EDIT",
    "FS_EDITOR_REJECTED",
    "FS_DESYNCED",
    "FS_NO_CHANGE",
    "FS_NOT_OBSERVED",
];

fn path(document: usize) -> String {
    format!("{document}.txt")
}

#[derive(Default)]
struct Counts {
    edits: AtomicU64,
    refusals: AtomicU64,
    keystrokes: AtomicU64,
    noises: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_hundred_documents_ten_agents_and_a_person_end_with_equal_texts() {
    eprintln!("seed {SEED}");
    let world = World::new(&[]);
    for document in 0..N_DOCUMENTS {
        let lines = (0..N_LINES).map(|line| format!("{document} {line}: one two three\n"));
        let text: String = lines.collect();
        world.editor.open_with(&path(document), &text).unwrap();
    }
    let counts = Counts::default();
    let until = Instant::now() + scaled_time(DURATION);
    thread::scope(|scope| {
        for nth in 0..N_SESSIONS {
            let session = world.session(&format!("s{nth}"));
            let counts = &counts;
            let choices = Choices::new(SEED + nth as u64);
            scope.spawn(move || work(&session, choices, until, counts));
        }
        scope.spawn(|| type_on(&world, Choices::new(SEED + 100), until, &counts));
        scope.spawn(|| make_noise(&world, Choices::new(SEED + 101), until, &counts));
    });
    let n = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    eprintln!(
        "{} edits, {} refusals, {} keystrokes, {} other messages, {} KiB",
        n(&counts.edits),
        n(&counts.refusals),
        n(&counts.keystrokes),
        n(&counts.noises),
        memory_kib(&world).unwrap_or_default(),
    );
    assert!(n(&counts.edits) > 0 && n(&counts.keystrokes) > 0 && n(&counts.noises) > 0);
    let reader = world.session("reader");
    for document in 0..N_DOCUMENTS {
        let shown = read_when_synchronised(&reader, &path(document));
        assert_eq!(
            shown["text"].as_str().map(str::to_string),
            world.editor.text(&path(document)),
            "document {document}"
        );
    }
    let connection = world.editor.connection();
    assert_eq!(connection.violation(), None);
    assert_eq!(connection.wait_for_unmatched(Duration::ZERO), None);
    if let Some(kib) = memory_kib(&world) {
        assert!(kib < MEMORY_KIB, "the server takes {kib} KiB");
    }
}

/// An agent reads and edits; every call is answered, and refused only for what the others do.
fn work(session: &Session, mut choices: Choices, until: Instant, counts: &Counts) {
    while Instant::now() < until {
        let documents = [choices.below(N_DOCUMENTS), choices.below(N_DOCUMENTS)];
        let texts = documents.map(|it| session.read(&path(it)));
        let mut changes = Vec::new();
        for (document, shown) in documents.iter().zip(&texts) {
            let text = match shown {
                Ok(shown) => shown["text"].as_str().unwrap(),
                Err(err) => {
                    check_timely(err);
                    continue;
                }
            };
            let lines: Vec<&str> = text.lines().collect();
            let line = lines.get(choices.below(lines.len().max(1)));
            let Some(old) = line.filter(|it| !it.is_empty()) else {
                continue;
            };
            let new = format!("{} {}", session.id(), choices.below(1000));
            changes.push(json!({
                "kind": "edit", "path": path(*document), "oldString": *old, "newString": new
            }));
        }
        if changes.is_empty() {
            continue;
        }
        if choices.below(3) > 0 {
            changes.truncate(1);
        }
        match session.apply(Value::Array(changes)) {
            Ok(_) => count(&counts.edits),
            Err(err) => {
                check_timely(&err);
                count(&counts.refusals);
            }
        }
        if choices.below(10) == 0 {
            session.call("abreast/ledger", json!({})).unwrap();
        }
    }
}

fn check_timely(err: &CallError) {
    let code = err.code();
    assert!(TIMELY_REFUSALS.contains(&code.as_str()), "{err}");
}

/// A person types here and there, not faster than the server can be asked something.
fn type_on(world: &World, mut choices: Choices, until: Instant, counts: &Counts) {
    while Instant::now() < until {
        let document = path(choices.below(N_DOCUMENTS));
        for _ in 0..=choices.below(8) {
            let start = [choices.below(N_LINES), choices.below(12)];
            let end = [start[0], start[1] + choices.below(3)];
            let text = choices.one_of(&["x", "", "é", "\n", "😀", " a"]);
            let typing = Typing::at(start, end, text);
            world.editor.change(&document, &[typing]).unwrap();
            count(&counts.keystrokes);
        }
        world.editor.call("abreast/sessions", json!({})).unwrap();
    }
}

/// Well-framed messages that make sense to nobody: every request is answered, once.
fn make_noise(world: &World, mut choices: Choices, until: Instant, counts: &Counts) {
    let connection = world.editor.connection();
    while Instant::now() < until {
        let id = format!("noise {}", counts.noises.load(Ordering::Relaxed));
        let method = choices.one_of(&[
            "abreast/read",
            "abreast/edit",
            "abreast/apply",
            "abreast/observe",
            "abreast/ledger",
            "abreast/closeSession",
            "abreast/nothing",
            "textDocument/hover",
            "",
        ]);
        // JSON-RPC knows no others; what breaks even that is in `hostile`.
        let mut params = nonsense(&mut choices, 3);
        if !params.is_object() {
            params = json!([params]);
        }
        if choices.below(4) == 0 {
            let method = choices.one_of(&["$/nothing", "textDocument/didSave", "abreast/read"]);
            connection.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
        }
        if choices.below(200) == 0 {
            let document = path(choices.below(N_DOCUMENTS));
            world.editor.tell_broken_change(&document).unwrap();
        }
        connection.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let answer = connection.wait_for_unmatched(PATIENCE);
        let answer = answer.unwrap_or_else(|| panic!("no answer to {method} {params}"));
        assert_eq!(answer["id"], id, "{answer}");
        count(&counts.noises);
    }
}

fn nonsense(choices: &mut Choices, depth: usize) -> Value {
    let name = |choices: &mut Choices| {
        choices
            .one_of(&["path", "sessionId", "changes", "kind", "guard", "x"])
            .to_string()
    };
    match choices.below(if depth == 0 { 4 } else { 6 }) {
        0 => Value::Null,
        1 => choices.below(1 << 20).into(),
        2 => choices
            .one_of(&["1.txt", "s1", "", "file:///", "edit", "\u{FEFF}"])
            .into(),
        3 => true.into(),
        4 => (0..choices.below(4))
            .map(|_| nonsense(choices, depth - 1))
            .collect(),
        _ => (0..choices.below(5))
            .map(|_| (name(choices), nonsense(choices, depth - 1)))
            .collect(),
    }
}

/// Resident memory of the server, where the system tells it.
fn memory_kib(world: &World) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", world.editor.process_id())).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
