//! What happens while a call is under way does not make it do what it may not.

use std::{
    fs,
    os::unix::fs::FileExt,
    thread,
    time::{Duration, Instant},
};

use abreast::replay::{
    client::{Client, Connection, ServerRequest},
    editor::uri_of,
    model::Treatment,
};
use serde_json::{Value, json};

use crate::support::{World, check_entry, directory, refused, server};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_call_of_a_closed_session_is_not_tried_again_with_what_the_next_one_of_that_name_saw() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let pending = session.start_edit("a.txt", "two", "2");
    assert!(world.editor.wait_for_held(1));
    session.close().unwrap();
    world.editor.types("a.txt", "one", "ONE").unwrap();
    let _next = world.session_that_read("s", &["a.txt"]);
    world.editor.release(Treatment::Honest);
    refused(pending.wait(PATIENCE), "FS_EDITOR_REJECTED");
    world.check_buffer("a.txt", "ONE two\n");
}

#[test]
fn what_a_human_typed_is_not_the_edit_that_the_editor_refused() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let pending = session.start_edit("a.txt", "two", "2");
    assert!(world.editor.wait_for_held(1));
    world.editor.types("a.txt", "two", "2").unwrap();
    world.editor.release(Treatment::Honest);
    let error = refused(pending.wait(PATIENCE), "FS_STALE_VERSION");
    let human = json!([{ "kind": "human" }]);
    assert_eq!(error.data()["changedBy"], human, "{error}");
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["changedBy"], human, "{entry}");
}

#[test]
fn a_file_that_the_editor_opens_without_sending_it_is_not_committed() {
    let world = World::new(&[("closed.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["closed.txt", "open.txt"]);
    let edit =
        |path: &str| json!({ "kind": "edit", "path": path, "oldString": "one", "newString": "1" });
    world.editor.order(Treatment::Hold);
    let pending = session.start_apply(json!([edit("closed.txt"), edit("open.txt")]));
    assert!(world.editor.wait_for_held(1));
    let state = json!({ "uri": world.editor.uri("closed.txt"), "unsynced": true });
    let connection = world.editor.connection();
    connection.notify("abreast/documentState", state);
    world.editor.release(Treatment::Honest);
    let error = refused(pending.wait(PATIENCE), "FS_OPEN");
    assert_eq!(error.data()["path"], "closed.txt", "{error}");
    world.check_disk("closed.txt", "one\n");
    world.check_buffer("open.txt", "one\n");
}

/// Starts a server for a strict editor that never answers a barrier and refuses every edit, but late.
fn with_an_editor_that_takes_its_time(refuses_after: Duration) -> (Client, tempfile::TempDir) {
    let (directory, root) = directory();
    let answer = move |connection: &Connection, request: ServerRequest| {
        if request.method == "workspace/applyEdit" {
            let connection = connection.clone();
            thread::spawn(move || {
                thread::sleep(refuses_after);
                connection.answer(request.id, Ok(json!({ "applied": false })));
            });
        }
    };
    let client = Client::start(&server(), &root, answer).unwrap();
    let strict = json!({ "version": 1, "strictApplyEdit": true, "sync": true });
    let params = json!({
        "processId": null, "rootUri": uri_of(&root), "initializationOptions": { "listen": false },
        "capabilities": { "workspace": { "applyEdit": true }, "experimental": { "abreast": strict } },
    });
    let connection = client.connection();
    connection.call("initialize", params, PATIENCE).unwrap();
    connection.notify("initialized", json!({}));
    let document = json!({
        "uri": uri_of(&root.join("a.txt")), "languageId": "x", "version": 1, "text": "one\n",
    });
    connection.notify("textDocument/didOpen", json!({ "textDocument": document }));
    (client, directory)
}

#[test]
fn a_call_is_answered_within_eight_seconds_however_slow_the_editor_is() {
    let (client, _directory) = with_an_editor_that_takes_its_time(Duration::from_millis(4600));
    let call = |method: &str, params: Value| client.connection().call(method, params, PATIENCE);
    call("abreast/openSession", json!({ "sessionId": "s" })).unwrap();
    let path = json!({ "sessionId": "s", "path": "a.txt" });
    call("abreast/read", path).unwrap();
    let started = Instant::now();
    let edit = json!({ "sessionId": "s", "path": "a.txt", "oldString": "one", "newString": "1" });
    refused(call("abreast/edit", edit), "FS_EDITOR_REJECTED");
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_millis(8300), "{elapsed:?}");
}

#[test]
fn a_call_with_thousands_of_changes_holds_up_nobody() {
    let world = World::new(&[]);
    let session = world.session("s");
    let write = |idx| json!({ "kind": "write", "path": format!("{idx}.txt"), "content": "x" });
    let changes: Vec<Value> = (0..3000).map(write).collect();
    let params = json!({ "changes": changes, "dryRun": true });
    let pending = session.start("abreast/apply", params);
    let mut longest = Duration::ZERO;
    while pending.poll().is_none() {
        let started = Instant::now();
        world.editor.call("abreast/sessions", json!({})).unwrap();
        longest = longest.max(started.elapsed());
    }
    assert!(longest < Duration::from_secs(5), "{longest:?}");
}

#[test]
fn a_file_that_cannot_be_read_as_text_any_more_is_stale() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    world.write_disk("a.txt", "\0");
    check_entry(&session, "a.txt", "present", Some("stale"));
    world.write_disk("a.txt", "one\n");
    check_entry(&session, "a.txt", "present", Some("fresh"));
}

#[test]
fn what_cannot_be_read_is_not_observed_as_absent() {
    let world = World::new(&[("a.bin", "\0")]);
    let session = world.session("s");
    let observe = || session.call("abreast/observe", json!({ "path": "a.bin" }));
    refused(observe(), "FS_NOT_TEXT");
    check_entry(&session, "a.bin", "unseen", None);

    world.editor.open_with("b.txt", "one\n").unwrap();
    let other = World::without_sync(&[]);
    other.editor.open_with("b.txt", "one\n").unwrap();
    other.editor.tell_broken_change("b.txt").unwrap();
    let session = other.session("s");
    let observe = session.call("abreast/observe", json!({ "path": "b.txt" }));
    refused(observe, "FS_DESYNCED");
    check_entry(&session, "b.txt", "unseen", None);
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_not_proposed_instead_of_itself() {
    let world = World::new(&[]);
    std::os::unix::fs::symlink("none.txt", world.root().join("link.txt")).unwrap();
    let error = refused(world.session("s").read("link.txt"), "FS_NOT_FOUND");
    assert!(!error.message().contains("did you mean"), "{error}");
}

#[test]
fn a_save_that_lands_in_a_replaced_file_is_put_back_and_makes_the_entry_stale() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let path = world.root().join("a.txt");
    let late = fs::OpenOptions::new().write(true).open(&path).unwrap();
    session.edit("a.txt", "one", "two").unwrap();
    late.set_len(0).unwrap();
    late.write_all_at(b"late\n", 0).unwrap();
    let deadline = Instant::now() + PATIENCE;
    // Told without anybody having read the file again.
    let entry = loop {
        let entry = session.ledger_entry("a.txt").unwrap();
        if entry["status"] == "stale" {
            break entry;
        }
        assert!(Instant::now() < deadline, "it is never told: {entry}");
    };
    world.check_disk("a.txt", "late\n");
    assert_eq!(entry["changedBy"][0]["kind"], "disk", "{entry}");
    refused(session.edit("a.txt", "two", "2"), "FS_STALE_VERSION");
    assert_eq!(world.listing(), ["a.txt"]);
}
