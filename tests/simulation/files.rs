//! The files of a run, and a model disk.
//!
//! Invariant: a commit changes a file only if it holds what the change expects, and of several changes all or none.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    disk::{DiskChange, DiskError, DiskErrorKind, DiskFailure, Resolved},
    path::FileKey,
    text::Text,
};

use super::action::Luck;

/// Three files and a document that is none.
pub(super) const N_FILES: usize = 4;
/// The document that only an editor has.
pub(super) const UNTITLED: u8 = 3;

const PATHS: [&str; N_FILES] = ["/w/a.txt", "/w/b.txt", "/w/c.txt", "untitled:1"];
const URIS: [&str; N_FILES] = [
    "file:///w/a.txt",
    "file:///w/b.txt",
    "file:///w/c.txt",
    "untitled:1",
];

pub(super) fn path(file: u8) -> &'static str {
    PATHS[usize::from(file)]
}

pub(super) fn uri(file: u8) -> &'static str {
    URIS[usize::from(file)]
}

pub(super) fn of_uri(uri: &str) -> u8 {
    let file = URIS
        .iter()
        .position(|it| *it == uri)
        .unwrap_or_else(|| panic!("{uri} is no file of the run"));
    u8::try_from(file).expect("few files")
}

pub(super) fn of_path(path: &Path) -> u8 {
    let file = PATHS.iter().position(|it| Path::new(it) == path);
    let file = file.unwrap_or_else(|| panic!("{} is no file of the run", path.display()));
    u8::try_from(file).expect("few files")
}

pub(super) fn key(file: u8) -> FileKey {
    if file == UNTITLED {
        FileKey::Uri(uri(file).to_string())
    } else {
        FileKey::Path(PathBuf::from(path(file)))
    }
}

/// The files on disk, as bytes that are text.
#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) files: BTreeMap<u8, String>,
}

pub(super) fn raw(text: &Text) -> String {
    text.raw(0..text.len_bytes())
}

impl Disk {
    pub(super) fn resolve(&self, path: &Path) -> Resolved {
        Resolved {
            path: path.to_path_buf(),
            // The roots are looked up, too.
            exists: PATHS.iter().all(|it| Path::new(it) != path)
                || self.files.contains_key(&of_path(path)),
            is_link: false,
        }
    }

    /// Whether the changes can be made.
    pub(super) fn check(&self, changes: &[DiskChange]) -> Result<(), DiskFailure> {
        let mut after = self.files.clone();
        for (change, it) in changes.iter().enumerate() {
            make(&mut after, it).map_err(|kind| failure(change, kind))?;
        }
        Ok(())
    }

    pub(super) fn commit(&mut self, changes: &[DiskChange], luck: Luck) -> Result<(), DiskFailure> {
        self.check(changes)?;
        let (Luck::Bad(n) | Luck::Worse(n)) = luck else {
            for change in changes {
                make(&mut self.files, change).expect("it was checked");
            }
            return Ok(());
        };
        let n = usize::from(n) % changes.len();
        let mut err = failure(n, DiskErrorKind::Io);
        if matches!(luck, Luck::Worse(_)) && n > 0 {
            // The one before was made, and somebody changed it again before it could be taken back.
            let (DiskChange::Create { path, .. } | DiskChange::Replace { path, .. }) =
                &changes[n - 1]
            else {
                return Err(err);
            };
            let file = of_path(path);
            if changes[..n - 1].iter().any(|it| touches(it, file)) {
                return Err(err);
            }
            make(&mut self.files, &changes[n - 1]).ok();
            let text = self.files.get(&file).cloned().unwrap_or_default();
            self.files.insert(file, format!("{text}somebody\n"));
            err.rolled_back = false;
            err.unrestored = vec![n - 1];
        }
        Err(err)
    }
}

fn touches(change: &DiskChange, file: u8) -> bool {
    files_of(change).contains(&file)
}

/// The files that a change is about.
pub(super) fn files_of(change: &DiskChange) -> Vec<u8> {
    match change {
        DiskChange::Create { path, .. }
        | DiskChange::Replace { path, .. }
        | DiskChange::Delete { path, .. } => {
            vec![of_path(path)]
        }
        DiskChange::Rename { from, to, .. } => vec![of_path(from), of_path(to)],
    }
}

fn failure(change: usize, kind: DiskErrorKind) -> DiskFailure {
    let error = DiskError {
        kind,
        detail: format!("{kind:?}").to_lowercase(),
    };
    DiskFailure {
        change,
        error,
        rolled_back: true,
        unrestored: Vec::new(),
        kept: Vec::new(),
    }
}

/// Makes one change.
pub(super) fn make(
    files: &mut BTreeMap<u8, String>,
    change: &DiskChange,
) -> Result<(), DiskErrorKind> {
    let holds = |files: &BTreeMap<u8, String>, file: u8, expected: &Text| {
        files
            .get(&file)
            .is_some_and(|it| *it == raw(expected))
            .then_some(())
            .ok_or(DiskErrorKind::Stale)
    };
    match change {
        DiskChange::Create { path, text } => {
            let file = of_path(path);
            if files.contains_key(&file) {
                return Err(DiskErrorKind::Exists);
            }
            files.insert(file, raw(text));
        }
        DiskChange::Replace {
            path,
            expected,
            text,
        } => {
            let file = of_path(path);
            holds(files, file, expected)?;
            files.insert(file, raw(text));
        }
        DiskChange::Delete { path, expected } => {
            let file = of_path(path);
            holds(files, file, expected)?;
            files.remove(&file);
        }
        DiskChange::Rename { from, to, expected } => {
            let (from, to) = (of_path(from), of_path(to));
            holds(files, from, expected)?;
            if files.contains_key(&to) {
                return Err(DiskErrorKind::Exists);
            }
            let text = files.remove(&from).expect("it holds something");
            files.insert(to, text);
        }
    }
    Ok(())
}
