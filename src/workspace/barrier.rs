//! Waiting until everything that was typed so far has been reported.
//!
//! Invariant: a barrier is over when the editor has answered *and* every version that it named has arrived, or at its
//! deadline, whichever comes first.

use serde_json::{Value, json};

use super::{AskId, AskOwner, CallId, Millis, Workspace};
use crate::protocol::SyncResult;

/// How long an edit waits for a barrier, in milliseconds.
pub(super) const EDIT_BARRIER_MS: Millis = 2000;
/// How long a read waits for a barrier, in milliseconds.
pub(super) const READ_BARRIER_MS: Millis = 200;

/// One `abreast/sync`.
#[derive(Debug)]
pub(super) struct Barrier {
    pub(super) ask: AskId,
    /// The documents asked for, with their instances then.
    uris: Vec<(String, u32)>,
    deadline: Millis,
    /// Versions that the editor named and that have not arrived: URI, instance, LSP version.
    awaited: Vec<(String, u32, i32)>,
    answered: bool,
    /// True if the editor did not answer, or not with a barrier.
    pub(super) behind: bool,
}

impl Workspace {
    /// Asks the editor to report what is pending of these documents; none if it cannot be asked.
    pub(super) fn barrier(
        &mut self,
        id: CallId,
        uris: Vec<String>,
        wait_ms: Millis,
    ) -> Option<Barrier> {
        if !self.client.sync || uris.is_empty() {
            return None;
        }
        let is_desynced = |uri: &&String| self.documents.get(*uri).is_some_and(|it| it.desynced);
        let full: Vec<&String> = uris.iter().filter(is_desynced).collect();
        let mut params = json!({ "uris": uris });
        if !full.is_empty() {
            // It was asked for when the text became unknown; that need not have helped.
            params["full"] = json!(full);
        }
        let ask = self.ask(AskOwner::Call(id), "abreast/sync", params);
        let deadline = self.now + wait_ms;
        self.alarms.insert((deadline, super::Alarm::Call(id)));
        let uris = uris.into_iter().map(|uri| {
            let instance = self.documents.get(&uri).map_or(0, |it| it.instance);
            (uri, instance)
        });
        let uris = uris.collect();
        Some(Barrier {
            ask,
            uris,
            deadline,
            awaited: Vec::new(),
            answered: false,
            behind: false,
        })
    }

    /// Takes the editor's answer to a barrier.
    pub(super) fn barrier_answered(
        &mut self,
        barrier: &mut Barrier,
        answer: Result<Value, String>,
    ) {
        barrier.answered = true;
        match self.synced(&barrier.uris, answer) {
            Some(awaited) => barrier.awaited = awaited,
            None => barrier.behind = true,
        }
    }

    /// True if the barrier is over; from then on `behind` says whether it held.
    pub(super) fn is_over(&self, barrier: &mut Barrier) -> bool {
        barrier.awaited.retain(|(uri, instance, lsp_version)| {
            self.documents.get(uri).is_some_and(|it| {
                (it.instance, it.lsp_version) < (*instance, *lsp_version)
                    && it.instance <= *instance
            })
        });
        if barrier.answered && (barrier.awaited.is_empty() || broken!(AnswerOvertakes)) {
            return true;
        }
        if self.now >= barrier.deadline {
            barrier.behind = true;
            return true;
        }
        false
    }

    /// Takes what the editor says of documents; returns the versions that have yet to arrive, or none if the answer is
    /// no barrier. A document that the editor does not name is closed.
    fn synced(
        &mut self,
        uris: &[(String, u32)],
        answer: Result<Value, String>,
    ) -> Option<Vec<(String, u32, i32)>> {
        let answer = answer
            .and_then(|it| serde_json::from_value::<SyncResult>(it).map_err(|err| err.to_string()));
        let result = match answer {
            Ok(result) => result,
            Err(err) => {
                self.log(tracing::Level::WARN, format!("abreast/sync failed: {err}"));
                return None;
            }
        };
        let mut named = std::collections::BTreeMap::new();
        for (uri, synced) in result.documents {
            named.insert(self.document_uri(&uri).unwrap_or(uri), synced);
        }
        let mut awaited = Vec::new();
        for (uri, instance) in uris {
            let Some(document) = self.documents.get_mut(uri) else {
                continue;
            };
            match named.get(uri) {
                Some(synced) => {
                    document.dirty = synced.dirty.unwrap_or(document.dirty);
                    awaited.push((
                        uri.clone(),
                        synced.instance.unwrap_or(document.instance),
                        synced.version,
                    ));
                }
                None if document.instance == *instance => self.closed(uri),
                None => {}
            }
        }
        Some(awaited)
    }

    /// Asks for a barrier that settles documents of which the outcome of an edit is unknown.
    pub(super) fn probe(&mut self, uris: Vec<String>) {
        if self.client.sync && !uris.is_empty() {
            let params = json!({ "uris": uris });
            self.ask(AskOwner::Probe(uris), "abreast/sync", params);
        }
    }

    /// Asks for the full text of documents whose text here may not be the editor's.
    pub(super) fn ask_for_full(&mut self, uris: Vec<String>) {
        if self.client.sync && !uris.is_empty() {
            let params = json!({ "uris": uris, "full": uris });
            self.ask(AskOwner::Probe(uris), "abreast/sync", params);
        }
    }

    pub(super) fn probe_answered(&mut self, uris: &[String], answer: Result<Value, String>) {
        let with_instances: Vec<_> = uris
            .iter()
            .map(|uri| {
                (
                    uri.clone(),
                    self.documents.get(uri).map_or(0, |it| it.instance),
                )
            })
            .collect();
        let awaited = self.synced(&with_instances, answer);
        // What has not arrived yet is settled by its arrival, or by the next barrier.
        for (uri, instance, lsp_version) in awaited.into_iter().flatten() {
            let now = self
                .documents
                .get(&uri)
                .map(|it| (it.instance, it.lsp_version));
            if now.is_some_and(|it| it >= (instance, lsp_version)) {
                self.settle(&uri);
            }
        }
    }
}
