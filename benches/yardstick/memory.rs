//! What the process keeps in memory.

use std::fs;

use serde_json::json;

use crate::{
    driver::text,
    peer::Peer,
    table::{Row, Target},
};

const TEXT_BYTES: usize = 100_000_000;
const N_SESSIONS: usize = 2_000;
const N_FILES: usize = 500;
const N_READERS: usize = 10;

/// All rows of this module.
pub(crate) fn rows() -> Vec<Row> {
    eprintln!("  a document of 100 MB");
    let mut rows = document();
    eprintln!("  sessions and ledger entries");
    rows.extend(sessions());
    rows
}

fn document() -> Vec<Row> {
    let mut peer = Peer::abreast();
    peer.initialize(false);
    peer.request("abreast/openSession", &json!({ "sessionId": "s" }));
    let before = peer.memory("VmRSS");
    let text = text(TEXT_BYTES);
    peer.open("untitled:1", &text);
    peer.request("abreast/sessions", &json!({}));
    let peak = peer.memory("VmHWM");
    let read = json!({ "sessionId": "s", "path": "untitled:1" });
    assert!(peer.request("abreast/read", &read).get("result").is_some());
    let range =
        json!({ "start": { "line": 5, "character": 0 }, "end": { "line": 5, "character": 0 } });
    for version in 2..1000 {
        let params = json!({
            "textDocument": { "uri": "untitled:1", "version": version },
            "contentChanges": [{ "range": range, "text": "typed" }],
        });
        peer.notify("textDocument/didChange", &params);
    }
    peer.request("abreast/read", &read);
    let steady = peer.memory("VmRSS");
    let row = |name: &str, value: usize, most: f64| Row {
        name: name.to_string(),
        value: megabytes(value),
        baseline: megabytes(text.len()),
        ratio: Some(value as f64 / text.len() as f64),
        target: Target::AtMost(most),
    };
    vec![
        row(
            "memory, peak of opening 100 MB, beside the text",
            peak - before,
            4.5,
        ),
        row(
            "memory, steady with 100 MB read and typed in",
            steady - before,
            1.5,
        ),
    ]
}

fn sessions() -> Vec<Row> {
    let mut peer = Peer::abreast();
    peer.initialize(false);
    peer.request("abreast/sessions", &json!({}));
    let before = peer.memory("VmRSS");
    for n in 0..N_SESSIONS {
        let params = json!({ "sessionId": format!("session-{n}"), "label": "an agent" });
        peer.request("abreast/openSession", &params);
    }
    let opened = peer.memory("VmRSS");
    let directory = tempfile::tempdir().expect("a directory can be made");
    for n in 0..N_FILES {
        let path = directory.path().join(format!("file-{n}.txt"));
        fs::write(path, format!("file {n}\n")).expect("it can be written");
    }
    for reader in 0..N_READERS {
        for n in 0..N_FILES {
            let path = directory.path().join(format!("file-{n}.txt"));
            let params = json!({ "sessionId": format!("session-{reader}"), "path": path });
            let answer = peer.request("abreast/read", &params);
            assert!(answer.get("result").is_some(), "{answer}");
        }
    }
    let read = peer.memory("VmRSS");
    let row = |name: &str, bytes: usize| Row {
        name: name.to_string(),
        value: format!("{bytes} B"),
        baseline: String::new(),
        ratio: None,
        target: Target::None,
    };
    vec![
        row("memory per session", (opened - before) / N_SESSIONS),
        row(
            "memory per ledger entry (its text is not counted)",
            (read - opened) / (N_FILES * N_READERS),
        ),
    ]
}

fn megabytes(bytes: usize) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
