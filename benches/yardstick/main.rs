//! What everything costs, beside what it cannot do without: `cargo bench --bench yardstick`.
//!
//! Each figure and its baseline were measured in the same run, in turns; compare ratios, not times. What the rows mean
//! is said in `benches/README.md`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss
)]

mod clock;
mod documents;
mod driver;
mod longest;
mod memory;
mod peer;
mod table;
mod wire;

use std::{env, process::ExitCode};

type Part = fn() -> Vec<table::Row>;

fn main() -> ExitCode {
    if let Some(code) = peer::serve() {
        return code;
    }
    let wanted: Vec<String> = env::args()
        .skip(1)
        .filter(|it| !it.starts_with('-'))
        .collect();
    let parts: [(&str, Part); 4] = [
        ("documents", documents::rows),
        ("longest", longest::rows),
        ("wire", wire::rows),
        ("memory", memory::rows),
    ];
    let mut rows = Vec::new();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|it| it == name) {
            eprintln!("yardstick: {name}");
            rows.extend(part());
        }
    }
    println!("\n{}", table::render(&rows));
    ExitCode::SUCCESS
}
