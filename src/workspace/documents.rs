//! What the editor reports of its documents.
//!
//! Invariant: a keystroke costs O(log n): no hash, no scan, no copy. Who made a change is decided here and nowhere else:
//! it is human unless it completes an edit that we sent.

use std::{ops::Range, path::PathBuf};

use super::{AskId, CallId, Compute, JobOwner, Looked, Outcome, Workspace};
use crate::{
    disk::DiskErrorKind,
    ledger::{Entry, Lines, Observation},
    path::{self, Candidates, FileKey},
    pending::{Pending, Verdict},
    protocol::{ApplyEditResult, Author, ContentChange, DocumentState, EolKind},
    text::{Text, buffer::Buffer, splice::Splice},
    version::Version,
};

/// An open document.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // what the editor says of it
pub(super) struct Document {
    pub(super) key: FileKey,
    /// The path that its URI decodes to.
    path: Option<PathBuf>,
    /// How many didOpen of the URI there were: a reload can bring other text under the same LSP version.
    pub(super) instance: u32,
    pub(super) lsp_version: i32,
    pub(super) buffer: Buffer,
    /// The workspace's sequence at the last change of the content.
    pub(super) generation: u64,
    /// The version of the content, where it has been needed since the last change.
    pub(super) version: Option<Version>,
    pub(super) dirty: bool,
    pub(super) read_only: bool,
    pub(super) conflict: bool,
    /// The text has U+FFFD and the bytes on disk are no UTF-8: saving would destroy them.
    pub(super) undecodable: bool,
    /// The disk is being looked at after the didOpen: what was opened, to hand entries over.
    opened: Option<(Text, Version, u64)>,
    pub(super) is_checking: bool,
    /// It is being found out whether an edit of unknown outcome has landed.
    pub(super) is_settling: bool,
    /// A change could not be applied: the text here is not the editor's.
    pub(super) desynced: bool,
    /// Where the buffer has U+FFFD for half a character: byte and UTF-16 code unit, in ascending order.
    halves: Vec<(usize, u16)>,
    /// The edit that is out.
    pub(super) pending: Option<(CallId, Pending)>,
    /// An edit that was not answered in time: it may still land.
    pub(super) unknown: Option<Unknown>,
    /// The last of those that landed by the look of it, and when: the editor may still say that it refused it.
    credited: Option<(AskId, u64)>,
}

/// An edit of which nobody knows whether it lands.
#[derive(Debug)]
pub(super) struct Unknown {
    pub(super) ask: AskId,
    pub(super) pending: Pending,
    /// The session whose edit it is, with its epoch, and what its ledger gets if the edit lands.
    pub(super) session: Option<(String, u64)>,
    pub(super) path: String,
    pub(super) version: Version,
    pub(super) shown: Lines,
    /// A barrier found that it has not landed. It still may, and then it is known by its result; until it has been
    /// answered it is remembered for that.
    pub(super) is_settled: bool,
    pub(super) is_answered: bool,
}

impl Document {
    pub(super) fn text(&self) -> Text {
        self.buffer.text()
    }

    /// True if the text here is not the editor's.
    pub(super) fn is_unknown(&self) -> bool {
        (self.desynced || !self.halves.is_empty()) && !broken!(DesyncIgnored)
    }

    /// Bytes of the placeholder.
    const HALF: usize = '\u{FFFD}'.len_utf8();

    /// Moves the halves along with a change of the buffer, and joins those that belong together: editors that count in
    /// UTF-16 may report a character in two changes.
    fn join_halves(&mut self, range: Range<usize>, change: &ContentChange) {
        if self.halves.is_empty() && change.halves.is_empty() {
            return;
        }
        let shift = change.text.len().cast_signed() - range.len().cast_signed();
        self.halves.retain(|it| !range.contains(&it.0));
        for half in self.halves.iter_mut().filter(|it| it.0 >= range.end) {
            half.0 = half.0.wrapping_add_signed(shift);
        }
        self.halves.extend(
            change
                .halves
                .iter()
                .map(|&(byte, unit)| (range.start + byte, unit)),
        );
        self.halves.sort_unstable();
        while let Some(at) = self.halves.windows(2).position(|it| {
            it[0].0 + Self::HALF == it[1].0
                && char::decode_utf16([it[0].1, it[1].1]).all(|it| it.is_ok())
        }) {
            let (start, high) = self.halves[at];
            let (_, low) = self.halves[at + 1];
            let joined: String = char::decode_utf16([high, low])
                .filter_map(Result::ok)
                .collect();
            self.buffer.replace(start..start + 2 * Self::HALF, &joined);
            self.halves.drain(at..at + 2);
            for half in &mut self.halves[at..] {
                half.0 -= 2 * Self::HALF - joined.len();
            }
        }
    }

    /// Whether a text that stands for undecodable bytes is (still) in the buffer.
    pub(super) fn has_undecodable(&self) -> bool {
        self.undecodable && has_replacement_character(&self.text())
    }
}

fn has_replacement_character(text: &Text) -> bool {
    !crate::text::matching::find(text, "\u{FFFD}", 1)
        .ranges
        .is_empty()
}

impl Workspace {
    /// The URI under which a document is open that may be spelled otherwise (`%3A`, `%c3`).
    pub(super) fn document_uri(&self, uri: &str) -> Option<String> {
        if self.documents.contains_key(uri) {
            return Some(uri.to_string());
        }
        let path = path::file_uri_to_path(uri)?;
        self.documents
            .iter()
            .find(|it| it.1.path.as_ref() == Some(&path))
            .map(|it| it.0.clone())
    }

    /// The file of an open document whose URI names the first of the paths.
    pub(super) fn open_by_path(&self, candidates: &Candidates) -> Option<FileKey> {
        let Candidates::Paths(paths) = candidates else {
            return None;
        };
        let first = paths.first()?;
        let mut documents = self.documents.values();
        let document = documents.find(|it| it.path.as_ref() == Some(first))?;
        Some(document.key.clone())
    }

    /// The document that shows a file: the one opened last.
    pub(super) fn document_of(&self, key: &FileKey) -> Option<(&str, &Document)> {
        let uri = self.files.get(key)?.uris.last()?;
        Some((uri, self.documents.get(uri)?))
    }

    pub(super) fn has_entries(&self, key: &FileKey) -> bool {
        self.sessions
            .values()
            .any(|it| it.ledger.get(key).is_some())
    }

    /// Notes that somebody changed a file.
    pub(super) fn note_change(&mut self, key: &FileKey, author: Author) -> u64 {
        let seq = self.next_seq();
        self.note_change_at(key, author, seq);
        seq
    }

    /// Notes a change that is known only now: what was seen since it was made is not older than it.
    pub(super) fn note_change_at(&mut self, key: &FileKey, author: Author, seq: u64) {
        self.files.entry(key.clone()).or_default().push(author, seq);
        self.touch(key, None);
    }

    pub(super) fn opened(&mut self, uri: &str, key: FileKey, lsp_version: i32, text: &str) {
        if let Some(known) = self.document_uri(uri) {
            self.log(tracing::Level::WARN, format!("{uri} was opened twice"));
            self.remove_document(&known);
        }
        let instance = self.instances.entry(uri.to_string()).or_default();
        *instance += 1;
        let instance = *instance;
        let buffer = Buffer::new(text, self.client.lone_cr_is_text);
        let opened = buffer.text();
        let mut document = Document {
            key: key.clone(),
            path: path::file_uri_to_path(uri),
            instance,
            lsp_version,
            buffer,
            generation: self.next_seq(),
            version: None,
            dirty: false,
            read_only: false,
            conflict: false,
            undecodable: false,
            opened: None,
            is_checking: false,
            is_settling: false,
            desynced: false,
            halves: Vec::new(),
            pending: None,
            unknown: None,
            credited: None,
        };
        let file = self.files.entry(key.clone()).or_default();
        file.uris.push(uri.to_string());
        file.unsynced = None;
        let is_file = matches!(key, FileKey::Path(_));
        let mut look = is_file && has_replacement_character(&opened);
        if self.has_entries(&key) {
            let version = Version::of(&opened);
            document.version = Some(version);
            let differs = |entry: &Entry| entry.observation != Observation::Present(version);
            if self
                .sessions
                .values()
                .flat_map(|it| it.ledger.all(&key))
                .any(differs)
            {
                let disk = self.files.get(&key).and_then(|it| it.disk);
                let author = if disk == Some(Observation::Present(version)) {
                    Author::Disk
                } else {
                    Author::Human
                };
                self.note_opened_otherwise(&key, author);
                document.opened = Some((opened.clone(), version, document.generation));
                look |= is_file;
            }
            self.touch(&key, None);
        }
        document.is_checking = look;
        self.documents.insert(uri.to_string(), document);
        let first = self.files.get(&key).and_then(|it| it.queue.front());
        self.note_shown(first.copied(), &key, &opened);
        if look {
            self.look(
                JobOwner::Opened {
                    uri: uri.to_string(),
                    instance,
                },
                key.clone(),
                Some(opened),
            );
        }
        self.poke_all(&key);
    }

    /// The text that was opened is not what some session saw, and nobody is known to have changed it.
    fn note_opened_otherwise(&mut self, key: &FileKey, author: Author) {
        let unexplained = self
            .sessions
            .values()
            .filter_map(|it| it.ledger.get(key))
            .any(|entry| {
                self.files
                    .get(key)
                    .is_none_or(|file| file.authors_since(entry.seq).is_empty())
            });
        if unexplained {
            self.note_change(key, author);
        }
    }

    /// The disk was looked at after a didOpen: a clean document and its file may differ by the final line break without
    /// anybody having changed anything; and bytes that are no UTF-8 cannot come back from U+FFFD.
    pub(super) fn looked_after_open(&mut self, uri: &str, instance: u32, looked: &Looked) {
        let Some(document) = self
            .documents
            .get_mut(uri)
            .filter(|it| it.instance == instance)
        else {
            return;
        };
        document.is_checking = false;
        let opened = document.opened.take();
        let generation = document.generation;
        let key = document.key.clone();
        match looked {
            Looked::Refused(err) => document.undecodable = err.kind == DiskErrorKind::NotText,
            Looked::Text { version, alike, .. } if *alike || broken!(HandOverAnything) => {
                // What was typed since is compared with what was seen, not with what was opened.
                if let Some((text, opened, seq)) = opened.filter(|it| it.2 == generation) {
                    self.hand_over(&key, *version, opened, &text, seq);
                }
            }
            Looked::Text { .. } | Looked::Absent { .. } => {}
        }
        self.poke_all(&key);
    }

    /// Moves the entries that were made before a point of the sequence from one version of a file to another version of
    /// the same content.
    pub(super) fn hand_over(
        &mut self,
        key: &FileKey,
        from: Version,
        to: Version,
        text: &Text,
        before: u64,
    ) {
        let file = self.files.get(key);
        for session in self.sessions.values_mut() {
            let moves = |it: &&mut Entry| {
                it.observation == Observation::Present(from)
                    && it.seq < before
                    && !file.is_some_and(|file| file.has_session_since(it.seq))
            };
            for entry in session.ledger.all_mut(key).filter(moves) {
                entry.observation = Observation::Present(to);
                entry.snapshot = Some(text.clone());
            }
        }
        self.touch(key, None);
    }

    pub(super) fn changed(
        &mut self,
        uri: &str,
        lsp_version: i32,
        changes: Option<Vec<ContentChange>>,
    ) {
        let Some(uri) = self.document_uri(uri) else {
            self.log(
                tracing::Level::WARN,
                format!("a change of {uri}, which is not open, was ignored"),
            );
            return;
        };
        let Some(changes) = changes else {
            self.desync(&uri, "a change that cannot be decoded");
            return;
        };
        let Some(document) = self.documents.get_mut(&uri) else {
            return;
        };
        let is_full = changes.first().is_some_and(|it| it.range.is_none());
        if document.desynced && !is_full {
            document.lsp_version = document.lsp_version.max(lsp_version);
            return;
        }
        if lsp_version <= document.lsp_version && !document.desynced {
            let reason = format!(
                "version {lsp_version} after version {}",
                document.lsp_version
            );
            self.desync(&uri, &reason);
            return;
        }
        if is_full {
            document.desynced = false;
        }
        document.lsp_version = lsp_version;
        if broken!(EchoLost) && document.pending.is_some() {
            return;
        }
        document.dirty = true;
        let key = document.key.clone();
        for change in changes {
            if let Err(reason) = self.apply_change(&uri, &key, change) {
                self.desync(&uri, &reason);
                return;
            }
        }
        self.poke_all(&key);
    }

    fn apply_change(
        &mut self,
        uri: &str,
        key: &FileKey,
        change: ContentChange,
    ) -> Result<(), String> {
        let seq = self.next_seq();
        let encoding = self.client.encoding;
        let lone_cr_is_text = self.client.lone_cr_is_text;
        let document = self
            .documents
            .get_mut(uri)
            .ok_or("the document was closed")?;
        let had_halves = document.is_unknown();
        let splice = match change.range {
            None => {
                let lf_only = document.buffer.lf_only();
                document.buffer = Buffer::new(&change.text, lone_cr_is_text);
                document.buffer.set_lf_only(lf_only);
                document.halves.clear();
                document.join_halves(0..0, &change);
                None
            }
            Some(range) => {
                if range.start > range.end {
                    return Err("a range that starts after its end".to_string());
                }
                let Range { start, end } =
                    document.buffer.bytes_at(range.start, range.end, encoding);
                let splits_a_character = change.halves.first().is_some_and(|it| it.0 == 0)
                    && document.buffer.position_of(start, encoding) != range.start;
                if splits_a_character {
                    return Err("half of a character that is there already".to_string());
                }
                document.buffer.replace(start..end, &change.text);
                document.join_halves(start..end, &change);
                Some(Splice {
                    range: start..end,
                    text: change.text,
                })
            }
        };
        // What was joined is no longer what was reported.
        let splice = splice.filter(|_| !had_halves && document.halves.is_empty());
        document.generation = seq;
        let before = document.version.take();
        let text = document.buffer.text();
        if let (true, Some(before)) = (broken!(HumanRefreshesLedger), before) {
            self.hand_over(key, before, Version::of(&text), &text, u64::MAX);
            return Ok(());
        }
        if let Some(unknown) = &mut document.unknown
            && unknown.pending.report(splice.clone(), &text)
        {
            self.credit(uri, seq);
            return Ok(());
        }
        let Some(document) = self.documents.get_mut(uri) else {
            return Ok(());
        };
        let mut author = Some(Author::Human);
        if let Some((id, pending)) = &mut document.pending {
            let id = *id;
            if pending.report(splice, &text) {
                author = Some(self.author_of(id));
                self.note_landed(id, uri, seq);
            } else if !pending.landed() {
                // Part of our edit or somebody's typing: it will be known when the editor has answered.
                author = None;
            }
        }
        if let Some(file) = self.files.get_mut(key) {
            let first = file.queue.front().copied();
            if let Some(author) = author {
                file.push(author, seq);
            }
            self.note_shown(first, key, &text);
        }
        self.touch(key, None);
        Ok(())
    }

    /// Asks for the full text of a document that has half a character, which nobody has completed.
    pub(super) fn ask_for_whole(&mut self, key: &FileKey) {
        let Some(uri) = self.document_of(key).map(|it| it.0.to_string()) else {
            return;
        };
        if let Some(document) = self.documents.get(&uri)
            && !document.halves.is_empty()
            && !document.desynced
        {
            self.desync(&uri, "half a character that nothing completed");
        }
    }

    /// A change that does not say of which document: it can be any.
    pub(super) fn changed_unknown(&mut self) {
        for uri in self.documents.keys().cloned().collect::<Vec<_>>() {
            self.desync(&uri, "a change that cannot be decoded");
        }
    }

    /// The text here is not the editor's any more: nothing is done with it until the editor has sent all of it.
    fn desync(&mut self, uri: &str, reason: &str) {
        let Some(document) = self.documents.get_mut(uri) else {
            return;
        };
        let was_desynced = document.desynced;
        document.desynced = true;
        document.generation = self.seq + 1;
        document.version = None;
        let key = document.key.clone();
        self.log(
            tracing::Level::WARN,
            format!("{uri}: {reason}; its text is unknown until the editor sends all of it"),
        );
        self.note_change(&key, Author::Human);
        if !was_desynced {
            self.ask_for_full(vec![uri.to_string()]);
        }
        self.poke_all(&key);
    }

    pub(super) fn saved(&mut self, uri: &str) {
        let Some(uri) = self.document_uri(uri) else {
            return;
        };
        if let Some(document) = self.documents.get_mut(&uri) {
            document.dirty = false;
        }
    }

    pub(super) fn closed(&mut self, uri: &str) {
        let mut files = self.files.values_mut();
        if let Some(file) = files.find(|it| it.unsynced.as_deref() == Some(uri)) {
            file.unsynced = None;
        }
        let Some(uri) = self.document_uri(uri) else {
            return;
        };
        let Some(document) = self.remove_document(&uri) else {
            return;
        };
        let key = document.key;
        if document.dirty {
            // What was typed and not saved is gone.
            self.note_change(&key, Author::Human);
        }
        if let Some(file) = self.files.get_mut(&key) {
            file.disk = None;
        }
        let is_closed = self.document_of(&key).is_none();
        if matches!(key, FileKey::Path(_)) && is_closed && self.has_entries(&key) {
            let closed_at = document.version.filter(|_| !document.dirty);
            let like = Some(document.buffer.text());
            self.look_at_file(key.clone(), closed_at, like);
        }
        self.touch(&key, None);
        self.poke_all(&key);
    }

    fn remove_document(&mut self, uri: &str) -> Option<Document> {
        let document = self.documents.remove(uri)?;
        // What is seen of the file from now on is newer than what was seen of the document.
        self.next_seq();
        if let Some(file) = self.files.get_mut(&document.key) {
            file.uris.retain(|it| it != uri);
        }
        if let Some((id, pending)) = &document.pending
            && pending.moved()
            && !pending.landed()
        {
            tracing::debug!("{uri} was closed while call {} was out", id.0);
            self.note_change(&document.key, Author::Human);
        }
        if document.dirty {
            self.lose_part(&document.key, uri);
        }
        Some(document)
    }

    pub(super) fn state(&mut self, state: &DocumentState, key: Option<FileKey>) {
        if let (Some(unsynced), Some(key)) = (state.unsynced, key) {
            self.files.entry(key).or_default().unsynced = unsynced.then(|| state.uri.clone());
        }
        let Some(uri) = self.document_uri(&state.uri) else {
            return;
        };
        let Some(document) = self.documents.get_mut(&uri) else {
            return;
        };
        if let Some(eol) = state.eol {
            document.buffer.set_lf_only(eol == EolKind::Lf);
        }
        document.dirty = state.dirty.unwrap_or(document.dirty);
        document.read_only = state.read_only.unwrap_or(document.read_only);
        document.conflict = state.conflict.unwrap_or(document.conflict);
    }

    /// Decides whether an edit of unknown outcome landed, now that the editor has reported everything.
    pub(super) fn settle(&mut self, uri: &str) {
        let Some(document) = self.documents.get(uri) else {
            return;
        };
        let Some(unknown) = &document.unknown else {
            return;
        };
        let (ask, generation) = (unknown.ask, document.generation);
        let judgement = unknown.pending.judgement(document.buffer.text());
        let owner = JobOwner::Settling {
            uri: uri.to_string(),
            ask,
            generation,
        };
        match self.compute(owner, Compute::Judge(vec![judgement])) {
            Ok(Outcome::Judged(verdicts)) => self.settled(uri, ask, generation, &verdicts),
            _ => {
                if let Some(document) = self.documents.get_mut(uri) {
                    document.is_settling = true;
                }
            }
        }
    }

    /// It is known whether the edit of unknown outcome had landed at a generation of the document.
    pub(super) fn settled(&mut self, uri: &str, ask: AskId, generation: u64, verdicts: &[Verdict]) {
        let Some(document) = self.documents.get_mut(uri) else {
            return;
        };
        document.is_settling = false;
        let key = document.key.clone();
        if let Some(unknown) = document.unknown.as_mut().filter(|it| it.ask == ask) {
            let verdict = verdicts.first().copied().unwrap_or(Verdict::Missing);
            // A human can type what looks like the edit among other things: it is ours if the editor says so, too.
            let has_merged = verdict == Verdict::Merged && unknown.is_answered;
            if verdict == Verdict::Landed || has_merged {
                // What was merged with the edit, or came since, is a human's by its report.
                self.credit(uri, verdict.landed_at(generation));
            } else if unknown.is_answered {
                document.unknown = None;
            } else {
                unknown.is_settled = true;
            }
        }
        self.poke_all(&key);
    }

    /// An edit of unknown outcome had landed by `seq` after all: its session has seen the result.
    fn credit(&mut self, uri: &str, seq: u64) {
        let Some(document) = self.documents.get_mut(uri) else {
            return;
        };
        let Some(unknown) = document.unknown.take() else {
            return;
        };
        if !unknown.is_answered {
            document.credited = Some((unknown.ask, seq));
        }
        let key = document.key.clone();
        let author = Self::session_author(unknown.session.as_ref());
        self.note_change_at(&key, author, seq);
        let text = unknown.pending.planned().clone();
        if let Some(session) = self.live_session(unknown.session.as_ref()) {
            let entry = Entry {
                observation: Observation::Present(unknown.version),
                path: unknown.path,
                seq,
                snapshot: Some(text),
                shown: unknown.shown,
                told: None,
                turn: None,
            };
            session.ledger.observe(key.clone(), entry);
        }
        self.poke_all(&key);
    }

    /// An answer that came after its deadline: a barrier tells what became of the edit.
    pub(super) fn late_answer(&mut self, ask: AskId, answer: Result<serde_json::Value, String>) {
        let answer = answer
            .ok()
            .and_then(|it| serde_json::from_value::<ApplyEditResult>(it).ok());
        // What failed was not done either.
        let is_refused = answer.is_none_or(|it| !it.applied);
        let mut uris = Vec::new();
        for (uri, document) in &mut self.documents {
            if let Some(unknown) = document.unknown.as_mut().filter(|it| it.ask == ask) {
                unknown.is_answered = true;
                uris.push(uri.clone());
            }
            document.unknown.take_if(|it| it.ask == ask && is_refused);
            let credited = document.credited.take_if(|it| it.0 == ask);
            let file = self.files.get_mut(&document.key);
            if let (true, Some((_, seq)), Some(file)) = (is_refused, credited, file) {
                file.disown(seq);
            }
        }
        if is_refused {
            // Whatever the documents hold now, it is not our doing.
            for uri in uris {
                if let Some(key) = self.documents.get(&uri).map(|it| it.key.clone()) {
                    self.poke_all(&key);
                }
            }
            return;
        }
        if self.client.sync {
            self.probe(uris);
        } else {
            for uri in uris {
                self.settle(&uri);
            }
        }
    }

    /// The version of a document's content, computed if need be.
    pub(super) fn document_version(&mut self, uri: &str) -> Option<Version> {
        let document = self.documents.get_mut(uri)?;
        Some(
            *document
                .version
                .get_or_insert_with(|| Version::of(&document.buffer.text())),
        )
    }

    /// Asks to be woken with a batch for `ledgerChanged`.
    pub(super) fn touch(&mut self, key: &FileKey, looked: Option<Looked>) {
        if self.sessions.is_empty() {
            return;
        }
        match self.touched.get_mut(key) {
            Some(touched) => *touched = looked,
            None => drop(self.touched.insert(key.clone(), looked)),
        }
        self.ask_for_batch();
    }
}
