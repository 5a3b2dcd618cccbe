//! What comes while something else is being made, or long after it.

use super::{Style::Halves, *};
use crate::simulation::action::Named;

/// Writes what is there and `text` before it.
fn grow(file: u8, text: &'static str) -> Step {
    Step::Write {
        file,
        text,
        keep: true,
    }
}

#[test]
fn what_a_human_types_while_an_edit_is_compared_is_told_as_theirs() {
    let setup = Setup {
        large: true,
        ..Setup::STRICT
    };
    let actions = vec![
        OpenSession { session: 2 },
        Open { file: 2 },
        change(2, &[write(2, "1\n2\n")]),
        Deliver,
        read(2, 0),
        change(2, &[write(1, "1\n2\n"), edit(1, 43545, 1, "two")]),
        work(0, Luck::Good),
        Finish { nth: 0 },
        work(0, Luck::Good),
        Finish { nth: 0 },
        work(1, Luck::Good),
        work(0, Luck::Good),
        Finish { nth: 1 },
        handle(0, Manner::Right(Full)),
        Deliver,
        Deliver,
        handle(0, Manner::Right(Full)),
        type_at(2, 8277, "b"),
    ];
    check(setup, &["a", ""], actions);
}

#[test]
fn what_is_read_while_an_edit_is_compared_is_newer_than_the_edit() {
    let setup = Setup {
        utf8: true,
        large: true,
        ..Setup::STRICT
    };
    let replace_all = Step::Edit {
        file: 1,
        at: 16780,
        chars: 2,
        new: "1\n2\n",
        all: true,
    };
    let mut actions = vec![
        OpenSession { session: 0 },
        read(0, 1),
        work(0, Luck::Good),
        change(0, &[grow(1, "x")]),
        Finish { nth: 0 },
        work(0, Luck::Good),
        Open { file: 1 },
        Finish { nth: 0 },
    ];
    for _ in 0..2 {
        actions.extend([work(0, Luck::Good), Finish { nth: 0 }]);
    }
    actions.extend([
        work(0, Luck::Good),
        Deliver,
        Finish { nth: 0 },
        handle(0, Manner::Later),
        Deliver,
        work(0, Luck::Good),
        Finish { nth: 0 },
        handle(0, Manner::AnswerFirst),
        Deliver,
        handle(0, Manner::Right(Full)),
        Undo { file: 1 },
        read(0, 1),
        change(0, &[replace_all]),
    ]);
    check(setup, &["a", "aaa\naaa"], actions);
}

#[test]
fn what_is_not_there_after_a_close_is_newer_than_what_was_shown_before() {
    let setup = Setup {
        strict: false,
        codes: true,
        large: true,
        ..Setup::STRICT
    };
    let delete = Change {
        session: 0,
        steps: Steps(vec![Step::Delete { file: 1 }]),
        guard: None,
        dry_run: true,
    };
    let mut actions = vec![
        OpenSession { session: 0 },
        Open { file: 0 },
        type_at(0, 64087, "foo "),
        delete,
        Deliver,
        read(0, 1),
        OpenSession { session: 1 },
        Flush {
            file: 0,
            style: Minimal,
        },
        work(0, Luck::Good),
        Open { file: 1 },
        work(0, Luck::Good),
        Finish { nth: 1 },
        close(1, true),
        reload(0, false),
        Open { file: 1 },
        Save { file: 0 },
        Deliver,
        Deliver,
        reload(1, false),
        Deliver,
        read(0, 1),
        read(1, 1),
        read(0, 1),
        Deliver,
        Deliver,
        work(1, Luck::Good),
        Finish { nth: 1 },
        Deliver,
        work(0, Luck::Good),
        Finish { nth: 0 },
        work(2, Luck::Good),
        work(0, Luck::Good),
        Deliver,
        Finish { nth: 1 },
        Deliver,
    ];
    actions.extend([Finish { nth: 0 }, Finish { nth: 0 }]);
    check(setup, &["\u{feff}one\r\ntwo\r\n"], actions);
}

#[test]
fn what_changes_while_an_observation_is_made_is_told_after_it() {
    let setup = Setup {
        lone_cr_is_text: true,
        adds_final_break: true,
        large: true,
        ..Setup::STRICT
    };
    let actions = vec![
        Open { file: 2 },
        OpenSession { session: 0 },
        Deliver,
        type_at(2, 49747, "foo "),
        Observe {
            by: Shown::Version,
            session: 0,
            file: 2,
            what: Named::Current,
        },
        Flush {
            file: 2,
            style: Halves,
        },
        Deliver,
        Wait { ms: 2100 },
    ];
    check(
        setup,
        &["one two\n", "é 😀 é\n", "one\r\ntwo\r\nthree\r\n"],
        actions,
    );
}

#[test]
fn what_a_human_typed_just_as_planned_is_not_taken_back_after_a_refusal() {
    let setup = Setup {
        codes: true,
        adds_final_break: true,
        ..Setup::STRICT
    };
    let mut actions = vec![
        Open { file: 0 },
        OpenSession { session: 1 },
        Deliver,
        Open { file: 1 },
        Deliver,
        read(1, 1),
        read(1, 0),
        change(1, &[write(0, "one"), grow(1, "é")]),
    ];
    actions.extend((0..2).flat_map(|_| [handle(0, Manner::Right(Halves)), Deliver]));
    actions.extend([type_at(1, 5055, "é"), Wait { ms: 2100 }, close(0, false)]);
    check(setup, &["one\r\ntwo\r\n", "é 😀 é\n"], actions);
}

#[test]
fn an_edit_of_unknown_outcome_is_not_credited_for_typing_that_looks_like_it() {
    let setup = Setup {
        utf8: true,
        lone_cr_is_text: true,
        codes: true,
        ..Setup::STRICT
    };
    let actions = vec![
        OpenSession { session: 0 },
        Open { file: 0 },
        read(0, 0),
        change(0, &[edit(0, 13058, 9, "two"), grow(0, "one")]),
        work(0, Luck::Good),
        Deliver,
        Finish { nth: 0 },
        Wait { ms: 2100 },
        Wait { ms: 5100 },
        type_at(0, 56198, "one\n"),
        handle(2, Manner::Right(Halves)),
    ];
    check(setup, &["a"], actions);
}

#[test]
fn a_full_text_that_did_not_come_is_asked_for_again() {
    let actions = vec![
        Open { file: 0 },
        type_at(0, 51630, "é"),
        Garble {
            file: 0,
            how: Garbled::Version,
        },
        Deliver,
        Deliver,
        handle(0, Manner::Fail),
    ];
    check(Setup::STRICT, &["aaa\naaa"], actions);
}
