//! The search for the text of an edit, as one table: `cargo bench --bench matching`.
//!
//! What is looked for is not there, so that all of a text is searched. Each figure and its baseline were measured in the
//! same run, in turns; compare ratios, not times.

#![allow(clippy::print_stdout)]

#[path = "yardstick/table.rs"]
// Every row here has a target.
#[allow(dead_code)]
mod table;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use abreast::text::{Text, buffer::Buffer, matching, unicode};
use memchr::memmem;

use self::table::{Row, Target};

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

fn exact(text: &Text, needle: &str) {
    black_box(matching::find(black_box(text), needle, 1000));
}

fn fallback(text: &Text, needle: &str) {
    black_box(unicode::find(black_box(text), needle, 1000));
}

/// The shortest of some runs of a figure and of its baseline, in turns.
fn measure(n_runs: usize, mut value: impl FnMut(), mut baseline: impl FnMut()) -> [Duration; 2] {
    let mut shortest = [Duration::MAX; 2];
    for _ in 0..n_runs {
        let runs: [&mut dyn FnMut(); 2] = [&mut value, &mut baseline];
        for (run, shortest) in runs.into_iter().zip(&mut shortest) {
            let start = Instant::now();
            run();
            *shortest = start.elapsed().min(*shortest);
        }
    }
    shortest
}

fn row(name: impl Into<String>, [value, baseline]: [Duration; 2], most: f64) -> Row {
    table::times(name, (value, baseline), Target::AtMost(most))
}

/// The exact search, of a rope beside the same bytes in one piece; the ratio is that of the speeds.
fn searches(n_mb: usize, n_runs: usize, least: f64) -> Row {
    let flat = source(n_mb * MB, "\n");
    let text = rope(&flat);
    let finder = memmem::Finder::new(NEEDLE);
    let memmem = || {
        black_box(finder.find(black_box(flat.as_bytes())));
    };
    let [search, memmem] = measure(n_runs, || exact(&text, NEEDLE), memmem);
    Row {
        ratio: Some(memmem.as_secs_f64() / search.as_secs_f64()),
        target: Target::AtLeast(least),
        ..row(
            format!("search, {n_mb} MB, speed beside memmem"),
            [search, memmem],
            1.0,
        )
    }
}

fn long_needles() -> [Row; 2] {
    let text = rope(&source(MB, "\n"));
    let long = format!("{NEEDLE}\n").repeat(100);
    let search = || exact(&text, NEEDLE);
    let long_times = measure(200, || exact(&text, &long), search);
    let crlf = rope(&source(MB, "\r\n"));
    let crlf_times = measure(200, || exact(&crlf, &long), search);
    [
        row("search for 5 KB, 1 MB, beside 50 bytes", long_times, 2.0),
        row(
            "search for 5 KB, 1 MB of CRLF, beside 50 bytes",
            crlf_times,
            2.0,
        ),
    ]
}

/// The fallback beside the exact search.
fn fallbacks() -> Vec<Row> {
    let plain = source(MB, "\n");
    let crlf = source(MB, "\r\n");
    let cyrillic = plain
        .replace("values", "значение")
        .replace("compute", "вычислить");
    let spaced = plain.replace(' ', "\u{A0}");
    let chinese = "编辑器里的文件，还没有保存。\n".repeat(MB / 43);
    let curly = NEEDLE.replace("_the", "“the”");
    let signs = "\"“ — ”\"";
    let cases = [
        ("source", &plain, NEEDLE),
        ("source, curly quotes asked for", &plain, &curly),
        ("source, nothing but signs asked for", &plain, signs),
        ("source with CRLF", &crlf, NEEDLE),
        (
            "source with CRLF, nothing but signs asked for",
            &crlf,
            signs,
        ),
        ("source with Cyrillic names", &cyrillic, NEEDLE),
        (
            "source with Cyrillic names, nothing but signs asked for",
            &cyrillic,
            signs,
        ),
        ("every blank a no-break space", &spaced, NEEDLE),
        (
            "every blank a no-break space, nothing but signs asked for",
            &spaced,
            signs,
        ),
        (
            "Chinese, a phrase in quotes asked for",
            &chinese,
            "“还没有文件”",
        ),
    ];
    let rows = cases.map(|(name, text, needle)| {
        let text = rope(text);
        let times = measure(100, || fallback(&text, needle), || exact(&text, needle));
        row(format!("fallback, 1 MB, {name}"), times, 10.0)
    });
    rows.into()
}

/// Searches in what is nearly the needle everywhere, beside the same in half as much.
fn worst_cases() -> Vec<Row> {
    let mut rows = Vec::new();
    for (sign, last) in [("a", "b"), ("—", "b"), ("—", "“")] {
        for n_signs in [1_000, 30_000, 300_000] {
            let needle = format!("{}{last}", sign.repeat(n_signs));
            let [half, whole] = [1, 2].map(|times| rope(&sign.repeat(times * MB)));
            let name =
                format!("{n_signs} {sign} and {last} in 2 million {sign}, beside half of it");
            let times = measure(5, || exact(&whole, &needle), || exact(&half, &needle));
            rows.push(row(format!("search, {name}"), times, 3.0));
            if sign == "—" {
                let times = measure(5, || fallback(&whole, &needle), || fallback(&half, &needle));
                rows.push(row(format!("fallback, {name}"), times, 3.0));
            }
        }
    }
    rows
}

fn main() {
    let mut rows = vec![searches(1, 200, 0.25), searches(100, 5, 0.12)];
    rows.extend(long_needles());
    rows.extend(fallbacks());
    rows.extend(worst_cases());
    println!("\n{}", table::render(&rows));
}
