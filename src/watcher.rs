//! Hints that files were changed by other programs, for clients that do not watch files themselves.
//!
//! Invariant: nothing depends on a hint: a missed one only means that an agent learns later that a file is stale. So
//! what fails here is logged and no more, and only the directories that were last of interest are watched, none of them
//! with what is below it.

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

/// Most directories that are watched; systems allow some thousands, to all programs together.
const DIRS_MAX: usize = 256;
/// Most files that are told of.
const FILES_MAX: usize = 10_000;

/// Watches the directories of some files.
pub struct Watcher {
    system: RecommendedWatcher,
    /// The one of interest last is at the end.
    dirs: VecDeque<(PathBuf, DirId)>,
    told: Told,
}

/// The directory itself, whatever its name is: device, inode, and when it was made.
type DirId = (u64, u64, Option<SystemTime>);

/// What is told of, and what has to be told.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<Files>>);

#[derive(Default)]
struct Files {
    watched: BTreeSet<PathBuf>,
    changed: BTreeSet<PathBuf>,
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the files that may have changed.
    pub fn take(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.lock().changed)
            .into_iter()
            .collect()
    }

    /// Notes an event; true if nobody knows yet that there is something to take.
    fn note(&self, event: &Event) -> bool {
        let mut files = self.lock();
        let was_empty = files.changed.is_empty();
        if event.need_rescan() {
            // Events were lost: any file may have changed.
            let Files { watched, changed } = &mut *files;
            changed.extend(watched.iter().cloned());
        }
        for path in &event.paths {
            if files.watched.contains(path) {
                files.changed.insert(path.clone());
            }
        }
        was_empty && !files.changed.is_empty()
    }
}

impl Watcher {
    /// Starts to watch nothing yet; `wake` is called, on another thread, when there is something to take.
    ///
    /// # Errors
    ///
    /// If the system has no means to watch.
    pub fn new(wake: impl Fn() + Send + 'static) -> notify::Result<(Self, Told)> {
        let told = Told::default();
        let noted = told.clone();
        let system =
            notify::recommended_watcher(move |event: notify::Result<Event>| match event {
                Ok(event) if matches!(event.kind, EventKind::Access(_)) => {}
                Ok(event) => {
                    if noted.note(&event) {
                        wake();
                    }
                }
                Err(err) => tracing::debug!("the watcher failed: {err}"),
            })?;
        let watcher = Self {
            system,
            dirs: VecDeque::new(),
            told: told.clone(),
        };
        Ok((watcher, told))
    }

    /// Tells of a file from now on, which has a canonical path.
    pub fn add(&mut self, path: &Path) {
        let Some(dir) = path.parent() else {
            return;
        };
        let Ok(metadata) = fs::metadata(dir) else {
            return;
        };
        let id = (metadata.dev(), metadata.ino(), metadata.created().ok());
        let known = self.dirs.iter().position(|it| it.0 == dir);
        let known = known.and_then(|idx| self.dirs.remove(idx));
        // Again if it is another directory of the same name.
        if known.is_none_or(|it| it.1 != id)
            && let Err(err) = self.system.watch(dir, RecursiveMode::NonRecursive)
        {
            tracing::debug!("{} is not watched: {err}", dir.display());
            return;
        }
        self.dirs.push_back((dir.to_path_buf(), id));
        if self.dirs.len() > DIRS_MAX
            && let Some((oldest, _)) = self.dirs.pop_front()
        {
            self.forget(&oldest);
        }
        let mut files = self.told.lock();
        if files.watched.len() < FILES_MAX {
            files.watched.insert(path.to_path_buf());
        }
    }

    fn forget(&mut self, dir: &Path) {
        if let Err(err) = self.system.unwatch(dir) {
            tracing::debug!("{} is still watched: {err}", dir.display());
        }
        let is_elsewhere = |it: &PathBuf| it.parent() != Some(dir);
        self.told.lock().watched.retain(is_elsewhere);
    }
}
