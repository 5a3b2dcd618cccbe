//! Work on large texts, which is done elsewhere, while somebody types.

use super::{authors::session, commits::change, *};

/// All texts are large as long as it lives, or those of more bytes.
struct Limit;

impl Limit {
    fn at(bytes: usize) -> Self {
        set_limit(Some(bytes));
        Self
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        set_limit(None);
    }
}

fn kind(compute: &Compute) -> &'static str {
    match compute {
        Compute::Read(_) => "read",
        Compute::Plan(_) => "plan",
        Compute::Judge(_) => "judge",
        Compute::Undo(_) => "undo",
        Compute::Status(_) => "status",
    }
}

impl Bench {
    /// Does all that is to be done, and says what was computed elsewhere.
    fn computed_elsewhere(&mut self) -> Vec<&'static str> {
        let mut computed = Vec::new();
        while let Some(item) = self.queue.front() {
            if let Item::Work(_, Work::Compute(compute)) = item {
                computed.push(kind(compute));
            }
            self.step();
        }
        computed
    }

    fn step_to_plan(&mut self) {
        let is_it = |it: &Item| match it {
            Item::Work(_, Work::Compute(compute)) => kind(compute) == "plan",
            _ => false,
        };
        self.step_to(is_it);
    }

    /// Reports a change as the full text.
    fn set_whole(&mut self, path: &str, text: &str) {
        let document = self.documents.get_mut(path).expect("open");
        document.text = text.to_string();
        document.lsp_version += 1;
        let lsp_version = document.lsp_version;
        let change = ContentChange {
            range: None,
            range_length: None,
            text: text.to_string(),
            halves: Vec::new(),
        };
        self.arrive(Event::Changed {
            uri: uri(path),
            lsp_version,
            changes: Some(vec![change]),
        });
    }

    /// Types into a document and takes it back.
    fn type_and_undo(&mut self, path: &str) {
        let text = self.documents[path].text.clone();
        self.set(path, format!("{TYPED}{text}"));
        self.set(path, text);
        self.settle();
    }
}

#[test]
fn work_on_a_large_text_is_done_elsewhere() {
    let old = OLD.repeat(20);
    let _limit = Limit::at(old.len() / 2);
    let mut bench = Bench::new(true, false, Luck::CommitFails);
    bench.workspace.options.limits.read_bytes = OLD.len();
    bench.open_with("/w/large.txt", &old);
    bench.ask_to_read("/w/large.txt");
    assert_eq!(bench.computed_elsewhere(), ["read"]);
    // Now that its version is known only the window is looked at.
    bench.ask_to_read("/w/large.txt");
    assert_eq!(bench.computed_elsewhere(), Vec::<&str>::new());
    bench.replies.clear();

    let write =
        |path: &str| change(json!({ "kind": "write", "path": path, "content": NEW.repeat(20) }));
    bench.ask_to_apply(vec![write("/w/large.txt"), write("/w/new.txt")]);
    bench.step_to_plan();
    let (ask, _) = bench.up_to("workspace/applyEdit");
    bench.set_whole("/w/large.txt", &NEW.repeat(20));
    let answer = Ok(json!({ "applied": true }));
    bench.arrive(Event::Answered { ask, answer });
    // It is taken back as well, and then what became of it is compared.
    let computed = bench.computed_elsewhere();
    assert_eq!(computed, ["judge", "undo", "judge", "undo"]);
    assert_eq!(bench.ended(), Some(Code::FsIoError));

    let typed = format!("{TYPED}{old}");
    for (text, computed) in [
        (typed.clone(), &["status"][..]),
        (format!("{TYPED}{typed}"), &[]),
    ] {
        bench.set("/w/large.txt", text);
        bench.settle();
        bench.pass_time();
        // What was found to be stale is not compared again as long as it has another length.
        assert_eq!(bench.computed_elsewhere(), computed);
    }
}

#[test]
fn a_version_of_a_large_text_is_computed_once() {
    let old = OLD.repeat(20);
    let _limit = Limit::at(old.len() / 2);
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.workspace.options.limits.read_bytes = OLD.len();
    bench.open_with("/w/large.txt", &old);
    bench.read("/w/large.txt");
    bench.set("/w/large.txt", format!("{TYPED}{old}"));
    bench.settle();
    bench.pass_time();
    assert_eq!(bench.computed_elsewhere(), ["status"]);
    bench.ask_to_read("/w/large.txt");
    assert_eq!(bench.computed_elsewhere(), Vec::<&str>::new());
    bench.type_and_undo("/w/large.txt");
    let write = json!({ "kind": "write", "path": "/w/large.txt", "content": NEW });
    bench.call(Request::Change {
        params: ApplyParams {
            session_id: Some("s".to_string()),
            changes: vec![change(write)],
            call_id: None,
            label: None,
            dry_run: true,
        },
        is_apply: true,
    });
    assert_eq!(bench.computed_elsewhere(), ["plan"]);
    bench.ask_to_read("/w/large.txt");
    assert_eq!(bench.computed_elsewhere(), Vec::<&str>::new());
}

#[test]
fn the_echo_of_a_large_edit_is_compared_with_nothing() {
    let _limit = Limit::at(0);
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    assert_eq!(bench.computed_elsewhere(), ["plan"]);
    assert_eq!(bench.ended(), None);
}

#[test]
fn a_large_document_that_is_again_what_was_seen_is_told_fresh() {
    let _limit = Limit::at(0);
    let mut bench = Bench::new(true, false, Luck::Good);
    for text in [format!("{TYPED}{OLD}"), OLD.replace("alpha", "omega")] {
        for (text, status) in [(text.as_str(), "stale"), (OLD, "fresh")] {
            bench.set(OPEN[0], text.to_string());
            bench.settle();
            bench.pass_time();
            bench.settle();
            let told = bench.told_rows();
            assert_eq!((told.len(), &told[0]["status"]), (1, &json!(status)));
        }
    }
}

#[test]
fn what_is_typed_while_a_large_text_is_planned_is_not_taken_for_what_was_planned_on() {
    let _limit = Limit::at(0);
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.type_and_undo(OPEN[0]);
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    bench.step_to_plan();
    let typed = format!("{TYPED}{OLD}");
    bench.set(OPEN[0], typed.clone());
    let change = bench.queue.pop_back().expect("what was typed");
    bench.queue.push_front(change);
    bench.settle();
    assert_eq!(bench.ended(), Some(Code::FsStaleVersion));
    assert_eq!(bench.documents[OPEN[0]].text, typed);
}

#[test]
fn a_document_whose_text_is_lost_while_it_is_planned_is_not_edited() {
    for last in OPEN {
        let _limit = Limit::at(0);
        let mut bench = Bench::new(true, false, Luck::Good);
        bench.type_and_undo(OPEN[0]);
        bench.set(last, bench.documents[last].text.clone());
        bench.settle();
        bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
        bench.step_to_plan();
        bench.send(Event::Changed {
            uri: uri(OPEN[0]),
            lsp_version: bench.documents[OPEN[0]].lsp_version + 1,
            changes: None,
        });
        while bench.replies.is_empty() {
            let is_edit = |it: &Item| matches!(it, Item::Ask(_, "workspace/applyEdit", _));
            assert!(!bench.queue.front().is_some_and(is_edit), "{last}");
            assert!(bench.step(), "it is answered");
        }
        assert_eq!(bench.ended(), Some(Code::FsDesynced));
    }
}

#[test]
fn a_large_edit_reported_as_the_full_text_is_its_sessions() {
    let _limit = Limit::at(0);
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.join("other", OPEN[0]);
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    let (ask, _) = bench.up_to("workspace/applyEdit");
    bench.set_whole(OPEN[0], &OLD.replace("alpha", "ALPHA"));
    let answer = Ok(json!({ "applied": true }));
    bench.arrive(Event::Answered { ask, answer });
    bench.settle();
    assert_eq!(bench.ended(), None);
    bench.check_changed_by(OPEN[0], &[session("s")]);
}
