//! Splices against the same changes made on a `String`.

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::text::tests::{any_text, both, char_range, short};

/// Changes of a text one after another, as two numbers for the range and a new text.
pub(crate) fn changes() -> impl Strategy<Value = Vec<(usize, usize, String)>> {
    vec((any::<usize>(), any::<usize>(), short(4)), 0..6)
}

pub(crate) fn composed(base: &str, changes: Vec<(usize, usize, String)>) -> (Splices, String) {
    let mut result = base.to_string();
    let mut splices = Splices::default();
    for (from, to, text) in changes {
        let range = char_range(&result, from, to);
        result.replace_range(range.clone(), &text);
        splices.then(Splice { range, text });
    }
    (splices, result)
}

fn is_normal(splices: &Splices) -> bool {
    splices
        .iter()
        .zip(splices.iter().skip(1))
        .all(|(it, next)| it.range.end < next.range.start)
}

/// `old` is written over in brackets: `a⟦b→B⟧c`.
#[track_caller]
fn check_minimal(base: &str, range: Range<usize>, new: &str, expected: &str) {
    let splices: Splices = [Splice {
        range,
        text: new.to_string(),
    }]
    .into_iter()
    .collect();
    let mut shown = String::new();
    let mut at = 0;
    for splice in &splices.minimise(&Text::flat(base)) {
        shown += &base[at..splice.range.start];
        shown += &["⟦", &base[splice.range.clone()], "→", &splice.text, "⟧"].concat();
        at = splice.range.end;
    }
    assert_eq!(shown + &base[at..], expected);
}

#[test]
fn what_old_and_new_have_in_common_is_left_out() {
    check_minimal("let a = 1;", 0..10, "let b = 1;", "let ⟦a→b⟧ = 1;");
    check_minimal("aaa", 0..3, "aa", "aa⟦a→⟧");
    check_minimal("abc", 0..3, "abc", "abc");
}

#[test]
fn characters_stay_whole() {
    check_minimal("è", 0..2, "é", "⟦è→é⟧");
    check_minimal("😀x", 0..4, "😁", "⟦😀→😁⟧x");
    check_minimal("x\u{e9}", 1..3, "\u{129}", "x⟦é→ĩ⟧");
}

#[test]
fn crlf_pairs_stay_whole() {
    check_minimal("a\r\nb", 0..4, "a\nb", "a⟦\r\n→\n⟧b");
    check_minimal("a\nb", 0..3, "a\r\nb", "a⟦\n→\r\n⟧b");
    check_minimal("a\rb", 0..3, "a\r\nb", "a⟦\r→\r\n⟧b");
    check_minimal("a\r\nb", 0..4, "a\rb", "a⟦\r\n→\r⟧b");
}

#[test]
fn an_edge_inside_a_pair_moves_out() {
    check_minimal("a\r\nb", 2..2, "x", "a⟦\r\n→\rx\n⟧b");
    check_minimal("a\nb", 1..1, "\r", "a⟦\n→\r\n⟧b");
    check_minimal("a\rxb", 2..3, "\n", "a⟦\rx→\r\n⟧b");
    check_minimal("a\rx\nb", 2..3, "", "a⟦\rx\n→\r\n⟧b");
}

#[test]
fn an_insertion_at_an_edge_moves_only_an_empty_range() {
    let splices: Splices = [Splice {
        range: 2..2,
        text: "xy".into(),
    }]
    .into_iter()
    .collect();
    assert_eq!(splices.map_range(0..2), Some(0..2));
    assert_eq!(splices.map_range(2..3), Some(4..5));
    assert_eq!(splices.map_range(1..3), None);
    assert_eq!(splices.map_range(2..2), None);
    assert_eq!(splices.map_range(3..3), Some(5..5));
    assert_eq!(splices.map_range(1..1), Some(1..1));
}

#[test]
fn many_splices_compose_in_linear_time() {
    let every_other = (0..100_000).map(|it| Splice {
        range: 2 * it..2 * it + 1,
        text: "bc".into(),
    });
    let mut splices: Splices = every_other.collect();
    let undo = splices.inverse(&Text::flat("ax".repeat(100_000)));
    splices.then_all(undo);
    assert!(
        splices
            .minimise(&Text::flat("ax".repeat(100_000)))
            .is_empty()
    );
}

proptest! {
    #[test]
    fn composed_splices_do_what_one_change_after_another_does(
        base in any_text(),
        changes in changes(),
    ) {
        let (splices, result) = composed(&base, changes);
        prop_assert!(is_normal(&splices), "{:?}", splices);
        for text in both(&base) {
            prop_assert!(text.apply(&splices).same(&Text::flat(&*result)));
        }
    }

    #[test]
    fn composing_sets_is_composing_their_splices(
        base in short(20),
        first in changes(),
        second in changes(),
    ) {
        let (mut splices, middle) = composed(&base, first);
        let (later, result) = composed(&middle, second);
        splices.then_all(later);
        prop_assert!(is_normal(&splices), "{:?}", splices);
        prop_assert!(Text::flat(base).apply(&splices).same(&Text::flat(result)));
    }

    #[test]
    fn minimal_splices_make_the_same_text_and_split_no_pair(
        base in short(20),
        changes in changes(),
    ) {
        let (splices, result) = composed(&base, changes);
        let (old, new) = (Text::flat(&*base), Text::flat(&*result));
        let minimal = splices.minimise(&old);
        prop_assert!(is_normal(&minimal), "{:?}", minimal);
        prop_assert!(old.apply(&minimal).same(&new));
        prop_assert_eq!(&minimal.minimise(&old), &minimal);
        for (splice, range) in minimal.iter().zip(minimal.new_ranges()) {
            prop_assert!(splice.range.len() + splice.text.len() > 0);
            for (text, edges) in [(&old, &splice.range), (&new, &range)] {
                prop_assert!(!text.splits_pair(edges.start) && !text.splits_pair(edges.end));
            }
        }
        prop_assert!(minimal.new_bytes() <= splices.new_bytes() + 2 * splices.len());
    }

    #[test]
    fn the_inverse_restores_the_base(base in any_text(), changes in changes()) {
        let (splices, result) = composed(&base, changes);
        for (splice, range) in splices.iter().zip(splices.new_ranges()) {
            prop_assert_eq!(&result[range], &splice.text);
        }
        let inverse = splices.inverse(&Text::flat(&*base));
        prop_assert!(Text::flat(result).apply(&inverse).same(&Text::flat(base)));
    }

    #[test]
    fn a_mapped_range_holds_what_it_held(
        base in short(20),
        changes in changes(),
        from: usize,
        to: usize,
    ) {
        let (splices, result) = composed(&base, changes);
        let range = char_range(&base, from, to);
        let is_touched = splices.iter().any(|it| it.touches(&range));
        match splices.map_range(range.clone()) {
            Some(mapped) => prop_assert!(!is_touched && base[range] == result[mapped]),
            None => prop_assert!(is_touched),
        }
    }
}
