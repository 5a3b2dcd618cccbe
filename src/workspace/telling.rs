//! What is told about ledgers: rows, and `ledgerChanged` when one turns stale or fresh.
//!
//! Invariant: at most one batch per 50 ms, and only entries whose status is another than was last told. A session is told
//! nothing of a file while it changes it itself: what its own edit does is no news to it, and the rest is told afterwards.

use serde_json::json;

use super::{Alarm, CallKind, Compute, Effect, JobOwner, Looked, Millis, Outcome, Workspace};
use crate::{
    large::is_large,
    ledger::{Entry, Observation},
    path::FileKey,
    protocol::{Author, LedgerEntry, Seen, Status},
    text::{Text, diff},
    version::Version,
};

/// Least time between two batches, in milliseconds.
pub(super) const BATCH_MS: Millis = 50;

/// What a file holds now, as far as it is known.
#[derive(Debug, Clone)]
pub(super) enum Current {
    Absent,
    Text(Text, Option<Version>),
    Version(Version),
    /// Something that is no text, so nothing that anybody was shown.
    Unreadable,
    /// A closed file that nobody looked at: taken to be as it was seen.
    Unknown,
}

/// A row to make.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) session: (String, u64),
    pub(super) key: FileKey,
    pub(super) uri: String,
    /// None: the session has not seen the file; then `path` is what it calls it.
    pub(super) entry: Option<Entry>,
    pub(super) path: String,
    pub(super) current: Current,
    pub(super) changed_by: Vec<Author>,
    pub(super) generation: u64,
}

/// Rows to make, perhaps of large texts.
#[derive(Debug)]
pub struct StatusJob {
    pub(super) rows: Vec<Row>,
}

/// A row that was made.
#[derive(Debug)]
pub struct Told {
    pub(super) session: (String, u64),
    pub(super) key: FileKey,
    pub(super) row: LedgerEntry,
    /// The document's version at this generation, if it was computed.
    pub(super) computed: Option<(u64, Version)>,
}

impl StatusJob {
    pub(super) fn cost(&self) -> usize {
        let len = |row: &Row| match &row.current {
            Current::Text(text, _) => text.len_bytes(),
            Current::Absent | Current::Version(_) | Current::Unreadable | Current::Unknown => 0,
        };
        self.rows.iter().map(len).sum()
    }

    pub(super) fn run(self) -> Vec<Told> {
        let mut versions: Vec<(FileKey, Version)> = Vec::new();
        self.rows
            .into_iter()
            .map(|row| row.run(&mut versions))
            .collect()
    }
}

impl Row {
    fn run(self, versions: &mut Vec<(FileKey, Version)>) -> Told {
        let mut computed = None;
        let current = match &self.current {
            Current::Absent => Some(None),
            Current::Version(version) | Current::Text(_, Some(version)) => Some(Some(*version)),
            Current::Text(text, None) => {
                let known = versions.iter().find(|it| it.0 == self.key).map(|it| it.1);
                let version = known.unwrap_or_else(|| Version::of(text));
                versions.push((self.key.clone(), version));
                computed = Some((self.generation, version));
                Some(Some(version))
            }
            Current::Unreadable | Current::Unknown => None,
        };
        let (state, version) = match self.entry.as_ref().map(|it| it.observation) {
            None => (Seen::Unseen, None),
            Some(Observation::Absent) => (Seen::Absent, None),
            Some(Observation::Present(version)) => (Seen::Present, Some(version)),
        };
        let is_unreadable = matches!(self.current, Current::Unreadable);
        let is_stale =
            self.entry.is_some() && (is_unreadable || current.is_some_and(|it| it != version));
        let changed_ranges = match (&self.entry, &self.current) {
            (
                Some(Entry {
                    snapshot: Some(seen),
                    ..
                }),
                Current::Text(text, _),
            ) if is_stale => diff::changed_ranges(seen, text),
            _ => Vec::new(),
        };
        let row = LedgerEntry {
            uri: self.uri,
            path: self.entry.map_or(self.path, |it| it.path),
            state,
            version,
            status: if is_stale {
                Status::Stale
            } else {
                Status::Fresh
            },
            current_version: match self.current {
                Current::Unknown => version,
                _ => current.flatten(),
            },
            changed_by: if is_stale {
                self.changed_by
            } else {
                Vec::new()
            },
            changed_ranges,
        };
        Told {
            session: self.session,
            key: self.key,
            row,
            computed,
        }
    }
}

impl Workspace {
    /// The row of a file in a session's ledger; `looked`: what was just found on disk.
    pub(super) fn row(
        &self,
        session_id: &str,
        key: &FileKey,
        path: &str,
        looked: Option<&Looked>,
    ) -> Option<Row> {
        let session = self.sessions.get(session_id)?;
        let entry = session.ledger.get(key).cloned();
        let file = self.files.get(key);
        let mut changed_by = entry
            .as_ref()
            .and_then(|it| Some(file?.authors_since(it.seq)))
            .unwrap_or_default();
        let mut uri = key.uri();
        let mut generation = 0;
        let current = if let Some((open_as, document)) = self.document_of(key) {
            uri = open_as.to_string();
            generation = document.generation;
            if document
                .pending
                .as_ref()
                .is_some_and(|it| it.1.moved() && !it.1.landed())
                && !changed_by.contains(&Author::Human)
            {
                changed_by.push(Author::Human);
            }
            Current::Text(document.text(), document.version)
        } else {
            match looked {
                Some(Looked::Absent { .. }) => Current::Absent,
                Some(Looked::Text { text, version, .. }) => {
                    Current::Text(text.clone(), Some(*version))
                }
                Some(Looked::Refused(_)) => Current::Unreadable,
                None => match file.and_then(|it| it.disk) {
                    Some(Observation::Absent) => Current::Absent,
                    Some(Observation::Present(version)) => Current::Version(version),
                    None if matches!(key, FileKey::Uri(_)) => Current::Absent,
                    None => Current::Unknown,
                },
            }
        };
        let session = (session_id.to_string(), session.epoch);
        Some(Row {
            session,
            key: key.clone(),
            uri,
            entry,
            path: path.to_string(),
            current,
            changed_by,
            generation,
        })
    }

    /// Makes the rows of all sessions that have seen something of the files that were touched.
    pub(super) fn tell_touched(&mut self) {
        self.is_telling = false;
        self.last_told = self.now;
        let touched = std::mem::take(&mut self.touched);
        let mut rows = Vec::new();
        for (key, looked) in &touched {
            for (session_id, session) in &self.sessions {
                let Some(entry) = session.ledger.get(key) else {
                    continue;
                };
                if self.is_changed_by(key, session_id) {
                    self.withheld.insert(key.clone(), looked.clone());
                } else if !self.is_surely_as_told(key, entry) {
                    rows.extend(self.row(session_id, key, &entry.path, looked.as_ref()));
                }
            }
        }
        if rows.is_empty() {
            return;
        }
        if let Ok(Outcome::Status(told)) =
            self.compute(JobOwner::Telling, Compute::Status(StatusJob { rows }))
        {
            self.tell(told);
        }
    }

    /// Whether a call of the session is changing the file right now.
    fn is_changed_by(&self, key: &FileKey, session_id: &str) -> bool {
        let first = self.files.get(key).and_then(|it| it.queue.front());
        let Some(call) = first.and_then(|it| self.calls.get(it)) else {
            return false;
        };
        matches!(&call.kind, CallKind::Change(change) if change.is_sent)
            && call.session.as_ref().is_some_and(|it| it.0 == session_id)
    }

    /// A large text of another length than the one that was seen need not be hashed to be told stale again.
    fn is_surely_as_told(&self, key: &FileKey, entry: &Entry) -> bool {
        let Some((_, document)) = self.document_of(key) else {
            return false;
        };
        let text = document.text();
        let differs = entry
            .snapshot
            .as_ref()
            .is_some_and(|it| it.len_bytes() != text.len_bytes());
        entry.told == Some(Status::Stale) && differs && is_large(text.len_bytes())
    }

    /// Tells the rows whose status is another than was last told.
    pub(super) fn tell(&mut self, told: Vec<Told>) {
        let mut batches: Vec<(String, Vec<LedgerEntry>)> = Vec::new();
        for told in told {
            self.keep_version(&told);
            let Some(session) = self.live_session(Some(&told.session)) else {
                continue;
            };
            let Some(entry) = session.ledger.get_mut(&told.key) else {
                continue;
            };
            let seen = match entry.observation {
                Observation::Present(version) => Some(version),
                Observation::Absent => None,
            };
            // The session may have read the file since; then there is nothing to tell.
            if entry.told == Some(told.row.status) || seen != told.row.version {
                continue;
            }
            entry.told = Some(told.row.status);
            match batches.iter_mut().find(|it| it.0 == told.session.0) {
                Some(batch) => batch.1.push(told.row),
                None => batches.push((told.session.0, vec![told.row])),
            }
        }
        for (session_id, entries) in batches {
            let params = json!({ "sessionId": session_id, "entries": entries });
            self.effects.push(Effect::Notify {
                method: "abreast/ledgerChanged",
                params,
            });
        }
    }

    /// Keeps a version that was computed for a document that has not changed since.
    pub(super) fn keep_version(&mut self, told: &Told) {
        let Some((generation, version)) = told.computed else {
            return;
        };
        let Some(uri) = self.document_of(&told.key).map(|it| it.0.to_string()) else {
            return;
        };
        if let Some(document) = self.documents.get_mut(&uri)
            && document.generation == generation
        {
            document.version = Some(version);
        }
    }

    /// Forgets a batch that is not needed any more.
    pub(super) fn forget_batch(&mut self) {
        if self.sessions.is_empty() {
            self.touched.clear();
            self.withheld.clear();
            self.is_telling = false;
            self.alarms.retain(|it| it.1 != Alarm::Batch);
        }
    }
}
