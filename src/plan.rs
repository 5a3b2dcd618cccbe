//! All changes of one call over all files, computed on one snapshot: a plan, or the first errors.
//!
//! Invariant: a plan is made of what its inputs say and of nothing else, so it can be computed anywhere and is used only
//! while its inputs are still so. The order of checks is D2 of the design: each stage over all files of the call before
//! the next, stale before any match, and nothing is planned unless all is well.

mod checks;
mod diagnose;
mod edit;
mod sequence;
pub mod stale;

#[cfg(test)]
mod tests;

use crate::{
    disk::DiskError,
    error::FsError,
    ledger::{Entry, Lines},
    path::FileKey,
    protocol::{Author, Change, FileResult, Hunk, Limits, Operation, Outcome, Range, Rules, Via},
    text::{
        Text,
        buffer::{Buffer, Encoding},
        splice::Splices,
    },
    version::Version,
};

/// How many bytes are looked at in the time that one change takes, whatever it changes.
const CHANGE_COST: usize = 4 << 10;

/// The content of a file when the plan was made.
#[derive(Debug, Clone)]
pub enum Content {
    /// There is no such file.
    Absent,
    /// The text, with its version where that is already known.
    Text(Text, Option<Version>),
    /// It cannot be read as text.
    Refused(DiskError),
}

/// Where a file is changed.
#[derive(Debug, Clone)]
pub enum Place {
    /// In the editor's buffer.
    Editor(Buffer),
    /// On disk.
    Disk,
}

/// A file of the call as the plan found it.
#[derive(Debug, Clone)]
pub struct FileInput {
    /// Which file it is.
    pub key: FileKey,
    /// Its URI, as the editor writes it if it is open.
    pub uri: String,
    /// Where it would be changed.
    pub place: Place,
    /// What it holds.
    pub content: Content,
    /// What the session has seen of it.
    pub entry: Option<Entry>,
    /// Who changed it since.
    pub changed_by: Vec<Author>,
    /// Why the document cannot be changed in its state, whatever the content.
    pub obstacle: Option<FsError>,
    /// True if an editor shows it, synced or not: it cannot be deleted or renamed on disk.
    pub is_open: bool,
}

/// A change, and the files it is about, as indices of [`PlanJob::files`].
#[derive(Debug, Clone)]
pub struct Step {
    /// What the caller asked for.
    pub change: Change,
    /// The file named by `path`.
    pub file: usize,
    /// The file named by `newPath`.
    pub new_file: Option<usize>,
}

/// Everything that a plan depends on.
#[derive(Debug, Clone)]
pub struct PlanJob {
    /// The changes in the order of the call.
    pub steps: Vec<Step>,
    /// The files they are about.
    pub files: Vec<FileInput>,
    /// False for a caller without a session: it has seen nothing, and an explicit guard stands alone.
    pub has_session: bool,
    /// The session's options.
    pub rules: Rules,
    /// Limits in force.
    pub limits: Limits,
    /// Of positions for the editor.
    pub encoding: Encoding,
    /// True for `abreast/apply`: errors name the change and list the failures of all files.
    pub is_apply: bool,
}

/// A text edit for the editor, with the text that it replaces.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct EditorEdit {
    pub range: Range,
    pub old_text: String,
    pub new_text: String,
}

/// What the call does to one file.
#[derive(Debug, Clone)]
pub struct FilePlan {
    /// Index of the file in [`PlanJob::files`].
    pub file: usize,
    /// Which file it is; of a rename the new one.
    pub key: FileKey,
    /// The file that is renamed to `key`, where nothing was.
    pub renamed_from: Option<FileKey>,
    /// The file that is moved to `key`, in the place of another one that the call deletes or moves on; and whether it is
    /// changed besides.
    pub moved_from: Option<(FileKey, bool)>,
    /// What is done.
    pub operation: Operation,
    /// The raw text before; none: the file is created.
    pub before: Option<Text>,
    /// The raw text after; none: the file is deleted.
    pub after: Option<Text>,
    /// Minimal changes from `before` to `after`.
    pub splices: Splices,
    /// The same for the editor, in ascending order; empty for a closed file.
    pub edits: Vec<EditorEdit>,
    /// Lines of `after` that the session has been shown.
    pub shown: Lines,
    /// What the answer says if all goes well.
    pub result: FileResult,
}

impl FilePlan {
    /// True if the file is already as it should be.
    pub fn is_noop(&self) -> bool {
        self.operation == Operation::Update && self.splices.is_empty()
    }
}

/// What a call does.
#[derive(Debug, Clone)]
pub struct Plan {
    /// One plan per file, in the order in which the call first names them.
    pub files: Vec<FilePlan>,
    /// Versions of the inputs that had to be computed: file and version.
    pub versions: Vec<(usize, Version)>,
}

impl PlanJob {
    /// About how many bytes have to be looked at, or could have been in the time that the changes themselves take.
    pub fn cost(&self) -> usize {
        let len = |file: &FileInput| match &file.content {
            Content::Text(text, _) => text.len_bytes(),
            Content::Absent | Content::Refused(_) => 0,
        };
        self.files.iter().map(len).sum::<usize>() + self.steps.len() * CHANGE_COST
    }

    /// Makes the plan, or tells the first errors.
    ///
    /// # Errors
    ///
    /// The first failure of every file in the earliest stage that fails.
    pub fn run(mut self) -> Result<Plan, Box<FsError>> {
        let versions = self.fill_versions();
        if broken!(StaleAfterMatch) {
            sequence::run(&self)?;
        }
        checks::run(&self)?;
        let files = sequence::run(&self)?;
        Ok(Plan { files, versions })
    }

    /// Computes the versions that are not known yet.
    fn fill_versions(&mut self) -> Vec<(usize, Version)> {
        let mut filled = Vec::new();
        for (idx, file) in self.files.iter_mut().enumerate() {
            if let Content::Text(text, version @ None) = &mut file.content {
                let computed = Version::of(text);
                *version = Some(computed);
                filled.push((idx, computed));
            }
        }
        filled
    }

    fn fail(&self, failures: Vec<(usize, FsError)>) -> Result<(), Box<FsError>> {
        first_failures(failures, self.is_apply)
    }
}

/// Collects the first failure of every file in one stage; the error is the one of the first change. Each failure comes
/// with the index of its change.
pub(crate) fn first_failures(
    mut failures: Vec<(usize, FsError)>,
    is_apply: bool,
) -> Result<(), Box<FsError>> {
    failures.sort_by_key(|&(change, _)| change);
    let mut seen = std::collections::HashSet::new();
    failures.retain(|(_, err)| seen.insert(err.uri.clone()));
    let mut errors = failures.into_iter().map(|(change, mut err)| {
        err.change = is_apply.then_some(change);
        err
    });
    let Some(first) = errors.next() else {
        return Ok(());
    };
    let mut err = first.clone();
    if is_apply {
        err.failures = std::iter::once(first).chain(errors).collect();
    }
    Err(Box::new(err))
}

impl FileInput {
    /// Where the file is changed, as told.
    pub fn via(&self) -> Via {
        match self.place {
            Place::Editor(_) => Via::Editor,
            Place::Disk => Via::Disk,
        }
    }
}

/// A result for a file to which nothing was done yet.
fn blank_result(uri: &str, path: &str, operation: Operation, via: Via) -> FileResult {
    FileResult {
        uri: uri.to_string(),
        path: path.to_string(),
        operation,
        via,
        outcome: Outcome::Applied,
        version: None,
        previous_version: None,
        replacements: 0,
        dirty: None,
        unicode_normalized: false,
        look_alikes: Vec::new(),
        notes: Vec::new(),
        in_place: false,
        unseen_lines: 0,
        hunks: Vec::<Hunk>::new(),
        ranges: Vec::new(),
        diff: String::new(),
        diff_truncated: false,
    }
}
