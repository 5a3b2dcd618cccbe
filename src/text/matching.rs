//! Finding the text an agent wants to replace: exact, literal, on the view text.
//!
//! Invariant: a hit is a range of raw bytes whose view is the needle, and never starts or ends inside a CRLF pair or
//! the byte order mark. Neither the document nor its view is copied as a whole, and no text and needle, however
//! repetitive, cost more than linear time.
//!
//! How: one line of the needle, its *anchor*, cannot hold a line break and so is searched for in the raw bytes; around
//! each place the rest is compared with line ends folded. If that is too much work, because the anchor is everywhere
//! but the needle is not, an automaton reads the view once, byte by byte.

use std::{
    mem,
    ops::{ControlFlow, Range},
};

use memchr::{memchr2, memmem, memrchr2};

pub use super::rewrite::{overwrite, replace};
use super::{Text, walk::Chunks};

/// The longest anchor: long enough to be rare, short enough to be cheap to carry over a seam.
pub(super) const ANCHOR_BYTES: usize = 64;

/// What is gathered from a rope's chunks of about 1 KB to be searched at once; it stays in the first-level cache.
pub(super) const WINDOW_BYTES: usize = 16 * 1024;

/// What a place of the anchor costs beside the bytes that are compared, in such bytes.
pub(super) const PLACE_COST: usize = 64;

/// What comparing a line break costs, in bytes that are compared at once.
const BREAK_COST: usize = 32;

/// How much may be compared per byte of the text before the automaton is the faster way.
const WORK_FACTOR: usize = 4;

/// Where a text occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// The places, in raw bytes, from first to last; they may overlap.
    pub ranges: Vec<Range<usize>>,
    /// Whether the search came to the end of the text; else there may be more.
    pub complete: bool,
}

/// Finds a needle, a view text of at least one character; stops after `most` hits.
pub fn find(text: &Text, needle: &str, most: usize) -> Hits {
    find_within(text, needle, most, WINDOW_BYTES, budget(text))
}

/// The work after which a text is read byte by byte.
pub(super) fn budget(text: &Text) -> usize {
    WORK_FACTOR * (text.len_bytes() + WINDOW_BYTES)
}

fn find_within(text: &Text, needle: &str, most: usize, window_bytes: usize, budget: usize) -> Hits {
    debug_assert!(
        !needle.is_empty(),
        "an empty needle is refused with the parameters"
    );
    if most == 0 || needle.len() > text.len_bytes() {
        return Hits {
            ranges: Vec::new(),
            complete: most > 0,
        };
    }
    let needle = needle.as_bytes();
    by_anchor(text, needle, most, window_bytes, budget)
        .unwrap_or_else(|| read_once(text, needle, most))
}

/// Finds the needle by its anchor; `None` if that takes more work than the budget.
fn by_anchor(
    text: &Text,
    needle: &[u8],
    most: usize,
    window_bytes: usize,
    budget: usize,
) -> Option<Hits> {
    let anchor = anchor(needle);
    let mut search = Search {
        text,
        needle,
        anchor: anchor.clone(),
        finder: memmem::Finder::new(&needle[anchor]),
        cursor: Cursor::new(text),
        ranges: Vec::new(),
        most,
        budget,
    };
    let complete = match search.run(window_bytes) {
        ControlFlow::Continue(()) => true,
        ControlFlow::Break(Stop::Enough) => false,
        ControlFlow::Break(Stop::TooMuchWork) => return None,
    };
    Some(Hits {
        ranges: search.ranges,
        complete,
    })
}

/// The part of the needle to search for: of its longest line the end, which is less common than its indentation; else
/// a line feed, else a lone carriage return.
fn anchor(needle: &[u8]) -> Range<usize> {
    let mut longest = 0..0;
    let mut start = 0;
    for line in needle.split(|it| matches!(it, b'\n' | b'\r')) {
        if line.len() > longest.len() {
            longest = start..start + line.len();
        }
        start += line.len() + 1;
    }
    if longest.is_empty() {
        let lf_byte = memchr::memchr(b'\n', needle).unwrap_or(0);
        return lf_byte..lf_byte + 1;
    }
    longest.end - longest.len().min(ANCHOR_BYTES)..longest.end
}

enum Stop {
    Enough,
    TooMuchWork,
}

struct Search<'a> {
    text: &'a Text,
    needle: &'a [u8],
    anchor: Range<usize>,
    finder: memmem::Finder<'a>,
    cursor: Cursor<'a>,
    ranges: Vec<Range<usize>>,
    most: usize,
    /// The work left.
    budget: usize,
}

impl Search<'_> {
    fn run(&mut self, window_bytes: usize) -> ControlFlow<Stop> {
        // An anchor may lie over the seam.
        let overlap = self.anchor.len() - 1;
        let text = self.text;
        text.for_windows(window_bytes, overlap, |window, window_start| {
            self.search(window, window_start)
        })
    }

    /// Searches raw bytes that start at `window_start`.
    fn search(&mut self, window: &[u8], window_start: usize) -> ControlFlow<Stop> {
        let is_all =
            self.anchor.len() == self.needle.len() && !matches!(self.needle, b"\n" | b"\r");
        let mut from = 0;
        while let Some(idx) = self.finder.find(&window[from..]) {
            let place = window_start + from + idx;
            from += idx + 1;
            let hit = if is_all {
                Some(place..place + self.needle.len())
            } else {
                self.hit_around(place)
            };
            if let Some(hit) = hit {
                self.ranges.push(hit);
                if self.ranges.len() == self.most {
                    return ControlFlow::Break(Stop::Enough);
                }
            }
            let Some(budget) = self.budget.checked_sub(PLACE_COST + self.anchor.len()) else {
                return ControlFlow::Break(Stop::TooMuchWork);
            };
            self.budget = budget;
        }
        ControlFlow::Continue(())
    }

    /// The hit whose anchor is at `place`, if the rest of the needle is there, too.
    fn hit_around(&mut self, mut place: usize) -> Option<Range<usize>> {
        let (before, behind) = self.needle.split_at(self.anchor.start);
        if behind[0] == b'\n' && self.cursor.splits_pair(place) {
            place -= 1;
        }
        let end = self.cursor.skip(place, behind);
        let start = end.and_then(|_| self.cursor.skip_back(place, before));
        self.budget = self
            .budget
            .saturating_sub(mem::take(&mut self.cursor.n_compared));
        Some(start?..end?)
    }
}

/// Reads the raw text from any byte, and compares it with a view.
struct Cursor<'a> {
    text: &'a Text,
    view_start: usize,
    chunk: &'a [u8],
    chunk_start: usize,
    n_compared: usize,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a Text) -> Self {
        let (chunk, chunk_start) = text.chunk_at(0);
        Self {
            text,
            view_start: text.view_start(),
            chunk,
            chunk_start,
            n_compared: 0,
        }
    }

    /// The stored bytes from `at` on; empty only at the end of the text.
    fn from(&mut self, at: usize) -> &'a [u8] {
        if at < self.chunk_start || at >= self.chunk_start + self.chunk.len() {
            (self.chunk, self.chunk_start) = self.text.chunk_at(at);
        }
        &self.chunk[at - self.chunk_start..]
    }

    /// The stored bytes of the view before `at`; empty only at the start of the view.
    fn before(&mut self, at: usize) -> &'a [u8] {
        if at == self.view_start {
            return &[];
        }
        self.from(at - 1);
        &self.chunk[self.view_start.saturating_sub(self.chunk_start)..at - self.chunk_start]
    }

    fn splits_pair(&mut self, at: usize) -> bool {
        self.from(at).first() == Some(&b'\n') && self.before(at).last() == Some(&b'\r')
    }

    /// The byte that the view has for `at`, and how many raw bytes it stands for.
    fn unit(&mut self, at: usize) -> Option<(u8, usize)> {
        match *self.from(at).first()? {
            b'\r' if self.from(at + 1).first() == Some(&b'\n') => Some((b'\n', 2)),
            byte => Some((byte, 1)),
        }
    }

    /// Goes over `view` forwards; `None` if the text from `at` on shows something else.
    fn skip(&mut self, mut at: usize, mut view: &[u8]) -> Option<usize> {
        while let Some(&first) = view.first() {
            let n = if is_special(first) {
                let (_, n_raw) = self.unit(at).filter(|&(byte, _)| byte == first)?;
                at += n_raw;
                self.n_compared += BREAK_COST;
                1
            } else {
                let raw = self.from(at);
                let most = view.len().min(raw.len());
                let n = memchr2(b'\n', b'\r', &view[..most]).unwrap_or(most);
                self.n_compared += n;
                if n == 0 || raw[..n] != view[..n] {
                    return None;
                }
                at += n;
                n
            };
            view = &view[n..];
        }
        Some(at)
    }

    /// Goes over `view` backwards; `None` if the text before `at` shows something else.
    fn skip_back(&mut self, mut at: usize, mut view: &[u8]) -> Option<usize> {
        while let Some(&last) = view.last() {
            let raw = self.before(at);
            let n_view = view.len();
            let n = if is_special(last) {
                if *raw.last()? != last {
                    return None;
                }
                at -= 1;
                at -= usize::from(self.splits_pair(at));
                self.n_compared += BREAK_COST;
                1
            } else {
                let most = &view[n_view - n_view.min(raw.len())..];
                let n = most.len() - memrchr2(b'\n', b'\r', most).map_or(0, |idx| idx + 1);
                self.n_compared += n;
                if n == 0 || raw[raw.len() - n..] != view[n_view - n..] {
                    return None;
                }
                at -= n;
                n
            };
            view = &view[..n_view - n];
        }
        Some(at)
    }
}

fn is_special(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Finds the needle by reading every byte of the view once (Knuth, Morris and Pratt).
fn read_once(text: &Text, needle: &[u8], most: usize) -> Hits {
    let mut automaton = Automaton::new(needle);
    let mut hits = Hits::default();
    // The back follows at the needle's length, to know where a hit starts.
    let (mut front, mut back) = (Units::new(text), Units::new(text));
    let mut n_behind = 0;
    while let Some(byte) = front.next() {
        if n_behind == needle.len() {
            back.next();
        } else {
            n_behind += 1;
        }
        if automaton.step(byte) {
            hits.ranges.push(back.at()..front.at());
            if hits.ranges.len() == most {
                return hits;
            }
        }
    }
    hits.complete = true;
    hits
}

/// The bytes of the view, one after the other.
struct Units<'a> {
    chunks: Chunks<'a>,
    chunk: &'a [u8],
    next: usize,
    chunk_start: usize,
}

impl<'a> Units<'a> {
    fn new(text: &'a Text) -> Self {
        let start = text.view_start();
        Self {
            chunks: text.chunks_from(start),
            chunk: &[],
            next: 0,
            chunk_start: start,
        }
    }

    /// The raw byte of what comes next.
    fn at(&self) -> usize {
        self.chunk_start + self.next
    }

    fn peek(&mut self) -> Option<u8> {
        if self.next == self.chunk.len() {
            (self.chunk_start, self.chunk) = self.chunks.next()?;
            self.next = 0;
        }
        self.chunk.get(self.next).copied()
    }
}

impl Iterator for Units<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.next += 1;
        if byte == b'\r' && self.peek() == Some(b'\n') {
            self.next += 1;
            return Some(b'\n');
        }
        Some(byte)
    }
}

/// Finds a needle in bytes that come one after the other.
pub(super) struct Automaton<'a> {
    needle: &'a [u8],
    /// For each prefix of the needle, the length of the longest shorter one that it ends with.
    borders: Vec<usize>,
    /// How much of the needle the bytes so far end with.
    n_equal: usize,
}

impl<'a> Automaton<'a> {
    pub(super) fn new(needle: &'a [u8]) -> Self {
        let mut borders = vec![0; needle.len()];
        let mut n_equal = 0;
        for at in 1..needle.len() {
            while n_equal > 0 && needle[n_equal] != needle[at] {
                n_equal = borders[n_equal - 1];
            }
            n_equal += usize::from(needle[n_equal] == needle[at]);
            borders[at] = n_equal;
        }
        Self {
            needle,
            borders,
            n_equal: 0,
        }
    }

    /// Takes the next byte; true if the needle ends with it.
    pub(super) fn step(&mut self, byte: u8) -> bool {
        while self.n_equal > 0 && self.needle[self.n_equal] != byte {
            self.n_equal = self.borders[self.n_equal - 1];
        }
        self.n_equal += usize::from(self.needle[self.n_equal] == byte);
        let is_hit = self.n_equal == self.needle.len();
        if is_hit {
            self.n_equal = self.borders[self.n_equal - 1];
        }
        is_hit
    }
}

#[cfg(test)]
mod tests;
