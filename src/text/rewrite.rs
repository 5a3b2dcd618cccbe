//! Writing a view text over a span, line ends kept.

use std::ops::Range;

use super::{Text, splice::Splice};

/// Replaces a hit by a view text.
pub fn replace(text: &Text, hit: Range<usize>, new: &str) -> Vec<Splice> {
    let _ = (text, hit, new);
    unimplemented!()
}

/// Replaces everything by a content.
pub fn overwrite(text: &Text, content: &str) -> Vec<Splice> {
    let _ = (text, content);
    unimplemented!()
}
