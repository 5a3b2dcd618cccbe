//! The model of an editor: what it has open, and how it answers the server.
//!
//! Invariant: a strict model is the reference for `workspace/applyEdit` in `protocol.md`: it checks every document
//! (open, instance, version, ranges, old texts, writable, deadline), changes all or none, tells its changes, and
//! only then answers. What it says it did is what it did, unless a [`Treatment`] was ordered for the next edit.
//! It sends nothing itself: everything to be sent is returned in order, and the clock is a parameter.

mod apply_edit;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fs, io,
    path::PathBuf,
};

use serde_json::{Value, json};
use url::Url;

use super::{
    client::ServerRequest,
    document::{Document, Encoding, Typing},
};

/// The byte order mark, which an editor keeps out of its buffer and puts back on saving.
pub(crate) const BOM: char = '\u{feff}';

/// How the editor treats one `workspace/applyEdit`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Treatment {
    /// As a strict client: checks, applies, tells, answers.
    #[default]
    Honest,
    /// As a strict client, but its changes are told in another way.
    Echo(Echo),
    /// Answers `applied: false` though nothing has moved.
    Reject,
    /// A person types into the first document of the edit before the editor looks at it.
    TypeFirst(Vec<Typing>),
    /// Answers `applied: true` and does nothing.
    DropSilently,
    /// Keeps the request until it is released with another treatment.
    Hold,
}

/// How an editor tells the changes that an edit has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Echo {
    /// After the answer.
    AfterAnswer,
    /// In several notifications, some before the answer and some after it.
    Split,
    /// As the whole text.
    Whole,
    /// In one notification with what a person typed right after the edit.
    Merged(Vec<Typing>),
    /// Not by itself: a person replaced the whole text right after the edit, and only that is told.
    Overwritten(String),
    /// Not at all.
    Never,
}

/// What kind of editor the model is.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a yes or no of its own"
)]
pub struct Character {
    /// Refuses an edit that does not name its documents as `protocol.md` asks; else looks only at what is there.
    pub is_strict: bool,
    /// Answers `abreast/sync`.
    pub has_sync: bool,
    /// Answers `abreast/save`.
    pub has_save: bool,
    /// Takes a lone CR for text.
    pub lone_cr_is_text: bool,
    /// Applies edits that come after their deadline, as an editor that was blocked and does not check would.
    pub ignores_deadline: bool,
}

impl Default for Character {
    fn default() -> Self {
        Self {
            is_strict: true,
            has_sync: true,
            has_save: true,
            lone_cr_is_text: false,
            ignores_deadline: false,
        }
    }
}

/// Something that the editor sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// A notification.
    Notification(&'static str, Value),
    /// An answer: a result or an error object.
    Answer(Value, Result<Value, Value>),
}

/// What a person or a program asked of the editor and cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The document is not open.
    #[error("{0} is not open in the editor")]
    NotOpen(String),
    /// The document is open already.
    #[error("{0} is open in the editor already")]
    AlreadyOpen(String),
    /// A range runs backwards.
    #[error("{uri} has no range {range} (it runs backwards): its text is {text:?}")]
    Backwards {
        /// The document.
        uri: String,
        /// The range as JSON.
        range: String,
        /// The text.
        text: String,
    },
    /// The text to be replaced is not there exactly once.
    #[error("{uri} has {old:?} {n_hits} times, not once: its text is {text:?}")]
    NotUnique {
        /// The document.
        uri: String,
        /// What was looked for.
        old: String,
        /// How often it is there.
        n_hits: usize,
        /// The text.
        text: String,
    },
    /// The file cannot be read, decoded or written.
    #[error("{uri}: {source}")]
    File {
        /// The document.
        uri: String,
        /// The reason.
        source: io::Error,
    },
}

/// An editor's documents.
#[derive(Debug, Default)]
pub struct Model {
    character: Character,
    encoding: Encoding,
    folders: Value,
    documents: BTreeMap<String, Document>,
    n_opens: HashMap<String, u64>,
    ordered: VecDeque<Treatment>,
    held: VecDeque<ServerRequest>,
    edits_received: Vec<Value>,
    syncs_received: Vec<Value>,
}

impl Model {
    /// Returns an editor with nothing open; `folders` is what it answers when asked for its workspace folders.
    pub fn new(character: Character, folders: Value) -> Self {
        Self {
            character,
            folders,
            ..Self::default()
        }
    }

    /// Sets the encoding of positions that the server has chosen.
    pub fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    /// Returns an open document.
    pub fn document(&self, uri: &str) -> Result<&Document, ModelError> {
        self.documents
            .get(uri)
            .ok_or_else(|| ModelError::NotOpen(uri.to_string()))
    }

    /// Returns the URIs of the open documents.
    pub fn open_uris(&self) -> impl Iterator<Item = &str> {
        self.documents.keys().map(String::as_str)
    }

    /// Returns the parameters of every `workspace/applyEdit` so far.
    pub fn edits_received(&self) -> &[Value] {
        &self.edits_received
    }

    /// Returns the parameters of every `abreast/sync` so far.
    pub fn syncs_received(&self) -> &[Value] {
        &self.syncs_received
    }

    /// Returns the edits that wait to be released.
    pub fn held(&self) -> &VecDeque<ServerRequest> {
        &self.held
    }

    /// Orders how the next `workspace/applyEdit` is treated; several orders are for several edits.
    pub fn order(&mut self, treatment: Treatment) {
        self.ordered.push_back(treatment);
    }

    /// Returns how many orders no edit has used up.
    pub fn n_unused_orders(&self) -> usize {
        self.ordered.len()
    }

    /// Opens a document; without a text, it is read from the disk.
    pub fn open(
        &mut self,
        uri: &str,
        lsp_version: i32,
        text: Option<&str>,
    ) -> Result<Outgoing, ModelError> {
        if self.documents.contains_key(uri) {
            return Err(ModelError::AlreadyOpen(uri.to_string()));
        }
        let on_disk = load(uri);
        let (text, is_dirty) = match (text, on_disk) {
            (None, Ok(on_disk)) => (on_disk, false),
            (None, Err(error)) => return Err(error),
            (Some(text), Ok(on_disk)) => (text.to_string(), text != on_disk),
            // A file that is not UTF-8 has been decoded by the editor; one that is not there is new.
            (Some(text), Err(_)) => (
                text.to_string(),
                !file_path(uri).is_some_and(|it| it.exists()),
            ),
        };
        let n_opens = self.n_opens.entry(uri.to_string()).or_default();
        *n_opens += 1;
        let document = Document {
            text,
            instance: *n_opens,
            lsp_version,
            is_dirty,
            is_read_only: false,
            encoding: self.encoding,
            lone_cr_is_text: self.character.lone_cr_is_text,
        };
        let told = json!({ "textDocument": {
            "uri": uri, "languageId": "plaintext", "version": lsp_version, "text": document.text,
        }});
        self.documents.insert(uri.to_string(), document);
        Ok(Outgoing::Notification("textDocument/didOpen", told))
    }

    /// Lets a person type; all of it is told in one notification.
    pub fn change(&mut self, uri: &str, typings: &[Typing]) -> Result<Outgoing, ModelError> {
        let document = self.document_mut(uri)?;
        let mut changed = document.clone();
        let mut content_changes = Vec::new();
        for typing in typings {
            match changed.typed(typing) {
                Some(told) => content_changes.push(told),
                None => {
                    return Err(ModelError::Backwards {
                        uri: uri.to_string(),
                        range: json!(typing.range).to_string(),
                        text: changed.text,
                    });
                }
            }
        }
        *document = changed;
        Ok(did_change(uri, document, content_changes))
    }

    /// Tells a change that cannot be applied and has not been made, as an editor with a fault would.
    pub fn tell_broken_change(&mut self, uri: &str) -> Result<Outgoing, ModelError> {
        let place = |line| json!({ "line": line, "character": 0 });
        let backwards = json!({ "start": place(1), "end": place(0) });
        let document = self.document_mut(uri)?;
        Ok(did_change(
            uri,
            document,
            vec![json!({ "range": backwards, "text": "?" })],
        ))
    }

    /// Lets a person replace the only place that has `old`.
    pub fn type_over(&mut self, uri: &str, old: &str, new: &str) -> Result<Outgoing, ModelError> {
        let document = self.document_mut(uri)?;
        let n_hits = document.text.matches(old).count();
        let Some(start) = document.text.find(old).filter(|_| n_hits == 1) else {
            return Err(ModelError::NotUnique {
                uri: uri.to_string(),
                old: old.to_string(),
                n_hits,
                text: document.text.clone(),
            });
        };
        let told = document.replace(start..start + old.len(), new);
        Ok(did_change(uri, document, vec![told]))
    }

    /// Writes a document to the disk, with the byte order mark that the file has.
    pub fn save(&mut self, uri: &str) -> Result<Outgoing, ModelError> {
        let failed = |source| ModelError::File {
            uri: uri.to_string(),
            source,
        };
        let document = self
            .documents
            .get_mut(uri)
            .ok_or_else(|| ModelError::NotOpen(uri.to_string()))?;
        let path = file_path(uri).ok_or_else(|| failed(io::Error::other("not a file")))?;
        let has_bom = fs::read(&path).is_ok_and(|it| it.starts_with(BOM.to_string().as_bytes()));
        let bom = if has_bom {
            BOM.to_string()
        } else {
            String::new()
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, bom + &document.text).map_err(failed)?;
        document.is_dirty = false;
        let told = json!({ "textDocument": { "uri": uri } });
        Ok(Outgoing::Notification("textDocument/didSave", told))
    }

    /// Closes a document; what was not saved is gone.
    pub fn close(&mut self, uri: &str) -> Result<Outgoing, ModelError> {
        self.documents
            .remove(uri)
            .ok_or_else(|| ModelError::NotOpen(uri.to_string()))?;
        let told = json!({ "textDocument": { "uri": uri } });
        Ok(Outgoing::Notification("textDocument/didClose", told))
    }

    /// Makes a document refuse or accept changes by others, and tells it.
    pub fn set_read_only(&mut self, uri: &str, is_read_only: bool) -> Result<Outgoing, ModelError> {
        self.document_mut(uri)?.is_read_only = is_read_only;
        let told = json!({ "uri": uri, "readOnly": is_read_only });
        Ok(Outgoing::Notification("abreast/documentState", told))
    }

    /// Answers a request of the server.
    pub fn receive(&mut self, request: ServerRequest, now_ms: u64) -> Vec<Outgoing> {
        let answer = match request.method.as_str() {
            "workspace/applyEdit" => {
                self.edits_received.push(request.params.clone());
                let treatment = self.ordered.pop_front().unwrap_or_default();
                return self.treat(request, treatment, now_ms);
            }
            "abreast/sync" if self.character.has_sync => return self.sync(request),
            "abreast/save" if self.character.has_save => return self.save_several(request),
            "client/registerCapability"
            | "client/unregisterCapability"
            | "window/workDoneProgress/create"
            | "window/showMessageRequest" => Ok(Value::Null),
            "workspace/configuration" => {
                let n_items = request.params["items"].as_array().map_or(0, Vec::len);
                Ok(vec![Value::Null; n_items].into())
            }
            "workspace/workspaceFolders" => Ok(self.folders.clone()),
            method => Err(
                json!({ "code": -32601, "message": format!("{method} is not known to the editor") }),
            ),
        };
        vec![Outgoing::Answer(request.id, answer)]
    }

    /// Treats the oldest edit that is held.
    pub fn release(&mut self, treatment: Treatment, now_ms: u64) -> Vec<Outgoing> {
        match self.held.pop_front() {
            Some(request) => self.treat(request, treatment, now_ms),
            None => Vec::new(),
        }
    }

    fn document_mut(&mut self, uri: &str) -> Result<&mut Document, ModelError> {
        self.documents
            .get_mut(uri)
            .ok_or_else(|| ModelError::NotOpen(uri.to_string()))
    }

    fn treat(
        &mut self,
        request: ServerRequest,
        treatment: Treatment,
        now_ms: u64,
    ) -> Vec<Outgoing> {
        match treatment {
            Treatment::Honest => self.apply(request, None, now_ms),
            Treatment::Echo(echo) => self.apply(request, Some(&echo), now_ms),
            Treatment::Reject => vec![refused(request.id, None, "the editor does not want to")],
            Treatment::TypeFirst(typings) => {
                let uri =
                    request.params["edit"]["documentChanges"][0]["textDocument"]["uri"].as_str();
                match self.change(uri.unwrap_or_default(), &typings) {
                    Ok(typed) => {
                        let mut outgoing = vec![typed];
                        outgoing.extend(self.apply(request, None, now_ms));
                        outgoing
                    }
                    Err(error) => vec![refused(request.id, Some("error"), &error.to_string())],
                }
            }
            Treatment::DropSilently => {
                vec![Outgoing::Answer(request.id, Ok(json!({ "applied": true })))]
            }
            Treatment::Hold => {
                self.held.push_back(request);
                Vec::new()
            }
        }
    }

    /// Nothing is pending in the model, so the barrier is the answer itself; full texts go before it.
    fn sync(&mut self, request: ServerRequest) -> Vec<Outgoing> {
        let uris = |member: &str| -> Vec<String> {
            let uris = request.params[member].as_array().into_iter().flatten();
            uris.filter_map(|it| it.as_str().map(str::to_string))
                .collect()
        };
        let mut outgoing = Vec::new();
        for uri in uris("full") {
            if let Some(document) = self.documents.get_mut(&uri) {
                let whole = json!({ "text": document.text });
                outgoing.push(did_change(&uri, document, vec![whole]));
            }
        }
        let documents: serde_json::Map<_, _> = uris("uris")
            .into_iter()
            .chain(uris("full"))
            .filter_map(|uri| {
                let it = self.documents.get(&uri)?;
                let state = json!({ "instance": it.instance, "version": it.lsp_version, "dirty": it.is_dirty });
                Some((uri, state))
            })
            .collect();
        self.syncs_received.push(request.params);
        outgoing.push(Outgoing::Answer(
            request.id,
            Ok(json!({ "documents": documents })),
        ));
        outgoing
    }

    fn save_several(&mut self, request: ServerRequest) -> Vec<Outgoing> {
        let (mut outgoing, mut saved, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for uri in request.params["uris"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            match self.save(uri) {
                Ok(told) => {
                    outgoing.push(told);
                    saved.push(json!({ "uri": uri }));
                }
                Err(error) => failed.push(json!({ "uri": uri, "reason": error.to_string() })),
            }
        }
        outgoing.push(Outgoing::Answer(
            request.id,
            Ok(json!({ "saved": saved, "failed": failed })),
        ));
        outgoing
    }
}

fn did_change(uri: &str, document: &mut Document, content_changes: Vec<Value>) -> Outgoing {
    document.lsp_version += 1;
    let text_document = json!({ "uri": uri, "version": document.lsp_version });
    let mut params = serde_json::Map::new();
    params.insert("textDocument".to_string(), text_document);
    params.insert("contentChanges".to_string(), content_changes.into());
    Outgoing::Notification("textDocument/didChange", params.into())
}

fn refused(id: Value, code: Option<&str>, reason: &str) -> Outgoing {
    let mut answer = json!({ "applied": false, "failureReason": reason });
    if let Some(code) = code {
        answer["abreast"] = json!({ "code": code });
    }
    Outgoing::Answer(id, Ok(answer))
}

/// Returns the path of a `file:` URI.
pub(crate) fn file_path(uri: &str) -> Option<PathBuf> {
    Url::parse(uri).ok()?.to_file_path().ok()
}

/// Reads a file as an editor does: as UTF-8, without its byte order mark.
fn load(uri: &str) -> Result<String, ModelError> {
    let failed = |source| ModelError::File {
        uri: uri.to_string(),
        source,
    };
    let path = file_path(uri).ok_or_else(|| failed(io::Error::other("not a file")))?;
    let text = String::from_utf8(fs::read(path).map_err(failed)?)
        .map_err(|it| failed(io::Error::other(it)))?;
    Ok(text.strip_prefix(BOM).map(str::to_string).unwrap_or(text))
}
