//! From which size on work on a text is not done at once.
//!
//! Invariant: what is below takes well under a millisecond. The simulation moves the limit, so that work that is given
//! away, and what is typed meanwhile, is played with small texts.

const LIMIT_BYTES: usize = 256 << 10;

#[cfg(test)]
thread_local! {
    static MOVED_LIMIT_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(LIMIT_BYTES) };
}

#[cfg(not(test))]
const fn limit_bytes() -> usize {
    LIMIT_BYTES
}

#[cfg(test)]
fn limit_bytes() -> usize {
    MOVED_LIMIT_BYTES.get()
}

/// Moves the limit, in this thread; none: to where it is in earnest.
#[cfg(test)]
pub(crate) fn set_limit(bytes: Option<usize>) {
    MOVED_LIMIT_BYTES.set(bytes.unwrap_or(LIMIT_BYTES));
}

/// True if looking at so many bytes takes too long to do it at once.
pub(crate) fn is_large(bytes: usize) -> bool {
    bytes > limit_bytes()
}
