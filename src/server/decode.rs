//! Parameters of messages, as the workspace takes them.

use std::{fmt, marker::PhantomData, str, sync::LazyLock};

use memchr::memmem;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
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
#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DidChange {
    pub(super) text_document: ChangedDocument,
    pub(super) content_changes: Vec<ContentChange>,
}

/// How far into a message its method is looked for.
const METHOD_WITHIN_BYTES: usize = 128;
static DID_CHANGE: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new(br#""textDocument/didChange""#));

/// Decodes a body that is a change of a document and nothing else in one pass, because most messages are keystrokes. None:
/// it has to be parsed as any other.
pub(super) fn only_change(body: &[u8]) -> Option<DidChange> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Only<'a> {
        jsonrpc: &'a str,
        method: &'a str,
        #[serde(deserialize_with = "object")]
        params: DidChange,
    }
    let head = &body[..body.len().min(METHOD_WITHIN_BYTES)];
    if !head.starts_with(b"{") || DID_CHANGE.find(head).is_none() {
        return None;
    }
    // Once for all of its strings.
    let body = str::from_utf8(body).ok()?;
    let only: Only = serde_json::from_str(body).ok()?;
    (only.jsonrpc == "2.0" && only.method == "textDocument/didChange").then_some(only.params)
}

/// Structures are decoded from arrays, too, by themselves.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(Object(PhantomData))
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

#[derive(Debug, PartialEq, Deserialize)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::message::Message;

    /// What a body is when it is parsed as any other; none: no change that can be decoded.
    fn parsed(body: &str) -> Option<DidChange> {
        match Message::parse(body.as_bytes()) {
            Ok(Message::Notification { method, params }) if method == "textDocument/didChange" => {
                decode(params).ok()
            }
            _ => None,
        }
    }

    #[test]
    fn a_change_is_the_same_in_one_pass_or_is_left_to_the_other_way() {
        let document = r#""textDocument":{"uri":"untitled:1","version":2}"#;
        let range = r#"{"start":{"line":0,"character":0},"end":{"line":0,"character":1}}"#;
        let changes = format!(
            r#""contentChanges":[{{"range":{range},"text":"x\n\ufffdé"}},{{"text":"all"}}]"#
        );
        let change = r#""method":"textDocument/didChange""#;
        let deep = format!(r#""more":{}{}"#, "[".repeat(126), "]".repeat(126));
        let long = format!(r#"{{"jsonrpc":"2.0","params":{{{document},{changes}}},{change}}}"#);
        let mut n_taken = 0;
        for body in [
            format!(r#"{{"jsonrpc":"2.0",{change},"params":{{{document},{changes}}}}}"#),
            format!(r#"{{{change},"params":{{{changes},{document},"more":[1]}},"jsonrpc":"2.0"}}"#),
            long,
            format!(r#"{{"jsonrpc":"2.0",{change},"params":{{{document},{changes},{deep}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0",{change},"params":{{{document},{document},{changes}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0",{change},"params":{{{document}}}}}"#),
            format!(
                r#"{{"jsonrpc":"2.0",{change},"params":[{{"uri":"untitled:1","version":2}},[]]}}"#
            ),
            format!(r#"["2.0","textDocument/didChange",{{{document},{changes}}}]"#),
            format!(r#"{{"jsonrpc":"2.0","id":1,{change},"params":{{{document},{changes}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":null,{change},"params":{{{document},{changes}}}}}"#),
            format!(r#"{{"jsonrpc":"1.0",{change},"params":{{{document},{changes}}}}}"#),
            format!(r#"{{{change},"params":{{{document},{changes}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0",{change},{change},"params":{{{document},{changes}}}}}"#),
            format!(r#"{{"jsonrpc":"2.0",{change},"params":{{{document},{changes}}},"result":1}}"#),
            format!(r#"{{"jsonrpc":"2.0",{change},"params":{{{document},{changes}}},"new":1}}"#),
            format!(
                r#"{{"jsonrpc":"2.0","method":"other","x":{{{change}}},"params":{{{document},{changes}}}}}"#
            ),
        ] {
            let taken = only_change(body.as_bytes());
            n_taken += usize::from(taken.is_some());
            assert!(taken.is_none() || taken == parsed(&body), "{body}");
        }
        assert_eq!(n_taken, 3);
    }
}
