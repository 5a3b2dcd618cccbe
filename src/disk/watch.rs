//! Saves that land in a file after it was replaced or removed.
//!
//! A program that had the file open before can still write into it; nobody would ever see what it wrote. So the old
//! file is held open for a while, and what comes late is put where the program believes it to be.
//!
//! Invariant: it is put there only in place of our own text, or where nothing is.

use std::{fmt, os::fd::OwnedFd, sync::Arc};

use rustix::{
    fs::{Mode, OFlags},
    io::{self, Errno},
};

use super::{
    LateSave,
    fs::{FileId, Fs, Stat, is_unsupported},
    metadata::copy_metadata,
    transaction::{Place, Step, Transaction, Way, Work, insist, set_content},
};

/// Held open at most, per commit; beyond it files are not watched.
const N_WATCHED_MAX: usize = 256;

/// Content that may be no text.
type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A file that has no name any more.
pub(super) struct Watched {
    change: usize,
    target: Place,
    file: OwnedFd,
    expected: Bytes,
    /// What we left at the target instead, if anything.
    left: Option<(FileId, Bytes)>,
    /// A save that was seen once; it may have been half of it.
    unsettled: Option<Stat>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watched").field(&self.target).finish()
    }
}

/// Opens the displaced files before they lose their last name.
pub(super) fn watch(transaction: &mut Transaction) -> Vec<Watched> {
    let fs = transaction.fs.clone();
    let steps = transaction.steps.iter_mut().enumerate();
    steps
        .filter_map(|(change, step)| watch_step(&fs, change, step))
        .take(N_WATCHED_MAX)
        .collect()
}

fn watch_step(fs: &Fs, change: usize, step: &mut Step) -> Option<Watched> {
    let (way, expected, left) = match &mut step.work {
        Work::Replace {
            ours,
            expected,
            text,
            way,
            ..
        } => {
            let text: Bytes = text.clone();
            (Some(way), expected, Some((*ours, text)))
        }
        Work::Delete { expected } => (None, expected, None),
        Work::Create { .. } | Work::InPlace { .. } | Work::Rename { .. } => return None,
    };
    let file = match way.map(|way| std::mem::replace(way, Way::Exchange)) {
        Some(Way::RenameCopied(file)) => file,
        _ => step.dot.open(fs, OFlags::RDONLY).ok()??.0,
    };
    Some(Watched {
        change,
        target: step.target.clone(),
        file,
        expected: expected.clone(),
        left,
        unsettled: None,
    })
}

/// Looks for late saves; one counts when it has stood still from one look to the next.
pub(super) fn look_back(fs: &Fs, watched: &mut Vec<Watched>) -> Vec<LateSave> {
    let mut saves = Vec::new();
    for idx in 0..watched.len() {
        let Some(bytes) = watched[idx].late_bytes(fs) else {
            continue;
        };
        let (restored, displaced) = watched[idx].restore(fs, &bytes).unwrap_or_else(|err| {
            let path = watched[idx].target.path();
            tracing::error!("cannot restore a late save of {}: {err}", path.display());
            (false, None)
        });
        saves.push(LateSave {
            change: watched[idx].change,
            path: watched[idx].target.path(),
            bytes: bytes.to_vec(),
            restored,
        });
        if watched.len() < N_WATCHED_MAX {
            watched.extend(displaced);
        }
    }
    saves
}

impl Watched {
    fn late_bytes(&mut self, fs: &Fs) -> Option<Arc<Vec<u8>>> {
        if fs
            .holds(&self.file, (*self.expected).as_ref())
            .unwrap_or(true)
        {
            self.unsettled = None;
            return None;
        }
        let stat = fs.stat(&self.file).ok()?;
        if self.unsettled.replace(stat) != Some(stat) {
            return None;
        }
        let bytes = Arc::new(fs.read(&self.file, u64::MAX).ok()?);
        self.expected = bytes.clone();
        Some(bytes)
    }

    /// Puts a late save at the target, unless somebody has changed that; what it displaces is to be watched, too.
    fn restore(&mut self, fs: &Fs, bytes: &Arc<Vec<u8>>) -> io::Result<(bool, Option<Self>)> {
        let mut transaction = Transaction::new(fs.clone());
        let (target, dir) = (&self.target, &self.target.dir);
        let dot = transaction.new_dot(dir);
        let copy = fs.create(dir, &dot.name, Mode::RUSR | Mode::WUSR)?;
        set_content(fs, &copy, bytes)?;
        let (wanted, has) = (fs.stat(&self.file)?, fs.stat(&copy)?);
        copy_metadata(fs, (&self.file, &wanted), (&copy, &has))?;
        let now_left: (FileId, Bytes) = (has.id, bytes.clone());
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
        let is_left = |place: &Place| place.holds(fs, Some(id), (*left).as_ref());
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
        if !is_left(&dot)? {
            // Saved in this very moment: the newest stays.
            insist(|| fs.exchange(dir, &dot.name, &target.name))?;
            return Ok((false, None));
        }
        self.left = Some(now_left.clone());
        let displaced = dot.open(fs, OFlags::RDONLY)?.map(|(file, _)| Self {
            change: self.change,
            target: target.clone(),
            file,
            expected: left.clone(),
            left: Some(now_left),
            unsettled: None,
        });
        Ok((true, displaced))
    }
}
