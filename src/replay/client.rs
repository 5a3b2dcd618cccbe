//! A JSON-RPC client of a language server that runs as a process of its own.
//!
//! Invariant: sending never waits for the server, and messages reach it in the order in which they were sent; so
//! whoever holds a lock while sending fixes the order of the wire. Every wait has a deadline. The client ends only
//! the process that it started, by its handle. It knows frames and JSON-RPC, and nothing of documents.

use std::{
    collections::{HashMap, VecDeque},
    ffi::OsString,
    fmt,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::frames::{frame, read_frame, write_frames};

/// What is kept of the server's stderr, to be shown beside a failure.
const STDERR_BYTES_MAX: usize = 16 * 1024;
/// How long the end of an ended server's stderr is waited for; a child of the server may hold it open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Environment variables beside the inherited ones.
    pub environment: Vec<(OsString, OsString)>,
}

impl ServerCommand {
    /// Returns the command for a program that serves on stdin and stdout when called with `serve --stdio`.
    pub fn serve(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: vec!["serve".into(), "--stdio".into()],
            environment: Vec::new(),
        }
    }

    /// Returns the command that serves with the running executable itself.
    pub fn current_exe() -> io::Result<Self> {
        std::env::current_exe().map(Self::serve)
    }

    /// Parses a command line as a shell would, without expanding anything; nothing if it is empty or ends in a quote.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = shlex::split(line)?.into_iter();
        Some(Self {
            program: words.next()?.into(),
            arguments: words.map(Into::into).collect(),
            environment: Vec::new(),
        })
    }
}

impl fmt::Display for ServerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.arguments
            .iter()
            .try_for_each(|it| write!(f, " {}", it.to_string_lossy()))
    }
}

/// A request that the server has answered with an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The JSON-RPC code, for instance -32803.
    pub rpc_code: i64,
    /// The message for people and models.
    pub message: String,
    /// The structured part, or null.
    pub data: Value,
}

/// A call that did not bring a result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The server refused it.
    #[error("{}: {}", self.code(), .0.message)]
    Refused(Refusal),
    /// The server did not answer in time.
    #[error("no answer to {method} within {within:?}")]
    TimedOut {
        /// The method called.
        method: String,
        /// How long the client waited.
        within: Duration,
    },
    /// The connection ended before the answer.
    #[error("no answer to {method}: {why}")]
    Closed {
        /// The method called.
        method: String,
        /// How the connection ended.
        why: String,
    },
}

impl CallError {
    /// Returns `data.code` of a refusal, else its JSON-RPC code; `TIMED_OUT` and `CLOSED` where there is no answer.
    pub fn code(&self) -> String {
        match self {
            Self::Refused(refusal) => match refusal.data["code"].as_str() {
                Some(code) => code.to_string(),
                None => refusal.rpc_code.to_string(),
            },
            Self::TimedOut { .. } => "TIMED_OUT".to_string(),
            Self::Closed { .. } => "CLOSED".to_string(),
        }
    }

    /// Returns the refusal, if the server has answered at all.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            Self::TimedOut { .. } | Self::Closed { .. } => None,
        }
    }

    /// Returns the message of a refusal, else what happened.
    pub fn message(&self) -> String {
        match self {
            Self::Refused(refusal) => refusal.message.clone(),
            Self::TimedOut { .. } | Self::Closed { .. } => self.to_string(),
        }
    }

    /// Returns the data of a refusal, else null.
    pub fn data(&self) -> &Value {
        self.refusal().map_or(&Value::Null, |it| &it.data)
    }
}

/// A notification from the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// A request from the server, to be answered through the connection.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRequest {
    /// The id that the answer carries.
    pub id: Value,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// A server process and the connection to it; dropping it ends the process.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    child: Child,
}

impl Client {
    /// Starts a server in `directory`; `on_request` sees its requests in wire order, on the reader thread.
    pub fn start(
        command: &ServerCommand,
        directory: &Path,
        on_request: impl FnMut(&Connection, ServerRequest) + Send + 'static,
    ) -> io::Result<Self> {
        let mut child = std::process::Command::new(&command.program)
            .args(&command.arguments)
            .envs(
                command
                    .environment
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three streams are piped");
        };
        let (outgoing, to_write) = mpsc::channel();
        let connection = Connection {
            shared: Arc::new(Shared {
                outgoing: Mutex::new(Some(outgoing)),
                inbound: Mutex::default(),
                arrived: Condvar::new(),
            }),
        };
        thread::spawn(move || write_frames(stdin, &to_write));
        let reading = connection.clone();
        thread::spawn(move || reading.read_to_end(BufReader::new(stdout), on_request));
        let complaining = connection.clone();
        thread::spawn(move || complaining.keep_stderr(stderr));
        Ok(Self { connection, child })
    }

    /// Returns a handle to send and wait with.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the id of the server process.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process has ended by itself; nothing if it still runs at the deadline.
    pub fn wait_for_end(&mut self, within: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + within;
        self.connection.wait_closed(within);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            // The output has ended, so the process is about to; there is no portable wait with a deadline.
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the server as LSP says (`shutdown`, `exit`) and returns its exit status; nothing if it does not end.
    pub fn shut_down(&mut self, within: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + within;
        // Whether the answer comes or not, the process must end; its status tells.
        let _ = self.connection.call("shutdown", Value::Null, within);
        self.connection.notify("exit", Value::Null);
        self.wait_for_end(deadline.saturating_duration_since(Instant::now()))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.close_input();
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A handle to a server, cheap to clone.
#[derive(Clone, Debug)]
pub struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Nothing once the input is closed. Locked for the push only.
    outgoing: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    inbound: Mutex<Inbound>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Inbound {
    last_id: i64,
    waiting: HashMap<i64, mpsc::Sender<Result<Value, Refusal>>>,
    notifications: VecDeque<Notification>,
    unmatched: VecDeque<Value>,
    closed: Option<String>,
    has_stderr_ended: bool,
    violation: Option<String>,
    stderr: Vec<u8>,
}

impl Connection {
    /// Sends a request; the answer is waited for by the value returned.
    pub fn request(&self, method: &str, params: Value) -> Pending {
        let (answer, receiver) = mpsc::channel();
        let id = {
            let mut inbound = self.inbound();
            inbound.last_id += 1;
            let id = inbound.last_id;
            if inbound.closed.is_none() {
                inbound.waiting.insert(id, answer);
            }
            id
        };
        self.send(&message(method, params, Some(id.into())));
        Pending {
            id,
            method: method.to_string(),
            receiver,
            connection: self.clone(),
        }
    }

    /// Sends a request and waits for its answer.
    pub fn call(&self, method: &str, params: Value, within: Duration) -> Result<Value, CallError> {
        self.request(method, params).wait(within)
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&message(method, params, None));
    }

    /// Answers a request of the server with a result, or with an error object.
    pub fn answer(&self, id: Value, result: Result<Value, Value>) {
        let (member, value) = match result {
            Ok(value) => ("result", value),
            Err(value) => ("error", value),
        };
        let mut answer = serde_json::Map::new();
        answer.insert("jsonrpc".to_string(), "2.0".into());
        answer.insert("id".to_string(), id);
        answer.insert(member.to_string(), value);
        self.send(&Value::Object(answer));
    }

    /// Sends a message as it is.
    pub fn send(&self, message: &Value) {
        self.send_bytes(frame(message.to_string().as_bytes()));
    }

    /// Sends bytes as they are, for tests of the frame reader.
    pub fn send_bytes(&self, bytes: Vec<u8>) {
        let outgoing = self
            .shared
            .outgoing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(outgoing) = &*outgoing {
            // The writer has ended only if the server closed its input; then the answer is `Closed`.
            let _ = outgoing.send(bytes);
        }
    }

    /// Ends the server's input once everything sent so far has been written.
    pub fn close_input(&self) {
        *self
            .shared
            .outgoing
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Takes the first notification that `is_wanted` accepts, and waits for it if need be.
    pub fn wait_for_notification(
        &self,
        within: Duration,
        mut is_wanted: impl FnMut(&Notification) -> bool,
    ) -> Option<Notification> {
        self.wait_until(within, |inbound| {
            let at = inbound.notifications.iter().position(&mut is_wanted)?;
            inbound.notifications.remove(at)
        })
    }

    /// Takes the first answer that belongs to no request of this client, as `id: null` does.
    pub fn wait_for_unmatched(&self, within: Duration) -> Option<Value> {
        self.wait_until(within, |inbound| inbound.unmatched.pop_front())
    }

    /// Takes all notifications that have arrived so far.
    pub fn take_notifications(&self) -> Vec<Notification> {
        self.inbound().notifications.drain(..).collect()
    }

    /// Waits until the server has closed its output; false at the deadline.
    pub fn wait_closed(&self, within: Duration) -> bool {
        self.wait_until(within, |inbound| inbound.closed.is_some().then_some(()))
            .is_some()
    }

    /// Returns what the server wrote to its stdout that is not a frame, or an answer to nothing.
    pub fn violation(&self) -> Option<String> {
        self.inbound().violation.clone()
    }

    /// Returns the end of what the server wrote to its stderr; all of it, if the server has ended.
    pub fn stderr(&self) -> String {
        if self.inbound().closed.is_some() {
            // It ends at the same time, but is read by another thread.
            self.wait_until(LAST_WORDS, |inbound| inbound.has_stderr_ended.then_some(()));
        }
        String::from_utf8_lossy(&self.inbound().stderr).into_owned()
    }

    fn inbound(&self) -> MutexGuard<'_, Inbound> {
        self.shared
            .inbound
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_until<T>(
        &self,
        within: Duration,
        mut poll: impl FnMut(&mut Inbound) -> Option<T>,
    ) -> Option<T> {
        let deadline = Instant::now() + within;
        let mut inbound = self.inbound();
        loop {
            if let Some(found) = poll(&mut inbound) {
                return Some(found);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            inbound = self
                .shared
                .arrived
                .wait_timeout(inbound, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn read_to_end(
        &self,
        mut stdout: impl BufRead,
        mut on_request: impl FnMut(&Self, ServerRequest),
    ) {
        let why = loop {
            match read_frame(&mut stdout) {
                Ok(Some(message)) => self.sort_in(message, &mut on_request),
                Ok(None) => break "the server ended its output".to_string(),
                Err(violation) => {
                    self.inbound()
                        .violation
                        .get_or_insert_with(|| violation.clone());
                    break violation;
                }
            }
        };
        let mut inbound = self.inbound();
        inbound.closed = Some(why);
        inbound.waiting.clear();
        self.shared.arrived.notify_all();
    }

    fn sort_in(&self, mut message: Value, on_request: &mut impl FnMut(&Self, ServerRequest)) {
        let params = message["params"].take();
        let method = message["method"].as_str().map(str::to_string);
        let id = message["id"].take();
        match (method, id) {
            (Some(method), Value::Null) => {
                self.inbound()
                    .notifications
                    .push_back(Notification { method, params });
            }
            (Some(method), id) => on_request(self, ServerRequest { id, method, params }),
            (None, id) => {
                let mut inbound = self.inbound();
                let waiting = id.as_i64().and_then(|id| inbound.waiting.remove(&id));
                if let Some(waiting) = waiting {
                    // Nobody listens if the caller has given up waiting.
                    let _ = waiting.send(result_of(message));
                } else {
                    message["id"] = id;
                    inbound.unmatched.push_back(message);
                }
            }
        }
        self.shared.arrived.notify_all();
    }

    fn keep_stderr(&self, mut stderr: ChildStderr) {
        let mut block = [0; 4096];
        while let Ok(n_bytes @ 1..) = stderr.read(&mut block) {
            let kept = &mut self.inbound().stderr;
            kept.extend_from_slice(&block[..n_bytes]);
            let n_surplus = kept.len().saturating_sub(STDERR_BYTES_MAX);
            kept.drain(..n_surplus);
        }
        self.inbound().has_stderr_ended = true;
        self.shared.arrived.notify_all();
    }
}

/// A request that has been sent.
#[derive(Debug)]
pub struct Pending {
    id: i64,
    method: String,
    receiver: mpsc::Receiver<Result<Value, Refusal>>,
    connection: Connection,
}

impl Pending {
    /// Waits for the answer.
    pub fn wait(self, within: Duration) -> Result<Value, CallError> {
        match self.receiver.recv_timeout(within) {
            Ok(answer) => answer.map_err(CallError::Refused),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(CallError::TimedOut {
                method: self.method,
                within,
            }),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let why = self.connection.inbound().closed.clone();
                Err(CallError::Closed {
                    method: self.method,
                    why: why.unwrap_or_else(|| "the connection is closed".to_string()),
                })
            }
        }
    }

    /// Returns the answer if it is there already.
    pub fn poll(&self) -> Option<Result<Value, Refusal>> {
        self.receiver.try_recv().ok()
    }

    /// Asks the server to give the request up; the answer is still to be waited for.
    pub fn cancel(&self) {
        self.connection
            .notify("$/cancelRequest", json!({ "id": self.id }));
    }
}

fn message(method: &str, params: Value, id: Option<Value>) -> Value {
    let mut message = serde_json::Map::new();
    message.insert("jsonrpc".to_string(), "2.0".into());
    if let Some(id) = id {
        message.insert("id".to_string(), id);
    }
    message.insert("method".to_string(), method.into());
    if !params.is_null() {
        message.insert("params".to_string(), params);
    }
    Value::Object(message)
}

fn result_of(mut answer: Value) -> Result<Value, Refusal> {
    let mut error = answer["error"].take();
    if error.is_null() {
        return Ok(answer["result"].take());
    }
    Err(Refusal {
        rpc_code: error["code"].as_i64().unwrap_or_default(),
        message: error["message"].as_str().unwrap_or_default().to_string(),
        data: error["data"].take(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_keeps_its_quoted_words_together() {
        let command = ServerCommand::parse("node 'my server.js' --stdio").expect("well quoted");
        assert_eq!(command.program, PathBuf::from("node"));
        assert_eq!(command.arguments, ["my server.js", "--stdio"]);
        assert!(ServerCommand::parse("'").is_none());
        assert!(ServerCommand::parse("  ").is_none());
    }

    #[test]
    fn a_refusal_is_known_by_its_own_code_and_else_by_that_of_json_rpc() {
        let refused = |data| {
            CallError::Refused(Refusal {
                rpc_code: -32602,
                message: "bad".to_string(),
                data,
            })
            .code()
        };
        assert_eq!(refused(json!({ "code": "FS_NOT_TEXT" })), "FS_NOT_TEXT");
        assert_eq!(refused(Value::Null), "-32602");
    }
}
