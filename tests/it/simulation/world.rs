//! The sidecar's core among models of everything around it.
//!
//! Invariant: a run depends on its setup and its actions and on nothing else.

use std::collections::BTreeMap;

use abreast::{
    capabilities::Capabilities,
    disk::{DiskChange, DiskError, DiskErrorKind, DiskFailure},
    error::Failure,
    path::{Folder, Lookups},
    protocol::{
        ApplyParams, Change, CloseSessionParams, LedgerParams, OpenSessionParams, ReadParams,
        ServerOptions, WriteEol,
    },
    text::Text,
    workspace::{
        Answer, CallId, ConnectionId, Context, Effect, Event, JobId, Looked, Millis, Outcome,
        Request, Work, Workspace,
    },
};

use super::{
    action::{Action, Behind, Luck, Manner, Setup, Step, Style},
    editor::{Ask, Editor, Message},
    files::{self, Disk, UNTITLED},
    oracle::{Checked, Invariant, Kind, Oracle, Violation},
    text::{cursor, span, view},
};

/// Nothing has to take longer than this once everybody does what is asked of them.
const REST_MS: Millis = 20_000;

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
            JobState::Waiting(Work::Stage { .. } | Work::Commit { .. })
        )
    }
}

pub(super) struct World {
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
    is_at_rest: bool,
    /// Prints what happens.
    pub(super) trace: bool,
}

impl World {
    pub(super) fn new(setup: Setup, files: &[&str], lenient: bool) -> Self {
        let mut disk = Disk::default();
        let filler = if setup.large {
            "0123456789 the quick brown fox jumps over it\n".repeat(6000)
        } else {
            String::new()
        };
        for (file, text) in files.iter().enumerate() {
            let file = u8::try_from(file).expect("few files");
            disk.files.insert(file, format!("{text}{filler}"));
        }
        let history = disk
            .files
            .iter()
            .map(|(file, text)| (*file, vec![text.clone()]))
            .collect();
        let mut world = Self {
            now: 1_000_000,
            wake_at: None,
            workspace: Workspace::default(),
            editor: Editor::new(setup),
            oracle: Oracle::new(setup, &disk.files, lenient),
            disk,
            history,
            staged: BTreeMap::new(),
            jobs: Vec::new(),
            next_call: 0,
            n_events: 0,
            answers: BTreeMap::new(),
            is_at_rest: false,
            trace: false,
        };
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
        let options = ServerOptions {
            trust_client: !setup.strict,
            ..ServerOptions::default()
        };
        let folders = vec![Folder {
            name: "w".to_string(),
            path: "/w".into(),
        }];
        world.workspace.handle(
            world.now,
            Event::Started {
                client,
                options,
                folders,
            },
        );
        world
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
            Action::Settle { nth, style } => self.editor.settle(usize::from(nth), style),
            Action::Deliver => return self.deliver(),
            Action::Die => self.editor.die(),
            Action::Meddle { file, how } => self.behind(file, how),
            Action::Hint { file } if file == UNTITLED => {}
            Action::Hint { file } => {
                return self.dispatch(Event::FilesChanged(vec![files::key(file)]), None, None);
            }
            Action::Work { nth, luck } => self.run(usize::from(nth), luck),
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
                dry_run,
            } => return self.change(session, &steps.0, dry_run),
            Action::Ledger { session, file } => return self.ledger(session, file),
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

    // ── people, the editor, the disk ────────────────────────────────────────────────────────────────────────────────

    fn open(&mut self, file: u8, lsp_version: i32) {
        let text = self.disk.files.get(&file).cloned().unwrap_or_default();
        self.editor.open(file, &text, lsp_version);
    }

    fn write(&mut self, file: u8, text: Option<String>) {
        match text {
            Some(text) => {
                self.history.entry(file).or_default().push(text.clone());
                self.oracle.disk_is(file, Some(&text));
                self.disk.files.insert(file, text);
            }
            None => {
                self.oracle.disk_is(file, None);
                self.disk.files.remove(&file);
            }
        }
    }

    fn behind(&mut self, file: u8, how: Behind) {
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
        self.write(file, text);
    }

    fn handle(&mut self, nth: u8, manner: Manner) -> Checked {
        for applied in self.editor.handle(usize::from(nth), manner, self.now) {
            if self.trace {
                trace(&format!("    applied {applied:?}"));
            }
            self.oracle.applied(applied)?;
        }
        Ok(())
    }

    fn deliver(&mut self) -> Checked {
        let Some(message) = self.editor.outbox.pop_front() else {
            return Ok(());
        };
        if self.trace {
            trace(&format!("    {message:?}"));
        }
        let event = match message {
            Message::Opened {
                file,
                instance,
                lsp_version,
                text,
            } => {
                self.oracle.opened(file, instance, lsp_version, &text);
                Event::Opened {
                    uri: files::uri(file).to_string(),
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
                Event::Changed {
                    uri: files::uri(file).to_string(),
                    lsp_version,
                    changes: Some(changes),
                }
            }
            Message::Saved { file } => Event::Saved {
                uri: files::uri(file).to_string(),
            },
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

    fn run(&mut self, nth: usize, luck: Luck) {
        let waiting = self.jobs.iter_mut().filter(|it| !it.is_done()).nth(nth);
        let Some(job) = waiting else { return };
        let JobState::Waiting(work) = &job.state else {
            return;
        };
        let mut commit = None;
        let mut is_computed = false;
        let bad = |change: usize| DiskFailure {
            change,
            error: DiskError {
                kind: DiskErrorKind::Io,
                detail: "bad luck".to_string(),
            },
            rolled_back: true,
            unrestored: Vec::new(),
            kept: Vec::new(),
        };
        let mut written = Vec::new();
        let outcome = match work {
            Work::Look { key, like, .. } => {
                let abreast::path::FileKey::Path(path) = key else {
                    unreachable!("only files are looked at")
                };
                Outcome::Looked(match self.disk.files.get(&files::of_path(path)) {
                    Some(text) => Looked::text(Text::flat(text.clone()), like.as_ref()),
                    None => Looked::Absent { near: Vec::new() },
                })
            }
            Work::Stage { changes } => Outcome::Staged(match (luck, self.disk.check(changes)) {
                (_, Err(failure)) => Err(failure),
                (Luck::Bad(n), Ok(())) => Err(bad(usize::from(n) % changes.len())),
                (_, Ok(())) => {
                    self.staged.insert(job.id.0, changes.clone());
                    Ok(vec![false; changes.len()])
                }
            }),
            Work::Commit { staged } => {
                let changes = self
                    .staged
                    .remove(&staged.0)
                    .expect("what is committed was staged");
                let before = self.disk.files.clone();
                let committed = self.disk.commit(&changes, luck);
                for file in changes.iter().flat_map(files::files_of) {
                    let now = self.disk.files.get(&file);
                    if before.get(&file) != now && !written.contains(&(file, now.cloned())) {
                        written.push((file, now.cloned()));
                    }
                }
                commit = committed.is_ok().then_some(staged.0);
                Outcome::Committed(committed)
            }
            Work::Abort { .. } => unreachable!("done at once"),
            Work::Compute(_) => {
                is_computed = true;
                let JobState::Waiting(Work::Compute(compute)) = std::mem::replace(
                    &mut job.state,
                    JobState::Waiting(Work::Abort { staged: job.id }),
                ) else {
                    return;
                };
                compute.run()
            }
        };
        job.state = JobState::Done {
            outcome,
            commit,
            is_computed,
        };
        for (file, text) in written {
            self.write(file, text);
        }
    }

    fn finish(&mut self, nth: usize) -> Checked {
        let Some(idx) = self
            .jobs
            .iter()
            .enumerate()
            .filter(|it| it.1.is_done())
            .map(|it| it.0)
            .nth(nth)
        else {
            return Ok(());
        };
        let Job { id, since, state } = self.jobs.remove(idx);
        let JobState::Done {
            outcome,
            commit,
            is_computed,
        } = state
        else {
            return Ok(());
        };
        if let Some(staged) = commit {
            self.oracle.committed(staged);
        }
        if self.trace {
            let name = format!("{outcome:?}");
            trace(&format!(
                "    job {id:?}: {}",
                name.chars().take(160).collect::<String>()
            ));
        }
        self.dispatch(
            Event::Done { job: id, outcome },
            None,
            is_computed.then_some(since),
        )
    }

    fn wait(&mut self, ms: Millis) -> Checked {
        let until = self.now + ms;
        while let Some(at) = self.wake_at.filter(|it| *it <= until) {
            self.now = self.now.max(at);
            self.wake_at = None;
            self.dispatch(Event::Tick, None, None)?;
        }
        self.now = until;
        Ok(())
    }

    // ── agents ──────────────────────────────────────────────────────────────────────────────────────────────────────

    fn call(&mut self, session: Option<u8>, kind: Kind, request: Request) -> Checked {
        self.next_call += 1;
        let id = self.next_call;
        let known = session.and_then(|it| self.oracle.session(it));
        self.oracle.called(id, known, kind);
        let connection = connection_of(session);
        let paths = self.workspace.paths_of(&request);
        let lookups = Lookups::of(paths, |path| Ok(self.disk.resolve(path)));
        if self.trace {
            trace(&format!("    call {id}: {request:?}"));
        }
        self.dispatch(
            Event::Call {
                id: CallId(id),
                connection,
                request,
                context: Context::default(),
                lookups,
            },
            Some(id),
            None,
        )
    }

    fn open_session(&mut self, session: u8) -> Checked {
        self.oracle.open_session(session);
        let params = OpenSessionParams {
            session_id: Some(name(session)),
            ..OpenSessionParams::default()
        };
        self.call(Some(session), Kind::Other, Request::OpenSession(params))
    }

    fn close_session(&mut self, session: u8) -> Checked {
        self.oracle.close_session(session);
        let params = CloseSessionParams {
            session_id: name(session),
        };
        self.call(Some(session), Kind::Other, Request::CloseSession(params))
    }

    fn disconnect(&mut self, connection: u8) -> Checked {
        for session in 0..3 {
            if connection_of(Some(session)) == ConnectionId(connection.into()) {
                self.oracle.close_session(session);
            }
        }
        self.dispatch(
            Event::Disconnected(ConnectionId(connection.into())),
            None,
            None,
        )
    }

    fn can_name(&self, file: u8) -> bool {
        file != UNTITLED || self.oracle.mirror(file).is_some()
    }

    fn read(&mut self, session: u8, file: u8, from: u8, lines: u8) -> Checked {
        if !self.can_name(file) {
            return Ok(());
        }
        let params = ReadParams {
            session_id: Some(name(session)),
            path: files::path(file).to_string(),
            offset: (from > 0).then(|| from.into()),
            limit: (lines > 0).then(|| lines.into()),
            format: abreast::protocol::Format::Text,
        };
        self.call(Some(session), Kind::Read { file }, Request::Read(params))
    }

    fn change(&mut self, session: u8, steps: &[Step], dry_run: bool) -> Checked {
        let changes: Vec<Change> = steps
            .iter()
            .filter_map(|it| self.resolve(session, *it))
            .collect();
        if changes.is_empty() {
            return Ok(());
        }
        let params = ApplyParams {
            session_id: Some(name(session)),
            changes: changes.clone(),
            call_id: Some((self.next_call + 1).to_string()),
            label: None,
            dry_run,
        };
        let is_apply = changes.len() > 1;
        self.call(
            Some(session),
            Kind::Change { changes, dry_run },
            Request::Change { params, is_apply },
        )
    }

    /// A change in the words of the protocol; what is replaced is what the session saw last.
    fn resolve(&self, session: u8, step: Step) -> Option<Change> {
        let seen = |file: u8| {
            let session = self.oracle.session(session)?;
            Some(self.oracle.last_seen(session, file)??.to_string())
        };
        // Who has not seen a file guesses.
        let guess = |file: u8| {
            let raw = self
                .oracle
                .mirror(file)
                .map(|it| &it.text)
                .or_else(|| self.disk.files.get(&file));
            seen(file).unwrap_or_else(|| raw.map(|it| view(it)).unwrap_or_default())
        };
        let path = |file: u8| self.can_name(file).then(|| files::path(file).to_string());
        Some(match step {
            Step::Edit {
                file,
                at,
                chars,
                new,
                all,
            } => {
                let text = guess(file);
                let range = span(&text, cursor(&text, at), chars.max(1));
                let old_string = if range.is_empty() {
                    "nothing".to_string()
                } else {
                    text[range].to_string()
                };
                Change::Edit {
                    path: path(file)?,
                    old_string,
                    new_string: new.to_string(),
                    replace_all: all,
                    unicode_fallback: None,
                    guard: None,
                }
            }
            Step::Write { file, text, keep } => {
                let seen = if keep { guess(file) } else { String::new() };
                Change::Write {
                    path: path(file)?,
                    content: format!("{text}{seen}"),
                    eol: WriteEol::Keep,
                    guard: None,
                }
            }
            Step::Delete { file } => Change::Delete {
                path: path(file)?,
                guard: None,
            },
            Step::Rename { file, to } => Change::Rename {
                path: path(file)?,
                new_path: path(to)?,
                guard: None,
            },
        })
    }

    fn ledger(&mut self, session: u8, file: Option<u8>) -> Checked {
        if file.is_some_and(|it| !self.can_name(it)) {
            return Ok(());
        }
        let path = file.map(|it| files::path(it).to_string());
        let params = LedgerParams {
            session_id: name(session),
            path,
            export: false,
        };
        self.call(Some(session), Kind::Ledger, Request::Ledger(params))
    }

    // ── the core ────────────────────────────────────────────────────────────────────────────────────────────────────

    fn dispatch(&mut self, event: Event, call: Option<u64>, since: Option<u64>) -> Checked {
        self.n_events += 1;
        for effect in self.workspace.handle(self.now, event) {
            match effect {
                Effect::Reply { id, result } => {
                    if self.trace {
                        trace(&format!("    reply {}: {}", id.0, summary(&result)));
                    }
                    self.oracle.replied(id.0, &result, since)?;
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
                        ask,
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

    fn start(&mut self, job: JobId, work: Work) -> Checked {
        if self.trace {
            let name = format!("{work:?}");
            trace(&format!(
                "    start {job:?}: {}",
                name.chars().take(200).collect::<String>()
            ));
        }
        match &work {
            Work::Abort { staged } => {
                self.staged.remove(&staged.0);
                return Ok(());
            }
            Work::Stage { changes } => self.oracle.staged(job.0, changes)?,
            Work::Commit { staged } => {
                let changes = self.staged.get(&staged.0).cloned().unwrap_or_default();
                self.oracle.granted(staged.0, &changes)?;
            }
            Work::Look { .. } | Work::Compute(_) => {}
        }
        let since = self.oracle.tick();
        self.jobs.push(Job {
            id: job,
            since,
            state: JobState::Waiting(work),
        });
        Ok(())
    }

    // ── rest ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Lets everything come to rest, everybody doing what they should, and checks what must be so then.
    pub(super) fn rest(&mut self) -> Checked {
        self.is_at_rest = true;
        self.settle()?;
        let left = self.oracle.unanswered();
        if !left.is_empty() || self.workspace.n_calls() > 0 {
            return Err(Violation {
                invariant: Invariant::Answered,
                detail: format!("calls {left:?} are not answered"),
            });
        }
        if !self.staged.is_empty() {
            return Err(Violation {
                invariant: Invariant::AllOrNone,
                detail: "something is staged, and neither committed nor aborted".to_string(),
            });
        }
        let sessions: Vec<(usize, u8)> = self
            .oracle
            .sessions
            .iter()
            .enumerate()
            .filter(|it| it.1.live)
            .map(|(idx, it)| (idx, it.name))
            .collect();
        for (idx, _) in &sessions {
            self.oracle.check_told(*idx)?;
        }
        for file in self.editor.documents.keys().copied().collect::<Vec<_>>() {
            self.check_text(file)?;
        }
        for (idx, name) in sessions {
            self.ledger(name, None)?;
            let id = self.next_call;
            self.settle()?;
            match self.answers.remove(&id) {
                Some(Answer::Ledger(result)) => self.oracle.check_ledger(idx, &result.entries)?,
                _ => {
                    return Err(Violation {
                        invariant: Invariant::Answered,
                        detail: "no ledger was answered".to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Checked {
        let until = self.now + REST_MS;
        loop {
            let mut is_busy = false;
            while !self.editor.held.is_empty() {
                self.editor.settle(0, Style::Exact);
                is_busy = true;
            }
            while !self.editor.inbox.is_empty() {
                self.handle(0, Manner::Right(Style::Exact))?;
                is_busy = true;
            }
            for file in self.editor.documents.keys().copied().collect::<Vec<_>>() {
                self.editor.flush(file, Style::Exact);
            }
            while !self.editor.outbox.is_empty() {
                self.deliver()?;
                is_busy = true;
            }
            while !self.jobs.is_empty() {
                self.run(0, Luck::Good);
                self.finish(0)?;
                is_busy = true;
            }
            if is_busy {
                continue;
            }
            match self.wake_at {
                Some(at) if at <= until => self.wait(at.saturating_sub(self.now))?,
                _ => return Ok(()),
            }
        }
    }

    fn check_text(&mut self, file: u8) -> Checked {
        let params = ReadParams {
            session_id: None,
            path: files::path(file).to_string(),
            offset: None,
            limit: None,
            format: abreast::protocol::Format::Text,
        };
        self.call(None, Kind::Read { file }, Request::Read(params))?;
        let id = self.next_call;
        self.settle()?;
        let is = self
            .editor
            .documents
            .get(&file)
            .map(|it| view(&it.text))
            .unwrap_or_default();
        let wrong = |what: String| Violation {
            invariant: Invariant::Text,
            detail: format!("{}: {what}", files::path(file)),
        };
        match self.answers.remove(&id) {
            Some(Answer::Read(result)) if result.truncated || result.text == is => Ok(()),
            Some(Answer::Read(result)) => Err(wrong(format!(
                "the editor has {is:?}, the sidecar {:?}",
                result.text
            ))),
            _ => Err(wrong("it cannot be read".to_string())),
        }
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
