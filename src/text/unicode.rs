//! The Unicode-normalized fallback: finding text that differs from what was asked for only in how characters are written.
//!
//! A text is compared by *segments*: a CRLF pair, or a character with everything that belongs to it (combining marks,
//! conjoining jamo, variation selectors, emoji modifiers, what a zero-width joiner joins). Two segments are alike if they
//! are canonically equivalent (NFC) after a short table of typography: quotes, dashes, the ellipsis, spaces. An em dash
//! reads as `-` or as `--`; both readings are searched.
//!
//! Invariant: a hit covers whole segments. Nothing folds to nothing, nothing is folded by compatibility (NFKC), and no
//! letter of one script to that of another: those change what a text means.

use std::ops::Range;

use memchr::memmem;
use similar::{Algorithm, DiffOp, capture_diff_slices};
use unicode_normalization::{
    IsNormalized, UnicodeNormalization, char::is_combining_mark, is_nfc_quick,
};

use super::{Text, rewrite, splice::Splice};

/// How many times the length of the text a search may look at it; only text made for it needs more than a few.
const WORK_FACTOR: usize = 64;

/// How an em dash reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EmDash {
    Two,
    One,
}

/// The places that are alike, by raw bytes, in ascending order, overlapping ones included.
#[derive(Debug, PartialEq, Eq)]
pub struct Hits {
    hits: Vec<Hit>,
    /// False if there may be more.
    pub complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    start: usize,
    end: usize,
    em_dash: EmDash,
}

impl Hits {
    /// The raw bytes of each hit.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        self.hits.iter().map(|it| it.start..it.end).collect()
    }
}

/// Finds what is alike to `needle` (line ends as LF, not empty); stops after `most` hits.
pub fn find(text: &Text, needle: &str, most: usize) -> Hits {
    let mut hits = Vec::new();
    let mut complete = true;
    if !(is_ascii(text) && needle.is_ascii()) {
        for em_dash in [EmDash::Two, EmDash::One] {
            let haystack = Folded::of(&text.raw(text.view_start()..text.len_bytes()), em_dash);
            let needle = Folded::of(needle, em_dash);
            complete &= haystack.find(&needle.text, em_dash, most, &mut hits);
        }
    }
    for hit in &mut hits {
        hit.start += text.view_start();
        hit.end += text.view_start();
    }
    hits.sort();
    hits.dedup_by(|later, hit| (later.start, later.end) == (hit.start, hit.end));
    complete &= hits.len() <= most;
    hits.truncate(most);
    Hits { hits, complete }
}

/// Whether two texts are alike as a whole.
pub fn alike(old: &str, new: &str) -> bool {
    [EmDash::Two, EmDash::One]
        .into_iter()
        .any(|it| Folded::of(old, it).text == Folded::of(new, it).text)
}

/// Writes `new` over a hit of `old`, but only where the two differ: what the edit did not mean to change keeps the
/// characters that the text has.
pub fn replace(text: &Text, hits: &Hits, old: &str, new: &str) -> Vec<Splice> {
    let splices = hits.hits.iter();
    splices
        .flat_map(|hit| replace_hit(text, hit, old, new))
        .collect()
}

fn replace_hit(text: &Text, hit: &Hit, old: &str, new: &str) -> Vec<Splice> {
    let found = Folded::of(&text.raw(hit.start..hit.end), hit.em_dash);
    let asked = Folded::of(old, hit.em_dash);
    let old_segments = segments(old);
    let new_segments = segments(new);
    let mut changes: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let ops = capture_diff_slices(Algorithm::Myers, &old_segments, &new_segments);
    for op in ops {
        let (mut old_range, mut new_range) = match op {
            DiffOp::Equal { .. } => continue,
            op => (op.old_range(), op.new_range()),
        };
        // One character of the text may stand for several of what was asked for (an ellipsis): it is written as a whole.
        while found.raw_at(asked.bounds[old_range.start].0).is_none() {
            old_range.start -= 1;
            new_range.start = new_range.start.saturating_sub(1);
        }
        while found.raw_at(asked.bounds[old_range.end].0).is_none() {
            old_range.end += 1;
            new_range.end = (new_range.end + 1).min(new_segments.len());
        }
        match changes.last_mut() {
            Some((last_old, last_new)) if last_old.end > old_range.start => {
                last_old.end = last_old.end.max(old_range.end);
                last_new.end = last_new.end.max(new_range.end);
            }
            _ => changes.push((old_range, new_range)),
        }
    }
    let splices = changes.into_iter().filter_map(|(old_range, new_range)| {
        let start = found.raw_at(asked.bounds[old_range.start].0)?;
        let end = found.raw_at(asked.bounds[old_range.end].0)?;
        let new = new_segments[new_range].concat();
        Some(rewrite::replace(
            text,
            hit.start + start..hit.start + end,
            &new,
        ))
    });
    splices.flatten().collect()
}

/// Whether a range begins or ends inside a segment.
pub fn splits_a_character(text: &Text, range: &Range<usize>) -> bool {
    [range.start, range.end].into_iter().any(|at| {
        let before = (text.view_start()..at)
            .rev()
            .find(|&it| is_char_start(text, it));
        match (before.and_then(|it| char_at(text, it)), char_at(text, at)) {
            (Some(before), Some(c)) => belongs_to(before, c),
            _ => false,
        }
    })
}

fn is_char_start(text: &Text, at: usize) -> bool {
    text.byte(at).is_some_and(|it| it & 0xC0 != 0x80)
}

fn char_at(text: &Text, at: usize) -> Option<char> {
    let end = (at + 1..=at + 4).find(|&it| it == text.len_bytes() || is_char_start(text, it))?;
    text.raw(at..end).chars().next()
}

fn is_ascii(text: &Text) -> bool {
    let mut at = 0;
    while at < text.len_bytes() {
        let (chunk, start) = text.chunk_at(at);
        if !chunk.is_ascii() {
            return false;
        }
        at = start + chunk.len();
    }
    true
}

/// A folded text and where its segments begin.
struct Folded {
    text: String,
    /// Of each segment, and of the end: byte of the folded text and of the raw one.
    bounds: Vec<(usize, usize)>,
}

impl Folded {
    fn of(raw: &str, em_dash: EmDash) -> Self {
        let mut text = String::with_capacity(raw.len());
        let mut bounds = Vec::new();
        let mut at = 0;
        for segment in segments(raw) {
            bounds.push((text.len(), at));
            at += segment.len();
            if segment == "\r\n" {
                text.push('\n');
            } else if segment.is_ascii() {
                text.push_str(segment);
            } else {
                for c in segment.nfc() {
                    match typography(c, em_dash) {
                        Some(plain) => text.push_str(plain),
                        None => text.push(c),
                    }
                }
            }
        }
        bounds.push((text.len(), at));
        Self { text, bounds }
    }

    /// The raw byte at which the segment begins that begins at a folded byte.
    fn raw_at(&self, folded: usize) -> Option<usize> {
        let idx = self.bounds.binary_search_by_key(&folded, |it| it.0).ok()?;
        Some(self.bounds[idx].1)
    }

    /// Adds the hits of a folded needle; false if there may be more.
    fn find(&self, needle: &str, em_dash: EmDash, most: usize, hits: &mut Vec<Hit>) -> bool {
        let finder = memmem::Finder::new(needle);
        let mut work = self.text.len().saturating_mul(WORK_FACTOR);
        let mut from = 0;
        let mut n_hits = 0;
        while let Some(found) = finder.find(&self.text.as_bytes()[from..]) {
            let folded = from + found;
            if let (Some(start), Some(end)) =
                (self.raw_at(folded), self.raw_at(folded + needle.len()))
            {
                hits.push(Hit {
                    start,
                    end,
                    em_dash,
                });
                n_hits += 1;
            }
            if n_hits > most || work < needle.len() {
                return false;
            }
            work -= needle.len();
            from = folded + 1;
        }
        true
    }
}

/// Cuts a text into segments.
fn segments(text: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        if before.is_some_and(|it| !belongs_to(it, c)) {
            segments.push(&text[start..at]);
            start = at;
        }
        before = Some(c);
    }
    if start < text.len() {
        segments.push(&text[start..]);
    }
    segments
}

/// Whether a character continues the segment of the one before it.
fn belongs_to(before: char, c: char) -> bool {
    const ZERO_WIDTH_JOINER: char = '\u{200D}';
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
        || is_nfc_quick(std::iter::once(c)) == IsNormalized::Maybe
}

/// The table of typography: what a character is taken for.
fn typography(c: char, em_dash: EmDash) -> Option<&'static str> {
    Some(match c {
        '\u{201C}'..='\u{201F}' => "\"",
        '\u{2018}'..='\u{201B}' => "'",
        '\u{2014}' if em_dash == EmDash::Two => "--",
        '\u{2010}'..='\u{2015}' => "-",
        '\u{2026}' => "...",
        '\u{00A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => " ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::text::splice::Splices;

    #[track_caller]
    fn check(raw: &str, needle: &str, expected: Expect) {
        let ranges = find(&Text::flat(raw), needle, 9).ranges();
        let hits: Vec<String> = ranges
            .iter()
            .map(|it| format!("⟦{}⟧", &raw[it.clone()]))
            .collect();
        expected.assert_eq(&hits.concat());
    }

    #[track_caller]
    fn check_edit(raw: &str, old: &str, new: &str, expected: Expect) {
        let text = Text::flat(raw);
        let hits = find(&text, old, 9);
        assert_eq!(hits.hits.len(), 1, "{hits:?}");
        let mut splices = Splices::default();
        for splice in replace(&text, &hits, old, new).into_iter().rev() {
            splices.then(splice);
        }
        let after = text.apply(&splices);
        expected.assert_eq(&after.raw(0..after.len_bytes()));
    }

    #[test]
    fn grok_e1_e2_e3_an_ellipsis_is_found_only_as_a_whole() {
        check("…", "..", expect![""]);
        check("a….b", "....", expect!["⟦….⟧"]);
        check("a.…b", "...", expect!["⟦…⟧"]);
    }

    #[test]
    fn grok_e4_e5_all_readings_of_dashes_and_overlapping_quotes_are_hits() {
        check("-— and —", "--", expect!["⟦-—⟧⟦—⟧⟦—⟧"]);
        check("“““", "\"\"", expect!["⟦““⟧⟦““⟧"]);
    }

    #[test]
    fn grok_e7_e9_e10_canonical_equivalents_are_alike_and_letters_keep_their_marks() {
        check("cafe\u{301} x", "café", expect!["⟦cafe\u{301}⟧"]);
        check("\u{212B}", "\u{C5}", expect!["⟦\u{212B}⟧"]);
        check(
            "\u{1100}\u{1161}\u{11A8}",
            "\u{AC01}",
            expect!["⟦\u{1100}\u{1161}\u{11A8}⟧"],
        );
        check("\u{1100}\u{1161}\u{11A8}", "\u{AC00}", expect![""]);
    }

    #[test]
    fn grok_e11_e18_spaces_hyphens_and_low_quotes_are_typography() {
        check("a\u{A0}b\u{3000}c", "a b c", expect!["⟦a\u{a0}b　c⟧"]);
        check(
            "a\u{2011}b \u{201A}c\u{201B}",
            "a-b 'c'",
            expect!["⟦a‑b ‚c‛⟧"],
        );
    }

    #[test]
    fn grok_e12_e15_e16_e17_e19_what_means_something_else_is_no_hit() {
        for (raw, needle) in [
            ("a\u{200B}b", "ab"),
            ("a\u{AD}b", "ab"),
            ("ＡＢ", "AB"),
            ("ﬁ", "fi"),
            ("x²", "x2"),
            ("a \u{2212} b", "a - b"),
            ("p\u{430}ss", "pass"),
            ("«a»", "\"a\""),
            ("a\u{202E}b", "ab"),
        ] {
            assert!(
                find(&Text::flat(raw), needle, 9).ranges().is_empty(),
                "{raw:?}"
            );
        }
    }

    #[test]
    fn grok_e39_emoji_are_never_split() {
        check("👩‍👩 —", "👩 —", expect![""]);
        check("❤\u{FE0F} —", "❤", expect![""]);
        check("👍🏽 —", "👍", expect![""]);
    }

    #[test]
    fn grok_e25_e26_e27_e28_only_what_the_edit_changes_is_written() {
        check_edit("a—b", "a--b", "a-+b", expect!["a-+b"]);
        check_edit(
            "say “hello” — ok",
            "\"hello\" -- ok",
            "\"hello\" -- fine",
            expect!["say “hello” — fine"],
        );
        check_edit("“a”", "\"a\"", "\"b\"", expect!["“b”"]);
        check_edit("“a”", "\"a\"", "'a'", expect!["'a'"]);
        check_edit(
            "“a” and “b”, “c”",
            "\"a\" and \"b\", \"c\"",
            "\"1\" and \"b\", \"2\"",
            expect!["“1” and “b”, “2”"],
        );
    }

    #[test]
    fn grok_e36_e37_line_ends_and_indentation_survive() {
        check_edit(
            "“x\r\ny”\r\n",
            "\"x\ny\"",
            "\"x\nz\"",
            expect!["“x\r\nz”\r\n"],
        );
        check_edit(
            "\u{A0}\u{A0}go()",
            "  go()",
            "  stop()",
            expect!["\u{a0}\u{a0}stop()"],
        );
    }

    /// All spans of whole segments that fold to the same.
    fn naive(raw: &str, needle: &str) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut starts = vec![0];
        for segment in segments(raw) {
            starts.push(starts[starts.len() - 1] + segment.len());
        }
        for (idx, &start) in starts.iter().enumerate() {
            for &end in &starts[idx + 1..] {
                let is_hit = [EmDash::Two, EmDash::One]
                    .into_iter()
                    .any(|it| Folded::of(&raw[start..end], it).text == Folded::of(needle, it).text);
                if is_hit {
                    found.push(start..end);
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn the_hits_are_those_of_brute_force(
            raw in "[-—–.…ab\"“” \u{A0}\u{3000}e\u{301}é\r\n\u{1100}\u{1161}\u{AC00}\u{11A8}\u{200D}\u{FE0F}]{0,10}",
            needle in "[-—–.…ab\"“” \u{A0}e\u{301}é\n\u{1100}\u{1161}\u{AC00}]{1,3}",
        ) {
            let hits = find(&Text::flat(raw.as_str()), &needle, 1000).ranges();
            if raw.is_ascii() && needle.is_ascii() {
                prop_assert!(hits.is_empty());
            } else {
                prop_assert_eq!(hits, naive(&raw, &needle));
            }
        }

        #[test]
        fn an_edit_makes_what_was_asked_for_up_to_typography(
            before in "[xyz\n]{0,5}",
            found in "[—ab“” \u{A0}é\n]{1,6}",
            after in "[xyz\n]{0,5}",
            new in "[-abc\"' é\n]{0,6}",
        ) {
            let raw = format!("{before}{found}{after}");
            let old = Folded::of(&found, EmDash::Two).text;
            prop_assume!(raw != raw.replace(&found, "") && !raw.contains(&old));
            let text = Text::flat(raw.as_str());
            let hits = find(&text, &old, 9);
            prop_assume!(hits.hits.len() == 1);
            let mut splices = Splices::default();
            for splice in replace(&text, &hits, &old, &new).into_iter().rev() {
                splices.then(splice);
            }
            let result = text.apply(&splices);
            let result = result.raw(0..result.len_bytes());
            prop_assert!(result.starts_with(&before) && result.ends_with(&after));
            let written = &result[before.len()..result.len() - after.len()];
            prop_assert!(alike(written, &new), "{written:?}");
        }
    }
}
