//! Finding a fold by a part of it that can only stand in the text as it is.
//!
//! Invariant: where the fold of a text has a *literal* that no zero-width joiner stands before, the text has the same
//! bytes, and a segment begins with them. So most texts are searched for raw bytes, and folded only around those.

use std::{
    cmp::Reverse,
    collections::HashSet,
    iter,
    ops::{ControlFlow, Range},
    sync::LazyLock,
};

use memchr::memmem;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfd_quick};

use super::{
    Hit, Search, TooMuchWork,
    fold::{Fold, ZERO_WIDTH_JOINER, continuation, is_plain},
    is_char_start, pieces, splits_a_character,
};
use crate::text::{
    Text,
    matching::{ANCHOR_BYTES, WINDOW_BYTES},
};

/// How many literals are compared for how rare they are.
const MOST_LITERALS: usize = 4;

/// In how many places of the text they are counted.
const N_SAMPLES: usize = 8;

/// The most that is counted in at one of them.
const SAMPLE_BYTES: usize = 8 * 1024;

/// Which part of the text all samples are; at least so many bytes are one.
const SAMPLED_PART: usize = 16;

/// What is folded at once around a place of the literal; nearly all that are no hit are seen to be none by then.
const LOOK_BYTES: usize = 128;

/// What a place costs, in bytes that are compared at once.
const PLACE_COST: usize = 1024;

/// What folding a byte costs.
const FOLD_COST: usize = 8;

/// Finds the first hits of a search; `None` if the needle has no literal, or too many places have it.
pub(super) fn find(search: &Search, budget: usize) -> Option<Vec<Hit>> {
    let literal = rarest_literal(search.text, search.needle)?;
    let finder = memmem::Finder::new(&search.needle[literal.clone()]);
    let overlap = literal.len() - 1;
    let mut places = Places {
        search,
        literal,
        budget,
    };
    let mut hits = Vec::new();
    let window_bytes = search.window_bytes.min(WINDOW_BYTES);
    let end = search
        .text
        .for_windows(window_bytes, overlap, |window, window_start| {
            let mut from = 0;
            while let Some(idx) = finder.find(&window[from..]) {
                match places.hit_around(window_start + from + idx) {
                    Ok(hit) => hits.extend(hit),
                    Err(TooMuchWork) => return ControlFlow::Break(None),
                }
                if hits.len() >= search.most {
                    return ControlFlow::Break(Some(()));
                }
                from += idx + 1;
            }
            ControlFlow::Continue(())
        });
    match end {
        ControlFlow::Break(None) => None,
        ControlFlow::Continue(()) | ControlFlow::Break(Some(())) => Some(hits),
    }
}

/// Of the longest literals that which a sample of the text has least often.
fn rarest_literal(text: &Text, needle: &[u8]) -> Option<Range<usize>> {
    let mut literals = literals(str::from_utf8(needle).ok()?);
    if literals.len() < 2 {
        return literals.pop();
    }
    literals.sort_by_key(|it| Reverse(it.len()));
    literals.truncate(MOST_LITERALS);
    literals
        .into_iter()
        .min_by_key(|it| n_in_sample(text, &needle[it.clone()]))
}

/// Seams are left out: it is only an estimate.
fn n_in_sample(text: &Text, literal: &[u8]) -> usize {
    let n_bytes = text.len_bytes();
    let sample_bytes =
        (n_bytes / SAMPLED_PART).clamp(SAMPLED_PART, N_SAMPLES * SAMPLE_BYTES) / N_SAMPLES;
    let finder = memmem::Finder::new(literal);
    let counts = (0..N_SAMPLES).map(|idx| {
        let start = n_bytes / N_SAMPLES * idx;
        let chunks = text.chunks_in(start..start + sample_bytes);
        chunks
            .map(|(_, chunk)| finder.find_iter(chunk).count())
            .sum::<usize>()
    });
    counts.sum()
}

/// The literals of a fold; of long ones the end.
fn literals(fold: &str) -> Vec<Range<usize>> {
    let mut literals: Vec<Range<usize>> = Vec::new();
    let mut before = None;
    let mut rest = fold.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let next = rest.peek().map(|it| it.1);
        // An ellipsis has three dots.
        let is_lone_dot =
            c == '.' && [before, next].map(|it| it.is_some_and(is_literal)) == [true, true];
        if (is_literal(c) || is_lone_dot) && before != Some(ZERO_WIDTH_JOINER) {
            let end = at + c.len_utf8();
            match literals.last_mut() {
                Some(literal) if literal.end == at => literal.end = end,
                _ => literals.push(at..end),
            }
        }
        before = Some(c);
    }
    for literal in &mut literals {
        literal.start = literal.start.max(literal.end.saturating_sub(ANCHOR_BYTES));
        while !fold.is_char_boundary(literal.start) {
            literal.start += 1;
        }
    }
    literals
}

/// Whether nothing but the character itself folds to it: it is not in the table of typography, nothing is composed to
/// it, and no other is the same. Not all such characters are known here.
fn is_literal(c: char) -> bool {
    let is_folded_to = match c {
        '\n' | ' ' | '"' | '\'' | '-' | '.' | ';' | 'K' | '`' | '\u{B4}' | '\u{B7}' | '\u{2B9}'
        | '\u{3A9}' | '\u{3B9}' => true,
        '\u{4E00}'..='\u{9FFF}' => UNIFIED.contains(&c),
        _ => false,
    };
    is_plain(c) && !is_folded_to && is_nfd_quick(iter::once(c)) == IsNormalized::Yes
}

/// The ideographs that compatibility ideographs are the same as.
static UNIFIED: LazyLock<HashSet<char>> = LazyLock::new(|| {
    let compatible = ('\u{F900}'..='\u{FAFF}').chain('\u{2F800}'..='\u{2FA1F}');
    compatible.nfc().collect()
});

struct Places<'a> {
    search: &'a Search<'a>,
    /// In the needle.
    literal: Range<usize>,
    /// The work left.
    budget: usize,
}

impl Places<'_> {
    /// The hit whose literal is at `place`, if the rest of the needle is there, too.
    fn hit_around(&mut self, place: usize) -> Result<Option<Hit>, TooMuchWork> {
        self.work(PLACE_COST)?;
        if splits_a_character(self.search.text, &(place..place)) {
            return Ok(None);
        }
        let Some(end) = self.skip(place)? else {
            return Ok(None);
        };
        let start = self.skip_back(place)?;
        Ok(start.map(|start| Hit {
            start,
            end,
            em_dash: self.search.em_dash,
        }))
    }

    fn work(&mut self, cost: usize) -> Result<(), TooMuchWork> {
        self.budget = self.budget.checked_sub(cost).ok_or(TooMuchWork)?;
        Ok(())
    }

    /// Goes over the needle from the literal on.
    fn skip(&mut self, place: usize) -> Result<Option<usize>, TooMuchWork> {
        let needle = &self.search.needle[self.literal.start..];
        let mut fold = Fold::new(self.search.em_dash, place);
        let mut n_equal = 0;
        let mut chunks = self.search.text.strs_from(place);
        let mut rest = pieces("", LOOK_BYTES);
        loop {
            let piece = rest.next().or_else(|| {
                rest = pieces(chunks.next()?, LOOK_BYTES);
                rest.next()
            });
            match piece {
                Some(piece) => {
                    self.work(FOLD_COST * piece.len())?;
                    fold.push(piece);
                }
                None => fold.finish(),
            }
            let folded = fold.window().0;
            let n = folded.len().min(needle.len());
            if folded[n_equal..n] != needle[n_equal..n] {
                return Ok(None);
            }
            n_equal = n;
            if n == needle.len() {
                return Ok(fold.raw(n));
            }
            if piece.is_none() {
                return Ok(None);
            }
        }
    }

    /// Goes back over the needle from the literal.
    fn skip_back(&mut self, place: usize) -> Result<Option<usize>, TooMuchWork> {
        let Search { text, em_dash, .. } = *self.search;
        let needle = &self.search.needle[..self.literal.start];
        if needle.is_empty() {
            return Ok(Some(place));
        }
        let view_start = text.view_start();
        let mut n_bytes = LOOK_BYTES;
        loop {
            let mut start = place.saturating_sub(n_bytes).max(view_start);
            while !is_char_start(text, start) {
                start -= 1;
            }
            self.work(FOLD_COST * (place - start))?;
            let raw = text.slice(start..place);
            let is_all = start == view_start;
            // What it begins with may belong to a segment that begins before it.
            let first = raw.chars().next().filter(|_| !is_all);
            let n_left_out = first.map_or(0, |it| {
                it.len_utf8() + continuation(it, &raw[it.len_utf8()..])
            });
            let fold = Fold::of(&raw[n_left_out..], em_dash);
            let folded = fold.window().0;
            let n = folded.len().min(needle.len());
            if folded[folded.len() - n..] != needle[needle.len() - n..] {
                return Ok(None);
            }
            if n == needle.len() {
                let begin = fold.raw(folded.len() - n);
                return Ok(begin.map(|it| start + n_left_out + it));
            }
            if is_all {
                return Ok(None);
            }
            n_bytes *= 4;
        }
    }
}

#[cfg(test)]
mod tests;
