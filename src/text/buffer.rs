//! The text of an open document, which the editor changes by line and character.

use std::ops::Range;

use ropey::Rope;
use serde::{Deserialize, Serialize};

use super::Text;

/// What a client counts characters in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// UTF-16 code units.
    Utf16,
}

/// A position as the LSP has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// 0-based line.
    pub line: u32,
    /// 0-based code unit in the line.
    pub character: u32,
}

/// A mutable rope.
#[derive(Clone, Debug)]
pub struct Buffer {
    rope: Rope,
    /// Whether a lone carriage return breaks no line.
    lone_cr_is_text: bool,
    /// The bytes of the carriage returns that are a line break by themselves, sorted.
    lone_crs: Vec<usize>,
}

impl Buffer {
    /// Makes the buffer of a newly opened document.
    pub fn new(text: &str, lone_cr_is_text: bool) -> Self {
        Self {
            rope: Rope::from_str(text),
            lone_cr_is_text,
            lone_crs: Vec::new(),
        }
    }

    /// A snapshot; O(1).
    pub fn text(&self) -> Text {
        Text::Rope(self.rope.clone())
    }

    /// The rope itself.
    pub fn rope(&self) -> &Rope {
        &self.rope
    }

    /// The raw byte at a position.
    pub fn byte_at(&self, position: Position, encoding: Encoding) -> usize {
        let _ = (position, encoding, self.lone_cr_is_text, &self.lone_crs);
        unimplemented!()
    }

    /// The position of a raw byte.
    pub fn position_of(&self, byte: usize, encoding: Encoding) -> Position {
        let _ = (byte, encoding);
        unimplemented!()
    }

    /// Replaces a range of raw bytes.
    pub fn replace(&mut self, range: Range<usize>, text: &str) {
        let _ = (range, text);
        unimplemented!()
    }
}
