//! What differs between two texts.
//!
//! Invariant: an answer depends on the two texts alone and is the same every time: no clock, no deadline. What both
//! have in common at the start and the end is skipped chunk by chunk, so work is in proportion to what lies between.

mod hunk;

use std::{borrow::Cow, iter, ops::Range};

pub use self::hunk::{Hunk, hunks, unified};
use super::{
    Text, lines,
    splice::{Splice, Splices},
    walk,
};

/// The most places that `changed_ranges` tells apart.
const MOST_RANGES: usize = 100;

/// The longest replacement, in old and new bytes, that is refined character by character: as slow as 2 ms.
const REFINED_BYTES: usize = 1_000;

/// How many bytes are refined in all.
const REFINED_BYTES_IN_ALL: usize = 20_000;

/// How many bytes away a change is looked for that would have the same outcome.
const MOST_MOVED: usize = 64 * 1024;

/// Finds the splices that make `new` of `old`, whole lines apart.
pub fn diff(old: &Text, new: &Text) -> Splices {
    let head = walk::common_prefix(old, new);
    let shorter = old.len_bytes().min(new.len_bytes());
    let tail = walk::common_suffix(old, new, shorter - head);
    if head == old.len_bytes() && head == new.len_bytes() {
        return Splices::default();
    }
    // Whole lines: those that start before the first difference and end behind the last.
    let start = old.prev_lf(head).map_or(0, |lf_byte| lf_byte + 1);
    let (mut old_end, mut new_end) = (old.len_bytes() - tail, new.len_bytes() - tail);
    let is_line_start = |text: &Text, byte: usize| byte == 0 || text.byte(byte - 1) == Some(b'\n');
    if !is_line_start(old, old_end) || !is_line_start(new, new_end) {
        let n_more = old.line_end(old_end) - old_end;
        old_end += n_more;
        new_end += n_more;
    }
    let (old_lines, new_lines) = (old.slice(start..old_end), new.slice(start..new_end));
    let changes = lines::changed(&old_lines, &new_lines, lines::as_is, lines::as_is);
    let splices: Splices = changes
        .into_iter()
        .map(|(old_range, new_range)| Splice {
            range: start + old_range.start..start + old_range.end,
            text: new_lines[new_range].to_string(),
        })
        .collect();
    splices.minimise(old)
}

/// Returns the 1-based, inclusive lines of `new` whose view differs, from first to last.
///
/// A deletion is told by the line behind it, at the end by the last line. Beyond 100, the rest is one range.
pub fn changed_ranges(old: &Text, new: &Text) -> Vec<(usize, usize)> {
    let last_line = new.total_lines().max(1);
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for change in hunk::changes(old, new, &diff(old, new)) {
        let first = (change.new_line + 1).min(last_line);
        let last = (change.new_line + change.n_new).max(first);
        let n_ranges = ranges.len();
        match ranges.last_mut() {
            Some(range) if range.1 + 1 >= first || n_ranges == MOST_RANGES => range.1 = last,
            _ => ranges.push((first, last)),
        }
    }
    ranges
}

/// Whether `actual` differs from `planned` only by changes that leave every span of `planned` intact.
///
/// The spans are sorted and disjoint. An insertion at the edge of one leaves it intact, unless it is empty. In repeated
/// text (`aa` from `aaa`) it is not known which copy is gone; every copy counts as touched then.
pub fn keeps(planned: &Text, actual: &Text, spans: &[Range<usize>]) -> bool {
    debug_assert!(
        spans.is_sorted_by(|it, next| it.end <= next.start),
        "spans are disjoint"
    );
    changes(planned, actual).iter().all(|it| it.spares(spans))
}

/// What has become of a span in another text.
pub struct Survivor {
    /// Where it is; none if it is not intact there (see [`keeps`]).
    pub place: Option<Range<usize>>,
    /// How many bytes those changes delete and insert that touch it, or a place where the edit that made it may as well
    /// have been made.
    pub n_changed: usize,
}

/// What has become in `actual` of the ranges of `planned` that the splices replace. The splices are minimal.
pub fn survivors(planned: &Text, actual: &Text, splices: &Splices) -> Vec<Survivor> {
    let changes = changes(planned, actual);
    let place = |span: &Range<usize>| {
        let mut start = span.start;
        let mut n_removed = 0;
        for change in &changes {
            if !change.spares(std::slice::from_ref(span)) {
                return None;
            }
            // What is inserted within may as well have been inserted before or behind.
            let is_before = if change.is_insertion() && change.range.start < span.end {
                change.reach.start <= span.start
            } else {
                change.range.end <= span.start
            };
            if is_before {
                start += change.n_new;
                n_removed += change.range.len();
            }
        }
        let place = start - n_removed..start - n_removed + span.len();
        let is_there = place.end <= actual.len_bytes()
            && same_bytes(planned, span.clone(), actual, place.clone());
        is_there.then_some(place)
    };
    let touches = |span: &Range<usize>, it: &&Placed| {
        it.reach.start <= span.end && span.start <= it.reach.end
    };
    placed(splices, planned)
        .iter()
        .map(|it| Survivor {
            place: place(&it.range),
            n_changed: distance(changes.iter().filter(|change| touches(&it.reach, change))),
        })
        .collect()
}

/// Whether `actual` is `before` with the splices made, whatever else was changed beside them.
///
/// What they made must be there (`keeps`), and not only as a part of what was there before: an edit of `f(x)` to `x`
/// that did not land leaves `x` intact. And `actual` must be nearer to `planned` than to `before`. The splices are
/// minimal.
pub fn landed(before: &Text, planned: &Text, actual: &Text, splices: &Splices) -> bool {
    let spans = splices.new_ranges();
    let changes = changes(planned, actual);
    changes.iter().all(|it| it.spares(&spans))
        && iter::zip(splices, spans).all(|(splice, span)| {
            !same_bytes(
                actual,
                with_insertions(&span, &changes),
                before,
                splice.range.clone(),
            )
        })
        && (changes.is_empty() || distance(&changes) < distance(&self::changes(before, actual)))
}

/// The number of bytes that changes delete and insert.
fn distance<'it>(changes: impl IntoIterator<Item = &'it Placed>) -> usize {
    changes
        .into_iter()
        .map(|it| it.range.len() + it.n_new)
        .sum()
}

fn same_bytes(
    left: &Text,
    left_range: Range<usize>,
    right: &Text,
    right_range: Range<usize>,
) -> bool {
    let lefts = left
        .chunks_in(left_range.clone())
        .flat_map(|(_, chunk)| chunk);
    let rights = right
        .chunks_in(right_range.clone())
        .flat_map(|(_, chunk)| chunk);
    left_range.len() == right_range.len() && lefts.eq(rights)
}

/// Where a span that the changes spare is afterwards, with what they insert at its edges.
fn with_insertions(span: &Range<usize>, changes: &[Placed]) -> Range<usize> {
    let (mut n_inserted, mut n_removed, mut n_at_edges) = (0, 0, 0);
    for change in changes.iter().take_while(|it| it.reach.start <= span.end) {
        if change.is_insertion() && change.reach.end >= span.start {
            n_at_edges += change.n_new;
        } else if change.range.end <= span.start {
            n_inserted += change.n_new;
            n_removed += change.range.len();
        }
    }
    let start = span.start + n_inserted - n_removed;
    start..start + span.len() + n_at_edges
}

/// A small change, and where else it may have been made with the same outcome.
struct Placed {
    /// The bytes of the old text that it replaces.
    range: Range<usize>,
    /// The number of bytes that replace them.
    n_new: usize,
    /// From the first start to the last end.
    reach: Range<usize>,
}

impl Placed {
    fn is_insertion(&self) -> bool {
        self.range.is_empty()
    }

    fn spares(&self, spans: &[Range<usize>]) -> bool {
        let from = spans.partition_point(|it| it.end < self.reach.start);
        let to = spans.partition_point(|it| it.start <= self.reach.end);
        let near = &spans[from..to];
        let is_outside = |span: &Range<usize>, changed: &Range<usize>| {
            !span.is_empty() && (changed.end <= span.start || span.end <= changed.start)
        };
        if !self.is_insertion() {
            return near.iter().all(|span| is_outside(span, &self.reach));
        }
        let mut places = self.reach.start..=self.reach.end;
        places.any(|place| near.iter().all(|span| is_outside(span, &(place..place))))
    }
}

/// The changes between two texts, as small as can be.
fn changes(old: &Text, new: &Text) -> Vec<Placed> {
    placed(&refined(&diff(old, new), old), old)
}

/// Where else each of the splices may have been made.
fn placed(splices: &Splices, old: &Text) -> Vec<Placed> {
    let ends = iter::once(0).chain(splices.iter().map(|it| it.range.end));
    let starts = splices
        .iter()
        .map(|it| it.range.start)
        .skip(1)
        .chain([old.len_bytes()]);
    iter::zip(splices, iter::zip(ends, starts))
        .map(|(splice, (room_start, room_end))| {
            let Range { start, end } = splice.range;
            let moved = match (splice.range.is_empty(), splice.text.is_empty()) {
                (true, _) => Cow::Borrowed(&*splice.text),
                (false, true) => old.slice(start..end),
                (false, false) => Cow::Borrowed(""),
            };
            // Each byte further turns what is inserted or deleted round by one.
            let turn = moved.as_bytes();
            let back = (1..=(start - room_start).min(MOST_MOVED))
                .zip(turn.iter().rev().cycle())
                .take_while(|&(n, byte)| old.byte(start - n) == Some(*byte));
            let forth = (1..=(room_end - end).min(MOST_MOVED))
                .zip(turn.iter().cycle())
                .take_while(|&(n, byte)| old.byte(end + n - 1) == Some(*byte));
            Placed {
                range: start..end,
                n_new: splice.text.len(),
                reach: start - back.count()..end + forth.count(),
            }
        })
        .collect()
}

/// Parts small replacements into what really differs, character by character.
fn refined(splices: &Splices, base: &Text) -> Splices {
    let mut n_left = REFINED_BYTES_IN_ALL;
    let mut refined = Vec::with_capacity(splices.len());
    for splice in splices {
        let n_bytes = splice.range.len() + splice.text.len();
        let is_replacement = !splice.range.is_empty() && !splice.text.is_empty();
        if is_replacement && n_bytes <= REFINED_BYTES.min(n_left) {
            n_left -= n_bytes;
            refined.extend(by_characters(splice, &base.slice(splice.range.clone())));
        } else {
            refined.push(splice.clone());
        }
    }
    refined.into_iter().collect()
}

fn by_characters(splice: &Splice, old: &str) -> Vec<Splice> {
    let chars = |text: &str| -> Vec<char> { text.chars().collect() };
    let edges = |text: &str| -> Vec<usize> {
        let starts = text.char_indices().map(|(byte, _)| byte);
        starts.chain([text.len()]).collect()
    };
    let new = &splice.text;
    let (old_edges, new_edges) = (edges(old), edges(new));
    let start = splice.range.start;
    lines::changed_items(&chars(old), &chars(new))
        .into_iter()
        .map(|(old_chars, new_chars)| Splice {
            range: start + old_edges[old_chars.start]..start + old_edges[old_chars.end],
            text: new[new_edges[new_chars.start]..new_edges[new_chars.end]].to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
