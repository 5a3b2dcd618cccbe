//! Taking changes back when one of them failed.
//!
//! Invariant: our text is taken back only from where it still is; what somebody saved over it stays. A displaced
//! content that is neither what the change expected nor anywhere else is kept in a file of ours, and reported.

use rustix::{
    fs::OFlags,
    io::{self, Errno},
};

use super::{
    DiskError, DiskFailure,
    content::Content,
    fs::Fs,
    journal::Record,
    late_saves::{Watched, watch_taken_back},
    transaction::{Place, State, Step, Transaction, Way, Work, insist, set_content},
};

/// What became of a change.
enum Outcome {
    Restored,
    /// Somebody has changed the file again.
    Superseded,
    /// The same, or the system refuses; and this file of ours must stay.
    Keep(Place),
}

impl Outcome {
    /// What was put in place is somebody's, not the old file.
    fn but_superseded(self) -> Self {
        match self {
            Self::Restored => Self::Superseded,
            outcome => outcome,
        }
    }
}

/// Takes the changes back that were made, the last one first; what they had put in place is returned, to be watched.
pub(super) fn take_back(
    mut transaction: Transaction,
    change: usize,
    error: DiskError,
) -> (DiskFailure, Vec<Watched>) {
    let fs = transaction.fs.clone();
    record(&transaction);
    let mut outcomes = Vec::new();
    for (step_idx, step) in transaction.steps.iter().enumerate().rev() {
        let outcome = match step.state {
            State::Staged => continue,
            State::Applied => step.settle(step.take_back(&fs)),
            State::TakenBack => Outcome::Restored,
        };
        outcomes.push((step_idx, outcome));
    }
    // What was put back becomes durable before anything of ours goes; a failure here changes nothing any more.
    for dir in transaction.dirs.values() {
        let _ = insist(|| fs.sync_dir(dir));
    }
    let mut unrestored = Vec::new();
    let mut kept = Vec::new();
    let mut watched = Vec::new();
    for (step_idx, mut outcome) in outcomes {
        let step = &transaction.steps[step_idx];
        if matches!(outcome, Outcome::Restored) {
            outcome = step.settle(step.look_again(&fs));
        }
        if let Outcome::Keep(place) = &outcome {
            transaction.litter.retain(|dot| dot != place);
            if !matches!(fs.stat_at(&place.dir.fd, &place.name), Ok(None)) {
                kept.push(place.path());
            }
        }
        if matches!(outcome, Outcome::Restored) {
            watched.extend(watch_taken_back(&fs, step));
        } else {
            unrestored.push(step_idx);
        }
    }
    unrestored.reverse();
    let failure = DiskFailure {
        change,
        error,
        unrestored,
        kept,
    };
    (failure, watched)
}

/// Who comes after a crash has to go the same way. If that cannot be recorded, all or none still holds, the other way.
fn record(transaction: &Transaction) {
    let steps = &transaction.steps;
    if steps.iter().all(|step| step.state == State::Staged) {
        return;
    }
    let recorded = insist(|| {
        transaction
            .journal
            .append(&[Record::Back(transaction.number)])
    });
    let synced = recorded.and_then(|()| {
        if transaction.is_intent_durable {
            transaction.journal.sync()
        } else {
            Ok(())
        }
    });
    if let Err(err) = synced {
        tracing::warn!("the journal cannot be written: {err}");
    }
}

impl Step {
    fn settle(&self, outcome: io::Result<Outcome>) -> Outcome {
        outcome.unwrap_or_else(|err| {
            let path = self.target.path();
            tracing::error!("cannot take back a change of {}: {err}", path.display());
            Outcome::Keep(self.dot.clone())
        })
    }

    fn take_back(&self, fs: &Fs) -> io::Result<Outcome> {
        match &self.work {
            Work::Create { .. } => self.uncreate(fs),
            Work::Replace {
                way: Way::Exchange, ..
            } => self.exchange_back(fs),
            Work::Replace { .. } => self.rename_back_over(fs),
            Work::InPlace { .. } => self.overwrite_again(fs),
            Work::Delete { expected } => self.put_back(fs, expected),
            Work::Rename { .. } => self.rename_back(fs),
        }
    }

    /// Whether nobody has written into our file after it was taken back; else it takes its place again.
    fn look_again(&self, fs: &Fs) -> io::Result<Outcome> {
        let (target, dot) = (&self.target, &self.dot);
        match &self.work {
            Work::Create { ours, text } => {
                let is_gone = insist(|| fs.stat_at(&dot.dir.fd, &dot.name))?.is_none();
                if is_gone || insist(|| dot.holds(fs, Some(*ours), text))? {
                    return Ok(Outcome::Restored);
                }
                self.put_back(fs, text).map(Outcome::but_superseded)
            }
            Work::Replace {
                ours,
                expected,
                text,
                way: Way::Exchange,
                ..
            } => {
                if insist(|| dot.holds(fs, Some(*ours), text))? {
                    return Ok(Outcome::Restored);
                }
                if !insist(|| target.holds(fs, None, expected))? {
                    // The target was saved too, so that one of them is nowhere else.
                    return Ok(Outcome::Keep(dot.clone()));
                }
                insist(|| fs.exchange(&target.dir, &dot.name, &target.name))?;
                self.superseded(fs, expected)
            }
            _ => Ok(Outcome::Restored),
        }
    }

    fn uncreate(&self, fs: &Fs) -> io::Result<Outcome> {
        let Work::Create { ours, text } = &self.work else {
            return Ok(Outcome::Restored);
        };
        let (target, dot) = (&self.target, &self.dot);
        if !insist(|| target.holds(fs, Some(*ours), text))? {
            let stat = insist(|| fs.stat_at(&target.dir.fd, &target.name))?;
            return Ok(stat.map_or(Outcome::Restored, |_| Outcome::Superseded));
        }
        match insist(|| fs.rename_new(target.as_pair(), dot.as_pair())) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(Outcome::Restored),
            Err(err) => return Err(err),
        }
        if insist(|| dot.holds(fs, Some(*ours), text))? {
            return Ok(Outcome::Restored);
        }
        self.put_back(fs, text).map(Outcome::but_superseded)
    }

    fn exchange_back(&self, fs: &Fs) -> io::Result<Outcome> {
        let Work::Replace {
            ours,
            expected,
            text,
            ..
        } = &self.work
        else {
            return Ok(Outcome::Restored);
        };
        let (target, dot) = (&self.target, &self.dot);
        let exchange = || insist(|| fs.exchange(&target.dir, &dot.name, &target.name));
        if !insist(|| target.holds(fs, Some(*ours), text))? {
            return self.superseded(fs, expected);
        }
        match exchange() {
            Ok(()) => {}
            Err(Errno::NOENT) => return self.superseded(fs, expected),
            Err(err) => return Err(err),
        }
        if insist(|| dot.holds(fs, Some(*ours), text))? {
            return Ok(Outcome::Restored);
        }
        // Saved in this very moment: theirs is the newest.
        match exchange() {
            Ok(()) => self.superseded(fs, expected),
            // And removed: then theirs takes the place of what was removed.
            Err(Errno::NOENT) => self.put_back(fs, text).map(Outcome::but_superseded),
            Err(err) => Err(err),
        }
    }

    /// The target is not ours any more; the displaced file goes, unless it holds something that nobody has seen.
    fn superseded(&self, fs: &Fs, expected: &Content) -> io::Result<Outcome> {
        if insist(|| self.dot.holds(fs, None, expected))? {
            return Ok(Outcome::Superseded);
        }
        // It was saved just before our change, and what the target held since may have been removed by now.
        self.put_back(fs, expected)
    }

    fn rename_back_over(&self, fs: &Fs) -> io::Result<Outcome> {
        let Work::Replace {
            ours,
            expected,
            text,
            way,
            ..
        } = &self.work
        else {
            return Ok(Outcome::Restored);
        };
        let (target, dot) = (&self.target, &self.dot);
        if let Way::RenameCopied(file) = way
            && !insist(|| expected.is_in(fs, file, fs.stat(file)?.size))?
        {
            // Somebody wrote into the old file while we renamed over it.
            let late = insist(|| fs.read(file, fs.stat(file)?.size, u64::MAX))?;
            let late = Content::from(late);
            insist(|| {
                let copy = fs.open(&dot.dir.fd, &dot.name, OFlags::RDWR)?;
                set_content(fs, &copy, &late)
            })?;
        }
        if !insist(|| target.holds(fs, Some(*ours), text))? {
            return self.superseded(fs, expected);
        }
        let held = match way {
            Way::Rename(free) => fs
                .link(target.as_pair(), free.as_pair())
                .ok()
                .map(|()| free),
            Way::Exchange | Way::RenameCopied(_) => None,
        };
        insist(|| fs.rename_over(&dot.dir, &dot.name, &target.name))?;
        if let Some(held) = held
            && !insist(|| held.holds(fs, None, text))?
        {
            // Saved in this very moment: theirs is the newest.
            insist(|| fs.rename_over(&held.dir, &held.name, &target.name))?;
            return Ok(Outcome::Superseded);
        }
        Ok(Outcome::Restored)
    }

    fn overwrite_again(&self, fs: &Fs) -> io::Result<Outcome> {
        let Work::InPlace {
            expected,
            text,
            file: Some(file),
            ..
        } = &self.work
        else {
            // Neither the new content could be written as a whole, nor the old one.
            return Ok(Outcome::Keep(self.dot.clone()));
        };
        if !insist(|| text.is_in(fs, file, fs.stat(file)?.size))? {
            return Ok(Outcome::Superseded);
        }
        insist(|| set_content(fs, file, expected))?;
        Ok(Outcome::Restored)
    }

    /// Puts the displaced file back where nothing is; else it goes, unless it holds something that nobody has seen.
    fn put_back(&self, fs: &Fs, expected: &Content) -> io::Result<Outcome> {
        match insist(|| fs.rename_new(self.dot.as_pair(), self.target.as_pair())) {
            Ok(()) => Ok(Outcome::Restored),
            Err(Errno::EXIST) if insist(|| self.dot.holds(fs, None, expected))? => {
                Ok(Outcome::Superseded)
            }
            Err(Errno::EXIST) => Ok(Outcome::Keep(self.dot.clone())),
            Err(err) => Err(err),
        }
    }

    fn rename_back(&self, fs: &Fs) -> io::Result<Outcome> {
        let Work::Rename {
            from,
            moved,
            expected,
        } = &self.work
        else {
            return Ok(Outcome::Restored);
        };
        let target = &self.target;
        let Some(stat) = insist(|| fs.stat_at(&target.dir.fd, &target.name))? else {
            return Ok(Outcome::Superseded);
        };
        // A copy of it is as good: a change of it may have been taken back before.
        let is_moved = *moved == stat.id || insist(|| target.holds(fs, None, expected))?;
        if !is_moved {
            return Ok(Outcome::Superseded);
        }
        match insist(|| fs.rename_new(target.as_pair(), from.as_pair())) {
            Ok(()) => Ok(Outcome::Restored),
            Err(Errno::EXIST | Errno::NOENT) => Ok(Outcome::Superseded),
            Err(err) => Err(err),
        }
    }
}
