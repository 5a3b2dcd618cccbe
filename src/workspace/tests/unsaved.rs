//! Documents that are closed, saved or not, while a call changes them.

use super::{
    authors::session,
    commits::{CLOSED, change, edit},
    *,
};

impl Bench {
    /// Closes a document, and the core learns it before anything else.
    fn close_now(&mut self, path: &str) {
        self.close(path);
        let closed = self.queue.pop_back().expect("it was closed");
        self.queue.push_front(closed);
        self.step();
    }
}

#[test]
fn the_only_document_closed_unsaved_during_a_commit_makes_the_call_stale_on_disk_too() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.ask_to_apply(vec![edit(OPEN[0]), edit(CLOSED)]);
    bench.step_to_commit();
    bench.close_now(OPEN[0]);
    bench.settle();
    assert_eq!(bench.n_recalled, 1);
    assert_eq!(bench.ended(), Some(Code::FsStaleVersion));
    for path in [OPEN[0], CLOSED] {
        assert_eq!(bench.disk[Path::new(path)], OLD);
    }
}

#[test]
fn what_a_human_had_not_saved_is_gone_with_the_document_and_no_part_of_the_call() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.set(OPEN[0], OLD.replace("alpha", "typed"));
    bench.settle();
    bench.read(OPEN[0]);
    let typed =
        json!({ "kind": "edit", "path": OPEN[0], "oldString": "typed", "newString": "TYPED" });
    bench.ask_to_apply(vec![change(typed), edit(OPEN[1])]);
    bench.step_to_edit();
    for _ in 0..3 {
        bench.step();
    }
    bench.close_now(OPEN[0]);
    bench.settle();
    assert_eq!(bench.ended(), Some(Code::FsStaleVersion));
    assert_eq!(bench.documents[OPEN[1]].text, OLD);
}

#[test]
fn an_edit_that_was_saved_and_closed_before_the_answer_is_its_sessions() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.join("other", OPEN[0]);
    bench.ask_to_apply(vec![edit(OPEN[0])]);
    bench.step_to_edit();
    bench.step();
    bench.step();
    bench.act(Act::SaveAndClose);
    bench.queue.rotate_left(1);
    bench.settle();
    bench.check_changed_by(OPEN[0], &[session("s")]);
}

#[test]
fn a_document_that_is_closed_while_its_edit_is_out_ends_the_call_without_an_answer() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.ask_to_apply(vec![edit(OPEN[0])]);
    bench.step_to_edit();
    bench.queue.clear();
    bench.close_now(OPEN[0]);
    bench.settle();
    assert_eq!(bench.ended(), Some(Code::FsStaleVersion));
}

#[test]
fn what_a_human_typed_into_a_document_that_stays_as_it_is_takes_no_commit_back() {
    let mut bench = Bench::new(true, false, Luck::Good);
    let same = json!({ "kind": "write", "path": OPEN[0], "content": OLD });
    bench.ask_to_apply(vec![change(same), edit(CLOSED)]);
    bench.step_to_commit();
    bench.set(OPEN[0], format!("{TYPED}{OLD}"));
    let typed = bench.queue.pop_back().expect("what was typed");
    bench.queue.push_front(typed);
    bench.step();
    bench.close_now(OPEN[0]);
    bench.settle();
    assert_eq!((bench.n_recalled, bench.ended()), (0, None));
}
