//! Reading a file as text.
//!
//! Invariant: one rule for all purposes. A file is text if all of it is UTF-8 without a NUL; a UTF-8 byte order mark
//! is a part of the raw text. Nothing is guessed or replaced, and nothing but a regular file is ever opened.

use std::{ffi::OsStr, os::fd::OwnedFd, path::Path, sync::Arc};

use rustix::{fs::OFlags, io::Errno};

use super::{DiskError, DiskErrorKind, Look, fs::Fs};
use crate::text::Text;

/// How often a file is read again because it changed while it was read.
const N_READS_MAX: usize = 4;

pub(super) fn look(fs: &Fs, path: &Path, limit_bytes: u64) -> Result<Look, DiskError> {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else {
        return Err(DiskError::new(DiskErrorKind::NotRegularFile, "a directory"));
    };
    let dir = match fs.pass_dir(parent) {
        Ok(dir) => dir,
        Err(Errno::NOENT) => return Ok(Look::Absent),
        Err(err) => return Err(DiskError::from_errno(err, "open the directory")),
    };
    let Some(stat) = fs
        .stat_at(&dir, name)
        .map_err(|err| DiskError::from_errno(err, "look at the file"))?
    else {
        return Ok(Look::Absent);
    };
    stat.require_file()?;
    match read(fs, &dir, name, limit_bytes)? {
        Some(bytes) => Ok(Look::Text(Text::Flat(Arc::new(decode(bytes)?)))),
        None => Ok(Look::Absent),
    }
}

/// Reads until the file stood still meanwhile: half of a save is nobody's text.
fn read(
    fs: &Fs,
    dir: &OwnedFd,
    name: &OsStr,
    limit_bytes: u64,
) -> Result<Option<Vec<u8>>, DiskError> {
    let failed = |err| DiskError::from_errno(err, "read the file");
    let file = match fs.open(dir, name, OFlags::RDONLY) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(err) => return Err(failed(err)),
    };
    let mut before = fs.stat(&file).map_err(failed)?;
    before.require_file()?;
    let mut n_reads = 0;
    loop {
        if before.size > limit_bytes {
            return Err(too_large(before.size, limit_bytes));
        }
        let bytes = fs.read(&file, before.size, limit_bytes).map_err(failed)?;
        if bytes.len() as u64 > limit_bytes {
            return Err(too_large(bytes.len() as u64, limit_bytes));
        }
        n_reads += 1;
        let after = fs.stat(&file).map_err(failed)?;
        if after == before || n_reads == N_READS_MAX {
            return Ok(Some(bytes));
        }
        before = after;
    }
}

fn too_large(n_bytes: u64, limit_bytes: u64) -> DiskError {
    let detail = format!("at least {n_bytes} bytes, the limit is {limit_bytes}");
    DiskError::new(DiskErrorKind::TooLarge, detail)
}

fn decode(bytes: Vec<u8>) -> Result<String, DiskError> {
    let detail = if let Some(encoding) = other_encoding(&bytes) {
        encoding.to_string()
    } else if let Some(byte) = memchr::memchr(0, &bytes) {
        format!("NUL byte at {byte}")
    } else {
        match String::from_utf8(bytes) {
            Ok(text) => return Ok(text),
            Err(err) => format!("invalid UTF-8 at byte {}", err.utf8_error().valid_up_to()),
        }
    };
    Err(DiskError::new(DiskErrorKind::NotText, detail))
}

/// The encoding that a byte order mark names, if it is not UTF-8. The longer marks come first: one contains another.
fn other_encoding(bytes: &[u8]) -> Option<&'static str> {
    const MARKS: [(&[u8], &str); 4] = [
        (b"\xFF\xFE\0\0", "UTF-32 (byte order mark FF FE 00 00)"),
        (b"\0\0\xFE\xFF", "UTF-32 (byte order mark 00 00 FE FF)"),
        (b"\xFF\xFE", "UTF-16 (byte order mark FF FE)"),
        (b"\xFE\xFF", "UTF-16 (byte order mark FE FF)"),
    ];
    MARKS
        .iter()
        .find(|(mark, _)| bytes.starts_with(mark))
        .map(|&(_, encoding)| encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: Result<&str, &str>) {
        let decoded = decode(bytes.to_vec());
        assert_eq!(
            decoded.as_deref().map_err(|err| err.detail.as_str()),
            expected
        );
    }

    #[test]
    fn utf8_is_kept_with_its_byte_order_mark_and_line_ends() {
        check(b"", Ok(""));
        check(b"\xEF\xBB\xBFa\r\nb\rc\n", Ok("\u{FEFF}a\r\nb\rc\n"));
        check("é\u{FFFD}".as_bytes(), Ok("é\u{FFFD}"));
    }

    #[test]
    fn a_foreign_byte_order_mark_names_the_encoding() {
        check(b"\xFF\xFEa\0", Err("UTF-16 (byte order mark FF FE)"));
        check(b"\xFE\xFF\0a", Err("UTF-16 (byte order mark FE FF)"));
        check(
            b"\xFF\xFE\0\0a\0\0\0",
            Err("UTF-32 (byte order mark FF FE 00 00)"),
        );
        check(
            b"\0\0\xFE\xFF\0\0\0a",
            Err("UTF-32 (byte order mark 00 00 FE FF)"),
        );
    }

    #[test]
    fn a_nul_anywhere_makes_a_file_binary() {
        check(b"abc\0", Err("NUL byte at 3"));
        let mut bytes = vec![b'a'; 9000];
        bytes.push(0);
        check(&bytes, Err("NUL byte at 9000"));
    }

    #[test]
    fn invalid_utf8_is_reported_where_it_starts() {
        check(b"ab\xFFc", Err("invalid UTF-8 at byte 2"));
        check(
            "caf\u{e9}".as_bytes().split_last().expect("not empty").1,
            Err("invalid UTF-8 at byte 3"),
        );
        check(b"\xED\xA0\x80", Err("invalid UTF-8 at byte 0"));
    }
}
