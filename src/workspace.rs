//! The state machine: open documents, ledgers, and the calls that are under way.
//!
//! Invariant: everything that can happen is an [`Event`], and what has to be done about it is a list of [`Effect`]s.
//! There is no I/O, no clock (times come in with events), no await and no randomness here, so whatever goes wrong
//! between people, agents, an editor and a disk can be written down as a list of events and played again.
//!
//! Work that takes more than about a millisecond (hashing or searching a large text) is given away as an effect
//! ([`Work`]) on a snapshot; its outcome comes back as an event and counts only if the snapshot is still what it was.
//!
//! In reading order: `event` (the vocabulary), `documents` (what the editor reports), `outside` (what other programs
//! do), `sessions` and `ledgers`, `reads`, `changes` (the life of a call that changes files) with `containing` (which
//! files it may change), `editing` (its part in the editor), `storing` (its part on disk) and `rollback`, `barrier`,
//! `telling` (what is told about ledgers).

mod barrier;
mod changes;
mod containing;
mod documents;
mod editing;
mod event;
mod ledgers;
mod outside;
mod reads;
mod rollback;
mod sessions;
mod storing;
mod telling;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};

use crate::{
    capabilities::Capabilities,
    error::{Code, Failure, FsError},
    large::is_large,
    ledger::Observation,
    path::{self, Candidates, FileKey, Folder, Lookups},
    protocol::{Author, Change, ServerOptions},
    text::Text,
    version::Version,
};
use documents::Document;
pub use event::{Answer, Compute, Context, Effect, Event, Looked, Outcome, Request, Work};
use sessions::Session;

/// Unix milliseconds.
pub type Millis = u64;

/// A request of an agent's host, from its arrival to its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A request to the editor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Work given away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// A connection that sends requests; the editor's is [`ConnectionId::EDITOR`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

impl ConnectionId {
    /// The connection of the editor that started the sidecar.
    pub const EDITOR: Self = Self(0);
}

/// Who waits for a job.
#[derive(Debug, Clone)]
enum JobOwner {
    Call(CallId),
    /// The look at the disk that follows a didOpen.
    Opened {
        uri: String,
        instance: u32,
    },
    /// The look at the disk that follows a didClose or a hint of the watcher.
    File {
        key: FileKey,
        closed_at: Option<Version>,
        /// When, in the workspace's sequence.
        since: u64,
    },
    /// A batch of `ledgerChanged`.
    Telling,
    /// Whether an edit of unknown outcome had landed when the document was at this generation.
    Settling {
        uri: String,
        ask: AskId,
        generation: u64,
    },
}

/// Who waits for an answer of the editor.
#[derive(Debug, Clone)]
enum AskOwner {
    Call(CallId),
    /// A barrier that settles documents of which the outcome of an edit is unknown.
    Probe(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Batch,
    Call(CallId),
}

/// What is known of a file beside the documents that show it.
#[derive(Debug, Default)]
struct File {
    /// The open documents that show it, the latest opened last.
    uris: Vec<String>,
    /// The calls about it, in order of arrival.
    queue: VecDeque<CallId>,
    /// Those of them that wait for something to happen to its documents.
    waiting: BTreeSet<CallId>,
    /// Who changed it, and when last, in the workspace's sequence.
    log: Vec<(Author, u64)>,
    /// What was on disk when last looked at.
    disk: Option<Observation>,
    /// When a commit of ours last changed it, in the workspace's sequence.
    committed_at: u64,
    /// Somebody said that it changed while it could not be looked at.
    is_hinted: bool,
    /// The URI under which an editor shows it without sending its text.
    unsynced: Option<String>,
}

/// Most authors of changes that are remembered per file.
const LOG_LEN: usize = 32;

impl File {
    fn push(&mut self, author: Author, seq: u64) {
        match self.log.last_mut() {
            Some(last) if last.0 == author => last.1 = last.1.max(seq),
            _ => self.log.push((author, seq)),
        }
        if self.log.len() > LOG_LEN {
            self.log.remove(0);
        }
    }

    fn has_session_since(&self, seq: u64) -> bool {
        let is_session = |it: &&(Author, u64)| matches!(it.0, Author::Session { .. });
        self.log.iter().filter(is_session).any(|it| it.1 > seq)
    }

    /// Makes a change a human's that was taken for somebody else's.
    fn disown(&mut self, seq: u64) {
        if let Some(change) = self.log.iter_mut().find(|it| it.1 == seq) {
            change.0 = Author::Human;
        }
    }

    fn authors_since(&self, seq: u64) -> Vec<Author> {
        let mut authors = Vec::new();
        for (author, _) in self.log.iter().filter(|it| it.1 > seq) {
            if !authors.contains(author) {
                authors.push(author.clone());
            }
        }
        authors
    }
}

/// What is known of a call before it is known what it is about.
struct NewCall {
    id: CallId,
    connection: ConnectionId,
    turn: Option<u64>,
    progress: Option<Progress>,
}

impl NewCall {
    fn call(self, session: Option<(String, u64)>, keys: Vec<FileKey>, kind: CallKind) -> Call {
        Call {
            connection: self.connection,
            turn: self.turn,
            progress: self.progress,
            session,
            keys,
            kind,
        }
    }
}

/// A call under way.
#[derive(Debug)]
struct Call {
    connection: ConnectionId,
    /// The turn in which the model composed it.
    turn: Option<u64>,
    progress: Option<Progress>,
    /// The session and its epoch: a session opened again under the same id is another one.
    session: Option<(String, u64)>,
    /// The files in whose queues it is.
    keys: Vec<FileKey>,
    kind: CallKind,
}

/// How long a call takes before its progress is reported, in milliseconds.
const PROGRESS_AFTER_MS: Millis = 500;

/// Where the progress of a call is reported.
#[derive(Debug)]
struct Progress {
    token: Value,
    due: Millis,
    has_begun: bool,
}

#[derive(Debug)]
enum CallKind {
    Read(reads::ReadCall),
    Change(Box<changes::ChangeCall>),
    Ledger(ledgers::LedgerCall),
}

/// All state of the sidecar.
#[derive(Debug, Default)]
pub struct Workspace {
    client: Capabilities,
    options: ServerOptions,
    folders: Vec<Folder>,
    documents: BTreeMap<String, Document>,
    /// How many didOpen of each URI there have been.
    instances: BTreeMap<String, u32>,
    files: BTreeMap<FileKey, File>,
    sessions: BTreeMap<String, Session>,
    calls: BTreeMap<CallId, Call>,
    asks: BTreeMap<AskId, AskOwner>,
    jobs: BTreeMap<JobId, JobOwner>,
    alarms: BTreeSet<(Millis, Alarm)>,
    /// Calls that have come to the head of a queue.
    ready: BTreeSet<CallId>,
    /// Files whose content may have changed since ledgers were last told, with the text of closed ones.
    touched: BTreeMap<FileKey, Option<Looked>>,
    /// Files of which a session is told when its own change of them is done.
    withheld: BTreeMap<FileKey, Option<Looked>>,
    /// A batch has been asked for.
    is_telling: bool,
    /// A batch is being made elsewhere; the next one waits for it.
    batch_job: Option<JobId>,
    last_told: Millis,
    /// Counts content changes, of any file.
    seq: u64,
    next_id: u64,
    now: Millis,
    effects: Vec<Effect>,
}

impl Workspace {
    /// Takes one event, which happened at `now`, and returns what has to be done about it, in order.
    pub fn handle(&mut self, now: Millis, event: Event) -> Vec<Effect> {
        self.now = self.now.max(now);
        let next_alarm = self.next_alarm();
        // Whoever was to be woken is, and has to be told of the next time.
        let is_awake = matches!(event, Event::Tick);
        match event {
            Event::Started {
                client,
                options,
                folders,
            } => {
                self.client = client;
                self.options = options;
                self.folders = folders;
            }
            Event::Folders(folders) => self.folders = folders,
            Event::Opened {
                uri,
                key,
                lsp_version,
                text,
            } => self.opened(&uri, key, lsp_version, &text),
            Event::Changed {
                uri,
                lsp_version,
                changes,
            } => self.changed(&uri, lsp_version, changes),
            Event::ChangedUnknown => self.changed_unknown(),
            Event::Saved { uri } => self.saved(&uri),
            Event::Closed { uri } => self.closed(&uri),
            Event::State { state, key } => self.state(&state, key),
            Event::FilesChanged(keys) => self.files_changed(keys),
            Event::Call {
                id,
                connection,
                request,
                context,
                lookups,
            } => self.call(id, connection, request, context, &lookups),
            Event::Cancel(id) => self.cancel(id),
            Event::Answered { ask, answer } => self.answered(ask, answer),
            Event::Done { job, outcome } => self.done(job, outcome),
            Event::Tick => self.tick(),
            Event::Disconnected(connection) => self.disconnected(connection),
            Event::Ended => self.ended(),
        }
        while let Some(id) = self.ready.pop_first() {
            self.start_if_first(id);
        }
        if let Some(alarm) = self.next_alarm()
            && (is_awake || next_alarm.is_none_or(|it| alarm < it))
        {
            self.effects.push(Effect::Wake(alarm));
        }
        std::mem::take(&mut self.effects)
    }

    /// The paths that a request names and that have to be looked up on disk before it is handled.
    pub fn paths_of(&self, request: &Request) -> Vec<std::path::PathBuf> {
        let (session_id, names): (Option<&String>, Vec<&str>) = match request {
            Request::Read(params) => (params.session_id.as_ref(), vec![&params.path]),
            Request::Observe(params) => (Some(&params.session_id), vec![&params.path]),
            Request::Ledger(params) => {
                let names = params.path.iter().map(String::as_str);
                (Some(&params.session_id), names.collect())
            }
            Request::Forget(params) => {
                let names = params.paths.iter().flatten().map(String::as_str);
                (Some(&params.session_id), names.collect())
            }
            Request::Change { params, .. } => {
                let names = params.changes.iter().flat_map(|change| match change {
                    Change::Rename { path, new_path, .. } => vec![path.as_str(), new_path],
                    change => vec![change.path()],
                });
                (params.session_id.as_ref(), names.collect())
            }
            Request::OpenSession(params) => return self.imported_paths(params),
            Request::CloseSession(_) | Request::Sessions => (None, Vec::new()),
        };
        let session_id = session_id.map(String::as_str);
        let candidates = names
            .into_iter()
            .filter_map(|name| self.candidates(session_id, name).ok());
        let mut paths: Vec<_> = candidates.flat_map(|it| it.paths()).collect();
        if matches!(request, Request::Change { .. }) {
            paths.extend(self.options.containment.given(&self.folders));
        }
        paths
    }

    /// The number of calls that have not been answered.
    pub fn n_calls(&self) -> usize {
        self.calls.len()
    }

    fn candidates(&self, session_id: Option<&str>, name: &str) -> Result<Candidates, Failure> {
        let cwd = session_id.and_then(|it| self.sessions.get(it)?.cwd.as_deref());
        path::candidates(name, cwd, &self.folders, |uri| {
            self.document_uri(uri).is_some()
        })
    }

    /// Which file a name means, and its existence on disk when the call arrived.
    fn resolve(
        &self,
        session_id: Option<&str>,
        name: &str,
        lookups: &Lookups,
    ) -> Result<FileKey, Failure> {
        let candidates = self.candidates(session_id, name)?;
        // A link may name another file by now; what the editor opened by this name is what everybody means by it.
        if let Some(key) = self.open_by_path(&candidates) {
            return Ok(key);
        }
        candidates.pick(name, lookups, |key| self.document_of(key).is_some())
    }

    fn call(
        &mut self,
        id: CallId,
        connection: ConnectionId,
        request: Request,
        context: Context,
        lookups: &Lookups,
    ) {
        let progress = context.work_done_token.map(|token| Progress {
            token,
            due: self.now + PROGRESS_AFTER_MS,
            has_begun: false,
        });
        if let Some(progress) = &progress {
            self.alarms.insert((progress.due, Alarm::Call(id)));
        }
        let new = NewCall {
            id,
            connection,
            turn: context.turn,
            progress,
        };
        let result = match request {
            Request::CloseSession(params) => self.close_session(connection, &params).map(Some),
            Request::Sessions => Ok(Some(self.list_sessions(connection))),
            Request::Forget(params) => self.forget(connection, &params, lookups).map(Some),
            _ if self.calls.len() >= self.options.limits.pending => {
                let what = format!("{} calls are waiting already", self.calls.len());
                Err(FsError::new(Code::FsBusy, what, "retry later").into())
            }
            Request::OpenSession(params) => self.open_session(new, params, lookups),
            Request::Ledger(params) => self.ledger(new, &params, lookups),
            Request::Observe(params) => self.observe(new, params, lookups),
            Request::Read(params) => self.read(new, params, lookups),
            Request::Change { params, is_apply } => self.change(new, params, is_apply, lookups),
        };
        match result {
            Ok(Some(answer)) => self.effects.push(Effect::Reply {
                id,
                result: Ok(answer),
            }),
            Ok(None) => {}
            Err(failure) => self.effects.push(Effect::Reply {
                id,
                result: Err(failure),
            }),
        }
    }

    /// Puts a call into the queues of its files.
    fn enqueue(&mut self, id: CallId, call: Call) {
        for key in &call.keys {
            let queue = &mut self.files.entry(key.clone()).or_default().queue;
            if broken!(QueueSwapped) {
                queue.push_front(id);
            } else {
                queue.push_back(id);
            }
        }
        self.calls.insert(id, call);
    }

    /// Answers a call and lets those go on that waited for it.
    fn finish(&mut self, id: CallId, call: &Call, result: Result<Answer, Failure>) {
        if let Some(Progress {
            token,
            has_begun: true,
            ..
        }) = &call.progress
        {
            let params = json!({ "token": token, "value": { "kind": "end" } });
            self.effects.push(Effect::Notify {
                method: "$/progress",
                params,
            });
        }
        self.effects.push(Effect::Reply { id, result });
        self.leave(id, call);
    }

    /// Takes a call out of its queues; what waited for it starts when the event at hand has been dealt with.
    fn leave(&mut self, id: CallId, call: &Call) {
        for key in &call.keys {
            if let Some(file) = self.files.get_mut(key) {
                file.queue.retain(|&it| it != id);
                file.waiting.remove(&id);
                let next = file.queue.front();
                self.ready.extend(next.filter(|_| !broken!(NextForgotten)));
            }
            if let Some(looked) = self.withheld.remove(key)
                && !self.touched.contains_key(key)
            {
                self.touch(key, looked);
            }
            self.look_now(key);
        }
    }

    fn aborted(reason: &str) -> Failure {
        FsError::new(Code::FsAborted, reason, "").into()
    }

    fn cancel(&mut self, id: CallId) {
        let Some(call) = self.calls.remove(&id) else {
            return;
        };
        if let CallKind::Change(change) = &call.kind {
            if change.is_sent && !broken!(CancelledTooLate) {
                self.calls.insert(id, call);
                return;
            }
            self.abort_staged(change);
        }
        self.finish(
            id,
            &call,
            Err(Self::aborted(
                "the call was cancelled before it changed anything",
            )),
        );
        if let CallKind::Ledger(ledger) = &call.kind
            && ledger.is_import()
            && let Some(session) = self.live_session(call.session.as_ref())
        {
            // It was opened by this call, and nobody has been told.
            let session_id = session.id.clone();
            self.drop_session(&session_id);
        }
    }

    fn disconnected(&mut self, connection: ConnectionId) {
        let own = self
            .sessions
            .values()
            .filter(|it| it.connection == connection)
            .map(|it| it.id.clone());
        for session_id in own.collect::<Vec<_>>() {
            self.drop_session(&session_id);
        }
        let calls: Vec<_> = self
            .calls
            .iter()
            .filter(|it| it.1.connection == connection)
            .map(|it| *it.0)
            .collect();
        for id in calls {
            self.cancel(id);
        }
    }

    fn ended(&mut self) {
        for uri in self.documents.keys().cloned().collect::<Vec<_>>() {
            self.closed(&uri);
        }
        for ask in self.asks.keys().copied().collect::<Vec<_>>() {
            self.answered(ask, Err("the editor is gone".to_string()));
        }
        self.disconnected(ConnectionId::EDITOR);
    }

    fn answered(&mut self, ask: AskId, answer: Result<Value, String>) {
        match self.asks.remove(&ask) {
            Some(AskOwner::Call(id)) => self.call_answered(id, ask, answer),
            Some(AskOwner::Probe(uris)) => self.probe_answered(&uris, answer),
            // An answer to nothing, or to a call that has been answered: settles an edit of unknown outcome, if any.
            None => self.late_answer(ask, answer),
        }
    }

    fn done(&mut self, job: JobId, outcome: Outcome) {
        match (self.jobs.remove(&job), outcome) {
            (Some(JobOwner::Call(id)), outcome) => self.call_done(id, job, outcome),
            (Some(JobOwner::Opened { uri, instance }), Outcome::Looked(looked)) => {
                self.looked_after_open(&uri, instance, &looked);
            }
            (
                Some(JobOwner::File {
                    key,
                    closed_at,
                    since,
                }),
                Outcome::Looked(looked),
            ) => self.looked_at_file(key, closed_at, since, looked),
            (Some(JobOwner::Telling), Outcome::Status(told)) => self.tell_made(job, told),
            (
                Some(JobOwner::Settling {
                    uri,
                    ask,
                    generation,
                }),
                Outcome::Judged(verdicts),
            ) => self.settled(&uri, ask, generation, &verdicts),
            (_, _) => {}
        }
    }

    fn call_done(&mut self, id: CallId, job: JobId, outcome: Outcome) {
        let Some(call) = self.calls.remove(&id) else {
            if matches!(outcome, Outcome::Staged(Ok(_))) {
                self.abort_orphan(job);
            }
            return;
        };
        match &call.kind {
            CallKind::Read(_) => self.read_done(id, call, job, outcome),
            CallKind::Change(_) => self.change_done(id, call, job, outcome),
            CallKind::Ledger(_) => self.ledger_done(id, call, job, outcome),
        }
    }

    fn call_answered(&mut self, id: CallId, ask: AskId, answer: Result<Value, String>) {
        let Some(call) = self.calls.remove(&id) else {
            return;
        };
        match &call.kind {
            CallKind::Read(_) => self.read_answered(id, call, answer),
            CallKind::Change(_) => self.change_answered(id, call, ask, answer),
            CallKind::Ledger(_) => {
                self.calls.insert(id, call);
            }
        }
    }

    fn tick(&mut self) {
        while let Some(&(at, alarm)) = self.alarms.first()
            && at <= self.now
        {
            self.alarms.remove(&(at, alarm));
            match alarm {
                Alarm::Batch => self.tell_touched(),
                Alarm::Call(id) => self.poke(id),
            }
        }
    }

    /// Lets a call look whether what it waits for has come, or its time is over.
    fn poke(&mut self, id: CallId) {
        let Some(mut call) = self.calls.remove(&id) else {
            return;
        };
        self.report_progress(&mut call);
        match &call.kind {
            CallKind::Read(_) => self.go_on_reading(id, call),
            CallKind::Change(_) => self.go_on_changing(id, call),
            CallKind::Ledger(_) => {
                self.calls.insert(id, call);
            }
        }
    }

    fn report_progress(&mut self, call: &mut Call) {
        let Some(progress) = &mut call.progress else {
            return;
        };
        if progress.has_begun || self.now < progress.due {
            return;
        }
        progress.has_begun = true;
        let title = match call.kind {
            CallKind::Read(_) => "Reading",
            CallKind::Change(_) => "Changing files",
            CallKind::Ledger(_) => "Looking at files",
        };
        let value = json!({ "kind": "begin", "title": title });
        self.effects.push(Effect::Notify {
            method: "$/progress",
            params: json!({ "token": progress.token, "value": value }),
        });
    }

    /// Lets the calls that wait for something to happen to a file look whether it has.
    fn poke_all(&mut self, key: &FileKey) {
        let Some(file) = self.files.get_mut(key) else {
            return;
        };
        for id in std::mem::take(&mut file.waiting) {
            self.poke(id);
        }
    }

    fn wait_for(&mut self, key: &FileKey, id: CallId) {
        self.files
            .entry(key.clone())
            .or_default()
            .waiting
            .insert(id);
    }

    fn next_alarm(&self) -> Option<Millis> {
        self.alarms.first().map(|it| it.0)
    }

    fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn ask(&mut self, owner: AskOwner, method: &'static str, params: Value) -> AskId {
        let ask = AskId(self.new_id());
        self.asks.insert(ask, owner);
        self.effects.push(Effect::Ask {
            ask,
            method,
            params,
        });
        ask
    }

    fn start(&mut self, owner: JobOwner, work: Work) -> JobId {
        let job = JobId(self.new_id());
        self.jobs.insert(job, owner);
        self.effects.push(Effect::Start { job, work });
        job
    }

    /// Computes at once if that is quick, else elsewhere; then the outcome comes as an event.
    fn compute(&mut self, owner: JobOwner, compute: Compute) -> Result<Outcome, JobId> {
        if !is_large(compute.cost()) {
            return Ok(compute.run());
        }
        Err(self.start(owner, Work::Compute(Box::new(compute))))
    }

    fn look(&mut self, owner: JobOwner, key: FileKey, like: Option<Text>) -> JobId {
        let limit_bytes = self.options.limits.file_bytes;
        self.start(
            owner,
            Work::Look {
                key,
                limit_bytes,
                like,
            },
        )
    }

    fn log(&mut self, level: tracing::Level, message: String) {
        self.effects.push(Effect::Log { level, message });
    }
}
