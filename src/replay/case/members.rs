//! The members of a case as its file has them, and what they mean.
//!
//! Invariant: an unknown member is an error wherever it is, and so are members that contradict each other.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    AgentStep, DiskAction, DiskStep, EditorStep, Expected, File, Final, FinalCheck, NextApplyEdit,
    Node, Place, Step,
};
use crate::replay::document::Typing;

/// A stretch of a long text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    text: String,
    #[serde(default = "once")]
    repeat: usize,
}

fn once() -> usize {
    1
}

/// Joins the three ways to write a content; nothing if there is none.
fn content(
    text: Option<String>,
    base64: Option<String>,
    parts: Option<Vec<Part>>,
) -> Result<Option<Vec<u8>>, String> {
    match (text, base64, parts) {
        (Some(text), None, None) => Ok(Some(text.into_bytes())),
        (None, Some(base64), None) => BASE64_STANDARD
            .decode(base64)
            .map(Some)
            .map_err(|it| format!("base64: {it}")),
        (None, None, Some(parts)) => Ok(Some(
            parts
                .iter()
                .map(|it| it.text.repeat(it.repeat))
                .collect::<String>()
                .into_bytes(),
        )),
        (None, None, None) => Ok(None),
        _ => Err("only one of text, base64 and parts is possible".to_string()),
    }
}

fn parse_mode(mode: Option<String>) -> Result<Option<u32>, String> {
    mode.map(|mode| {
        u32::from_str_radix(&mode, 8).map_err(|_| format!("mode {mode:?} is not octal"))
    })
    .transpose()
}

fn typing(range: Option<[[usize; 2]; 2]>, text: &str) -> Typing {
    match range {
        Some([start, end]) => Typing::at(start, end, text),
        None => Typing::whole(text),
    }
}

/// Implements `Deserialize` by way of a type that has the members as the file has them.
macro_rules! deserialize_from {
    ($type:ty, $members:ty) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$members>::deserialize(deserializer)?
                    .try_into()
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}

deserialize_from!(File, FileMembers);
deserialize_from!(Step, Map<String, Value>);
deserialize_from!(AgentStep, Map<String, Value>);
deserialize_from!(EditorStep, EditorMembers);
deserialize_from!(DiskStep, DiskMembers);
deserialize_from!(Final, FinalMembers);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMembers {
    path: String,
    text: Option<String>,
    base64: Option<String>,
    parts: Option<Vec<Part>>,
    symlink: Option<String>,
    hardlink: Option<String>,
    mode: Option<String>,
}

impl TryFrom<FileMembers> for File {
    type Error = String;

    fn try_from(it: FileMembers) -> Result<Self, String> {
        let node = match (
            content(it.text, it.base64, it.parts)?,
            it.symlink,
            it.hardlink,
        ) {
            (Some(bytes), None, None) => Node::Bytes(bytes),
            (None, Some(target), None) => Node::Symlink(target),
            (None, None, Some(other)) => Node::Hardlink(other),
            _ => {
                return Err(format!(
                    "{}: one content, symlink or hardlink is needed",
                    it.path
                ));
            }
        };
        Ok(Self {
            path: it.path,
            node,
            mode: parse_mode(it.mode)?,
        })
    }
}

impl TryFrom<Map<String, Value>> for Step {
    type Error = String;

    fn try_from(mut members: Map<String, Value>) -> Result<Self, String> {
        const KINDS: [&str; 5] = ["agent", "parallel", "editor", "disk", "expectLedger"];
        let kinds: Vec<_> = KINDS
            .into_iter()
            .filter(|&it| members.contains_key(it))
            .collect();
        let &[kind] = kinds.as_slice() else {
            return Err(format!(
                "a step has one of the members {}",
                KINDS.join(", ")
            ));
        };
        match kind {
            "agent" => AgentStep::try_from(members).map(Step::Agent),
            "editor" => parse(members.into()).map(Step::Editor),
            "disk" => parse(members.into()).map(Step::Disk),
            "parallel" => {
                let steps = parse(members["parallel"].take())?;
                let expected_count = members.remove("expectCount").map(parse).transpose()?;
                let unknown = members.keys().find(|&it| it != "parallel");
                match unknown {
                    Some(unknown) => Err(format!("unknown field `{unknown}` beside parallel")),
                    None => Ok(Step::Parallel {
                        steps,
                        expected_count,
                    }),
                }
            }
            _ => match members.keys().find(|&it| it != "expectLedger") {
                Some(unknown) => Err(format!("unknown field `{unknown}` beside expectLedger")),
                None => parse(members["expectLedger"].take()).map(Step::ExpectLedger),
            },
        }
    }
}

impl TryFrom<Map<String, Value>> for AgentStep {
    type Error = String;

    fn try_from(mut members: Map<String, Value>) -> Result<Self, String> {
        let session = members.remove("session").ok_or("missing field `session`")?;
        let expected = members
            .remove("expect")
            .map(parse::<Expected>)
            .transpose()?;
        if expected
            .as_ref()
            .is_some_and(|it| it.ok.is_some() == it.error.is_some())
        {
            return Err("expect needs either ok or error".to_string());
        }
        Ok(Self {
            session: parse(session)?,
            call: parse(members.into())?,
            expected,
        })
    }
}

fn parse<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|it| it.to_string())
}

#[derive(Deserialize)]
#[serde(tag = "editor", rename_all = "camelCase", deny_unknown_fields)]
enum EditorMembers {
    DidOpen {
        path: String,
        text: Option<String>,
        version: Option<i32>,
    },
    DidChange {
        path: String,
        range: Option<[[usize; 2]; 2]>,
        text: Option<String>,
        changes: Option<Vec<ChangeMembers>>,
    },
    DidSave {
        path: String,
    },
    DidClose {
        path: String,
    },
    NextApplyEdit {
        mode: Mode,
        range: Option<[[usize; 2]; 2]>,
        text: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeMembers {
    range: Option<[[usize; 2]; 2]>,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Mode {
    Reject,
    TypeFirst,
    DropSilently,
}

impl TryFrom<EditorMembers> for EditorStep {
    type Error = String;

    fn try_from(members: EditorMembers) -> Result<Self, String> {
        Ok(match members {
            EditorMembers::DidOpen {
                path,
                text,
                version,
            } => Self::DidOpen {
                path,
                text,
                lsp_version: version.unwrap_or(1),
            },
            EditorMembers::DidChange {
                path,
                range,
                text,
                changes,
            } => {
                let typings = match (text, changes) {
                    (Some(text), None) => vec![typing(range, &text)],
                    (None, Some(changes)) if range.is_none() => changes
                        .iter()
                        .map(|it| typing(it.range, &it.text))
                        .collect(),
                    _ => {
                        return Err(
                            "didChange needs either text (with or without range) or changes"
                                .to_string(),
                        );
                    }
                };
                Self::DidChange { path, typings }
            }
            EditorMembers::DidSave { path } => Self::DidSave { path },
            EditorMembers::DidClose { path } => Self::DidClose { path },
            EditorMembers::NextApplyEdit { mode, range, text } => {
                Self::NextApplyEdit(match (mode, range, text) {
                    (Mode::Reject, None, None) => NextApplyEdit::Reject,
                    (Mode::DropSilently, None, None) => NextApplyEdit::DropSilently,
                    (Mode::TypeFirst, range, Some(text)) => {
                        NextApplyEdit::TypeFirst(typing(range, &text))
                    }
                    _ => {
                        return Err(
                            "range and text belong to typeFirst, and text is needed there"
                                .to_string(),
                        );
                    }
                })
            }
        })
    }
}

#[derive(Deserialize)]
#[serde(
    tag = "disk",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
enum DiskMembers {
    Write {
        path: String,
        text: Option<String>,
        base64: Option<String>,
        parts: Option<Vec<Part>>,
        #[serde(default)]
        keep_mtime: bool,
        #[serde(default = "yes")]
        notify: bool,
    },
    Delete {
        path: String,
        #[serde(default = "yes")]
        notify: bool,
    },
    Touch {
        path: String,
        #[serde(default = "yes")]
        notify: bool,
    },
}

fn yes() -> bool {
    true
}

impl TryFrom<DiskMembers> for DiskStep {
    type Error = String;

    fn try_from(members: DiskMembers) -> Result<Self, String> {
        Ok(match members {
            DiskMembers::Write {
                path,
                text,
                base64,
                parts,
                keep_mtime,
                notify,
            } => {
                let bytes =
                    content(text, base64, parts)?.ok_or("write needs text, base64 or parts")?;
                Self {
                    path,
                    action: DiskAction::Write { bytes, keep_mtime },
                    notify,
                }
            }
            DiskMembers::Delete { path, notify } => Self {
                path,
                action: DiskAction::Delete,
                notify,
            },
            DiskMembers::Touch { path, notify } => Self {
                path,
                action: DiskAction::Touch,
                notify,
            },
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FinalMembers {
    r#where: Place,
    path: String,
    text: Option<String>,
    base64: Option<String>,
    parts: Option<Vec<Part>>,
    one_of: Option<Vec<String>>,
    absent: Option<bool>,
    mode: Option<String>,
    symlink: Option<String>,
    listing: Option<Vec<String>>,
}

impl TryFrom<FinalMembers> for Final {
    type Error = String;

    fn try_from(it: FinalMembers) -> Result<Self, String> {
        let disk_only = it.mode.is_some() || it.symlink.is_some() || it.listing.is_some();
        if disk_only && it.r#where == Place::Buffer {
            return Err("mode, symlink and listing are looked for on the disk".to_string());
        }
        let mut checks = Vec::new();
        // The link first: its content is that of what it points to.
        checks.extend(it.symlink.map(FinalCheck::Symlink));
        checks.extend(content(it.text, it.base64, it.parts)?.map(FinalCheck::Bytes));
        checks.extend(it.one_of.map(FinalCheck::OneOf));
        checks.extend((it.absent == Some(true)).then_some(FinalCheck::Absent));
        checks.extend(parse_mode(it.mode)?.map(FinalCheck::Mode));
        checks.extend(it.listing.map(FinalCheck::Listing));
        if checks.is_empty() {
            return Err(format!("nothing to check of {}", it.path));
        }
        Ok(Self {
            place: it.r#where,
            path: it.path,
            checks,
        })
    }
}
