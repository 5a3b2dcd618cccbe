//! The files of a run, and a model disk.
//!
//! Invariant: a commit changes a file only if it holds what the change expects; of several changes all or none, but
//! where somebody has changed a file again, or the disk will not take a change back, and then it says so.

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

/// The URI of the first file in another spelling.
const ESCAPED: &str = "file:///w/%61.txt";

pub(super) fn path(file: u8) -> &'static str {
    PATHS[usize::from(file)]
}

pub(super) fn uri(file: u8) -> &'static str {
    URIS[usize::from(file)]
}

/// The same, perhaps in another spelling.
pub(super) fn uri_as(file: u8, escaped: bool) -> &'static str {
    if escaped && file == 0 {
        ESCAPED
    } else {
        uri(file)
    }
}

pub(super) fn of_uri(uri: &str) -> u8 {
    let file = URIS
        .iter()
        .position(|it| *it == uri)
        .or((uri == ESCAPED).then_some(0))
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
    /// The first file has a second name.
    pub(super) has_link: bool,
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

    /// Whether a file would be overwritten, and not replaced.
    pub(super) fn is_linked(&self, file: u8) -> bool {
        self.has_link && file == 0
    }

    pub(super) fn in_place(&self, changes: &[DiskChange]) -> Vec<bool> {
        let is_renamed = |file: u8| {
            let renames = changes
                .iter()
                .filter(|it| matches!(it, DiskChange::Rename { .. }));
            renames.flat_map(files_of).any(|it| it == file)
        };
        // What has taken the name of the first file has no second one.
        let is_linked = |file: u8| self.is_linked(file) && !is_renamed(file);
        let is_in_place = |it: &DiskChange| matches!(it, DiskChange::Replace { path, .. } if is_linked(of_path(path)));
        changes.iter().map(is_in_place).collect()
    }

    /// Whether the changes can be made.
    pub(super) fn check(&self, changes: &[DiskChange]) -> Result<(), DiskFailure> {
        let mut after = self.files.clone();
        for (change, it) in changes.iter().enumerate() {
            make(&mut after, it).map_err(|kind| failure(change, kind))?;
        }
        Ok(())
    }
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

/// A commit under way.
#[derive(Debug)]
pub(super) struct Commit {
    changes: Vec<DiskChange>,
    /// Per change that is made: its files and what they held before.
    displaced: Vec<Vec<(u8, Option<String>)>>,
    pub(super) is_recalled: bool,
}

impl Commit {
    pub(super) fn new(changes: Vec<DiskChange>) -> Self {
        Self {
            changes,
            displaced: Vec::new(),
            is_recalled: false,
        }
    }

    pub(super) fn is_made(&self) -> bool {
        self.displaced.len() == self.changes.len()
    }

    /// Makes the next change; if that cannot be, takes back those before it.
    pub(super) fn make_next(&mut self, disk: &mut Disk) -> Result<(), DiskFailure> {
        let nth = self.displaced.len();
        let change = &self.changes[nth];
        if self.is_recalled {
            return Err(self.take_back(disk, failure(nth, DiskErrorKind::Stale)));
        }
        let holds = |it: u8| (it, disk.files.get(&it).cloned());
        let displaced = files_of(change).into_iter().map(holds).collect();
        if let Err(kind) = make(&mut disk.files, change) {
            return Err(self.take_back(disk, failure(nth, kind)));
        }
        self.displaced.push(displaced);
        Ok(())
    }

    /// Makes all that is left.
    pub(super) fn finish(&mut self, disk: &mut Disk, luck: Luck) -> Result<(), DiskFailure> {
        let n = self.changes.len();
        let unlucky = match luck {
            Luck::Bad(nth) | Luck::Denied(nth) | Luck::Worse(nth) | Luck::Stuck(nth) => {
                Some(usize::from(nth) % n)
            }
            Luck::Good | Luck::Late(_) => None,
        };
        while !self.is_made() && Some(self.displaced.len()) != unlucky {
            self.make_next(disk)?;
        }
        if self.is_recalled {
            return Err(self.take_back(disk, failure(0, DiskErrorKind::Stale)));
        }
        let Some(nth) = unlucky else {
            return self.look_again(disk, luck);
        };
        let mut err = failure(nth, luck.kind());
        if matches!(luck, Luck::Stuck(_)) {
            err.unrestored = (0..self.displaced.len()).collect();
            return Err(err);
        }
        if let (Luck::Worse(_), Some(last)) = (luck, self.displaced.last()) {
            let (file, _) = last[last.len() - 1];
            let text = disk.files.get(&file).cloned().unwrap_or_default();
            disk.files.insert(file, format!("{text}somebody\n"));
        }
        Err(self.take_back(disk, err))
    }

    /// A displaced file must still hold what was expected.
    fn look_again(&mut self, disk: &mut Disk, luck: Luck) -> Result<(), DiskFailure> {
        let Luck::Late(nth) = luck else { return Ok(()) };
        let nth = usize::from(nth) % self.changes.len();
        let is_displaced = matches!(
            self.changes[nth],
            DiskChange::Replace { .. } | DiskChange::Delete { .. }
        );
        let (file, text) = &mut self.displaced[nth][0];
        let Some(text) = text
            .as_mut()
            .filter(|_| is_displaced && !disk.is_linked(*file))
        else {
            return Ok(());
        };
        text.push_str("late\n");
        Err(self.take_back(disk, failure(nth, DiskErrorKind::Stale)))
    }

    /// Takes back what was made, the last change first, where nobody has changed the file again.
    fn take_back(&mut self, disk: &mut Disk, mut err: DiskFailure) -> DiskFailure {
        for (nth, displaced) in self.displaced.drain(..).enumerate().rev() {
            if !restore(&mut disk.files, &self.changes[nth], displaced) {
                err.unrestored.insert(0, nth);
            }
        }
        err
    }
}

impl Luck {
    fn kind(self) -> DiskErrorKind {
        match self {
            Self::Denied(_) => DiskErrorKind::PermissionDenied,
            _ => DiskErrorKind::Io,
        }
    }

    /// What becomes of preparing changes.
    pub(super) fn of_stage(self, changes: &[DiskChange]) -> Result<(), DiskFailure> {
        match self {
            Self::Bad(nth) | Self::Denied(nth) => {
                Err(failure(usize::from(nth) % changes.len(), self.kind()))
            }
            Self::Good | Self::Worse(_) | Self::Stuck(_) | Self::Late(_) => Ok(()),
        }
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
        unrestored: Vec::new(),
        kept: Vec::new(),
    }
}

/// Puts back what a change displaced; false if somebody has changed the file again.
fn restore(
    files: &mut BTreeMap<u8, String>,
    change: &DiskChange,
    displaced: Vec<(u8, Option<String>)>,
) -> bool {
    let is_ours = match change {
        DiskChange::Create { path, text } => {
            let now = files.get(&of_path(path));
            now.is_none_or(|it| *it == raw(text))
        }
        DiskChange::Replace { path, text, .. } => {
            files.get(&of_path(path)).is_some_and(|it| *it == raw(text))
        }
        DiskChange::Delete { path, .. } => !files.contains_key(&of_path(path)),
        DiskChange::Rename { from, to, expected } => {
            let is_there = files
                .get(&of_path(to))
                .is_some_and(|it| *it == raw(expected));
            is_there && !files.contains_key(&of_path(from))
        }
    };
    if is_ours {
        for (file, text) in displaced {
            match text {
                Some(text) => files.insert(file, text),
                None => files.remove(&file),
            };
        }
    }
    is_ours
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
