//! The changes of one call, from the staged files to the last directory entry.
//!
//! Invariant: as long as a transaction is not committed, dropping it leaves every file as it was and nothing of ours
//! beside it. All its files beside the targets are named `.abreast.<id>.<n>`, with the id of the journal that tells of
//! them.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::Arc,
};

use rustix::{
    fs::{Mode, OFlags},
    io::{self, Errno},
};

use super::{
    DiskError, DiskErrorKind, Recall,
    content::Content,
    fs::{Dir, FileId, Fs, Stat},
    journal::{Entry, Journal, Record, StepRecord, WorkRecord},
};

/// How often something that must not be left undone is tried.
const N_TRIES: usize = 3;

#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) fs: Fs,
    pub(super) journal: Arc<Journal>,
    /// In the journal.
    pub(super) number: u64,
    pub(super) steps: Vec<Step>,
    pub(super) dirs: HashMap<PathBuf, Arc<Dir>>,
    /// Directories that did not exist, in the order in which they were made.
    pub(super) made_dirs: Vec<Place>,
    /// Names at which there may be files of ours.
    pub(super) litter: Vec<Place>,
    /// Whether the journal tells of the changes even after a loss of power; then it has to tell of their end, too.
    pub(super) is_intent_durable: bool,
    pub(super) recall: Recall,
    /// Whether it is not to be ended, so that somebody else can take it up.
    pub(super) is_forgotten: bool,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) dir: Arc<Dir>,
    pub(super) name: OsString,
}

/// One change.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) target: Place,
    /// The staged file before the change, the displaced one after it.
    pub(super) dot: Place,
    pub(super) work: Work,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Staged,
    /// There is something to take back.
    Applied,
    /// It was taken back at once.
    TakenBack,
}

/// How a change is made.
#[derive(Debug)]
pub(super) enum Work {
    Create {
        ours: FileId,
        text: Content,
    },
    Replace {
        ours: FileId,
        expected: Content,
        text: Content,
        /// The target when its mode, owner and attributes were copied.
        original: Stat,
        /// The same file, if it is held open.
        file: Option<OwnedFd>,
        /// The displaced file when its content was compared.
        displaced: Option<Stat>,
        way: Way,
    },
    /// The target is overwritten; the staged file keeps its old content.
    InPlace {
        expected: Content,
        text: Content,
        /// The new content, for who comes after a crash and finds half of it in the target.
        new: Place,
        /// The file that was overwritten with all of the text.
        file: Option<OwnedFd>,
    },
    Delete {
        expected: Content,
    },
    Rename {
        from: Place,
        expected: Content,
        moved: FileId,
    },
}

/// How one file takes the place of another.
#[derive(Debug)]
pub(super) enum Way {
    /// The staged file and the target change places.
    Exchange,
    /// For systems without: the staged file is renamed over the target, which has got a second name, `dot`, before.
    /// The staged file's own name is free after that.
    Rename(Place),
    /// Without second names, too: `dot` is a copy of the target, which is held open.
    RenameCopied(OwnedFd),
}

impl Place {
    pub(super) fn as_pair(&self) -> (&Dir, &OsStr) {
        (&self.dir, &self.name)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path.join(&self.name)
    }

    /// Opens the file that is here, if it is one.
    pub(super) fn open(&self, fs: &Fs, access: OFlags) -> io::Result<Option<(OwnedFd, Stat)>> {
        match self.stat(fs)? {
            Some(_) => self.open_seen(fs, access),
            None => Ok(None),
        }
    }

    /// Opens what was seen to be a file, if it still is one.
    pub(super) fn open_seen(&self, fs: &Fs, access: OFlags) -> io::Result<Option<(OwnedFd, Stat)>> {
        let file = match fs.open(&self.dir.fd, &self.name, access) {
            Ok(file) => file,
            // Replaced since: `open` neither follows links nor waits for a FIFO's other end.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Ok(None),
            Err(err) => return Err(err),
        };
        let stat = fs.stat(&file)?;
        Ok(stat.require_file().is_ok().then_some((file, stat)))
    }

    /// Whether here is a file with exactly this content and, if given, this identity.
    pub(super) fn holds(&self, fs: &Fs, id: Option<FileId>, content: &Content) -> io::Result<bool> {
        match self.open(fs, OFlags::RDONLY)? {
            Some((_, stat)) if id.is_some_and(|id| id != stat.id) => Ok(false),
            Some((file, stat)) => content.is_in(fs, file, stat.size),
            None => Ok(false),
        }
    }

    /// What is known of the file that is here, if it is one.
    pub(super) fn stat(&self, fs: &Fs) -> io::Result<Option<Stat>> {
        let stat = fs.stat_at(&self.dir.fd, &self.name)?;
        Ok(stat.filter(|it| it.require_file().is_ok()))
    }

    /// The file itself that is here, if it is one.
    pub(super) fn id(&self, fs: &Fs) -> io::Result<Option<FileId>> {
        Ok(self.stat(fs)?.map(|it| it.id))
    }
}

impl PartialEq for Dir {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Transaction {
    pub(super) fn new(journal: &Arc<Journal>) -> Self {
        Self::numbered(journal, journal.begin())
    }

    /// The transaction that has a number in the journal.
    pub(super) fn numbered(journal: &Arc<Journal>, number: u64) -> Self {
        Self {
            fs: journal.fs.clone(),
            journal: Arc::clone(journal),
            number,
            steps: Vec::new(),
            dirs: HashMap::new(),
            made_dirs: Vec::new(),
            litter: Vec::new(),
            is_intent_durable: false,
            recall: Recall::default(),
            is_forgotten: false,
        }
    }

    /// Which steps overwrite a file instead of replacing it.
    pub(super) fn in_place(&self) -> Vec<bool> {
        let is_in_place = |step: &Step| matches!(step.work, Work::InPlace { .. });
        self.steps.iter().map(is_in_place).collect()
    }

    /// Takes a new name beside a target; it is removed at the end, if something is there.
    pub(super) fn new_dot(&mut self, dir: &Arc<Dir>) -> io::Result<Place> {
        let dot = Place {
            dir: Arc::clone(dir),
            name: self.journal.new_dot(),
        };
        self.journal
            .append(&[Record::Dot(self.number, dot.path().into())])?;
        self.litter.push(dot.clone());
        Ok(dot)
    }

    /// Makes a directory, which is removed at the end, if nothing comes of the changes.
    pub(super) fn make_dir(&mut self, parent: &Arc<Dir>, name: &OsStr) -> io::Result<()> {
        let made = Place {
            dir: Arc::clone(parent),
            name: name.to_owned(),
        };
        self.journal
            .append(&[Record::Dir(self.number, made.path().into())])?;
        self.fs
            .make_dir(parent, name, Mode::from_bits_truncate(0o777))?;
        self.made_dirs.push(made);
        Ok(())
    }

    /// All that is needed to make the changes, or to take them back.
    pub(super) fn intent(&self) -> Record {
        Record::Intent(self.number, self.steps.iter().map(Step::record).collect())
    }

    /// Whether all or none needs a journal, even one that survives a loss of power: one exchange or rename needs none.
    pub(super) fn needs_journal(&self) -> bool {
        !matches!(
            &self.steps[..],
            [] | [Step {
                work: Work::Create { .. }
                    | Work::Replace { .. }
                    | Work::Delete { .. }
                    | Work::Rename { .. },
                ..
            }]
        )
    }

    /// Removes our files, and returns those that the system did not let go.
    pub(super) fn clean(&mut self) -> Vec<PathBuf> {
        let mut residue = Vec::new();
        for dot in std::mem::take(&mut self.litter) {
            match insist(|| self.fs.unlink(&dot.dir, &dot.name)) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(err) => {
                    let path = dot.path();
                    tracing::warn!("cannot remove {}: {err}", path.display());
                    self.journal.leave(path.clone());
                    residue.push(path);
                }
            }
        }
        residue
    }

    /// Removes the directories that we made, as far as nobody uses them.
    pub(super) fn remove_made_dirs(&mut self) {
        while let Some(made) = self.made_dirs.pop() {
            match insist(|| self.fs.remove_dir(&made.dir, &made.name)) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(err) => tracing::warn!("cannot remove {}: {err}", made.path().display()),
            }
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.clean();
        self.remove_made_dirs();
        if self.is_forgotten {
            return;
        }
        self.journal.done(self.number);
        if self.is_intent_durable {
            let _ = self.journal.sync();
        }
    }
}

impl Step {
    fn record(&self) -> StepRecord {
        let entry = |place: &Place| Entry::from(place.path());
        let print = |content: &Content| content.print().clone();
        let work = match &self.work {
            Work::Create { ours, text } => WorkRecord::Create {
                ours: ours.ino,
                text: print(text),
            },
            Work::Replace {
                ours,
                expected,
                text,
                ..
            } => WorkRecord::Replace {
                ours: ours.ino,
                expected: print(expected),
                text: print(text),
            },
            Work::InPlace {
                expected,
                text,
                new,
                ..
            } => WorkRecord::InPlace {
                expected: print(expected),
                text: print(text),
                new: entry(new),
            },
            Work::Delete { expected } => WorkRecord::Delete {
                expected: print(expected),
            },
            Work::Rename {
                from,
                expected,
                moved,
            } => WorkRecord::Rename {
                from: entry(from),
                moved: moved.ino,
                expected: print(expected),
            },
        };
        StepRecord {
            target: entry(&self.target),
            dot: entry(&self.dot),
            work,
        }
    }
}

/// Tries again what must be done if it can be done at all.
pub(super) fn insist<T>(mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..N_TRIES {
        match f() {
            Err(err) if !is_final(err) => {}
            result => return result,
        }
    }
    f()
}

/// Whether a failure says how things are, rather than that something went wrong.
fn is_final(err: Errno) -> bool {
    matches!(
        err,
        Errno::NOENT | Errno::EXIST | Errno::NOTEMPTY | Errno::INVAL
    )
}

/// Overwrites a file, durably.
pub(super) fn set_content(fs: &Fs, file: &OwnedFd, content: &Content) -> io::Result<()> {
    let n_bytes = content.write_to(fs, file)?;
    // Only if it is needed: it could cut what somebody else is writing.
    if fs.stat(file)?.size > n_bytes as u64 {
        fs.truncate(file, n_bytes)?;
    }
    fs.sync(file)
}

/// The file is not what the change expects.
pub(super) fn stale(detail: &str) -> DiskError {
    DiskError::new(DiskErrorKind::Stale, detail)
}
