//! The life of a call that changes files: queues, barrier and looks, plan, stage, editor, commit, reply.
//!
//! Invariant: a call is planned only at the head of the queues of *all* its files, on what they hold then; it is sent or
//! committed only if they still hold that; and it is answered once. Its commit point is the first `applyEdit` sent or
//! the disk commit granted: before it a cancel takes back everything, after it nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use super::{
    Answer, AskId, Call, CallId, CallKind, Compute, Effect, JobId, JobOwner, Looked, Millis,
    NewCall, Outcome, Work, Workspace,
    barrier::{Barrier, EDIT_BARRIER_MS},
    containing::Targets,
    editing::Editing,
    reads::desynced,
    rollback::{Reckoning, Rollback, Undoing},
    storing::Showing,
};
use crate::{
    containment::Roots,
    disk::{DiskChange, DiskError, DiskErrorKind},
    error::{Code, Failure, FsError},
    ledger::{Entry, Observation},
    path::{FileKey, Lookups},
    plan::{Content, FileInput, FilePlan, Place, Plan, PlanJob, Step},
    protocol::{ApplyParams, ApplyResult, Author, Change, Operation, Rules, Status, Via},
    text::Text,
};

/// How often a call is planned again because something moved that does not concern its guards.
pub(super) const RETRIES: u32 = 3;
/// Within this time of its start the edits of a call are sent for the last time, so that it is answered within 8 s.
const SEND_WITHIN_MS: Millis = 3000;

/// When a call has its answer at the latest, unless what was done has to be taken back.
const ANSWER_MS: Millis = 8000;

/// A call that changes files.
#[derive(Debug)]
pub(super) struct ChangeCall {
    pub(super) steps: Vec<Step>,
    /// The files of the call; the steps name them by index.
    pub(super) keys: Vec<FileKey>,
    /// Below which directories files may be changed.
    pub(super) roots: Roots,
    rules: Rules,
    dry_run: bool,
    pub(super) is_apply: bool,
    pub(super) call_id: Option<String>,
    pub(super) label: Option<String>,
    started: Option<Millis>,
    attempts: u32,
    /// Past the commit point: an edit was sent or a commit granted, whatever came of it.
    pub(super) is_sent: bool,
    pub(super) phase: Phase,
    pub(super) plan: Plan,
    /// The documents as they were planned on: URI, instance, generation.
    pub(super) marks: Vec<(String, u32, u64)>,
    /// Files taken for what the session saw last, without a look: the disk compares them before it changes anything.
    /// None: that did not hold, or nothing would be compared; so all are looked at.
    remembered: Option<BTreeSet<usize>>,
    /// The job that staged the changes of closed files; they have to be committed or aborted.
    pub(super) staged: Option<JobId>,
    /// When each file of the plan came to hold what was planned, in the workspace's sequence.
    pub(super) done_at: BTreeMap<usize, u64>,
    /// Files whose new text was in a document since their commit was granted.
    pub(super) shown: BTreeSet<usize>,
    /// Once the disk has taken back what it could of a commit: the files that the editor opened since it was granted, and
    /// that may show what was taken back.
    pub(super) opened: Option<BTreeSet<usize>>,
    /// It cannot be done as a whole, and is being taken back.
    pub(super) rollback: Option<Box<Rollback>>,
}

#[derive(Debug)]
pub(super) enum Phase {
    Queued,
    Gathering(Gathering),
    Planning,
    Staging,
    Editing(Box<Editing>),
    /// The job that commits.
    Committing(JobId),
    /// Committed on disk, but the editor opened a file meanwhile.
    Showing(Showing),
    Undoing(Undoing),
    Reckoning(Reckoning),
}

/// What a plan needs and does not have yet.
#[derive(Debug)]
pub(super) struct Gathering {
    barrier: Option<Barrier>,
    looks: BTreeMap<JobId, usize>,
    looked: Vec<Option<Looked>>,
}

impl ChangeCall {
    /// How long the call may still wait for a barrier.
    pub(super) fn barrier_ms(&self, now: Millis) -> Millis {
        let until = self.started.unwrap_or(now) + ANSWER_MS;
        EDIT_BARRIER_MS.min(until.saturating_sub(now))
    }

    /// Whether some of its files were taken from memory.
    fn remembers(&self) -> bool {
        self.remembered.as_ref().is_some_and(|it| !it.is_empty())
    }

    /// True while something of the call is out and may take effect.
    pub(super) fn is_out(&self) -> bool {
        matches!(
            self.phase,
            Phase::Editing(_)
                | Phase::Committing(_)
                | Phase::Showing(_)
                | Phase::Undoing(_)
                | Phase::Reckoning(_)
        )
    }

    /// The verb and the path for messages about a file of the plan.
    pub(super) fn named(&self, plan_idx: usize) -> (&'static str, &str) {
        let plan = &self.plan.files[plan_idx];
        let step = self
            .steps
            .iter()
            .find(|it| it.file == plan.file || it.new_file == Some(plan.file));
        (
            step.map_or("edit", |it| it.change.verb()),
            &plan.result.path,
        )
    }
}

/// Why a file that an editor shows is not deleted or renamed.
pub(super) fn open() -> FsError {
    let remedy = "close it in the editor, or ask the user to";
    FsError::new(Code::FsOpen, "it is open in the editor", remedy)
}

/// Why a file is not changed that an editor shows and does not sync.
pub(super) fn unsynced() -> FsError {
    let what = "the editor has it open without sending its text";
    let remedy = "close it in the editor, or ask the user to";
    FsError::new(Code::FsOpen, what, remedy)
}

impl Workspace {
    pub(super) fn change(
        &mut self,
        new: NewCall,
        params: ApplyParams,
        is_apply: bool,
        lookups: &Lookups,
    ) -> Result<Option<Answer>, Failure> {
        let member = |idx: usize, name: &str| {
            if is_apply {
                format!("changes[{idx}].{name}")
            } else {
                name.to_string()
            }
        };
        if params.changes.is_empty() {
            return Err(Failure::params("changes: must not be empty"));
        }
        for (idx, change) in params.changes.iter().enumerate() {
            if matches!(change, Change::Edit { old_string, .. } if old_string.is_empty()) {
                return Err(Failure::params(format!(
                    "{}: must not be empty",
                    member(idx, "oldString")
                )));
            }
        }
        for (idx, change) in params.changes.iter().enumerate() {
            let (name, text) = match change {
                Change::Edit { new_string, .. } => ("newString", new_string),
                Change::Write { content, .. } => ("content", content),
                Change::Delete { .. } | Change::Rename { .. } => continue,
            };
            if text.contains('\0') {
                let what =
                    "must not contain a NUL character: the file could not be read as text again";
                return Err(Failure::params(format!("{}: {what}", member(idx, name))));
            }
        }
        let session = match &params.session_id {
            Some(session_id) => Some(self.own_session(new.connection, session_id)?),
            None => None,
        };
        let rules = session.map_or(self.options.rules, |it| it.rules);
        let session = session.map(|it| (it.id.clone(), it.epoch));
        let Targets { steps, keys, roots } = self.targets(
            params.session_id.as_deref(),
            params.changes,
            is_apply,
            lookups,
        )?;
        let call = ChangeCall {
            steps,
            keys: keys.clone(),
            roots,
            rules,
            dry_run: params.dry_run,
            is_apply,
            call_id: params.call_id,
            label: params.label,
            started: None,
            attempts: 0,
            is_sent: false,
            phase: Phase::Queued,
            plan: Plan {
                files: Vec::new(),
                versions: Vec::new(),
            },
            marks: Vec::new(),
            remembered: (!params.dry_run).then(BTreeSet::new),
            staged: None,
            done_at: BTreeMap::new(),
            shown: BTreeSet::new(),
            opened: None,
            rollback: None,
        };
        let id = new.id;
        let call = new.call(session, keys, CallKind::Change(Box::new(call)));
        self.enqueue(id, call);
        self.start_if_first(id);
        Ok(None)
    }

    /// Starts a call if it is at the head of all its queues.
    pub(super) fn start_if_first(&mut self, id: CallId) {
        let Some(call) = self.calls.get(&id) else {
            return;
        };
        let CallKind::Change(change) = &call.kind else {
            return;
        };
        let is_first = |key: &FileKey| {
            self.files
                .get(key)
                .is_some_and(|it| it.queue.front() == Some(&id))
        };
        let is_first = call.keys.iter().all(is_first) || broken!(GuardBeforeQueue);
        if !matches!(change.phase, Phase::Queued) || !is_first {
            return;
        }
        if let Some(call) = self.calls.remove(&id) {
            self.gather(id, call);
        }
    }

    /// Asks for what a plan needs: a barrier for the open documents, a look at the closed files.
    pub(super) fn gather(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let started = *change.started.get_or_insert(self.now);
        let wait_ms = EDIT_BARRIER_MS.min((started + SEND_WITHIN_MS).saturating_sub(self.now));
        let keys = change.keys.clone();
        let uris = keys
            .iter()
            .filter_map(|key| Some(self.document_of(key)?.0.to_string()))
            .collect();
        let barrier = self.barrier(id, uris, wait_ms);
        change.phase = Phase::Gathering(Gathering {
            barrier,
            looks: BTreeMap::new(),
            looked: vec![None; keys.len()],
        });
        self.go_on_changing(id, call);
    }

    /// Plans again from the start, if that has not been tried too often and the session is still open; else gives the call back.
    pub(super) fn retry(&mut self, id: CallId, mut call: Call) -> Result<(), Call> {
        let CallKind::Change(change) = &mut call.kind else {
            return Err(call);
        };
        let is_late = change
            .started
            .is_some_and(|it| self.now >= it + SEND_WITHIN_MS);
        // With the session went what it had seen: nothing is left to plan by.
        let is_closed = self.is_closed(call.session.as_ref());
        let is_tired = change.attempts >= RETRIES && !change.remembers();
        if is_tired || is_late || is_closed {
            return Err(call);
        }
        if !change.remembers() {
            change.attempts += 1;
        }
        change.remembered = None;
        change.done_at.clear();
        change.shown.clear();
        change.opened = None;
        self.gather(id, call);
        Ok(())
    }

    pub(super) fn change_answered(
        &mut self,
        id: CallId,
        mut call: Call,
        ask: AskId,
        answer: Result<Value, String>,
    ) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        match &mut change.phase {
            Phase::Gathering(Gathering {
                barrier: Some(barrier),
                ..
            }) => {
                self.barrier_answered(barrier, answer);
            }
            Phase::Editing(editing) => self.edit_answered(editing, ask, answer),
            Phase::Showing(showing) => {
                if let Some(barrier) = &mut showing.barrier {
                    self.barrier_answered(barrier, answer);
                }
            }
            _ => {}
        }
        self.go_on_changing(id, call);
    }

    pub(super) fn change_done(&mut self, id: CallId, mut call: Call, job: JobId, outcome: Outcome) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        match (&mut change.phase, outcome) {
            (Phase::Gathering(gathering), Outcome::Looked(looked)) => {
                if let Some(file) = gathering.looks.remove(&job) {
                    self.learn(&change.keys[file], &looked);
                    gathering.looked[file] = Some(looked);
                }
                if gathering.looks.is_empty() {
                    self.go_on_changing(id, call);
                } else {
                    // It stays parked; going through all of its files after each of them would take for ever.
                    self.calls.insert(id, call);
                }
            }
            (Phase::Planning, Outcome::Plan(plan)) => self.planned(id, call, plan),
            (Phase::Staging, Outcome::Staged(staged)) => self.staged(id, call, job, staged),
            (Phase::Committing(_), Outcome::Committed(committed)) => {
                self.committed(id, call, committed);
            }
            (Phase::Editing(_), Outcome::Judged(verdicts)) => {
                self.judged_elsewhere(id, call, job, &verdicts);
            }
            (Phase::Undoing(_), Outcome::Undo(undos)) => self.undo_known(id, call, undos),
            (Phase::Reckoning(_), Outcome::Looked(looked)) => {
                self.reckoned(id, call, job, looked);
            }
            _ => {
                self.calls.insert(id, call);
            }
        }
    }

    /// Looks whether what the call waits for has come.
    pub(super) fn go_on_changing(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        match &mut change.phase {
            Phase::Gathering(_) => self.go_on_gathering(id, call),
            Phase::Editing(_) => self.go_on_editing(id, call),
            Phase::Showing(_) => self.go_on_showing(id, call),
            Phase::Queued
            | Phase::Planning
            | Phase::Staging
            | Phase::Committing(_)
            | Phase::Undoing(_)
            | Phase::Reckoning(_) => {
                self.calls.insert(id, call);
            }
        }
    }

    /// Keeps a call until something happens to one of its files.
    pub(super) fn park(&mut self, id: CallId, call: Call) {
        for key in &call.keys {
            self.wait_for(key, id);
        }
        self.calls.insert(id, call);
    }

    fn go_on_gathering(&mut self, id: CallId, mut call: Call) {
        let session = call.session.as_ref();
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Gathering(gathering) = &mut change.phase else {
            return;
        };
        let mut is_waiting = gathering
            .barrier
            .as_mut()
            .is_some_and(|it| !self.is_over(it));
        let looking: BTreeSet<usize> = gathering.looks.values().copied().collect();
        for (idx, key) in change.keys.iter().enumerate() {
            if let Some((_, document)) = self.document_of(key) {
                is_waiting |= document.is_checking || document.is_settling;
            } else if gathering.looked[idx].is_none() && !looking.contains(&idx) {
                if let Some(remembered) = &mut change.remembered
                    && let Some(looked) = self.remembered(session, call.turn, key)
                {
                    remembered.insert(idx);
                    gathering.looked[idx] = Some(looked);
                } else if matches!(key, FileKey::Path(_)) {
                    let job = self.look(JobOwner::Call(id), key.clone(), None);
                    gathering.looks.insert(job, idx);
                } else {
                    let detail = "it is no longer open in the editor".to_string();
                    let err = DiskError {
                        kind: DiskErrorKind::NotFound,
                        detail,
                    };
                    gathering.looked[idx] = Some(Looked::Refused(err));
                }
            }
        }
        is_waiting |= !gathering.looks.is_empty();
        if is_waiting {
            self.park(id, call);
            return;
        }
        if let Some(barrier) = gathering.barrier.take() {
            self.asks.remove(&barrier.ask);
            if !barrier.behind {
                for key in &change.keys {
                    if let Some(uri) = self.document_of(key).map(|it| it.0.to_string()) {
                        self.settle(&uri);
                    }
                }
                let is_settling =
                    |key: &FileKey| self.document_of(key).is_some_and(|it| it.1.is_settling);
                if change.keys.iter().any(is_settling) {
                    self.park(id, call);
                    return;
                }
            }
        }
        let looked = std::mem::take(&mut gathering.looked);
        if let Err(err) = self.require_still_contained(change) {
            self.finish(id, &call, Err(Failure::Fs(err)));
            return;
        }
        let (job, marks) = self.plan_job(change, call.session.as_ref(), call.turn, looked);
        change.marks = marks;
        change.phase = Phase::Planning;
        match self.compute(JobOwner::Call(id), Compute::Plan(job)) {
            Ok(Outcome::Plan(plan)) => self.planned(id, call, plan),
            _ => {
                self.calls.insert(id, call);
            }
        }
    }

    /// A closed file as the session saw it last, unless it is known to be another one now.
    fn remembered(
        &self,
        session: Option<&(String, u64)>,
        turn: Option<u64>,
        key: &FileKey,
    ) -> Option<Looked> {
        let entry = self.session_of(session)?.ledger.authority(key, turn)?;
        let Observation::Present(version) = entry.observation else {
            return None;
        };
        let file = self.files.get(key)?;
        if file.unsynced.is_some() || file.disk != Some(entry.observation) {
            return None;
        }
        // A buffer may have other line ends than the file.
        let text = entry.snapshot.clone();
        let text = text.filter(|it| matches!(it, Text::Flat(_)))?;
        Some(Looked::Text {
            text,
            version,
            alike: false,
        })
    }

    /// Whether the disk will compare all files of the plan that nobody has looked at.
    fn is_compared(change: &ChangeCall, plan: &Plan) -> bool {
        if !change.remembers() {
            return true;
        }
        let steps = Self::disk_changes(plan);
        let compared: BTreeSet<&Path> = steps.iter().filter_map(DiskChange::compared).collect();
        let is_compared = |idx: &usize| match &change.keys[*idx] {
            FileKey::Path(path) => compared.contains(path.as_path()),
            FileKey::Uri(_) => false,
        };
        change.remembered.iter().flatten().all(is_compared)
    }

    /// Takes a snapshot of everything that the plan depends on.
    fn plan_job(
        &mut self,
        change: &ChangeCall,
        session: Option<&(String, u64)>,
        turn: Option<u64>,
        looked: Vec<Option<Looked>>,
    ) -> (PlanJob, Vec<(String, u32, u64)>) {
        let mut marks = Vec::new();
        let mut files = Vec::with_capacity(looked.len());
        for (key, looked) in change.keys.iter().zip(looked) {
            let entry = self
                .session_of(session)
                .and_then(|it| it.ledger.authority(key, turn).cloned());
            let file = self.files.get(key);
            let changed_by = entry
                .as_ref()
                .and_then(|it| Some(file?.authors_since(it.seq)))
                .unwrap_or_default();
            let is_unsynced = file.is_some_and(|it| it.unsynced.is_some());
            let input = if let Some((uri, document)) = self.document_of(key) {
                marks.push((uri.to_string(), document.instance, document.generation));
                FileInput {
                    key: key.clone(),
                    uri: uri.to_string(),
                    place: Place::Editor(document.buffer.clone()),
                    content: Content::Text(document.text(), document.version),
                    entry,
                    changed_by,
                    obstacle: self.obstacle(key, marks.len()),
                    is_open: true,
                }
            } else {
                let content = match looked {
                    Some(Looked::Text { text, version, .. }) => Content::Text(text, Some(version)),
                    Some(Looked::Refused(err)) => Content::Refused(err),
                    Some(Looked::Absent { .. }) | None => Content::Absent,
                };
                let obstacle = is_unsynced.then(unsynced);
                FileInput {
                    key: key.clone(),
                    uri: key.uri(),
                    place: Place::Disk,
                    content,
                    entry,
                    changed_by,
                    obstacle,
                    is_open: is_unsynced,
                }
            };
            files.push(input);
        }
        let job = PlanJob {
            steps: change.steps.clone(),
            files,
            has_session: session.is_some(),
            rules: change.rules,
            limits: self.options.limits,
            encoding: self.client.encoding,
            is_apply: change.is_apply,
        };
        (job, marks)
    }

    /// Why the open document cannot be changed, whatever it holds; `nth`: which open document of the call it is.
    fn obstacle(&self, key: &FileKey, nth: usize) -> Option<FsError> {
        let (uri, document) = self.document_of(key)?;
        let unsupported = |what: &str| {
            let remedy =
                "install the Abreast plugin for this editor, or close the file in the editor";
            Some(FsError::new(Code::FsUnsupportedClient, what, remedy))
        };
        if !self.client.strict {
            if !self.options.trust_client || !self.client.apply_edit {
                return unsupported("it is open in an editor that cannot refuse a stale edit");
            }
            if nth > 1 && !self.client.transactional {
                return unsupported(
                    "it is the second open document of the call, and this editor cannot change several as one",
                );
            }
        }
        if document.is_unknown() {
            return Some(desynced("its text is not known"));
        }
        if document.unknown.as_ref().is_some_and(|it| !it.is_settled) {
            let what = "the editor has not answered an earlier edit, which may still happen";
            let remedy = "the editor waits for the user: ask them, then read and retry";
            return Some(FsError::new(Code::FsEditorTimeout, what, remedy));
        }
        if document.read_only {
            let what = "the editor's buffer is read-only";
            return Some(FsError::new(
                Code::FsReadOnly,
                what,
                "ask the user to make it writable",
            ));
        }
        let others = self
            .files
            .get(key)
            .into_iter()
            .flat_map(|it| &it.uris)
            .filter(|it| *it != uri);
        let mut others = others.filter_map(|it| self.documents.get(it));
        if document.conflict || others.any(|it| !it.text().same(&document.text())) {
            let (what, remedy) = match (document.conflict, document.dirty) {
                (true, true) => (
                    "it has unsaved changes, and the file on disk is newer",
                    "ask the user to resolve it, by writing the buffer or by reloading the file",
                ),
                (true, false) => (
                    "the file on disk is newer than the editor's buffer",
                    "ask the user to reload it in the editor",
                ),
                (false, _) => (
                    "the editor shows it twice, with different texts",
                    "ask the user to resolve it",
                ),
            };
            return Some(FsError::new(Code::FsConflict, what, remedy));
        }
        document.has_undecodable().then(|| {
            let what =
                "its text has U+FFFD for bytes that are not UTF-8, which saving would destroy";
            FsError::new(
                Code::FsNotText,
                what,
                "open it in the editor with the right encoding",
            )
        })
    }

    fn planned(&mut self, id: CallId, mut call: Call, plan: Result<Plan, Box<FsError>>) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let is_founded = match &plan {
            Ok(plan) => Self::is_compared(change, plan),
            Err(_) => !change.remembers(),
        };
        if !is_founded {
            change.remembered = None;
            self.gather(id, call);
            return;
        }
        let plan = match plan {
            Ok(plan) => plan,
            Err(err) => {
                self.finish(id, &call, Err(Failure::Fs(err)));
                return;
            }
        };
        let is_current = self.is_as_planned(&change.marks) || broken!(PlanMayBeOld);
        for (file, version) in &plan.versions {
            let Some(uri) = self
                .document_of(&change.keys[*file])
                .map(|it| it.0.to_string())
            else {
                continue;
            };
            let mark = change.marks.iter().find(|it| it.0 == uri);
            if let Some(document) = self.documents.get_mut(&uri)
                && mark.is_some_and(|it| it.2 == document.generation)
            {
                document.version = Some(*version);
            }
        }
        change.plan = plan;
        if change.dry_run && !broken!(DryRunIsRun) {
            let files = change
                .plan
                .files
                .iter()
                .map(|it| it.result.clone())
                .collect();
            self.finish(
                id,
                &call,
                Ok(Answer::Applied(ApplyResult {
                    files,
                    dry_run: true,
                })),
            );
        } else if !is_current {
            self.retry_or_refuse(id, call);
        } else {
            self.carry_out(id, call);
        }
    }

    /// True if the documents still hold what was planned on.
    pub(super) fn is_as_planned(&self, marks: &[(String, u32, u64)]) -> bool {
        marks.iter().all(|(uri, instance, generation)| {
            self.documents
                .get(uri)
                .is_some_and(|it| it.instance == *instance && it.generation == *generation)
        })
    }

    /// Plans again, or says that the document would not hold still.
    pub(super) fn retry_or_refuse(&mut self, id: CallId, call: Call) {
        let Err(call) = self.retry(id, call) else {
            return;
        };
        let CallKind::Change(change) = &call.kind else {
            return;
        };
        let (verb, path) = change.named(0);
        let uri = change.plan.files.first().map_or("", |it| &it.result.uri);
        let why = "the document kept changing while the edit was under way";
        let what = format!("cannot {verb} \"{path}\": {why}");
        let err =
            FsError::new(Code::FsEditorRejected, what, "read it again, then retry").at(path, uri);
        self.finish(id, &call, Err(err.into()));
    }

    /// Stages the changes of closed files, then has the editor change the open ones, then commits.
    fn carry_out(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let changes = Self::disk_changes(&change.plan);
        if changes.is_empty() {
            self.edit_or_commit(id, call);
            return;
        }
        change.phase = Phase::Staging;
        self.start(JobOwner::Call(id), Work::Stage { changes });
        self.calls.insert(id, call);
    }

    /// Everything is prepared and as it was planned on.
    pub(super) fn edit_or_commit(&mut self, id: CallId, call: Call) {
        let CallKind::Change(change) = &call.kind else {
            return;
        };
        let plans = &change.plan.files;
        let is_edited = plans
            .iter()
            .any(|it| it.result.via == Via::Editor && !it.is_noop());
        if is_edited && !(broken!(CommitBeforeEditor) && change.staged.is_some()) {
            self.send(id, call);
        } else {
            self.commit(id, call);
        }
    }

    /// Takes back what was staged.
    pub(super) fn abort_staged(&mut self, change: &ChangeCall) {
        if let Some(staged) = change.staged
            && !broken!(StagedStays)
        {
            let job = JobId(self.new_id());
            self.effects.push(Effect::Start {
                job,
                work: Work::Abort { staged },
            });
        }
    }

    pub(super) fn author_of(&self, id: CallId) -> Author {
        Self::session_author(self.calls.get(&id).and_then(|it| it.session.as_ref()))
    }

    /// The changes are made and verified: the ledger gets the result, the caller the answer.
    pub(super) fn succeed(&mut self, id: CallId, call: &Call) {
        let CallKind::Change(change) = &call.kind else {
            return;
        };
        for from in change
            .plan
            .files
            .iter()
            .filter_map(|it| it.renamed_from.as_ref())
        {
            if let Some(session) = self.live_session(call.session.as_ref()) {
                session.ledger.remove(from);
            }
        }
        let mut files = Vec::with_capacity(change.plan.files.len());
        for (idx, plan) in change.plan.files.iter().enumerate() {
            let mut result = plan.result.clone();
            if broken!(VersionOfLaterLook) {
                result.version = self.document_version(&result.uri).or(result.version);
            }
            if result.via == Via::Editor {
                result.dirty = self.document_of(&plan.key).map(|it| it.1.dirty);
            }
            files.push(result);
            let unchanged_at = || {
                change
                    .marks
                    .iter()
                    .find(|it| it.0 == plan.result.uri)
                    .map(|it| it.2)
            };
            let seq = change
                .done_at
                .get(&idx)
                .copied()
                .or_else(unchanged_at)
                .unwrap_or(self.seq);
            self.observe_result(call, plan, seq);
        }
        self.finish(
            id,
            call,
            Ok(Answer::Applied(ApplyResult {
                files,
                dry_run: false,
            })),
        );
    }

    pub(super) fn observe_result(&mut self, call: &Call, plan: &FilePlan, seq: u64) {
        let Some(session) = self.live_session(call.session.as_ref()) else {
            return;
        };
        let observation = match (plan.operation, plan.result.version) {
            (Operation::Delete, _) | (_, None) => Observation::Absent,
            (_, Some(version)) => Observation::Present(version),
        };
        let entry = Entry {
            observation,
            path: plan.result.path.clone(),
            seq,
            snapshot: plan.after.clone(),
            shown: plan.shown.clone(),
            told: Some(Status::Fresh),
            turn: None,
        };
        session.ledger.observe(plan.key.clone(), entry);
        // Whatever a human did meanwhile is told with the next batch.
        self.touch(&plan.key, None);
    }
}
