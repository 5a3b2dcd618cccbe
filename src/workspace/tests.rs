//! One call over open documents and closed files, and a human who does something at every single step of it.
//!
//! Everything that is on its way stands in one queue; between two of its items the human, or another program, acts.
//! Then all files are as planned, or none is, or the answer says honestly what each holds; and what was typed is there.

mod authors;
mod closing;
mod commits;
mod halves;
mod hand_over;
mod large;
mod late;
mod looks;
mod names;
mod observing;
mod refusals;
mod remembering;
mod reports;
mod sessions;
mod telling;
mod unsaved;
mod waiting;

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::*;
use crate::{
    disk::{DiskChange, DiskError, DiskErrorKind, DiskFailure, Resolved},
    large::set_limit,
    protocol::{
        ApplyParams, ApplyResult, ContentChange, FileResult, OpenSessionParams, Outcome as Became,
        Range, ReadParams,
    },
    text::buffer::{Encoding, Position},
};

/// What is typed: nobody else writes it, so it can be looked for and left out.
const TYPED: char = '~';
const OPEN: [&str; 2] = ["/w/open.txt", "/w/second.txt"];
const OLD: &str = "first\nalpha\nmiddle\nomega\nlast\n";
const NEW: &str = "first\nALPHA!\nmiddle\nOMEGA!\nlast\n";

/// What somebody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Nothing,
    TypeBefore,
    TypeAfter,
    TypeInside,
    /// Takes the place of the second of our spans.
    TypeOver,
    TypeInSecond,
    Undo,
    Close,
    SaveAndClose,
    Reload,
    OpenClosed,
    CloseSecond,
    Meddle,
    /// The editor dies.
    End,
    /// The editor answers no edit any more.
    FallSilent,
}

const ACTS: [Act; 15] = [
    Act::Nothing,
    Act::TypeBefore,
    Act::TypeAfter,
    Act::TypeInside,
    Act::TypeOver,
    Act::TypeInSecond,
    Act::Undo,
    Act::Close,
    Act::SaveAndClose,
    Act::Reload,
    Act::OpenClosed,
    Act::CloseSecond,
    Act::Meddle,
    Act::End,
    Act::FallSilent,
];

impl Act {
    fn is_typing(self) -> bool {
        matches!(
            self,
            Self::TypeBefore
                | Self::TypeAfter
                | Self::TypeInside
                | Self::TypeOver
                | Self::TypeInSecond
                | Self::Undo
        )
    }
}

/// What the disk does with the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Luck {
    Good,
    StageFails,
    CommitFails,
    /// It fails, and the first change stays.
    CommitSticks,
}

struct Document {
    text: String,
    instance: u32,
    lsp_version: i32,
    undo: Vec<String>,
}

enum Item {
    Event(Box<Event>),
    Ask(AskId, &'static str, Value),
    Work(JobId, Work),
}

struct Bench {
    workspace: Workspace,
    now: Millis,
    queue: VecDeque<Item>,
    documents: BTreeMap<String, Document>,
    /// What the core has been told of them.
    told: BTreeMap<String, String>,
    /// What it could know of all files when it answered.
    known: BTreeMap<&'static str, String>,
    instances: BTreeMap<String, u32>,
    disk: BTreeMap<PathBuf, String>,
    /// What of it is no text.
    binary: BTreeSet<PathBuf>,
    /// Links, with what they lead to.
    links: BTreeMap<PathBuf, PathBuf>,
    staged: BTreeMap<JobId, Vec<DiskChange>>,
    recalled: BTreeSet<JobId>,
    /// The commits that were called back in time.
    n_recalled: usize,
    luck: Luck,
    answers_first: bool,
    /// It answers no edit any more.
    is_silent: bool,
    /// It answers no barrier any more.
    is_mute: bool,
    replies: Vec<Result<Answer, Failure>>,
    /// What the editor's connection was told.
    notes: Vec<(&'static str, Value)>,
    logs: Vec<String>,
    wake: Option<Millis>,
}

/// What only the editor has is named by its URI.
fn uri(path: &str) -> String {
    if path.starts_with('/') {
        format!("file://{path}")
    } else {
        path.to_string()
    }
}

fn path_of(uri: &str) -> &str {
    uri.strip_prefix("file://").unwrap_or(uri)
}

fn position(text: &str, byte: usize) -> Position {
    let before = &text[..byte];
    let line = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |it| it + 1);
    let number = |it| u32::try_from(it).expect("short");
    Position {
        line: number(line),
        character: number(byte - start),
    }
}

fn byte(text: &str, position: Position) -> usize {
    let line = usize::try_from(position.line).expect("short");
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    start + usize::try_from(position.character).expect("short")
}

impl Bench {
    fn new(has_sync: bool, answers_first: bool, luck: Luck) -> Self {
        let files = [
            (OPEN[0], OLD),
            (OPEN[1], OLD),
            ("/w/closed.txt", OLD),
            ("/w/gone.txt", "gone\n"),
            ("/w/moved.txt", OLD),
        ];
        let mut bench = Self {
            workspace: Workspace::default(),
            now: 1_000_000,
            queue: VecDeque::new(),
            documents: BTreeMap::new(),
            told: BTreeMap::new(),
            known: BTreeMap::new(),
            instances: BTreeMap::new(),
            disk: files.map(|it| (it.0.into(), it.1.to_string())).into(),
            binary: BTreeSet::new(),
            links: BTreeMap::new(),
            staged: BTreeMap::new(),
            recalled: BTreeSet::new(),
            n_recalled: 0,
            luck: Luck::Good,
            answers_first,
            is_silent: false,
            is_mute: false,
            replies: Vec::new(),
            notes: Vec::new(),
            logs: Vec::new(),
            wake: None,
        };
        bench.send(Event::Started {
            client: Capabilities {
                encoding: Encoding::Utf8,
                apply_edit: true,
                transactional: true,
                strict: true,
                sync: has_sync,
                lone_cr_is_text: false,
                watch_files: true,
            },
            options: ServerOptions::default(),
            folders: vec![Folder {
                name: "w".to_string(),
                path: "/w".into(),
            }],
        });
        for path in OPEN {
            bench.open(path);
        }
        bench.call(Request::OpenSession(OpenSessionParams {
            session_id: Some("s".to_string()),
            ..OpenSessionParams::default()
        }));
        for (path, _) in files {
            let params = json!({ "sessionId": "s", "path": path });
            let params: ReadParams = serde_json::from_value(params).expect("a read");
            bench.call(Request::Read(params));
        }
        while bench.step() {}
        assert!(
            bench.replies.iter().all(Result::is_ok),
            "{:?}",
            bench.replies
        );
        bench.replies.clear();
        bench.notes.clear();
        bench.logs.clear();
        bench.luck = luck;
        bench
    }

    fn send(&mut self, event: Event) {
        self.now += 1;
        match &event {
            Event::Opened { uri, text, .. } => {
                self.told.insert(path_of(uri).to_string(), text.clone());
            }
            Event::Closed { uri } => {
                self.told.remove(path_of(uri));
            }
            Event::Ended => self.told.clear(),
            Event::Changed { uri, changes, .. } => {
                let text = self.told.get_mut(path_of(uri)).expect("it is open");
                for change in changes.iter().flatten() {
                    let whole = 0..text.len();
                    let range = change.range;
                    let range = range.map(|it| byte(text, it.start)..byte(text, it.end));
                    text.replace_range(range.unwrap_or(whole), &change.text);
                }
            }
            _ => {}
        }
        self.take(event);
    }

    /// Has the core take an event, whatever it makes of it.
    fn take(&mut self, event: Event) {
        for effect in self.workspace.handle(self.now, event) {
            match effect {
                Effect::Reply { result, .. } => {
                    self.replies.push(result);
                    let known = FILES.iter().filter_map(|(path, ..)| {
                        let told = self.told.get(*path);
                        Some((
                            *path,
                            told.or_else(|| self.disk.get(Path::new(path)))?.clone(),
                        ))
                    });
                    self.known = known.collect();
                }
                Effect::Ask {
                    ask,
                    method,
                    params,
                } => self.queue.push_back(Item::Ask(ask, method, params)),
                Effect::Start {
                    work: Work::Recall { commit },
                    ..
                } => {
                    self.recalled.insert(commit);
                }
                Effect::Start { job, work } => {
                    if let Work::Commit { staged } = &work {
                        let mut paths = self.staged[staged].iter().map(path_changed);
                        let open = paths.find(|it| self.told.contains_key(*it));
                        assert_eq!(open, None, "it is granted though it is known to be open");
                    }
                    self.queue.push_back(Item::Work(job, work));
                }
                Effect::Wake(at) => self.wake = Some(self.wake.map_or(at, |it| it.min(at))),
                Effect::Notify { method, params } => self.notes.push((method, params)),
                Effect::Log { message, .. } => self.logs.push(message),
            }
        }
    }

    fn arrive(&mut self, event: Event) {
        self.queue.push_back(Item::Event(Box::new(event)));
    }

    fn call(&mut self, request: Request) {
        self.call_from(ConnectionId::EDITOR, request);
    }

    fn call_from(&mut self, connection: ConnectionId, request: Request) {
        let paths = self.workspace.paths_of(&request);
        let lookups = Lookups::of(paths, |path| {
            let target = self.links.get(path);
            let resolved = target.map_or(path, PathBuf::as_path);
            Ok(Resolved {
                path: resolved.to_path_buf(),
                exists: self.disk.contains_key(resolved),
                is_link: target.is_some(),
            })
        });
        let id = CallId(self.workspace.new_id());
        self.arrive(Event::Call {
            id,
            connection,
            request,
            context: Context::default(),
            lookups,
        });
    }

    /// Does what is next; false if nothing is on its way.
    fn step(&mut self) -> bool {
        let Some(item) = self.queue.pop_front() else {
            return false;
        };
        match item {
            Item::Event(event) => self.send(*event),
            Item::Ask(_, "abreast/sync", _) if self.is_mute => {}
            Item::Ask(ask, "abreast/sync", params) => {
                let uris = params["uris"].as_array().expect("uris").iter();
                let known = uris.filter_map(|it| {
                    let document = self.documents.get(path_of(it.as_str()?))?;
                    let state =
                        json!({ "instance": document.instance, "version": document.lsp_version });
                    Some((it.as_str()?.to_string(), state))
                });
                let known: serde_json::Map<_, _> = known.collect();
                let answer = Ok(json!({ "documents": known }));
                self.arrive(Event::Answered { ask, answer });
            }
            Item::Ask(..) if self.is_silent => {}
            Item::Ask(ask, _, params) => self.apply(ask, &params),
            Item::Work(job, work) => self.work(job, work),
        }
        true
    }

    fn ask_to_apply(&mut self, changes: Vec<Change>) {
        self.call(Request::Change {
            params: ApplyParams {
                session_id: Some("s".to_string()),
                changes,
                call_id: None,
                label: None,
                dry_run: false,
            },
            is_apply: true,
        });
    }

    /// Another session reads a file.
    fn join(&mut self, session_id: &str, path: &str) {
        self.call(Request::OpenSession(OpenSessionParams {
            session_id: Some(session_id.to_string()),
            ..OpenSessionParams::default()
        }));
        let params = json!({ "sessionId": session_id, "path": path });
        let params = serde_json::from_value(params).expect("a read");
        self.call(Request::Read(params));
        self.settle();
        self.replies.clear();
    }

    /// Does what comes before the editor is asked for this, and leaves the answer to the test.
    fn up_to(&mut self, wanted: &str) -> (AskId, Value) {
        loop {
            if let Some(Item::Ask(_, method, _)) = self.queue.front()
                && *method == wanted
                && let Some(Item::Ask(ask, _, params)) = self.queue.pop_front()
            {
                return (ask, params);
            }
            assert!(self.step(), "the editor is not asked for {wanted}");
        }
    }

    /// Lets time go by, and nothing else happen, until a call is answered; says when that is.
    fn wait(&mut self) -> Millis {
        let mut at = self.now;
        while self.replies.is_empty() {
            at = self.wake.take().expect("somebody is to be woken");
            self.now = self.now.max(at);
            self.send(Event::Tick);
        }
        at
    }

    /// How the call ended that was answered last.
    fn ended(&mut self) -> Option<Code> {
        match self.replies.pop().expect("it is answered") {
            Ok(_) => None,
            Err(Failure::Fs(err)) => Some(err.code),
            Err(err @ Failure::Params { .. }) => panic!("{err:?}"),
        }
    }

    fn refused(&mut self) -> FsError {
        match self.replies.pop() {
            Some(Err(Failure::Fs(err))) => *err,
            other => panic!("{other:?}"),
        }
    }

    /// The editor applies an edit as a strict client does.
    fn apply(&mut self, ask: AskId, params: &Value) {
        let edits = params["edit"]["documentChanges"]
            .as_array()
            .expect("changes");
        let details = params["abreast"]["documents"].as_array().expect("details");
        let is_current = edits.iter().zip(details).all(|(edit, detail)| {
            let named = &edit["textDocument"];
            let document = self
                .documents
                .get(path_of(named["uri"].as_str().expect("a uri")));
            document.is_some_and(|it| {
                json!(it.lsp_version) == named["version"]
                    && json!(it.instance) == detail["instance"]
            })
        });
        let answer = if is_current {
            json!({ "applied": true })
        } else {
            json!({ "applied": false, "abreast": { "code": "version" } })
        };
        let answer = Event::Answered {
            ask,
            answer: Ok(answer),
        };
        if self.answers_first && is_current {
            self.arrive(answer);
            self.apply_all(edits);
        } else {
            if is_current {
                self.apply_all(edits);
            }
            self.arrive(answer);
        }
    }

    fn apply_all(&mut self, edits: &[Value]) {
        for edit in edits {
            let path = path_of(edit["textDocument"]["uri"].as_str().expect("a uri")).to_string();
            let mut text = self.documents[&path].text.clone();
            for edit in edit["edits"].as_array().expect("edits").iter().rev() {
                let range: Range = serde_json::from_value(edit["range"].clone()).expect("a range");
                let range = byte(&text, range.start)..byte(&text, range.end);
                text.replace_range(range, edit["newText"].as_str().expect("a text"));
            }
            self.set(&path, text);
        }
    }

    /// Gives a document another text and reports the span that differs.
    fn set(&mut self, path: &str, text: String) {
        let Some(document) = self.documents.get_mut(path) else {
            return;
        };
        let old = std::mem::replace(&mut document.text, text);
        let new = &document.text;
        let head = old
            .bytes()
            .zip(new.bytes())
            .take_while(|it| it.0 == it.1)
            .count();
        let most = old.len().min(new.len()) - head;
        let tails = old.bytes().rev().zip(new.bytes().rev());
        let tail = tails.take(most).take_while(|it| it.0 == it.1).count();
        let change = ContentChange {
            range: Some(Range {
                start: position(&old, head),
                end: position(&old, old.len() - tail),
            }),
            range_length: None,
            text: new[head..new.len() - tail].to_string(),
            halves: Vec::new(),
        };
        document.lsp_version += 1;
        document.undo.push(old);
        let lsp_version = document.lsp_version;
        self.arrive(Event::Changed {
            uri: uri(path),
            lsp_version,
            changes: Some(vec![change]),
        });
    }

    fn open(&mut self, path: &str) {
        if let Some(text) = self.disk.get(Path::new(path)).cloned()
            && !self.documents.contains_key(path)
        {
            self.open_as(path, FileKey::Path(path.into()), text);
        }
    }

    /// Opens a document with a text of its own.
    fn open_as(&mut self, path: &str, key: FileKey, text: String) {
        let instance = self.instances.entry(path.to_string()).or_default();
        *instance += 1;
        let document = Document {
            text: text.clone(),
            instance: *instance,
            lsp_version: 1,
            undo: Vec::new(),
        };
        self.documents.insert(path.to_string(), document);
        self.arrive(Event::Opened {
            uri: uri(path),
            key,
            lsp_version: 1,
            text,
        });
    }

    fn close(&mut self, path: &str) {
        if self.documents.remove(path).is_some() {
            self.arrive(Event::Closed { uri: uri(path) });
        }
    }

    fn work(&mut self, job: JobId, work: Work) {
        let failed = |change, kind, unrestored| DiskFailure {
            change,
            error: DiskError::new(kind, "as was ordered"),
            unrestored,
            kept: Vec::new(),
        };
        let outcome = match work {
            Work::Look { key, like, .. } => {
                let FileKey::Path(path) = &key else {
                    panic!("a look at {key}")
                };
                Outcome::Looked(match self.disk.get(path) {
                    _ if self.binary.contains(path) => {
                        Looked::Refused(DiskError::new(DiskErrorKind::NotText, "it is no UTF-8"))
                    }
                    Some(text) => Looked::text(Text::flat(text.clone()), like.as_ref()),
                    None => Looked::Absent { near: Vec::new() },
                })
            }
            Work::Stage { changes } => Outcome::Staged(if self.luck == Luck::StageFails {
                let last = changes.len() - 1;
                Err(failed(last, DiskErrorKind::Io, Vec::new()))
            } else if let Some(change) = changed(&mut self.disk.clone(), &changes) {
                Err(failed(change, DiskErrorKind::Stale, Vec::new()))
            } else {
                let in_place = vec![false; changes.len()];
                self.staged.insert(job, changes);
                Ok(in_place)
            }),
            Work::Commit { staged } => {
                let changes = self.staged.remove(&staged).expect("it was staged");
                let mut disk = self.disk.clone();
                Outcome::Committed(if self.recalled.contains(&job) {
                    self.n_recalled += 1;
                    Err(failed(0, DiskErrorKind::Stale, Vec::new()))
                } else if self.luck == Luck::CommitFails {
                    Err(failed(0, DiskErrorKind::Io, Vec::new()))
                } else if let Some(change) = changed(&mut disk, &changes) {
                    Err(failed(change, DiskErrorKind::Stale, Vec::new()))
                } else if self.luck == Luck::CommitSticks {
                    changed(&mut self.disk, &changes[..1]);
                    Err(failed(1, DiskErrorKind::Io, vec![0]))
                } else {
                    self.disk = disk;
                    Ok(())
                })
            }
            Work::Abort { staged } => {
                self.staged.remove(&staged);
                return;
            }
            Work::Recall { .. } => unreachable!("it overtakes the commit"),
            Work::Compute(compute) => compute.run(),
        };
        self.arrive(Event::Done { job, outcome });
    }

    fn act(&mut self, act: Act) {
        let text = self.documents.get(OPEN[0]).map(|it| it.text.clone());
        let with = |at: Option<usize>| {
            let mut text = text.clone()?;
            text.insert(at?, TYPED);
            Some(text)
        };
        let find = |names: [&str; 2]| {
            let text = text.as_ref()?;
            names.iter().find_map(|it| text.find(it))
        };
        let typed = match act {
            Act::Nothing => None,
            Act::TypeBefore => with(Some(0)),
            Act::TypeAfter => with(text.as_ref().map(String::len)),
            Act::TypeInside => with(find(["ALPHA", "alpha"]).map(|it| it + 2)),
            Act::TypeOver => find(["OMEGA", "omega"]).and_then(|at| {
                let mut text = text.clone()?;
                text.replace_range(at..at + 5, &TYPED.to_string());
                Some(text)
            }),
            Act::TypeInSecond => {
                if let Some(second) = self.documents.get(OPEN[1]) {
                    let text = format!("{TYPED}{}", second.text);
                    self.set(OPEN[1], text);
                }
                None
            }
            Act::Undo => {
                let document = self.documents.get_mut(OPEN[0]);
                document.and_then(|it| it.undo.pop())
            }
            Act::Close => {
                self.close(OPEN[0]);
                None
            }
            Act::SaveAndClose => {
                self.disk
                    .extend(text.clone().map(|it| (OPEN[0].into(), it)));
                self.arrive(Event::Saved { uri: uri(OPEN[0]) });
                self.close(OPEN[0]);
                None
            }
            Act::Reload => {
                self.close(OPEN[0]);
                self.open(OPEN[0]);
                None
            }
            Act::OpenClosed => {
                self.open("/w/closed.txt");
                None
            }
            Act::CloseSecond => {
                self.close(OPEN[1]);
                None
            }
            Act::End => {
                self.documents.clear();
                self.arrive(Event::Ended);
                None
            }
            Act::Meddle => {
                let file = self.disk.get_mut(Path::new("/w/closed.txt"));
                file.expect("it is never moved").push(TYPED);
                None
            }
            Act::FallSilent => {
                self.is_silent = true;
                None
            }
        };
        if let Some(text) = typed {
            self.set(OPEN[0], text);
        }
    }

    fn n_typed(&self) -> usize {
        let texts = self.documents.values().map(|it| &it.text);
        let texts: Vec<_> = texts.chain(self.disk.values()).collect();
        texts.iter().map(|it| it.matches(TYPED).count()).sum()
    }
}

fn path_changed(change: &DiskChange) -> &str {
    let path = match change {
        DiskChange::Create { path, .. }
        | DiskChange::Replace { path, .. }
        | DiskChange::Delete { path, .. } => path,
        DiskChange::Rename { to, .. } => to,
    };
    path.to_str().expect("plain names")
}

/// Makes changes; returns the first that cannot be made.
fn changed(disk: &mut BTreeMap<PathBuf, String>, changes: &[DiskChange]) -> Option<usize> {
    let raw = |text: &Text| text.raw(0..text.len_bytes());
    changes.iter().position(|change| {
        let (path, expected) = match change {
            DiskChange::Create { path, .. } => (path, None),
            DiskChange::Replace { path, expected, .. } | DiskChange::Delete { path, expected } => {
                (path, Some(raw(expected)))
            }
            DiskChange::Rename { from, expected, .. } => (from, Some(raw(expected))),
        };
        if disk.get(path) != expected.as_ref() {
            return true;
        }
        match change {
            DiskChange::Create { path, text } | DiskChange::Replace { path, text, .. } => {
                disk.insert(path.clone(), raw(text));
            }
            DiskChange::Delete { path, .. } => {
                disk.remove(path);
            }
            DiskChange::Rename { from, to, .. } => {
                if disk.contains_key(to) {
                    return true;
                }
                let text = disk.remove(from).expect("it was looked at");
                disk.insert(to.clone(), text);
            }
        }
        false
    })
}

/// Path, before, after.
type Expected = [(&'static str, Option<&'static str>, Option<&'static str>); 7];

const FILES: Expected = [
    (OPEN[0], Some(OLD), Some(NEW)),
    (OPEN[1], Some(OLD), Some(NEW)),
    ("/w/closed.txt", Some(OLD), Some(NEW)),
    ("/w/new.txt", None, Some("new\n")),
    ("/w/gone.txt", Some("gone\n"), None),
    ("/w/moved.txt", Some(OLD), None),
    ("/w/deep/moved.txt", None, Some(NEW)),
];

fn changes() -> Vec<Change> {
    let edit = |path: &str, old: &str| json!({ "kind": "edit", "path": path, "oldString": old, "newString": format!("{}!", old.to_uppercase()) });
    let both = |path: &str| [edit(path, "alpha"), edit(path, "omega")];
    let others = [
        json!({ "kind": "write", "path": "/w/new.txt", "content": "new\n" }),
        json!({ "kind": "delete", "path": "/w/gone.txt" }),
        json!({ "kind": "rename", "path": "/w/moved.txt", "newPath": "/w/deep/moved.txt" }),
    ];
    let edits = [OPEN[0], "/w/closed.txt", OPEN[1]].map(both).concat();
    let all = [edits, others.to_vec(), both("/w/deep/moved.txt").to_vec()].concat();
    let parsed = all.into_iter().map(serde_json::from_value);
    parsed.collect::<Result<_, _>>().expect("changes")
}

/// What the call does to a file, in the words of a message.
fn verb(path: &str) -> &'static str {
    match path {
        "/w/new.txt" => "write",
        "/w/gone.txt" => "delete",
        "/w/moved.txt" | "/w/deep/moved.txt" => "rename",
        _ => "edit",
    }
}

fn without_typed(text: Option<&String>) -> Option<String> {
    text.map(|it| it.replace(TYPED, ""))
}

/// What does not change in a run.
#[derive(Debug, Clone, Copy)]
struct Setup {
    has_sync: bool,
    answers_first: bool,
    /// All texts count as so large that work on them is given away.
    is_large: bool,
}

/// How many steps the call took, and how it ended.
fn play(setup: Setup, luck: Luck, act: Act, at: usize) -> (usize, String) {
    set_limit(setup.is_large.then_some(0));
    let mut bench = Bench::new(setup.has_sync, setup.answers_first, luck);
    bench.ask_to_apply(changes());
    let mut n_steps = 0;
    let mut n_typed = 0;
    loop {
        if n_steps == at {
            bench.act(act);
            n_typed = bench.n_typed();
        }
        if !bench.step() {
            let Some(wake) = bench.wake.take() else {
                break;
            };
            bench.now = bench.now.max(wake);
            bench.send(Event::Tick);
        }
        n_steps += 1;
        assert!(n_steps < 1000, "it does not end");
    }
    set_limit(None);
    let context = format!("{act:?} at {at}, {luck:?}, {setup:?}");
    assert_eq!(bench.workspace.n_calls(), 0, "{context}: unanswered");
    assert!(bench.staged.is_empty(), "{context}: staged and left");
    assert_eq!(bench.replies.len(), 1, "{context}");
    assert!(
        bench.n_typed() >= n_typed,
        "{context}: what was typed is gone"
    );
    if bench.n_recalled > 0 {
        for (path, old, _) in FILES {
            let held = bench.disk.get(Path::new(path)).map(String::as_str);
            assert_eq!(
                held, old,
                "{context}: {path} on disk, though it was called back"
            );
        }
    }
    let ended = match bench.replies.remove(0) {
        Ok(Answer::Applied(ApplyResult { .. })) => {
            for (path, _, new) in FILES {
                // What happened once a document was known to be changed is the human's business.
                let is_open = OPEN.contains(&path);
                let is_dropped = match act {
                    Act::Undo | Act::TypeOver => path == OPEN[0],
                    _ => false,
                };
                if !(is_open && is_dropped) {
                    let held = without_typed(bench.known.get(path));
                    assert_eq!(held.as_deref(), new, "{context}: {path} after a success");
                }
            }
            "applied".to_string()
        }
        Ok(answer) => panic!("{context}: {answer:?}"),
        Err(Failure::Params { message, .. }) => panic!("{context}: {message}"),
        Err(Failure::Fs(err)) if err.code == Code::FsPartiallyApplied => {
            assert_eq!(err.files.len(), 6, "{context}");
            for file in &err.files {
                check_outcome(&bench, &context, file);
                // What a silent editor does, and what another text than was committed comes from, nobody knows.
                let may_be_open = [Act::FallSilent, Act::OpenClosed].contains(&act);
                let is_known = file.outcome != Became::Unknown;
                assert!(is_known || may_be_open, "{context}: {}", file.path);
                // A human who saved it, or undid the taking back, wants it so; nobody else leaves anything.
                let is_wanted = [Act::SaveAndClose, Act::Undo].contains(&act);
                let may_stay = luck != Luck::CommitFails || is_wanted;
                let stays = file.outcome == Became::Applied;
                assert!(may_stay || !stays, "{context}: {} was left", file.path);
            }
            let names = err.files.iter().map(|it| format!("{:?}", it.outcome));
            names.collect::<Vec<_>>().join(" ")
        }
        Err(Failure::Fs(err)) => {
            if let Some(path) = err.path.as_deref() {
                let start = format!("cannot {} ", verb(path));
                assert!(err.what.starts_with(&start), "{context}: {}", err.what);
            }
            for (path, old, _) in FILES {
                let is_typed_over = act == Act::TypeOver && path == OPEN[0];
                // What is typed into an edit while it is compared makes it none that is known; that is told.
                let is_unknown =
                    err.code == Code::FsUnverified && act.is_typing() && OPEN.contains(&path);
                if !is_typed_over && !is_unknown {
                    let held = without_typed(bench.known.get(path));
                    assert_eq!(held.as_deref(), old, "{context}: {path} after {}", err.what);
                }
            }
            format!("{:?}", err.code)
        }
    };
    (n_steps, ended)
}

fn check_outcome(bench: &Bench, context: &str, file: &FileResult) {
    let held = bench.known.get(file.path.as_str());
    let row = FILES
        .iter()
        .find(|it| it.0 == file.path)
        .expect("a file of the call");
    let plain = without_typed(held);
    let context = format!("{context}: {} is {:?}", file.path, file.outcome);
    match file.outcome {
        Became::Applied => assert_eq!(plain.as_deref(), row.2, "{context}"),
        Became::RolledBack => assert_eq!(plain.as_deref(), row.1, "{context}"),
        Became::KeptHuman => assert!(held.is_some_and(|it| it.contains(TYPED)), "{context}"),
        Became::Unknown => {}
    }
}

#[test]
fn whatever_a_human_does_at_any_step_all_files_change_or_none_or_it_is_told() {
    let mut ends: BTreeMap<(Luck, String), usize> = BTreeMap::new();
    let mut n_runs = 0;
    let setups = [
        (true, false, false),
        (true, true, false),
        (false, false, false),
        (true, false, true),
    ];
    for (has_sync, answers_first, is_large) in setups {
        let setup = Setup {
            has_sync,
            answers_first,
            is_large,
        };
        for luck in [
            Luck::Good,
            Luck::StageFails,
            Luck::CommitFails,
            Luck::CommitSticks,
        ] {
            for act in ACTS {
                // What was compared elsewhere may be another text when the answer goes out; the simulation knows which.
                if is_large && [Act::TypeOver, Act::SaveAndClose].contains(&act) {
                    continue;
                }
                let mut at = 0;
                loop {
                    let (n_steps, ended) = play(setup, luck, act, at);
                    *ends.entry((luck, ended)).or_default() += 1;
                    n_runs += 1;
                    at += 1;
                    if at > n_steps {
                        break;
                    }
                }
            }
        }
    }
    eprintln!("{n_runs} runs");
    for ((luck, ended), n) in &ends {
        eprintln!("{luck:?}: {n} times {ended}");
    }
    // Every kind of end has to be met, or nothing was tested.
    let has = |luck: Luck, end: &str| ends.keys().any(|it| it.0 == luck && it.1.contains(end));
    assert!(has(Luck::Good, "applied") && has(Luck::Good, "FsStaleVersion"));
    assert!(has(Luck::CommitFails, "FsIoError") && has(Luck::CommitFails, "KeptHuman"));
    assert!(has(Luck::CommitSticks, "Applied") && !has(Luck::StageFails, "applied"));
    assert!(has(Luck::CommitFails, "Unknown") && has(Luck::Good, "FsEditorTimeout"));
}
