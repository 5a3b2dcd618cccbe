//! The fallback against comparing every span.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::text::{splice::Splices, tests::both};

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
        found.extend(
            starts[idx + 1..]
                .iter()
                .map(|&end| start..end)
                .filter(|it| alike(&raw[it.clone()], needle)),
        );
    }
    found
}

#[test]
fn what_stands_apart_from_a_changed_ellipsis_is_not_written_twice() {
    // Both changes touch the ellipsis: they are one.
    check_edit("a…b", "a...b", "a.,.,.b", expect!["a.,.,.b"]);
    check_edit("a…bcdef", "a...bcdef", "a.x..f", expect!["a.x..f"]);
    check_edit("…—…", "...--...", "..-..", expect!["..-.."]);
    check_edit("a…b", "a...b", "a!.?b", expect!["a!.?b"]);
    // The quotes between the changes stay.
    check_edit("…“c” d", "...\"c\" d", "!..\"c\" D", expect!["!..“c” D"]);
}

#[test]
fn hits_side_by_side_are_all_replaced() {
    let text = Text::flat("a““””b");
    let hits = find(&text, "\"", 9);
    let splices = replace(&text, &hits, "\"", "'").into_iter().collect();
    let after = text.apply(&splices);
    assert_eq!(after.raw(0..after.len_bytes()), "a''''b");
}

#[test]
fn a_dash_is_replaced_in_whichever_reading_it_was_found() {
    check_edit("a — “b”", "a - \"b\"", "a + \"b\"", expect!["a + “b”"]);
    check_edit("a — “b”", "a -- \"b\"", "a -- \"c\"", expect!["a — “c”"]);
}

#[test]
fn look_alikes_of_any_number_are_found_in_linear_time() {
    // So many dots end within an ellipsis, unless they begin with the dot between two.
    let needle = ".".repeat(10_001);
    for (raw, n_hits) in [
        (format!("{}—", "…".repeat(200_000)), 0),
        (format!("{}—", "….".repeat(100_000)), 97_500),
    ] {
        for text in both(&raw) {
            let hits = find(&text, &needle, usize::MAX);
            assert_eq!((hits.ranges().len(), hits.complete), (n_hits, true));
        }
    }
    for text in both(&"—".repeat(100_000)) {
        let hits = find(&text, &"-".repeat(50_000), usize::MAX);
        assert_eq!(hits.ranges().len(), 50_001 + 75_001);
    }
}

#[test]
fn a_second_hit_far_behind_many_that_nearly_are_is_not_missed() {
    let raw = format!("a….b{}a….b", "…".repeat(300_000));
    for text in both(&raw) {
        let needle = format!("a....b{}a....b", "...".repeat(300_000));
        assert_eq!(find(&text, &needle, 9).ranges(), [0..raw.len()]);
        assert_eq!(find(&text, "a....b", 9).ranges().len(), 2);
    }
}

#[test]
fn an_edit_of_many_characters_writes_what_lies_between_the_first_and_the_last() {
    let old = "a\"b ".repeat(3_000);
    let new = old.replace('a', "c");
    let raw = format!("“{}”", old.replace('"', "”"));
    let text = Text::flat(raw);
    let hits = find(&text, &old, 9);
    assert_eq!(hits.ranges().len(), 1);
    let splices: Splices = replace(&text, &hits, &old, &new).into_iter().collect();
    let after = text.apply(&splices);
    assert!(alike(&after.raw(3..after.len_bytes() - 3), &new));
}

proptest! {
    #[test]
    fn the_hits_are_those_of_brute_force_in_whatever_windows(
        raw in "[-—–.…ab\"“” \u{A0}\u{3000}e\u{301}é\r\n\u{1100}\u{1161}\u{AC00}\u{11A8}\u{200D}\u{FE0F}]{0,10}",
        n_filled in prop_oneof![4 => Just(0), 1 => 900..1000_usize],
        needle in "[-—–.…ab\"“” \u{A0}e\u{301}é\n\u{1100}\u{1161}\u{AC00}]{1,3}",
        window_bytes in prop_oneof![1..9_usize, Just(WINDOW_BYTES)],
        budget in prop_oneof![Just(0), 0..2000_usize, Just(usize::MAX)],
        most in prop_oneof![Just(1), Just(usize::MAX)],
    ) {
        let mut expected = naive(&raw, &needle);
        let complete = expected.len() <= most;
        expected.truncate(most);
        let expected: Vec<_> =
            expected.into_iter().map(|it| it.start + n_filled..it.end + n_filled).collect();
        // Nothing of the filler is part of a hit, and no segment goes on from it.
        prop_assume!(!raw.starts_with(['\u{301}', '\u{11A8}', '\u{1161}', '\u{200D}', '\u{FE0F}']));
        for text in both(&format!("{}{raw}", "x".repeat(n_filled))) {
            let hits = find_within(&text, &needle, most, window_bytes, budget);
            prop_assert_eq!((hits.ranges(), hits.complete), (expected.clone(), complete));
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
        let old = String::from_utf8(Fold::of(&found, EmDash::Two).window().0.to_vec()).expect("text");
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
