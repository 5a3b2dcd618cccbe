//! Documents that are closed, and editors that say nothing or too much, while an edit of several documents is out.

use super::*;

const EDITED: &str = "first\nALPHA\nmiddle\nomega\nlast\n";

/// Something that the editor has been asked to apply.
struct Out {
    bench: Bench,
    ask: AskId,
    deadline: Millis,
    edits: Vec<Value>,
}

fn edit(path: &str) -> Change {
    let edit = json!({ "kind": "edit", "path": path, "oldString": "alpha", "newString": "ALPHA" });
    serde_json::from_value(edit).expect("an edit")
}

impl Out {
    /// An edit of both open documents.
    fn editing(has_sync: bool) -> Self {
        let mut bench = Bench::new(has_sync, false, Luck::Good);
        bench.ask_to_apply(OPEN.map(edit).into());
        Self::of(bench)
    }

    /// What takes an edit back, because the disk cannot do its part of the call.
    fn taking_back(has_sync: bool, changes: Vec<Change>) -> Self {
        let mut bench = Bench::new(has_sync, false, Luck::CommitFails);
        bench.ask_to_apply(changes);
        Self::of(bench).taken_back()
    }

    fn taken_back(mut self) -> Self {
        self.apply(OPEN.len());
        self.answer(true);
        Self::of(self.bench)
    }

    fn of(mut bench: Bench) -> Self {
        let (ask, params) = bench.up_to("workspace/applyEdit");
        let edits = params["edit"]["documentChanges"].as_array();
        Self {
            bench,
            ask,
            deadline: params["abreast"]["deadline"].as_u64().expect("a deadline"),
            edits: edits.expect("changes").clone(),
        }
    }

    /// The editor changes the first documents of the edit.
    fn apply(&mut self, n: usize) {
        let n = n.min(self.edits.len());
        self.bench.apply_all(&self.edits[..n]);
    }

    fn answer(&mut self, applied: bool) {
        let answer = Ok(json!({ "applied": applied }));
        let ask = self.ask;
        self.bench.arrive(Event::Answered { ask, answer });
    }

    fn pass_deadline(&mut self) {
        self.bench.settle();
        assert!(self.bench.replies.is_empty(), "{:?}", self.bench.replies);
        self.bench.now = self.deadline;
        self.bench.send(Event::Tick);
        self.bench.settle();
    }

    fn held(&self, path: &str) -> &str {
        let document = self.bench.documents.get(path).map(|it| &it.text);
        document.unwrap_or_else(|| &self.bench.disk[Path::new(path)])
    }

    #[track_caller]
    fn check_closed(&mut self, held: &str) {
        let err = self.bench.refused();
        assert_eq!(err.code, Code::FsStaleVersion, "{err:?}");
        assert!(err.what.contains("closed"), "{}", err.what);
        assert_eq!((self.held(OPEN[0]), self.held(OPEN[1])), (held, OLD));
    }

    #[track_caller]
    fn check_partial(&mut self, expected: &[(&str, Became)]) {
        let err = self.bench.refused();
        assert_eq!(err.code, Code::FsPartiallyApplied, "{err:?}");
        for (path, outcome) in expected {
            let file = err.files.iter().find(|it| it.path == *path);
            assert_eq!(file.map(|it| it.outcome), Some(*outcome), "{path}");
        }
    }
}

#[test]
fn a_silent_editor_has_until_its_deadline_also_if_a_document_was_closed() {
    for has_sync in [true, false] {
        let mut out = Out::editing(has_sync);
        out.bench.close(OPEN[1]);
        out.bench.set(OPEN[0], format!("{TYPED}{OLD}"));
        out.bench.settle();
        assert_eq!(out.bench.wait(), out.deadline);
        assert_eq!(out.bench.ended(), Some(Code::FsEditorTimeout));
    }
}

#[test]
fn what_landed_beside_a_document_that_was_closed_is_taken_back_at_once() {
    for has_sync in [true, false] {
        let mut out = Out::editing(has_sync);
        out.apply(2);
        out.bench.close(OPEN[1]);
        out.answer(true);
        out.bench.settle();
        out.check_closed(OLD);

        // The report can come after the answer.
        let mut out = Out::editing(has_sync);
        out.apply(1);
        let report = out.bench.queue.pop_back().expect("it is reported");
        out.bench.close(OPEN[1]);
        out.answer(true);
        out.bench.queue.push_back(report);
        out.bench.settle();
        out.check_closed(OLD);
    }
}

#[test]
fn typing_that_is_merged_with_what_landed_beside_a_document_that_was_closed_stays() {
    for has_sync in [true, false] {
        let mut out = Out::editing(has_sync);
        out.bench.set(OPEN[0], format!("{TYPED}{EDITED}"));
        out.bench.close(OPEN[1]);
        out.answer(true);
        if has_sync {
            out.bench.settle();
        } else {
            out.pass_deadline();
        }
        out.check_closed(&format!("{TYPED}{OLD}"));
    }
}

#[test]
fn an_editor_that_did_not_do_what_it_says_is_not_believed_because_a_document_was_closed() {
    for has_sync in [true, false] {
        let mut out = Out::editing(has_sync);
        out.bench.close(OPEN[1]);
        out.answer(true);
        if has_sync {
            out.bench.settle();
        } else {
            out.pass_deadline();
        }
        assert_eq!(out.bench.ended(), Some(Code::FsUnverified));
    }
}

#[test]
fn of_an_edit_that_the_editor_did_in_part_the_document_is_named_that_is_not_changed() {
    for has_sync in [true, false] {
        let mut out = Out::editing(has_sync);
        out.apply(1);
        out.answer(true);
        if has_sync {
            out.bench.settle();
        } else {
            out.pass_deadline();
        }
        let err = out.bench.refused();
        assert_eq!(err.code, Code::FsUnverified);
        assert_eq!(err.path.as_deref(), Some(OPEN[1]));
    }
}

#[test]
fn if_nobody_says_whether_a_document_was_taken_back_it_is_unknown_and_one_that_was_closed_is_not() {
    let mut out = Out::taking_back(false, changes());
    out.bench.close(OPEN[1]);
    out.pass_deadline();
    out.check_partial(&[(OPEN[0], Became::Unknown), (OPEN[1], Became::RolledBack)]);
    // It may still happen.
    let later = out.bench.edit(OPEN[0], "ALPHA", "beta");
    assert_eq!(later, Some(Code::FsEditorTimeout));
    out.answer(false);
    let later = out.bench.edit(OPEN[0], "ALPHA", "beta");
    assert_eq!(later, Some(Code::FsStaleVersion));
}

#[test]
fn a_document_that_is_closed_while_it_is_taken_back_does_not_hold_up_the_other() {
    for has_sync in [true, false] {
        let mut out = Out::taking_back(has_sync, changes());
        out.apply(2);
        out.bench.close(OPEN[1]);
        out.answer(true);
        out.bench.settle();
        assert_eq!(out.bench.ended(), Some(Code::FsIoError));
        assert_eq!((out.held(OPEN[0]), out.held(OPEN[1])), (OLD, OLD));
    }
}

#[test]
fn of_a_file_that_cannot_be_read_any_more_nobody_says_what_became() {
    let mut out = Out::taking_back(true, changes());
    out.bench.act(Act::SaveAndClose);
    out.bench.binary.insert(OPEN[0].into());
    out.answer(false);
    out.bench.settle();
    out.check_partial(&[(OPEN[0], Became::Unknown), (OPEN[1], Became::RolledBack)]);
}

#[test]
fn what_only_an_editor_had_is_taken_back_when_it_is_closed() {
    let name = "untitled:1";
    let mut bench = Bench::new(true, false, Luck::CommitFails);
    bench.open_as(name, FileKey::Uri(name.to_string()), OLD.to_string());
    bench.settle();
    bench.read(name);
    bench.ask_to_apply([name, "/w/closed.txt"].map(edit).into());
    let mut out = Out::of(bench).taken_back();
    out.bench.arrive(Event::Saved { uri: uri(name) });
    out.bench.close(name);
    out.answer(false);
    out.bench.settle();
    assert_eq!(out.bench.ended(), Some(Code::FsIoError));
}

#[test]
fn what_a_human_made_of_a_text_that_a_commit_took_back_is_told() {
    let closed = "/w/closed.txt";
    let mut bench = Bench::new(true, false, Luck::CommitFails);
    bench.ask_to_apply(vec![edit(closed)]);
    while !matches!(
        bench.queue.front(),
        Some(Item::Work(_, Work::Commit { .. }))
    ) {
        assert!(bench.step(), "it is committed");
    }
    let commit = bench.queue.pop_front().expect("the commit");
    bench.open_as(closed, FileKey::Path(closed.into()), EDITED.to_string());
    bench.set(closed, EDITED.replace("ALPHA", &format!("AL{TYPED}PHA")));
    bench.queue.push_back(commit);
    bench.settle();
    let err = bench.refused();
    assert_eq!(err.code, Code::FsPartiallyApplied, "{err:?}");
    assert_eq!(err.files[0].outcome, Became::KeptHuman);
}
