//! Changes of a text as spans to replace.
//!
//! Invariant: the splices of a set are sorted, disjoint and do not touch, and all their ranges are bytes of one
//! *base* text; the text with all of them made is the *result*.

use std::{iter, mem, ops::Range};

use super::{Text, walk};

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
        if self.is_empty() {
            *self = later;
            return;
        }
        // Both sets have ranges of the text between them, the middle. Those that overlap or touch there become one.
        let middles = self.new_ranges();
        let mut earliers = mem::take(&mut self.splices);
        let mut laters = later.splices;
        let (mut n_earlier, mut n_later) = (0, 0);
        let (mut n_inserted, mut n_removed) = (0, 0);
        loop {
            let next_earlier = middles.get(n_earlier).map(|it| it.start);
            let next_later = laters.get(n_later).map(|it| it.range.start);
            let Some(start) = next_earlier.into_iter().chain(next_later).min() else {
                break;
            };
            let (from_earlier, from_later) = (n_earlier, n_later);
            let mut end = start;
            loop {
                if let Some(middle) = middles.get(n_earlier).filter(|it| it.start <= end) {
                    end = end.max(middle.end);
                    n_earlier += 1;
                } else if let Some(later) = laters.get(n_later).filter(|it| it.range.start <= end) {
                    end = end.max(later.range.end);
                    n_later += 1;
                } else {
                    break;
                }
            }
            let joined_earliers = &mut earliers[from_earlier..n_earlier];
            let joined_laters = &mut laters[from_later..n_later];
            let base_start = start + n_removed - n_inserted;
            for earlier in joined_earliers.iter() {
                n_inserted += earlier.text.len();
                n_removed += earlier.range.len();
            }
            let text = match (&mut *joined_earliers, &mut *joined_laters) {
                ([only], []) | ([], [only]) => mem::take(&mut only.text),
                (earliers, laters) => join(
                    earliers,
                    &middles[from_earlier..n_earlier],
                    laters,
                    start..end,
                ),
            };
            let range = base_start..end + n_removed - n_inserted;
            self.splices.push(Splice { range, text });
        }
    }

    /// Returns the same change in as few bytes as its splices allow: what a splice has in common with the base is
    /// left out, whole characters only. No edge lies inside a CRLF pair of the base or of the result.
    #[must_use]
    pub fn minimise(&self, base: &Text) -> Self {
        let widened: Self = self.iter().map(|it| widen(it, base)).collect();
        let trimmed = widened
            .iter()
            .map(|it| trim(it, &base.raw(it.range.clone())));
        Self {
            splices: trimmed
                .filter(|it| !it.range.is_empty() || !it.text.is_empty())
                .collect(),
        }
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

    /// Where an untouched range of the base is in the result; `None` if a splice changes it, inserts into it, or
    /// touches it while it is empty.
    pub fn map_range(&self, range: Range<usize>) -> Option<Range<usize>> {
        let mut n_inserted = 0;
        let mut n_removed = 0;
        for splice in self {
            if splice.touches(&range) {
                return None;
            }
            if splice.range.end > range.start {
                break;
            }
            n_inserted += splice.text.len();
            n_removed += splice.range.len();
        }
        let start = range.start + n_inserted - n_removed;
        Some(start..start + range.len())
    }
}

impl Splice {
    /// Whether the splice may change what a range of the base holds; at its edges, only if the range is empty.
    pub fn touches(&self, range: &Range<usize>) -> bool {
        if range.is_empty() {
            self.range.start <= range.start && range.start <= self.range.end
        } else {
            self.range.start < range.end && range.start < self.range.end
        }
    }
}

/// The text that replaces a span of the middle, all of which some splice has written or replaces.
fn join(
    earliers: &[Splice],
    middles: &[Range<usize>],
    laters: &[Splice],
    span: Range<usize>,
) -> String {
    let mut text = String::new();
    let mut n_joined = 0;
    let mut at = span.start;
    let gaps = laters.iter().map(|it| (it.range.clone(), it.text.as_str()));
    for (replaced, new) in gaps.chain(iter::once((span.end..span.end, ""))) {
        while let Some(middle) = middles.get(n_joined).filter(|it| it.start < replaced.start) {
            let start = middle.start.max(at);
            let end = middle.end.min(replaced.start);
            if start < end {
                let written = &earliers[n_joined].text;
                text.push_str(&written[start - middle.start..end - middle.start]);
            }
            if middle.end > replaced.start {
                break;
            }
            n_joined += 1;
        }
        text.push_str(new);
        at = replaced.end;
    }
    text
}

/// Takes in the neighbour byte wherever an edge would lie inside a CRLF pair of the base or of the result.
fn widen(splice: &Splice, base: &Text) -> Splice {
    let Splice {
        mut range,
        mut text,
    } = splice.clone();
    let byte_before = |at: usize| at.checked_sub(1).and_then(|it| base.byte(it));
    let behind = base.byte(range.end);
    let first = text.bytes().next().or(behind);
    if byte_before(range.start) == Some(b'\r')
        && (base.byte(range.start) == Some(b'\n') || first == Some(b'\n'))
    {
        range.start -= 1;
        text.insert(0, '\r');
    }
    let last = text.bytes().next_back().or(byte_before(range.start));
    if behind == Some(b'\n') && (byte_before(range.end) == Some(b'\r') || last == Some(b'\r')) {
        range.end += 1;
        text.push('\n');
    }
    Splice { range, text }
}

/// Leaves out what a splice with good edges has in common with what it replaces.
fn trim(splice: &Splice, old: &str) -> Splice {
    let Splice { range, text: new } = splice;
    let (old_bytes, new_bytes) = (old.as_bytes(), new.as_bytes());
    let mut head = walk::common_head(old_bytes, new_bytes);
    while !old.is_char_boundary(head)
        || head > 0
            && old_bytes[head - 1] == b'\r'
            && (old_bytes.get(head) == Some(&b'\n') || new_bytes.get(head) == Some(&b'\n'))
    {
        head -= 1;
    }
    let mut tail = walk::common_tail(&old_bytes[head..], &new_bytes[head..]);
    let splits = |bytes: &[u8], tail: usize| bytes[..bytes.len() - tail].ends_with(b"\r");
    while !old.is_char_boundary(old.len() - tail)
        || tail > 0
            && old_bytes[old.len() - tail] == b'\n'
            && (splits(old_bytes, tail) || splits(new_bytes, tail))
    {
        tail -= 1;
    }
    Splice {
        range: range.start + head..range.end - tail,
        text: new[head..new.len() - tail].to_string(),
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

#[cfg(test)]
pub(crate) mod tests;
