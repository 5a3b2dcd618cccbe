//! Names of files: what callers write, and which file it is.
//!
//! Invariant: a file has one [`FileKey`], whichever way it was named: relative, absolute, as a URI, through links. The
//! path that the caller used is kept beside it, for display only.
//!
//! Nothing here touches the disk: [`candidates`] lists the paths that a name may mean, the engine looks them up
//! ([`Lookups`]), and [`pick`] chooses.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
};

use url::Url;

use crate::{
    disk::{DiskError, DiskErrorKind, Resolved},
    error::{Code, Failure, FsError},
};

/// How much of two names must be alike for one to be named when the other is missing.
const NEAR_RATIO: f32 = 0.6;

/// Identity of a file: its canonical path, or the URI of what only an editor has (`untitled:1`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKey {
    /// Links are resolved; of a file that does not exist, its directory's.
    Path(PathBuf),
    /// As the editor writes it.
    Uri(String),
}

impl FileKey {
    /// The URI of the file where no open document says otherwise.
    pub fn uri(&self) -> String {
        match self {
            Self::Path(path) => Url::from_file_path(path)
                .map_or_else(|()| path.to_string_lossy().into_owned(), String::from),
            Self::Uri(uri) => uri.clone(),
        }
    }
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Uri(uri) => f.write_str(uri),
        }
    }
}

/// A workspace folder: its name and its path as the editor gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Folder {
    pub name: String,
    pub path: PathBuf,
}

/// What the disk says of the paths that a message names: which file each is.
#[derive(Debug, Clone, Default)]
pub struct Lookups(HashMap<PathBuf, Result<Resolved, DiskError>>);

impl Lookups {
    /// Looks up each path with `resolve`.
    pub fn of(
        paths: Vec<PathBuf>,
        mut resolve: impl FnMut(&Path) -> Result<Resolved, DiskError>,
    ) -> Self {
        let mut lookups = HashMap::with_capacity(paths.len());
        for path in paths {
            lookups.entry(path).or_insert_with_key(|path| resolve(path));
        }
        Self(lookups)
    }

    /// What was found at a path; none: it was not looked up.
    pub fn get(&self, path: &Path) -> Option<&Result<Resolved, DiskError>> {
        self.0.get(path)
    }
}

/// Decodes a `file:` URI; `None` for other schemes and for one that names no path of this machine, or no file.
pub fn file_uri_to_path(uri: &str) -> Option<PathBuf> {
    dir_uri_to_path(uri).filter(|it| it.as_os_str().len() > 1)
}

/// The same for a directory, which may be `/`.
pub fn dir_uri_to_path(uri: &str) -> Option<PathBuf> {
    let url = Url::parse(uri).ok()?;
    (url.scheme() == "file").then(|| url.to_file_path().ok())?
}

/// The directory for temporary files: `$TMPDIR`, else `/tmp`.
pub fn temp_dir() -> PathBuf {
    let named = std::env::temp_dir();
    if named.is_absolute() {
        named
    } else {
        PathBuf::from("/tmp")
    }
}

fn scheme(name: &str) -> Option<&str> {
    let (scheme, _) = name.split_once(':')?;
    let is_scheme = scheme.len() >= 2
        && scheme.starts_with(|it: char| it.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it));
    is_scheme.then_some(scheme)
}

/// What a name may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Candidates {
    /// An open document that is no file.
    Document(String),
    /// The first of these that exists, else the first.
    Paths(Vec<PathBuf>),
}

/// Lists what `name` may mean: an absolute path, a path below `cwd`, `<workspace folder>/rest`, or a URI.
pub fn candidates(
    name: &str,
    cwd: Option<&Path>,
    folders: &[Folder],
    is_open: impl Fn(&str) -> bool,
) -> Result<Candidates, Failure> {
    if name.trim().is_empty() {
        return Err(Failure::params("path: must not be blank"));
    }
    if name.contains('\0') {
        return Err(Failure::params("path: must not contain a NUL character"));
    }
    if names_directory(name) {
        return Err(a_directory(name).into());
    }
    if let Some(scheme) = scheme(name) {
        if scheme.eq_ignore_ascii_case("file") {
            return match file_uri_to_path(name) {
                Some(path) => Ok(Candidates::Paths(vec![path])),
                None => Err(Failure::params(format!(
                    "path: {name:?} names no file of this machine"
                ))),
            };
        }
        if is_open(name) {
            return Ok(Candidates::Document(name.to_string()));
        }
    }
    if is_foreign(name) {
        return Err(foreign(name).into());
    }
    let path = Path::new(name);
    if path.is_absolute() {
        return Ok(Candidates::Paths(vec![path.to_path_buf()]));
    }
    let mut paths = Vec::new();
    if let Some(base) = cwd.or_else(|| folders.first().map(|it| it.path.as_path())) {
        paths.push(base.join(path));
    }
    let mut parts = path.components();
    if let Some(first) = parts.next() {
        let rest = parts.as_path();
        let named = |folder: &&Folder| {
            first.as_os_str() == folder.name.as_str() && !rest.as_os_str().is_empty()
        };
        paths.extend(
            folders
                .iter()
                .filter(named)
                .map(|folder| folder.path.join(rest)),
        );
    }
    if paths.is_empty() {
        return Err(Failure::params(format!(
            "path: {name:?} is relative, and neither the session has a cwd nor the editor a workspace folder"
        )));
    }
    Ok(Candidates::Paths(paths))
}

/// The names most like the last one of a path, best first; at most three.
pub fn near(path: &Path, siblings: &[String]) -> Vec<String> {
    let Some(name) = path.file_name().and_then(|it| it.to_str()) else {
        return Vec::new();
    };
    let mut scored: Vec<(f32, &String)> = siblings
        .iter()
        .map(|it| {
            let old: Vec<char> = name.to_lowercase().chars().collect();
            let new: Vec<char> = it.to_lowercase().chars().collect();
            let ops = similar::capture_diff_slices(similar::Algorithm::Myers, &old, &new);
            (similar::diff_ratio(&ops, old.len(), new.len()), it)
        })
        .filter(|it| it.0 >= NEAR_RATIO)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(3).map(|it| it.1.clone()).collect()
}

/// `C:\x`, `\\server\share`: paths that only another kind of machine has.
fn is_foreign(name: &str) -> bool {
    let bytes = name.as_bytes();
    let drive = bytes.len() > 2
        && bytes[0].is_ascii_alphabetic()
        && bytes[1] == b':'
        && matches!(bytes[2], b'\\' | b'/');
    !cfg!(windows) && (drive || name.starts_with("\\\\"))
}

fn foreign(name: &str) -> FsError {
    FsError::new(
        Code::FsNotFound,
        format!("\"{name}\": a path of another machine"),
        "name the file as this machine does",
    )
}

/// `new/`, `new/.`: a file of that name is not meant.
fn names_directory(name: &str) -> bool {
    name.ends_with('/') || name.ends_with("/.")
}

fn a_directory(name: &str) -> FsError {
    let what = format!("\"{name}\": names a directory");
    FsError::new(Code::FsNotRegularFile, what, "name a regular file")
}

/// The mount point of a Windows drive under WSL, if the path is below one: `/mnt/c` of `/mnt/c/x`.
fn drive_mount(path: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix("/mnt").ok()?;
    let drive = rest.components().next()?.as_os_str().to_str()?;
    (drive.len() == 1 && drive.chars().all(|it| it.is_ascii_alphabetic()))
        .then(|| Path::new("/mnt").join(drive))
}

impl Candidates {
    /// The paths to look up before [`Candidates::pick`].
    pub fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Document(_) => Vec::new(),
            Self::Paths(paths) => paths
                .iter()
                .flat_map(|it| [Some(it.clone()), drive_mount(it)])
                .flatten()
                .collect(),
        }
    }

    /// Chooses the file. One that is only in the editor exists, too.
    pub fn pick(
        self,
        name: &str,
        lookups: &Lookups,
        is_open: impl Fn(&FileKey) -> bool,
    ) -> Result<FileKey, Failure> {
        let paths = match self {
            Self::Document(uri) => return Ok(FileKey::Uri(uri)),
            Self::Paths(paths) => paths,
        };
        let found: Vec<_> = paths
            .iter()
            .filter_map(|path| Some((path, lookups.0.get(path)?)))
            .collect();
        let exists = |it: &&(&PathBuf, &Result<Resolved, DiskError>)| match it.1 {
            Ok(resolved) => resolved.exists || is_open(&FileKey::Path(resolved.path.clone())),
            Err(_) => false,
        };
        let Some((path, resolved)) = found.iter().find(exists).or_else(|| found.first()) else {
            return Err(Failure::params(format!("path: {name:?} was not looked up")));
        };
        let missing_mount = drive_mount(path).is_some_and(|mount| {
            matches!(
                lookups.0.get(&mount),
                Some(Ok(Resolved { exists: false, .. }))
            )
        });
        if missing_mount {
            return Err(foreign(name).into());
        }
        match resolved {
            Ok(resolved) => Ok(FileKey::Path(resolved.path.clone())),
            Err(err) if err.kind == DiskErrorKind::InvalidPath => {
                Err(Failure::params(format!("path: {}", err.detail)))
            }
            Err(err) => Err(FsError::from_disk(err, name)
                .at(name, &FileKey::Path((*path).clone()).uri())
                .into()),
        }
    }
}

impl FsError {
    /// What the disk refused, in the words of the protocol.
    pub fn from_disk(err: &DiskError, path: &str) -> Self {
        let (code, remedy) = match err.kind {
            DiskErrorKind::NotRegularFile => (Code::FsNotRegularFile, "name a regular file"),
            DiskErrorKind::NotText => (
                Code::FsNotText,
                "open it in the editor with the right encoding: an open document can be read and edited",
            ),
            DiskErrorKind::TooLarge => (
                Code::FsTooLarge,
                "use another tool for this file, or raise limits.fileBytes",
            ),
            DiskErrorKind::PermissionDenied => (
                Code::FsPermissionDenied,
                "ask the user to change the permissions of the file or its directory",
            ),
            DiskErrorKind::Stale => (Code::FsStaleVersion, "re-read the file, then retry"),
            DiskErrorKind::Exists => (
                Code::FsAlreadyExists,
                "choose another name, or read and write it",
            ),
            DiskErrorKind::InvalidPath | DiskErrorKind::NotFound => {
                (Code::FsNotFound, "check the path")
            }
            DiskErrorKind::Io => (Code::FsIoError, "tell the user what the system says"),
        };
        Self::new(code, format!("\"{path}\": {}", err.detail), remedy)
    }
}
