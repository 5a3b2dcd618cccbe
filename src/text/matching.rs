//! Finding the text an agent wants to replace.

use std::ops::Range;

use super::Text;
pub use super::rewrite::{overwrite, replace};

/// Where a text occurs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hits {
    /// The places, in raw bytes; they may overlap.
    pub ranges: Vec<Range<usize>>,
    /// Whether the search came to the end of the text; else there may be more.
    pub complete: bool,
}

/// Finds a needle, a view text of at least one character; stops after `most` hits.
pub fn find(text: &Text, needle: &str, most: usize) -> Hits {
    let _ = (text, needle, most);
    unimplemented!()
}
