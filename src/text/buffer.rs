//! The text of an open document, which the editor changes by line and character.
//!
//! Invariant: a keystroke costs O(log n), and so does mapping a position: nothing here scans the text. The rope
//! counts line feeds only; the LSP also breaks lines at a lone carriage return, so these are kept beside it.
//!
//! Positions are as forgiving as the LSP wants them: past the end of a line means its end, past the last line the
//! end of the text, and inside a character its start.

use std::ops::Range;

use memchr::{memchr, memchr_iter};
use ropey::Rope;
use serde::{Deserialize, Serialize};

use super::{Text, eol::EolKind};

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
    /// A CR before an LF is text, too: the editor says that its lines end with LF alone.
    lf_only: bool,
    /// Whether there ever was a carriage return: most texts have none, and need not be asked for them.
    had_cr: bool,
    /// The bytes of the carriage returns that are a line break by themselves, sorted.
    lone_crs: Vec<usize>,
}

impl Buffer {
    /// Makes the buffer of a newly opened document.
    pub fn new(text: &str, lone_cr_is_text: bool) -> Self {
        let mut buffer = Self {
            rope: Rope::from_str(text),
            lone_cr_is_text,
            lf_only: false,
            had_cr: has_cr(text),
            lone_crs: Vec::new(),
        };
        if buffer.had_cr && !lone_cr_is_text {
            buffer.lone_crs = lone_crs(text, None).collect();
        }
        buffer
    }

    /// Takes a CR before an LF for text, at the end of a line, as an editor does that has the text open with LF line
    /// ends and does not count lone CRs.
    pub fn set_lf_only(&mut self, lf_only: bool) {
        self.lf_only = lf_only && self.lone_cr_is_text;
    }

    /// Whether it does.
    pub fn lf_only(&self) -> bool {
        self.lf_only
    }

    /// A snapshot; O(1).
    pub fn text(&self) -> Text {
        Text::Rope(self.rope.clone())
    }

    /// The rope itself.
    pub fn rope(&self) -> &Rope {
        &self.rope
    }

    /// The line ends, where they are known without a look at the text.
    pub fn known_eol(&self) -> Option<EolKind> {
        let has_breaks = self.rope.len_lines() > 1;
        (!self.had_cr).then_some(if has_breaks {
            EolKind::Lf
        } else {
            EolKind::None
        })
    }

    /// The raw byte at a position.
    pub fn byte_at(&self, position: Position, encoding: Encoding) -> usize {
        match self.line(position.line as usize) {
            Some(line) => self.byte_in(line, position.character as usize, encoding),
            None => self.rope.len_bytes(),
        }
    }

    /// The raw bytes between two positions, in this order.
    pub fn bytes_at(&self, start: Position, end: Position, encoding: Encoding) -> Range<usize> {
        let Some(line) = self.line(start.line as usize) else {
            return self.rope.len_bytes()..self.rope.len_bytes();
        };
        let start_byte = self.byte_in(line, start.character as usize, encoding);
        let end_byte = if start == end {
            start_byte
        } else if start.line == end.line {
            self.byte_in(line, end.character as usize, encoding)
        } else {
            self.byte_at(end, encoding)
        };
        start_byte..end_byte.max(start_byte)
    }

    /// The raw byte of a code unit in a line, which is given by where it starts and ends.
    fn byte_in(&self, (start, end): (usize, usize), character: usize, encoding: Encoding) -> usize {
        match encoding {
            Encoding::Utf8 => {
                let byte = end.min(start + character);
                let (chunk, chunk_start, ..) = self.rope.chunk_at_byte(byte);
                let mut idx = byte - chunk_start;
                while !chunk.is_char_boundary(idx) {
                    idx -= 1;
                }
                chunk_start + idx
            }
            Encoding::Utf16 => {
                // Nearly every line lies in one chunk.
                let (chunk, chunk_start, ..) = self.rope.chunk_at_byte(start);
                if let Some(line) = chunk.get(start - chunk_start..end - chunk_start) {
                    return start + utf16_to_byte(line, character);
                }
                let unit = self.utf16(end).min(self.utf16(start) + character);
                self.rope.char_to_byte(self.rope.utf16_cu_to_char(unit))
            }
        }
    }

    /// The position of a raw byte; inside a line break it is the end of the line.
    pub fn position_of(&self, byte: usize, encoding: Encoding) -> Position {
        let byte = byte.min(self.rope.len_bytes());
        let line = self.rope.byte_to_line(byte) + self.lone_crs.partition_point(|&it| it < byte);
        let (start, end) = self.line(line).expect("every byte lies in a line");
        let byte = byte.min(end);
        let character = match encoding {
            Encoding::Utf8 => self.rope.char_to_byte(self.rope.byte_to_char(byte)) - start,
            Encoding::Utf16 => self.utf16(byte) - self.utf16(start),
        };
        let narrow = |it| u32::try_from(it).unwrap_or(u32::MAX);
        Position {
            line: narrow(line),
            character: narrow(character),
        }
    }

    /// Replaces a range of raw bytes, whole characters.
    pub fn replace(&mut self, range: Range<usize>, text: &str) {
        self.had_cr |= has_cr(text);
        if self.had_cr && !self.lone_cr_is_text {
            self.replace_lone_crs(range.clone(), text);
        }
        let start_char = self.rope.byte_to_char(range.start);
        if !range.is_empty() {
            self.rope
                .remove(start_char..self.rope.byte_to_char(range.end));
        }
        if !text.is_empty() {
            self.rope.insert(start_char, text);
        }
    }

    /// Where a line starts, and where it ends before its break.
    fn line(&self, line: usize) -> Option<(usize, usize)> {
        // The break before the line is the last of so many lone CRs and, for the rest, LFs.
        let n_crs = self.n_crs_among(line);
        let lf_line = line - n_crs;
        if lf_line >= self.rope.len_lines() {
            return None;
        }
        let behind_lf = self.rope.line_to_byte(lf_line);
        let behind_cr = n_crs
            .checked_sub(1)
            .map_or(0, |last| self.lone_crs[last] + 1);
        let next_lf = if lf_line + 1 < self.rope.len_lines() {
            let lf_byte = self.rope.line_to_byte(lf_line + 1) - 1;
            let is_pair =
                self.had_cr && !self.lf_only && lf_byte > 0 && self.rope.byte(lf_byte - 1) == b'\r';
            lf_byte - usize::from(is_pair)
        } else {
            self.rope.len_bytes()
        };
        let next_cr = self.lone_crs.get(n_crs).copied().unwrap_or(usize::MAX);
        Some((behind_lf.max(behind_cr), next_lf.min(next_cr)))
    }

    /// How many of the first `n_breaks` line breaks are lone CRs.
    fn n_crs_among(&self, n_breaks: usize) -> usize {
        let (mut low, mut high) = (0, self.lone_crs.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            let nth = self.rope.byte_to_line(self.lone_crs[middle]) + middle + 1;
            if nth <= n_breaks {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn utf16(&self, byte: usize) -> usize {
        self.rope.char_to_utf16_cu(self.rope.byte_to_char(byte))
    }

    /// Keeps `lone_crs` true for a change that is about to be made.
    fn replace_lone_crs(&mut self, range: Range<usize>, text: &str) {
        let behind = self.rope.get_byte(range.end);
        // The CR before the range is judged again: its next byte changes.
        let before = range
            .start
            .checked_sub(1)
            .filter(|&it| self.rope.byte(it) == b'\r');
        let from = self
            .lone_crs
            .partition_point(|&it| it < before.unwrap_or(range.start));
        let to = self.lone_crs.partition_point(|&it| it < range.end);
        for cr_byte in &mut self.lone_crs[to..] {
            *cr_byte = *cr_byte - range.len() + text.len();
        }
        let first = text.bytes().next().or(behind);
        let before = before.filter(|_| first != Some(b'\n'));
        let inside = lone_crs(text, behind).map(|it| range.start + it);
        self.lone_crs
            .splice(from..to, before.into_iter().chain(inside));
    }
}

fn has_cr(text: &str) -> bool {
    memchr(b'\r', text.as_bytes()).is_some()
}

/// The byte of a UTF-16 code unit in a line; past its end, its end.
fn utf16_to_byte(line: &str, unit: usize) -> usize {
    let head = &line.as_bytes()[..unit.min(line.len())];
    if head.is_ascii() {
        return head.len();
    }
    let mut n_units = 0;
    let behind = line.char_indices().find(|(_, sign)| {
        n_units += sign.len_utf16();
        n_units > unit
    });
    behind.map_or(line.len(), |(byte, _)| byte)
}

/// Where a text that is followed by `behind` has carriage returns without a line feed.
fn lone_crs(text: &str, behind: Option<u8>) -> impl Iterator<Item = usize> + '_ {
    let bytes = text.as_bytes();
    memchr_iter(b'\r', bytes)
        .filter(move |&it| bytes.get(it + 1).copied().or(behind) != Some(b'\n'))
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::text::tests::{any_text, char_range, short};

    /// Where each line starts and where it ends before its break.
    fn naive_lines(text: &str, lone_cr_is_text: bool) -> Vec<(usize, usize)> {
        let mut lines = Vec::new();
        let mut start = 0;
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let len = match (bytes[at], bytes.get(at + 1)) {
                (b'\r', Some(b'\n')) => 2,
                (b'\r', _) if !lone_cr_is_text => 1,
                (b'\n', _) => 1,
                _ => 0,
            };
            if len > 0 {
                lines.push((start, at));
                start = at + len;
            }
            at += len.max(1);
        }
        lines.push((start, bytes.len()));
        lines
    }

    fn naive_units(text: &str, encoding: Encoding) -> usize {
        match encoding {
            Encoding::Utf8 => text.len(),
            Encoding::Utf16 => text.encode_utf16().count(),
        }
    }

    fn naive_byte_at(text: &str, lone_cr_is_text: bool, at: Position, encoding: Encoding) -> usize {
        let lines = naive_lines(text, lone_cr_is_text);
        let Some(&(start, end)) = lines.get(at.line as usize) else {
            return text.len();
        };
        let mut byte = start;
        for sign in text[start..end].chars() {
            let next = byte + sign.len_utf8();
            if naive_units(&text[start..next], encoding) > at.character as usize {
                break;
            }
            byte = next;
        }
        byte
    }

    /// `position` is marked by `|` in the text that is expected.
    #[track_caller]
    fn check(text: &str, (line, character): (u32, u32), expected: &str) {
        let byte = Buffer::new(text, false).byte_at(Position { line, character }, Encoding::Utf16);
        assert_eq!(format!("{}|{}", &text[..byte], &text[byte..]), expected);
    }

    #[test]
    fn past_the_end_of_a_line_is_its_end_before_the_break() {
        check("ab\r\ncd", (0, 9), "ab|\r\ncd");
        check("ab\ncd", (0, 3), "ab|\ncd");
        check("ab\rcd", (0, 3), "ab|\rcd");
    }

    #[test]
    fn past_the_last_line_is_the_end() {
        check("ab\ncd", (2, 0), "ab\ncd|");
        check("", (7, 7), "|");
    }

    #[test]
    fn far_in_a_long_line_units_are_counted_from_its_start() {
        let signs = "é😀x".repeat(3_000);
        let buffer = Buffer::new(&format!("😀\n{signs}\n"), false);
        let byte = |character| buffer.byte_at(Position { line: 1, character }, Encoding::Utf16);
        for n in [0, 1, 1_500, 2_999, 3_000] {
            assert_eq!(byte(4 * n), 5 + 7 * n as usize);
        }
        assert_eq!(byte(4 * 3_000 + 1), 5 + 7 * 3_000);
    }

    #[test]
    fn inside_a_surrogate_pair_is_before_it() {
        check("a😀b", (0, 2), "a|😀b");
        check("a😀b", (0, 3), "a😀|b");
    }

    #[test]
    fn a_lone_return_breaks_a_line_unless_it_is_text() {
        check("a\rb\r\nc", (1, 0), "a\r|b\r\nc");
        check("a\rb\r\nc", (2, 0), "a\rb\r\n|c");
        let buffer = Buffer::new("a\rb\nc", true);
        assert_eq!(
            buffer.byte_at(
                Position {
                    line: 1,
                    character: 0
                },
                Encoding::Utf8
            ),
            4
        );
        assert_eq!(
            buffer.position_of(2, Encoding::Utf8),
            Position {
                line: 0,
                character: 2
            }
        );
    }

    #[test]
    fn a_form_feed_breaks_no_line() {
        check(
            "a\u{C}\u{85}\u{2028}b\nc",
            (1, 0),
            "a\u{C}\u{85}\u{2028}b\n|c",
        );
    }

    #[test]
    fn a_pair_that_is_formed_or_broken_is_noticed() {
        let mut buffer = Buffer::new("a\r", false);
        buffer.replace(2..2, "\n");
        assert!(buffer.lone_crs.is_empty());
        buffer.replace(2..2, "x");
        assert_eq!(buffer.lone_crs, [1]);
        buffer.replace(1..3, "");
        assert_eq!(
            (buffer.rope.to_string(), &*buffer.lone_crs),
            ("a\n".to_string(), &[][..])
        );
    }

    #[test]
    fn a_cr_before_an_lf_is_text_where_the_editor_ends_lines_with_lf_alone() {
        let mut buffer = Buffer::new("one\r\ntwo\n", true);
        let behind_cr = Position {
            line: 0,
            character: 4,
        };
        assert_eq!(buffer.byte_at(behind_cr, Encoding::Utf8), 3);
        buffer.set_lf_only(true);
        assert_eq!(buffer.byte_at(behind_cr, Encoding::Utf8), 4);
        assert_eq!(buffer.position_of(4, Encoding::Utf8), behind_cr);
    }

    proptest! {
        #[test]
        fn positions_are_those_of_a_string(
            text in any_text(),
            lone_cr_is_text: bool,
            utf16: bool,
            line in 0..12_u32,
            character in 0..12_u32,
        ) {
            let buffer = Buffer::new(&text, lone_cr_is_text);
            let encoding = if utf16 { Encoding::Utf16 } else { Encoding::Utf8 };
            let position = Position { line, character };
            let byte = buffer.byte_at(position, encoding);
            prop_assert_eq!(byte, naive_byte_at(&text, lone_cr_is_text, position, encoding));
            let back = buffer.position_of(byte, encoding);
            prop_assert_eq!(buffer.byte_at(back, encoding), byte);
        }

        #[test]
        fn a_range_is_between_the_bytes_of_its_positions(
            text in any_text(),
            utf16: bool,
            lines in (0..6_u32, 0..3_u32),
            characters in (0..1200_u32, 0..1200_u32),
        ) {
            let encoding = if utf16 { Encoding::Utf16 } else { Encoding::Utf8 };
            let start = Position { line: lines.0, character: characters.0 };
            let end = Position { line: lines.0 + lines.1, character: characters.1 };
            let naive = |at| naive_byte_at(&text, false, at, encoding);
            let range = Buffer::new(&text, false).bytes_at(start, end, encoding);
            prop_assert_eq!(range, naive(start)..naive(end).max(naive(start)));
        }

        #[test]
        fn a_byte_has_the_position_that_leads_to_it(
            text in any_text(),
            lone_cr_is_text: bool,
            utf16: bool,
            at: usize,
        ) {
            let buffer = Buffer::new(&text, lone_cr_is_text);
            let encoding = if utf16 { Encoding::Utf16 } else { Encoding::Utf8 };
            let byte = char_range(&text, at, at).start;
            let position = buffer.position_of(byte, encoding);
            let lines = naive_lines(&text, lone_cr_is_text);
            let line = lines.iter().rposition(|&(start, _)| start <= byte).expect("line 0");
            let (start, end) = lines[line];
            let units = naive_units(&text[start..byte.min(end)], encoding);
            prop_assert_eq!((position.line as usize, position.character as usize), (line, units));
        }

        #[test]
        fn known_line_ends_are_those_of_the_text(text in any_text(), new in short(4), at: usize) {
            let mut buffer = Buffer::new(&text, false);
            let byte = char_range(&text, at, at).start;
            buffer.replace(byte..byte, &new);
            if let Some(known) = buffer.known_eol() {
                prop_assert_eq!(known, buffer.text().eol());
            }
            prop_assert_eq!(buffer.known_eol().is_none(), (text + &new).contains('\r'));
        }

        #[test]
        fn changes_keep_the_lone_returns_true(
            text in any_text(),
            changes in vec((any::<usize>(), any::<usize>(), short(4)), 0..8),
        ) {
            let mut twin = text;
            let mut buffer = Buffer::new(&twin, false);
            for (from, to, new) in changes {
                let range = char_range(&twin, from, to);
                twin.replace_range(range.clone(), &new);
                buffer.replace(range, &new);
                prop_assert_eq!(buffer.rope().to_string(), &*twin);
                prop_assert_eq!(&buffer.lone_crs, &Buffer::new(&twin, false).lone_crs);
            }
        }
    }
}
