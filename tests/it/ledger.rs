//! Sessions and what they have seen, and what the server tells about it by itself.

use std::time::Duration;

use abreast::replay::{editor::Editor, session::Session};
use serde_json::{Value, json};

use crate::support::{World, check_entry, refused, version};

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the server tells, for a session and a path, an entry that `is_wanted`.
#[track_caller]
fn told(
    editor: &Editor,
    session: &Session,
    path: &str,
    mut is_wanted: impl FnMut(&Value) -> bool,
) -> Value {
    let mut found = Value::Null;
    let notification = editor.connection().wait_for_notification(PATIENCE, |it| {
        let is_here =
            it.method == "abreast/ledgerChanged" && it.params["sessionId"] == session.id();
        let entries = it.params["entries"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|_| is_here);
        found = entries
            .filter(|it| it["path"] == path)
            .find(|it| is_wanted(it))
            .cloned()
            .unwrap_or_default();
        !found.is_null()
    });
    assert!(
        notification.is_some(),
        "nothing was told of {path}: {:?}",
        editor.connection().take_notifications()
    );
    found
}

#[test]
fn it_is_told_when_a_human_makes_an_entry_stale_and_when_an_undo_makes_it_fresh() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "1\n2\n3\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.types("a.txt", "2", "two").unwrap();
    let entry = told(&world.editor, &session, "a.txt", |it| {
        it["status"] == "stale"
    });
    assert_eq!(entry["changedBy"], json!([{ "kind": "human" }]));
    assert_eq!(entry["changedRanges"], json!([[2, 2]]));
    assert_eq!(entry["version"], version("1\n2\n3\n"));
    assert_eq!(entry["currentVersion"], version("1\ntwo\n3\n"));
    world.editor.types("a.txt", "two", "2").unwrap();
    told(&world.editor, &session, "a.txt", |it| {
        it["status"] == "fresh"
    });
}

#[test]
fn it_is_told_when_a_file_changes_on_the_disk() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    world.write_disk("a.txt", "two\n");
    world.editor.tell_disk_change("a.txt", 2);
    let entry = told(&world.editor, &session, "a.txt", |it| {
        it["status"] == "stale"
    });
    assert_eq!(entry["changedBy"][0]["kind"], "disk");
}

#[test]
fn it_is_told_when_another_session_changes_a_file() {
    let world = World::new(&[("closed.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\n").unwrap();
    for path in ["closed.txt", "open.txt"] {
        let (first, second) = (format!("first {path}"), format!("second {path}"));
        let reader = world.session_that_read(&first, &[path]);
        let writer = world.session_that_read(&second, &[path]);
        writer.edit(path, "one", "1").unwrap();
        let entry = told(&world.editor, &reader, path, |it| it["status"] == "stale");
        assert_eq!(entry["changedBy"][0]["kind"], "session", "{entry}");
        assert_eq!(entry["changedBy"][0]["sessionId"], second, "{entry}");
        check_entry(&writer, path, "present", Some("fresh"));
    }
}

#[test]
fn a_missing_file_is_recorded_as_absent_until_it_appears() {
    let world = World::new(&[]);
    let session = world.session("s");
    check_entry(&session, "a.txt", "unseen", None);
    refused(session.read("a.txt"), "FS_NOT_FOUND");
    check_entry(&session, "a.txt", "absent", Some("fresh"));
    world.write_disk("a.txt", "new\n");
    world.editor.tell_disk_change("a.txt", 1);
    check_entry(&session, "a.txt", "absent", Some("stale"));
    refused(session.edit("a.txt", "new", "old"), "FS_NOT_FOUND");
    refused(session.write("a.txt", "mine\n"), "FS_NOT_OBSERVED");
    session.read("a.txt").unwrap();
    session.write("a.txt", "mine\n").unwrap();
}

#[test]
fn an_own_change_is_an_observation() {
    let world = World::new(&[]);
    let session = world.session("s");
    session.write("a.txt", "one\n").unwrap();
    session.edit("a.txt", "one", "two").unwrap();
    session.write("a.txt", "three\n").unwrap();
    let entry = check_entry(&session, "a.txt", "present", Some("fresh"));
    assert_eq!(entry["version"], version("three\n"));
    session
        .apply(json!([{ "kind": "rename", "path": "a.txt", "newPath": "b.txt" }]))
        .unwrap();
    session.edit("b.txt", "three", "3").unwrap();
    session
        .apply(json!([{ "kind": "delete", "path": "b.txt" }]))
        .unwrap();
    check_entry(&session, "b.txt", "absent", Some("fresh"));
    session.write("b.txt", "again\n").unwrap();
}

#[test]
fn a_dry_run_leaves_everything_as_it_is() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    let create = json!({ "path": "new.txt", "content": "x\n", "dryRun": true });
    assert_eq!(
        session.call("abreast/write", create).unwrap()["dryRun"],
        true
    );
    check_entry(&session, "new.txt", "unseen", None);
    session.read("a.txt").unwrap();
    let edit = json!({ "path": "a.txt", "oldString": "one", "newString": "1", "dryRun": true });
    session.call("abreast/edit", edit).unwrap();
    assert_eq!(
        check_entry(&session, "a.txt", "present", Some("fresh"))["version"],
        version("one\n")
    );
    world.check_disk("a.txt", "one\n");
    assert_eq!(world.listing(), ["a.txt"]);
}

#[test]
fn a_session_can_be_opened_again_with_the_same_parameters_only() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    world.session("s");
    check_entry(&session, "a.txt", "present", Some("fresh"));
    refused(
        world
            .editor
            .session_with("s", json!({ "options": { "policy": "off" } })),
        "-32602",
    );
    refused(world.editor.session(""), "-32602");
    refused(world.editor.session(&"x".repeat(129)), "-32602");
    world.session(&"é".repeat(128));
}

#[test]
fn a_closed_session_is_forgotten() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    session.clone().close().unwrap();
    refused(session.read("a.txt"), "UNKNOWN_SESSION");
    let again = world.session("s");
    check_entry(&again, "a.txt", "unseen", None);
    refused(again.edit("a.txt", "one", "1"), "FS_NOT_OBSERVED");
}

#[test]
fn the_open_sessions_are_listed() {
    let world = World::new(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    world
        .editor
        .session_with("s", json!({ "label": "the first" }))
        .unwrap();
    let session = world.session_that_read("t", &["a.txt", "b.txt"]);
    session.read("a.txt").unwrap();
    world.write_disk("b.txt", "TWO\n");
    world.editor.tell_disk_change("b.txt", 2);
    told(&world.editor, &session, "b.txt", |it| {
        it["status"] == "stale"
    });
    let sessions = world.editor.call("abreast/sessions", json!({})).unwrap()["sessions"].clone();
    let of = |id: &str| {
        sessions
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["sessionId"] == id)
            .unwrap()
            .clone()
    };
    let (first, second) = (of("s"), of("t"));
    assert_eq!(
        (&first["label"], &first["entries"]),
        (&"the first".into(), &0.into()),
        "{first}"
    );
    assert_eq!(
        (&second["entries"], &second["stale"]),
        (&2.into(), &1.into()),
        "{second}"
    );
    assert_eq!(second["own"], true);
}

#[test]
fn all_files_of_a_call_change_or_none() {
    let world = World::new(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    world.editor.open_with("open.txt", "o\n").unwrap();
    let session = world.session_that_read("s", &["a.txt", "b.txt", "open.txt"]);
    let changes = |last: Value| {
        json!([
            { "kind": "edit", "path": "a.txt", "oldString": "a", "newString": "A" },
            { "kind": "edit", "path": "open.txt", "oldString": "o", "newString": "O" },
            { "kind": "write", "path": "new.txt", "content": "new\n" },
            last,
        ])
    };
    let failing = [
        (
            json!({ "kind": "edit", "path": "b.txt", "oldString": "x", "newString": "y" }),
            "FS_EDIT_NOT_FOUND",
        ),
        (
            json!({ "kind": "write", "path": "unread.txt", "content": "y\n" }),
            "FS_NOT_OBSERVED",
        ),
        (
            json!({ "kind": "rename", "path": "b.txt", "newPath": "unread.txt" }),
            "FS_ALREADY_EXISTS",
        ),
        (json!({ "kind": "delete", "path": "open.txt" }), "FS_OPEN"),
    ];
    world.write_disk("unread.txt", "unread\n");
    for (last, code) in failing {
        let error = refused(session.apply(changes(last)), code);
        assert_eq!(error.data()["change"], 3, "{error}");
        world.check_disk("a.txt", "a\n");
        world.check_buffer("open.txt", "o\n");
        assert_eq!(world.listing(), ["a.txt", "b.txt", "unread.txt"]);
    }
    session
        .apply(changes(json!({ "kind": "delete", "path": "b.txt" })))
        .unwrap();
    world.check_disk("a.txt", "A\n");
    world.check_buffer("open.txt", "O\n");
    assert_eq!(world.listing(), ["a.txt", "new.txt", "unread.txt"]);
}

#[test]
fn each_change_of_a_call_sees_the_result_of_those_before_it() {
    let world = World::new(&[("a.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt", "open.txt"]);
    for path in ["a.txt", "open.txt"] {
        let result = session.apply(json!([
            { "kind": "edit", "path": path, "oldString": "one", "newString": "two" },
            { "kind": "edit", "path": path, "oldString": "two", "newString": "three" },
        ]));
        assert_eq!(result.unwrap()["files"].as_array().map(Vec::len), Some(1));
    }
    session
        .apply(json!([
            { "kind": "rename", "path": "a.txt", "newPath": "b.txt" },
            { "kind": "edit", "path": "b.txt", "oldString": "three", "newString": "four" },
        ]))
        .unwrap();
    world.check_disk("b.txt", "four\n");
    world.check_buffer("open.txt", "three\n");
    assert_eq!(
        world.editor.edits_received().len(),
        1,
        "the edits of one document are one step"
    );
}

#[test]
fn the_failures_of_all_files_are_told() {
    let world = World::new(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
    let session = world.session_that_read("s", &["a.txt", "b.txt", "c.txt"]);
    world.write_disk("a.txt", "A\n");
    world.write_disk("c.txt", "C\n");
    let edit =
        |path: &str| json!({ "kind": "edit", "path": path, "oldString": "x", "newString": "y" });
    let error = refused(
        session.apply(json!([edit("b.txt"), edit("a.txt"), edit("c.txt")])),
        "FS_STALE_VERSION",
    );
    assert_eq!(error.data()["change"], 1, "{error}");
    let failures: Vec<_> = error.data()["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].clone())
        .collect();
    assert_eq!(failures, ["a.txt", "c.txt"]);
}
