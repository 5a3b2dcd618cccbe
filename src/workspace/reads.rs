//! `abreast/read`: what a session is shown.
//!
//! Invariant: a read of an open document shows exactly the changes that arrived before it (with `abreast/sync`: also what
//! the editor had not yet reported), and the ledger gets what was shown, not what is there when the answer goes out.

use super::{
    Answer, Call, CallId, CallKind, Compute, JobId, JobOwner, Looked, NewCall, Outcome, Workspace,
    barrier::{Barrier, READ_BARRIER_MS},
};
use crate::{
    error::{Code, Failure, FsError},
    ledger::{Entry, Lines, Observation},
    path::{FileKey, Lookups},
    protocol::{EolKind, Limits, ReadParams, ReadResult, Status, Via},
    read::{self, Wanted, Window},
    text::Text,
    version::Version,
};
use serde_json::Value;

/// A read under way.
#[derive(Debug)]
pub(super) struct ReadCall {
    params: ReadParams,
    key: FileKey,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Barrier(Barrier),
    /// Looking at the disk since this point of the workspace's sequence.
    Looking {
        since: u64,
    },
    Rendering(Shown),
}

/// What was taken for a read.
#[derive(Debug, Clone)]
struct Shown {
    uri: String,
    text: Text,
    via: Via,
    dirty: Option<bool>,
    behind: bool,
    seq: u64,
    /// The document's generation, to keep the version that was computed.
    generation: Option<u64>,
    /// Where it is known without a look at the text.
    eol: Option<EolKind>,
}

/// Cutting out and hashing.
#[derive(Debug)]
pub struct ReadJob {
    text: Text,
    version: Option<Version>,
    eol: Option<EolKind>,
    wanted: Wanted,
    limits: Limits,
}

/// What a [`ReadJob`] made.
#[derive(Debug)]
pub struct ReadDone {
    window: Window,
    version: Version,
    eol: EolKind,
}

impl ReadJob {
    pub(super) fn cost(&self) -> usize {
        let is_known = self.version.is_some() && self.eol.is_some();
        match &self.text {
            // Only the window is looked at.
            Text::Rope(_) if is_known => self.limits.read_bytes,
            text => text.len_bytes(),
        }
    }

    pub(super) fn run(self) -> Result<ReadDone, Box<FsError>> {
        let window = read::window(&self.text, self.wanted, &self.limits)?;
        let version = self.version.unwrap_or_else(|| Version::of(&self.text));
        Ok(ReadDone {
            window,
            version,
            eol: self.eol.unwrap_or_else(|| self.text.eol()),
        })
    }
}

impl Workspace {
    pub(super) fn read(
        &mut self,
        new: NewCall,
        params: ReadParams,
        lookups: &Lookups,
    ) -> Result<Option<Answer>, Failure> {
        for (name, value) in [("offset", params.offset), ("limit", params.limit)] {
            if value == Some(0) {
                return Err(Failure::params(format!(
                    "{name}: must be a positive integer"
                )));
            }
        }
        let session = match &params.session_id {
            Some(session_id) => {
                let session = self.own_session(new.connection, session_id)?;
                Some((session.id.clone(), session.epoch))
            }
            None => None,
        };
        let key = self.resolve(params.session_id.as_deref(), &params.path, lookups)?;
        let id = new.id;
        let open_as = self.document_of(&key).map(|it| it.0.to_string());
        let barrier = open_as.and_then(|uri| self.barrier(id, vec![uri], READ_BARRIER_MS));
        let phase = match barrier {
            Some(barrier) => Phase::Barrier(barrier),
            None => Phase::Looking { since: self.seq },
        };
        let kind = CallKind::Read(ReadCall {
            params,
            key: key.clone(),
            phase,
        });
        let call = new.call(session, vec![key], kind);
        self.enqueue(id, call);
        let Some(call) = self.calls.remove(&id) else {
            return Ok(None);
        };
        if matches!(
            &call.kind,
            CallKind::Read(ReadCall {
                phase: Phase::Barrier(_),
                ..
            })
        ) {
            self.calls.insert(id, call);
        } else {
            self.show(id, call, false);
        }
        Ok(None)
    }

    pub(super) fn read_answered(
        &mut self,
        id: CallId,
        mut call: Call,
        answer: Result<Value, String>,
    ) {
        if let CallKind::Read(ReadCall {
            phase: Phase::Barrier(barrier),
            ..
        }) = &mut call.kind
        {
            self.barrier_answered(barrier, answer);
        }
        self.go_on_reading(id, call);
    }

    pub(super) fn go_on_reading(&mut self, id: CallId, mut call: Call) {
        let CallKind::Read(read) = &mut call.kind else {
            return;
        };
        let Phase::Barrier(barrier) = &mut read.phase else {
            self.calls.insert(id, call);
            return;
        };
        if self.is_over(barrier) {
            let behind = barrier.behind;
            self.asks.remove(&barrier.ask);
            self.show(id, call, behind);
        } else {
            let key = read.key.clone();
            self.calls.insert(id, call);
            self.wait_for(&key, id);
        }
    }

    /// Takes the text as it is now: the open document's, else the disk's.
    fn show(&mut self, id: CallId, mut call: Call, behind: bool) {
        let CallKind::Read(read) = &mut call.kind else {
            return;
        };
        let Some((uri, document)) = self.document_of(&read.key) else {
            if matches!(read.key, FileKey::Uri(_)) {
                let err = not_found(&read.params.path, &read.key, &[]);
                self.finish(id, &call, Err(err.into()));
                return;
            }
            read.phase = Phase::Looking { since: self.seq };
            self.look(JobOwner::Call(id), read.key.clone(), None);
            self.calls.insert(id, call);
            return;
        };
        if document.is_unknown() {
            let err = desynced(&format!("cannot read \"{}\"", read.params.path))
                .at(&read.params.path, uri);
            let key = read.key.clone();
            self.ask_for_whole(&key);
            self.finish(id, &call, Err(err.into()));
            return;
        }
        let shown = Shown {
            uri: uri.to_string(),
            text: document.text(),
            via: Via::Editor,
            dirty: Some(document.dirty),
            behind,
            seq: self.seq,
            generation: Some(document.generation),
            eol: document.buffer.known_eol(),
        };
        let version = document.version;
        self.render(id, call, shown, version);
    }

    fn render(&mut self, id: CallId, mut call: Call, shown: Shown, version: Option<Version>) {
        let CallKind::Read(read) = &mut call.kind else {
            return;
        };
        let wanted = Wanted {
            offset: read.params.offset,
            limit: read.params.limit,
            format: read.params.format,
        };
        let job = ReadJob {
            text: shown.text.clone(),
            version,
            eol: shown.eol,
            wanted,
            limits: self.options.limits,
        };
        read.phase = Phase::Rendering(shown);
        match self.compute(JobOwner::Call(id), Compute::Read(job)) {
            Ok(Outcome::Read(done)) => self.rendered(id, call, done),
            _ => {
                self.calls.insert(id, call);
            }
        }
    }

    pub(super) fn read_done(&mut self, id: CallId, call: Call, _: JobId, outcome: Outcome) {
        let CallKind::Read(read) = &call.kind else {
            return;
        };
        match (&read.phase, outcome) {
            (Phase::Looking { since }, Outcome::Looked(looked)) => {
                let is_open = self.document_of(&read.key).is_some();
                let own_change = self
                    .files
                    .get(&read.key)
                    .is_some_and(|it| !it.authors_since(*since).is_empty());
                // Opened meanwhile, or a change of ours completed: what was read may be older than that.
                if is_open || own_change {
                    self.show(id, call, false);
                } else {
                    self.show_looked(id, call, looked);
                }
            }
            (Phase::Rendering(_), Outcome::Read(done)) => {
                let document = self.document_of(&read.key);
                if document.is_some_and(|it| it.1.is_unknown()) {
                    // Since it was taken, the text turned out not to be what the editor has.
                    self.show(id, call, true);
                } else {
                    self.rendered(id, call, done);
                }
            }
            _ => {
                self.calls.insert(id, call);
            }
        }
    }

    fn show_looked(&mut self, id: CallId, call: Call, looked: Looked) {
        let CallKind::Read(read) = &call.kind else {
            return;
        };
        let (key, path) = (read.key.clone(), read.params.path.clone());
        self.learn(&key, &looked);
        match looked {
            Looked::Absent { near } => {
                let err = not_found(&path, &key, &near);
                let entry = Entry {
                    observation: Observation::Absent,
                    path,
                    seq: self.seq,
                    snapshot: None,
                    shown: Lines::default(),
                    told: Some(Status::Fresh),
                    turn: call.turn,
                };
                if let Some(session) = self.live_session(call.session.as_ref())
                    && !broken!(AbsentIsUnseen)
                {
                    session.ledger.observe(key, entry);
                }
                self.finish(id, &call, Err(err.into()));
            }
            Looked::Refused(err) => {
                let err = FsError::from_disk(&err, &path).at(&path, &key.uri());
                self.finish(id, &call, Err(err.into()));
            }
            Looked::Text { text, version, .. } => {
                let shown = Shown {
                    uri: key.uri(),
                    text,
                    via: Via::Disk,
                    dirty: None,
                    behind: false,
                    seq: self.seq,
                    generation: None,
                    eol: None,
                };
                self.render(id, call, shown, Some(version));
            }
        }
    }

    fn rendered(&mut self, id: CallId, call: Call, done: Result<ReadDone, Box<FsError>>) {
        let CallKind::Read(ReadCall {
            params,
            key,
            phase: Phase::Rendering(shown),
        }) = &call.kind
        else {
            return;
        };
        let ReadDone {
            window,
            version,
            eol,
        } = match done {
            Ok(done) => done,
            Err(err) => {
                let err = err.at(&params.path, &shown.uri);
                self.finish(id, &call, Err(err.into()));
                return;
            }
        };
        let version = if broken!(ReadObservesLater) {
            self.document_version(&shown.uri).unwrap_or(version)
        } else {
            version
        };
        if let Some(document) = self.documents.get_mut(&shown.uri)
            && Some(document.generation) == shown.generation
        {
            document.version = Some(version);
        }
        let entry = Entry {
            observation: Observation::Present(version),
            path: params.path.clone(),
            seq: shown.seq,
            snapshot: Some(shown.text.clone()),
            shown: window.shown,
            told: Some(Status::Fresh),
            turn: call.turn,
        };
        if let Some(session) = self.live_session(call.session.as_ref()) {
            session.ledger.observe(key.clone(), entry);
        }
        let is_current = self
            .document_of(key)
            .is_none_or(|it| Some(it.1.generation) == shown.generation);
        if !is_current {
            self.touch(key, None);
        }
        let result = ReadResult {
            uri: shown.uri.clone(),
            path: params.path.clone(),
            version,
            text: window.text,
            start_line: window.start_line,
            end_line: window.end_line,
            total_lines: window.total_lines,
            truncated: window.truncated,
            next_offset: window.next_offset,
            cut_lines: window.cut_lines,
            eol,
            bom: shown.text.has_bom(),
            via: shown.via,
            dirty: shown.dirty,
            behind: shown.behind,
        };
        self.finish(id, &call, Ok(Answer::Read(Box::new(result))));
    }
}

fn not_found(path: &str, key: &FileKey, near: &[String]) -> FsError {
    let path_named = std::path::Path::new(path);
    let directory = path_named.parent();
    let near: Vec<String> = near
        .iter()
        // A link to nothing is no better than what it leads to.
        .filter(|it| path_named.file_name() != Some(it.as_ref()))
        .map(|name| {
            let near = directory.map_or_else(|| name.into(), |it| it.join(name));
            format!("\"{}\"", near.display())
        })
        .collect();
    let remedy = if near.is_empty() {
        "check the path, or write to create it".to_string()
    } else {
        format!(
            "did you mean {}? else write to create it",
            near.join(" or ")
        )
    };
    FsError::new(
        Code::FsNotFound,
        format!("\"{path}\": no such file"),
        remedy,
    )
    .at(path, &key.uri())
}

/// The text here is not the editor's; the full text has been asked for.
pub(super) fn desynced(what: &str) -> FsError {
    FsError::new(
        Code::FsDesynced,
        format!("{what}: the editor reported a change that cannot be applied"),
        "retry, or re-open the document in the editor",
    )
}
