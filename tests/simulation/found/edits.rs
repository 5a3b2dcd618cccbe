//! What an editor makes of edits, or does not.

use super::*;

#[test]
fn an_open_file_is_not_deleted_by_a_later_change_of_a_call_either() {
    let mut actions = open_and_read();
    actions.push(change(0, &[edit(0, 0, 1, "x"), Step::Delete { file: 0 }]));
    check(Setup::STRICT, &["one\n"], actions);
}

#[test]
fn a_deletion_that_was_skipped_is_not_taken_for_done() {
    let mut actions = open_and_read();
    actions.push(change(0, &[write(0, "two")]));
    actions.extend(editor_works(1));
    actions.push(handle(0, Manner::Skip));
    check(
        Setup {
            liar: true,
            ..Setup::STRICT
        },
        &["one two\n"],
        actions,
    );
}

#[test]
fn an_edit_that_was_refused_too_late_is_not_credited() {
    let mut actions = open_and_read();
    actions.extend([change(0, &[edit(0, 4, 7, "one")]), Wait { ms: 5100 }]);
    check(QUIET, &["aaa\naaaone\n"], actions);
}

#[test]
fn a_text_that_only_a_human_can_have_made_is_a_humans() {
    let mut actions = open_and_read();
    actions.extend([type_at(0, 0, "foo "), change(0, &[write(0, "")])]);
    actions.push(erase(0, 0, 20));
    actions.push(handle(0, Manner::Right(Exact)));
    check(QUIET, &["one"], actions);
}

#[test]
fn the_late_outcome_of_an_edit_is_told_although_a_human_typed_since() {
    let mut actions = open_and_read();
    actions.extend([
        change(0, &[edit(0, 4, 4, "a")]),
        handle(0, Manner::Later),
        Wait { ms: 5100 },
        type_at(0, 3, "é"),
        Settle {
            nth: 0,
            style: Split,
        },
    ]);
    check(QUIET, &["one\ntwo\nthree\n"], actions);
}

#[test]
fn an_edit_that_was_refused_too_late_is_not_credited_for_what_a_human_typed() {
    let mut actions = open_and_read();
    actions.extend([
        change(
            0,
            &[Step::Write {
                file: 0,
                text: "one",
                keep: true,
            }],
        ),
        Wait { ms: 5100 },
        type_at(0, 1, "b"),
        type_at(0, 0, "one\n"),
        flush(0),
        Deliver,
    ]);
    check(QUIET, &["a\nb\r\nc\rd\n"], actions);
}

#[test]
fn a_document_closed_before_its_fellow_is_reported_takes_the_fellow_back() {
    let mut actions = open_and_read();
    actions.extend([Open { file: 1 }, Deliver, read(0, 1)]);
    actions.extend([
        change(0, &[edit(0, 0, 1, "x"), edit(1, 0, 1, "x")]),
        handle(0, Manner::Later),
        close(1, true),
        Deliver,
        Deliver,
    ]);
    check(QUIET, &["one\n", "two\n"], actions);
}

#[test]
fn without_a_barrier_the_report_of_an_edit_is_waited_for_to_take_it_back() {
    let mut actions = vec![
        OpenSession { session: 0 },
        Open { file: 1 },
        Open { file: 0 },
        Deliver,
        Deliver,
        read(0, 0),
        read(0, 1),
    ];
    actions.extend([
        change(0, &[edit(0, 0, 1, "x"), edit(1, 0, 1, "x")]),
        handle(0, Manner::AnswerFirst),
        reload(1, true),
    ]);
    check(QUIET, &["one\n", "two\n"], actions);
}

#[test]
fn an_edit_that_landed_before_its_document_closed_is_seen_by_its_session() {
    let setup = Setup {
        sync: false,
        adds_final_break: true,
        ..Setup::STRICT
    };
    let actions = vec![
        Open { file: 1 },
        OpenSession { session: 1 },
        Deliver,
        read(1, 1),
        change(1, &[edit(1, 60819, 4, "1\n2\n")]),
        handle(0, Manner::Later),
        Save { file: 1 },
        close(1, true),
    ];
    check(setup, &["aaa\naaa", "é 😀 é\n"], actions);
}

#[test]
fn what_a_human_typed_along_with_an_edit_is_a_humans_also_where_a_fellow_was_closed() {
    let mut actions = open_and_read();
    actions.extend([Open { file: 1 }, Deliver, read(0, 1)]);
    actions.extend([
        change(0, &[edit(0, 0, 1, "x"), write(1, "é")]),
        handle(0, Manner::Later),
        type_at(1, 1, "\n"),
        close(0, false),
        Settle {
            nth: 0,
            style: Minimal,
        },
    ]);
    check(QUIET, &["one\n", ""], actions);
}

#[test]
fn what_a_human_typed_is_a_humans_although_an_edit_that_is_refused_too_late_would_have_made_it() {
    let mut actions = open_and_read();
    actions.extend([OpenSession { session: 1 }, read(1, 0)]);
    actions.extend([
        change(0, &[edit(0, 0, 1, "")]),
        erase(0, 0, 1),
        flush(0),
        Wait { ms: 5100 },
        Deliver,
    ]);
    check(QUIET, &["a"], actions);
}

#[test]
fn what_a_human_may_have_typed_is_not_taken_back_with_an_edit_that_nobody_answered() {
    let mut actions = open_and_read();
    actions.extend([Open { file: 1 }, Deliver, read(0, 1)]);
    actions.extend([
        change(0, &[edit(0, 0, 1, ""), edit(1, 0, 1, "x")]),
        erase(0, 0, 1),
        flush(0),
        reload(1, true),
        Deliver,
        Deliver,
        Deliver,
        Wait { ms: 5100 },
    ]);
    check(QUIET, &["a", "one\n"], actions);
}

#[test]
fn an_edit_that_failed_too_late_is_not_credited_for_what_looks_like_it() {
    let mut actions = open_and_read();
    actions.extend([
        change(0, &[edit(0, 4, 9, "")]),
        Wait { ms: 5100 },
        erase(0, 1, 10),
        flush(0),
        Deliver,
        handle(0, Manner::Fail),
        Deliver,
    ]);
    check(QUIET, &["one\ntwo\nthee\n"], actions);
}
