//! What a request can be refused for.
//!
//! Invariant: every refusal has exactly one stable [`Code`] and ends with a remedy that can succeed. Callers branch on the
//! code, never on the message.

use serde::{Deserialize, Serialize};

use crate::{
    protocol::{Author, FileResult},
    version::Version,
};

/// The stable code of a refusal, `error.data.code` on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[allow(missing_docs)] // each is explained in the table of `protocol.md`
pub enum Code {
    FsNotObserved,
    FsStaleVersion,
    FsCoverage,
    FsNotFound,
    FsEditNotFound,
    FsAmbiguousEdit,
    FsNoChange,
    FsNotText,
    FsNotRegularFile,
    FsPermissionDenied,
    FsTooLarge,
    FsIoError,
    FsAlreadyExists,
    FsOutOfRange,
    FsSandboxDenied,
    FsOpen,
    FsReadOnly,
    FsConflict,
    FsEditorRejected,
    FsEditorTimeout,
    FsUnverified,
    FsDesynced,
    FsUnsupportedClient,
    FsPartiallyApplied,
    FsBusy,
    FsAborted,
}

impl Code {
    /// Every code, in the order of the table in `protocol.md`.
    pub const ALL: [Self; 26] = [
        Self::FsNotObserved,
        Self::FsStaleVersion,
        Self::FsCoverage,
        Self::FsNotFound,
        Self::FsEditNotFound,
        Self::FsAmbiguousEdit,
        Self::FsNoChange,
        Self::FsNotText,
        Self::FsNotRegularFile,
        Self::FsPermissionDenied,
        Self::FsTooLarge,
        Self::FsIoError,
        Self::FsAlreadyExists,
        Self::FsOutOfRange,
        Self::FsSandboxDenied,
        Self::FsOpen,
        Self::FsReadOnly,
        Self::FsConflict,
        Self::FsEditorRejected,
        Self::FsEditorTimeout,
        Self::FsUnverified,
        Self::FsDesynced,
        Self::FsUnsupportedClient,
        Self::FsPartiallyApplied,
        Self::FsBusy,
        Self::FsAborted,
    ];

    /// True if the same call may succeed later without the caller doing anything.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::FsBusy | Self::FsDesynced | Self::FsEditorTimeout | Self::FsEditorRejected
        )
    }
}

/// A place where `oldString` was found: line and column are 1-based, the column counts Unicode scalar values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Match {
    pub line: usize,
    pub column: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub context: Option<String>,
}

/// The place most like what was looked for, and what it has instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Nearest {
    pub line: usize,
    pub text: String,
    pub why: String,
}

/// `error.data` of a refusal (`FsErrorData` in `protocol.md`).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct FsError {
    pub code: Code,
    /// What was refused and why, without the remedy.
    #[serde(skip)]
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_version: Option<Version>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<Version>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_by: Vec<Author>,
    /// 1-based current lines that differ from what was seen; both ends are included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_ranges: Vec<(usize, usize)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<Match>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Nearest>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<(usize, usize)>,
    /// 0-based index in `changes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FsError>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileResult>,
}

impl FsError {
    /// A refusal: what was refused and why, and the next step that can succeed (empty: none is needed).
    pub fn new(code: Code, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = remedy.into();
        Self {
            code,
            what: what.into(),
            path: None,
            uri: None,
            remedy: (!remedy.is_empty()).then_some(remedy),
            retryable: code.is_retryable(),
            observed_version: None,
            current_version: None,
            changed_by: Vec::new(),
            changed_ranges: Vec::new(),
            matches: Vec::new(),
            nearest: None,
            missing: Vec::new(),
            change: None,
            failures: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Names the file.
    #[must_use]
    pub fn at(mut self, path: &str, uri: &str) -> Self {
        self.path = Some(path.to_string());
        self.uri = Some(uri.to_string());
        self
    }

    /// The message for people and models: what, then the remedy behind ` — `.
    pub fn message(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{} — {remedy}", self.what),
            None => self.what.clone(),
        }
    }
}

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// Malformed parameters (`-32602`); `code` is `data.code`, where there is one.
    Params {
        /// What is wrong with which member.
        message: String,
        /// `SESSION_IN_USE` or `UNKNOWN_SESSION`.
        code: Option<&'static str>,
    },
    /// A refusal (`-32803`; an aborted call: `-32800`).
    Fs(Box<FsError>),
}

impl Failure {
    /// Malformed parameters.
    pub fn params(message: impl Into<String>) -> Self {
        Self::Params {
            message: message.into(),
            code: None,
        }
    }

    /// A session that is not open here.
    pub fn unknown_session(session_id: &str) -> Self {
        Self::Params {
            message: format!(
                "no session {session_id:?} is open on this connection — open it with abreast/openSession"
            ),
            code: Some("UNKNOWN_SESSION"),
        }
    }
}

impl From<FsError> for Failure {
    fn from(err: FsError) -> Self {
        Self::Fs(Box::new(err))
    }
}
