//! An editor at work: the model of [`super::model`] connected to a real server process.
//!
//! Invariant: the model is locked from a change of it until the messages that tell the change are sent, so the
//! server sees changes and answers in the order in which they happened, whichever thread made them.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use url::Url;

use super::{
    client::{CallError, Client, Connection, ServerCommand, ServerRequest},
    document::{Encoding, Typing},
    model::{Character, Model, ModelError, Outgoing, Treatment},
    session::Session,
};

/// What editor is to be started, and with which server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub server: ServerCommand,
    /// The only workspace folder, and the directory in which the server runs; canonical.
    pub root: PathBuf,
    /// What kind of editor it is.
    pub character: Character,
    /// Whether the editor says that it is strict; the model checks the same either way.
    pub announces_strict: bool,
    /// The encodings offered, in the order of preference; none leaves the member out, which means UTF-16.
    pub encodings: Vec<Encoding>,
    /// How long every `workspace/applyEdit` lies before the editor looks at it.
    pub answers_after: Duration,
    /// Members of `initializationOptions`.
    pub initialization_options: Value,
    /// Members of the `initialize` parameters, merged over what the editor would send.
    pub client: Value,
    /// How long a call may take.
    pub timeout: Duration,
}

impl Options {
    /// Returns a strict editor that offers everything, in `root`.
    pub fn new(server: ServerCommand, root: impl Into<PathBuf>) -> Self {
        Self {
            server,
            root: root.into(),
            character: Character::default(),
            announces_strict: true,
            encodings: Vec::new(),
            answers_after: Duration::ZERO,
            initialization_options: json!({}),
            client: json!({}),
            timeout: Duration::from_secs(20),
        }
    }

    fn initialize_params(&self) -> Value {
        let mut abreast = json!({ "version": 1 });
        let announcements = [
            ("strictApplyEdit", self.announces_strict),
            ("sync", self.character.has_sync),
            ("save", self.character.has_save),
            ("loneCrIsText", self.character.lone_cr_is_text),
        ];
        for (name, _) in announcements.into_iter().filter(|&(_, is_so)| is_so) {
            abreast[name] = true.into();
        }
        let mut general = json!({});
        if !self.encodings.is_empty() {
            let names: Vec<_> = self.encodings.iter().map(ToString::to_string).collect();
            general["positionEncodings"] = names.into();
        }
        // An agent that looks for the sidecar of a workspace must not find that of a play.
        let mut options = json!({ "listen": false });
        merge(&mut options, self.initialization_options.clone());
        let mut params = json!({
            "processId": std::process::id(),
            "clientInfo": { "name": "abreast replay", "version": env!("CARGO_PKG_VERSION") },
            "rootUri": uri_of(&self.root),
            "workspaceFolders": self.workspace_folders(),
            "initializationOptions": options,
            "capabilities": {
                "workspace": {
                    "applyEdit": true,
                    "workspaceEdit": { "documentChanges": true, "failureHandling": "transactional" },
                    "didChangeWatchedFiles": { "dynamicRegistration": true },
                    "workspaceFolders": true,
                },
                "textDocument": { "synchronization": { "didSave": true } },
                "window": { "workDoneProgress": true },
                "general": general,
                "experimental": { "abreast": abreast },
            },
        });
        merge(&mut params, self.client.clone());
        params
    }

    fn workspace_folders(&self) -> Value {
        let name = self
            .root
            .file_name()
            .map(|it| it.to_string_lossy().into_owned());
        json!([{ "uri": uri_of(&self.root), "name": name.unwrap_or_default() }])
    }
}

/// Why an editor could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The server process could not be started.
    #[error("cannot start the server `{command}`: {source}")]
    Spawn {
        /// The command.
        command: String,
        /// The reason.
        source: io::Error,
    },
    /// The server did not accept `initialize`.
    #[error("the server does not initialize: {error}{stderr}")]
    Initialize {
        /// The reason.
        error: CallError,
        /// What it wrote to its stderr.
        stderr: String,
    },
}

/// An editor with its server; dropping it ends the server.
#[derive(Debug)]
pub struct Editor {
    client: Client,
    desk: Arc<Desk>,
    root: PathBuf,
    initialized: Value,
    timeout: Duration,
}

/// What the editor's thread shares with the reader thread.
#[derive(Debug)]
struct Desk {
    model: Mutex<Model>,
    /// Told whenever the server's requests may have changed the model.
    changed: Condvar,
}

impl Editor {
    /// Starts a server and an editor that has been initialized with it.
    pub fn start(options: &Options) -> Result<Self, StartError> {
        let desk = Arc::new(Desk {
            model: Mutex::new(Model::new(
                options.character.clone(),
                options.workspace_folders(),
            )),
            changed: Condvar::new(),
        });
        let slow_hand = (!options.answers_after.is_zero())
            .then(|| SlowHand::start(&desk, options.answers_after));
        let at_desk = Arc::clone(&desk);
        let on_request = move |connection: &Connection, request: ServerRequest| match &slow_hand {
            Some(slow_hand) if request.method == "workspace/applyEdit" => {
                slow_hand.put(connection, request);
            }
            _ => at_desk.receive(connection, request),
        };
        let client =
            Client::start(&options.server, &options.root, on_request).map_err(|source| {
                StartError::Spawn {
                    command: options.server.to_string(),
                    source,
                }
            })?;
        let connection = client.connection();
        let initialized = connection
            .call("initialize", options.initialize_params(), options.timeout)
            .map_err(|error| StartError::Initialize {
                error,
                stderr: quoted(&connection.stderr()),
            })?;
        if let Some(encoding) = initialized["capabilities"]["positionEncoding"]
            .as_str()
            .and_then(Encoding::parse)
        {
            desk.model().set_encoding(encoding);
        }
        connection.notify("initialized", json!({}));
        Ok(Self {
            client,
            desk,
            root: options.root.clone(),
            initialized,
            timeout: options.timeout,
        })
    }

    /// Returns what the server answered to `initialize`.
    pub fn initialized(&self) -> &Value {
        &self.initialized
    }

    /// Returns the workspace folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the handle to send messages of your own with.
    pub fn connection(&self) -> &Connection {
        self.client.connection()
    }

    /// Returns the process that serves.
    pub fn process_id(&self) -> u32 {
        self.client.process_id()
    }

    /// Returns how long a call may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Calls the server.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, CallError> {
        self.connection().call(method, params, self.timeout)
    }

    /// Opens an agent session in the workspace folder.
    pub fn session(&self, id: &str) -> Result<Session, CallError> {
        self.session_with(id, json!({}))
    }

    /// Opens an agent session with more parameters of `abreast/openSession`, for instance `options`.
    pub fn session_with(&self, id: &str, params: Value) -> Result<Session, CallError> {
        let mut all = json!({ "sessionId": id, "cwd": self.root });
        merge(&mut all, params);
        self.call("abreast/openSession", all)?;
        Ok(Session::new(self.connection().clone(), id, self.timeout))
    }

    /// Returns the URI of a path relative to the workspace folder; a URI stays as it is.
    pub fn uri(&self, path: &str) -> String {
        if is_uri(path) {
            path.to_string()
        } else {
            uri_of(&self.root.join(path))
        }
    }

    /// Opens a file with the text that it has on the disk.
    pub fn open(&self, path: &str) -> Result<(), ModelError> {
        self.open_as(path, 1, None)
    }

    /// Opens a document with a text.
    pub fn open_with(&self, path: &str, text: &str) -> Result<(), ModelError> {
        self.open_as(path, 1, Some(text))
    }

    /// Opens a document at a version of the editor's choice.
    pub fn open_as(
        &self,
        path: &str,
        lsp_version: i32,
        text: Option<&str>,
    ) -> Result<(), ModelError> {
        self.act(|model| model.open(&self.uri(path), lsp_version, text))
    }

    /// Lets a person type, all of it in one notification.
    pub fn change(&self, path: &str, typings: &[Typing]) -> Result<(), ModelError> {
        self.act(|model| model.change(&self.uri(path), typings))
    }

    /// Lets a person replace the only place that has `old`.
    pub fn types(&self, path: &str, old: &str, new: &str) -> Result<(), ModelError> {
        self.act(|model| model.type_over(&self.uri(path), old, new))
    }

    /// Tells a change that cannot be applied and has not been made.
    pub fn tell_broken_change(&self, path: &str) -> Result<(), ModelError> {
        self.act(|model| model.tell_broken_change(&self.uri(path)))
    }

    /// Saves a document.
    pub fn save(&self, path: &str) -> Result<(), ModelError> {
        self.act(|model| model.save(&self.uri(path)))
    }

    /// Closes a document; what was not saved is gone.
    pub fn close(&self, path: &str) -> Result<(), ModelError> {
        self.act(|model| model.close(&self.uri(path)))
    }

    /// Makes a document read-only for others, and says so.
    pub fn set_read_only(&self, path: &str, is_read_only: bool) -> Result<(), ModelError> {
        self.act(|model| model.set_read_only(&self.uri(path), is_read_only))
    }

    /// Tells that a file was created (1), changed (2) or deleted (3) on the disk.
    pub fn tell_disk_change(&self, path: &str, kind: u8) {
        let params = json!({ "changes": [{ "uri": self.uri(path), "type": kind }] });
        self.connection()
            .notify("workspace/didChangeWatchedFiles", params);
    }

    /// Returns the text of an open document.
    pub fn text(&self, path: &str) -> Option<String> {
        self.desk
            .model()
            .document(&self.uri(path))
            .ok()
            .map(|it| it.text.clone())
    }

    /// Returns the LSP version of an open document.
    pub fn lsp_version(&self, path: &str) -> Option<i32> {
        self.desk
            .model()
            .document(&self.uri(path))
            .ok()
            .map(|it| it.lsp_version)
    }

    /// Orders how the next `workspace/applyEdit` is treated; several orders are for several edits.
    pub fn order(&self, treatment: Treatment) {
        self.desk.model().order(treatment);
    }

    /// Returns how many orders no edit has used up.
    pub fn n_unused_orders(&self) -> usize {
        self.desk.model().n_unused_orders()
    }

    /// Returns the parameters of every `workspace/applyEdit` so far.
    pub fn edits_received(&self) -> Vec<Value> {
        self.desk.model().edits_received().to_vec()
    }

    /// Returns the parameters of every `abreast/sync` so far.
    pub fn syncs_received(&self) -> Vec<Value> {
        self.desk.model().syncs_received().to_vec()
    }

    /// Waits until `n_edits` edits are held; false if they do not come in time.
    pub fn wait_for_held(&self, n_edits: usize) -> bool {
        let deadline = Instant::now() + self.timeout;
        let mut model = self.desk.model();
        while model.held().len() < n_edits {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            model = self
                .desk
                .changed
                .wait_timeout(model, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// Treats the oldest edit that is held.
    pub fn release(&self, treatment: Treatment) {
        let mut model = self.desk.model();
        let outgoing = model.release(treatment, now_ms());
        send(self.connection(), outgoing);
    }

    /// Ends the server as LSP says and returns its exit status; nothing if it does not end.
    pub fn shut_down(&mut self, within: Duration) -> Option<ExitStatus> {
        self.client.shut_down(within)
    }

    /// Waits until the server has ended by itself; nothing if it still runs at the deadline.
    pub fn wait_for_end(&mut self, within: Duration) -> Option<ExitStatus> {
        self.client.wait_for_end(within)
    }

    fn act(
        &self,
        action: impl FnOnce(&mut Model) -> Result<Outgoing, ModelError>,
    ) -> Result<(), ModelError> {
        let mut model = self.desk.model();
        let outgoing = action(&mut model)?;
        send(self.connection(), vec![outgoing]);
        Ok(())
    }
}

impl Desk {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(&self, connection: &Connection, request: ServerRequest) {
        let mut model = self.model();
        let outgoing = model.receive(request, now_ms());
        send(connection, outgoing);
        self.changed.notify_all();
    }
}

/// A thread that lets every edit lie for the same time, and the editor go on meanwhile.
#[derive(Debug)]
struct SlowHand {
    after: Duration,
    pile: mpsc::Sender<(Instant, Connection, ServerRequest)>,
}

impl SlowHand {
    fn start(desk: &Arc<Desk>, after: Duration) -> Self {
        let (pile, from_pile) = mpsc::channel::<(Instant, Connection, ServerRequest)>();
        let desk = Arc::clone(desk);
        thread::spawn(move || {
            for (due, connection, request) in from_pile {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                desk.receive(&connection, request);
            }
        });
        Self { after, pile }
    }

    fn put(&self, connection: &Connection, request: ServerRequest) {
        let due = Instant::now() + self.after;
        // The thread ends only with this sender.
        let _ = self.pile.send((due, connection.clone(), request));
    }
}

fn send(connection: &Connection, outgoing: Vec<Outgoing>) {
    for outgoing in outgoing {
        match outgoing {
            Outgoing::Notification(method, params) => connection.notify(method, params),
            Outgoing::Answer(id, answer) => connection.answer(id, answer),
        }
    }
}

fn now_ms() -> u64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// Puts the members of `over` into `base`, object by object.
pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                merge(base.entry(name).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Returns whether a path is a URI: a scheme of two or more letters, so that a drive letter is not one.
pub(crate) fn is_uri(path: &str) -> bool {
    path.split_once(':').is_some_and(|(scheme, _)| {
        scheme.len() > 1
            && scheme
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it))
    })
}

/// Returns the URI of an absolute path.
pub fn uri_of(path: &Path) -> String {
    Url::from_file_path(path).map_or_else(|()| path.to_string_lossy().into_owned(), String::from)
}

/// Returns what a server wrote to its stderr as an addition to a message.
pub(crate) fn quoted(stderr: &str) -> String {
    if stderr.trim().is_empty() {
        return String::new();
    }
    format!("\nits stderr ends with:\n{}", stderr.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_replaces_members_and_keeps_the_others() {
        let mut base = json!({ "a": { "b": 1, "c": [1] }, "d": 2 });
        merge(&mut base, json!({ "a": { "c": null, "e": 3 } }));
        assert_eq!(base, json!({ "a": { "b": 1, "c": null, "e": 3 }, "d": 2 }));
    }

    #[test]
    fn a_drive_letter_is_not_a_scheme() {
        assert!(is_uri("untitled:1"));
        assert!(is_uri("file:///a"));
        assert!(!is_uri("c:/a"));
        assert!(!is_uri("a/b:c"));
    }

    #[test]
    fn an_editor_announces_only_what_it_is() {
        let mut options = Options::new(ServerCommand::serve("abreast"), "/tmp");
        options.announces_strict = false;
        options.character.has_sync = false;
        options.client = json!({ "capabilities": { "workspace": { "applyEdit": false } } });
        let params = options.initialize_params();
        assert_eq!(
            params["capabilities"]["experimental"]["abreast"],
            json!({ "version": 1, "save": true })
        );
        assert_eq!(params["capabilities"]["workspace"]["applyEdit"], false);
        assert_eq!(
            params["capabilities"]["workspace"]["workspaceFolders"],
            true
        );
    }

    #[test]
    fn a_server_that_cannot_be_started_is_named() {
        let directory = std::env::temp_dir();
        let options = Options::new(ServerCommand::serve("/nonexistent/server"), directory);
        let error = Editor::start(&options).expect_err("there is no such program");
        assert!(error.to_string().contains("/nonexistent/server"), "{error}");
    }
}
