//! What other programs do to closed files, as far as somebody tells early; whoever plans a change looks for himself.
//!
//! Invariant: what is found is compared with what the sidecar itself did: a look that a commit of ours overtakes says
//! nothing, and is repeated once the call is over.

use super::{CallKind, JobOwner, Looked, Workspace, changes::Phase};
use crate::{
    ledger::{Entry, Observation},
    path::FileKey,
    protocol::Author,
    text::Text,
    version::Version,
};

impl Workspace {
    /// The watcher's hint: look at those of which somebody has seen something.
    pub(super) fn files_changed(&mut self, keys: Vec<FileKey>) {
        for key in keys {
            if self.document_of(&key).is_none() && self.has_entries(&key) {
                self.look_at_file(key, None, None);
            }
        }
    }

    /// Looks at a closed file; `closed_at`: the version of the clean document that was just closed, with the text `like`.
    pub(super) fn look_at_file(
        &mut self,
        key: FileKey,
        closed_at: Option<Version>,
        like: Option<Text>,
    ) {
        if self.is_committing(&key) {
            self.look_later(&key);
            return;
        }
        let owner = JobOwner::File {
            key: key.clone(),
            closed_at,
            since: self.seq,
        };
        self.look(owner, key, like);
    }

    pub(super) fn looked_at_file(
        &mut self,
        key: FileKey,
        closed_at: Option<Version>,
        since: u64,
        looked: Looked,
    ) {
        if self.document_of(&key).is_some() {
            return;
        }
        let file = self.files.get(&key);
        if self.is_committing(&key) {
            self.look_later(&key);
            return;
        }
        if file.is_some_and(|it| it.committed_at > since) {
            self.look_at_file(key, None, None);
            return;
        }
        if let (
            Some(from),
            Looked::Text {
                text,
                version,
                alike: true,
            },
        ) = (closed_at, &looked)
        {
            self.hand_over(&key, from, *version, text, u64::MAX);
        }
        self.learn(&key, &looked);
        self.touch(&key, Some(looked));
    }

    /// A call is over: looks at what could not be looked at meanwhile.
    pub(super) fn look_now(&mut self, key: &FileKey) {
        let file = self.files.get_mut(key);
        if file.is_some_and(|it| std::mem::take(&mut it.is_hinted)) {
            self.files_changed(vec![key.clone()]);
        }
    }

    fn look_later(&mut self, key: &FileKey) {
        self.files.entry(key.clone()).or_default().is_hinted = true;
    }

    /// True while a commit that changes the file is under way.
    fn is_committing(&self, key: &FileKey) -> bool {
        let first = self.files.get(key).and_then(|it| it.queue.front());
        let call = first.and_then(|id| self.calls.get(id));
        call.is_some_and(|it| {
            matches!(&it.kind, CallKind::Change(change) if matches!(change.phase, Phase::Committing(_)))
        })
    }

    /// Notes what is on disk; a content that nobody here put there is the disk's change.
    pub(super) fn learn(&mut self, key: &FileKey, looked: &Looked) {
        if self.document_of(key).is_some() {
            return;
        }
        let now = match looked {
            Looked::Absent { .. } => Observation::Absent,
            Looked::Text { version, .. } => Observation::Present(*version),
            Looked::Refused(_) => return,
        };
        let file = self.files.entry(key.clone()).or_default();
        let before = file.disk.replace(now);
        let unexplained =
            |entry: &Entry| entry.observation != now && file.authors_since(entry.seq).is_empty();
        let is_news = match before {
            Some(before) => before != now,
            None => self
                .sessions
                .values()
                .filter_map(|it| it.ledger.get(key))
                .any(unexplained),
        };
        if is_news {
            self.note_change(key, Author::Disk);
        }
    }
}
