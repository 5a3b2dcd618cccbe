//! Changes that the sidecar makes on disk.

use super::*;
use crate::protocol::Outcome as Became;

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
        let mut open: BTreeMap<u8, Content> = BTreeMap::new();
        for &file in &call.files {
            let content = if let Some(raw) = before.get(&file) {
                Some(view(raw))
            } else if made.contains(&file) {
                None
            } else if let Some(mirror) = self.mirror(file) {
                open.insert(file, Some(view(&mirror.text)));
                Some(view(&mirror.text))
            } else {
                // What needs no change was looked at, and holds by now whatever others made of it since.
                let was = self.contents_since(file, call.head);
                let own = plan::changes_of(asked, file);
                let needs_no_change = |it: &&Shared| {
                    let content = it.as_deref().map(str::to_string);
                    let mut contents = BTreeMap::from([(file, content.clone())]);
                    plan::run(&own, &mut contents).is_ok() && contents[&file] == content
                };
                let looked_at = was.iter().rfind(needs_no_change).or(was.last());
                looked_at.cloned().flatten().map(|it| it.to_string())
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
                let own = plan::changes_of(asked, file);
                let is_renamed = |it: &Change| matches!(it, Change::Rename { new_path, .. } if plan::file_of(new_path) == file);
                if !made.contains(&file) && !asked.iter().any(is_renamed) {
                    Self::check_bytes(&own, &files::raw(expected), &files::raw(text))?;
                }
            }
        }
        open.retain(|file, it| contents[file] != *it);
        let call = self.calls.get_mut(&id).expect("it is there");
        call.staged = Some(contents);
        call.disk = DiskPart {
            changes: changes.iter().map(files::files_of).collect(),
            before,
            editor_part: open.into_keys().collect(),
            ..DiskPart::default()
        };
        self.staged.insert(job, id);
        Ok(())
    }

    /// The sidecar grants the commit.
    pub(in crate::simulation) fn granted(
        &mut self,
        staged: u64,
        changes: &[DiskChange],
    ) -> Checked {
        let at = self.tick();
        let id = self.staged[&staged];
        let call = self.calls.get_mut(&id).expect("it is there");
        if call.answered.is_some() {
            return broken(
                Invariant::AllOrNone,
                format!("call {id} was answered, and its commit is granted"),
            );
        }
        call.disk.granted = Some(at);
        if call.disk.editor_part.is_empty() {
            call.carried_out = Some(at);
        }
        call.disk.is_out = true;
        // A human may have undone it since.
        let has_landed = |it: &u8| call.landed.get(it).is_some_and(|it| !it.2 || !call.lost);
        if self.setup.strict && !self.setup.liar {
            let missing = call.disk.editor_part.iter().find(|it| !has_landed(it));
            if let Some(file) = missing {
                return broken(
                    Invariant::AllOrNone,
                    format!(
                        "a commit is granted, and {} is not edited",
                        files::path(*file)
                    ),
                );
            }
        }
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

    /// The disk is done with a commit; the sidecar does not know yet.
    pub(in crate::simulation) fn is_over(
        &mut self,
        staged: u64,
        committed: &Result<(), DiskFailure>,
    ) {
        let at = self.tick();
        let id = self.staged[&staged];
        let disk = &mut self.calls.get_mut(&id).expect("it is there").disk;
        disk.over = Some(at);
        if let Err(failure) = committed {
            let left = failure.unrestored.iter();
            disk.left = left.flat_map(|it| disk.changes[*it].clone()).collect();
        }
    }

    /// The commit is known to be done.
    pub(in crate::simulation) fn committed(&mut self, staged: u64) -> Checked {
        let at = self.tick();
        let id = self.staged[&staged];
        let call = self.calls.get_mut(&id).expect("it is there");
        call.committed = Some(at);
        if call.disk.is_doomed {
            return broken(
                Invariant::AllOrNone,
                format!("a document took its part of call {id} with it, and the rest is committed"),
            );
        }
        Ok(())
    }

    /// The commit is known to have failed, and not all is as it was.
    pub(in crate::simulation) fn half_committed(&mut self, staged: u64) {
        let at = self.tick();
        let id = self.staged[&staged];
        let call = self.calls.get_mut(&id).expect("it is there");
        call.disk.failed = Some(at);
    }

    /// The commit is known to have failed, with all as it was: the call may begin again, or be aborted.
    pub(in crate::simulation) fn not_committed(&mut self, staged: u64) {
        let id = self.staged[&staged];
        let call = self.calls.get_mut(&id).expect("it is there");
        call.disk.is_out = false;
    }

    /// What the disk, or a buffer that was opened meanwhile, keeps of a call that is refused.
    pub(super) fn check_nothing_left(&self, id: u64, code: Code) -> Checked {
        let call = &self.calls[&id];
        let Some(contents) = &call.staged else {
            return Ok(());
        };
        let Some(over) = call.disk.over else {
            return Ok(());
        };
        for file in call.disk.changes.iter().flatten() {
            let truth = &self.files[usize::from(*file)];
            let before = call.disk.before.get(file).map(|it| view(it));
            let after = &contents[file];
            let is_ours = |now: Option<&str>| now.map(view) == *after && before != *after;
            // A buffer can be given back its old text, but not be made to go.
            let was_there = before.is_some();
            // What counts of an open file is its buffer.
            let is_left = call.disk.left.contains(file)
                && truth.mirror.is_none()
                && is_ours(truth.disk.as_deref());
            let mirror = truth.mirror.as_ref().filter(|_| call.committed.is_none());
            let is_shown = was_there
                && mirror.is_some_and(|it| is_ours(Some(&it.text)))
                && truth.others.iter().all(|it| *it < over);
            if is_left || is_shown {
                return broken(
                    Invariant::AllOrNone,
                    format!(
                        "call {id} is refused ({code:?}), and {} stays changed",
                        files::path(*file)
                    ),
                );
            }
        }
        Ok(())
    }

    /// A part of a call stays. What is told of each file must be so, and nothing stays without a reason: a human's or
    /// another program's newer text, a disk or an editor that takes nothing back, a file that was opened too late.
    pub(super) fn check_partial(&self, id: u64, err: &FsError) -> Checked {
        let call = &self.calls[&id];
        let disk = &call.disk;
        let is_turned_late = disk.granted.is_some_and(|granted| {
            let mut files = call.files.iter().map(|it| &self.files[usize::from(*it)]);
            files.any(|it| it.turned.iter().any(|at| *at > granted))
        });
        for it in &err.files {
            let file = files::of_uri(&it.uri);
            let truth = &self.files[usize::from(file)];
            let at = call.planned.get(&file).map_or(call.head, |it| it.0);
            let (before, after) = if disk.touches(file) {
                let before = disk.before.get(&file).map(|it| view(it));
                let contents = call.staged.as_ref();
                (before, contents.and_then(|it| it[&file].clone()))
            } else if let Some((before, after, _)) = call.landed.get(&file) {
                (Some(view(before)), Some(view(after)))
            } else {
                continue;
            };
            if before == after {
                continue;
            }
            let is = |it: &Shared, what: &Content| it.as_deref() == what.as_deref();
            let now: Vec<Shared> = if let Some(mirror) = &truth.mirror {
                let shown = Some(Rc::from(view(&mirror.text)));
                // A file that is not there is shown as an empty one, or as what it was before it went.
                let is_not_there =
                    truth.disk.is_none() && (mirror.text.is_empty() || before.is_none());
                let absent = is_not_there.then_some(None);
                std::iter::once(shown).chain(absent).collect()
            } else {
                let from = disk.over.unwrap_or(at);
                let was = Self::since(&truth.was_on_disk, from);
                was.map(|it| it.content.clone()).collect()
            };
            let is_others = truth.others.iter().any(|it| *it > at);
            let is_wrong = match it.outcome {
                Became::RolledBack => !is_others && now.iter().all(|it| is(it, &after)),
                Became::Applied => now.iter().all(|it| is(it, &before)),
                _ => false,
            };
            let is_told = !matches!(it.outcome, Became::Applied | Became::Unknown);
            let has_version = |now: &Shared| now.as_deref().map(version) == it.version;
            if is_wrong || is_told && !now.iter().any(has_version) {
                return broken(
                    Invariant::Verified,
                    format!("{} is told to be {:?}: it is {now:?}", it.path, it.outcome),
                );
            }
            if it.outcome == Became::RolledBack
                || is_turned_late
                || !self.setup.strict
                || self.setup.liar
            {
                continue;
            }
            let is_humans = (truth.human.iter().chain(&truth.human_while_out)).any(|it| *it > at);
            let is_hindered = if disk.touches(file) {
                disk.left.contains(&file) || is_others
            } else {
                is_humans
                    || is_others
                    || truth.turned.iter().any(|it| *it > at)
                    || truth.desynced.was(at)
                    || call.is_refused
                    || it.outcome == Became::Unknown
            };
            if !is_hindered {
                return broken(
                    Invariant::AllOrNone,
                    format!(
                        "{} stays changed ({:?}), and nothing stands in the way",
                        it.path, it.outcome
                    ),
                );
            }
        }
        Ok(())
    }
}
