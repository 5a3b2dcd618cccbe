//! What the simulation found, as short as it could make it.

mod commits;
mod races;

use super::{
    Run,
    action::{
        Action::{self, *},
        Behind, Garbled, Luck, Manner, Setup, State as Told, Step, Steps,
        Style::{self, Exact, Full, Minimal, Split},
    },
    hush,
};

/// Plays a run among strict and willing models; everything must hold.
#[track_caller]
fn check(setup: Setup, files: &[&'static str], actions: Vec<Action>) {
    hush();
    let run = Run {
        setup,
        files: files.to_vec(),
        actions,
    };
    if let (_, Err(violation)) = run.play(false) {
        run.play(true).1.ok();
        panic!("{violation}");
    }
}

/// The editor deals with what it is asked, and its messages arrive.
fn editor_works(n: usize) -> Vec<Action> {
    (0..n)
        .flat_map(|_| [handle(0, Manner::Right(Exact)), Deliver, Deliver])
        .collect()
}

fn edit(file: u8, at: u16, chars: u8, new: &'static str) -> Step {
    Step::Edit {
        file,
        at,
        chars,
        new,
        all: false,
    }
}

fn change(session: u8, steps: &[Step]) -> Action {
    Change {
        session,
        steps: Steps(steps.to_vec()),
        guard: None,
        dry_run: false,
    }
}

fn write(file: u8, text: &'static str) -> Step {
    Step::Write {
        file,
        text,
        keep: false,
    }
}

fn read(session: u8, file: u8) -> Action {
    Read {
        session,
        file,
        from: 0,
        lines: 0,
    }
}

fn type_at(file: u8, at: u16, text: &'static str) -> Action {
    Type { file, at, text }
}

fn erase(file: u8, at: u16, chars: u8) -> Action {
    Erase { file, at, chars }
}

fn flush(file: u8) -> Action {
    Flush { file, style: Exact }
}

fn close(file: u8, flush: bool) -> Action {
    Close { file, flush }
}

fn reload(file: u8, same_version: bool) -> Action {
    Reload { file, same_version }
}

fn meddle(file: u8, how: Behind) -> Action {
    Meddle { file, how }
}

fn handle(nth: u8, manner: Manner) -> Action {
    Handle { nth, manner }
}

fn work(nth: u8, luck: Luck) -> Action {
    Work { nth, luck }
}

/// Opens a file and has a session read it.
fn open_and_read() -> Vec<Action> {
    let mut actions = vec![
        OpenSession { session: 0 },
        Open { file: 0 },
        Deliver,
        read(0, 0),
    ];
    actions.extend(editor_works(1));
    actions
}

fn read_of_disk(file: u8) -> [Action; 3] {
    [read(0, file), work(0, Luck::Good), Finish { nth: 0 }]
}

const QUIET: Setup = Setup {
    sync: false,
    ..Setup::STRICT
};

#[test]
fn an_open_file_is_not_deleted_by_a_later_change_of_a_call_either() {
    let mut actions = open_and_read();
    actions.push(change(0, &[edit(0, 0, 1, "x"), Step::Delete { file: 0 }]));
    check(Setup::STRICT, &["one\n"], actions);
}

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
fn a_name_that_is_free_after_a_rename_can_be_seen_again() {
    let mut actions = vec![OpenSession { session: 0 }];
    actions.extend(read_of_disk(1));
    actions.push(change(0, &[Step::Rename { file: 1, to: 2 }, write(1, "é")]));
    check(Setup::STRICT, &["one\n", "two\n"], actions);
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
fn what_was_shown_of_an_old_buffer_does_not_hide_the_result_of_a_commit() {
    let mut actions = vec![OpenSession { session: 0 }];
    actions.extend(read_of_disk(0));
    actions.extend([
        change(0, &[edit(0, 0, 1, "x")]),
        work(0, Luck::Good),
        Finish { nth: 0 },
        work(0, Luck::Good),
        Finish { nth: 0 },
        Open { file: 0 },
        work(0, Luck::Good),
        Deliver,
        Finish { nth: 0 },
        type_at(0, 0, "y"),
        flush(0),
        Deliver,
        read(0, 0),
        reload(0, false),
    ]);
    check(QUIET, &["one\n"], actions);
}

#[test]
fn what_was_read_after_an_open_is_not_handed_over_to_what_was_opened() {
    let actions = vec![
        OpenSession { session: 0 },
        OpenSession { session: 1 },
        read(1, 0),
        work(0, Luck::Good),
        Finish { nth: 0 },
        meddle(0, Behind::Write("a\n")),
        Open { file: 0 },
        Deliver,
        erase(0, 1, 1),
        Save { file: 0 },
        Deliver,
        Deliver,
        read(0, 0),
        work(0, Luck::Good),
        Finish { nth: 0 },
        change(0, &[edit(0, 0, 1, "x")]),
    ];
    check(QUIET, &["b\n"], actions);
}

#[test]
fn what_was_found_after_a_close_does_not_matter_once_the_file_is_open_again() {
    let mut actions = open_and_read();
    actions.extend([
        close(0, false),
        Deliver,
        work(0, Luck::Good),
        Open { file: 0 },
        Deliver,
        Finish { nth: 0 },
        Save { file: 0 },
        change(
            0,
            &[Step::Write {
                file: 0,
                text: "two",
                keep: true,
            }],
        ),
    ]);
    check(
        Setup {
            adds_final_break: true,
            ..QUIET
        },
        &["a"],
        actions,
    );
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
fn a_file_opened_while_it_is_committed_leaves_no_other_change_untold() {
    let mut actions = vec![
        OpenSession { session: 0 },
        Open { file: 0 },
        Deliver,
        read(0, 0),
    ];
    actions.extend([
        change(0, &[edit(0, 0, 1, "x"), write(1, "new")]),
        work(0, Luck::Good),
        Finish { nth: 0 },
        work(0, Luck::Good),
        Finish { nth: 0 },
        handle(0, Manner::Right(Exact)),
        Open { file: 1 },
        Deliver,
        Deliver,
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
fn taking_away_the_final_break_that_the_editor_added_is_a_change() {
    let setup = Setup {
        adds_final_break: true,
        ..QUIET
    };
    let look = [work(0, Luck::Good), Finish { nth: 0 }];
    let mut actions = vec![OpenSession { session: 0 }, read(0, 0)];
    actions.extend(look.clone());
    actions.extend([Open { file: 0 }, Deliver]);
    actions.extend(look);
    actions.extend([
        erase(0, 1, 1),
        flush(0),
        Deliver,
        change(0, &[edit(0, 0, 1, "x")]),
    ]);
    check(setup, &["a"], actions);
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
fn an_older_batch_is_not_told_after_a_newer() {
    let setup = Setup {
        codes: false,
        large: true,
        ..Setup::STRICT
    };
    let actions = vec![
        OpenSession { session: 1 },
        meddle(1, Behind::Append("one\n")),
        Open { file: 1 },
        Deliver,
        read(1, 1),
        handle(0, Manner::Right(Minimal)),
        Deliver,
        work(0, Luck::Good),
        Finish { nth: 0 },
        change(1, &[edit(1, 20214, 4, ""), edit(1, 35158, 9, "one")]),
        handle(0, Manner::Refuse),
        Deliver,
        work(0, Luck::Good),
        Finish { nth: 0 },
        handle(0, Manner::Right(Minimal)),
        Deliver,
        Deliver,
        close(1, true),
        Wait { ms: 60 },
        meddle(1, Behind::Vanish),
        Deliver,
        Open { file: 1 },
        Deliver,
        Wait { ms: 20 },
    ];
    check(setup, &["\u{feff}one\r\ntwo\r\n", "a", "aaa\naaa"], actions);
}

#[test]
fn a_text_that_is_unknown_by_the_time_it_is_rendered_is_not_shown() {
    let setup = Setup {
        utf8: true,
        lone_cr_is_text: true,
        codes: false,
        large: true,
        ..Setup::STRICT
    };
    let actions = vec![
        OpenSession { session: 0 },
        Open { file: 1 },
        type_at(1, 52506, "one\n"),
        Deliver,
        read(0, 1),
        Garble {
            file: 1,
            how: Garbled::Version,
        },
        Wait { ms: 250 },
    ];
    check(
        setup,
        &["one\r\ntwo\r\nthree\r\n", "a\nb\r\nc\rd\n"],
        actions,
    );
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
