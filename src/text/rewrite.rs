//! Writing view text over raw text, so that no byte changes that need not.
//!
//! Invariant: the view afterwards is the view before with the span replaced, to the letter; and a line that is kept
//! keeps its own line end. New line breaks take a style from around them.

use std::{cmp::Ordering, ops::Range};

use memchr::memmem;

use super::{
    BOM, Text,
    eol::{Eol, fold, majority, with_eol},
    lines,
    splice::Splice,
    walk,
};

/// Where new line breaks look for their style first; the file's majority and LF come last.
#[derive(Clone, Copy)]
enum Style {
    /// At the line breaks they replace, then at the one before.
    Around,
    /// At the file as a whole.
    File,
}

/// Replaces a range of raw bytes, as `find` returns it, by a view text.
///
/// New line breaks take the style of what they replace, else of the line before, else the file's majority, else LF.
pub fn replace(text: &Text, hit: Range<usize>, new: &str) -> Vec<Splice> {
    rewrite(text, hit, new, Style::Around)
}

/// Replaces ranges of raw bytes, in ascending order, each by the same view text.
///
/// Those that stand side by side are replaced as one, because what comes to stand beside what is known only then.
pub fn replace_all(text: &Text, hits: &[Range<usize>], new: &str) -> Vec<Splice> {
    let runs = hits.chunk_by(|hit, next| hit.end == next.start);
    let splices = runs.flat_map(|run| {
        let span = run[0].start..run[run.len() - 1].end;
        replace(text, span, &new.repeat(run.len()))
    });
    splices.collect()
}

/// Replaces the whole view by a content with any line ends; a byte order mark stays if it is there, and only then: those
/// that lead the content are left out.
///
/// New line breaks take the file's majority, else LF.
pub fn overwrite(text: &Text, content: &str) -> Vec<Splice> {
    let content = fold(content.trim_start_matches(BOM));
    rewrite(
        text,
        text.view_start()..text.len_bytes(),
        &content,
        Style::File,
    )
}

fn rewrite(text: &Text, span: Range<usize>, new: &str, style: Style) -> Vec<Splice> {
    let old = text.slice(span.clone());
    let changes = lines::changed(&old, new, lines::raw_as_view, lines::as_is);
    let mut splices = Vec::with_capacity(changes.len());
    for (old_range, new_range) in changes {
        let old_lines = &old[old_range.clone()];
        let old_view = fold(old_lines);
        let (head, tail) = common(&old_view, &new[new_range.clone()]);
        let new = &new[new_range.start + head..new_range.end - tail];
        let lines_start = span.start + old_range.start;
        let start = lines_start + raw_len(old_lines, head);
        let end = lines_start + raw_len(old_lines, old_view.len() - tail);
        let eol = if new.contains('\n') && !broken!(AlwaysLf) {
            eol_for(text, start..end, style)
        } else {
            Eol::Lf
        };
        splices.push(sealed(
            text,
            Splice {
                range: start..end,
                text: with_eol(new, eol),
            },
        ));
    }
    splices
}

/// The bytes that two view texts have in common at the start and at the end, whole characters.
fn common(old: &str, new: &str) -> (usize, usize) {
    let mut head = walk::common_head(old.as_bytes(), new.as_bytes());
    while !old.is_char_boundary(head) {
        head -= 1;
    }
    let (old, new) = (&old[head..], &new[head..]);
    let mut tail = walk::common_tail(old.as_bytes(), new.as_bytes());
    while !old.is_char_boundary(old.len() - tail) {
        tail -= 1;
    }
    (head, tail)
}

/// The number of raw bytes that show the first `view_len` bytes of a view.
fn raw_len(raw: &str, view_len: usize) -> usize {
    let pairs = memmem::find_iter(raw.as_bytes(), b"\r\n").enumerate();
    view_len
        + pairs
            .take_while(|(n_before, pair_byte)| pair_byte - n_before < view_len)
            .count()
}

fn eol_for(text: &Text, replaced: Range<usize>, style: Style) -> Eol {
    let around = match style {
        Style::Around => of_span(&text.slice(replaced.clone())).or_else(|| {
            let lf_byte = text.prev_lf(replaced.start)?;
            Some(if text.splits_pair(lf_byte) {
                Eol::Crlf
            } else {
                Eol::Lf
            })
        }),
        Style::File => None,
    };
    around.or_else(|| majority(text)).unwrap_or(Eol::Lf)
}

/// The style of most line breaks of a span, of its first if they are balanced.
fn of_span(raw: &str) -> Option<Eol> {
    let first_lf = raw.find('\n')?;
    let n_crlf = memmem::find_iter(raw.as_bytes(), b"\r\n").count();
    let n_lf = walk::count_lf(raw.as_bytes()) - n_crlf;
    let is_crlf = match n_crlf.cmp(&n_lf) {
        Ordering::Less => false,
        Ordering::Equal => raw[..first_lf].ends_with('\r'),
        Ordering::Greater => true,
    };
    Some(if is_crlf { Eol::Crlf } else { Eol::Lf })
}

/// Keeps a literal carriage return and a line feed that come to stand side by side from becoming one line break: that
/// line feed is written as CRLF.
fn sealed(text: &Text, splice: Splice) -> Splice {
    let Splice {
        mut range,
        text: mut new,
    } = splice;
    let before = range.start.checked_sub(1).and_then(|it| text.byte(it));
    if before == Some(b'\r') && new.starts_with('\n') {
        new.insert(0, '\r');
    }
    let last = new.bytes().next_back().or(before);
    if last == Some(b'\r') && text.byte(range.end) == Some(b'\n') {
        range.end += 1;
        new.push_str("\r\n");
    }
    Splice { range, text: new }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::text::{
        matching::find,
        splice::Splices,
        tests::{any_text, both, char_range, naive_view, short},
    };

    /// What is replaced in the raw text is shown as `⟦old→new⟧`.
    #[track_caller]
    fn check(raw: &str, splices: impl Fn(&Text) -> Vec<Splice>, expected: &Expect) {
        let shown = both(raw).map(|text| {
            let mut shown = String::new();
            let mut at = 0;
            for Splice { range, text } in splices(&text) {
                let (before, old) = (&raw[at..range.start], &raw[range.clone()]);
                shown += &[before, "⟦", old, "→", &text, "⟧"].concat();
                at = range.end;
            }
            (shown + &raw[at..]).replace('\r', "␍").replace('\n', "␊")
        });
        assert_eq!(
            shown[0], shown[1],
            "a rope is written over like a flat text"
        );
        expected.assert_eq(&shown[0]);
    }

    #[track_caller]
    fn check_replace(raw: &str, old: &str, new: &str, expected: &Expect) {
        let hit = |text: &Text| find(text, old, 1).ranges[0].clone();
        check(raw, |text| replace(text, hit(text), new), expected);
    }

    #[track_caller]
    fn check_overwrite(raw: &str, content: &str, expected: &Expect) {
        check(raw, |text| overwrite(text, content), expected);
    }

    #[test]
    fn only_what_differs_is_replaced() {
        check_replace(
            "let a = 1;",
            "let a = 1;",
            "let b = 1;",
            &expect!["let ⟦a→b⟧ = 1;"],
        );
        // Characters whose first bytes, or last, are the same.
        check_replace("caf\u{e9}", "caf\u{e9}", "caf\u{e8}", &expect!["caf⟦é→è⟧"]);
        check_replace("caf\u{e9}", "caf\u{e9}", "caf\u{129}", &expect!["caf⟦é→ĩ⟧"]);
    }

    #[test]
    fn kept_lines_keep_their_ends() {
        check_replace(
            "1\r\n2\n3\r\n4\r\n",
            "1\n2\n3",
            "1\nII\n3",
            &expect!["1␍␊⟦2→II⟧␊3␍␊4␍␊"],
        );
        check_replace(
            "1\n2\r\n3\n4\r\n",
            "1\n2\n3\n4\n",
            "I\n2\n3\nIV\n",
            &expect!["⟦1→I⟧␊2␍␊3␊⟦4→IV⟧␍␊"],
        );
        check_replace(
            "1\n2\r\n3\n",
            "1\n2\n3\n",
            "0\n1\n2\nx\n3\n",
            &expect!["⟦→0␊⟧1␊2␍␊⟦→x␍␊⟧3␊"],
        );
    }

    #[test]
    fn new_breaks_are_like_those_they_replace() {
        check_replace(
            "0\n1\r\n2\n3\n",
            "1\n2",
            "a\nb\nc",
            &expect!["0␊⟦1␍␊2→a␍␊b␍␊c⟧␊3␊"],
        );
        check_replace(
            "0\n1\r\n2\n3\r\n4",
            "1\n2\n3\n4",
            "a\nb\nc\nd",
            &expect!["0␊⟦1␍␊2␊3␍␊4→a␍␊b␍␊c␍␊d⟧"],
        );
        check_replace(
            "0\r\n1\n2\r\n3",
            "1\n2\n3",
            "a\nb\nc",
            &expect!["0␍␊⟦1␊2␍␊3→a␊b␊c⟧"],
        );
    }

    #[test]
    fn new_breaks_where_none_were_are_like_the_one_before() {
        check_replace("1\r\n2\n3\n", "2", "b\nB", &expect!["1␍␊⟦2→b␍␊B⟧␊3␊"]);
        check_replace("1\n2\r\n3\r\n", "2", "b\nB", &expect!["1␊⟦2→b␊B⟧␍␊3␍␊"]);
    }

    #[test]
    fn new_breaks_on_the_first_line_are_like_most() {
        check_replace("1\r\n2\n3\r\n", "1", "a\nA", &expect!["⟦1→a␍␊A⟧␍␊2␊3␍␊"]);
        check_replace("1", "1", "a\nA", &expect!["⟦1→a␊A⟧"]);
    }

    #[test]
    fn a_write_keeps_the_mark_and_the_ends_of_kept_lines() {
        check_overwrite(
            "\u{FEFF}a\r\nb\nc\r\n",
            "a\nx\ny\nb\nc\n",
            &expect!["﻿a␍␊⟦→x␍␊y␍␊⟧b␊c␍␊"],
        );
        check_overwrite(
            "a\nb\r\nc\n",
            "\u{FEFF}a\r\nb\r\nd\r\n",
            &expect!["a␊b␍␊⟦c→d⟧␊"],
        );
        check_overwrite(
            "a\nb\nc\r\nd\r\ne\n",
            "a\nb\nC\nD\ne\n",
            &expect!["a␊b␊⟦c␍␊d→C␊D⟧␍␊e␊"],
        );
        check_overwrite("", "a\r\nb\n", &expect!["⟦→a␊b␊⟧"]);
        check_overwrite("\u{FEFF}", "a\n", &expect!["﻿⟦→a␊⟧"]);
        check_overwrite("a\n", "a", &expect!["a⟦␊→⟧"]);
    }

    #[test]
    fn a_return_and_a_line_feed_that_meet_stay_two_signs() {
        check_replace("a\rx\nb", "x", "", &expect!["a␍⟦x␊→␍␊⟧b"]);
        check_replace("a\nb", "a", "a\r", &expect!["a⟦␊→␍␍␊⟧b"]);
        check_replace("a\rb", "b", "\n", &expect!["a␍⟦b→␍␊⟧"]);
    }

    #[test]
    fn hits_side_by_side_are_replaced_as_one() {
        let check = |raw: &str, old: &str, new: &str, expected: &Expect| {
            let all = |text: &Text| replace_all(text, &find(text, old, 9).ranges, new);
            check(raw, all, expected);
        };
        check("\na\na", "\na", "\r", &expect!["⟦␊a␊a→␍␍⟧"]);
        check("\raa\n", "a", "", &expect!["␍⟦aa␊→␍␊⟧"]);
        check("xax", "x", "y", &expect!["⟦x→y⟧a⟦x→y⟧"]);
    }

    proptest! {
        #[test]
        fn the_view_afterwards_is_the_view_with_the_hit_replaced(
            raw in any_text(),
            from: usize,
            to: usize,
            new in prop_oneof![short(12), any_text()],
        ) {
            let new = fold(&new);
            let view = naive_view(&raw);
            let range = char_range(&view, from, to);
            let mut expected = view;
            let start = raw.len() - raw.strip_prefix(BOM).unwrap_or(&raw).len();
            let hit = start + raw_len(&raw[start..], range.start)..start + raw_len(&raw[start..], range.end);
            expected.replace_range(range, &new);
            for text in both(&raw) {
                let splices: Splices = replace(&text, hit.clone(), &new).into_iter().collect();
                let result = text.apply(&splices);
                let result = result.view(0..result.len_bytes());
                // A mark at the very start of the view is one of the file then.
                prop_assert_eq!(result, expected.strip_prefix(BOM).filter(|_| start == 0).unwrap_or(&expected));
            }
        }

        #[test]
        fn the_view_after_a_write_is_the_content(raw in any_text(), content in any_text()) {
            for text in both(&raw) {
                let splices: Splices = overwrite(&text, &content).into_iter().collect();
                let result = text.apply(&splices);
                let content = content.trim_start_matches(BOM);
                prop_assert_eq!(result.view(0..result.len_bytes()), naive_view(content));
                prop_assert_eq!(result.has_bom(), text.has_bom());
            }
        }

        #[test]
        fn a_uniform_file_stays_uniform(raw in any_text(), content in any_text(), crlf: bool) {
            let plain = |text: &str| text.replace(['\r', '\u{FEFF}'], "");
            let eol = if crlf { Eol::Crlf } else { Eol::Lf };
            let raw = with_eol(&format!("{}\n", plain(&raw)), eol);
            let text = Text::flat(raw);
            let splices: Splices = overwrite(&text, &plain(&content)).into_iter().collect();
            prop_assert_eq!(text.apply(&splices).raw(0..text.apply(&splices).len_bytes()), with_eol(&plain(&content), eol));
        }
    }
}
