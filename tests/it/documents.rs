//! Open documents: what the agent sees is what the editor has, whatever it is called and however it changes.

use abreast::replay::{
    document::{Encoding, Typing},
    editor::uri_of,
};
use serde_json::{Value, json};

use crate::support::{Choices, World, check_entry, refused, scaled, view};

/// Reads a document as an agent would and compares it with the editor's buffer.
#[track_caller]
fn check_seen(world: &World, path: &str) {
    let result = world
        .editor
        .call("abreast/read", json!({ "path": path }))
        .unwrap();
    let buffer = world.editor.text(path).unwrap();
    assert_eq!(
        result["text"].as_str(),
        Some(view(&buffer).as_str()),
        "{buffer:?}"
    );
    assert_eq!(result["via"], "editor");
}

#[test]
fn the_buffer_is_the_truth_and_the_disk_is_not_looked_at() {
    let world = World::new(&[("a.txt", "on the disk\n")]);
    world.editor.open("a.txt").unwrap();
    world.editor.types("a.txt", "on the disk", "typed").unwrap();
    let session = world.session("s");
    let result = session.read("a.txt").unwrap();
    assert_eq!(
        (&result["text"], &result["via"]),
        (&"typed\n".into(), &"editor".into())
    );
    world.write_disk("a.txt", "changed on the disk\n");
    world.editor.tell_disk_change("a.txt", 2);
    session.edit("a.txt", "typed", "edited").unwrap();
    world.check_buffer("a.txt", "edited\n");
    world.check_disk("a.txt", "changed on the disk\n");
}

#[test]
fn a_closed_document_is_the_file_on_the_disk_again() {
    let world = World::new(&[("a.txt", "one\n")]);
    world.editor.open("a.txt").unwrap();
    world.editor.types("a.txt", "one", "two").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.close("a.txt").unwrap();
    refused(session.edit("a.txt", "two", "2"), "FS_STALE_VERSION");
    let result = session.read("a.txt").unwrap();
    assert_eq!(
        (&result["text"], &result["via"]),
        (&"one\n".into(), &"disk".into())
    );
}

#[test]
fn a_reload_is_another_instance_even_at_the_same_or_a_lower_version() {
    for lsp_version in [5, 0, -1] {
        let world = World::new(&[]);
        world.editor.open_as("a.txt", 5, Some("one\n")).unwrap();
        let session = world.session_that_read("s", &["a.txt"]);
        world.editor.close("a.txt").unwrap();
        world
            .editor
            .open_as("a.txt", lsp_version, Some("two\n"))
            .unwrap();
        refused(session.edit("a.txt", "one", "1"), "FS_STALE_VERSION");
        session.read("a.txt").unwrap();
        session.edit("a.txt", "two", "2").unwrap();
        let sent = world.editor.edits_received();
        assert_eq!(sent[0]["abreast"]["documents"][0]["instance"], 2);
        assert_eq!(
            sent[0]["edit"]["documentChanges"][0]["textDocument"]["version"],
            lsp_version
        );
    }
}

#[test]
fn a_reload_with_the_same_text_is_no_change() {
    let world = World::new(&[("a.txt", "one\n")]);
    world.editor.open("a.txt").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.close("a.txt").unwrap();
    world.editor.open_as("a.txt", 0, None).unwrap();
    session.edit("a.txt", "one", "1").unwrap();
    world.check_buffer("a.txt", "1\n");
}

#[cfg(unix)]
#[test]
fn a_link_and_its_file_are_one_document() {
    let world = World::new(&[("real/a.txt", "one two\n")]);
    std::os::unix::fs::symlink("real/a.txt", world.root().join("link.txt")).unwrap();
    std::os::unix::fs::symlink("real", world.root().join("directory")).unwrap();
    world.editor.open("link.txt").unwrap();
    world.editor.types("link.txt", "one", "ONE").unwrap();
    let session = world.session("s");
    assert_eq!(session.read("real/a.txt").unwrap()["text"], "ONE two\n");
    session.edit("directory/a.txt", "two", "2").unwrap();
    world.check_buffer("link.txt", "ONE 2\n");
    world.check_disk("real/a.txt", "one two\n");
}

#[test]
fn a_uri_may_be_escaped_in_any_way() {
    let name = "sub/a b é:1.txt";
    let world = World::new(&[(name, "one\n")]);
    let directory = uri_of(world.root());
    let opened = format!("{directory}/sub/a%20b%20%c3%a9%3A1.txt");
    world.editor.open(&opened).unwrap();
    world.editor.types(&opened, "one", "two").unwrap();
    let session = world.session("s");
    let others = [
        name.to_string(),
        world.root().join(name).to_str().unwrap().to_string(),
        format!("{directory}/sub/a%20b%20%C3%A9:1.txt"),
        format!("{directory}/%73ub/a%20b%20%c3%a9%3a1.txt"),
        opened.clone(),
    ];
    for (idx, path) in others.iter().enumerate() {
        let result = session
            .read(path)
            .unwrap_or_else(|it| panic!("{path}: {it}"));
        assert_eq!(result["via"], "editor", "{path}");
        session
            .edit(path, "two", &format!("{idx} two"))
            .unwrap_or_else(|it| panic!("{path}: {it}"));
    }
    world.check_buffer(&opened, "0 1 2 3 4 two\n");
    let sent = world.editor.edits_received();
    assert_eq!(
        sent[0]["edit"]["documentChanges"][0]["textDocument"]["uri"], opened,
        "as the editor wrote it"
    );
}

#[test]
fn documents_that_are_no_files_are_read_and_edited() {
    let world = World::new(&[]);
    for uri in [
        "untitled:1",
        "untitled:Untitled-1",
        "vscode-remote://ssh-remote+host/home/a.txt",
        "memfs:/a%20b.txt",
    ] {
        world.editor.open_with(uri, "one\n").unwrap();
        let session = world.session(uri);
        assert_eq!(session.read(uri).unwrap()["text"], "one\n", "{uri}");
        session.edit(uri, "one", "two").unwrap();
        world.check_buffer(uri, "two\n");
    }
    assert_eq!(
        world.listing(),
        Vec::<String>::new(),
        "nothing is written to the disk"
    );
}

#[test]
fn a_file_that_is_only_in_the_editor_can_be_edited() {
    let world = World::new(&[]);
    world.editor.open_with("new/draft.txt", "one\n").unwrap();
    let session = world.session_that_read("s", &["new/draft.txt"]);
    session.write("new/draft.txt", "two\n").unwrap();
    world.check_buffer("new/draft.txt", "two\n");
    assert_eq!(world.listing(), Vec::<String>::new());
    world.editor.save("new/draft.txt").unwrap();
    world.check_disk("new/draft.txt", "two\n");
}

#[test]
fn changes_of_unknown_documents_and_odd_uris_hurt_nobody() {
    let world = World::new(&[("a.txt", "one\n")]);
    let connection = world.editor.connection();
    for uri in [
        world.editor.uri("never-opened.txt"),
        "file://".to_string(),
        "file:///".to_string(),
        String::new(),
    ] {
        let text_document = json!({ "uri": uri, "version": 3 });
        let change = json!({ "textDocument": text_document, "contentChanges": [{ "text": "x" }] });
        connection.notify("textDocument/didChange", change);
        connection.notify(
            "textDocument/didSave",
            json!({ "textDocument": text_document }),
        );
        connection.notify(
            "textDocument/didClose",
            json!({ "textDocument": text_document }),
        );
    }
    let session = world.session_that_read("s", &["a.txt"]);
    session.edit("a.txt", "one", "1").unwrap();
    world.check_disk("a.txt", "1\n");
}

#[test]
fn positions_count_in_the_encoding_that_was_chosen() {
    for encodings in [vec![], vec![Encoding::Utf16], vec![Encoding::Utf8]] {
        let world = World::with(&[], |it| it.encodings = encodings);
        world.editor.open_with("a.txt", "é🦀 x\nü🦀 y\n").unwrap();
        world.editor.types("a.txt", "x", "🦀🦀x").unwrap();
        world.editor.types("a.txt", "ü", "").unwrap();
        check_seen(&world, "a.txt");
        let session = world.session_that_read("s", &["a.txt"]);
        session.edit("a.txt", "🦀🦀x", "é!").unwrap();
        session.edit("a.txt", " y", " 🦀").unwrap();
        world.check_buffer("a.txt", "é🦀 é!\n🦀 🦀\n");
    }
}

#[test]
fn a_lone_cr_ends_a_line_unless_the_editor_takes_it_for_text() {
    for lone_cr_is_text in [false, true] {
        let world = World::with(&[], |it| it.character.lone_cr_is_text = lone_cr_is_text);
        world
            .editor
            .open_with("a.txt", "one\rtwo\r\nthree\n")
            .unwrap();
        world.editor.types("a.txt", "three", "3").unwrap();
        world.editor.types("a.txt", "two", "2").unwrap();
        check_seen(&world, "a.txt");
        let session = world.session_that_read("s", &["a.txt"]);
        session.edit("a.txt", "3", "III").unwrap();
        session.edit("a.txt", "2", "II").unwrap();
        session.edit("a.txt", "one\rII", "I\rII").unwrap();
        world.check_buffer("a.txt", "I\rII\r\nIII\n");
    }
}

#[test]
fn only_lf_crlf_and_cr_end_a_line() {
    let world = World::new(&[]);
    world
        .editor
        .open_with("a.txt", "a\u{2028}b\u{b}c\u{c}d\u{85}e\u{2029}f\ng\n")
        .unwrap();
    world.editor.types("a.txt", "f\n", "F\n").unwrap();
    world.editor.types("a.txt", "g", "G").unwrap();
    check_seen(&world, "a.txt");
    let session = world.session_that_read("s", &["a.txt"]);
    session.edit("a.txt", "G", "!").unwrap();
    world.check_buffer("a.txt", "a\u{2028}b\u{b}c\u{c}d\u{85}e\u{2029}F\n!\n");
}

#[test]
fn positions_past_the_end_are_clamped() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "ab\ncd").unwrap();
    world
        .editor
        .change("a.txt", &[Typing::at([0, 1], [0, 99], "B")])
        .unwrap();
    check_seen(&world, "a.txt");
    world
        .editor
        .change("a.txt", &[Typing::at([1, 1], [99, 0], "D\n")])
        .unwrap();
    check_seen(&world, "a.txt");
    world
        .editor
        .change("a.txt", &[Typing::at([99, 9], [99, 9], "end")])
        .unwrap();
    check_seen(&world, "a.txt");
    world.check_buffer("a.txt", "aB\ncD\nend");
}

#[test]
fn a_character_is_never_split() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "🦀x\n").unwrap();
    // Within the pair of the crab: moved to its start.
    world
        .editor
        .change("a.txt", &[Typing::at([0, 1], [0, 2], "-")])
        .unwrap();
    check_seen(&world, "a.txt");
    world.check_buffer("a.txt", "-x\n");
}

#[test]
fn several_changes_of_one_notification_follow_each_other() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "ab\n").unwrap();
    let typings = [
        Typing::at([0, 0], [0, 0], "1\n2\n"),
        Typing::at([2, 1], [2, 2], "B"),
        Typing::whole("all new\nlines\n"),
        Typing::at([1, 0], [1, 5], "LINES"),
    ];
    world.editor.change("a.txt", &typings).unwrap();
    check_seen(&world, "a.txt");
    world.check_buffer("a.txt", "all new\nLINES\n");
}

#[test]
fn saving_is_not_a_change() {
    let world = World::new(&[("a.txt", "one\n")]);
    world.editor.open("a.txt").unwrap();
    world.editor.types("a.txt", "one", "two").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.save("a.txt").unwrap();
    world.editor.tell_disk_change("a.txt", 2);
    check_entry(&session, "a.txt", "present", Some("fresh"));
    session.edit("a.txt", "two", "2").unwrap();
}

#[test]
fn opening_and_closing_a_clean_document_is_not_a_change() {
    let world = World::new(&[("a.txt", "\u{feff}one\r\ntwo\r\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.open("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();
    world.editor.save("a.txt").unwrap();
    world.editor.close("a.txt").unwrap();
    session.edit("a.txt", "two", "2").unwrap();
    world.check_disk("a.txt", "\u{feff}1\r\n2\r\n");
}

#[test]
fn an_open_document_is_read_in_windows() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "1\r\n2\r\n3\r\n4").unwrap();
    let session = world.session("s");
    let result = session.read_window("a.txt", 2, 2).unwrap();
    let expected = json!({
        "text": "2\n3\n", "startLine": 2, "endLine": 3, "totalLines": 4, "truncated": true, "nextOffset": 4,
        "eol": "crlf", "bom": false, "via": "editor",
    });
    for (member, expected) in expected.as_object().unwrap() {
        assert_eq!(&result[member], expected, "{member} of {result}");
    }
    refused(session.read_window("a.txt", 5, 1), "FS_OUT_OF_RANGE");
}

/// Many random changes, against the text of the model editor.
#[test]
fn after_any_changes_the_agent_sees_what_the_editor_has() {
    const PIECES: [&str; 12] = [
        "a",
        "bc",
        "\n",
        "\r\n",
        "\r",
        "é",
        "🦀",
        "\t",
        "e\u{301}",
        "\u{2028}",
        "",
        "x\ny\r\nz",
    ];
    for (seed, encoding, lone_cr_is_text) in [
        (1, Encoding::Utf16, false),
        (2, Encoding::Utf8, false),
        (3, Encoding::Utf16, true),
        (4, Encoding::Utf8, true),
    ] {
        let mut choices = Choices::new(seed);
        let world = World::with(&[], |options| {
            options.encodings = vec![encoding];
            options.character.lone_cr_is_text = lone_cr_is_text;
        });
        world.editor.open_with("a.txt", "start\r\nhere\n").unwrap();
        for round in 0..scaled(400) {
            let text = world.editor.text("a.txt").unwrap();
            let typings: Vec<_> = (0..=choices.below(3))
                .map(|_| {
                    // Mostly near each other, so that breaks are made and broken; some are past the end.
                    let line = choices.below(6);
                    let start = [line, choices.below(5)];
                    let end = [line + choices.below(3), choices.below(5)];
                    let (start, end) = if start <= end {
                        (start, end)
                    } else {
                        (end, start)
                    };
                    Typing::at(start, end, choices.one_of(&PIECES))
                })
                .collect();
            if text.len() > 200 {
                world
                    .editor
                    .change("a.txt", &[Typing::whole("short\nagain\r\n")])
                    .unwrap();
            }
            world.editor.change("a.txt", &typings).unwrap();
            let result = world
                .editor
                .call("abreast/read", json!({ "path": "a.txt" }))
                .unwrap();
            let buffer = world.editor.text("a.txt").unwrap();
            assert_eq!(
                result["text"].as_str(),
                Some(view(&buffer).as_str()),
                "seed {seed}, round {round}: {typings:?} in {text:?}"
            );
        }
    }
}

#[test]
fn a_session_without_an_id_reads_freely_and_changes_only_what_it_names() {
    let world = World::new(&[("a.txt", "one\n")]);
    let call = |method: &str, params: Value| world.editor.call(method, params);
    let result = call("abreast/read", json!({ "path": "a.txt" })).unwrap();
    let edit = json!({ "path": "a.txt", "oldString": "one", "newString": "1" });
    refused(call("abreast/edit", edit.clone()), "FS_NOT_OBSERVED");
    let mut guarded = edit;
    guarded["guard"] = json!({ "kind": "replaceIfVersion", "version": result["version"] });
    call("abreast/edit", guarded.clone()).unwrap();
    refused(call("abreast/edit", guarded), "FS_STALE_VERSION");
    call(
        "abreast/write",
        json!({ "path": "new.txt", "content": "new\n" }),
    )
    .unwrap();
    world.check_disk("a.txt", "1\n");
    world.check_disk("new.txt", "new\n");
}

#[test]
fn what_a_turn_relies_on_is_handed_over_too() {
    let world = World::new(&[("a.txt", "one")]);
    let session = world.session("s");
    for turn in [1, 2] {
        let read = json!({ "path": "a.txt", "turn": turn });
        session.call("abreast/read", read).unwrap();
    }
    // The editor adds the final line break that the file does not have.
    world.editor.open_with("a.txt", "one\n").unwrap();
    let edit = json!({ "path": "a.txt", "oldString": "one", "newString": "1", "turn": 2 });
    session.call("abreast/edit", edit).unwrap();
    world.check_buffer("a.txt", "1\n");
}
