//! What a session is told of a file: whether it is stale, by whom, and each of them once.

use super::*;
use crate::protocol::{Author, LedgerEntry, LedgerParams};

impl Bench {
    pub(super) fn open_session(&mut self, session_id: &str) {
        self.call(Request::OpenSession(OpenSessionParams {
            session_id: Some(session_id.to_string()),
            ..OpenSessionParams::default()
        }));
        self.settle();
        assert!(matches!(self.replies.pop(), Some(Ok(Answer::Session(_)))));
    }

    pub(super) fn read_as(&mut self, session_id: &str, path: &str) {
        let params = json!({ "sessionId": session_id, "path": path });
        let params: ReadParams = serde_json::from_value(params).expect("a read");
        self.call(Request::Read(params));
        self.settle();
        self.was_read();
    }

    /// The row of a file as it is now, before anything that is on its way.
    pub(super) fn row(&mut self, session_id: &str, path: &str) -> LedgerEntry {
        let n_replies = self.replies.len();
        self.call(Request::Ledger(LedgerParams {
            session_id: session_id.to_string(),
            path: Some(path.to_string()),
            export: false,
        }));
        let call = self.queue.pop_back().expect("the call");
        self.queue.push_front(call);
        while self.replies.len() == n_replies {
            assert!(self.step(), "it is answered");
        }
        match self.replies.pop() {
            Some(Ok(Answer::Ledger(mut ledger))) => ledger.entries.remove(0),
            other => panic!("{other:?}"),
        }
    }

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

pub(super) fn session(session_id: &str) -> Author {
    let session_id = session_id.to_string();
    Author::Session { session_id }
}

/// Two sessions have read the first document, and one edits it: up to the question to the editor.
fn edit_that_is_out() -> Bench {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.open_session("other");
    bench.read_as("other", OPEN[0]);
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    bench.step_to_edit();
    bench
}

#[test]
fn an_edit_that_has_landed_is_its_sessions_before_the_editor_has_answered() {
    let mut bench = edit_that_is_out();
    bench.step();
    bench.step();
    assert!(bench.replies.is_empty() && bench.queue.len() == 1);
    assert_eq!(bench.row("other", OPEN[0]).changed_by, [session("s")]);
    bench.settle();
    assert_eq!(bench.row("other", OPEN[0]).changed_by, [session("s")]);
}

#[test]
fn only_the_session_whose_edit_is_out_is_told_afterwards() {
    let mut bench = edit_that_is_out();
    bench.step();
    bench.step();
    bench.now += telling::BATCH_MS;
    bench.send(Event::Tick);
    let told = bench.notes.iter();
    let told = told.filter(|it| it.0 == "abreast/ledgerChanged");
    let told: Vec<_> = told.map(|it| &it.1["sessionId"]).collect();
    assert_eq!(told, ["other"]);
}

#[test]
fn what_is_typed_while_an_edit_is_out_is_a_humans_and_told_once() {
    let mut bench = edit_that_is_out();
    for _ in 0..2 {
        let text = format!("{TYPED}{}", bench.documents[OPEN[0]].text);
        bench.set(OPEN[0], text);
        let typed = bench.queue.pop_back().expect("what was typed");
        bench.queue.push_front(typed);
        bench.step();
        assert_eq!(bench.row("other", OPEN[0]).changed_by, [Author::Human]);
        // The editor refuses the edit, and the session tries again.
        bench.settle();
        bench.replies.clear();
        assert_eq!(bench.row("other", OPEN[0]).changed_by, [Author::Human]);
        bench.read_as("s", OPEN[0]);
        bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
        bench.step_to_edit();
    }
}

#[test]
fn an_edit_that_is_reported_in_parts_is_its_sessions() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.open_session("other");
    bench.read_as("other", OPEN[0]);
    let edit = |old: &str| json!({ "kind": "edit", "path": OPEN[0], "oldString": old, "newString": old.to_uppercase() });
    bench.ask_to_apply(vec![edit("alpha"), edit("omega")]);
    bench.step_to_edit();
    let Some(Item::Ask(ask, ..)) = bench.queue.pop_front() else {
        unreachable!("it is the edit")
    };
    let first = OLD.replace("alpha", "ALPHA");
    bench.set(OPEN[0], first.clone());
    bench.set(OPEN[0], first.replace("omega", "OMEGA"));
    let answer = Ok(json!({ "applied": true }));
    bench.arrive(Event::Answered { ask, answer });
    bench.settle();
    assert_eq!(bench.row("other", OPEN[0]).changed_by, [session("s")]);
}
