//! Admission, cancellation, progress: what waits can be given up, and what waits never stops a keystroke.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
};

use abreast::replay::{
    client::{CallError, Pending},
    document::Typing,
    editor::uri_of,
    frames::frame,
    model::Treatment,
};
use serde_json::{Value, json};

use crate::support::{
    Choices, Hand, PATIENCE, World, check_entry, directory, refused, scaled, server, version, view,
};

/// Checks that an answer says that the call was given up.
#[track_caller]
fn check_aborted(answer: &Value) {
    assert_eq!(answer["error"]["code"], -32800, "{answer}");
    assert_eq!(answer["error"]["data"]["code"], "FS_ABORTED", "{answer}");
}

#[track_caller]
fn check_state(hand: &Hand, path: &str, state: &str, status: &str) {
    let answer = hand
        .call("abreast/ledger", json!({ "path": path }))
        .unwrap();
    let entry = &answer["entries"][0];
    assert_eq!(
        (&entry["state"], &entry["status"]),
        (&state.into(), &status.into()),
        "{entry}"
    );
}

#[test]
fn more_calls_than_may_wait_are_refused_and_succeed_later() {
    let world = World::with(&[], |options| {
        options.initialization_options = json!({ "limits": { "pending": 3 } });
    });
    world.editor.open_with("a.txt", "0\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let first = session.start_edit("a.txt", "0", "1");
    assert!(world.editor.wait_for_held(1));
    let waiting = [
        session.start_edit("a.txt", "1", "2"),
        session.start_edit("a.txt", "2", "3"),
    ];
    for _ in 0..5 {
        let error = refused(session.edit("a.txt", "3", "4"), "FS_BUSY");
        assert_eq!(error.data()["retryable"], true, "{error}");
        refused(session.read("a.txt"), "FS_BUSY");
    }
    // What frees the sidecar is never refused.
    session
        .call("abreast/forget", json!({ "paths": ["b.txt"] }))
        .unwrap();
    world.editor.call("abreast/sessions", json!({})).unwrap();

    world.editor.release(Treatment::Honest);
    first.wait(PATIENCE).unwrap();
    for pending in waiting {
        pending.wait(PATIENCE).unwrap();
    }
    session.edit("a.txt", "3", "4").unwrap();
    world.check_buffer("a.txt", "4\n");
}

#[test]
fn a_call_that_was_refused_for_being_one_too_many_can_be_cancelled_in_vain() {
    let world = World::with(&[], |options| {
        options.initialization_options = json!({ "limits": { "pending": 1 } });
    });
    world.editor.open_with("a.txt", "0\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let first = session.start_edit("a.txt", "0", "1");
    assert!(world.editor.wait_for_held(1));
    let second = session.start_edit("a.txt", "1", "2");
    second.cancel();
    refused(second.wait(PATIENCE), "FS_BUSY");
    world.editor.release(Treatment::Honest);
    first.wait(PATIENCE).unwrap();
    session.edit("a.txt", "1", "2").unwrap();
}

#[test]
fn every_kind_of_call_about_closed_files_can_be_cancelled_and_then_has_done_nothing() {
    let hand = Hand::strict(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    hand.call("abreast/read", json!({ "path": "b.txt" }))
        .unwrap();
    let ledger = json!({ "version": 1, "entries": [{ "path": hand.root().join("a.txt"), "state": "absent" }] });
    let calls = [
        ("abreast/read", json!({ "path": "a.txt" })),
        ("abreast/read", json!({ "path": "missing.txt" })),
        ("abreast/ledger", json!({ "path": "a.txt" })),
        ("abreast/ledger", json!({ "export": true })),
        ("abreast/observe", json!({ "path": "a.txt" })),
        (
            "abreast/edit",
            json!({ "path": "b.txt", "oldString": "two", "newString": "2" }),
        ),
        (
            "abreast/edit",
            json!({ "path": "b.txt", "oldString": "two", "newString": "2", "dryRun": true }),
        ),
        (
            "abreast/write",
            json!({ "path": "b.txt", "content": "2\n" }),
        ),
        (
            "abreast/write",
            json!({ "path": "new.txt", "content": "2\n" }),
        ),
        (
            "abreast/apply",
            json!({ "changes": [{ "kind": "delete", "path": "b.txt" }] }),
        ),
        (
            "abreast/apply",
            json!({ "changes": [{ "kind": "rename", "path": "b.txt", "newPath": "c.txt" }] }),
        ),
        (
            "abreast/openSession",
            json!({ "sessionId": "imported", "ledger": ledger }),
        ),
    ];
    for (method, params) in calls {
        check_aborted(&hand.call_and_cancel(method, params));
        check_state(&hand, "a.txt", "unseen", "fresh");
        check_state(&hand, "missing.txt", "unseen", "fresh");
        check_state(&hand, "b.txt", "present", "fresh");
        hand.check_disk("a.txt", "one\n");
        hand.check_disk("b.txt", "two\n");
        // What was staged goes, too, though after the answer.
        let started = std::time::Instant::now();
        while std::fs::read_dir(hand.root()).unwrap().count() > 2 {
            assert!(started.elapsed() < PATIENCE, "left by {method}");
            thread::yield_now();
        }
    }
    let edit = json!({ "path": "b.txt", "oldString": "two", "newString": "2" });
    hand.call("abreast/edit", edit).unwrap();
    hand.check_disk("b.txt", "2\n");
}

#[test]
fn what_is_answered_at_once_cannot_be_cancelled() {
    let hand = Hand::strict(&[]);
    for (method, params) in [
        ("abreast/sessions", json!({})),
        ("abreast/forget", json!({})),
        ("abreast/openSession", json!({ "sessionId": "t" })),
        ("abreast/closeSession", json!({ "sessionId": "t" })),
    ] {
        let answer = hand.call_and_cancel(method, params);
        assert_eq!(answer.get("error"), None, "{method}: {answer}");
    }
}

#[test]
fn opening_a_session_with_a_ledger_can_be_cancelled_and_tried_again() {
    let hand = Hand::strict(&[("a.txt", "one\n")]);
    let entry = json!({ "path": hand.root().join("a.txt"), "state": "present", "version": version("one\n") });
    let params = json!({ "sessionId": "t", "ledger": { "version": 1, "entries": [entry] } });
    check_aborted(&hand.call_and_cancel("abreast/openSession", params.clone()));
    let read = hand.call("abreast/read", json!({ "sessionId": "t", "path": "a.txt" }));
    refused(read, "UNKNOWN_SESSION");
    let opened = hand.call("abreast/openSession", params).unwrap();
    assert_eq!(opened["revalidated"], 1, "{opened}");
    let edit = json!({ "sessionId": "t", "path": "a.txt", "oldString": "one", "newString": "1" });
    hand.call("abreast/edit", edit).unwrap();
}

#[test]
fn a_cancelled_read_of_an_open_document_leaves_the_ledger_as_it_was() {
    let hand = Hand::strict(&[]);
    hand.open("a.txt", "one\n");
    let read = hand.start("abreast/read", json!({ "path": "a.txt" }));
    let first = hand.asked("abreast/sync");
    read.cancel();
    refused(read.wait(PATIENCE), "FS_ABORTED");
    check_state(&hand, "a.txt", "unseen", "fresh");

    // The barrier's answer comes late, to a call that is no more.
    let state = json!({ "instance": 1, "version": 1 });
    hand.connection().answer(
        first.id,
        Ok(json!({ "documents": { hand.uri("a.txt"): state } })),
    );
    check_state(&hand, "a.txt", "unseen", "fresh");

    let read = hand.start("abreast/read", json!({ "path": "a.txt" }));
    hand.answer_sync("a.txt", 1);
    read.wait(PATIENCE).unwrap();
    hand.change("a.txt", 2, "two\n");
    let read = hand.start("abreast/read", json!({ "path": "a.txt" }));
    hand.asked("abreast/sync");
    read.cancel();
    refused(read.wait(PATIENCE), "FS_ABORTED");
    check_state(&hand, "a.txt", "present", "stale");
}

/// Opens a document and has the session read it.
fn open_and_read(hand: &Hand, path: &str, text: &str) {
    hand.open(path, text);
    let read = hand.start("abreast/read", json!({ "path": path }));
    hand.answer_sync(path, 1);
    read.wait(PATIENCE).unwrap();
}

fn edit_of(path: &str, old: &str, new: &str) -> Value {
    json!({ "path": path, "oldString": old, "newString": new })
}

#[test]
fn an_edit_that_waits_for_a_barrier_can_be_cancelled_and_late_answers_hurt_nobody() {
    let hand = Hand::strict(&[]);
    open_and_read(&hand, "a.txt", "one two\n");
    let edit = hand.start("abreast/edit", edit_of("a.txt", "one", "1"));
    let first = hand.asked("abreast/sync");
    edit.cancel();
    edit.cancel();
    refused(edit.wait(PATIENCE), "FS_ABORTED");
    hand.connection()
        .answer(first.id.clone(), Ok(json!({ "documents": {} })));
    hand.connection().answer(
        first.id,
        Err(json!({ "code": -32800, "message": "cancelled" })),
    );
    hand.check_not_asked();

    let edit = hand.start("abreast/edit", edit_of("a.txt", "two", "2"));
    hand.answer_sync("a.txt", 1);
    let request = hand.asked("workspace/applyEdit");
    hand.change("a.txt", 2, "one 2\n");
    hand.connection()
        .answer(request.id, Ok(json!({ "applied": true })));
    edit.wait(PATIENCE).unwrap();
    check_state(&hand, "a.txt", "present", "fresh");
}

#[test]
fn once_an_edit_was_sent_cancelling_it_has_no_effect_even_while_it_is_planned_again() {
    let hand = Hand::strict(&[]);
    open_and_read(&hand, "a.txt", "one two\n");
    let edit = hand.start("abreast/edit", edit_of("a.txt", "one", "1"));
    hand.answer_sync("a.txt", 1);
    let request = hand.asked("workspace/applyEdit");
    // Something was typed and deleted again.
    hand.change("a.txt", 2, "one  two\n");
    hand.change("a.txt", 3, "one two\n");
    let refusal = json!({ "applied": false, "abreast": { "code": "version" } });
    hand.connection().answer(request.id, Ok(refusal));
    hand.answer_sync("a.txt", 3);
    let barrier = hand.asked("abreast/sync");
    edit.cancel();
    let state = json!({ "instance": 1, "version": 3 });
    hand.connection().answer(
        barrier.id,
        Ok(json!({ "documents": { hand.uri("a.txt"): state } })),
    );
    let request = hand.asked("workspace/applyEdit");
    hand.change("a.txt", 4, "1 two\n");
    hand.connection()
        .answer(request.id, Ok(json!({ "applied": true })));
    edit.wait(PATIENCE).unwrap();
}

#[test]
fn a_call_over_several_files_is_cancelled_as_a_whole() {
    let world = World::new(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    world.editor.open_with("open.txt", "o\n").unwrap();
    let session = world.session_that_read("s", &["a.txt", "b.txt", "open.txt"]);
    world.editor.order(Treatment::Hold);
    let first = session.start_edit("open.txt", "o", "O");
    assert!(world.editor.wait_for_held(1));
    let several = session.start_apply(json!([
        { "kind": "edit", "path": "a.txt", "oldString": "a", "newString": "A" },
        { "kind": "edit", "path": "open.txt", "oldString": "O", "newString": "0" },
        { "kind": "delete", "path": "b.txt" },
    ]));
    let behind = session.start_edit("a.txt", "a", "AA");
    several.cancel();
    refused(several.wait(PATIENCE), "FS_ABORTED");
    behind.wait(PATIENCE).unwrap();
    world.editor.release(Treatment::Honest);
    first.wait(PATIENCE).unwrap();
    world.check_disk("a.txt", "AA\n");
    world.check_disk("b.txt", "b\n");
    world.check_buffer("open.txt", "O\n");
}

#[test]
fn work_that_takes_long_is_reported_where_a_token_was_given() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one\n").unwrap();
    world.editor.open_with("b.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt", "b.txt"]);
    let edit = |path: &str, token: Value| {
        let mut params = edit_of(path, "one", "1");
        params["workDoneToken"] = token;
        session.start("abreast/edit", params)
    };
    edit("b.txt", json!("quick")).wait(PATIENCE).unwrap();
    world.editor.order(Treatment::Hold);
    let slow = edit("a.txt", json!(7));
    let queued = session.start("abreast/edit", {
        let mut params = edit_of("a.txt", "1", "2");
        params["workDoneToken"] = "queued".into();
        params
    });
    let progress = |token: Value, kind: &str| {
        let told = world
            .editor
            .connection()
            .wait_for_notification(PATIENCE, |it| {
                it.method == "$/progress" && it.params["token"] == token
            });
        let told = told.unwrap_or_else(|| panic!("no progress for {token}"));
        assert_eq!(told.params["value"]["kind"], kind, "{told:?}");
        told
    };
    let begun = progress(json!(7), "begin");
    let title = begun.params["value"]["title"].as_str();
    assert!(title.is_some_and(|it| !it.is_empty()), "{begun:?}");
    progress(json!("queued"), "begin");
    queued.cancel();
    refused(queued.wait(PATIENCE), "FS_ABORTED");
    progress(json!("queued"), "end");
    assert!(slow.poll().is_none());
    world.editor.release(Treatment::Honest);
    slow.wait(PATIENCE).unwrap();
    progress(json!(7), "end");
    let others = world.editor.connection().take_notifications();
    assert!(
        others.iter().all(|it| it.method != "$/progress"),
        "what is quick is not reported: {others:?}"
    );
}

/// Reads frames from a server's output until one is the answer with this id.
fn read_until_answer(output: &mut impl BufRead, id: u64) -> Value {
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the output ended");
            match line.trim_end().split_once(": ") {
                Some(("Content-Length", n)) => length = n.parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        output.read_exact(&mut body).unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap();
        if message["id"] == id && message.get("method").is_none() {
            return message;
        }
    }
}

#[test]
fn an_editor_that_does_not_read_its_end_is_still_read() {
    let (_directory, root) = directory();
    let uri = uri_of(&root.join("a.txt"));
    let command = server();
    let mut child = Command::new(&command.program)
        .args(&command.arguments)
        .current_dir(&root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let n_keystrokes: u64 = 20_000;
    let mut messages = vec![
        json!({ "id": 0, "method": "initialize", "params": { "rootUri": uri_of(&root), "capabilities": {}, "initializationOptions": { "listen": false } } }),
        json!({ "method": "initialized", "params": {} }),
        json!({ "method": "textDocument/didOpen", "params": { "textDocument": { "uri": uri, "languageId": "x", "version": 0, "text": "" } } }),
    ];
    for number in 1..=n_keystrokes {
        let start = json!({ "line": 0, "character": 0 });
        let change = json!({ "range": { "start": start, "end": start }, "text": "x" });
        messages.push(json!({ "method": "textDocument/didChange", "params": {
            "textDocument": { "uri": uri, "version": number }, "contentChanges": [change],
        } }));
        if number % 50 == 0 {
            messages
                .push(json!({ "id": number, "method": "abreast/read", "params": { "path": uri } }));
        }
    }
    let (done, is_done) = mpsc::channel();
    let writer = thread::spawn(move || {
        for mut message in messages {
            message["jsonrpc"] = "2.0".into();
            input
                .write_all(&frame(message.to_string().as_bytes()))
                .unwrap();
        }
        done.send(()).unwrap();
        input
    });
    // The answers are far more than a pipe holds, and nobody takes them.
    assert_eq!(
        is_done.recv_timeout(PATIENCE),
        Ok(()),
        "the keystrokes are no longer read"
    );
    let mut output = BufReader::new(output);
    for number in (50..=n_keystrokes).step_by(50) {
        let answer = read_until_answer(&mut output, number);
        let text = answer["result"]["text"].as_str().unwrap_or_default();
        let n_shown = usize::try_from(number).unwrap().min(2000);
        assert_eq!(text.len(), n_shown, "answer {number}: {answer}");
    }
    drop(writer.join().unwrap());
    assert!(child.wait().unwrap().success());
}

/// An edit of the storm: it puts its own number before the bar.
struct Attempt {
    path: usize,
    number: usize,
    pending: Pending,
}

#[test]
fn in_a_storm_of_cancelled_edits_each_took_effect_and_said_so_or_did_not_and_said_so() {
    const SEED: u64 = 2000;
    const N_DOCUMENTS: usize = 20;
    let n_edits = scaled(2_000);
    let mut choices = Choices::new(SEED);
    let paths: Vec<_> = (0..N_DOCUMENTS).map(|idx| format!("d{idx}.txt")).collect();
    let files: Vec<_> = paths.iter().map(|it| (it.as_str(), "|\r\n")).collect();
    let world = World::new(&files);
    // Every other one is open.
    for path in paths.iter().step_by(2) {
        world.editor.open(path).unwrap();
    }
    let names: Vec<_> = paths.iter().map(String::as_str).collect();
    let session = world.session_that_read("s", &names);

    let mut on_wire: Vec<Attempt> = Vec::new();
    let mut answered: Vec<(usize, usize, Result<Value, CallError>)> = Vec::new();
    for number in 0..n_edits {
        let path = choices.below(N_DOCUMENTS);
        let pending = session.start_edit(&paths[path], "|", &format!("{number},|"));
        on_wire.push(Attempt {
            path,
            number,
            pending,
        });
        // Each is cancelled once: at once, a few messages later, or when it may have been answered.
        while on_wire.len() > choices.below(30) {
            let it = on_wire.swap_remove(choices.below(on_wire.len()));
            if choices.below(4) == 0 {
                // Lets the server come as far as the last of them.
                let last = on_wire.pop().unwrap_or_else(|| Attempt {
                    path: it.path,
                    number: usize::MAX,
                    pending: session.start("abreast/ledger", json!({ "path": paths[it.path] })),
                });
                last.pending.cancel();
                let answer = last.pending.wait(PATIENCE);
                if last.number != usize::MAX {
                    answered.push((last.path, last.number, answer));
                }
            }
            it.pending.cancel();
            let answer = it.pending.wait(PATIENCE);
            answered.push((it.path, it.number, answer));
        }
    }
    for it in on_wire {
        it.pending.cancel();
        answered.push((it.path, it.number, it.pending.wait(PATIENCE)));
    }

    assert_eq!(answered.len(), n_edits);
    let mut oracle: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut n_aborted = 0;
    for (path, number, answer) in answered {
        match answer {
            Ok(_) => oracle.entry(path).or_default().push(number),
            Err(error) => {
                assert_eq!(error.code(), "FS_ABORTED", "seed {SEED}: {error}");
                n_aborted += 1;
            }
        }
    }
    for (idx, path) in paths.iter().enumerate() {
        let mut landed = oracle.remove(&idx).unwrap_or_default();
        landed.sort_unstable();
        let mut expected: String = landed.iter().map(|it| format!("{it},")).collect();
        expected.push_str("|\r\n");
        if idx % 2 == 0 {
            world.check_buffer(path, &expected);
        } else {
            world.check_disk(path, &expected);
        }
        let entry = check_entry(&session, path, "present", Some("fresh"));
        assert_eq!(entry["version"], version(&expected), "seed {SEED}: {path}");
        assert_eq!(session.read(path).unwrap()["text"], view(&expected));
    }
    let n_landed = n_edits - n_aborted;
    assert!(
        n_edits < 500 || (n_aborted > n_edits / 20 && n_landed > n_edits / 20),
        "{n_aborted} of {n_edits} were aborted, so little was tested"
    );
    // No answer came twice.
    assert_eq!(
        world
            .editor
            .connection()
            .wait_for_unmatched(std::time::Duration::ZERO),
        None
    );
    let mut names = paths.clone();
    names.sort();
    assert_eq!(world.listing(), names, "nothing is left behind");
}

#[test]
fn cancelling_does_not_delay_the_keystrokes_of_a_human() {
    let world = World::without_sync(&[]);
    world.editor.open_with("a.txt", "\n").unwrap();
    let session = world.session("s");
    let mut cancelled = Vec::new();
    for number in 1..=200 {
        world
            .editor
            .change("a.txt", &[Typing::at([0, 0], [0, 0], "x")])
            .unwrap();
        let read = session.start("abreast/read", json!({ "path": "a.txt" }));
        read.cancel();
        cancelled.push((number, read));
    }
    for (number, read) in cancelled {
        // It was shown already, or it was not at all.
        match read.wait(PATIENCE) {
            Ok(result) => assert_eq!(result["text"], format!("{}\n", "x".repeat(number))),
            Err(error) => assert_eq!(error.code(), "FS_ABORTED"),
        }
    }
    assert_eq!(
        session.read("a.txt").unwrap()["text"],
        format!("{}\n", "x".repeat(200))
    );
}
