//! Parameters of messages, as the workspace takes them.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::{
    error::Failure,
    protocol::{ApplyParams, Change, ContentChange, Guard, WriteEol},
    workspace::Request,
};

use super::frames::LoneSurrogate;

/// Methods that are answered by the workspace.
pub(super) const METHODS: [&str; 10] = [
    "abreast/openSession",
    "abreast/closeSession",
    "abreast/sessions",
    "abreast/ledger",
    "abreast/observe",
    "abreast/forget",
    "abreast/read",
    "abreast/edit",
    "abreast/write",
    "abreast/apply",
];

/// Decodes the parameters of one of [`METHODS`]; none: another method.
pub(super) fn request(method: &str, params: Option<&RawValue>) -> Option<Result<Request, Failure>> {
    Some(match method {
        "abreast/openSession" => decode(params).map(Request::OpenSession),
        "abreast/closeSession" => decode(params).map(Request::CloseSession),
        "abreast/sessions" => Ok(Request::Sessions),
        "abreast/ledger" => decode(params).map(Request::Ledger),
        "abreast/observe" => decode(params).map(Request::Observe),
        "abreast/forget" => decode(params).map(Request::Forget),
        "abreast/read" => decode(params).map(Request::Read),
        "abreast/edit" => decode(params).map(Edit::into_request),
        "abreast/write" => decode(params).map(Write::into_request),
        "abreast/apply" => decode(params).map(Apply::into_request),
        _ => return None,
    })
}

/// Decodes parameters; an empty array stands for an empty object.
pub(super) fn decode<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, Failure> {
    let params = params.map_or("{}", |it| it.get());
    let is_empty_array = params
        .strip_prefix('[')
        .is_some_and(|it| it.trim_start() == "]");
    if params.starts_with('[') && !is_empty_array {
        return Err(Failure::params("expected an object, not an array"));
    }
    serde_json::from_str(if is_empty_array { "{}" } else { params }).map_err(|err| {
        let text = err.to_string();
        // Nobody sees the line of JSON that the place is in.
        let what = text.split_once(" at line ").map_or(&*text, |it| it.0);
        Failure::params(format!("wrong parameters: {what}"))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edit {
    session_id: Option<String>,
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
    unicode_fallback: Option<bool>,
    guard: Option<Guard>,
    #[serde(default)]
    dry_run: bool,
    call_id: Option<String>,
}

impl Edit {
    fn into_request(self) -> Request {
        let change = Change::Edit {
            path: self.path,
            old_string: self.old_string,
            new_string: self.new_string,
            replace_all: self.replace_all,
            unicode_fallback: self.unicode_fallback,
            guard: self.guard,
        };
        one(self.session_id, change, self.dry_run, self.call_id)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Write {
    session_id: Option<String>,
    path: String,
    content: String,
    #[serde(default)]
    eol: WriteEol,
    guard: Option<Guard>,
    #[serde(default)]
    dry_run: bool,
    call_id: Option<String>,
}

impl Write {
    fn into_request(self) -> Request {
        let change = Change::Write {
            path: self.path,
            content: self.content,
            eol: self.eol,
            guard: self.guard,
        };
        one(self.session_id, change, self.dry_run, self.call_id)
    }
}

fn one(
    session_id: Option<String>,
    change: Change,
    dry_run: bool,
    call_id: Option<String>,
) -> Request {
    let params = ApplyParams {
        session_id,
        changes: vec![change],
        call_id,
        label: None,
        dry_run,
    };
    Request::Change {
        params,
        is_apply: false,
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Apply {
    session_id: Option<String>,
    changes: Vec<Change>,
    label: Option<String>,
    #[serde(default)]
    dry_run: bool,
    call_id: Option<String>,
}

impl Apply {
    fn into_request(self) -> Request {
        let Self {
            session_id,
            changes,
            label,
            dry_run,
            call_id,
        } = self;
        Request::Change {
            params: ApplyParams {
                session_id,
                changes,
                call_id,
                label,
                dry_run,
            },
            is_apply: true,
        }
    }
}

/// `textDocument/didOpen`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DidOpen {
    pub(super) text_document: OpenedDocument,
}

#[derive(Deserialize)]
pub(super) struct OpenedDocument {
    pub(super) uri: String,
    pub(super) version: i32,
    pub(super) text: String,
}

/// `textDocument/didChange`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DidChange {
    pub(super) text_document: ChangedDocument,
    pub(super) content_changes: Vec<ContentChange>,
}

/// Says where the texts have U+FFFD for half a character; none if that cannot be said.
pub(super) fn with_halves(
    mut changes: Vec<ContentChange>,
    lone: &[LoneSurrogate],
) -> Option<Vec<ContentChange>> {
    let mut lone = lone.iter().peekable();
    let mut n_fffd = 0;
    for change in &mut changes {
        for (byte, _) in change.text.match_indices('\u{FFFD}') {
            if let Some(half) = lone.next_if(|it| it.n_fffd_before == n_fffd) {
                change.halves.push((byte, half.unit));
            }
            n_fffd += 1;
        }
    }
    // One that is left stands elsewhere, perhaps in the URI.
    lone.next().is_none().then_some(changes)
}

#[derive(Deserialize)]
pub(super) struct ChangedDocument {
    pub(super) uri: String,
    pub(super) version: i32,
}

/// `textDocument/didSave` and `textDocument/didClose`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfDocument {
    pub(super) text_document: NamedDocument,
}

#[derive(Deserialize)]
pub(super) struct NamedDocument {
    pub(super) uri: String,
}

/// The URI in parameters that cannot be decoded as a whole.
pub(super) fn uri_of(params: Option<&RawValue>) -> Option<String> {
    let params: Value = serde_json::from_str(params?.get()).ok()?;
    Some(params.pointer("/textDocument/uri")?.as_str()?.to_string())
}

/// `workspace/didChangeWatchedFiles`.
#[derive(Deserialize)]
pub(super) struct DidChangeWatchedFiles {
    pub(super) changes: Vec<NamedDocument>,
}

/// `workspace/didChangeWorkspaceFolders`.
#[derive(Deserialize)]
pub(super) struct DidChangeFolders {
    pub(super) event: FoldersEvent,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct FoldersEvent {
    pub(super) added: Vec<WireFolder>,
    pub(super) removed: Vec<WireFolder>,
}

#[derive(Deserialize)]
pub(super) struct WireFolder {
    pub(super) uri: String,
    #[serde(default)]
    pub(super) name: String,
}

/// `initialize`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Initialize {
    pub(super) capabilities: Value,
    pub(super) initialization_options: Option<Value>,
    #[serde(deserialize_with = "null_is_none")]
    pub(super) workspace_folders: Vec<WireFolder>,
    pub(super) root_uri: Option<String>,
    pub(super) root_path: Option<String>,
}

fn null_is_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<WireFolder>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `$/cancelRequest`.
#[derive(Deserialize)]
pub(super) struct Cancel {
    pub(super) id: tower_lsp::jsonrpc::Id,
}
