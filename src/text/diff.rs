//! What differs between two texts: splices, hunks, lines.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Text, splice::Splices};

/// A hunk in the unified format.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// The first old line, or the line before it all if `old_lines` is 0.
    pub old_start: usize,
    /// The number of old lines.
    pub old_lines: usize,
    /// The first new line, or the line before it all if `new_lines` is 0.
    pub new_start: usize,
    /// The number of new lines.
    pub new_lines: usize,
    /// The lines, prefixed by a blank, `-` or `+`; or `\ No newline at end of file`.
    pub lines: Vec<String>,
}

/// The hunks of a known change.
pub fn hunks(old: &Text, new: &Text, splices: &Splices) -> Vec<Hunk> {
    let _ = (old, new, splices);
    unimplemented!()
}

/// Renders hunks as a patch; tells whether it was cut.
pub fn unified(path: &str, hunks: &[Hunk], max_bytes: usize) -> (String, bool) {
    let _ = (path, hunks, max_bytes);
    unimplemented!()
}

/// Finds a change of unknown origin.
pub fn diff(old: &Text, new: &Text) -> Splices {
    let _ = (old, new);
    unimplemented!()
}

/// The 1-based, inclusive lines of `new` that differ.
pub fn changed_ranges(old: &Text, new: &Text) -> Vec<(usize, usize)> {
    let _ = (old, new);
    unimplemented!()
}

/// Whether `actual` is `planned` but for changes that leave every span intact.
pub fn keeps(planned: &Text, actual: &Text, spans: &[Range<usize>]) -> bool {
    let _ = (planned, actual, spans);
    unimplemented!()
}
