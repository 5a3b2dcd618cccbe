//! Which lines differ between two texts.
//!
//! Invariant: the answer depends on the texts alone: no clock, no deadline. Work is bounded by a cap on the number of
//! lines that are really compared; beyond it, everything between the common first and last lines is one change.

use std::ops::Range;

use memchr::{memchr, memrchr};
use similar::{Algorithm, DiffOp, capture_diff_slices};

/// The most lines, old and new together, that are aligned.
const MOST_LINES: usize = 20_000;

/// What makes two lines equal: what is before the break, and whether there is a break.
pub(crate) type Key<'a> = (&'a str, bool);

/// Takes a line of raw text for what the view shows of it.
pub(crate) fn raw_as_view(line: &str) -> Key<'_> {
    match line.strip_suffix('\n') {
        Some(head) => (head.strip_suffix('\r').unwrap_or(head), true),
        None => (line, false),
    }
}

/// Takes a line as it is.
pub(crate) fn as_is(line: &str) -> Key<'_> {
    match line.strip_suffix('\n') {
        Some(head) => (head, true),
        None => (line, false),
    }
}

/// Returns the byte ranges, in `old` and in `new`, of the lines that differ; between them, all lines are equal.
pub(crate) fn changed<'a>(
    old: &'a str,
    new: &'a str,
    old_key: impl Fn(&'a str) -> Key<'a>,
    new_key: impl Fn(&'a str) -> Key<'a>,
) -> Vec<(Range<usize>, Range<usize>)> {
    let (mut old_start, mut new_start) = (0, 0);
    while let (Some(old_line), Some(new_line)) =
        (first(&old[old_start..]), first(&new[new_start..]))
    {
        if old_key(old_line) != new_key(new_line) {
            break;
        }
        old_start += old_line.len();
        new_start += new_line.len();
    }
    let (mut old_end, mut new_end) = (old.len(), new.len());
    while let (Some(old_line), Some(new_line)) = (
        last(&old[old_start..old_end]),
        last(&new[new_start..new_end]),
    ) {
        if old_key(old_line) != new_key(new_line) {
            break;
        }
        old_end -= old_line.len();
        new_end -= new_line.len();
    }
    let whole = (old_start..old_end, new_start..new_end);
    if whole.0.is_empty() && whole.1.is_empty() {
        return Vec::new();
    }
    let (old, new) = (&old[whole.0.clone()], &new[whole.1.clone()]);
    let n_lines = |text: &str| text.split_inclusive('\n').count();
    let (n_old, n_new) = (n_lines(old), n_lines(new));
    let is_one_change = n_old == 0 || n_new == 0 || n_old + n_new == 2;
    if is_one_change || n_old + n_new > MOST_LINES {
        return vec![whole];
    }
    let olds: Vec<_> = old.split_inclusive('\n').map(old_key).collect();
    let news: Vec<_> = new.split_inclusive('\n').map(new_key).collect();
    let bytes = |lines: &'a str, start: usize| {
        let mut ends = vec![start];
        ends.extend(lines.split_inclusive('\n').scan(start, |end, line| {
            *end += line.len();
            Some(*end)
        }));
        ends
    };
    let (old_bytes, new_bytes) = (bytes(old, old_start), bytes(new, new_start));
    changed_items(&olds, &news)
        .into_iter()
        .map(|(old, new)| {
            (
                old_bytes[old.start]..old_bytes[old.end],
                new_bytes[new.start]..new_bytes[new.end],
            )
        })
        .collect()
}

/// Returns the index ranges, in `olds` and in `news`, of the items that differ; between them, all items are equal.
pub(crate) fn changed_items<T: Eq + std::hash::Hash + Ord>(
    olds: &[T],
    news: &[T],
) -> Vec<(Range<usize>, Range<usize>)> {
    // What is deleted and inserted at one place comes as one replacement.
    capture_diff_slices(Algorithm::Myers, olds, news)
        .into_iter()
        .filter(|op| !matches!(op, DiffOp::Equal { .. }))
        .map(|op| (op.old_range(), op.new_range()))
        .collect()
}

/// The first line, with its break.
fn first(text: &str) -> Option<&str> {
    let end = memchr(b'\n', text.as_bytes()).map_or(text.len(), |lf_byte| lf_byte + 1);
    (end > 0).then(|| &text[..end])
}

/// The last line, with its break.
fn last(text: &str) -> Option<&str> {
    let before = text.len().checked_sub(1)?;
    let start = memrchr(b'\n', &text.as_bytes()[..before]).map_or(0, |lf_byte| lf_byte + 1);
    Some(&text[start..])
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::text::tests::{lines, short};

    #[track_caller]
    fn check(old: &str, new: &str, expected: &Expect) {
        let shown = |(old_range, new_range): (Range<usize>, Range<usize>)| {
            format!("{:?} -> {:?}\n", &old[old_range], &new[new_range])
        };
        let changes = changed(old, new, raw_as_view, as_is);
        expected.assert_eq(&changes.into_iter().map(shown).collect::<String>());
    }

    #[test]
    fn equal_lines_part_the_changes() {
        check(
            "a\nb\nc\n",
            "A\nb\nC\n",
            &expect![[r#"
            "a\n" -> "A\n"
            "c\n" -> "C\n"
        "#]],
        );
        check(
            "a\n",
            "a\nb\n",
            &expect![[r#"
            "" -> "b\n"
        "#]],
        );
    }

    #[test]
    fn a_line_is_equal_whatever_its_break() {
        check("a\r\nb\n", "a\nb\n", &expect![""]);
    }

    #[test]
    fn a_missing_last_break_is_a_difference() {
        check(
            "a\nb",
            "a\nb\n",
            &expect![[r#"
            "b" -> "b\n"
        "#]],
        );
    }

    #[test]
    fn too_many_lines_are_one_change() {
        let old = lines(MOST_LINES, |it| it.to_string());
        let new = format!("x\n{}y\n", old.replace("7\n", "8\n"));
        let changes = changed(&format!("{old}z\n"), &format!("{new}z\n"), as_is, as_is);
        assert_eq!(changes, [(0..old.len(), 0..new.len())]);
    }

    #[test]
    fn the_same_texts_differ_in_the_same_lines_every_time() {
        // Recurring and rare lines, so that every heuristic of the algorithm has something to do.
        let old = lines(2_000, |it| (it * it % 97).to_string());
        let new = lines(2_000, |it| {
            (it * it % if it % 3 == 0 { 89 } else { 97 }).to_string()
        });
        let first = changed(&old, &new, as_is, as_is);
        assert!(first.len() > 100);
        for _ in 0..10 {
            assert_eq!(changed(&old, &new, as_is, as_is), first);
        }
    }

    proptest! {
        #[test]
        fn what_is_not_changed_is_equal(old in short(30), new in short(30)) {
            let changes = changed(&old, &new, raw_as_view, raw_as_view);
            let (mut old_at, mut new_at) = (0, 0);
            let end = (old.len()..old.len(), new.len()..new.len());
            for (old_range, new_range) in changes.iter().chain([&end]) {
                let kept = |text: &'_ str, range: Range<usize>| text[range].replace("\r\n", "\n");
                prop_assert_eq!(
                    kept(&old, old_at..old_range.start),
                    kept(&new, new_at..new_range.start)
                );
                (old_at, new_at) = (old_range.end, new_range.end);
            }
            let are_apart = |it: &[(Range<usize>, Range<usize>)]| it[0].0.end < it[1].0.start;
            prop_assert!(changes.windows(2).all(are_apart), "{:?}", changes);
            for (old_range, new_range) in changes {
                prop_assert!(!old_range.is_empty() || !new_range.is_empty());
                for (text, edge) in [(&old, old_range.start), (&new, new_range.start)] {
                    prop_assert!(edge == 0 || text[..edge].ends_with('\n'));
                }
            }
        }
    }
}
