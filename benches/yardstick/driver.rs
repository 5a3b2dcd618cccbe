//! The pure core with a model editor around it that does at once what it is asked for.

use std::{collections::VecDeque, fmt::Write, time::Duration};

use abreast::{
    capabilities::Capabilities,
    path::{FileKey, Lookups},
    protocol::{
        ApplyParams, Change, ContentChange, OpenSessionParams, Range, ReadParams, ServerOptions,
    },
    text::buffer::Position,
    workspace::{
        Answer, AskId, CallId, ConnectionId, Context, Effect, Event, Request, Work, Workspace,
    },
};
use serde_json::{Value, json};

use crate::clock::cpu_of;

pub(crate) const URI: &str = "untitled:1";
const SESSION: &str = "s";

/// Line `n` of every text.
pub(crate) fn line(n: usize) -> String {
    // Some lines have characters of more than one byte.
    let sign = if n % 40 == 7 { "\u{e4}\u{1f600}" } else { "" };
    format!("    let value_{n:08} = compute({n}, \"{sign}\"); // note {n:08}\n")
}

/// A text of source lines, of about so many bytes.
pub(crate) fn text(n_bytes: usize) -> String {
    let mut text = String::with_capacity(n_bytes + 100);
    for n in 0.. {
        text.push_str(&line(n));
        if text.len() >= n_bytes {
            break;
        }
    }
    text
}

/// How the model editor takes an edit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Applies,
    /// Reports what a human typed first, and the edit behind it.
    TypesFirst,
    Refuses,
    /// Refuses, after a human has typed.
    TypesAndRefuses,
    /// Says that it applied the edit, and does not.
    Lies,
    /// Answers only after the deadline, and then it has applied the edit.
    IsLate,
}

pub(crate) struct Driver {
    workspace: Workspace,
    now: u64,
    lsp_version: i32,
    last_call: u64,
    pub(crate) manner: Manner,
    late: Vec<(&'static str, Event)>,
    /// The CPU time of all events and computations so far.
    pub(crate) spent: Duration,
    /// The CPU time of each event so far.
    pub(crate) handled: Vec<(&'static str, Duration)>,
    reply: Option<Result<Answer, String>>,
}

impl Driver {
    /// An editor with one document, and a session.
    pub(crate) fn new(text: String) -> Self {
        let mut driver = Self {
            workspace: Workspace::default(),
            now: 1_000_000,
            lsp_version: 1,
            last_call: 0,
            manner: Manner::Applies,
            late: Vec::new(),
            spent: Duration::ZERO,
            handled: Vec::new(),
            reply: None,
        };
        let client = Capabilities::of(&json!({
            "workspace": { "applyEdit": true },
            "experimental": { "abreast": { "version": 1, "strictApplyEdit": true, "sync": true } },
        }));
        driver.take(
            "start",
            Event::Started {
                client,
                options: ServerOptions::default(),
                folders: Vec::new(),
            },
        );
        driver.take(
            "didOpen",
            Event::Opened {
                uri: URI.to_string(),
                key: FileKey::Uri(URI.to_string()),
                lsp_version: 1,
                text,
            },
        );
        let session = OpenSessionParams {
            session_id: Some(SESSION.to_string()),
            label: None,
            cwd: None,
            options: None,
            model: None,
            ledger: None,
        };
        driver.succeeds("openSession", Request::OpenSession(session));
        driver
    }

    /// The event of a change of the document.
    pub(crate) fn change(&mut self, changes: Vec<(Range, &str)>) -> Event {
        self.lsp_version += 1;
        let changes = changes.into_iter().map(|(range, text)| ContentChange {
            range: Some(range),
            range_length: None,
            text: text.to_string(),
            halves: Vec::new(),
        });
        Event::Changed {
            uri: URI.to_string(),
            lsp_version: self.lsp_version,
            changes: Some(changes.collect()),
        }
    }

    /// Takes events without measuring each; returns their CPU time.
    pub(crate) fn run(&mut self, events: Vec<Event>) -> Duration {
        let ((), cpu) = cpu_of(|| {
            for event in events {
                std::hint::black_box(self.workspace.handle(self.now, event));
            }
        });
        cpu
    }

    /// A human types at the start of a line.
    pub(crate) fn types(&mut self, line: usize, text: &str) {
        let at = at(line, 0, 0);
        let event = self.change(vec![(at, text)]);
        self.take("didChange", event);
    }

    pub(crate) fn reads(&mut self, offset: usize) {
        let read = ReadParams {
            session_id: Some(SESSION.to_string()),
            path: URI.to_string(),
            offset: Some(offset),
            limit: Some(100),
            format: abreast::protocol::Format::Text,
        };
        self.succeeds("read", Request::Read(read));
    }

    /// Replaces texts, each of which occurs once.
    pub(crate) fn edits(&mut self, edits: &[(String, String)]) -> Result<(), String> {
        let changes = edits.iter().map(|(old, new)| Change::Edit {
            path: URI.to_string(),
            old_string: old.clone(),
            new_string: new.clone(),
            replace_all: false,
            unicode_fallback: None,
            guard: None,
        });
        let params = ApplyParams {
            session_id: Some(SESSION.to_string()),
            changes: changes.collect(),
            call_id: None,
            label: None,
            dry_run: false,
        };
        let request = Request::Change {
            params,
            is_apply: true,
        };
        self.call("apply", request).map(drop)
    }

    /// Lets the ledger be told, as happens 50 ms after a change.
    pub(crate) fn tells(&mut self) {
        self.now += 100;
        self.take("tick", Event::Tick);
    }

    /// Lets the deadlines of an edit go by, and then comes what was held back.
    pub(crate) fn is_late(&mut self) {
        for _ in 0..9 {
            self.now += 1000;
            self.take("tick", Event::Tick);
        }
        for (name, event) in std::mem::take(&mut self.late) {
            self.take(name, event);
        }
    }

    pub(crate) fn succeeds(&mut self, name: &'static str, request: Request) {
        if let Err(err) = self.call(name, request) {
            panic!("{name}: {err}");
        }
    }

    /// Makes a request and lets everything be done for it.
    pub(crate) fn call(&mut self, name: &'static str, request: Request) -> Result<Answer, String> {
        self.last_call += 1;
        let event = Event::Call {
            id: CallId(self.last_call),
            connection: ConnectionId::EDITOR,
            request,
            context: Context::default(),
            lookups: Lookups::default(),
        };
        self.take(name, event);
        if self.reply.is_none() {
            self.is_late();
        }
        self.reply.take().expect("a call is answered")
    }

    /// Takes an event and whatever comes of it.
    pub(crate) fn take(&mut self, name: &'static str, event: Event) {
        let mut events = VecDeque::from([(name, event)]);
        while let Some((name, event)) = events.pop_front() {
            let (effects, cpu) = cpu_of(|| self.workspace.handle(self.now, event));
            self.handled.push((name, cpu));
            self.spent += cpu;
            for effect in effects {
                self.carry_out(effect, &mut events);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect, events: &mut VecDeque<(&'static str, Event)>) {
        match effect {
            Effect::Reply { result, .. } => {
                self.reply = Some(result.map_err(|failure| format!("{failure:?}")));
            }
            Effect::Start {
                job,
                work: Work::Compute(compute),
            } => {
                let (outcome, cpu) = cpu_of(|| compute.run());
                self.spent += cpu;
                events.push_back(("outcome", Event::Done { job, outcome }));
            }
            Effect::Ask {
                ask,
                method: "abreast/sync",
                ..
            } => {
                let document = json!({ "instance": 1, "version": self.lsp_version, "dirty": true });
                let answer = json!({ "documents": { URI: document } });
                events.push_back(answered("answer to sync", ask, answer));
            }
            Effect::Ask {
                ask,
                method: "workspace/applyEdit",
                params,
            } => self.apply_edit(ask, &params, events),
            Effect::Start { .. }
            | Effect::Ask { .. }
            | Effect::Notify { .. }
            | Effect::Wake(_)
            | Effect::Log { .. } => {}
        }
    }

    fn apply_edit(
        &mut self,
        ask: AskId,
        params: &Value,
        events: &mut VecDeque<(&'static str, Event)>,
    ) {
        let mut typed = false;
        if matches!(self.manner, Manner::TypesFirst | Manner::TypesAndRefuses) {
            // On the last line, so that the edit is where it was.
            let event = self.change(vec![(at(u32::MAX as usize, 0, 0), "x")]);
            events.push_back(("didChange", event));
            typed = true;
        }
        let applied = !matches!(self.manner, Manner::Refuses | Manner::TypesAndRefuses);
        let mut reports = Vec::new();
        if applied && self.manner != Manner::Lies {
            let edits = params["edit"]["documentChanges"][0]["edits"].as_array();
            let edits = edits.expect("edits are an array").iter().rev();
            let edits: Vec<(Range, &str)> = edits
                .map(|edit| {
                    let range = serde_json::from_value(edit["range"].clone());
                    let text = edit["newText"].as_str();
                    (range.expect("a range"), text.expect("a text"))
                })
                .collect();
            reports.push(("echo", self.change(edits)));
        }
        let mut answer = json!({ "applied": applied });
        if typed && !applied {
            answer["abreast"] = json!({ "code": "version" });
        }
        reports.push(answered("answer to an edit", ask, answer));
        if self.manner == Manner::IsLate {
            self.late = reports;
        } else {
            events.extend(reports);
        }
    }
}

fn answered(name: &'static str, ask: AskId, answer: Value) -> (&'static str, Event) {
    (
        name,
        Event::Answered {
            ask,
            answer: Ok(answer),
        },
    )
}

/// A range within a line.
pub(crate) fn at(line: usize, from: usize, to: usize) -> Range {
    let position = |character: usize| Position {
        line: u32::try_from(line).unwrap_or(u32::MAX),
        character: u32::try_from(character).unwrap_or(u32::MAX),
    };
    Range {
        start: position(from),
        end: position(to),
    }
}

/// Edits of so many lines, spread over `n_lines`; `back`: those that undo them.
pub(crate) fn edits_of(n_lines: usize, n_edits: usize, back: bool) -> Vec<(String, String)> {
    let edit = |nth: usize| {
        let n = n_lines * (2 * nth + 1) / (2 * n_edits);
        let (mut old, mut new) = (String::new(), String::new());
        let _ = write!(old, "// note {n:08}");
        let _ = write!(new, "// NOTE {n:08}");
        if back { (new, old) } else { (old, new) }
    };
    (0..n_edits).map(edit).collect()
}
