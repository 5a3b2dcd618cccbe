//! Who changed what, who waits for what, and for how long.

use super::*;
use crate::protocol::Author;

#[test]
fn of_each_file_the_last_authors_are_remembered() {
    let session = |n: u64| Author::Session {
        session_id: n.to_string(),
    };
    let mut file = File::default();
    let n = LOG_LEN as u64 + 8;
    for seq in 1..=n {
        file.push(session(seq), seq);
    }
    assert_eq!(
        file.authors_since(0),
        (9..=n).map(session).collect::<Vec<_>>()
    );
    assert!(file.has_session_since(n - 1) && !file.has_session_since(n));
    // However often somebody types, it is one author.
    for seq in n + 1..=n + 100 {
        file.push(Author::Human, seq);
    }
    assert_eq!(file.authors_since(0).len(), LOG_LEN);
    assert_eq!(file.authors_since(n + 99), [Author::Human]);
    assert_eq!(file.authors_since(n + 100), []);
    assert!(!file.has_session_since(n));
}

#[test]
fn an_alarm_before_the_next_one_is_asked_for() {
    let mut bench = Bench::new(false, false, Luck::Good);
    bench.is_silent = true;
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    bench.settle();
    let deadline = bench.wake.take().expect("the editor has a deadline");
    bench.set(OPEN[1], format!("{TYPED}{OLD}"));
    bench.settle();
    let batch = bench.wake.take().expect("what is stale has to be told");
    assert!(batch < deadline, "{batch} {deadline}");
}

#[test]
fn a_connection_that_ends_takes_only_its_own_calls_with_it() {
    let mut bench = Bench::new(true, false, Luck::Good);
    let params: ReadParams = serde_json::from_value(json!({ "path": OPEN[0] })).expect("a read");
    for connection in [ConnectionId::EDITOR, ConnectionId(1), ConnectionId(1)] {
        bench.call_from(connection, Request::Read(params.clone()));
    }
    for _ in 0..3 {
        assert!(bench.step(), "all wait for a barrier");
    }
    assert_eq!(bench.workspace.n_calls(), 3);
    bench.send(Event::Disconnected(ConnectionId(1)));
    assert_eq!(bench.workspace.n_calls(), 1);
    assert!(bench.replies.len() == 2 && bench.replies.iter().all(Result::is_err));
    bench.replies.clear();
    bench.settle();
    assert!(matches!(bench.replies.pop(), Some(Ok(Answer::Read(_)))));
}

#[test]
fn a_session_belongs_to_the_connection_that_opened_it() {
    let mut bench = Bench::new(true, false, Luck::Good);
    let open = Request::OpenSession(OpenSessionParams {
        session_id: Some("s".to_string()),
        ..OpenSessionParams::default()
    });
    for (connection, expected) in [
        (ConnectionId::EDITOR, None),
        (ConnectionId(1), Some("SESSION_IN_USE")),
    ] {
        bench.call_from(connection, open.clone());
        bench.call_from(connection, Request::Sessions);
        bench.settle();
        let is_own = match bench.replies.pop() {
            Some(Ok(Answer::Sessions(list))) => list.sessions[0].own,
            other => panic!("{other:?}"),
        };
        assert_eq!(is_own, expected.is_none());
        match bench.replies.pop() {
            Some(Ok(_)) => assert_eq!(expected, None),
            Some(Err(Failure::Params { code, .. })) => assert_eq!(code, expected),
            other => panic!("{other:?}"),
        }
    }
}

/// How often the editor is asked to take an edit back while a human types, and so many milliseconds go by each time.
fn n_taken_back(ms: Millis) -> u32 {
    let mut bench = Bench::new(true, false, Luck::CommitFails);
    bench.ask_to_apply(changes());
    let mut n_asked = 0;
    while bench.replies.is_empty() {
        if let Some(Item::Ask(_, "workspace/applyEdit", _)) = bench.queue.front() {
            n_asked += 1;
            if n_asked > 1 {
                let text = format!("{TYPED}{}", bench.documents[OPEN[0]].text);
                bench.set(OPEN[0], text);
                let typed = bench.queue.pop_back().expect("what was typed");
                bench.queue.push_front(typed);
                bench.queue.rotate_left(1);
                bench.now += ms;
            }
        }
        assert!(bench.step() && n_asked < 100, "it is answered");
    }
    match bench.replies.pop() {
        Some(Err(Failure::Fs(err))) => assert_eq!(err.code, Code::FsPartiallyApplied),
        other => panic!("{other:?}"),
    }
    n_asked - 1
}

#[test]
fn taking_back_is_tried_a_few_times_and_for_a_few_seconds_while_a_human_types() {
    assert_eq!(n_taken_back(0), rollback::ATTEMPTS);
    assert_eq!(n_taken_back(3000), 2);
}

#[test]
fn progress_is_reported_as_soon_as_a_call_has_taken_long() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.is_silent = true;
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    let Some(Item::Event(call)) = bench.queue.back_mut() else {
        panic!("the call")
    };
    if let Event::Call { context, .. } = &mut **call {
        context.work_done_token = Some(json!("token"));
    }
    let arrived = bench.now + 1;
    bench.settle();
    bench.now = arrived + PROGRESS_AFTER_MS - 2;
    for n_told in [0, 1, 1] {
        bench.send(Event::Tick);
        let told = bench.notes.iter().filter(|it| it.0 == "$/progress");
        assert_eq!(told.count(), n_told);
    }
}

#[test]
fn an_edit_that_is_tried_again_is_sent_in_time_although_the_editor_has_fallen_silent() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.is_mute = true;
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    let started = bench.now + 1;
    bench.settle();
    bench.now = started + barrier::EDIT_BARRIER_MS;
    bench.send(Event::Tick);
    // What is typed and taken back at once makes the edit one of another version.
    bench.is_mute = false;
    bench.set(OPEN[0], format!("{TYPED}{OLD}"));
    bench.set(OPEN[0], OLD.to_string());
    while !matches!(bench.queue.back(), Some(Item::Ask(_, "abreast/sync", _))) {
        assert!(bench.step(), "the refusal is followed by a barrier");
    }
    bench.step();
    bench.is_mute = true;
    bench.settle();
    assert!(bench.now < started + 2 * barrier::EDIT_BARRIER_MS - 1000);
    bench.now = started + 3000;
    bench.send(Event::Tick);
    bench.step_to_edit();
}

/// How often an edit is sent that is right each time, but for a version that the editor has left behind; so many
/// milliseconds go by each time.
fn n_sent(ms: Millis) -> u32 {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
    let mut n_sent = 0;
    while bench.replies.is_empty() {
        if let Some(Item::Ask(_, "workspace/applyEdit", _)) = bench.queue.front() {
            n_sent += 1;
            bench.now += ms;
            bench.set(OPEN[0], format!("{TYPED}{OLD}"));
            bench.set(OPEN[0], OLD.to_string());
        }
        assert!(bench.step() && n_sent < 100, "it is answered");
    }
    match bench.replies.pop() {
        Some(Err(Failure::Fs(err))) => assert_eq!(err.code, Code::FsEditorRejected),
        other => panic!("{other:?}"),
    }
    n_sent
}

#[test]
fn an_edit_is_sent_again_a_few_times_and_for_a_few_seconds() {
    assert_eq!(n_sent(0), 1 + changes::RETRIES);
    assert_eq!(n_sent(1500), 2);
}
