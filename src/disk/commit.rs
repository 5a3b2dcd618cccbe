//! Making staged changes.
//!
//! Invariant: whatever a change displaces is looked at *after* it was displaced, and comes back unless it is what the
//! change expects.
//!
//! Not closed: the moment between comparing and writing of a file that must be changed in place, and of any file
//! where the system cannot exchange. A reader who comes between an exchange and its taking back sees our text, and
//! who opens our file then and writes into it later writes where nobody looks.

use std::{os::fd::OwnedFd, sync::Arc};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
};

use super::{
    Committed, DiskError, DiskFailure,
    content::Content,
    fs::{Dir, Fs, Stat, is_unsupported},
    journal::Record,
    late_saves::{Watched, watch},
    metadata::copy_metadata,
    stage::in_parallel,
    take_back::take_back,
    transaction::{Place, State, Step, Transaction, Way, Work, insist, set_content, stale},
};

/// Makes the changes that are not made yet; what they displace is returned, to be watched.
pub(super) fn commit(
    mut transaction: Transaction,
) -> Result<(Committed, Vec<Watched>), (DiskFailure, Vec<Watched>)> {
    if let Err((change, error)) = make(&mut transaction) {
        return Err(take_back(transaction, change, error));
    }
    transaction.made_dirs.clear();
    let watched = watch(&mut transaction);
    let residue = transaction.clean();
    // That all is applied is durable; what remains is harmless.
    transaction.is_intent_durable = false;
    let in_place = transaction.in_place();
    Ok((Committed { in_place, residue }, watched))
}

fn make(transaction: &mut Transaction) -> Result<(), (usize, DiskError)> {
    require_same_dirs(transaction)?;
    let verified = Record::Verified(transaction.number);
    if transaction.needs_journal() {
        record(transaction, &[verified])?;
    } else {
        record(transaction, &[transaction.intent(), verified])?;
    }
    for step_idx in 0..transaction.steps.len() {
        if transaction.steps[step_idx].state == State::Staged {
            require_not_recalled(transaction, step_idx)?;
            apply(transaction, step_idx).map_err(|error| (step_idx, error))?;
        }
    }
    if transaction.needs_journal() {
        record(transaction, &[Record::Applied(transaction.number)])?;
    }
    sync(transaction)?;
    // The syncs took time in which somebody who had opened a file before may have written into it.
    for (step_idx, step) in transaction.steps.iter().enumerate() {
        require_displaced(&transaction.fs, step).map_err(|error| (step_idx, error))?;
    }
    // From here on the changes are made: it is too late to call them back.
    require_not_recalled(transaction, 0)
}

fn require_not_recalled(
    transaction: &Transaction,
    step_idx: usize,
) -> Result<(), (usize, DiskError)> {
    if transaction.recall.is_called() {
        return Err((step_idx, stale("the rest of the call is gone")));
    }
    Ok(())
}

fn record(transaction: &Transaction, records: &[Record]) -> Result<(), (usize, DiskError)> {
    transaction.journal.append(records).map_err(journal_failed)
}

fn journal_failed(err: Errno) -> (usize, DiskError) {
    (
        0,
        DiskError::from_errno(err, "write the journal of changes"),
    )
}

/// The directories are held open; somebody may have moved them away under our hands.
fn require_same_dirs(transaction: &Transaction) -> Result<(), (usize, DiskError)> {
    for dir in transaction.dirs.values() {
        let is_same = match transaction.fs.stat_at(CWD, dir.path.as_os_str()) {
            Ok(now) => now.is_some_and(|it| it.id == dir.stat.id),
            Err(Errno::NOTDIR | Errno::LOOP) => false,
            Err(err) => {
                let error = DiskError::from_errno(err, "look at the directory");
                return Err((first_step_in(transaction, dir), error));
            }
        };
        if !is_same {
            let error = stale("the directory of the file was moved or removed");
            return Err((first_step_in(transaction, dir), error));
        }
    }
    Ok(())
}

fn first_step_in(transaction: &Transaction, dir: &Dir) -> usize {
    let is_in = |step: &Step| {
        let from = match &step.work {
            Work::Rename { from, .. } => Some(from),
            _ => None,
        };
        [Some(&step.target), from]
            .into_iter()
            .flatten()
            .any(|place| *place.dir == *dir)
    };
    transaction.steps.iter().position(is_in).unwrap_or(0)
}

/// Makes the changes durable, and that they are made, before anything goes that is needed to take them back.
fn sync(transaction: &Transaction) -> Result<(), (usize, DiskError)> {
    let dirs = transaction.dirs.values().map(Some);
    let journal = transaction.needs_journal().then_some(None);
    let things: Vec<_> = dirs.chain(journal).collect();
    in_parallel(&things, |dir| match dir {
        Some(dir) => transaction.fs.sync_dir(dir).map_err(|err| {
            let error = DiskError::from_errno(err, "sync the directory");
            (first_step_in(transaction, dir), error)
        }),
        None => transaction.journal.sync().map_err(journal_failed),
    })
}

fn apply(transaction: &mut Transaction, step_idx: usize) -> Result<(), DiskError> {
    let fs = transaction.fs.clone();
    let step = &mut transaction.steps[step_idx];
    match &step.work {
        Work::Create { .. } => {
            publish(&fs, &step.dot, &step.target)?;
            step.state = State::Applied;
            Ok(())
        }
        Work::Replace { .. } => replace(transaction, step_idx),
        Work::InPlace { .. } => overwrite(&fs, step),
        Work::Delete { expected } => {
            require_content(&fs, &step.target, expected)?;
            fs.rename_new(step.target.as_pair(), step.dot.as_pair())
                .map_err(|err| gone_or(err, "remove the file"))?;
            step.state = State::Applied;
            require_displaced(&fs, step)
        }
        Work::Rename { .. } => rename(&fs, step),
    }
}

/// Moves a file of ours to where nothing may be.
fn publish(fs: &Fs, dot: &Place, target: &Place) -> Result<(), DiskError> {
    match fs.rename_new(dot.as_pair(), target.as_pair()) {
        Ok(()) => Ok(()),
        Err(Errno::EXIST) => Err(occupied(fs, target)),
        Err(err) => Err(DiskError::from_errno(err, "create the file")),
    }
}

fn occupied(fs: &Fs, target: &Place) -> DiskError {
    let stat = fs.stat_at(&target.dir.fd, &target.name).ok().flatten();
    stat.and_then(|stat| stat.require_file().err())
        .unwrap_or_else(DiskError::exists)
}

fn require_content(fs: &Fs, place: &Place, expected: &Content) -> Result<(), DiskError> {
    match place.holds(fs, None, expected) {
        Ok(true) => Ok(()),
        Ok(false) => match fs.stat_at(&place.dir.fd, &place.name) {
            Ok(None) => Err(gone()),
            _ => Err(changed()),
        },
        Err(err) => Err(DiskError::from_errno(err, "read the file")),
    }
}

/// Whether what a step displaced, and is about to be forgotten, is still what was expected. What has not been touched
/// since it was compared is not read again: who looks for late saves will do that.
fn require_displaced(fs: &Fs, step: &Step) -> Result<(), DiskError> {
    match &step.work {
        Work::Replace {
            expected,
            way: Way::RenameCopied(file),
            ..
        } => match fs
            .stat(file)
            .and_then(|stat| expected.is_in(fs, file, stat.size))
        {
            Ok(true) => Ok(()),
            Ok(false) => Err(changed()),
            Err(err) => Err(DiskError::from_errno(err, "read the file")),
        },
        Work::Replace {
            displaced: Some(displaced),
            ..
        } if matches!(step.dot.stat(fs), Ok(Some(now)) if now == *displaced) => Ok(()),
        Work::Replace { expected, .. } | Work::Delete { expected } => {
            require_content(fs, &step.dot, expected)
        }
        Work::Create { .. } | Work::InPlace { .. } | Work::Rename { .. } => Ok(()),
    }
}

fn replace(transaction: &mut Transaction, step_idx: usize) -> Result<(), DiskError> {
    let fs = transaction.fs.clone();
    let step = &mut transaction.steps[step_idx];
    let Work::Replace {
        ours,
        expected,
        text,
        original,
        file: held,
        displaced,
        ..
    } = &mut step.work
    else {
        return Ok(());
    };
    let (target, dot) = (&step.target, &step.dot);
    let read_failed = |err| DiskError::from_errno(err, "read the file");
    let now = target.stat(&fs).map_err(read_failed)?;
    let opened = match held.take() {
        // What is held open is what is there; else it has been replaced since it was staged, or changed.
        Some(file) if now == Some(*original) => Some((file, *original)),
        _ => target.open(&fs, OFlags::RDONLY).map_err(read_failed)?,
    };
    let Some((file, stat)) = opened else {
        return Err(gone());
    };
    if stat.n_links > 1 && original.n_links == 1 {
        return Err(stale("the file has got another name"));
    }
    if stat.changed != original.changed {
        refresh_metadata(&fs, (&file, &stat), dot)?;
    }
    // Last, so that only a save within microseconds must be put back. That nothing has touched the file since it was
    // staged is good enough here: what counts is the comparison of what was displaced.
    if stat != *original && !expected.is_in(&fs, &file, stat.size).map_err(read_failed)? {
        return Err(changed());
    }
    let exchange = || fs.exchange(&target.dir, &dot.name, &target.name);
    match exchange() {
        Ok(()) => {}
        Err(err) if is_unsupported(err) => {
            return replace_without_exchange(transaction, step_idx, file, &stat);
        }
        Err(err) => return Err(gone_or(err, "replace the file")),
    }
    let now = fs.stat_at(&dot.dir.fd, &dot.name);
    let is_expected = match now {
        Ok(Some(now)) if now.id == stat.id => expected.is_in(&fs, &file, now.size),
        Ok(_) => Ok(false),
        Err(err) => Err(err),
    };
    step.state = State::Applied;
    let error = match is_expected {
        Ok(true) => {
            *displaced = now.ok().flatten();
            *held = Some(file);
            return Ok(());
        }
        Ok(false) => changed(),
        Err(err) => read_failed(err),
    };
    // At once: until then, whoever reads the file does not see what was saved just before.
    if exchange().is_ok() {
        if dot.holds(&fs, Some(*ours), text).unwrap_or(false) {
            step.state = State::TakenBack;
        } else {
            // Not ours: saved in between. If this fails, it is found out when the change is taken back.
            let _ = exchange();
        }
    }
    Err(error)
}

/// Copies mode and owner again: they, or the times, have changed since they were copied.
fn refresh_metadata(
    fs: &Fs,
    (file, stat): (&OwnedFd, &Stat),
    dot: &Place,
) -> Result<(), DiskError> {
    let refreshed = dot.open(fs, OFlags::RDWR).and_then(|copy| {
        let Some((copy, has)) = copy else {
            return Ok(false);
        };
        let is_same = copy_metadata(fs, (file, stat), (&copy, &has))?;
        fs.sync(&copy)?;
        Ok(is_same)
    });
    match refreshed {
        Ok(true) => Ok(()),
        Ok(false) => Err(stale("the owner of the file has changed")),
        Err(err) => Err(DiskError::from_errno(
            err,
            "copy mode and owner of the file",
        )),
    }
}

/// The old file gets another name, or is copied, and the comparison is repeated just before the rename.
fn replace_without_exchange(
    transaction: &mut Transaction,
    step_idx: usize,
    file: OwnedFd,
    stat: &Stat,
) -> Result<(), DiskError> {
    let fs = transaction.fs.clone();
    let failed = |err| gone_or(err, "replace the file");
    let dir = Arc::clone(&transaction.steps[step_idx].target.dir);
    let old = transaction.new_dot(&dir).map_err(failed)?;
    let second = Record::Second(transaction.number, step_idx, old.path().into());
    transaction.journal.append(&[second]).map_err(failed)?;
    let step = &mut transaction.steps[step_idx];
    let Work::Replace { expected, way, .. } = &mut step.work else {
        return Ok(());
    };
    let target = &step.target;
    let new_way = match fs.link(target.as_pair(), old.as_pair()) {
        Ok(()) => Way::Rename(step.dot.clone()),
        Err(Errno::NOENT) => return Err(gone()),
        Err(_) => {
            copy(&fs, (&file, stat), expected, &old)?;
            Way::RenameCopied(file)
        }
    };
    if !target.holds(&fs, Some(stat.id), expected).map_err(failed)? {
        return Err(changed());
    }
    fs.rename_over(&target.dir, &step.dot.name, &target.name)
        .map_err(failed)?;
    *way = new_way;
    step.dot = old;
    step.state = State::Applied;
    require_displaced(&fs, step)
}

fn copy(
    fs: &Fs,
    (file, stat): (&OwnedFd, &Stat),
    content: &Content,
    place: &Place,
) -> Result<(), DiskError> {
    let (dir, name) = place.as_pair();
    let copied = fs
        .create(dir, name, Mode::RUSR | Mode::WUSR)
        .and_then(|copy| {
            let content = match content.bytes() {
                Some(_) => content.clone(),
                None => Content::from(fs.read(file, stat.size, u64::MAX)?),
            };
            set_content(fs, &copy, &content)?;
            let has = fs.stat(&copy)?;
            copy_metadata(fs, (file, stat), (&copy, &has))
        });
    match copied {
        Ok(true) => Ok(()),
        Ok(false) => Err(stale("the owner of the file has changed")),
        Err(err) => Err(DiskError::from_errno(err, "write beside the file")),
    }
}

fn overwrite(fs: &Fs, step: &mut Step) -> Result<(), DiskError> {
    let Work::InPlace {
        expected,
        text,
        file,
        ..
    } = &mut step.work
    else {
        return Ok(());
    };
    let failed = |err| gone_or(err, "write into the file");
    let Some((opened, stat)) = step.target.open(fs, OFlags::RDWR).map_err(failed)? else {
        return Err(gone());
    };
    if !expected.is_in(fs, &opened, stat.size).map_err(failed)? {
        return Err(changed());
    }
    if let Err(err) = set_content(fs, &opened, text) {
        // Not half of it; if even that fails, the step counts as applied, and its old content is kept.
        let restored = insist(|| set_content(fs, &opened, expected));
        if restored.is_err() {
            step.state = State::Applied;
        }
        return Err(failed(err));
    }
    *file = Some(opened);
    step.state = State::Applied;
    if step.target.holds(fs, Some(stat.id), text).map_err(failed)? {
        Ok(())
    } else {
        Err(changed())
    }
}

fn rename(fs: &Fs, step: &mut Step) -> Result<(), DiskError> {
    let Work::Rename { from, expected, .. } = &step.work else {
        return Ok(());
    };
    require_content(fs, from, expected)?;
    match fs.rename_new(from.as_pair(), step.target.as_pair()) {
        Ok(()) => step.state = State::Applied,
        Err(Errno::EXIST) => return Err(occupied(fs, &step.target)),
        Err(err) => return Err(gone_or(err, "rename the file")),
    }
    require_content(fs, &step.target, expected)
}

fn gone() -> DiskError {
    stale("the file does not exist any more")
}

fn changed() -> DiskError {
    stale("the file has changed")
}

fn gone_or(err: Errno, what: &str) -> DiskError {
    match err {
        Errno::NOENT => gone(),
        err => DiskError::from_errno(err, what),
    }
}
