//! Which files a call is about, and whether they may be changed at all.
//!
//! Invariant: every file that a change would touch is checked by its canonical path when the call arrives, and once more
//! when it is planned; on the disk a change goes by that path and through no link, so what is changed is what was checked.

use std::collections::HashMap;

use super::{Workspace, changes::ChangeCall};
use crate::{
    containment::{Denial, Roots},
    error::{Code, Failure, FsError},
    path::{FileKey, Lookups},
    plan::{self, Step},
    protocol::Change,
};

/// The files of a call.
pub(super) struct Targets {
    pub(super) steps: Vec<Step>,
    pub(super) keys: Vec<FileKey>,
    pub(super) roots: Roots,
}

impl Workspace {
    /// Stage 3 of D2: which files the changes name, if all of them may be changed.
    pub(super) fn targets(
        &self,
        session_id: Option<&str>,
        changes: Vec<Change>,
        is_apply: bool,
        lookups: &Lookups,
    ) -> Result<Targets, Failure> {
        let given = self.options.containment.given(&self.folders);
        let roots = Roots::of(given, lookups);
        let mut keys: Vec<FileKey> = Vec::new();
        let mut indices: HashMap<FileKey, usize> = HashMap::new();
        let mut steps = Vec::with_capacity(changes.len());
        let mut failures = Vec::new();
        for (idx, change) in changes.into_iter().enumerate() {
            let mut file = |name: &str| {
                let key = self.resolve(session_id, name, lookups)?;
                self.require_contained(&change, name, &key, &roots)?;
                if let Some(now) = self.led_elsewhere(session_id, name, &key, lookups) {
                    self.require_contained(&change, name, &now, &roots)?;
                }
                self.require_no_link(session_id, &change, name, &key, lookups)?;
                Ok::<_, Failure>(*indices.entry(key).or_insert_with_key(|key| {
                    keys.push(key.clone());
                    keys.len() - 1
                }))
            };
            let path = file(change.path());
            let new_file = match &change {
                Change::Rename { new_path, .. } => Some(file(new_path)),
                _ => None,
            };
            match (path, new_file.transpose()) {
                (Ok(file), Ok(new_file)) => steps.push(Step {
                    change,
                    file,
                    new_file,
                }),
                (path, new_file) => {
                    for failure in [path.err(), new_file.err()].into_iter().flatten() {
                        match failure {
                            Failure::Fs(err) => failures.push((idx, *err)),
                            failure @ Failure::Params { .. } => return Err(failure),
                        }
                    }
                }
            }
        }
        plan::first_failures(failures, is_apply).map_err(Failure::Fs)?;
        Ok(Targets { steps, keys, roots })
    }

    /// The folders may be others than when the call arrived.
    pub(super) fn require_still_contained(
        &self,
        call: &mut ChangeCall,
    ) -> Result<(), Box<FsError>> {
        let given = self.options.containment.given(&self.folders);
        call.roots.retain(&given);
        let mut failures = Vec::new();
        for (idx, step) in call.steps.iter().enumerate() {
            let target = match &step.change {
                Change::Rename { new_path, .. } => step.new_file.map(|it| (it, new_path.as_str())),
                _ => None,
            };
            for (file, name) in [Some((step.file, step.change.path())), target]
                .into_iter()
                .flatten()
            {
                let contained =
                    self.require_contained(&step.change, name, &call.keys[file], &call.roots);
                failures.extend(contained.err().map(|err| (idx, err)));
            }
        }
        plan::first_failures(failures, call.is_apply)
    }

    /// Where the name of an open document leads by now, if a link was changed since it was opened: a save would go there.
    fn led_elsewhere(
        &self,
        session_id: Option<&str>,
        name: &str,
        key: &FileKey,
        lookups: &Lookups,
    ) -> Option<FileKey> {
        let candidates = self.candidates(session_id, name).ok()?;
        self.open_by_path(&candidates)?;
        let now = lookups.get(candidates.paths().first()?)?.as_ref().ok()?;
        let now = FileKey::Path(now.path.clone());
        (now != *key).then_some(now)
    }

    /// A link is read and written through; whether its deletion or renaming means the link or the file is not for us to
    /// guess.
    fn require_no_link(
        &self,
        session_id: Option<&str>,
        change: &Change,
        name: &str,
        key: &FileKey,
        lookups: &Lookups,
    ) -> Result<(), FsError> {
        if !matches!(change, Change::Delete { .. } | Change::Rename { .. }) {
            return Ok(());
        }
        let Ok(candidates) = self.candidates(session_id, name) else {
            return Ok(());
        };
        let paths = candidates.paths();
        let mut found = paths.iter().filter_map(|it| lookups.get(it)?.as_ref().ok());
        let Some(found) = found.find(|it| it.is_link && *key == FileKey::Path(it.path.clone()))
        else {
            return Ok(());
        };
        let (code, what, remedy) = if name == change.path() {
            let target = found.path.display();
            (
                Code::FsNotRegularFile,
                format!("cannot {} \"{name}\": it is a symbolic link", change.verb()),
                format!("leave the link to the user; the file that it leads to is \"{target}\""),
            )
        } else {
            (
                Code::FsAlreadyExists,
                format!("cannot rename to \"{name}\": a symbolic link is there"),
                "choose another name".to_string(),
            )
        };
        Err(FsError::new(code, what, remedy).at(name, &key.uri()))
    }

    fn require_contained(
        &self,
        change: &Change,
        name: &str,
        key: &FileKey,
        roots: &Roots,
    ) -> Result<(), FsError> {
        let Some(denial) = self.options.containment.denial(key, roots) else {
            return Ok(());
        };
        let names = roots.names();
        let (why, remedy) = match denial {
            Denial::ReadOnly => (
                "nothing may be written here".to_string(),
                "ask the user to do it, or to set containment otherwise".to_string(),
            ),
            Denial::Outside if names.is_empty() => (
                "there is no directory that may be written to".to_string(),
                "ask the user to do it, or to open its folder in the editor".to_string(),
            ),
            Denial::Outside => (
                "it is outside the directories that may be written to".to_string(),
                format!("name a file below {names}, or ask the user to do it"),
            ),
            Denial::Protected(glob) => (
                format!("it is protected by {glob:?}"),
                format!("ask the user to do it; other files below {names} may be written"),
            ),
        };
        let what = format!("cannot {} \"{name}\": {why}", change.verb());
        Err(FsError::new(Code::FsSandboxDenied, what, remedy).at(name, &key.uri()))
    }
}
