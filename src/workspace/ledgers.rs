//! `abreast/ledger`, `observe`, `forget` and the import of a ledger: what a session is told of what it has seen, and what
//! its host says that it has seen.
//!
//! Invariant: closed files are looked at before anything is said of them; an imported entry counts only if the file still
//! has that content.

use std::collections::BTreeMap;

use super::{
    Answer, Call, CallId, CallKind, Compute, ConnectionId, JobId, JobOwner, Looked, NewCall,
    Outcome, Workspace,
    reads::desynced,
    sessions::directory,
    telling::{Current, StatusJob, Told},
};
use crate::{
    error::{Failure, FsError},
    ledger::{Entry, Lines, Observation},
    path::{self, FileKey, Lookups},
    protocol::{
        ExportedEntry, ExportedLedger, ForgetParams, ForgetResult, LedgerEntry, LedgerParams,
        LedgerResult, ObserveParams, OpenSessionParams, OpenSessionResult, Seen, Status,
    },
    text::Text,
    version::Version,
};

/// A call about the ledger while closed files are looked at.
#[derive(Debug)]
pub(super) struct LedgerCall {
    purpose: Purpose,
    /// The files, as the session names them.
    files: Vec<(FileKey, String)>,
    looks: BTreeMap<JobId, FileKey>,
    looked: BTreeMap<FileKey, Looked>,
    /// What the files hold, where it is a text.
    texts: BTreeMap<FileKey, Text>,
    /// The workspace's sequence when the rows were begun.
    seq: u64,
}

#[derive(Debug)]
enum Purpose {
    List {
        export: bool,
    },
    /// What was seen; none: what is there.
    Observe(Option<(Version, Option<Text>)>),
    Import {
        entries: Vec<ExportedEntry>,
        result: Box<OpenSessionResult>,
    },
}

impl Workspace {
    pub(super) fn ledger(
        &mut self,
        new: NewCall,
        params: &LedgerParams,
        lookups: &Lookups,
    ) -> Result<Option<Answer>, Failure> {
        let session = self.own_session(new.connection, &params.session_id)?;
        let owner = (session.id.clone(), session.epoch);
        let files = match &params.path {
            Some(path) => {
                let key = self.resolve(Some(&params.session_id), path, lookups)?;
                vec![(key, path.clone())]
            }
            None => session
                .ledger
                .iter()
                .map(|(key, entry)| (key.clone(), entry.path.clone()))
                .collect(),
        };
        let purpose = Purpose::List {
            export: params.export,
        };
        self.begin(new, owner, purpose, files);
        Ok(None)
    }

    pub(super) fn observe(
        &mut self,
        new: NewCall,
        params: ObserveParams,
        lookups: &Lookups,
    ) -> Result<Option<Answer>, Failure> {
        let session = self.own_session(new.connection, &params.session_id)?;
        let owner = (session.id.clone(), session.epoch);
        let key = self.resolve(Some(&params.session_id), &params.path, lookups)?;
        let seen = match (params.version, params.document_version, params.text) {
            (None, None, None) => None,
            (Some(version), None, None) => Some((version, None)),
            (None, None, Some(text)) => {
                let text = Text::flat(text);
                Some((Version::of(&text), Some(text)))
            }
            (None, Some(lsp_version), None) => self.seen_document(&key, lsp_version)?,
            _ => {
                return Err(Failure::params(
                    "at most one of version, documentVersion and text can say what was seen",
                ));
            }
        };
        self.begin(new, owner, Purpose::Observe(seen), vec![(key, params.path)]);
        Ok(None)
    }

    /// What a document held at an LSP version: none for the current one. What an earlier one held is not kept; it gets a
    /// version that no content has, so that it is stale.
    fn seen_document(
        &self,
        key: &FileKey,
        lsp_version: i32,
    ) -> Result<Option<(Version, Option<Text>)>, Failure> {
        let Some((uri, document)) = self.document_of(key) else {
            return Err(Failure::params(
                "documentVersion: the file is not open in the editor",
            ));
        };
        if lsp_version > document.lsp_version {
            return Err(Failure::params(format!(
                "documentVersion: the document is at version {}",
                document.lsp_version
            )));
        }
        if lsp_version == document.lsp_version {
            return Ok(None);
        }
        let unique = format!("{uri}\n{}\n{lsp_version}\n\0", document.instance);
        Ok(Some((Version::of(&Text::flat(unique)), None)))
    }

    pub(super) fn forget(
        &mut self,
        connection: ConnectionId,
        params: &ForgetParams,
        lookups: &Lookups,
    ) -> Result<Answer, Failure> {
        let session = self.own_session(connection, &params.session_id)?;
        let keys: Vec<FileKey> = match &params.paths {
            None => session.ledger.iter().map(|it| it.0.clone()).collect(),
            Some(paths) => paths
                .iter()
                .map(|path| self.resolve(Some(&params.session_id), path, lookups))
                .collect::<Result<_, _>>()?,
        };
        let mut forgotten = 0;
        if let Some(session) = self.sessions.get_mut(&params.session_id) {
            for key in keys {
                forgotten += usize::from(session.ledger.remove(&key).is_some());
            }
        }
        Ok(Answer::Forgotten(ForgetResult { forgotten }))
    }

    /// The paths to look up before a session is opened with a ledger.
    pub(super) fn imported_paths(&self, params: &OpenSessionParams) -> Vec<std::path::PathBuf> {
        let names = params.ledger.iter().flat_map(|it| &it.entries);
        let cwd = params.cwd.as_deref().and_then(|it| directory(it).ok());
        let candidates = names.filter_map(|it| {
            path::candidates(&it.path, cwd.as_deref(), &self.folders, |_| false).ok()
        });
        candidates.flat_map(|it| it.paths()).collect()
    }

    pub(super) fn import(
        &mut self,
        new: NewCall,
        mut result: OpenSessionResult,
        ledger: ExportedLedger,
        lookups: &Lookups,
    ) -> Result<Option<Answer>, Failure> {
        if ledger.version != 1 {
            self.drop_session(&result.session_id);
            let version = ledger.version;
            return Err(Failure::params(format!(
                "ledger.version: {version} is not 1"
            )));
        }
        let session = self.own_session(new.connection, &result.session_id)?;
        let owner = (session.id.clone(), session.epoch);
        let mut files = Vec::new();
        let mut entries = Vec::new();
        let mut n_unresolved = 0;
        for entry in ledger.entries {
            if let Ok(key) = self.resolve(Some(&owner.0), &entry.path, lookups) {
                files.push((key, entry.path.clone()));
                entries.push(entry);
            } else {
                n_unresolved += 1;
            }
        }
        // What cannot be resolved any more is dropped like what has changed.
        result.dropped = Some(n_unresolved);
        let result = Box::new(result);
        self.begin(new, owner, Purpose::Import { entries, result }, files);
        Ok(None)
    }

    /// Looks at the closed files, then goes on.
    fn begin(
        &mut self,
        new: NewCall,
        session: (String, u64),
        purpose: Purpose,
        files: Vec<(FileKey, String)>,
    ) {
        let id = new.id;
        let mut looks = BTreeMap::new();
        for (key, _) in &files {
            if matches!(key, FileKey::Path(_)) && self.document_of(key).is_none() {
                let job = self.look(JobOwner::Call(id), key.clone(), None);
                looks.insert(job, key.clone());
            }
        }
        // A later change of the file waits for what is observed here.
        let keys = match purpose {
            Purpose::List { .. } => Vec::new(),
            Purpose::Observe(_) | Purpose::Import { .. } => {
                let mut keys: Vec<FileKey> = files.iter().map(|it| it.0.clone()).collect();
                keys.sort();
                keys.dedup();
                keys
            }
        };
        let call = LedgerCall {
            purpose,
            files,
            looks,
            looked: BTreeMap::new(),
            texts: BTreeMap::new(),
            seq: self.seq,
        };
        let call = new.call(Some(session), keys, CallKind::Ledger(call));
        self.enqueue(id, call);
        self.go_on_with_ledger(id);
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
                self.calls.insert(id, call);
                self.go_on_with_ledger(id);
            }
            Outcome::Status(told) => self.rows_made(id, call, told),
            _ => {
                self.calls.insert(id, call);
            }
        }
    }

    fn go_on_with_ledger(&mut self, id: CallId) {
        let Some(mut call) = self.calls.remove(&id) else {
            return;
        };
        let (CallKind::Ledger(ledger), Some((session_id, _))) = (&mut call.kind, &call.session)
        else {
            return;
        };
        if !ledger.looks.is_empty() {
            self.calls.insert(id, call);
            return;
        }
        if let Some(err) = self.unobservable(ledger) {
            self.finish(id, &call, Err(err.into()));
            return;
        }
        ledger.seq = self.seq;
        let mut rows = Vec::new();
        for (idx, (key, path)) in ledger.files.iter().enumerate() {
            if let Some(mut row) = self.row(session_id, key, path, ledger.looked.get(key)) {
                row.entry = match &ledger.purpose {
                    Purpose::List { .. } => row.entry,
                    Purpose::Observe(seen) => seen.clone().map(|(version, snapshot)| {
                        ledger.entry(path, Observation::Present(version), snapshot, call.turn)
                    }),
                    Purpose::Import { entries, .. } => {
                        let observation = observation(&entries[idx]);
                        observation.map(|it| ledger.entry(path, it, None, None))
                    }
                };
                if let Current::Text(text, _) = &row.current {
                    ledger.texts.insert(key.clone(), text.clone());
                }
                rows.push(row);
            }
        }
        match self.compute(JobOwner::Call(id), Compute::Status(StatusJob { rows })) {
            Ok(Outcome::Status(told)) => self.rows_made(id, call, told),
            _ => {
                self.calls.insert(id, call);
            }
        }
    }

    /// Why nobody can have been shown what is there now.
    fn unobservable(&self, ledger: &LedgerCall) -> Option<FsError> {
        let Purpose::Observe(None) = ledger.purpose else {
            return None;
        };
        let (key, path) = ledger.files.first()?;
        if let Some((uri, document)) = self.document_of(key) {
            let what = format!("cannot observe \"{path}\"");
            return document.is_unknown().then(|| desynced(&what).at(path, uri));
        }
        match ledger.looked.get(key) {
            Some(Looked::Refused(err)) => Some(FsError::from_disk(err, path).at(path, &key.uri())),
            _ => None,
        }
    }

    fn rows_made(&mut self, id: CallId, call: Call, told: Vec<Told>) {
        let CallKind::Ledger(ledger) = &call.kind else {
            return;
        };
        for told in &told {
            self.keep_version(told);
            let file = self.files.get(&told.key);
            if file.is_some_and(|it| !it.authors_since(ledger.seq).is_empty()) {
                // What is said of it is what it was before that.
                self.touch(&told.key, None);
            }
        }
        let answer = match &ledger.purpose {
            Purpose::List { export } => self.list(&call, *export, told),
            Purpose::Observe(seen) => {
                let snapshot = seen.as_ref().and_then(|it| it.1.clone());
                let rows = told.into_iter();
                let mut rows = rows.map(|it| self.record(&call, ledger, it, snapshot.clone()));
                match rows.next() {
                    Some(row) => Answer::Observed(Box::new(row)),
                    None => Answer::Nothing,
                }
            }
            Purpose::Import { entries, result } => {
                let mut result = result.clone();
                let fresh = told
                    .into_iter()
                    .filter(|it| it.row.status == Status::Fresh && it.row.state != Seen::Unseen);
                let rows = fresh.map(|it| self.record(&call, ledger, it, None));
                let revalidated = rows.count();
                result.revalidated = Some(revalidated);
                let n_unresolved = result.dropped.unwrap_or_default();
                result.dropped = Some(n_unresolved + entries.len() - revalidated);
                Answer::Session(*result)
            }
        };
        self.finish(id, &call, Ok(answer));
    }

    fn list(&mut self, call: &Call, export: bool, told: Vec<Told>) -> Answer {
        for told in &told {
            let seen = told.row.version;
            if let Some(session) = self.live_session(call.session.as_ref())
                && let Some(entry) = session.ledger.get_mut(&told.key)
                && seen.map_or(Observation::Absent, Observation::Present) == entry.observation
            {
                entry.told = Some(told.row.status);
            }
        }
        let entries: Vec<LedgerEntry> = told.into_iter().map(|it| it.row).collect();
        let export = export.then(|| ExportedLedger {
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
        Answer::Ledger(LedgerResult { entries, export })
    }

    /// Writes what was seen into the ledger, and says it.
    fn record(
        &mut self,
        call: &Call,
        ledger: &LedgerCall,
        told: Told,
        snapshot: Option<Text>,
    ) -> LedgerEntry {
        let mut row = told.row;
        if row.state == Seen::Unseen {
            // The current content was seen.
            row.version = row.current_version;
            row.state = if row.version.is_some() {
                Seen::Present
            } else {
                Seen::Absent
            };
        }
        let is_fresh = row.status == Status::Fresh;
        let current = ledger.texts.get(&told.key).filter(|_| is_fresh);
        let snapshot = snapshot.or_else(|| current.cloned());
        let observation = row
            .version
            .map_or(Observation::Absent, Observation::Present);
        let turn = match ledger.purpose {
            Purpose::Import { .. } => None,
            Purpose::List { .. } | Purpose::Observe(_) => call.turn,
        };
        let mut entry = ledger.entry(&row.path, observation, snapshot, turn);
        if let (Purpose::Observe(_), Some(text)) = (&ledger.purpose, &entry.snapshot) {
            entry.shown = Lines::all(text.total_lines());
        }
        entry.told = Some(row.status);
        if let Some(session) = self.live_session(call.session.as_ref()) {
            session.ledger.observe(told.key, entry);
        }
        row
    }
}

impl LedgerCall {
    /// True if the call opens its session with a ledger.
    pub(super) fn is_import(&self) -> bool {
        matches!(self.purpose, Purpose::Import { .. })
    }

    fn entry(
        &self,
        path: &str,
        observation: Observation,
        snapshot: Option<Text>,
        turn: Option<u64>,
    ) -> Entry {
        Entry {
            observation,
            path: path.to_string(),
            seq: self.seq,
            snapshot,
            shown: Lines::default(),
            told: Some(Status::Fresh),
            turn,
        }
    }
}

fn observation(entry: &ExportedEntry) -> Option<Observation> {
    match (entry.state, entry.version) {
        (Seen::Present, Some(version)) => Some(Observation::Present(version)),
        (Seen::Absent, _) => Some(Observation::Absent),
        (Seen::Present | Seen::Unseen, _) => None,
    }
}
