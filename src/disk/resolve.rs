//! The one canonical path of a file.
//!
//! Invariant: all spellings that lead to a file give the same path, and the file's creation does not change it. So
//! a link whose target is missing stands for that target, and `..` is taken as the system takes it: after the links
//! before it.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Component, Path, PathBuf},
};

use rustix::fs::{CWD, FileType};

use super::{DiskError, DiskErrorKind, Resolved, fs::Fs};

/// As many links as Linux follows.
const N_LINKS_MAX: usize = 40;
/// More than any system takes, with links in the path followed one by one.
const PATH_BYTES_MAX: usize = 4096;

pub(super) fn resolve(fs: &Fs, path: &Path) -> Result<Resolved, DiskError> {
    check_spelling(path)?;
    let mut canonical = PathBuf::from("/");
    let mut exists = true;
    let mut n_links = 0;
    let mut is_link = false;
    // In reverse, so that a link's target can be put in front.
    let mut rest = Vec::new();
    push_components(&mut rest, path);
    while let Some(name) = rest.pop() {
        if name == ".." {
            canonical.pop();
            exists = look_up(fs, &canonical)?.is_some();
            continue;
        }
        let candidate = canonical.join(&name);
        if candidate.as_os_str().len() >= PATH_BYTES_MAX {
            return Err(DiskError::new(
                DiskErrorKind::InvalidPath,
                "the path is too long",
            ));
        }
        let kind = look_up(fs, &candidate)?;
        match kind {
            Some(FileType::Symlink) => {
                n_links += 1;
                is_link |= rest.is_empty();
                if n_links > N_LINKS_MAX {
                    let detail = "the path's symbolic links form a loop, or are too many";
                    return Err(DiskError::new(DiskErrorKind::Io, detail));
                }
                let target = fs
                    .read_link(&candidate)
                    .map_err(|err| DiskError::from_errno(err, "follow a symbolic link"))?;
                let target = PathBuf::from(OsString::from_vec(target));
                if target.is_absolute() {
                    canonical = PathBuf::from("/");
                }
                push_components(&mut rest, &target);
                continue;
            }
            Some(FileType::Directory) | None => {}
            // `..` would leave it again, but the system does not let anybody through a file.
            Some(_) if !rest.is_empty() => return Err(DiskError::under_a_file()),
            Some(_) => {}
        }
        exists = kind.is_some();
        canonical = candidate;
    }
    let path = canonical;
    Ok(Resolved {
        path,
        exists,
        is_link,
    })
}

fn look_up(fs: &Fs, path: &Path) -> Result<Option<FileType>, DiskError> {
    match fs.stat_at(CWD, path.as_os_str()) {
        Ok(stat) => Ok(stat.map(|stat| stat.kind)),
        Err(err) => Err(DiskError::from_errno(err, "look up the path")),
    }
}

fn push_components(rest: &mut Vec<OsString>, path: &Path) {
    let names = path
        .components()
        .rev()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsStr::new("..").to_owned()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        });
    rest.extend(names);
}

fn check_spelling(path: &Path) -> Result<(), DiskError> {
    let bytes = path.as_os_str().as_bytes();
    let detail = if bytes.iter().all(u8::is_ascii_whitespace) {
        "an empty path".to_string()
    } else if let Some(byte) = bytes.iter().position(|&byte| byte == 0) {
        format!("a NUL in the path at byte {byte}")
    } else if !path.is_absolute() {
        "a relative path".to_string()
    } else {
        return Ok(());
    };
    Err(DiskError::new(DiskErrorKind::InvalidPath, detail))
}
