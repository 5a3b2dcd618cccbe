//! Agent sessions and what they are told of their ledgers.
//!
//! Invariant: a session belongs to the connection that opened it and ends with it; a session opened again under the same
//! id has another epoch and inherits nothing, calls in flight included.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Answer, CallId, CallKind, ConnectionId, Effect, NewCall, Workspace};
use crate::{
    error::Failure,
    ledger::Ledger,
    path::{self, Lookups},
    protocol::{
        Author, CloseSessionParams, OpenSessionParams, OpenSessionResult, Rules, SessionOptions,
        SessionRow, SessionsResult, Status,
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

impl Workspace {
    pub(super) fn open_session(
        &mut self,
        new: NewCall,
        params: OpenSessionParams,
        lookups: &Lookups,
    ) -> Result<Option<Answer>, Failure> {
        let connection = new.connection;
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
        let (rules, missing) = self.options.rules.with(&options).supported();
        if !missing.is_empty() {
            let names = missing.join(", ");
            let message = format!("this version has only the default of these options: {names}");
            self.log(tracing::Level::WARN, message);
        }
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
        let imported = params.ledger.clone();
        let is_open = self.sessions.contains_key(&session_id);
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
        match imported {
            Some(imported) if !is_open => self.import(new, result, imported, lookups),
            _ => Ok(Some(Answer::Session(result))),
        }
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
                if change.is_out() {
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
    pub(super) fn session_of(&self, session: Option<&(String, u64)>) -> Option<&Session> {
        let (id, epoch) = session?;
        self.sessions.get(id).filter(|it| it.epoch == *epoch)
    }

    /// The same, to write its ledger.
    pub(super) fn live_session(&mut self, session: Option<&(String, u64)>) -> Option<&mut Session> {
        let (id, epoch) = session?;
        let session = self.sessions.get_mut(id);
        session.filter(|it| it.epoch == *epoch || broken!(EpochIgnored))
    }

    /// True if the call's session was closed, whatever is open under its id now.
    pub(super) fn is_closed(&self, session: Option<&(String, u64)>) -> bool {
        session.is_some_and(|(id, epoch)| self.sessions.get(id).is_none_or(|it| it.epoch != *epoch))
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
            entries: session.ledger.n_entries(),
            stale: session
                .ledger
                .iter()
                .filter(|it| it.1.told == Some(Status::Stale))
                .count(),
            own: session.connection == connection,
        };
        Answer::Sessions(SessionsResult {
            sessions: self.sessions.values().map(row).collect(),
        })
    }
}

/// A directory, as a path or a `file:` URI.
pub(super) fn directory(name: &str) -> Result<PathBuf, Failure> {
    let path = if name.starts_with("file:") {
        path::dir_uri_to_path(name)
    } else {
        Some(PathBuf::from(name))
    };
    path.filter(|it| Path::is_absolute(it)).ok_or_else(|| {
        Failure::params(format!("cwd: {name:?} is no absolute path of this machine"))
    })
}
