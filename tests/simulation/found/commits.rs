//! What happens while the disk makes its part of a call.

use super::*;

/// A session reads two closed files, changes both, and the commit is granted.
fn commit_of_two(files: [u8; 2]) -> Vec<Action> {
    let mut actions = vec![OpenSession { session: 0 }];
    for file in files {
        actions.extend(read_of_disk(file));
    }
    actions.push(change(0, &files.map(|it| edit(it, 0, 1, "x"))));
    actions.extend([work(0, Luck::Good), Finish { nth: 0 }]);
    actions
}

/// A session changes an open and a closed file: the closed one is staged, and the editor has its part to do.
fn edit_of_open_and_closed() -> Vec<Action> {
    let mut actions = open_and_read();
    actions.extend(read_of_disk(1));
    actions.push(change(0, &[edit(0, 0, 1, "x"), edit(1, 0, 1, "x")]));
    actions.extend([work(0, Luck::Good), Finish { nth: 0 }]);
    actions.extend(editor_works(2));
    actions
}

#[test]
fn each_file_that_was_opened_with_its_old_text_during_a_commit_is_told_as_such() {
    let mut actions = commit_of_two([0, 1]);
    actions.extend([Open { file: 0 }, Open { file: 1 }, Deliver, Deliver]);
    check(Setup::STRICT, &["one\n", "two\n"], actions);
}

#[test]
fn what_a_commit_took_back_is_taken_back_where_it_was_opened_too() {
    let mut actions = commit_of_two([0, 1]);
    actions.extend([
        Begin { nth: 0 },
        Open { file: 0 },
        Deliver,
        work(0, Luck::Bad(1)),
        Finish { nth: 0 },
    ]);
    check(Setup::STRICT, &["one\n", "two\n"], actions);
}

#[test]
fn a_document_that_is_closed_unsaved_during_a_commit_takes_the_commit_back() {
    let mut actions = edit_of_open_and_closed();
    actions.extend([
        work(0, Luck::Good),
        Finish { nth: 0 },
        handle(0, Manner::Right(Exact)),
        Deliver,
        Deliver,
        Begin { nth: 0 },
        close(0, true),
        Deliver,
    ]);
    check(Setup::STRICT, &["one\n", "two\n"], actions);
}

#[test]
fn an_editor_that_ends_during_a_commit_takes_the_commit_back() {
    let mut actions = edit_of_open_and_closed();
    actions.extend([Begin { nth: 0 }, Quit]);
    check(Setup::STRICT, &["one\n", "two\n"], actions);
}

#[test]
fn what_another_program_wrote_is_not_taken_back_from_a_document_that_was_loaded_again() {
    let mut actions = vec![
        OpenSession { session: 0 },
        Open { file: 0 },
        Deliver,
        read(0, 0),
    ];
    actions.extend(read_of_disk(1));
    actions.extend([
        meddle(0, Behind::Append("one\n")),
        change(0, &[write(0, "one"), write(1, "two\n")]),
    ]);
    actions.extend([
        work(0, Luck::Good),
        Finish { nth: 0 },
        handle(0, Manner::Right(Exact)),
        reload(0, true),
        Deliver,
        Deliver,
        Deliver,
        Deliver,
    ]);
    check(QUIET, &["", "a\n"], actions);
}

#[test]
fn what_a_human_typed_into_the_old_text_is_no_part_of_a_commit_that_failed() {
    let mut actions = vec![OpenSession { session: 0 }];
    actions.extend(read_of_disk(0));
    let step = Step::Write {
        file: 0,
        text: "a",
        keep: true,
    };
    actions.push(change(0, &[step]));
    // The change is staged, and by the time of the commit the human has saved.
    actions.extend([
        work(0, Luck::Good),
        Open { file: 0 },
        Type {
            file: 0,
            at: 0,
            text: "\n",
        },
        Save { file: 0 },
        Finish { nth: 0 },
    ]);
    for reloaded in [None, Some(reload(0, true))] {
        let actions = actions.iter().cloned().chain(reloaded);
        check(Setup::STRICT, &["aaa\naaa"], actions.collect());
    }
}

#[test]
fn what_a_commit_took_back_is_taken_back_where_the_editor_shows_it_without_its_byte_order_mark() {
    let mut actions = vec![OpenSession { session: 0 }];
    actions.extend(read_of_disk(0));
    actions.push(change(0, &[write(0, "\n")]));
    actions.extend([
        work(0, Luck::Good),
        Finish { nth: 0 },
        Begin { nth: 0 },
        Open { file: 0 },
        Deliver,
        work(0, Luck::Bad(0)),
        Finish { nth: 0 },
    ]);
    check(Setup::STRICT, &["\u{feff}one\r\ntwo\r\n"], actions);
}

#[test]
fn a_file_that_an_editor_does_not_sync_is_refused_as_open_also_when_it_came_late() {
    let state = Told::Unsynced(true);
    let mut actions = edit_of_open_and_closed();
    actions.extend([
        work(0, Luck::Good),
        Finish { nth: 0 },
        State { file: 1, state },
        Deliver,
    ]);
    check(Setup::STRICT, &["one\n", "two\n"], actions);
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
fn what_a_commit_took_back_is_taken_back_where_its_opening_is_told_late_too() {
    let mut actions = edit_of_open_and_closed();
    actions.extend([
        work(0, Luck::Good),
        Finish { nth: 0 },
        handle(0, Manner::Right(Exact)),
        Deliver,
        Deliver,
        Begin { nth: 0 },
        Open { file: 1 },
        work(0, Luck::Bad(0)),
        Finish { nth: 0 },
    ]);
    check(Setup::STRICT, &["one\n", "two\n"], actions);
}

#[test]
fn a_part_that_stays_on_disk_is_told_although_its_buffer_was_closed_unsaved() {
    let mut actions = commit_of_two([0, 1]);
    actions.extend([
        work(0, Luck::Stuck(1)),
        Open { file: 0 },
        Deliver,
        Finish { nth: 0 },
        handle(0, Manner::Right(Exact)),
        close(0, false),
    ]);
    check(Setup::STRICT, &["one\n", "two\n"], actions);
}

#[test]
fn a_file_that_was_to_be_renamed_and_is_open_by_now_is_named_as_that() {
    let mut actions = open_and_read();
    actions.extend(read_of_disk(1));
    actions.extend(read_of_disk(2));
    let steps = [Step::Rename { file: 1, to: 2 }, write(2, "x"), write(0, "")];
    actions.push(change(0, &steps));
    for _ in 0..2 {
        actions.extend([work(0, Luck::Good), Finish { nth: 0 }]);
    }
    actions.extend(editor_works(1));
    actions.extend([
        work(0, Luck::Good),
        Finish { nth: 0 },
        Open { file: 1 },
        Deliver,
    ]);
    check(Setup::STRICT, &["one\n", "two\n"], actions);
}

#[test]
fn a_closed_file_is_not_taken_for_the_buffer_that_showed_it_with_other_line_ends() {
    let mut actions = open_and_read();
    actions.extend([SwitchEol { file: 0 }, flush(0), Deliver, read(0, 0)]);
    actions.extend(editor_works(1));
    actions.extend([close(0, false), Deliver]);
    actions.extend([work(0, Luck::Good), Finish { nth: 0 }]);
    actions.push(change(0, &[edit(0, 0, 1, "x")]));
    actions.push(Wait { ms: 5100 });
    check(Setup::STRICT, &["one\ntwo\n"], actions);
}
