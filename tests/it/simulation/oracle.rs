//! What has to be so, kept the naive way beside the sidecar.
//!
//! Invariant: it knows what really happened in the editor and on disk, what arrived at the sidecar and when, and what
//! each session was answered; from that alone it decides what a session has seen and what may be done. Nothing that the
//! sidecar believes is taken over, except what it answers, which is checked first.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    rc::Rc,
};

use abreast::{
    disk::DiskChange,
    error::{Code, Failure, FsError},
    protocol::{
        ApplyResult, Author, Change, ContentChange, LedgerEntry, Operation, ReadResult, Seen,
        Status, Via,
    },
    version::Version,
    workspace::{Answer, AskId, Millis},
};
use serde_json::Value;

use super::{
    action::Setup,
    editor::{Applied, Ask},
    files::{self, N_FILES, UNTITLED},
    plan::{self, Content},
    text::{Wire, fold, splits_pair, view},
};

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Invariant {
    /// Rule 1: a change lands only on what the session has seen.
    Seen,
    /// Rule 2: stale is reported before any match result.
    StaleFirst,
    /// Rule 3: no keystroke and no save is lost.
    NothingLost,
    /// Rule 4: all files of a call change, or none.
    AllOrNone,
    /// Rule 5: a success is a verified one, and says what was done.
    Verified,
    /// Rule 6: what the change does not mention stays as it is.
    Bytes,
    /// Rule 9: things happen in the order in which they arrived.
    Order,
    /// Rule 10: nothing is refused without a reason that holds.
    Reason,
    /// Rule 11: what a human may have done, a human did.
    Human,
    /// Every request is answered, once.
    Answered,
    /// In the end the sidecar has the text of the editor.
    Text,
    /// A ledger says what its session was shown, and whether that is still so.
    Ledger,
    /// Nothing panics.
    Panic,
}

/// What does not hold.
#[derive(Debug, Clone)]
pub(super) struct Violation {
    pub(super) invariant: Invariant,
    pub(super) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.detail)
    }
}

pub(super) type Checked = Result<(), Violation>;

fn broken(invariant: Invariant, detail: impl Into<String>) -> Checked {
    Err(Violation {
        invariant,
        detail: detail.into(),
    })
}

/// A view text, shared; none: no file.
type Shared = Option<Rc<str>>;

/// A content that a file had, as the sidecar could know it.
#[derive(Debug, Clone)]
struct Was {
    at: u64,
    content: Shared,
    /// Instance and LSP version, of an open document.
    tag: Option<(u32, i32)>,
}

/// What the sidecar was told of a document.
#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) instance: u32,
    pub(super) lsp_version: i32,
    pub(super) text: String,
}

#[derive(Debug, Default)]
struct FileTruth {
    mirror: Option<Mirror>,
    disk: Option<String>,
    /// Contents of the document where one was open, else of the file.
    was: Vec<Was>,
    /// Contents of the file.
    was_on_disk: Vec<Was>,
    /// When a person's change arrived, or (inner list) may have: an edit was out.
    human: Vec<u64>,
    human_while_out: Vec<u64>,
    /// When it was opened or closed.
    turned: Vec<u64>,
}

/// An entry of a ledger.
#[derive(Debug, Clone)]
struct Noted {
    /// When it was written, and of when the content is.
    at: u64,
    since: u64,
    /// None: unseen.
    seen: Option<Shared>,
}

/// A session.
#[derive(Debug)]
pub(super) struct SessionTruth {
    pub(super) name: u8,
    pub(super) live: bool,
    entries: BTreeMap<u8, Vec<Noted>>,
    told: BTreeMap<u8, Status>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Read { file: u8 },
    Change { changes: Vec<Change>, dry_run: bool },
    Ledger,
    Other,
}

/// A request.
#[derive(Debug)]
pub(super) struct CallTruth {
    kind: Kind,
    /// Index of the session.
    session: Option<usize>,
    files: Vec<u8>,
    arrived: u64,
    /// How many calls about the same files arrived before and are not answered.
    ahead: usize,
    /// When the last of them was.
    head: u64,
    answered: Option<Option<Code>>,
    /// (A read) the version that the editor named in its barrier, once the answer arrived.
    floor: Option<(u32, i32)>,
    /// (A read) the document was open when it arrived.
    was_open: bool,
    /// What the editor was asked to make of each document, raw.
    planned: BTreeMap<u8, (u64, String)>,
    /// The contents that the disk was asked to make.
    staged: Option<BTreeMap<u8, Content>>,
    granted: bool,
    committed: Option<u64>,
    /// What the editor really did: before, after, and whether it was taken back.
    landed: BTreeMap<u8, (String, String, bool)>,
    /// When the document was reported to be what was planned.
    reached: BTreeMap<u8, u64>,
    sent: bool,
    /// The editor said that it did not do what it was sent last.
    is_refused: bool,
    /// A document of the edit was closed or opened.
    lost: bool,
}

impl CallTruth {}

/// An edit that was not answered in time.
#[derive(Debug)]
struct Unknown {
    session: usize,
    file: u8,
    content: Shared,
    call: u64,
}

#[derive(Debug)]
pub(super) struct Oracle {
    setup: Setup,
    /// Overlooks what is known to fail.
    wire: Wire,
    clock: u64,
    contents: HashMap<Version, Rc<str>>,
    files: Vec<FileTruth>,
    pub(super) sessions: Vec<SessionTruth>,
    pub(super) calls: BTreeMap<u64, CallTruth>,
    asks: BTreeMap<AskId, u64>,
    /// Barriers of reads.
    barriers: BTreeMap<AskId, u64>,
    staged: BTreeMap<u64, u64>,
    unknown: Vec<Unknown>,
}

/// Equal but for the final line break, by which buffers and files may differ without anybody's change.
fn alike(left: &Shared, right: &Shared) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => {
            left.strip_suffix('\n').unwrap_or(left) == right.strip_suffix('\n').unwrap_or(right)
        }
        (None, None) => true,
        _ => false,
    }
}

impl Oracle {
    pub(super) fn new(setup: Setup, disk: &BTreeMap<u8, String>) -> Self {
        let mut oracle = Self {
            setup,
            wire: setup.wire(),
            clock: 0,
            contents: HashMap::new(),
            files: (0..N_FILES).map(|_| FileTruth::default()).collect(),
            sessions: Vec::new(),
            calls: BTreeMap::new(),
            asks: BTreeMap::new(),
            barriers: BTreeMap::new(),
            staged: BTreeMap::new(),
            unknown: Vec::new(),
        };
        for file in 0..N_FILES {
            let file = u8::try_from(file).expect("few files");
            oracle.disk_is(file, disk.get(&file).map(String::as_str));
        }
        oracle
    }

    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn file(&mut self, file: u8) -> &mut FileTruth {
        &mut self.files[usize::from(file)]
    }

    pub(super) fn mirror(&self, file: u8) -> Option<&Mirror> {
        self.files[usize::from(file)].mirror.as_ref()
    }

    fn learn(&mut self, view: &str) -> Rc<str> {
        let version = version(view);
        Rc::clone(
            self.contents
                .entry(version)
                .or_insert_with(|| Rc::from(view)),
        )
    }

    // ── what happens ────────────────────────────────────────────────────────────────────────────────────────────────

    fn note(&mut self, file: u8) {
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
        let content = raw.map(view).map(|it| self.learn(&it));
        self.file(file).was.push(Was { at, content, tag });
    }

    pub(super) fn disk_is(&mut self, file: u8, raw: Option<&str>) {
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
            tag: None,
        });
        if truth.mirror.is_none() {
            self.note(file);
        }
    }

    pub(super) fn opened(&mut self, file: u8, instance: u32, lsp_version: i32, text: &str) {
        let at = self.tick();
        let truth = self.file(file);
        truth.turned.push(at);
        truth.mirror = Some(Mirror {
            instance,
            lsp_version,
            text: text.to_string(),
        });
        self.lose(file);
        self.note(file);
    }

    pub(super) fn closed(&mut self, file: u8) {
        let at = self.tick();
        let truth = self.file(file);
        truth.turned.push(at);
        truth.mirror = None;
        self.lose(file);
        self.note(file);
    }

    fn lose(&mut self, file: u8) {
        for call in self.calls.values_mut().filter(|it| it.answered.is_none()) {
            call.lost |= call.files.contains(&file);
        }
    }

    pub(super) fn changed(
        &mut self,
        file: u8,
        lsp_version: i32,
        changes: &[ContentChange],
        human: bool,
    ) {
        let wire = self.wire;
        let at = self.tick();
        for change in changes {
            let truth = self.file(file);
            let Some(mirror) = &mut truth.mirror else {
                return;
            };
            mirror.lsp_version = lsp_version;
            wire.make(&mut mirror.text, change)
                .expect("the editor reports what it did");
            self.note(file);
            self.reach(file);
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
            let truth = self.file(file);
            if is_out {
                truth.human_while_out.push(at)
            } else {
                truth.human.push(at)
            }
        }
    }

    /// Notes that a document is what a call planned.
    fn reach(&mut self, file: u8) {
        let at = self.clock;
        let truth = &mut self.files[usize::from(file)];
        let Some(mirror) = &truth.mirror else { return };
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

    // ── sessions ────────────────────────────────────────────────────────────────────────────────────────────────────

    pub(super) fn session(&self, name: u8) -> Option<usize> {
        self.sessions
            .iter()
            .rposition(|it| it.name == name && it.live)
    }

    pub(super) fn open_session(&mut self, name: u8) {
        if self.session(name).is_none() {
            self.sessions.push(SessionTruth {
                name,
                live: true,
                entries: BTreeMap::new(),
                told: BTreeMap::new(),
            });
        }
    }

    pub(super) fn close_session(&mut self, name: u8) {
        if let Some(session) = self.session(name) {
            self.sessions[session].live = false;
        }
    }

    /// What a session saw of a file last; none: nothing.
    pub(super) fn last_seen(&self, session: usize, file: u8) -> Option<Shared> {
        self.sessions[session]
            .entries
            .get(&file)?
            .last()?
            .seen
            .clone()
    }

    fn observe(&mut self, session: usize, file: u8, since: u64, seen: Option<Shared>) {
        let at = self.tick();
        let session = &mut self.sessions[session];
        if !session.live {
            return;
        }
        let entries = session.entries.entry(file).or_default();
        if seen.is_some()
            && entries
                .last()
                .is_some_and(|it| it.seen.is_some() && it.since > since)
        {
            return;
        }
        entries.push(Noted { at, since, seen });
        session.told.insert(file, Status::Fresh);
    }

    // ── times ───────────────────────────────────────────────────────────────────────────────────────────────────────

    /// What the session had seen at some time since.
    fn seen_since(&self, session: usize, file: u8, from: u64) -> Vec<Option<Shared>> {
        let entries = self.sessions[session].entries.get(&file);
        let mut seen = Vec::new();
        let mut before = None;
        for noted in entries.into_iter().flatten() {
            if noted.at <= from {
                before = noted.seen.clone();
            } else {
                seen.push(noted.seen.clone());
            }
        }
        seen.push(before);
        let own = self
            .unknown
            .iter()
            .filter(|it| it.session == session && it.file == file && self.has_landed(it));
        seen.extend(own.map(|it| Some(it.content.clone())));
        seen
    }

    fn has_landed(&self, unknown: &Unknown) -> bool {
        self.calls[&unknown.call].landed.contains_key(&unknown.file)
    }

    fn since(was: &[Was], from: u64) -> impl Iterator<Item = &Was> {
        let first = was.iter().rposition(|it| it.at <= from).unwrap_or(0);
        was[first..].iter()
    }

    /// What the file held at some time since.
    fn contents_since(&self, file: u8, from: u64) -> Vec<Shared> {
        let truth = &self.files[usize::from(file)];
        let all = Self::since(&truth.was, from).chain(Self::since(&truth.was_on_disk, from));
        all.map(|it| it.content.clone()).collect()
    }

    // ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────────

    pub(super) fn called(&mut self, id: u64, session: Option<usize>, kind: Kind) {
        let arrived = self.tick();
        let files = match &kind {
            Kind::Read { file } => vec![*file],
            Kind::Change { changes, .. } => plan::files_of(changes),
            Kind::Ledger | Kind::Other => Vec::new(),
        };
        let was_open = files.iter().all(|it| self.mirror(*it).is_some());
        let shares = |it: &CallTruth| it.files.iter().any(|file| files.contains(file));
        let ahead = self
            .calls
            .values()
            .filter(|it| it.answered.is_none() && shares(it))
            .count();
        let call = CallTruth {
            kind,
            session,
            ahead,
            files,
            arrived,
            head: arrived,
            answered: None,
            floor: None,
            was_open,
            planned: BTreeMap::new(),
            staged: None,
            granted: false,
            committed: None,
            landed: BTreeMap::new(),
            reached: BTreeMap::new(),
            sent: false,
            is_refused: false,
            lost: false,
        };
        self.calls.insert(id, call);
    }

    pub(super) fn unanswered(&self) -> Vec<u64> {
        self.calls
            .iter()
            .filter(|it| it.1.answered.is_none())
            .map(|it| *it.0)
            .collect()
    }

    /// The sidecar asks the editor; `call`: the request that just arrived.
    pub(super) fn asked(&mut self, ask: &Ask, now: Millis, call: Option<u64>) -> Checked {
        if ask.method != "workspace/applyEdit" {
            if let Some(id) = call
                && matches!(self.calls[&id].kind, Kind::Read { .. })
            {
                self.barriers.insert(ask.ask, id);
            }
            return Ok(());
        }
        let params = &ask.params;
        let id = params["abreast"]["callId"]
            .as_str()
            .and_then(|it| it.parse::<u64>().ok())
            .expect("a callId");
        self.asks.insert(ask.ask, id);
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
        let mut planned = BTreeMap::new();
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
            let after = self.edited(&mirror.text, &change["edits"], &olds)?;
            planned.insert(file, after);
        }
        let at = self.tick();
        let call = self.calls.get_mut(&id).expect("it is there");
        call.sent = true;
        call.is_refused = false;
        if is_forward {
            call.planned = planned
                .into_iter()
                .map(|(file, text)| (file, (at, text)))
                .collect();
            call.reached.clear();
            call.landed.clear();
        }
        Ok(())
    }

    fn edited(&self, text: &str, edits: &Value, olds: &[Value]) -> Result<String, Violation> {
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
    pub(super) fn answered(&mut self, ask: AskId, answer: &Result<Value, String>) {
        if let Some(id) = self.asks.get(&ask) {
            let was_made = answer.as_ref().is_ok_and(|it| it["applied"] == true);
            self.calls.get_mut(id).expect("it is there").is_refused = !was_made;
        }
        let Some(id) = self.barriers.remove(&ask) else {
            return;
        };
        let call = self.calls.get_mut(&id).expect("it is there");
        let Kind::Read { file } = call.kind else {
            return;
        };
        let Ok(answer) = answer else { return };
        let document = &answer["documents"][files::uri(file)];
        let number = |name: &str| document[name].as_i64();
        if let (Some(instance), Some(version)) = (number("instance"), number("version")) {
            call.floor = Some((
                u32::try_from(instance).expect("small"),
                i32::try_from(version).expect("small"),
            ));
        }
    }

    /// The editor made an edit.
    pub(super) fn applied(&mut self, it: Applied) -> Checked {
        let id = self.asks[&it.ask];
        let call = &self.calls[&id];
        if let Some((before, after, undone)) = call.landed.get(&it.file)
            && !undone
        {
            if it.before == *after && it.after != *before {
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
        let is_late = call
            .answered
            .is_some_and(|it| it != Some(Code::FsEditorTimeout));
        let Kind::Change { changes, .. } = &call.kind else {
            unreachable!("a read edits nothing")
        };
        let changes: Vec<Change> = changes
            .iter()
            .filter(|change| plan::file_of(change.path()) == it.file)
            .cloned()
            .collect();
        let seen = call
            .session
            .map(|session| self.seen_since(session, it.file, call.head));
        if self.setup.strict && !self.setup.liar {
            self.check_change(&changes, seen, &it.before, &it.after, it.file)?;
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

    fn check_change(
        &self,
        changes: &[Change],
        seen: Option<Vec<Option<Shared>>>,
        before: &str,
        after: &str,
        file: u8,
    ) -> Checked {
        let shared: Shared = Some(Rc::from(view(before)));
        let fills =
            matches!(changes.first(), Some(Change::Write { .. })) && view(before).is_empty();
        if let Some(seen) = seen
            && !fills
            && !seen.iter().flatten().any(|it| alike(it, &shared))
        {
            return broken(
                Invariant::Seen,
                format!(
                    "{} was {:?}, and the session had seen {seen:?}",
                    files::path(file),
                    view(before)
                ),
            );
        }
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
        self.check_bytes(changes, before, after)
    }

    fn check_bytes(&self, changes: &[Change], before: &str, after: &str) -> Checked {
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
                let bom = super::text::BOM;
                before.starts_with(bom) == after.starts_with(bom)
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

    // ── the disk ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The sidecar has changes staged.
    pub(super) fn staged(&mut self, job: u64, changes: &[DiskChange]) -> Checked {
        let touched: BTreeSet<u8> = changes.iter().flat_map(files::files_of).collect();
        let of = |it: &CallTruth| {
            it.answered.is_none()
                && matches!(it.kind, Kind::Change { .. })
                && touched.iter().all(|file| it.files.contains(file))
        };
        let Some((&id, call)) = self.calls.iter().find(|it| of(it.1)) else {
            return broken(Invariant::Order, "changes are staged for no call");
        };
        if call.ahead > 0 {
            return broken(
                Invariant::Order,
                format!("call {id} stages before {} others", call.ahead),
            );
        }
        let Kind::Change { changes: asked, .. } = &call.kind else {
            unreachable!("of() saw it")
        };
        // What the files hold according to the sidecar, and what they come to hold.
        let mut before: BTreeMap<u8, String> = BTreeMap::new();
        let mut made: BTreeSet<u8> = BTreeSet::new();
        for change in changes {
            let (file, expected) = match change {
                DiskChange::Create { path, .. } => {
                    made.insert(files::of_path(path));
                    continue;
                }
                DiskChange::Replace { path, expected, .. }
                | DiskChange::Delete { path, expected } => (files::of_path(path), expected),
                DiskChange::Rename { from, to, expected } => {
                    made.insert(files::of_path(to));
                    (files::of_path(from), expected)
                }
            };
            if !made.contains(&file) {
                before.entry(file).or_insert_with(|| files::raw(expected));
            }
        }
        let mut after = before.clone();
        for change in changes {
            if let Err(kind) = files::make(&mut after, change) {
                return broken(
                    Invariant::AllOrNone,
                    format!("call {id} stages what cannot be done: {kind:?}"),
                );
            }
        }
        let mut contents: BTreeMap<u8, Content> = BTreeMap::new();
        for &file in &call.files {
            let content = if let Some(raw) = before.get(&file) {
                Some(view(raw))
            } else if made.contains(&file) {
                None
            } else if let Some(mirror) = self.mirror(file) {
                Some(view(&mirror.text))
            } else {
                self.contents_since(file, call.head)
                    .last()
                    .cloned()
                    .flatten()
                    .map(|it| it.to_string())
            };
            contents.insert(file, content);
        }
        for &file in &touched {
            let Some(session) = call.session else {
                continue;
            };
            let content: Shared = contents[&file].as_deref().map(Rc::from);
            let seen = self.seen_since(session, file, call.head);
            let is_creation = content.is_none() || content.as_deref() == Some("");
            let is_seen = seen.iter().flatten().any(|it| alike(it, &content));
            if !is_seen && !is_creation {
                return broken(
                    Invariant::Seen,
                    format!(
                        "{} is {content:?}, and the session had seen {seen:?}",
                        files::path(file)
                    ),
                );
            }
        }
        if let Err(code) = plan::run(asked, &mut contents) {
            return broken(
                Invariant::StaleFirst,
                format!("stages what has to be refused: {code:?}"),
            );
        }
        for &file in &touched {
            let after = after.get(&file).map(|it| view(it));
            if after != contents[&file] {
                return broken(
                    Invariant::Bytes,
                    format!("stages {after:?}, and not {:?}", contents[&file]),
                );
            }
        }
        for change in changes {
            if let DiskChange::Replace {
                path,
                expected,
                text,
            } = change
            {
                let file = files::of_path(path);
                let own: Vec<Change> = asked
                    .iter()
                    .filter(|it| plan::file_of(it.path()) == file)
                    .cloned()
                    .collect();
                if !made.contains(&file) {
                    self.check_bytes(&own, &files::raw(expected), &files::raw(text))?;
                }
            }
        }
        self.calls.get_mut(&id).expect("it is there").staged = Some(contents);
        self.staged.insert(job, id);
        Ok(())
    }

    /// The sidecar grants the commit.
    pub(super) fn granted(&mut self, staged: u64, changes: &[DiskChange]) -> Checked {
        let id = self.staged[&staged];
        let call = self.calls.get_mut(&id).expect("it is there");
        if call.answered.is_some() {
            return broken(
                Invariant::AllOrNone,
                format!("call {id} was answered, and its commit is granted"),
            );
        }
        call.granted = true;
        for file in changes.iter().flat_map(files::files_of) {
            if self.mirror(file).is_some() {
                return broken(
                    Invariant::NothingLost,
                    format!("{} is open, and is changed on disk", files::path(file)),
                );
            }
        }
        Ok(())
    }

    /// The commit is known to be done.
    pub(super) fn committed(&mut self, staged: u64) {
        let at = self.tick();
        let id = self.staged[&staged];
        self.calls.get_mut(&id).expect("it is there").committed = Some(at);
    }

    // ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A request is answered; `since`: what is shown was taken then.
    pub(super) fn replied(
        &mut self,
        id: u64,
        result: &Result<Answer, Failure>,
        since: Option<u64>,
    ) -> Checked {
        let code = match result {
            Ok(_) => None,
            Err(Failure::Fs(err)) => Some(err.code),
            Err(Failure::Params { .. }) => None,
        };
        let call = self.calls.get_mut(&id).expect("it was called");
        if call.answered.is_some() {
            return broken(Invariant::Answered, format!("call {id} is answered twice"));
        }
        call.answered = Some(code);
        match result {
            Ok(Answer::Read(result)) => self.shown(id, result, since)?,
            Ok(Answer::Applied(result)) => self.changed_by(id, result)?,
            Ok(Answer::Ledger(result)) => {
                if let Some(session) = self.calls[&id].session {
                    for row in &result.entries {
                        self.told_row(session, row)?;
                    }
                }
            }
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
            if code != Some(Code::FsEditorTimeout) {
                let truth = self.file(file);
                let mut late = std::mem::take(&mut truth.human_while_out);
                truth.human.append(&mut late);
            }
        }
        Ok(())
    }

    fn shown(&mut self, id: u64, result: &ReadResult, since: Option<u64>) -> Checked {
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
        if !was
            .iter()
            .any(|it| it.content.as_deref() == Some(&*content))
        {
            return broken(
                Invariant::Order,
                format!("a read shows {content:?}; since it arrived there was {was:?}"),
            );
        }
        if let Some(session) = call.session {
            let since = since.unwrap_or_else(|| self.tick());
            self.observe(session, file, since, Some(Some(content)));
        }
        Ok(())
    }

    fn changed_by(&mut self, id: u64, result: &ApplyResult) -> Checked {
        let call = &self.calls[&id];
        let Kind::Change { changes, dry_run } = &call.kind else {
            return broken(Invariant::Answered, "a change that was none");
        };
        if *dry_run {
            return if call.sent || call.granted || call.staged.is_some() {
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
            let is_noop = it.operation == Operation::Update
                && it.hunks.is_empty()
                && !call.planned.contains_key(&file);
            let own: Vec<Change> = changes
                .iter()
                .filter(|it| plan::file_of(it.path()) == file)
                .cloned()
                .collect();
            let (content, since) = if let Some((at, planned)) = call.planned.get(&file) {
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
                (content, call.reached.get(&file).copied())
            } else if let Some(contents) = call.staged.as_ref().filter(|_| !is_noop) {
                if call.committed.is_none() {
                    return broken(Invariant::Verified, "a success without a commit");
                }
                (
                    contents[&file].as_deref().map(Rc::from),
                    call.committed.filter(|_| !call.lost),
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
                let when = Self::since(was, call.head)
                    .filter(|it| it.content.as_deref() == Some(&*content))
                    .last();
                let mut contents = BTreeMap::from([(file, Some(content.to_string()))]);
                let outcome = plan::run(&own, &mut contents);
                if when.is_none()
                    || outcome.is_err()
                    || contents[&file].as_deref() != Some(&*content)
                {
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
            .filter_map(|it| matches!(it, Change::Rename { .. }).then(|| plan::file_of(it.path())))
            .collect();
        if let Some(session) = self.calls[&id].session {
            for file in renamed {
                if result.files.iter().all(|it| files::of_uri(&it.uri) != file) {
                    let now = self.tick();
                    self.observe(session, file, now, None);
                }
            }
            for (file, since, content) in observed {
                let content = content.map(|it| self.learn(&it));
                let since = since.unwrap_or_else(|| self.tick());
                self.observe(session, file, since, Some(content));
            }
        }
        Ok(())
    }

    fn refused(&mut self, id: u64, err: &FsError) -> Checked {
        let call = &self.calls[&id];
        let now = self.clock;
        if let Kind::Read { file } = call.kind {
            match err.code {
                Code::FsNotFound if file != UNTITLED => {
                    if !self.contents_since(file, call.arrived).contains(&None) {
                        return broken(Invariant::Order, "a read did not find what was there");
                    }
                    if let Some(session) = call.session {
                        self.observe(session, file, now, Some(None));
                    }
                }
                Code::FsDesynced => return broken(Invariant::Text, err.message()),
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
                    self.observe(session, file, now, None);
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
                    });
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check_nothing_stayed(&self, id: u64, err: &FsError) -> Checked {
        let call = &self.calls[&id];
        if err.code == Code::FsAborted && (call.granted || call.sent && !call.is_refused) {
            return broken(
                Invariant::AllOrNone,
                format!("call {id} is aborted after its commit point"),
            );
        }
        let is_told = matches!(
            err.code,
            Code::FsPartiallyApplied | Code::FsEditorTimeout | Code::FsUnverified
        );
        if is_told || !self.setup.strict || self.setup.liar {
            return Ok(());
        }
        let stayed: Vec<&u8> = call
            .landed
            .iter()
            .filter(|it| !it.1.2)
            .map(|it| it.0)
            .collect();
        // A buffer that was closed took the edit with it.
        let stayed: Vec<&u8> = stayed
            .into_iter()
            .filter(|it| self.mirror(**it).is_some())
            .collect();
        if !stayed.is_empty() && !(call.lost && call.files.len() == 1) {
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

    /// A refusal is true, and the earliest that is.
    fn check_reason(&self, id: u64, err: &FsError) -> Checked {
        let call = &self.calls[&id];
        let (Some(session), Kind::Change { changes, .. }) = (call.session, &call.kind) else {
            return Ok(());
        };
        let Some(uri) = &err.uri else { return Ok(()) };
        let file = files::of_uri(uri);
        let from = call.head;
        let seen = self.seen_since(session, file, from);
        let contents = self.contents_since(file, from);
        let first = changes.iter().find(|it| plan::file_of(it.path()) == file);
        let fills = matches!(first, Some(Change::Write { .. }));
        let is_nothing = |it: &Shared| it.as_deref().is_none_or(str::is_empty);
        let was_fresh = seen
            .iter()
            .flatten()
            .any(|it| contents.iter().any(|is| alike(it, is)))
            || fills && contents.iter().any(is_nothing);
        let was_stale = seen
            .iter()
            .flatten()
            .any(|it| contents.iter().any(|is| it != is));
        let turned = self.files[usize::from(file)]
            .turned
            .iter()
            .any(|it| *it >= from);
        let path = files::path(file);
        let holds = match err.code {
            Code::FsStaleVersion => was_stale || turned || !seen.iter().any(Option::is_some),
            Code::FsNotObserved => seen.iter().any(|it| !matches!(it, Some(Some(_)))),
            Code::FsEditNotFound | Code::FsAmbiguousEdit | Code::FsNoChange => {
                if !was_fresh {
                    return broken(
                        Invariant::StaleFirst,
                        format!(
                            "{path} is refused as {:?}, and was {contents:?}, not {seen:?}",
                            err.code
                        ),
                    );
                }
                let own: Vec<Change> = changes
                    .iter()
                    .filter(|it| plan::file_of(it.path()) == file)
                    .cloned()
                    .collect();
                let says_nothing = |it: &Change| matches!(it, Change::Edit { old_string, new_string, .. } if fold(old_string) == fold(new_string));
                changes.iter().any(|it| matches!(it, Change::Rename { .. }))
                    || err.code == Code::FsNoChange && own.iter().any(says_nothing)
                    || contents.iter().any(|it| {
                        let mut files = BTreeMap::from([(file, it.as_deref().map(str::to_string))]);
                        plan::run(&own, &mut files) == Err(err.code)
                    })
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

    // ── ledgers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A row of `ledgerChanged` or of an answer.
    fn told_row(&mut self, session: usize, row: &LedgerEntry) -> Checked {
        let file = files::of_uri(&row.uri);
        let said: Option<Shared> = match row.state {
            Seen::Unseen => None,
            Seen::Absent => Some(None),
            Seen::Present => {
                let content = row.version.and_then(|it| self.contents.get(&it)).cloned();
                let Some(content) = content else {
                    return broken(Invariant::Ledger, "an entry for what never was");
                };
                Some(Some(content))
            }
        };
        let seen = self.last_seen(session, file);
        if seen != said {
            let is_credit = self.unknown.iter().any(|it| {
                it.session == session
                    && it.file == file
                    && Some(&it.content) == said.as_ref()
                    && (self.has_landed(it)
                        || self
                            .contents_since(file, self.calls[&it.call].head)
                            .contains(&it.content))
            });
            let is_handed_over =
                matches!((&seen, &said), (Some(seen), Some(said)) if alike(seen, said));
            if !is_credit && !is_handed_over {
                return broken(
                    Invariant::Ledger,
                    format!(
                        "{}: the entry is {said:?}, shown was {seen:?}",
                        files::path(file)
                    ),
                );
            }
            let noted = self.sessions[session]
                .entries
                .get(&file)
                .and_then(|it| it.last());
            let since = noted
                .filter(|_| is_handed_over)
                .map_or_else(|| self.clock, |it| it.since);
            self.observe(session, file, since, said);
        }
        self.sessions[session].told.insert(file, row.status);
        Ok(())
    }

    pub(super) fn told(&mut self, params: &Value) -> Checked {
        let name = params["sessionId"]
            .as_str()
            .and_then(|it| it.strip_prefix('s')?.parse::<u8>().ok())
            .expect("s0");
        let Some(session) = self.session(name) else {
            return broken(
                Invariant::Ledger,
                "a session that is closed is told something",
            );
        };
        for row in params["entries"].as_array().expect("entries") {
            let row = row_of(row);
            let is_own = |it: &Author| matches!(it, Author::Session { session_id, .. } if *session_id == format!("s{name}"));
            if !row.changed_by.is_empty() && row.changed_by.iter().all(is_own) {
                return broken(
                    Invariant::Ledger,
                    format!("{}: a session is told of its own change", row.path),
                );
            }
            self.told_row(session, &row)?;
        }
        Ok(())
    }

    /// Everything has come to rest, and a session asked for its ledger.
    pub(super) fn check_ledger(&self, session: usize, rows: &[LedgerEntry]) -> Checked {
        let truth = &self.sessions[session];
        for (&file, entries) in &truth.entries {
            let Some(Noted {
                since,
                seen: Some(seen),
                ..
            }) = entries.last()
            else {
                continue;
            };
            let path = files::path(file);
            let Some(row) = rows.iter().find(|it| files::of_uri(&it.uri) == file) else {
                return broken(
                    Invariant::Ledger,
                    format!("{path} has no entry, shown was {seen:?}"),
                );
            };
            let file = &self.files[usize::from(file)];
            let current = file
                .was
                .last()
                .map(|it| it.content.clone())
                .unwrap_or_default();
            let expected = if current == *seen {
                Status::Fresh
            } else {
                Status::Stale
            };
            if row.status != expected && !(current != *seen && alike(&current, seen)) {
                return broken(
                    Invariant::Ledger,
                    format!(
                        "{path} is {:?}: it is {current:?}, shown was {seen:?}",
                        row.status
                    ),
                );
            }
            if row.status == Status::Stale
                && file.human.iter().any(|it| it > since)
                && file.mirror.is_some()
                && !row.changed_by.contains(&Author::Human)
            {
                return broken(
                    Invariant::Human,
                    format!(
                        "{path} was changed by a human, and not by {:?}",
                        row.changed_by
                    ),
                );
            }
        }
        let has_entry = |file: u8| {
            truth
                .entries
                .get(&file)
                .and_then(|it| it.last())
                .is_some_and(|it| it.seen.is_some())
        };
        match rows.iter().find(|it| !has_entry(files::of_uri(&it.uri))) {
            Some(row) => broken(
                Invariant::Ledger,
                format!("{} has an entry, nothing was shown", row.path),
            ),
            None => Ok(()),
        }
    }

    /// Everything has come to rest: what was told of open documents is so.
    pub(super) fn check_told(&self, session: usize) -> Checked {
        let truth = &self.sessions[session];
        for (&file, entries) in &truth.entries {
            let Some(Noted {
                seen: Some(seen), ..
            }) = entries.last()
            else {
                continue;
            };
            let it = &self.files[usize::from(file)];
            let current = it
                .was
                .last()
                .map(|it| it.content.clone())
                .unwrap_or_default();
            let expected = if current == *seen {
                Status::Fresh
            } else {
                Status::Stale
            };
            if it.mirror.is_some()
                && truth.told.get(&file) != Some(&expected)
                && !alike(&current, seen)
            {
                return broken(
                    Invariant::Ledger,
                    format!(
                        "{} was told to be {:?}: it is {current:?}, shown was {seen:?}",
                        files::path(file),
                        truth.told.get(&file)
                    ),
                );
            }
        }
        Ok(())
    }
}

/// The version of a view; not of a raw text, where a line end may be `\r\r\n`.
fn version(view: &str) -> Version {
    let hash = blake3::hash(view.as_bytes()).to_hex();
    Version::parse(&format!("b3:{}", &hash[..32])).expect("32 digits")
}

fn row_of(value: &Value) -> LedgerEntry {
    let parse = |name: &str| serde_json::from_value(value[name].clone());
    LedgerEntry {
        uri: value["uri"].as_str().expect("uri").to_string(),
        path: value["path"].as_str().expect("path").to_string(),
        state: parse("state").map(|it: Seen| it).expect("state"),
        version: value["version"].as_str().and_then(Version::parse),
        status: serde_json::from_value(value["status"].clone()).expect("status"),
        current_version: None,
        changed_by: Vec::new(),
        changed_ranges: Vec::new(),
    }
}
