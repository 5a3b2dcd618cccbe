//! The parts of the core by themselves, to find out which of them a figure of `yardstick` is made of:
//! `cargo bench --bench parts`.

use abreast::{
    protocol::Limits,
    read::{self, Wanted},
    text::{
        Text,
        buffer::{Buffer, Encoding, Position},
        diff, matching,
        splice::{Splice, Splices},
    },
    version::Version,
};
use divan::{Bencher, black_box, counter::BytesCount};

const SIZES: [usize; 3] = [10_000, 1_000_000, 100_000_000];

fn main() {
    divan::main();
}

fn source(n_bytes: usize) -> String {
    let line =
        |n: usize| format!("    let value_{n:08} = compute({n}, \"text\"); // note {n:08}\n");
    let mut text = String::new();
    for n in 0.. {
        text.push_str(&line(n));
        if text.len() >= n_bytes {
            return text;
        }
    }
    text
}

fn rope(n_bytes: usize) -> Text {
    Buffer::new(&source(n_bytes), false).text()
}

/// A text and the same after an edit in the middle.
fn edited(n_bytes: usize) -> (Text, Text, Splices) {
    let before = rope(n_bytes);
    let at = matching::find(&before, "// note 00000070", 1)
        .ranges
        .remove(0);
    let splice = Splice {
        range: at,
        text: "// changed\n".to_string(),
    };
    let splices: Splices = [splice].into_iter().collect();
    let after = before.apply(&splices);
    (before, after, splices)
}

#[divan::bench(args = SIZES, max_time = 1)]
fn open(bencher: Bencher, n_bytes: usize) {
    let text = source(n_bytes);
    bencher
        .counter(BytesCount::new(n_bytes))
        .bench(|| Buffer::new(black_box(&text), false));
}

#[divan::bench(args = SIZES, max_time = 1)]
fn find(bencher: Bencher, n_bytes: usize) {
    let text = rope(n_bytes);
    bencher
        .counter(BytesCount::new(n_bytes))
        .bench(|| matching::find(black_box(&text), "// note 00000070", 1000));
}

#[divan::bench(args = SIZES, max_time = 1)]
fn version(bencher: Bencher, n_bytes: usize) {
    let text = rope(n_bytes);
    bencher
        .counter(BytesCount::new(n_bytes))
        .bench(|| Version::of(black_box(&text)));
}

#[divan::bench(args = SIZES, max_time = 1)]
fn line_ends(bencher: Bencher, n_bytes: usize) {
    let text = rope(n_bytes);
    bencher
        .counter(BytesCount::new(n_bytes))
        .bench(|| black_box(&text).eol());
}

#[divan::bench(args = SIZES, max_time = 1)]
fn window(bencher: Bencher, n_bytes: usize) {
    let text = rope(n_bytes);
    let wanted = Wanted {
        offset: Some(50),
        limit: Some(100),
        ..Wanted::default()
    };
    bencher.bench(|| read::window(black_box(&text), wanted, &Limits::default()));
}

#[divan::bench(args = SIZES, max_time = 1)]
fn hunks(bencher: Bencher, n_bytes: usize) {
    let (before, after, splices) = edited(n_bytes);
    bencher.bench(|| diff::hunks(black_box(&before), &after, &splices));
}

#[divan::bench(args = SIZES, max_time = 1)]
fn changed_ranges(bencher: Bencher, n_bytes: usize) {
    let (before, after, _) = edited(n_bytes);
    bencher
        .counter(BytesCount::new(n_bytes))
        .bench(|| diff::changed_ranges(black_box(&before), &after));
}

#[divan::bench(args = SIZES, max_time = 1)]
fn same(bencher: Bencher, n_bytes: usize) {
    let (before, after, splices) = edited(n_bytes);
    let again = before.apply(&splices);
    bencher
        .counter(BytesCount::new(n_bytes))
        .bench(|| black_box(&after).same(&again));
}

#[divan::bench(args = SIZES, max_time = 1)]
fn position(bencher: Bencher, n_bytes: usize) {
    let buffer = Buffer::new(&source(n_bytes), false);
    let position = Position {
        line: 71,
        character: 20,
    };
    bencher.bench(|| buffer.byte_at(black_box(position), Encoding::Utf16));
}

#[divan::bench(args = SIZES, max_time = 1)]
fn stroke(bencher: Bencher, n_bytes: usize) {
    let mut buffer = Buffer::new(&source(n_bytes), false);
    bencher.bench_local(|| {
        buffer.replace(5_000..5_000, black_box("x"));
        buffer.replace(5_000..5_001, "");
    });
}

#[divan::bench(args = SIZES, max_time = 1)]
fn dropping(bencher: Bencher, n_bytes: usize) {
    let text = source(n_bytes);
    bencher
        .with_inputs(|| Buffer::new(&text, false))
        .bench_values(drop);
}
