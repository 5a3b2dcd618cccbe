//! What sessions are told of their ledgers, unasked.

use super::*;
use crate::{
    protocol::{CloseSessionParams, Status},
    workspace::telling::BATCH_MS,
};

impl Bench {
    /// Time goes by until nothing is due any more; nothing that is on its way arrives meanwhile.
    pub(super) fn pass_time(&mut self) {
        while let Some(wake) = self.wake.take() {
            self.now = self.now.max(wake);
            self.send(Event::Tick);
        }
    }

    /// The rows of `ledgerChanged` that were told since they were asked for last.
    pub(super) fn told_rows(&mut self) -> Vec<Value> {
        let notes = self.notes.drain(..);
        let told = notes.filter(|it| it.0 == "abreast/ledgerChanged");
        told.flat_map(|it| it.1["entries"].as_array().expect("entries").clone())
            .collect()
    }
}

#[test]
fn only_the_session_whose_edit_is_out_is_told_afterwards() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.join("other", OPEN[0]);
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    bench.step_to_edit();
    // It has landed, and the editor has not answered yet.
    bench.step();
    bench.step();
    bench.now += BATCH_MS;
    bench.send(Event::Tick);
    let told = bench.notes.iter();
    let told = told.filter(|it| it.0 == "abreast/ledgerChanged");
    let told: Vec<_> = told.map(|it| &it.1["sessionId"]).collect();
    assert_eq!(told, ["other"]);
}

#[test]
fn what_an_answer_said_is_not_told_again() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.set(OPEN[0], format!("{TYPED}{OLD}"));
    bench.settle();
    assert_eq!(bench.row("s", OPEN[0]).status, Status::Stale);
    bench.pass_time();
    assert_eq!(bench.told_rows(), Vec::<Value>::new());
}

#[test]
fn nobody_is_woken_to_tell_a_session_that_is_closed() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.pass_time();
    bench.set(OPEN[0], format!("{TYPED}{OLD}"));
    bench.settle();
    assert!(bench.workspace.next_alarm().is_some());
    bench.call(Request::CloseSession(CloseSessionParams {
        session_id: "s".to_string(),
    }));
    bench.settle();
    assert_eq!(bench.workspace.next_alarm(), None);
}
