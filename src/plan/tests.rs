//! Whole calls over closed files: what becomes of them, or what they are refused for.

use serde_json::{Value, json};

use super::*;
use crate::{
    error::Code,
    ledger::Observation,
    protocol::{PolicyName, Status, WriteCoverage},
};

const FIVE: &str = "one\ntwo\nthree\nfour\nfive\n";

/// A closed file that the session has not seen; none: there is none.
fn unseen(name: &str, text: Option<&str>) -> FileInput {
    let key = FileKey::Path(format!("/w/{name}").into());
    FileInput {
        uri: key.uri(),
        key,
        place: Place::Disk,
        content: text.map_or(Content::Absent, |it| Content::Text(Text::flat(it), None)),
        entry: None,
        changed_by: Vec::new(),
        obstacle: None,
        is_open: false,
    }
}

/// A closed file of which the session was shown lines, 0-based, the end excluded.
fn shown(name: &str, text: &str, from: usize, to: usize) -> FileInput {
    let mut shown = Lines::default();
    shown.add(from, to);
    let snapshot = Text::flat(text);
    let entry = Entry {
        observation: Observation::Present(Version::of(&snapshot)),
        path: name.to_string(),
        seq: 0,
        snapshot: Some(snapshot),
        shown,
        told: Some(Status::Fresh),
        turn: None,
    };
    FileInput {
        entry: Some(entry),
        ..unseen(name, Some(text))
    }
}

fn seen(name: &str, text: &str) -> FileInput {
    shown(name, text, 0, Text::flat(text).total_lines())
}

fn edit(name: &str, old: &str, new: &str) -> Value {
    json!({ "kind": "edit", "path": name, "oldString": old, "newString": new })
}

fn write(name: &str, content: &str) -> Value {
    json!({ "kind": "write", "path": name, "content": content })
}

fn rename(name: &str, to: &str) -> Value {
    json!({ "kind": "rename", "path": name, "newPath": to })
}

fn guarded(mut change: Value, guard: Value) -> Value {
    change["guard"] = guard;
    change
}

fn if_absent() -> Value {
    json!({ "kind": "createIfAbsent" })
}

fn if_text(text: &str) -> Value {
    let version = Version::of(&Text::flat(text));
    json!({ "kind": "replaceIfVersion", "version": version })
}

/// A call of a session; a file is named by the end of its path.
fn job(files: Vec<FileInput>, changes: &[Value]) -> PlanJob {
    let idx_of = |name: &str| {
        let is_it = |it: &FileInput| it.uri.ends_with(name.trim_start_matches("./"));
        files.iter().position(is_it).expect("a file of the call")
    };
    let steps = changes.iter().map(|it| {
        let change: Change = serde_json::from_value(it.clone()).expect("a change");
        let new_file = match &change {
            Change::Rename { new_path, .. } => Some(idx_of(new_path)),
            _ => None,
        };
        Step {
            file: idx_of(change.path()),
            new_file,
            change,
        }
    });
    PlanJob {
        steps: steps.collect(),
        files,
        has_session: true,
        rules: Rules::default(),
        limits: Limits::default(),
        encoding: Encoding::Utf16,
        is_apply: true,
    }
}

fn plan(files: Vec<FileInput>, changes: &[Value]) -> Vec<FilePlan> {
    job(files, changes)
        .run()
        .expect("nothing is in the way")
        .files
}

#[track_caller]
fn check_refused(files: Vec<FileInput>, changes: &[Value], code: Code, change: usize) -> FsError {
    let err = *job(files, changes).run().expect_err("it is refused");
    assert_eq!((err.code, err.change), (code, Some(change)), "{err:?}");
    err
}

fn after(plan: &FilePlan) -> Option<String> {
    let text = plan.after.as_ref()?;
    Some(text.raw(0..text.len_bytes()))
}

#[test]
fn what_must_be_new_is_created_where_nothing_is() {
    let change = [guarded(write("a", "new"), if_absent())];
    let plans = plan(vec![unseen("a", None)], &change);
    assert_eq!(plans[0].operation, Operation::Create);
    check_refused(vec![seen("a", "old")], &change, Code::FsAlreadyExists, 0);
}

#[test]
fn a_later_guard_is_about_the_result_of_the_changes_before_it() {
    let files = || vec![seen("a", "one two")];
    let both = |guard| [edit("a", "one", "1"), guarded(edit("a", "two", "2"), guard)];
    let plans = plan(files(), &both(if_text("1 two")));
    assert_eq!(after(&plans[0]).as_deref(), Some("1 2"));
    check_refused(files(), &both(if_text("one two")), Code::FsStaleVersion, 1);

    let again = guarded(write("a", "new"), if_absent());
    check_refused(
        files(),
        &[edit("a", "one", "1"), again.clone()],
        Code::FsAlreadyExists,
        1,
    );
    let plans = plan(files(), &[json!({ "kind": "delete", "path": "a" }), again]);
    assert_eq!(after(&plans[0]).as_deref(), Some("new"));
}

#[test]
fn full_coverage_lets_a_write_through_only_when_every_line_was_shown() {
    let run = |file: FileInput, change: Value, write_coverage| {
        let mut job = job(vec![file], &[change]);
        job.rules.write_coverage = write_coverage;
        job.run().map(|_| ()).map_err(|err| (err.code, err.missing))
    };
    let (full, any) = (WriteCoverage::Full, WriteCoverage::Any);
    let refused = Err((Code::FsCoverage, vec![(1, 1), (4, 5)]));
    assert_eq!(run(shown("a", FIVE, 1, 3), write("a", "x"), full), refused);
    assert_eq!(run(shown("a", FIVE, 1, 3), write("a", "x"), any), Ok(()));
    assert_eq!(run(seen("a", FIVE), write("a", "x"), full), Ok(()));
    assert_eq!(
        run(shown("a", FIVE, 1, 3), edit("a", "two", "2"), full),
        Ok(())
    );
}

#[test]
fn a_write_says_how_many_lines_it_replaces_unseen() {
    let n_unseen = |file: FileInput, policy, changes: &[Value]| {
        let mut job = job(vec![file], changes);
        job.rules.policy = policy;
        job.run().expect("it is fresh").files[0].result.unseen_lines
    };
    let (observe, off) = (PolicyName::Observe, PolicyName::Off);
    let once = [write("a", "x")];
    assert_eq!(n_unseen(seen("a", FIVE), observe, &once), 0);
    assert_eq!(n_unseen(shown("a", FIVE, 1, 3), observe, &once), 3);
    assert_eq!(n_unseen(unseen("a", Some(FIVE)), off, &once), 5);
    let files = vec![shown("a", FIVE, 0, 1), shown("b", FIVE, 0, 2)];
    let plans = plan(files, &[write("a", "x"), write("b", "x")]);
    let n_unseen_of_each = [0, 1].map(|it: usize| plans[it].result.unseen_lines);
    assert_eq!(n_unseen_of_each, [4, 3]);
    let twice = [write("a", "x"), write("a", "1\n2\n3\n4\n")];
    assert_eq!(n_unseen(shown("a", FIVE, 1, 3), observe, &twice), 3);
}

#[test]
fn lines_that_were_shown_move_with_an_edit_and_what_it_wrote_was_shown() {
    let check = |text: &str, from, to, old: &str, new: &str, expected: &[(usize, usize)]| {
        let plans = plan(vec![shown("a", text, from, to)], &[edit("a", old, new)]);
        let mut lines = Lines::default();
        for &(from, to) in expected {
            lines.add(from, to);
        }
        assert_eq!(plans[0].shown, lines, "{old:?} -> {new:?}");
    };
    check(FIVE, 1, 3, "two\n", "2\n2\n2\n", &[(1, 5)]);
    check(FIVE, 1, 3, "three\n", "", &[(1, 2)]);
    check(FIVE, 1, 3, "two\n", "two\n2\n", &[(1, 4)]);
    check(FIVE, 3, 5, "one\n", "0\n1\n", &[(0, 2), (4, 6)]);
    check("a\nb", 0, 2, "b", "c", &[(0, 2)]);
    let plans = plan(vec![shown("a", FIVE, 1, 3)], &[write("a", "1\n2\n")]);
    assert_eq!(plans[0].shown, Lines::all(2));
}

#[test]
fn replacements_of_all_changes_of_a_file_are_counted() {
    let mut all = edit("a", "x", "y");
    all["replaceAll"] = json!(true);
    let files = || vec![seen("a", "x x one")];
    let plans = plan(files(), &[all.clone(), edit("a", "one", "1")]);
    assert_eq!(plans[0].result.replacements, 3);
    let plans = plan(files(), &[all, write("a", "z")]);
    assert_eq!(plans[0].result.replacements, 3);
}

#[test]
fn what_is_changed_there_and_back_again_is_no_change() {
    let changes = [
        edit("a.txt", "\naaa", ""),
        write("a.txt", "aaa\naaa"),
        rename("b.txt", "c.txt"),
        edit("c.txt", "\naaa", ""),
        write("c.txt", "aaa\naaa"),
    ];
    let mut files = ["a.txt", "b.txt"].map(|it| seen(it, "aaa\naaa")).to_vec();
    files.push(unseen("c.txt", None));
    for plan in plan(files, &changes) {
        assert!(plan.splices.is_empty(), "{:?}", plan.splices);
        assert_eq!(plan.result.hunks, []);
    }
}

#[test]
fn what_the_unicode_fallback_found_stays_said_when_a_later_edit_is_exact() {
    let files = vec![seen("a", "“one” two")];
    let mut job = job(
        files,
        &[edit("a", "\"one\"", "\"1\""), edit("a", "two", "2")],
    );
    job.rules.unicode_fallback = true;
    let plans = job.run().expect("both are there").files;
    assert_eq!(after(&plans[0]).as_deref(), Some("“1” 2"));
    assert!(plans[0].result.unicode_normalized);
}

#[test]
fn an_edit_inside_a_character_with_its_marks_is_noted() {
    let notes = |old: &str| {
        let plans = plan(vec![seen("a", "e\u{301} f")], &[edit("a", old, "x")]);
        plans[0].result.notes.len()
    };
    assert_eq!(notes("e"), 1);
    assert_eq!(notes("f"), 0);
}

#[test]
fn the_text_is_quoted_only_to_those_who_have_read_it() {
    let quoted = |file: FileInput, policy, has_session| {
        let mut job = job(vec![file], &[guarded(edit("a", "tvo", "2"), if_text(FIVE))]);
        job.rules.policy = policy;
        job.has_session = has_session;
        let err = job.run().expect_err("it is not there");
        assert_eq!(err.code, Code::FsEditNotFound);
        err.nearest.is_some_and(|it| !it.text.is_empty())
    };
    assert!(quoted(seen("a", FIVE), PolicyName::Observe, true));
    assert!(!quoted(seen("a", FIVE), PolicyName::Off, true));
    assert!(!quoted(seen("a", FIVE), PolicyName::Observe, false));
    assert!(!quoted(unseen("a", Some(FIVE)), PolicyName::Off, true));
}

#[test]
fn a_rename_goes_where_nothing_is_by_then() {
    let files = || vec![seen("a", "one"), unseen("b", None)];
    check_refused(files(), &[rename("a", "a")], Code::FsAlreadyExists, 0);
    let taken = [write("b", "new"), rename("a", "b")];
    check_refused(files(), &taken, Code::FsAlreadyExists, 1);

    let shown_there = FileInput {
        is_open: true,
        ..unseen("b", None)
    };
    let stale = FileInput {
        content: Content::Text(Text::flat("1"), None),
        ..seen("a", "one")
    };
    for (source, code) in [
        (unseen("a", Some("one")), Code::FsNotObserved),
        (seen("a", "one"), Code::FsOpen),
        (stale, Code::FsOpen),
    ] {
        let files = vec![source, shown_there.clone()];
        check_refused(files, &[rename("a", "b")], code, 0);
    }

    let plans = plan(files(), &[rename("a", "./b"), edit("b", "one", "1")]);
    assert_eq!(plans.len(), 1);
    assert_eq!(
        (plans[0].operation, plans[0].result.path.as_str()),
        (Operation::Rename, "b")
    );
    let plans = plan(files(), &[rename("a", "./b")]);
    assert_eq!(plans[0].result.path, "./b");
}

#[test]
fn a_file_that_is_renamed_and_deleted_is_deleted_under_its_old_name() {
    let files = vec![seen("a", "one"), unseen("b", None)];
    let changes = [rename("a", "b"), json!({ "kind": "delete", "path": "b" })];
    let plans = plan(files, &changes);
    assert_eq!(plans.len(), 1);
    assert_eq!(
        (plans[0].operation, plans[0].result.path.as_str()),
        (Operation::Delete, "a")
    );
}

#[test]
fn without_a_policy_a_missing_file_is_told_before_one_that_is_open() {
    let open = FileInput {
        is_open: true,
        ..unseen("a", Some("one"))
    };
    let files = vec![open, unseen("b", None)];
    let changes = [
        json!({ "kind": "delete", "path": "a" }),
        edit("b", "x", "y"),
    ];
    let mut job = job(files, &changes);
    job.rules.policy = PolicyName::Off;
    let err = job.run().expect_err("it is refused");
    assert_eq!((err.code, err.change), (Code::FsNotFound, Some(1)));
}

#[test]
fn a_result_names_the_file_as_the_call_last_named_it() {
    let plans = plan(
        vec![seen("a", "one two")],
        &[edit("./a", "one", "1"), edit("a", "two", "2")],
    );
    assert_eq!(plans[0].result.path, "a");
    let plans = plan(
        vec![seen("a", "one two")],
        &[edit("a", "one", "1"), edit("./a", "two", "2")],
    );
    assert_eq!(plans[0].result.path, "./a");
}

#[test]
fn an_edit_that_changes_nothing_is_told_before_any_match_is_looked_for() {
    let files = vec![seen("a", "one"), seen("b", "two")];
    let changes = [edit("a", "missing", "x"), edit("b", "same", "same")];
    check_refused(files, &changes, Code::FsNoChange, 1);
}
