//! The sidecar's core among models of everything around it.
//!
//! Invariant: a run depends on its setup and its actions and on nothing else.

mod agents;
mod jobs;
mod life;
mod people;
mod rest;

use std::collections::BTreeMap;

use crate::{
    capabilities::Capabilities,
    disk::{DiskChange, DiskFailure},
    error::Failure,
    large,
    path::{Folder, Lookups},
    protocol::{
        ApplyParams, Change, CloseSessionParams, DocumentState, EolKind, ExportedLedger,
        ForgetParams, Guard, LedgerParams, ObserveParams, OpenSessionParams, PolicyName,
        ReadParams, ServerOptions, WriteEol,
    },
    text::Text,
    version::Version,
    workspace::{
        Answer, CallId, ConnectionId, Context, Effect, Event, JobId, Looked, Millis, Outcome,
        Request, Work, Workspace,
    },
};

use super::{
    action::{
        Action, Behind, Garbled, Luck, Manner, NOBODY, Named, Setup, Shown, State, Step, Style,
    },
    editor::{Ask, Editor, Message},
    files::{self, Commit, Disk, UNTITLED},
    oracle::{Checked, Invariant, Kind, Oracle, Said, Violation},
    text::{cursor, span, view},
};

/// Nothing has to take longer than this once everybody does what is asked of them.
const REST_MS: Millis = 20_000;
/// Nor longer than this many rounds of all of them.
const REST_ROUNDS: usize = 100_000;

/// Work that was given away.
#[derive(Debug)]
pub(super) struct Job {
    id: JobId,
    /// When it was given away, for the oracle.
    since: u64,
    state: JobState,
}

#[derive(Debug)]
enum JobState {
    Waiting(Work),
    /// A commit of which a part is made, and what was staged for it.
    Committing(Commit, u64),
    Done {
        outcome: Outcome,
        commit: Option<u64>,
        is_computed: bool,
    },
}

impl Job {
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, JobState::Done { .. })
    }

    pub(super) fn is_disk_change(&self) -> bool {
        matches!(
            self.state,
            JobState::Waiting(Work::Stage { .. } | Work::Commit { .. }) | JobState::Committing(..)
        )
    }

    pub(super) fn is_commit(&self) -> bool {
        matches!(
            self.state,
            JobState::Waiting(Work::Commit { .. }) | JobState::Committing(..)
        )
    }
}

pub(super) struct World {
    setup: Setup,
    pub(super) now: Millis,
    wake_at: Option<Millis>,
    workspace: Workspace,
    pub(super) editor: Editor,
    pub(super) disk: Disk,
    /// What the files held, oldest first.
    history: BTreeMap<u8, Vec<String>>,
    staged: BTreeMap<u64, Vec<DiskChange>>,
    pub(super) jobs: Vec<Job>,
    pub(super) oracle: Oracle,
    next_call: u64,
    pub(super) n_events: u64,
    answers: BTreeMap<u64, Answer>,
    /// The turn of each session whose host numbers turns.
    turns: BTreeMap<u8, u64>,
    /// The ledger that a host kept last.
    pub(super) exported: Option<ExportedLedger>,
    is_at_rest: bool,
    /// Prints what happens.
    pub(super) trace: bool,
}

impl World {
    pub(super) fn new(setup: Setup, files: &[&str]) -> Self {
        large::set_limit(setup.large.then_some(0));
        let mut disk = Disk {
            has_link: setup.linked,
            ..Disk::default()
        };
        for (file, text) in files.iter().enumerate() {
            let file = u8::try_from(file).expect("few files");
            disk.files.insert(file, (*text).to_string());
        }
        let history = disk
            .files
            .iter()
            .map(|(file, text)| (*file, vec![text.clone()]))
            .collect();
        let mut world = Self {
            setup,
            now: 1_000_000,
            wake_at: None,
            workspace: Workspace::default(),
            editor: Editor::new(setup),
            oracle: Oracle::new(setup, &disk.files),
            disk,
            history,
            staged: BTreeMap::new(),
            jobs: Vec::new(),
            next_call: 0,
            n_events: 0,
            answers: BTreeMap::new(),
            turns: BTreeMap::new(),
            exported: None,
            is_at_rest: false,
            trace: false,
        };
        world.start_sidecar();
        world
    }

    fn start_sidecar(&mut self) {
        let setup = self.setup;
        let wire = setup.wire();
        let client = Capabilities {
            encoding: wire.encoding,
            apply_edit: true,
            transactional: true,
            strict: setup.strict,
            sync: setup.sync,
            lone_cr_is_text: wire.lone_cr_is_text,
            watch_files: true,
        };
        let mut options = ServerOptions {
            trust_client: !setup.strict,
            ..ServerOptions::default()
        };
        if setup.policy_off {
            options.rules.policy = PolicyName::Off;
        }
        let folders = vec![Folder {
            name: "w".to_string(),
            path: "/w".into(),
        }];
        self.workspace = Workspace::default();
        self.workspace.handle(
            self.now,
            Event::Started {
                client,
                options,
                folders,
            },
        );
    }

    /// Plays one action.
    pub(super) fn play(&mut self, action: &Action) -> Checked {
        if self.trace {
            trace(&format!("{action:?}"));
        }
        match *action {
            Action::Open { file } => self.open(file, 1),
            Action::Close { file, flush } => {
                if flush {
                    self.editor.flush(file, Style::Exact);
                }
                self.editor.close(file);
            }
            Action::Save { file } if file != UNTITLED => {
                if let Some(text) = self.editor.save(file) {
                    self.oracle.is_others(file);
                    self.write(file, Some(text));
                }
            }
            Action::Save { .. } => {}
            Action::Reload { file, same_version } => {
                let lsp_version = self.editor.documents.get(&file).map(|it| it.lsp_version);
                if self.editor.close(file) {
                    self.open(file, lsp_version.filter(|_| same_version).unwrap_or(1));
                }
            }
            Action::Type { file, at, text } => self.editor.type_text(file, at, text),
            Action::Erase { file, at, chars } => self.editor.erase(file, at, chars),
            Action::Undo { file } => self.editor.undo(file),
            Action::Redo { file } => self.editor.redo(file),
            Action::SwitchEol { file } => self.editor.switch_eol(file),
            Action::Flush { file, style } => self.editor.flush(file, style),
            Action::Handle { nth, manner } => return self.handle(nth, manner),
            Action::Garble { file, how } => self.editor.garble(file, how),
            Action::State { file, .. } if file == UNTITLED => {}
            Action::State { file, state } => self.editor.state(file, state),
            Action::Settle { nth, style } => self.editor.settle(usize::from(nth), style),
            Action::Deliver => return self.deliver(),
            Action::Die => self.editor.die(),
            Action::Quit => return self.quit(),
            Action::Crash => self.crash(),
            Action::Meddle { file, how } => self.behind(file, how),
            Action::Hint { file } if file == UNTITLED => {}
            Action::Hint { file } => {
                return self.dispatch(Event::FilesChanged(vec![files::key(file)]), None, None);
            }
            Action::Work { nth, luck } => self.run(usize::from(nth), luck),
            Action::Begin { nth } => self.begin(usize::from(nth)),
            Action::Finish { nth } => return self.finish(usize::from(nth)),
            Action::OpenSession { session } => return self.open_session(session),
            Action::CloseSession { session } => return self.close_session(session),
            Action::Disconnect { connection } => return self.disconnect(connection),
            Action::Read {
                session,
                file,
                from,
                lines,
            } => return self.read(session, file, from, lines),
            Action::Change {
                session,
                ref steps,
                guard,
                dry_run,
            } => return self.change(session, &steps.0, guard, dry_run),
            Action::Observe {
                session,
                file,
                what,
                by,
            } => return self.observe(session, file, what, by),
            Action::Forget { session, file } => return self.forget(session, file),
            Action::NextTurn { session } => {
                *self.turns.entry(session).or_default() += 1;
            }
            Action::Ledger { session, file } => return self.ledger(session, file, false),
            Action::Export { session } => return self.ledger(session, None, true),
            Action::Import { session } => return self.import(session),
            Action::Cancel { nth } => {
                let calls = self.oracle.unanswered();
                if !calls.is_empty() {
                    let id = calls[usize::from(nth) % calls.len()];
                    return self.dispatch(Event::Cancel(CallId(id)), None, None);
                }
            }
            Action::Wait { ms } => return self.wait(ms.into()),
        }
        Ok(())
    }

    fn dispatch(&mut self, event: Event, call: Option<u64>, since: Option<u64>) -> Checked {
        self.n_events += 1;
        for effect in self.workspace.handle(self.now, event) {
            match effect {
                Effect::Reply { id, result } => {
                    if self.trace {
                        trace(&format!("    reply {}: {}", id.0, summary(&result)));
                    }
                    self.oracle.replied(id.0, &result, since)?;
                    if let Ok(Answer::Ledger(result)) = &result
                        && result.export.is_some()
                    {
                        self.exported.clone_from(&result.export);
                    }
                    if let Ok(answer) = result
                        && self.is_at_rest
                    {
                        self.answers.insert(id.0, answer);
                    }
                }
                Effect::Notify { method, params } => {
                    if method == "abreast/ledgerChanged" {
                        if self.trace {
                            trace(&format!("    told {params}"));
                        }
                        self.oracle.told(&params)?;
                    }
                }
                Effect::Ask {
                    ask,
                    method,
                    params,
                } => {
                    let ask = Ask {
                        id: ask,
                        method,
                        params,
                    };
                    if self.trace {
                        trace(&format!("    ask {ask:?}"));
                    }
                    self.oracle.asked(&ask, self.now, call)?;
                    self.editor.inbox.push(ask);
                }
                Effect::Start { job, work } => self.start(job, work)?,
                Effect::Wake(at) => {
                    // As the engine does it: only the next one is kept.
                    self.wake_at = Some(self.wake_at.map_or(at, |it| it.min(at)));
                }
                Effect::Log { level, message } => {
                    if self.trace {
                        trace(&format!("    log {level} {message}"));
                    }
                }
            }
        }
        Ok(())
    }
}

fn name(session: u8) -> String {
    format!("s{session}")
}

fn connection_of(session: Option<u8>) -> ConnectionId {
    if session == Some(2) {
        ConnectionId(1)
    } else {
        ConnectionId::EDITOR
    }
}

fn summary(result: &Result<Answer, Failure>) -> String {
    match result {
        Ok(answer) => format!("{answer:?}"),
        Err(Failure::Fs(err)) => format!("{:?} {}", err.code, err.message()),
        Err(Failure::Params { message, .. }) => message.clone(),
    }
}

#[allow(clippy::print_stderr)]
fn trace(line: &str) {
    eprintln!("{line}");
}
