//! Answers to reads and changes.

use super::*;

impl Oracle {
    /// A request is answered; `since`: what is shown was taken then.
    pub(in crate::simulation) fn replied(
        &mut self,
        id: u64,
        result: &Result<Answer, Failure>,
        since: Option<u64>,
    ) -> Checked {
        let outcome = match result {
            Err(Failure::Fs(err)) => Outcome::Refused(err.code),
            Ok(_) | Err(Failure::Params { .. }) => Outcome::Done,
        };
        let call = self.calls.get_mut(&id).expect("it was called");
        if call.answered.is_some() {
            return broken(Invariant::Answered, format!("call {id} is answered twice"));
        }
        call.answered = Some(outcome);
        match result {
            Ok(Answer::Read(result)) => self.shown(id, result, since)?,
            Ok(Answer::Applied(result)) => self.changed_by(id, result)?,
            Ok(Answer::Ledger(result)) => {
                Self::exported(result)?;
                if let Some(session) = self.calls[&id].session {
                    for row in &result.entries {
                        self.told_row(session, row, since)?;
                    }
                }
            }
            Ok(Answer::Session(result)) => self.imported(id, result, since)?,
            Ok(Answer::Observed(row)) => self.observed(id, row, since)?,
            Ok(Answer::Forgotten(result)) => self.forgotten(id, result.forgotten)?,
            Ok(_) | Err(Failure::Params { .. }) => {}
            Err(Failure::Fs(err)) => self.refused(id, err)?,
        }
        let head = self.tick();
        let files = self.calls[&id].files.clone();
        for (_, call) in self.calls.range_mut(id + 1..) {
            if call.ahead > 0
                && call.answered.is_none()
                && call.files.iter().any(|it| files.contains(it))
            {
                call.ahead -= 1;
                if call.ahead == 0 {
                    call.head = head;
                }
            }
        }
        for file in files {
            if outcome != Outcome::Refused(Code::FsEditorTimeout) {
                let truth = self.file(file);
                let mut late = std::mem::take(&mut truth.human_while_out);
                truth.human.append(&mut late);
            }
        }
        Ok(())
    }

    pub(super) fn shown(&mut self, id: u64, result: &ReadResult, since: Option<u64>) -> Checked {
        let call = &self.calls[&id];
        let Kind::Read { file } = call.kind else {
            return broken(Invariant::Answered, "a read that was none");
        };
        let Some(content) = self.contents.get(&result.version).cloned() else {
            return broken(
                Invariant::Order,
                format!("a read shows what never was: {:?}", result.text),
            );
        };
        let lines: Vec<&str> = content.split_inclusive('\n').collect();
        let window = lines
            .get(result.start_line - 1..result.end_line)
            .unwrap_or_default()
            .concat();
        if window != result.text {
            return broken(
                Invariant::Order,
                format!("a read shows {:?} of {content:?}", result.text),
            );
        }
        let truth = &self.files[usize::from(file)];
        if result.via == Via::Editor && truth.desynced.is() {
            return broken(Invariant::Text, "a text is shown that is not known");
        }
        let has_barrier = self.setup.sync && call.was_open && result.via == Via::Editor;
        let is_behind = result.behind || !has_barrier || call.lost;
        if !is_behind && call.floor.is_none() {
            return broken(Invariant::Order, "a read did not wait for the editor");
        }
        let floor = call.floor.filter(|_| !is_behind);
        let was: Vec<&Was> = if result.via == Via::Editor {
            Self::since(&truth.was, call.arrived)
                .filter(|it| it.tag >= floor && it.tag.is_some())
                .collect()
        } else {
            Self::since(&truth.was_on_disk, call.arrived).collect()
        };
        let is_shown = |it: &&&Was| it.content.as_deref() == Some(&*content);
        let marks = (result.eol, result.bom);
        if was.iter().any(|it| is_shown(&it))
            && !was.iter().any(|it| is_shown(&it) && it.marks == marks)
        {
            return broken(
                Invariant::Order,
                format!("a read says of {content:?} that it has {marks:?}: {was:?}"),
            );
        }
        if !was.iter().any(|it| is_shown(&it)) {
            return broken(
                Invariant::Order,
                format!("a read shows {content:?}; since it arrived there was {was:?}"),
            );
        }
        let turn = call.turn;
        if let Some(session) = call.session {
            let since = since.unwrap_or_else(|| self.tick());
            self.observe(session, file, since, Some(Some(content)), turn);
        }
        Ok(())
    }

    pub(super) fn changed_by(&mut self, id: u64, result: &ApplyResult) -> Checked {
        let call = &self.calls[&id];
        let Kind::Change { changes, dry_run } = &call.kind else {
            return broken(Invariant::Answered, "a change that was none");
        };
        if *dry_run {
            return if call.sent || call.disk.granted.is_some() || call.staged.is_some() {
                broken(Invariant::AllOrNone, "a dry run did something")
            } else {
                Ok(())
            };
        }
        if call.ahead > 0 {
            return broken(
                Invariant::Order,
                format!("call {id} is done before {} others", call.ahead),
            );
        }
        let mut observed = Vec::new();
        for it in &result.files {
            let file = files::of_uri(&it.uri);
            // What the editor refused may be done on the disk after the document was closed.
            let planned = call.planned.get(&file);
            let planned = planned.filter(|_| it.via == Via::Editor);
            let is_noop =
                it.operation == Operation::Update && it.hunks.is_empty() && planned.is_none();
            let own = plan::changes_of(changes, file);
            let (content, since) = if let Some((at, planned)) = planned {
                let truth = &self.files[usize::from(file)];
                let content: Shared = Some(Rc::from(view(planned)));
                let has_been = Self::since(&truth.was, *at).any(|it| it.content == content);
                let has_landed = call.landed.get(&file).is_some_and(|it| !it.2);
                // Who lies while a human types may be believed: what the human typed can look like the edit.
                let is_likely = self.setup.liar && truth.human_while_out.iter().any(|it| it > at);
                if !has_landed && !has_been && !is_likely {
                    return broken(
                        Invariant::Verified,
                        format!("{} is said to be {content:?}", files::path(file)),
                    );
                }
                // What was merged with it came with it, or after it.
                let merged = truth.was.last().map(|it| it.at);
                (content, call.reached.get(&file).copied().or(merged))
            } else if let Some(contents) = call.staged.as_ref().filter(|_| !is_noop) {
                let truth = &self.files[usize::from(file)];
                let granted = call.disk.granted.unwrap_or(call.head);
                let content: Shared = contents[&file].as_deref().map(Rc::from);
                let mut shown = Self::since(&truth.was, granted).filter(|it| it.tag.is_some());
                let is_shown =
                    truth.mirror.is_some() && shown.any(|it| alike(&it.content, &content));
                // What could not be taken back, on disk or where it was opened meanwhile, may be all that was asked for.
                if call.committed.is_none() && !call.disk.left.contains(&file) && !is_shown {
                    return broken(Invariant::Verified, "a success without a commit");
                }
                if truth.mirror.is_some() && !is_shown && call.committed.is_some() {
                    return broken(
                        Invariant::Verified,
                        format!(
                            "{} was opened, and never was {content:?}",
                            files::path(file)
                        ),
                    );
                }
                let is_renamed = |it: &Change| {
                    matches!(it, Change::Rename { .. }) && plan::file_of(it.path()) == file
                };
                let is_in_place = self.setup.linked && file == 0 && !changes.iter().any(is_renamed);
                if it.in_place != (is_in_place && it.operation == Operation::Update) {
                    return broken(
                        Invariant::Verified,
                        format!(
                            "{} is said to be changed in place, or not",
                            files::path(file)
                        ),
                    );
                }
                (
                    contents[&file].as_deref().map(Rc::from),
                    call.committed.filter(|_| !call.lost).or(call.disk.failed),
                )
            } else if is_noop {
                let Some(content) = it.version.and_then(|it| self.contents.get(&it)).cloned()
                else {
                    return broken(
                        Invariant::Verified,
                        "nothing was to be done on a text that never was",
                    );
                };
                let truth = &self.files[usize::from(file)];
                let was = if it.via == Via::Editor {
                    &truth.was
                } else {
                    &truth.was_on_disk
                };
                // It was planned before anything was done of the call, and looked at then.
                let is_planned_by =
                    |it: &&Was| call.carried_out.is_none_or(|planned| it.at <= planned);
                let when = Self::since(was, call.head)
                    .take_while(is_planned_by)
                    .filter(|it| it.content.as_deref() == Some(&*content))
                    .last();
                let mut contents = BTreeMap::from([(file, Some(content.to_string()))]);
                let outcome = plan::run(&own, &mut contents);
                // What is renamed there and back again needs none either, or takes the place of the same text.
                let names = |it: &Change| match it {
                    Change::Rename { path, new_path, .. } => {
                        [path, new_path].map(|it| plan::file_of(it)).contains(&file)
                    }
                    _ => false,
                };
                let is_renamed = changes.iter().any(names);
                let is_kept = outcome.is_ok() && contents[&file].as_deref() == Some(&*content);
                if when.is_none() || !is_kept && !is_renamed {
                    return broken(
                        Invariant::Verified,
                        format!("{} needed a change", files::path(file)),
                    );
                }
                (
                    Some(content),
                    when.map(|it| it.at).filter(|_| it.via == Via::Editor),
                )
            } else {
                return broken(
                    Invariant::Verified,
                    format!("{} was not changed", files::path(file)),
                );
            };
            if it.version != content.as_deref().map(version) {
                return broken(
                    Invariant::Verified,
                    format!("{} has another version than {content:?}", files::path(file)),
                );
            }
            observed.push((file, since, content));
        }
        let renamed: Vec<u8> = changes
            .iter()
            .filter(|it| matches!(it, Change::Rename { .. }))
            .map(|it| plan::file_of(it.path()))
            .collect();
        if let Some(session) = self.calls[&id].session {
            for file in renamed {
                // What was made and renamed by the call is as absent as before.
                let was_absent = self.last_seen(session, file) == Some(None);
                let is_told = result.files.iter().any(|it| files::of_uri(&it.uri) == file);
                if !is_told && !was_absent {
                    let now = self.tick();
                    self.observe(session, file, now, None, None);
                }
            }
            for (file, since, content) in observed {
                let content = content.map(|it| self.learn(&it));
                let since = since.unwrap_or_else(|| self.tick());
                self.observe(session, file, since, Some(content.clone()), None);
                // Of a large text the sidecar finds out later that it was what was planned.
                let entries = self.sessions[session].entries.get_mut(&file);
                if let Some(last) = entries.and_then(|it| it.last_mut())
                    && self.setup.large
                    && last.seen.as_ref() != Some(&content)
                {
                    last.rival = Some(Rival {
                        since: last.since,
                        seen: Some(content),
                    });
                }
            }
        }
        Ok(())
    }
}
