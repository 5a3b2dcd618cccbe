//! Every call that this module makes to the system, and nothing more.
//!
//! Invariant: nothing else in `disk` touches a file, so tests can let the n-th call fail, or let somebody else act
//! just before it. Paths are opened once, as directories without symbolic links; all else happens relative to
//! these, so a directory that is swapped for a link meanwhile cannot lead a change astray.

use std::{
    cell::RefCell,
    ffi::{OsStr, OsString},
    fmt,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{
        self, Access, AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, Uid, XattrFlags,
    },
    io::{self, Errno},
};

use super::{DiskError, DiskErrorKind};

/// What is read or written at a time: it stays in the processor's cache while it is compared and hashed.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

thread_local! {
    /// Kept: to get and clear a new one for each file would take longer than to read most files.
    static BLOCK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    OpenDir,
    Open,
    Stat,
    Access,
    ReadLink,
    Read,
    Create,
    Write,
    Truncate,
    Chmod,
    Chown,
    Xattr,
    Sync,
    MakeDir,
    RemoveDir,
    Exchange,
    RenameNew,
    RenameOver,
    Link,
    Unlink,
    List,
    Lock,
}

/// Decides whether a call is made or fails.
type Gate = dyn Fn(Call) -> io::Result<()> + Send + Sync;

/// The system.
#[derive(Clone, Default)]
pub(super) struct Fs {
    gate: Option<Arc<Gate>>,
}

impl fmt::Debug for Fs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fs").finish_non_exhaustive()
    }
}

/// What the system knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) kind: FileType,
    pub(super) id: FileId,
    /// The permissions, the special bits included.
    pub(super) mode: Mode,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    pub(super) n_links: u64,
    /// When the file or its attributes last changed, in seconds and nanoseconds.
    pub(super) changed: (i64, i64),
}

/// The file itself, whatever its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) dev: u64,
    pub(super) ino: u64,
}

impl Stat {
    // The widths of these fields differ from system to system.
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        clippy::cast_lossless,
        trivial_numeric_casts
    )]
    fn of(stat: &fs::Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            id: FileId {
                dev: stat.st_dev as u64,
                ino: stat.st_ino as u64,
            },
            mode: Mode::from_raw_mode(stat.st_mode),
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size as u64,
            n_links: stat.st_nlink as u64,
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    /// Whether somebody may write, root aside.
    pub(super) fn is_writable(&self) -> bool {
        self.mode.intersects(Mode::WUSR | Mode::WGRP | Mode::WOTH)
    }

    /// Fails unless this is a regular file, saying what it is.
    pub(super) fn require_file(&self) -> Result<(), DiskError> {
        let what = match self.kind {
            FileType::RegularFile => return Ok(()),
            FileType::Directory => "a directory",
            FileType::Symlink => "a symbolic link",
            FileType::Fifo => "a FIFO",
            FileType::Socket => "a socket",
            FileType::CharacterDevice => "a character device",
            FileType::BlockDevice => "a block device",
            FileType::Unknown => "something of an unknown type",
        };
        Err(DiskError::new(DiskErrorKind::NotRegularFile, what))
    }
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Dir {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) stat: Stat,
    /// Else its entries can be used, but neither listed nor synced.
    is_readable: bool,
}

impl Fs {
    /// The system, with somebody to ask before each call.
    #[cfg(test)]
    pub(super) fn gated(gate: impl Fn(Call) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self {
            gate: Some(Arc::new(gate)),
        }
    }

    fn call<T>(&self, call: Call, mut f: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        if let Some(gate) = &self.gate {
            gate(call)?;
        }
        io::retry_on_intr(&mut f)
    }

    /// Opens a directory by a path in which nothing is a symbolic link.
    pub(super) fn open_dir(&self, path: &Path) -> io::Result<Dir> {
        let opened = self.call(Call::OpenDir, || {
            or_unreadable(|flags| open_dir_without_links(path, flags))
        })?;
        self.opened_dir(opened, path.to_path_buf())
    }

    /// The same, only to go through it.
    pub(super) fn pass_dir(&self, path: &Path) -> io::Result<OwnedFd> {
        self.call(Call::OpenDir, || {
            open_dir_without_links(path, DIR_FLAGS | GO_THROUGH)
        })
    }

    /// Opens a directory in a directory.
    pub(super) fn open_dir_at(&self, dir: &Dir, name: &OsStr) -> io::Result<Dir> {
        let opened = self.call(Call::OpenDir, || {
            or_unreadable(|flags| {
                fs::openat(&dir.fd, name, flags | OFlags::NOFOLLOW, Mode::empty())
            })
        })?;
        self.opened_dir(opened, dir.path.join(name))
    }

    fn opened_dir(&self, (fd, is_readable): (OwnedFd, bool), path: PathBuf) -> io::Result<Dir> {
        let stat = self.stat(&fd)?;
        Ok(Dir {
            fd,
            path,
            stat,
            is_readable,
        })
    }

    /// Opens a file that was seen to be a regular one; never blocks if it has become something else.
    pub(super) fn open(&self, dir: impl AsFd, name: &OsStr, access: OFlags) -> io::Result<OwnedFd> {
        let dir = dir.as_fd();
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        self.call(Call::Open, || {
            // A new access time would have to wait for the file system's journal, some milliseconds in the moment
            // in which we can least afford it. Only the owner may do without.
            match fs::openat(dir, name, flags | NO_ACCESS_TIME, Mode::empty()) {
                Err(Errno::PERM) => fs::openat(dir, name, flags, Mode::empty()),
                result => result,
            }
        })
    }

    /// Makes a file that must not exist, open for writing.
    pub(super) fn create(&self, dir: &Dir, name: &OsStr, mode: Mode) -> io::Result<OwnedFd> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.call(Call::Create, || fs::openat(&dir.fd, name, flags, mode))
    }

    /// Looks at an entry itself, not at what it links to.
    pub(super) fn stat_at(&self, dir: impl AsFd, name: &OsStr) -> io::Result<Option<Stat>> {
        let stat = self.call(Call::Stat, || {
            fs::statat(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)
        });
        match stat {
            Ok(stat) => Ok(Some(Stat::of(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(err) => Err(err),
        }
    }

    pub(super) fn stat(&self, file: impl AsFd) -> io::Result<Stat> {
        self.call(Call::Stat, || fs::fstat(file.as_fd()))
            .map(|stat| Stat::of(&stat))
    }

    /// Fails if this process may not write the entry.
    pub(super) fn may_write(&self, dir: &Dir, name: &OsStr) -> io::Result<()> {
        self.call(Call::Access, || {
            fs::accessat(&dir.fd, name, Access::WRITE_OK, AtFlags::EACCESS)
        })
    }

    pub(super) fn read_link(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.call(Call::ReadLink, || fs::readlinkat(CWD, path, Vec::new()))
            .map(std::ffi::CString::into_bytes)
    }

    /// Reads a file from its start: `n_bytes`, or to its end if that comes before. Of a file that claims to be empty,
    /// as those do which the system makes up when they are read: to its end, but not much more than `limit_bytes`.
    pub(super) fn read(
        &self,
        file: impl AsFd,
        n_bytes: u64,
        limit_bytes: u64,
    ) -> io::Result<Vec<u8>> {
        let n_bytes = usize::try_from(n_bytes).map_err(|_| Errno::FBIG)?;
        let mut bytes = Vec::with_capacity(n_bytes);
        while bytes.len() < n_bytes || (n_bytes == 0 && bytes.len() as u64 <= limit_bytes) {
            if bytes.len() == bytes.capacity() {
                bytes.reserve(BLOCK_BYTES);
            }
            let offset = bytes.len() as u64;
            let spare = rustix::buffer::spare_capacity(&mut bytes);
            if self.read_at(file.as_fd(), spare, offset)? == 0 {
                break;
            }
        }
        Ok(bytes)
    }

    fn read_at<B: rustix::buffer::Buffer<u8>>(
        &self,
        file: BorrowedFd<'_>,
        buffer: B,
        offset: u64,
    ) -> io::Result<B::Output> {
        if let Some(gate) = &self.gate {
            gate(Call::Read)?;
        }
        io::pread(file, buffer, offset)
    }

    /// Shows the first `n_bytes` of a file to `f` in blocks, until `f` has seen enough; whether it has seen all of it.
    pub(super) fn read_blocks(
        &self,
        file: impl AsFd,
        n_bytes: u64,
        mut f: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<bool> {
        BLOCK.with_borrow_mut(|all| {
            all.resize(BLOCK_BYTES, 0);
            let mut offset = 0;
            while offset < n_bytes {
                let n_wanted = usize::try_from(n_bytes - offset).unwrap_or(BLOCK_BYTES);
                let block = &mut all[..n_wanted.min(BLOCK_BYTES)];
                let n_read =
                    self.call(Call::Read, || io::pread(file.as_fd(), &mut *block, offset))?;
                if n_read == 0 || !f(&block[..n_read]) {
                    return Ok(false);
                }
                offset += n_read as u64;
            }
            Ok(true)
        })
    }

    /// Writes at a byte of a file; what is behind stays.
    pub(super) fn write_at(&self, file: impl AsFd, bytes: &[u8], byte: u64) -> io::Result<()> {
        let mut n_written = 0;
        while n_written < bytes.len() {
            let offset = byte + n_written as u64;
            n_written += self.call(Call::Write, || {
                io::pwrite(file.as_fd(), &bytes[n_written..], offset)
            })?;
        }
        Ok(())
    }

    pub(super) fn truncate(&self, file: impl AsFd, n_bytes: usize) -> io::Result<()> {
        self.call(Call::Truncate, || {
            fs::ftruncate(file.as_fd(), n_bytes as u64)
        })
    }

    pub(super) fn chmod(&self, file: impl AsFd, mode: Mode) -> io::Result<()> {
        self.call(Call::Chmod, || fs::fchmod(file.as_fd(), mode))
    }

    pub(super) fn chown(&self, file: impl AsFd, uid: u32, gid: u32) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        self.call(Call::Chown, || {
            fs::fchown(file.as_fd(), Some(uid), Some(gid))
        })
    }

    /// The names of a file's extended attributes, ACLs among them; none where the system has none.
    pub(super) fn xattr_names(&self, file: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
        let list = self.call(Call::Xattr, || {
            let n_bytes = fs::flistxattr_query(file.as_fd())?;
            let mut list = vec![0; n_bytes];
            if n_bytes > 0 {
                let n_bytes = fs::flistxattr(file.as_fd(), &mut list[..])?;
                list.truncate(n_bytes);
            }
            Ok(list)
        });
        match list {
            Ok(list) => {
                let names = list.split(|&byte| byte == 0);
                Ok(names
                    .filter(|name| !name.is_empty())
                    .map(<[u8]>::to_vec)
                    .collect())
            }
            Err(Errno::NOTSUP | Errno::NOSYS) => Ok(Vec::new()),
            Err(err) => Err(err),
        }
    }

    pub(super) fn copy_xattr(&self, from: impl AsFd, to: impl AsFd, name: &[u8]) -> io::Result<()> {
        self.call(Call::Xattr, || {
            let n_bytes = fs::fgetxattr_query(from.as_fd(), name)?;
            let mut value = vec![0; n_bytes];
            if n_bytes > 0 {
                let n_bytes = fs::fgetxattr(from.as_fd(), name, &mut value[..])?;
                value.truncate(n_bytes);
            }
            fs::fsetxattr(to.as_fd(), name, &value, XattrFlags::empty())
        })
    }

    pub(super) fn remove_xattr(&self, file: impl AsFd, name: &[u8]) -> io::Result<()> {
        self.call(Call::Xattr, || fs::fremovexattr(file.as_fd(), name))
    }

    pub(super) fn sync(&self, file: impl AsFd) -> io::Result<()> {
        self.call(Call::Sync, || fs::fsync(file.as_fd()))
    }

    /// Makes the entries of a directory durable, where it can be read.
    pub(super) fn sync_dir(&self, dir: &Dir) -> io::Result<()> {
        if !dir.is_readable {
            return Ok(());
        }
        match self.sync(&dir.fd) {
            // Some network file systems sync directories by themselves, and say so like this.
            Err(Errno::INVAL) => Ok(()),
            result => result,
        }
    }

    pub(super) fn make_dir(&self, dir: &Dir, name: &OsStr, mode: Mode) -> io::Result<()> {
        self.call(Call::MakeDir, || fs::mkdirat(&dir.fd, name, mode))
    }

    pub(super) fn remove_dir(&self, dir: &Dir, name: &OsStr) -> io::Result<()> {
        self.call(Call::RemoveDir, || {
            fs::unlinkat(&dir.fd, name, AtFlags::REMOVEDIR)
        })
    }

    /// The names in a directory.
    pub(super) fn list(&self, dir: &Dir) -> io::Result<Vec<OsString>> {
        self.call(Call::List, || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let entries = fs::Dir::new(fs::openat(&dir.fd, ".", flags, Mode::empty())?)?;
            let names = entries.map(|entry| Ok(entry?.file_name().to_bytes().to_vec()));
            let names: io::Result<Vec<_>> = names.collect();
            Ok(names?.into_iter().map(OsString::from_vec).collect())
        })
    }

    /// Takes the lock of a file for as long as it is open; false if another process has it.
    pub(super) fn try_lock(&self, file: impl AsFd) -> io::Result<bool> {
        match self.call(Call::Lock, || {
            fs::flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive)
        }) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(err) => Err(err),
        }
    }

    /// Waits for the lock of a file, which others hold only for moments.
    pub(super) fn lock(&self, file: impl AsFd) -> io::Result<()> {
        self.call(Call::Lock, || {
            fs::flock(file.as_fd(), FlockOperation::LockExclusive)
        })
    }

    /// Lets two entries of a directory change places, atomically.
    pub(super) fn exchange(&self, dir: &Dir, a: &OsStr, b: &OsStr) -> io::Result<()> {
        self.call(Call::Exchange, || exchange(&dir.fd, a, b))
    }

    /// Renames a file to where nothing is, else `EXIST`.
    pub(super) fn rename_new(
        &self,
        (from_dir, from): (&Dir, &OsStr),
        (to_dir, to): (&Dir, &OsStr),
    ) -> io::Result<()> {
        let renamed = self.call(Call::RenameNew, || {
            rename_new(&from_dir.fd, from, &to_dir.fd, to)
        });
        match renamed {
            Err(err) if is_unsupported(err) => {
                self.link((from_dir, from), (to_dir, to))?;
                self.unlink(from_dir, from).inspect_err(|_| {
                    let _ = self.unlink(to_dir, to);
                })
            }
            result => result,
        }
    }

    /// Gives a file another name.
    pub(super) fn link(
        &self,
        (from_dir, from): (&Dir, &OsStr),
        (to_dir, to): (&Dir, &OsStr),
    ) -> io::Result<()> {
        self.call(Call::Link, || {
            fs::linkat(&from_dir.fd, from, &to_dir.fd, to, AtFlags::empty())
        })
    }

    /// Renames a file over another of the same directory.
    pub(super) fn rename_over(&self, dir: &Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.call(Call::RenameOver, || {
            fs::renameat(&dir.fd, from, &dir.fd, to)
        })
    }

    pub(super) fn unlink(&self, dir: &Dir, name: &OsStr) -> io::Result<()> {
        self.call(Call::Unlink, || {
            fs::unlinkat(&dir.fd, name, AtFlags::empty())
        })
    }
}

/// Whether the file system just does not have this call.
pub(super) fn is_unsupported(err: Errno) -> bool {
    matches!(err, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

#[cfg(target_os = "linux")]
const NO_ACCESS_TIME: OFlags = OFlags::NOATIME;
#[cfg(not(target_os = "linux"))]
const NO_ACCESS_TIME: OFlags = OFlags::empty();

/// Opens a directory to be read, or else only to be gone through; whether it can be read.
fn or_unreadable(open: impl Fn(OFlags) -> io::Result<OwnedFd>) -> io::Result<(OwnedFd, bool)> {
    match open(DIR_FLAGS) {
        Ok(dir) => Ok((dir, true)),
        Err(Errno::ACCESS) => Ok((open(DIR_FLAGS | GO_THROUGH)?, false)),
        Err(err) => Err(err),
    }
}

const DIR_FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

#[cfg(target_os = "linux")]
const GO_THROUGH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const GO_THROUGH: OFlags = OFlags::empty();

#[cfg(target_os = "linux")]
fn open_dir_without_links(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;

    match fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Before Linux 5.6, or forbidden in a container.
        Err(Errno::NOSYS | Errno::PERM) => {
            fs::openat(CWD, path, flags | OFlags::NOFOLLOW, Mode::empty())
        }
        result => result,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_dir_without_links(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    fs::openat(CWD, path, flags | OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn exchange(dir: &OwnedFd, a: &OsStr, b: &OsStr) -> io::Result<()> {
    fs::renameat_with(dir, a, dir, b, fs::RenameFlags::EXCHANGE)
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn exchange(_dir: &OwnedFd, _a: &OsStr, _b: &OsStr) -> io::Result<()> {
    Err(Errno::NOSYS)
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn rename_new(from_dir: &OwnedFd, from: &OsStr, to_dir: &OwnedFd, to: &OsStr) -> io::Result<()> {
    fs::renameat_with(from_dir, from, to_dir, to, fs::RenameFlags::NOREPLACE)
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn rename_new(_: &OwnedFd, _: &OsStr, _: &OwnedFd, _: &OsStr) -> io::Result<()> {
    Err(Errno::NOSYS)
}
