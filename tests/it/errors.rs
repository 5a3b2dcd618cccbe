//! The error catalogue: every code is provoked, its remedy is followed, and that succeeds.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use abreast::{
    error::Code,
    replay::{
        client::CallError,
        document::Typing,
        editor::{Editor, Options, StartError},
        model::{Echo, Treatment},
        session::Session,
    },
};
use serde_json::{Value, json};

use crate::support::{
    PATIENCE, World, check_entry, directory, read_when_synchronised, refused, server,
};

/// Checks a refusal: its code, its number, and a remedy at the end of the message that has these words.
#[track_caller]
fn refused_with<T: std::fmt::Debug>(
    answer: Result<T, CallError>,
    code: &str,
    remedy: &str,
) -> CallError {
    let error = refused(answer, code);
    let message = error.message();
    let told = error.data()["remedy"].as_str().unwrap_or_default();
    assert!(
        message.ends_with(&format!(" — {told}")) && told.contains(remedy),
        "{message:?} has no remedy with {remedy:?}"
    );
    assert_eq!(error.refusal().unwrap().rpc_code, -32803, "{message}");
    error
}

fn sandbox_denied() {
    let world = World::with(&[("a.txt", "one\n")], |options| {
        options.initialization_options = json!({ "containment": "readOnly" });
    });
    world.editor.open_with("open.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt", "open.txt"]);
    for path in ["a.txt", "open.txt"] {
        let edited = session.edit(path, "one", "1");
        refused_with(edited, "FS_SANDBOX_DENIED", "set containment otherwise");
    }
    refused(session.write("new.txt", "new\n"), "FS_SANDBOX_DENIED");
    let delete = json!([change("delete", "a.txt", &json!({}))]);
    refused(session.apply(delete), "FS_SANDBOX_DENIED");
    world.check_disk("a.txt", "one\n");
    world.check_buffer("open.txt", "one\n");

    // Set otherwise, it can be done.
    let (world, session) = one(false, "one\n");
    session.edit("a.txt", "one", "1").unwrap();
    world.check_disk("a.txt", "1\n");
}

/// A session that has read the only document, or file.
fn one(is_open: bool, text: &str) -> (World, Session) {
    let world = World::new(&[("a.txt", text)]);
    if is_open {
        world.editor.open("a.txt").unwrap();
    }
    let session = world.session_that_read("s", &["a.txt"]);
    (world, session)
}

fn change(kind: &str, path: &str, more: &Value) -> Value {
    let mut change = json!({ "kind": kind, "path": path });
    for (name, value) in more.as_object().into_iter().flatten() {
        change[name] = value.clone();
    }
    change
}

fn edit_of(path: &str, old: &str, new: &str) -> Value {
    change("edit", path, &json!({ "oldString": old, "newString": new }))
}

fn state(world: &World, path: &str, member: &str, is_so: bool) {
    let state = json!({ "uri": world.editor.uri(path), member: is_so });
    world
        .editor
        .connection()
        .notify("abreast/documentState", state);
}

macro_rules! codes {
    ($($code:ident: $test:ident = $body:expr;)*) => {
        $(
            #[test]
            fn $test() {
                $body();
            }
        )*

        #[test]
        fn every_code_is_provoked() {
            let tested: BTreeSet<_> = [$(Code::$code),*].iter().map(|it| format!("{it:?}")).collect();
            for code in Code::ALL {
                assert!(tested.contains(&format!("{code:?}")), "{code:?}");
            }
        }
    };
}

codes! {
    FsSandboxDenied: where_nothing_may_be_written_nothing_is = sandbox_denied;
    FsNotObserved: what_was_not_read_is_read_first = not_observed;
    FsStaleVersion: what_is_stale_is_read_again = stale_version;
    FsCoverage: lines_never_shown_are_read_first = coverage;
    FsNotFound: what_is_not_there_is_found_near_or_created = not_found;
    FsEditNotFound: a_text_that_is_not_there_is_copied_from_a_read = edit_not_found;
    FsAmbiguousEdit: an_ambiguous_text_is_given_the_context_that_the_error_shows = ambiguous_edit;
    FsNoChange: what_is_the_same_needs_nothing = no_change;
    FsNotText: what_is_no_text_is_opened_in_the_editor = not_text;
    FsNotRegularFile: a_directory_is_left_for_a_regular_file = not_regular_file;
    FsPermissionDenied: what_is_protected_is_made_writable_by_the_user = permission_denied;
    FsTooLarge: a_file_too_large_is_allowed_by_the_limit_that_is_named = too_large;
    FsIoError: what_the_system_says_is_told_to_the_user = io_error;
    FsAlreadyExists: what_exists_is_avoided_or_read_and_written = already_exists;
    FsOutOfRange: an_offset_out_of_range_becomes_one_of_those_told = out_of_range;
    FsOpen: what_is_open_is_closed_first = open;
    FsReadOnly: a_read_only_buffer_is_made_writable_by_the_user = read_only;
    FsConflict: a_conflict_is_resolved_by_the_user = conflict;
    FsEditorRejected: what_the_editor_rejects_is_read_and_tried_again = editor_rejected;
    FsEditorTimeout: what_the_editor_does_not_answer_is_read_and_tried_again = editor_timeout;
    FsUnverified: what_was_not_done_is_read_and_tried_again = unverified;
    FsDesynced: a_desynchronised_document_is_tried_again = desynced;
    FsUnsupportedClient: a_document_of_a_client_that_cannot_refuse_is_closed = unsupported_client;
    FsPartiallyApplied: what_was_partially_applied_is_read_file_by_file = partially_applied;
    FsBusy: a_busy_sidecar_is_tried_later = busy;
    FsAborted: what_was_aborted_can_be_called_again = aborted;
}

fn not_observed() {
    for is_open in [false, true] {
        let (world, _) = one(is_open, "one\n");
        let session = world.session("t");
        let error = refused_with(
            session.edit("a.txt", "one", "1"),
            "FS_NOT_OBSERVED",
            "read the file",
        );
        assert!(
            error
                .message()
                .starts_with("edit requires reading \"a.txt\" first")
        );
        let error = refused_with(
            session.write("a.txt", "1\n"),
            "FS_NOT_OBSERVED",
            "read the file",
        );
        let what = "cannot overwrite existing \"a.txt\" without reading it first";
        assert!(error.message().starts_with(what), "{error}");
        for kind in ["delete", "rename"] {
            let change = change(kind, "a.txt", &json!({ "newPath": "b.txt" }));
            refused_with(
                session.apply(json!([change])),
                "FS_NOT_OBSERVED",
                "read the file",
            );
        }
        session.read("a.txt").unwrap();
        session.edit("a.txt", "one", "1").unwrap();

        // Without a session there is a guard to name.
        let edit = json!({ "path": "a.txt", "oldString": "1", "newString": "2" });
        refused_with(
            world.editor.call("abreast/edit", edit.clone()),
            "FS_NOT_OBSERVED",
            "guard",
        );
        let read = world
            .editor
            .call("abreast/read", json!({ "path": "a.txt" }))
            .unwrap();
        let mut guarded = edit;
        guarded["guard"] = json!({ "kind": "replaceIfVersion", "version": read["version"] });
        world.editor.call("abreast/edit", guarded).unwrap();
    }
}

fn stale_version() {
    for is_open in [false, true] {
        let (world, session) = one(is_open, "one\ntwo\nthree\n");
        if is_open {
            world.editor.types("a.txt", "two", "2").unwrap();
        } else {
            world.write_disk("a.txt", "one\n2\nthree\n");
        }
        let error = refused_with(
            session.edit("a.txt", "one", "1"),
            "FS_STALE_VERSION",
            "re-read the file",
        );
        let what = "cannot edit \"a.txt\": file changed since it was read (";
        assert!(error.message().starts_with(what), "{error}");
        assert_eq!(error.data()["changedRanges"], json!([[2, 2]]), "{error}");
        let by = if is_open { "human" } else { "disk" };
        assert_eq!(
            error.data()["changedBy"],
            json!([{ "kind": by }]),
            "{error}"
        );
        let error = refused_with(
            session.write("a.txt", "x\n"),
            "FS_STALE_VERSION",
            "re-read the file",
        );
        let what = "cannot write \"a.txt\": file changed since it was read";
        assert!(error.message().starts_with(what), "{error}");
        // Those lines suffice.
        session.read_window("a.txt", 2, 1).unwrap();
        session.edit("a.txt", "one", "1").unwrap();
    }
    let (world, session) = one(false, "one\n");
    fs::remove_file(world.root().join("a.txt")).unwrap();
    refused_with(
        session.edit("a.txt", "one", "1"),
        "FS_STALE_VERSION",
        "re-read the file",
    );
    refused_with(session.read("a.txt"), "FS_NOT_FOUND", "write to create it");
    session.write("a.txt", "1\n").unwrap();
}

fn coverage() {
    let (world, _) = one(false, "1\n2\n3\n4\n5\n");
    let options = json!({ "options": { "writeCoverage": "full" } });
    let session = world.editor.session_with("full", options).unwrap();
    session.read_window("a.txt", 2, 2).unwrap();
    let error = refused_with(
        session.write("a.txt", "new\n"),
        "FS_COVERAGE",
        "read those lines",
    );
    assert_eq!(error.data()["missing"], json!([[1, 1], [4, 5]]), "{error}");
    for lines in error.data()["missing"].as_array().unwrap() {
        let at = |idx: usize| usize::try_from(lines[idx].as_u64().unwrap()).unwrap();
        session
            .read_window("a.txt", at(0), at(1) - at(0) + 1)
            .unwrap();
    }
    // An edit says what it replaces.
    session.edit("a.txt", "5", "five").unwrap();
    session.write("a.txt", "new\n").unwrap();
}

fn not_found() {
    let (_world, session) = one(false, "one\n");
    let error = refused_with(session.read("b.txt"), "FS_NOT_FOUND", "\"a.txt\"");
    assert_eq!(error.data()["path"], "b.txt");
    session.read("a.txt").unwrap();
    let error = refused_with(
        session.edit("b.txt", "a", "b"),
        "FS_NOT_FOUND",
        "write to create it",
    );
    assert!(
        error
            .message()
            .starts_with("cannot edit \"b.txt\": not found"),
        "{error}"
    );
    session.write("b.txt", "new\n").unwrap();
    session.edit("b.txt", "new", "edited").unwrap();
}

fn edit_not_found() {
    for (text, old) in [
        ("fn one() {\n\tbody();\n}\n", "    body();"),
        ("say “hello”\n", "say \"hello\""),
        ("Hello World\n", "hello world"),
    ] {
        for is_open in [false, true] {
            let (_world, session) = one(is_open, text);
            // What the nearest line has instead comes with another issue; until then the remedy is to read again.
            let error = refused_with(session.edit("a.txt", old, "x"), "FS_EDIT_NOT_FOUND", "");
            assert!(
                error.message().starts_with("cannot edit \"a.txt\": "),
                "{error}"
            );
            let seen = session.read("a.txt").unwrap()["text"].clone();
            session.edit("a.txt", seen.as_str().unwrap(), "x").unwrap();
        }
    }
}

fn ambiguous_edit() {
    for is_open in [false, true] {
        let (_world, session) = one(is_open, "let a = 1;\nlet b = 1;\nlet c = 1;\n");
        let edit = |old: &str| session.edit("a.txt", old, "2");
        let error = refused_with(edit("1"), "FS_AMBIGUOUS_EDIT", "replaceAll");
        let matches = error.data()["matches"].as_array().unwrap();
        let places: Vec<_> = matches
            .iter()
            .map(|it| (&it["line"], &it["column"]))
            .collect();
        assert_eq!(
            places,
            [
                (&json!(1), &json!(9)),
                (&json!(2), &json!(9)),
                (&json!(3), &json!(9))
            ]
        );
        if let Some(context) = matches[1]["context"].as_str() {
            edit(context).unwrap();
        } else {
            edit("let b = 1;").unwrap();
        }
        let all =
            json!({ "path": "a.txt", "oldString": "1", "newString": "3", "replaceAll": true });
        assert_eq!(
            session.call("abreast/edit", all).unwrap()["files"][0]["replacements"],
            2
        );

        // Where the hits overlap, only context helps.
        let (_world, session) = one(is_open, "aaa b\n");
        let error = refused_with(session.edit("a.txt", "aa", "x"), "FS_AMBIGUOUS_EDIT", "");
        let remedy = error.data()["remedy"].as_str().unwrap();
        assert!(!remedy.contains("replaceAll"), "{error}");
        session.edit("a.txt", "aaa b", "x").unwrap();
    }
}

fn no_change() {
    let (world, session) = one(false, "one\r\ntwo\r\n");
    for (old, new) in [("one", "one"), ("one\r\ntwo", "one\ntwo")] {
        refused_with(session.edit("a.txt", old, new), "FS_NO_CHANGE", "nothing");
    }
    // A write of what is there already succeeds.
    session.write("a.txt", "one\ntwo\n").unwrap();
    world.check_disk("a.txt", "one\r\ntwo\r\n");
}

fn not_text() {
    let world = World::new(&[]);
    for (path, bytes, detail) in [
        ("latin1.txt", &b"caf\xe9\n"[..], "UTF-8"),
        ("utf16.txt", b"\xff\xfec\0a\0f\0", "UTF-16"),
        ("binary", b"caf\0\n", "NUL"),
    ] {
        fs::write(world.root().join(path), bytes).unwrap();
        let session = world.session(path);
        let error = refused_with(session.read(path), "FS_NOT_TEXT", "open it in the editor");
        assert!(error.message().contains(detail), "{error}");
        refused_with(
            session.edit(path, "caf", "x"),
            "FS_NOT_TEXT",
            "open it in the editor",
        );
        refused_with(
            session.write(path, "x"),
            "FS_NOT_TEXT",
            "open it in the editor",
        );
        world.editor.open_with(path, "café\n").unwrap();
        session.read(path).unwrap();
        session.edit(path, "café", "tea").unwrap();
    }
    // Opened with the wrong encoding it is shown, and not edited.
    fs::write(world.root().join("wrong.txt"), b"caf\xe9\n").unwrap();
    let session = world.session("wrong");
    world
        .editor
        .open_with("wrong.txt", "caf\u{fffd}\n")
        .unwrap();
    session.read("wrong.txt").unwrap();
    let edit = session.edit("wrong.txt", "caf", "x");
    refused_with(edit, "FS_NOT_TEXT", "with the right encoding");
    world.editor.close("wrong.txt").unwrap();
    world.editor.open_with("wrong.txt", "café\n").unwrap();
    session.read("wrong.txt").unwrap();
    session.edit("wrong.txt", "café", "tea").unwrap();
}

fn not_regular_file() {
    let world = World::new(&[("sub/a.txt", "one\n")]);
    let session = world.session("s");
    refused_with(session.read("sub"), "FS_NOT_REGULAR_FILE", "regular file");
    refused_with(
        session.write("sub", "x"),
        "FS_NOT_REGULAR_FILE",
        "regular file",
    );
    session.read("sub/a.txt").unwrap();
    session.edit("sub/a.txt", "one", "1").unwrap();
}

#[cfg(unix)]
fn permission_denied() {
    use std::os::unix::fs::PermissionsExt;

    let (world, session) = one(false, "one\n");
    let path = world.root().join("a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    refused_with(
        session.edit("a.txt", "one", "1"),
        "FS_PERMISSION_DENIED",
        "permissions",
    );
    world.check_disk("a.txt", "one\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    session.edit("a.txt", "one", "1").unwrap();
}

#[cfg(not(unix))]
fn permission_denied() {}

fn too_large() {
    let (_directory, root) = directory();
    fs::write(root.join("a.txt"), "0123456789\n").unwrap();
    let start = |file_bytes: u64| {
        let mut options = Options::new(server(), &root);
        options.initialization_options = json!({ "limits": { "fileBytes": file_bytes } });
        Editor::start(&options).unwrap()
    };
    let editor = start(10);
    let session = editor.session("s").unwrap();
    refused_with(session.read("a.txt"), "FS_TOO_LARGE", "limits.fileBytes");
    let editor = start(11);
    let session = editor.session("s").unwrap();
    session.read("a.txt").unwrap();
    session.edit("a.txt", "0", "1").unwrap();
}

#[cfg(unix)]
fn io_error() {
    let world = World::new(&[]);
    let link = world.root().join("a.txt");
    std::os::unix::fs::symlink("a.txt", &link).unwrap();
    let session = world.session("s");
    let error = refused_with(session.read("a.txt"), "FS_IO_ERROR", "tell the user");
    assert!(error.message().contains("loop"), "{error}");
    fs::remove_file(link).unwrap();
    session.write("a.txt", "one\n").unwrap();
}

#[cfg(not(unix))]
fn io_error() {}

fn already_exists() {
    let (world, session) = one(false, "one\n");
    world.write_disk("b.txt", "two\n");
    let rename = |to: &str| {
        session.apply(json!([change(
            "rename",
            "a.txt",
            &json!({ "newPath": to })
        )]))
    };
    refused_with(rename("b.txt"), "FS_ALREADY_EXISTS", "another name");
    rename("c.txt").unwrap();
    let create =
        json!({ "path": "b.txt", "content": "new\n", "guard": { "kind": "createIfAbsent" } });
    refused_with(
        session.call("abreast/write", create.clone()),
        "FS_ALREADY_EXISTS",
        "read and write it",
    );
    session.read("b.txt").unwrap();
    refused_with(
        session.call("abreast/write", create),
        "FS_ALREADY_EXISTS",
        "another name",
    );
    session.write("b.txt", "new\n").unwrap();
}

fn out_of_range() {
    for is_open in [false, true] {
        let (_world, session) = one(is_open, "1\n2\n3\n");
        let error = refused_with(
            session.read_window("a.txt", 4, 1),
            "FS_OUT_OF_RANGE",
            "1 to 3",
        );
        assert!(error.message().contains("3 lines"), "{error}");
        session.read_window("a.txt", 3, 1).unwrap();
    }
}

fn open() {
    let (world, session) = one(true, "one\n");
    world.write_disk("b.txt", "two\n");
    session.read("b.txt").unwrap();
    for change in [
        change("delete", "a.txt", &json!({})),
        change("rename", "a.txt", &json!({ "newPath": "c.txt" })),
        change("rename", "b.txt", &json!({ "newPath": "a.txt" })),
    ] {
        refused_with(session.apply(json!([change])), "FS_OPEN", "close it");
    }
    world.editor.close("a.txt").unwrap();
    session
        .apply(json!([change("delete", "a.txt", &json!({}))]))
        .unwrap();
    state(&world, "b.txt", "unsynced", true);
    refused_with(session.edit("b.txt", "two", "2"), "FS_OPEN", "close it");
    state(&world, "b.txt", "unsynced", false);
    session.edit("b.txt", "two", "2").unwrap();
}

fn read_only() {
    let (world, session) = one(true, "one\n");
    world.editor.set_read_only("a.txt", true).unwrap();
    refused_with(
        session.edit("a.txt", "one", "1"),
        "FS_READ_ONLY",
        "ask the user",
    );
    world.editor.set_read_only("a.txt", false).unwrap();
    session.edit("a.txt", "one", "1").unwrap();
}

fn conflict() {
    let (world, session) = one(true, "one\n");
    state(&world, "a.txt", "conflict", true);
    let edit = || session.edit("a.txt", "one", "1");
    let error = refused_with(edit(), "FS_CONFLICT", "reload it in the editor");
    assert!(error.message().contains("newer than the"), "{error}");
    world.editor.types("a.txt", "one", "two").unwrap();
    world.editor.types("a.txt", "two", "one").unwrap();
    let error = refused_with(edit(), "FS_CONFLICT", "writing the buffer or by reloading");
    assert!(error.message().contains("unsaved changes"), "{error}");
    state(&world, "a.txt", "conflict", false);
    session.edit("a.txt", "one", "1").unwrap();
}

fn editor_rejected() {
    let (world, session) = one(true, "one\n");
    world.editor.order(Treatment::Reject);
    let error = refused_with(
        session.edit("a.txt", "one", "1"),
        "FS_EDITOR_REJECTED",
        "read and retry",
    );
    assert!(
        error.message().contains("does not want to"),
        "the editor's reason: {error}"
    );
    session.read("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();
}

fn editor_timeout() {
    let world = World::with(&[], |options| options.character.ignores_deadline = true);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let remedy = "ask them, then read and retry";
    refused_with(
        session.edit("a.txt", "one", "1"),
        "FS_EDITOR_TIMEOUT",
        remedy,
    );
    // The user answers the editor's question.
    world.editor.release(Treatment::Reject);
    session.read("a.txt").unwrap();
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = session.edit("a.txt", "one", "1") {
        assert_eq!(error.code(), "FS_EDITOR_TIMEOUT", "{error}");
        assert!(Instant::now() < deadline, "it is never settled");
    }
    world.check_buffer("a.txt", "1 two\n");
}

fn unverified() {
    let (world, session) = one(true, "one\n");
    world.editor.order(Treatment::DropSilently);
    refused_with(
        session.edit("a.txt", "one", "1"),
        "FS_UNVERIFIED",
        "read the file",
    );
    check_entry(&session, "a.txt", "unseen", None);
    session.read("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();
}

fn desynced() {
    let world = World::without_sync(&[]);
    world.editor.open_with("a.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.tell_broken_change("a.txt").unwrap();
    refused_with(session.read("a.txt"), "FS_DESYNCED", "re-open");
    let error = refused_with(session.edit("a.txt", "one", "1"), "FS_DESYNCED", "re-open");
    assert_eq!(error.data()["retryable"], true);
    world.editor.close("a.txt").unwrap();
    world.editor.open_with("a.txt", "one\n").unwrap();
    session.read("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();

    // With a barrier it is enough to try again.
    let (world, session) = one(true, "one\n");
    world.editor.tell_broken_change("a.txt").unwrap();
    read_when_synchronised(&session, "a.txt");
    session.edit("a.txt", "one", "1").unwrap();
}

fn unsupported_client() {
    let world = World::stock(&[("a.txt", "one\n")], |_| {});
    world.editor.open("a.txt").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    let remedy = "close the file";
    refused_with(
        session.edit("a.txt", "one", "1"),
        "FS_UNSUPPORTED_CLIENT",
        remedy,
    );
    world.editor.close("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();
    world.check_disk("a.txt", "1\n");
}

fn partially_applied() {
    let world = World::new(&[("closed.txt", "one\n")]);
    world.editor.open_with("open.txt", "one\ntwo\n").unwrap();
    let session = world.session_that_read("s", &["open.txt", "closed.txt"]);
    let call = || {
        session.start_apply(json!([
            edit_of("open.txt", "one", "1"),
            edit_of("closed.txt", "one", "1")
        ]))
    };
    world.editor.order(Treatment::Hold);
    let pending = call();
    assert!(world.editor.wait_for_held(1));
    // While the editor's part is out, both files change: one on the disk, the other by typing right behind the edit.
    world.write_disk("closed.txt", "one!\n");
    let typed = Typing::at([0, 0], [0, 1], "human");
    world
        .editor
        .release(Treatment::Echo(Echo::Merged(vec![typed])));
    let answer = pending.wait(PATIENCE);
    world.check_buffer("open.txt", "human\ntwo\n");
    let error = refused(answer, "FS_PARTIALLY_APPLIED");
    let remedy = "read the files named";
    assert!(error.message().contains(remedy), "{error}");
    let outcomes: Vec<_> = error.data()["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["path"].clone(), it["outcome"].clone()))
        .collect();
    let expected = [("open.txt", "keptHuman"), ("closed.txt", "rolledBack")];
    assert_eq!(
        outcomes,
        expected.map(|(path, outcome)| (path.into(), outcome.into()))
    );
    world.check_disk("closed.txt", "one!\n");
    for path in ["open.txt", "closed.txt"] {
        session.read(path).unwrap();
    }
    let changes = json!([
        edit_of("open.txt", "human", "2"),
        edit_of("closed.txt", "one", "2")
    ]);
    session.apply(changes).unwrap();
}

fn busy() {
    let world = World::with(&[("b.txt", "one\n")], |options| {
        options.initialization_options = json!({ "limits": { "pending": 1 } });
    });
    world.editor.open_with("a.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["a.txt", "b.txt"]);
    world.editor.order(Treatment::Hold);
    let first = session.start_edit("a.txt", "one", "1");
    assert!(world.editor.wait_for_held(1));
    refused_with(session.edit("b.txt", "one", "1"), "FS_BUSY", "retry later");
    world.editor.release(Treatment::Honest);
    first.wait(PATIENCE).unwrap();
    session.edit("b.txt", "one", "1").unwrap();
}

fn aborted() {
    let (world, session) = one(true, "one two\n");
    world.editor.order(Treatment::Hold);
    let first = session.start_edit("a.txt", "one", "1");
    assert!(world.editor.wait_for_held(1));
    let second = session.start_edit("a.txt", "two", "2");
    second.cancel();
    let error = refused(second.wait(PATIENCE), "FS_ABORTED");
    assert_eq!(error.refusal().unwrap().rpc_code, -32800);
    assert_eq!(
        error.data().get("remedy"),
        None,
        "nothing is needed: {error}"
    );
    world.editor.release(Treatment::Honest);
    first.wait(PATIENCE).unwrap();
    session.edit("a.txt", "two", "2").unwrap();
}

/// Files of which each fails in another stage of the checks, in the order of the stages.
fn stages() -> (World, Session, Vec<(&'static str, Value)>) {
    let world = World::new(&[
        ("unread.txt", "x\n"),
        ("large.txt", "x\n"),
        ("stale.txt", "x\n"),
        ("window.txt", "1\n2\n"),
        ("same.txt", "x\n"),
        ("match.txt", "x x\n"),
        ("good.txt", "x\n"),
    ]);
    world.editor.open_with("readonly.txt", "x\n").unwrap();
    let options = json!({ "options": { "writeCoverage": "full" } });
    let session = world.editor.session_with("s", options).unwrap();
    for path in [
        "readonly.txt",
        "large.txt",
        "stale.txt",
        "same.txt",
        "match.txt",
        "good.txt",
    ] {
        session.read(path).unwrap();
    }
    session.read_window("window.txt", 1, 1).unwrap();
    world.editor.set_read_only("readonly.txt", true).unwrap();
    fs::write(world.root().join("large.txt"), b"\0").unwrap();
    world.write_disk("stale.txt", "y\n");
    let failing = vec![
        ("FS_NOT_OBSERVED", edit_of("unread.txt", "x", "y")),
        ("FS_READ_ONLY", edit_of("readonly.txt", "x", "y")),
        ("FS_NOT_TEXT", edit_of("large.txt", "x", "y")),
        ("FS_STALE_VERSION", edit_of("stale.txt", "x", "z")),
        (
            "FS_COVERAGE",
            change("write", "window.txt", &json!({ "content": "3\n" })),
        ),
        ("FS_NO_CHANGE", edit_of("same.txt", "x", "x")),
        ("FS_AMBIGUOUS_EDIT", edit_of("match.txt", "x", "y")),
    ];
    (world, session, failing)
}

#[test]
fn the_earliest_stage_that_fails_is_told_whatever_the_order_of_the_changes() {
    let (world, session, failing) = stages();
    for (early, (code, change)) in failing.iter().enumerate() {
        for (_, later) in &failing[early..] {
            for changes in [
                json!([change, later]),
                json!([later, edit_of("good.txt", "x", "y"), change]),
            ] {
                if change["path"] == later["path"] {
                    continue;
                }
                let error = refused(session.apply(changes.clone()), code);
                let failures = error.data()["failures"].as_array().unwrap();
                assert_eq!(failures.len(), 1, "{changes}: {error}");
                assert_eq!(failures[0]["path"], change["path"]);
                let idx = usize::try_from(error.data()["change"].as_u64().unwrap()).unwrap();
                assert_eq!(changes[idx]["path"], change["path"], "{error}");
            }
        }
    }
    world.check_disk("good.txt", "x\n");
}

#[test]
fn all_files_that_fail_in_a_stage_are_told_at_once_with_the_first_failure_of_each() {
    let (world, session, _) = stages();
    world.write_disk("other.txt", "x\n");
    world.write_disk("third.txt", "x x\n");
    session.read("third.txt").unwrap();
    let error = refused(
        session.apply(json!([
            edit_of("good.txt", "x", "y"),
            edit_of("other.txt", "x", "y"),
            edit_of("unread.txt", "x", "y"),
            change("delete", "other.txt", &json!({})),
        ])),
        "FS_NOT_OBSERVED",
    );
    let told: Vec<_> = error.data()["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["path"].clone(), it["change"].clone(), it["code"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            ("other.txt".into(), 1.into(), "FS_NOT_OBSERVED".into()),
            ("unread.txt".into(), 2.into(), "FS_NOT_OBSERVED".into()),
        ]
    );
    assert_eq!(
        (&error.data()["change"], &error.data()["path"]),
        (&1.into(), &"other.txt".into())
    );

    // In the stage of the matches, each file's first.
    let error = refused(
        session.apply(json!([
            edit_of("match.txt", "x", "y"),
            edit_of("match.txt", "none", "y"),
            edit_of("good.txt", "x", "y"),
            edit_of("good.txt", "x", "z"),
            edit_of("third.txt", "none", "y"),
        ])),
        "FS_AMBIGUOUS_EDIT",
    );
    let told: Vec<_> = error.data()["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["path"].clone(), it["change"].clone(), it["code"].clone()))
        .collect();
    assert_eq!(
        told,
        [
            ("match.txt".into(), 0.into(), "FS_AMBIGUOUS_EDIT".into()),
            ("good.txt".into(), 3.into(), "FS_EDIT_NOT_FOUND".into()),
            ("third.txt".into(), 4.into(), "FS_EDIT_NOT_FOUND".into()),
        ]
    );
    for failure in error.data()["failures"].as_array().unwrap() {
        assert!(
            failure["remedy"].as_str().is_some_and(|it| !it.is_empty()),
            "{failure}"
        );
    }
    world.check_disk("good.txt", "x\n");
    world.check_disk("match.txt", "x x\n");
}

#[test]
fn parameters_and_the_session_come_before_all_stages() {
    let (_world, session, failing) = stages();
    let empty = edit_of("good.txt", "", "y");
    for (_, change) in failing {
        let error = refused(session.apply(json!([change, empty])), "-32602");
        assert!(error.message().contains("changes[1].oldString"), "{error}");
        let unknown = json!({ "sessionId": "nobody", "changes": [change] });
        refused(session.call("abreast/apply", unknown), "UNKNOWN_SESSION");
    }
}

/// Starts a server with options, and says what it answers.
fn start_with(options: Value) -> Result<World, CallError> {
    let (_directory, root) = directory();
    let mut probe = Options::new(server(), root);
    probe.initialization_options = options.clone();
    match Editor::start(&probe) {
        Err(StartError::Initialize { error, .. }) => Err(error),
        Err(error) => panic!("{error}"),
        Ok(_) => Ok(World::with(&[], |it| it.initialization_options = options)),
    }
}

#[test]
fn a_wrong_option_is_refused_by_its_name() {
    for (name, value) in [
        ("policy", json!("none")),
        ("freshness", json!("line")),
        ("staleRecovery", json!(1)),
        ("writeCoverage", json!(true)),
        ("unicodeFallback", json!("no")),
        ("save", json!("often")),
        ("containment", json!("jail")),
        ("extraRoots", json!("/tmp")),
        ("protected", json!([1])),
        ("trustClient", json!("yes")),
        ("images", json!({ "maxBytes": 1 })),
        ("listen", json!(5)),
        ("limits", json!([1])),
    ] {
        let error = refused(start_with(json!({ name: value })).map(|_| ()), "-32602");
        assert!(error.message().contains(name), "{name}: {error}");
    }
    for name in [
        "readLines",
        "readBytes",
        "lineChars",
        "fileBytes",
        "diffBytes",
        "pending",
    ] {
        let options = json!({ "limits": { name: -1 } });
        let error = refused(start_with(options).map(|_| ()), "-32602");
        assert!(
            error.message().contains(&format!("limits.{name}")),
            "{name}: {error}"
        );
    }
    refused(start_with(json!("none")).map(|_| ()), "-32602");
}

#[test]
fn unknown_options_are_reported_and_the_others_count() {
    for (options, unknown) in [
        (
            json!({ "readlines": 5, "limits": { "readLines": 1 } }),
            "readlines",
        ),
        (
            json!({ "limits": { "readLines": 1, "readChars": 7 } }),
            "limits.readChars",
        ),
    ] {
        let world = start_with(options).unwrap();
        let told = world
            .editor
            .connection()
            .wait_for_notification(Duration::from_secs(20), |it| {
                let message = it.params["message"].as_str().unwrap_or_default();
                it.method == "window/logMessage" && message.contains(unknown)
            });
        assert!(told.is_some(), "{unknown}");
        world.write_disk("a.txt", "1\n2\n");
        let read = world
            .editor
            .call("abreast/read", json!({ "path": "a.txt" }))
            .unwrap();
        assert_eq!(read["text"], "1\n");
    }
}
