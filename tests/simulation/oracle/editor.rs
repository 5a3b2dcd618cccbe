//! What the editor reports, and what is on disk.

use super::*;

impl Oracle {
    pub(super) fn note(&mut self, file: u8) {
        let at = self.tick();
        let truth = &self.files[usize::from(file)];
        let tag = truth
            .mirror
            .as_ref()
            .map(|it| (it.instance, it.lsp_version));
        let raw = truth
            .mirror
            .as_ref()
            .map_or(truth.disk.as_deref(), |it| Some(it.text.as_str()));
        let marks = marks(raw.unwrap_or_default());
        let content = raw.map(view).map(|it| self.learn(&it));
        self.file(file).was.push(Was {
            at,
            content,
            marks,
            tag,
        });
    }

    pub(in crate::simulation) fn disk_is(&mut self, file: u8, raw: Option<&str>) {
        let content = raw.map(view).map(|it| self.learn(&it));
        let at = self.tick();
        let truth = self.file(file);
        if truth.disk.as_deref() == raw && at > N_FILES as u64 * 2 {
            return;
        }
        truth.disk = raw.map(str::to_string);
        truth.was_on_disk.push(Was {
            at,
            content,
            marks: marks(raw.unwrap_or_default()),
            tag: None,
        });
        if truth.mirror.is_none() {
            self.note(file);
        }
    }

    pub(in crate::simulation) fn opened(
        &mut self,
        file: u8,
        instance: u32,
        lsp_version: i32,
        text: &str,
    ) {
        let at = self.tick();
        let truth = self.file(file);
        truth.turn(at);
        truth.mirror = Some(Mirror {
            instance,
            lsp_version,
            text: text.to_string(),
            dirty: false,
        });
        self.lose(file);
        self.note(file);
    }

    pub(in crate::simulation) fn closed(&mut self, file: u8) {
        let at = self.tick();
        let truth = self.file(file);
        truth.turn(at);
        let is_lost = truth.mirror.take().is_some_and(|it| it.dirty);
        // The buffer takes the edit with it.
        for call in self.calls.values_mut().filter(|it| it.answered.is_none()) {
            if let Some(landed) = call.landed.get_mut(&file) {
                let is_committing = call.disk.granted.is_some() && call.disk.over.is_none();
                call.disk.is_doomed |= is_lost && is_committing && !landed.2;
                landed.2 = true;
            }
        }
        self.lose(file);
        self.note(file);
    }

    /// The editor goes without closing its documents.
    pub(in crate::simulation) fn editor_gone(&mut self) {
        for file in 0..=UNTITLED {
            if self.mirror(file).is_some() {
                self.closed(file);
            }
        }
    }

    pub(in crate::simulation) fn saved(&mut self, file: u8) {
        if let Some(mirror) = &mut self.file(file).mirror {
            mirror.dirty = false;
        }
    }

    /// Somebody else writes a file on disk.
    pub(in crate::simulation) fn is_others(&mut self, file: u8) {
        let at = self.tick();
        self.file(file).others.push(at);
    }

    /// A report comes that cannot be used.
    pub(in crate::simulation) fn garbled(&mut self, file: u8, how: Garbled) {
        let at = self.tick();
        for (nth, truth) in self.files.iter_mut().enumerate() {
            let is_meant = how == Garbled::Document || nth == usize::from(file);
            if is_meant && truth.mirror.is_some() {
                truth.desynced.set(at, true);
                truth.human.push(at);
            }
        }
        if let (Garbled::Changes, Some(mirror)) = (how, &mut self.file(file).mirror) {
            mirror.lsp_version += 1;
        }
    }

    /// The editor says something of a document beside its text.
    pub(in crate::simulation) fn stated(&mut self, file: u8, state: State) {
        let at = self.tick();
        let truth = self.file(file);
        match state {
            State::ReadOnly(is) if truth.mirror.is_some() => truth.read_only.set(at, is),
            State::Conflict(is) if truth.mirror.is_some() => truth.conflict.set(at, is),
            State::ReadOnly(_) | State::Conflict(_) | State::Lf => {}
            State::Unsynced(is) => truth.unsynced.set(at, is),
        }
    }

    pub(super) fn lose(&mut self, file: u8) {
        for unknown in self.unknown.iter_mut().filter(|it| it.file == file) {
            unknown.is_open = false;
        }
        for call in self.calls.values_mut().filter(|it| it.answered.is_none()) {
            call.lost |= call.files.contains(&file);
        }
    }

    pub(in crate::simulation) fn changed(
        &mut self,
        file: u8,
        lsp_version: i32,
        changes: &[ContentChange],
        human: bool,
    ) {
        let wire = self.wire;
        let mut at = self.tick();
        let truth = self.file(file);
        if let Some(mirror) = &mut truth.mirror {
            mirror.dirty = true;
        }
        if let (true, Some(mirror)) = (truth.desynced.is(), &mut truth.mirror) {
            if changes.first().is_none_or(|it| it.range.is_some()) {
                mirror.lsp_version = lsp_version;
                return;
            }
            truth.desynced.set(at, false);
        }
        for change in changes {
            at = self.tick();
            let truth = self.file(file);
            let Some(mirror) = &mut truth.mirror else {
                return;
            };
            mirror.lsp_version = lsp_version;
            wire.make(&mut mirror.text, change)
                .expect("the editor reports what it did");
            self.note(file);
            self.reach(file);
            self.undo(file);
        }
        if let Some(mirror) = &mut self.file(file).mirror
            && changes.is_empty()
        {
            mirror.lsp_version = lsp_version;
            self.note(file);
        }
        if human && !changes.is_empty() {
            let is_out = self
                .calls
                .values()
                .any(|it| it.answered.is_none() && it.planned.contains_key(&file));
            // What makes the document just what was planned is taken for the edit; what comes after it is not.
            let is_the_plan = self
                .calls
                .values()
                .any(|it| it.reached.get(&file).is_some_and(|reached| *reached >= at));
            let truth = self.file(file);
            if is_the_plan {
                return;
            }
            if is_out {
                truth.human_while_out.push(at);
            } else {
                truth.human.push(at);
            }
        }
    }

    /// Notes that a human has undone what a call did.
    fn undo(&mut self, file: u8) {
        let truth = &self.files[usize::from(file)];
        let Some(mirror) = &truth.mirror else { return };
        for call in self.calls.values_mut().filter(|it| it.answered.is_none()) {
            let has_been = call.reached.contains_key(&file);
            if let Some((before, _, is_undone)) = call.landed.get_mut(&file) {
                *is_undone |= has_been && mirror.text == *before;
            }
        }
    }

    /// Notes that a document is what a call planned.
    pub(super) fn reach(&mut self, file: u8) {
        let at = self.clock;
        let truth = &mut self.files[usize::from(file)];
        let Some(mirror) = &truth.mirror else { return };
        let is_there = Some(view(&mirror.text));
        for unknown in self.unknown.iter_mut().filter(|it| it.file == file) {
            if unknown.content.as_deref() == is_there.as_deref() {
                unknown.is_open = false;
                unknown.reached.get_or_insert(at);
            }
        }
        for call in self.calls.values_mut().filter(|it| it.answered.is_none()) {
            if call
                .planned
                .get(&file)
                .is_some_and(|it| it.1 == mirror.text)
                && !call.reached.contains_key(&file)
            {
                call.reached.insert(file, at);
                truth.human_while_out.clear();
            }
        }
    }
}

fn marks(raw: &str) -> (EolKind, bool) {
    (eol(raw), raw.starts_with(BOM))
}
