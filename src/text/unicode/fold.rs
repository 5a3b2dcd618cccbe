//! What a text is compared as, made piece by piece.
//!
//! Invariant: a segment folds to the same wherever it stands, and never to nothing; so the fold of a text is its
//! segments' folds one after the other, and a place of the fold is a place of the text only at their edges.

use std::iter;

use unicode_normalization::{
    IsNormalized, UnicodeNormalization, char::is_combining_mark, is_nfc_quick,
};

/// What is looked at together for bytes that are no plain ASCII.
const BLOCK_BYTES: usize = 32;

/// How an em dash reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EmDash {
    Two,
    One,
}

/// The fold of a text that comes in pieces; what was looked at can be forgotten.
///
/// Bytes of the fold are counted from the first one ever made, those of the text from where it was told to start.
pub(super) struct Fold {
    em_dash: EmDash,
    /// The fold from `start` on.
    text: Vec<u8>,
    start: usize,
    /// Stretches of the fold, in order.
    stretches: Vec<Stretch>,
    /// The raw byte behind what is folded.
    raw_end: usize,
    /// The last segment, which the next piece may go on with.
    pending: String,
    has_em_dash: bool,
}

struct Stretch {
    folded: usize,
    raw: usize,
    /// True if each character is a segment and folds to itself; else the stretch is one segment.
    is_plain: bool,
}

impl Fold {
    pub(super) fn new(em_dash: EmDash, raw_start: usize) -> Self {
        Self {
            em_dash,
            text: Vec::new(),
            start: 0,
            stretches: Vec::new(),
            raw_end: raw_start,
            pending: String::new(),
            has_em_dash: false,
        }
    }

    /// The fold of a whole text.
    pub(super) fn of(raw: &str, em_dash: EmDash) -> Self {
        let mut fold = Self::new(em_dash, 0);
        fold.push(raw);
        fold.finish();
        fold
    }

    /// Takes in the next piece of the text.
    pub(super) fn push(&mut self, piece: &str) {
        let mut rest = piece;
        if let Some(last) = self.pending.chars().next_back() {
            let (head, tail) = rest.split_at(continuation(last, rest));
            self.pending.push_str(head);
            if tail.is_empty() {
                return;
            }
            let segment = std::mem::take(&mut self.pending);
            self.segment(&segment);
            rest = tail;
        }
        while !rest.is_empty() {
            let n_plain = plain(rest);
            let behind = &rest[n_plain..];
            if let Some((folded, n_bytes)) = self.sign(behind) {
                self.plain(&rest[..n_plain]);
                self.stretch(false);
                self.text.extend_from_slice(folded.as_bytes());
                self.raw_end += n_bytes;
                rest = &behind[n_bytes..];
                continue;
            }
            let last = rest[..n_plain].chars().next_back();
            let is_continued =
                last.is_some_and(|it| behind.chars().next().is_none_or(|c| belongs_to(it, c)));
            let n_plain = n_plain - last.filter(|_| is_continued).map_or(0, char::len_utf8);
            self.plain(&rest[..n_plain]);
            rest = &rest[n_plain..];
            let Some(first) = rest.chars().next() else {
                return;
            };
            let end = first.len_utf8() + continuation(first, &rest[first.len_utf8()..]);
            if end == rest.len() {
                self.pending.push_str(rest);
                return;
            }
            self.segment(&rest[..end]);
            rest = &rest[end..];
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self) {
        if !self.pending.is_empty() {
            let segment = std::mem::take(&mut self.pending);
            self.segment(&segment);
        }
    }

    /// The fold that is not forgotten, and the folded byte where it starts.
    pub(super) fn window(&self) -> (&[u8], usize) {
        (&self.text, self.start)
    }

    /// Leaves out what is before a folded byte.
    pub(super) fn forget(&mut self, until: usize) {
        self.text.drain(..until - self.start);
        self.start = until;
        let n_done = self.stretches.partition_point(|it| it.folded <= until);
        self.stretches.drain(..n_done.saturating_sub(1));
    }

    /// The raw byte of a folded one at which a segment begins or the text ends so far; none inside a segment.
    pub(super) fn raw(&self, folded: usize) -> Option<usize> {
        if folded == self.start + self.text.len() {
            return Some(self.raw_end);
        }
        let n_before = self.stretches.partition_point(|it| it.folded <= folded);
        let stretch = &self.stretches[n_before - 1];
        (stretch.is_plain || stretch.folded == folded)
            .then(|| stretch.raw + folded - stretch.folded)
    }

    /// Whether the em dash's reading matters.
    pub(super) fn has_em_dash(&self) -> bool {
        self.has_em_dash
    }

    fn plain(&mut self, raw: &str) {
        if raw.is_empty() {
            return;
        }
        if self.stretches.last().is_none_or(|it| !it.is_plain) {
            self.stretch(true);
        }
        self.text.extend_from_slice(raw.as_bytes());
        self.raw_end += raw.len();
    }

    fn segment(&mut self, raw: &str) {
        let mut chars = raw.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) if is_plain(c) => return self.plain(raw),
            // The table holds what is normalized, too.
            (Some(c), None)
                if typography(c, self.em_dash).is_some()
                    || is_nfc_quick(iter::once(c)) == IsNormalized::Yes =>
            {
                self.stretch(false);
                self.push_folded(c);
            }
            _ => {
                self.stretch(false);
                // A mark may stand behind a line break.
                let view = raw.strip_prefix('\r').filter(|it| it.starts_with('\n'));
                for c in view.unwrap_or(raw).nfc() {
                    self.push_folded(c);
                }
            }
        }
        self.raw_end += raw.len();
    }

    /// What a text begins with if it is a CRLF pair or typography and surely a segment: what it folds to, and its raw
    /// bytes. Some texts have little else.
    fn sign(&mut self, text: &str) -> Option<(&'static str, usize)> {
        let (folded, n_bytes) = if text.starts_with("\r\n") {
            ("\n", 2)
        } else {
            let c = text.chars().next().filter(|it| !it.is_ascii())?;
            self.has_em_dash |= c == EM_DASH;
            (typography(c, self.em_dash)?, c.len_utf8())
        };
        let behind = text[n_bytes..].chars().next()?;
        let is_segment =
            behind.is_ascii() || is_plain(behind) || typography(behind, self.em_dash).is_some();
        is_segment.then_some((folded, n_bytes))
    }

    fn push_folded(&mut self, c: char) {
        self.has_em_dash |= c == EM_DASH;
        let mut bytes = [0; 4];
        let folded = typography(c, self.em_dash).unwrap_or_else(|| c.encode_utf8(&mut bytes));
        self.text.extend_from_slice(folded.as_bytes());
    }

    fn stretch(&mut self, is_plain: bool) {
        self.stretches.push(Stretch {
            folded: self.start + self.text.len(),
            raw: self.raw_end,
            is_plain,
        });
    }
}

/// Cuts a text into segments.
pub(super) fn segments(text: &str) -> Vec<&str> {
    let mut rest = text;
    let next = move || {
        let first = rest.chars().next()?.len_utf8();
        let before = rest[..first].chars().next()?;
        let (segment, tail) = rest.split_at(first + continuation(before, &rest[first..]));
        rest = tail;
        Some(segment)
    };
    iter::from_fn(next).collect()
}

/// How many bytes of a text belong to the segment of the character before it.
pub(super) fn continuation(mut before: char, text: &str) -> usize {
    for (at, c) in text.char_indices() {
        if !belongs_to(before, c) {
            return at;
        }
        before = c;
    }
    text.len()
}

/// Whether a character continues the segment of the one before it.
pub(super) fn belongs_to(before: char, c: char) -> bool {
    if c.is_ascii() {
        return before == '\r' && c == '\n'
            || before == ZERO_WIDTH_JOINER && c != '\n' && c != '\r';
    }
    let is_extender = matches!(c, ZERO_WIDTH_JOINER
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{1F3FB}'..='\u{1F3FF}'
        | '\u{E0020}'..='\u{E007F}'
        | '\u{E0100}'..='\u{E01EF}');
    before == ZERO_WIDTH_JOINER
        || is_extender
        || is_combining_mark(c)
        || is_nfc_quick(iter::once(c)) == IsNormalized::Maybe
}

/// The bytes of the plain characters that a text starts with.
fn plain(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut end = 0;
    loop {
        end += plain_ascii(&bytes[end..]);
        let mut others = text[end..].char_indices();
        match others.find(|&(_, c)| c.is_ascii() || !is_plain(c)) {
            Some((0, _)) => return end,
            Some((n_bytes, _)) => end += n_bytes,
            None => return text.len(),
        }
    }
}

/// The number of bytes before the first that is a carriage return or not ASCII.
fn plain_ascii(bytes: &[u8]) -> usize {
    let is_special = |byte: u8| byte >= 0x80 || byte == b'\r';
    let blocks = bytes.chunks_exact(BLOCK_BYTES);
    let is_plain = |block: &&[u8]| {
        let special = block.iter().fold(false, |any, &it| any | is_special(it));
        !special
    };
    let n = BLOCK_BYTES * blocks.take_while(is_plain).count();
    n + bytes[n..].iter().take_while(|&&it| !is_special(it)).count()
}

/// Whether a character surely folds to itself and belongs to no other such before it; the most common ones do.
pub(super) fn is_plain(c: char) -> bool {
    c.is_ascii() && c != '\r'
        || matches!(c,
            '\u{A1}'..='\u{AC}' | '\u{AE}'..='\u{2FF}' | '\u{391}'..='\u{3A1}' | '\u{3A3}'..='\u{3CE}'
            | '\u{400}'..='\u{482}' | '\u{48A}'..='\u{52F}' | '\u{3001}'..='\u{3007}' | '\u{300A}'..='\u{3029}'
            | '\u{3041}'..='\u{3096}' | '\u{30A1}'..='\u{30FA}' | '\u{4E00}'..='\u{9FFF}' | '\u{FF01}'..='\u{FF9D}'
            | '\u{AC00}'..='\u{D7A3}')
}

pub(super) const ZERO_WIDTH_JOINER: char = '\u{200D}';

const EM_DASH: char = '\u{2014}';

/// The table of typography: what a character is taken for.
fn typography(c: char, em_dash: EmDash) -> Option<&'static str> {
    Some(match c {
        '\u{201C}'..='\u{201F}' => "\"",
        '\u{2018}'..='\u{201B}' => "'",
        EM_DASH if em_dash == EmDash::Two => "--",
        '\u{2010}'..='\u{2015}' => "-",
        '\u{2026}' => "...",
        '\u{00A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => " ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_characters_fold_to_themselves_and_belong_to_no_plain_one() {
        for c in ('\0'..=char::MAX).filter(|&it| is_plain(it)) {
            assert_eq!(c.nfc().collect::<Vec<_>>(), [c]);
            assert_eq!(typography(c, EmDash::Two), None, "{c:?}");
            assert!(!belongs_to('a', c), "{c:?}");
        }
    }

    #[test]
    fn the_table_holds_what_is_normalized_and_is_no_sign_of_its_own() {
        for c in '\0'..=char::MAX {
            let normalized: String = c.nfc().collect();
            if let Some(folded) = typography(c, EmDash::One) {
                assert!(!belongs_to('a', c), "{c:?}");
                assert!(!folded.is_empty() && folded.is_ascii(), "{c:?}");
                let again = normalized
                    .chars()
                    .next()
                    .expect("nothing is normalized to nothing");
                assert_eq!(typography(again, EmDash::One), Some(folded), "{c:?}");
            }
        }
    }

    #[test]
    fn a_text_folds_the_same_in_whatever_pieces_it_comes() {
        let raw = "a\r\nb\r\n\u{301}e\u{301}\u{327}\r\r\n“x”—…\u{1100}\u{1161}\u{11A8}\u{AC00}\u{11A8} 👩\u{200D}👩\u{200D}a ❤\u{FE0F}\u{212B}é\u{301}";
        let whole = Fold::of(raw, EmDash::Two);
        let edges: Vec<usize> = raw.char_indices().map(|it| it.0).collect();
        for &first in &edges {
            for &second in edges.iter().filter(|&&it| it >= first) {
                let mut fold = Fold::new(EmDash::Two, 0);
                for piece in [&raw[..first], &raw[first..second], &raw[second..]] {
                    fold.push(piece);
                }
                fold.finish();
                assert_eq!(fold.text, whole.text);
                for folded in 0..=whole.text.len() {
                    assert_eq!(fold.raw(folded), whole.raw(folded));
                }
            }
        }
        let folded = segments(raw)
            .into_iter()
            .map(|it| Fold::of(it, EmDash::Two).text);
        assert_eq!(folded.collect::<Vec<_>>().concat(), whole.text);
    }
}
