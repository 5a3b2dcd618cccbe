//! The search for the text of an edit: `cargo bench --bench matching`. Compare rows of one run only.
//!
//! What is looked for is not there, so that all of a text is searched; each row says what it is compared with.

#![allow(clippy::print_stdout, clippy::cast_precision_loss)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use abreast::text::{Text, buffer::Buffer, matching, unicode};
use memchr::memmem;

const MB: usize = 1_000_000;
/// A line that is nowhere, like those that are there.
const NEEDLE: &str = "    let total_42 = compute_the(&self.values, 4242);";

/// Source text of some length, with a few signs of typography: one in about 30 lines.
fn source(n_bytes: usize, eol: &str) -> String {
    let mut text = String::with_capacity(n_bytes + 100);
    let mut nth = 0;
    while text.len() < n_bytes {
        text.push_str(&match nth % 30 {
            0 => format!("    // The “value” of {nth} — see below…{eol}"),
            it if it % 3 == 0 => format!("    if total_{nth} > compute(&self.values) {{{eol}"),
            it if it % 3 == 1 => format!("        self.values.push({nth});{eol}"),
            _ => format!("    let total_{nth} = compute_the(&self.values, {nth});{eol}"),
        });
        nth += 7;
    }
    text
}

fn rope(text: &str) -> Text {
    Buffer::new(text, true).text()
}

/// The shortest of some runs.
fn shortest(n_runs: usize, mut run: impl FnMut()) -> Duration {
    let times = (0..n_runs).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

fn flat(text: &str, needle: &str, n_runs: usize) -> Duration {
    let finder = memmem::Finder::new(needle);
    shortest(n_runs, || {
        black_box(finder.find(black_box(text.as_bytes())));
    })
}

fn exact(text: &Text, needle: &str, n_runs: usize) -> Duration {
    shortest(n_runs, || {
        black_box(matching::find(black_box(text), needle, 1000));
    })
}

fn fallback(text: &Text, needle: &str, n_runs: usize) -> Duration {
    shortest(n_runs, || {
        black_box(unicode::find(black_box(text), needle, 1000));
    })
}

/// One row: how long it takes, for how many bytes, and how many times as long as what it is compared with.
fn row(name: &str, n_bytes: usize, time: Duration, (than, base): (&str, Duration), most: f64) {
    let ratio = time.as_secs_f64() / base.as_secs_f64();
    println!(
        "{name:52} {:9.3} ms {:7.2} GB/s {ratio:8.2} x {than:28} (at most {most}){}",
        time.as_secs_f64() * 1e3,
        n_bytes as f64 / time.as_secs_f64() / 1e9,
        if ratio > most { "  MISSED" } else { "" },
    );
}

fn main() {
    let small = source(MB, "\n");
    let small_rope = rope(&small);
    let memmem = flat(&small, NEEDLE, 200);
    let search = exact(&small_rope, NEEDLE, 200);
    row("memmem, 1 MB", small.len(), memmem, ("itself", memmem), 1.0);
    row(
        "search, rope of 1 MB",
        small.len(),
        search,
        ("memmem", memmem),
        4.0,
    );
    let long = format!("{NEEDLE}\n").repeat(100);
    let long_search = exact(&small_rope, &long, 200);
    row(
        "search for 5 KB, rope of 1 MB",
        small.len(),
        long_search,
        ("search", search),
        2.0,
    );
    let crlf_rope = rope(&source(MB, "\r\n"));
    let lines = format!("{NEEDLE}\n{NEEDLE}\n");
    row(
        "search for lines, CRLF, rope of 1 MB",
        crlf_rope.len_bytes(),
        exact(&crlf_rope, &lines, 200),
        ("search", search),
        4.0,
    );

    println!();
    let curly = NEEDLE.replace("_the", "“the”");
    let spaced = small.replace(' ', "\u{A0}");
    let cyrillic = small
        .replace("values", "значение")
        .replace("compute", "вычислить");
    for (name, text, needle) in [
        ("source", &small, NEEDLE),
        ("source, typography asked for", &small, &*curly),
        ("source, CRLF", &source(MB, "\r\n"), NEEDLE),
        ("source with Cyrillic names", &cyrillic, NEEDLE),
        ("every blank a no-break space", &spaced, NEEDLE),
    ] {
        let text = rope(text);
        let search = exact(&text, needle, 100);
        let time = fallback(&text, needle, 100);
        let most = if name.starts_with("every") {
            f64::INFINITY
        } else {
            10.0
        };
        row(
            &format!("fallback, 1 MB of {name}"),
            text.len_bytes(),
            time,
            ("search", search),
            most,
        );
    }

    println!();
    for sign in ["a", "—"] {
        for n_signs in [1_000, 30_000, 300_000] {
            let needle = format!("{}b", sign.repeat(n_signs));
            let [once, twice] = [1, 2].map(|times| {
                let text = rope(&sign.repeat(times * MB));
                (
                    text.len_bytes(),
                    exact(&text, &needle, 5),
                    fallback(&text, &needle, 5),
                )
            });
            let name = format!("{} MB of {sign}, needle of {n_signs} and b", 2 * sign.len());
            row(
                &format!("search, {name}"),
                twice.0,
                twice.1,
                ("half of the text", once.1),
                3.0,
            );
            if sign == "—" {
                row(
                    &format!("fallback, {name}"),
                    twice.0,
                    twice.2,
                    ("half of the text", once.2),
                    3.0,
                );
            }
        }
    }

    println!();
    let large = source(100 * MB, "\n");
    let memmem = flat(&large, NEEDLE, 5);
    row(
        "memmem, 100 MB",
        large.len(),
        memmem,
        ("itself", memmem),
        1.0,
    );
    let large = rope(&large);
    let search = exact(&large, NEEDLE, 5);
    row(
        "search, rope of 100 MB",
        large.len_bytes(),
        search,
        ("memmem", memmem),
        1.0 / 0.12,
    );
    row(
        "fallback, rope of 100 MB",
        large.len_bytes(),
        fallback(&large, &curly, 5),
        ("search", search),
        10.0,
    );
}
