//! Immutable text, cheap to clone: the rope of an open document or the flat text of a closed file.
//!
//! Invariant: a `Text` is *raw*: line ends and byte order mark are as the editor or the disk has them. What an
//! agent sees, the *view* (LF, no BOM), is never built as a whole. All offsets are bytes of the raw text.
//!
//! A carriage return directly before a line feed is one line break with it; any other is an ordinary character.
//! Everything here is pure and deterministic; what changes a document is `buffer`.

pub mod buffer;
pub mod diff;
pub mod eol;
mod lines;
pub mod matching;
pub mod rewrite;
pub mod splice;
pub mod unicode;
mod walk;

use std::{borrow::Cow, iter, ops::Range, sync::Arc};

use memchr::memchr;
use ropey::Rope;

use self::{
    eol::fold,
    splice::{Splice, Splices},
};

/// The byte order mark.
pub const BOM: &str = "\u{FEFF}";

/// The largest block that hashing gets at once: small pieces leave its SIMD lanes idle.
const BLOCK_BYTES: usize = 64 * 1024;

/// A raw text.
#[derive(Clone, Debug)]
pub enum Text {
    /// An open document.
    Rope(Rope),
    /// A closed file.
    Flat(Arc<String>),
}

impl Text {
    /// Wraps the text of a closed file.
    pub fn flat(text: impl Into<String>) -> Self {
        Self::Flat(Arc::new(text.into()))
    }

    /// The number of raw bytes.
    pub fn len_bytes(&self) -> usize {
        match self {
            Self::Rope(rope) => rope.len_bytes(),
            Self::Flat(text) => text.len(),
        }
    }

    /// Whether the text starts with a byte order mark.
    pub fn has_bom(&self) -> bool {
        self.chunk_at(0).0.starts_with(BOM.as_bytes())
    }

    /// The raw byte where the view starts: 3 behind a byte order mark, else 0.
    pub fn view_start(&self) -> usize {
        if self.has_bom() { BOM.len() } else { 0 }
    }

    /// Whether an agent sees nothing: no text, or only a byte order mark.
    pub fn is_empty_view(&self) -> bool {
        self.len_bytes() == self.view_start()
    }

    /// The stored piece of text that holds `byte`, and where it starts; at the end of the text, the last piece.
    pub fn chunk_at(&self, byte: usize) -> (&[u8], usize) {
        match self {
            Self::Rope(rope) => {
                let (chunk, start_byte, ..) = rope.chunk_at_byte(byte);
                (chunk.as_bytes(), start_byte)
            }
            Self::Flat(text) => (text.as_bytes(), 0),
        }
    }

    /// The raw byte at `byte`; `None` past the end.
    pub fn byte(&self, byte: usize) -> Option<u8> {
        let (chunk, start_byte) = self.chunk_at(byte.min(self.len_bytes()));
        chunk.get(byte - start_byte).copied()
    }

    /// Copies a range of raw bytes.
    pub fn raw(&self, range: Range<usize>) -> String {
        match self {
            Self::Rope(rope) => rope.byte_slice(range).to_string(),
            Self::Flat(text) => text[range].to_string(),
        }
    }

    /// A range of raw bytes, copied only if it lies in several chunks.
    pub fn slice(&self, range: Range<usize>) -> Cow<'_, str> {
        match self {
            Self::Rope(rope) => rope.byte_slice(range).into(),
            Self::Flat(text) => Cow::Borrowed(&text[range]),
        }
    }

    /// Copies what an agent sees of a range of raw bytes; a byte order mark in it is left out.
    pub fn view(&self, range: Range<usize>) -> String {
        let start_byte = range.start.max(self.view_start());
        let raw = self.raw(start_byte..range.end.max(start_byte));
        if memchr(b'\r', raw.as_bytes()).is_none() {
            return raw;
        }
        fold(&raw).into_owned()
    }

    /// Calls `f` with the view text in blocks of up to 64 KiB, cut anywhere.
    pub fn for_each_view_block(&self, mut f: impl FnMut(&[u8])) {
        if let Self::Flat(text) = self
            && memchr(b'\r', text.as_bytes()).is_none()
        {
            text.as_bytes()[self.view_start()..]
                .chunks(BLOCK_BYTES)
                .for_each(f);
            return;
        }
        let mut block = Vec::with_capacity(BLOCK_BYTES.min(self.len_bytes()));
        let mut push = |mut bytes: &[u8]| {
            while block.len() + bytes.len() > BLOCK_BYTES {
                let (head, tail) = bytes.split_at(BLOCK_BYTES - block.len());
                block.extend_from_slice(head);
                f(&block);
                block.clear();
                bytes = tail;
            }
            block.extend_from_slice(bytes);
        };
        // A CR is held back until its next byte is known, which may be in another chunk.
        let mut cr_pending = false;
        for (_, chunk) in self.chunks_from(self.view_start()) {
            let mut rest = chunk;
            if cr_pending && rest.first() != Some(&b'\n') {
                push(b"\r");
            }
            cr_pending = false;
            while let Some(cr_idx) = memchr(b'\r', rest) {
                push(&rest[..cr_idx]);
                rest = &rest[cr_idx + 1..];
                match rest.first() {
                    Some(b'\n') => {}
                    Some(_) => push(b"\r"),
                    None => cr_pending = true,
                }
            }
            push(rest);
        }
        if cr_pending {
            push(b"\r");
        }
        if !block.is_empty() {
            f(&block);
        }
    }

    /// The number of line feeds before `byte`: its 0-based line.
    pub fn lf_before(&self, byte: usize) -> usize {
        match self {
            Self::Rope(rope) => rope.byte_to_line(byte),
            Self::Flat(text) => walk::count_lf(&text.as_bytes()[..byte]),
        }
    }

    /// The raw byte where a 0-based line starts, behind the byte order mark for the first; `None` past the last.
    /// Behind a final line break one more, empty, line starts.
    pub fn line_start(&self, line: usize) -> Option<usize> {
        if line == 0 {
            return Some(self.view_start());
        }
        match self {
            Self::Rope(rope) => (line < rope.len_lines()).then(|| rope.line_to_byte(line)),
            Self::Flat(text) => memchr::memchr_iter(b'\n', text.as_bytes())
                .nth(line - 1)
                .map(|lf_byte| lf_byte + 1),
        }
    }

    /// The number of line breaks, plus one for a last line without a break.
    pub fn total_lines(&self) -> usize {
        let len = self.len_bytes();
        let has_open_line = !self.is_empty_view() && self.byte(len - 1) != Some(b'\n');
        self.lf_before(len) + usize::from(has_open_line)
    }

    /// The 1-based line and column of a raw byte; columns count the characters of the view.
    pub fn line_column(&self, byte: usize) -> (usize, usize) {
        let line_start = self.line_begin(byte);
        let mut n_chars = 0;
        for (_, chunk) in self.chunks_in(line_start..byte) {
            n_chars += chunk.iter().filter(|&&it| it & 0xC0 != 0x80).count();
        }
        if self.splits_pair(byte) {
            n_chars -= 1;
        }
        (self.lf_before(byte) + 1, n_chars + 1)
    }

    /// Whether two texts are equal byte for byte, however they are stored.
    pub fn same(&self, other: &Self) -> bool {
        if self.len_bytes() != other.len_bytes() {
            return false;
        }
        match (self, other) {
            (Self::Rope(left), Self::Rope(right)) => {
                // Snapshots of one document share most of their chunks; those are not compared.
                left.is_instance(right) || walk::common_prefix(self, other) == self.len_bytes()
            }
            (Self::Flat(left), Self::Flat(right)) => Arc::ptr_eq(left, right) || left == right,
            (Self::Rope(rope), Self::Flat(text)) | (Self::Flat(text), Self::Rope(rope)) => {
                *rope == text.as_str()
            }
        }
    }

    /// The text without its byte order mark: what editors show of it.
    #[must_use]
    pub fn without_bom(&self) -> Self {
        if self.view_start() == 0 {
            return self.clone();
        }
        let mut bom = Splices::default();
        bom.then(Splice {
            range: 0..self.view_start(),
            text: String::new(),
        });
        self.apply(&bom)
    }

    /// Returns the text with every splice made; a rope shares what it can with this one.
    #[must_use]
    pub fn apply(&self, splices: &Splices) -> Self {
        match self {
            Self::Rope(rope) => {
                let mut rope = rope.clone();
                for splice in splices.iter().rev() {
                    let start_char = rope.byte_to_char(splice.range.start);
                    rope.remove(start_char..rope.byte_to_char(splice.range.end));
                    rope.insert(start_char, &splice.text);
                }
                Self::Rope(rope)
            }
            Self::Flat(text) => {
                let ends = splices.iter().map(|it| it.range.end);
                let starts = splices.iter().map(|it| it.range.start);
                let kept = iter::once(0)
                    .chain(ends)
                    .zip(starts.chain(iter::once(text.len())));
                let news = splices
                    .iter()
                    .map(|it| it.text.as_str())
                    .chain(iter::once(""));
                let mut result = String::with_capacity(text.len() + splices.new_bytes());
                for ((start, end), new) in kept.zip(news) {
                    result.push_str(&text[start..end]);
                    result.push_str(new);
                }
                Self::flat(result)
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
