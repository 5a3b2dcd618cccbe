//! Keystrokes, reads and edits through the pure core, beside what they cannot do without.

use std::{hint::black_box, time::Duration};

use abreast::protocol::Range;
use memchr::memmem;
use ropey::Rope;

use crate::{
    clock::{cpu_of, versus},
    driver::{Driver, at, edits_of, line, text},
    table::{Row, Target, time, times},
};

const BLOCK_BYTES: usize = 64 * 1024;
const STROKES: usize = 100;
const SIZES: [(&str, usize); 3] = [
    ("10 KB", 10_000),
    ("1 MB", 1_000_000),
    ("100 MB", 100_000_000),
];

/// A rope without anything around it, of which somebody holds a clone.
struct Bare {
    rope: Rope,
    held: Rope,
}

impl Bare {
    fn new(text: &str) -> Self {
        let rope = Rope::from_str(text);
        Self {
            held: rope.clone(),
            rope,
        }
    }

    /// The edit of a keystroke: its positions are lines and UTF-16 code units.
    fn replace(&mut self, range: Range, text: &str) {
        let start = self.char_at(range.start.line, range.start.character);
        let end = self.char_at(range.end.line, range.end.character);
        if start < end {
            self.rope.remove(start..end);
        }
        if !text.is_empty() {
            self.rope.insert(start, text);
        }
    }

    fn char_at(&self, line: u32, character: u32) -> usize {
        let line_start = self.rope.line_to_char(line as usize);
        let unit = self.rope.char_to_utf16_cu(line_start) + character as usize;
        self.rope.utf16_cu_to_char(unit)
    }

    /// One search of all chunks for all places, without a look at what lies over two of them.
    fn search(&self, needle: &str) {
        let finder = memmem::Finder::new(needle);
        for chunk in self.rope.chunks() {
            black_box(finder.find_iter(chunk.as_bytes()).count());
        }
    }

    fn hash(&self) {
        let mut hasher = blake3::Hasher::new();
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        for chunk in self.rope.chunks() {
            if block.len() + chunk.len() > BLOCK_BYTES {
                hasher.update(&block);
                block.clear();
            }
            block.extend_from_slice(chunk.as_bytes());
        }
        hasher.update(&block);
        black_box(hasher.finalize());
    }

    /// What neither a read nor an edit can do without.
    fn bound(&self, n_searches: usize) -> Duration {
        let (needle, _) = &edits_of(1, 1, false)[0];
        let ((), cpu) = cpu_of(|| {
            for _ in 0..n_searches {
                self.search(needle);
            }
            self.hash();
        });
        cpu
    }
}

/// All rows of this module.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut strokes = Vec::new();
    for (name, n_bytes) in SIZES {
        eprintln!("  {name}: keystrokes, reads, edits");
        let text = text(n_bytes);
        let n_lines = text.lines().count();
        let mut driver = Driver::new(text.clone());
        let mut bare = Bare::new(&text);
        drop(text);
        driver.reads(1);
        let n_rounds = if n_bytes > 10_000_000 { 40 } else { 300 };
        let stroke = keystroke(&mut driver, &mut bare, n_lines, n_rounds);
        strokes.push(stroke);
        rows.push(times(
            format!("keystroke, {name}"),
            stroke,
            Target::AtMost(2.0),
        ));
        let n_rounds = match n_bytes {
            0..100_000 => 1000,
            100_000..10_000_000 => 100,
            _ => 12,
        };
        for is_told in [true, false] {
            rows.push(read(name, is_told, &mut driver, &bare, n_lines, n_rounds));
        }
        rows.push(edit(name, &mut driver, &bare, n_lines, n_rounds));
        rows.push(apply(name, &mut driver, &bare, n_lines, n_rounds / 3));
    }
    rows.push(growth(&strokes));
    rows
}

/// The text grows ten thousandfold; down the tree it is about twice as far, and more often past the caches.
fn growth(strokes: &[(Duration, Duration)]) -> Row {
    let (small, large) = (strokes[0].0, strokes[strokes.len() - 1].0);
    Row {
        name: "keystroke, 100 MB beside 10 KB".to_string(),
        value: time(large),
        baseline: time(small),
        ratio: Some(large.as_secs_f64() / small.as_secs_f64()),
        target: Target::AtMost(4.0),
    }
}

/// A human types into a line, then takes it back with the backspace key.
fn strokes(n: usize) -> Vec<(Range, &'static str)> {
    let column = line(n).encode_utf16().count() - 1;
    let typed = (0..STROKES).map(|it| (at(n, column + it, column + it), "x"));
    let taken = (0..STROKES)
        .rev()
        .map(|it| (at(n, column + it, column + it + 1), ""));
    typed.chain(taken).collect()
}

fn keystroke(
    driver: &mut Driver,
    bare: &mut Bare,
    n_lines: usize,
    n_rounds: usize,
) -> (Duration, Duration) {
    // Far apart, so that each round starts with pieces of the tree that the clone still shares.
    let line = |round: usize| round * 7919 % n_lines;
    let (value, baseline) = versus(
        n_rounds,
        |round| {
            let strokes = strokes(line(round)).into_iter();
            let events = strokes.map(|it| driver.change(vec![it])).collect();
            let cpu = driver.run(events);
            driver.tells();
            driver.reads(line(round) + 1);
            cpu
        },
        |round| {
            let strokes = strokes(line(round));
            let ((), cpu) = cpu_of(|| {
                for (range, text) in strokes {
                    bare.replace(range, text);
                }
            });
            bare.held = bare.rope.clone();
            cpu
        },
    );
    let each = |round: Duration| round.div_f64(2.0 * STROKES as f64);
    (each(value), each(baseline))
}

/// What the core spends on `f` in all: events, computations, and the telling of what changed.
fn spent(driver: &mut Driver, f: impl FnOnce(&mut Driver)) -> Duration {
    let before = driver.spent;
    f(driver);
    driver.spent.saturating_sub(before)
}

/// `is_told`: the change before it has been told, as happens after 50 ms, so the version is known.
fn read(
    name: &str,
    is_told: bool,
    driver: &mut Driver,
    bare: &Bare,
    n_lines: usize,
    n_rounds: usize,
) -> Row {
    let pair = versus(
        n_rounds,
        |round| {
            driver.types(n_lines - 1, "x");
            if is_told {
                driver.tells();
            }
            spent(driver, |it| it.reads(round * 7919 % n_lines + 1))
        },
        |_| bare.bound(1),
    );
    let when = if is_told { "" } else { ", just changed" };
    times(
        format!("read of 100 lines{when}, {name}"),
        pair,
        Target::None,
    )
}

fn edit(name: &str, driver: &mut Driver, bare: &Bare, n_lines: usize, n_rounds: usize) -> Row {
    driver.reads(1);
    let pair = versus(
        n_rounds,
        |round| {
            let edits = edits_of(n_lines, 1, round % 2 == 1);
            spent(driver, |it| {
                it.edits(&edits).expect("it is fresh");
                it.tells();
            })
        },
        |_| bare.bound(1),
    );
    let target = if name == "10 KB" {
        Target::None
    } else {
        Target::AtMost(2.0)
    };
    times(format!("edit, {name}"), pair, target)
}

fn apply(name: &str, driver: &mut Driver, bare: &Bare, n_lines: usize, n_rounds: usize) -> Row {
    driver.edits(&edits_of(n_lines, 1, false)).ok();
    driver.edits(&edits_of(n_lines, 1, true)).ok();
    let pair = versus(
        n_rounds,
        |round| {
            let edits = edits_of(n_lines, 20, round % 2 == 1);
            spent(driver, |it| {
                it.edits(&edits).expect("it is fresh");
                it.tells();
            })
        },
        |_| bare.bound(20),
    );
    times(format!("20 edits in one call, {name}"), pair, Target::None)
}
