//! What a session has seen, and is told of.

use super::*;

#[test]
fn a_name_that_is_free_after_a_rename_can_be_seen_again() {
    let mut actions = vec![OpenSession { session: 0 }];
    actions.extend(read_of_disk(1));
    actions.push(change(0, &[Step::Rename { file: 1, to: 2 }, write(1, "é")]));
    check(Setup::STRICT, &["one\n", "two\n"], actions);
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
