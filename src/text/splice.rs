//! Changes of a text as spans to replace.
//!
//! Invariant: the splices of a set are sorted, disjoint and do not touch, and all their ranges are bytes of one
//! *base* text; the text with all of them made is the *result*.

use std::{iter, ops::Range};

use super::Text;

/// The replacement of a range of raw bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// What is replaced, in bytes of the base text.
    pub range: Range<usize>,
    /// What replaces it.
    pub text: String,
}

/// Splices of one base text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splices {
    splices: Vec<Splice>,
}

impl Splices {
    /// Whether nothing is replaced.
    pub fn is_empty(&self) -> bool {
        self.splices.is_empty()
    }

    /// The number of splices.
    pub fn len(&self) -> usize {
        self.splices.len()
    }

    /// The splices from first to last.
    pub fn iter(&self) -> std::slice::Iter<'_, Splice> {
        self.splices.iter()
    }

    /// The number of bytes that all splices insert.
    pub fn new_bytes(&self) -> usize {
        self.iter().map(|it| it.text.len()).sum()
    }

    /// Adds a splice of the *result so far*.
    pub fn then(&mut self, later: Splice) {
        self.then_all(Self {
            splices: vec![later],
        });
    }

    /// Adds splices of the *result so far*; linear in the number of splices.
    pub fn then_all(&mut self, later: Self) {
        let _ = later;
        unimplemented!()
    }

    /// Returns the same change in as few bytes as its splices allow: what a splice has in common with the base is
    /// left out, whole characters only. No edge lies inside a CRLF pair of the base or of the result.
    #[must_use]
    pub fn minimise(&self, base: &Text) -> Self {
        let _ = base;
        unimplemented!()
    }

    /// Where the new text is, in bytes of the result.
    pub fn new_ranges(&self) -> Vec<Range<usize>> {
        let mut n_inserted = 0;
        let mut n_removed = 0;
        let mut ranges = Vec::with_capacity(self.len());
        for Splice { range, text } in &self.splices {
            let start = range.start - n_removed + n_inserted;
            ranges.push(start..start + text.len());
            n_inserted += text.len();
            n_removed += range.len();
        }
        ranges
    }

    /// Returns the splices of the result that restore the base.
    #[must_use]
    pub fn inverse(&self, base: &Text) -> Self {
        iter::zip(self.new_ranges(), &self.splices)
            .map(|(range, splice)| Splice {
                range,
                text: base.raw(splice.range.clone()),
            })
            .collect()
    }

    /// Where an untouched range of the base is in the result; `None` if a splice changes it or inserts into it.
    pub fn map_range(&self, range: Range<usize>) -> Option<Range<usize>> {
        let _ = range;
        unimplemented!()
    }
}

impl FromIterator<Splice> for Splices {
    /// Sorts splices of one base text, and joins those that touch. They must not overlap.
    fn from_iter<I: IntoIterator<Item = Splice>>(splices: I) -> Self {
        let mut splices: Vec<_> = splices.into_iter().collect();
        splices.sort_by_key(|it| (it.range.start, it.range.end));
        splices.dedup_by(|later, earlier| {
            debug_assert!(
                earlier.range.end <= later.range.start,
                "splices of one base overlap"
            );
            let touches = earlier.range.end == later.range.start;
            if touches {
                earlier.range.end = later.range.end;
                earlier.text.push_str(&later.text);
            }
            touches
        });
        Self { splices }
    }
}

impl<'a> IntoIterator for &'a Splices {
    type Item = &'a Splice;
    type IntoIter = std::slice::Iter<'a, Splice>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
