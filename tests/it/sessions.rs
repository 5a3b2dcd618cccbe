//! Sessions in full: what hosts can do with what their model has seen.

use abreast::replay::{
    document::Typing,
    editor::{Editor, Options},
    model::Treatment,
    session::Session,
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, check_entry, directory, refused, server, version};

fn observe(session: &Session, params: Value) -> Value {
    session.call("abreast/observe", params).unwrap()
}

fn export(session: &Session) -> Value {
    session
        .call("abreast/ledger", json!({ "export": true }))
        .unwrap()["export"]
        .clone()
}

#[test]
fn forgetting_makes_files_unseen_again() {
    let world = World::new(&[("a.txt", "a\n"), ("b.txt", "b\n"), ("c.txt", "c\n")]);
    let session = world.session_that_read("s", &["a.txt", "b.txt", "c.txt"]);
    let forget =
        |params: Value| session.call("abreast/forget", params).unwrap()["forgotten"].clone();
    assert_eq!(forget(json!({ "paths": ["a.txt", "never-seen.txt"] })), 1);
    check_entry(&session, "a.txt", "unseen", None);
    refused(session.edit("a.txt", "a", "A"), "FS_NOT_OBSERVED");
    refused(session.write("a.txt", "A\n"), "FS_NOT_OBSERVED");
    session.edit("b.txt", "b", "B").unwrap();
    assert_eq!(forget(json!({ "paths": [] })), 0);
    assert_eq!(forget(json!({})), 2);
    assert_eq!(forget(json!({})), 0);
    for path in ["a.txt", "b.txt", "c.txt"] {
        check_entry(&session, path, "unseen", None);
        session.read(path).unwrap();
    }
    session.edit("c.txt", "c", "C").unwrap();
}

#[test]
fn what_the_host_showed_by_other_means_counts_as_seen() {
    let world = World::new(&[("closed.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\n").unwrap();
    let session = world.session("s");
    for path in ["closed.txt", "open.txt"] {
        let entry = observe(&session, json!({ "path": path }));
        assert_eq!(
            (&entry["state"], &entry["status"]),
            (&"present".into(), &"fresh".into())
        );
        assert_eq!(entry["version"], version("one\n"));
        session.edit(path, "one", "1").unwrap();
    }
    let entry = observe(&session, json!({ "path": "none.txt" }));
    assert_eq!(
        (&entry["state"], &entry["status"]),
        (&"absent".into(), &"fresh".into())
    );
    refused(session.edit("none.txt", "a", "b"), "FS_NOT_FOUND");
    session.write("none.txt", "new\n").unwrap();
}

#[test]
fn what_was_seen_can_be_said_by_its_version() {
    let world = World::new(&[("closed.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\n").unwrap();
    let session = world.session("s");
    for path in ["closed.txt", "open.txt"] {
        let entry = observe(
            &session,
            json!({ "path": path, "version": version("older\n") }),
        );
        assert_eq!(
            (&entry["state"], &entry["status"]),
            (&"present".into(), &"stale".into())
        );
        assert_eq!(entry["currentVersion"], version("one\n"));
        refused(session.edit(path, "one", "1"), "FS_STALE_VERSION");
        let entry = observe(
            &session,
            json!({ "path": path, "version": version("one\n") }),
        );
        assert_eq!(entry["status"], "fresh");
        session.edit(path, "one", "1").unwrap();
    }
}

#[test]
fn what_was_seen_can_be_said_by_its_text() {
    let world = World::new(&[("closed.txt", "\u{feff}one\r\ntwo\r\n")]);
    world
        .editor
        .open_with("open.txt", "one\r\ntwo\r\n")
        .unwrap();
    let session = world.session("s");
    for path in ["closed.txt", "open.txt"] {
        let entry = observe(&session, json!({ "path": path, "text": "one\nTWO\n" }));
        assert_eq!(entry["status"], "stale");
        assert_eq!(entry["changedRanges"], json!([[2, 2]]), "{entry}");
        refused(session.edit(path, "one", "1"), "FS_STALE_VERSION");
        // Neither line ends nor a byte order mark are part of what is seen.
        for text in ["one\ntwo\n", "\u{feff}one\r\ntwo\r\n"] {
            let entry = observe(&session, json!({ "path": path, "text": text }));
            assert_eq!(entry["status"], "fresh", "{entry}");
        }
        session.edit(path, "one", "1").unwrap();
    }
}

#[test]
fn what_was_seen_can_be_said_by_the_version_of_the_document() {
    let world = World::new(&[("closed.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\n").unwrap();
    world.editor.types("open.txt", "one", "two").unwrap();
    let session = world.session("s");
    let current = world.editor.lsp_version("open.txt").unwrap();
    let seen = |path: &str, lsp_version: i32| {
        session.call(
            "abreast/observe",
            json!({ "path": path, "documentVersion": lsp_version }),
        )
    };
    assert_eq!(seen("open.txt", current - 1).unwrap()["status"], "stale");
    refused(session.edit("open.txt", "two", "2"), "FS_STALE_VERSION");
    assert_eq!(seen("open.txt", current).unwrap()["status"], "fresh");
    session.edit("open.txt", "two", "2").unwrap();
    refused(seen("open.txt", current + 9), "-32602");
    refused(seen("closed.txt", 1), "-32602");
}

#[test]
fn only_one_of_the_ways_can_say_what_was_seen() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    for params in [
        json!({ "path": "a.txt", "text": "one\n", "version": version("one\n") }),
        json!({ "path": "a.txt", "text": "one\n", "documentVersion": 1 }),
        json!({ "path": "a.txt", "version": "one" }),
        json!({ "path": "a.txt", "version": 5 }),
        json!({ "text": "one\n" }),
    ] {
        refused(session.call("abreast/observe", params), "-32602");
    }
    check_entry(&session, "a.txt", "unseen", None);
}

#[test]
fn a_ledger_outlives_its_session_where_the_content_is_still_the_same() {
    let files = [
        ("same.txt", "same\n"),
        ("changed.txt", "old\n"),
        ("gone.txt", "gone\n"),
        ("touched.txt", "t\n"),
    ];
    let world = World::new(&files);
    world.editor.open_with("open.txt", "open\n").unwrap();
    let session = world.session_that_read(
        "s",
        &[
            "same.txt",
            "changed.txt",
            "gone.txt",
            "touched.txt",
            "open.txt",
        ],
    );
    for path in ["absent.txt", "appeared.txt"] {
        refused(session.read(path), "FS_NOT_FOUND");
    }
    let ledger = export(&session);
    assert_eq!(ledger["version"], 1);
    assert_eq!(
        ledger["entries"].as_array().map(Vec::len),
        Some(7),
        "{ledger}"
    );
    session.close().unwrap();

    world.write_disk("changed.txt", "new\n");
    world.write_disk("touched.txt", "t\n");
    world.write_disk("appeared.txt", "here\n");
    std::fs::remove_file(world.root().join("gone.txt")).unwrap();
    let params = json!({ "sessionId": "again", "cwd": world.root(), "ledger": ledger });
    let opened = world.editor.call("abreast/openSession", params).unwrap();
    assert_eq!(
        (&opened["revalidated"], &opened["dropped"]),
        (&4.into(), &3.into()),
        "{opened}"
    );
    // Opened again with the same parameters, it is the same.
    let session = world
        .editor
        .session_with("again", json!({ "ledger": ledger }))
        .unwrap();
    for path in ["same.txt", "touched.txt", "open.txt"] {
        check_entry(&session, path, "present", Some("fresh"));
    }
    check_entry(&session, "absent.txt", "absent", Some("fresh"));
    for path in ["changed.txt", "gone.txt", "appeared.txt"] {
        check_entry(&session, path, "unseen", None);
    }
    session.edit("same.txt", "same", "edited").unwrap();
    session.edit("open.txt", "open", "edited").unwrap();
    session.write("absent.txt", "created\n").unwrap();
    refused(session.edit("changed.txt", "new", "x"), "FS_NOT_OBSERVED");
    refused(session.write("appeared.txt", "x\n"), "FS_NOT_OBSERVED");
}

#[test]
fn a_ledger_outlives_the_server() {
    let (_directory, root) = directory();
    std::fs::write(root.join("a.txt"), "one\n").unwrap();
    let options = Options::new(server(), &root);
    let ledger = {
        let editor = Editor::start(&options).unwrap();
        let session = editor.session("s").unwrap();
        session.read("a.txt").unwrap();
        export(&session)
    };
    let editor = Editor::start(&options).unwrap();
    let session = editor
        .session_with("s", json!({ "ledger": ledger }))
        .unwrap();
    session.edit("a.txt", "one", "1").unwrap();
}

#[test]
fn a_ledger_that_cannot_be_read_opens_no_session() {
    let world = World::new(&[]);
    for ledger in [
        json!({ "version": 2, "entries": [] }),
        json!({ "entries": [] }),
        json!({ "version": 1, "entries": [{ "path": "a", "state": "perhaps" }] }),
        json!({ "version": 1, "entries": [{ "path": "a", "state": "present", "version": "v7" }] }),
    ] {
        let opened = world.editor.session_with("s", json!({ "ledger": ledger }));
        refused(opened, "-32602");
        let read = world
            .editor
            .call("abreast/read", json!({ "sessionId": "s", "path": "a" }));
        refused(read, "UNKNOWN_SESSION");
    }
    // What cannot be resolved is dropped, like what has changed.
    let entries =
        json!([{ "path": "", "state": "absent" }, { "path": "C:\\x", "state": "absent" }]);
    let params = json!({ "sessionId": "s", "ledger": { "version": 1, "entries": entries } });
    let opened = world.editor.call("abreast/openSession", params).unwrap();
    assert_eq!(
        (&opened["revalidated"], &opened["dropped"]),
        (&0.into(), &2.into())
    );
}

#[test]
fn each_session_has_its_own_options_over_those_of_the_server() {
    let world = World::with(&[("a.txt", "one\ntwo\n")], |options| {
        options.initialization_options =
            json!({ "writeCoverage": "full", "staleRecovery": "reread" });
    });
    let open = |id: &str, options: Value| {
        world
            .editor
            .call(
                "abreast/openSession",
                json!({ "sessionId": id, "options": options, "cwd": world.root() }),
            )
            .unwrap()["options"]
            .clone()
    };
    let full = open("full", json!({}));
    let expected = json!({
        "policy": "observe", "freshness": "file", "staleRecovery": "reread",
        "writeCoverage": "full", "unicodeFallback": false, "save": "never",
    });
    assert_eq!(full, expected);
    assert_eq!(
        open("any", json!({ "writeCoverage": "any" }))["writeCoverage"],
        "any"
    );
    assert_eq!(open("off", json!({ "policy": "off" }))["policy"], "off");
    // Lua's empty table.
    assert_eq!(open("empty", json!([])), expected);

    let write = |id: &str| {
        let read = json!({ "sessionId": id, "path": "a.txt", "limit": 1 });
        world.editor.call("abreast/read", read).unwrap();
        let write = json!({ "sessionId": id, "path": "a.txt", "content": "one\ntwo\n" });
        world.editor.call("abreast/write", write)
    };
    refused(write("full"), "FS_COVERAGE");
    write("any").unwrap();
    let edit = json!({ "sessionId": "off", "path": "a.txt", "oldString": "two", "newString": "2" });
    world.editor.call("abreast/edit", edit).unwrap();
}

#[test]
fn wrong_options_of_a_session_are_refused_by_name_and_unknown_ones_are_reported() {
    let world = World::new(&[]);
    for (name, value) in [
        ("policy", json!("loud")),
        ("freshness", json!(1)),
        ("staleRecovery", json!(true)),
        ("writeCoverage", json!("most")),
        ("unicodeFallback", json!("yes")),
        ("save", json!("sometimes")),
    ] {
        let opened = world
            .editor
            .session_with("s", json!({ "options": { name: value } }));
        let error = refused(opened, "-32602");
        assert!(error.message().contains(name), "{error}");
    }
    refused(
        world.editor.session_with("s", json!({ "options": "none" })),
        "-32602",
    );
    world
        .editor
        .session_with("s", json!({ "options": { "polcy": "off" } }))
        .unwrap();
    let told = world
        .editor
        .connection()
        .wait_for_notification(PATIENCE, |it| {
            it.method == "window/logMessage"
                && it.params["message"]
                    .as_str()
                    .is_some_and(|it| it.contains("polcy"))
        });
    assert!(told.is_some());
}

/// Sends calls of one turn without waiting, and returns what became of them.
fn in_turn(session: &Session, turn: Option<u64>, calls: &[(&str, Value)]) -> Vec<Option<String>> {
    let pending: Vec<_> = calls
        .iter()
        .map(|(method, params)| {
            let mut params = params.clone();
            if let Some(turn) = turn {
                params["turn"] = turn.into();
            }
            session.start(&format!("abreast/{method}"), params)
        })
        .collect();
    pending
        .into_iter()
        .map(|it| it.wait(PATIENCE).err().map(|it| it.code()))
        .collect()
}

fn path(path: &str) -> Value {
    json!({ "path": path })
}

fn write(path: &str) -> Value {
    json!({ "path": path, "content": "written\n" })
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({ "path": path, "oldString": old, "newString": new })
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "it stands beside `None`, a success"
)]
fn code(code: &str) -> Option<String> {
    Some(code.to_string())
}

#[test]
fn a_model_cannot_write_what_it_reads_in_the_same_turn() {
    let world = World::new(&[("closed.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\n").unwrap();
    for file in ["closed.txt", "open.txt"] {
        let session = world.session(file);
        let calls = [("read", path(file)), ("write", write(file))];
        assert_eq!(
            in_turn(&session, Some(1), &calls),
            [None, code("FS_NOT_OBSERVED")]
        );
        let calls = [("read", path(file)), ("edit", edit(file, "one", "1"))];
        assert_eq!(
            in_turn(&session, Some(1), &calls),
            [None, code("FS_NOT_OBSERVED")]
        );
        assert_eq!(session.read(file).unwrap()["text"], "one\n");
    }
    for file in ["closed.txt", "open.txt"] {
        let session = world.session(&format!("next {file}"));
        assert_eq!(in_turn(&session, Some(1), &[("read", path(file))]), [None]);
        assert_eq!(
            in_turn(&session, Some(2), &[("write", write(file))]),
            [None]
        );
        assert_eq!(session.read(file).unwrap()["text"], "written\n");
    }
}

#[test]
fn without_turns_the_order_of_arrival_decides() {
    let world = World::new(&[("closed.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\n").unwrap();
    for file in ["closed.txt", "open.txt"] {
        let session = world.session(file);
        let calls = [("read", path(file)), ("write", write(file))];
        assert_eq!(in_turn(&session, None, &calls), [None, None]);
        let session = world.session(&format!("the other way round {file}"));
        let calls = [("write", write(file)), ("read", path(file))];
        assert_eq!(
            in_turn(&session, None, &calls),
            [code("FS_NOT_OBSERVED"), None]
        );
    }
}

#[test]
fn what_was_seen_before_the_turn_stays_the_authority_in_it() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one\n").unwrap();
    let session = world.session("s");
    assert_eq!(
        in_turn(&session, Some(1), &[("read", path("a.txt"))]),
        [None]
    );
    world.editor.types("a.txt", "one", "two").unwrap();
    let calls = [
        ("read", path("a.txt")),
        ("read", path("a.txt")),
        ("edit", edit("a.txt", "two", "2")),
    ];
    assert_eq!(
        in_turn(&session, Some(2), &calls),
        [None, None, code("FS_STALE_VERSION")]
    );
    assert_eq!(
        in_turn(&session, Some(3), &[("edit", edit("a.txt", "two", "2"))]),
        [None]
    );

    // Read again without a change: the older entry is as good.
    let calls = [("read", path("a.txt")), ("edit", edit("a.txt", "2", "3"))];
    assert_eq!(in_turn(&session, Some(4), &calls), [None, None]);
}

#[test]
fn own_changes_of_a_turn_count_at_once() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    assert_eq!(
        in_turn(&session, Some(1), &[("read", path("a.txt"))]),
        [None]
    );
    let calls = [
        ("edit", edit("a.txt", "one", "two")),
        ("edit", edit("a.txt", "two", "three")),
        ("write", write("new.txt")),
        ("edit", edit("new.txt", "written", "edited")),
        ("read", path("a.txt")),
        ("edit", edit("a.txt", "three", "four")),
    ];
    assert_eq!(
        in_turn(&session, Some(2), &calls),
        [None, None, None, None, None, None]
    );
    world.check_disk("a.txt", "four\n");
}

#[test]
fn what_is_observed_or_found_missing_in_a_turn_counts_from_the_next_one_on() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    let calls = [
        ("observe", path("a.txt")),
        ("edit", edit("a.txt", "one", "1")),
    ];
    assert_eq!(
        in_turn(&session, Some(5), &calls),
        [None, code("FS_NOT_OBSERVED")]
    );
    assert_eq!(
        in_turn(&session, Some(6), &[("edit", edit("a.txt", "one", "1"))]),
        [None]
    );
    let calls = [
        ("read", path("none.txt")),
        ("edit", edit("none.txt", "a", "b")),
    ];
    let expected = [code("FS_NOT_FOUND"), code("FS_NOT_OBSERVED")];
    assert_eq!(in_turn(&session, Some(7), &calls), expected);
    let calls = [
        ("edit", edit("none.txt", "a", "b")),
        ("write", write("none.txt")),
    ];
    assert_eq!(
        in_turn(&session, Some(8), &calls),
        [code("FS_NOT_FOUND"), None]
    );
}

#[test]
fn all_changes_of_one_call_are_of_its_turn() {
    let world = World::new(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    let session = world.session("s");
    assert_eq!(
        in_turn(&session, Some(1), &[("read", path("a.txt"))]),
        [None]
    );
    let changes = json!({ "changes": [
        { "kind": "edit", "path": "a.txt", "oldString": "one", "newString": "1" },
        { "kind": "delete", "path": "b.txt" },
    ] });
    let calls = [("read", path("b.txt")), ("apply", changes.clone())];
    assert_eq!(
        in_turn(&session, Some(2), &calls),
        [None, code("FS_NOT_OBSERVED")]
    );
    world.check_disk("a.txt", "one\n");
    assert_eq!(in_turn(&session, Some(3), &[("apply", changes)]), [None]);
}

#[test]
fn an_edit_tells_the_editor_whose_it_is() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    let mut params = edit("a.txt", "one", "two");
    params["callId"] = "call 7".into();
    session.call("abreast/edit", params).unwrap();
    let changes =
        json!([{ "kind": "edit", "path": "a.txt", "oldString": "two", "newString": "three" }]);
    let params = json!({ "changes": changes, "callId": "call 8", "label": "rename it" });
    session.call("abreast/apply", params).unwrap();
    let edits = world.editor.edits_received();
    assert_eq!(edits[0]["abreast"]["sessionId"], "s");
    assert_eq!(edits[0]["abreast"]["callId"], "call 7");
    assert_eq!(edits[1]["abreast"]["callId"], "call 8");
    assert_eq!(edits[1]["abreast"]["label"], "rename it");
}

#[test]
fn a_session_without_an_id_gets_one_of_its_own() {
    let world = World::new(&[("a.txt", "one\n")]);
    let open = || {
        let opened = world.editor.call("abreast/openSession", json!({})).unwrap();
        opened["sessionId"].as_str().unwrap().to_string()
    };
    let (first, second) = (open(), open());
    assert_ne!(first, second);
    let read = json!({ "sessionId": first, "path": "a.txt" });
    world.editor.call("abreast/read", read).unwrap();
    let edit = |id: &str| {
        let params =
            json!({ "sessionId": id, "path": "a.txt", "oldString": "one", "newString": "1" });
        world.editor.call("abreast/edit", params)
    };
    refused(edit(&second), "FS_NOT_OBSERVED");
    edit(&first).unwrap();
}

#[test]
fn closing_aborts_what_waits_and_lets_what_was_sent_complete() {
    let world = World::new(&[("b.txt", "b\n")]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt", "b.txt"]);
    let other = world.session_that_read("other", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let sent = session.start_edit("a.txt", "one", "1");
    assert!(world.editor.wait_for_held(1));
    let waiting = session.start_edit("a.txt", "two", "2");
    let of_other = other.start_edit("a.txt", "two", "II");
    let closing = session.start("abreast/closeSession", json!({}));
    closing.wait(PATIENCE).unwrap();
    let error = refused(waiting.wait(PATIENCE), "FS_ABORTED");
    assert_eq!(error.refusal().unwrap().rpc_code, -32800);
    refused(session.edit("b.txt", "b", "B"), "UNKNOWN_SESSION");
    refused(session.clone().close(), "UNKNOWN_SESSION");

    // Another conversation under the same id inherits nothing, and what was sent is not its own.
    let again = world.session("s");
    world.editor.release(Treatment::Honest);
    sent.wait(PATIENCE).unwrap();
    refused(of_other.wait(PATIENCE), "FS_STALE_VERSION");
    world.check_buffer("a.txt", "1 two\n");
    for path in ["a.txt", "b.txt"] {
        check_entry(&again, path, "unseen", None);
    }
    refused(again.edit("a.txt", "two", "2"), "FS_NOT_OBSERVED");
}

#[test]
fn an_edit_that_the_editor_refused_is_not_tried_again_for_another_session_of_the_same_id() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let sent = session.start_edit("a.txt", "one", "1");
    assert!(world.editor.wait_for_held(1));
    session.close().unwrap();
    world.session_that_read("s", &["a.txt"]);
    // Typed and deleted again: the guard would hold.
    let typings = [
        Typing::at([0, 0], [0, 0], "x"),
        Typing::at([0, 0], [0, 1], ""),
    ];
    world.editor.release(Treatment::TypeFirst(typings.to_vec()));
    // It was sent, so it is not aborted.
    refused(sent.wait(PATIENCE), "FS_EDITOR_REJECTED");
    world.check_buffer("a.txt", "one two\n");
    assert_eq!(world.editor.edits_received().len(), 1);
}

#[test]
fn a_read_of_a_closed_session_observes_nothing_for_its_successor() {
    let world = World::new(&[("a.txt", "one\n")]);
    for _ in 0..20 {
        let session = world.session("s");
        let read = session.start("abreast/read", path("a.txt"));
        let closed = session.start("abreast/closeSession", json!({}));
        let again = world.session("s");
        closed.wait(PATIENCE).unwrap();
        if let Err(error) = read.wait(PATIENCE) {
            assert_eq!(error.code(), "FS_ABORTED", "{error}");
        }
        check_entry(&again, "a.txt", "unseen", None);
        again.close().unwrap();
    }
}

#[test]
fn opening_and_closing_sessions_is_told() {
    let world = World::new(&[]);
    let told = || {
        let is_wanted =
            |it: &abreast::replay::client::Notification| it.method == "abreast/sessionsChanged";
        world
            .editor
            .connection()
            .wait_for_notification(PATIENCE, is_wanted)
            .is_some()
    };
    let session = world.session("s");
    assert!(told());
    session.close().unwrap();
    assert!(told());
}

#[test]
fn relative_paths_are_relative_to_the_directory_of_the_session() {
    let world = World::new(&[("a.txt", "top\n"), ("sub/a.txt", "below\n")]);
    let sub = world.root().join("sub");
    let uri = world.editor.uri("sub");
    for (id, params, expected) in [
        (
            "path",
            json!({ "sessionId": "path", "cwd": sub }),
            "below\n",
        ),
        ("uri", json!({ "sessionId": "uri", "cwd": uri }), "below\n"),
        ("none", json!({ "sessionId": "none" }), "top\n"),
    ] {
        world.editor.call("abreast/openSession", params).unwrap();
        let read = world
            .editor
            .call("abreast/read", json!({ "sessionId": id, "path": "a.txt" }))
            .unwrap();
        assert_eq!(read["text"], expected, "{id}");
        assert_eq!(read["path"], "a.txt");
    }
    for cwd in ["sub", "", "untitled:1", "C:\\x"] {
        refused(
            world.editor.session_with("s", json!({ "cwd": cwd })),
            "-32602",
        );
    }
}

#[test]
fn a_turn_that_is_no_number_is_refused() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    for turn in [json!("1"), json!(-1), json!(1.5), json!([])] {
        let params = json!({ "path": "a.txt", "turn": turn });
        refused(session.call("abreast/read", params), "-32602");
    }
    let edit = json!({ "path": "a.txt", "oldString": "one", "newString": "1", "callId": 7 });
    refused(session.call("abreast/edit", edit), "-32602");
}
