//! The only module that touches files.
//!
//! Invariant: a file changes only if, at the moment of the change, it held exactly the bytes that the change was
//! planned on; of the changes of one call all happen or none. Compared are bytes, never times.
//!
//! What is synced, and for what; all of a round at the same time:
//!
//! 1. Each staged file, before it gets its name: a name must not outlive the content. With them the journal, if all or
//!    none takes more than one rename: else a loss of power in between would leave a mixture.
//! 2. After the changes each directory: a success that was told must last. With them the journal again: from then on
//!    files go that would be needed to take the changes back, so nobody may try to.
//!
//! It knows nothing of sessions, versions or editors, and decides nothing: the engine says what to expect.

mod content;
mod fs;
mod look;
mod resolve;

mod journal;
mod transaction;

mod metadata;
mod stage;

mod commit;
mod late_saves;
mod recover;
mod take_back;

#[cfg(test)]
mod tests;

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::io::Errno;

use self::{
    fs::Fs, journal::Journal, late_saves::Watched, recover::Settled, transaction::Transaction,
};
use crate::text::Text;

/// Most names of a directory that are compared with a missing one.
const MAX_SIBLINGS: usize = 1000;

/// The files, behind a seam so that tests can replace them.
pub trait Disk: Send + Sync + 'static {
    /// Finds the one canonical path of an absolute path, the same before and after the file is created.
    fn resolve(&self, path: &Path) -> Result<Resolved, DiskError>;

    /// Reads a file by its canonical path and decodes it strictly; at most `limit_bytes` long.
    fn look(&self, path: &Path, limit_bytes: u64) -> Result<Look, DiskError>;

    /// The names in the directory of a path, as many as are quickly read; to say what may have been meant by it.
    fn siblings(&self, path: &Path) -> Vec<String>;

    /// Prepares changes beside their targets, so that little can go wrong later; no target changes.
    fn stage(&self, changes: &[DiskChange]) -> Result<Staged, DiskFailure>;

    /// Makes the staged changes in their order: all of them, or none. None, too, if they are called back in time.
    fn commit(&self, staged: Staged) -> Result<Committed, DiskFailure>;

    /// Removes everything that was staged.
    fn abort(&self, staged: Staged);

    /// Finds, and restores where it can, saves that landed in files after a commit displaced them.
    ///
    /// To be called a few times a second while there is something to watch; a save is taken when it has stood still
    /// from one call to the next.
    fn look_back(&self) -> Vec<LateSave>;

    /// Whether looking back may still be of use.
    fn is_holding_displaced(&self) -> bool;

    /// Finishes, or takes back, what processes that are gone had begun.
    fn recover(&self);
}

/// The identity of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Absolute, without symbolic links and dots; the file itself may be missing, and directories above it.
    pub path: PathBuf,
    /// Whether anything is there, be it a file or not.
    pub exists: bool,
    /// Whether the last name of the path that was given is a symbolic link.
    pub is_link: bool,
}

/// What is at a path.
#[derive(Clone, Debug)]
pub enum Look {
    /// Nothing.
    Absent,
    /// A text file; the text is raw, that is with its byte order mark and its line ends.
    Text(Text),
}

/// One change of one file; all paths are canonical.
#[derive(Clone, Debug)]
pub enum DiskChange {
    /// Makes a file, and its missing directories, where nothing is.
    Create {
        /// The file.
        path: PathBuf,
        /// Its raw text.
        text: Text,
    },
    /// Changes the content of a file and nothing else of it.
    Replace {
        /// The file.
        path: PathBuf,
        /// The raw text that it must have, after the changes before this one.
        expected: Text,
        /// The raw text that it gets.
        text: Text,
    },
    /// Removes a file.
    Delete {
        /// The file.
        path: PathBuf,
        /// The raw text that it must have, after the changes before this one.
        expected: Text,
    },
    /// Moves a file to where nothing is; missing directories are made.
    Rename {
        /// The file.
        from: PathBuf,
        /// Its new path.
        to: PathBuf,
        /// The raw text that it must have, after the changes before this one.
        expected: Text,
    },
}

impl DiskChange {
    /// The file whose content is compared before the change, by the path that it has then.
    pub fn compared(&self) -> Option<&Path> {
        match self {
            Self::Create { .. } => None,
            Self::Replace { path, .. } | Self::Delete { path, .. } => Some(path),
            Self::Rename { from, .. } => Some(from),
        }
    }
}

/// Changes that are ready to be committed; dropping them unused aborts them.
#[derive(Debug)]
#[must_use]
pub struct Staged {
    changes: Vec<DiskChange>,
    in_place: Vec<bool>,
    recall: Recall,
    /// None if nothing is needed to commit.
    transaction: Option<Transaction>,
}

impl Staged {
    /// Staged changes of a disk that needs nothing else to commit them (for disks of tests).
    pub fn of(changes: &[DiskChange]) -> Self {
        Self {
            changes: changes.to_vec(),
            in_place: vec![false; changes.len()],
            recall: Recall::default(),
            transaction: None,
        }
    }

    /// The changes, in their order.
    pub fn changes(&self) -> &[DiskChange] {
        &self.changes
    }

    /// Which of the changes will overwrite the file in place, because a replaced file would lose its other names.
    pub fn in_place(&self) -> &[bool] {
        &self.in_place
    }

    /// What calls the commit of these changes back.
    pub fn recall(&self) -> Recall {
        self.recall.clone()
    }
}

/// Calls a commit back while it is under way; once all its changes are made it is too late.
#[derive(Clone, Debug, Default)]
pub struct Recall(Arc<AtomicBool>);

impl Recall {
    /// Has the changes taken back that are made, and no more made.
    pub fn call(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_called(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// What a commit has to tell.
#[derive(Debug, Default)]
pub struct Committed {
    /// Per change: whether the file was overwritten in place.
    pub in_place: Vec<bool>,
    /// Files of ours that could not be removed afterwards.
    pub residue: Vec<PathBuf>,
}

/// What somebody wrote into a file that they had opened before a commit displaced it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateSave {
    /// Where they believe the file to be.
    pub path: PathBuf,
    /// Where it is, if somebody has changed the file again; else it is where they believe it to be.
    pub kept: Option<PathBuf>,
}

/// Why a file was not read or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// To branch on.
    pub kind: DiskErrorKind,
    /// What was found, for people: `UTF-16 (byte order mark FF FE)`, `a directory`.
    pub detail: String,
}

impl DiskError {
    pub(crate) fn new(kind: DiskErrorKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, detail }
    }

    /// What a refused call means for somebody who wanted to `what`.
    fn from_errno(err: Errno, what: &str) -> Self {
        let kind = match err {
            Errno::ACCESS | Errno::PERM | Errno::ROFS => DiskErrorKind::PermissionDenied,
            Errno::NAMETOOLONG => DiskErrorKind::InvalidPath,
            Errno::NOTDIR => return Self::under_a_file(),
            Errno::LOOP => {
                let detail = "a directory of the path has become a symbolic link";
                return Self::new(DiskErrorKind::Io, detail);
            }
            _ => DiskErrorKind::Io,
        };
        Self::new(kind, format!("cannot {what}: {err}").to_lowercase())
    }

    fn under_a_file() -> Self {
        Self::new(
            DiskErrorKind::NotFound,
            "a directory of the path is a regular file",
        )
    }

    fn exists() -> Self {
        Self::new(DiskErrorKind::Exists, "a file is there already")
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl Error for DiskError {}

/// Kinds of `DiskError`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiskErrorKind {
    /// A directory, a FIFO, a socket or a device.
    NotRegularFile,
    /// Not UTF-8, or it contains a NUL.
    NotText,
    /// More bytes than the limit.
    TooLarge,
    /// The file is read-only, or its directory admits no new file.
    PermissionDenied,
    /// Empty, relative, too long, or with a NUL.
    InvalidPath,
    /// A directory of the path is a regular file, so that nothing can be there.
    NotFound,
    /// The file is not, or no longer, what the change expects; also when it is gone.
    Stale,
    /// There is something where a file was to be created.
    Exists,
    /// Anything else that the system refused.
    Io,
}

/// Why a call changed nothing, or nothing but what is `unrestored`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFailure {
    /// The index of the change that failed.
    pub change: usize,
    /// Why it failed.
    pub error: DiskError,
    /// The changes that stayed, because somebody else changed the file again or the system refused to undo them.
    pub unrestored: Vec<usize>,
    /// Files of ours that were left since they hold what is nowhere else any more.
    pub kept: Vec<PathBuf>,
}

impl fmt::Display for DiskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for DiskFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// The disk of this computer.
#[derive(Debug)]
pub struct RealDisk {
    fs: Fs,
    /// Where journals may be, the best place first.
    journal_dirs: Vec<PathBuf>,
    /// Of this process; made when it is needed.
    journal: Mutex<Option<Arc<Journal>>>,
    /// The directories of journals, as far as nothing was left there.
    settled: Mutex<Vec<Option<Settled>>>,
    /// Displaced files, held open.
    watched: Mutex<Vec<Watched>>,
}

impl Default for RealDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl RealDisk {
    /// The disk of this computer, with the journal in the user's state directory.
    pub fn new() -> Self {
        Self::on(Fs::default(), journal::default_dirs())
    }

    /// The same with the journal in the first of these directories that admits it.
    pub fn with_journal_in(dirs: Vec<PathBuf>) -> Self {
        Self::on(Fs::default(), dirs)
    }

    fn on(fs: Fs, journal_dirs: Vec<PathBuf>) -> Self {
        Self {
            fs,
            settled: Mutex::new(journal_dirs.iter().map(|_| None).collect()),
            journal_dirs,
            journal: Mutex::default(),
            watched: Mutex::default(),
        }
    }

    fn journal(&self) -> Result<Arc<Journal>, DiskError> {
        let mut journal = lock(&self.journal);
        if let Some(journal) = &*journal {
            return Ok(Arc::clone(journal));
        }
        let made = Journal::make(&self.fs, &self.journal_dirs)
            .map_err(|err| DiskError::from_errno(err, "keep a journal of changes"))?;
        Ok(Arc::clone(journal.insert(Arc::new(made))))
    }

    fn watch(&self, watched: Vec<Watched>) {
        let mut all = lock(&self.watched);
        all.extend(watched);
        late_saves::limit(&mut all);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk for RealDisk {
    fn resolve(&self, path: &Path) -> Result<Resolved, DiskError> {
        resolve::resolve(&self.fs, path)
    }

    fn look(&self, path: &Path, limit_bytes: u64) -> Result<Look, DiskError> {
        look::look(&self.fs, path, limit_bytes)
    }

    fn siblings(&self, path: &Path) -> Vec<String> {
        let entries = path.parent().and_then(|it| std::fs::read_dir(it).ok());
        let names = entries.into_iter().flatten().take(MAX_SIBLINGS).flatten();
        names
            .filter_map(|it| it.file_name().into_string().ok())
            .collect()
    }

    fn stage(&self, changes: &[DiskChange]) -> Result<Staged, DiskFailure> {
        self.recover();
        let journal = self.journal().map_err(|error| DiskFailure {
            change: 0,
            error,
            unrestored: Vec::new(),
            kept: Vec::new(),
        })?;
        let transaction = stage::stage(&journal, changes)?;
        Ok(Staged {
            changes: changes.to_vec(),
            in_place: transaction.in_place(),
            recall: transaction.recall.clone(),
            transaction: Some(transaction),
        })
    }

    fn commit(&self, staged: Staged) -> Result<Committed, DiskFailure> {
        let Some(transaction) = staged.transaction else {
            return Ok(Committed::default());
        };
        match commit::commit(transaction) {
            Ok((committed, watched)) => {
                self.watch(watched);
                Ok(committed)
            }
            Err((failure, watched)) => {
                self.watch(watched);
                Err(failure)
            }
        }
    }

    fn abort(&self, staged: Staged) {
        drop(staged);
    }

    fn look_back(&self) -> Vec<LateSave> {
        let Ok(journal) = self.journal() else {
            return Vec::new();
        };
        let mut watched = std::mem::take(&mut *lock(&self.watched));
        let saves = late_saves::look_back(&journal, &mut watched);
        let newer = std::mem::replace(&mut *lock(&self.watched), watched);
        self.watch(newer);
        saves
    }

    fn is_holding_displaced(&self) -> bool {
        !lock(&self.watched).is_empty()
    }

    fn recover(&self) {
        let own = lock(&self.journal).as_ref().map(|it| it.id.clone());
        let mut settled = lock(&self.settled);
        for (dir, settled) in self.journal_dirs.iter().zip(settled.iter_mut()) {
            if !settled.as_ref().is_some_and(|it| it.is_still(&self.fs)) {
                *settled = recover::recover(&self.fs, dir, own.as_deref());
            }
        }
    }
}
