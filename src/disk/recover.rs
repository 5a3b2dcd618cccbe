//! Finishing, or taking back, what a process that is gone had begun.
//!
//! Invariant: only a journal that no living process owns is acted on. Its changes are rebuilt as the transaction that
//! they were, and then committed or taken back by the same code as ever: forward only if the editor's part is known
//! to be done, back otherwise, and back if somebody else's change stands in the way of one of them. It can be
//! interrupted at any point, and begun again.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{CWD, OFlags},
    io::{self, Errno},
};

use super::{
    DiskError, DiskErrorKind,
    commit::commit,
    content::Content,
    fs::{Dir, FileId, Fs, Stat},
    journal::{self, Entry, Journal, Record, StepRecord, WorkRecord},
    resolve::resolve,
    take_back::take_back,
    transaction::{Place, State, Step, Transaction, Way, Work, set_content},
};

/// A directory in which nothing was left to be settled.
#[derive(Debug)]
pub(super) struct Settled {
    path: PathBuf,
    /// None: there is no such directory.
    stat: Option<Stat>,
}

impl Settled {
    /// Whether no journal has come there since.
    pub(super) fn is_still(&self, fs: &Fs) -> bool {
        matches!(fs.stat_at(CWD, self.path.as_os_str()), Ok(stat) if stat == self.stat)
    }
}

/// Settles all journals in a directory whose owners are gone. None if journals are left, which may lose their owners.
pub(super) fn recover(fs: &Fs, dir: &Path, own: Option<&str>) -> Option<Settled> {
    let path = resolve(fs, dir).ok()?.path;
    let stat = fs.stat_at(CWD, path.as_os_str()).ok()?;
    let ids = journal::list(fs, &path)
        .inspect_err(|err| {
            tracing::warn!("cannot look for journals in {}: {err}", dir.display());
        })
        .ok()?;
    let mut is_alone = true;
    for id in ids.iter().filter(|&id| Some(&id[..]) != own) {
        is_alone = false;
        if let Err(err) = recover_one(fs, &path, id) {
            tracing::warn!("cannot settle what {id} left unfinished: {err}");
        }
    }
    is_alone.then_some(Settled { path, stat })
}

fn recover_one(fs: &Fs, dir: &Path, id: &str) -> io::Result<()> {
    let dir = journal::open_private_dir(fs, dir)?;
    let Some((journal, records)) = Journal::adopt(fs, dir, id)? else {
        return Ok(());
    };
    let journal = Arc::new(journal);
    let logs = Log::of(records);
    for log in &logs {
        journal.resume(log.number);
    }
    let settled = logs.into_iter().map(|log| settle(&journal, log));
    settled.fold(Ok(()), io::Result::and)
}

/// What a journal tells of one transaction.
#[derive(Default)]
struct Log {
    number: u64,
    dots: Vec<Entry>,
    dirs: Vec<Entry>,
    steps: Vec<StepRecord>,
    seconds: Vec<(usize, Entry)>,
    is_verified: bool,
    is_applied: bool,
    is_back: bool,
}

impl Log {
    /// The transactions that are not done, in the order in which they were begun.
    fn of(records: Vec<Record>) -> Vec<Self> {
        let mut logs: Vec<Self> = Vec::new();
        for record in records {
            let number = record.transaction();
            let idx = logs.iter().position(|it| it.number == number);
            let idx = idx.unwrap_or_else(|| {
                logs.push(Self {
                    number,
                    ..Self::default()
                });
                logs.len() - 1
            });
            let log = &mut logs[idx];
            match record {
                Record::Dot(_, dot) => log.dots.push(dot),
                Record::Dir(_, dir) => log.dirs.push(dir),
                Record::Intent(_, steps) => log.steps = steps,
                Record::Verified(_) => log.is_verified = true,
                Record::Second(_, step_idx, dot) => log.seconds.push((step_idx, dot)),
                Record::Applied(_) => log.is_applied = true,
                Record::Back(_) => log.is_back = true,
                Record::Done(_) => {
                    logs.remove(idx);
                }
            }
        }
        logs
    }
}

fn settle(journal: &Arc<Journal>, log: Log) -> io::Result<()> {
    let mut rebuild = Rebuild {
        transaction: Transaction::numbered(journal, log.number),
        is_missing: false,
    };
    if let Err(err) = rebuild.add_all(&log) {
        // Nothing may be thrown away that is needed to try again.
        rebuild.transaction.forget();
        return Err(err);
    }
    let Rebuild {
        mut transaction,
        is_missing,
    } = rebuild;
    transaction.is_intent_durable = transaction.needs_journal();
    let is_any_applied = transaction
        .steps
        .iter()
        .any(|it| it.state == State::Applied);
    if log.is_applied && !log.is_back {
        transaction.made_dirs.clear();
        transaction.keep_foreign();
        return Ok(());
    }
    // A single change needs no record to be all or none; and it is made only after the editor's part.
    let is_verified = log.is_verified || (is_any_applied && !transaction.needs_journal());
    let first = transaction.steps.first().map(|it| it.target.path());
    let failure = if is_verified && !log.is_back && !is_missing {
        match commit(transaction) {
            Ok(_) => {
                let path = first.unwrap_or_default();
                tracing::warn!("finished an interrupted change of {}", path.display());
                return Ok(());
            }
            Err((failure, _)) => failure,
        }
    } else if is_any_applied {
        let error = DiskError::new(DiskErrorKind::Io, "it was interrupted");
        take_back(transaction, 0, error).0
    } else {
        return Ok(());
    };
    let path = first.unwrap_or_default();
    tracing::warn!(
        "took back an interrupted change of {}: {failure}",
        path.display()
    );
    for path in failure.kept {
        tracing::warn!("kept what somebody saved meanwhile: {}", path.display());
    }
    Ok(())
}

struct Rebuild {
    transaction: Transaction,
    /// A directory is gone, and with it what was to be changed.
    is_missing: bool,
}

impl Rebuild {
    fn add_all(&mut self, log: &Log) -> io::Result<()> {
        for entry in &log.dots {
            if let Some(place) = self.place(entry)? {
                self.transaction.litter.push(place);
            }
        }
        for entry in &log.dirs {
            if let Some(place) = self.place(entry)? {
                self.transaction.made_dirs.push(place);
            }
        }
        for (step_idx, record) in log.steps.iter().enumerate() {
            let second = log.seconds.iter().rev().find(|it| it.0 == step_idx);
            match self.step(record, second.map(|it| &it.1))? {
                Some(step) => self.transaction.steps.push(step),
                None => self.is_missing = true,
            }
        }
        // Backwards: a later change that was made says that those before it were.
        let mut is_later_applied = false;
        for step_idx in (0..self.transaction.steps.len()).rev() {
            let fs = self.transaction.fs.clone();
            let step = &mut self.transaction.steps[step_idx];
            if step.find_out(&fs, is_later_applied)? {
                step.state = State::Applied;
                is_later_applied = true;
            }
        }
        Ok(())
    }

    /// None if the directory is gone, or not the same any more.
    fn place(&mut self, entry: &Entry) -> io::Result<Option<Place>> {
        let path = entry.path();
        let Some((parent, name)) = path.parent().zip(path.file_name()) else {
            return Ok(None);
        };
        let dirs: &mut HashMap<_, Arc<Dir>> = &mut self.transaction.dirs;
        let dir = match dirs.get(parent) {
            Some(dir) => Arc::clone(dir),
            None => match self.transaction.fs.open_dir(parent) {
                Ok(dir) => {
                    let dir = Arc::new(dir);
                    dirs.insert(parent.to_path_buf(), Arc::clone(&dir));
                    dir
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                Err(err) => return Err(err),
            },
        };
        let name = name.to_owned();
        Ok(Some(Place { dir, name }))
    }

    fn step(&mut self, record: &StepRecord, second: Option<&Entry>) -> io::Result<Option<Step>> {
        let places = self.place(&record.target)?.zip(self.place(&record.dot)?);
        let Some((target, mut dot)) = places else {
            return Ok(None);
        };
        let fs = self.transaction.fs.clone();
        let id = |ino| FileId {
            dev: target.dir.stat.id.dev,
            ino,
        };
        let work = match &record.work {
            WorkRecord::Create { ours, text } => Work::Create {
                ours: id(*ours),
                text: text.clone().into(),
            },
            WorkRecord::Replace {
                ours,
                expected,
                text,
            } => {
                let second = match second {
                    Some(second) => self.place(second)?,
                    None => None,
                };
                let way = match second {
                    Some(second) if dot.id(&fs)?.is_none() => {
                        Way::Rename(std::mem::replace(&mut dot, second))
                    }
                    _ => Way::Exchange,
                };
                Work::Replace {
                    ours: id(*ours),
                    expected: expected.clone().into(),
                    text: text.clone().into(),
                    original: self.original(&target)?,
                    file: None,
                    displaced: None,
                    way,
                }
            }
            WorkRecord::InPlace {
                expected,
                text,
                new,
            } => {
                let Some(new) = self.place(new)? else {
                    return Ok(None);
                };
                Work::InPlace {
                    expected: read(&fs, &dot)?.unwrap_or_else(|| expected.clone().into()),
                    text: read(&fs, &new)?.unwrap_or_else(|| text.clone().into()),
                    new,
                    file: None,
                }
            }
            WorkRecord::Delete { expected } => Work::Delete {
                expected: expected.clone().into(),
            },
            WorkRecord::Rename {
                from,
                moved,
                expected,
            } => {
                let moved = id(*moved);
                let Some(from) = self.place(from)? else {
                    return Ok(None);
                };
                Work::Rename {
                    from,
                    moved,
                    expected: expected.clone().into(),
                }
            }
        };
        let state = State::Staged;
        Ok(Some(Step {
            target,
            dot,
            work,
            state,
        }))
    }

    /// The target as it is now stands for what it was when mode and owner were copied.
    fn original(&self, target: &Place) -> io::Result<Stat> {
        let stat = self
            .transaction
            .fs
            .stat_at(&target.dir.fd, &target.name)?
            .unwrap_or(target.dir.stat);
        Ok(Stat {
            n_links: 1,
            // They may have changed since: they are to be copied again.
            changed: (i64::MIN, 0),
            ..stat
        })
    }
}

impl Transaction {
    /// Leaves everything as it is, the journal too.
    fn forget(&mut self) {
        self.litter.clear();
        self.made_dirs.clear();
        self.is_forgotten = true;
    }

    /// A displaced file that is not what was displaced holds what somebody saved into it since.
    fn keep_foreign(&mut self) {
        for step in &self.steps {
            let (Work::Replace { expected, .. } | Work::Delete { expected }) = &step.work else {
                continue;
            };
            if step.state == State::Applied
                && !matches!(step.dot.holds(&self.fs, None, expected), Ok(true))
                && !matches!(step.dot.id(&self.fs), Ok(None))
            {
                let path = step.dot.path();
                tracing::warn!("kept what somebody saved meanwhile: {}", path.display());
                self.litter.retain(|it| *it != step.dot);
            }
        }
    }
}

impl Step {
    /// Whether the change was made, by what is on disk; half of one is undone.
    fn find_out(&mut self, fs: &Fs, is_later_applied: bool) -> io::Result<bool> {
        let target = self.target.id(fs)?;
        let dot = self.dot.id(fs)?;
        match &mut self.work {
            Work::Create { ours, .. } => {
                if target == Some(*ours) && dot == target {
                    fs.unlink(&self.dot.dir, &self.dot.name)?;
                }
                Ok(target == Some(*ours) || (dot.is_none() && is_later_applied))
            }
            // Second name or not, the staged file is where it was until it takes its place.
            Work::Replace { ours, .. } => Ok(dot.is_some_and(|it| it != *ours)),
            Work::Delete { .. } => {
                if dot.is_some() && dot == target {
                    fs.unlink(&self.dot.dir, &self.dot.name)?;
                    return Ok(false);
                }
                Ok(dot.is_some())
            }
            Work::Rename { from, moved, .. } => {
                let from = from.id(fs)?;
                if from == Some(*moved) {
                    if target == from {
                        fs.unlink(&self.target.dir, &self.target.name)?;
                    }
                    return Ok(false);
                }
                // Who has replaced the file since has done so where it was moved to.
                let is_there = target == Some(*moved) || (from.is_none() && target.is_some());
                Ok(is_there || is_later_applied)
            }
            Work::InPlace {
                expected,
                text,
                file,
                ..
            } => {
                let Some((opened, stat)) = self.target.open(fs, OFlags::RDWR)? else {
                    return Ok(is_later_applied);
                };
                let now = fs.read(&opened, stat.size, u64::MAX)?;
                let is_applied = if Content::from(now.clone()).is_same_as(text) {
                    true
                } else if let (Some(old), Some(new)) = (expected.bytes(), text.bytes())
                    && now != old
                    && is_torn(&now, old, new)
                {
                    set_content(fs, &opened, expected)?;
                    false
                } else {
                    is_later_applied && now != expected.bytes().unwrap_or_default()
                };
                *file = Some(opened);
                Ok(is_applied)
            }
        }
    }
}

/// Whether a content is what an interrupted overwriting of the old by the new one leaves.
fn is_torn(now: &[u8], old: &[u8], new: &[u8]) -> bool {
    let n_written = now.iter().zip(new).take_while(|(a, b)| a == b).count();
    now[n_written..] == *old.get(n_written..).unwrap_or_default()
}

fn read(fs: &Fs, place: &Place) -> io::Result<Option<Content>> {
    match place.open(fs, OFlags::RDONLY)? {
        Some((file, stat)) => Ok(Some(fs.read(file, stat.size, u64::MAX)?.into())),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_an_overwriting_is_told_from_a_foreign_text() {
        for (now, expected) in [
            ("old text", true),
            ("new text", true),
            ("nld text", true),
            ("newer, longer", false),
            ("ol", false),
            ("", false),
            ("old text!", false),
        ] {
            assert_eq!(
                is_torn(now.as_bytes(), b"old text", b"new"),
                expected,
                "{now}"
            );
        }
        assert!(is_torn(b"longer b", b"old", b"longer by far"));
    }
}
