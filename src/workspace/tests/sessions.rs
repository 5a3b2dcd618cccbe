//! How sessions are opened, and what is listed of them.

use super::*;
use crate::protocol::{ExportedEntry, ExportedLedger, ForgetParams, OpenSessionResult, Seen};

impl Bench {
    fn open_with_params(&mut self, params: OpenSessionParams) -> Result<OpenSessionResult, String> {
        self.call(Request::OpenSession(params));
        self.settle();
        match self.replies.pop() {
            Some(Ok(Answer::Session(result))) => Ok(result),
            Some(Err(Failure::Params { message, .. })) => Err(message),
            other => panic!("{other:?}"),
        }
    }

    /// How many files each session has seen, and how many of them are stale.
    fn listed(&mut self) -> Vec<(String, usize, usize)> {
        self.call(Request::Sessions);
        self.settle();
        match self.replies.pop() {
            Some(Ok(Answer::Sessions(list))) => {
                let rows = list.sessions.into_iter();
                rows.map(|it| (it.session_id, it.entries, it.stale))
                    .collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

fn named(session_id: &str) -> OpenSessionParams {
    OpenSessionParams {
        session_id: Some(session_id.to_string()),
        ..OpenSessionParams::default()
    }
}

#[test]
fn a_session_opened_once_more_does_not_import_its_ledger_again() {
    let mut bench = Bench::new(true, false, Luck::Good);
    let entry = ExportedEntry {
        path: OPEN[0].to_string(),
        state: Seen::Present,
        version: Some(Version::of(&Text::flat(OLD))),
    };
    let params = OpenSessionParams {
        ledger: Some(ExportedLedger {
            version: 1,
            entries: vec![entry],
        }),
        ..named("new")
    };
    let opened = bench.open_with_params(params.clone()).expect("a session");
    assert_eq!(opened.revalidated, Some(1));
    bench.call(Request::Forget(ForgetParams {
        session_id: "new".to_string(),
        paths: None,
    }));
    bench.settle();
    bench.replies.clear();
    let again = bench.open_with_params(params).expect("the same session");
    assert_eq!(again.revalidated, None);
    assert!(bench.listed().contains(&("new".to_string(), 0, 0)));
}

#[test]
fn session_options_are_an_object_and_those_that_this_version_lacks_are_named() {
    let mut bench = Bench::new(true, false, Luck::Good);
    for (options, is_right, missing) in [
        (json!({}), true, None),
        (json!([]), true, None),
        (json!(["region"]), false, None),
        (json!({ "freshness": "region" }), true, Some("freshness")),
    ] {
        bench.logs.clear();
        let params = OpenSessionParams {
            options: Some(options.clone()),
            ..OpenSessionParams::default()
        };
        assert_eq!(
            bench.open_with_params(params).is_ok(),
            is_right,
            "{options}"
        );
        assert_eq!(bench.logs.len(), usize::from(missing.is_some()));
        let named = bench
            .logs
            .iter()
            .all(|it| it.ends_with(missing.unwrap_or("")));
        assert!(named, "{:?}", bench.logs);
    }
}

#[test]
fn of_each_session_what_it_has_seen_and_what_is_stale_is_counted() {
    let mut bench = Bench::new(true, false, Luck::Good);
    for path in [OPEN[0], OPEN[1], "/w/closed.txt"] {
        bench.join("other", path);
    }
    bench.set(OPEN[0], format!("{TYPED}{OLD}"));
    bench.settle();
    bench.pass_time();
    let (s, other) = (("s".to_string(), 5, 1), ("other".to_string(), 3, 1));
    assert_eq!(bench.listed(), [other, s]);
}
