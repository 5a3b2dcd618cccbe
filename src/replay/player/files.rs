//! What a case does to the disk.

use std::{fs, io, path::Path, time::SystemTime};

use crate::replay::case::{File, Node};

/// Puts a file of the case where it belongs.
pub(super) fn lay_out(root: &Path, file: &File) -> io::Result<()> {
    let path = root.join(&file.path);
    match &file.node {
        Node::Bytes(bytes) => write_file(&path, bytes)?,
        Node::Symlink(target) => {
            make_parent(&path)?;
            symlink(Path::new(target), &path)?;
        }
        Node::Hardlink(other) => {
            make_parent(&path)?;
            fs::hard_link(root.join(other), &path)?;
        }
    }
    match file.mode {
        Some(mode) => set_mode(&path, mode),
        None => Ok(()),
    }
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make_parent(path)?;
    fs::write(path, bytes)
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

pub(super) fn set_modified(path: &Path, time: SystemTime) -> io::Result<()> {
    fs::File::options()
        .write(true)
        .open(path)?
        .set_modified(time)
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(unix)]
pub(super) fn mode_of(path: &Path) -> io::Result<u32> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::metadata(path)?.permissions().mode() & 0o7777)
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(unix))]
pub(super) fn mode_of(_: &Path) -> io::Result<u32> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(unix))]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}
