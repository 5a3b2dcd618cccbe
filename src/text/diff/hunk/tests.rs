//! Hunks as text, and against a naive `patch`.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::text::{
    diff::{changed_ranges, diff},
    splice::{
        Splice,
        tests::{changes as any_changes, composed},
    },
    tests::{any_text, both, lines, naive_view, short},
};

/// What the patch of a change from `old` to `new` looks like.
#[track_caller]
fn check(old: &str, new: &str, expected: &Expect) {
    let [rope, flat] = [0, 1].map(|it| {
        let (old, new) = (&both(old)[it], &both(new)[it]);
        unified("f", &hunks(old, new, &diff(old, new)), usize::MAX).0
    });
    assert_eq!(rope, flat);
    expected.assert_eq(&rope);
}

/// `n` lines that count from 1, some of them changed.
fn numbered(n: usize, changed: &[usize]) -> String {
    let sign = |it| if changed.contains(&it) { "!" } else { "" };
    lines(n, |it| format!("{}{}", it + 1, sign(it + 1)))
}

#[test]
fn three_lines_around_a_change_are_shown() {
    check(
        &numbered(9, &[]),
        &numbered(9, &[5]),
        &expect![[r"
        --- a/f
        +++ b/f
        @@ -2,7 +2,7 @@
         2
         3
         4
        -5
        +5!
         6
         7
         8
    "]],
    );
}

#[test]
fn changes_with_six_lines_between_are_one_hunk() {
    check(
        &numbered(20, &[]),
        &numbered(20, &[5, 12]),
        &expect![[r"
        --- a/f
        +++ b/f
        @@ -2,14 +2,14 @@
         2
         3
         4
        -5
        +5!
         6
         7
         8
         9
         10
         11
        -12
        +12!
         13
         14
         15
    "]],
    );
    check(
        &numbered(20, &[]),
        &numbered(20, &[5, 13]),
        &expect![[r"
        --- a/f
        +++ b/f
        @@ -2,7 +2,7 @@
         2
         3
         4
        -5
        +5!
         6
         7
         8
        @@ -10,7 +10,7 @@
         10
         11
         12
        -13
        +13!
         14
         15
         16
    "]],
    );
}

#[test]
fn an_insertion_starts_at_the_line_before() {
    check(
        "",
        "a\n",
        &expect![[r"
        --- a/f
        +++ b/f
        @@ -0,0 +1,1 @@
        +a
    "]],
    );
    check(
        "a\n",
        "",
        &expect![[r"
        --- a/f
        +++ b/f
        @@ -1,1 +0,0 @@
        -a
    "]],
    );
    check(
        "a\nb\n",
        "a\nx\nb\n",
        &expect![[r"
        --- a/f
        +++ b/f
        @@ -1,2 +1,3 @@
         a
        +x
         b
    "]],
    );
}

#[test]
fn a_missing_last_line_break_is_told() {
    check(
        "a\nb",
        "a\nb\n",
        &expect![[r"
        --- a/f
        +++ b/f
        @@ -1,2 +1,2 @@
         a
        -b
        \ No newline at end of file
        +b
    "]],
    );
    check(
        "a\nb",
        "A\nb",
        &expect![[r"
        --- a/f
        +++ b/f
        @@ -1,2 +1,2 @@
        -a
        +A
         b
        \ No newline at end of file
    "]],
    );
}

#[test]
fn line_ends_and_the_mark_make_no_hunk() {
    check("\u{FEFF}a\r\nb\n", "a\nb\r\n", &expect![""]);
    check(
        "\u{FEFF}a\r\nb\r\n",
        "\u{FEFF}A\r\nb\r\n",
        &expect![[r"
        --- a/f
        +++ b/f
        @@ -1,2 +1,2 @@
        -a
        +A
         b
    "]],
    );
}

#[test]
fn changes_far_apart_stay_apart() {
    let n = 20_001;
    let (old, new) = (numbered(n, &[]), numbered(n, &[1, n]));
    let (old, new) = (Text::flat(old), Text::flat(new));
    let splice = |at: usize| Splice {
        range: at..at,
        text: "!".to_string(),
    };
    let splices = [splice(1), splice(old.len_bytes() - 1)];
    let hunks = hunks(&old, &new, &splices.into_iter().collect());
    let starts: Vec<_> = hunks.iter().map(|it| it.new_start).collect();
    assert_eq!(starts, [1, n - CONTEXT_LINES]);
}

#[test]
fn a_patch_is_cut_between_lines() {
    let (old, new) = (Text::flat("a\nb\n"), Text::flat("A\nb\n"));
    let hunks = hunks(&old, &new, &diff(&old, &new));
    let whole = unified("f", &hunks, usize::MAX).0;
    assert_eq!(unified("f", &hunks, whole.len()), (whole.clone(), false));
    let (cut, is_cut) = unified("f", &hunks, whole.len() - 1);
    assert!(is_cut && whole.starts_with(&cut) && cut.ends_with("+A\n"));
}

/// Applies hunks to the lines of a view as `patch` does, and checks that they fit.
fn patched(old: &str, hunks: &[Hunk]) -> String {
    let olds: Vec<&str> = old.split_inclusive('\n').collect();
    let mut at = 0;
    let mut new = String::new();
    for hunk in hunks {
        let start = hunk.old_start - usize::from(hunk.old_lines > 0);
        new.extend(olds[at..start].iter().copied());
        at = start;
        let n_new_before = new.split_inclusive('\n').count();
        assert_eq!(
            hunk.new_start - usize::from(hunk.new_lines > 0),
            n_new_before
        );
        for (row, next) in hunk
            .lines
            .iter()
            .zip(hunk.lines.iter().skip(1).map(Some).chain([None]))
        {
            if row == NO_NEWLINE {
                continue;
            }
            let line_break = if next.is_some_and(|it| it == NO_NEWLINE) {
                ""
            } else {
                "\n"
            };
            let line = format!("{}{line_break}", &row[1..]);
            if !row.starts_with('+') {
                assert_eq!(line, olds[at]);
                at += 1;
            }
            if !row.starts_with('-') {
                new += &line;
            }
        }
        assert_eq!(at, start + hunk.old_lines);
        assert_eq!(
            new.split_inclusive('\n').count(),
            n_new_before + hunk.new_lines
        );
    }
    new.extend(olds[at..].iter().copied());
    new
}

fn check_hunks(old: &Text, new: &Text, splices: &Splices) {
    let view = |text: &Text| text.view(0..text.len_bytes());
    let hunks = hunks(old, new, splices);
    assert_eq!(patched(&view(old), &hunks), view(new));
    for hunk in &hunks {
        let n_kept = |rows: &mut dyn Iterator<Item = &String>| {
            rows.take_while(|it| it.starts_with(' ')).count()
        };
        assert!(n_kept(&mut hunk.lines.iter()) <= 3);
        assert!(
            hunk.lines.iter().any(|it| it.starts_with(['+', '-'])),
            "{hunk:?}"
        );
    }
    for pair in hunks.windows(2) {
        let gap = pair[1].old_start - pair[0].old_start - pair[0].old_lines;
        assert!(gap + 6 > 6 || pair[1].old_lines == 0, "{pair:?}");
    }
}

#[test]
fn a_mark_that_comes_to_stand_between_two_splices_is_told_once() {
    let splice = |byte, text: &str| Splice {
        range: byte..byte,
        text: text.to_string(),
    };
    let splices: Splices = [splice(0, "a"), splice(3, "b")].into_iter().collect();
    for old in both("\u{FEFF}") {
        let new = old.apply(&splices);
        assert_eq!(new.raw(0..5), "a\u{FEFF}b");
        check_hunks(&old, &new, &splices);
    }
}

proptest! {
    #[test]
    fn hunks_of_known_splices_make_the_new_view_of_the_old(
        base in any_text(),
        changes in any_changes(),
    ) {
        let (splices, result) = composed(&base, changes);
        for (old, new) in iter::zip(both(&base), both(&result)) {
            check_hunks(&old, &new, &splices);
            check_hunks(&old, &new, &splices.minimise(&old));
        }
    }

    #[test]
    fn hunks_of_a_diff_make_the_new_view_of_the_old(old in any_text(), new in any_text()) {
        for (old, new) in iter::zip(both(&old), both(&new)) {
            check_hunks(&old, &new, &diff(&old, &new));
        }
    }

    #[test]
    fn lines_outside_the_changed_ranges_are_equal(old in short(30), new in short(30)) {
        let (old_view, new_view) = (naive_view(&old), naive_view(&new));
        let ranges = changed_ranges(&Text::flat(old), &Text::flat(new));
        let lines: Vec<_> = new_view.split_inclusive('\n').collect();
        let mut rest: Vec<_> = old_view.split_inclusive('\n').collect();
        rest.reverse();
        for (line_idx, line) in lines.iter().enumerate() {
            let is_changed = ranges.iter().any(|&(first, last)| (first..=last).contains(&(line_idx + 1)));
            if !is_changed {
                // What is not told as changed is in the old text, in the same order.
                while rest.pop().is_some_and(|it| it != *line) {}
            }
        }
        prop_assert_eq!(ranges.is_empty(), old_view == new_view);
        prop_assert!(ranges.windows(2).all(|it| it[0].1 + 1 < it[1].0));
        prop_assert!(ranges.iter().all(|it| 1 <= it.0 && it.0 <= it.1 && it.1 <= lines.len().max(1)));
    }
}
