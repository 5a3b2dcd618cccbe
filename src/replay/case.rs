#![doc = include_str!("case-format.md")]

mod members;

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::document::Typing;

/// The only version of the format so far.
const FORMAT: u32 = 1;

/// A case as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The name of the case.
    pub id: String,
    /// The version of the format.
    #[serde(default = "current_format")]
    pub format: u32,
    /// What is right, in one sentence.
    #[serde(default)]
    pub about: String,
    /// What kind of thing is tried; not looked at.
    pub kind: Option<String>,
    /// The kind of fault the case was distilled from; not looked at.
    pub fault: Option<String>,
    /// The report the case was distilled from; not looked at.
    pub report: Option<String>,
    /// Members of `initializationOptions`.
    pub options: Option<Value>,
    /// Members of the `initialize` parameters.
    pub client: Option<Value>,
    /// What is on the disk at the start.
    #[serde(default)]
    pub files: Vec<File>,
    /// What happens.
    pub steps: Vec<Step>,
    /// What must be there at the end.
    #[serde(default, rename = "final")]
    pub finals: Vec<Final>,
}

/// A file at the start.
#[derive(Clone, Debug)]
pub struct File {
    /// Where it is.
    pub path: String,
    /// What it is.
    pub node: Node,
    /// Its permission bits, if they matter.
    pub mode: Option<u32>,
}

/// What a name in a directory stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file with these bytes.
    Bytes(Vec<u8>),
    /// A symbolic link with this target.
    Symlink(String),
    /// A further name of another file of the case.
    Hardlink(String),
}

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// A call of a session.
    Agent(AgentStep),
    /// Calls at the same time.
    Parallel {
        /// The calls.
        steps: Vec<AgentStep>,
        /// How many of them end with `ok` or with a code.
        expected_count: Option<BTreeMap<String, usize>>,
    },
    /// What the human does.
    Editor(EditorStep),
    /// What another program does.
    Disk(DiskStep),
    /// What a session must have seen.
    ExpectLedger(ExpectedEntry),
}

/// A call of a session.
#[derive(Clone, Debug)]
pub struct AgentStep {
    /// The session's name.
    pub session: String,
    /// The call.
    pub call: AgentCall,
    /// How it must come out.
    pub expected: Option<Expected>,
}

/// What an agent asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    tag = "agent",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum AgentCall {
    /// Reads a file.
    Read {
        /// The file.
        path: String,
        /// The first line, 1-based.
        offset: Option<u64>,
        /// How many lines.
        limit: Option<u64>,
    },
    /// Replaces a text.
    Edit(Edit),
    /// Writes a whole file.
    Write {
        /// The file.
        path: String,
        /// Its new text.
        content: String,
    },
    /// Replaces several texts, all or none.
    Batch {
        /// The edits.
        edits: Vec<Edit>,
    },
    /// Makes several changes as the wire has them, all or none.
    Apply {
        /// The changes.
        changes: Vec<Value>,
    },
}

/// The replacement of a text.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Edit {
    /// The file.
    pub path: String,
    /// What is replaced.
    pub old_string: String,
    /// What is put there.
    pub new_string: String,
    /// Whether all places are meant.
    pub replace_all: Option<bool>,
    /// Whether look-alike characters count as equal.
    pub unicode_fallback: Option<bool>,
}

/// How a call must come out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Whether it succeeds.
    pub ok: Option<bool>,
    /// The code that it is refused with.
    pub error: Option<String>,
    /// The text that it reads.
    pub text: Option<String>,
    /// A part of the message that it is refused with.
    pub message: Option<String>,
    /// Members of its result or of the error's data.
    pub fields: Option<Value>,
}

/// What the human does in the editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditorStep {
    /// Opens a document.
    DidOpen {
        /// The document.
        path: String,
        /// Its text; else the file's.
        text: Option<String>,
        /// Its version in the editor.
        lsp_version: i32,
    },
    /// Types.
    DidChange {
        /// The document.
        path: String,
        /// What is typed, told in one notification.
        typings: Vec<Typing>,
    },
    /// Saves a document.
    DidSave {
        /// The document.
        path: String,
    },
    /// Closes a document.
    DidClose {
        /// The document.
        path: String,
    },
    /// Treats the next `workspace/applyEdit` in a special way.
    NextApplyEdit(NextApplyEdit),
}

/// How the editor treats the next `workspace/applyEdit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextApplyEdit {
    /// Refuses.
    Reject,
    /// Lets the human type first.
    TypeFirst(Typing),
    /// Says that it did it, and does not.
    DropSilently,
}

/// What another program does to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskStep {
    /// The file.
    pub path: String,
    /// What is done.
    pub action: DiskAction,
    /// Whether the editor tells the server.
    pub notify: bool,
}

/// What is done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskAction {
    /// It gets other bytes, in place.
    Write {
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether the modification time stays.
        keep_mtime: bool,
    },
    /// It is deleted.
    Delete,
    /// It gets a later modification time.
    Touch,
}

/// An entry that must be in a session's ledger.
#[derive(Clone, Debug, Deserialize)]
pub struct ExpectedEntry {
    /// The session's name.
    pub session: String,
    /// The file.
    pub path: String,
    /// What else the entry must have.
    #[serde(flatten)]
    pub fields: serde_json::Map<String, Value>,
}

/// What must be there at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    /// Where to look.
    pub place: Place,
    /// The file or document.
    pub path: String,
    /// What must be there.
    pub checks: Vec<FinalCheck>,
}

/// Where to look at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// In the editor.
    Buffer,
    /// On the disk.
    Disk,
}

/// What must be there at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinalCheck {
    /// Exactly these bytes.
    Bytes(Vec<u8>),
    /// One of these texts.
    OneOf(Vec<String>),
    /// Nothing.
    Absent,
    /// These permission bits.
    Mode(u32),
    /// Still this link.
    Symlink(String),
    /// A directory with exactly these names.
    Listing(Vec<String>),
}

/// Why a file is not a case.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CaseError(String);

impl Case {
    /// Reads a case from its file.
    pub fn load(path: &Path) -> Result<Self, CaseError> {
        let text = fs::read_to_string(path).map_err(|it| CaseError(it.to_string()))?;
        Self::parse(&text)
    }

    /// Parses a case.
    pub fn parse(text: &str) -> Result<Self, CaseError> {
        // Through a value, so that what is wrong in a step is told as the step's and not as the end of it.
        let value: Value =
            serde_json::from_str(text).map_err(|it| CaseError(format!("not JSON: {it}")))?;
        for (member, check) in [
            ("files", is_a::<File> as fn(&Value) -> Result<(), String>),
            ("steps", is_a::<Step>),
            ("final", is_a::<Final>),
        ] {
            for (item_idx, item) in value[member].as_array().into_iter().flatten().enumerate() {
                let number = item_idx + 1;
                check(item).map_err(|it| CaseError(format!("{member}, number {number}: {it}")))?;
            }
        }
        let case: Self = serde_json::from_value(value).map_err(|it| CaseError(it.to_string()))?;
        if case.format != FORMAT {
            return Err(CaseError(format!(
                "format {} is not known, only {FORMAT} is",
                case.format
            )));
        }
        Ok(case)
    }

    /// Returns whether a step asks for the Unicode fallback.
    pub fn uses_unicode_fallback(&self) -> bool {
        let is_fallback = |call: &AgentCall| match call {
            AgentCall::Edit(edit) => edit.unicode_fallback == Some(true),
            AgentCall::Batch { edits } => edits.iter().any(|it| it.unicode_fallback == Some(true)),
            AgentCall::Apply { changes } => changes.iter().any(|it| it["unicodeFallback"] == true),
            AgentCall::Read { .. } | AgentCall::Write { .. } => false,
        };
        self.steps.iter().any(|step| match step {
            Step::Agent(step) => is_fallback(&step.call),
            Step::Parallel { steps, .. } => steps.iter().any(|it| is_fallback(&it.call)),
            Step::Editor(_) | Step::Disk(_) | Step::ExpectLedger(_) => false,
        })
    }
}

impl AgentCall {
    /// Returns the name that the format has for it, and the path if there is one.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Read { path, .. } => format!("read {path}"),
            Self::Edit(edit) => format!("edit {}", edit.path),
            Self::Write { path, .. } => format!("write {path}"),
            Self::Batch { .. } => "batch".to_string(),
            Self::Apply { .. } => "apply".to_string(),
        }
    }
}

impl Step {
    /// Returns what happens, in a few words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Agent(step) => format!("{}: {}", step.session, step.call.describe()),
            Self::Parallel { steps, .. } => format!("{} parallel calls", steps.len()),
            Self::Editor(step) => match step {
                EditorStep::DidOpen { path, .. } => format!("editor: didOpen {path}"),
                EditorStep::DidChange { path, .. } => format!("editor: didChange {path}"),
                EditorStep::DidSave { path } => format!("editor: didSave {path}"),
                EditorStep::DidClose { path } => format!("editor: didClose {path}"),
                EditorStep::NextApplyEdit(_) => "editor: nextApplyEdit".to_string(),
            },
            Self::Disk(DiskStep { path, action, .. }) => match action {
                DiskAction::Write { .. } => format!("disk: write {path}"),
                DiskAction::Delete => format!("disk: delete {path}"),
                DiskAction::Touch => format!("disk: touch {path}"),
            },
            Self::ExpectLedger(entry) => format!("ledger of {}: {}", entry.session, entry.path),
        }
    }
}

fn current_format() -> u32 {
    FORMAT
}

fn is_a<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    T::deserialize(value).map(drop).map_err(|it| it.to_string())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check_wrong(text: &str, expected: &Expect) {
        let error = Case::parse(text).expect_err("not a case");
        expected.assert_eq(&error.to_string());
    }

    #[test]
    fn the_documented_case_is_a_case() {
        let document = include_str!("case-format.md");
        let text = document
            .split("```")
            .nth(1)
            .and_then(|it| it.strip_prefix("json"))
            .expect("the first example");
        let case = Case::parse(text).expect("a case");
        assert_eq!(case.steps.len(), 4);
    }

    #[test]
    fn an_unknown_member_is_named_with_its_place() {
        check_wrong(
            r#"{ "id": "x", "steps": [], "finally": [] }"#,
            &expect![[
                "unknown field `finally`, expected one of `id`, `format`, `about`, `kind`, `fault`, `report`, \
                 `options`, `client`, `files`, `steps`, `final`"
            ]],
        );
        check_wrong(
            r#"{ "id": "x", "steps": [{ "agent": "read", "session": "s", "path": "a", "line": 1 }] }"#,
            &expect![
                "steps, number 1: unknown field `line`, expected one of `path`, `offset`, `limit`"
            ],
        );
        check_wrong(
            r#"{ "id": "x", "steps": [{ "disk": "touch", "path": "a", "tell": false }] }"#,
            &expect!["steps, number 1: unknown field `tell`, expected `path` or `notify`"],
        );
        check_wrong(
            r#"{ "id": "x", "steps": [{ "parallel": [], "expectcount": {} }] }"#,
            &expect!["steps, number 1: unknown field `expectcount` beside parallel"],
        );
    }

    #[test]
    fn an_expectation_that_expects_nothing_is_wrong() {
        check_wrong(
            r#"{ "id": "x", "steps": [{ "agent": "read", "session": "s", "path": "a", "expect": {} }] }"#,
            &expect!["steps, number 1: expect needs either ok or error"],
        );
    }

    #[test]
    fn a_step_is_of_one_kind() {
        check_wrong(
            r#"{ "id": "x", "steps": [{ "agent": "read", "disk": "touch", "session": "s", "path": "a" }] }"#,
            &expect![
                "steps, number 1: a step has one of the members agent, parallel, editor, disk, expectLedger"
            ],
        );
    }

    #[test]
    fn a_later_format_is_refused() {
        check_wrong(
            r#"{ "id": "x", "format": 2, "steps": [] }"#,
            &expect!["format 2 is not known, only 1 is"],
        );
    }

    #[test]
    fn parts_are_repeated_and_joined() {
        let case = r#"{ "id": "x", "steps": [], "files": [
            { "path": "a", "parts": [{ "text": "ab", "repeat": 2 }, { "text": "c" }], "mode": "0600" }] }"#;
        let case = Case::parse(case).expect("a case");
        assert_eq!(case.files[0].node, Node::Bytes(b"ababc".to_vec()));
        assert_eq!(case.files[0].mode, Some(0o600));
    }
}
