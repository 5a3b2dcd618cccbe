//! The opaque freshness token of a content.
//!
//! Invariant: two contents have equal versions exactly when their *view texts* are equal: line ends
//! as LF, no byte order mark. So an undo, a touch, a re-save, an identical rewrite or a change of
//! line ends alone is not a change. Never derived from times or sizes.

use std::fmt;

use crate::text::Text;

/// The first 16 bytes of the BLAKE3 hash of a view text; written `b3:` and 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version([u8; 16]);

impl Version {
    /// Computes the version of a text; O(n), about 1 GB/s on a rope.
    #[must_use]
    pub fn of(text: &Text) -> Self {
        let mut hasher = blake3::Hasher::new();
        text.for_each_view_block(|block| {
            hasher.update(block);
        });
        let mut token = [0; 16];
        token.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(token)
    }

    /// Parses `b3:` and 32 lower-case hex digits.
    #[must_use]
    pub fn parse(token: &str) -> Option<Self> {
        let digits = token.strip_prefix("b3:")?;
        if digits.len() != 32 || digits.bytes().any(|it| it.is_ascii_uppercase()) {
            return None;
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("b3:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
