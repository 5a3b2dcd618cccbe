//! What a refused edit tells: of a file that was read, what is there instead; of any other, none of its text.

use abreast::replay::client::CallError;
use serde_json::{Value, json};

use crate::support::{World, refused, version};

/// Texts that nobody but a reader may see, and edits that miss them by a little, one of each kind.
const MISSES: [(&str, &str); 10] = [
    ("if secret {\n\tgo();\n}\n", "if secret {\n    go();"),
    ("say(“secret”);\n", "say(\"secret\");"),
    ("sec\u{200B}ret();\n", "secret();"),
    ("secret();\nb();\n", "secret();\\nb();"),
    ("a();\nsecret();\n", "2: secret();"),
    ("let secretName = 1;\n", "let secretname = 1;"),
    ("secret();  \nb();\n", "secret();\nb();"),
    ("  if secret:\n      b()\n", "  if secret:\n    b()"),
    (
        "fn secret(w: u32, h: u32) -> u32 {\n",
        "fn secret(w: u32, h: u32) -> u64 {",
    ),
    ("use secret::B;\nuse a::A;\n", "use a::A;\nuse secret::B;"),
];

/// An edit by someone who has not read the file but may change it: without a session, or with the policy off.
fn edits_unread(text: &str, old: &str) -> Vec<CallError> {
    let world = World::new(&[("a.txt", text)]);
    let edit = json!({ "path": "a.txt", "oldString": old, "newString": "changed" });
    let mut guarded = edit.clone();
    guarded["guard"] = json!({ "kind": "replaceIfVersion", "version": version(text) });
    let off = world
        .editor
        .session_with("off", json!({ "options": { "policy": "off" } }))
        .unwrap();
    let answers = [
        world.editor.call("abreast/edit", guarded),
        off.call("abreast/edit", edit.clone()),
    ];
    world.editor.open("a.txt").unwrap();
    let answers = answers.into_iter().chain([off.call("abreast/edit", edit)]);
    answers.map(Result::unwrap_err).collect()
}

/// What of a refusal comes from the file: all but the path and what was asked for.
fn told(error: &CallError) -> String {
    format!("{} {}", error.message(), error.data())
}

#[test]
fn a_miss_shows_a_reader_what_is_there_instead() {
    for (text, old) in MISSES {
        let world = World::new(&[("a.txt", text)]);
        let session = world.session_that_read("s", &["a.txt"]);
        let error = refused(session.edit("a.txt", old, "x"), "FS_EDIT_NOT_FOUND");
        let nearest = &error.data()["nearest"];
        let shown = nearest["text"].as_str().unwrap_or_default();
        assert!(
            !shown.is_empty() && text.contains(shown),
            "{error}: {nearest}"
        );
        assert!(
            nearest["line"].as_u64().is_some_and(|it| it >= 1),
            "{error}: {nearest}"
        );
        assert!(
            error.message().contains(nearest["why"].as_str().unwrap()),
            "{error}: {nearest}"
        );
    }
}

#[test]
fn a_miss_shows_no_text_of_a_file_that_was_not_read() {
    for (text, old) in MISSES {
        for error in edits_unread(text, old) {
            assert_eq!(error.code(), "FS_EDIT_NOT_FOUND", "{error}");
            let told = told(&error);
            assert!(!told.contains("ecret") && !told.contains('`'), "{told}");
            assert_eq!(
                error.data()["nearest"]["text"].as_str().unwrap_or_default(),
                "",
                "{told}"
            );
            assert!(error.data()["nearest"]["line"].as_u64().is_some(), "{told}");
        }
    }
}

#[test]
fn several_places_show_no_text_of_a_file_that_was_not_read() {
    let text = "secret one x\nsecret two x\n";
    for error in edits_unread(text, "x") {
        assert_eq!(error.code(), "FS_AMBIGUOUS_EDIT", "{error}");
        assert_eq!(
            error.data()["matches"],
            json!([{ "line": 1, "column": 12 }, { "line": 2, "column": 12 }])
        );
        assert!(!told(&error).contains("secret"), "{error}");
    }
    let world = World::new(&[("a.txt", text)]);
    let session = world.session_that_read("s", &["a.txt"]);
    let error = refused(session.edit("a.txt", "x", "y"), "FS_AMBIGUOUS_EDIT");
    assert_eq!(
        error.data()["matches"][1]["context"],
        "secret two x",
        "{error}"
    );
}

#[test]
fn what_is_told_is_bounded_whatever_the_file() {
    let many = "the same line again\n".repeat(20_000);
    let long = format!("{}x{}\n", "a".repeat(100_000), "b".repeat(100_000));
    for (text, old) in [
        (&many, "the same line again".to_string()),
        (&many, "the same line Again\n".repeat(1_000)),
        (&long, "ab".to_string()),
        (&long, "a x b".repeat(5_000)),
        (&long, "aXb".to_string()),
    ] {
        let world = World::new(&[("a.txt", text)]);
        let session = world.session_that_read("s", &["a.txt"]);
        let error = session.edit("a.txt", &old, "x").unwrap_err();
        assert!(
            matches!(&*error.code(), "FS_EDIT_NOT_FOUND" | "FS_AMBIGUOUS_EDIT"),
            "{}",
            error.code()
        );
        assert!(
            told(&error).len() < 12_000,
            "{} bytes are told",
            told(&error).len()
        );
    }
}

/// Edits `“a”` as `"a"`, with or without a word of the request.
fn finds(world: &World, options: &Value, asked: Option<bool>) -> bool {
    world.write_disk("a.txt", "“a”\n");
    let session = world
        .editor
        .session_with("s", json!({ "options": options }))
        .unwrap();
    session.read("a.txt").unwrap();
    let mut params = json!({ "path": "a.txt", "oldString": "\"a\"", "newString": "\"b\"" });
    if let Some(asked) = asked {
        params["unicodeFallback"] = asked.into();
    }
    let answer = session.call("abreast/edit", params);
    session.close().unwrap();
    match answer {
        Ok(result) => {
            assert_eq!(result["files"][0]["unicodeNormalized"], true, "{result}");
            true
        }
        Err(error) => {
            assert_eq!(error.code(), "FS_EDIT_NOT_FOUND", "{error}");
            false
        }
    }
}

#[test]
fn the_fallback_is_off_unless_the_connection_the_session_or_the_request_switches_it() {
    for of_connection in [None, Some(false), Some(true)] {
        let world = World::with(&[], |options| {
            if let Some(it) = of_connection {
                options.initialization_options = json!({ "unicodeFallback": it });
            }
        });
        for of_session in [None, Some(false), Some(true)] {
            let options = of_session.map_or(json!({}), |it| json!({ "unicodeFallback": it }));
            for of_request in [None, Some(false), Some(true)] {
                let expected = of_request.or(of_session).or(of_connection).unwrap_or(false);
                let told = format!("{of_connection:?} {of_session:?} {of_request:?}");
                assert_eq!(finds(&world, &options, of_request), expected, "{told}");
            }
        }
    }
}
