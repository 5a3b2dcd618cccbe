//! Refusals: true, and nothing stays behind them.

use super::*;

impl Oracle {
    pub(super) fn refused(&mut self, id: u64, err: &FsError) -> Checked {
        let now = self.tick();
        let call = &self.calls[&id];
        if let Kind::Observe { file, .. } = call.kind {
            let is_known = err.code != Code::FsDesynced
                || self.files[usize::from(file)].desynced.was(call.arrived);
            return if is_known {
                Ok(())
            } else {
                broken(Invariant::Text, err.message())
            };
        }
        if let (Kind::Import { .. }, Some(session)) = (&call.kind, call.session) {
            // Nobody has been told that it is open.
            self.sessions[session].live = false;
            return Ok(());
        }
        if let Kind::Read { file } = call.kind {
            match err.code {
                Code::FsNotFound if file != UNTITLED => {
                    if !self.contents_since(file, call.arrived).contains(&None) {
                        return broken(Invariant::Order, "a read did not find what was there");
                    }
                    let turn = call.turn;
                    if let Some(session) = call.session {
                        self.observe(session, file, now, Some(None), turn);
                    }
                }
                Code::FsDesynced if !self.files[usize::from(file)].desynced.was(call.arrived) => {
                    return broken(Invariant::Text, err.message());
                }
                _ => {}
            }
            return Ok(());
        }
        let Kind::Change { .. } = &call.kind else {
            return Ok(());
        };
        self.check_nothing_stayed(id, err)?;
        self.check_reason(id, err)?;
        let call = &self.calls[&id];
        let Some(session) = call.session else {
            return Ok(());
        };
        let planned: Vec<(u8, String)> = call
            .planned
            .iter()
            .map(|(file, it)| (*file, view(&it.1)))
            .collect();
        match err.code {
            Code::FsUnverified => {
                for (file, _) in planned {
                    self.observe(session, file, now, None, None);
                }
            }
            Code::FsEditorTimeout if call.sent => {
                for (file, content) in planned {
                    let content = Some(self.learn(&content));
                    self.unknown.push(Unknown {
                        session,
                        file,
                        content,
                        call: id,
                        is_open: true,
                        reached: self.calls[&id].reached.get(&file).copied(),
                    });
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn check_nothing_stayed(&self, id: u64, err: &FsError) -> Checked {
        let call = &self.calls[&id];
        if err.code == Code::FsAborted && (call.disk.is_out || call.sent && !call.is_refused) {
            return broken(
                Invariant::AllOrNone,
                format!("call {id} is aborted after its commit point"),
            );
        }
        let is_undecided = call.committed.is_none() && !call.is_rollback;
        if err.code == Code::FsPartiallyApplied && is_undecided && !self.setup.liar {
            // What was saved and closed since is on disk as a human wants it.
            let untouched = call.landed.iter().find(|(file, landed)| {
                let mirror = self.mirror(**file);
                call.reached.contains_key(file)
                    && !landed.2
                    && mirror.is_some_and(|it| it.text == landed.1)
            });
            if let Some((file, _)) = untouched {
                return broken(
                    Invariant::AllOrNone,
                    format!("call {id} is done by half, and nobody takes {file} back"),
                );
            }
        }
        if err.code == Code::FsPartiallyApplied {
            return self.check_partial(id, err);
        }
        self.check_nothing_left(id, err.code)?;
        let is_told = matches!(err.code, Code::FsEditorTimeout | Code::FsUnverified);
        if is_told || !self.setup.strict || self.setup.liar {
            return Ok(());
        }
        let stayed: Vec<&u8> = call
            .landed
            .iter()
            .filter(|it| !it.1.2)
            .map(|it| it.0)
            .collect();
        // A buffer that was closed took the edit with it; and a human may have undone it.
        let stayed: Vec<&u8> = stayed
            .into_iter()
            .filter(|it| {
                self.mirror(**it)
                    .is_some_and(|mirror| mirror.text != call.landed[it].0)
                    && !self.may_be_undone(call, **it)
            })
            .collect();
        let is_told = call.lost && call.files.len() == 1;
        if !stayed.is_empty() && !is_told {
            return broken(
                Invariant::AllOrNone,
                format!(
                    "call {id} is refused ({:?}), and {stayed:?} stay changed",
                    err.code
                ),
            );
        }
        if call.committed.is_some() && !call.lost {
            return broken(
                Invariant::AllOrNone,
                format!(
                    "call {id} is refused ({:?}), and the disk is changed",
                    err.code
                ),
            );
        }
        Ok(())
    }

    /// A human has typed since a call changed the document, and nothing is there that was not there before, though the
    /// call had added something.
    fn may_be_undone(&self, call: &CallTruth, file: u8) -> bool {
        let (truth, (before, after, _)) = (&self.files[usize::from(file)], &call.landed[&file]);
        let at = call.planned.get(&file).map_or(call.head, |it| it.0);
        let mut human = truth.human.iter().chain(&truth.human_while_out);
        let is_left = |text: &str| is_subsequence(text, before);
        human.any(|it| *it > at)
            && !is_left(after)
            && truth.mirror.as_ref().is_some_and(|it| is_left(&it.text))
    }

    /// A refusal is true, and the earliest that is.
    pub(super) fn check_reason(&self, id: u64, err: &FsError) -> Checked {
        let call = &self.calls[&id];
        let Kind::Change { changes, .. } = &call.kind else {
            return Ok(());
        };
        let Some(uri) = &err.uri else { return Ok(()) };
        let file = files::of_uri(uri);
        let from = call.head;
        let seen = self.authorities(call, file);
        let contents = self.contents_since(file, from);
        let first = changes.iter().find(|it| plan::file_of(it.path()) == file);
        let fills = matches!(first, Some(Change::Write { .. }));
        let is_nothing = |it: &Shared| it.as_deref().is_none_or(str::is_empty);
        let was_fresh = seen
            .iter()
            .flatten()
            .any(|it| contents.iter().any(|is| alike(it, is)))
            || fills && contents.iter().any(is_nothing)
            || self.setup.policy_off && call.session.is_some();
        let own = plan::changes_of(changes, file);
        // What comes of the changes of this file, on what it held.
        let comes_of = |code: Code| {
            contents.iter().any(|it| {
                let mut files = BTreeMap::from([(file, it.as_deref().map(str::to_string))]);
                plan::run(&own, &mut files) == Err(code)
            })
        };
        let was_stale = (seen.iter().flatten()).any(|it| contents.iter().any(|is| it != is));
        let truth = &self.files[usize::from(file)];
        let turned = truth.turned.iter().any(|it| *it >= from);
        let path = files::path(file);
        let holds = match err.code {
            Code::FsStaleVersion => {
                was_stale
                    || turned
                    || !seen.iter().any(Option::is_some)
                    || comes_of(Code::FsStaleVersion)
                    || self.was_handed_over(err, &seen)
                    // The bytes may be others though the text is the same.
                    || truth.others.iter().any(|it| *it > from)
            }
            Code::FsNotObserved => seen.iter().any(|it| !matches!(it, Some(Some(_)))),
            Code::FsEditNotFound | Code::FsAmbiguousEdit | Code::FsNoChange => {
                // It may be the text of the file that was renamed that is meant.
                let is_renamed = changes.iter().any(|it| matches!(it, Change::Rename { .. }));
                if !was_fresh && !is_renamed {
                    return broken(
                        Invariant::StaleFirst,
                        format!(
                            "{path} is refused as {:?}, and was {contents:?}, not {seen:?}",
                            err.code
                        ),
                    );
                }
                let says_nothing = |it: &Change| matches!(it, Change::Edit { old_string, new_string, .. } if fold(old_string) == fold(new_string));
                is_renamed
                    || err.code == Code::FsNoChange && own.iter().any(says_nothing)
                    || comes_of(err.code)
            }
            Code::FsDesynced => truth.desynced.was(from),
            Code::FsReadOnly => truth.read_only.was(from),
            Code::FsConflict => truth.conflict.was(from),
            Code::FsOpen => turned || truth.mirror.is_some() || truth.unsynced.was(from),
            Code::FsUnverified => {
                // It was not reported, or a human had a part in it, or the text was not known.
                !call.reached.contains_key(&file)
                    || self.setup.liar
                    || !self.setup.strict
                    || truth.desynced.was(from)
                    || (truth.human.iter().chain(&truth.human_while_out))
                        .any(|it| call.planned.get(&file).is_some_and(|plan| *it > plan.0))
            }
            _ => true,
        };
        if holds {
            Ok(())
        } else {
            broken(
                Invariant::Reason,
                format!(
                    "{path} is refused as {:?} ({}); it was {contents:?}, seen {seen:?}",
                    err.code,
                    err.message()
                ),
            )
        }
    }

    /// The entry had been moved to the text that the editor made of the file when it opened it (D10). From then on that
    /// text is what counts as seen: who then takes the final line break away again has made a change, even if the text
    /// is the one that was on disk. A wrong stale costs a read.
    fn was_handed_over(&self, err: &FsError, seen: &[Option<Shared>]) -> bool {
        let observed = err.observed_version.and_then(|it| self.contents.get(&it));
        let observed: Shared = observed.cloned();
        let is_other = |it: &&Shared| **it != observed && alike(it, &observed);
        self.setup.adds_final_break && seen.iter().flatten().any(|it| is_other(&it))
    }
}

/// Whether a text is left of another one when characters are taken away.
fn is_subsequence(left: &str, text: &str) -> bool {
    let mut rest = text.chars();
    left.chars().all(|sign| rest.any(|it| it == sign))
}
