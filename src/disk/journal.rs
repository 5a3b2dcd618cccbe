//! What a process is about to do to files, for whoever comes after it.
//!
//! Invariant: a record stands in the journal before what it tells of is done. A journal belongs to the process that
//! holds the lock of its file, and that is its whole life; the system lets go of the lock even at `kill -9`. So a
//! journal whose lock is free has no owner any more, and only then may others act on it.
//!
//! It lives in the user's state directory, not beside the files: there every later process of the user finds it,
//! whatever it works on, also after a restart of the computer; and nothing of it shows up in a workspace. Where no
//! state directory can be made, a private directory below the temporary one serves. Both are looked through.

use std::{
    collections::BTreeSet,
    env,
    ffi::{OsStr, OsString},
    hash::{BuildHasher, RandomState},
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::{
    fs::{Mode, OFlags},
    io::{self, Errno},
    process::geteuid,
};
use serde::{Deserialize, Serialize};

use super::{
    content::Print,
    fs::{Dir, Fs},
    resolve::resolve,
};

/// How the files of journals end; with the version of their format, so that each reads only what it understands.
const SUFFIX: &str = ".journal1";

/// From this length on it is emptied when nothing is under way; each time would cost more than a line.
const N_BYTES_KEPT: u64 = 64 * 1024;

/// A line of a journal, about the transaction of that number.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Record {
    /// There may be a file of ours.
    Dot(u64, Entry),
    /// There may be a directory of ours.
    Dir(u64, Entry),
    /// All that is needed to make the changes, or to take them back.
    Intent(u64, Vec<StepRecord>),
    /// The editor has its part of the changes: from here on they are to be made.
    Verified(u64),
    /// Where there is no exchange: the second name of what a step will rename over.
    Second(u64, usize, Entry),
    /// All changes are made, and files of ours go.
    Applied(u64),
    /// One could not be made: from here on they are to be taken back.
    Back(u64),
    /// Nothing is left to be done.
    Done(u64),
}

impl Record {
    pub(super) fn transaction(&self) -> u64 {
        match self {
            Self::Dot(number, _)
            | Self::Dir(number, _)
            | Self::Intent(number, _)
            | Self::Verified(number)
            | Self::Second(number, ..)
            | Self::Applied(number)
            | Self::Back(number)
            | Self::Done(number) => *number,
        }
    }
}

/// The path of a file; its bytes, each as one character, since it need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Entry(String);

impl From<PathBuf> for Entry {
    fn from(path: PathBuf) -> Self {
        let bytes = path.as_os_str().as_bytes();
        Self(bytes.iter().map(|&byte| char::from(byte)).collect())
    }
}

impl Entry {
    pub(super) fn path(&self) -> PathBuf {
        let bytes = self.0.chars().map(|it| u8::try_from(it).unwrap_or(b'?'));
        PathBuf::from(OsString::from_vec(bytes.collect()))
    }
}

/// A change, as it has to be known after a crash.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StepRecord {
    pub(super) target: Entry,
    pub(super) dot: Entry,
    pub(super) work: WorkRecord,
}

/// What `Work` is in memory. Of files, the inodes: a restart may number the devices anew.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum WorkRecord {
    Create {
        ours: u64,
        text: Print,
    },
    Replace {
        ours: u64,
        expected: Print,
        text: Print,
    },
    InPlace {
        expected: Print,
        text: Print,
        new: Entry,
    },
    Delete {
        expected: Print,
    },
    Rename {
        from: Entry,
        moved: u64,
        expected: Print,
    },
}

/// The journal of a process, held open and locked.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) fs: Fs,
    /// 12 hex digits, as in the names of all files of ours beside targets.
    pub(super) id: String,
    dir: Dir,
    file: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    n_bytes: u64,
    n_transactions: u64,
    n_dots: u64,
    open: BTreeSet<u64>,
    /// Ended, but the end could not be recorded.
    unrecorded: Vec<u64>,
}

impl Journal {
    /// Makes the journal of this process in the first of the directories that admits it.
    pub(super) fn make(fs: &Fs, dirs: &[PathBuf]) -> io::Result<Self> {
        let mut last = Errno::NOENT;
        for dir in dirs {
            match private_dir(fs, dir).and_then(|dir| Self::make_in(fs, dir)) {
                Ok(journal) => return Ok(journal),
                Err(err) => {
                    tracing::info!("no journal in {}: {err}", dir.display());
                    last = err;
                }
            }
        }
        Err(last)
    }

    fn make_in(fs: &Fs, dir: Dir) -> io::Result<Self> {
        loop {
            let id = new_id();
            let name = file_name(&id);
            let file = fs.create(&dir, &name, Mode::RUSR | Mode::WUSR)?;
            // Who looks for journals without an owner may have been faster: then it is gone.
            fs.lock(&file).inspect_err(|_| {
                let _ = fs.unlink(&dir, &name);
            })?;
            if fs.stat(&file)?.n_links > 0 {
                return Ok(Self {
                    fs: fs.clone(),
                    id,
                    dir,
                    file,
                    state: Mutex::default(),
                });
            }
        }
    }

    /// Takes over a journal whose owner is gone; none if it is not, or somebody else has been faster.
    pub(super) fn adopt(fs: &Fs, dir: Dir, id: &str) -> io::Result<Option<(Self, Vec<Record>)>> {
        let file = match fs.open(&dir.fd, &file_name(id), OFlags::RDWR) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(err) => return Err(err),
        };
        if !fs.try_lock(&file)? || fs.stat(&file)?.n_links == 0 {
            return Ok(None);
        }
        let bytes = fs.read(&file, fs.stat(&file)?.size, u64::MAX)?;
        let (records, n_bytes) = parse(&bytes);
        let state = State {
            n_bytes: n_bytes as u64,
            n_transactions: records
                .iter()
                .map(|it| it.transaction() + 1)
                .max()
                .unwrap_or(0),
            // Beyond all that the owner may have used.
            n_dots: 1 << 32,
            ..State::default()
        };
        let journal = Self {
            fs: fs.clone(),
            id: id.to_string(),
            dir,
            file,
            state: Mutex::new(state),
        };
        Ok(Some((journal, records)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a new transaction.
    pub(super) fn begin(&self) -> u64 {
        let mut state = self.state();
        let number = state.n_transactions;
        state.n_transactions += 1;
        state.open.insert(number);
        number
    }

    /// Takes up a transaction of the former owner.
    pub(super) fn resume(&self, number: u64) {
        self.state().open.insert(number);
    }

    /// A name that no file has.
    pub(super) fn new_dot(&self) -> OsString {
        let mut state = self.state();
        let n = state.n_dots;
        state.n_dots += 1;
        format!(".abreast.{}.{n}", self.id).into()
    }

    pub(super) fn append(&self, records: &[Record]) -> io::Result<()> {
        let state = &mut *self.state();
        while let Some(&number) = state.unrecorded.last() {
            self.end(state, number)?;
            state.unrecorded.pop();
        }
        self.append_to(state, records)
    }

    fn append_to(&self, state: &mut State, records: &[Record]) -> io::Result<()> {
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, record).map_err(|_| Errno::INVAL)?;
            lines.push(b'\n');
        }
        self.fs.write_at(&self.file, &lines, state.n_bytes)?;
        state.n_bytes += lines.len() as u64;
        Ok(())
    }

    /// Makes what was appended durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.fs.sync(&self.file)
    }

    /// Leaves a file of ours that cannot be removed now to whoever takes the journal up.
    pub(super) fn leave(&self, dot: PathBuf) {
        let number = self.begin();
        if let Err(err) = self.append(&[Record::Dot(number, dot.into())]) {
            tracing::warn!("the journal cannot be written: {err}");
        }
    }

    /// Forgets a transaction; without it the journal would lead to wrong acts, so nothing goes on before it succeeds.
    pub(super) fn done(&self, number: u64) {
        let state = &mut *self.state();
        state.open.remove(&number);
        if let Err(err) = self.end(state, number) {
            tracing::warn!("the journal cannot be written: {err}");
            state.unrecorded.push(number);
        }
    }

    fn end(&self, state: &mut State, number: u64) -> io::Result<()> {
        let is_idle = state.open.is_empty();
        if !is_idle || state.n_bytes < N_BYTES_KEPT {
            let ended = self.append_to(state, &[Record::Done(number)]);
            // No room, as it may be: then less is needed.
            if ended.is_ok() || !is_idle {
                return ended;
            }
        }
        self.fs.truncate(&self.file, 0)?;
        state.n_bytes = 0;
        state.unrecorded.clear();
        Ok(())
    }

    /// Removes the file, if nothing is left to be done.
    pub(super) fn remove(&self) {
        let state = self.state();
        if state.open.is_empty() && state.unrecorded.is_empty() {
            let _ = self.fs.unlink(&self.dir, &file_name(&self.id));
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The directories in which journals of this user may be, the best first.
pub(super) fn default_dirs() -> Vec<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|it| it.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    let temporary = env::temp_dir().join(format!("abreast-{}", geteuid().as_raw()));
    state
        .map(|it| it.join("abreast"))
        .into_iter()
        .chain([temporary])
        .collect()
}

/// The journals in a directory, by their ids; none if there is no such directory, or it is not private.
pub(super) fn list(fs: &Fs, path: &Path) -> io::Result<Vec<String>> {
    let dir = match open_private_dir(fs, path) {
        Ok(dir) => dir,
        Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let id_of = |name: OsString| Some(name.to_str()?.strip_suffix(SUFFIX)?.to_string());
    Ok(fs.list(&dir)?.into_iter().filter_map(id_of).collect())
}

/// Opens a directory in which nobody else can put journals.
pub(super) fn open_private_dir(fs: &Fs, path: &Path) -> io::Result<Dir> {
    let dir = fs.open_dir(&resolve(fs, path).map_err(|_| Errno::NOENT)?.path)?;
    let is_ours = dir.stat.uid == geteuid().as_raw();
    if is_ours && !dir.stat.mode.intersects(Mode::WGRP | Mode::WOTH) {
        Ok(dir)
    } else {
        Err(Errno::ACCESS)
    }
}

fn private_dir(fs: &Fs, path: &Path) -> io::Result<Dir> {
    match open_private_dir(fs, path) {
        Err(Errno::NOENT) => {}
        result => return result,
    }
    let path = resolve(fs, path).map_err(|_| Errno::NOENT)?.path;
    let (parent, name) = path.parent().zip(path.file_name()).ok_or(Errno::NOENT)?;
    make_private_dir(fs, parent, name)?;
    open_private_dir(fs, &path)
}

fn make_private_dir(fs: &Fs, parent: &Path, name: &OsStr) -> io::Result<()> {
    let dir = match fs.open_dir(parent) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => {
            let (above, name) = parent
                .parent()
                .zip(parent.file_name())
                .ok_or(Errno::NOENT)?;
            make_private_dir(fs, above, name)?;
            fs.open_dir(parent)?
        }
        Err(err) => return Err(err),
    };
    match fs.make_dir(&dir, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(err) => Err(err),
    }
}

/// The whole lines, and their length: what a half line tells of was not begun.
fn parse(bytes: &[u8]) -> (Vec<Record>, usize) {
    let mut records = Vec::new();
    let mut n_bytes = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let Some(record) = line.strip_suffix(b"\n").map(serde_json::from_slice) else {
            break;
        };
        match record {
            Ok(record) => records.push(record),
            Err(err) => {
                tracing::error!("a journal is damaged: {err}");
                break;
            }
        }
        n_bytes += line.len();
    }
    (records, n_bytes)
}

fn file_name(id: &str) -> OsString {
    format!("{id}{SUFFIX}").into()
}

/// Unique and not to be guessed: 12 hex digits of randomness.
fn new_id() -> String {
    let random = RandomState::new().hash_one(0);
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

    #[test]
    fn half_a_line_at_the_end_is_no_record() {
        let mut bytes = Vec::new();
        for record in [Record::Verified(7), Record::Done(7)] {
            bytes.extend(serde_json::to_vec(&record).expect("JSON"));
            bytes.push(b'\n');
        }
        let numbers = |bytes| -> Vec<u64> {
            let (records, _) = parse(bytes);
            records.iter().map(Record::transaction).collect()
        };
        assert_eq!(numbers(&bytes), [7, 7]);
        assert_eq!(numbers(&bytes[..bytes.len() - 1]), [7]);
        assert_eq!(numbers(b""), [0; 0]);
    }

    #[test]
    fn every_path_survives_the_journal() {
        for path in [&b"/a/b"[..], "/ä/€".as_bytes(), b"/\xFF\n\""] {
            let path = PathBuf::from(OsStr::from_bytes(path));
            let json = serde_json::to_vec(&Entry::from(path.clone())).expect("JSON");
            let entry: Entry = serde_json::from_slice(&json).expect("it was written so");
            assert_eq!(entry.path(), path);
        }
    }
}
