//! The disk layer on a real file system.

mod adversary;
mod changes;
mod dsh;
mod failures;
mod kill;
mod paths;
mod races;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{fs::Fs, *};

/// A folder of its own for one test; paths are relative to it.
struct Folder {
    dir: TempDir,
    path: PathBuf,
    /// A disk with a journal of its own.
    disk: RealDisk,
    state: TempDir,
}

impl Folder {
    /// Makes files from `path: content` lines.
    fn new(files: &[(&str, &str)]) -> Self {
        let tempdir = || tempfile::tempdir().expect("a temporary directory");
        Self::in_dirs(tempdir(), tempdir(), files)
    }

    /// In memory where there is such a place: for tests that sync thousands of times.
    fn quick(files: &[(&str, &str)]) -> Self {
        let tempdir = || {
            let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
            dir.expect("a temporary directory")
        };
        Self::in_dirs(tempdir(), tempdir(), files)
    }

    fn in_dirs(dir: TempDir, state: TempDir, files: &[(&str, &str)]) -> Self {
        let path = dir.path().canonicalize().expect("it exists");
        let folder = Self {
            dir,
            path,
            disk: RealDisk::with_journal_in(vec![state.path().to_path_buf()]),
            state,
        };
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() {
            return self.dir.path().to_path_buf();
        }
        self.path.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("not the root")).expect("make the directory");
        fs::write(path, text).expect("write");
    }

    fn chmod(&self, path: &str, mode: u32) {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(self.path(path), mode).expect("chmod");
    }

    fn mode(&self, path: &str) -> u32 {
        let metadata = fs::metadata(self.path(path)).expect("it exists");
        metadata.permissions().mode() & 0o7777
    }

    /// Everything in the folder, `.` files too: `a.txt=content dir/ link->target`, sorted.
    fn shows(&self) -> String {
        let mut lines = Vec::new();
        self.list(&self.path, &mut lines);
        lines.sort();
        lines.join(" ")
    }

    fn list(&self, dir: &Path, lines: &mut Vec<String>) {
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(&self.path).expect("inside").display();
            if let Ok(target) = fs::read_link(&path) {
                lines.push(format!("{name}->{}", target.display()));
            } else if path.is_dir() {
                lines.push(format!("{name}/"));
                self.list(&path, lines);
            } else {
                let content = fs::read(&path).expect("read");
                lines.push(format!("{name}={}", String::from_utf8_lossy(&content)));
            }
        }
    }

    /// Stages and commits.
    fn change(&self, changes: &[DiskChange]) -> Result<Committed, DiskFailure> {
        change_on(&self.disk, changes)
    }

    /// A disk on this system, as another process would have it.
    fn disk_on(&self, fs: &Fs) -> RealDisk {
        RealDisk::on(fs.clone(), vec![self.state.path().to_path_buf()])
    }

    /// The same, with a journal that was made before.
    fn ready_disk_on(&self, fs: &Fs) -> RealDisk {
        let disk = self.disk_on(fs);
        let mut journal = Journal::make(&Fs::default(), &disk.journal_dirs).expect("a journal");
        journal.fs = fs.clone();
        *lock(&disk.journal) = Some(Arc::new(journal));
        disk
    }

    fn create(&self, path: &str, new: &str) -> DiskChange {
        DiskChange::Create {
            path: self.path(path),
            text: text(new),
        }
    }

    fn replace(&self, path: &str, old: &str, new: &str) -> DiskChange {
        DiskChange::Replace {
            path: self.path(path),
            expected: text(old),
            text: text(new),
        }
    }

    fn delete(&self, path: &str, old: &str) -> DiskChange {
        DiskChange::Delete {
            path: self.path(path),
            expected: text(old),
        }
    }

    fn rename(&self, from: &str, to: &str, old: &str) -> DiskChange {
        DiskChange::Rename {
            from: self.path(from),
            to: self.path(to),
            expected: text(old),
        }
    }
}

fn text(text: &str) -> Text {
    Text::Flat(Arc::new(text.to_string()))
}

/// `Ok` or the kind and the detail of what failed, with the index of the change.
fn outcome(result: Result<Committed, DiskFailure>) -> String {
    match result {
        Ok(committed) => {
            assert_eq!(committed.residue, Vec::<PathBuf>::new());
            "ok".to_string()
        }
        Err(failure) => {
            let undone = if failure.unrestored.is_empty() {
                ""
            } else {
                ", stays"
            };
            let DiskFailure { change, error, .. } = failure;
            format!("{change} {:?}: {}{undone}", error.kind, error.detail)
        }
    }
}

/// Stages and commits.
fn change_on(disk: &RealDisk, changes: &[DiskChange]) -> Result<Committed, DiskFailure> {
    disk.commit(disk.stage(changes)?)
}
