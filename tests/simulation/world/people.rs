//! People, the editor, and what changes files behind everybody's back.

use super::*;

impl World {
    pub(super) fn open(&mut self, file: u8, lsp_version: i32) {
        let text = self.disk.files.get(&file).cloned().unwrap_or_default();
        self.editor.open(file, &text, lsp_version);
    }

    pub(super) fn write(&mut self, file: u8, text: Option<String>) {
        self.oracle.disk_is(file, text.as_deref());
        if let Some(text) = text {
            self.history.entry(file).or_default().push(text.clone());
            self.disk.files.insert(file, text);
        } else {
            self.disk.files.remove(&file);
        }
    }

    pub(super) fn behind(&mut self, file: u8, how: Behind) {
        if file == UNTITLED {
            return;
        }
        let text = match how {
            Behind::Append(text) => Some(format!(
                "{}{text}",
                self.disk.files.get(&file).cloned().unwrap_or_default()
            )),
            Behind::Earlier(back) => {
                let history = self.history.entry(file).or_default();
                let n = history.len();
                if n == 0 {
                    Some(String::new())
                } else {
                    Some(history[n - 1 - usize::from(back) % n].clone())
                }
            }
            Behind::Write(text) => Some(text.to_string()),
            Behind::Vanish => None,
        };
        self.oracle.is_others(file);
        self.write(file, text);
    }

    pub(super) fn handle(&mut self, nth: u8, manner: Manner) -> Checked {
        for applied in self.editor.handle(usize::from(nth), manner, self.now) {
            if self.trace {
                trace(&format!("    applied {applied:?}"));
            }
            self.oracle.applied(applied)?;
        }
        Ok(())
    }

    pub(super) fn deliver(&mut self) -> Checked {
        let Some(message) = self.editor.outbox.pop_front() else {
            return Ok(());
        };
        if self.trace {
            trace(&format!("    {message:?}"));
        }
        let is_change = match &message {
            Message::Opened { .. } | Message::Closed { .. } | Message::Garbled { .. } => true,
            Message::Changed { file, changes, .. } => {
                !changes.is_empty() && !self.oracle.is_desynced(*file)
            }
            Message::State { .. } | Message::Saved { .. } | Message::Answer { .. } => false,
        };
        if is_change {
            self.oracle.moved();
        }
        let escaped = self.setup.escaped;
        let event = match message {
            Message::Opened {
                file,
                instance,
                lsp_version,
                text,
            } => {
                self.oracle.opened(file, instance, lsp_version, &text);
                Event::Opened {
                    uri: files::uri_as(file, escaped).to_string(),
                    key: files::key(file),
                    lsp_version,
                    text,
                }
            }
            Message::Changed {
                file,
                lsp_version,
                changes,
                human,
            } => {
                self.oracle.changed(file, lsp_version, &changes, human);
                let is_odd = lsp_version % 2 == 1;
                Event::Changed {
                    uri: files::uri_as(file, escaped && is_odd).to_string(),
                    lsp_version,
                    changes: Some(changes),
                }
            }
            Message::Garbled {
                file,
                lsp_version,
                changes,
                how,
            } => {
                self.oracle.garbled(file, how);
                let uri = files::uri(file).to_string();
                match how {
                    Garbled::Changes => Event::Changed {
                        uri,
                        lsp_version,
                        changes: None,
                    },
                    Garbled::Document => Event::ChangedUnknown,
                    Garbled::Version => Event::Changed {
                        uri,
                        lsp_version,
                        changes: Some(changes),
                    },
                }
            }
            Message::State { file, state } => {
                self.oracle.stated(file, state);
                Event::State {
                    state: document_state(file, state),
                    key: Some(files::key(file)),
                }
            }
            Message::Saved { file } => {
                self.oracle.saved(file);
                Event::Saved {
                    uri: files::uri(file).to_string(),
                }
            }
            Message::Closed { file } => {
                self.oracle.closed(file);
                Event::Closed {
                    uri: files::uri(file).to_string(),
                }
            }
            Message::Answer { ask, answer } => {
                self.oracle.answered(ask, &answer);
                Event::Answered { ask, answer }
            }
        };
        self.dispatch(event, None, None)
    }
}

fn document_state(file: u8, state: State) -> DocumentState {
    let mut told = DocumentState::unsynced(files::uri(file).to_string());
    told.unsynced = None;
    match state {
        State::ReadOnly(is) => told.read_only = Some(is),
        State::Conflict(is) => told.conflict = Some(is),
        State::Unsynced(is) => told.unsynced = Some(is),
        State::Lf => told.eol = Some(EolKind::Lf),
    }
    told
}
