//! Searching against comparing everywhere.

use expect_test::{Expect, expect};
use proptest::{prelude::*, sample::Index};

use super::*;
use crate::text::tests::{any_text, both, char_range, lines, naive_view, short};

/// Every place of `needle` in the view, by comparing at each of its bytes.
fn naive_find(raw: &str, needle: &str) -> Vec<Range<usize>> {
    let view = naive_view(raw);
    let mut raw_starts = Vec::new();
    let mut at = raw.len() - raw.strip_prefix('\u{FEFF}').unwrap_or(raw).len();
    while at < raw.len() {
        raw_starts.push(at);
        at += if raw.as_bytes()[at..].starts_with(b"\r\n") {
            2
        } else {
            1
        };
    }
    raw_starts.push(raw.len());
    let (view, needle) = (view.as_bytes(), needle.as_bytes());
    (0..view.len())
        .filter(|&it| view[it..].starts_with(needle))
        .map(|it| raw_starts[it]..raw_starts[it + needle.len()])
        .collect()
}

/// Each hit is marked in the raw text: `⟦…⟧`.
#[track_caller]
fn check(raw: &str, needle: &str, expected: &Expect) {
    let mut shown = Vec::new();
    for text in both(raw) {
        let hits = find(&text, needle, 9);
        let marked = hits.ranges.into_iter().map(|Range { start, end }| {
            format!(
                "{:?}",
                format!("{}⟦{}⟧{}", &raw[..start], &raw[start..end], &raw[end..])
            )
        });
        shown.push(marked.collect::<Vec<_>>().join("\n"));
    }
    assert_eq!(shown[0], shown[1], "a rope is searched like a flat text");
    expected.assert_eq(&shown[0]);
}

#[test]
fn a_line_break_matches_lf_and_crlf() {
    check("a\r\nb", "a\nb", &expect![[r#""⟦a\r\nb⟧""#]]);
    check("a\nb", "a\nb", &expect![[r#""⟦a\nb⟧""#]]);
    check(
        "a\r\nb\nc",
        "\n",
        &expect![[r#"
        "a⟦\r\n⟧b\nc"
        "a\r\nb⟦\n⟧c""#]],
    );
}

#[test]
fn a_return_matches_only_one_that_is_alone() {
    check("a\r\nb\rc", "\r", &expect![[r#""a\r\nb⟦\r⟧c""#]]);
    check("a\r\nb", "a\r", &expect![""]);
    check("a\r\r\nb", "\r\nb", &expect![[r#""a⟦\r\r\nb⟧""#]]);
}

#[test]
fn overlapping_hits_count() {
    check(
        "aaa",
        "aa",
        &expect![[r#"
        "⟦aa⟧a"
        "a⟦aa⟧""#]],
    );
    check(
        "a\r\n\n\r\n",
        "\n\n",
        &expect![[r#"
        "a⟦\r\n\n⟧\r\n"
        "a\r\n⟦\n\r\n⟧""#]],
    );
}

#[test]
fn the_byte_order_mark_is_not_found() {
    check("\u{FEFF}a", "\u{FEFF}", &expect![""]);
    check(
        "\u{FEFF}a\u{FEFF}",
        "\u{FEFF}",
        &expect![[r#""\u{feff}a⟦\u{feff}⟧""#]],
    );
    check("\u{FEFF}\r\na", "\na", &expect![[r#""\u{feff}⟦\r\na⟧""#]]);
}

#[test]
fn nothing_is_a_pattern() {
    check("a.c abc", "a.c", &expect![[r#""⟦a.c⟧ abc""#]]);
    check("$& $1", "$&", &expect![[r#""⟦$&⟧ $1""#]]);
}

#[test]
fn the_search_stops_after_enough_hits() {
    for text in both("ab\nab\nab\n") {
        let hits = find(&text, "ab\n", 2);
        assert_eq!(
            hits,
            Hits {
                ranges: vec![0..3, 3..6],
                complete: false
            }
        );
        assert!(find(&text, "ab\n", 4).complete);
        assert!(!find(&text, "ab\n", 0).complete);
    }
}

#[test]
fn a_needle_of_many_chunks_is_found() {
    let block = lines(500, |it| format!("line {it} of a block"));
    let raw = format!("{}{}tail", "x\n".repeat(700), block.replace('\n', "\r\n"));
    for text in both(&raw) {
        let hits = find(&text, &block, 2);
        assert_eq!(
            (&hits.ranges[0], hits.ranges.len()),
            (&(1400..raw.len() - 4), 1)
        );
        assert!(hits.complete);
    }
}

/// The anchor is everywhere in `sign`, again and again, so that the search by anchor is too slow.
#[track_caller]
fn check_repetition(sign: &str, n_signs: usize, needle: &str, n_hits: usize) {
    for text in both(&sign.repeat(n_signs)) {
        let hits = by_anchor(
            &text,
            needle.as_bytes(),
            usize::MAX,
            WINDOW_BYTES,
            budget(&text),
        );
        assert_eq!(hits, None, "the work is counted");
        assert_eq!(find(&text, needle, usize::MAX).ranges.len(), n_hits);
    }
}

#[test]
fn repetition_costs_no_more_than_linear_time() {
    for (sign, odd) in [("a", "b"), ("ab\n", "c\n"), ("\n", "\r")] {
        let half = sign.repeat(25_000);
        check_repetition(sign, 150_000, &format!("{half}{odd}{half}"), 0);
    }
    for sign in ["a", "ab\n", "\n", "\r"] {
        check_repetition(sign, 150_000, &sign.repeat(50_000), 100_001);
    }
}

#[test]
fn long_lines_that_differ_late_are_given_up() {
    let line = format!("{}x\n", "a".repeat(10_000));
    check_repetition(&line, 60, &format!("{}b", line.repeat(25)), 0);
    let line = format!("{}x", "a".repeat(10_000));
    check_repetition(&line, 60, &format!("b{}", line.repeat(25)), 0);
}

#[test]
fn ordinary_needles_are_found_by_their_anchor() {
    let block = "    if a {\n        b();\n    }\n\n";
    for text in both(&block.repeat(3_000)) {
        for needle in [
            block,
            "}",
            "\n",
            "b();",
            "    if a {\n        b();",
            &block.repeat(1_000),
        ] {
            let hits = by_anchor(&text, needle.as_bytes(), 2, WINDOW_BYTES, budget(&text));
            assert_eq!(hits.map(|it| it.ranges.len()), Some(2), "{needle:?}");
        }
        let hits = by_anchor(
            &text,
            b"b();\n    }",
            usize::MAX,
            WINDOW_BYTES,
            budget(&text),
        );
        assert_eq!(hits.map(|it| it.ranges.len()), Some(3_000));
    }
}

/// A needle that is part of the view, mostly.
fn needle(view: &str, random: &str, from: Index, len: usize) -> String {
    let range = char_range(view, from.index(view.len() + 1), usize::MAX);
    let part: String = view[range.start..].chars().take(len).collect();
    if part.is_empty() {
        format!("{random}a")
    } else {
        part
    }
}

proptest! {
    #[test]
    fn every_way_to_search_finds_what_comparing_everywhere_finds(
        raw in any_text(),
        random in short(4),
        from: Index,
        len in prop_oneof![4 => 0..6_usize, 1 => 0..2000_usize],
        most in prop_oneof![Just(1), Just(3), Just(usize::MAX)],
        window_bytes in prop_oneof![1..9_usize, Just(WINDOW_BYTES)],
        budget in prop_oneof![Just(0), 0..2000_usize, Just(usize::MAX)],
    ) {
        let needle = needle(&naive_view(&raw), &random, from, len);
        let mut expected = naive_find(&raw, &needle);
        let complete = expected.len() < most;
        expected.truncate(most);
        for text in both(&raw) {
            let hits = find_within(&text, &needle, most, window_bytes, budget);
            prop_assert_eq!(&hits.ranges, &expected);
            prop_assert_eq!(hits.complete, complete);
            let hits = read_once(&text, needle.as_bytes(), most);
            prop_assert_eq!((&hits.ranges, hits.complete), (&expected, complete));
        }
    }
}
