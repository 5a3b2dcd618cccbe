//! The part of a call that the editor carries out: sending, and judging the result.
//!
//! Invariant: success is what the buffer holds, never what the editor says; and what a human typed meanwhile is neither
//! undone nor claimed.

use serde_json::{Value, json};

use super::{
    AskId, AskOwner, Call, CallId, CallKind, Compute, JobId, JobOwner, Millis, Outcome, Workspace,
    barrier::Barrier,
    changes::{ChangeCall, Phase},
    documents::Unknown,
};
use crate::{
    error::{Code, FsError},
    path::FileKey,
    pending::{Pending, Verdict},
    plan::{EditorEdit, stale},
    protocol::{ApplyEditResult, Author, Via},
    text::{Text, splice::Splices},
};

/// How long the editor has to answer an edit, in milliseconds.
const EDIT_MS: Millis = 5000;

/// An edit that is out.
#[derive(Debug)]
pub(super) struct Editing {
    ask: AskId,
    deadline: Millis,
    answer: Option<EditAnswer>,
    barrier: Option<Barrier>,
    judging: Option<Judging>,
    sent: Vec<Sent>,
}

/// A comparison of what buffers hold with what was planned, which is being made elsewhere.
#[derive(Debug)]
pub(super) struct Judging {
    job: JobId,
    documents: Vec<Judged>,
}

/// A document that is compared: the index of what was sent, and the document's generation at that time.
type Judged = (usize, u64);

#[derive(Debug)]
struct EditAnswer {
    applied: bool,
    reason: String,
    code: Option<String>,
}

impl Editing {
    /// A document went away with what was not saved of it.
    pub(super) fn lose(&mut self, uri: &str) {
        if let Some(sent) = self.sent.iter_mut().find(|it| it.uri == uri) {
            sent.landed = None;
        }
    }
}

/// One document of the edit.
#[derive(Debug)]
struct Sent {
    /// Index in the plan.
    plan_idx: usize,
    uri: String,
    instance: u32,
    lsp_version: i32,
    /// When the document became the planned text.
    landed: Option<u64>,
}

/// What one document has to become.
pub(super) struct Order {
    /// Index in the plan.
    pub(super) plan_idx: usize,
    pub(super) uri: String,
    pub(super) before: Text,
    pub(super) after: Text,
    pub(super) splices: Splices,
    pub(super) edits: Vec<EditorEdit>,
}

impl ChangeCall {
    /// What landed is done, and has to be taken back if the rest fails.
    fn note_landed(&mut self, sent: &[Sent]) {
        let landed = sent.iter().filter_map(|it| Some((it.plan_idx, it.landed?)));
        self.done_at.extend(landed);
    }
}

impl Workspace {
    /// Sends the planned edits of all open documents of the call.
    pub(super) fn send(&mut self, id: CallId, call: Call) {
        let CallKind::Change(change) = &call.kind else {
            return;
        };
        let plans = change.plan.files.iter().enumerate();
        let orders = plans
            .filter(|it| it.1.result.via == Via::Editor && !it.1.is_noop())
            .filter_map(|(idx, plan)| {
                Some(Order {
                    plan_idx: idx,
                    uri: plan.result.uri.clone(),
                    before: plan.before.clone()?,
                    after: plan.after.clone()?,
                    splices: plan.splices.clone(),
                    edits: plan.edits.clone(),
                })
            });
        let orders = orders.collect();
        self.send_orders(id, call, orders);
    }

    pub(super) fn send_orders(&mut self, id: CallId, mut call: Call, orders: Vec<Order>) {
        let session_id = call.session.as_ref().map(|it| it.0.clone());
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let deadline = self.now + EDIT_MS;
        let mut sent = Vec::new();
        let mut document_changes = Vec::new();
        let mut details = Vec::new();
        for order in orders {
            let Some(document) = self.documents.get_mut(&order.uri) else {
                continue;
            };
            let edits: Vec<Value> = order
                .edits
                .iter()
                .map(|it| json!({ "range": it.range, "newText": it.new_text }))
                .collect();
            let old_texts: Vec<&str> = order.edits.iter().map(|it| it.old_text.as_str()).collect();
            let lsp_version = (!broken!(VersionIgnored)).then_some(document.lsp_version);
            let instance = (!broken!(InstanceIgnored)).then_some(document.instance);
            let identifier = json!({ "uri": order.uri, "version": lsp_version });
            document_changes.push(json!({ "textDocument": identifier, "edits": edits }));
            details.push(json!({ "uri": order.uri, "instance": instance, "oldTexts": old_texts }));
            document.unknown = None;
            document.pending = Some((id, Pending::new(order.before, order.after, order.splices)));
            let (instance, lsp_version) = (document.instance, document.lsp_version);
            sent.push(Sent {
                plan_idx: order.plan_idx,
                uri: order.uri,
                instance,
                lsp_version,
                landed: None,
            });
        }
        let mut abreast = json!({ "documents": details, "deadline": deadline });
        for (name, value) in [
            ("sessionId", &session_id),
            ("callId", &change.call_id),
            ("label", &change.label),
        ] {
            if let Some(value) = value {
                abreast[name] = json!(value);
            }
        }
        let mut params =
            json!({ "edit": { "documentChanges": document_changes }, "abreast": abreast });
        if let Some(label) = &change.label {
            params["label"] = json!(label);
        }
        let ask = self.ask(AskOwner::Call(id), "workspace/applyEdit", params);
        self.alarms.insert((deadline, super::Alarm::Call(id)));
        let editing = Editing {
            ask,
            deadline,
            answer: None,
            barrier: None,
            judging: None,
            sent,
        };
        change.is_sent = true;
        change.phase = Phase::Editing(Box::new(editing));
        self.park(id, call);
    }

    pub(super) fn edit_answered(
        &mut self,
        editing: &mut Editing,
        ask: AskId,
        answer: Result<Value, String>,
    ) {
        if let Some(barrier) = editing.barrier.as_mut().filter(|it| it.ask == ask) {
            self.barrier_answered(barrier, answer);
        } else if ask == editing.ask {
            let parsed = answer.and_then(|it| {
                serde_json::from_value::<ApplyEditResult>(it).map_err(|err| err.to_string())
            });
            editing.answer = Some(match parsed {
                Ok(result) => EditAnswer {
                    applied: result.applied,
                    reason: result
                        .failure_reason
                        .unwrap_or_else(|| "without a reason".to_string()),
                    code: result.abreast.and_then(|it| it.code),
                },
                Err(reason) => EditAnswer {
                    applied: false,
                    reason,
                    code: None,
                },
            });
        }
    }

    /// A document just became the text that a call planned.
    pub(super) fn note_landed(&mut self, id: CallId, uri: &str, seq: u64) {
        if let Some(Call {
            kind: CallKind::Change(change),
            ..
        }) = self.calls.get_mut(&id)
            && let Phase::Editing(editing) = &mut change.phase
            && let Some(sent) = editing.sent.iter_mut().find(|it| it.uri == uri)
        {
            sent.landed = Some(seq);
            // The text is the planned one, so it need not be hashed again.
            if change.rollback.is_none()
                && let Some(document) = self.documents.get_mut(uri)
            {
                document.version = change.plan.files[sent.plan_idx].result.version;
            }
        }
    }

    pub(super) fn go_on_editing(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let wait_ms = change.barrier_ms(self.now);
        let author = Self::session_author(call.session.as_ref());
        let Phase::Editing(editing) = &mut change.phase else {
            return;
        };
        if let Some(gone) = editing.sent.iter().position(|it| self.is_gone(it)) {
            if self.is_known_of_the_rest(id, editing, &author, wait_ms) {
                self.closed_while_out(id, call, gone);
            } else {
                self.park(id, call);
            }
            return;
        }
        let all_landed = editing.sent.iter().all(|it| it.landed.is_some());
        let is_late = self.now >= editing.deadline;
        let Some(answer) = &editing.answer else {
            match (is_late, all_landed) {
                (false, _) => self.park(id, call),
                (true, true) => self.edited(id, call),
                (true, false) => self.unanswered(id, call),
            }
            return;
        };
        let applied = answer.applied;
        if applied && (all_landed || broken!(AnswerIsBelieved)) {
            self.edited(id, call);
            return;
        }
        if editing.judging.is_some() {
            self.calls.insert(id, call);
            return;
        }
        let is_over = match &mut editing.barrier {
            Some(barrier) => self.is_over(barrier),
            None if self.client.sync => {
                let uris = editing.sent.iter().map(|it| it.uri.clone()).collect();
                editing.barrier = self.barrier(id, uris, wait_ms);
                false
            }
            // Without a barrier the report of an applied edit may take its time; a refusal is final.
            None => !applied || is_late,
        };
        match (is_over, applied) {
            (false, _) => self.park(id, call),
            (true, true) => self.judge(id, call),
            (true, false) => self.refused(id, call),
        }
    }

    /// True if the document was closed, or loaded again, since the edit was sent.
    fn is_gone(&self, sent: &Sent) -> bool {
        self.documents
            .get(&sent.uri)
            .is_none_or(|it| it.instance != sent.instance)
    }

    /// Whether it is known what became of the other documents of an edit when one was closed: what landed there has to be
    /// taken back. Judges them as soon as nothing more will come.
    fn is_known_of_the_rest(
        &mut self,
        id: CallId,
        editing: &mut Editing,
        author: &Author,
        wait_ms: Millis,
    ) -> bool {
        if editing.sent.len() == 1 {
            return true;
        }
        let is_late = self.now >= editing.deadline;
        match &editing.answer {
            None if !is_late => return false,
            Some(answer) if !answer.applied => return true,
            _ => {}
        }
        let is_over = match &mut editing.barrier {
            Some(barrier) => self.is_over(barrier),
            None if self.client.sync && !is_late => {
                let open = editing
                    .sent
                    .iter()
                    .filter(|it| self.documents.contains_key(&it.uri));
                let uris = open.map(|it| it.uri.clone()).collect();
                editing.barrier = self.barrier(id, uris, wait_ms);
                editing.barrier.is_none()
            }
            // Without a barrier the reports of an applied edit may take their time.
            None => {
                let is_reported = |it: &Sent| it.landed.is_some() || self.is_gone(it);
                is_late || editing.sent.iter().all(is_reported)
            }
        };
        if !is_over {
            return false;
        }
        for sent in editing.sent.iter_mut().filter(|it| it.landed.is_none()) {
            let document = self.documents.get(&sent.uri);
            let document = document.filter(|it| it.instance == sent.instance);
            let Some((document, (_, pending))) =
                document.and_then(|it| Some((it, it.pending.as_ref()?)))
            else {
                continue;
            };
            let verdict = pending.judgement(document.text()).run();
            if verdict == Verdict::Missing {
                continue;
            }
            let (key, generation) = (document.key.clone(), document.generation);
            sent.landed = Some(self.note_verdict(&key, verdict, generation, generation, author));
        }
        true
    }

    /// Takes the edit off its documents. What was reported and is not ours was a human's.
    fn clear_pending(&mut self, editing: &Editing) {
        if let Some(barrier) = &editing.barrier {
            self.asks.remove(&barrier.ask);
        }
        self.asks.remove(&editing.ask);
        for sent in &editing.sent {
            let Some(document) = self.documents.get_mut(&sent.uri) else {
                continue;
            };
            let Some((_, pending)) = document.pending.take() else {
                continue;
            };
            let key = document.key.clone();
            if sent.landed.is_none() && pending.moved() && !broken!(TypingForgotten) {
                self.note_change(&key, Author::Human);
            }
        }
    }

    /// Compares what the buffers hold with what was planned.
    fn judge(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Editing(editing) = &mut change.phase else {
            return;
        };
        let (documents, judgements): (Vec<Judged>, Vec<_>) = editing
            .sent
            .iter()
            .enumerate()
            .filter(|it| it.1.landed.is_none())
            .filter_map(|(idx, sent)| {
                let document = self.documents.get(&sent.uri)?;
                let judgement = document.pending.as_ref()?.1.judgement(document.text());
                Some(((idx, document.generation), judgement))
            })
            .unzip();
        match self.compute(JobOwner::Call(id), Compute::Judge(judgements)) {
            Ok(Outcome::Judged(verdicts)) => self.judged(id, call, documents, &verdicts),
            Ok(_) => {}
            Err(job) => {
                editing.judging = Some(Judging { job, documents });
                self.calls.insert(id, call);
            }
        }
    }

    /// What a comparison made elsewhere found.
    pub(super) fn judged_elsewhere(
        &mut self,
        id: CallId,
        mut call: Call,
        job: JobId,
        verdicts: &[Verdict],
    ) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Editing(editing) = &mut change.phase else {
            return;
        };
        match editing.judging.take_if(|it| it.job == job) {
            Some(judging) => self.judged(id, call, judging.documents, verdicts),
            // Of an edit before this one.
            None => {
                self.calls.insert(id, call);
            }
        }
    }

    fn judged(&mut self, id: CallId, mut call: Call, documents: Vec<Judged>, verdicts: &[Verdict]) {
        let author = Self::session_author(call.session.as_ref());
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Editing(editing) = &mut change.phase else {
            return;
        };
        let mut is_missing = false;
        for ((idx, generation), verdict) in documents.into_iter().zip(verdicts) {
            let sent = &mut editing.sent[idx];
            let document = self.documents.get(&sent.uri);
            let document = document.filter(|it| it.instance == sent.instance);
            let (Some(document), None) = (document, sent.landed) else {
                continue;
            };
            if *verdict == Verdict::Missing {
                is_missing = true;
                continue;
            }
            let (key, now) = (document.key.clone(), document.generation);
            sent.landed = Some(self.note_verdict(&key, *verdict, generation, now, &author));
        }
        let is_gone = editing.sent.iter().any(|it| self.is_gone(it));
        match (is_gone, is_missing) {
            (true, _) => self.go_on_editing(id, call),
            (false, true) => self.unverified(id, call),
            (false, false) => self.edited(id, call),
        }
    }

    /// Notes who changed a document of which it was found that it held the edit at a generation; returns when it came to.
    /// What came while it was compared is a human's, as what was merged with it is.
    fn note_verdict(
        &mut self,
        key: &FileKey,
        verdict: Verdict,
        generation: u64,
        now: u64,
        author: &Author,
    ) -> u64 {
        let landed = verdict.landed_at(generation);
        self.note_change_at(key, author.clone(), landed);
        if verdict != Verdict::Landed || now != generation {
            self.note_change(key, Author::Human);
        }
        landed
    }

    /// The editor's part is done and verified.
    fn edited(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Editing(editing) = std::mem::replace(&mut change.phase, Phase::Planning) else {
            return;
        };
        self.clear_pending(&editing);
        if change.rollback.is_some() {
            self.reckon(id, call);
            return;
        }
        change.note_landed(&editing.sent);
        self.commit(id, call);
    }

    /// The editor said that it did not apply the edit.
    fn refused(&mut self, id: CallId, mut call: Call) {
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Editing(editing) = std::mem::replace(&mut change.phase, Phase::Planning) else {
            return;
        };
        self.clear_pending(&editing);
        self.disown(change, &editing);
        self.abort_staged(change);
        change.staged = None;
        let answer = editing.answer.as_ref();
        let code = answer.and_then(|it| it.code.as_deref());
        let has_moved = |sent: &Sent| {
            self.documents
                .get(&sent.uri)
                .is_none_or(|it| it.lsp_version != sent.lsp_version)
        };
        let moved = editing.sent.iter().any(has_moved)
            || code.is_some_and(|it| ["version", "instance", "text", "eol"].contains(&it));
        if change.rollback.is_some() {
            if moved {
                self.take_back_again(id, call);
            } else {
                self.reckon(id, call);
            }
            return;
        }
        let call = if moved {
            // Stale is what the plan finds; if the guards hold again, nobody needs to know.
            match self.retry(id, call) {
                Ok(()) => return,
                Err(call) => call,
            }
        } else {
            call
        };
        let CallKind::Change(change) = &call.kind else {
            return;
        };
        let idx = editing.sent.first().map_or(0, |it| it.plan_idx);
        let (verb, path) = change.named(idx);
        let reason = answer.map_or("", |it| it.reason.as_str());
        let what = format!("cannot {verb} \"{path}\": the editor refused the edit ({reason})");
        let remedy = "the editor may be waiting for the user: ask them, then read and retry";
        let err = FsError::new(Code::FsEditorRejected, what, remedy)
            .at(path, &change.plan.files[idx].result.uri);
        self.finish(id, &call, Err(err.into()));
    }

    /// If a document did become what was planned, it was not the editor who made it so: it had refused.
    fn disown(&mut self, change: &ChangeCall, editing: &Editing) {
        for sent in &editing.sent {
            let file = self.files.get_mut(&change.plan.files[sent.plan_idx].key);
            if let (Some(seq), Some(file)) = (sent.landed, file) {
                file.disown(seq);
            }
        }
    }

    /// The editor said that it applied the edit, and its buffer says otherwise.
    fn unverified(&mut self, id: CallId, mut call: Call) {
        let session = call.session.clone();
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Editing(editing) = std::mem::replace(&mut change.phase, Phase::Planning) else {
            return;
        };
        self.clear_pending(&editing);
        if change.rollback.is_some() {
            self.reckon(id, call);
            return;
        }
        self.abort_staged(change);
        change.staged = None;
        for sent in &editing.sent {
            let key = &change.plan.files[sent.plan_idx].key;
            if let Some(session) = self.live_session(session.as_ref()) {
                session.ledger.remove(key);
            }
        }
        let idx = editing
            .sent
            .iter()
            .find(|it| it.landed.is_none() && !self.is_gone(it))
            .map_or(0, |it| it.plan_idx);
        let (verb, path) = change.named(idx);
        let what = format!(
            "cannot {verb} \"{path}\": the editor said that it applied the edit, but its buffer says otherwise"
        );
        let err = FsError::new(Code::FsUnverified, what, "read the file, then retry")
            .at(path, &change.plan.files[idx].result.uri);
        // Perhaps it is the text here that is another one; then reading again would not help.
        self.ask_for_full(editing.sent.into_iter().map(|it| it.uri).collect());
        self.finish(id, &call, Err(err.into()));
    }

    /// The deadline passed without an answer: nobody knows what becomes of the edit.
    fn unanswered(&mut self, id: CallId, mut call: Call) {
        let session = call.session.clone();
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Editing(editing) = std::mem::replace(&mut change.phase, Phase::Planning) else {
            return;
        };
        self.asks.remove(&editing.ask);
        self.abort_staged(change);
        change.staged = None;
        let mut uris = Vec::new();
        for sent in &editing.sent {
            let plan = &change.plan.files[sent.plan_idx];
            let (Some(document), Some(version)) =
                (self.documents.get_mut(&sent.uri), plan.result.version)
            else {
                continue;
            };
            let Some((_, pending)) = document.pending.take() else {
                continue;
            };
            if broken!(UnknownIsFailed) {
                continue;
            }
            let key = document.key.clone();
            let has_moved = pending.moved() && !pending.landed();
            document.unknown = Some(Unknown {
                ask: editing.ask,
                pending,
                // What takes an edit back is credited to nobody.
                session: session.clone().filter(|_| change.rollback.is_none()),
                path: plan.result.path.clone(),
                version,
                shown: plan.shown.clone(),
                is_settled: false,
                is_answered: false,
            });
            if has_moved {
                // Perhaps a part of our edit; as long as nobody knows, it is a human's.
                self.note_change(&key, Author::Human);
            }
            uris.push(sent.uri.clone());
        }
        let idx = editing.sent.first().map_or(0, |it| it.plan_idx);
        let (verb, path) = change.named(idx);
        let what = format!(
            "cannot {verb} \"{path}\": the editor did not answer in time; the edit may still happen"
        );
        let remedy = "the editor waits for the user: ask them, then read and retry";
        let err = FsError::new(Code::FsEditorTimeout, what, remedy)
            .at(path, &change.plan.files[idx].result.uri);
        self.probe(uris);
        if change.rollback.is_some() {
            // What became of a document that is gone is known.
            let left = editing.sent.iter().filter(|it| !self.is_gone(it));
            let plan_idxs = left.map(|it| it.plan_idx).collect();
            self.not_taken_back(id, call, plan_idxs);
        } else {
            self.finish(id, &call, Err(err.into()));
        }
    }

    /// A document was closed or loaded again while the edit was out.
    fn closed_while_out(&mut self, id: CallId, mut call: Call, gone: usize) {
        let session = call.session.clone();
        let CallKind::Change(change) = &mut call.kind else {
            return;
        };
        let Phase::Editing(editing) = std::mem::replace(&mut change.phase, Phase::Planning) else {
            return;
        };
        let is_applied = editing.answer.as_ref().is_some_and(|it| it.applied);
        let is_mixed = |it: &Sent| it.landed.is_none() && !self.is_gone(it);
        if is_applied && change.rollback.is_none() && editing.sent.iter().any(is_mixed) {
            // A human had a hand in what has landed of another document: nobody can tell it apart.
            change.phase = Phase::Editing(editing);
            self.unverified(id, call);
            return;
        }
        let has_rest = editing.sent.iter().any(|it| !self.is_gone(it));
        if editing.answer.is_none() && has_rest {
            // What the others hold may be the edit, or a human's: nobody said.
            change.phase = Phase::Editing(editing);
            self.unanswered(id, call);
            return;
        }
        self.clear_pending(&editing);
        if change.rollback.is_some() {
            self.take_back_again(id, call);
            return;
        }
        self.abort_staged(change);
        change.staged = None;
        let sent = &editing.sent[gone];
        let plan = &change.plan.files[sent.plan_idx];
        let (verb, path) = change.named(sent.plan_idx);
        let entry = self
            .session_of(session.as_ref())
            .and_then(|it| it.ledger.get(&plan.key));
        let err = if let Some(document) = self.documents.get(&sent.uri) {
            let text = document.text();
            let by = entry
                .and_then(|it| Some(self.files.get(&plan.key)?.authors_since(it.seq)))
                .unwrap_or_default();
            stale::refusal(
                verb,
                path,
                &plan.result.uri,
                entry,
                &by,
                Some((&text, document.version)),
            )
        } else {
            stale::meanwhile(verb, path, &plan.result.uri, "closed")
        };
        if editing.answer.as_ref().is_some_and(|it| !it.applied) {
            self.disown(change, &editing);
        } else {
            change.note_landed(&editing.sent);
        }
        self.roll_back(id, call, err);
    }
}
