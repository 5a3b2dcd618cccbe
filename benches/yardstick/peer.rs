//! Server processes: the sidecar, and what it is compared with. Those that are not installed are this very program.

use std::{
    env, fs,
    hint::black_box,
    io::{self, BufRead, BufReader, Write},
    ops::ControlFlow,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio},
    time::Duration,
};

use abreast::server::{
    frames::{Frame, encode},
    message::Message,
    stdio,
};
use serde_json::{Value, json, value::RawValue};
use tower_lsp::{
    LanguageServer, LspService, Server, jsonrpc,
    ls_types::{DidChangeTextDocumentParams, InitializeParams, InitializeResult},
};

const MAX_BYTES: usize = 512 << 20;

/// A server process and its streams.
pub(crate) struct Peer {
    child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Peer {
    pub(crate) fn abreast() -> Self {
        Self::spawn(env!("CARGO_BIN_EXE_abreast"), &[])
    }

    /// A server of tower-lsp that answers `echo` with its parameters.
    pub(crate) fn tower() -> Self {
        Self::spawn(this(), &["tower"])
    }

    /// A loop that cuts frames, parses messages, and answers every request with its parameters.
    pub(crate) fn frames() -> Self {
        Self::spawn(this(), &["frames"])
    }

    /// The same, which also decodes what changes say, as a server has to that wants to know it.
    pub(crate) fn decoder() -> Self {
        Self::spawn(this(), &["decoder"])
    }

    pub(crate) fn spawn(program: impl AsRef<Path>, arguments: &[&str]) -> Self {
        let mut child = Command::new(program.as_ref())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server can be started");
        let input = child.stdin.take().expect("it is a pipe");
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Self {
            child,
            input,
            output,
            last_id: 0,
        }
    }

    /// Shakes hands as an editor that only syncs, or (`is_strict`) as one with the plugin.
    pub(crate) fn initialize(&mut self, is_strict: bool) {
        let abreast = json!({ "version": 1, "strictApplyEdit": true, "sync": false });
        let experimental = if is_strict {
            json!({ "abreast": abreast })
        } else {
            Value::Null
        };
        let capabilities =
            json!({ "workspace": { "applyEdit": is_strict }, "experimental": experimental });
        let params = json!({ "processId": null, "rootUri": null, "capabilities": capabilities });
        self.request("initialize", &params);
        self.notify("initialized", &json!({}));
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let body = serde_json::to_vec(message).expect("it is JSON");
        self.input
            .write_all(&encode(&body))
            .expect("the server reads");
    }

    /// Opens a document.
    pub(crate) fn open(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "rust", "version": 1, "text": text });
        self.notify("textDocument/didOpen", &json!({ "textDocument": document }));
    }

    /// Asks, and waits for the answer.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let body = read(&mut self.output).expect("the server answers");
            let message: Value = serde_json::from_slice(&body).expect("the server writes JSON");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The CPU time of all its threads.
    pub(crate) fn cpu(&self) -> Duration {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = fs::read_dir(tasks).expect("this is Linux");
        let nanos = tasks.filter_map(|task| {
            let stat = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            stat.split(' ').next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanos.sum())
    }

    /// A size in bytes of `/proc/…/status`: `VmRSS`, or `VmHWM` for the most there ever was.
    pub(crate) fn memory(&self, name: &str) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("this is Linux");
        let line = status.lines().find(|it| it.starts_with(name));
        let kib = line.and_then(|it| it.split_whitespace().nth(1)?.parse::<usize>().ok());
        kib.expect("the size is told in KiB") * 1024
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn this() -> std::path::PathBuf {
    env::current_exe().expect("the program has a path")
}

/// Reads the body of one frame.
pub(crate) fn read(output: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut n_bytes = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(": ") {
            Some(("Content-Length", length)) => {
                n_bytes = length.parse().map_err(io::Error::other)?;
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; n_bytes];
    output.read_exact(&mut body)?;
    Ok(body)
}

/// Is a server, if this program was started as one.
pub(crate) fn serve() -> Option<ExitCode> {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built")
    };
    match env::args().nth(1).as_deref() {
        Some("tower") => runtime().block_on(serve_tower()),
        Some("frames") => runtime().block_on(serve_frames(false)),
        Some("decoder") => runtime().block_on(serve_frames(true)),
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}

struct Echo;

impl LanguageServer for Echo {
    async fn initialize(&self, _: InitializeParams) -> jsonrpc::Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> jsonrpc::Result<()> {
        Ok(())
    }
}

impl Echo {
    #[allow(clippy::unused_async)] // tower-lsp wants it so
    async fn echo(&self, params: Value) -> jsonrpc::Result<Value> {
        Ok(params)
    }
}

async fn serve_tower() {
    let (service, socket) = LspService::build(|_| Echo)
        .custom_method("echo", Echo::echo)
        .finish();
    Server::new(tokio::io::stdin(), tokio::io::stdout(), socket)
        .serve(service)
        .await;
}

async fn serve_frames(decodes: bool) {
    let (outbox, writer) = stdio::spawn_writer(stdio::stdout());
    let answer = |frame| {
        let Frame::Message(body) = frame else {
            panic!("{frame:?}");
        };
        match Message::parse(&body) {
            Ok(Message::Request { id, params, .. }) => {
                let params = params.map_or("null", RawValue::get);
                let id = json!(id);
                let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{params}}}"#);
                outbox.send(answer.as_bytes());
            }
            Ok(Message::Notification { method, params }) => {
                if decodes && method == "textDocument/didChange" {
                    let params = params.map_or("null", RawValue::get);
                    let decoded = serde_json::from_str::<DidChangeTextDocumentParams>(params);
                    black_box(decoded).expect("it is a change");
                }
            }
            message => panic!("{message:?}"),
        }
        ControlFlow::Continue(())
    };
    let read = stdio::read_loop(stdio::stdin(), MAX_BYTES, answer).await;
    read.expect("the pipe is readable");
    outbox.close();
    let _ = writer.await;
}
