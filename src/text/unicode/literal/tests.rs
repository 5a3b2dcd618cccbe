//! Literals, against all characters.

use unicode_normalization::char::is_combining_mark;

use super::*;
use crate::text::{
    tests::both,
    unicode::{find_within, fold::EmDash},
};

#[track_caller]
fn check(fold: &str, expected: &[&str]) {
    let literals: Vec<&str> = literals(fold).into_iter().map(|it| &fold[it]).collect();
    assert_eq!(literals, expected);
}

#[test]
fn a_literal_has_nothing_that_is_typography_or_composed_and_dots_only_by_themselves() {
    check("a.b..c...d.", &["a.b", "c", "d"]);
    check("let x-y = \"Kelvin\";\n", &["let", "x", "y", "=", "elvin"]);
    check(
        "на й café\u{301} 文件。豈가αΩ",
        &["на", "caf", "文件。", "α"],
    );
    check("a\u{200D}bc", &["a", "c"]);
    check("\u{200D}b.c", &[".c"]);
    check(&"x".repeat(100), &["x".repeat(64).as_str()]);
    check(&"я".repeat(33), &["я".repeat(32).as_str()]);
    let long = format!("{}x", "я".repeat(31));
    check(&format!("я{long}"), &[long.as_str()]);
}

#[test]
fn nothing_but_a_literal_character_itself_folds_to_it() {
    for c in '\0'..=char::MAX {
        let mut text = c.to_string();
        for em_dash in [EmDash::Two, EmDash::One] {
            let fold = Fold::of(&text, em_dash);
            let folded = str::from_utf8(fold.window().0).expect("text");
            assert!(folded == text || !folded.contains(is_literal), "{c:?}");
        }
        // What is composed of a literal character and a mark stays composed under others.
        if c.nfd().next().is_some_and(|it| it != c && is_literal(it)) {
            for mark in ('\u{300}'..='\u{36F}').filter(|&it| is_combining_mark(it)) {
                text.truncate(c.len_utf8());
                text.push(mark);
                assert!(!text.nfc().any(is_literal), "{text:?}");
            }
        }
    }
}

#[test]
fn the_literal_that_is_searched_for_is_a_rare_one() {
    for text in both(&"compute(values); ".repeat(10_000)) {
        let needle = b"compute(values) is 42";
        assert_eq!(rarest_literal(&text, needle), Some(16..18));
    }
}

#[test]
fn what_stands_around_a_literal_may_be_long() {
    let marks = "\u{301}".repeat(200);
    let [curly, straight] = ["“", "\""].map(|it| it.repeat(300));
    // As much as is looked at first.
    let some_marks = "\u{301}".repeat(LOOK_BYTES / 2);
    for (raw, needle, expected) in [
        (
            format!("{curly}b{curly}"),
            format!("{straight}b{straight}"),
            vec![0..1801],
        ),
        (
            format!("{curly}b{curly}"),
            format!("{straight}'b{straight}"),
            vec![],
        ),
        (
            format!("é{marks}b—"),
            format!("e\u{301}{marks}b"),
            vec![0..403],
        ),
        (
            format!("b{curly}"),
            format!("b{}'", "\"".repeat(299)),
            vec![],
        ),
        (format!("x{marks}b—"), "b".to_string(), vec![401..402]),
        (format!("x{marks}b—"), format!("{some_marks}b"), vec![]),
    ] {
        check_ways(&raw, &needle, &expected);
    }
}

#[test]
fn a_literal_is_no_hit_by_itself() {
    let hits: [(&str, &str, &[Range<usize>]); 9] = [
        ("b\u{301}—", "b", &[]),
        ("“\u{301}b—", "\"b", &[]),
        ("…b—", ".b", &[]),
        ("b…—", "b.", &[]),
        ("👩\u{200D}b—", "b", &[]),
        ("\u{FEFF}b—", "b", &[3..4]),
        ("\u{FEFF}b—", "\u{FEFF}b", &[]),
        ("aaa—", "aa", &[0..2, 1..3]),
        ("x—y", "x-y", &[0..5]),
    ];
    for (raw, needle, expected) in hits {
        check_ways(raw, needle, expected);
    }
}

#[test]
fn a_literal_may_lie_over_the_seam_of_two_windows() {
    for n_before in 0..20 {
        let raw = format!("{}abc—", "x".repeat(n_before));
        for text in both(&raw) {
            let hits = find_within(&text, "abc", 9, 1, usize::MAX);
            assert_eq!(hits.ranges(), [n_before..n_before + 3]);
        }
    }
}

#[test]
fn what_is_looked_at_around_literals_is_within_the_budget() {
    for (raw, needle) in [
        ("b“".repeat(2_000), "b'".to_string()),
        (
            format!("b{}", "“".repeat(2_000)),
            format!("b{}", "\"".repeat(1_999)),
        ),
        (
            format!("{}b", "“".repeat(2_000)),
            format!("{}b", "\"".repeat(1_999)),
        ),
    ] {
        for text in both(&raw) {
            let search = Search {
                text: &text,
                needle: needle.as_bytes(),
                em_dash: EmDash::Two,
                most: 9,
                window_bytes: WINDOW_BYTES,
            };
            assert!(find(&search, usize::MAX).is_some());
            assert!(find(&search, 20_000).is_none(), "{needle:?}");
        }
    }
}

/// By its literal, and without.
#[track_caller]
fn check_ways(raw: &str, needle: &str, expected: &[Range<usize>]) {
    for text in both(raw) {
        for budget in [0, usize::MAX] {
            let hits = find_within(&text, needle, 9, WINDOW_BYTES, budget);
            assert_eq!(hits.ranges(), expected, "{needle:?} in {raw:?}");
        }
    }
}
