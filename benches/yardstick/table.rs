//! The table that is printed at the end.

use std::{fmt::Write, time::Duration};

/// What a ratio should be.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// Only shown.
    None,
}

/// One figure beside what it is compared with.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) baseline: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) target: Target,
}

/// A row of two times; the ratio is value by baseline.
pub(crate) fn times(
    name: impl Into<String>,
    (value, baseline): (Duration, Duration),
    target: Target,
) -> Row {
    Row {
        name: name.into(),
        value: time(value),
        baseline: time(baseline),
        ratio: Some(value.as_secs_f64() / baseline.as_secs_f64()),
        target,
    }
}

/// A time in the unit that suits it.
pub(crate) fn time(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    if us < 1000.0 {
        format!("{us:.2} us")
    } else {
        format!("{:.2} ms", us / 1000.0)
    }
}

/// Renders rows as a Markdown table.
pub(crate) fn render(rows: &[Row]) -> String {
    let cells: Vec<[String; 6]> = std::iter::once(
        ["figure", "value", "baseline", "ratio", "target", "holds"].map(String::from),
    )
    .chain(rows.iter().map(cells))
    .collect();
    let mut widths = [0; 6];
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut table = String::new();
    for (idx, row) in cells.iter().enumerate() {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(table, "| {cell:width$} ");
        }
        table.push_str("|\n");
        if idx == 0 {
            for width in widths {
                let _ = write!(table, "|{}", "-".repeat(width + 2));
            }
            table.push_str("|\n");
        }
    }
    table
}

fn cells(row: &Row) -> [String; 6] {
    let (target, holds) = match row.target {
        Target::AtMost(most) => (
            format!("<= {most}"),
            row.ratio.map_or("not measured", |it| yes_no(it <= most)),
        ),
        Target::AtLeast(least) => (
            format!(">= {least}"),
            row.ratio.map_or("not measured", |it| yes_no(it >= least)),
        ),
        Target::None => (String::new(), ""),
    };
    [
        row.name.clone(),
        row.value.clone(),
        row.baseline.clone(),
        row.ratio.map_or(String::new(), |it| format!("{it:.2}")),
        target,
        holds.to_string(),
    ]
}

fn yes_no(holds: bool) -> &'static str {
    if holds { "yes" } else { "NO" }
}
