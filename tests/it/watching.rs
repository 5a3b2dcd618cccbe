//! Changes by other programs are told early, whoever watches the files.

use std::fs;

use abreast::replay::client::Notification;
use serde_json::json;

use crate::support::{PATIENCE, World, check_entry};

/// An editor that does not watch files for its servers.
fn without_watcher(files: &[(&str, &str)]) -> World {
    World::with(files, |options| {
        options.client =
            json!({ "capabilities": { "workspace": { "didChangeWatchedFiles": null } } });
    })
}

/// Waits until it is told that the entry of a file has a status.
#[track_caller]
fn check_told(world: &World, path: &str, status: &str) {
    let uri = world.editor.uri(path);
    let is_it = |told: &Notification| {
        let mut entries = told.params["entries"].as_array().into_iter().flatten();
        told.method == "abreast/ledgerChanged"
            && entries.any(|it| it["uri"] == *uri && it["status"] == status)
    };
    let connection = world.editor.connection();
    let told = connection.wait_for_notification(PATIENCE, is_it);
    assert!(told.is_some(), "{path} is never told to be {status}");
}

#[test]
fn a_closed_file_turns_stale_and_fresh_by_itself() {
    let world = without_watcher(&[("a.txt", "one\n"), ("sub/b.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt", "sub/b.txt"]);
    for path in ["a.txt", "sub/b.txt"] {
        world.write_disk(path, "two\n");
        check_told(&world, path, "stale");
        world.write_disk(path, "one\n");
        check_told(&world, path, "fresh");
    }
    fs::remove_file(world.root().join("a.txt")).unwrap();
    check_told(&world, "a.txt", "stale");
    fs::write(world.root().join("new"), "one\n").unwrap();
    fs::rename(world.root().join("new"), world.root().join("a.txt")).unwrap();
    check_told(&world, "a.txt", "fresh");
    session.edit("a.txt", "one", "1").unwrap();
}

#[test]
fn a_file_that_was_missing_turns_stale_when_it_appears() {
    let world = without_watcher(&[]);
    let session = world.session("s");
    session.read("a.txt").unwrap_err();
    world.write_disk("a.txt", "one\n");
    check_told(&world, "a.txt", "stale");
}

#[test]
fn own_changes_are_no_news() {
    let world = without_watcher(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    for (old, new) in [("one", "two"), ("two", "three"), ("three", "four")] {
        session.edit("a.txt", old, new).unwrap();
    }
    let entry = check_entry(&session, "a.txt", "present", Some("fresh"));
    assert_eq!(entry.get("changedBy"), None, "{entry}");
    let told = world.editor.connection().take_notifications();
    let told = told
        .iter()
        .filter(|it| it.method == "abreast/ledgerChanged");
    assert_eq!(told.count(), 0);
}
