//! Changes as an agent reads them: whole lines of the view, in the unified format.
//!
//! Invariant: lines that differ in their line ends alone do not differ. Costs what the changes cost, but for counting
//! the lines before them in a flat text.

use std::{iter, ops::Range};

use serde::{Deserialize, Serialize};

use crate::text::{Text, lines, splice::Splices, walk};

/// The unchanged lines shown before and behind a change.
const CONTEXT_LINES: usize = 3;

/// What follows a line without a line break.
const NO_NEWLINE: &str = "\\ No newline at end of file";

/// A hunk in the unified format.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// The first old line, 1-based; the line before the hunk if `old_lines` is 0.
    pub old_start: usize,
    /// The number of old lines.
    pub old_lines: usize,
    /// The first new line, 1-based; the line before the hunk if `new_lines` is 0.
    pub new_start: usize,
    /// The number of new lines.
    pub new_lines: usize,
    /// The lines, after a blank, `-` or `+`; behind one without a line break, `\ No newline at end of file`.
    pub lines: Vec<String>,
}

/// Lines that are replaced.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The raw bytes of the old lines.
    pub(crate) old: Range<usize>,
    /// The raw bytes of the new lines.
    pub(crate) new: Range<usize>,
    /// The 0-based old line where the change starts.
    pub(crate) old_line: usize,
    /// The 0-based new line where the change starts.
    pub(crate) new_line: usize,
    /// The number of old lines.
    pub(crate) n_old: usize,
    /// The number of new lines.
    pub(crate) n_new: usize,
}

/// Returns the hunks of a known change, with 3 lines of context; those with 6 or fewer lines between are one.
pub fn hunks(old: &Text, new: &Text, splices: &Splices) -> Vec<Hunk> {
    let changes = changes(old, new, splices);
    changes
        .chunk_by(|it, next| next.old_line - (it.old_line + it.n_old) <= 2 * CONTEXT_LINES)
        .map(|changes| hunk(old, new, changes))
        .collect()
}

/// Renders hunks as a patch of at most `max_bytes`, cut between lines; tells whether it was cut.
pub fn unified(path: &str, hunks: &[Hunk], max_bytes: usize) -> (String, bool) {
    let mut patch = String::new();
    if hunks.is_empty() {
        return (patch, false);
    }
    let head = [format!("--- a/{path}"), format!("+++ b/{path}")];
    let rows = hunks.iter().flat_map(|hunk| {
        let Hunk {
            old_start,
            old_lines,
            new_start,
            new_lines,
            lines,
        } = hunk;
        let head = format!("@@ -{old_start},{old_lines} +{new_start},{new_lines} @@");
        iter::once(head).chain(lines.iter().cloned())
    });
    for row in head.into_iter().chain(rows) {
        if patch.len() + row.len() + 1 > max_bytes {
            return (patch, true);
        }
        patch.push_str(&row);
        patch.push('\n');
    }
    (patch, false)
}

/// Returns the lines whose view differs, from first to last.
pub(crate) fn changes(old: &Text, new: &Text, splices: &Splices) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut old_lines, mut new_lines) = (LineCount::new(old), LineCount::new(new));
    for (old_block, new_block) in blocks(old, new, splices) {
        let (old_text, new_text) = (old.slice(old_block.clone()), new.slice(new_block.clone()));
        let in_block = lines::changed(&old_text, &new_text, lines::raw_as_view, lines::raw_as_view);
        for (old_range, new_range) in in_block {
            let old = old_block.start + old_range.start..old_block.start + old_range.end;
            let new = new_block.start + new_range.start..new_block.start + new_range.end;
            let n_lines = |text: &str| text.split_inclusive('\n').count();
            changes.push(Change {
                old_line: old_lines.before(old.start),
                new_line: new_lines.before(new.start),
                n_old: n_lines(&old_text[old_range]),
                n_new: n_lines(&new_text[new_range]),
                old,
                new,
            });
        }
    }
    changes
}

/// The raw bytes, old and new, of the lines that splices touch.
fn blocks(old: &Text, new: &Text, splices: &Splices) -> Vec<(Range<usize>, Range<usize>)> {
    let mut blocks: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    let line_start = |text: &Text, byte| text.line_begin(byte).max(text.view_start());
    let is_line_start = |text: &Text, byte| text.line_begin(byte) == byte;
    for (splice, new_range) in iter::zip(splices, splices.new_ranges()) {
        // A mark that only one side has at its start is text on the other.
        let n_old_mark = old.view_start().saturating_sub(splice.range.end);
        let n_new_mark = new.view_start().saturating_sub(new_range.end);
        let n_mark = n_old_mark.max(n_new_mark);
        let (old_end, new_end) = (splice.range.end + n_mark, new_range.end + n_mark);
        let ends = if is_line_start(old, old_end) && is_line_start(new, new_end) {
            (old_end, new_end)
        } else {
            (old.line_end(old_end), new.line_end(new_end))
        };
        let starts = (
            line_start(old, splice.range.start),
            line_start(new, new_range.start),
        );
        match blocks.last_mut() {
            // What lies between two splices is equal, so this is about the same line.
            Some((old, new)) if starts.0 < old.end || starts.1 < new.end => {
                (old.end, new.end) = ends;
            }
            _ => blocks.push((starts.0..ends.0, starts.1..ends.1)),
        }
    }
    blocks
}

/// Counts the lines before growing places.
struct LineCount<'a> {
    text: &'a Text,
    byte: usize,
    n_lines: usize,
}

impl<'a> LineCount<'a> {
    fn new(text: &'a Text) -> Self {
        Self {
            text,
            byte: 0,
            n_lines: 0,
        }
    }

    fn before(&mut self, byte: usize) -> usize {
        self.n_lines = match self.text {
            Text::Rope(rope) => rope.byte_to_line(byte),
            Text::Flat(text) => self.n_lines + walk::count_lf(&text.as_bytes()[self.byte..byte]),
        };
        self.byte = byte;
        self.n_lines
    }
}

/// The hunk of changes that are near each other.
fn hunk(old: &Text, new: &Text, changes: &[Change]) -> Hunk {
    let (first, last) = (&changes[0], &changes[changes.len() - 1]);
    let n_before = CONTEXT_LINES.min(first.old_line);
    let before = (0..n_before).fold(first.old.start, |byte, _| old.line_begin(byte - 1));
    let behind = (0..CONTEXT_LINES).fold(last.old.end, |byte, _| old.line_end(byte));
    let (mut old_lines, mut new_lines) = (0, 0);
    let mut lines = Vec::new();
    let mut at = before;
    for change in changes {
        let n_kept = push_rows(&mut lines, ' ', &old.view(at..change.old.start));
        old_lines += n_kept + push_rows(&mut lines, '-', &old.view(change.old.clone()));
        new_lines += n_kept + push_rows(&mut lines, '+', &new.view(change.new.clone()));
        at = change.old.end;
    }
    let n_kept = push_rows(&mut lines, ' ', &old.view(at..behind));
    old_lines += n_kept;
    new_lines += n_kept;
    // The line before the hunk, 1-based, is its first line, 0-based.
    Hunk {
        old_start: first.old_line - n_before + usize::from(old_lines > 0),
        old_lines,
        new_start: first.new_line - n_before + usize::from(new_lines > 0),
        new_lines,
        lines,
    }
}

/// Adds lines of a view after a sign; returns their number.
fn push_rows(rows: &mut Vec<String>, sign: char, view: &str) -> usize {
    let mut n_lines = 0;
    for line in view.split_inclusive('\n') {
        n_lines += 1;
        match line.strip_suffix('\n') {
            Some(line) => rows.push(format!("{sign}{line}")),
            None => rows.extend([format!("{sign}{line}"), NO_NEWLINE.to_string()]),
        }
    }
    n_lines
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::text::{
        diff::{changed_ranges, diff},
        splice::tests::{changes as any_changes, composed},
        tests::{any_text, both, naive_view, short},
    };

    /// What the patch of a change from `old` to `new` looks like.
    #[track_caller]
    fn check(old: &str, new: &str, expected: Expect) {
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
        (1..=n).map(|it| format!("{it}{}\n", sign(it))).collect()
    }

    #[test]
    fn three_lines_around_a_change_are_shown() {
        check(
            &numbered(9, &[]),
            &numbered(9, &[5]),
            expect![[r#"
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
        "#]],
        );
    }

    #[test]
    fn changes_with_six_lines_between_are_one_hunk() {
        check(
            &numbered(20, &[]),
            &numbered(20, &[5, 12]),
            expect![[r#"
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
        "#]],
        );
        check(
            &numbered(20, &[]),
            &numbered(20, &[5, 13]),
            expect![[r#"
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
        "#]],
        );
    }

    #[test]
    fn an_insertion_starts_at_the_line_before() {
        check(
            "",
            "a\n",
            expect![[r#"
            --- a/f
            +++ b/f
            @@ -0,0 +1,1 @@
            +a
        "#]],
        );
        check(
            "a\n",
            "",
            expect![[r#"
            --- a/f
            +++ b/f
            @@ -1,1 +0,0 @@
            -a
        "#]],
        );
        check(
            "a\nb\n",
            "a\nx\nb\n",
            expect![[r#"
            --- a/f
            +++ b/f
            @@ -1,2 +1,3 @@
             a
            +x
             b
        "#]],
        );
    }

    #[test]
    fn a_missing_last_line_break_is_told() {
        check(
            "a\nb",
            "a\nb\n",
            expect![[r#"
            --- a/f
            +++ b/f
            @@ -1,2 +1,2 @@
             a
            -b
            \ No newline at end of file
            +b
        "#]],
        );
        check(
            "a\nb",
            "A\nb",
            expect![[r#"
            --- a/f
            +++ b/f
            @@ -1,2 +1,2 @@
            -a
            +A
             b
            \ No newline at end of file
        "#]],
        );
    }

    #[test]
    fn line_ends_and_the_mark_make_no_hunk() {
        check("\u{FEFF}a\r\nb\n", "a\nb\r\n", expect![""]);
        check(
            "\u{FEFF}a\r\nb\r\n",
            "\u{FEFF}A\r\nb\r\n",
            expect![[r#"
            --- a/f
            +++ b/f
            @@ -1,2 +1,2 @@
            -a
            +A
             b
        "#]],
        );
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
}
