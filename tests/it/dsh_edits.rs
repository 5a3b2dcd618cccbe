//! DeepSeek Harness's edge cases of edits, by their ids (`research/dsh.md` 2.5); where a case says something else than DSH
//! does, it is what this sidecar does instead.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    thread,
    time::SystemTime,
};

use abreast::replay::{client::CallError, session::Session};
use serde_json::{Value, json};

use crate::support::{Choices, Hand, PATIENCE, World, refused, scaled, version};

/// A file that a session has read.
fn read(text: &str) -> (World, Session) {
    let world = World::new(&[("a.txt", text)]);
    let session = world.session_that_read("s", &["a.txt"]);
    (world, session)
}

fn edit_all(session: &Session, old: &str, new: &str) -> Result<Value, CallError> {
    let params = json!({ "path": "a.txt", "oldString": old, "newString": new, "replaceAll": true });
    session.call("abreast/edit", params)
}

/// Checks the bytes after an edit of a file that was read.
#[track_caller]
fn check(text: &str, old: &str, new: &str, expected: &str) -> Value {
    let (world, session) = read(text);
    let result = session.edit("a.txt", old, new).unwrap();
    world.check_disk("a.txt", expected);
    result["files"][0].clone()
}

/// Checks that an edit is refused and the bytes stay.
#[track_caller]
fn check_refused(text: &str, old: &str, new: &str, code: &str) -> CallError {
    let (world, session) = read(text);
    let error = refused(session.edit("a.txt", old, new), code);
    world.check_disk("a.txt", text);
    error
}

#[test]
fn dsh_e01_the_only_hit_is_replaced() {
    assert_eq!(check("one two\n", "two", "2", "one 2\n")["replacements"], 1);
}

#[test]
fn dsh_e02_without_a_hit_nothing_changes() {
    check_refused("one\n", "two", "2", "FS_EDIT_NOT_FOUND");
}

#[test]
fn dsh_e03_all_of_none_is_not_found_either() {
    let (world, session) = read("one\n");
    refused(edit_all(&session, "two", "2"), "FS_EDIT_NOT_FOUND");
    world.check_disk("a.txt", "one\n");
}

#[test]
fn dsh_e04_three_hits_are_told_with_their_lines() {
    let error = check_refused("x\nx\n.\nx\n", "x", "y", "FS_AMBIGUOUS_EDIT");
    assert!(
        error.message().contains("at 3 places (lines 1, 2, 4)"),
        "{error}"
    );
}

#[test]
fn dsh_e05_all_hits_are_replaced() {
    let (world, session) = read("x\nx\n.\nx\n");
    assert_eq!(
        edit_all(&session, "x", "yy").unwrap()["files"][0]["replacements"],
        3
    );
    world.check_disk("a.txt", "yy\nyy\n.\nyy\n");
}

#[test]
fn dsh_e06_all_of_one_is_that_one() {
    let (world, session) = read("x\n");
    assert_eq!(
        edit_all(&session, "x", "y").unwrap()["files"][0]["replacements"],
        1
    );
    world.check_disk("a.txt", "y\n");
}

#[test]
fn dsh_e07_nothing_cannot_be_looked_for() {
    check_refused("one\n", "", "2", "-32602");
    let (_world, session) = read("one\n");
    refused(edit_all(&session, "", "2"), "-32602");
}

#[test]
fn dsh_e08_old_and_new_must_differ() {
    check_refused("one\n", "one", "one", "FS_NO_CHANGE");
}

#[test]
fn dsh_e09_old_and_new_must_differ_in_more_than_line_ends() {
    check_refused("one\r\ntwo\r\n", "one\r\ntwo", "one\ntwo", "FS_NO_CHANGE");
}

#[test]
fn dsh_e10_hits_that_overlap_are_ambiguous() {
    check_refused("aaa", "aa", "X", "FS_AMBIGUOUS_EDIT");
}

#[test]
fn dsh_e11_what_was_not_read_is_not_edited() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    let error = refused(session.edit("a.txt", "one", "1"), "FS_NOT_OBSERVED");
    assert!(
        error.data()["remedy"]
            .as_str()
            .unwrap()
            .contains("read the file"),
        "{error}"
    );
    world.check_disk("a.txt", "one\n");
}

#[test]
fn dsh_e12_e13_stale_comes_before_not_found_and_ambiguous() {
    for text in ["gone\n", "one one\n"] {
        let (world, session) = read("one\n");
        world.write_disk("a.txt", text);
        refused(session.edit("a.txt", "one", "1"), "FS_STALE_VERSION");
        world.check_disk("a.txt", text);
    }
}

#[test]
fn dsh_e14_a_file_deleted_since_it_was_read_is_stale() {
    let (world, session) = read("one\n");
    fs::remove_file(world.root().join("a.txt")).unwrap();
    refused(session.edit("a.txt", "one", "1"), "FS_STALE_VERSION");
    assert!(world.listing().is_empty());
}

#[test]
fn dsh_e15_a_missing_file_is_not_found_without_a_policy() {
    let world = World::new(&[]);
    let session = world
        .editor
        .session_with("s", json!({ "options": { "policy": "off" } }))
        .unwrap();
    refused(session.edit("a.txt", "one", "1"), "FS_NOT_FOUND");
    assert!(world.listing().is_empty());
}

#[test]
fn dsh_e16_a_directory_is_no_file_whatever_the_guard() {
    let world = World::new(&[]);
    fs::create_dir(world.root().join("a")).unwrap();
    let params = json!({
        "path": "a", "oldString": "one", "newString": "1",
        "guard": { "kind": "replaceIfVersion", "version": version("one\n") },
    });
    refused(
        world.session("s").call("abreast/edit", params.clone()),
        "FS_NOT_REGULAR_FILE",
    );
    refused(
        world.editor.call("abreast/edit", params),
        "FS_NOT_REGULAR_FILE",
    );
}

#[test]
fn dsh_e17_lf_finds_crlf_and_crlf_stays() {
    check("a\r\nb\r\nc\r\n", "a\nb", "a\nB", "a\r\nB\r\nc\r\n");
}

#[test]
fn dsh_e18_crlf_finds_lf_and_lf_stays() {
    check("a\nb\nc\n", "a\r\nb", "a\r\nB", "a\nB\nc\n");
}

#[test]
fn dsh_e19_new_lines_of_a_crlf_file_end_with_crlf() {
    check("a\r\nb\r\n", "b", "b\nc\nd", "a\r\nb\r\nc\r\nd\r\n");
}

#[test]
fn dsh_e20_a_mixed_file_stays_as_mixed_as_it_is() {
    check("a\r\nb\r\nc\nd\n", "c", "C\nx", "a\r\nb\r\nC\r\nx\nd\n");
    check("a\r\nb\r\nc\nd\n", "d", "D\nx", "a\r\nb\r\nc\nD\nx\n");
}

#[test]
fn dsh_e21_a_lone_return_and_an_odd_line_end_stay() {
    check("a\r\nb\r\nc\nd\r", "a", "A", "A\r\nb\r\nc\nd\r");
    check("a\r\nb\r\nc\nd\r", "d\r", "D\r", "a\r\nb\r\nc\nD\r");
}

#[test]
fn dsh_e22_line_ends_far_into_the_file_are_not_guessed_from_its_beginning() {
    let (lf, crlf) = ("x\n".repeat(3000), "y\r\n".repeat(1000));
    check(
        &format!("{lf}here\n{crlf}"),
        "here",
        "there",
        &format!("{lf}there\n{crlf}"),
    );
    check(
        &format!("{lf}{crlf}last\r\n"),
        "last",
        "last\nmore",
        &format!("{lf}{crlf}last\r\nmore\r\n"),
    );
}

#[test]
fn dsh_e23_of_a_tie_neither_side_wins() {
    check("a\r\nb\n", "a", "A", "A\r\nb\n");
    check("a\r\nb\n", "b", "B", "a\r\nB\n");
}

#[test]
fn dsh_e24_the_byte_order_mark_stays() {
    check("\u{FEFF}one\r\ntwo\r\n", "two", "2", "\u{FEFF}one\r\n2\r\n");
    check("\u{FEFF}one\n", "one", "1", "\u{FEFF}1\n");
}

#[test]
fn dsh_e25_a_byte_order_mark_that_was_copied_along_is_that_of_the_file() {
    check("\u{FEFF}one\n", "\u{FEFF}one", "\u{FEFF}1", "\u{FEFF}1\n");
    check_refused("one\n", "\u{FEFF}one", "\u{FEFF}1", "FS_EDIT_NOT_FOUND");
}

/// Checks that a file that is no text is neither read nor edited.
#[track_caller]
fn check_no_text(bytes: &[u8]) {
    let world = World::new(&[]);
    let path = world.root().join("a.txt");
    fs::write(&path, bytes).unwrap();
    refused(world.session("s").edit("a.txt", "one", "1"), "FS_NOT_TEXT");
    assert_eq!(fs::read(path).unwrap(), bytes);
}

#[test]
fn dsh_e26_what_is_not_utf_8_stays_to_the_byte() {
    check_no_text(b"one \xE9\xE8\n");
}

#[test]
fn dsh_e27_a_nul_anywhere_makes_a_file_binary() {
    check_no_text(b"one\0\n");
    check_no_text(&[&b"one\n".repeat(20_000)[..], b"\0"].concat());
}

#[test]
fn dsh_e28_half_a_character_is_refused() {
    let hand = Hand::strict(&[("a.txt", "one\n")]);
    hand.call("abreast/read", json!({ "path": "a.txt" }))
        .unwrap();
    let body = r#"{"jsonrpc":"2.0","id":"half","method":"abreast/edit","params":{"sessionId":"s","path":"a.txt","oldString":"one","newString":"\ud83d"}}"#;
    hand.connection()
        .send_bytes(format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes());
    let answer = hand.connection().wait_for_unmatched(PATIENCE).unwrap();
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&"half".into(), &(-32602).into())
    );
    hand.check_disk("a.txt", "one\n");
}

#[test]
fn dsh_e29_e30_signs_of_replacement_patterns_are_literal() {
    for new in [
        "$&", "$$", "$1", "$`", "$'", "`x`", "\\1", "\\n", "%s", "{0}",
    ] {
        check("one two\n", "two", new, &format!("one {new}\n"));
        let (world, session) = read("x x\n");
        edit_all(&session, "x", new).unwrap();
        world.check_disk("a.txt", &format!("{new} {new}\n"));
    }
}

#[test]
fn dsh_e31_replacing_by_nothing_deletes() {
    check("one two\n", " two", "", "one\n");
}

#[test]
fn dsh_e32_edits_of_one_session_all_land_and_of_two_the_second_is_stale() {
    let (world, session) = read("one two\n");
    let pending = [("one", "1"), ("two", "2")].map(|it| session.start_edit("a.txt", it.0, it.1));
    for pending in pending {
        pending.wait(PATIENCE).unwrap();
    }
    world.check_disk("a.txt", "1 2\n");
    let others = ["s1", "s2"].map(|it| world.session_that_read(it, &["a.txt"]));
    let [first, second] = others.map(|it| it.start_edit("a.txt", "1", it.id()));
    first.wait(PATIENCE).unwrap();
    refused(second.wait(PATIENCE), "FS_STALE_VERSION");
    world.check_disk("a.txt", "s1 2\n");
}

#[test]
fn dsh_e33_e34_after_an_edit_or_a_write_the_next_edit_needs_no_read() {
    let (world, session) = read("one\n");
    let result = session.edit("a.txt", "one", "two").unwrap();
    let params = json!({
        "path": "a.txt", "oldString": "two", "newString": "three",
        "guard": { "kind": "replaceIfVersion", "version": result["files"][0]["version"] },
    });
    session.call("abreast/edit", params).unwrap();
    session.write("a.txt", "four\n").unwrap();
    session.edit("a.txt", "four", "five").unwrap();
    session.write("new.txt", "one\n").unwrap();
    session.edit("new.txt", "one", "two").unwrap();
    world.check_disk("a.txt", "five\n");
    world.check_disk("new.txt", "two\n");
}

#[test]
fn dsh_e35_after_a_new_read_the_retry_succeeds() {
    let (world, session) = read("one\n");
    world.write_disk("a.txt", "one more\n");
    refused(session.edit("a.txt", "one", "1"), "FS_STALE_VERSION");
    session.read("a.txt").unwrap();
    session.edit("a.txt", "one", "1").unwrap();
    world.check_disk("a.txt", "1 more\n");
}

#[test]
fn dsh_e36_an_edit_that_is_cancelled_at_once_changes_nothing() {
    let hand = Hand::strict(&[("a.txt", "one\n")]);
    hand.call("abreast/read", json!({ "path": "a.txt" }))
        .unwrap();
    let params = json!({ "path": "a.txt", "oldString": "one", "newString": "1" });
    let answer = hand.call_and_cancel("abreast/edit", params);
    assert_eq!(answer["error"]["data"]["code"], "FS_ABORTED", "{answer}");
    hand.check_disk("a.txt", "one\n");
}

/// What another program does while an edit is under way, after a little of its own work.
fn meanwhile(path: &Path, n_spins: usize, act: impl Fn(&Path) + Send) -> impl FnOnce() + Send {
    move || {
        for _ in 0..n_spins {
            let _ = fs::metadata(path);
        }
        act(path);
    }
}

/// Plays many races of an edit with another program, each another moment later, and checks what is left.
#[track_caller]
fn race(act: impl Fn(&Path) + Send + Copy, check: impl Fn(&Path, &Session)) {
    let world = World::new(&[]);
    let path = world.root().join("a.txt");
    let session = world.session("s");
    let mut choices = Choices::new(5);
    for round in 0..scaled(60) {
        fs::write(&path, format!("round {round} one\n")).unwrap();
        session.read("a.txt").unwrap();
        let spins = choices.below(400);
        thread::scope(|scope| {
            let other = scope.spawn(meanwhile(&path, spins, act));
            let edit = session.edit("a.txt", "one", "the agent's");
            if let Err(error) = edit {
                assert_eq!(error.code(), "FS_STALE_VERSION", "{error}");
            }
            other.join().unwrap();
        });
        check(&path, &session);
    }
}

/// Saves as most editors do: a new file takes the place of the old one.
fn save(path: &Path) {
    let new = path.with_extension("new");
    fs::write(&new, "the human's one\n").unwrap();
    fs::rename(new, path).unwrap();
}

#[test]
fn dsh_e37_a_save_that_races_an_edit_is_never_lost() {
    race(save, |path, _| {
        assert_eq!(fs::read_to_string(path).unwrap(), "the human's one\n");
    });
}

#[test]
fn dsh_e38_a_file_that_is_deleted_during_an_edit_does_not_come_back() {
    race(
        |path| fs::remove_file(path).unwrap(),
        |path, _| assert!(!path.exists()),
    );
}

#[test]
fn dsh_e39_a_save_right_after_an_edit_makes_the_next_one_stale() {
    race(save, |path, session| {
        refused(
            session.write("a.txt", "all the agent's\n"),
            "FS_STALE_VERSION",
        );
        assert_eq!(fs::read_to_string(path).unwrap(), "the human's one\n");
    });
}

#[test]
fn dsh_e40_e41_what_leaves_the_content_as_it_is_makes_nothing_stale() {
    let (world, session) = read("0\n");
    let path = world.root().join("a.txt");
    let acts: [&dyn Fn(); 7] = [
        &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap(),
        &|| {
            fs::File::options()
                .append(true)
                .open(&path)
                .unwrap()
                .set_modified(SystemTime::UNIX_EPOCH)
                .unwrap();
        },
        &|| symlink(&path, world.root().join("link")).unwrap(),
        &|| {
            fs::rename(&path, world.root().join("b.txt")).unwrap();
            fs::rename(world.root().join("b.txt"), &path).unwrap();
        },
        &|| fs::write(&path, fs::read(&path).unwrap()).unwrap(),
        &|| drop(fs::read(&path).unwrap()),
        &|| fs::hard_link(&path, world.root().join("hard")).unwrap(),
    ];
    for (nth, act) in acts.iter().enumerate() {
        act();
        session
            .edit("a.txt", &nth.to_string(), &(nth + 1).to_string())
            .unwrap();
    }
    world.check_disk("a.txt", "7\n");
    world.check_disk("hard", "7\n");
}

#[test]
fn dsh_e42_every_rewrite_in_place_of_the_same_size_is_noticed() {
    let (world, session) = read("0000\n");
    for nth in 1..=scaled(300) {
        world.write_disk("a.txt", &format!("{nth:04}\n"));
        refused(session.edit("a.txt", "0", "x"), "FS_STALE_VERSION");
        session.read("a.txt").unwrap();
    }
}

#[test]
fn dsh_e43_the_whole_text_can_be_taken_away() {
    check("one\ntwo\n", "one\ntwo\n", "", "");
}

#[test]
fn dsh_e44_a_file_over_the_limit_is_too_large() {
    let world = World::with(&[("a.txt", &"one\n".repeat(30))], |options| {
        options.initialization_options = json!({ "limits": { "fileBytes": 100 } });
    });
    let session = world.session("s");
    refused(session.edit("a.txt", "one", "1"), "FS_TOO_LARGE");
    refused(session.read("a.txt"), "FS_TOO_LARGE");
}

#[test]
fn dsh_e45_what_is_no_refusal_of_a_file_has_no_remedy() {
    let (world, _session) = read("one\n");
    let edit =
        json!({ "sessionId": "nobody", "path": "a.txt", "oldString": "one", "newString": "1" });
    let error = refused(world.editor.call("abreast/edit", edit), "UNKNOWN_SESSION");
    assert!(error.data()["remedy"].is_null(), "{error}");
    let error = refused(
        world.editor.call("abreast/edit", json!({ "path": 1 })),
        "-32602",
    );
    assert!(error.data()["remedy"].is_null(), "{error}");
}

#[test]
fn dsh_e46_one_change_of_eight_lines_is_one_hunk_with_three_lines_around() {
    let file = check(
        "1\n2\n3\n4\n5\n6\n7\n8\n",
        "5",
        "five",
        "1\n2\n3\n4\nfive\n6\n7\n8\n",
    );
    let expected = json!([{
        "oldStart": 2, "oldLines": 7, "newStart": 2, "newLines": 7,
        "lines": [" 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"],
    }]);
    assert_eq!(file["hunks"], expected);
}

#[test]
fn dsh_e47_changes_seven_lines_apart_are_two_hunks_and_six_are_one() {
    for (n_between, n_hunks) in [(6, 1), (7, 2)] {
        let between = "=\n".repeat(n_between);
        let (_world, session) = read(&format!("x\n{between}x\n"));
        let result = edit_all(&session, "x", "y").unwrap();
        assert_eq!(
            result["files"][0]["hunks"].as_array().map(Vec::len),
            Some(n_hunks),
            "{result}"
        );
    }
}

#[test]
fn dsh_e48_a_hunk_of_only_new_or_only_old_lines_says_before_which_line() {
    let (_world, session) = read("");
    let result = session.write("a.txt", "one\n").unwrap();
    let expected =
        json!([{ "oldStart": 0, "oldLines": 0, "newStart": 1, "newLines": 1, "lines": ["+one"] }]);
    assert_eq!(result["files"][0]["hunks"], expected);
    let file = check("one\n", "one\n", "", "");
    let expected =
        json!([{ "oldStart": 1, "oldLines": 1, "newStart": 0, "newLines": 0, "lines": ["-one"] }]);
    assert_eq!(file["hunks"], expected);
}

#[test]
fn dsh_e49_a_final_line_break_that_comes_or_goes_is_told() {
    let note = "\\ No newline at end of file";
    let file = check("one", "one", "one\n", "one\n");
    assert_eq!(file["hunks"][0]["lines"], json!(["-one", note, "+one"]));
    let file = check("one\n", "one\n", "one", "one");
    assert_eq!(file["hunks"][0]["lines"], json!(["-one", "+one", note]));
}
