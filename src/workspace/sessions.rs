//! Agent sessions and what they are told of their ledgers.
//!
//! Invariant: a session belongs to the connection that opened it and ends with it; a session opened again under the same
//! id has another epoch and inherits nothing, calls in flight included.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    Answer, Call, CallId, CallKind, Compute, ConnectionId, Effect, JobId, JobOwner, Looked,
    Outcome, Workspace,
    telling::{StatusJob, Told},
};
use crate::{
    disk::DiskError,
    error::Failure,
    ledger::{Ledger, Observation},
    path::{self, FileKey, Lookups},
    protocol::{
        Author, CloseSessionParams, ExportedEntry, ExportedLedger, LedgerParams, LedgerResult,
        OpenSessionParams, OpenSessionResult, Rules, Seen, SessionOptions, SessionRow,
        SessionsResult, Status,
    },
};

/// Longest session id, in characters.
const SESSION_ID_CHARS: usize = 128;

/// One agent conversation.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) epoch: u64,
    pub(super) connection: ConnectionId,
    pub(super) cwd: Option<PathBuf>,
    pub(super) rules: Rules,
    pub(super) ledger: Ledger,
    label: Option<String>,
    params: OpenSessionParams,
}

/// `abreast/ledger` while closed files are looked at.
#[derive(Debug)]
pub(super) struct LedgerCall {
    path: Option<String>,
    export: bool,
    keys: Vec<FileKey>,
    looks: BTreeMap<JobId, FileKey>,
    looked: BTreeMap<FileKey, Looked>,
}

impl Workspace {
    pub(super) fn open_session(
        &mut self,
        connection: ConnectionId,
        params: OpenSessionParams,
    ) -> Result<Answer, Failure> {
        let mut members = match params.options.clone() {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(map)) => map,
            Some(Value::Array(items)) if items.is_empty() => Map::new(),
            Some(_) => return Err(Failure::params("options: expected an object")),
        };
        let options = SessionOptions::take(&mut members)
            .map_err(|err| Failure::params(format!("options.{err}")))?;
        if !members.is_empty() {
            let names: Vec<_> = members.keys().cloned().collect();
            self.log(
                tracing::Level::WARN,
                format!("unknown session options are ignored: {}", names.join(", ")),
            );
        }
        let rules = self.options.rules.with(&options);
        let cwd = match &params.cwd {
            None => None,
            Some(cwd) => Some(directory(cwd)?),
        };
        let session_id = match &params.session_id {
            Some(id) if id.is_empty() || id.chars().count() > SESSION_ID_CHARS => {
                return Err(Failure::params(format!(
                    "sessionId: must have 1 to {SESSION_ID_CHARS} characters"
                )));
            }
            Some(id) => id.clone(),
            None => self.free_session_id(),
        };
        if let Some(open) = self.sessions.get(&session_id) {
            if open.connection != connection {
                return Err(Failure::Params {
                    message: format!(
                        "session {session_id:?} belongs to another connection — choose another sessionId"
                    ),
                    code: Some("SESSION_IN_USE"),
                });
            }
            if open.params != params {
                return Err(Failure::params(format!(
                    "session {session_id:?} is open with other parameters — close it first, or choose another sessionId"
                )));
            }
        } else {
            let session = Session {
                id: session_id.clone(),
                epoch: self.new_id(),
                connection,
                cwd,
                rules,
                ledger: Ledger::default(),
                label: params.label.clone(),
                params,
            };
            self.sessions.insert(session_id.clone(), session);
            self.effects.push(Effect::Notify {
                method: "abreast/sessionsChanged",
                params: json!({}),
            });
        }
        let result = OpenSessionResult {
            session_id,
            options: rules,
            tools: Vec::new(),
            revalidated: None,
            dropped: None,
        };
        Ok(Answer::Session(result))
    }

    fn free_session_id(&mut self) -> String {
        loop {
            let id = format!("session-{}", self.new_id());
            if !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }

    pub(super) fn close_session(
        &mut self,
        connection: ConnectionId,
        params: &CloseSessionParams,
    ) -> Result<Answer, Failure> {
        self.own_session(connection, &params.session_id)?;
        self.drop_session(&params.session_id);
        Ok(Answer::Nothing)
    }

    /// Ends a session: what has not changed anything yet is aborted, what has completes.
    pub(super) fn drop_session(&mut self, session_id: &str) {
        let Some(session) = self.sessions.remove(session_id) else {
            return;
        };
        let of = Some((session.id, session.epoch));
        let calls: Vec<CallId> = self
            .calls
            .iter()
            .filter(|it| it.1.session == of)
            .map(|it| *it.0)
            .collect();
        for id in calls {
            let Some(call) = self.calls.remove(&id) else {
                continue;
            };
            if let CallKind::Change(change) = &call.kind {
                if change.is_committed() {
                    self.calls.insert(id, call);
                    continue;
                }
                self.abort_staged(change);
            }
            self.finish(
                id,
                &call,
                Err(Self::aborted(
                    "the session was closed before the call changed anything",
                )),
            );
        }
        self.forget_batch();
        self.effects.push(Effect::Notify {
            method: "abreast/sessionsChanged",
            params: json!({}),
        });
    }

    /// The session that a connection may use under this id.
    pub(super) fn own_session(
        &self,
        connection: ConnectionId,
        session_id: &str,
    ) -> Result<&Session, Failure> {
        self.sessions
            .get(session_id)
            .filter(|it| it.connection == connection)
            .ok_or_else(|| Failure::unknown_session(session_id))
    }

    /// The session of a call, if it is still the same one.
    pub(super) fn live_session(&mut self, session: Option<&(String, u64)>) -> Option<&mut Session> {
        let (id, epoch) = session?;
        self.sessions.get_mut(id).filter(|it| it.epoch == *epoch)
    }

    pub(super) fn session_author(session: Option<&(String, u64)>) -> Author {
        // A caller without a session has no name; whoever is in doubt is a human (rule 11).
        session.map_or(Author::Human, |(id, _)| Author::Session {
            session_id: id.clone(),
        })
    }

    pub(super) fn list_sessions(&self, connection: ConnectionId) -> Answer {
        let row = |session: &Session| SessionRow {
            session_id: session.id.clone(),
            label: session.label.clone(),
            entries: session.ledger.len(),
            stale: session
                .ledger.entries().iter()
                .filter(|it| it.1.told == Status::Stale)
                .count(),
            own: session.connection == connection,
        };
        Answer::Sessions(SessionsResult {
            sessions: self.sessions.values().map(row).collect(),
        })
    }

    pub(super) fn ledger(
        &mut self,
        id: CallId,
        connection: ConnectionId,
        params: &LedgerParams,
        lookups: &Lookups,
    ) -> Result<Option<Answer>, Failure> {
        let session = self.own_session(connection, &params.session_id)?;
        let owner = Some((session.id.clone(), session.epoch));
        let keys = match &params.path {
            Some(path) => vec![self.resolve(Some(&params.session_id), path, lookups)?],
            None => {
                let mut keys: Vec<_> = session.ledger.entries().iter().map(|it| it.0.clone()).collect();
                keys.sort();
                keys
            }
        };
        let closed: Vec<FileKey> = keys
            .iter()
            .filter(|key| matches!(key, FileKey::Path(_)) && self.document_of(key).is_none())
            .cloned()
            .collect();
        let mut call = LedgerCall {
            path: params.path.clone(),
            export: params.export,
            keys,
            looks: BTreeMap::new(),
            looked: BTreeMap::new(),
        };
        for key in closed {
            let job = self.look(JobOwner::Call(id), key.clone(), None);
            call.looks.insert(job, key);
        }
        let call = Call {
            connection,
            session: owner,
            keys: Vec::new(),
            kind: CallKind::Ledger(call),
        };
        self.go_on_with_ledger(id, call);
        Ok(None)
    }

    pub(super) fn ledger_done(&mut self, id: CallId, mut call: Call, job: JobId, outcome: Outcome) {
        let CallKind::Ledger(ledger) = &mut call.kind else {
            return;
        };
        match outcome {
            Outcome::Looked(looked) => {
                if let Some(key) = ledger.looks.remove(&job) {
                    self.learn(&key, &looked);
                    ledger.looked.insert(key, looked);
                }
                self.go_on_with_ledger(id, call);
            }
            Outcome::Status(told) => self.answer_ledger(id, &call, told),
            _ => self.go_on_with_ledger(id, call),
        }
    }

    fn go_on_with_ledger(&mut self, id: CallId, call: Call) {
        let CallKind::Ledger(ledger) = &call.kind else {
            return;
        };
        if !ledger.looks.is_empty() {
            self.calls.insert(id, call);
            return;
        }
        let Some((session_id, _)) = &call.session else {
            return;
        };
        let path = ledger.path.clone().unwrap_or_default();
        let rows = ledger
            .keys
            .iter()
            .filter_map(|key| self.row(session_id, key, &path, ledger.looked.get(key)));
        let job = StatusJob {
            rows: rows.collect(),
        };
        match self.compute(JobOwner::Call(id), Compute::Status(job)) {
            Ok(Outcome::Status(told)) => self.answer_ledger(id, &call, told),
            _ => {
                self.calls.insert(id, call);
            }
        }
    }

    fn answer_ledger(&mut self, id: CallId, call: &Call, told: Vec<Told>) {
        let CallKind::Ledger(ledger) = &call.kind else {
            return;
        };
        for told in &told {
            self.keep_version(told);
            let (status, seen) = (told.row.status, told.row.version);
            if let Some(session) = self.live_session(call.session.as_ref())
                && let Some(entry) = session.ledger.get_mut(&told.key)
                && seen.map_or(Observation::Absent, Observation::Present) == entry.observation
            {
                entry.told = status;
            }
        }
        let entries: Vec<_> = told.into_iter().map(|it| it.row).collect();
        let export = ledger.export.then(|| ExportedLedger {
            version: 1,
            entries: entries
                .iter()
                .filter(|it| it.state != Seen::Unseen)
                .map(|it| ExportedEntry {
                    path: it.path.clone(),
                    state: it.state,
                    version: it.version,
                })
                .collect(),
        });
        self.finish(
            id,
            call,
            Ok(Answer::Ledger(LedgerResult { entries, export })),
        );
    }
}

/// A directory, as a path or a `file:` URI.
fn directory(name: &str) -> Result<PathBuf, Failure> {
    let path = if name.starts_with("file:") {
        path::file_uri_to_path(name)
    } else {
        Some(PathBuf::from(name))
    };
    path.filter(|it| Path::is_absolute(it)).ok_or_else(|| {
        Failure::params(format!("cwd: {name:?} is no absolute path of this machine"))
    })
}

/// What the disk said when a file was looked at, as it is kept in a ledger's row.
impl From<Result<Looked, DiskError>> for Looked {
    fn from(result: Result<Self, DiskError>) -> Self {
        result.unwrap_or_else(Self::Refused)
    }
}
