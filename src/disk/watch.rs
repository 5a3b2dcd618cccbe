//! Saves that land in a file after it was replaced or removed.
//!
//! A program that had the file open before can still write into it; nobody would ever see what it wrote. So the old
//! file is held open for a while, and what comes late is put where the program believes it to be.
//!
//! Invariant: it is put there only in place of our own text, or where nothing is.

use std::{os::fd::OwnedFd, sync::Arc};

use rustix::{
    fs::{Mode, OFlags},
    io::{self, Errno},
};

use super::{
    LateSave,
    fs::{FileId, Fs, Stat, is_unsupported},
    metadata::copy_metadata,
    transaction::{Content, Place, Step, Transaction, Way, Work, insist, set_content},
};

/// Held open at most, per commit; beyond it files are not watched.
const N_WATCHED_MAX: usize = 256;

/// A file that has no name any more.
#[derive(Debug)]
pub(super) struct Watched {
    change: usize,
    target: Place,
    file: OwnedFd,
    expected: Content,
    /// What is at the target instead, if anything.
    ours: Option<(FileId, Content)>,
    /// The last late save, and what it is at the target, if it could be put there.
    late: Option<(Vec<u8>, Option<FileId>)>,
    /// A save that was seen once; it may have been half of it.
    unsettled: Option<Stat>,
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
    let (way, expected, ours) = match &mut step.work {
        Work::Replace {
            ours,
            expected,
            text,
            way,
            ..
        } => (Some(way), expected, Some((*ours, Arc::clone(text)))),
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
        expected: Arc::clone(expected),
        ours,
        late: None,
        unsettled: None,
    })
}

impl Watched {
    /// Looks for a late save; it counts when it has stood still from one look to the next.
    pub(super) fn look_back(&mut self, fs: &Fs) -> Option<LateSave> {
        let known = match &self.late {
            Some((bytes, _)) => &bytes[..],
            None => self.expected.as_bytes(),
        };
        if fs.holds(&self.file, known).unwrap_or(true) {
            self.unsettled = None;
            return None;
        }
        let stat = fs.stat(&self.file).ok()?;
        if self.unsettled.replace(stat) != Some(stat) {
            return None;
        }
        let bytes = fs.read(&self.file, u64::MAX).ok()?;
        let restored = self.restore(fs, &bytes).unwrap_or_else(|err| {
            let path = self.target.path();
            tracing::error!("cannot restore a late save of {}: {err}", path.display());
            None
        });
        self.late = Some((bytes.clone(), restored));
        Some(LateSave {
            change: self.change,
            path: self.target.path(),
            bytes,
            restored: restored.is_some(),
        })
    }

    /// What we left at the target, if anything.
    fn left(&self) -> Option<(FileId, &[u8])> {
        match (&self.late, &self.ours) {
            (Some((bytes, Some(id))), _) => Some((*id, bytes)),
            (_, Some((id, text))) => Some((*id, text.as_bytes())),
            (_, None) => None,
        }
    }

    /// Puts a late save at the target, unless somebody has changed that.
    fn restore(&self, fs: &Fs, bytes: &[u8]) -> io::Result<Option<FileId>> {
        let mut transaction = Transaction::new(fs.clone());
        let (target, dir) = (&self.target, &self.target.dir);
        let dot = transaction.new_dot(dir);
        let copy = fs.create(dir, &dot.name, Mode::RUSR | Mode::WUSR)?;
        set_content(fs, &copy, bytes)?;
        let (wanted, has) = (fs.stat(&self.file)?, fs.stat(&copy)?);
        copy_metadata(fs, (&self.file, &wanted), (&copy, &has))?;
        let Some((id, text)) = self.left() else {
            return match fs.rename_new(dot.as_pair(), target.as_pair()) {
                Ok(()) => Ok(Some(has.id)),
                Err(Errno::EXIST) => Ok(None),
                Err(err) => Err(err),
            };
        };
        if !target.holds(fs, Some(id), text)? {
            return Ok(None);
        }
        match fs.exchange(dir, &dot.name, &target.name) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(err) if is_unsupported(err) => {
                fs.rename_over(dir, &dot.name, &target.name)?;
                return Ok(Some(has.id));
            }
            Err(err) => return Err(err),
        }
        if dot.holds(fs, Some(id), text)? {
            return Ok(Some(has.id));
        }
        // Saved in this very moment: the newest stays.
        insist(|| fs.exchange(dir, &dot.name, &target.name))?;
        Ok(None)
    }
}
