//! Editors: how they refuse, delay, merge and lie, and what the agent is told.

use std::time::{Duration, Instant};

use abreast::replay::{
    document::Typing,
    model::{Echo, Treatment},
    session::Session,
};
use serde_json::{Value, json};

use crate::support::{World, check_entry, refused, version};

const PATIENCE: Duration = Duration::from_secs(20);

/// An open `a.txt` with a text, and a session that has read it.
fn open(text: &str) -> (World, Session) {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", text).unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    (world, session)
}

#[test]
fn an_edit_is_minimal_versioned_and_says_what_it_means() {
    let (world, session) = open("one\r\ntwo\r\nthree\r\n");
    session
        .edit("a.txt", "one\ntwo\nthree", "one\n2\nthree")
        .unwrap();
    let sent = &world.editor.edits_received()[0];
    let change = &sent["edit"]["documentChanges"][0];
    assert_eq!(
        change["textDocument"],
        json!({ "uri": world.editor.uri("a.txt"), "version": 1 })
    );
    let edits = change["edits"].as_array().unwrap();
    let range = |start, end| {
        let place = |character| json!({ "line": 1, "character": character });
        json!({ "start": place(start), "end": place(end) })
    };
    assert_eq!(edits.len(), 1, "{sent}");
    assert_eq!(
        (&edits[0]["range"], &edits[0]["newText"]),
        (&range(0, 3), &"2".into())
    );
    let abreast = &sent["abreast"];
    let document = &abreast["documents"][0];
    assert_eq!(document["uri"], change["textDocument"]["uri"]);
    assert_eq!(
        (&document["instance"], &document["oldTexts"]),
        (&1.into(), &json!(["two"]))
    );
    assert_eq!(abreast["sessionId"], "s");
    assert!(abreast["deadline"].as_u64().is_some(), "{abreast}");
}

#[test]
fn an_edit_says_where_its_text_is_now() {
    let (_world, session) = open("one two\n");
    let result = session.edit("a.txt", "two", "2\n3").unwrap();
    let file = &result["files"][0];
    let expected = json!({
        "operation": "update", "via": "editor", "outcome": "applied", "replacements": 1, "dirty": true,
        "version": version("one 2\n3\n"), "previousVersion": version("one two\n"),
    });
    for (member, expected) in expected.as_object().unwrap() {
        assert_eq!(&file[member], expected, "{member} of {file}");
    }
    let hunk = &file["hunks"][0];
    assert_eq!(hunk["lines"], json!(["-one two", "+one 2", "+3"]), "{hunk}");
    assert_eq!(
        file["ranges"][0]["start"],
        json!({ "line": 0, "character": 4 }),
        "{file}"
    );
    assert_eq!(
        file["ranges"][0]["end"],
        json!({ "line": 1, "character": 1 }),
        "{file}"
    );
}

#[test]
fn a_refusal_because_the_human_typed_is_stale_and_says_who() {
    let (world, session) = open("one\ntwo\n");
    world.editor.order(Treatment::TypeFirst(vec![Typing::at(
        [0, 0],
        [0, 3],
        "ONE",
    )]));
    let error = refused(session.edit("a.txt", "two", "2"), "FS_STALE_VERSION");
    assert!(error.message().contains("by the user"), "{error}");
    assert_eq!(error.data()["changedRanges"], json!([[1, 1]]), "{error}");
    world.check_buffer("a.txt", "ONE\ntwo\n");
}

#[test]
fn a_refusal_though_nothing_moved_is_told_at_once_with_its_reason() {
    let (world, session) = open("one\n");
    world.editor.order(Treatment::Reject);
    let error = refused(session.edit("a.txt", "one", "1"), "FS_EDITOR_REJECTED");
    assert!(
        error.message().contains("the editor does not want to"),
        "{error}"
    );
    assert_eq!(world.editor.edits_received().len(), 1);
    check_entry(&session, "a.txt", "present", Some("fresh"));
}

#[test]
fn what_was_typed_and_deleted_while_the_edit_was_out_makes_it_try_again() {
    let (world, session) = open("one two\n");
    let typed_and_deleted = vec![
        Typing::at([0, 0], [0, 0], "x"),
        Typing::at([0, 0], [0, 1], ""),
    ];
    for _ in 0..3 {
        world
            .editor
            .order(Treatment::TypeFirst(typed_and_deleted.clone()));
    }
    session.edit("a.txt", "two", "2").unwrap();
    world.check_buffer("a.txt", "one 2\n");
    assert_eq!(
        world.editor.edits_received().len(),
        4,
        "three are refused silently, the fourth lands"
    );
}

#[test]
fn trying_again_has_an_end() {
    let (world, session) = open("one two\n");
    let typed_and_deleted = vec![
        Typing::at([0, 0], [0, 0], "x"),
        Typing::at([0, 0], [0, 1], ""),
    ];
    for _ in 0..4 {
        world
            .editor
            .order(Treatment::TypeFirst(typed_and_deleted.clone()));
    }
    assert!(session.edit("a.txt", "two", "2").is_err());
    world.check_buffer("a.txt", "one two\n");
    session.edit("a.txt", "two", "2").unwrap();
}

#[test]
fn typing_elsewhere_moves_the_edit_and_not_its_place() {
    let (world, session) = open("one\ntwo\n");
    world.editor.types("a.txt", "one", "zero\none").unwrap();
    session.read("a.txt").unwrap();
    session.edit("a.txt", "two", "2").unwrap();
    world.check_buffer("a.txt", "zero\none\n2\n");
}

#[test]
fn an_editor_that_says_applied_and_did_nothing_is_not_believed() {
    let (world, session) = open("one\n");
    world.editor.order(Treatment::DropSilently);
    refused(session.edit("a.txt", "one", "1"), "FS_UNVERIFIED");
    check_entry(&session, "a.txt", "unseen", None);
    session.read("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();
    // It may have been the text here that was another one.
    let uri = world.editor.uri("a.txt");
    let asked = world.editor.syncs_received();
    assert!(
        asked.iter().any(|it| it["full"] == json!([uri])),
        "{asked:?}"
    );
}

#[test]
fn an_edit_that_is_never_told_is_no_success() {
    let (world, session) = open("one\n");
    world.editor.order(Treatment::Echo(Echo::Never));
    let error = session
        .edit("a.txt", "one", "1")
        .expect_err("nobody knows what the buffer has");
    assert!(
        ["FS_UNVERIFIED", "FS_EDITOR_TIMEOUT"].contains(&error.code().as_str()),
        "{error}"
    );
    check_entry(&session, "a.txt", "unseen", None);
}

#[test]
fn a_write_of_what_is_there_succeeds_without_touching_anything() {
    let (world, session) = open("one\r\n");
    world.write_disk("closed.txt", "one\r\n");
    session.read("closed.txt").unwrap();
    for path in ["a.txt", "closed.txt"] {
        let result = session.write(path, "one\n").unwrap();
        assert_eq!(result["files"][0]["hunks"], json!([]), "{result}");
        check_entry(&session, path, "present", Some("fresh"));
    }
    assert_eq!(world.editor.edits_received(), Vec::<Value>::new());
    assert_eq!(world.editor.lsp_version("a.txt"), Some(1));
    world.check_disk("closed.txt", "one\r\n");
}

#[test]
fn an_echo_may_come_before_or_after_the_answer_whole_or_in_pieces() {
    for echo in [
        None,
        Some(Echo::AfterAnswer),
        Some(Echo::Split),
        Some(Echo::Whole),
    ] {
        let (world, session) = open("one\r\ntwo\r\nthree\r\n");
        if let Some(echo) = &echo {
            world.editor.order(Treatment::Echo(echo.clone()));
        }
        let result = session.apply(json!([
            { "kind": "edit", "path": "a.txt", "oldString": "one", "newString": "1\n1" },
            { "kind": "edit", "path": "a.txt", "oldString": "three\n", "newString": "" },
        ]));
        let result = result.unwrap_or_else(|it| panic!("{echo:?}: {it}"));
        assert_eq!(
            result["files"][0]["version"],
            version("1\n1\ntwo\n"),
            "{echo:?}"
        );
        world.check_buffer("a.txt", "1\r\n1\r\ntwo\r\n");
        check_entry(&session, "a.txt", "present", Some("fresh"));
        session.edit("a.txt", "two", "2").unwrap();
    }
}

#[test]
fn an_edit_merged_with_typing_has_landed_and_the_typing_is_the_humans() {
    let (world, session) = open("one\ntwo\nthree\n");
    world
        .editor
        .order(Treatment::Echo(Echo::Merged(vec![Typing::at(
            [2, 0],
            [2, 5],
            "THREE",
        )])));
    let result = session.edit("a.txt", "one", "1").unwrap();
    assert_eq!(result["files"][0]["version"], version("1\ntwo\nthree\n"));
    world.check_buffer("a.txt", "1\ntwo\nTHREE\n");
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["changedBy"], json!([{ "kind": "human" }]), "{entry}");
    assert_eq!(entry["changedRanges"], json!([[3, 3]]), "{entry}");
}

#[test]
fn an_edit_that_the_human_typed_over_at_once_had_landed_if_it_is_told() {
    let (world, session) = open("one\ntwo\n");
    world
        .editor
        .order(Treatment::Echo(Echo::Merged(vec![Typing::whole("mine\n")])));
    let result = session.edit("a.txt", "one", "1").unwrap();
    assert_eq!(result["files"][0]["version"], version("1\ntwo\n"));
    world.check_buffer("a.txt", "mine\n");
    check_entry(&session, "a.txt", "present", Some("stale"));
    refused(session.edit("a.txt", "mine", "ours"), "FS_STALE_VERSION");
}

#[test]
fn an_edit_that_the_human_typed_over_before_it_was_told_is_no_success() {
    let (world, session) = open("one\ntwo\n");
    world
        .editor
        .order(Treatment::Echo(Echo::Overwritten("mine\n".to_string())));
    refused(session.edit("a.txt", "one", "1"), "FS_UNVERIFIED");
    world.check_buffer("a.txt", "mine\n");
    session.read("a.txt").unwrap();
    session.edit("a.txt", "mine", "ours").unwrap();
}

#[test]
fn an_editor_that_does_not_answer_leaves_the_document_unknown_until_it_does() {
    let world = World::with(&[], |options| options.character.ignores_deadline = true);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let started = Instant::now();
    refused(session.edit("a.txt", "two", "2"), "FS_EDITOR_TIMEOUT");
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "{:?}",
        started.elapsed()
    );

    // It lands after all; it is the session's own, so nothing needs to be read again.
    world.editor.release(Treatment::Honest);
    let told = world
        .editor
        .connection()
        .wait_for_notification(PATIENCE, |it| {
            it.method == "abreast/ledgerChanged"
                && it.params["entries"][0]["version"] == version("one 2\n")
        });
    assert!(
        told.is_some(),
        "the late outcome is told: {:?}",
        world.editor.connection().take_notifications()
    );
    check_entry(&session, "a.txt", "present", Some("fresh"));
    session.edit("a.txt", "one", "1").unwrap();
    world.check_buffer("a.txt", "1 2\n");
}

#[test]
fn an_unknown_document_is_settled_by_a_late_refusal() {
    let (world, session) = open("one two\n");
    world.editor.order(Treatment::Hold);
    refused(session.edit("a.txt", "two", "2"), "FS_EDITOR_TIMEOUT");
    // A strict editor refuses what comes after its deadline.
    world.editor.release(Treatment::Honest);
    session.edit("a.txt", "two", "II").unwrap();
    world.check_buffer("a.txt", "one II\n");
}

#[test]
fn a_large_document_with_an_unanswered_edit_can_be_edited_once_a_barrier_has_settled_it() {
    let rest = "line\n".repeat(100_000);
    let (world, session) = open(&format!("one two\n{rest}"));
    world.editor.order(Treatment::Hold);
    refused(session.edit("a.txt", "two", "2"), "FS_EDITOR_TIMEOUT");
    session.edit("a.txt", "two", "II").unwrap();
    world.check_buffer("a.txt", &format!("one II\n{rest}"));
}

#[test]
fn closing_the_document_while_an_edit_is_out_makes_it_stale() {
    let (world, session) = open("one\n");
    world.write_disk("a.txt", "other\n");
    world.editor.order(Treatment::Hold);
    let pending = session.start_edit("a.txt", "one", "1");
    assert!(world.editor.wait_for_held(1));
    world.editor.close("a.txt").unwrap();
    world.editor.release(Treatment::Honest);
    refused(pending.wait(PATIENCE), "FS_STALE_VERSION");
    world.check_disk("a.txt", "other\n");
    assert_eq!(session.read("a.txt").unwrap()["text"], "other\n");
}

#[test]
fn reloading_the_document_while_an_edit_is_out_makes_it_stale() {
    let (world, session) = open("one\n");
    world.editor.order(Treatment::Hold);
    let pending = session.start_edit("a.txt", "one", "1");
    assert!(world.editor.wait_for_held(1));
    world.editor.close("a.txt").unwrap();
    // The same version with another text, as Neovim does it.
    world.editor.open_with("a.txt", "one more\n").unwrap();
    world.editor.release(Treatment::Honest);
    refused(pending.wait(PATIENCE), "FS_STALE_VERSION");
    world.check_buffer("a.txt", "one more\n");
    session.read("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();
}

#[test]
fn a_file_opened_after_the_read_is_edited_in_the_editor() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.open("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();
    world.check_buffer("a.txt", "1\n");
    world.check_disk("a.txt", "one\n");
}

#[test]
fn a_barrier_is_asked_for_before_reads_and_edits_of_open_documents_only() {
    let world = World::new(&[("closed.txt", "c\n")]);
    world.editor.open_with("a.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["closed.txt"]);
    session.edit("closed.txt", "c", "C").unwrap();
    assert_eq!(world.editor.syncs_received(), Vec::<Value>::new());
    session.read("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();
    let asked = world.editor.syncs_received();
    assert!(asked.len() >= 2, "{asked:?}");
    assert!(
        asked
            .iter()
            .all(|it| it["uris"] == json!([world.editor.uri("a.txt")])),
        "{asked:?}"
    );
}

#[test]
fn an_editor_without_a_barrier_is_asked_for_none() {
    let world = World::without_sync(&[]);
    world.editor.open_with("a.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    session.edit("a.txt", "one", "1").unwrap();
    assert_eq!(world.editor.syncs_received(), Vec::<Value>::new());
}

#[test]
fn open_documents_of_an_editor_that_cannot_refuse_are_not_edited() {
    let world = World::stock(&[("open.txt", "one\n"), ("closed.txt", "one\n")], |_| {});
    world.editor.open("open.txt").unwrap();
    world.editor.types("open.txt", "one", "two").unwrap();
    let session = world.session_that_read("s", &["closed.txt"]);
    assert_eq!(session.read("open.txt").unwrap()["text"], "two\n");
    let error = refused(
        session.edit("open.txt", "two", "2"),
        "FS_UNSUPPORTED_CLIENT",
    );
    assert!(
        error.data()["remedy"]
            .as_str()
            .is_some_and(|it| it.contains("close")),
        "{error}"
    );
    refused(session.write("open.txt", "2\n"), "FS_UNSUPPORTED_CLIENT");
    let both = json!([
        { "kind": "edit", "path": "closed.txt", "oldString": "one", "newString": "1" },
        { "kind": "edit", "path": "open.txt", "oldString": "two", "newString": "2" },
    ]);
    refused(session.apply(both), "FS_UNSUPPORTED_CLIENT");
    world.check_disk("closed.txt", "one\n");
    session.edit("closed.txt", "one", "1").unwrap();
    assert_eq!(world.editor.edits_received(), Vec::<Value>::new());
}

#[test]
fn a_trusted_editor_is_sent_one_open_document_per_call() {
    let world = World::stock(&[("closed.txt", "c\n")], |options| {
        options.initialization_options = json!({ "trustClient": true });
        options.client = json!({ "capabilities": { "workspace": { "workspaceEdit": { "failureHandling": "abort" } } } });
    });
    for path in ["a.txt", "b.txt"] {
        world.editor.open_with(path, "one\n").unwrap();
    }
    let session = world.session_that_read("s", &["a.txt", "b.txt", "closed.txt"]);
    let edit = |path: &str, old: &str| json!({ "kind": "edit", "path": path, "oldString": old, "newString": "1" });
    refused(
        session.apply(json!([edit("a.txt", "one"), edit("b.txt", "one")])),
        "FS_UNSUPPORTED_CLIENT",
    );
    world.check_buffer("a.txt", "one\n");
    session
        .apply(json!([edit("a.txt", "one"), edit("closed.txt", "c")]))
        .unwrap();
    world.check_buffer("a.txt", "1\n");
    world.check_disk("closed.txt", "1\n");
    let sent = world.editor.edits_received();
    assert_eq!(
        sent[0]["edit"]["documentChanges"][0]["textDocument"]["version"],
        1
    );
}

#[test]
fn a_trusted_editor_with_transactions_is_sent_several_open_documents() {
    let world = World::stock(&[], |options| {
        options.initialization_options = json!({ "trustClient": true });
    });
    for path in ["a.txt", "b.txt"] {
        world.editor.open_with(path, "one\n").unwrap();
    }
    let session = world.session_that_read("s", &["a.txt", "b.txt"]);
    let edit =
        |path: &str| json!({ "kind": "edit", "path": path, "oldString": "one", "newString": "1" });
    session
        .apply(json!([edit("a.txt"), edit("b.txt")]))
        .unwrap();
    world.check_buffer("a.txt", "1\n");
    world.check_buffer("b.txt", "1\n");
}

#[test]
fn a_trusted_editor_is_believed_only_after_its_echo() {
    let world = World::stock(&[], |options| {
        options.initialization_options = json!({ "trustClient": true });
    });
    world.editor.open_with("a.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::DropSilently);
    refused(session.edit("a.txt", "one", "1"), "FS_UNVERIFIED");
    session.read("a.txt").unwrap();
    world.editor.order(Treatment::Echo(Echo::AfterAnswer));
    session.edit("a.txt", "one", "1").unwrap();
}

#[test]
fn several_open_documents_change_in_one_step_or_not_at_all() {
    let world = World::new(&[("closed.txt", "one\n")]);
    for path in ["a.txt", "b.txt"] {
        world.editor.open_with(path, "one\n").unwrap();
    }
    let session = world.session_that_read("s", &["a.txt", "b.txt", "closed.txt"]);
    let edit =
        |path: &str| json!({ "kind": "edit", "path": path, "oldString": "one", "newString": "1" });
    let all = json!([edit("a.txt"), edit("b.txt"), edit("closed.txt")]);
    world.editor.order(Treatment::TypeFirst(vec![Typing::at(
        [0, 0],
        [0, 0],
        "typed ",
    )]));
    refused(session.apply(all.clone()), "FS_STALE_VERSION");
    world.check_buffer("b.txt", "one\n");
    world.check_disk("closed.txt", "one\n");
    session.read("a.txt").unwrap();
    session.apply(all).unwrap();
    world.check_buffer("a.txt", "typed 1\n");
    world.check_buffer("b.txt", "1\n");
    world.check_disk("closed.txt", "1\n");
    assert_eq!(world.editor.edits_received().len(), 2);
}

#[test]
fn a_buffer_that_is_read_only_or_in_conflict_is_left_alone() {
    let (world, session) = open("one\n");
    let state = |params: Value| {
        let mut all = json!({ "uri": world.editor.uri("a.txt") });
        for (member, value) in params.as_object().unwrap() {
            all[member] = value.clone();
        }
        world
            .editor
            .connection()
            .notify("abreast/documentState", all);
    };
    for (member, code) in [("readOnly", "FS_READ_ONLY"), ("conflict", "FS_CONFLICT")] {
        state(json!({ member: true }));
        refused(session.edit("a.txt", "one", "1"), code);
        assert_eq!(session.read("a.txt").unwrap()["text"], "one\n");
        state(json!({ member: false }));
    }
    session.edit("a.txt", "one", "1").unwrap();
}

#[test]
fn a_file_that_is_open_without_being_sent_is_not_written() {
    let world = World::new(&[("big.txt", "one\n")]);
    let session = world.session_that_read("s", &["big.txt"]);
    let uri = world.editor.uri("big.txt");
    world.editor.connection().notify(
        "abreast/documentState",
        json!({ "uri": uri, "unsynced": true }),
    );
    refused(session.edit("big.txt", "one", "1"), "FS_OPEN");
    refused(session.write("big.txt", "1\n"), "FS_OPEN");
    world.editor.connection().notify(
        "abreast/documentState",
        json!({ "uri": uri, "unsynced": false }),
    );
    session.edit("big.txt", "one", "1").unwrap();
}

#[test]
fn a_change_that_cannot_be_applied_makes_the_server_ask_for_the_whole_text() {
    let (world, session) = open("one\n");
    world.editor.tell_broken_change("a.txt").unwrap();
    assert_eq!(until_synchronised(&session), "one\n");
    world.editor.types("a.txt", "one", "two").unwrap();
    assert_eq!(until_synchronised(&session), "two\n");
    session.edit("a.txt", "two", "2").unwrap();
    world.check_buffer("a.txt", "2\n");
    let uri = world.editor.uri("a.txt");
    let asked = world.editor.syncs_received();
    assert!(
        asked.iter().any(|it| it["full"] == json!([uri])),
        "{asked:?}"
    );
}

/// Reads until the document is no longer desynchronised.
fn until_synchronised(session: &Session) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match session.read("a.txt") {
            Ok(result) => return result["text"].as_str().unwrap().to_string(),
            Err(error) => {
                assert_eq!(error.code(), "FS_DESYNCED", "{error}");
                assert!(Instant::now() < deadline, "the server never recovers");
            }
        }
    }
}
