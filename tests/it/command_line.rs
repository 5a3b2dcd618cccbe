//! `abreast` as a user calls it.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::ffi::OsStrExt,
    process::{Command, Output, Stdio},
};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use serde_json::Value;

use crate::support::directory;

const PASSES: &str = r#"{ "id": "passes", "steps": [
    { "agent": "write", "session": "s", "path": "a.txt", "content": "a\n", "expect": { "ok": true } },
    { "expectLedger": { "session": "s", "path": "a.txt", "state": "present", "status": "fresh" } }],
    "final": [{ "where": "disk", "path": "a.txt", "text": "a\n" }] }"#;
const FAILS: &str = r#"{ "id": "fails", "steps": [
    { "agent": "write", "session": "s", "path": "a.txt", "content": "a\n", "expect": { "ok": true } }],
    "final": [{ "where": "disk", "path": "a.txt", "text": "b\n" }] }"#;

fn abreast(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_abreast"));
    command.args(arguments);
    if let Ok(server) = std::env::var("ABREAST_TEST_SERVER") {
        command.args(["--server", &server]);
    }
    command.output().unwrap()
}

/// Plays cases and returns the exit status and what is printed.
fn replay(cases: &[(&str, &str)], arguments: &[&str]) -> (i32, String) {
    let (_directory, root) = directory();
    for (name, text) in cases {
        fs::write(root.join(name), text).unwrap();
    }
    let mut all = vec!["replay", root.to_str().unwrap()];
    all.extend(arguments);
    let output = abreast(&all);
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

#[test]
fn replay_ends_with_0_if_all_cases_pass() {
    let (status, printed) = replay(&[("a.json", PASSES)], &[]);
    assert_eq!(status, 0, "{printed}");
    assert!(printed.starts_with("✓ passes "), "{printed}");
    assert!(printed.ends_with("\n1 passed, 0 failed\n"), "{printed}");
}

#[test]
fn replay_ends_with_1_if_a_case_fails_and_shows_the_difference() {
    let (status, printed) = replay(&[("a.json", PASSES), ("b.json", FAILS)], &[]);
    assert_eq!(status, 1, "{printed}");
    assert!(printed.contains("✗ fails "), "{printed}");
    assert!(printed.contains("- b␊\n      + a␊\n"), "{printed}");
    assert!(printed.ends_with("\n1 passed, 1 failed\n"), "{printed}");
}

#[test]
fn replay_ends_with_2_if_a_file_is_no_case_or_there_is_none() {
    let (status, printed) = replay(&[("a.json", PASSES), ("b.json", "{}")], &[]);
    assert_eq!(status, 2, "{printed}");
    assert!(
        printed.contains("not a case: missing field `id`"),
        "{printed}"
    );
    assert_eq!(
        replay(&[("a.json", PASSES)], &["--filter", "no such id"]).0,
        2
    );
    assert_eq!(replay(&[("a.json", PASSES)], &["--skip", "passes"]).0, 2);
    assert_eq!(abreast(&["replay", "/nonexistent"]).status.code(), Some(2));
}

#[test]
fn replay_leaves_out_what_is_filtered_or_skipped() {
    let cases = [("a.json", PASSES), ("b.json", FAILS)];
    for arguments in [["--filter", "pass"], ["--skip", "fail"]] {
        let (status, printed) = replay(&cases, &arguments);
        assert_eq!(status, 0, "{printed}");
        assert!(printed.ends_with("1 passed, 0 failed\n"), "{printed}");
    }
}

#[test]
fn replay_prints_one_json_object_per_line() {
    let (status, printed) = replay(&[("a.json", PASSES), ("b.json", FAILS)], &["--json"]);
    assert_eq!(status, 1, "{printed}");
    let lines: Vec<Value> = printed
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["id"], &lines[0]["passed"]),
        (&"passes".into(), &true.into())
    );
    assert_eq!(lines[1]["failures"][0]["place"], "final 1 (disk a.txt)");
    assert_eq!(
        (&lines[2]["passed"], &lines[2]["failed"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn nothing_is_coloured_where_nobody_looks() {
    let (_, printed) = replay(&[("a.json", PASSES), ("b.json", FAILS)], &[]);
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
}

#[test]
fn the_demo_comes_out_as_told() {
    let output = abreast(&["demo", "--fast"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    assert!(
        printed.trim_end().ends_with("none of your words was lost."),
        "{printed}"
    );
}

#[test]
fn somebody_at_a_terminal_is_told_that_an_editor_is_waited_for() {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let stdin = File::open(OsStr::from_bytes(name.as_bytes())).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_abreast"))
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains("abreast --help"), "{said}");
}
