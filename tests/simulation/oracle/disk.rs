//! Changes that the sidecar makes on disk.

use super::*;

impl Oracle {
    /// The sidecar has changes staged.
    pub(in crate::simulation) fn staged(&mut self, job: u64, changes: &[DiskChange]) -> Checked {
        let touched: BTreeSet<u8> = changes.iter().flat_map(files::files_of).collect();
        let of = |it: &CallTruth| {
            it.answered.is_none()
                && matches!(it.kind, Kind::Change { .. })
                && touched.iter().all(|file| it.files.contains(file))
        };
        let Some((&id, call)) = self.calls.iter().find(|it| of(it.1)) else {
            return broken(Invariant::Order, "changes are staged for no call");
        };
        if call.ahead > 0 {
            return broken(
                Invariant::Order,
                format!("call {id} stages before {} others", call.ahead),
            );
        }
        let Kind::Change { changes: asked, .. } = &call.kind else {
            unreachable!("of() saw it")
        };
        // What the files hold according to the sidecar, and what they come to hold.
        let mut before: BTreeMap<u8, String> = BTreeMap::new();
        let mut made: BTreeSet<u8> = BTreeSet::new();
        for change in changes {
            let (file, expected) = match change {
                DiskChange::Create { path, .. } => {
                    made.insert(files::of_path(path));
                    continue;
                }
                DiskChange::Replace { path, expected, .. }
                | DiskChange::Delete { path, expected } => (files::of_path(path), expected),
                DiskChange::Rename { from, to, expected } => {
                    made.insert(files::of_path(to));
                    (files::of_path(from), expected)
                }
            };
            if !made.contains(&file) {
                before.entry(file).or_insert_with(|| files::raw(expected));
            }
        }
        let mut after = before.clone();
        for change in changes {
            if let Err(kind) = files::make(&mut after, change) {
                return broken(
                    Invariant::AllOrNone,
                    format!("call {id} stages what cannot be done: {kind:?}"),
                );
            }
        }
        let mut contents: BTreeMap<u8, Content> = BTreeMap::new();
        for &file in &call.files {
            let content = if let Some(raw) = before.get(&file) {
                Some(view(raw))
            } else if made.contains(&file) {
                None
            } else if let Some(mirror) = self.mirror(file) {
                Some(view(&mirror.text))
            } else {
                self.contents_since(file, call.head)
                    .last()
                    .cloned()
                    .flatten()
                    .map(|it| it.to_string())
            };
            contents.insert(file, content);
        }
        for &file in &touched {
            let content: Shared = contents[&file].as_deref().map(Rc::from);
            self.check_authority(call, file, &content)?;
        }
        if let Err(code) = plan::run(asked, &mut contents) {
            return broken(
                Invariant::StaleFirst,
                format!("stages what has to be refused: {code:?}"),
            );
        }
        for &file in &touched {
            let after = after.get(&file).map(|it| view(it));
            if after != contents[&file] {
                return broken(
                    Invariant::Bytes,
                    format!("stages {after:?}, and not {:?}", contents[&file]),
                );
            }
        }
        for change in changes {
            if let DiskChange::Replace {
                path,
                expected,
                text,
            } = change
            {
                let file = files::of_path(path);
                let own: Vec<Change> = asked
                    .iter()
                    .filter(|it| plan::file_of(it.path()) == file)
                    .cloned()
                    .collect();
                let is_renamed = |it: &Change| matches!(it, Change::Rename { new_path, .. } if plan::file_of(new_path) == file);
                if !made.contains(&file) && !asked.iter().any(is_renamed) {
                    Self::check_bytes(&own, &files::raw(expected), &files::raw(text))?;
                }
            }
        }
        self.calls.get_mut(&id).expect("it is there").staged = Some(contents);
        self.staged.insert(job, id);
        Ok(())
    }

    /// The sidecar grants the commit.
    pub(in crate::simulation) fn granted(
        &mut self,
        staged: u64,
        changes: &[DiskChange],
    ) -> Checked {
        let id = self.staged[&staged];
        let call = self.calls.get_mut(&id).expect("it is there");
        if call.answered.is_some() {
            return broken(
                Invariant::AllOrNone,
                format!("call {id} was answered, and its commit is granted"),
            );
        }
        call.granted = true;
        for file in changes.iter().flat_map(files::files_of) {
            if self.mirror(file).is_some() || self.files[usize::from(file)].unsynced.is() {
                return broken(
                    Invariant::NothingLost,
                    format!("{} is open, and is changed on disk", files::path(file)),
                );
            }
        }
        Ok(())
    }

    /// The commit is known to be done.
    pub(in crate::simulation) fn committed(&mut self, staged: u64) {
        let at = self.tick();
        let id = self.staged[&staged];
        self.calls.get_mut(&id).expect("it is there").committed = Some(at);
    }

    /// The commit is known to have failed, with all as it was: the call may begin again, or be aborted.
    pub(in crate::simulation) fn not_committed(&mut self, staged: u64) {
        let id = self.staged[&staged];
        self.calls.get_mut(&id).expect("it is there").granted = false;
    }
}
