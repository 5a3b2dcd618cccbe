//! The one that owns all state: it feeds the workspace and has done what the workspace wants done.
//!
//! Invariant: there is one inbox. What happens on disk and elsewhere comes back through it, behind whatever arrived
//! before; nothing awaits between the arrival of a message and its effect on state.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::task::spawn_blocking;

use crate::{
    disk::{Disk, DiskError, DiskErrorKind, DiskFailure, LateSave, Look, Recall, Staged},
    path::{self, FileKey, Lookups},
    text::Text,
    watcher::{Told, Watcher},
    workspace::{
        CallId, ConnectionId, Context, Effect, Event, JobId, Looked, Millis, Outcome, Request,
        Work, Workspace,
    },
};

/// How often the disk looks for saves that landed in replaced files.
const LOOK_BACK: Duration = Duration::from_millis(250);

/// Something that was done elsewhere, on its way to the inbox.
#[derive(Debug)]
pub struct Finished(Done);

#[derive(Debug)]
enum Done {
    Job(Box<Job>),
    LateSaves(Vec<LateSave>),
    /// Nothing is left to look for.
    LookedBack,
}

#[derive(Debug)]
struct Job {
    id: JobId,
    outcome: Outcome,
    staged: Option<Staged>,
    /// For the log.
    notes: Vec<String>,
}

/// The workspace with the disk below it.
pub struct Engine {
    workspace: Workspace,
    disk: Arc<dyn Disk>,
    staged: HashMap<JobId, Staged>,
    /// Of the commits that are under way.
    recalls: HashMap<JobId, Recall>,
    inbox: Arc<dyn Fn(Finished) + Send + Sync>,
    wake_at: Option<Millis>,
    /// Whether somebody looks for late saves.
    is_looking_back: bool,
    watching: Option<Watching>,
}

/// Where a client does not watch files.
#[derive(Clone)]
struct Watching {
    watcher: Arc<Mutex<Watcher>>,
    told: Told,
}

impl Engine {
    /// An engine that posts what was done elsewhere to `inbox`, whence it has to come back to [`Engine::finished`].
    ///
    /// What processes that are gone left half done on disk is settled first.
    pub fn new(disk: Arc<dyn Disk>, inbox: impl Fn(Finished) + Send + Sync + 'static) -> Self {
        disk.recover();
        Self {
            workspace: Workspace::default(),
            disk,
            staged: HashMap::new(),
            recalls: HashMap::new(),
            inbox: Arc::new(inbox),
            wake_at: None,
            is_looking_back: false,
            watching: None,
        }
    }

    /// Watches, from now on, the files that are looked at; [`Engine::hinted`] has to be called when `wake` was.
    pub fn watch(&mut self, wake: impl Fn() + Send + 'static) {
        match Watcher::new(wake) {
            Ok((watcher, told)) => {
                let watcher = Arc::new(Mutex::new(watcher));
                self.watching = Some(Watching { watcher, told });
            }
            Err(err) => tracing::warn!("files are not watched: {err}"),
        }
    }

    /// Takes what the watcher has to tell.
    pub fn hinted(&mut self) -> Vec<Effect> {
        let changed = self.watching.as_ref().map(|it| it.told.take());
        let keys = changed.into_iter().flatten().map(FileKey::Path);
        self.handle(Event::FilesChanged(keys.collect()))
    }

    /// Takes an event and returns what is for others to do: replies, notifications, questions, the log.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.workspace.handle(now(), event);
        let mut outward = Vec::with_capacity(effects.len());
        for effect in effects {
            match effect {
                Effect::Start { job, work } => self.start(job, work),
                Effect::Wake(at) => self.wake_at = Some(self.wake_at.map_or(at, |it| it.min(at))),
                effect => outward.push(effect),
            }
        }
        outward
    }

    /// Takes a request, whose paths are looked up at this very moment.
    pub fn call(
        &mut self,
        id: CallId,
        connection: ConnectionId,
        request: Request,
        context: Context,
    ) -> Vec<Effect> {
        let paths = self.workspace.paths_of(&request);
        let lookups = Lookups::of(paths, |path| self.disk.resolve(path));
        self.handle(Event::Call {
            id,
            connection,
            request,
            context,
            lookups,
        })
    }

    /// Takes what was done elsewhere.
    pub fn finished(&mut self, finished: Finished) -> Vec<Effect> {
        match finished.0 {
            Done::Job(job) => {
                self.recalls.remove(&job.id);
                if let Some(staged) = job.staged {
                    self.staged.insert(job.id, staged);
                }
                let mut effects = self.handle(Event::Done {
                    job: job.id,
                    outcome: job.outcome,
                });
                effects.extend(job.notes.into_iter().map(warning));
                self.look_back();
                effects
            }
            Done::LateSaves(saves) => {
                let keys = saves.iter().map(|it| FileKey::Path(it.path.clone()));
                let mut effects = self.handle(Event::FilesChanged(keys.collect()));
                effects.extend(saves.iter().map(|it| warning(tell(it))));
                effects
            }
            Done::LookedBack => {
                self.is_looking_back = false;
                self.look_back();
                Vec::new()
            }
        }
    }

    /// Whether a commit is under way.
    pub fn is_committing(&self) -> bool {
        !self.recalls.is_empty()
    }

    /// Has the disk look for late saves as long as there may be some.
    fn look_back(&mut self) {
        if self.is_looking_back || !self.disk.is_holding_displaced() {
            return;
        }
        self.is_looking_back = true;
        let disk = Arc::clone(&self.disk);
        let inbox = Arc::clone(&self.inbox);
        tokio::spawn(async move {
            while disk.is_holding_displaced() {
                tokio::time::sleep(LOOK_BACK).await;
                let disk = Arc::clone(&disk);
                let looked = spawn_blocking(move || disk.look_back()).await;
                let saves = looked.unwrap_or_default();
                if !saves.is_empty() {
                    inbox(Finished(Done::LateSaves(saves)));
                }
            }
            inbox(Finished(Done::LookedBack));
        });
    }

    /// The identity of the file that a URI names.
    pub fn key_of(&self, uri: &str) -> FileKey {
        match path::file_uri_to_path(uri) {
            Some(path) => FileKey::Path(self.disk.resolve(&path).map_or(path, |it| it.path)),
            None => FileKey::Uri(uri.to_string()),
        }
    }

    /// How long to wait before the next [`Engine::tick`]; none: for ever.
    pub fn sleep(&self) -> Option<Duration> {
        self.wake_at
            .map(|at| Duration::from_millis(at.saturating_sub(now())))
    }

    /// Tells the workspace that its time has come.
    pub fn tick(&mut self) -> Vec<Effect> {
        if self.wake_at.is_none_or(|at| at > now()) {
            return Vec::new();
        }
        self.wake_at = None;
        self.handle(Event::Tick)
    }

    fn start(&mut self, job: JobId, work: Work) {
        let disk = Arc::clone(&self.disk);
        let inbox = Arc::clone(&self.inbox);
        let post = move |outcome, staged, notes| {
            inbox(Finished(Done::Job(Box::new(Job {
                id: job,
                outcome,
                staged,
                notes,
            }))));
        };
        match work {
            Work::Compute(compute) => {
                spawn_blocking(move || post(compute.run(), None, Vec::new()));
            }
            Work::Look {
                key,
                limit_bytes,
                like,
            } => {
                let watching = self.watching.clone();
                spawn_blocking(move || {
                    // Before the look: what comes after it is told.
                    if let (Some(watching), FileKey::Path(path)) = (watching, &key) {
                        let watcher = watching.watcher.lock();
                        watcher.unwrap_or_else(PoisonError::into_inner).add(path);
                    }
                    post(
                        Outcome::Looked(look(&*disk, &key, limit_bytes, like.as_ref())),
                        None,
                        Vec::new(),
                    );
                });
            }
            Work::Stage { changes } => {
                spawn_blocking(move || match disk.stage(&changes) {
                    Ok(staged) => post(
                        Outcome::Staged(Ok(staged.in_place().to_vec())),
                        Some(staged),
                        Vec::new(),
                    ),
                    Err(failure) => post(Outcome::Staged(Err(failure)), None, Vec::new()),
                });
            }
            Work::Commit { staged } => {
                let Some(staged) = self.staged.remove(&staged) else {
                    tracing::error!("a commit of what was not staged");
                    return;
                };
                self.recalls.insert(job, staged.recall());
                spawn_blocking(move || {
                    let (committed, notes) = commit(&*disk, staged);
                    post(Outcome::Committed(committed), None, notes);
                });
            }
            Work::Abort { staged } => {
                if let Some(staged) = self.staged.remove(&staged) {
                    spawn_blocking(move || disk.abort(staged));
                }
            }
            Work::Recall { commit } => {
                if let Some(recall) = self.recalls.get(&commit) {
                    recall.call();
                }
            }
        }
    }
}

/// Commits, and says what people have to know of it.
fn commit(disk: &dyn Disk, staged: Staged) -> (Result<(), DiskFailure>, Vec<String>) {
    let committed = disk.commit(staged);
    let notes = match &committed {
        Ok(committed) => committed
            .residue
            .iter()
            .map(|path| format!("{} could not be removed", path.display()))
            .collect(),
        Err(failure) => failure
            .kept
            .iter()
            .map(|path| format!("{} keeps what was saved meanwhile", path.display()))
            .collect(),
    };
    (committed.map(|_| ()), notes)
}

fn tell(late: &LateSave) -> String {
    let path = late.path.display();
    match &late.kept {
        None => format!("{path} was saved while it was changed: what was saved is there again"),
        Some(kept) => format!(
            "{path} was saved while it was changed, and has changed again since: what was saved is kept as {}",
            kept.display()
        ),
    }
}

fn warning(message: String) -> Effect {
    Effect::Log {
        level: tracing::Level::WARN,
        message,
    }
}

fn look(disk: &dyn Disk, key: &FileKey, limit_bytes: u64, like: Option<&Text>) -> Looked {
    let FileKey::Path(path) = key else {
        let detail = "only the editor has it".to_string();
        return Looked::Refused(DiskError {
            kind: DiskErrorKind::NotFound,
            detail,
        });
    };
    match disk.look(&PathBuf::from(path), limit_bytes) {
        Ok(Look::Absent) => Looked::Absent {
            near: path::near(path, &disk.siblings(path)),
        },
        Ok(Look::Text(text)) => Looked::text(text, like),
        Err(err) => Looked::Refused(err),
    }
}

/// Unix milliseconds.
fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
