//! Taking back what the editor has done of a call of which the rest cannot be done, and telling what became of it.
//!
//! Invariant: what is told of a file is what it holds, not what was asked of anybody. All files as they were: the call
//! failed for its cause. Otherwise it is `FS_PARTIALLY_APPLIED`, with the outcome of every file.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Call, CallId, CallKind, Compute, JobId, JobOwner, Looked, Millis, Outcome, Workspace,
    changes::{ChangeCall, Phase},
    editing::Order,
};
use crate::{
    error::{Code, FsError},
    ledger::Observation,
    path::FileKey,
    plan::{EditorEdit, FilePlan},
    protocol::{self, FileResult, Operation, Range, Via},
    text::{
        Text,
        splice::{Splice, Splices},
    },
    undo::{Undo, UndoJob},
    version::Version,
};

/// How often an edit is taken back again because somebody typed meanwhile. The queues are held all the time.
pub(super) const ATTEMPTS: u32 = 8;
/// How long that may go on, in milliseconds; each attempt has its own deadline beside.
const TAKE_BACK_MS: Millis = 5000;

/// A call that is being taken back.
#[derive(Debug)]
pub(super) struct Rollback {
    /// Why the call cannot be done.
    cause: Box<FsError>,
    until: Millis,
    attempts: u32,
    /// Files of the plan of which the editor has not said what became.
    unknown: BTreeSet<usize>,
}

/// Finding out what takes the edits back, or (`looked`) what became of all files.
#[derive(Debug)]
pub(super) struct Undoing {
    /// The file in the plan; of an open document the instance and the generation that was looked at.
    files: Vec<(usize, Option<(u32, u64)>)>,
    looked: Option<BTreeMap<usize, Looked>>,
}

/// Looking at the files that no document shows.
#[derive(Debug, Default)]
pub(super) struct Reckoning {
    looks: BTreeMap<JobId, usize>,
    looked: BTreeMap<usize, Looked>,
}

impl Workspace {
    /// Takes back what was done of the call, because the rest cannot be done.
    pub(super) fn roll_back(&mut self, id: CallId, mut call: Call, cause: FsError) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        change.rollback = Some(Box::new(Self::rollback(self.now, cause)));
        self.take_back(id, call);
    }

    /// Tells what became of each file of a call, for a reason that only matters if something is not as it should be; of
    /// those that are `unknown` it cannot be told.
    pub(super) fn take_stock(
        &mut self,
        id: CallId,
        mut call: Call,
        cause: FsError,
        unknown: BTreeSet<usize>,
    ) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let mut rollback = Self::rollback(self.now, cause);
        rollback.unknown = unknown;
        change.rollback = Some(Box::new(rollback));
        self.reckon(id, call);
    }

    fn rollback(now: Millis, cause: FsError) -> Rollback {
        Rollback {
            cause: Box::new(cause),
            until: now + TAKE_BACK_MS,
            attempts: 0,
            unknown: BTreeSet::new(),
        }
    }

    /// Finds out what is still ours of the editor's part.
    fn take_back(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        self.note_opened(change);
        let mut jobs = Vec::new();
        let mut files = Vec::new();
        for &idx in change.done_at.keys() {
            let plan = &change.plan.files[idx];
            let Some((_, document)) = self.document_of(&plan.key) else {
                continue;
            };
            let is_text = plan.result.via == Via::Editor || plan.operation == Operation::Update;
            if is_text && let Some(job) = undo_job(plan, document.text()) {
                jobs.push(job);
                files.push((idx, Some((document.instance, document.generation))));
            }
        }
        change.phase = Phase::Undoing(Undoing {
            files,
            looked: None,
        });
        self.compute_undo(id, call, jobs);
    }

    fn compute_undo(&mut self, id: CallId, call: Call, jobs: Vec<UndoJob>) {
        match self.compute(JobOwner::Call(id), Compute::Undo(jobs)) {
            Ok(Outcome::Undo(undos)) => self.undo_known(id, call, undos),
            _ => {
                self.calls.insert(id, call);
            }
        }
    }

    pub(super) fn undo_known(&mut self, id: CallId, mut call: Call, undos: Vec<Undo>) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Undoing(undoing) = std::mem::replace(&mut change.phase, Phase::Planning) else {
            return;
        };
        let files: Vec<_> = undoing.files.into_iter().zip(undos).collect();
        if let Some(looked) = undoing.looked {
            let outcomes = files.into_iter().map(|((idx, _), it)| (idx, it.outcome));
            self.conclude(id, call, &outcomes.collect(), &looked);
            return;
        }
        let mut orders = Vec::new();
        for ((idx, seen), undo) in files {
            let plan = &change.plan.files[idx];
            let document = self.document_of(&plan.key).map(|it| it.1);
            if document.map(|it| (it.instance, it.generation)) != seen {
                self.take_back_again(id, call);
                return;
            }
            if !undo.splices.is_empty() {
                orders.extend(self.order_of(idx, plan, undo));
            }
        }
        if broken!(NotTakenBack) {
            orders.clear();
        }
        if broken!(OnlyFirstTakenBack) {
            orders.truncate(1);
        }
        if orders.is_empty() {
            self.reckon(id, call);
        } else {
            self.send_orders(id, call, orders);
        }
    }

    fn order_of(&self, plan_idx: usize, plan: &FilePlan, undo: Undo) -> Option<Order> {
        let encoding = self.client.encoding;
        let (uri, document) = self.document_of(&plan.key)?;
        let before = document.text();
        let mut undo = undo;
        if let (true, Some(text)) = (broken!(TypingTakenBack), &plan.before) {
            undo.splices = Splices::default();
            undo.splices.then(Splice {
                range: 0..before.len_bytes(),
                text: text.raw(0..text.len_bytes()),
            });
        }
        let edits = undo.splices.iter().map(|splice| EditorEdit {
            range: Range {
                start: document.buffer.position_of(splice.range.start, encoding),
                end: document.buffer.position_of(splice.range.end, encoding),
            },
            old_text: before.raw(splice.range.clone()),
            new_text: splice.text.clone(),
        });
        Some(Order {
            plan_idx,
            uri: uri.to_string(),
            edits: edits.collect(),
            after: before.apply(&undo.splices),
            before,
            splices: undo.splices,
        })
    }

    /// Somebody typed, closed or reloaded a document while it was taken back.
    pub(super) fn take_back_again(&mut self, id: CallId, mut call: Call) {
        let now = self.now;
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Some(rollback) = &mut change.rollback else {
            return;
        };
        rollback.attempts += 1;
        if rollback.attempts < ATTEMPTS && now < rollback.until {
            self.take_back(id, call);
        } else {
            self.reckon(id, call);
        }
    }

    /// The editor has not answered: nobody knows what becomes of these files.
    pub(super) fn not_taken_back(&mut self, id: CallId, mut call: Call, plan_idxs: Vec<usize>) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        if let Some(rollback) = &mut change.rollback {
            rollback.unknown.extend(plan_idxs);
        }
        self.reckon(id, call);
    }

    /// Nothing more is done: looks at what the files of the call hold.
    pub(super) fn reckon(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        change.phase = Phase::Reckoning(Reckoning::default());
        self.go_on_reckoning(id, call);
    }

    pub(super) fn reckoned(&mut self, id: CallId, mut call: Call, job: JobId, looked: Looked) {
        if let CallKind::Change(change) = &mut call.kind
            && let Phase::Reckoning(reckoning) = &mut change.phase
            && let Some(idx) = reckoning.looks.remove(&job)
        {
            self.learn(&change.plan.files[idx].key, &looked);
            reckoning.looked.insert(idx, looked);
        }
        self.go_on_reckoning(id, call);
    }

    fn go_on_reckoning(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Reckoning(reckoning) = &mut change.phase else {
            return;
        };
        if reckoning.looks.is_empty() {
            // Again each time: a document may have been closed meanwhile.
            let plans = change.plan.files.iter().enumerate();
            for (idx, plan) in plans.filter(|it| !it.1.is_noop()) {
                let key = &plan.key;
                let is_closed = matches!(key, FileKey::Path(_)) && self.document_of(key).is_none();
                if is_closed && !reckoning.looked.contains_key(&idx) {
                    let job = self.look(JobOwner::Call(id), key.clone(), None);
                    reckoning.looks.insert(job, idx);
                }
            }
        }
        if !reckoning.looks.is_empty() {
            self.calls.insert(id, call);
            return;
        }
        let looked = std::mem::take(&mut reckoning.looked);
        if self.note_opened(change) {
            self.take_back_again(id, call);
            return;
        }
        let mut jobs = Vec::new();
        let mut files = Vec::new();
        for &idx in change.done_at.keys() {
            let plan = &change.plan.files[idx];
            let actual = match (self.document_of(&plan.key), looked.get(&idx)) {
                (Some((_, document)), _) => document.text(),
                (None, Some(Looked::Text { text, .. })) => text.clone(),
                (None, _) => continue,
            };
            if let Some(job) = undo_job(plan, actual) {
                jobs.push(job);
                files.push((idx, None));
            }
        }
        change.phase = Phase::Undoing(Undoing {
            files,
            looked: Some(looked),
        });
        self.compute_undo(id, call, jobs);
    }

    /// Answers the call with what became of its files.
    fn conclude(
        &mut self,
        id: CallId,
        mut call: Call,
        undos: &BTreeMap<usize, protocol::Outcome>,
        looked: &BTreeMap<usize, Looked>,
    ) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Some(rollback) = change.rollback.take() else {
            return;
        };
        let mut files = Vec::with_capacity(change.plan.files.len());
        for (idx, plan) in change.plan.files.iter().enumerate() {
            let mut result = plan.result.clone();
            let now = match (self.document_of(&plan.key), looked.get(&idx)) {
                (Some((_, document)), _) => {
                    Some(Observation::Present(Version::of(&document.text())))
                }
                (None, Some(Looked::Text { version, .. })) => Some(Observation::Present(*version)),
                (None, Some(Looked::Absent { .. })) => Some(Observation::Absent),
                (None, _) => None,
            };
            result.outcome = if rollback.unknown.contains(&idx) {
                protocol::Outcome::Unknown
            } else {
                outcome(change, idx, undos.get(&idx).copied(), now)
            };
            if result.outcome != protocol::Outcome::Applied {
                // What was planned is not what is there.
                result.version = match now {
                    Some(Observation::Present(version)) => Some(version),
                    Some(Observation::Absent) => None,
                    None => result.previous_version,
                };
                result.replacements = 0;
                result.hunks.clear();
                result.ranges.clear();
                result.diff.clear();
                result.diff_truncated = false;
            }
            files.push(result);
        }
        let all = |outcome| {
            let mut changed = change.plan.files.iter().zip(&files);
            changed.all(|(plan, it)| plan.is_noop() || it.outcome == outcome)
        };
        let cause = *rollback.cause;
        if all(protocol::Outcome::RolledBack) {
            self.finish(id, &call, Err(cause.into()));
        } else if all(protocol::Outcome::Applied) || broken!(PartIsAll) {
            self.succeed(id, &call);
        } else {
            self.finish(id, &call, Err(partially(&cause, files).into()));
        }
    }
}

/// The refusal that tells what became of each file of a call of which a part is done.
fn partially(cause: &FsError, files: Vec<FileResult>) -> FsError {
    let what = format!("only a part of the call is done: {}", cause.what);
    let remedy = "read the files named, then go on from there";
    let mut err = FsError::new(Code::FsPartiallyApplied, what, remedy);
    err.files = files;
    err
}

fn undo_job(plan: &FilePlan, actual: Text) -> Option<UndoJob> {
    Some(UndoJob {
        before: plan.before.clone()?,
        after: plan.after.clone()?,
        splices: plan.splices.clone(),
        actual,
    })
}

/// What became of a file that holds `now` (none: it is not known).
fn outcome(
    change: &ChangeCall,
    idx: usize,
    undo: Option<protocol::Outcome>,
    now: Option<Observation>,
) -> protocol::Outcome {
    let plan = &change.plan.files[idx];
    if !change.done_at.contains_key(&idx) || plan.is_noop() {
        return protocol::Outcome::RolledBack;
    }
    let Some(now) = now else {
        // What only an editor had is gone with its buffer.
        return match &plan.key {
            FileKey::Uri(_) => protocol::Outcome::RolledBack,
            FileKey::Path(_) => protocol::Outcome::Unknown,
        };
    };
    let observed = |text: Option<&Text>| {
        text.map_or(Observation::Absent, |it| {
            Observation::Present(Version::of(it))
        })
    };
    let before = plan.before.as_ref();
    let before = observed(before.filter(|_| plan.operation != Operation::Rename));
    if now == observed(plan.after.as_ref()) {
        protocol::Outcome::Applied
    } else if now == before {
        protocol::Outcome::RolledBack
    } else {
        undo.unwrap_or(protocol::Outcome::KeptHuman)
    }
}
