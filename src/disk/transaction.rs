//! The changes of one call, from the staged files to the last directory entry.
//!
//! Invariant: as long as a transaction is not committed, dropping it leaves every file as it was and nothing of ours
//! beside it. All its files beside the targets are named `.abreast.<id>.<n>`, so that a journal can claim them after
//! a crash by the id alone.

use std::{
    collections::{HashMap, hash_map::RandomState},
    ffi::{OsStr, OsString},
    hash::{BuildHasher, Hasher},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::Arc,
};

use rustix::{
    fs::OFlags,
    io::{self, Errno},
};

use super::{
    DiskError, DiskErrorKind,
    fs::{Dir, FileId, Fs, Stat},
};

/// How often something that must not be left undone is tried.
const N_TRIES: usize = 3;

#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) fs: Fs,
    pub(super) id: String,
    pub(super) steps: Vec<Step>,
    pub(super) dirs: HashMap<PathBuf, Arc<Dir>>,
    /// Directories that did not exist, in the order in which they were made.
    pub(super) made_dirs: Vec<Place>,
    /// Names at which there may be files of ours.
    pub(super) litter: Vec<Place>,
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

/// Content, compared and written as bytes.
pub(super) type Content = Arc<String>;

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
        way: Way,
    },
    /// The target is overwritten; the staged file keeps its old content.
    InPlace {
        expected: Content,
        text: Content,
        /// The file that was overwritten with all of the text.
        file: Option<OwnedFd>,
    },
    Delete {
        expected: Content,
    },
    Rename {
        from: Place,
        expected: Content,
        moved: Option<FileId>,
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
        let Some(stat) = fs.stat_at(&self.dir.fd, &self.name)? else {
            return Ok(None);
        };
        if stat.require_file().is_err() {
            return Ok(None);
        }
        let file = match fs.open(&self.dir, &self.name, access) {
            Ok(file) => file,
            // Replaced since: `open` neither follows links nor waits for a FIFO's other end.
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Ok(None),
            Err(err) => return Err(err),
        };
        let stat = fs.stat(&file)?;
        Ok(stat.require_file().is_ok().then_some((file, stat)))
    }

    /// Whether here is a file with exactly this content and, if given, this identity.
    pub(super) fn holds(&self, fs: &Fs, id: Option<FileId>, content: &[u8]) -> io::Result<bool> {
        match self.open(fs, OFlags::RDONLY)? {
            Some((_, stat)) if id.is_some_and(|id| id != stat.id) => Ok(false),
            Some((file, _)) => fs.holds(file, content),
            None => Ok(false),
        }
    }
}

impl PartialEq for Dir {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Transaction {
    pub(super) fn new(fs: Fs) -> Self {
        Self {
            fs,
            id: new_id(),
            steps: Vec::new(),
            dirs: HashMap::new(),
            made_dirs: Vec::new(),
            litter: Vec::new(),
        }
    }

    /// Which steps overwrite a file instead of replacing it.
    pub(super) fn in_place(&self) -> Vec<bool> {
        let is_in_place = |step: &Step| matches!(step.work, Work::InPlace { .. });
        self.steps.iter().map(is_in_place).collect()
    }

    /// Takes a new name beside a target; it is removed at the end, if something is there.
    pub(super) fn new_dot(&mut self, dir: &Arc<Dir>) -> Place {
        let name = format!(".abreast.{}.{}", self.id, self.litter.len());
        let dot = Place {
            dir: Arc::clone(dir),
            name: name.into(),
        };
        self.litter.push(dot.clone());
        dot
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
pub(super) fn set_content(fs: &Fs, file: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    fs.write(file, bytes)?;
    // Only if it is needed: it could cut what somebody else is writing.
    if fs.stat(file)?.size > bytes.len() as u64 {
        fs.truncate(file, bytes.len())?;
    }
    fs.sync(file)
}

/// The file is not what the change expects.
pub(super) fn stale(detail: &str) -> DiskError {
    DiskError::new(DiskErrorKind::Stale, detail)
}

/// Unique and not to be guessed: 12 hex digits of randomness.
fn new_id() -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{:012x}", random >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_differ() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| new_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 12));
    }
}
