//! Who is said to have changed a file: those who did, each once, and nobody else.

use super::{commits::change, *};
use crate::protocol::{Author, LedgerEntry};

pub(super) fn session(session_id: &str) -> Author {
    let session_id = session_id.to_string();
    Author::Session { session_id }
}

impl Bench {
    /// A row of a session's ledger.
    pub(super) fn row(&mut self, session_id: &str, path: &str) -> LedgerEntry {
        let params = json!({ "sessionId": session_id, "path": path });
        self.call(Request::Ledger(
            serde_json::from_value(params).expect("a ledger"),
        ));
        self.settle();
        match self.replies.pop() {
            Some(Ok(Answer::Ledger(mut it))) => it.entries.remove(0),
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn check_changed_by(&mut self, path: &str, expected: &[Author]) {
        assert_eq!(self.row("other", path).changed_by, expected);
    }

    #[track_caller]
    fn check_refused_for(&mut self, path: &str, expected: &[Author]) {
        self.ask_to_edit("other", path, "last", "LAST");
        self.settle();
        let err = self.refused();
        assert_eq!(err.code, Code::FsStaleVersion, "{err:?}");
        assert_eq!(err.changed_by, expected);
    }
}

#[test]
fn an_edit_is_its_sessions_alone_while_it_is_out_and_afterwards() {
    let path = OPEN[0];
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.join("other", path);
    assert_eq!(bench.edit(path, "alpha", "beta"), None);
    bench.check_changed_by(path, &[session("s")]);

    bench.ask_to_edit("s", path, "omega", "OMEGA");
    let (ask, params) = bench.up_to("workspace/applyEdit");
    bench.check_changed_by(path, &[session("s")]);
    let edits = params["edit"]["documentChanges"].as_array();
    bench.apply_all(edits.expect("changes"));
    bench.check_changed_by(path, &[session("s")]);
    let answer = Ok(json!({ "applied": true }));
    bench.arrive(Event::Answered { ask, answer });
    bench.settle();
    assert_eq!(bench.ended(), None);
    bench.check_refused_for(path, &[session("s")]);
}

#[test]
fn what_is_reported_while_an_edit_is_out_may_be_a_humans() {
    let path = OPEN[0];
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.join("other", path);
    bench.ask_to_edit("s", path, "omega", "OMEGA");
    let (ask, _) = bench.up_to("workspace/applyEdit");
    bench.set(path, format!("{TYPED}{OLD}"));
    bench.check_changed_by(path, &[Author::Human]);
    let answer = Ok(json!({ "applied": false }));
    bench.arrive(Event::Answered { ask, answer });
    bench.settle();
    bench.replies.clear();
    bench.check_refused_for(path, &[Author::Human]);

    // Again, where it is known already that somebody typed.
    bench.read(path);
    bench.ask_to_edit("s", path, "omega", "OMEGA");
    bench.up_to("workspace/applyEdit");
    bench.set(path, format!("{TYPED}{TYPED}{OLD}"));
    bench.check_changed_by(path, &[Author::Human]);
}

#[test]
fn a_look_that_a_commit_overtakes_finds_no_change_of_somebody_else() {
    let path = "/w/closed.txt";
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.join("other", path);
    bench.send(Event::FilesChanged(vec![FileKey::Path(path.into())]));
    let look = bench.queue.pop_front().expect("it is looked at");
    let Item::Work(job, Work::Look { .. }) = look else {
        panic!("another item");
    };
    let looked = Looked::text(Text::flat(OLD), None);
    assert_eq!(bench.edit(path, "alpha", "beta"), None);
    let outcome = Outcome::Looked(looked);
    bench.send(Event::Done { job, outcome });
    let is_look = |it: &Item| matches!(it, Item::Work(_, Work::Look { .. }));
    assert!(bench.queue.iter().any(is_look), "it is looked at again");
    bench.settle();
    bench.check_changed_by(path, &[session("s")]);
    assert_eq!(bench.edit(path, "beta", "gamma"), None);
}

#[test]
fn an_edit_that_is_reported_in_parts_is_its_sessions() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.join("other", OPEN[0]);
    let edit = |old: &str| {
        change(
            json!({ "kind": "edit", "path": OPEN[0], "oldString": old, "newString": old.to_uppercase() }),
        )
    };
    bench.ask_to_apply(vec![edit("alpha"), edit("omega")]);
    let (ask, _) = bench.up_to("workspace/applyEdit");
    let first = OLD.replace("alpha", "ALPHA");
    bench.set(OPEN[0], first.clone());
    bench.set(OPEN[0], first.replace("omega", "OMEGA"));
    let answer = Ok(json!({ "applied": true }));
    bench.arrive(Event::Answered { ask, answer });
    bench.settle();
    bench.check_changed_by(OPEN[0], &[session("s")]);
}
