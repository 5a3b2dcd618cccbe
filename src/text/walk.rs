//! Walking a text chunk by chunk, so that nothing ever copies a whole rope.
//!
//! Invariant: every function costs what lies between where it starts and what it finds, not the text.

use std::ops::{ControlFlow, Range};

use memchr::{memchr, memrchr};

use super::Text;

/// The stored pieces of a text from a byte on, each with the byte where it starts.
pub(crate) enum Chunks<'a> {
    Flat(Option<(usize, &'a [u8])>),
    Rope {
        chunks: ropey::iter::Chunks<'a>,
        next_byte: usize,
        /// What of the first chunk lies before the start.
        skip: usize,
    },
}

impl<'a> Iterator for Chunks<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Flat(chunk) => chunk.take(),
            Self::Rope {
                chunks,
                next_byte,
                skip,
            } => {
                let chunk = chunks.find(|it| !it.is_empty())?;
                let chunk = &chunk.as_bytes()[std::mem::take(skip)..];
                let start_byte = *next_byte;
                *next_byte += chunk.len();
                Some((start_byte, chunk))
            }
        }
    }
}

/// The stored pieces of a text before a byte, last first, each with the byte where it starts.
pub(crate) enum ChunksBack<'a> {
    Flat(Option<&'a [u8]>),
    Rope {
        chunks: ropey::iter::Chunks<'a>,
        /// What of the chunk around the start lies before it.
        head: Option<&'a [u8]>,
        end_byte: usize,
    },
}

impl<'a> Iterator for ChunksBack<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Flat(chunk) => chunk.take().map(|it| (0, it)),
            Self::Rope {
                chunks,
                head,
                end_byte,
            } => {
                let chunk = match head.take() {
                    Some(chunk) => chunk,
                    None => chunks.prev()?.as_bytes(),
                };
                *end_byte -= chunk.len();
                Some((*end_byte, chunk))
            }
        }
    }
}

impl Text {
    /// Walks forwards from `byte`.
    pub(crate) fn chunks_from(&self, byte: usize) -> Chunks<'_> {
        match self {
            Self::Flat(text) => Chunks::Flat(Some((byte, &text.as_bytes()[byte..]))),
            Self::Rope(rope) => {
                let (chunks, start_byte, ..) = rope.chunks_at_byte(byte);
                let skip = if byte == rope.len_bytes() {
                    0
                } else {
                    byte - start_byte
                };
                Chunks::Rope {
                    chunks,
                    next_byte: byte,
                    skip,
                }
            }
        }
    }

    /// The stored pieces from `byte` on, each of whole characters.
    pub(crate) fn strs_from(&self, byte: usize) -> impl Iterator<Item = &str> {
        let (rope, flat) = match self {
            Self::Rope(rope) => (Some(rope.byte_slice(byte..).chunks()), None),
            Self::Flat(text) => (None, Some(&text[byte..])),
        };
        rope.into_iter().flatten().chain(flat)
    }

    /// Looks at the raw bytes of the view in windows that overlap by `overlap`, each with the byte where it starts: a
    /// rope's chunks of about 1 KB are gathered, a flat text is one window.
    pub(crate) fn for_windows<B>(
        &self,
        window_bytes: usize,
        overlap: usize,
        mut look: impl FnMut(&[u8], usize) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let mut window_start = self.view_start();
        if let Self::Flat(flat) = self {
            return look(&flat.as_bytes()[window_start..], window_start);
        }
        let mut window = Vec::with_capacity(window_bytes.min(self.len_bytes()) + 2 * overlap);
        for (_, chunk) in self.chunks_from(window_start) {
            for piece in chunk.chunks(window_bytes) {
                if window.len() + piece.len() > window_bytes {
                    look(&window, window_start)?;
                    let n_done = window.len().saturating_sub(overlap);
                    window.drain(..n_done);
                    window_start += n_done;
                }
                window.extend_from_slice(piece);
            }
        }
        look(&window, window_start)
    }

    /// Walks forwards over a range.
    pub(crate) fn chunks_in(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &[u8])> {
        self.chunks_from(range.start)
            .take_while(move |(start_byte, _)| *start_byte < range.end)
            .map(move |(start_byte, chunk)| {
                (
                    start_byte,
                    &chunk[..chunk.len().min(range.end - start_byte)],
                )
            })
    }

    /// Walks backwards from `byte`.
    pub(crate) fn chunks_before(&self, byte: usize) -> ChunksBack<'_> {
        match self {
            Self::Flat(text) => ChunksBack::Flat(Some(&text.as_bytes()[..byte])),
            Self::Rope(rope) => {
                let (chunks, ..) = rope.chunks_at_byte(byte);
                let head = (byte < rope.len_bytes()).then(|| {
                    let (chunk, start_byte) = self.chunk_at(byte);
                    &chunk[..byte - start_byte]
                });
                ChunksBack::Rope {
                    chunks,
                    head,
                    end_byte: byte,
                }
            }
        }
    }

    /// Whether `byte` lies between the carriage return and the line feed of one line break.
    pub(crate) fn splits_pair(&self, byte: usize) -> bool {
        byte > 0 && self.byte(byte) == Some(b'\n') && self.byte(byte - 1) == Some(b'\r')
    }

    /// The first line feed at or behind `byte`.
    pub(crate) fn next_lf(&self, byte: usize) -> Option<usize> {
        self.chunks_from(byte)
            .find_map(|(start_byte, chunk)| memchr(b'\n', chunk).map(|idx| start_byte + idx))
    }

    /// The last line feed before `byte`.
    pub(crate) fn prev_lf(&self, byte: usize) -> Option<usize> {
        self.chunks_before(byte)
            .find_map(|(start_byte, chunk)| memrchr(b'\n', chunk).map(|idx| start_byte + idx))
    }

    /// Where the line that holds `byte` starts, behind the byte order mark.
    pub(crate) fn line_begin(&self, byte: usize) -> usize {
        match self.prev_lf(byte) {
            Some(lf_byte) => lf_byte + 1,
            None => self.view_start().min(byte),
        }
    }

    /// Where the line that holds `byte` ends, behind its line break.
    pub(crate) fn line_end(&self, byte: usize) -> usize {
        self.next_lf(byte)
            .map_or(self.len_bytes(), |lf_byte| lf_byte + 1)
    }
}

/// The number of line feeds in some bytes.
pub(crate) fn count_lf(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// The number of equal bytes at the start of two texts.
pub(crate) fn common_prefix(old: &Text, new: &Text) -> usize {
    common(
        old.chunks_from(0).map(|(_, chunk)| chunk),
        new.chunks_from(0).map(|(_, chunk)| chunk),
        |chunk, n| chunk.split_at(n),
        common_head,
    )
}

/// The number of equal bytes at the end of two texts, at most `most`.
pub(crate) fn common_suffix(old: &Text, new: &Text, most: usize) -> usize {
    let suffix = common(
        old.chunks_before(old.len_bytes()).map(|(_, chunk)| chunk),
        new.chunks_before(new.len_bytes()).map(|(_, chunk)| chunk),
        |chunk, n| {
            let (rest, taken) = chunk.split_at(chunk.len() - n);
            (taken, rest)
        },
        common_tail,
    );
    suffix.min(most)
}

fn common<'a>(
    mut olds: impl Iterator<Item = &'a [u8]>,
    mut news: impl Iterator<Item = &'a [u8]>,
    take: impl Fn(&'a [u8], usize) -> (&'a [u8], &'a [u8]),
    n_equal: impl Fn(&[u8], &[u8]) -> usize,
) -> usize {
    let (mut old, mut new): (&[u8], &[u8]) = (&[], &[]);
    let mut n_common = 0;
    loop {
        while old.is_empty() {
            let Some(chunk) = olds.next() else {
                return n_common;
            };
            old = chunk;
        }
        while new.is_empty() {
            let Some(chunk) = news.next() else {
                return n_common;
            };
            new = chunk;
        }
        let n = old.len().min(new.len());
        let ((old_piece, old_rest), (new_piece, new_rest)) = (take(old, n), take(new, n));
        // Snapshots of one document share most of their chunks.
        if !std::ptr::eq(old_piece, new_piece) {
            let n_same = n_equal(old_piece, new_piece);
            if n_same < n {
                return n_common + n_same;
            }
        }
        n_common += n;
        (old, new) = (old_rest, new_rest);
    }
}

/// The blocks that are compared at once, before single bytes are.
const COMPARED_BYTES: [usize; 3] = [1024, 64, 8];

/// The number of equal bytes at the start of two slices.
pub(crate) fn common_head(left: &[u8], right: &[u8]) -> usize {
    let mut n = 0;
    for block in COMPARED_BYTES {
        let lefts = left[n..].chunks_exact(block);
        let rights = right[n..].chunks_exact(block);
        n += block
            * lefts
                .zip(rights)
                .take_while(|(left, right)| left == right)
                .count();
    }
    let bytes = left[n..].iter().zip(&right[n..]);
    n + bytes.take_while(|(left, right)| left == right).count()
}

/// The number of equal bytes at the end of two slices.
pub(crate) fn common_tail(left: &[u8], right: &[u8]) -> usize {
    let mut n = 0;
    for block in COMPARED_BYTES {
        let lefts = left[..left.len() - n].rchunks_exact(block);
        let rights = right[..right.len() - n].rchunks_exact(block);
        n += block
            * lefts
                .zip(rights)
                .take_while(|(left, right)| left == right)
                .count();
    }
    let lefts = left[..left.len() - n].iter().rev();
    let bytes = lefts.zip(right[..right.len() - n].iter().rev());
    n + bytes.take_while(|(left, right)| left == right).count()
}
