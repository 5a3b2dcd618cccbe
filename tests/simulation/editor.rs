//! A model editor: documents, people's changes, and what it makes of requests.
//!
//! Invariant: a strict one applies an edit only where everything that the edit says is so, all documents or none. What
//! the edit does not say it does not check: that is how a sidecar that says too little is found out.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    protocol::ContentChange,
    workspace::{AskId, Millis},
};
use serde_json::{Value, json};

use super::{
    action::{Garbled, Manner, Setup, State, Style},
    files::{self, N_FILES},
    text::{BOM, Wire, difference, splits_pair},
};

/// An open document.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // as independent as an editor has them
pub(super) struct Document {
    pub(super) instance: u32,
    pub(super) lsp_version: i32,
    pub(super) text: String,
    pub(super) dirty: bool,
    read_only: bool,
    had_bom: bool,
    /// The text that the sidecar was told of, and what was changed since.
    reported: String,
    changes: Vec<ContentChange>,
    /// A person had a part in these changes.
    human: bool,
    undo: Vec<String>,
    redo: Vec<String>,
}

/// What the editor says, in order.
#[derive(Debug)]
pub(super) enum Message {
    Opened {
        file: u8,
        instance: u32,
        lsp_version: i32,
        text: String,
    },
    Changed {
        file: u8,
        lsp_version: i32,
        changes: Vec<ContentChange>,
        human: bool,
    },
    /// A report that cannot be used.
    Garbled {
        file: u8,
        lsp_version: i32,
        changes: Vec<ContentChange>,
        how: Garbled,
    },
    State {
        file: u8,
        state: State,
    },
    Saved {
        file: u8,
    },
    Closed {
        file: u8,
    },
    Answer {
        ask: AskId,
        answer: Result<Value, String>,
    },
}

/// A request to the editor.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) id: AskId,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

/// An edit as the editor made it of one document.
#[derive(Debug)]
pub(super) struct Applied {
    pub(super) ask: AskId,
    pub(super) file: u8,
    pub(super) before: String,
    pub(super) after: String,
}

#[derive(Debug)]
pub(super) struct Editor {
    setup: Setup,
    pub(super) wire: Wire,
    pub(super) documents: BTreeMap<u8, Document>,
    instances: [u32; N_FILES],
    pub(super) inbox: Vec<Ask>,
    /// Edits that were applied, and are neither reported nor answered.
    pub(super) held: Vec<(AskId, Vec<u8>)>,
    pub(super) outbox: VecDeque<Message>,
}

impl Document {
    fn change(&mut self, wire: Wire, range: std::ops::Range<usize>, new: &str, human: bool) {
        if self.text[range.clone()] == *new {
            return;
        }
        self.changes
            .push(wire.change(&self.text, range.clone(), new));
        self.text.replace_range(range, new);
        self.human |= human;
        self.dirty = true;
    }

    fn become_text(&mut self, wire: Wire, text: &str) {
        if let Some((range, new)) = difference(&self.text, text) {
            self.change(wire, range, &new, true);
        }
    }

    fn remember(&mut self) {
        self.undo.push(self.text.clone());
        self.redo.clear();
    }
}

impl Editor {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            setup,
            wire: setup.wire(),
            documents: BTreeMap::new(),
            instances: [0; N_FILES],
            inbox: Vec::new(),
            held: Vec::new(),
            outbox: VecDeque::new(),
        }
    }

    /// Shows a file that holds `disk`.
    pub(super) fn open(&mut self, file: u8, disk: &str, lsp_version: i32) {
        if self.documents.contains_key(&file) {
            return;
        }
        let had_bom = disk.starts_with(BOM);
        let mut text = disk.strip_prefix(BOM).unwrap_or(disk).to_string();
        if self.setup.adds_final_break && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let instance = &mut self.instances[usize::from(file)];
        *instance += 1;
        let instance = *instance;
        self.outbox.push_back(Message::Opened {
            file,
            instance,
            lsp_version,
            text: text.clone(),
        });
        self.say_eol(file);
        let document = Document {
            instance,
            lsp_version,
            reported: text.clone(),
            text,
            dirty: false,
            read_only: false,
            had_bom,
            changes: Vec::new(),
            human: false,
            undo: Vec::new(),
            redo: Vec::new(),
        };
        self.documents.insert(file, document);
    }

    pub(super) fn close(&mut self, file: u8) -> bool {
        let was_open = self.documents.remove(&file).is_some();
        if was_open {
            self.outbox.push_back(Message::Closed { file });
        }
        was_open
    }

    /// What a save writes; the document is clean then.
    pub(super) fn save(&mut self, file: u8) -> Option<String> {
        self.flush(file, Style::Exact);
        let document = self.documents.get_mut(&file)?;
        document.dirty = false;
        self.outbox.push_back(Message::Saved { file });
        Some(if document.had_bom {
            format!("{BOM}{}", document.text)
        } else {
            document.text.clone()
        })
    }

    pub(super) fn type_text(&mut self, file: u8, at: u16, text: &str) {
        let Some(document) = self.documents.get_mut(&file) else {
            return;
        };
        let byte = self.wire.cursor(&document.text, at);
        let text = if document.text.contains("\r\n") {
            text.replace('\n', "\r\n")
        } else {
            text.to_string()
        };
        document.remember();
        document.change(self.wire, byte..byte, &text, true);
    }

    pub(super) fn erase(&mut self, file: u8, at: u16, chars: u8) {
        let Some(document) = self.documents.get_mut(&file) else {
            return;
        };
        let start = self.wire.cursor(&document.text, at);
        let range = self.wire.span(&document.text, start, chars);
        document.remember();
        document.change(self.wire, range, "", true);
    }

    pub(super) fn undo(&mut self, file: u8) {
        let Some(document) = self.documents.get_mut(&file) else {
            return;
        };
        let Some(text) = document.undo.pop() else {
            return;
        };
        document.redo.push(document.text.clone());
        document.become_text(self.wire, &text);
    }

    pub(super) fn redo(&mut self, file: u8) {
        let Some(document) = self.documents.get_mut(&file) else {
            return;
        };
        let Some(text) = document.redo.pop() else {
            return;
        };
        document.undo.push(document.text.clone());
        document.become_text(self.wire, &text);
    }

    pub(super) fn switch_eol(&mut self, file: u8) {
        let Some(document) = self.documents.get_mut(&file) else {
            return;
        };
        let lf = document.text.replace("\r\n", "\n");
        let text = if lf == document.text {
            lf.replace('\n', "\r\n")
        } else {
            lf
        };
        document.remember();
        document.become_text(self.wire, &text);
    }

    pub(super) fn die(&mut self) {
        for file in self.documents.keys().copied().collect::<Vec<_>>() {
            self.close(file);
        }
        self.held.clear();
        for ask in std::mem::take(&mut self.inbox) {
            self.answer(ask.id, Err("the editor ended".to_string()));
        }
    }

    /// Ends without a word.
    pub(super) fn leave(&mut self) {
        self.documents.clear();
        self.inbox.clear();
        self.instances = [0; N_FILES];
    }

    /// Another sidecar is told of the documents; what the last one asked is nobody's business any more.
    pub(super) fn meet_another(&mut self) {
        self.held.clear();
        self.outbox.clear();
        self.inbox.clear();
        self.instances = [0; N_FILES];
        for (&file, document) in &mut self.documents {
            self.instances[usize::from(file)] = 1;
            document.instance = 1;
            document.changes.clear();
            document.human = false;
            document.reported.clone_from(&document.text);
            self.outbox.push_back(Message::Opened {
                file,
                instance: 1,
                lsp_version: document.lsp_version,
                text: document.text.clone(),
            });
            if self.wire.lf_only {
                let state = State::Lf;
                self.outbox.push_back(Message::State { file, state });
            }
        }
    }

    /// Says how the lines of a document end that was just opened.
    fn say_eol(&mut self, file: u8) {
        if self.wire.lf_only {
            let state = State::Lf;
            self.outbox.push_back(Message::State { file, state });
        }
    }

    pub(super) fn flush(&mut self, file: u8, style: Style) {
        let wire = self.wire;
        let Some(document) = self.documents.get_mut(&file) else {
            return;
        };
        if document.changes.is_empty() {
            return;
        }
        let exact = std::mem::take(&mut document.changes);
        let human = std::mem::take(&mut document.human);
        let from = std::mem::replace(&mut document.reported, document.text.clone());
        let notifications: Vec<Vec<ContentChange>> = match style {
            Style::Exact => vec![exact],
            Style::Split => exact.into_iter().map(|it| vec![it]).collect(),
            Style::Full => {
                vec![vec![ContentChange {
                    range: None,
                    range_length: None,
                    halves: Vec::new(),
                    text: document.text.clone(),
                }]]
            }
            Style::Minimal | Style::Halves => match difference(&from, &document.text) {
                None => vec![Vec::new()],
                Some((range, new))
                    if style == Style::Minimal || range.is_empty() || new.is_empty() =>
                {
                    vec![vec![wire.change(&from, range, &new)]]
                }
                Some((range, new)) => {
                    let mut middle = from.clone();
                    middle.replace_range(range.clone(), "");
                    if splits_pair(&middle, range.start) {
                        return self.flush_as(
                            file,
                            vec![vec![wire.change(&from, range, &new)]],
                            human,
                        );
                    }
                    let deletion = wire.change(&from, range.clone(), "");
                    vec![
                        vec![deletion],
                        vec![wire.change(&middle, range.start..range.start, &new)],
                    ]
                }
            },
        };
        self.flush_as(file, notifications, human);
    }

    /// Reports what was typed, so that nobody can use it.
    pub(super) fn garble(&mut self, file: u8, how: Garbled) {
        let Some(document) = self.documents.get_mut(&file) else {
            return;
        };
        if document.changes.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut document.changes);
        document.human = false;
        document.reported.clone_from(&document.text);
        document.lsp_version += 1;
        let lsp_version = document.lsp_version - i32::from(how == Garbled::Version);
        self.outbox.push_back(Message::Garbled {
            file,
            lsp_version,
            changes,
            how,
        });
    }

    pub(super) fn state(&mut self, file: u8, state: State) {
        let document = self.documents.get_mut(&file);
        match (state, document) {
            (State::ReadOnly(is), Some(document)) => document.read_only = is,
            (State::Conflict(_), None) | (State::Unsynced(_), Some(_)) => return,
            _ => {}
        }
        self.outbox.push_back(Message::State { file, state });
    }

    fn flush_as(&mut self, file: u8, notifications: Vec<Vec<ContentChange>>, human: bool) {
        let Some(document) = self.documents.get_mut(&file) else {
            return;
        };
        for changes in notifications {
            document.lsp_version += 1;
            let lsp_version = document.lsp_version;
            self.outbox.push_back(Message::Changed {
                file,
                lsp_version,
                changes,
                human,
            });
        }
    }

    fn answer(&mut self, ask: AskId, answer: Result<Value, String>) {
        self.outbox.push_back(Message::Answer { ask, answer });
    }

    /// Deals with a request; returns what it changed.
    pub(super) fn handle(&mut self, nth: usize, manner: Manner, now: Millis) -> Vec<Applied> {
        if nth >= self.inbox.len() {
            return Vec::new();
        }
        let ask = self.inbox.remove(nth);
        if manner == Manner::Fail {
            self.answer(ask.id, Err("internal error".to_string()));
            return Vec::new();
        }
        match ask.method {
            "abreast/sync" => {
                self.sync(&ask, manner);
                Vec::new()
            }
            "workspace/applyEdit" => self.apply(&ask, manner, now),
            method => unreachable!("{method} is not asked for"),
        }
    }

    fn sync(&mut self, ask: &Ask, manner: Manner) {
        let uris = ask.params["uris"].as_array().expect("uris").clone();
        let full = ask.params["full"].as_array().cloned().unwrap_or_default();
        let style = match manner {
            Manner::Right(style) => style,
            _ => Style::Exact,
        };
        let mut documents = serde_json::Map::new();
        let mut reports = Vec::new();
        let from = self.outbox.len();
        for uri in uris {
            let uri = uri.as_str().expect("a URI");
            let file = files::of_uri(uri);
            if self.documents.contains_key(&file) {
                self.flush(file, style);
                if full.iter().any(|it| it == uri) {
                    self.send_all(file);
                }
                let document = &self.documents[&file];
                let state = json!({
                    "instance": document.instance, "version": document.lsp_version, "dirty": document.dirty
                });
                documents.insert(files::uri(file).to_string(), state);
            }
        }
        if manner == Manner::AnswerFirst {
            reports = self.outbox.split_off(from).into();
        }
        self.answer(ask.id, Ok(json!({ "documents": documents })));
        self.outbox.extend(reports);
    }

    fn send_all(&mut self, file: u8) {
        let Some(document) = self.documents.get_mut(&file) else {
            return;
        };
        document.lsp_version += 1;
        let changes = vec![ContentChange {
            range: None,
            range_length: None,
            halves: Vec::new(),
            text: document.text.clone(),
        }];
        let lsp_version = document.lsp_version;
        self.outbox.push_back(Message::Changed {
            file,
            lsp_version,
            changes,
            human: false,
        });
    }

    fn apply(&mut self, ask: &Ask, manner: Manner, now: Millis) -> Vec<Applied> {
        let is_sloppy = manner == Manner::Half;
        match manner {
            Manner::Refuse => {
                self.refuse(ask.id, "the user is busy", None);
                return Vec::new();
            }
            Manner::Skip => {
                self.answer(ask.id, Ok(json!({ "applied": true })));
                return Vec::new();
            }
            _ => {}
        }
        let edits = match self.check(ask, now) {
            Ok(edits) => edits,
            Err((reason, code)) => {
                self.refuse(ask.id, &reason, Some(code));
                return Vec::new();
            }
        };
        let wire = self.wire;
        let mut applied = Vec::new();
        let n_documents = edits.len();
        for (n, (file, edits)) in edits.into_iter().enumerate() {
            if is_sloppy && n >= n_documents.div_ceil(2) && n > 0 {
                continue;
            }
            let document = self.documents.get_mut(&file).expect("checked");
            document.remember();
            let before = document.text.clone();
            let n_edits = edits.len();
            for (n, (range, new)) in edits.into_iter().enumerate().rev() {
                if is_sloppy && n == n_edits - 1 {
                    continue;
                }
                document.change(wire, range, &new, false);
            }
            applied.push(Applied {
                ask: ask.id,
                file,
                before,
                after: document.text.clone(),
            });
        }
        let files: Vec<u8> = applied.iter().map(|it| it.file).collect();
        let answer = json!({ "applied": true });
        match manner {
            Manner::Later => self.held.push((ask.id, files)),
            Manner::AnswerFirst => self.answer(ask.id, Ok(answer)),
            manner => {
                let style = if let Manner::Right(style) = manner {
                    style
                } else {
                    Style::Exact
                };
                for file in files {
                    self.flush(file, style);
                }
                self.answer(ask.id, Ok(answer));
            }
        }
        applied
    }

    /// Reports and answers an edit that was applied.
    pub(super) fn settle(&mut self, nth: usize, style: Style) {
        if nth < self.held.len() {
            let (ask, files) = self.held.remove(nth);
            for file in files {
                self.flush(file, style);
            }
            self.answer(ask, Ok(json!({ "applied": true })));
        }
    }

    fn refuse(&mut self, ask: AskId, reason: &str, code: Option<&str>) {
        let mut answer = json!({ "applied": false, "failureReason": reason });
        if let Some(code) = code.filter(|_| self.setup.codes) {
            answer["abreast"] = json!({ "code": code });
        }
        self.answer(ask, Ok(answer));
    }

    /// The edits of each document, or why they cannot be made.
    #[allow(clippy::type_complexity)]
    fn check(
        &mut self,
        ask: &Ask,
        now: Millis,
    ) -> Result<Vec<(u8, Vec<(std::ops::Range<usize>, String)>)>, (String, &'static str)> {
        let Value::Array(changes) = &ask.params["edit"]["documentChanges"] else {
            return Err(("no documentChanges".to_string(), "error"));
        };
        let detail = &ask.params["abreast"];
        if self.setup.strict && detail["deadline"].as_u64().is_some_and(|it| now >= it) {
            return Err(("too late".to_string(), "deadline"));
        }
        let mut all = Vec::new();
        for (n, change) in changes.iter().enumerate() {
            let uri = change["textDocument"]["uri"].as_str().expect("a URI");
            let file = files::of_uri(uri);
            self.flush(file, Style::Exact);
            let wire = self.wire;
            let Some(document) = self.documents.get(&file) else {
                return Err((format!("{uri} is not open"), "not-open"));
            };
            let detail = &detail["documents"][n];
            let says_otherwise = |value: &Value, is: i64| value.as_i64().is_some_and(|it| it != is);
            if self.setup.strict
                && says_otherwise(&detail["instance"], i64::from(document.instance))
            {
                return Err((format!("{uri} was loaded again"), "instance"));
            }
            if document.read_only {
                return Err((format!("{uri} is read-only"), "read-only"));
            }
            if says_otherwise(
                &change["textDocument"]["version"],
                i64::from(document.lsp_version),
            ) {
                return Err((format!("{uri} has changed"), "version"));
            }
            let mut edits = Vec::new();
            for (n, edit) in change["edits"]
                .as_array()
                .expect("edits")
                .iter()
                .enumerate()
            {
                let range = serde_json::from_value(edit["range"].clone()).expect("a range");
                let Some(range) = wire.bytes(&document.text, range) else {
                    return Err((format!("{uri} has no such range"), "range"));
                };
                let old = detail["oldTexts"][n].as_str();
                if self.setup.strict && old.is_some_and(|it| document.text[range.clone()] != *it) {
                    return Err((format!("{uri} has another text there"), "text"));
                }
                edits.push((
                    range,
                    edit["newText"].as_str().expect("newText").to_string(),
                ));
            }
            all.push((file, edits));
        }
        Ok(all)
    }
}

impl Setup {
    pub(super) fn wire(self) -> Wire {
        let encoding = if self.utf8 {
            crate::protocol::Encoding::Utf8
        } else {
            crate::protocol::Encoding::Utf16
        };
        Wire {
            encoding,
            lone_cr_is_text: self.lone_cr_is_text,
            lf_only: self.lone_cr_is_text && self.lf_only,
        }
    }
}
