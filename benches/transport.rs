//! Throughput of the transport: `cargo bench --bench transport`. Compare rows of one run only.

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::{
    hint::black_box,
    io::Write,
    ops::ControlFlow,
    thread,
    time::{Duration, Instant},
};

use abreast::server::{
    frames::{Frame, FrameReader, encode, repair_surrogates},
    message::Message,
    stdio::{read_loop, spawn_writer},
};

const PIECE_BYTES: usize = 64 * 1024;
const MAX_BYTES: usize = 256 * 1024 * 1024;
const N_KEYSTROKES: usize = 200_000;

/// A didChange of one character, 246 bytes.
fn keystroke() -> Vec<u8> {
    let body = br#"{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///work/project/src/server/frames.rs","version":12},"contentChanges":[{"range":{"start":{"line":1,"character":2},"end":{"line":1,"character":2}},"text":"x"}]}}"#;
    body.to_vec()
}

/// A didOpen of source text with line ends and quotes to escape.
fn large() -> Vec<u8> {
    let line = r#"    let name = \"value\"; // {}\n"#;
    let text = line.repeat(50_000_000 / line.len());
    format!(r#"{{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{{"text":"{text}"}}}}"#)
        .into_bytes()
}

/// The shortest of five runs.
fn shortest(mut run: impl FnMut()) -> Duration {
    let times = (0..5).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

fn report(name: &str, n_bytes: usize, n_frames: usize, time: Duration) {
    let seconds = time.as_secs_f64();
    println!(
        "{name:55} {:9.0} MB/s {:11.0} frames/s {:8.2} ms",
        n_bytes as f64 / seconds / 1e6,
        n_frames as f64 / seconds,
        seconds * 1e3,
    );
}

fn read(stream: &[u8], mut on_frame: impl FnMut(Frame)) -> usize {
    let mut n_frames = 0;
    let mut reader = FrameReader::new(MAX_BYTES);
    for piece in stream.chunks(PIECE_BYTES) {
        reader.push(piece);
        for frame in &mut reader {
            n_frames += 1;
            on_frame(frame);
        }
    }
    n_frames
}

fn parse(frame: Frame) {
    let Frame::Message(body) = frame else {
        panic!("{frame:?}");
    };
    assert!(repair_surrogates(&body).is_none());
    black_box(Message::parse(&body).is_ok());
}

fn main() {
    let keystrokes = encode(&keystroke()).repeat(N_KEYSTROKES);
    let large = encode(&large());
    let absurd = [&b"Content-Length: 5000000000\r\n\r\n"[..], &large].concat();
    for (name, stream) in [
        ("keystrokes", &keystrokes),
        ("one body of 50 MB", &large),
        ("the same behind a header of 5 GB", &absurd),
        (
            "headers only",
            &b"Content-Length: 60000\n\n".repeat(400_000),
        ),
        (
            "headers only, over the limit",
            &b"Content-Length: 600000000\n\n".repeat(400_000),
        ),
        (
            "bodies of one wrong byte",
            &b"Content-Length: 1\n\nx".repeat(400_000),
        ),
        ("line ends", &b"\n".repeat(10_000_000)),
        (
            "a body of line ends",
            &[
                &b"Content-Length: 100000000\n\n"[..],
                &b"1\n".repeat(5_000_000),
            ]
            .concat(),
        ),
        ("garbage", &b"Content-Length: x1\n".repeat(500_000)),
    ] {
        let mut n_frames = 0;
        let time = shortest(|| n_frames = read(stream, |frame| drop(black_box(frame))));
        report(&format!("read: {name}"), stream.len(), n_frames, time);
    }
    for (name, stream) in [("keystrokes", &keystrokes), ("one body of 50 MB", &large)] {
        let mut n_frames = 0;
        let time = shortest(|| n_frames = read(stream, parse));
        report(
            &format!("read, repair, parse: {name}"),
            stream.len(),
            n_frames,
            time,
        );
    }
    let time = shortest(|| echo(&keystrokes));
    report(
        "pipe, read, parse, write, pipe: keystrokes",
        keystrokes.len(),
        N_KEYSTROKES,
        time,
    );
    round_trips();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built")
}

/// Serves what comes through a pipe and answers each message with itself.
fn serve(input: std::io::PipeReader, output: std::io::PipeWriter) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        runtime().block_on(async {
            let input = tokio::net::unix::pipe::Receiver::from_owned_fd(input.into());
            let output = tokio::net::unix::pipe::Sender::from_owned_fd(output.into());
            let (outbox, writer) = spawn_writer(output.expect("a pipe"));
            read_loop(input.expect("a pipe"), MAX_BYTES, |frame| {
                if let Frame::Message(body) = &frame {
                    outbox.send(body);
                }
                parse(frame);
                ControlFlow::Continue(())
            })
            .await
            .expect("the pipe is readable");
            outbox.close();
            writer
                .await
                .expect("the task ends")
                .expect("the pipe is writable");
        });
    })
}

fn echo(stream: &[u8]) {
    let (input, mut to_server) = std::io::pipe().expect("a pipe can be made");
    let (mut from_server, output) = std::io::pipe().expect("a pipe can be made");
    let server = serve(input, output);
    thread::scope(|scope| {
        scope.spawn(move || to_server.write_all(stream).expect("the server reads"));
        let n_bytes = std::io::copy(&mut from_server, &mut std::io::sink());
        assert_eq!(n_bytes.expect("the server writes"), stream.len() as u64);
    });
    server.join().expect("the server ends");
}

fn round_trips() {
    let (input, mut to_server) = std::io::pipe().expect("a pipe can be made");
    let (mut from_server, output) = std::io::pipe().expect("a pipe can be made");
    let server = serve(input, output);
    let frame = encode(&keystroke());
    let mut answer = vec![0; frame.len()];
    let mut times: Vec<_> = (0..10_000)
        .map(|_| {
            let start = Instant::now();
            to_server.write_all(&frame).expect("the server reads");
            std::io::Read::read_exact(&mut from_server, &mut answer).expect("the server writes");
            start.elapsed()
        })
        .collect();
    drop(to_server);
    server.join().expect("the server ends");
    times.sort();
    println!(
        "round trip through pipes: min {:?}, median {:?}",
        times[0],
        times[times.len() / 2]
    );
}
