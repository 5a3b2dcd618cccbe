//! A call that cannot be done as a whole is taken back in the editor, around whatever was typed since.

use abreast::replay::{
    client::CallError,
    document::Typing,
    model::{Echo, Treatment},
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, World, refused};

const TEXT: &str = "one\nmiddle\ntwo\n";

/// Edits an open document in two places and a closed file, which another program changes before its turn comes; the
/// editor's part is done as `edited`, taken back as `taken_back`.
fn fail_half_way(world: &World, edited: Treatment, taken_back: Option<Treatment>) -> CallError {
    world.editor.open_with("open.txt", TEXT).unwrap();
    let session = world.session_that_read("s", &["open.txt", "closed.txt"]);
    let edit = |path: &str, old: &str, new: &str| json!({ "kind": "edit", "path": path, "oldString": old, "newString": new });
    world.editor.order(Treatment::Hold);
    let pending = session.start_apply(json!([
        edit("open.txt", "one", "first"),
        edit("open.txt", "two", "second"),
        edit("closed.txt", "one", "1"),
        { "kind": "write", "path": "new/deep/c.txt", "content": "c\n" },
    ]));
    assert!(world.editor.wait_for_held(1));
    world.write_disk("closed.txt", "ONE\n");
    if let Some(taken_back) = taken_back {
        world.editor.order(taken_back);
    }
    world.editor.release(edited);
    let error = pending.wait(PATIENCE).unwrap_err();
    world.check_disk("closed.txt", "ONE\n");
    assert!(!world.root().join("new").exists(), "a directory is left");
    error
}

fn outcomes(error: &CallError) -> Vec<&str> {
    let files = error.data()["files"].as_array().unwrap().iter();
    files.map(|it| it["outcome"].as_str().unwrap()).collect()
}

#[test]
fn what_was_typed_elsewhere_stays() {
    let world = World::new(&[("closed.txt", "one\n")]);
    let typed = Typing::at([1, 0], [1, 0], "human ");
    let edited = Treatment::Echo(Echo::Merged(vec![typed]));
    let error = fail_half_way(&world, edited, None);
    assert_eq!(error.code(), "FS_STALE_VERSION", "{error}");
    world.check_buffer("open.txt", "one\nhuman middle\ntwo\n");
}

#[test]
fn what_was_typed_over_stays_and_the_rest_is_taken_back() {
    let world = World::new(&[("closed.txt", "one\n")]);
    let typed = Typing::at([2, 0], [2, 3], "human");
    let edited = Treatment::Echo(Echo::Merged(vec![typed]));
    let error = refused(
        Err::<Value, _>(fail_half_way(&world, edited, None)),
        "FS_PARTIALLY_APPLIED",
    );
    assert_eq!(outcomes(&error), ["keptHuman", "rolledBack", "rolledBack"]);
    world.check_buffer("open.txt", "one\nmiddle\nhumanond\n");
}

#[test]
fn typing_while_it_is_taken_back_only_delays_it() {
    let world = World::new(&[("closed.txt", "one\n")]);
    let typed = Typing::at([1, 0], [1, 0], "human ");
    let taken_back = Treatment::TypeFirst(vec![typed]);
    let error = fail_half_way(&world, Treatment::Honest, Some(taken_back));
    assert_eq!(error.code(), "FS_STALE_VERSION", "{error}");
    world.check_buffer("open.txt", "one\nhuman middle\ntwo\n");
}

#[test]
fn what_the_editor_does_not_take_back_is_told_as_it_is() {
    let world = World::new(&[("closed.txt", "one\n")]);
    let error = fail_half_way(&world, Treatment::Honest, Some(Treatment::Reject));
    assert_eq!(error.code(), "FS_PARTIALLY_APPLIED", "{error}");
    assert_eq!(outcomes(&error), ["applied", "rolledBack", "rolledBack"]);
    world.check_buffer("open.txt", "first\nmiddle\nsecond\n");
    let read = world.session("t").read("open.txt").unwrap();
    assert_eq!(error.data()["files"][0]["version"], read["version"]);
}

#[test]
fn a_plan_of_every_kind_with_open_documents_changes_all() {
    let files = [
        ("edited.txt", TEXT),
        ("gone.txt", "gone\n"),
        ("moved.txt", TEXT),
        ("open.txt", TEXT),
    ];
    let world = World::new(&files);
    world.editor.open("open.txt").unwrap();
    let session = world.session_that_read("s", &files.map(|it| it.0));
    let edit =
        |path: &str| json!({ "kind": "edit", "path": path, "oldString": "one", "newString": "1" });
    let result = session.apply(json!([
        edit("open.txt"),
        { "kind": "rename", "path": "moved.txt", "newPath": "to/deep/moved.txt" },
        edit("to/deep/moved.txt"),
        { "kind": "write", "path": "moved.txt", "content": "new at the old place\n" },
        { "kind": "delete", "path": "gone.txt" },
        edit("edited.txt"),
        { "kind": "write", "path": "made/new.txt", "content": "one\n" },
        edit("made/new.txt"),
    ]));
    let result = result.unwrap();
    let told = result["files"].as_array().unwrap().iter();
    let told = told.map(|it| format!("{} {}", it["operation"], it["path"]).replace('"', ""));
    let expected = [
        "update open.txt",
        "update moved.txt",
        "rename to/deep/moved.txt",
        "delete gone.txt",
        "update edited.txt",
        "create made/new.txt",
    ];
    let mut told: Vec<_> = told.collect();
    told.sort();
    let mut expected = expected.map(str::to_string);
    expected.sort();
    assert_eq!(told, expected, "{result}");
    world.check_buffer("open.txt", "1\nmiddle\ntwo\n");
    world.check_disk("to/deep/moved.txt", "1\nmiddle\ntwo\n");
    world.check_disk("moved.txt", "new at the old place\n");
    world.check_disk("edited.txt", "1\nmiddle\ntwo\n");
    world.check_disk("made/new.txt", "1\n");
    assert!(!world.root().join("gone.txt").exists());
}
