//! The rules that never bend (the crate's documentation has them), each with a test named for it.

use std::fs;

use abreast::replay::{
    client::CallError,
    document::Typing,
    model::{Echo, Treatment},
    session::Session,
};
use serde_json::{Value, json};

use crate::support::{World, check_entry, refused, version};

#[test]
fn rule_1_no_write_over_unseen_text() {
    let world = World::new(&[("closed.txt", "one two\n"), ("open.txt", "one two\n")]);
    world.editor.open("open.txt").unwrap();
    let session = world.session("s");
    for path in ["closed.txt", "open.txt"] {
        refused(session.edit(path, "two", "2"), "FS_NOT_OBSERVED");
        refused(session.write(path, "new\n"), "FS_NOT_OBSERVED");
        session.read(path).unwrap();
    }

    world.write_disk("closed.txt", "ONE two\n");
    world.editor.types("open.txt", "one", "ONE").unwrap();
    for path in ["closed.txt", "open.txt"] {
        refused(session.edit(path, "two", "2"), "FS_STALE_VERSION");
        refused(session.write(path, "new\n"), "FS_STALE_VERSION");
    }
    world.check_disk("closed.txt", "ONE two\n");
    world.check_buffer("open.txt", "ONE two\n");

    for path in ["closed.txt", "open.txt"] {
        session.read(path).unwrap();
        session.edit(path, "two", "2").unwrap();
    }
    world.check_disk("closed.txt", "ONE 2\n");
    world.check_buffer("open.txt", "ONE 2\n");
}

#[test]
fn rule_1_one_session_does_not_see_with_the_eyes_of_another() {
    let world = World::new(&[("a.txt", "one two\n")]);
    let first = world.session_that_read("first", &["a.txt"]);
    let second = world.session("second");
    refused(second.edit("a.txt", "two", "2"), "FS_NOT_OBSERVED");
    second.read("a.txt").unwrap();
    second.edit("a.txt", "two", "2").unwrap();
    let error = refused(first.edit("a.txt", "one", "1"), "FS_STALE_VERSION");
    assert_eq!(
        error.data()["changedBy"][0]["sessionId"],
        "second",
        "{error}"
    );
    world.check_disk("a.txt", "one 2\n");
}

#[test]
fn rule_1_what_was_not_read_is_not_deleted_or_renamed() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    let delete = || session.apply(json!([{ "kind": "delete", "path": "a.txt" }]));
    refused(delete(), "FS_NOT_OBSERVED");
    refused(rename(&session, "a.txt", "b.txt"), "FS_NOT_OBSERVED");
    session.read("a.txt").unwrap();
    world.write_disk("a.txt", "ONE\n");
    refused(delete(), "FS_STALE_VERSION");
    refused(rename(&session, "a.txt", "b.txt"), "FS_STALE_VERSION");
    world.check_disk("a.txt", "ONE\n");
    session.read("a.txt").unwrap();
    rename(&session, "a.txt", "b.txt").unwrap();
    world.check_disk("b.txt", "ONE\n");
}

#[test]
fn rule_1_a_guard_adds_to_what_was_seen_and_does_not_replace_it() {
    let world = World::new(&[("a.txt", "one two\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    world.write_disk("a.txt", "ONE two\n");
    let guard = json!({ "kind": "replaceIfVersion", "version": version("ONE two\n") });
    let edit =
        json!({ "path": "a.txt", "oldString": "two", "newString": "2", "guard": guard.clone() });
    refused(
        session.call("abreast/edit", edit.clone()),
        "FS_STALE_VERSION",
    );
    let write = json!({ "path": "a.txt", "content": "new\n", "guard": guard });
    refused(session.call("abreast/write", write), "FS_STALE_VERSION");
    refused(
        world.session("unseen").call("abreast/edit", edit),
        "FS_NOT_OBSERVED",
    );
    world.check_disk("a.txt", "ONE two\n");
}

#[test]
fn rule_1_any_window_of_an_unchanged_file_authorises_a_change_of_all_of_it() {
    let world = World::new(&[("a.txt", "1\n2\n3\n4\n")]);
    let session = world.session("s");
    session.read_window("a.txt", 2, 1).unwrap();
    let result = session.write("a.txt", "new\n").unwrap();
    assert_eq!(result["files"][0]["unseenLines"], 3, "{result}");
}

#[test]
fn rule_2_the_version_is_checked_before_the_match() {
    let world = World::new(&[("closed.txt", "one two\n"), ("open.txt", "one two\n")]);
    world.editor.open("open.txt").unwrap();
    let session = world.session_that_read("s", &["closed.txt", "open.txt"]);
    world.write_disk("closed.txt", "1 two two\n");
    world
        .editor
        .change("open.txt", &[Typing::whole("1 two two\n")])
        .unwrap();
    for path in ["closed.txt", "open.txt"] {
        // Neither "there are two" nor "there is none": the agent must not learn from what it has not read.
        refused(session.edit(path, "two", "2"), "FS_STALE_VERSION");
        refused(session.edit(path, "one", "ONE"), "FS_STALE_VERSION");
        refused(session.edit(path, "two", "two"), "FS_STALE_VERSION");
    }
}

#[test]
fn rule_2_the_version_is_checked_where_the_write_happens() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::TypeFirst(vec![Typing::at(
        [0, 0],
        [0, 3],
        "ONE",
    )]));
    refused(session.edit("a.txt", "two", "2"), "FS_STALE_VERSION");
    world.check_buffer("a.txt", "ONE two\n");
    assert_eq!(
        world.editor.edits_received().len(),
        1,
        "the first check was passed, the editor's was not"
    );
    let sent = &world.editor.edits_received()[0];
    let identifier = &sent["edit"]["documentChanges"][0]["textDocument"];
    assert!(identifier["version"].is_i64(), "{sent}");
    assert_eq!(
        sent["abreast"]["documents"][0]["oldTexts"],
        json!(["two"]),
        "{sent}"
    );
}

#[test]
fn rule_2_what_is_typed_while_a_large_document_is_looked_through_makes_the_edit_stale() {
    let text = format!("one two\n{}last\n", "a line of text\n".repeat(100_000));
    let world = World::without_sync(&[]);
    world.editor.open_with("a.txt", &text).unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    let pending = session.start_edit("a.txt", "last", "LAST");
    // Far from the edit, so that the editor could not tell by the text that it replaces.
    let typing = Typing::at([0, 0], [0, 3], "ONE");
    world.editor.change("a.txt", &[typing]).unwrap();
    refused(pending.wait(world.editor.timeout()), "FS_STALE_VERSION");
    let buffer = world.editor.text("a.txt").unwrap();
    assert!(buffer.starts_with("ONE two\n") && buffer.ends_with("\nlast\n"));
}

#[test]
fn rule_2_of_two_that_write_at_the_same_time_one_is_stale() {
    let world = World::new(&[("a.txt", "base\n")]);
    let sessions = ["s1", "s2", "s3"].map(|id| world.session_that_read(id, &["a.txt"]));
    let pending = sessions
        .map(|session| session.start_edit("a.txt", "base", &format!("by {}", session.id())));
    let answers = pending.map(|it| it.wait(world.editor.timeout()));
    assert_eq!(
        answers.iter().filter(|it| it.is_ok()).count(),
        1,
        "{answers:?}"
    );
    for answer in answers.into_iter().filter(Result::is_err) {
        refused(answer, "FS_STALE_VERSION");
    }
}

#[test]
fn rule_5_a_success_is_a_verified_success() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::DropSilently);
    refused(session.edit("a.txt", "one", "1"), "FS_UNVERIFIED");
    check_entry(&session, "a.txt", "unseen", None);
    refused(session.edit("a.txt", "one", "1"), "FS_NOT_OBSERVED");
}

#[test]
fn rule_5_the_version_of_a_success_is_that_of_the_planned_text() {
    let world = World::new(&[("closed.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\r\n").unwrap();
    let session = world.session_that_read("s", &["closed.txt", "open.txt"]);
    for path in ["closed.txt", "open.txt"] {
        let result = session.edit(path, "one", "1").unwrap();
        assert_eq!(result["files"][0]["version"], version("1\n"), "{result}");
        assert_eq!(
            result["files"][0]["previousVersion"],
            version("one\n"),
            "{result}"
        );
        assert_eq!(session.read(path).unwrap()["version"], version("1\n"));
    }
}

#[test]
fn rule_6_bytes_outside_the_change_stay_identical() {
    let before = "\u{feff}one\r\ntwo \t\nthree\rtoo\r\nfour";
    let after = "\u{feff}one\r\n2 \t\nthree\rtoo\r\nfour";
    let world = World::new(&[("closed.txt", before)]);
    // An editor keeps the mark out of its buffer.
    world
        .editor
        .open_with("open.txt", before.trim_start_matches('\u{feff}'))
        .unwrap();
    let session = world.session_that_read("s", &["closed.txt", "open.txt"]);
    session.edit("closed.txt", "two", "2").unwrap();
    session.edit("open.txt", "two", "2").unwrap();
    world.check_disk("closed.txt", after);
    world.check_buffer("open.txt", after.trim_start_matches('\u{feff}'));
}

#[test]
fn rule_6_a_line_that_the_edit_keeps_keeps_its_own_ending() {
    let world = World::new(&[("a.txt", "a\nb\r\nc\nd\r\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    session
        .edit("a.txt", "a\nb\nc\nd\n", "a\nb\nC\nd\n")
        .unwrap();
    world.check_disk("a.txt", "a\nb\r\nC\nd\r\n");
}

#[test]
fn rule_6_a_whole_write_keeps_the_mark_and_the_line_ends_of_the_file() {
    let before = "\u{feff}one\r\ntwo\r\nthree\n";
    let world = World::new(&[("closed.txt", before)]);
    world
        .editor
        .open_with("open.txt", before.trim_start_matches('\u{feff}'))
        .unwrap();
    let session = world.session_that_read("s", &["closed.txt", "open.txt"]);
    for path in ["closed.txt", "open.txt"] {
        session.write(path, "one\n2\nmore\nthree\n").unwrap();
    }
    let after = "\u{feff}one\r\n2\r\nmore\r\nthree\n";
    world.check_disk("closed.txt", after);
    world.check_buffer("open.txt", after.trim_start_matches('\u{feff}'));
}

#[cfg(unix)]
#[test]
fn rule_6_the_mode_and_the_name_of_a_link_stay() {
    use std::os::unix::fs::PermissionsExt;

    let world = World::new(&[("real/a.sh", "echo one\n")]);
    let path = world.root().join("real/a.sh");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o754)).unwrap();
    std::os::unix::fs::symlink("real/a.sh", world.root().join("link.sh")).unwrap();
    let session = world.session_that_read("s", &["link.sh"]);
    session.edit("link.sh", "one", "1").unwrap();
    world.check_disk("real/a.sh", "echo 1\n");
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o754
    );
    assert_eq!(
        fs::read_link(world.root().join("link.sh"))
            .unwrap()
            .to_str(),
        Some("real/a.sh")
    );
}

#[cfg(unix)]
#[test]
fn rule_6_files_that_are_moved_along_keep_their_modes() {
    use std::os::unix::fs::PermissionsExt;

    let world = World::new(&[("a", "one\n"), ("b", "two\n"), ("c", "three\n")]);
    for (path, mode) in [("a", 0o755), ("b", 0o640), ("c", 0o604)] {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(world.root().join(path), mode).unwrap();
    }
    let session = world.session_that_read("s", &["a", "b", "c"]);
    let rename = |from: &str, to: &str| json!({ "kind": "rename", "path": from, "newPath": to });
    session
        .apply(json!([
            { "kind": "delete", "path": "c" },
            rename("b", "c"),
            rename("a", "b"),
            { "kind": "edit", "path": "b", "oldString": "one", "newString": "1" },
        ]))
        .unwrap();
    for (path, mode, text) in [("b", 0o755, "1\n"), ("c", 0o640, "two\n")] {
        world.check_disk(path, text);
        let metadata = fs::metadata(world.root().join(path)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, mode, "{path}");
    }
    assert!(!world.root().join("a").exists());
    // What the session knows of them is true: it goes on without reading.
    session.edit("b", "1", "2").unwrap();
    session.edit("c", "two", "3").unwrap();
}

#[test]
fn rule_7_edits_are_literal() {
    let literals = [
        "$& $1 $$",
        r"\n \t \\",
        "&lt;b&gt; %20",
        "  trailing  ",
        "\ttab",
        "{{x}} ${y}",
        "“q” – …",
    ];
    let world = World::new(&[("closed.txt", "start\n")]);
    world.editor.open_with("open.txt", "start\n").unwrap();
    let session = world.session_that_read("s", &["closed.txt", "open.txt"]);
    for path in ["closed.txt", "open.txt"] {
        let mut old = "start";
        for new in literals {
            session.edit(path, old, new).unwrap();
            assert_eq!(session.read(path).unwrap()["text"], format!("{new}\n"));
            old = new;
        }
    }
}

#[test]
fn rule_7_writes_are_literal() {
    let contents = [
        "no newline at the end",
        "  blanks at the end  ",
        "\n\n",
        "$& \\n &lt; “q”\n\n",
        "",
    ];
    let world = World::new(&[("closed.txt", "start\n")]);
    world.editor.open_with("open.txt", "start\n").unwrap();
    let session = world.session_that_read("s", &["closed.txt", "open.txt"]);
    for content in contents {
        for path in ["closed.txt", "open.txt"] {
            session.write(path, content).unwrap();
        }
        world.check_disk("closed.txt", content);
        world.check_buffer("open.txt", content);
    }
}

#[test]
fn rule_7_nothing_is_matched_loosely() {
    let world = World::new(&[("a.txt", "\tlet a = “x”;  \nNaïve\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let almost = [
        "    let a",
        "let  a",
        "let a = \"x\"",
        "Let a",
        "“x”; \n",
        "\\tlet a",
        "nai\u{308}ve",
        "Nai\u{308}ve",
        "1: let a",
    ];
    for old in almost {
        refused(session.edit("a.txt", old, "y"), "FS_EDIT_NOT_FOUND");
    }
    world.check_disk("a.txt", "\tlet a = “x”;  \nNaïve\n");
}

#[test]
fn rule_7_a_text_that_occurs_twice_is_never_guessed() {
    let world = World::new(&[("a.txt", "aaa\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let error = refused(session.edit("a.txt", "aa", "b"), "FS_AMBIGUOUS_EDIT");
    assert_eq!(
        error.data()["matches"].as_array().map(Vec::len),
        Some(2),
        "{error}"
    );
    let everywhere =
        json!({ "path": "a.txt", "oldString": "aa", "newString": "b", "replaceAll": true });
    refused(
        session.call("abreast/edit", everywhere),
        "FS_AMBIGUOUS_EDIT",
    );
    world.check_disk("a.txt", "aaa\n");
}

#[test]
fn rule_8_the_defence_is_removable() {
    let world = World::new(&[("closed.txt", "one two\n"), ("open.txt", "one two\n")]);
    world.editor.open("open.txt").unwrap();
    let session = world
        .editor
        .session_with("s", json!({ "options": { "policy": "off" } }))
        .unwrap();
    for path in ["closed.txt", "open.txt"] {
        session.edit(path, "two", "2").unwrap();
    }
    world.write_disk("closed.txt", "ONE 2\n");
    world.editor.types("open.txt", "one", "ONE").unwrap();
    for path in ["closed.txt", "open.txt"] {
        session.edit(path, "2", "II").unwrap();
        assert_eq!(session.read(path).unwrap()["text"], "ONE II\n");
        session.write(path, "all new\n").unwrap();
        assert_eq!(session.read(path).unwrap()["text"], "all new\n");
    }

    for path in ["unseen.txt", "moved.txt"] {
        world.write_disk(path, "never read\n");
    }
    session.write("unseen.txt", "all new\n").unwrap();
    world.check_disk("unseen.txt", "all new\n");
    rename(&session, "moved.txt", "to.txt").unwrap();
    world.check_disk("to.txt", "never read\n");
    session
        .apply(json!([{ "kind": "delete", "path": "to.txt" }]))
        .unwrap();
    assert!(!world.root().join("to.txt").exists());
}

#[test]
fn rule_8_without_the_defence_everything_else_is_the_same() {
    let offered = |policy: &str| {
        let world = World::with(&[], |options| {
            options.initialization_options = json!({ "policy": policy });
        });
        let opened = world
            .editor
            .call("abreast/openSession", json!({ "sessionId": "s" }))
            .unwrap();
        assert_eq!(opened["options"]["policy"], policy);
        (
            world.editor.initialized()["capabilities"].clone(),
            opened["tools"].clone(),
        )
    };
    assert_eq!(offered("observe"), offered("off"));
}

#[test]
fn rule_9_state_changes_in_arrival_order() {
    let world = World::without_sync(&[]);
    world.editor.open_with("a.txt", "0\n").unwrap();
    let session = world.session("s");
    let read = || session.start("abreast/read", json!({ "path": "a.txt" }));
    let edit = |old: &str| {
        let params = json!({ "path": "a.txt", "oldString": old, "newString": "x", "dryRun": true });
        session.start("abreast/edit", params)
    };
    let mut pending = Vec::new();
    for number in 1..50 {
        let (before, after) = ((number - 1).to_string(), number.to_string());
        read();
        pending.push((edit(&before), None));
        world.editor.types("a.txt", &before, &after).unwrap();
        pending.push((edit(&after), Some("FS_STALE_VERSION")));
        read();
        pending.push((edit(&before), Some("FS_EDIT_NOT_FOUND")));
        pending.push((edit(&after), None));
    }
    for (idx, (pending, expected)) in pending.into_iter().enumerate() {
        let code = pending
            .wait(world.editor.timeout())
            .err()
            .map(|it| it.code());
        assert_eq!(code.as_deref(), expected, "edit {idx}");
    }
}

#[test]
fn rule_9_a_keystroke_after_the_editors_answer_is_a_change_after_the_edit() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let pending = session.start_edit("a.txt", "two", "2");
    assert!(world.editor.wait_for_held(1));
    world.editor.release(Treatment::Honest);
    world.editor.types("a.txt", "one", "ONE").unwrap();

    let result = pending.wait(world.editor.timeout()).unwrap();
    assert_eq!(result["files"][0]["version"], version("one 2\n"));
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["version"], version("one 2\n"));
    assert_eq!(entry["changedBy"][0]["kind"], "human");
}

#[test]
fn rule_9_a_keystroke_after_the_editors_refusal_is_no_reason_for_it() {
    let world = World::without_sync(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let pending = session.start_edit("a.txt", "two", "2");
    assert!(world.editor.wait_for_held(1));
    world.editor.release(Treatment::Reject);
    world.editor.types("a.txt", "one", "ONE").unwrap();
    refused(pending.wait(world.editor.timeout()), "FS_EDITOR_REJECTED");
}

#[test]
fn rule_10_every_refusal_has_a_stable_code_and_a_remedy_that_succeeds() {
    let world = World::new(&[
        ("a.txt", "one one\n"),
        ("b.txt", "b\n"),
        ("open.txt", "one\n"),
    ]);
    fs::write(world.root().join("latin1.txt"), b"caf\xe9\n").unwrap();
    world.editor.open("open.txt").unwrap();
    let session = world.session("s");
    let edit = |path: &str, old: &str, new: &str| session.edit(path, old, new);

    with_remedy(edit("a.txt", "one one", "1"), "FS_NOT_OBSERVED");
    session.read("a.txt").unwrap();
    with_remedy(edit("a.txt", "one", "1"), "FS_AMBIGUOUS_EDIT");
    edit("a.txt", "one one", "1 one").unwrap();

    with_remedy(edit("a.txt", "two", "2"), "FS_EDIT_NOT_FOUND");
    edit("a.txt", "one", "two").unwrap();

    world.write_disk("a.txt", "1 two!\n");
    with_remedy(edit("a.txt", "two", "2"), "FS_STALE_VERSION");
    session.read("a.txt").unwrap();
    edit("a.txt", "two", "2").unwrap();

    with_remedy(session.read("none.txt"), "FS_NOT_FOUND");
    with_remedy(edit("none.txt", "a", "b"), "FS_NOT_FOUND");
    session.write("none.txt", "new\n").unwrap();

    with_remedy(session.write("b.txt", "B\n"), "FS_NOT_OBSERVED");
    session.read("b.txt").unwrap();
    session.write("b.txt", "B\n").unwrap();

    with_remedy(session.read_window("b.txt", 9, 1), "FS_OUT_OF_RANGE");
    session.read_window("b.txt", 1, 1).unwrap();

    with_remedy(session.read("latin1.txt"), "FS_NOT_TEXT");
    with_remedy(edit("latin1.txt", "caf", "Caf"), "FS_NOT_TEXT");
    world.editor.open_with("latin1.txt", "café\n").unwrap();
    session.read("latin1.txt").unwrap();
    edit("latin1.txt", "café", "Café").unwrap();

    with_remedy(rename(&session, "b.txt", "a.txt"), "FS_ALREADY_EXISTS");
    rename(&session, "b.txt", "c.txt").unwrap();

    session.read("open.txt").unwrap();
    with_remedy(rename(&session, "open.txt", "moved.txt"), "FS_OPEN");
    world.editor.set_read_only("open.txt", true).unwrap();
    with_remedy(edit("open.txt", "one", "1"), "FS_READ_ONLY");
    world.editor.set_read_only("open.txt", false).unwrap();
    edit("open.txt", "one", "1").unwrap();
    world.editor.order(Treatment::Reject);
    with_remedy(edit("open.txt", "1", "2"), "FS_EDITOR_REJECTED");
    edit("open.txt", "1", "2").unwrap();
    world.editor.save("open.txt").unwrap();
    world.editor.close("open.txt").unwrap();
    rename(&session, "open.txt", "moved.txt").unwrap();

    with_remedy(edit("moved.txt", "2", "2"), "FS_NO_CHANGE");
}

#[test]
fn rule_10_every_refusal_of_a_document_has_a_remedy_that_succeeds() {
    let world = World::new(&[("big.txt", "one\n")]);
    world.editor.open_with("a.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt", "big.txt"]);
    let edit = |path: &str, old: &str, new: &str| session.edit(path, old, new);

    world.editor.order(Treatment::DropSilently);
    with_remedy(edit("a.txt", "one", "1"), "FS_UNVERIFIED");
    session.read("a.txt").unwrap();
    edit("a.txt", "one", "1").unwrap();

    let tell = |path: &str, member: &str, value: bool| {
        let state = json!({ "uri": world.editor.uri(path), member: value });
        let connection = world.editor.connection();
        connection.notify("abreast/documentState", state);
    };
    tell("a.txt", "conflict", true);
    with_remedy(edit("a.txt", "1", "2"), "FS_CONFLICT");
    tell("a.txt", "conflict", false);
    edit("a.txt", "1", "2").unwrap();

    tell("big.txt", "unsynced", true);
    with_remedy(edit("big.txt", "one", "1"), "FS_OPEN");
    tell("big.txt", "unsynced", false);
    edit("big.txt", "one", "1").unwrap();

    world.editor.order(Treatment::Hold);
    with_remedy(edit("a.txt", "2", "3"), "FS_EDITOR_TIMEOUT");
    world.editor.release(Treatment::Reject);
    session.read("a.txt").unwrap();
    edit("a.txt", "2", "3").unwrap();
}

#[test]
fn rule_10_every_refusal_of_a_file_or_an_editor_has_a_remedy_that_succeeds() {
    let files = [("a.txt", "1\n2\n"), ("large.txt", "more than ten bytes\n")];
    let world = World::stock(&files, |options| {
        options.initialization_options = json!({ "limits": { "fileBytes": 10 } });
    });
    fs::create_dir(world.root().join("directory")).unwrap();
    let full = json!({ "options": { "writeCoverage": "full" } });
    let session = world.editor.session_with("s", full).unwrap();
    with_remedy(session.read("directory"), "FS_NOT_REGULAR_FILE");
    with_remedy(session.read("large.txt"), "FS_TOO_LARGE");

    session.read_window("a.txt", 1, 1).unwrap();
    with_remedy(session.write("a.txt", "new\n"), "FS_COVERAGE");
    session.read_window("a.txt", 2, 1).unwrap();
    session.write("a.txt", "new\n").unwrap();

    world.editor.open("a.txt").unwrap();
    with_remedy(session.edit("a.txt", "new", "1"), "FS_UNSUPPORTED_CLIENT");
    world.editor.close("a.txt").unwrap();
    session.edit("a.txt", "new", "1").unwrap();
}

fn rename(session: &Session, path: &str, new_path: &str) -> Result<Value, CallError> {
    session.apply(json!([{ "kind": "rename", "path": path, "newPath": new_path }]))
}

/// Checks that a call was refused with a code and that the message ends with a remedy.
#[track_caller]
fn with_remedy(answer: Result<Value, CallError>, code: &str) {
    let error = refused(answer, code);
    let message = error.message();
    assert!(
        message
            .split_once(" — ")
            .is_some_and(|(_, remedy)| !remedy.is_empty()),
        "no remedy: {message}"
    );
    let remedy = error.data()["remedy"].as_str().unwrap_or_default();
    assert!(
        !remedy.is_empty() && message.ends_with(remedy),
        "{message:?} does not end with {remedy:?}"
    );
    assert_eq!(error.refusal().unwrap().rpc_code, -32803, "{message}");
}

#[test]
fn rule_11_what_may_be_of_a_human_is_of_a_human() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two three\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);

    // Typed in the same notification as the edit.
    world
        .editor
        .order(Treatment::Echo(Echo::Merged(vec![Typing::at(
            [0, 0],
            [0, 3],
            "ONE",
        )])));
    session.edit("a.txt", "two", "2").unwrap();
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["changedBy"][0]["kind"], "human", "{entry}");
    refused(session.edit("a.txt", "2", "II"), "FS_STALE_VERSION");

    // Changed on saving, perhaps by a formatter; nobody said so.
    session.read("a.txt").unwrap();
    world.editor.types("a.txt", "three", "three;").unwrap();
    world.editor.save("a.txt").unwrap();
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["changedBy"][0]["kind"], "human", "{entry}");
    world.check_buffer("a.txt", "ONE 2 three;\n");
}

#[test]
fn rule_11_what_is_told_together_with_the_edit_is_of_the_human_but_for_the_edit() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two three\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    let whole = Echo::Overwritten("ONE 2 three\n".to_string());
    world.editor.order(Treatment::Echo(whole));
    session.edit("a.txt", "two", "2").unwrap();
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["changedBy"], json!([{ "kind": "human" }]), "{entry}");
    refused(session.edit("a.txt", "2", "II"), "FS_STALE_VERSION");
}

#[test]
fn rule_11_what_was_typed_while_an_edit_was_out_is_of_the_human() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    let typing = Typing::at([0, 0], [0, 3], "ONE");
    world.editor.order(Treatment::TypeFirst(vec![typing]));
    let error = refused(session.edit("a.txt", "two", "2"), "FS_STALE_VERSION");
    let human = json!([{ "kind": "human" }]);
    assert_eq!(error.data()["changedBy"], human, "{error}");
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["changedBy"], human, "{entry}");
}

#[test]
fn rule_11_what_a_reload_or_closing_without_saving_changes_is_of_the_human() {
    let world = World::new(&[("a.txt", "one\n")]);
    world.editor.open("a.txt").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.close("a.txt").unwrap();
    world.editor.open_with("a.txt", "one more\n").unwrap();
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["changedBy"], json!([{ "kind": "human" }]), "{entry}");

    world.editor.types("a.txt", "more", "much more").unwrap();
    session.read("a.txt").unwrap();
    world.editor.close("a.txt").unwrap();
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["changedBy"][0]["kind"], "human", "{entry}");
}

#[test]
fn rule_11_the_agents_own_text_typed_by_a_human_is_of_the_human() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Reject);
    refused(session.edit("a.txt", "two", "2"), "FS_EDITOR_REJECTED");
    world.editor.types("a.txt", "two", "2").unwrap();
    let entry = check_entry(&session, "a.txt", "present", Some("stale"));
    assert_eq!(entry["changedBy"][0]["kind"], "human", "{entry}");
}
