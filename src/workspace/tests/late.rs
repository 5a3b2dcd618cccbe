//! Edits that the editor answers too late, or never.

use super::*;
use crate::protocol::Author;

const PLANNED: &str = "first\nALPHA\nmiddle\nomega\nlast\n";

/// An edit of the first document that was not answered in time.
struct Late {
    bench: Bench,
    ask: AskId,
    edits: Vec<Value>,
}

impl Late {
    fn new(has_sync: bool) -> Self {
        Self::of(Bench::new(has_sync, false, Luck::Good), false)
    }

    /// `is_mute`: the editor answers no barrier either.
    fn of(mut bench: Bench, is_mute: bool) -> Self {
        bench.join("other", OPEN[0]);
        bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
        let (ask, params) = bench.up_to("workspace/applyEdit");
        bench.queue.clear();
        bench.is_mute = is_mute;
        while bench.replies.is_empty() {
            bench.now = bench.wake.take().expect("there is a deadline");
            bench.send(Event::Tick);
            bench.settle();
        }
        let edits = params["edit"]["documentChanges"].as_array();
        let mut late = Self {
            edits: edits.expect("changes").clone(),
            ask,
            bench,
        };
        assert_eq!(late.bench.ended(), Some(Code::FsEditorTimeout));
        late
    }

    /// How another edit of the session ends.
    fn next_edit(&mut self) -> Option<Code> {
        self.bench.ask_to_edit("s", OPEN[0], "omega", "OMEGA");
        self.bench.settle();
        self.bench.ended()
    }

    fn answer(&mut self, applied: bool) {
        let answer = Ok(json!({ "applied": applied }));
        self.bench.send(Event::Answered {
            ask: self.ask,
            answer,
        });
        self.bench.settle();
    }

    fn becomes(&mut self, text: String) {
        self.bench.set(OPEN[0], text);
        self.bench.settle();
    }

    /// Whether the session has seen what it planned.
    fn is_credited(&self) -> bool {
        let key = FileKey::Path(OPEN[0].into());
        let entry = self.bench.workspace.sessions["s"].ledger.get(&key);
        let planned = Version::of(&Text::flat(PLANNED));
        entry.is_some_and(|it| it.observation == Observation::Present(planned))
    }
}

#[test]
fn an_edit_that_lands_late_is_its_sessions_and_no_humans() {
    for has_sync in [true, false] {
        let mut late = Late::new(has_sync);
        let edits = late.edits.clone();
        late.bench.apply_all(&edits);
        late.bench.settle();
        assert!(late.is_credited());
        late.bench.ask_to_edit("other", OPEN[0], "omega", "OMEGA");
        late.bench.settle();
        let session_id = "s".to_string();
        match late.bench.replies.pop() {
            Some(Err(Failure::Fs(err))) => {
                assert_eq!(err.changed_by, [Author::Session { session_id }]);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(late.next_edit(), None);
    }
}

#[test]
fn an_edit_that_lands_late_among_typing_is_credited_once_the_editor_says_that_it_applied_it() {
    for has_sync in [true, false] {
        let mut late = Late::new(has_sync);
        late.becomes(format!("{TYPED}{PLANNED}"));
        late.bench.read(OPEN[1]);
        assert!(!late.is_credited(), "a human may have typed it");
        late.answer(true);
        assert!(late.is_credited());
        assert_eq!(late.next_edit(), Some(Code::FsStaleVersion));
        late.becomes(PLANNED.to_string());
        assert_eq!(late.next_edit(), None);
    }
}

#[test]
fn typing_that_undoes_itself_is_no_edit_that_landed() {
    for has_sync in [true, false] {
        let mut late = Late::new(has_sync);
        late.becomes(format!("{TYPED}{OLD}"));
        late.answer(true);
        assert!(!late.is_credited());
        assert_eq!(late.next_edit(), Some(Code::FsStaleVersion));
        late.becomes(OLD.to_string());
        assert_eq!(late.next_edit(), None);
    }
}

#[test]
fn a_document_is_free_again_when_the_edit_is_refused_or_known_not_to_have_landed() {
    // Without a barrier only the answer can tell.
    let mut late = Late::new(false);
    assert_eq!(late.next_edit(), Some(Code::FsEditorTimeout));
    late.answer(false);
    assert_eq!(late.next_edit(), None);
    let mut late = Late::new(false);
    late.answer(true);
    assert_eq!(late.next_edit(), None);
    let mut late = Late::new(true);
    assert_eq!(late.next_edit(), None);
}

#[test]
fn only_an_editor_that_has_reported_everything_frees_a_document_of_an_unknown_edit() {
    let mut late = Late::of(Bench::new(true, false, Luck::Good), true);
    late.bench.ask_to_edit("s", OPEN[0], "omega", "OMEGA");
    late.bench.settle();
    late.bench.pass_time();
    assert_eq!(late.bench.ended(), Some(Code::FsEditorTimeout));
    late.bench.is_mute = false;
    assert_eq!(late.next_edit(), None);
}

#[test]
fn what_was_typed_while_an_edit_was_out_that_nobody_answered_is_a_humans() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.join("other", OPEN[0]);
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    bench.up_to("workspace/applyEdit");
    bench.set(OPEN[0], format!("{TYPED}{OLD}"));
    bench.settle();
    bench.wait();
    assert_eq!(bench.ended(), Some(Code::FsEditorTimeout));
    bench.check_changed_by(OPEN[0], &[Author::Human]);
}
