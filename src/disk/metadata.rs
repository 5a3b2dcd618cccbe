//! What a file has besides its content: mode, owner, extended attributes with the ACL.
//!
//! Invariant: a copy never has more rights than the original. It is private until its owner is right.

use std::os::fd::AsFd;

use rustix::io::{self, Errno};

use super::fs::{Fs, Stat};

const ACL: &[u8] = b"system.posix_acl_access";

/// Gives a private copy what the original has; false if something of it cannot be kept that users rely on.
pub(super) fn copy_metadata(
    fs: &Fs,
    original: (impl AsFd, &Stat),
    copy: (impl AsFd, &Stat),
) -> io::Result<bool> {
    let ((original, wanted), (copy, has)) = (original, copy);
    if (has.uid, has.gid) != (wanted.uid, wanted.gid) {
        match fs.chown(copy.as_fd(), wanted.uid, wanted.gid) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::NOSYS | Errno::NOTSUP | Errno::INVAL) => return Ok(false),
            Err(err) => return Err(err),
        }
    }
    if !copy_xattrs(fs, original.as_fd(), copy.as_fd())? {
        return Ok(false);
    }
    // Last: a change of the owner clears the special bits, an ACL sets those of the group.
    fs.chmod(copy.as_fd(), wanted.mode)?;
    Ok(true)
}

fn copy_xattrs(fs: &Fs, original: impl AsFd, copy: impl AsFd) -> io::Result<bool> {
    let wanted = fs.xattr_names(original.as_fd())?;
    for name in &wanted {
        // The first two sign the content; the system itself takes the third away on every write.
        if matches!(
            &name[..],
            b"security.ima" | b"security.evm" | b"security.capability"
        ) {
            continue;
        }
        match fs.copy_xattr(original.as_fd(), copy.as_fd(), name) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL | Errno::RANGE) => {
                if name == ACL || name.starts_with(b"user.") {
                    return Ok(false);
                }
            }
            Err(err) => return Err(err),
        }
    }
    // The directory's default ACL is for new files; this is none.
    let is_acl = |name: &Vec<u8>| name == ACL;
    if !wanted.iter().any(is_acl) && fs.xattr_names(copy.as_fd())?.iter().any(is_acl) {
        fs.remove_xattr(copy.as_fd(), ACL)?;
    }
    Ok(true)
}
