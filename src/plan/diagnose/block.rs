//! The block of lines that is most like a text which is nowhere.
//!
//! Invariant: linear in the text, but for the few best blocks, which are compared up to a constant length; the answer
//! depends on the texts alone.

use std::{collections::HashMap, ops::Range};

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Most lines of a block.
const MOST_LINES: usize = 100;
/// Blocks that are really compared.
const CANDIDATES: usize = 5;
/// Most tokens of either side that are compared.
const MOST_TOKENS: usize = 400;
/// A block less like is not worth showing.
const LEAST_PERCENT: usize = 50;
/// A block whose three-letter pieces are shared less, in thousandths, is not compared.
const LEAST_SHARED: usize = 300;
/// Most lines that are named of a text whose lines are apart.
const LINES_NAMED: usize = 4;

/// What is most like.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// 0-based lines.
    pub(super) lines: Range<usize>,
    pub(super) percent: usize,
    /// 0-based lines of the text's lines, the first few, if all of them are in the file.
    pub(super) apart: Vec<usize>,
}

/// Finds the block of `lines` that is most like `old`.
pub(super) fn most_like(lines: &[&str], old: &[&str]) -> Option<Block> {
    let old = &old[..old.len().min(MOST_LINES)];
    let grams = Grams::of(old);
    if grams.n == 0 {
        return None;
    }
    let old_tokens = tokens(old);
    let mut best: Option<(usize, usize)> = None;
    for start in candidates(lines, old.len(), &grams) {
        let block = &lines[start..lines.len().min(start + old.len())];
        let percent = similarity(&old_tokens, &tokens(block));
        if best.is_none_or(|it| it.1 < percent) {
            best = Some((start, percent));
        }
    }
    let (start, percent) = best.filter(|it| it.1 >= LEAST_PERCENT)?;
    Some(Block {
        lines: start..lines.len().min(start + old.len()),
        percent,
        apart: apart(lines, old),
    })
}

/// The three-letter pieces of a text, without blanks.
struct Grams {
    bits: Vec<u64>,
    n: usize,
}

impl Grams {
    fn of(lines: &[&str]) -> Self {
        let mut bits = vec![0; 1 << 10];
        let mut n = 0;
        for line in lines {
            each_gram(line, |gram| {
                bits[gram >> 6] |= 1 << (gram & 63);
                n += 1;
            });
        }
        Self { bits, n }
    }

    /// How many pieces a line has, and how many of them are here.
    fn shared(&self, line: &str) -> (usize, usize) {
        let (mut n, mut n_shared) = (0, 0);
        each_gram(line, |gram| {
            n += 1;
            n_shared += usize::from(self.bits[gram >> 6] >> (gram & 63) & 1 == 1);
        });
        (n, n_shared)
    }
}

fn each_gram(line: &str, mut f: impl FnMut(usize)) {
    let mut gram: u32 = 0;
    for byte in line.bytes().filter(|it| !it.is_ascii_whitespace()) {
        gram = (gram << 8 | u32::from(byte)) & 0xFF_FFFF;
        f((gram.wrapping_mul(0x9E37_79B1) >> 16) as usize);
    }
}

/// The starts of the blocks that share most with the text, of each place the best.
fn candidates(lines: &[&str], n_lines: usize, grams: &Grams) -> Vec<usize> {
    let counts: Vec<(usize, usize)> = lines.iter().map(|it| grams.shared(it)).collect();
    let mut best: Vec<(usize, usize)> = Vec::new();
    let (mut n, mut n_shared) = (0, 0);
    for count in counts.iter().take(n_lines) {
        n += count.0;
        n_shared += count.1;
    }
    let near = n_lines.div_ceil(2);
    for start in 0..lines.len() {
        // Of a line of which only a part was asked for, the rest does not count.
        let total = n.min(2 * grams.n) + grams.n;
        let score = 2000 * n_shared.min(grams.n) / total;
        if score >= LEAST_SHARED {
            match best.iter_mut().find(|it| start - it.0 < near) {
                Some(neighbour) if neighbour.1 < score => *neighbour = (start, score),
                Some(_) => {}
                None => best.push((start, score)),
            }
        }
        if best.len() > CANDIDATES {
            // Of equal ones the last goes.
            let (worst, _) = best
                .iter()
                .enumerate()
                .min_by_key(|(idx, it)| (it.1, usize::MAX - idx))
                .expect("there are some");
            best.remove(worst);
        }
        n -= counts[start].0;
        n_shared -= counts[start].1;
        if let Some(count) = counts.get(start + n_lines) {
            n += count.0;
            n_shared += count.1;
        }
    }
    best.into_iter().map(|it| it.0).collect()
}

/// Words and single signs, without blanks.
fn tokens<'a>(lines: &[&'a str]) -> Vec<&'a str> {
    let mut tokens = Vec::new();
    for line in lines {
        let mut rest = line.trim();
        while let Some(c) = rest.chars().next() {
            if tokens.len() == MOST_TOKENS {
                return tokens;
            }
            let n_bytes = if is_word(c) {
                rest.find(|it| !is_word(it)).unwrap_or(rest.len())
            } else {
                c.len_utf8()
            };
            tokens.push(&rest[..n_bytes]);
            rest = rest[n_bytes..].trim_start();
        }
    }
    tokens
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// How alike two texts are, in percent; what the file has before and behind does not count.
fn similarity(old: &[&str], new: &[&str]) -> usize {
    let bytes = |tokens: &[&str]| -> usize { tokens.iter().map(|it| it.len()).sum() };
    let mut ops = capture_diff_slices(Algorithm::Myers, old, new);
    for edge in [ops.len().checked_sub(1), Some(0)].into_iter().flatten() {
        if ops
            .get(edge)
            .is_some_and(|it| matches!(it, DiffOp::Insert { .. }))
        {
            ops.remove(edge);
        }
    }
    let (mut total, mut shared) = (0, 0);
    for op in ops {
        let (old, new) = (&old[op.old_range()], &new[op.new_range()]);
        total += bytes(old) + bytes(new);
        let pairs = old.iter().zip(new);
        shared += pairs.map(|(old, new)| edges(old, new)).sum::<usize>();
    }
    (200 * shared).checked_div(total).unwrap_or(0)
}

/// The bytes that two words have in common at their edges, if that is at least half.
fn edges(old: &str, new: &str) -> usize {
    let head = old
        .bytes()
        .zip(new.bytes())
        .take_while(|(old, new)| old == new);
    let head = head.count();
    let tail = old.bytes().rev().zip(new.bytes().rev());
    let tail = tail.take_while(|(old, new)| old == new).count();
    let shared = (head + tail).min(old.len()).min(new.len());
    if 2 * shared >= old.len().max(new.len()) {
        shared
    } else {
        0
    }
}

/// Where the lines are, the first few, if all are in the file; empty for a single line.
fn apart(lines: &[&str], old: &[&str]) -> Vec<usize> {
    let trimmed = old.iter().map(|it| it.trim()).filter(|it| !it.is_empty());
    let mut places: HashMap<&str, Option<usize>> = trimmed.clone().map(|it| (it, None)).collect();
    let is_telling = trimmed
        .clone()
        .any(|it| it.chars().filter(|&c| is_word(c)).count() >= 3);
    if places.len() < 2 || !is_telling {
        return Vec::new();
    }
    for (idx, line) in lines.iter().enumerate() {
        if let Some(place @ None) = places.get_mut(line.trim()) {
            *place = Some(idx);
        }
    }
    let places: Option<Vec<usize>> = trimmed.map(|it| places[it]).collect();
    let mut places = places.unwrap_or_default();
    places.truncate(LINES_NAMED);
    places
}

#[cfg(test)]
mod tests;
