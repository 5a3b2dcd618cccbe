//! One connection from `initialize` to `exit`: what each message becomes, and what each effect becomes.
//!
//! Invariant: every request is answered exactly once, with its own id, whatever happens to it; a message that cannot be
//! understood changes nothing but what it must (a change that cannot be read leaves its document unknown).

use std::{borrow::Cow, collections::HashMap, path::PathBuf, time::Duration};

use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use tower_lsp::{
    jsonrpc::Id,
    ls_types::{
        OneOf, PositionEncodingKind, SaveOptions, ServerCapabilities, TextDocumentSyncCapability,
        TextDocumentSyncKind, TextDocumentSyncOptions, TextDocumentSyncSaveOptions,
        WorkspaceFoldersServerCapabilities, WorkspaceServerCapabilities,
    },
};
use tracing::Level;

use super::{
    decode::{self, decode},
    frames::{self, Frame, LoneSurrogate},
    message::{Message, Refusal},
    stdio::Outbox,
};
use crate::{
    capabilities::Capabilities,
    engine::{Engine, Finished},
    error::{Code, Failure},
    path::{self, Folder},
    protocol::{DocumentState, PROTOCOL_VERSION, ServerOptions},
    text::buffer::Encoding,
    workspace::{AskId, CallId, ConnectionId, Effect, Event},
};

const REQUEST_FAILED: i64 = -32803;
const REQUEST_CANCELLED: i64 = -32800;
const NOT_INITIALIZED: i64 = -32002;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Running,
    ShutDown,
}

/// The editor's connection.
pub(super) struct Connection {
    engine: Engine,
    outbox: Outbox,
    state: State,
    watches_files: bool,
    folders: Vec<Folder>,
    /// Requests that have not been answered.
    calls: HashMap<CallId, Id>,
    last_call: u64,
    /// Called by the watcher, where the client does not watch files.
    wake: Option<Box<dyn Fn() + Send>>,
}

impl Connection {
    pub(super) fn new(engine: Engine, outbox: Outbox, wake: impl Fn() + Send + 'static) -> Self {
        Self {
            engine,
            outbox,
            state: State::New,
            watches_files: false,
            folders: Vec::new(),
            calls: HashMap::new(),
            last_call: 0,
            wake: Some(Box::new(wake)),
        }
    }

    pub(super) fn sleep(&self) -> Option<Duration> {
        self.engine.sleep()
    }

    pub(super) fn tick(&mut self) {
        let effects = self.engine.tick();
        self.carry_out(effects);
    }

    pub(super) fn finished(&mut self, finished: Finished) {
        let effects = self.engine.finished(finished);
        self.carry_out(effects);
    }

    pub(super) fn hinted(&mut self) {
        let effects = self.engine.hinted();
        self.carry_out(effects);
    }

    /// The editor is gone.
    pub(super) fn ended(&mut self) {
        self.event(Event::Ended);
    }

    pub(super) fn is_committing(&self) -> bool {
        self.engine.is_committing()
    }

    pub(super) fn close(&self) {
        self.outbox.close();
    }

    /// Takes a frame; returns the exit status if it ends the process.
    pub(super) fn frame(&mut self, frame: Frame) -> Option<u8> {
        let body = match frame {
            Frame::Message(body) => body,
            Frame::Bad { code, message } => {
                self.refuse(&Id::Null, code, &message, None);
                return None;
            }
            Frame::LostChange => {
                self.lost_change();
                return None;
            }
        };
        let repaired = frames::repair_surrogates(&body);
        let (body, lone) = match repaired {
            Some(repaired) => (Cow::Owned(repaired.body), repaired.lone),
            None => (Cow::Borrowed(body.as_slice()), Vec::new()),
        };
        if self.state == State::Running
            && let Some(change) = decode::only_change(&body)
        {
            self.changed(change, &lone);
            return None;
        }
        match Message::parse(&body) {
            Ok(Message::Request { id, .. }) if !lone.is_empty() => {
                let message =
                    "a text has half a character (a lone surrogate), which no file can hold";
                self.refuse(&id, INVALID_PARAMS, message, None);
            }
            Ok(Message::Request { id, method, params }) => self.request(id, &method, params),
            Ok(Message::Notification { method, params }) => {
                return self.notification(&method, params, &lone);
            }
            Ok(Message::Answer { id, result }) => {
                let answer = match result {
                    Ok(value) => value.map_or(Ok(Value::Null), |it| serde_json::from_str(it.get())),
                    Err(err) => {
                        self.answer(&id, Err(err.message));
                        return None;
                    }
                };
                self.answer(&id, answer.map_err(|err| err.to_string()));
            }
            Err(refusal) => self.not_a_message(&refusal, &body),
        }
        None
    }

    fn not_a_message(&mut self, refusal: &Refusal, body: &[u8]) {
        if let Some(id) = &refusal.answers {
            self.answer(id, Err(refusal.message.clone()));
        } else {
            self.refuse(&refusal.id, refusal.code, &refusal.message, None);
        }
        let may_be_change = match &refusal.method {
            Some(method) => method == "textDocument/didChange",
            None => frames::may_be_change(body),
        };
        if may_be_change {
            self.lost_change();
        }
    }

    /// A change of nobody knows which document could not be read.
    fn lost_change(&mut self) {
        if self.state == State::Running {
            self.event(Event::ChangedUnknown);
        }
    }

    fn answer(&mut self, id: &Id, answer: Result<Value, String>) {
        // Other ids are those of registrations, whose answers nobody waits for.
        if let Id::Number(number) = id
            && let Ok(ask) = u64::try_from(*number)
        {
            self.event(Event::Answered {
                ask: AskId(ask),
                answer,
            });
        }
    }

    fn request(&mut self, id: Id, method: &str, params: Option<&RawValue>) {
        if self.calls.values().any(|it| *it == id) {
            self.refuse(
                &id,
                INVALID_REQUEST,
                "a request with this id is still being served",
                None,
            );
            return;
        }
        match (self.state, method) {
            (State::New, "initialize") => self.initialize(&id, params),
            (State::New, _) => self.refuse(&id, NOT_INITIALIZED, "initialize comes first", None),
            (_, "initialize") => {
                self.refuse(&id, INVALID_REQUEST, "initialize comes only once", None);
            }
            (State::ShutDown, _) => {
                self.refuse(&id, INVALID_REQUEST, "the server is shut down", None);
            }
            (State::Running, "shutdown") => {
                self.state = State::ShutDown;
                self.reply(&id, &Value::Null);
            }
            (State::Running, _) => match decode::request(method, params) {
                None => self.refuse(
                    &id,
                    METHOD_NOT_FOUND,
                    &format!("no method {method:?}"),
                    None,
                ),
                Some(Err(failure)) => self.fail(&id, &failure),
                Some(Ok(request)) => {
                    let context = match decode(params) {
                        Ok(context) => context,
                        Err(failure) => return self.fail(&id, &failure),
                    };
                    self.last_call += 1;
                    let call = CallId(self.last_call);
                    self.calls.insert(call, id);
                    let editor = ConnectionId::EDITOR;
                    let effects = self.engine.call(call, editor, request, context);
                    self.carry_out(effects);
                }
            },
        }
    }

    fn initialize(&mut self, id: &Id, params: Option<&RawValue>) {
        let params: decode::Initialize = match decode(params) {
            Ok(params) => params,
            Err(failure) => return self.fail(id, &failure),
        };
        let (mut options, unknown) = match ServerOptions::parse(params.initialization_options) {
            Ok(parsed) => parsed,
            Err(err) => {
                return self.fail(id, &Failure::params(format!("initializationOptions.{err}")));
            }
        };
        let client = Capabilities::of(&params.capabilities);
        let root = params.root_uri.as_deref().and_then(path::dir_uri_to_path);
        let root = root.or(params
            .root_path
            .filter(|it| !it.is_empty())
            .map(PathBuf::from));
        self.folders = params.workspace_folders.iter().filter_map(folder).collect();
        if let (true, Some(path)) = (self.folders.is_empty(), root) {
            self.folders.push(Folder {
                name: name_of(&path),
                path,
            });
        }
        options.containment.temp_dir = Some(path::temp_dir());
        self.watches_files = client.watch_files;
        if let (false, Some(wake)) = (client.watch_files, self.wake.take()) {
            self.engine.watch(wake);
        }
        self.state = State::Running;
        let missing = options.missing.clone();
        self.event(Event::Started {
            client,
            options,
            folders: self.folders.clone(),
        });
        let result = json!({
            "capabilities": capabilities(client),
            "serverInfo": { "name": "abreast", "version": env!("CARGO_PKG_VERSION") },
        });
        self.reply(id, &result);
        if !missing.is_empty() {
            let names = missing.join(", ");
            self.log(
                Level::WARN,
                &format!("this version does not have these options yet: {names}"),
            );
        }
        if !unknown.is_empty() {
            self.log(
                Level::WARN,
                &format!(
                    "unknown initializationOptions are ignored: {}",
                    unknown.join(", ")
                ),
            );
        }
    }

    fn notification(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        lone: &[LoneSurrogate],
    ) -> Option<u8> {
        if method == "exit" {
            return Some(u8::from(self.state != State::ShutDown));
        }
        if self.state != State::Running {
            return None;
        }
        let decoded = match method {
            "textDocument/didOpen" => decode(params).map(|it: decode::DidOpen| {
                let decode::OpenedDocument { uri, version, text } = it.text_document;
                self.opened(uri.clone(), version, text);
                if !lone.is_empty() {
                    // Half a character: what the editor has cannot be known from it.
                    self.event(Event::Changed {
                        uri,
                        lsp_version: version,
                        changes: None,
                    });
                }
            }),
            "textDocument/didChange" => {
                match decode(params) {
                    Ok(change) => self.changed(change, lone),
                    Err(_) => self.event(match decode::uri_of(params) {
                        Some(uri) => Event::Changed {
                            uri,
                            lsp_version: i32::MIN,
                            changes: None,
                        },
                        None => Event::ChangedUnknown,
                    }),
                }
                Ok(())
            }
            "textDocument/didSave" => decode(params).map(|it: decode::OfDocument| {
                self.event(Event::Saved {
                    uri: it.text_document.uri,
                });
            }),
            "textDocument/didClose" => decode(params).map(|it: decode::OfDocument| {
                self.event(Event::Closed {
                    uri: it.text_document.uri,
                });
            }),
            "abreast/documentState" => decode(params).map(|state: DocumentState| {
                let key = Some(self.engine.key_of(&state.uri));
                self.event(Event::State { state, key });
            }),
            "workspace/didChangeWatchedFiles" => {
                decode(params).map(|it: decode::DidChangeWatchedFiles| {
                    let keys = it
                        .changes
                        .iter()
                        .map(|it| self.engine.key_of(&it.uri))
                        .collect();
                    self.event(Event::FilesChanged(keys));
                })
            }
            "workspace/didChangeWorkspaceFolders" => {
                decode(params).map(|it: decode::DidChangeFolders| self.folders_changed(&it.event))
            }
            "$/cancelRequest" => decode(params).map(|it: decode::Cancel| self.cancel(&it.id)),
            "initialized" => {
                self.watch_files();
                Ok(())
            }
            // Others are for other servers, or for later versions of this one.
            _ => Ok(()),
        };
        if method == "textDocument/didOpen"
            && decoded.is_err()
            && let Some(uri) = decode::uri_of(params)
        {
            // The editor has it open, and what it holds there is not known.
            let key = Some(self.engine.key_of(&uri));
            let state = DocumentState::unsynced(uri);
            self.event(Event::State { state, key });
        }
        if let Err(Failure::Params { message, .. }) = decoded {
            self.log(Level::WARN, &format!("{method} was ignored: {message}"));
        }
        None
    }

    fn opened(&mut self, uri: String, lsp_version: i32, text: String) {
        if uri == "file://" || uri == "file:///" {
            // The unnamed buffers of Neovim all have this URI: they cannot be told apart.
            self.log(Level::INFO, "an unnamed buffer was ignored");
            return;
        }
        let key = self.engine.key_of(&uri);
        self.event(Event::Opened {
            uri,
            key,
            lsp_version,
            text,
        });
    }

    fn changed(&mut self, change: decode::DidChange, lone: &[LoneSurrogate]) {
        let decode::ChangedDocument { uri, version } = change.text_document;
        self.event(Event::Changed {
            uri,
            lsp_version: version,
            changes: decode::with_halves(change.content_changes, lone),
        });
    }

    fn folders_changed(&mut self, event: &decode::FoldersEvent) {
        let removed: Vec<Folder> = event.removed.iter().filter_map(folder).collect();
        self.folders
            .retain(|it| !removed.iter().any(|removed| removed.path == it.path));
        self.folders.extend(event.added.iter().filter_map(folder));
        self.event(Event::Folders(self.folders.clone()));
    }

    fn cancel(&mut self, id: &Id) {
        let call = self.calls.iter().find(|it| it.1 == id).map(|it| *it.0);
        if let Some(call) = call {
            self.event(Event::Cancel(call));
        }
    }

    fn watch_files(&mut self) {
        if self.watches_files {
            let watchers = json!([{ "globPattern": "**/*" }]);
            let options = json!({ "watchers": watchers });
            let method = "workspace/didChangeWatchedFiles";
            let registration =
                json!({ "id": "abreast-files", "method": method, "registerOptions": options });
            self.send(&json!({
                "jsonrpc": "2.0",
                "id": "abreast-register",
                "method": "client/registerCapability",
                "params": { "registrations": [registration] },
            }));
        }
    }

    fn event(&mut self, event: Event) {
        let effects = self.engine.handle(event);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply { id, result } => {
                    let Some(id) = self.calls.remove(&id) else {
                        tracing::error!("call {} was answered twice", id.0);
                        continue;
                    };
                    match result {
                        Ok(answer) => self.reply(&id, &answer),
                        Err(failure) => self.fail(&id, &failure),
                    }
                }
                Effect::Notify { method, params } => self.notify(method, &params),
                Effect::Ask {
                    ask,
                    method,
                    params,
                } => {
                    self.send(&json!({ "jsonrpc": "2.0", "id": ask.0, "method": method, "params": params }));
                }
                Effect::Log { level, message } => self.log(level, &message),
                Effect::Start { .. } | Effect::Wake(_) => {
                    tracing::error!("an effect that the engine carries out came to the server");
                }
            }
        }
    }

    fn log(&mut self, level: Level, message: &str) {
        let number = match level {
            Level::ERROR => 1,
            Level::WARN => 2,
            Level::INFO => 3,
            _ => 4,
        };
        match level {
            Level::ERROR => tracing::error!("{message}"),
            Level::WARN => tracing::warn!("{message}"),
            _ => tracing::info!("{message}"),
        }
        self.notify(
            "window/logMessage",
            &json!({ "type": number, "message": message }),
        );
    }

    fn notify(&self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn reply(&self, id: &Id, result: &impl Serialize) {
        #[derive(Serialize)]
        struct Reply<'a, T> {
            jsonrpc: &'static str,
            id: &'a Id,
            result: &'a T,
        }
        self.send(&Reply {
            jsonrpc: "2.0",
            id,
            result,
        });
    }

    fn fail(&self, id: &Id, failure: &Failure) {
        match failure {
            Failure::Params { message, code } => {
                let data = code.map(|it| json!({ "code": it }));
                self.refuse(id, INVALID_PARAMS, message, data);
            }
            Failure::Fs(err) => {
                let code = if err.code == Code::FsAborted {
                    REQUEST_CANCELLED
                } else {
                    REQUEST_FAILED
                };
                self.refuse(id, code, &err.message(), Some(json!(err)));
            }
        }
    }

    fn refuse(&self, id: &Id, code: i64, message: &str, data: Option<Value>) {
        let mut error = json!({ "code": code, "message": message });
        if let Some(data) = data {
            error["data"] = data;
        }
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    fn send(&self, message: &impl Serialize) {
        match serde_json::to_vec(message) {
            Ok(body) => self.outbox.send(&body),
            Err(err) => tracing::error!("a message could not be written: {err}"),
        }
    }
}

fn folder(folder: &decode::WireFolder) -> Option<Folder> {
    let path = path::dir_uri_to_path(&folder.uri)?;
    let name = if folder.name.is_empty() {
        name_of(&path)
    } else {
        folder.name.clone()
    };
    Some(Folder { name, path })
}

fn name_of(path: &std::path::Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn capabilities(client: Capabilities) -> ServerCapabilities {
    let encoding = match client.encoding {
        Encoding::Utf8 => PositionEncodingKind::UTF8,
        Encoding::Utf16 => PositionEncodingKind::UTF16,
    };
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::INCREMENTAL),
        save: Some(TextDocumentSyncSaveOptions::SaveOptions(SaveOptions {
            include_text: Some(false),
        })),
        ..TextDocumentSyncOptions::default()
    };
    let folders = WorkspaceFoldersServerCapabilities {
        supported: Some(true),
        change_notifications: Some(OneOf::Left(true)),
    };
    ServerCapabilities {
        position_encoding: Some(encoding),
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        workspace: Some(WorkspaceServerCapabilities {
            workspace_folders: Some(folders),
            ..WorkspaceServerCapabilities::default()
        }),
        experimental: Some(json!({
            "abreast": {
                "version": PROTOCOL_VERSION,
                "minVersion": PROTOCOL_VERSION,
                "methods": decode::METHODS,
                "tools": [],
            },
        })),
        ..ServerCapabilities::default()
    }
}
