//! What a file should hold.
//!
//! Invariant: whoever has the bytes compares bytes. After a crash nobody has them any more; then their length and a
//! hash of 128 bits stand for them, and nothing is decided by times.

use std::{
    fmt,
    os::fd::AsFd,
    sync::{Arc, OnceLock},
};

use rustix::io::{self, Errno};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use super::fs::{BLOCK_BYTES, Fs};
use crate::text::Text;

type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A content, cheap to clone.
#[derive(Clone)]
pub(super) struct Content {
    /// None if only the print is known.
    bytes: Option<Bytes>,
    print: Arc<OnceLock<Print>>,
}

/// What is remembered of a content: enough to know it again, not to make it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Print {
    n_bytes: u64,
    /// In hex digits. Against accidents, not attacks: whoever can write a file needs no collision to change it.
    hash: String,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Content").field(&self.print.get()).finish()
    }
}

impl From<Print> for Content {
    fn from(print: Print) -> Self {
        Self {
            bytes: None,
            print: Arc::new(OnceLock::from(print)),
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::of(Arc::new(bytes))
    }
}

impl From<&Text> for Content {
    fn from(text: &Text) -> Self {
        match text {
            Text::Flat(text) => Self::of(Arc::clone(text) as Bytes),
            Text::Rope(rope) => Self::of(Arc::new(rope.to_string())),
        }
    }
}

impl Content {
    fn of(bytes: Bytes) -> Self {
        Self {
            bytes: Some(bytes),
            print: Arc::default(),
        }
    }

    /// The bytes, if they are known.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        self.bytes.as_ref().map(|bytes| (**bytes).as_ref())
    }

    /// The print; it costs a pass over the bytes, unless they have been written or compared.
    pub(super) fn print(&self) -> &Print {
        self.print.get_or_init(|| {
            let mut hasher = XxHash3_128::new();
            hasher.write(self.bytes().unwrap_or_default());
            Print::new(self.n_bytes(), &hasher)
        })
    }

    fn n_bytes(&self) -> u64 {
        match (self.bytes(), self.print.get()) {
            (Some(bytes), _) => bytes.len() as u64,
            (None, Some(print)) => print.n_bytes,
            (None, None) => 0,
        }
    }

    /// The same, without the memory for the bytes.
    pub(super) fn without_bytes(&self) -> Self {
        Self::from(self.print().clone())
    }

    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        match (self.bytes(), other.bytes()) {
            (Some(bytes), Some(others)) => bytes == others,
            _ => self.print() == other.print(),
        }
    }

    /// Whether a file of a size holds exactly this.
    pub(super) fn is_in(&self, fs: &Fs, file: impl AsFd, size: u64) -> io::Result<bool> {
        if size != self.n_bytes() {
            return Ok(false);
        }
        let mut hasher = self.print.get().is_none().then(XxHash3_128::new);
        let Some(bytes) = self.bytes() else {
            return self.is_print_of(fs, file);
        };
        let mut rest = bytes;
        let is_same = fs.read_blocks(file, size, |block| {
            let Some(tail) = rest.strip_prefix(block) else {
                return false;
            };
            rest = tail;
            if let Some(hasher) = &mut hasher {
                hasher.write(block);
            }
            true
        })?;
        if let (true, Some(hasher)) = (is_same, hasher) {
            self.print
                .get_or_init(|| Print::new(self.n_bytes(), &hasher));
        }
        Ok(is_same)
    }

    fn is_print_of(&self, fs: &Fs, file: impl AsFd) -> io::Result<bool> {
        let mut hasher = XxHash3_128::new();
        let is_read = fs.read_blocks(file, self.n_bytes(), |block| {
            hasher.write(block);
            true
        })?;
        Ok(is_read && *self.print() == Print::new(self.n_bytes(), &hasher))
    }

    /// Writes this from the start of a file, and returns how much it is; what was behind stays.
    pub(super) fn write_to(&self, fs: &Fs, file: impl AsFd) -> io::Result<usize> {
        let bytes = self.bytes().ok_or(Errno::INVAL)?;
        let mut hasher = XxHash3_128::new();
        let mut offset = 0;
        for block in bytes.chunks(BLOCK_BYTES) {
            hasher.write(block);
            fs.write_at(file.as_fd(), block, offset)?;
            offset += block.len() as u64;
        }
        self.print
            .get_or_init(|| Print::new(self.n_bytes(), &hasher));
        Ok(bytes.len())
    }
}

impl Print {
    fn new(n_bytes: u64, hasher: &XxHash3_128) -> Self {
        Self {
            n_bytes,
            hash: format!("{:032x}", hasher.finish_128()),
        }
    }
}
