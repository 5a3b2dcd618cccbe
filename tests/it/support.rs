//! A world to test in: a directory with files, a server process, and an editor.

use std::{
    fmt::Debug,
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use abreast::replay::{
    client::{CallError, Client, Connection, Pending, ServerCommand, ServerRequest},
    editor::{Editor, Options, uri_of},
    frames::frame,
    session::Session,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the server under test.
pub fn server() -> ServerCommand {
    match std::env::var("ABREAST_TEST_SERVER") {
        Ok(line) => ServerCommand::parse(&line).expect("ABREAST_TEST_SERVER is a command line"),
        Err(_) => ServerCommand::serve(env!("CARGO_BIN_EXE_abreast")),
    }
}

/// How long an answer is waited for.
pub const PATIENCE: Duration = Duration::from_secs(60);

fn scale() -> f64 {
    std::env::var("ABREAST_TEST_SCALE")
        .ok()
        .and_then(|it| it.parse().ok())
        .unwrap_or(1.0)
}

/// Scales a duration by `ABREAST_TEST_SCALE`.
pub fn scaled_time(duration: Duration) -> Duration {
    duration.mul_f64(scale())
}

/// Scales a number of rounds by `ABREAST_TEST_SCALE`; at least one is left.
pub fn scaled(n_rounds: usize) -> usize {
    let scale = scale();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    let n_scaled = (n_rounds as f64 * scale) as usize;
    n_scaled.max(1)
}

/// Files, a server and an editor; dropping it checks that nothing was left over.
pub struct World {
    pub editor: Editor,
    root: PathBuf,
    _directory: TempDir,
}

impl World {
    /// A strict editor with everything that it can have.
    pub fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, |_| {})
    }

    /// An editor of another kind.
    pub fn with(files: &[(&str, &str)], adjust: impl FnOnce(&mut Options)) -> Self {
        let (directory, root) = directory();
        for (path, text) in files {
            write(&root.join(path), text);
        }
        let mut options = Options::new(server(), &root);
        adjust(&mut options);
        let editor = Editor::start(&options).unwrap();
        Self {
            editor,
            root,
            _directory: directory,
        }
    }

    /// An editor without `abreast/sync`, in which a call takes effect where it stands in the order of the messages.
    pub fn without_sync(files: &[(&str, &str)]) -> Self {
        Self::with(files, |options| options.character.has_sync = false)
    }

    /// An editor that cannot refuse stale edits, like any that knows nothing of us.
    pub fn stock(files: &[(&str, &str)], adjust: impl FnOnce(&mut Options)) -> Self {
        Self::with(files, |options| {
            options.announces_strict = false;
            options.character.is_strict = false;
            options.character.has_sync = false;
            options.character.has_save = false;
            adjust(options);
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn session(&self, id: &str) -> Session {
        self.editor.session(id).unwrap()
    }

    /// Opens a session that has read some files.
    pub fn session_that_read(&self, id: &str, paths: &[&str]) -> Session {
        let session = self.session(id);
        for path in paths {
            session.read(path).unwrap();
        }
        session
    }

    /// Replaces a file's content as another program would, without telling anyone.
    pub fn write_disk(&self, path: &str, text: &str) {
        write(&self.root.join(path), text);
    }

    #[track_caller]
    pub fn check_disk(&self, path: &str, expected: &str) {
        assert_eq!(
            fs::read_to_string(self.root.join(path)).unwrap(),
            expected,
            "on the disk: {path}"
        );
    }

    #[track_caller]
    pub fn check_buffer(&self, path: &str, expected: &str) {
        assert_eq!(
            self.editor.text(path).as_deref(),
            Some(expected),
            "in the editor: {path}"
        );
    }

    /// The names in the root directory.
    pub fn listing(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.root)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            eprint_stderr(&self.editor);
            return;
        }
        assert_eq!(
            self.editor.connection().violation(),
            None,
            "the server's stdout has more than frames"
        );
        assert_eq!(
            self.editor.n_unused_orders(),
            0,
            "an edit was expected and did not come"
        );
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the test runner shows it beside the failure"
)]
fn eprint_stderr(editor: &Editor) {
    let stderr = editor.connection().stderr();
    if !stderr.is_empty() {
        eprintln!("the server's stderr ends with:\n{stderr}");
    }
}

/// Makes a directory that is gone when the first of both is dropped; the second is its canonical path.
pub fn directory() -> (TempDir, PathBuf) {
    let directory = tempfile::Builder::new()
        .prefix("abreast-it-")
        .tempdir()
        .unwrap();
    let root = directory.path().canonicalize().unwrap();
    (directory, root)
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// An editor of which every answer is given by hand, so that a test decides what is under way when.
pub struct Hand {
    client: Client,
    requests: mpsc::Receiver<ServerRequest>,
    root: PathBuf,
    _directory: TempDir,
}

impl Hand {
    /// Files, a server and an editor that announces `abreast` in its capabilities; one session, `s`.
    pub fn new(files: &[(&str, &str)], abreast: &Value) -> Self {
        let (directory, root) = directory();
        for (path, text) in files {
            write(&root.join(path), text);
        }
        let (put, requests) = mpsc::channel();
        let on_request = move |connection: &Connection, request: ServerRequest| {
            if request.method == "client/registerCapability" {
                connection.answer(request.id, Ok(Value::Null));
            } else {
                // The test may be over.
                let _ = put.send(request);
            }
        };
        let client = Client::start(&server(), &root, on_request).unwrap();
        let params = json!({
            "processId": null, "rootUri": uri_of(&root),
            "initializationOptions": { "listen": false },
            "capabilities": {
                "workspace": { "applyEdit": true },
                "experimental": { "abreast": abreast },
            },
        });
        let connection = client.connection();
        connection.call("initialize", params, PATIENCE).unwrap();
        connection.notify("initialized", json!({}));
        let hand = Self {
            client,
            requests,
            root,
            _directory: directory,
        };
        hand.call("abreast/openSession", json!({})).unwrap();
        hand
    }

    /// A strict editor with a barrier.
    pub fn strict(files: &[(&str, &str)]) -> Self {
        Self::new(
            files,
            &json!({ "version": 1, "strictApplyEdit": true, "sync": true }),
        )
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn connection(&self) -> &Connection {
        self.client.connection()
    }

    pub fn process_id(&self) -> u32 {
        self.client.process_id()
    }

    pub fn uri(&self, path: &str) -> String {
        uri_of(&self.root.join(path))
    }

    /// Sends a request of the session `s`.
    pub fn start(&self, method: &str, params: Value) -> Pending {
        self.connection().request(method, in_session(params))
    }

    pub fn call(&self, method: &str, params: Value) -> Result<Value, CallError> {
        self.start(method, params).wait(PATIENCE)
    }

    /// Sends a request and its cancellation in one piece, and returns the answer: whatever the request gives to
    /// others to do is not back when the cancellation is read.
    pub fn call_and_cancel(&self, method: &str, params: Value) -> Value {
        let id = "cancelled at once";
        let request =
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": in_session(params) });
        let cancel =
            json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": id } });
        let frames = [request, cancel].map(|it| frame(it.to_string().as_bytes()));
        self.connection().send_bytes(frames.concat());
        let answer = self.connection().wait_for_unmatched(PATIENCE);
        let answer = answer.unwrap_or_else(|| panic!("{method} is not answered"));
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub fn open(&self, path: &str, text: &str) {
        let document =
            json!({ "uri": self.uri(path), "languageId": "plaintext", "version": 1, "text": text });
        self.connection()
            .notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Tells that a document has a text as of a version.
    pub fn change(&self, path: &str, lsp_version: i32, text: &str) {
        let params = json!({
            "textDocument": { "uri": self.uri(path), "version": lsp_version },
            "contentChanges": [{ "text": text }],
        });
        self.connection().notify("textDocument/didChange", params);
    }

    /// Takes the server's next request, which must have this method.
    #[track_caller]
    pub fn asked(&self, method: &str) -> ServerRequest {
        let request = self.requests.recv_timeout(PATIENCE);
        let request = request.unwrap_or_else(|_| panic!("{method} does not come"));
        assert_eq!(request.method, method, "{}", request.params);
        request
    }

    /// Answers the server's next request, a barrier, with the version of a document.
    #[track_caller]
    pub fn answer_sync(&self, path: &str, lsp_version: i32) {
        let request = self.asked("abreast/sync");
        let state = json!({ "instance": 1, "version": lsp_version, "dirty": true });
        let answer = json!({ "documents": { self.uri(path): state } });
        self.connection().answer(request.id, Ok(answer));
    }

    /// Checks that the server asks nothing any more: whatever it asked has come before the answer to a request.
    #[track_caller]
    pub fn check_not_asked(&self) {
        self.call("abreast/sessions", json!({})).unwrap();
        let asked = self.requests.try_recv().map(|it| it.method);
        assert_eq!(asked, Err(mpsc::TryRecvError::Empty));
    }

    #[track_caller]
    pub fn check_disk(&self, path: &str, expected: &str) {
        let found = fs::read_to_string(self.root.join(path));
        assert_eq!(found.unwrap(), expected, "on the disk: {path}");
    }
}

fn in_session(mut params: Value) -> Value {
    if params.get("sessionId").is_none() {
        params["sessionId"] = "s".into();
    }
    params
}

/// Reads a file until its document is no longer desynchronised.
#[track_caller]
pub fn read_when_synchronised(session: &Session, path: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match session.read(path) {
            Ok(result) => return result,
            Err(error) => {
                assert_eq!(error.code(), "FS_DESYNCED", "{error}");
                assert!(Instant::now() < deadline, "the server never recovers");
            }
        }
    }
}

/// Checks that a call was refused with a code and returns the refusal.
#[track_caller]
pub fn refused<T: Debug>(answer: Result<T, CallError>, code: &str) -> CallError {
    match answer {
        Ok(result) => panic!("expected {code}, but it succeeded: {result:?}"),
        Err(error) => {
            assert_eq!(error.code(), code, "{error}");
            error
        }
    }
}

/// Checks that a ledger's entry for a file has a state and a status, and returns it.
#[track_caller]
pub fn check_entry(session: &Session, path: &str, state: &str, status: Option<&str>) -> Value {
    let entry = session.ledger_entry(path).unwrap();
    assert_eq!(entry["state"], state, "{entry}");
    if let Some(status) = status {
        assert_eq!(entry["status"], status, "{entry}");
    }
    entry
}

/// What an agent sees of a text.
pub fn view(text: &str) -> String {
    text.strip_prefix('\u{feff}')
        .unwrap_or(text)
        .replace("\r\n", "\n")
}

/// The version that a content must have, computed without the code under test.
pub fn version(text: &str) -> String {
    format!("b3:{}", &blake3::hash(view(text).as_bytes()).to_hex()[..32])
}

/// A deterministic source of choices (xorshift64*), so that a failure can be played again.
pub struct Choices(u64);

impl Choices {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(number).unwrap() % n
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    pub fn one_of<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }
}
