//! JSON-RPC on one side, events on the other. The only module that names `tower_lsp`.
//!
//! Invariant: every message enters the one inbox in the order in which it came over the wire, answers of the editor
//! included, and takes effect before the next is looked at. An answer of ours may come much later; waiting for it holds
//! no place that a keystroke needs.
//!
//! Of tower-lsp the message and protocol types are used, not its service and its read loop: a wrapper around them would
//! have to do all that they do (lifecycle, cancel table, duplicate ids, waiters at the end of input), and a reader that
//! survives malformed frames would have to stand before them anyway.

pub mod frames;
pub mod message;
pub mod stdio;

mod decode;
mod lifecycle;

use std::{io, ops::ControlFlow, sync::Arc, time::Duration};

use tokio::{sync::mpsc, time};

use crate::{
    disk::RealDisk,
    engine::{Engine, Finished},
};
use frames::Frame;
use lifecycle::Connection;

/// Longest message, in bytes: a document of 1 GiB would need more, and no editor syncs one.
const MESSAGE_BYTES: usize = 512 << 20;
/// Exit status when the input ends: an editor that dies is no failure of ours.
const STATUS_AT_END: u8 = 0;
/// How long the end of the process waits for the last answers to be taken.
const FLUSH: Duration = Duration::from_millis(500);
/// How long the end of the process waits for what is being staged to be removed.
const SETTLE: Duration = Duration::from_millis(400);
/// How long the end of the process waits for a commit under way to be made or taken back. A disk that hangs for longer is
/// left to whoever comes next and finds the journal.
const COMMIT: Duration = Duration::from_secs(10);

/// Everything that comes in.
enum Input {
    Frame(Frame),
    Done(Box<Finished>),
    /// The watcher has something to tell.
    Hint,
    End,
}

/// Serves an editor on standard input and output until it ends; returns the exit status of the process.
///
/// # Errors
///
/// If the runtime cannot be started.
pub fn serve() -> io::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let status = runtime.block_on(run());
    runtime.shutdown_timeout(SETTLE);
    Ok(status)
}

async fn run() -> u8 {
    let (sender, mut inbox) = mpsc::unbounded_channel();
    let (outbox, writer) = stdio::spawn_writer(stdio::stdout());
    let frames = sender.clone();
    let reader = tokio::spawn(async move {
        let on_frame = |frame| match frames.send(Input::Frame(frame)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        if let Err(err) = stdio::read_loop(stdio::stdin(), MESSAGE_BYTES, on_frame).await {
            tracing::warn!("reading from the editor failed: {err}");
        }
        // The other end is gone only when the process ends.
        let _ = frames.send(Input::End);
    });
    let done = sender.clone();
    let post = move |finished| {
        // The other end is gone only when the process ends.
        let _ = done.send(Input::Done(Box::new(finished)));
    };
    let hints = sender.clone();
    let wake = move || {
        // The other end is gone only when the process ends.
        let _ = hints.send(Input::Hint);
    };
    let engine = Engine::new(Arc::new(RealDisk::new()), post);
    let mut connection = Connection::new(engine, outbox, wake);
    let status = loop {
        // What has come already needs no timer.
        let input = if let Ok(input) = inbox.try_recv() {
            Some(input)
        } else if let Some(sleep) = connection.sleep() {
            let Ok(input) = time::timeout(sleep, inbox.recv()).await else {
                connection.tick();
                continue;
            };
            input
        } else {
            inbox.recv().await
        };
        let ended = match input {
            Some(Input::Frame(frame)) => connection.frame(frame),
            Some(Input::Done(finished)) => {
                connection.finished(*finished);
                None
            }
            Some(Input::Hint) => {
                connection.hinted();
                None
            }
            Some(Input::End) | None => {
                // Who says goodbye by `exit` may go on with its buffers; who just ends has lost them.
                connection.ended();
                Some(STATUS_AT_END)
            }
        };
        if let Some(status) = ended {
            break status;
        }
        // Messages may come faster than the clock is looked at.
        connection.tick();
    };
    reader.abort();
    let until = time::Instant::now() + COMMIT;
    while connection.is_committing() {
        match time::timeout_at(until, inbox.recv()).await {
            Ok(Some(Input::Done(finished))) => connection.finished(*finished),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                tracing::warn!("a change of files is left half done");
                break;
            }
        }
    }
    connection.close();
    if time::timeout(FLUSH, writer).await.is_err() {
        tracing::warn!("the editor did not take the last answers");
    }
    status
}
