//! Diffs of short and long texts, and what may be merged into an edit.

use proptest::prelude::*;

use super::*;
use crate::text::{
    splice::tests::{changes, composed},
    tests::{any_text, both, char_range, lines, short},
};

#[track_caller]
fn check_ranges(old: &str, new: &str, expected: &[(usize, usize)]) {
    for (old, new) in both(old).iter().zip(both(new)) {
        assert_eq!(changed_ranges(old, &new), expected);
    }
}

#[test]
fn changed_and_inserted_lines_are_told() {
    check_ranges("a\nb\nc\n", "a\nB\nc\n", &[(2, 2)]);
    check_ranges("a\nb\n", "a\nx\ny\nb\n", &[(2, 3)]);
    check_ranges("", "a\nb", &[(1, 2)]);
}

#[test]
fn a_deletion_is_told_by_the_line_behind_or_the_last() {
    check_ranges("a\nb\nc\n", "a\nc\n", &[(2, 2)]);
    check_ranges("a\nb\n", "a\n", &[(1, 1)]);
    check_ranges("a\n", "", &[(1, 1)]);
}

#[test]
fn neighbouring_ranges_are_one() {
    check_ranges("a\nb\nc\nd\n", "a\nB\nd\n", &[(2, 2)]);
    check_ranges("x\na\nb\nc\n", "a\nB\nc\n", &[(1, 2)]);
}

#[test]
fn line_ends_are_no_change() {
    check_ranges("a\r\nb\n", "\u{FEFF}a\nb\r\n", &[]);
}

#[test]
fn many_ranges_are_bounded() {
    let old: String = lines(1000, |it| it.to_string());
    let new = old.replace("5\n", "x\n");
    let ranges = changed_ranges(&Text::flat(&*old), &Text::flat(new));
    assert_eq!(
        (ranges.len(), ranges[0], ranges[98], ranges[99]),
        (100, (6, 6), (986, 986), (996, 996))
    );
    let new = old.replace("5\n", "x\n").replace("7\n", "x\n");
    let ranges = changed_ranges(&Text::flat(&*old), &Text::flat(new));
    assert_eq!(
        (ranges.len(), ranges[98], ranges[99]),
        (100, (496, 496), (498, 998))
    );
}

/// `planned` has its spans in brackets: `a[b]c[]`.
#[track_caller]
fn check_keeps(planned: &str, actual: &str, expected: bool) {
    let mut text = String::new();
    let mut spans = Vec::new();
    for sign in planned.chars() {
        match sign {
            '[' => spans.push(text.len()..0),
            ']' => spans.last_mut().expect("an opened span").end = text.len(),
            sign => text.push(sign),
        }
    }
    for (planned, actual) in both(&text).iter().zip(both(actual)) {
        assert_eq!(keeps(planned, &actual, &spans), expected);
    }
}

#[test]
fn typing_elsewhere_leaves_a_span_intact() {
    check_keeps("a\n[new]\nb\n", "a\nnew\nb typed\n", true);
    check_keeps("a [new] b\n", "typed a new b typed\n", true);
    check_keeps("a\n[new]\nb\n", "a\nnew\nb\n", true);
    check_keeps("a\n[new]\nb\n", "new\n", true);
}

#[test]
fn typing_at_the_edge_leaves_a_span_intact() {
    check_keeps("a [new] b\n", "a xnew b\n", true);
    check_keeps("a [new] b\n", "a newx b\n", true);
    check_keeps("[new]", "newer", true);
}

#[test]
fn typing_into_a_span_does_not() {
    check_keeps("a [new] b\n", "a neXw b\n", false);
    check_keeps("a [new] b\n", "a ne b\n", false);
    check_keeps("a [new] b\n", "a old b\n", false);
}

#[test]
fn a_deletion_is_intact_while_nothing_touches_it() {
    check_keeps("a []b\n", "a b typed\n", true);
    check_keeps("a []b\n", "a old b\n", false);
    check_keeps("a []b\n", "ab\n", false);
}

#[test]
fn typing_beside_a_span_may_repeat_its_edge() {
    check_keeps("[aab]", "aaab", true);
    check_keeps("x[ab] c\n", "xabb c\n", true);
}

#[test]
fn a_missing_copy_may_be_the_span() {
    check_keeps("xx[xx]y", "xxxy", false);
    check_keeps("[xx]xxy", "xxxy", false);
    check_keeps("line\n[line\n]end\n", "line\nend\n", false);
    check_keeps("a []b\n", "a old b\n", false);
    check_keeps("a[] b\n", "a old b\n", false);
}

/// Whether an edit of `before` to `planned` has landed in `actual`.
#[track_caller]
fn check_landed(before: &str, planned: &str, actual: &str, expected: bool) {
    for it in 0..2 {
        let [before, planned, actual] =
            [before, planned, actual].map(|text| both(text)[it].clone());
        let splices = diff(&before, &planned);
        assert_eq!(landed(&before, &planned, &actual, &splices), expected);
    }
}

#[test]
fn an_edit_has_landed_whatever_was_typed_elsewhere() {
    check_landed("a\nold\n", "a\nnew\n", "a\nnew\ntyped\n", true);
    check_landed("a = x;\n", "a = f(x);\n", "abc = f(x);\n", true);
    check_landed("a = f(x);\n", "a = x;\n", "abc = x;\n", true);
    check_landed(
        "line\nend\n",
        "line\nline\nend\n",
        "line\nline\nend!\n",
        true,
    );
    check_landed("a\nb\nc\n", "a\nc\n", "typed\na\nc\n", true);
}

#[test]
fn an_edit_that_was_not_made_has_not_landed() {
    check_landed("a\nold\n", "a\nnew\n", "a\nold\ntyped\n", false);
    check_landed("a = x;\n", "a = f(x);\n", "abc = x;\n", false);
    check_landed("a = f(x);\n", "a = x;\n", "abc = f(x);\n", false);
    check_landed("line\nend\n", "line\nline\nend\n", "line\nend!\n", false);
    check_landed("a\nb\nc\n", "a\nc\n", "typed\na\nb\nc\n", false);
}

#[test]
fn an_edit_made_by_half_has_not_landed() {
    let (before, planned) = ("fold(x)\n-\n-\nf(y)\n", "x\n-\n-\ny\n");
    check_landed(before, planned, "x\n-\n-\nf(y)\n", false);
    check_landed(before, planned, "x\n-\n!\ny\n", true);
    // Whatever has moved it.
    check_landed(before, planned, "typed\nx\n-\n-\nf(y)\n", false);
    check_landed(before, planned, "typed\nx\n-\n-\ny\n", true);
    let above = |text: &str| format!("above\n{text}");
    check_landed(&above(before), &above(planned), "x\n-\n-\nf(y)\n", false);
    check_landed(&above(before), &above(planned), "x\n-\n-\ny\n", true);
}

#[test]
fn an_edit_that_may_as_well_be_what_was_typed_has_not_landed() {
    check_landed("old\n", "new\n", "new\n old\n", false);
}

#[test]
fn several_places_on_one_line_are_told_apart() {
    check_keeps(
        "one [two] three [four] five\n",
        "ONE two 3 four FIVE\n",
        true,
    );
    check_keeps(
        "one [two] three [four] five\n",
        "ONE two 3 fouur FIVE\n",
        false,
    );
}

proptest! {
    #[test]
    fn a_diff_makes_the_new_text_of_the_old(old in any_text(), new in any_text()) {
        for (old, new) in both(&old).iter().zip(both(&new)) {
            let splices = diff(old, &new);
            prop_assert!(old.apply(&splices).same(&new));
            prop_assert!(old.apply(&refined(&splices, old)).same(&new));
            prop_assert_eq!(splices.minimise(old), splices);
        }
    }

    #[test]
    fn changes_beside_the_spans_keep_them(
        planned in short(20),
        changes in changes(),
        from: usize,
        to: usize,
    ) {
        let span = char_range(&planned, from, to);
        let (splices, actual) = composed(&planned, changes);
        let (planned, actual) = (Text::flat(planned), Text::flat(actual));
        let is_kept = keeps(&planned, &actual, std::slice::from_ref(&span));
        if is_kept {
            let text = planned.raw(span.clone());
            prop_assert!(actual.raw(0..actual.len_bytes()).contains(&text));
        }
        // A single insertion is told from one in the span.
        if splices.len() == 1 && splices.iter().all(|it| it.range.is_empty()) && !span.is_empty() {
            prop_assert!(is_kept || splices.map_range(span).is_none());
        }
    }

    #[test]
    fn an_edit_has_landed_beside_typing_and_its_base_has_not(
        before in short(20),
        from: usize,
        to: usize,
        new in short(6),
        typed in "[xy\n]{0,3}",
    ) {
        let (splices, planned) = composed(&before, vec![(from, to, new)]);
        let splices = splices.minimise(&Text::flat(&*before));
        let after = |text: &str| Text::flat(format!("{text}-\n-\n-{typed}"));
        let base = Text::flat(format!("{before}-\n-\n-"));
        let plan = Text::flat(format!("{planned}-\n-\n-"));
        if before != planned {
            prop_assert!(landed(&base, &plan, &after(&planned), &splices));
            prop_assert!(!landed(&base, &plan, &after(&before), &splices));
        }
    }
}
