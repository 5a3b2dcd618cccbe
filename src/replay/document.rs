//! One open document of the model editor: its text, and positions in it.
//!
//! Invariant: for an edit that others send, a position past the end of its line, past the last line, or within a
//! character is an error: a strict editor refuses it. What a person types is clamped there, as LSP says, and told
//! unclamped. Ranges inside this module are bytes; on the wire they are in the encoding that the server has chosen.

use std::{fmt, ops};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The unit of `character` in a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// Two-byte units, LSP's default.
    #[default]
    Utf16,
    /// Unicode scalar values.
    Utf32,
}

impl Encoding {
    /// Parses LSP's name of an encoding.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "utf-8" => Some(Self::Utf8),
            "utf-16" => Some(Self::Utf16),
            "utf-32" => Some(Self::Utf32),
            _ => None,
        }
    }

    fn units(self, char: char) -> usize {
        match self {
            Self::Utf8 => char.len_utf8(),
            Self::Utf16 => char.len_utf16(),
            Self::Utf32 => 1,
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
            Self::Utf32 => "utf-32",
        })
    }
}

/// A place in a document, as in LSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// 0-based.
    pub line: usize,
    /// 0-based, in units of the encoding.
    pub character: usize,
}

/// A stretch of a document, as in LSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The first place.
    pub start: Position,
    /// The place behind the last character.
    pub end: Position,
}

/// Something that a person types; several refer to the text after those before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typing {
    /// What is replaced, in UTF-16 whatever the wire uses; nothing stands for the whole text.
    pub range: Option<Range>,
    /// What is put there.
    pub text: String,
}

impl Typing {
    /// Returns typing that replaces from one `[line, character]` to another.
    pub fn at(start: [usize; 2], end: [usize; 2], text: &str) -> Self {
        let [start, end] = [start, end].map(|[line, character]| Position { line, character });
        Self {
            range: Some(Range { start, end }),
            text: text.to_string(),
        }
    }

    /// Returns typing that replaces the whole text.
    pub fn whole(text: &str) -> Self {
        Self {
            range: None,
            text: text.to_string(),
        }
    }
}

/// An open document.
#[derive(Clone, Debug)]
pub struct Document {
    /// The text, with the line ends that it has, without a byte order mark.
    pub text: String,
    /// How many times this URI has been opened, this time included.
    pub instance: u64,
    /// The number that every change raises.
    pub lsp_version: i32,
    /// Whether it differs from what was last loaded or saved.
    pub is_dirty: bool,
    /// Whether the editor refuses changes by others.
    pub is_read_only: bool,
    /// The unit of positions on the wire.
    pub encoding: Encoding,
    /// Whether a lone CR is a character like others, as in Neovim, instead of a line break.
    pub lone_cr_is_text: bool,
}

impl Document {
    /// Returns the bytes of a range; nothing if it is not wholly inside the text or runs backwards.
    pub fn bytes(&self, range: Range, encoding: Encoding) -> Option<ops::Range<usize>> {
        let start = self.byte(range.start, encoding)?;
        let end = self.byte(range.end, encoding)?;
        (start <= end).then_some(start..end)
    }

    /// Returns the wire's range for some bytes, which must be at character boundaries.
    pub fn range(&self, bytes: ops::Range<usize>) -> Range {
        Range {
            start: self.position(bytes.start),
            end: self.position(bytes.end),
        }
    }

    /// Replaces some bytes and returns the content change that tells it.
    pub fn replace(&mut self, bytes: ops::Range<usize>, text: &str) -> Value {
        let range = self.range(bytes.clone());
        self.text.replace_range(bytes, text);
        self.is_dirty = true;
        json!({ "range": range, "text": text })
    }

    /// Replaces the whole text and returns the content change that tells it.
    pub fn replace_all(&mut self, text: &str) -> Value {
        self.is_dirty = true;
        self.text = text.to_string();
        json!({ "text": text })
    }

    /// Lets a person type, and returns the content change that tells it; nothing if the range runs backwards.
    ///
    /// A range that is not wholly inside is told as it is and meant as LSP says: clamped.
    pub fn typed(&mut self, typing: &Typing) -> Option<Value> {
        let Some(range) = typing.range else {
            return Some(self.replace_all(&typing.text));
        };
        let start = self.place(range.start, Encoding::Utf16);
        let end = self.place(range.end, Encoding::Utf16);
        if start.byte > end.byte {
            return None;
        }
        let told = Range {
            start: self.told(range.start, &start),
            end: self.told(range.end, &end),
        };
        self.replace(start.byte..end.byte, &typing.text);
        Some(json!({ "range": told, "text": typing.text }))
    }

    /// The position on the wire; as far past the end of its line, or into its character, as it was meant.
    fn told(&self, meant: Position, place: &Place) -> Position {
        match place.excess {
            Some(excess) => {
                let Position { line, character } = self.position(place.byte);
                Position {
                    line,
                    character: character + excess,
                }
            }
            None => meant,
        }
    }

    fn byte(&self, position: Position, encoding: Encoding) -> Option<usize> {
        let place = self.place(position, encoding);
        (place.excess == Some(0)).then_some(place.byte)
    }

    /// The place that a position means: at the end of the line or text if it is past it, and never in a character.
    fn place(&self, position: Position, encoding: Encoding) -> Place {
        let Some(line) = self.lines().nth(position.line) else {
            return Place {
                byte: self.text.len(),
                excess: None,
            };
        };
        let mut units = 0;
        for (byte, char) in self.text[line.clone()].char_indices() {
            let behind = units + encoding.units(char);
            if behind > position.character {
                return Place {
                    byte: line.start + byte,
                    excess: Some(position.character - units),
                };
            }
            units = behind;
        }
        Place {
            byte: line.end,
            excess: Some(position.character - units),
        }
    }

    fn position(&self, byte: usize) -> Position {
        let (line_idx, line) = self
            .lines()
            .enumerate()
            .take_while(|(_, line)| line.start <= byte)
            .last()
            .expect("the first line starts at 0");
        let character = self.text[line.start..byte]
            .chars()
            .map(|it| self.encoding.units(it))
            .sum();
        Position {
            line: line_idx,
            character,
        }
    }

    /// The lines without their breaks; the last one has none.
    fn lines(&self) -> impl Iterator<Item = ops::Range<usize>> {
        let bytes = self.text.as_bytes();
        let mut start = Some(0);
        std::iter::from_fn(move || {
            let from = start?;
            let mut end = from;
            while let Some(&byte) = bytes.get(end) {
                let n_break = match byte {
                    b'\n' => 1,
                    b'\r' if bytes.get(end + 1) == Some(&b'\n') => 2,
                    b'\r' if !self.lone_cr_is_text => 1,
                    _ => 0,
                };
                if n_break > 0 {
                    start = Some(end + n_break);
                    return Some(from..end);
                }
                end += 1;
            }
            start = None;
            Some(from..end)
        })
    }
}

/// Where a position is.
struct Place {
    byte: usize,
    /// How far the position is past it on its line; nothing if there is no such line.
    excess: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str, encoding: Encoding) -> Document {
        Document {
            text: text.to_string(),
            instance: 1,
            lsp_version: 1,
            is_dirty: false,
            is_read_only: false,
            encoding,
            lone_cr_is_text: false,
        }
    }

    /// `expected` is the text with `|` at the position; every position found is also mapped back.
    #[track_caller]
    fn check(
        text: &str,
        encoding: Encoding,
        [line, character]: [usize; 2],
        expected: Option<&str>,
    ) {
        let document = document(text, encoding);
        let position = Position { line, character };
        let byte = document.byte(position, encoding);
        let seen = byte.map(|byte| format!("{}|{}", &text[..byte], &text[byte..]));
        assert_eq!(seen.as_deref(), expected);
        if let Some(byte) = byte {
            assert_eq!(document.position(byte), position);
        }
    }

    #[test]
    fn the_three_line_breaks_end_a_line() {
        check(
            "a\nb\r\nc\rd",
            Encoding::Utf16,
            [1, 0],
            Some("a\n|b\r\nc\rd"),
        );
        check(
            "a\nb\r\nc\rd",
            Encoding::Utf16,
            [1, 1],
            Some("a\nb|\r\nc\rd"),
        );
        check(
            "a\nb\r\nc\rd",
            Encoding::Utf16,
            [2, 0],
            Some("a\nb\r\n|c\rd"),
        );
        check(
            "a\nb\r\nc\rd",
            Encoding::Utf16,
            [3, 0],
            Some("a\nb\r\nc\r|d"),
        );
    }

    #[test]
    fn no_position_is_between_cr_and_lf() {
        check("b\r\nc", Encoding::Utf16, [0, 2], None);
    }

    #[test]
    fn the_end_is_inside_and_what_is_behind_it_is_not() {
        check("a\n", Encoding::Utf16, [1, 0], Some("a\n|"));
        check("a\n", Encoding::Utf16, [1, 1], None);
        check("a\n", Encoding::Utf16, [2, 0], None);
        check("", Encoding::Utf16, [0, 0], Some("|"));
    }

    #[test]
    fn the_encoding_counts_its_own_units() {
        check("🦀x", Encoding::Utf8, [0, 4], Some("🦀|x"));
        check("🦀x", Encoding::Utf16, [0, 2], Some("🦀|x"));
        check("🦀x", Encoding::Utf32, [0, 1], Some("🦀|x"));
    }

    #[test]
    fn no_position_is_within_a_character() {
        check("🦀x", Encoding::Utf16, [0, 1], None);
        check("é", Encoding::Utf8, [0, 1], None);
    }

    #[test]
    fn a_lone_cr_can_be_text() {
        let mut document = document("a\rb\nc", Encoding::Utf16);
        document.lone_cr_is_text = true;
        assert_eq!(
            document.byte(
                Position {
                    line: 1,
                    character: 0
                },
                Encoding::Utf16
            ),
            Some(4)
        );
    }

    #[test]
    fn typing_is_told_in_the_encoding_of_the_wire() {
        let mut document = document("🦀x\n", Encoding::Utf8);
        let told = document.typed(&Typing::at([0, 2], [0, 3], "y"));
        assert_eq!(document.text, "🦀y\n");
        let range =
            json!({ "start": { "line": 0, "character": 4 }, "end": { "line": 0, "character": 5 } });
        assert_eq!(told, Some(json!({ "range": range, "text": "y" })));
    }

    #[test]
    fn typing_past_the_end_is_clamped_and_told_as_it_is() {
        let mut document = document("foo\nbar\n", Encoding::Utf16);
        let typing = Typing::at([0, 0], [0, 100], "baz");
        let told = document.typed(&typing).expect("it does not run backwards");
        assert_eq!(document.text, "baz\nbar\n");
        assert_eq!(told["range"], json!(typing.range));
        document
            .typed(&Typing::at([1, 0], [9, 0], "end"))
            .expect("it does not run backwards");
        assert_eq!(document.text, "baz\nend");
    }
}
