//! Edits that the sidecar sends to the editor.

use super::*;

impl Oracle {
    /// The sidecar asks the editor; `call`: the request that just arrived.
    pub(in crate::simulation) fn asked(
        &mut self,
        ask: &Ask,
        now: Millis,
        call: Option<u64>,
    ) -> Checked {
        if ask.method != "workspace/applyEdit" {
            if let Some(id) = call
                && matches!(self.calls[&id].kind, Kind::Read { .. })
            {
                self.barriers.insert(ask.id, id);
            }
            return Ok(());
        }
        let params = &ask.params;
        let id = params["abreast"]["callId"]
            .as_str()
            .and_then(|it| it.parse::<u64>().ok())
            .expect("a callId");
        let call = &self.calls[&id];
        if call.answered.is_some() {
            return broken(
                Invariant::Order,
                format!("call {id} was answered, and edits now"),
            );
        }
        if call.ahead > 0 {
            return broken(
                Invariant::Order,
                format!("call {id} edits before {} others", call.ahead),
            );
        }
        if params["abreast"]["deadline"].as_u64() != Some(now + 5000) {
            return broken(Invariant::Order, "the deadline is not 5 s away");
        }
        let is_forward = call.landed.values().all(|it| it.2);
        // What was opened while the disk changed it may show what the disk has taken back, and what was saved, closed
        // and opened again still shows what is to be taken back.
        let mut is_back = call.disk.over.is_some() || !call.landed.is_empty();
        let head = call.head;
        let mut planned = BTreeMap::new();
        let mut bases = BTreeMap::new();
        for (n, change) in params["edit"]["documentChanges"]
            .as_array()
            .expect("documentChanges")
            .iter()
            .enumerate()
        {
            let uri = change["textDocument"]["uri"].as_str().expect("a URI");
            let file = files::of_uri(uri);
            let Some(mirror) = &self.files[usize::from(file)].mirror else {
                return broken(Invariant::Bytes, format!("{uri} is edited, and not open"));
            };
            let olds = params["abreast"]["documents"][n]["oldTexts"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let truth = &self.files[usize::from(file)];
            if truth.desynced.is() {
                return broken(
                    Invariant::Text,
                    format!("{uri} is edited, and its text is not known"),
                );
            }
            let is_closed_to_us = truth.read_only.has_been(head) || truth.conflict.has_been(head);
            if is_forward && !is_back && is_closed_to_us {
                return broken(
                    Invariant::Reason,
                    format!("{uri} is edited, and the editor said that it must not be"),
                );
            }
            let after = self.edited(&mirror.text, &change["edits"], &olds)?;
            let was_done = call.disk.touches(file) || call.landed.contains_key(&file);
            is_back &= was_done && !Self::is_asked_for(call, file, &mirror.text, &after);
            if self.unknown.iter().any(|it| it.file == file && it.is_open) {
                return broken(
                    Invariant::Verified,
                    format!("{uri} is edited while nobody knows what became of an edit"),
                );
            }
            bases.insert(file, mirror.text.clone());
            planned.insert(file, after);
        }
        let is_forward = is_forward && !is_back;
        let sent = Sent {
            call: id,
            is_forward,
            bases,
        };
        self.asks.insert(ask.id, sent);
        let at = self.tick();
        let call = self.calls.get_mut(&id).expect("it is there");
        call.sent = true;
        call.is_refused = false;
        call.is_rollback = !is_forward;
        if is_forward {
            call.carried_out = Some(at);
            call.planned = planned
                .into_iter()
                .map(|(file, text)| (file, (at, text)))
                .collect();
            call.reached.clear();
            call.landed.clear();
        }
        Ok(())
    }

    pub(super) fn edited(
        &self,
        text: &str,
        edits: &Value,
        olds: &[Value],
    ) -> Result<String, Violation> {
        let mut after = String::new();
        let mut from = 0;
        for (n, edit) in edits.as_array().expect("edits").iter().enumerate() {
            let wrong = |why: &str| Violation {
                invariant: Invariant::Bytes,
                detail: format!("{why}: {edit} of {text:?}"),
            };
            let range =
                serde_json::from_value(edit["range"].clone()).map_err(|_| wrong("no range"))?;
            let range = self
                .wire
                .bytes(text, range)
                .ok_or_else(|| wrong("a range outside the text"))?;
            if range.start < from || splits_pair(text, range.start) || splits_pair(text, range.end)
            {
                return Err(wrong("an edit that overlaps or splits a line break"));
            }
            if olds
                .get(n)
                .is_some_and(|it| it.as_str() != Some(&text[range.clone()]))
            {
                return Err(wrong("another old text"));
            }
            after.push_str(&text[from..range.start]);
            after.push_str(edit["newText"].as_str().expect("newText"));
            from = range.end;
        }
        after.push_str(&text[from..]);
        Ok(after)
    }

    /// The editor's answer arrives.
    pub(in crate::simulation) fn answered(&mut self, ask: AskId, answer: &Result<Value, String>) {
        for unknown in &mut self.unknown {
            let is_barrier = answer.as_ref().is_ok_and(|it| it["documents"].is_object());
            let is_its_own = (self.asks.get(&ask)).is_some_and(|it| it.call == unknown.call);
            unknown.is_open &= !is_barrier && !is_its_own;
        }
        if let Some(sent) = self.asks.get(&ask) {
            let was_made = answer.as_ref().is_ok_and(|it| it["applied"] == true);
            self.calls
                .get_mut(&sent.call)
                .expect("it is there")
                .is_refused = !was_made;
        }
        let Some(id) = self.barriers.remove(&ask) else {
            return;
        };
        let call = self.calls.get_mut(&id).expect("it is there");
        let Kind::Read { file } = call.kind else {
            return;
        };
        let Ok(answer) = answer else { return };
        let named = answer["documents"].as_object().into_iter().flatten();
        let mut document = named.filter(|it| files::of_uri(it.0) == file);
        let document = document.next_back().map_or(&Value::Null, |it| it.1);
        let number = |name: &str| document[name].as_i64();
        if let (Some(instance), Some(version)) = (number("instance"), number("version")) {
            call.floor = Some((
                u32::try_from(instance).expect("small"),
                i32::try_from(version).expect("small"),
            ));
        }
    }

    /// The editor made an edit.
    pub(in crate::simulation) fn applied(&mut self, it: Applied) -> Checked {
        let Sent {
            call: id,
            is_forward,
            bases,
        } = &self.asks[&it.ask];
        let (id, is_forward) = (*id, *is_forward);
        if self.setup.strict && !self.setup.liar && it.before != bases[&it.file] {
            return broken(
                Invariant::NothingLost,
                format!("an edit of {:?} landed on {:?}", bases[&it.file], it.before),
            );
        }
        let call = &self.calls[&id];
        if let Some((before, after, undone)) = call.landed.get(&it.file)
            && !undone
        {
            if let Some(lost) = typed_and_lost(after, &it.before, &it.after)
                && !self.setup.liar
            {
                return broken(
                    Invariant::NothingLost,
                    format!(
                        "{lost:?} was typed, and taken back with {after:?}: {:?}",
                        it.after
                    ),
                );
            }
            if it.before == *after && it.after != *before && !self.setup.liar {
                return broken(
                    Invariant::NothingLost,
                    format!("taken back {after:?} to {:?}, it was {before:?}", it.after),
                );
            }
            self.calls
                .get_mut(&id)
                .expect("it is there")
                .landed
                .get_mut(&it.file)
                .expect("it is there")
                .2 = true;
            return Ok(());
        }
        if !is_forward {
            let landed = call.landed.get(&it.file).map(|it| view(&it.1));
            let contents = call.staged.as_ref();
            let staged = contents.and_then(|contents| contents[&it.file].clone());
            let ours = landed.or(staged).unwrap_or_default();
            return match typed_and_lost(&ours, &view(&it.before), &view(&it.after)) {
                None => Ok(()),
                Some(lost) => broken(
                    Invariant::NothingLost,
                    format!(
                        "{lost:?} was typed, and taken back with {ours:?}: {:?}",
                        it.after
                    ),
                ),
            };
        }
        let is_late = call
            .answered
            .is_some_and(|it| it != Outcome::Refused(Code::FsEditorTimeout));
        let Kind::Change { changes, .. } = &call.kind else {
            unreachable!("a read edits nothing")
        };
        let changes = plan::changes_of(changes, it.file);
        if self.setup.strict && !self.setup.liar {
            let content: Shared = Some(Rc::from(view(&it.before)));
            self.check_authority(call, it.file, &content)?;
            Self::check_change(&changes, &it.before, &it.after, it.file)?;
            if is_late {
                return broken(
                    Invariant::AllOrNone,
                    format!("call {id} was refused, and the editor made its edit"),
                );
            }
        }
        let call = self.calls.get_mut(&id).expect("it is there");
        call.landed.insert(it.file, (it.before, it.after, false));
        Ok(())
    }

    /// Whether the call makes this of a document that holds `before`.
    fn is_asked_for(call: &CallTruth, file: u8, before: &str, after: &str) -> bool {
        let Kind::Change { changes, .. } = &call.kind else {
            return false;
        };
        let own = plan::changes_of(changes, file);
        let mut contents = BTreeMap::from([(file, Some(view(before)))]);
        plan::run(&own, &mut contents).is_ok() && contents[&file].as_deref() == Some(&*view(after))
    }

    pub(super) fn check_change(changes: &[Change], before: &str, after: &str, file: u8) -> Checked {
        let mut contents = BTreeMap::from([(file, Some(view(before)))]);
        if let Err(code) = plan::run(changes, &mut contents) {
            return broken(
                Invariant::StaleFirst,
                format!("made what has to be refused: {code:?} of {before:?}"),
            );
        }
        if contents[&file].as_deref() != Some(&view(after)) {
            return broken(
                Invariant::Bytes,
                format!("{before:?} became {after:?}, and not {:?}", contents[&file]),
            );
        }
        Self::check_bytes(changes, before, after)
    }

    pub(super) fn check_bytes(changes: &[Change], before: &str, after: &str) -> Checked {
        let kept = match changes {
            // A call that writes twice, or a CR of its own that must not become half of a pair, can need another style.
            [_, ..] if changes.len() > 1 || before.replace("\r\n", "").contains('\r') => true,
            [
                Change::Edit {
                    old_string,
                    new_string,
                    ..
                },
            ] => plan::only_hits_changed(before, after, old_string, new_string),
            _ => {
                let is_crlf =
                    |text: &str| text.contains("\r\n") && !text.replace("\r\n", "").contains('\n');
                let is_lf = |text: &str| text.contains('\n') && !text.contains("\r\n");
                before.starts_with(BOM) == after.starts_with(BOM)
                    && !(is_crlf(before) && after.replace("\r\n", "").contains('\n'))
                    && !(is_lf(before) && after.contains("\r\n"))
            }
        };
        if kept {
            Ok(())
        } else {
            broken(Invariant::Bytes, format!("{before:?} became {after:?}"))
        }
    }
}

/// A character that a human has typed into `ours`, giving `now`, and that is not there any more. Of what is not ours
/// nothing goes, so as many of each have to stay as have come.
fn typed_and_lost(ours: &str, now: &str, after: &str) -> Option<char> {
    let count = |text: &str, sign: char| text.chars().filter(|it| *it == sign).count();
    now.chars().find(|sign| {
        let n_typed = count(now, *sign).saturating_sub(count(ours, *sign));
        count(after, *sign) < n_typed
    })
}
