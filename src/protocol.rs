#![doc = include_str!("protocol.md")]

use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use crate::text::{
    buffer::{Encoding, Position},
    diff::Hunk,
    eol::EolKind,
};
use crate::{containment, version::Version};

/// The protocol version that this sidecar speaks, and the oldest that it accepts.
pub const PROTOCOL_VERSION: u32 = 1;

/// Reads an object; Lua sends an empty one as `[]`, and `null` stands for an empty one too.
pub fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = match Value::deserialize(deserializer)? {
        Value::Array(items) if items.is_empty() => Value::Object(serde_json::Map::new()),
        Value::Null => Value::Object(serde_json::Map::new()),
        Value::Array(_) => {
            return Err(serde::de::Error::custom("expected an object, not an array"));
        }
        value => value,
    };
    serde_json::from_value(value).map_err(serde::de::Error::custom)
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let token = String::deserialize(deserializer)?;
        Self::parse(&token).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{token:?} is not a version (b3: and 32 hex digits)"
            ))
        })
    }
}

macro_rules! options {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty = $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        #[allow(missing_docs)] // explained in `protocol.md`
        pub struct $name { $(pub $field: Option<$type>,)* }

        impl $name {
            /// The names of all members on the wire.
            pub const KEYS: &'static [&'static str] = &[$($key),*];

            /// Takes the members that it knows out of `map`.
            ///
            /// # Errors
            ///
            /// A sentence that names the member with the wrong value.
            pub fn take(map: &mut serde_json::Map<String, Value>) -> Result<Self, String> {
                Ok(Self { $($field: take_member(map, $key)?,)* })
            }
        }
    };
}

fn take_member<T: DeserializeOwned>(
    map: &mut serde_json::Map<String, Value>,
    key: &str,
) -> Result<Option<T>, String> {
    match map.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value)
            .map(Some)
            .map_err(|err| format!("{key}: {err}")),
    }
}

options! {
    /// Options of a session; what is absent comes from the server's.
    SessionOptions {
        policy: PolicyName = "policy",
        freshness: Freshness = "freshness",
        stale_recovery: StaleRecovery = "staleRecovery",
        write_coverage: WriteCoverage = "writeCoverage",
        unicode_fallback: bool = "unicodeFallback",
        save: Save = "save",
    }
}

options! {
    /// `initializationOptions` beside [`SessionOptions`].
    ServerMembers {
        containment: Containment = "containment",
        extra_roots: Vec<String> = "extraRoots",
        protected: Vec<String> = "protected",
        trust_client: bool = "trustClient",
        images: Images = "images",
        listen: Listen = "listen",
        limits: Value = "limits",
    }
}

options! {
    /// `limits` as sent.
    LimitMembers {
        read_lines: usize = "readLines",
        read_bytes: usize = "readBytes",
        line_chars: usize = "lineChars",
        file_bytes: u64 = "fileBytes",
        diff_bytes: usize = "diffBytes",
        pending: usize = "pending",
    }
}

/// Who decides whether a session may change a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum PolicyName {
    #[default]
    Observe,
    Off,
}

/// What has to be unchanged for an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Freshness {
    #[default]
    File,
    Region,
}

/// What a stale refusal carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum StaleRecovery {
    #[default]
    Reread,
    Diff,
}

/// What a session must have been shown of a file before it writes it as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum WriteCoverage {
    #[default]
    Any,
    Full,
}

/// When an edited buffer is saved through the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum Save {
    #[default]
    Never,
    IfClean,
    Always,
}

/// Where files may be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum Containment {
    #[default]
    Workspace,
    ReadOnly,
    None,
}

/// Which images the host can take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Images {
    pub media_types: Vec<String>,
    pub max_bytes: u64,
}

/// Whether and where the agent socket is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum Listen {
    Default(bool),
    At(String),
}

/// Limits in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // units are in the names: lines, bytes, Unicode scalar values
pub struct Limits {
    pub read_lines: usize,
    pub read_bytes: usize,
    pub line_chars: usize,
    pub file_bytes: u64,
    pub diff_bytes: usize,
    pub pending: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            read_lines: 2000,
            read_bytes: 51_200,
            line_chars: 2000,
            file_bytes: 1 << 30,
            diff_bytes: 32 << 10,
            pending: 10_000,
        }
    }
}

/// Options of a session, resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Rules {
    pub policy: PolicyName,
    pub freshness: Freshness,
    pub stale_recovery: StaleRecovery,
    pub write_coverage: WriteCoverage,
    pub unicode_fallback: bool,
    pub save: Save,
}

impl Rules {
    /// These rules with what `options` says otherwise.
    #[must_use]
    pub fn with(self, options: &SessionOptions) -> Self {
        Self {
            policy: options.policy.unwrap_or(self.policy),
            freshness: options.freshness.unwrap_or(self.freshness),
            stale_recovery: options.stale_recovery.unwrap_or(self.stale_recovery),
            write_coverage: options.write_coverage.unwrap_or(self.write_coverage),
            unicode_fallback: options.unicode_fallback.unwrap_or(self.unicode_fallback),
            save: options.save.unwrap_or(self.save),
        }
    }
}

impl Rules {
    /// These rules as far as this version has what they ask for; the second part names what it does not have.
    #[must_use]
    pub fn supported(self) -> (Self, Vec<&'static str>) {
        let default = Self::default();
        let missing = [
            (self.freshness != default.freshness, "freshness"),
            (
                self.stale_recovery != default.stale_recovery,
                "staleRecovery",
            ),
            (self.save != default.save, "save"),
        ];
        let supported = Self {
            policy: self.policy,
            write_coverage: self.write_coverage,
            unicode_fallback: self.unicode_fallback,
            ..default
        };
        let missing = missing.into_iter().filter(|it| it.0);
        (supported, missing.map(|it| it.1).collect())
    }
}

/// `initializationOptions`, resolved.
#[derive(Debug, Clone, Default)]
#[allow(missing_docs)]
pub struct ServerOptions {
    pub rules: Rules,
    pub trust_client: bool,
    pub limits: Limits,
    pub containment: containment::Containment,
    /// Options that were given and that this version does not have.
    pub missing: Vec<&'static str>,
}

impl ServerOptions {
    /// Reads `initializationOptions`; the second part names unknown members.
    ///
    /// # Errors
    ///
    /// A sentence that names the member with the wrong value.
    pub fn parse(value: Option<Value>) -> Result<(Self, Vec<String>), String> {
        let mut map = members(value).ok_or("initializationOptions: expected an object")?;
        let session = SessionOptions::take(&mut map)?;
        let server = ServerMembers::take(&mut map)?;
        let mut limits = members(server.limits).ok_or("limits: expected an object")?;
        let sent = LimitMembers::take(&mut limits).map_err(|err| format!("limits.{err}"))?;
        let unknown = map.into_iter().map(|(key, _)| key);
        let unknown = unknown.chain(limits.into_iter().map(|(key, _)| format!("limits.{key}")));
        let limits = Limits::default();
        let positive = |key: &str, value: Option<usize>, default: usize| match value {
            Some(0) => Err(format!("limits.{key}: must be positive")),
            value => Ok(value.unwrap_or(default)),
        };
        let limits = Limits {
            read_lines: positive("readLines", sent.read_lines, limits.read_lines)?,
            read_bytes: positive("readBytes", sent.read_bytes, limits.read_bytes)?,
            line_chars: positive("lineChars", sent.line_chars, limits.line_chars)?,
            file_bytes: sent.file_bytes.unwrap_or(limits.file_bytes),
            diff_bytes: sent.diff_bytes.unwrap_or(limits.diff_bytes),
            pending: positive("pending", sent.pending, limits.pending)?,
        };
        let options = Self {
            // What is not supported yet is said when a session is opened with it.
            rules: Rules::default().with(&session),
            trust_client: server.trust_client.unwrap_or(false),
            containment: containment::Containment::new(
                server.containment,
                server.extra_roots,
                server.protected,
            )?,
            limits,
            missing: server.images.iter().map(|_| "images").collect(),
        };
        Ok((options, unknown.collect()))
    }
}

/// The members of an object; Lua sends an empty one as `[]`.
fn members(value: Option<Value>) -> Option<serde_json::Map<String, Value>> {
    match value {
        None | Some(Value::Null) => Some(serde_json::Map::new()),
        Some(Value::Array(items)) if items.is_empty() => Some(serde_json::Map::new()),
        Some(Value::Object(map)) => Some(map),
        Some(_) => None,
    }
}

// ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────────

/// `abreast/openSession`.
#[derive(Debug, Clone, PartialEq, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
#[allow(missing_docs)]
pub struct OpenSessionParams {
    pub session_id: Option<String>,
    pub label: Option<String>,
    pub cwd: Option<String>,
    pub options: Option<Value>,
    pub model: Option<Value>,
    pub ledger: Option<ExportedLedger>,
}

/// The answer to `abreast/openSession`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct OpenSessionResult {
    pub session_id: String,
    pub options: Rules,
    pub tools: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revalidated: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropped: Option<usize>,
}

/// `abreast/closeSession`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct CloseSessionParams {
    pub session_id: String,
}

/// One row of `abreast/sessions`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct SessionRow {
    pub session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub entries: usize,
    pub stale: usize,
    pub own: bool,
}

/// The answer to `abreast/sessions`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct SessionsResult {
    pub sessions: Vec<SessionRow>,
}

/// `abreast/ledger`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct LedgerParams {
    pub session_id: String,
    pub path: Option<String>,
    #[serde(default)]
    pub export: bool,
}

/// The answer to `abreast/ledger`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct LedgerResult {
    pub entries: Vec<LedgerEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<ExportedLedger>,
}

/// `abreast/forget`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct ForgetParams {
    pub session_id: String,
    pub paths: Option<Vec<String>>,
}

/// The answer to `abreast/forget`.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(missing_docs)]
pub struct ForgetResult {
    pub forgotten: usize,
}

/// `abreast/observe`: at most one of `version`, `document_version` and `text` says what was seen.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct ObserveParams {
    pub session_id: String,
    pub path: String,
    pub version: Option<Version>,
    pub document_version: Option<i32>,
    pub text: Option<String>,
}

/// What a session has seen of a file, as told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Seen {
    Unseen,
    Present,
    Absent,
}

/// Whether what was seen is still so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Status {
    Fresh,
    Stale,
}

/// One row of a ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct LedgerEntry {
    pub uri: String,
    pub path: String,
    pub state: Seen,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<Version>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_by: Vec<Author>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_ranges: Vec<(usize, usize)>,
}

/// A ledger to keep and give back to `abreast/openSession`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedLedger {
    pub version: u32,
    pub entries: Vec<ExportedEntry>,
}

/// One row of an [`ExportedLedger`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedEntry {
    pub path: String,
    pub state: Seen,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<Version>,
}

/// Who changed a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
#[allow(missing_docs)]
pub enum Author {
    Human,
    Session { session_id: String },
    Formatter,
    Disk,
}

/// How a read is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Format {
    #[default]
    Text,
    Numbered,
}

/// `abreast/read`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct ReadParams {
    pub session_id: Option<String>,
    pub path: String,
    pub offset: Option<usize>,
    pub limit: Option<usize>,
    #[serde(default)]
    pub format: Format,
}

/// Where a text comes from, or where a change was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Via {
    Editor,
    Disk,
}

/// The answer to `abreast/read`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct ReadResult {
    pub uri: String,
    pub path: String,
    pub version: Version,
    pub text: String,
    pub start_line: usize,
    pub end_line: usize,
    pub total_lines: usize,
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut_lines: Vec<usize>,
    pub eol: EolKind,
    pub bom: bool,
    pub via: Via,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
}

/// An explicit condition of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum Guard {
    CreateIfAbsent,
    ReplaceIfVersion { version: Version },
}

/// What a whole-file write does with line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum WriteEol {
    #[default]
    Keep,
    Literal,
}

/// One change of `abreast/apply`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[allow(missing_docs)]
pub enum Change {
    Edit {
        path: String,
        old_string: String,
        new_string: String,
        #[serde(default)]
        replace_all: bool,
        unicode_fallback: Option<bool>,
        guard: Option<Guard>,
    },
    Write {
        path: String,
        content: String,
        #[serde(default)]
        eol: WriteEol,
        guard: Option<Guard>,
    },
    Delete {
        path: String,
        guard: Option<Guard>,
    },
    Rename {
        path: String,
        new_path: String,
        guard: Option<Guard>,
    },
}

impl Change {
    /// The file that the change is about, as the caller named it.
    pub fn path(&self) -> &str {
        match self {
            Self::Edit { path, .. }
            | Self::Write { path, .. }
            | Self::Delete { path, .. }
            | Self::Rename { path, .. } => path,
        }
    }

    /// The explicit guard.
    pub fn guard(&self) -> Option<Guard> {
        match self {
            Self::Edit { guard, .. }
            | Self::Write { guard, .. }
            | Self::Delete { guard, .. }
            | Self::Rename { guard, .. } => *guard,
        }
    }

    /// The verb for messages.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Edit { .. } => "edit",
            Self::Write { .. } => "write",
            Self::Delete { .. } => "delete",
            Self::Rename { .. } => "rename",
        }
    }
}

/// `abreast/edit`, `abreast/write` and `abreast/apply`, which differ only in how the changes are written.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct ApplyParams {
    pub session_id: Option<String>,
    pub changes: Vec<Change>,
    pub call_id: Option<String>,
    pub label: Option<String>,
    pub dry_run: bool,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub enum Outcome {
    Applied,
    RolledBack,
    KeptHuman,
    Unknown,
}

/// What was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Rename,
}

/// An LSP range, 0-based, in the negotiated encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Range {
    pub start: Position,
    pub end: Position,
}

/// A place in a text, 1-based; the column counts Unicode scalar values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

/// The outcome for one file of a call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct FileResult {
    pub uri: String,
    pub path: String,
    pub operation: Operation,
    pub via: Via,
    pub outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_version: Option<Version>,
    pub replacements: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unicode_normalized: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub look_alikes: Vec<Place>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_place: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub unseen_lines: usize,
    pub hunks: Vec<Hunk>,
    pub ranges: Vec<Range>,
    pub diff: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub diff_truncated: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// The answer to `abreast/edit`, `abreast/write` and `abreast/apply`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct ApplyResult {
    pub files: Vec<FileResult>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

// ── the editor ──────────────────────────────────────────────────────────────────────────────────────────────────────

/// `abreast/documentState`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct DocumentState {
    pub uri: String,
    pub encoding: Option<String>,
    pub eol: Option<EolKind>,
    pub dirty: Option<bool>,
    pub read_only: Option<bool>,
    pub conflict: Option<bool>,
    pub unsynced: Option<bool>,
}

impl DocumentState {
    /// The state of a document that is open without its text being sent.
    pub fn unsynced(uri: String) -> Self {
        Self {
            uri,
            encoding: None,
            eol: None,
            dirty: None,
            read_only: None,
            conflict: None,
            unsynced: Some(true),
        }
    }
}

/// One element of `contentChanges`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ContentChange {
    pub range: Option<Range>,
    /// Deprecated in LSP and not needed.
    pub range_length: Option<u64>,
    pub text: String,
    /// Where `text` has U+FFFD for half a character: byte of `text` and code unit, in ascending order.
    #[serde(skip)]
    pub halves: Vec<(usize, u16)>,
}

/// The answer to `abreast/sync`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub struct SyncResult {
    #[serde(deserialize_with = "object")]
    pub documents: std::collections::HashMap<String, SyncedDocument>,
}

/// One document of a [`SyncResult`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub struct SyncedDocument {
    pub instance: Option<u32>,
    pub version: i32,
    pub dirty: Option<bool>,
}

/// The answer to `workspace/applyEdit`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct ApplyEditResult {
    pub applied: bool,
    pub failure_reason: Option<String>,
    pub abreast: Option<ApplyEditDetail>,
}

/// What a strict client adds to its answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub struct ApplyEditDetail {
    pub code: Option<String>,
}
