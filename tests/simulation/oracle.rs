//! What has to be so, kept the naive way beside the sidecar.
//!
//! Invariant: it knows what really happened in the editor and on disk, what arrived at the sidecar and when, and what
//! each session was answered; from that alone it decides what a session has seen and what may be done. Nothing that the
//! sidecar believes is taken over, except what it answers, which is checked first.

mod answers;
mod disk;
mod editor;
mod edits;
mod invariant;
mod ledgers;
mod refusals;
mod sessions;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    rc::Rc,
};

use crate::{
    disk::{DiskChange, DiskFailure},
    error::{Code, Failure, FsError},
    protocol::{
        ApplyResult, Author, Change, ContentChange, EolKind, ExportedEntry, Guard, LedgerEntry,
        LedgerResult, OpenSessionResult, Operation, ReadResult, Seen, Status, Via,
    },
    version::Version,
    workspace::{Answer, AskId, Millis},
};
use serde_json::Value;

use super::{
    action::{Garbled, Setup, State},
    editor::{Applied, Ask},
    files::{self, N_FILES, UNTITLED},
    plan::{self, Content, version},
    text::{BOM, Wire, eol, fold, splits_pair, view},
};

use invariant::broken;
pub(super) use invariant::{Checked, Invariant, Violation};

/// A view text, shared; none: no file.
type Shared = Option<Rc<str>>;

/// A content that a file had, as the sidecar could know it.
#[derive(Debug, Clone)]
struct Was {
    at: u64,
    content: Shared,
    /// The line ends, and whether there is a byte order mark.
    marks: (EolKind, bool),
    /// Instance and LSP version, of an open document.
    tag: Option<(u32, i32)>,
}

/// What the sidecar was told of a document.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) instance: u32,
    pub(super) lsp_version: i32,
    pub(super) text: String,
    /// It was changed and not saved since.
    dirty: bool,
}

#[derive(Debug, Default)]
struct FileTruth {
    mirror: Option<Mirror>,
    disk: Option<String>,
    /// Contents of the document where one was open, else of the file.
    was: Vec<Was>,
    /// Contents of the file.
    was_on_disk: Vec<Was>,
    /// When a person's change arrived, or (inner list) may have: an edit was out.
    human: Vec<u64>,
    human_while_out: Vec<u64>,
    /// When it was opened or closed.
    turned: Vec<u64>,
    /// When somebody else wrote it on disk.
    others: Vec<u64>,
    /// A report could not be used, and the full text has not come.
    desynced: Flag,
    read_only: Flag,
    conflict: Flag,
    unsynced: Flag,
}

impl FileTruth {
    /// The document was opened or closed: nothing is known of it but that.
    fn turn(&mut self, at: u64) {
        self.turned.push(at);
        for flag in [
            &mut self.desynced,
            &mut self.read_only,
            &mut self.conflict,
            &mut self.unsynced,
        ] {
            flag.set(at, false);
        }
    }

    /// What it holds, and so what is to be said of an entry.
    fn status_of(&self, seen: &Shared) -> (Shared, Status) {
        let current = self.was.last().map(|it| it.content.clone());
        let current = current.unwrap_or_default();
        let status = if current == *seen {
            Status::Fresh
        } else {
            Status::Stale
        };
        (current, status)
    }
}

/// What is so or not, and since when.
#[derive(Debug, Default)]
struct Flag(Vec<(u64, bool)>);

impl Flag {
    fn set(&mut self, at: u64, is: bool) {
        self.0.push((at, is));
    }

    fn is(&self) -> bool {
        self.0.last().is_some_and(|it| it.1)
    }

    /// True if it was so at some time since.
    fn was(&self, from: u64) -> bool {
        let first = self.0.partition_point(|it| it.0 <= from).saturating_sub(1);
        self.0[first..].iter().any(|it| it.1)
    }

    /// True if it was so all the time since.
    fn has_been(&self, from: u64) -> bool {
        let n_before = self.0.partition_point(|it| it.0 <= from);
        n_before > 0 && self.0[n_before - 1..].iter().all(|it| it.1)
    }
}

/// An entry of a ledger.
#[derive(Debug, Clone)]
struct Noted {
    /// When it was written, and of when the content is.
    at: u64,
    since: u64,
    /// None: unseen.
    seen: Option<Shared>,
    /// What was seen before it, but taken later: nobody can tell from outside which of the two counts.
    rival: Option<Rival>,
    turn: Option<u64>,
}

#[derive(Debug, Clone)]
struct Rival {
    since: u64,
    /// None: unseen.
    seen: Option<Shared>,
}

/// A session.
#[derive(Debug)]
pub(super) struct SessionTruth {
    pub(super) name: u8,
    pub(super) live: bool,
    entries: BTreeMap<u8, Vec<Noted>>,
    told: BTreeMap<u8, Status>,
}

/// What a host says that its model was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// What is there.
    Current,
    Version(Version),
    /// What a document held at an earlier LSP version.
    Lost,
}

#[derive(Debug)]
pub(super) enum Kind {
    Read { file: u8 },
    Change { changes: Vec<Change>, dry_run: bool },
    Observe { file: u8, said: Said },
    Import { entries: Vec<ExportedEntry> },
    Forget { file: Option<u8> },
    Ledger,
    Other,
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused(Code),
    /// The sidecar has ended.
    Never,
}

/// A request.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // what has become of it so far
pub(super) struct CallTruth {
    kind: Kind,
    /// Index of the session.
    session: Option<usize>,
    turn: Option<u64>,
    files: Vec<u8>,
    arrived: u64,
    /// How many calls about the same files arrived before and are not answered.
    ahead: usize,
    /// When the last of them was.
    head: u64,
    answered: Option<Outcome>,
    /// (A read) the version that the editor named in its barrier, once the answer arrived.
    floor: Option<(u32, i32)>,
    /// (A read) the document was open when it arrived.
    was_open: bool,
    /// What the editor was asked to make of each document, raw.
    planned: BTreeMap<u8, (u64, String)>,
    /// The contents that the disk was asked to make.
    staged: Option<BTreeMap<u8, Content>>,
    disk: DiskPart,
    committed: Option<u64>,
    /// What the editor really did: before, after, and whether it was taken back.
    landed: BTreeMap<u8, (String, String, bool)>,
    /// When the document was reported to be what was planned.
    reached: BTreeMap<u8, u64>,
    sent: bool,
    /// When the disk or the editor last began to do what was planned.
    carried_out: Option<u64>,
    /// The editor said that it did not do what it was sent last.
    is_refused: bool,
    /// A document of the edit was closed or opened.
    lost: bool,
    /// It takes back what was done.
    is_rollback: bool,
    /// How long it waited for nobody but the editor, in milliseconds, once it was the first in its queues.
    waited_ms: Millis,
}

impl CallTruth {
    /// What the caller says that the file holds.
    fn guard(&self, file: u8) -> Option<Guard> {
        let Kind::Change { changes, .. } = &self.kind else {
            return None;
        };
        changes
            .iter()
            .find(|it| plan::file_of(it.path()) == file)?
            .guard()
    }
}

/// What the disk has to do with a call, since it was staged last.
#[derive(Debug, Default)]
struct DiskPart {
    /// The files of each change.
    changes: Vec<Vec<u8>>,
    /// What these files held.
    before: BTreeMap<u8, String>,
    /// The documents that the editor has to change before.
    editor_part: BTreeSet<u8>,
    granted: Option<u64>,
    /// It is granted, and nobody knows yet that it failed with all as it was.
    is_out: bool,
    /// When the disk was done, whatever came of it.
    over: Option<u64>,
    /// When it was known that the commit failed, and not all is as it was.
    failed: Option<u64>,
    /// What stays of a commit that failed.
    left: BTreeSet<u8>,
    /// A document went away with its unsaved part of the call while the disk was at it.
    is_doomed: bool,
}

impl DiskPart {
    fn touches(&self, file: u8) -> bool {
        self.changes.iter().flatten().any(|it| *it == file)
    }
}

/// An edit that was sent.
#[derive(Debug)]
struct Sent {
    call: u64,
    /// It does what was planned; else it takes something back.
    is_forward: bool,
    /// What the documents held, as the sidecar knew them.
    bases: BTreeMap<u8, String>,
}

/// An edit that was not answered in time.
#[derive(Debug)]
struct Unknown {
    session: usize,
    file: u8,
    content: Shared,
    call: u64,
    /// Nothing has come that tells what became of it.
    is_open: bool,
    /// When the document first was it, after the call was answered.
    reached: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Oracle {
    setup: Setup,
    /// Overlooks what is known to fail.
    wire: Wire,
    clock: u64,
    /// When a file did change for the sidecar; between these times one may have.
    moves: Vec<u64>,
    contents: HashMap<Version, Rc<str>>,
    files: Vec<FileTruth>,
    pub(super) sessions: Vec<SessionTruth>,
    pub(super) calls: BTreeMap<u64, CallTruth>,
    asks: BTreeMap<AskId, Sent>,
    /// Barriers of reads.
    barriers: BTreeMap<AskId, u64>,
    staged: BTreeMap<u64, u64>,
    unknown: Vec<Unknown>,
}

/// Equal but for the final line break, by which buffers and files may differ without anybody's change.
fn alike(left: &Shared, right: &Shared) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => {
            left.strip_suffix('\n').unwrap_or(left) == right.strip_suffix('\n').unwrap_or(right)
        }
        (None, None) => true,
        _ => false,
    }
}

impl Oracle {
    pub(super) fn new(setup: Setup, disk: &BTreeMap<u8, String>) -> Self {
        let mut oracle = Self {
            setup,
            wire: setup.wire(),
            clock: 0,
            moves: Vec::new(),
            contents: HashMap::new(),
            files: (0..N_FILES).map(|_| FileTruth::default()).collect(),
            sessions: Vec::new(),
            calls: BTreeMap::new(),
            asks: BTreeMap::new(),
            barriers: BTreeMap::new(),
            staged: BTreeMap::new(),
            unknown: Vec::new(),
        };
        for file in 0..N_FILES {
            let file = u8::try_from(file).expect("few files");
            oracle.disk_is(file, disk.get(&file).map(String::as_str));
        }
        oracle
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The sidecar is told of something that is a change.
    pub(super) fn moved(&mut self) {
        let at = self.tick();
        self.moves.push(at);
    }

    fn file(&mut self, file: u8) -> &mut FileTruth {
        &mut self.files[usize::from(file)]
    }

    pub(super) fn mirror(&self, file: u8) -> Option<&Mirror> {
        self.files[usize::from(file)].mirror.as_ref()
    }

    pub(super) fn is_desynced(&self, file: u8) -> bool {
        self.files[usize::from(file)].desynced.is()
    }

    fn learn(&mut self, view: &str) -> Rc<str> {
        let version = version(view);
        Rc::clone(
            self.contents
                .entry(version)
                .or_insert_with(|| Rc::from(view)),
        )
    }

    pub(super) fn called(
        &mut self,
        id: u64,
        session: Option<usize>,
        turn: Option<u64>,
        kind: Kind,
    ) {
        let arrived = self.tick();
        let files = match &kind {
            Kind::Read { file } | Kind::Observe { file, .. } => vec![*file],
            Kind::Change { changes, .. } => plan::files_of(changes),
            Kind::Import { entries } => {
                let mut files: Vec<u8> = entries.iter().map(|it| plan::file_of(&it.path)).collect();
                files.sort_unstable();
                files.dedup();
                files
            }
            Kind::Forget { .. } | Kind::Ledger | Kind::Other => Vec::new(),
        };
        let was_open = files.iter().all(|it| self.mirror(*it).is_some());
        let shares = |it: &CallTruth| it.files.iter().any(|file| files.contains(file));
        let ahead = self
            .calls
            .values()
            .filter(|it| it.answered.is_none() && shares(it))
            .count();
        let call = CallTruth {
            kind,
            session,
            turn,
            ahead,
            files,
            arrived,
            head: arrived,
            answered: None,
            floor: None,
            was_open,
            planned: BTreeMap::new(),
            staged: None,
            disk: DiskPart::default(),
            committed: None,
            landed: BTreeMap::new(),
            reached: BTreeMap::new(),
            sent: false,
            carried_out: None,
            is_refused: false,
            lost: false,
            is_rollback: false,
            waited_ms: 0,
        };
        self.calls.insert(id, call);
    }

    /// Time passes while there is nothing to be done for anybody but the editor: a call is answered within 8 s of its
    /// start, unless it takes back what was done.
    pub(super) fn waits(&mut self, ms: Millis) -> Checked {
        for (id, call) in &mut self.calls {
            let is_change = matches!(call.kind, Kind::Change { .. });
            if call.answered.is_some() || call.ahead > 0 || !is_change || call.is_rollback {
                continue;
            }
            call.waited_ms += ms;
            if call.waited_ms > 8000 {
                return broken(
                    Invariant::Answered,
                    format!("call {id} is not answered after 8 s"),
                );
            }
        }
        Ok(())
    }

    /// Another sidecar starts, which knows nothing.
    pub(super) fn restarted(&mut self) {
        self.editor_gone();
        for call in self.calls.values_mut() {
            call.answered.get_or_insert(Outcome::Never);
            call.ahead = 0;
        }
        for session in &mut self.sessions {
            session.live = false;
        }
        let at = self.tick();
        for truth in &mut self.files {
            truth.human.append(&mut truth.human_while_out);
            truth.unsynced.set(at, false);
        }
        self.asks.clear();
        self.barriers.clear();
        self.staged.clear();
        self.unknown.clear();
    }

    pub(super) fn unanswered(&self) -> Vec<u64> {
        self.calls
            .iter()
            .filter(|it| it.1.answered.is_none())
            .map(|it| *it.0)
            .collect()
    }
}
