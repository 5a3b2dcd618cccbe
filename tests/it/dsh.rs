//! DeepSeek Harness's edge cases of paths, reads, the ledger and writes, by their ids (`research/dsh.md` 2.1 to 2.4);
//! where a case says something else than DSH does, it is what this sidecar does instead.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    time::Duration,
};

use abreast::replay::client::ServerCommand;
use serde_json::{Value, json};

use crate::support::{Hand, PATIENCE, World, check_entry, directory, refused, server, version};

fn read_without_session(world: &World, path: &str) -> Value {
    world
        .editor
        .call("abreast/read", json!({ "path": path }))
        .unwrap()
}

fn link(world: &World, target: &str, name: &str) {
    symlink(target, world.root().join(name)).unwrap();
}

fn write_bytes(world: &World, path: &str, bytes: impl AsRef<[u8]>) {
    fs::write(world.root().join(path), bytes).unwrap();
}

#[track_caller]
fn check_bytes(world: &World, path: &str, expected: impl AsRef<[u8]>) {
    assert_eq!(
        fs::read(world.root().join(path)).unwrap(),
        expected.as_ref(),
        "{path}"
    );
}

/// Checks the text that a read shows and whether anything was left out.
#[track_caller]
fn check_read(content: impl AsRef<[u8]>, expected: &str, total: usize, cut: &[usize]) -> Value {
    let world = World::new(&[]);
    write_bytes(&world, "a.txt", content);
    let result = read_without_session(&world, "a.txt");
    assert_eq!(result["text"].as_str(), Some(expected));
    assert_eq!(result["totalLines"], total);
    let listed = result.get("cutLines").cloned().unwrap_or_else(|| json!([]));
    assert_eq!(listed, json!(cut));
    result
}

/// Checks that a file cannot be read, nor written or edited, with one and the same code.
#[track_caller]
fn check_unreadable(content: impl AsRef<[u8]>, code: &str, detail: &str) {
    let world = World::new(&[]);
    write_bytes(&world, "a.bin", content.as_ref());
    let session = world.session("s");
    for error in [
        refused(session.read("a.bin"), code),
        refused(session.edit("a.bin", "a", "b"), code),
        refused(session.write("a.bin", "text\n"), code),
    ] {
        assert!(error.message().contains(detail), "{error}");
    }
    check_entry(&session, "a.bin", "unseen", None);
    check_bytes(&world, "a.bin", content.as_ref());
}

// ── 2.1 paths and identity ──────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn dsh_p01_a_relative_path_is_below_the_directory_of_the_session() {
    let world = World::new(&[("a.txt", "top\n"), ("sub/a.txt", "sub\n")]);
    let session = world
        .editor
        .session_with("s", json!({ "cwd": world.root().join("sub") }))
        .unwrap();
    assert_eq!(session.read("a.txt").unwrap()["text"], "sub\n");
    assert_eq!(session.read("../a.txt").unwrap()["text"], "top\n");
}

#[test]
fn dsh_p02_an_absolute_path_needs_no_directory() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world
        .editor
        .session_with("s", json!({ "cwd": "/no/such/directory" }))
        .unwrap();
    let path = world.root().join("a.txt");
    session.read(path.to_str().unwrap()).unwrap();
    refused(session.read("a.txt"), "FS_NOT_FOUND");
}

#[test]
fn dsh_p03_a_blank_path_is_malformed() {
    let world = World::new(&[]);
    let session = world.session("s");
    for path in ["", " ", "\t\n"] {
        refused(session.read(path), "-32602");
        refused(session.write(path, "x"), "-32602");
        refused(session.edit(path, "a", "b"), "-32602");
    }
}

#[test]
fn dsh_p04_a_missing_file_is_the_same_file_once_it_is_there() {
    let world = World::new(&[]);
    let session = world.session("s");
    refused(session.read("new.txt"), "FS_NOT_FOUND");
    let absolute = world.root().join("./new.txt");
    session.write(absolute.to_str().unwrap(), "new\n").unwrap();
    session.edit("new.txt", "new", "edited").unwrap();
    let entries = session.call("abreast/ledger", json!({})).unwrap()["entries"].clone();
    assert_eq!(entries.as_array().map(Vec::len), Some(1), "{entries}");
}

#[test]
fn dsh_p05_missing_directories_are_below_the_nearest_one_that_exists() {
    let world = World::new(&[("real/x.txt", "x\n")]);
    link(&world, "real", "link");
    let session = world.session("s");
    session.write("link/new/deep/a.txt", "a\n").unwrap();
    world.check_disk("real/new/deep/a.txt", "a\n");
    session.edit("real/new/deep/a.txt", "a", "A").unwrap();
    world.check_disk("real/new/deep/a.txt", "A\n");
}

#[test]
fn dsh_p06_a_file_below_a_linked_root_is_the_same_before_and_after_its_creation() {
    let world = World::new(&[("real/x.txt", "x\n")]);
    link(&world, "real", "link");
    let session = world.session("s");
    refused(session.read("link/sub/a.txt"), "FS_NOT_FOUND");
    check_entry(&session, "real/sub/a.txt", "absent", Some("fresh"));
    world.write_disk("real/sub/a.txt", "a\n");
    check_entry(&session, "link/sub/a.txt", "absent", Some("stale"));
    session.read("real/sub/a.txt").unwrap();
    session.edit("link/sub/a.txt", "a", "A").unwrap();
}

#[test]
fn dsh_p07_a_file_reached_by_link_and_directly_is_one() {
    let world = World::new(&[("a.txt", "one\n")]);
    link(&world, "a.txt", "link.txt");
    let session = world.session("s");
    assert_eq!(session.read("link.txt").unwrap()["path"], "link.txt");
    assert_eq!(session.read("a.txt").unwrap()["path"], "a.txt");
    let sessions = world.editor.call("abreast/sessions", json!({})).unwrap();
    assert_eq!(sessions["sessions"][0]["entries"], 1, "{sessions}");
}

#[test]
fn dsh_p08_what_was_read_through_a_link_can_be_edited_directly() {
    let world = World::new(&[("a.txt", "one\n")]);
    link(&world, "a.txt", "link.txt");
    let session = world.session_that_read("s", &["link.txt"]);
    session.edit("a.txt", "one", "1").unwrap();
    session.write("link.txt", "two\n").unwrap();
    world.check_disk("a.txt", "two\n");
}

#[test]
fn dsh_p09_a_change_through_one_name_makes_the_other_stale() {
    let world = World::new(&[("a.txt", "one\n")]);
    link(&world, "a.txt", "link.txt");
    let session = world.session_that_read("s", &["link.txt"]);
    world.write_disk("a.txt", "changed\n");
    let error = refused(session.edit("link.txt", "one", "1"), "FS_STALE_VERSION");
    assert!(error.message().contains("\"link.txt\""), "{error}");
    refused(session.edit("a.txt", "one", "1"), "FS_STALE_VERSION");
}

#[test]
fn dsh_p10_an_edit_through_a_link_changes_its_target_and_the_link_stays() {
    let world = World::new(&[("real/a.txt", "one\n")]);
    link(&world, "real/a.txt", "link.txt");
    let session = world.session_that_read("s", &["link.txt"]);
    session.edit("link.txt", "one", "1").unwrap();
    session.write("link.txt", "2\n").unwrap();
    world.check_disk("real/a.txt", "2\n");
    assert_eq!(
        fs::read_link(world.root().join("link.txt")).unwrap(),
        PathBuf::from("real/a.txt")
    );
}

#[test]
fn dsh_p12_a_path_through_a_file_is_not_found() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    refused(session.read("a.txt/b.txt"), "FS_NOT_FOUND");
    refused(session.read("a.txt/../a.txt"), "FS_NOT_FOUND");
}

#[test]
fn dsh_p13_a_loop_of_links_is_an_error_with_a_code() {
    let world = World::new(&[]);
    link(&world, "b", "a");
    link(&world, "a", "b");
    let session = world.session("s");
    for error in [
        refused(session.read("a"), "FS_IO_ERROR"),
        refused(session.write("b", "x"), "FS_IO_ERROR"),
        refused(session.edit("a/c.txt", "x", "y"), "FS_IO_ERROR"),
    ] {
        assert!(error.message().contains("loop"), "{error}");
    }
}

#[test]
fn dsh_p14_a_nul_in_a_path_is_malformed() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    for path in ["a.txt\0", "\0", "a\0/b"] {
        refused(session.read(path), "-32602");
        refused(session.write(path, "x"), "-32602");
    }
}

#[test]
fn dsh_p15_dots_are_taken_as_the_system_takes_them_after_links() {
    let world = World::new(&[
        ("real/sub/a.txt", "below\n"),
        ("real/x.txt", "physical\n"),
        ("x.txt", "lexical\n"),
    ]);
    link(&world, "real/sub", "link");
    let session = world.session("s");
    assert_eq!(session.read("link/../x.txt").unwrap()["text"], "physical\n");
    let in_link = world
        .editor
        .session_with("t", json!({ "cwd": world.root().join("link") }))
        .unwrap();
    assert_eq!(in_link.read("../x.txt").unwrap()["text"], "physical\n");
    assert_eq!(in_link.read("a.txt").unwrap()["text"], "below\n");
}

#[test]
fn dsh_p16_what_is_missing_is_absent_and_no_failure() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    for path in ["none.txt", "no/such/directory/none.txt"] {
        refused(session.read(path), "FS_NOT_FOUND");
        check_entry(&session, path, "absent", Some("fresh"));
    }
}

#[test]
fn dsh_p17_a_link_is_read_as_its_file() {
    let world = World::new(&[("a.txt", "one\n")]);
    link(&world, "a.txt", "link.txt");
    assert_eq!(read_without_session(&world, "link.txt")["text"], "one\n");
    assert!(
        fs::symlink_metadata(world.root().join("link.txt"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn dsh_p18_what_is_no_regular_file_is_refused_and_never_waited_for() {
    let world = World::new(&[]);
    let fifo = std::process::Command::new("mkfifo")
        .arg(world.root().join("fifo"))
        .status()
        .unwrap();
    assert!(fifo.success());
    let _socket = std::os::unix::net::UnixListener::bind(world.root().join("socket")).unwrap();
    let session = world.session("s");
    for path in ["fifo", "socket"] {
        refused(session.read(path), "FS_NOT_REGULAR_FILE");
        refused(session.write(path, "x"), "FS_NOT_REGULAR_FILE");
        refused(session.edit(path, "a", "b"), "FS_NOT_REGULAR_FILE");
    }
}

#[test]
fn dsh_p19_a_device_is_neither_read_nor_written() {
    let world = World::with(&[], |options| {
        options.initialization_options = json!({ "containment": "none" });
    });
    let session = world.session("s");
    refused(session.read("/dev/null"), "FS_NOT_REGULAR_FILE");
    refused(session.read("/dev/zero"), "FS_NOT_REGULAR_FILE");
    refused(session.write("/dev/null", "x"), "FS_NOT_REGULAR_FILE");
}

#[test]
fn dsh_p20_a_call_that_is_cancelled_at_once_is_aborted() {
    let hand = Hand::strict(&[("a.txt", "one\n")]);
    for method in ["abreast/read", "abreast/ledger", "abreast/observe"] {
        let answer = hand.call_and_cancel(method, json!({ "path": "a.txt" }));
        assert_eq!(
            answer["error"]["data"]["code"], "FS_ABORTED",
            "{method}: {answer}"
        );
    }
}

#[test]
fn dsh_p22_uris_are_escaped() {
    let names = ["a b.txt", "100%.txt", "ä#?.txt", "[x].txt", "q\"'.txt"];
    let files: Vec<_> = names.iter().map(|it| (*it, "one\n")).collect();
    let world = World::new(&files);
    for name in names {
        let uri = read_without_session(&world, name)["uri"]
            .as_str()
            .unwrap()
            .to_string();
        assert!(uri.starts_with("file:///"), "{uri}");
        assert!(!uri.contains([' ', '"', '#', '?', 'ä']), "{uri}");
        let again = read_without_session(&world, &uri);
        assert_eq!(
            (&again["uri"], &again["text"]),
            (&uri.into(), &"one\n".into())
        );
    }
}

// ── 2.2 read ────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn dsh_r01_lines_are_numbered_from_one() {
    let world = World::new(&[("a.txt", "one\ntwo\nthree")]);
    let result = world
        .editor
        .call(
            "abreast/read",
            json!({ "path": "a.txt", "format": "numbered" }),
        )
        .unwrap();
    let text = result["text"].as_str().unwrap();
    assert!(text.starts_with("1: one\n2: two\n3: three\n"), "{text}");
    assert_eq!(result["totalLines"], 3);
}

#[test]
fn dsh_r02_a_window_says_how_to_go_on() {
    let world = World::new(&[("a.txt", "1\n2\n3\n4\n")]);
    let params = json!({ "path": "a.txt", "offset": 2, "limit": 2, "format": "numbered" });
    let result = world.editor.call("abreast/read", params).unwrap();
    let expected = "2: 2\n3: 3\n\n(Showing lines 2-3 of 4. Use offset=4 to continue.)";
    assert_eq!(result["text"], expected);
}

#[test]
fn dsh_r03_crlf_is_not_shown_but_told() {
    let result = check_read("a\r\nb\r\n", "a\nb\n", 2, &[]);
    assert_eq!(result["eol"], "crlf");
}

#[test]
fn dsh_r04_a_line_of_3000_characters_is_cut_at_2000() {
    check_read("x".repeat(3000) + "\n", &("x".repeat(2000) + "\n"), 1, &[1]);
}

#[test]
fn dsh_r05_a_line_of_exactly_2000_characters_is_whole() {
    check_read(
        "x".repeat(2000) + "\r\n",
        &("x".repeat(2000) + "\n"),
        1,
        &[],
    );
}

#[test]
fn dsh_r06_a_cut_after_a_lone_cr_is_told() {
    let long = "x".repeat(2000) + "\rmore\n";
    check_read(&long, &("x".repeat(2000) + "\n"), 1, &[1]);
}

#[test]
fn dsh_r07_a_cut_never_splits_a_character() {
    let long = "x".repeat(1999) + "🦀🦀\n";
    check_read(&long, &("x".repeat(1999) + "🦀\n"), 1, &[1]);
}

#[test]
fn dsh_r08_the_byte_limit_leaves_the_number_of_lines_exact() {
    let world = World::new(&[("a.txt", &("y".repeat(99) + "\n").repeat(2000))]);
    let result = read_without_session(&world, "a.txt");
    assert_eq!(
        (&result["totalLines"], &result["truncated"]),
        (&2000.into(), &true.into())
    );
    assert_eq!(
        (&result["endLine"], &result["nextOffset"]),
        (&512.into(), &513.into())
    );
}

#[test]
fn dsh_r09_a_first_line_over_the_byte_limit_is_cut_so_that_reading_goes_on() {
    let world = World::with(&[("a.txt", "aaaaaaaaaa\nb\n")], |options| {
        options.initialization_options = json!({ "limits": { "readBytes": 4 } });
    });
    let result = read_without_session(&world, "a.txt");
    assert_eq!(
        (&result["text"], &result["nextOffset"]),
        (&"aaaa\n".into(), &2.into())
    );
    assert_eq!(result["cutLines"], json!([1]));
}

#[test]
fn dsh_r10_an_empty_file_can_be_read_at_its_first_line() {
    let world = World::new(&[("a.txt", "")]);
    let session = world.session("s");
    assert_eq!(session.read_window("a.txt", 1, 1).unwrap()["totalLines"], 0);
    refused(session.read_window("a.txt", 2, 1), "FS_OUT_OF_RANGE");
}

#[test]
fn dsh_r11_an_offset_past_the_end_is_out_of_range_and_observes_nothing() {
    let world = World::new(&[("a.txt", "1\n2\n")]);
    let session = world.session("s");
    refused(session.read_window("a.txt", 3, 1), "FS_OUT_OF_RANGE");
    check_entry(&session, "a.txt", "unseen", None);
    refused(session.edit("a.txt", "1", "x"), "FS_NOT_OBSERVED");
}

#[test]
fn dsh_r12_a_last_line_break_makes_no_line_and_a_last_line_needs_none() {
    check_read("a\nb", "a\nb", 2, &[]);
    check_read("a\nb\n", "a\nb\n", 2, &[]);
}

#[test]
fn dsh_r13_a_line_break_ends_a_line() {
    check_read("\n", "\n", 1, &[]);
    check_read("a\n\n", "a\n\n", 2, &[]);
}

#[test]
fn dsh_r14_a_lone_cr_is_a_character() {
    check_read("a\rb\r", "a\rb\r", 1, &[]);
}

#[test]
fn dsh_r15_a_document_typed_in_pieces_reads_like_one_opened_as_a_whole() {
    let text = "one\ntwo é 🦀\nthree\n".repeat(40);
    for n_chars in [2, 3, 256] {
        let world = World::new(&[]);
        world.editor.open_with("a.txt", "").unwrap();
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(n_chars) {
            let typing = abreast::replay::document::Typing::at(
                [99_999, 0],
                [99_999, 0],
                &piece.iter().collect::<String>(),
            );
            world.editor.change("a.txt", &[typing]).unwrap();
        }
        assert_eq!(
            read_without_session(&world, "a.txt")["text"].as_str(),
            Some(text.as_str())
        );
    }
}

#[test]
fn dsh_r16_characters_across_any_block_of_a_file_are_whole() {
    let text = "x".to_string()
        + &"é🦀"
            .repeat(30_000)
            .chars()
            .collect::<Vec<_>>()
            .chunks(100)
            .map(|it| it.iter().collect::<String>() + "\n")
            .collect::<String>();
    let world = World::with(&[("a.txt", &text)], |options| {
        options.initialization_options = json!({ "limits": { "readBytes": 10_000_000 } });
    });
    assert_eq!(
        read_without_session(&world, "a.txt")["text"].as_str(),
        Some(text.as_str())
    );
}

#[test]
fn dsh_r17_a_line_without_end_is_cut() {
    check_read("z".repeat(5000), &"z".repeat(2000), 1, &[1]);
}

#[test]
fn dsh_r18_windows_are_of_positive_integers() {
    let world = World::new(&[("a.txt", "1\n")]);
    for window in [
        json!({ "offset": 0 }),
        json!({ "offset": 1.5 }),
        json!({ "limit": 0 }),
        json!({ "limit": -3 }),
    ] {
        let mut params = window;
        params["path"] = "a.txt".into();
        refused(world.editor.call("abreast/read", params), "-32602");
    }
}

#[test]
fn dsh_r20_a_limit_over_the_cap_is_the_cap() {
    let world = World::new(&[("a.txt", &"x\n".repeat(3000))]);
    let session = world.session("s");
    let result = session.read_window("a.txt", 1, 99_999).unwrap();
    assert_eq!(
        (&result["endLine"], &result["nextOffset"]),
        (&2000.into(), &2001.into())
    );
}

#[test]
fn dsh_r21_a_blank_path_cannot_be_read() {
    let world = World::new(&[]);
    let error = refused(world.session("s").read("  "), "-32602");
    assert!(error.message().contains("path"), "{error}");
}

#[test]
fn dsh_r22_a_missing_file_is_recorded_as_absent() {
    let world = World::new(&[]);
    let session = world.session("s");
    refused(session.read("a.txt"), "FS_NOT_FOUND");
    check_entry(&session, "a.txt", "absent", Some("fresh"));
}

#[test]
fn dsh_r23_a_directory_is_no_file_and_leaves_the_ledger_alone() {
    let world = World::new(&[("sub/a.txt", "a\n")]);
    let session = world.session("s");
    refused(session.read("sub"), "FS_NOT_REGULAR_FILE");
    refused(session.read("/"), "FS_NOT_REGULAR_FILE");
    check_entry(&session, "sub", "unseen", None);
}

#[test]
fn dsh_r24_a_nul_makes_a_file_binary() {
    check_unreadable(b"text\0more\n", "FS_NOT_TEXT", "NUL");
}

#[test]
fn dsh_r25_bytes_that_are_not_utf_8_are_no_text() {
    check_unreadable(b"caf\xff\n", "FS_NOT_TEXT", "UTF-8");
}

#[test]
fn dsh_r26_utf_16_is_called_by_its_name() {
    check_unreadable(b"\xff\xfea\0b\0", "FS_NOT_TEXT", "UTF-16");
}

#[test]
fn dsh_r27_a_nul_far_into_the_file_counts_for_reads_and_edits_alike() {
    let mut bytes = vec![b'a'; 9000];
    bytes.push(0);
    check_unreadable(bytes, "FS_NOT_TEXT", "NUL");
}

#[test]
fn dsh_r28_a_byte_order_mark_is_not_shown_and_stays() {
    let world = World::new(&[("a.txt", "\u{feff}one\n")]);
    let session = world.session("s");
    let result = session.read("a.txt").unwrap();
    assert_eq!(
        (&result["text"], &result["bom"]),
        (&"one\n".into(), &true.into())
    );
    session.edit("a.txt", "one", "1").unwrap();
    check_bytes(&world, "a.txt", "\u{feff}1\n");
}

#[test]
fn dsh_r29_a_file_of_more_than_10_mib_is_read_in_windows() {
    let world = World::new(&[("a.txt", &"0123456789abcde\n".repeat(700_000))]);
    let session = world.session("s");
    let result = session.read_window("a.txt", 699_999, 10).unwrap();
    assert_eq!(
        (&result["totalLines"], &result["endLine"]),
        (&700_000.into(), &700_000.into())
    );
    assert_eq!(result["text"], "0123456789abcde\n0123456789abcde\n");
}

#[test]
fn dsh_r30_the_size_of_a_file_changes_nothing_in_how_it_is_read() {
    // Around what is computed at once and what elsewhere.
    for n_bytes in [
        (256 << 10) - 1,
        256 << 10,
        (256 << 10) + 1,
        (10 << 20) - 1,
        10 << 20,
        (10 << 20) + 1,
    ] {
        let text = "x".repeat(n_bytes - 5) + "\nend\n";
        let world = World::new(&[("a.txt", &text)]);
        let result = world.session("s").read_window("a.txt", 2, 1).unwrap();
        assert_eq!(
            (&result["text"], &result["version"]),
            (&"end\n".into(), &version(&text).into())
        );
    }
}

#[test]
fn dsh_r31_a_read_under_way_can_be_cancelled() {
    let hand = Hand::strict(&[("a.txt", "one\n")]);
    hand.open("open.txt", "one\n");
    let read = hand.start("abreast/read", json!({ "path": "open.txt" }));
    hand.asked("abreast/sync");
    read.cancel();
    refused(read.wait(PATIENCE), "FS_ABORTED");
}

#[test]
fn dsh_r32_a_read_cancelled_before_it_began_observes_nothing() {
    let hand = Hand::strict(&[("a.txt", "one\n")]);
    let answer = hand.call_and_cancel("abreast/read", json!({ "path": "a.txt" }));
    assert_eq!(answer["error"]["data"]["code"], "FS_ABORTED");
    let edit = json!({ "path": "a.txt", "oldString": "one", "newString": "1" });
    refused(hand.call("abreast/edit", edit), "FS_NOT_OBSERVED");
}

#[test]
fn dsh_r35_lines_are_cut_at_the_limit_that_was_set() {
    let world = World::with(&[("a.txt", "abcdef\nab\n")], |options| {
        options.initialization_options = json!({ "limits": { "lineChars": 4 } });
    });
    let result = read_without_session(&world, "a.txt");
    assert_eq!(
        (&result["text"], &result["cutLines"]),
        (&"abcd\nab\n".into(), &json!([1]))
    );
}

#[test]
fn dsh_r36_nine_bytes_hold_two_lines_of_four() {
    let world = World::with(&[("a.txt", "aaaa\nbbbb\ncccc\n")], |options| {
        options.initialization_options = json!({ "limits": { "readBytes": 9 } });
    });
    let result = read_without_session(&world, "a.txt");
    assert_eq!(
        (&result["endLine"], &result["totalLines"]),
        (&2.into(), &3.into())
    );
    assert_eq!(result["truncated"], true);
}

#[test]
fn dsh_r37_limits_that_cannot_be_are_refused_by_name() {
    use abreast::replay::editor::{Editor, Options, StartError};
    for name in ["readLines", "readBytes", "lineChars", "pending"] {
        for value in [json!(0), json!(2.5), json!(-1), json!("many")] {
            let (_directory, root) = directory();
            let mut options = Options::new(server(), root);
            options.initialization_options = json!({ "limits": { name: value } });
            let Err(StartError::Initialize { error, .. }) = Editor::start(&options) else {
                panic!("{name} was accepted");
            };
            assert_eq!(error.code(), "-32602");
            assert!(error.message().contains("limits"), "{error}");
        }
    }
}

/// A server that is not root, if the tests are; nothing if that cannot be had.
fn unprivileged_server() -> Option<ServerCommand> {
    let serve = server();
    let is_root = fs::read("/proc/self/status")
        .is_ok_and(|it| String::from_utf8_lossy(&it).contains("Uid:\t0\t0\t"));
    if !is_root {
        return Some(serve);
    }
    let mut arguments = ["--reuid=65534", "--regid=65534", "--clear-groups"]
        .map(Into::into)
        .to_vec();
    arguments.push(serve.program.clone().into_os_string());
    arguments.extend(serve.arguments.clone());
    let drop_root = ServerCommand {
        program: "setpriv".into(),
        arguments,
        environment: serve.environment,
    };
    let can_run = std::process::Command::new("setpriv")
        .args(&drop_root.arguments[..3])
        .arg(&drop_root.arguments[3])
        .arg("--version")
        .output();
    can_run
        .is_ok_and(|it| it.status.success())
        .then_some(drop_root)
}

#[test]
fn dsh_r38_a_file_that_may_not_be_read_is_permission_denied() {
    let Some(server) = unprivileged_server() else {
        return;
    };
    let world = World::with(&[("a.txt", "one\n")], |options| {
        fs::set_permissions(&options.root, fs::Permissions::from_mode(0o755)).unwrap();
        options.server = server;
    });
    let path = world.root().join("a.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let session = world.session("s");
    refused(session.read("a.txt"), "FS_PERMISSION_DENIED");
    refused(session.edit("a.txt", "one", "1"), "FS_PERMISSION_DENIED");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(session.read("a.txt").unwrap()["text"], "one\n");
}

// ── 2.3 the ledger ──────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn dsh_l01_a_write_of_the_unseen_only_creates() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    refused(session.write("a.txt", "x\n"), "FS_NOT_OBSERVED");
    assert_eq!(
        session.write("new.txt", "x\n").unwrap()["files"][0]["operation"],
        "create"
    );
}

#[test]
fn dsh_l02_a_write_of_the_absent_only_creates() {
    let world = World::new(&[]);
    let session = world.session("s");
    refused(session.read("a.txt"), "FS_NOT_FOUND");
    world.write_disk("a.txt", "here now\n");
    refused(session.write("a.txt", "x\n"), "FS_NOT_OBSERVED");
    fs::remove_file(world.root().join("a.txt")).unwrap();
    session.write("a.txt", "x\n").unwrap();
}

#[test]
fn dsh_l03_a_write_of_the_seen_replaces_what_was_seen() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    world.write_disk("a.txt", "two\n");
    refused(session.write("a.txt", "x\n"), "FS_STALE_VERSION");
    world.write_disk("a.txt", "one\n");
    session.write("a.txt", "x\n").unwrap();
}

#[test]
fn dsh_l04_an_edit_of_the_unseen_is_refused() {
    let world = World::new(&[("a.txt", "one\n")]);
    let error = refused(
        world.session("s").edit("a.txt", "one", "1"),
        "FS_NOT_OBSERVED",
    );
    assert!(
        error
            .message()
            .starts_with("edit requires reading \"a.txt\" first — "),
        "{error}"
    );
}

#[test]
fn dsh_l05_an_edit_of_the_absent_is_not_found() {
    let world = World::new(&[]);
    let session = world.session("s");
    refused(session.read("a.txt"), "FS_NOT_FOUND");
    let error = refused(session.edit("a.txt", "one", "1"), "FS_NOT_FOUND");
    assert!(
        error
            .message()
            .starts_with("cannot edit \"a.txt\": not found — "),
        "{error}"
    );
}

#[test]
fn dsh_l06_an_edit_of_the_seen_is_of_what_was_seen() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let result = session.edit("a.txt", "one", "1").unwrap();
    assert_eq!(result["files"][0]["previousVersion"], version("one\n"));
}

#[test]
fn dsh_l07_without_a_session_one_can_only_create() {
    let world = World::new(&[("a.txt", "one\n")]);
    let call = |method: &str, params: Value| world.editor.call(method, params);
    call("abreast/read", json!({ "path": "a.txt" })).unwrap();
    let edit = json!({ "path": "a.txt", "oldString": "one", "newString": "1" });
    refused(call("abreast/edit", edit), "FS_NOT_OBSERVED");
    refused(
        call("abreast/write", json!({ "path": "a.txt", "content": "x" })),
        "FS_NOT_OBSERVED",
    );
    call(
        "abreast/write",
        json!({ "path": "new.txt", "content": "x" }),
    )
    .unwrap();
    world.check_disk("a.txt", "one\n");
}

#[test]
fn dsh_l08_a_read_without_a_session_is_recorded_for_nobody() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    read_without_session(&world, "a.txt");
    check_entry(&session, "a.txt", "unseen", None);
    refused(session.edit("a.txt", "one", "1"), "FS_NOT_OBSERVED");
}

#[test]
fn dsh_l09_the_latest_observation_counts() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    fs::remove_file(world.root().join("a.txt")).unwrap();
    refused(session.read("a.txt"), "FS_NOT_FOUND");
    check_entry(&session, "a.txt", "absent", Some("fresh"));
    world.write_disk("a.txt", "two\n");
    session.read("a.txt").unwrap();
    check_entry(&session, "a.txt", "present", Some("fresh"));
    session.edit("a.txt", "two", "2").unwrap();
}

#[test]
fn dsh_l10_after_a_success_the_next_edit_needs_no_read() {
    let world = World::new(&[]);
    let session = world.session("s");
    session.write("a.txt", "one\n").unwrap();
    session.edit("a.txt", "one", "two").unwrap();
    session.edit("a.txt", "two", "three").unwrap();
    session.write("a.txt", "four\n").unwrap();
    session.edit("a.txt", "four", "five").unwrap();
}

#[test]
fn dsh_l11_what_one_session_read_authorises_no_other() {
    let world = World::new(&[("a.txt", "one\n")]);
    world.session_that_read("reader", &["a.txt"]);
    let other = world.session("other");
    refused(other.edit("a.txt", "one", "1"), "FS_NOT_OBSERVED");
    refused(other.write("a.txt", "1\n"), "FS_NOT_OBSERVED");
}

#[test]
fn dsh_l12_each_session_has_its_own_guards() {
    let world = World::new(&[("a.txt", "one\n")]);
    let reader = world.session_that_read("reader", &["a.txt"]);
    let other = world.session("other");
    refused(other.write("a.txt", "x\n"), "FS_NOT_OBSERVED");
    reader.write("a.txt", "y\n").unwrap();
    world.check_disk("a.txt", "y\n");
}

#[test]
fn dsh_l13_an_older_observation_recorded_last_never_authorises_a_change() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    world.write_disk("a.txt", "two\n");
    session.read("a.txt").unwrap();
    session
        .call(
            "abreast/observe",
            json!({ "path": "a.txt", "version": version("one\n") }),
        )
        .unwrap();
    refused(session.edit("a.txt", "two", "2"), "FS_STALE_VERSION");
    world.check_disk("a.txt", "two\n");
}

#[test]
fn dsh_l15_a_ledger_ends_with_its_session() {
    let world = World::new(&[("a.txt", "one\n")]);
    world.session_that_read("s", &["a.txt"]).close().unwrap();
    let again = world.session("s");
    refused(again.edit("a.txt", "one", "1"), "FS_NOT_OBSERVED");
}

#[test]
fn dsh_l16_a_window_authorises_an_edit_elsewhere_and_the_unseen_lines_are_told() {
    let text: String = (1..=20).map(|it| format!("line {it}\n")).collect();
    let world = World::new(&[("a.txt", &text)]);
    let session = world.session("s");
    session.read_window("a.txt", 1, 1).unwrap();
    session.edit("a.txt", "line 12\n", "LINE 12\n").unwrap();
    let result = session.write("a.txt", "all new\n").unwrap();
    // Line 1 was shown, and line 12 is its own.
    assert_eq!(result["files"][0]["unseenLines"], 18, "{result}");
}

#[test]
fn dsh_l17_stale_is_told_before_any_match() {
    let world = World::new(&[("a.txt", "one\ntwo\n")]);
    let session = world.session("s");
    session.read_window("a.txt", 1, 1).unwrap();
    world.write_disk("a.txt", "two two two\n");
    refused(session.edit("a.txt", "one", "1"), "FS_STALE_VERSION");
    refused(session.edit("a.txt", "two", "2"), "FS_STALE_VERSION");
}

#[test]
fn dsh_l18_what_the_host_reads_by_other_means_is_not_seen_unless_it_says_so() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    fs::read(world.root().join("a.txt")).unwrap();
    refused(session.edit("a.txt", "one", "1"), "FS_NOT_OBSERVED");
    session
        .call("abreast/observe", json!({ "path": "a.txt" }))
        .unwrap();
    session.edit("a.txt", "one", "1").unwrap();
}

#[test]
fn dsh_l19_a_file_deleted_by_others_is_stale_then_absent_then_created() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    fs::remove_file(world.root().join("a.txt")).unwrap();
    refused(session.edit("a.txt", "one", "1"), "FS_STALE_VERSION");
    refused(session.write("a.txt", "1\n"), "FS_STALE_VERSION");
    assert_eq!(world.listing(), Vec::<String>::new());
    refused(session.read("a.txt"), "FS_NOT_FOUND");
    refused(session.edit("a.txt", "one", "1"), "FS_NOT_FOUND");
    let result = session.write("a.txt", "1\n").unwrap();
    assert_eq!(result["files"][0]["operation"], "create");
}

#[test]
fn dsh_l20_a_change_that_was_made_is_never_told_as_a_failure() {
    let world = World::new(&[("a.txt", "0\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let mut content = 0;
    for number in 1..=50 {
        let old = if number % 3 == 0 {
            "none".to_string()
        } else {
            content.to_string()
        };
        if session.edit("a.txt", &old, &number.to_string()).is_ok() {
            content = number;
        }
        world.check_disk("a.txt", &format!("{content}\n"));
    }
}

#[test]
fn dsh_l21_observations_that_say_nothing_are_malformed() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    for params in [
        json!({ "path": "" }),
        json!({ "path": "a.txt", "version": "" }),
        json!({ "path": "a.txt", "version": "b3:" }),
        json!({ "path": "a.txt", "text": null, "version": [] }),
        json!({}),
    ] {
        refused(session.call("abreast/observe", params), "-32602");
    }
}

#[test]
fn dsh_l22_a_binary_file_is_no_endless_read_it_first() {
    let world = World::new(&[]);
    write_bytes(&world, "a.bin", b"caf\xe9\n");
    let session = world.session("s");
    refused(session.read("a.bin"), "FS_NOT_TEXT");
    let error = refused(session.write("a.bin", "text\n"), "FS_NOT_TEXT");
    assert!(error.message().contains("open it in the editor"), "{error}");
    world.editor.open_with("a.bin", "café\n").unwrap();
    session.read("a.bin").unwrap();
    session.edit("a.bin", "café", "tea").unwrap();
    world.check_buffer("a.bin", "tea\n");
}

#[test]
fn dsh_l25_a_ledger_can_be_taken_along_and_is_checked_by_content() {
    let world = World::new(&[("a.txt", "one\n"), ("b.txt", "two\n")]);
    let session = world.session_that_read("s", &["a.txt", "b.txt"]);
    let ledger = session
        .call("abreast/ledger", json!({ "export": true }))
        .unwrap()["export"]
        .clone();
    session.close().unwrap();
    world.write_disk("b.txt", "changed\n");
    let session = world
        .editor
        .session_with("resumed", json!({ "ledger": ledger }))
        .unwrap();
    session.edit("a.txt", "one", "1").unwrap();
    refused(session.edit("b.txt", "changed", "x"), "FS_NOT_OBSERVED");
}

// ── 2.4 write ───────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn dsh_w01_a_new_file_has_exactly_the_bytes_that_were_written() {
    let world = World::new(&[]);
    let session = world.session("s");
    let content = "a\r\nb\n\u{feff}c\rd";
    let result = session.write("a.txt", content).unwrap();
    let file = &result["files"][0];
    assert_eq!(
        (&file["operation"], file.get("previousVersion")),
        (&"create".into(), None)
    );
    check_bytes(&world, "a.txt", content);
}

#[test]
fn dsh_w02_what_was_never_read_is_not_overwritten() {
    let world = World::new(&[("a.txt", "one\n")]);
    let error = refused(world.session("s").write("a.txt", "x\n"), "FS_NOT_OBSERVED");
    let expected =
        "cannot overwrite existing \"a.txt\" without reading it first — read the file, then retry";
    assert_eq!(error.message(), expected);
    world.check_disk("a.txt", "one\n");
}

#[test]
fn dsh_w03_what_was_read_is_replaced() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let result = session.write("a.txt", "two\n").unwrap();
    assert_eq!(result["files"][0]["operation"], "update");
    world.check_disk("a.txt", "two\n");
}

#[test]
fn dsh_w04_what_changed_since_is_stale_until_it_is_read_again() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    world.write_disk("a.txt", "two\n");
    let error = refused(session.write("a.txt", "x\n"), "FS_STALE_VERSION");
    assert!(
        error
            .message()
            .starts_with("cannot write \"a.txt\": file changed since it was read"),
        "{error}"
    );
    assert!(error.message().contains("re-read the file"), "{error}");
    session.read("a.txt").unwrap();
    session.write("a.txt", "x\n").unwrap();
}

#[test]
fn dsh_w05_what_was_deleted_since_is_stale_and_not_made_again() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    fs::remove_file(world.root().join("a.txt")).unwrap();
    let error = refused(session.write("a.txt", "x\n"), "FS_STALE_VERSION");
    assert!(error.message().contains("no longer exists"), "{error}");
    assert_eq!(world.listing(), Vec::<String>::new());
}

#[test]
fn dsh_w06_of_several_that_create_one_file_one_does() {
    for round in 0..10 {
        let world = World::new(&[]);
        let sessions: Vec<_> = (0..4).map(|it| world.session(&format!("s{it}"))).collect();
        let pending: Vec<_> = sessions
            .iter()
            .map(|it| {
                it.start(
                    "abreast/write",
                    json!({ "path": "a.txt", "content": it.id() }),
                )
            })
            .collect();
        let answers: Vec<_> = pending.into_iter().map(|it| it.wait(PATIENCE)).collect();
        let winner = answers.iter().position(Result::is_ok).unwrap();
        world.check_disk("a.txt", sessions[winner].id());
        for (idx, answer) in answers.into_iter().enumerate().filter(|it| it.0 != winner) {
            let error = refused(answer, "FS_NOT_OBSERVED");
            assert!(
                error.message().contains("without reading it first"),
                "round {round}, {idx}: {error}"
            );
        }
    }
}

#[test]
fn dsh_w07_a_directory_is_not_created_over() {
    let world = World::new(&[("sub/a.txt", "a\n")]);
    let session = world.session("s");
    refused(session.write("sub", "x\n"), "FS_NOT_REGULAR_FILE");
    let guarded = json!({ "path": "sub", "content": "x\n", "guard": { "kind": "createIfAbsent" } });
    refused(
        session.call("abreast/write", guarded),
        "FS_NOT_REGULAR_FILE",
    );
    world.check_disk("sub/a.txt", "a\n");
}

#[test]
fn dsh_w08_a_dangling_link_stands_for_the_file_that_is_missing() {
    let world = World::new(&[]);
    link(&world, "target.txt", "link.txt");
    let session = world.session("s");
    refused(session.read("link.txt"), "FS_NOT_FOUND");
    session.write("link.txt", "new\n").unwrap();
    world.check_disk("target.txt", "new\n");
    assert!(
        fs::symlink_metadata(world.root().join("link.txt"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn dsh_w09_a_dangling_link_is_never_replaced_by_a_file() {
    let world = World::new(&[]);
    link(&world, "no/such/target.txt", "link.txt");
    let session = world
        .editor
        .session_with("s", json!({ "options": { "policy": "off" } }))
        .unwrap();
    session.write("link.txt", "new\n").unwrap();
    assert!(
        fs::symlink_metadata(world.root().join("link.txt"))
            .unwrap()
            .is_symlink()
    );
    world.check_disk("no/such/target.txt", "new\n");
}

#[test]
fn dsh_w11_a_directory_that_admits_no_file_is_permission_denied_and_left_clean() {
    let world = World::new(&[("sub/a.txt", "a\n")]);
    let sub = world.root().join("sub");
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o555)).unwrap();
    let session = world.session_that_read("s", &["sub/a.txt"]);
    refused(session.write("sub/new.txt", "x\n"), "FS_PERMISSION_DENIED");
    let names: Vec<_> = fs::read_dir(&sub)
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    fs::set_permissions(&sub, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(names, ["a.txt"]);
    session.write("sub/new.txt", "x\n").unwrap();
}

#[test]
fn dsh_w12_errors_name_the_path_as_it_was_given() {
    let world = World::new(&[("real.txt", "one\n")]);
    link(&world, "real.txt", "link.txt");
    let session = world.session_that_read("s", &["link.txt"]);
    world.write_disk("real.txt", "two\n");
    let error = refused(session.write("link.txt", "x\n"), "FS_STALE_VERSION");
    assert!(
        error.message().contains("\"link.txt\"") && !error.message().contains("real.txt"),
        "{error}"
    );
    assert_eq!(error.data()["path"], "link.txt");
}

#[test]
fn dsh_w13_a_directory_is_no_target_with_any_guard_or_none() {
    let world = World::new(&[("sub/a.txt", "a\n")]);
    for policy in ["observe", "off"] {
        let session = world
            .editor
            .session_with(policy, json!({ "options": { "policy": policy } }))
            .unwrap();
        let guard = json!({ "kind": "replaceIfVersion", "version": version("a\n") });
        refused(session.write("sub", "x\n"), "FS_NOT_REGULAR_FILE");
        let guarded = json!({ "path": "sub", "content": "x\n", "guard": guard });
        refused(
            session.call("abreast/write", guarded),
            "FS_NOT_REGULAR_FILE",
        );
    }
}

#[test]
fn dsh_w15_of_two_writes_on_one_version_one_wins_and_one_is_stale() {
    let world = World::new(&[("a.txt", "one\n")]);
    let sessions = ["s1", "s2"].map(|it| world.session_that_read(it, &["a.txt"]));
    let pending = sessions.map(|it| {
        it.start(
            "abreast/write",
            json!({ "path": "a.txt", "content": it.id() }),
        )
    });
    let [first, second] = pending.map(|it| it.wait(PATIENCE));
    first.unwrap();
    refused(second, "FS_STALE_VERSION");
    world.check_disk("a.txt", "s1");
}

#[test]
fn dsh_w16_of_a_write_and_an_edit_on_one_version_one_wins() {
    let world = World::new(&[("a.txt", "one\n")]);
    let writer = world.session_that_read("writer", &["a.txt"]);
    let editor = world.session_that_read("editor", &["a.txt"]);
    let write = writer.start(
        "abreast/write",
        json!({ "path": "a.txt", "content": "one one\n" }),
    );
    let edit = editor.start_edit("a.txt", "one", "1");
    write.wait(PATIENCE).unwrap();
    refused(edit.wait(PATIENCE), "FS_STALE_VERSION");
    world.check_disk("a.txt", "one one\n");
}

#[test]
fn dsh_w17_nothing_is_held_up_after_a_success_a_failure_or_an_abort() {
    let hand = Hand::strict(&[("a.txt", "one\n")]);
    hand.call("abreast/read", json!({ "path": "a.txt" }))
        .unwrap();
    let edit =
        |old: &str, new: &str| json!({ "path": "a.txt", "oldString": old, "newString": new });
    hand.call("abreast/edit", edit("one", "two")).unwrap();
    refused(
        hand.call("abreast/edit", edit("one", "two")),
        "FS_EDIT_NOT_FOUND",
    );
    hand.call_and_cancel("abreast/edit", edit("two", "three"));
    let within = Duration::from_secs(10);
    hand.start("abreast/edit", edit("two", "four"))
        .wait(within)
        .unwrap();
    hand.check_disk("a.txt", "four\n");
}

#[test]
fn dsh_w18_the_version_is_that_of_what_was_written() {
    let world = World::new(&[]);
    let session = world.session("s");
    let result = session.write("a.txt", "one\r\n").unwrap();
    assert_eq!(result["files"][0]["version"], version("one\n"));
    assert_eq!(session.read("a.txt").unwrap()["version"], version("one\n"));
}

#[test]
fn dsh_w19_another_content_of_the_same_size_and_time_is_another_version() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let path = world.root().join("a.txt");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    world.write_disk("a.txt", "two\n");
    fs::File::options()
        .append(true)
        .open(&path)
        .unwrap()
        .set_modified(modified)
        .unwrap();
    refused(session.write("a.txt", "x\n"), "FS_STALE_VERSION");
    // And the same content at another time is the same version.
    world.write_disk("a.txt", "one\n");
    session.write("a.txt", "x\n").unwrap();
}

#[test]
fn dsh_w20_missing_directories_are_made() {
    let world = World::new(&[]);
    world.session("s").write("a/b/c/d.txt", "deep\n").unwrap();
    world.check_disk("a/b/c/d.txt", "deep\n");
}

fn mode(world: &World, path: &str) -> u32 {
    let metadata = fs::metadata(world.root().join(path)).unwrap();
    metadata.permissions().mode() & 0o7777
}

fn set_mode(world: &World, path: &str, mode: u32) {
    fs::set_permissions(world.root().join(path), fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn dsh_w22_to_w24_a_file_keeps_its_mode_and_a_new_one_gets_the_usual() {
    for (id, given) in [
        ("w22", 0o640),
        ("w22", 0o755),
        ("w24", 0o4755),
        ("w24", 0o2755),
        ("w24", 0o1644),
    ] {
        let world = World::new(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
        set_mode(&world, "a.txt", given);
        set_mode(&world, "b.txt", given);
        let session = world.session_that_read("s", &["a.txt", "b.txt"]);
        session.write("a.txt", "written\n").unwrap();
        session.edit("b.txt", "b", "edited").unwrap();
        let modes = (mode(&world, "a.txt"), mode(&world, "b.txt"));
        assert_eq!(modes, (given, given), "{id}: {given:o}");
    }
    let world = World::new(&[("by_hand.txt", "")]);
    world.session("s").write("w23.txt", "new\n").unwrap();
    assert_eq!(mode(&world, "w23.txt"), mode(&world, "by_hand.txt"), "w23");
}

#[test]
fn dsh_w25_and_w26_what_is_read_only_is_permission_denied() {
    let world = World::new(&[("w25.txt", "a\n"), ("w26/a.txt", "a\n")]);
    set_mode(&world, "w25.txt", 0o444);
    set_mode(&world, "w26/a.txt", 0o666);
    set_mode(&world, "w26", 0o555);
    let session = world.session_that_read("s", &["w25.txt", "w26/a.txt"]);
    for path in ["w25.txt", "w26/a.txt"] {
        refused(session.write(path, "x\n"), "FS_PERMISSION_DENIED");
        refused(session.edit(path, "a", "b"), "FS_PERMISSION_DENIED");
        let delete = json!([{ "kind": "delete", "path": path }]);
        refused(session.apply(delete), "FS_PERMISSION_DENIED");
        world.check_disk(path, "a\n");
    }
    set_mode(&world, "w26", 0o755);
}

#[test]
fn dsh_w27_all_names_of_a_file_show_the_change_and_the_result_says_so() {
    let world = World::new(&[("a.txt", "one\n")]);
    fs::hard_link(world.root().join("a.txt"), world.root().join("b.txt")).unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    let result = session.edit("a.txt", "one", "two").unwrap();
    assert_eq!(result["files"][0]["inPlace"], true, "{result}");
    world.check_disk("b.txt", "two\n");
    refused(session.edit("b.txt", "two", "three"), "FS_NOT_OBSERVED");
}

#[test]
fn dsh_w28_a_long_name_is_no_obstacle() {
    let world = World::new(&[]);
    let session = world.session("s");
    let name = "n".repeat(210);
    session.write(&name, "one\n").unwrap();
    session.edit(&name, "one", "1").unwrap();
    world.check_disk(&name, "1\n");
}

#[test]
fn dsh_w31_a_write_that_is_cancelled_at_once_makes_no_file() {
    let hand = Hand::strict(&[]);
    let answer = hand.call_and_cancel(
        "abreast/write",
        json!({ "path": "a/b.txt", "content": "x" }),
    );
    assert_eq!(answer["error"]["data"]["code"], "FS_ABORTED");
    hand.call("abreast/read", json!({ "path": "a/b.txt" }))
        .unwrap_err();
    assert_eq!(fs::read_dir(hand.root()).unwrap().count(), 0);
}

#[test]
fn dsh_w32_a_write_over_crlf_tells_one_hunk_of_view_text() {
    let world = World::new(&[("a.txt", "a\r\nb\r\nc\r\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let result = session.write("a.txt", "a\r\nB\r\nc\r\n").unwrap();
    let hunks = &result["files"][0]["hunks"];
    assert_eq!(hunks.as_array().map(Vec::len), Some(1), "{result}");
    assert_eq!(
        hunks[0]["lines"],
        json!([" a", "-b", "+B", " c"]),
        "{result}"
    );
    check_bytes(&world, "a.txt", "a\r\nB\r\nc\r\n");
}

#[test]
fn dsh_w33_a_write_keeps_the_line_ends_of_the_file_unless_told_otherwise() {
    let world = World::new(&[("a.txt", "a\r\nb\r\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    session.write("a.txt", "a\nB\nc\n").unwrap();
    check_bytes(&world, "a.txt", "a\r\nB\r\nc\r\n");
    let literal = json!({ "path": "a.txt", "content": "a\nB\nc\n", "eol": "literal" });
    session.call("abreast/write", literal).unwrap();
    check_bytes(&world, "a.txt", "a\nB\nc\n");
}

#[test]
fn dsh_w34_a_write_keeps_the_byte_order_mark() {
    let world = World::new(&[("a.txt", "\u{feff}one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    session.write("a.txt", "two\n").unwrap();
    check_bytes(&world, "a.txt", "\u{feff}two\n");
}

#[test]
fn dsh_w35_a_binary_file_is_not_written_over_whatever_the_policy() {
    let world = World::new(&[]);
    write_bytes(&world, "a.bin", b"\0\x01");
    let session = world
        .editor
        .session_with("s", json!({ "options": { "policy": "off" } }))
        .unwrap();
    refused(session.write("a.bin", "text\n"), "FS_NOT_TEXT");
    check_bytes(&world, "a.bin", b"\0\x01");
}

#[test]
fn dsh_w40_a_write_of_what_is_there_touches_nothing() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let stat = |world: &World| {
        use std::os::unix::fs::MetadataExt;
        let it = fs::metadata(world.root().join("a.txt")).unwrap();
        (it.ino(), it.mtime_nsec(), it.ctime_nsec())
    };
    let before = stat(&world);
    let result = session.write("a.txt", "one\n").unwrap();
    assert_eq!(
        (&result["files"][0]["hunks"], &result["files"][0]["diff"]),
        (&json!([]), &"".into())
    );
    assert_eq!(stat(&world), before);
}

#[test]
fn dsh_w41_a_file_can_be_emptied_and_filled_again() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    session.write("a.txt", "").unwrap();
    world.check_disk("a.txt", "");
    session.write("a.txt", "two\n").unwrap();
    session.write("empty.txt", "").unwrap();
    world.check_disk("empty.txt", "");
}

#[test]
fn dsh_w43_nothing_is_created_below_a_file() {
    let world = World::new(&[("a.txt", "one\n")]);
    let session = world.session("s");
    refused(session.write("a.txt/b.txt", "x\n"), "FS_NOT_FOUND");
    world.check_disk("a.txt", "one\n");
}
