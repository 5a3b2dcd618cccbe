//! What happens to the workspace, and what it wants done.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    AskId, CallId, ConnectionId, JobId, Millis, reads,
    telling::{StatusJob, Told},
};
use crate::{
    capabilities::Capabilities,
    disk::{DiskChange, DiskError, DiskFailure},
    error::{Failure, FsError},
    path::{FileKey, Folder, Lookups},
    pending::{Judgement, Verdict},
    plan::{Plan, PlanJob},
    protocol::{
        ApplyParams, ApplyResult, CloseSessionParams, ContentChange, DocumentState, ForgetParams,
        ForgetResult, LedgerEntry, LedgerParams, LedgerResult, ObserveParams, OpenSessionParams,
        OpenSessionResult, ReadParams, ReadResult, ServerOptions, SessionsResult,
    },
    text::{
        Text,
        splice::{Splice, Splices},
    },
    undo::{Undo, UndoJob},
    version::Version,
};

/// Everything that can happen, in the order in which it arrived.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Event {
    /// The editor's `initialize`, decoded.
    Started {
        client: Capabilities,
        options: ServerOptions,
        folders: Vec<Folder>,
    },
    /// `workspace/didChangeWorkspaceFolders`: what the folders are now.
    Folders(Vec<Folder>),
    /// `textDocument/didOpen`.
    Opened {
        uri: String,
        key: FileKey,
        lsp_version: i32,
        text: String,
    },
    /// `textDocument/didChange`; no changes: it could not be decoded.
    Changed {
        uri: String,
        lsp_version: i32,
        changes: Option<Vec<ContentChange>>,
    },
    /// A `textDocument/didChange` that does not even say of which document.
    ChangedUnknown,
    /// `textDocument/didSave`.
    Saved { uri: String },
    /// `textDocument/didClose`.
    Closed { uri: String },
    /// `abreast/documentState`; the key of the file, where it is one.
    State {
        state: DocumentState,
        key: Option<FileKey>,
    },
    /// `workspace/didChangeWatchedFiles`.
    FilesChanged(Vec<FileKey>),
    /// A request.
    Call {
        id: CallId,
        connection: ConnectionId,
        request: Request,
        context: Context,
        lookups: Lookups,
    },
    /// `$/cancelRequest`.
    Cancel(CallId),
    /// The editor's answer to a request of ours.
    Answered {
        ask: AskId,
        answer: Result<Value, String>,
    },
    /// Work given away is done.
    Done { job: JobId, outcome: Outcome },
    /// Time went by.
    Tick,
    /// A connection ended.
    Disconnected(ConnectionId),
    /// The editor is gone, and with it its documents and all that it was asked.
    Ended,
}

/// What any request may carry beside its own members.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Context {
    /// The turn in which the model composed the call.
    pub turn: Option<u64>,
    /// Where to report progress if the call takes long.
    pub work_done_token: Option<Value>,
}

/// What an agent's host asks for.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Request {
    OpenSession(OpenSessionParams),
    CloseSession(CloseSessionParams),
    Sessions,
    Ledger(LedgerParams),
    Observe(ObserveParams),
    Forget(ForgetParams),
    Read(ReadParams),
    /// `abreast/edit`, `abreast/write`, and (`is_apply`) `abreast/apply`.
    Change {
        params: ApplyParams,
        is_apply: bool,
    },
}

/// What a request is answered with.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum Answer {
    Nothing,
    Session(OpenSessionResult),
    Sessions(SessionsResult),
    Ledger(LedgerResult),
    Observed(Box<LedgerEntry>),
    Forgotten(ForgetResult),
    Read(Box<ReadResult>),
    Applied(ApplyResult),
}

/// What has to be done.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Effect {
    /// Answer a request; every request is answered once.
    Reply {
        id: CallId,
        result: Result<Answer, Failure>,
    },
    /// Tell the editor's connection.
    Notify { method: &'static str, params: Value },
    /// Ask the editor.
    Ask {
        ask: AskId,
        method: &'static str,
        params: Value,
    },
    /// Do work elsewhere and report its outcome.
    Start { job: JobId, work: Work },
    /// Send [`Event::Tick`] at this time.
    Wake(Millis),
    /// Say something in the log.
    Log {
        level: tracing::Level,
        message: String,
    },
}

/// Work to do elsewhere.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Work {
    /// Read a closed file; `like`: is it this text but for the final line break?
    Look {
        key: FileKey,
        limit_bytes: u64,
        like: Option<Text>,
    },
    /// Prepare changes of closed files. The transaction is the job's id.
    Stage { changes: Vec<DiskChange> },
    /// Make the changes that the named job staged.
    Commit { staged: JobId },
    /// Throw away what the named job staged; has no outcome.
    Abort { staged: JobId },
    /// Have the commit that the named job makes taken back, if it is not done yet; the commit's outcome says so.
    Recall { commit: JobId },
    /// Compute something on snapshots.
    Compute(Box<Compute>),
}

/// Computations on snapshots: pure, so they can run anywhere.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Compute {
    Read(reads::ReadJob),
    Plan(PlanJob),
    Judge(Vec<Judgement>),
    Undo(Vec<UndoJob>),
    Status(StatusJob),
}

impl Compute {
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Read(job) => job.cost(),
            Self::Plan(job) => job.cost(),
            Self::Judge(judgements) => judgements.iter().map(Judgement::cost).sum(),
            Self::Undo(jobs) => jobs.iter().map(UndoJob::cost).sum(),
            Self::Status(job) => job.cost(),
        }
    }

    /// Computes.
    pub fn run(self) -> Outcome {
        match self {
            Self::Read(job) => Outcome::Read(job.run()),
            Self::Plan(job) => Outcome::Plan(job.run()),
            Self::Judge(judgements) => {
                Outcome::Judged(judgements.iter().map(Judgement::run).collect())
            }
            Self::Undo(jobs) => Outcome::Undo(jobs.iter().map(UndoJob::run).collect()),
            Self::Status(job) => Outcome::Status(job.run()),
        }
    }
}

/// What came of [`Work`].
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Outcome {
    Looked(Looked),
    /// Staged; per change, whether the file will be changed in place.
    Staged(Result<Vec<bool>, DiskFailure>),
    Committed(Result<(), DiskFailure>),
    Read(Result<reads::ReadDone, Box<FsError>>),
    Plan(Result<Plan, Box<FsError>>),
    Judged(Vec<Verdict>),
    Undo(Vec<Undo>),
    Status(Vec<Told>),
}

/// What is on disk.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Looked {
    /// Nothing; `near`: names in the same directory that look like it.
    Absent {
        near: Vec<String>,
    },
    /// A text; `alike`: it is [`Work::Look::like`] but for the final line break.
    Text {
        text: Text,
        version: Version,
        alike: bool,
    },
    Refused(DiskError),
}

impl Looked {
    /// A text that was found, compared with one that it may be the same as.
    pub fn text(text: Text, like: Option<&Text>) -> Self {
        let version = Version::of(&text);
        let alike = like.is_some_and(|it| {
            Version::of(&without_final_break(it)) == Version::of(&without_final_break(&text))
        });
        Self::Text {
            text,
            version,
            alike,
        }
    }
}

fn without_final_break(text: &Text) -> Text {
    let end = text.len_bytes();
    let byte = |back: usize| end.checked_sub(back).and_then(|at| text.byte(at));
    let n_break = match (byte(2), byte(1)) {
        (Some(b'\r'), Some(b'\n')) => 2,
        (_, Some(b'\n')) => 1,
        _ => 0,
    };
    let mut splices = Splices::default();
    splices.then(Splice {
        range: end - n_break..end,
        text: String::new(),
    });
    text.apply(&splices)
}
