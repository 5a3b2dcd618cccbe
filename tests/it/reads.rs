//! Reads in full: windows and their limits, and what a path may look like.

use abreast::replay::{client::CallError, editor::uri_of};
use serde_json::{Value, json};

use crate::support::{Choices, World, check_entry, directory, refused, scaled};

fn limited(text: &str, limits: &Value) -> World {
    let world = World::with(&[("closed.txt", text)], |options| {
        options.initialization_options = json!({ "limits": limits });
    });
    world.editor.open_with("open.txt", text).unwrap();
    world
}

fn read(world: &World, params: Value) -> Result<Value, CallError> {
    world.editor.call("abreast/read", params)
}

/// Checks what a read shows of a text, closed and open.
#[track_caller]
fn check(text: &str, limits: Value, params: Value, expected: &Value) {
    let world = limited(text, &limits);
    for path in ["closed.txt", "open.txt"] {
        let mut params = params.clone();
        params["path"] = path.into();
        let result = read(&world, params).unwrap();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&result[name], value, "{name} of {result}");
        }
    }
}

#[test]
fn a_window_is_a_piece_of_the_text_to_the_letter() {
    check(
        "1\r\n2\r\n3\r\n4",
        json!({}),
        json!({ "offset": 2, "limit": 2 }),
        &json!({
            "text": "2\n3\n", "startLine": 2, "endLine": 3, "totalLines": 4,
            "truncated": true, "nextOffset": 4, "eol": "crlf",
        }),
    );
    check(
        "1\n2\n3\n4",
        json!({}),
        json!({ "offset": 4, "limit": 1 }),
        &json!({ "text": "4", "endLine": 4, "truncated": false, "nextOffset": null, "cutLines": null }),
    );
}

#[test]
fn numbered_rows_end_with_how_to_go_on() {
    let text = "a\n\nc\nd\n";
    for (params, limits, expected) in [
        (
            json!({ "offset": 2, "limit": 2 }),
            json!({}),
            "2: \n3: c\n\n(Showing lines 2-3 of 4. Use offset=4 to continue.)",
        ),
        (
            json!({ "offset": 3 }),
            json!({}),
            "3: c\n4: d\n\n(End of file - total 4 lines)",
        ),
        (
            json!({}),
            json!({ "readBytes": 3 }),
            "1: a\n2: \n\n(Output capped. Showing lines 1-2 of 4. Use offset=3 to continue.)",
        ),
    ] {
        let mut params = params;
        params["format"] = "numbered".into();
        check(text, limits, params, &json!({ "text": expected }));
    }
    check(
        "",
        json!({}),
        json!({ "format": "numbered" }),
        &json!({ "text": "\n(End of file - total 0 lines)" }),
    );
}

#[test]
fn lines_are_counted_as_breaks_and_a_last_line_without_one() {
    for (text, total) in [
        ("", 0),
        ("\n", 1),
        ("a", 1),
        ("a\n", 1),
        ("a\n\n", 2),
        ("a\nb", 2),
        ("a\r\nb\r\n", 2),
    ] {
        check(
            text,
            json!({}),
            json!({}),
            &json!({ "totalLines": total, "text": text.replace('\r', ""), "endLine": total }),
        );
    }
}

#[test]
fn reads_are_limited_by_lines_bytes_and_characters() {
    let text = "aaaa\nbbbb\ncccc\n";
    let all = json!({ "text": text, "truncated": false, "totalLines": 3 });
    check(text, json!({}), json!({}), &all);
    let two = json!({ "text": "aaaa\nbbbb\n", "truncated": true, "nextOffset": 3, "totalLines": 3, "cutLines": null });
    check(text, json!({ "readLines": 2 }), json!({}), &two);
    check(text, json!({ "readLines": 2 }), json!({ "limit": 3 }), &two);
    check(text, json!({ "readBytes": 9 }), json!({}), &two);
    let cut = json!({ "text": "aaa\nbbb\nccc\n", "truncated": true, "nextOffset": null, "cutLines": [1, 2, 3] });
    check(text, json!({ "lineChars": 3 }), json!({}), &cut);
}

#[test]
fn a_long_line_is_cut_between_characters_and_listed() {
    let text = format!("short\n{}\nshort\n", "🦀e\u{301}".repeat(1000));
    let cut: String = text.lines().nth(1).unwrap().chars().take(2000).collect();
    assert_eq!(cut.chars().count(), 2000);
    let expected = format!("short\n{cut}\nshort\n");
    check(
        &text,
        json!({}),
        json!({}),
        &json!({ "text": expected, "cutLines": [2], "totalLines": 3, "truncated": true }),
    );
}

#[test]
fn a_line_of_exactly_the_limit_is_not_cut() {
    let text = format!("{}\r\n", "x".repeat(2000));
    check(
        &text,
        json!({}),
        json!({}),
        &json!({ "text": text.replace('\r', ""), "cutLines": null, "truncated": false }),
    );
}

#[test]
fn a_line_of_many_megabytes_is_read_like_others() {
    let text = format!("a\n{}\nb\n", "é".repeat(4 << 20));
    let world = limited(&text, &json!({}));
    for path in ["closed.txt", "open.txt"] {
        let result = read(&world, json!({ "path": path, "format": "numbered" })).unwrap();
        assert_eq!(result["cutLines"], json!([2]));
        assert_eq!(result["totalLines"], 3);
        let shown = result["text"].as_str().unwrap();
        assert!(shown.len() < 10_000, "{}", shown.len());
        assert!(
            shown.ends_with("3: b\n\n(End of file - total 3 lines)"),
            "{}",
            &shown[4000..]
        );
    }
}

#[test]
fn an_empty_file_has_an_empty_window_at_its_first_line_only() {
    let world = limited("", &json!({}));
    for path in ["closed.txt", "open.txt"] {
        let result = read(&world, json!({ "path": path })).unwrap();
        assert_eq!(
            (&result["text"], &result["totalLines"]),
            (&"".into(), &0.into())
        );
        assert_eq!(
            (&result["startLine"], &result["endLine"]),
            (&1.into(), &0.into())
        );
        assert_eq!(
            (&result["eol"], &result["bom"]),
            (&"none".into(), &false.into())
        );
        refused(
            read(&world, json!({ "path": path, "offset": 2 })),
            "FS_OUT_OF_RANGE",
        );
    }
}

#[test]
fn an_offset_past_the_end_says_how_many_lines_there_are_and_observes_nothing() {
    let world = limited("1\n2\n", &json!({}));
    let session = world.session("s");
    for path in ["closed.txt", "open.txt"] {
        for offset in [3, 1_000_000_000] {
            let error = refused(session.read_window(path, offset, 1), "FS_OUT_OF_RANGE");
            assert!(error.message().contains("2 lines"), "{error}");
        }
        check_entry(&session, path, "unseen", None);
        session.read_window(path, 2, 1).unwrap();
    }
}

#[test]
fn wherever_something_is_left_out_going_on_shows_all_of_it() {
    const SEED: u64 = 9;
    let mut choices = Choices::new(SEED);
    for _ in 0..scaled(12) {
        let words = ["a", "🦀", "é", "word ", "\n", "\n\n", "\r\n", "xxxxxxxxxx"];
        let text: String = (0..choices.below(200))
            .map(|_| choices.one_of(&words))
            .collect();
        let limits = json!({ "readLines": 1 + choices.below(20), "readBytes": 45 + choices.below(60), "lineChars": 10_000 });
        let world = limited(&text, &limits);
        let view = text.replace("\r\n", "\n");
        for path in ["closed.txt", "open.txt"] {
            let mut shown = String::new();
            let mut offset = Some(1);
            let mut cut = Vec::new();
            while let Some(from) = offset {
                let result = read(&world, json!({ "path": path, "offset": from })).unwrap();
                shown += result["text"].as_str().unwrap();
                cut.extend(result["cutLines"].as_array().cloned().unwrap_or_default());
                offset = result["nextOffset"].as_u64();
                assert!(
                    offset.is_none_or(|it| it > from),
                    "seed {SEED}: no progress at {from}"
                );
            }
            if cut.is_empty() {
                assert_eq!(shown, view, "seed {SEED}, {limits}");
            } else {
                assert_eq!(
                    shown.lines().count(),
                    view.lines().count(),
                    "seed {SEED}, {limits}"
                );
            }
        }
    }
}

#[test]
fn a_file_over_the_limit_is_too_large_to_read_and_to_edit() {
    let world = limited("12345678\n", &json!({ "fileBytes": 8 }));
    let session = world.session("s");
    let error = refused(session.read("closed.txt"), "FS_TOO_LARGE");
    assert!(error.message().contains("limits.fileBytes"), "{error}");
    refused(session.edit("closed.txt", "1", "2"), "FS_TOO_LARGE");
    refused(session.write("closed.txt", "1\n"), "FS_TOO_LARGE");
    world.check_disk("closed.txt", "12345678\n");
    let world = limited("12345678\n", &json!({ "fileBytes": 9 }));
    assert_eq!(
        read(&world, json!({ "path": "closed.txt" })).unwrap()["text"],
        "12345678\n"
    );
}

#[test]
fn wrong_windows_are_refused() {
    let world = limited("1\n", &json!({}));
    for params in [
        json!({ "offset": 0 }),
        json!({ "limit": 0 }),
        json!({ "offset": -1 }),
        json!({ "limit": 1.5 }),
        json!({ "offset": "1" }),
        json!({ "format": "html" }),
    ] {
        let mut params = params;
        params["path"] = "closed.txt".into();
        refused(read(&world, params), "-32602");
    }
}

#[test]
fn a_read_says_what_the_text_does_not_show() {
    for (raw, eol, bom) in [
        ("\u{feff}a\r\nb\r\n", "crlf", true),
        ("a\r\nb\n", "mixed", false),
        ("a", "none", false),
        ("\u{feff}", "none", true),
    ] {
        let world = World::new(&[("a.txt", raw)]);
        let result = read(&world, json!({ "path": "a.txt" })).unwrap();
        assert_eq!(
            (&result["eol"], &result["bom"]),
            (&eol.into(), &bom.into()),
            "{raw:?}"
        );
        assert_eq!(
            result["text"],
            raw.trim_start_matches('\u{feff}').replace('\r', "")
        );
        assert_eq!(result.get("dirty"), None);
    }
    let world = World::new(&[("a.txt", "a\n")]);
    world.editor.open("a.txt").unwrap();
    assert_eq!(
        read(&world, json!({ "path": "a.txt" })).unwrap()["dirty"],
        false
    );
    world.editor.types("a.txt", "a", "b").unwrap();
    assert_eq!(
        read(&world, json!({ "path": "a.txt" })).unwrap()["dirty"],
        true
    );
}

#[test]
fn one_file_can_be_named_in_many_ways() {
    let world = World::new(&[("sub/a b.txt", "text\n"), ("other.txt", "x\n")]);
    let root = world.root().display().to_string();
    let folder = world.root().file_name().unwrap().to_str().unwrap();
    let uri = world.editor.uri("sub/a b.txt");
    let session = world.session("s");
    for name in [
        "sub/a b.txt".to_string(),
        "./sub//a b.txt".to_string(),
        "sub/../sub/a b.txt".to_string(),
        format!("{root}/sub/a b.txt"),
        format!("{folder}/sub/a b.txt"),
        uri.clone(),
        uri.replace("file:", "FILE:"),
        uri.replace("sub", "%73%75b"),
        uri.replace("file://", "file:"),
        uri.replace("file://", "file://localhost"),
    ] {
        let result = session
            .read(&name)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(result["path"], name, "the path is told as it was named");
        assert_eq!(result["uri"], uri, "{name}");
        let entries = session.call("abreast/ledger", json!({})).unwrap()["entries"].clone();
        assert_eq!(
            entries.as_array().map(Vec::len),
            Some(1),
            "{name}: {entries}"
        );
        assert_eq!(entries[0]["path"], name);
    }
    session.edit("sub/a b.txt", "text", "edited").unwrap();
}

#[test]
fn the_folders_of_a_workspace_are_named_by_their_names() {
    let (_one, first) = directory();
    let (_two, second) = directory();
    std::fs::create_dir(first.join("docs")).unwrap();
    for (path, text) in [
        (first.join("a.txt"), "first\n"),
        (second.join("a.txt"), "second\n"),
        (second.join("only.txt"), "only\n"),
        (first.join("docs/only.txt"), "in the first\n"),
    ] {
        std::fs::write(path, text).unwrap();
    }
    let folders = json!([
        { "uri": uri_of(&first), "name": "code" }, { "uri": uri_of(&second), "name": "docs" },
    ]);
    let world = World::with(&[], |options| {
        options.client = json!({ "workspaceFolders": folders });
    });
    world
        .editor
        .call("abreast/openSession", json!({ "sessionId": "s" }))
        .unwrap();
    for (name, expected) in [
        ("a.txt", "first\n"),
        ("code/a.txt", "first\n"),
        ("docs/a.txt", "second\n"),
        // What is there below the session's directory comes before a folder's name.
        ("docs/only.txt", "in the first\n"),
    ] {
        let result = read(&world, json!({ "sessionId": "s", "path": name })).unwrap();
        assert_eq!(result["text"], expected, "{name}");
    }
    refused(
        read(&world, json!({ "sessionId": "s", "path": "only.txt" })),
        "FS_NOT_FOUND",
    );
    let edit =
        json!({ "sessionId": "s", "path": "docs/a.txt", "oldString": "second", "newString": "2" });
    world.editor.call("abreast/edit", edit).unwrap();
    assert_eq!(
        std::fs::read_to_string(second.join("a.txt")).unwrap(),
        "2\n"
    );

    // Folders come and go.
    let gone = json!({ "event": { "added": [], "removed": [{ "uri": uri_of(&second), "name": "docs" }] } });
    world
        .editor
        .connection()
        .notify("workspace/didChangeWorkspaceFolders", gone);
    refused(
        read(&world, json!({ "sessionId": "s", "path": "docs/a.txt" })),
        "FS_NOT_FOUND",
    );
    let added = json!({ "event": { "added": [{ "uri": uri_of(&second), "name": "papers" }], "removed": [] } });
    world
        .editor
        .connection()
        .notify("workspace/didChangeWorkspaceFolders", added);
    assert_eq!(
        read(&world, json!({ "sessionId": "s", "path": "papers/a.txt" })).unwrap()["text"],
        "2\n"
    );
}

#[test]
fn a_document_of_a_folder_that_is_only_in_the_editor_is_found_by_the_folders_name() {
    let world = World::new(&[]);
    let folder = world.root().file_name().unwrap().to_str().unwrap();
    world.editor.open_with("draft.txt", "draft\n").unwrap();
    let session = world.session("s");
    assert_eq!(
        session.read(&format!("{folder}/draft.txt")).unwrap()["text"],
        "draft\n"
    );
}

#[cfg(unix)]
#[test]
fn a_path_of_another_machine_is_an_error_and_never_a_new_file() {
    let world = World::new(&[("a.txt", "a\n")]);
    let session = world.session("s");
    for name in [
        r"C:\Users\me\a.txt",
        "c:/Users/me/a.txt",
        r"\\wsl$\Ubuntu\home\me\a.txt",
        r"\\wsl.localhost\Ubuntu\a.txt",
        r"\\server\share\a.txt",
        "/mnt/q/Users/me/a.txt",
    ] {
        let error = refused(session.read(name), "FS_NOT_FOUND");
        assert!(error.message().contains(" — "), "{error}");
        refused(session.write(name, "x\n"), "FS_NOT_FOUND");
        refused(session.edit(name, "a", "b"), "FS_NOT_FOUND");
    }
    refused(session.read("file://server/share/a.txt"), "-32602");
    refused(session.write("file://wsl$/Ubuntu/a.txt", "x\n"), "-32602");
    assert_eq!(world.listing(), ["a.txt"]);
}

#[test]
fn a_scheme_counts_only_for_files_and_open_documents() {
    let world = World::new(&[("x:y.txt", "a colon\n"), ("ab:c", "another\n")]);
    world.editor.open_with("untitled:1", "draft\n").unwrap();
    let session = world.session("s");
    assert_eq!(session.read("untitled:1").unwrap()["text"], "draft\n");
    assert_eq!(session.read("x:y.txt").unwrap()["text"], "a colon\n");
    assert_eq!(session.read("ab:c").unwrap()["text"], "another\n");
    refused(session.read("untitled:2"), "FS_NOT_FOUND");
}

#[test]
fn a_missing_file_is_told_with_the_names_near_it() {
    let files = [
        ("src/session.rs", ""),
        ("src/sessions.rs", ""),
        ("src/unrelated.txt", ""),
        ("src/Reads.rs", ""),
    ];
    let world = World::new(&files);
    let session = world.session("s");
    for (name, near, far) in [
        (
            "src/sesion.rs",
            vec!["src/session.rs", "src/sessions.rs"],
            "unrelated",
        ),
        ("src/reads.rs", vec!["src/Reads.rs"], "session"),
    ] {
        let error = refused(session.read(name), "FS_NOT_FOUND");
        let message = error.message();
        for near in near {
            assert!(message.contains(near), "{message}");
            session.read(near).unwrap();
        }
        assert!(!message.contains(far), "{message}");
    }
    let error = refused(session.read("src/zzzzzz"), "FS_NOT_FOUND");
    assert!(!error.message().contains("did you mean"), "{error}");
}
