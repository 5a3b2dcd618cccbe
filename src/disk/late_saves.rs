//! Saves that land in a file after it was replaced or removed.
//!
//! A program that had the file open before can still write into it; nobody would ever see what it wrote. So the old
//! file is held open for a while, and what comes late is put where the program believes it to be. The same holds for
//! a file of ours that was in place for a moment, until a change was taken back.
//!
//! Invariant: it is put there only in place of what we left, or where nothing is; else it is kept beside.

use std::{fmt, ops::RangeInclusive, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use rustix::{
    fs::{Mode, OFlags},
    io::{self, Errno},
    process::{Resource, getrlimit},
};

use super::{
    LateSave,
    content::Content,
    fs::{FileId, Fs, Stat, is_unsupported},
    journal::Journal,
    metadata::copy_metadata,
    transaction::{Place, Step, Transaction, Way, Work, insist, set_content},
};

/// Held open at most, each perhaps with its directory; always some, even where a process may open few files.
const N_WATCHED: RangeInclusive<u64> = 16..=4096;
/// How often a file is looked at.
const N_LOOKS: usize = 20;

/// A file that has no name any more.
pub(super) struct Watched {
    target: Place,
    file: OwnedFd,
    expected: Content,
    /// What we left at the target instead, if anything.
    left: Option<(FileId, Content)>,
    /// A save that was seen once; it may have been half of it.
    unsettled: Option<Stat>,
    /// When it was compared with what is expected.
    compared: Option<Stat>,
    n_looks: usize,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.target).finish()
    }
}

/// Opens the displaced files before they lose their last name.
pub(super) fn watch(transaction: &mut Transaction) -> Vec<Watched> {
    let fs = transaction.fs.clone();
    let steps = transaction.steps.iter_mut();
    steps.filter_map(|step| watch_step(&fs, step)).collect()
}

/// Lets go of those that have been watched longest, as far as they are too many for what the process may open.
pub(super) fn limit(watched: &mut Vec<Watched>) {
    let n_files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let n_max = (n_files / 4).clamp(*N_WATCHED.start(), *N_WATCHED.end());
    let n_surplus = watched
        .len()
        .saturating_sub(usize::try_from(n_max).unwrap_or(usize::MAX));
    if n_surplus > 0 {
        tracing::debug!("late saves of {n_surplus} files are not looked for any longer");
        watched.drain(..n_surplus);
    }
}

fn watch_step(fs: &Fs, step: &mut Step) -> Option<Watched> {
    let (held, expected, left) = match &mut step.work {
        Work::Replace {
            ours,
            expected,
            text,
            file,
            way,
            ..
        } => {
            let held = match std::mem::replace(way, Way::Exchange) {
                Way::RenameCopied(file) => Some(file),
                Way::Exchange | Way::Rename(_) => file.take(),
            };
            (held, &*expected, Some((*ours, text.without_bytes())))
        }
        Work::Delete { expected } => (None, &*expected, None),
        Work::Create { .. } | Work::InPlace { .. } | Work::Rename { .. } => return None,
    };
    let file = match held {
        Some(file) => file,
        None => step.dot.open(fs, OFlags::RDONLY).ok()??.0,
    };
    Some(Watched::new(&step.target, file, expected, left))
}

/// Opens the file of ours that was in place, if it is about to lose its last name.
pub(super) fn watch_taken_back(fs: &Fs, step: &Step) -> Option<Watched> {
    let (ours, text, left) = match &step.work {
        Work::Create { ours, text } => (ours, text, None),
        Work::Replace {
            ours,
            expected,
            text,
            original,
            ..
        } => (ours, text, Some((original.id, expected.without_bytes()))),
        Work::InPlace { .. } | Work::Delete { .. } | Work::Rename { .. } => return None,
    };
    let (file, stat) = step.dot.open(fs, OFlags::RDONLY).ok()??;
    (stat.id == *ours).then(|| Watched::new(&step.target, file, text, left))
}

/// Looks for late saves; one counts when it has stood still from one look to the next.
pub(super) fn look_back(journal: &Arc<Journal>, watched: &mut Vec<Watched>) -> Vec<LateSave> {
    let mut saves = Vec::new();
    for idx in 0..watched.len() {
        let Some(bytes) = watched[idx].late_bytes(&journal.fs) else {
            continue;
        };
        let path = watched[idx].target.path();
        match watched[idx].restore(journal, bytes) {
            Ok((kept, displaced)) => {
                saves.push(LateSave { path, kept });
                watched.extend(displaced);
            }
            Err(err) => {
                tracing::error!("cannot restore a late save of {}: {err}", path.display());
            }
        }
    }
    watched.retain(|it| it.n_looks < N_LOOKS);
    saves
}

impl Watched {
    fn new(
        target: &Place,
        file: OwnedFd,
        expected: &Content,
        left: Option<(FileId, Content)>,
    ) -> Self {
        Self {
            target: target.clone(),
            file,
            expected: expected.without_bytes(),
            left,
            unsettled: None,
            compared: None,
            n_looks: 0,
        }
    }

    fn late_bytes(&mut self, fs: &Fs) -> Option<Vec<u8>> {
        self.n_looks += 1;
        let stat = fs.stat(&self.file).ok()?;
        // Times are only a reason to look sooner: the last look compares in any case.
        if self.compared == Some(stat) && self.n_looks < N_LOOKS {
            return None;
        }
        if self
            .expected
            .is_in(fs, &self.file, stat.size)
            .unwrap_or(true)
        {
            self.compared = Some(stat);
            self.unsettled = None;
            return None;
        }
        let stat = fs.stat(&self.file).ok()?;
        if self.unsettled.replace(stat) != Some(stat) {
            return None;
        }
        fs.read(&self.file, stat.size, u64::MAX).ok()
    }

    /// Puts a late save at the target, or keeps it beside if somebody has changed that. What it displaces is to be
    /// watched, too.
    fn restore(
        &mut self,
        journal: &Arc<Journal>,
        bytes: Vec<u8>,
    ) -> io::Result<(Option<PathBuf>, Option<Self>)> {
        let fs = &journal.fs;
        let late = Content::from(bytes);
        let mut transaction = Transaction::new(journal);
        let dot = transaction.new_dot(&self.target.dir)?;
        let copy = fs.create(&dot.dir, &dot.name, Mode::RUSR | Mode::WUSR)?;
        set_content(fs, &copy, &late)?;
        let (wanted, has) = (fs.stat(&self.file)?, fs.stat(&copy)?);
        copy_metadata(fs, (&self.file, &wanted), (&copy, &has))?;
        self.expected = late.without_bytes();
        let (restored, displaced) = self.put(fs, &dot, has.id)?;
        if restored {
            return Ok((None, displaced));
        }
        transaction.litter.clear();
        Ok((Some(dot.path()), None))
    }

    /// Puts a copy of the late save at the target; false if somebody has changed that.
    fn put(&mut self, fs: &Fs, dot: &Place, copy: FileId) -> io::Result<(bool, Option<Self>)> {
        let (target, dir) = (&self.target, &self.target.dir);
        let now_left = (copy, self.expected.clone());
        let Some((id, left)) = self.left.clone() else {
            return match fs.rename_new(dot.as_pair(), target.as_pair()) {
                Ok(()) => {
                    self.left = Some(now_left);
                    Ok((true, None))
                }
                Err(Errno::EXIST) => Ok((false, None)),
                Err(err) => Err(err),
            };
        };
        let is_left = |place: &Place| place.holds(fs, Some(id), &left);
        if !is_left(target)? {
            return Ok((false, None));
        }
        match fs.exchange(dir, &dot.name, &target.name) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok((false, None)),
            Err(err) if is_unsupported(err) => {
                fs.rename_over(dir, &dot.name, &target.name)?;
                self.left = Some(now_left);
                return Ok((true, None));
            }
            Err(err) => return Err(err),
        }
        if !is_left(dot)? {
            // Saved in this very moment: the newest stays.
            insist(|| fs.exchange(dir, &dot.name, &target.name))?;
            return Ok((false, None));
        }
        self.left = Some(now_left.clone());
        let displaced = dot
            .open(fs, OFlags::RDONLY)?
            .map(|(file, _)| Self::new(target, file, &left, Some(now_left)));
        Ok((true, displaced))
    }
}
