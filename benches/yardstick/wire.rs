//! The whole process: round trips, floods of keystrokes, start-up.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use abreast::server::frames::encode;
use serde_json::{Value, json};

use crate::{
    clock::{low, versus},
    driver,
    peer::{Peer, read},
    table::{Row, Target, time, times},
};

/// A small language server with which starting up is compared: where it is installed, and from what (PyPI).
const OTHER_SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/tombi");
const OTHER_PACKAGE: &str = "tombi==1.9.6";
const TRIPS: usize = 100;
const ROUNDS: usize = 60;
const FLOODS: usize = 20;
const STROKES: usize = 20_000;
/// How much is sent between two edits.
const PIECE: usize = 250;
const FLOOD: &str = "untitled:flood";
const OTHER: &str = "untitled:other";

/// All rows of this module.
pub(crate) fn rows() -> Vec<Row> {
    eprintln!("  round trips");
    let mut rows = round_trips();
    eprintln!("  keystrokes per second");
    rows.extend(floods());
    eprintln!("  start-up");
    rows.extend(start_up());
    rows
}

/// The median of some round trips.
fn p50(peer: &mut Peer, method: &str, params: &Value) -> Duration {
    let mut times: Vec<Duration> = (0..TRIPS)
        .map(|_| {
            let start = Instant::now();
            peer.request(method, params);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[TRIPS / 2]
}

fn round_trips() -> Vec<Row> {
    let mut abreast = Peer::abreast();
    abreast.initialize(true);
    abreast.open(OTHER, &driver::text(4_000));
    abreast.request("abreast/openSession", &json!({ "sessionId": "s" }));
    let mut tower = Peer::tower();
    tower.initialize(false);
    let mut frames = Peer::frames();
    frames.initialize(false);

    let nothing = json!({});
    let read = json!({ "sessionId": "s", "path": OTHER, "limit": 20 });
    let shown = abreast.request("abreast/read", &read)["result"].clone();
    let edit = json!({
        "path": OTHER, "oldString": "// note 00000007", "newString": "// NOTE 00000007",
        "sessionId": "s", "dryRun": true,
    });
    let edited = abreast.request("abreast/edit", &edit)["result"].clone();
    assert!(!shown.is_null() && !edited.is_null(), "both are answered");
    let mut rows = Vec::new();
    for (name, method, params, echoed) in [
        ("abreast/sessions", "abreast/sessions", &nothing, &nothing),
        ("abreast/read, 20 lines", "abreast/read", &read, &shown),
        ("abreast/edit, dry run", "abreast/edit", &edit, &edited),
    ] {
        let pair = versus(
            ROUNDS,
            |_| p50(&mut abreast, method, params),
            |_| p50(&mut tower, "echo", echoed),
        );
        rows.push(times(
            format!("round trip p50, {name}, beside tower-lsp echo"),
            pair,
            Target::AtMost(1.3),
        ));
        let pair = versus(
            ROUNDS,
            |_| p50(&mut abreast, method, params),
            |_| p50(&mut frames, "echo", echoed),
        );
        rows.push(times(
            format!("round trip p50, {name}, beside framing loop"),
            pair,
            Target::None,
        ));
    }
    rows
}

/// Keystrokes as bytes, in pieces; `version`: the last version so far.
fn keystrokes(version: &mut i64) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    for from in (0..STROKES).step_by(PIECE) {
        let mut piece = Vec::new();
        for n in from..from + PIECE {
            *version += 1;
            // Eight characters, then the same taken back.
            let column = if n % 16 < 8 { n % 16 } else { 15 - n % 16 };
            let (end, text) = if n % 16 < 8 {
                (column, "x")
            } else {
                (column + 1, "")
            };
            let line = n / 16 * 31 % 9_000;
            let range = driver::at(line, column, end);
            let params = json!({
                "textDocument": { "uri": FLOOD, "version": *version },
                "contentChanges": [{ "range": range, "text": text }],
            });
            let body =
                json!({ "jsonrpc": "2.0", "method": "textDocument/didChange", "params": params });
            piece.extend(encode(&serde_json::to_vec(&body).expect("it is JSON")));
        }
        pieces.push(piece);
    }
    pieces
}

/// What one flood took: the server's CPU time, and the time on the clock.
struct Flood {
    cpu: Duration,
    wall: Duration,
    n_edits: usize,
}

/// The editor's side of a server that is flooded while an agent edits another document.
struct Flooded {
    peer: Peer,
    version: i64,
    other_version: i64,
}

impl Flooded {
    fn new(mut peer: Peer) -> Self {
        peer.initialize(true);
        peer.open(FLOOD, &driver::text(1_000_000));
        peer.open(OTHER, &driver::text(10_000));
        peer.request("abreast/openSession", &json!({ "sessionId": "s" }));
        peer.request(
            "abreast/read",
            &json!({ "sessionId": "s", "path": OTHER, "limit": 20 }),
        );
        Self {
            peer,
            version: 1,
            other_version: 1,
        }
    }

    fn run(&mut self) -> Flood {
        let pieces = keystrokes(&mut self.version);
        let other_version = &mut self.other_version;
        let cpu = self.peer.cpu();
        let start = Instant::now();
        let (input, output) = (&mut self.peer.input, &mut self.peer.output);
        let (sender, replies) = mpsc::channel::<Vec<u8>>();
        let n_edits = thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut n_edits = 0;
                loop {
                    let body = read(output).expect("the server answers");
                    let message: Value = serde_json::from_slice(&body).expect("it is JSON");
                    if message["method"] == "workspace/applyEdit" {
                        for reply in applied(&message, other_version) {
                            sender.send(reply).expect("the writer waits");
                        }
                    } else if message["id"] == "edit" {
                        assert!(message.get("error").is_none(), "{message}");
                        n_edits += 1;
                        // The next one may be sent.
                        sender.send(Vec::new()).expect("the writer waits");
                    } else if message["id"] == "end" {
                        return n_edits;
                    }
                }
            });
            let mut may_edit = true;
            let mut n_sent = 0;
            for piece in pieces {
                if may_edit {
                    input.write_all(&edit(n_sent)).expect("the server reads");
                    n_sent += 1;
                    may_edit = false;
                }
                input.write_all(&piece).expect("the server reads");
                for reply in replies.try_iter() {
                    may_edit |= reply.is_empty();
                    input.write_all(&reply).expect("the server reads");
                }
            }
            while !may_edit || n_sent % 2 == 1 {
                if may_edit {
                    input.write_all(&edit(n_sent)).expect("the server reads");
                    n_sent += 1;
                }
                let reply = replies.recv().expect("the edit is answered");
                may_edit = reply.is_empty();
                input.write_all(&reply).expect("the server reads");
            }
            let end = json!({ "jsonrpc": "2.0", "id": "end", "method": "abreast/sessions" });
            let end = serde_json::to_vec(&end).expect("it is JSON");
            input.write_all(&encode(&end)).expect("the server reads");
            reader.join().expect("the reader ends")
        });
        Flood {
            wall: start.elapsed(),
            cpu: self.peer.cpu().saturating_sub(cpu),
            n_edits,
        }
    }
}

/// The agent's `n`-th edit, and every other time what undoes it.
fn edit(n: usize) -> Vec<u8> {
    let (old, new) = &driver::edits_of(100, 1, n % 2 == 1)[0];
    let params = json!({ "sessionId": "s", "path": OTHER, "oldString": old, "newString": new });
    let message =
        json!({ "jsonrpc": "2.0", "id": "edit", "method": "abreast/edit", "params": params });
    encode(&serde_json::to_vec(&message).expect("it is JSON"))
}

/// The change that an edit makes in the editor, and the answer.
fn applied(message: &Value, version: &mut i64) -> [Vec<u8>; 2] {
    *version += 1;
    let edits = message["params"]["edit"]["documentChanges"][0]["edits"].as_array();
    let edits = edits.expect("edits are an array").iter().rev();
    let changes: Vec<Value> = edits
        .map(|it| json!({ "range": it["range"], "text": it["newText"] }))
        .collect();
    let params = json!({
        "textDocument": { "uri": OTHER, "version": *version }, "contentChanges": changes,
    });
    let change = json!({ "jsonrpc": "2.0", "method": "textDocument/didChange", "params": params });
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "applied": true } });
    [change, answer].map(|it| encode(&serde_json::to_vec(&it).expect("it is JSON")))
}

fn floods() -> Vec<Row> {
    let decoder = "didChange/s, beside framing loop that decodes them";
    let frames = "didChange/s, beside framing loop that does not";
    [
        flood(decoder, Peer::decoder()),
        flood(frames, Peer::frames()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a server takes for its keystrokes in CPU time, and on the clock, beside another.
fn flood(name: &str, peer: Peer) -> [Row; 2] {
    let mut abreast = Flooded::new(Peer::abreast());
    let mut peer = Flooded::new(peer);
    let (mut walls, mut n_edits) = ([Vec::new(), Vec::new()], 0);
    let [our_walls, their_walls] = &mut walls;
    let (value, baseline) = versus(
        FLOODS,
        |_| {
            let flood = abreast.run();
            our_walls.push(flood.wall);
            n_edits += flood.n_edits;
            flood.cpu
        },
        |_| {
            let flood = peer.run();
            their_walls.push(flood.wall);
            flood.cpu
        },
    );
    eprintln!("  ({n_edits} edits ran meanwhile)");
    let row = |how: &str, value: Duration, baseline: Duration, target: Target| Row {
        name: format!("{name}, {how}"),
        value: per_second(value),
        baseline: per_second(baseline),
        ratio: Some(baseline.as_secs_f64() / value.as_secs_f64()),
        target,
    };
    let [ours, theirs] = walls.map(low);
    [
        row("CPU", value, baseline, Target::AtLeast(0.5)),
        row("on the clock", ours, theirs, Target::None),
    ]
}

fn per_second(time: Duration) -> String {
    format!("{:.0}/s", STROKES as f64 / time.as_secs_f64())
}

/// From the start of a process to its answer to `initialize`.
fn started(peer: impl Fn() -> Peer) -> Duration {
    let start = Instant::now();
    let mut peer = peer();
    let params = json!({ "processId": null, "rootUri": null, "capabilities": {} });
    peer.request("initialize", &params);
    start.elapsed()
}

/// Installs the other server if need be; none: it cannot be had.
fn other_server() -> Option<PathBuf> {
    let program = Path::new(OTHER_SERVER).join("bin/tombi");
    if !program.exists() {
        let status = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
            .args([OTHER_SERVER, OTHER_PACKAGE])
            .status();
        eprintln!("  installing {OTHER_PACKAGE}: {status:?}");
    }
    program.exists().then_some(program)
}

fn start_up() -> Vec<Row> {
    let mut rows = Vec::new();
    let pair = versus(60, |_| started(Peer::abreast), |_| started(Peer::tower));
    rows.push(times(
        "start-up to initialized, beside tower-lsp echo",
        pair,
        Target::None,
    ));
    let name = "start-up to initialized, beside tombi lsp";
    if let Some(program) = other_server() {
        let other = || Peer::spawn(&program, &["lsp", "--offline"]);
        let pair = versus(30, |_| started(Peer::abreast), |_| started(other));
        rows.push(times(name, pair, Target::None));
    } else {
        rows.push(Row {
            name: name.to_string(),
            value: time(pair.0),
            baseline: "not installed".to_string(),
            ratio: None,
            target: Target::None,
        });
    }
    rows
}
