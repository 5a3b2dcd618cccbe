//! The Unicode-normalized fallback: finding text that differs from what was asked for only in how characters are written.
//!
//! A text is compared by *segments*: a CRLF pair, or a character with everything that belongs to it (combining marks,
//! conjoining jamo, variation selectors, emoji modifiers, what a zero-width joiner joins). Two segments are alike if they
//! are canonically equivalent (NFC) after a short table of typography: quotes, dashes, the ellipsis, spaces. An em dash
//! reads as `-` or as `--`; both readings are searched.
//!
//! Invariant: a hit covers whole segments. Nothing folds to nothing, nothing is folded by compatibility (NFKC), and no
//! letter of one script to that of another: those change what a text means. Neither the text nor its fold is copied as a
//! whole, and no text and needle, however repetitive, cost more than linear time.

mod fold;
mod literal;

use std::{iter, ops::Range};

use memchr::memmem;

use self::fold::{EmDash, Fold, belongs_to, segments};
use super::{
    Text, lines,
    matching::{Automaton, PLACE_COST, WINDOW_BYTES, budget},
    rewrite,
    splice::Splice,
};

/// What is folded at once.
const PIECE_BYTES: usize = 4 * 1024;

/// The most segments, old and new together, that are aligned.
const MOST_SEGMENTS: usize = 4_000;

/// The places that are alike, by raw bytes, in ascending order, overlapping ones included.
#[derive(Debug, PartialEq, Eq)]
pub struct Hits {
    hits: Vec<Hit>,
    /// False if there are more.
    pub complete: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    start: usize,
    end: usize,
    em_dash: EmDash,
}

impl Hits {
    /// The raw bytes of each hit.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        self.hits.iter().map(|it| it.start..it.end).collect()
    }
}

/// Finds what is alike to `needle` (line ends as LF, not empty), but not what is ASCII to ASCII: that is alike only if it
/// is equal. Returns the first `most` hits.
pub fn find(text: &Text, needle: &str, most: usize) -> Hits {
    if needle.is_ascii() && is_ascii(text) {
        return Hits {
            hits: Vec::new(),
            complete: true,
        };
    }
    find_within(text, needle, most, WINDOW_BYTES, budget(text))
}

fn find_within(text: &Text, needle: &str, most: usize, window_bytes: usize, budget: usize) -> Hits {
    let mut hits = Vec::new();
    for em_dash in [EmDash::Two, EmDash::One] {
        let needle = Fold::of(needle, em_dash);
        let search = Search {
            text,
            needle: needle.window().0,
            em_dash,
            most: most.saturating_add(1),
            window_bytes: window_bytes.max(2 * needle.window().0.len()),
        };
        let (mut found, has_em_dash) = search.run(budget);
        hits.append(&mut found);
        // The reading of em dashes only matters where there are some, and to what has dashes.
        if !(has_em_dash && needle.window().0.contains(&b'-') || needle.has_em_dash()) {
            break;
        }
    }
    hits.sort();
    hits.dedup_by(|later, hit| (later.start, later.end) == (hit.start, hit.end));
    let complete = hits.len() <= most;
    hits.truncate(most);
    Hits { hits, complete }
}

/// Whether two texts are alike as a whole.
pub fn alike(old: &str, new: &str) -> bool {
    [EmDash::Two, EmDash::One].into_iter().any(|it| {
        let [old, new] = [old, new].map(|text| Fold::of(text, it));
        old.window() == new.window()
    })
}

/// The search for a fold in the fold of a text.
struct Search<'a> {
    text: &'a Text,
    needle: &'a [u8],
    em_dash: EmDash,
    most: usize,
    window_bytes: usize,
}

/// How the fold is looked through.
enum Way<'a> {
    /// By what is fast where there are few places; as long as the work is within a budget.
    Finder(Box<memmem::Finder<'a>>, usize),
    /// Byte by byte.
    Automaton(Automaton<'a>),
}

struct TooMuchWork;

impl Search<'_> {
    /// The first hits, and whether the text may have an em dash.
    fn run(&self, budget: usize) -> (Vec<Hit>, bool) {
        if let Some(hits) = literal::find(self, budget) {
            return (hits, true);
        }
        self.run_by(Way::Finder(
            Box::new(memmem::Finder::new(self.needle)),
            budget,
        ))
        .or_else(|TooMuchWork| self.run_by(Way::Automaton(Automaton::new(self.needle))))
        .unwrap_or_default()
    }

    fn run_by(&self, mut way: Way) -> Result<(Vec<Hit>, bool), TooMuchWork> {
        let mut fold = Fold::new(self.em_dash, self.text.view_start());
        let mut hits = Vec::new();
        let mut n_done = 0;
        for chunk in self.text.strs_from(self.text.view_start()) {
            for piece in pieces(chunk, PIECE_BYTES) {
                fold.push(piece);
                if fold.window().0.len() < self.window_bytes {
                    continue;
                }
                self.look(&fold, &mut n_done, &mut way, &mut hits)?;
                if hits.len() >= self.most {
                    return Ok((hits, true));
                }
                // A hit may lie over the seam.
                let (window, start) = fold.window();
                fold.forget((start + window.len() + 1).saturating_sub(self.needle.len()));
            }
        }
        fold.finish();
        self.look(&fold, &mut n_done, &mut way, &mut hits)?;
        Ok((hits, fold.has_em_dash()))
    }

    /// Looks through what of the fold is not done yet.
    fn look(
        &self,
        fold: &Fold,
        n_done: &mut usize,
        way: &mut Way,
        hits: &mut Vec<Hit>,
    ) -> Result<(), TooMuchWork> {
        let (window, window_start) = fold.window();
        let mut take = |folded: usize| {
            if let (Some(start), Some(end)) =
                (fold.raw(folded), fold.raw(folded + self.needle.len()))
            {
                hits.push(Hit {
                    start,
                    end,
                    em_dash: self.em_dash,
                });
            }
            hits.len() < self.most
        };
        match way {
            Way::Finder(finder, budget) => {
                let mut from = 0;
                while let Some(idx) = finder.find(&window[from..]) {
                    let place = from + idx;
                    if !take(window_start + place) {
                        break;
                    }
                    let work = PLACE_COST + self.needle.len();
                    *budget = budget.checked_sub(work).ok_or(TooMuchWork)?;
                    from = place + 1;
                }
            }
            Way::Automaton(automaton) => {
                for &byte in &window[*n_done - window_start..] {
                    *n_done += 1;
                    if automaton.step(byte) && !take(*n_done - self.needle.len()) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Cuts a chunk, of a closed file the whole text, into pieces of whole characters and at least 4 bytes.
fn pieces(chunk: &str, most_bytes: usize) -> impl Iterator<Item = &str> {
    let mut rest = chunk;
    iter::from_fn(move || {
        let mut end = rest.len().min(most_bytes);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, tail) = rest.split_at(end);
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Writes `new` over the hits of `old`, but only where the two differ: what the edit did not mean to change keeps the
/// characters that the text has.
pub fn replace(text: &Text, hits: &Hits, old: &str, new: &str) -> Vec<Splice> {
    let whole = [EmDash::Two, EmDash::One].map(|it| Rewriting::of(old, new, it));
    // Hits that stand side by side are replaced as one, because what comes to stand beside what is known only then.
    let runs = hits.hits.chunk_by(|hit, next| hit.end == next.start);
    let splices = runs.flat_map(|run| {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let span = first.start..last.end;
        if run.iter().any(|it| it.em_dash != first.em_dash) {
            return rewrite::replace(text, span, &new.repeat(run.len()));
        }
        if run.len() == 1 {
            let [two, one] = &whole;
            let rewriting = if first.em_dash == EmDash::Two {
                two
            } else {
                one
            };
            return rewriting.splices(text, span);
        }
        let (old, new) = (old.repeat(run.len()), new.repeat(run.len()));
        Rewriting::of(&old, &new, first.em_dash).splices(text, span)
    });
    splices.collect()
}

/// The index ranges of the segments that differ.
fn changed_segments(olds: &[&str], news: &[&str]) -> Vec<(Range<usize>, Range<usize>)> {
    let pairs = olds.iter().zip(news);
    let head = pairs.take_while(|(old, new)| old == new).count();
    let (olds_behind, news_behind) = (&olds[head..], &news[head..]);
    let pairs = olds_behind.iter().rev().zip(news_behind.iter().rev());
    let tail = pairs.take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (olds.len() - tail, news.len() - tail);
    if old_end + new_end - 2 * head > MOST_SEGMENTS {
        return vec![(head..old_end, head..new_end)];
    }
    let changes = lines::changed_items(&olds[head..old_end], &news[head..new_end]);
    let moved = |range: Range<usize>| range.start + head..range.end + head;
    changes
        .into_iter()
        .map(|(old, new)| (moved(old), moved(new)))
        .collect()
}

/// What was asked for, and what differs.
struct Rewriting {
    new: String,
    em_dash: EmDash,
    /// The folded byte of each segment of the old text, and of its end.
    edges: Vec<usize>,
    /// The byte of each segment of the new text, and of its end.
    new_edges: Vec<usize>,
    /// In segments.
    changes: Vec<(Range<usize>, Range<usize>)>,
}

impl Rewriting {
    fn of(old: &str, new: &str, em_dash: EmDash) -> Self {
        let (olds, news) = (segments(old), segments(new));
        let edges = |lens: &mut dyn Iterator<Item = usize>| {
            let mut edges = vec![0];
            edges.extend(lens.scan(0, |end, len| {
                *end += len;
                Some(*end)
            }));
            edges
        };
        Self {
            new: new.to_string(),
            em_dash,
            edges: edges(&mut olds.iter().map(|it| Fold::of(it, em_dash).window().0.len())),
            new_edges: edges(&mut news.iter().map(|it| it.len())),
            changes: changed_segments(&olds, &news),
        }
    }

    /// Writes over a hit.
    fn splices(&self, text: &Text, hit: Range<usize>) -> Vec<Splice> {
        let found = Fold::of(&text.slice(hit.clone()), self.em_dash);
        let raw = |segment: usize| found.raw(self.edges[segment]);
        let mut whole: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        let mut rest = self.changes.iter().cloned().peekable();
        while let Some((mut old, mut new)) = rest.next() {
            // One character of the text may stand for several of what was asked for (an ellipsis): it is written as a whole.
            while raw(old.start).is_none() {
                old.start -= 1;
                new.start -= 1;
            }
            while raw(old.end).is_none() {
                old.end += 1;
                new.end += 1;
                if let Some(next) = rest.next_if(|next| next.0.start == old.end) {
                    (old.end, new.end) = (next.0.end, next.1.end);
                }
            }
            whole.push((old, new));
        }
        let splices = whole.into_iter().filter_map(|(old, new)| {
            let range = hit.start + raw(old.start)?..hit.start + raw(old.end)?;
            let new = &self.new[self.new_edges[new.start]..self.new_edges[new.end]];
            Some(rewrite::replace(text, range, new))
        });
        splices.flatten().collect()
    }
}

/// Whether a range begins or ends inside a segment.
pub fn splits_a_character(text: &Text, range: &Range<usize>) -> bool {
    [range.start, range.end].into_iter().any(|at| {
        let before = (text.view_start()..at)
            .rev()
            .find(|&it| is_char_start(text, it));
        match (before.and_then(|it| char_at(text, it)), char_at(text, at)) {
            (Some(before), Some(c)) => belongs_to(before, c),
            _ => false,
        }
    })
}

fn is_char_start(text: &Text, at: usize) -> bool {
    text.byte(at).is_some_and(|it| it & 0xC0 != 0x80)
}

fn char_at(text: &Text, at: usize) -> Option<char> {
    let end = (at + 1..=at + 4).find(|&it| it == text.len_bytes() || is_char_start(text, it))?;
    text.raw(at..end).chars().next()
}

fn is_ascii(text: &Text) -> bool {
    text.chunks_from(0).all(|(_, chunk)| chunk.is_ascii())
}

#[cfg(test)]
mod tests;
