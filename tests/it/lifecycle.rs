//! How a server starts and ends, and what it answers to messages that are not for it.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use abreast::replay::{
    client::{CallError, Client, Connection},
    document::Encoding,
    editor::{Editor, Options, StartError, uri_of},
    model::Treatment,
};
use serde_json::{Value, json};

use crate::support::{World, directory, refused, server};

const PATIENCE: Duration = Duration::from_secs(20);
/// What is promised for the end of a server.
const END: Duration = Duration::from_secs(1);

fn start() -> Client {
    Client::start(&server(), &std::env::temp_dir(), |_, _| {}).unwrap()
}

fn initialize(connection: &Connection) -> Value {
    let params = json!({
        "processId": null, "rootUri": uri_of(&std::env::temp_dir()), "capabilities": {},
        "initializationOptions": { "listen": false },
    });
    let result = connection.call("initialize", params, PATIENCE).unwrap();
    connection.notify("initialized", json!({}));
    result
}

/// Checks that a call was answered by a JSON-RPC error with this number, and nothing else.
#[track_caller]
fn check_rpc_error(answer: Result<Value, CallError>, rpc_code: i64) {
    let error = answer.expect_err("no result is expected");
    assert_eq!(
        error.refusal().map(|it| it.rpc_code),
        Some(rpc_code),
        "{error}"
    );
}

/// Waits for the end of a server after `trigger`, and checks its status and that it came in time.
#[track_caller]
fn check_end(mut client: Client, trigger: impl FnOnce(&Connection), expected_status: i32) {
    let started = Instant::now();
    trigger(client.connection());
    let status = client.wait_for_end(PATIENCE).expect("it ends");
    let elapsed = started.elapsed();
    assert_eq!(
        status.code(),
        Some(expected_status),
        "{}",
        client.connection().stderr()
    );
    assert!(elapsed < END, "it took {elapsed:?}");
    assert_eq!(client.connection().violation(), None);
}

#[test]
fn nothing_is_answered_before_initialize() {
    let client = start();
    let call = |method| {
        client
            .connection()
            .call(method, json!({ "sessionId": "s" }), PATIENCE)
    };
    check_rpc_error(call("abreast/openSession"), -32002);
    check_rpc_error(call("abreast/nope"), -32002);
    initialize(client.connection());
    call("abreast/openSession").unwrap();
}

#[test]
fn a_second_initialize_is_refused() {
    let client = start();
    initialize(client.connection());
    check_rpc_error(
        client
            .connection()
            .call("initialize", json!({ "capabilities": {} }), PATIENCE),
        -32600,
    );
}

#[test]
fn the_server_says_who_it_is_and_what_it_can() {
    let client = start();
    let result = initialize(client.connection());
    assert_eq!(result["serverInfo"]["name"], "abreast");
    let capabilities = &result["capabilities"];
    assert_eq!(capabilities["positionEncoding"], "utf-16");
    assert_eq!(capabilities["textDocumentSync"]["openClose"], true);
    assert_eq!(capabilities["textDocumentSync"]["change"], 2);
    assert_eq!(
        capabilities["workspace"]["workspaceFolders"]["supported"],
        true
    );
    let abreast = &capabilities["experimental"]["abreast"];
    assert_eq!(
        (&abreast["version"], &abreast["minVersion"]),
        (&1.into(), &1.into())
    );
    let methods: Vec<_> = abreast["methods"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for method in [
        "openSession",
        "closeSession",
        "sessions",
        "ledger",
        "read",
        "edit",
        "write",
        "apply",
    ] {
        assert!(
            methods.contains(&format!("abreast/{method}").as_str()),
            "{methods:?} has no {method}"
        );
    }
}

#[test]
fn utf_8_is_taken_where_it_is_offered() {
    let world = World::with(&[], |it| {
        it.encodings = vec![Encoding::Utf16, Encoding::Utf8];
    });
    assert_eq!(
        world.editor.initialized()["capabilities"]["positionEncoding"],
        "utf-8"
    );
    let world = World::with(&[], |it| {
        it.encodings = vec![Encoding::Utf32, Encoding::Utf16];
    });
    assert_eq!(
        world.editor.initialized()["capabilities"]["positionEncoding"],
        "utf-16"
    );
}

#[test]
fn a_wrong_option_fails_initialize_and_is_named() {
    for (key, value) in [
        ("policy", json!("loud")),
        ("trustClient", json!(1)),
        ("limits", json!({ "readLines": "x" })),
    ] {
        let (_directory, root) = directory();
        let mut options = Options::new(server(), root);
        options.initialization_options = json!({ key: value });
        let Err(StartError::Initialize { error, .. }) = Editor::start(&options) else {
            panic!("{key} was accepted");
        };
        assert_eq!(error.code(), "-32602");
        assert!(error.message().contains(key), "{error}");
    }
}

#[test]
fn an_unknown_option_is_reported_and_nothing_more() {
    let world = World::with(&[], |it| {
        it.initialization_options = json!({ "polcy": "off" });
    });
    let connection = world.editor.connection();
    let told = connection.wait_for_notification(PATIENCE, |it| it.method == "window/logMessage");
    let message = told.expect("a message").params["message"].clone();
    assert!(
        message.as_str().is_some_and(|it| it.contains("polcy")),
        "{message}"
    );
}

#[test]
fn an_unknown_request_is_answered_and_an_unknown_notification_is_not() {
    let client = start();
    initialize(client.connection());
    client.connection().notify("abreast/nope", json!({}));
    client
        .connection()
        .notify("$/setTrace", json!({ "value": "off" }));
    check_rpc_error(
        client
            .connection()
            .call("abreast/nope", json!({}), PATIENCE),
        -32601,
    );
    check_rpc_error(
        client
            .connection()
            .call("textDocument/hover", json!({}), PATIENCE),
        -32601,
    );
    check_rpc_error(
        client.connection().call("$/nope", json!({}), PATIENCE),
        -32601,
    );
}

#[test]
fn malformed_parameters_are_refused_as_such() {
    let world = World::new(&[("a.txt", "a\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    refused(session.call("abreast/read", json!({})), "-32602");
    refused(session.call("abreast/read", json!({ "path": 1 })), "-32602");
    refused(
        session.call(
            "abreast/apply",
            json!({ "changes": [{ "kind": "burn", "path": "a.txt" }] }),
        ),
        "-32602",
    );
    refused(session.edit("a.txt", "", "b"), "-32602");
    let unknown = world.editor.call(
        "abreast/read",
        json!({ "sessionId": "nobody", "path": "a.txt" }),
    );
    let error = refused(unknown, "UNKNOWN_SESSION");
    assert_eq!(error.refusal().unwrap().rpc_code, -32602);
}

#[test]
fn after_shutdown_only_exit_is_heard() {
    let client = start();
    initialize(client.connection());
    assert_eq!(
        client
            .connection()
            .call("shutdown", Value::Null, PATIENCE)
            .unwrap(),
        Value::Null
    );
    check_rpc_error(
        client
            .connection()
            .call("abreast/sessions", json!({}), PATIENCE),
        -32600,
    );
    check_end(client, |it| it.notify("exit", Value::Null), 0);
}

#[test]
fn exit_without_shutdown_ends_with_status_1() {
    let client = start();
    initialize(client.connection());
    check_end(client, |it| it.notify("exit", Value::Null), 1);
}

#[test]
fn exit_before_initialize_ends_with_status_1() {
    check_end(start(), |it| it.notify("exit", Value::Null), 1);
}

#[test]
fn the_end_of_input_ends_with_status_0() {
    let client = start();
    initialize(client.connection());
    check_end(client, Connection::close_input, 0);
    check_end(start(), Connection::close_input, 0);
}

#[test]
fn an_edit_that_waits_for_the_editor_does_not_delay_the_end() {
    type Ending = fn(&World);
    let endings: [(Ending, i32); 3] = [
        (|world| world.editor.connection().close_input(), 0),
        (
            |world| world.editor.connection().notify("exit", Value::Null),
            1,
        ),
        (
            |world| {
                world.editor.call("shutdown", Value::Null).unwrap();
                world.editor.connection().notify("exit", Value::Null);
            },
            0,
        ),
    ];
    for (ending, expected_status) in endings {
        let mut world = World::new(&[]);
        world.editor.open_with("a.txt", "one\n").unwrap();
        let session = world.session_that_read("s", &["a.txt"]);
        world.editor.order(Treatment::Hold);
        let _pending = session.start_edit("a.txt", "one", "1");
        assert!(world.editor.wait_for_held(1));
        let started = Instant::now();
        ending(&world);
        let status = world.editor.wait_for_end(PATIENCE).expect("it ends");
        assert!(started.elapsed() < END, "it took {:?}", started.elapsed());
        assert_eq!(status.code(), Some(expected_status));
    }
}

/// An editor that dies takes its unsaved buffers with it; so nothing of a call that is being committed may stay on disk.
#[test]
fn an_editor_that_dies_during_a_commit_leaves_nothing_of_the_call_on_disk() {
    const N_FILES: usize = 150;
    const N_ROUNDS: usize = 40;
    let names: Vec<String> = (0..N_FILES).map(|it| format!("{it}.txt")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|it| (it.as_str(), "one\n")).collect();
    let mut n_taken_back = 0;
    for _ in 0..N_ROUNDS {
        let mut world = World::new(&files);
        world.editor.open_with("open.txt", "one\n").unwrap();
        let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
        all.push("open.txt");
        let session = world.session_that_read("s", &all);
        let edit = |path: &&str| json!({ "kind": "edit", "path": path, "oldString": "one", "newString": "1" });
        let changes: Vec<Value> = all.iter().map(edit).collect();
        let _pending = session.start_apply(Value::Array(changes));
        let first = world.root().join(&names[0]);
        let until = Instant::now() + PATIENCE;
        while fs::read_to_string(&first).unwrap() == "one\n" {
            assert!(Instant::now() < until, "nothing is committed");
            thread::yield_now();
        }
        world.editor.connection().close_input();
        world.editor.wait_for_end(PATIENCE).expect("it ends");
        let is_old =
            |name: &&String| fs::read_to_string(world.root().join(name)).unwrap() == "one\n";
        let n_old = names.iter().filter(is_old).count();
        assert!(
            n_old == 0 || n_old == N_FILES,
            "{n_old} files are as they were, the others not"
        );
        // Where all were changed before anybody could know, the call was done.
        n_taken_back += usize::from(n_old == N_FILES);
        if n_taken_back > 1 {
            return;
        }
    }
    panic!("a commit was never taken back");
}

#[test]
fn a_call_that_waits_in_a_queue_can_be_cancelled() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let first = session.start_edit("a.txt", "one", "1");
    assert!(world.editor.wait_for_held(1));
    let second = session.start_edit("a.txt", "two", "2");
    second.cancel();
    let error = refused(second.wait(PATIENCE), "FS_ABORTED");
    assert_eq!(error.refusal().unwrap().rpc_code, -32800);
    world.editor.release(Treatment::Honest);
    first.wait(PATIENCE).unwrap();
    world.check_buffer("a.txt", "1 two\n");
}

#[test]
fn after_the_commit_point_cancelling_has_no_effect() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "one two\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    world.editor.order(Treatment::Hold);
    let pending = session.start_edit("a.txt", "one", "1");
    assert!(world.editor.wait_for_held(1));
    pending.cancel();
    world.editor.release(Treatment::Honest);
    pending.wait(PATIENCE).unwrap();
    session.edit("a.txt", "two", "2").unwrap();
    world.check_buffer("a.txt", "1 2\n");
}

#[test]
fn cancelling_what_is_unknown_or_done_is_ignored() {
    let world = World::new(&[("a.txt", "a\n")]);
    let session = world.session("s");
    let pending = session.start("abreast/read", json!({ "path": "a.txt" }));
    world
        .editor
        .connection()
        .notify("$/cancelRequest", json!({ "id": 999 }));
    world
        .editor
        .connection()
        .notify("$/cancelRequest", json!({ "id": "none" }));
    assert_eq!(pending.wait(PATIENCE).unwrap()["text"], "a\n");
}

#[test]
fn whatever_is_logged_stdout_has_only_frames() {
    let world = World::with(&[("a.txt", "one\n")], |options| {
        options
            .server
            .arguments
            .extend(["--log-level".into(), "trace".into()]);
    });
    world.editor.open("a.txt").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    session.edit("a.txt", "one", "secret words").unwrap();
    refused(session.edit("a.txt", "one", "1"), "FS_EDIT_NOT_FOUND");
    world.editor.close("a.txt").unwrap();
    session.read("a.txt").unwrap();
    assert_eq!(world.editor.connection().violation(), None);
    let stderr = world.editor.connection().stderr();
    assert!(
        !stderr.contains("secret words"),
        "content is never logged: {stderr}"
    );
}
