//! Preparing changes: everything that can be checked or written without touching a target.
//!
//! Invariant: a change is checked against what the changes before it *will* leave, so that it can be executed in its
//! turn; nothing visible happens but that missing directories are made.

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{
    DiskChange, DiskError, DiskErrorKind, DiskFailure,
    content::Content,
    fs::{Dir, Stat},
    journal::Journal,
    metadata::copy_metadata,
    transaction::{Place, State, Step, Transaction, Way, Work, stale},
};

/// Files that are held open to be synced together.
const N_UNSYNCED_MAX: usize = 64;
/// Beyond it, more syncs at the same time are not faster.
const N_SYNC_THREADS: usize = 16;
/// Files to be replaced that are held open until then.
const N_HELD_MAX: usize = 64;
/// How often a directory is made again that another transaction has just removed.
const N_MAKES_MAX: usize = 8;

pub(super) fn stage(
    journal: &Arc<Journal>,
    changes: &[DiskChange],
) -> Result<Transaction, DiskFailure> {
    let mut stage = Stage {
        transaction: Transaction::new(journal),
        will: HashMap::new(),
        unsynced: Vec::new(),
    };
    match stage.add_all(changes) {
        Ok(()) => Ok(stage.transaction),
        Err((change, error)) => Err(DiskFailure {
            change,
            error,
            unrestored: Vec::new(),
            kept: Vec::new(),
        }),
    }
}

struct Stage {
    transaction: Transaction,
    /// What the changes so far will leave at the paths that they touch.
    will: HashMap<PathBuf, Will>,
    /// Files that were written and are not durable yet, with the change they belong to.
    unsynced: Vec<(usize, OwnedFd)>,
}

enum Will {
    BeGone,
    /// The text, and where the file that will have it is now.
    Hold(Content, Place),
}

impl Stage {
    fn add_all(&mut self, changes: &[DiskChange]) -> Result<(), (usize, DiskError)> {
        for (change_idx, change) in changes.iter().enumerate() {
            self.add(change).map_err(|error| (change_idx, error))?;
            if self.unsynced.len() >= N_UNSYNCED_MAX {
                self.sync(None)?;
            }
        }
        if !self.transaction.needs_journal() {
            return self.sync(None);
        }
        let journal = Arc::clone(&self.transaction.journal);
        let recorded = journal.append(&[self.transaction.intent()]);
        recorded.map_err(|err| (0, journal_failed(err)))?;
        self.transaction.is_intent_durable = true;
        self.sync(Some(&journal))
    }

    /// Makes what was written durable.
    fn sync(&mut self, journal: Option<&Journal>) -> Result<(), (usize, DiskError)> {
        let fs = &self.transaction.fs;
        let files = std::mem::take(&mut self.unsynced).into_iter().map(Some);
        let things: Vec<_> = files.chain(journal.map(|_| None)).collect();
        in_parallel(&things, |thing| match (thing, journal) {
            (Some((change_idx, file)), _) => {
                let failed = |err| DiskError::from_errno(err, "write beside the file");
                fs.sync(file).map_err(|err| (*change_idx, failed(err)))
            }
            (None, Some(journal)) => journal.sync().map_err(|err| (0, journal_failed(err))),
            (None, None) => Ok(()),
        })
    }

    fn add(&mut self, change: &DiskChange) -> Result<(), DiskError> {
        let (step, path, will) = match change {
            DiskChange::Create { path, text } => {
                let (step, will) = self.create(path, text.into())?;
                (step, path, will)
            }
            DiskChange::Replace {
                path,
                expected,
                text,
            } => {
                let (step, will) = self.replace(path, expected.into(), text.into())?;
                (step, path, will)
            }
            DiskChange::Delete { path, expected } => {
                let step = self.delete(path, expected.into())?;
                (step, path, Will::BeGone)
            }
            DiskChange::Rename { from, to, expected } => {
                let (step, will) = self.rename(from, to, expected.into())?;
                self.will.insert(from.clone(), Will::BeGone);
                (step, to, will)
            }
        };
        self.transaction.steps.push(step);
        self.will.insert(path.clone(), will);
        Ok(())
    }

    fn create(&mut self, path: &Path, text: Content) -> Result<(Step, Will), DiskError> {
        let mut n_makes = 0;
        let (target, (dot, file, stat)) = loop {
            let target = self.place_to_fill(path)?;
            // The system applies umask and default ACL; as a new file it holds nothing that its mode would not show.
            match self.write_dot(&target.dir, Mode::from_bits_truncate(0o666), &text) {
                Err(Errno::NOENT) if n_makes < N_MAKES_MAX => n_makes += 1,
                Err(err) => return Err(not_written(err)),
                Ok(written) => break (target, written),
            }
            self.transaction.dirs.remove(&target.dir.path);
        };
        self.will_sync(file);
        let will = Will::Hold(text.clone(), dot.clone());
        let ours = stat.id;
        Ok((Step::new(target, dot, Work::Create { ours, text }), will))
    }

    fn replace(
        &mut self,
        path: &Path,
        expected: Content,
        text: Content,
    ) -> Result<(Step, Will), DiskError> {
        let (at, file, original) = self.find(path, &expected)?;
        self.require_writable(&at, &original)?;
        let target = self.place(path)?;
        if original.n_links == 1 {
            let (dot, copy, stat) = self.write_private_dot(&target.dir, &text)?;
            let fs = &self.transaction.fs;
            let is_same = copy_metadata(fs, (&file, &original), (&copy, &stat))
                .map_err(|err| DiskError::from_errno(err, "copy mode and owner of the file"))?;
            if is_same {
                self.will_sync(copy);
                let will = Will::Hold(text.clone(), dot.clone());
                let n_before = self.transaction.steps.len();
                let work = Work::Replace {
                    ours: stat.id,
                    expected,
                    text,
                    original,
                    file: (n_before < N_HELD_MAX).then_some(file),
                    displaced: None,
                    way: Way::Exchange,
                };
                return Ok((Step::new(target, dot, work), will));
            }
        }
        // Another file would not have the other names, or not the owner, of this one.
        let (dot, copy, _) = self.write_private_dot(&target.dir, &expected)?;
        self.will_sync(copy);
        let (new, copy, _) = self.write_private_dot(&target.dir, &text)?;
        self.will_sync(copy);
        let will = Will::Hold(text.clone(), at);
        let work = Work::InPlace {
            expected,
            text,
            new,
            file: None,
        };
        Ok((Step::new(target, dot, work), will))
    }

    fn will_sync(&mut self, file: OwnedFd) {
        self.unsynced.push((self.transaction.steps.len(), file));
    }

    fn delete(&mut self, path: &Path, expected: Content) -> Result<Step, DiskError> {
        let (at, _, stat) = self.find(path, &expected)?;
        self.require_writable(&at, &stat)?;
        let target = self.place(path)?;
        self.require_admits(&target.dir)?;
        let dot = self.new_dot(&target.dir)?;
        Ok(Step::new(target, dot, Work::Delete { expected }))
    }

    fn rename(
        &mut self,
        from: &Path,
        to: &Path,
        expected: Content,
    ) -> Result<(Step, Will), DiskError> {
        let (at, _, stat) = self.find(from, &expected)?;
        self.require_writable(&at, &stat)?;
        let from = self.place(from)?;
        self.require_admits(&from.dir)?;
        let target = self.place_to_fill(to)?;
        if target.dir.stat.id.dev != from.dir.stat.id.dev {
            return Err(DiskError::new(
                DiskErrorKind::Io,
                "cannot rename from one file system to another",
            ));
        }
        let will = Will::Hold(expected.clone(), at);
        self.require_admits(&target.dir)?;
        let dot = self.new_dot(&target.dir)?;
        let moved = stat.id;
        let work = Work::Rename {
            from,
            expected,
            moved,
        };
        Ok((Step::new(target, dot, work), will))
    }

    /// Finds the file that will be at a path by then, and checks its content.
    fn find(
        &mut self,
        path: &Path,
        expected: &Content,
    ) -> Result<(Place, OwnedFd, Stat), DiskError> {
        let (at, will_hold) = match self.will.get(path) {
            Some(Will::BeGone) => return Err(stale("the file does not exist any more")),
            Some(Will::Hold(text, at)) => (at.clone(), Some(text.clone())),
            None => (self.place(path)?, None),
        };
        let fs = &self.transaction.fs;
        let failed = |err| DiskError::from_errno(err, "read the file");
        let gone = || stale("the file does not exist any more");
        let stat = fs.stat_at(&at.dir.fd, &at.name).map_err(failed)?;
        stat.ok_or_else(gone)?.require_file()?;
        let opened = at.open_seen(fs, OFlags::RDONLY).map_err(failed)?;
        let (file, stat) = opened.ok_or_else(gone)?;
        let is_expected = match will_hold {
            Some(text) => text.is_same_as(expected),
            None => expected.is_in(fs, &file, stat.size).map_err(failed)?,
        };
        if is_expected {
            Ok((at, file, stat))
        } else {
            Err(stale("the file has another content"))
        }
    }

    /// The place of a file that should exist.
    fn place(&mut self, path: &Path) -> Result<Place, DiskError> {
        let (parent, name) = split(path)?;
        let dir = match self.open_dir(parent) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Err(stale("the file does not exist any more")),
            Err(err) => return Err(DiskError::from_errno(err, "open the directory")),
        };
        Ok(Place { dir, name })
    }

    /// The place of a file that will be made or moved there, in a directory that exists by now.
    fn place_to_fill(&mut self, path: &Path) -> Result<Place, DiskError> {
        let (parent, name) = split(path)?;
        let dir = self
            .make_dirs(parent)
            .map_err(|err| DiskError::from_errno(err, "make the directory"))?;
        let place = Place { dir, name };
        match self.will.get(path) {
            Some(Will::BeGone) => {}
            Some(Will::Hold(..)) => return Err(DiskError::exists()),
            None => {
                let fs = &self.transaction.fs;
                let stat = fs
                    .stat_at(&place.dir.fd, &place.name)
                    .map_err(|err| DiskError::from_errno(err, "look at the file"))?;
                if let Some(stat) = stat {
                    stat.require_file()?;
                    return Err(DiskError::exists());
                }
            }
        }
        require_not_protected(&place.dir)?;
        Ok(place)
    }

    fn open_dir(&mut self, path: &Path) -> Result<Arc<Dir>, Errno> {
        if let Some(dir) = self.transaction.dirs.get(path) {
            return Ok(Arc::clone(dir));
        }
        let dir = Arc::new(self.transaction.fs.open_dir(path)?);
        self.transaction
            .dirs
            .insert(path.to_path_buf(), Arc::clone(&dir));
        Ok(dir)
    }

    fn make_dirs(&mut self, path: &Path) -> Result<Arc<Dir>, Errno> {
        let mut result = self.open_dir(path);
        let Some((parent_path, name)) = path.parent().zip(path.file_name()) else {
            return result;
        };
        for _ in 0..N_MAKES_MAX {
            if !matches!(result, Err(Errno::NOENT)) {
                break;
            }
            let parent = self.make_dirs(parent_path)?;
            if !parent.stat.is_writable() {
                return Err(Errno::ACCESS);
            }
            match self.transaction.make_dir(&parent, name) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => {
                    self.transaction.dirs.remove(parent_path);
                    continue;
                }
                Err(err) => return Err(err),
            }
            result = self.transaction.fs.open_dir_at(&parent, name).map(Arc::new);
        }
        let dir = result?;
        self.transaction
            .dirs
            .insert(path.to_path_buf(), Arc::clone(&dir));
        Ok(dir)
    }

    fn new_dot(&mut self, dir: &Arc<Dir>) -> Result<Place, DiskError> {
        self.transaction.new_dot(dir).map_err(journal_failed)
    }

    /// Writes a file beside a target that nobody else can read before it is given the target's mode and owner.
    fn write_private_dot(
        &mut self,
        dir: &Arc<Dir>,
        content: &Content,
    ) -> Result<(Place, OwnedFd, Stat), DiskError> {
        require_not_protected(dir)?;
        self.write_dot(dir, Mode::RUSR | Mode::WUSR, content)
            .map_err(not_written)
    }

    /// Writes a file of ours beside a target; not durable yet.
    fn write_dot(
        &mut self,
        dir: &Arc<Dir>,
        mode: Mode,
        content: &Content,
    ) -> Result<(Place, OwnedFd, Stat), Errno> {
        let (dot, file) = loop {
            let dot = self.transaction.new_dot(dir)?;
            match self.transaction.fs.create(dir, &dot.name, mode) {
                Ok(file) => break (dot, file),
                // Whatever it is, it is not ours.
                Err(Errno::EXIST) => self.transaction.litter.retain(|it| *it != dot),
                Err(err) => return Err(err),
            }
        };
        let fs = &self.transaction.fs;
        content.write_to(fs, &file)?;
        let stat = fs.stat(&file)?;
        Ok((dot, file, stat))
    }

    /// A file without any write permission was protected by somebody, even against root.
    fn require_writable(&self, place: &Place, stat: &Stat) -> Result<(), DiskError> {
        let denied = !stat.is_writable();
        match self.transaction.fs.may_write(&place.dir, &place.name) {
            Ok(()) if !denied => Ok(()),
            Ok(()) | Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Err(DiskError::new(
                DiskErrorKind::PermissionDenied,
                "the file is read-only",
            )),
            // Removed meanwhile: what follows finds out.
            Err(Errno::NOENT) => Ok(()),
            Err(err) => Err(DiskError::from_errno(err, "look at the file's permissions")),
        }
    }

    /// Of a directory in which nothing is written before the change.
    fn require_admits(&self, dir: &Dir) -> Result<(), DiskError> {
        require_not_protected(dir)?;
        match self.transaction.fs.may_write(dir, ".".as_ref()) {
            // Removed meanwhile: what follows finds out.
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Err(read_only_dir()),
            Err(err) => Err(DiskError::from_errno(
                err,
                "look at the directory's permissions",
            )),
        }
    }
}

impl Step {
    fn new(target: Place, dot: Place, work: Work) -> Self {
        Self {
            target,
            dot,
            work,
            state: State::Staged,
        }
    }
}

fn split(path: &Path) -> Result<(&Path, std::ffi::OsString), DiskError> {
    match path.parent().zip(path.file_name()) {
        Some((parent, name)) => Ok((parent, name.to_owned())),
        None => Err(DiskError::new(DiskErrorKind::NotRegularFile, "a directory")),
    }
}

/// A directory without any write permission was protected by somebody, even against root.
fn require_not_protected(dir: &Dir) -> Result<(), DiskError> {
    if dir.stat.is_writable() {
        Ok(())
    } else {
        Err(read_only_dir())
    }
}

fn read_only_dir() -> DiskError {
    DiskError::new(
        DiskErrorKind::PermissionDenied,
        "the directory is read-only",
    )
}

/// Why there is no new file in a directory.
fn not_written(err: Errno) -> DiskError {
    match err {
        Errno::ACCESS | Errno::PERM | Errno::ROFS => read_only_dir(),
        err => DiskError::from_errno(err, "write beside the file"),
    }
}

fn journal_failed(err: Errno) -> DiskError {
    DiskError::from_errno(err, "write the journal of changes")
}

/// Does things that wait for the disk at the same time: file systems commit such calls together.
pub(super) fn in_parallel<T: Sync, E: Send>(
    things: &[T],
    f: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let f = |things: &[T]| things.iter().try_for_each(&f);
    let mut parts = things.chunks(things.len().div_ceil(N_SYNC_THREADS).max(1));
    let first = parts.next().unwrap_or_default();
    thread::scope(|scope| {
        let mut done = Ok(());
        let mut others = Vec::new();
        for part in parts {
            match thread::Builder::new().spawn_scoped(scope, || f(part)) {
                Ok(other) => others.push(other),
                // No thread to be had: then one after the other.
                Err(_) => done = done.and(f(part)),
            }
        }
        done = done.and_then(|()| f(first));
        for other in others {
            done = done.and(other.join().expect("a sync does not panic"));
        }
        done
    })
}
