//! Texts, positions and changes, the naive way: on strings, from the start, every time.
//!
//! Invariant: nothing of the crate is used here but its wire types, so that both cannot be wrong in the same way.

use std::ops::Range;

use crate::protocol::{ContentChange, Encoding, EolKind, Position, Range as LspRange};

pub(super) const BOM: &str = "\u{FEFF}";

/// How positions are written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire {
    pub(super) encoding: Encoding,
    pub(super) lone_cr_is_text: bool,
    /// And so is one before a line feed.
    pub(super) lf_only: bool,
}

/// What an agent sees of a raw text.
pub(super) fn view(raw: &str) -> String {
    fold(raw.strip_prefix(BOM).unwrap_or(raw))
}

/// Line ends as LF.
pub(super) fn fold(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// True between the CR and the LF of a line break.
pub(super) fn splits_pair(text: &str, byte: usize) -> bool {
    byte > 0 && text.as_bytes()[byte - 1] == b'\r' && text.as_bytes().get(byte) == Some(&b'\n')
}

/// The `place`-th place of a text.
fn place(text: &str, place: u16) -> usize {
    let mut bytes: Vec<usize> = text.char_indices().map(|it| it.0).collect();
    bytes.push(text.len());
    bytes[usize::from(place) % bytes.len()]
}

/// The `nth` place of a text where a person can have the cursor.
pub(super) fn cursor(text: &str, nth: u16) -> usize {
    let byte = place(text, nth);
    byte + usize::from(splits_pair(text, byte))
}

/// `chars` characters from `start` on, ended like [`cursor`].
pub(super) fn span(text: &str, start: usize, chars: u8) -> Range<usize> {
    let rest = &text[start..];
    let len = rest
        .char_indices()
        .nth(usize::from(chars))
        .map_or(rest.len(), |it| it.0);
    let end = start + len;
    start..end + usize::from(splits_pair(text, end))
}

/// Lines as an agent is told of them.
pub(super) fn eol(raw: &str) -> EolKind {
    let n_crlf = raw.matches("\r\n").count();
    match (raw.matches('\n').count() - n_crlf, n_crlf) {
        (0, 0) => EolKind::None,
        (_, 0) => EolKind::Lf,
        (0, _) => EolKind::Crlf,
        (_, _) => EolKind::Mixed,
    }
}

impl Wire {
    /// Like [`cursor`], in an editor: where all CRs are text, a person can be behind any of them.
    pub(super) fn cursor(self, text: &str, nth: u16) -> usize {
        if self.lf_only {
            place(text, nth)
        } else {
            cursor(text, nth)
        }
    }

    /// Like [`span`], in an editor.
    pub(super) fn span(self, text: &str, start: usize, chars: u8) -> Range<usize> {
        let span = span(text, start, chars);
        let is_split = self.lf_only
            && chars > 0
            && text[..span.end].chars().count()
                > text[..start].chars().count() + usize::from(chars);
        span.start..span.end - usize::from(is_split)
    }

    /// Where lines start and where they end before their breaks.
    fn lines(self, text: &str) -> Vec<(usize, usize)> {
        let bytes = text.as_bytes();
        let mut lines = Vec::new();
        let (mut start, mut at) = (0, 0);
        while at < bytes.len() {
            let len = match (bytes[at], bytes.get(at + 1)) {
                (b'\r', Some(b'\n')) if !self.lf_only => 2,
                (b'\r', _) if !self.lone_cr_is_text => 1,
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

    fn units(self, text: &str) -> usize {
        match self.encoding {
            Encoding::Utf8 => text.len(),
            Encoding::Utf16 => text.encode_utf16().count(),
        }
    }

    pub(super) fn position(self, text: &str, byte: usize) -> Position {
        let lines = self.lines(text);
        let line = lines.iter().rposition(|it| it.0 <= byte).expect("line 0");
        let (start, end) = lines[line];
        let character = self.units(&text[start..byte.min(end)]);
        let narrow = |it| u32::try_from(it).expect("a small text");
        Position {
            line: narrow(line),
            character: narrow(character),
        }
    }

    /// The byte at a position; none: there is no such place.
    pub(super) fn byte(self, text: &str, position: Position) -> Option<usize> {
        let &(start, end) = self.lines(text).get(position.line as usize)?;
        let mut units = 0;
        for (at, sign) in text[start..end].char_indices() {
            if units == position.character as usize {
                return Some(start + at);
            }
            units += self.units(sign.encode_utf8(&mut [0; 4]));
        }
        (units == position.character as usize).then_some(end)
    }

    /// The bytes of a range; none: it does not fit the text.
    pub(super) fn bytes(self, text: &str, range: LspRange) -> Option<Range<usize>> {
        let start = self.byte(text, range.start)?;
        let end = self.byte(text, range.end)?;
        (start <= end).then_some(start..end)
    }

    pub(super) fn change(self, text: &str, range: Range<usize>, new: &str) -> ContentChange {
        let range = LspRange {
            start: self.position(text, range.start),
            end: self.position(text, range.end),
        };
        ContentChange {
            range: Some(range),
            range_length: None,
            halves: Vec::new(),
            text: new.to_string(),
        }
    }

    /// Makes a change; none: it does not fit the text.
    pub(super) fn make(self, text: &mut String, change: &ContentChange) -> Option<()> {
        match change.range {
            None => text.clone_from(&change.text),
            Some(range) => text.replace_range(self.bytes(text, range)?, &change.text),
        }
        Some(())
    }
}

/// The one span of `old` that has to be replaced to get `new`, and by what.
pub(super) fn difference(old: &str, new: &str) -> Option<(Range<usize>, String)> {
    if old == new {
        return None;
    }
    let heads = old
        .char_indices()
        .zip(new.chars())
        .take_while(|((_, left), right)| left == right);
    let mut head = heads
        .last()
        .map_or(0, |((at, sign), _)| at + sign.len_utf8());
    head -= usize::from(splits_pair(old, head) || splits_pair(new, head));
    let tails = old[head..]
        .chars()
        .rev()
        .zip(new[head..].chars().rev())
        .take_while(|(left, right)| left == right);
    let mut tail: usize = tails.map(|it| it.0.len_utf8()).sum();
    if splits_pair(old, old.len() - tail) || splits_pair(new, new.len() - tail) {
        tail -= 1;
    }
    Some((
        head..old.len() - tail,
        new[head..new.len() - tail].to_string(),
    ))
}

/// Where `old` is in `text`, overlapping places included.
pub(super) fn hits(text: &str, old: &str) -> Vec<usize> {
    text.char_indices()
        .map(|it| it.0)
        .filter(|&at| text[at..].starts_with(old))
        .collect()
}
