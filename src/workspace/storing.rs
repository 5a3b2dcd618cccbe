//! The part of a call that happens on disk: staging, the grant, the commit.
//!
//! Invariant: a commit is granted only if no document that shows one of its files was opened since it was planned. A
//! document that goes away with what the same call changed in it, before the commit is done, takes the commit with it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
};

use super::{
    Call, CallId, CallKind, Effect, JobId, JobOwner, Millis, Work, Workspace,
    barrier::{Barrier, EDIT_BARRIER_MS},
    changes::{ChangeCall, Phase, open, unsynced},
};
use crate::{
    disk::{DiskChange, DiskErrorKind, DiskFailure},
    error::FsError,
    ledger::Observation,
    path::FileKey,
    plan::{FilePlan, Plan, stale},
    protocol::{Operation, Via},
    text::Text,
};

/// Waiting for the editor to show what was committed to a file that it opened meanwhile.
#[derive(Debug)]
pub(super) struct Showing {
    pub(super) barrier: Option<Barrier>,
    deadline: Millis,
}

/// A closed file that gets another name.
struct Move {
    /// The index in the plan of the file under which it is told.
    teller: usize,
    from: PathBuf,
    to: PathBuf,
    text: Text,
}

impl Workspace {
    /// The changes of closed files, in an order in which they can be made; each with its index in the plan.
    fn disk_steps(plan: &Plan) -> Vec<(usize, DiskChange)> {
        let moves = Self::moves(plan);
        let sources: HashSet<&Path> = moves.iter().map(|it| it.from.as_path()).collect();
        let targets: HashMap<&Path, &Text> =
            moves.iter().map(|it| (it.to.as_path(), &it.text)).collect();
        let mut deletes = Vec::new();
        let mut others = Vec::new();
        for (idx, file) in plan.files.iter().enumerate() {
            let FileKey::Path(path) = &file.key else {
                continue;
            };
            if file.result.via != Via::Disk {
                continue;
            }
            let moved = targets.get(path.as_path()).copied();
            let is_moved = sources.contains(path.as_path());
            let path = path.clone();
            if file.operation != Operation::Rename
                && let Some(expected) = file.before.clone()
                && !is_moved
                && (moved.is_some() || file.after.is_none())
            {
                let path = path.clone();
                deletes.push((idx, DiskChange::Delete { path, expected }));
            }
            let Some(text) = file.after.clone() else {
                continue;
            };
            let expected = match moved {
                Some(text) => Some(text.clone()),
                None => file.before.clone().filter(|_| !is_moved),
            };
            let is_edited = match &file.moved_from {
                Some((_, is_edited)) if moved.is_some() => *is_edited,
                _ => !file.splices.is_empty(),
            };
            let change = match expected {
                Some(_) if !is_edited => continue,
                Some(expected) => DiskChange::Replace {
                    path,
                    expected,
                    text,
                },
                None => DiskChange::Create { path, text },
            };
            others.push((idx, change));
        }
        let renames = moves.iter().map(|it| {
            let change = DiskChange::Rename {
                from: it.from.clone(),
                to: it.to.clone(),
                expected: it.text.clone(),
            };
            (it.teller, change)
        });
        deletes.into_iter().chain(renames).chain(others).collect()
    }

    /// The closed files that are moved, in an order in which each finds its target free. Files that only change places
    /// are none: nothing is free then.
    fn moves(plan: &Plan) -> Vec<Move> {
        let by_path: HashMap<&FileKey, usize> = plan
            .files
            .iter()
            .enumerate()
            .map(|(idx, it)| (&it.key, idx))
            .collect();
        let mut by_source = BTreeMap::new();
        for (idx, file) in plan.files.iter().enumerate() {
            let (from, teller) = match (&file.renamed_from, &file.moved_from) {
                (Some(from), _) => (from, idx),
                (None, Some((from, _))) => (from, by_path.get(from).copied().unwrap_or(idx)),
                (None, None) => continue,
            };
            if let (FileKey::Path(from), FileKey::Path(to), Via::Disk, Some(text)) = (
                from,
                &file.key,
                file.result.via,
                plan.files[teller].before.clone(),
            ) {
                let (from, to) = (from.clone(), to.clone());
                by_source.insert(
                    from.clone(),
                    Move {
                        teller,
                        from,
                        to,
                        text,
                    },
                );
            }
        }
        let mut moves = Vec::new();
        while let Some(start) = by_source.keys().next().cloned() {
            let mut chain = Vec::new();
            let mut at = start.clone();
            while let Some(next) = by_source.remove(&at) {
                at.clone_from(&next.to);
                chain.push(next);
            }
            if at != start {
                moves.extend(chain.into_iter().rev());
            }
        }
        moves
    }

    pub(super) fn disk_changes(plan: &Plan) -> Vec<DiskChange> {
        Self::disk_steps(plan).into_iter().map(|it| it.1).collect()
    }

    pub(super) fn staged(
        &mut self,
        id: CallId,
        mut call: Call,
        job: JobId,
        staged: Result<Vec<bool>, DiskFailure>,
    ) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        match staged {
            Ok(in_place) => {
                change.staged = Some(job);
                let steps = Self::disk_steps(&change.plan);
                for ((idx, _), in_place) in steps.into_iter().zip(in_place) {
                    change.plan.files[idx].result.in_place |= in_place;
                }
                let is_current = self.is_as_planned(&change.marks) || broken!(PlanMayBeOld);
                if is_current && !self.is_any_open(change) {
                    self.edit_or_commit(id, call);
                } else {
                    self.abort_and_retry(id, call);
                }
            }
            Err(failure) => self.disk_failed(id, call, &failure),
        }
    }

    fn abort_and_retry(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        self.abort_staged(change);
        change.staged = None;
        self.retry_or_refuse(id, call);
    }

    /// True if the editor has opened a file since it was planned to be changed on disk.
    fn is_any_open(&self, change: &ChangeCall) -> bool {
        change.plan.files.iter().any(|it| self.is_opened(it))
    }

    /// True if an editor shows a file of the plan, synced or not, that is to be changed on disk.
    fn is_opened(&self, plan: &FilePlan) -> bool {
        let is_open = |key: &FileKey| self.is_open(key);
        plan.result.via == Via::Disk
            && !broken!(CommitUnderBuffer)
            && !plan.is_noop()
            && (is_open(&plan.key) || plan.renamed_from.as_ref().is_some_and(is_open))
    }

    /// Grants the commit of what was staged; without anything staged the call is done.
    pub(super) fn commit(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Some(staged) = change.staged else {
            self.succeed(id, &call);
            return;
        };
        if self.is_any_open(change) && !broken!(GrantNotChecked) {
            self.opened_before_commit(id, call);
            return;
        }
        change.staged = None;
        change.is_sent = true;
        let commit = self.start(JobOwner::Call(id), Work::Commit { staged });
        change.phase = Phase::Committing(commit);
        self.calls.insert(id, call);
    }

    /// A document went away with what was not saved of it, the part of a call included: nothing of that is to be taken
    /// back. A call that is committing the rest just now cannot be done as a whole any more.
    pub(super) fn lose_part(&mut self, key: &FileKey, uri: &str) {
        let first = self.files.get(key).and_then(|it| it.queue.front());
        let Some(Call {
            kind: CallKind::Change(change),
            ..
        }) = first.and_then(|id| self.calls.get_mut(id))
        else {
            return;
        };
        // What is on disk stays there.
        let is_it = |it: &FilePlan| it.key == *key && it.result.via == Via::Editor;
        let idx = change.plan.files.iter().position(is_it);
        let was_done = idx.is_some_and(|idx| change.done_at.remove(&idx).is_some());
        match &mut change.phase {
            Phase::Editing(editing) => editing.lose(uri),
            Phase::Committing(commit) if was_done && !broken!(NotRecalled) => {
                let commit = *commit;
                let job = JobId(self.new_id());
                self.effects.push(Effect::Start {
                    job,
                    work: Work::Recall { commit },
                });
            }
            _ => {}
        }
    }

    /// A document has got a text. If its file is being changed on disk, by the first call of its queue, that may be the new
    /// one; what a human types into the old one must not be taken for a part of it later, however alike they are.
    pub(super) fn note_shown(&mut self, first: Option<CallId>, key: &FileKey, text: &Text) {
        let Some(Call {
            kind: CallKind::Change(change),
            ..
        }) = first.and_then(|id| self.calls.get_mut(&id))
        else {
            return;
        };
        if !matches!(change.phase, Phase::Committing(_)) && change.opened.is_none() {
            return;
        }
        let plans = change.plan.files.iter().enumerate();
        let on_disk = plans.filter(|it| it.1.key == *key && it.1.result.via == Via::Disk);
        for (idx, plan) in on_disk {
            let after = plan.after.as_ref().map(Text::without_bom);
            if after.is_some_and(|it| it.same(&text.without_bom())) {
                change.shown.insert(idx);
            }
        }
    }

    /// The editor's part is done, and a file that was to be changed on disk is open now.
    fn opened_before_commit(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        if change.done_at.is_empty() {
            self.abort_and_retry(id, call);
            return;
        }
        self.abort_staged(change);
        change.staged = None;
        let err = self.late_obstacle(change);
        self.roll_back(id, call, err);
    }

    /// What the next plan would say of the file that was opened; what is not known of it has to be read again.
    fn late_obstacle(&self, change: &ChangeCall) -> FsError {
        let opened = change.plan.files.iter().position(|it| self.is_opened(it));
        let idx = opened.unwrap_or(0);
        let plan = &change.plan.files[idx];
        let (verb, mut path) = change.named(idx);
        let mut uri = plan.result.uri.clone();
        let from = plan.renamed_from.as_ref().filter(|it| self.is_open(it));
        if let Some(from) = from {
            let step = change.steps.iter().find(|it| change.keys[it.file] == *from);
            path = step.map_or(path, |it| it.change.path());
            uri = from.uri();
        }
        let mut err = if from.is_some() || plan.operation == Operation::Delete {
            open()
        } else if self.document_of(&plan.key).is_some() {
            return stale::meanwhile(verb, path, &uri, "opened");
        } else {
            unsynced()
        };
        err.what = format!("cannot {verb} \"{path}\": {}", err.what);
        err.at(path, &uri)
    }

    /// True if an editor shows the file, synced or not.
    fn is_open(&self, key: &FileKey) -> bool {
        self.document_of(key).is_some()
            || self.files.get(key).is_some_and(|it| it.unsynced.is_some())
    }

    pub(super) fn committed(
        &mut self,
        id: CallId,
        mut call: Call,
        committed: Result<(), DiskFailure>,
    ) {
        let author = Self::session_author(call.session.as_ref());
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        if let Err(failure) = committed
            && !broken!(FailureIsSuccess)
        {
            self.disk_failed(id, call, &failure);
            return;
        }
        for (idx, _) in Self::disk_steps(&change.plan) {
            let plan = &change.plan.files[idx];
            let seq = self.note_change(&plan.key, author.clone());
            change.done_at.insert(idx, seq);
            let now = plan
                .result
                .version
                .map_or(Observation::Absent, Observation::Present);
            let file = self.files.entry(plan.key.clone()).or_default();
            (file.disk, file.committed_at) = (Some(now), seq);
            if let Some(from) = &plan.renamed_from {
                let seq = self.note_change(from, author.clone());
                let file = self.files.entry(from.clone()).or_default();
                (file.disk, file.committed_at) = (Some(Observation::Absent), seq);
            }
        }
        if let Some(lost) = self.lost(change) {
            let (verb, path) = change.named(lost);
            let uri = &change.plan.files[lost].result.uri;
            let err = stale::meanwhile(verb, path, uri, "closed");
            self.take_stock(id, call, err, BTreeSet::new());
            return;
        }
        if self.is_any_open(change) && !broken!(OpenedIsClosed) {
            let uris = change
                .keys
                .iter()
                .filter_map(|key| Some(self.document_of(key)?.0.to_string()))
                .collect();
            let barrier = self.barrier(id, uris, EDIT_BARRIER_MS);
            let deadline = self.now + EDIT_BARRIER_MS;
            self.alarms.insert((deadline, super::Alarm::Call(id)));
            change.phase = Phase::Showing(Showing { barrier, deadline });
            self.go_on_showing(id, call);
        } else {
            self.succeed(id, &call);
        }
    }

    /// A document of the call that was closed or loaded again since it was changed; its buffer, with the change, is gone.
    fn lost(&self, change: &ChangeCall) -> Option<usize> {
        let is_lost = |plan: &FilePlan| {
            let mark = change.marks.iter().find(|it| it.0 == plan.result.uri);
            let document = self.documents.get(&plan.result.uri);
            mark.map(|it| it.1) != document.map(|it| it.instance)
        };
        let mut plans = change.plan.files.iter();
        plans.position(|it| it.result.via == Via::Editor && !it.is_noop() && is_lost(it))
    }

    /// A success is told only once the buffer of a file that was opened meanwhile shows the new text.
    pub(super) fn go_on_showing(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Showing(showing) = &mut change.phase else {
            return;
        };
        let is_over = match &mut showing.barrier {
            Some(barrier) => self.is_over(barrier),
            None => self.now >= showing.deadline,
        };
        let on_disk = change
            .plan
            .files
            .iter()
            .enumerate()
            .filter(|it| it.1.result.via == Via::Disk);
        let shown = on_disk.filter_map(|(idx, plan)| {
            let uri = self.document_of(&plan.key)?.0.to_string();
            Some((idx, uri, plan.result.version))
        });
        let mut differing: Vec<_> = shown.collect();
        differing.retain(|(_, uri, version)| self.document_version(uri) != *version);
        match differing.first() {
            None => {
                // What was shown of the old buffer meanwhile is older than this.
                for (idx, plan) in change.plan.files.iter().enumerate() {
                    if plan.result.via == Via::Disk {
                        change.done_at.insert(idx, self.seq);
                    }
                }
                self.succeed(id, &call);
            }
            Some(_) if !is_over => self.park(id, call),
            Some((idx, uri, _)) => {
                let (verb, path) = change.named(*idx);
                let err = stale::meanwhile(verb, path, uri, "opened");
                let opened = differing.iter().map(|it| it.0).collect();
                self.opened_after_commit(id, call, opened, err);
            }
        }
    }

    /// Files show another text than was committed to them: the caller is told what became of the others.
    fn opened_after_commit(
        &mut self,
        id: CallId,
        call: Call,
        opened: BTreeSet<usize>,
        cause: FsError,
    ) {
        let CallKind::Change(change) = &call.kind else {
            return;
        };
        if change.plan.files.iter().filter(|it| !it.is_noop()).count() == 1 {
            self.finish(id, &call, Err(cause.into()));
            return;
        }
        self.take_stock(id, call, cause, opened);
    }

    /// The disk refused: whatever it found, the next plan will see it too, and say it better.
    fn disk_failed(&mut self, id: CallId, mut call: Call, failure: &DiskFailure) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let steps = Self::disk_steps(&change.plan);
        let idx = steps.get(failure.change).map_or(0, |it| it.0);
        let (verb, path) = change.named(idx);
        let mut err =
            FsError::from_disk(&failure.error, path).at(path, &change.plan.files[idx].result.uri);
        err.what = format!("cannot {verb} {}", err.what);
        for change_idx in &failure.unrestored {
            if let Some((idx, _)) = steps.get(*change_idx).filter(|_| !broken!(LeftIsNotTold)) {
                change.done_at.insert(*idx, self.seq);
            }
        }
        let is_committing = matches!(change.phase, Phase::Committing(_));
        if is_committing {
            change.opened.get_or_insert_default();
            self.note_opened(change);
        }
        let lost = self.lost(change).filter(|_| is_committing);
        if let Some(lost) = lost.filter(|_| failure.unrestored.is_empty()) {
            let (verb, path) = change.named(lost);
            let uri = &change.plan.files[lost].result.uri;
            err = stale::meanwhile(verb, path, uri, "closed");
        }
        if !change.done_at.is_empty() {
            self.roll_back(id, call, err);
            return;
        }
        if lost.is_none()
            && matches!(
                failure.error.kind,
                DiskErrorKind::Stale | DiskErrorKind::Exists
            )
        {
            if let Err(call) = self.retry(id, call) {
                self.finish(id, &call, Err(err.into()));
            }
            return;
        }
        if let (true, CallKind::Change(change)) = (broken!(RefusedIsSeen), &call.kind) {
            for plan in &change.plan.files {
                self.observe_result(&call, plan, self.seq);
            }
        }
        self.finish(id, &call, Err(err.into()));
    }

    /// Who opened a file while it was changed may show what has been taken back since. True if there is one more.
    pub(super) fn note_opened(&self, change: &mut ChangeCall) -> bool {
        let Some(opened) = &mut change.opened else {
            return false;
        };
        let mut is_more = false;
        for (idx, plan) in change.plan.files.iter().enumerate() {
            let shown = self.document_of(&plan.key).map(|it| it.1.text());
            let is_changed = |before: &Text| shown.is_some_and(|it| !it.same(before));
            if plan.result.via == Via::Disk
                && plan.operation == Operation::Update
                && !plan.is_noop()
                && !opened.contains(&idx)
                && change.shown.contains(&idx)
                && !change.done_at.contains_key(&idx)
                && plan.before.as_ref().is_some_and(is_changed)
            {
                opened.insert(idx);
                change.done_at.insert(idx, self.seq);
                is_more = true;
            }
        }
        is_more
    }

    /// Throws away what a call staged that has been answered already.
    pub(super) fn abort_orphan(&mut self, staged: JobId) {
        let job = JobId(self.new_id());
        self.effects.push(Effect::Start {
            job,
            work: Work::Abort { staged },
        });
    }
}
