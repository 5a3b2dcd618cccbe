//! What the simulation found, as short as it could make it.

use super::{
    Run,
    action::{
        Action::{self, *},
        Behind, Garbled, Luck, Manner, Setup, Step, Steps,
        Style::{Exact, Minimal, Split},
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
        .flat_map(|_| {
            [
                Handle {
                    nth: 0,
                    manner: Manner::Right(Exact),
                },
                Deliver,
                Deliver,
            ]
        })
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

/// Opens a file and has a session read it.
fn open_and_read() -> Vec<Action> {
    let mut actions = vec![
        OpenSession { session: 0 },
        Open { file: 0 },
        Deliver,
        Read {
            session: 0,
            file: 0,
            from: 0,
            lines: 0,
        },
    ];
    actions.extend(editor_works(1));
    actions
}

fn read_of_disk(file: u8) -> [Action; 3] {
    [
        Read {
            session: 0,
            file,
            from: 0,
            lines: 0,
        },
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
    ]
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
    actions.push(change(
        0,
        &[Step::Write {
            file: 0,
            text: "mine",
            keep: false,
        }],
    ));
    actions.extend(editor_works(1));
    actions.extend([
        CloseSession { session: 0 },
        OpenSession { session: 0 },
        Type {
            file: 0,
            at: 0,
            text: "x",
        },
        Flush {
            file: 0,
            style: Exact,
        },
        Deliver,
        Read {
            session: 0,
            file: 0,
            from: 0,
            lines: 0,
        },
        // The read's barrier, before the edit is dealt with.
        Handle {
            nth: 1,
            manner: Manner::Right(Exact),
        },
        Deliver,
    ]);
    check(Setup::STRICT, &["one\n"], actions);
}

#[test]
fn a_deletion_that_was_skipped_is_not_taken_for_done() {
    let mut actions = open_and_read();
    actions.push(change(
        0,
        &[Step::Write {
            file: 0,
            text: "two",
            keep: false,
        }],
    ));
    actions.extend(editor_works(1));
    actions.push(Handle {
        nth: 0,
        manner: Manner::Skip,
    });
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
        Read {
            session: 2,
            file: 1,
            from: 0,
            lines: 0,
        },
        Wait { ms: 60 },
        Open { file: 0 },
        Wait { ms: 60 },
        Close {
            file: 1,
            flush: true,
        },
        Close {
            file: 0,
            flush: true,
        },
        Deliver,
        Open { file: 1 },
        Deliver,
        Wait { ms: 20 },
        Deliver,
        Type {
            file: 1,
            at: 28165,
            text: "a",
        },
        Handle {
            nth: 0,
            manner: Manner::Right(Exact),
        },
        Wait { ms: 20 },
        Reload {
            file: 1,
            same_version: true,
        },
        Wait { ms: 20 },
    ];
    check(Setup::STRICT, &["one\r\ntwo\r\n", "é 😀 é\n"], actions);
}

#[test]
fn a_name_that_is_free_after_a_rename_can_be_seen_again() {
    let mut actions = vec![OpenSession { session: 0 }];
    actions.extend(read_of_disk(1));
    actions.push(change(
        0,
        &[
            Step::Rename { file: 1, to: 2 },
            Step::Write {
                file: 1,
                text: "é",
                keep: false,
            },
        ],
    ));
    check(Setup::STRICT, &["one\n", "two\n"], actions);
}

#[test]
fn a_text_that_only_a_human_can_have_made_is_a_humans() {
    let mut actions = open_and_read();
    actions.extend([
        Type {
            file: 0,
            at: 0,
            text: "foo ",
        },
        change(
            0,
            &[Step::Write {
                file: 0,
                text: "",
                keep: false,
            }],
        ),
    ]);
    actions.push(Erase {
        file: 0,
        at: 0,
        chars: 20,
    });
    actions.push(Handle {
        nth: 0,
        manner: Manner::Right(Exact),
    });
    check(QUIET, &["one"], actions);
}

#[test]
fn the_late_outcome_of_an_edit_is_told_although_a_human_typed_since() {
    let mut actions = open_and_read();
    actions.extend([
        change(0, &[edit(0, 4, 4, "a")]),
        Handle {
            nth: 0,
            manner: Manner::Later,
        },
        Wait { ms: 5100 },
        Type {
            file: 0,
            at: 3,
            text: "é",
        },
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
        Type {
            file: 0,
            at: 1,
            text: "b",
        },
        Type {
            file: 0,
            at: 0,
            text: "one\n",
        },
        Flush {
            file: 0,
            style: Exact,
        },
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
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
        Open { file: 0 },
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Deliver,
        Finish { nth: 0 },
        Type {
            file: 0,
            at: 0,
            text: "y",
        },
        Flush {
            file: 0,
            style: Exact,
        },
        Deliver,
        Read {
            session: 0,
            file: 0,
            from: 0,
            lines: 0,
        },
        Reload {
            file: 0,
            same_version: false,
        },
    ]);
    check(QUIET, &["one\n"], actions);
}

#[test]
fn what_was_read_after_an_open_is_not_handed_over_to_what_was_opened() {
    let actions = vec![
        OpenSession { session: 0 },
        OpenSession { session: 1 },
        Read {
            session: 1,
            file: 0,
            from: 0,
            lines: 0,
        },
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
        Meddle {
            file: 0,
            how: Behind::Write("a\n"),
        },
        Open { file: 0 },
        Deliver,
        Erase {
            file: 0,
            at: 1,
            chars: 1,
        },
        Save { file: 0 },
        Deliver,
        Deliver,
        Read {
            session: 0,
            file: 0,
            from: 0,
            lines: 0,
        },
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
        change(0, &[edit(0, 0, 1, "x")]),
    ];
    check(QUIET, &["b\n"], actions);
}

#[test]
fn what_was_found_after_a_close_does_not_matter_once_the_file_is_open_again() {
    let mut actions = open_and_read();
    actions.extend([
        Close {
            file: 0,
            flush: false,
        },
        Deliver,
        Work {
            nth: 0,
            luck: Luck::Good,
        },
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
        Read {
            session: 0,
            file: 0,
            from: 0,
            lines: 0,
        },
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
        Type {
            file: 0,
            at: 0,
            text: "é",
        },
        change(0, &[edit(0, 0, 1, "x")]),
        CloseSession { session: 0 },
    ]);
    check(QUIET, &["one\n"], actions);
}

#[test]
fn a_document_closed_before_its_fellow_is_reported_takes_the_fellow_back() {
    let mut actions = open_and_read();
    actions.extend([
        Open { file: 1 },
        Deliver,
        Read {
            session: 0,
            file: 1,
            from: 0,
            lines: 0,
        },
    ]);
    actions.extend([
        change(0, &[edit(0, 0, 1, "x"), edit(1, 0, 1, "x")]),
        Handle {
            nth: 0,
            manner: Manner::Later,
        },
        Close {
            file: 1,
            flush: true,
        },
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
        Read {
            session: 0,
            file: 0,
            from: 0,
            lines: 0,
        },
    ];
    actions.extend([
        change(
            0,
            &[
                edit(0, 0, 1, "x"),
                Step::Write {
                    file: 1,
                    text: "new",
                    keep: false,
                },
            ],
        ),
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
        Handle {
            nth: 0,
            manner: Manner::Right(Exact),
        },
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
        Type {
            file: 0,
            at: 0,
            text: "é",
        },
        Flush {
            file: 0,
            style: Exact,
        },
        Deliver,
        Handle {
            nth: 0,
            manner: Manner::Right(Exact),
        },
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
    let look = [
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
    ];
    let mut actions = vec![
        OpenSession { session: 0 },
        Read {
            session: 0,
            file: 0,
            from: 0,
            lines: 0,
        },
    ];
    actions.extend(look.clone());
    actions.extend([Open { file: 0 }, Deliver]);
    actions.extend(look);
    actions.extend([
        Erase {
            file: 0,
            at: 1,
            chars: 1,
        },
        Flush {
            file: 0,
            style: Exact,
        },
        Deliver,
        change(0, &[edit(0, 0, 1, "x")]),
    ]);
    check(setup, &["a"], actions);
}

#[test]
fn without_a_barrier_the_report_of_an_edit_is_waited_for_to_take_it_back() {
    let read = |file: u8| Read {
        session: 0,
        file,
        from: 0,
        lines: 0,
    };
    let mut actions = vec![
        OpenSession { session: 0 },
        Open { file: 1 },
        Open { file: 0 },
        Deliver,
        Deliver,
        read(0),
        read(1),
    ];
    actions.extend([
        change(0, &[edit(0, 0, 1, "x"), edit(1, 0, 1, "x")]),
        Handle {
            nth: 0,
            manner: Manner::AnswerFirst,
        },
        Reload {
            file: 1,
            same_version: true,
        },
    ]);
    check(QUIET, &["one\n", "two\n"], actions);
}

#[test]
fn an_older_batch_is_not_told_after_a_newer() {
    let setup = Setup {
        utf8: false,
        lone_cr_is_text: false,
        strict: true,
        sync: true,
        codes: false,
        adds_final_break: false,
        liar: false,
        large: true,
        policy_off: false,
    };
    let actions = vec![
        OpenSession { session: 1 },
        Meddle {
            file: 1,
            how: Behind::Append("one\n"),
        },
        Open { file: 1 },
        Deliver,
        Read {
            session: 1,
            file: 1,
            from: 0,
            lines: 0,
        },
        Handle {
            nth: 0,
            manner: Manner::Right(Minimal),
        },
        Deliver,
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
        Change {
            session: 1,
            steps: Steps(vec![
                Step::Edit {
                    file: 1,
                    at: 20214,
                    chars: 4,
                    new: "",
                    all: false,
                },
                Step::Edit {
                    file: 1,
                    at: 35158,
                    chars: 9,
                    new: "one",
                    all: false,
                },
            ]),
            guard: None,
            dry_run: false,
        },
        Handle {
            nth: 0,
            manner: Manner::Refuse,
        },
        Deliver,
        Work {
            nth: 0,
            luck: Luck::Good,
        },
        Finish { nth: 0 },
        Handle {
            nth: 0,
            manner: Manner::Right(Minimal),
        },
        Deliver,
        Deliver,
        Close {
            file: 1,
            flush: true,
        },
        Wait { ms: 60 },
        Meddle {
            file: 1,
            how: Behind::Vanish,
        },
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
        strict: true,
        sync: true,
        codes: false,
        adds_final_break: false,
        liar: false,
        large: true,
        policy_off: false,
    };
    let actions = vec![
        OpenSession { session: 0 },
        Open { file: 1 },
        Type {
            file: 1,
            at: 52506,
            text: "one\n",
        },
        Deliver,
        Read {
            session: 0,
            file: 1,
            from: 0,
            lines: 0,
        },
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
    let setup = Setup {
        utf8: false,
        lone_cr_is_text: false,
        strict: true,
        sync: true,
        codes: true,
        adds_final_break: false,
        liar: false,
        large: false,
        policy_off: false,
    };
    let actions = vec![
        OpenSession { session: 0 },
        Open { file: 1 },
        Deliver,
        Type {
            file: 1,
            at: 35963,
            text: "😀",
        },
        Read {
            session: 0,
            file: 1,
            from: 0,
            lines: 0,
        },
        Handle {
            nth: 0,
            manner: Manner::Right(Minimal),
        },
        NextTurn { session: 0 },
        Deliver,
        Type {
            file: 1,
            at: 41690,
            text: "one\n",
        },
        Change {
            session: 0,
            steps: Steps(vec![Step::Edit {
                file: 1,
                at: 7446,
                chars: 2,
                new: "",
                all: false,
            }]),
            guard: None,
            dry_run: false,
        },
        Read {
            session: 0,
            file: 1,
            from: 0,
            lines: 0,
        },
        NextTurn { session: 0 },
        Read {
            session: 0,
            file: 1,
            from: 0,
            lines: 0,
        },
    ];
    check(setup, &["aaa\naaa"], actions);
}

#[test]
fn an_edit_that_landed_before_its_document_closed_is_seen_by_its_session() {
    let setup = Setup {
        utf8: false,
        lone_cr_is_text: false,
        strict: true,
        sync: false,
        codes: true,
        adds_final_break: true,
        liar: false,
        large: false,
        policy_off: false,
    };
    let actions = vec![
        Open { file: 1 },
        OpenSession { session: 1 },
        Deliver,
        Read {
            session: 1,
            file: 1,
            from: 0,
            lines: 0,
        },
        Change {
            session: 1,
            steps: Steps(vec![Step::Edit {
                file: 1,
                at: 60819,
                chars: 4,
                new: "1\n2\n",
                all: false,
            }]),
            guard: None,
            dry_run: false,
        },
        Handle {
            nth: 0,
            manner: Manner::Later,
        },
        Save { file: 1 },
        Close {
            file: 1,
            flush: true,
        },
    ];
    check(setup, &["aaa\naaa", "é 😀 é\n"], actions);
}
