//! What a session's host says that it has shown.

use super::*;
use crate::protocol::{LedgerEntry, Status};

const CLOSED: &str = "/w/closed.txt";

impl Bench {
    fn observe(&mut self, path: &str, version: Option<&str>) -> LedgerEntry {
        let params = json!({ "sessionId": "full", "path": path, "version": version });
        let params = serde_json::from_value(params).expect("an observation");
        self.call(Request::Observe(params));
        self.settle();
        match self.replies.pop() {
            Some(Ok(Answer::Observed(row))) => *row,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, path: &str) -> Option<Code> {
        let write = json!({ "kind": "write", "path": path, "content": "new\n" });
        self.call(Request::Change {
            params: ApplyParams {
                session_id: Some("full".to_string()),
                changes: vec![serde_json::from_value(write).expect("a write")],
                call_id: None,
                label: None,
                dry_run: false,
            },
            is_apply: false,
        });
        self.settle();
        self.ended()
    }
}

/// With a session that writes only what it has been shown in full.
fn bench() -> Bench {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.call(Request::OpenSession(OpenSessionParams {
        session_id: Some("full".to_string()),
        options: Some(json!({ "writeCoverage": "full" })),
        ..OpenSessionParams::default()
    }));
    bench.settle();
    bench.replies.clear();
    bench
}

#[test]
fn an_observation_of_what_is_there_is_of_all_its_lines() {
    let version = Version::of(&Text::flat(OLD)).to_string();
    for path in [CLOSED, OPEN[0]] {
        for seen in [None, Some(version.as_str())] {
            let mut bench = bench();
            let row = bench.observe(path, seen);
            assert_eq!(row.status, Status::Fresh);
            assert_eq!(bench.write(path), None, "{path} {seen:?}");
        }
    }
}

#[test]
fn an_observation_of_something_else_is_not_of_what_is_there() {
    let other = Version::of(&Text::flat("other\n")).to_string();
    for path in [CLOSED, OPEN[0]] {
        let mut bench = bench();
        let row = bench.observe(path, Some(&other));
        assert_eq!(row.status, Status::Stale);
        assert_eq!(bench.write(path), Some(Code::FsStaleVersion), "{path}");
        // Nobody here knows how much of it was shown.
        bench.disk.insert(path.into(), "other\n".to_string());
        bench.set(path, "other\n".to_string());
        assert_eq!(bench.write(path), Some(Code::FsCoverage), "{path}");
    }
}

#[test]
fn the_lines_that_changed_since_an_observation_are_told() {
    let mut bench = bench();
    bench.observe(CLOSED, None);
    let theirs = OLD.replace("middle", "theirs");
    bench.disk.insert(CLOSED.into(), theirs);
    let params = json!({ "sessionId": "full", "path": CLOSED });
    bench.call(Request::Ledger(
        serde_json::from_value(params).expect("a ledger"),
    ));
    bench.settle();
    match bench.replies.pop() {
        Some(Ok(Answer::Ledger(it))) => assert_eq!(it.entries[0].changed_ranges, [(3, 3)]),
        other => panic!("{other:?}"),
    }
}
