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
    let mut rendered = String::new();
    if hunks.is_empty() {
        return (rendered, false);
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
        if rendered.len() + row.len() + 1 > max_bytes {
            return (rendered, true);
        }
        rendered.push_str(&row);
        rendered.push('\n');
    }
    (rendered, false)
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
            // What lies between two splices is equal: if it holds no line break in `old`, then none in `new`. But a mark
            // between them is only text where something stands before it.
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
mod tests;
