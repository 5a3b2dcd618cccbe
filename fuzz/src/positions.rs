//! Positions of the LSP, on a text that changes.

use abreast::text::buffer::{Buffer, Encoding, Position};

use super::source::Source;

/// A position leads to the byte to which counting leads, and back, after any changes.
pub fn positions(data: &[u8]) {
    let mut source = Source::new(data);
    let lone_cr_is_text = source.flip();
    let mut text = source.document();
    let mut buffer = Buffer::new(&text, lone_cr_is_text);
    for _ in 0..source.below(4) {
        let edges = edges(&text);
        let (from, to) = (
            edges[source.below(256) % edges.len()],
            edges[source.below(256) % edges.len()],
        );
        let new = source.text(5);
        text.replace_range(from.min(to)..from.max(to), &new);
        buffer.replace(from.min(to)..from.max(to), &new);
        assert_eq!(buffer.rope().to_string(), text);
    }
    let lines = lines(&text, lone_cr_is_text);
    for encoding in [Encoding::Utf8, Encoding::Utf16] {
        for byte in edges(&text) {
            let line = lines
                .iter()
                .rposition(|&(start, _)| start <= byte)
                .unwrap_or(0);
            let (start, end) = lines[line];
            let expected = (line, units(&text[start..byte.min(end)], encoding));
            let found = buffer.position_of(byte, encoding);
            assert_eq!(
                (found.line as usize, found.character as usize),
                expected,
                "{byte} of {text:?}"
            );
        }
        let position = Position {
            line: u32::from(source.byte() % 8),
            character: u32::from(source.byte() % 16),
        };
        let expected = byte_at(&text, &lines, position, encoding);
        assert_eq!(
            buffer.byte_at(position, encoding),
            expected,
            "{position:?} of {text:?}"
        );
    }
}

fn edges(text: &str) -> Vec<usize> {
    let starts = text.char_indices().map(|it| it.0);
    starts.chain([text.len()]).collect()
}

fn units(text: &str, encoding: Encoding) -> usize {
    match encoding {
        Encoding::Utf8 => text.len(),
        Encoding::Utf16 => text.encode_utf16().count(),
    }
}

/// Where each line starts, and where it ends before its break.
fn lines(text: &str, lone_cr_is_text: bool) -> Vec<(usize, usize)> {
    let mut lines = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        let behind = &text[at + c.len_utf8()..];
        let is_pair = c == '\n' && text[start..at].ends_with('\r');
        if c == '\n' || c == '\r' && !lone_cr_is_text && !behind.starts_with('\n') {
            lines.push((start, at - usize::from(is_pair)));
            start = at + 1;
        }
    }
    lines.push((start, text.len()));
    lines
}

fn byte_at(text: &str, lines: &[(usize, usize)], position: Position, encoding: Encoding) -> usize {
    let Some(&(start, end)) = lines.get(position.line as usize) else {
        return text.len();
    };
    let reached = edges(&text[start..end]).into_iter();
    let reached = reached
        .filter(|&it| units(&text[start..start + it], encoding) <= position.character as usize);
    start + reached.max().unwrap_or(0)
}

/// Whether two texts begin or end with the same character, line breaks aside: a CRLF pair is never split.
pub fn common_chars(old: &str, new: &str) -> bool {
    let same = |old: Option<char>, new: Option<char>| {
        old == new && !matches!(old, None | Some('\r' | '\n'))
    };
    same(old.chars().next(), new.chars().next())
        || same(old.chars().next_back(), new.chars().next_back())
}
