//! Sessions, turns, and calls that wait.

use super::*;

#[test]
fn a_session_opened_again_lends_its_ledger_to_no_call_of_the_old_one() {
    let mut actions = open_and_read();
    actions.push(change(0, &[write(0, "mine")]));
    actions.extend(editor_works(1));
    actions.extend([
        CloseSession { session: 0 },
        OpenSession { session: 0 },
        type_at(0, 0, "x"),
        flush(0),
        Deliver,
        read(0, 0),
        // The read's barrier, before the edit is dealt with.
        handle(1, Manner::Right(Exact)),
        Deliver,
    ]);
    check(Setup::STRICT, &["one\n"], actions);
}

#[test]
fn an_alarm_is_never_lost() {
    let actions = vec![
        Open { file: 1 },
        OpenSession { session: 2 },
        Deliver,
        read(2, 1),
        Wait { ms: 60 },
        Open { file: 0 },
        Wait { ms: 60 },
        close(1, true),
        close(0, true),
        Deliver,
        Open { file: 1 },
        Deliver,
        Wait { ms: 20 },
        Deliver,
        type_at(1, 28165, "a"),
        handle(0, Manner::Right(Exact)),
        Wait { ms: 20 },
        reload(1, true),
        Wait { ms: 20 },
    ];
    check(Setup::STRICT, &["one\r\ntwo\r\n", "é 😀 é\n"], actions);
}

#[test]
fn all_calls_of_a_closed_session_are_aborted() {
    let actions = vec![
        OpenSession { session: 0 },
        Open { file: 0 },
        Deliver,
        read(0, 0),
        change(0, &[edit(0, 0, 1, "x"), edit(1, 0, 1, "x")]),
        change(0, &[edit(0, 0, 1, "x")]),
        CloseSession { session: 0 },
    ];
    check(QUIET, &["one\n", "two\n"], actions);
}

#[test]
fn a_call_of_a_closed_session_is_not_planned_again_but_aborted() {
    let mut actions = open_and_read();
    actions.extend([
        type_at(0, 0, "é"),
        change(0, &[edit(0, 0, 1, "x")]),
        CloseSession { session: 0 },
    ]);
    check(QUIET, &["one\n"], actions);
}

#[test]
fn ten_thousand_waiting_calls_end_without_ten_thousand_frames() {
    let mut actions = open_and_read();
    actions.extend((0..9_000).map(|_| change(0, &[edit(0, 0, 1, "x")])));
    actions.extend([
        type_at(0, 0, "é"),
        flush(0),
        Deliver,
        handle(0, Manner::Right(Exact)),
        Deliver,
    ]);
    check(QUIET, &["one\n"], actions);
}

#[test]
fn a_call_of_an_earlier_turn_relies_on_nothing_of_the_turns_after_it() {
    let setup = Setup::STRICT;
    let actions = vec![
        OpenSession { session: 0 },
        Open { file: 1 },
        Deliver,
        type_at(1, 35963, "😀"),
        read(0, 1),
        handle(0, Manner::Right(Minimal)),
        NextTurn { session: 0 },
        Deliver,
        type_at(1, 41690, "one\n"),
        change(0, &[edit(1, 7446, 2, "")]),
        read(0, 1),
        NextTurn { session: 0 },
        read(0, 1),
    ];
    check(setup, &["aaa\naaa"], actions);
}

#[test]
fn a_call_is_woken_at_its_deadline_although_nobody_is_to_be_told_anything_any_more() {
    let mut actions = open_and_read();
    actions.extend([Open { file: 3 }, Deliver, type_at(3, 0, "x")]);
    actions.extend([
        change(0, &[edit(0, 4, 4, "x")]),
        handle(0, Manner::Later),
        type_at(0, 1, "one\n"),
        flush(3),
        Deliver,
        CloseSession { session: 0 },
        Settle {
            nth: 0,
            style: Minimal,
        },
    ]);
    check(QUIET, &["one\ntwo\nthree\n"], actions);
}
