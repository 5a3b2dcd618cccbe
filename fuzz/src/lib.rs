//! What is fuzzed: each function makes a case of some bytes, and panics if the case goes wrong.
//!
//! `cargo +nightly fuzz run NAME` runs the function of that name; `tests/it/fuzz.rs` has these very functions, and runs
//! them briefly on random bytes. What is right is what the `twin` says, which is slow and shares nothing with the crate.

mod editing;
mod frames;
mod positions;
mod source;
mod twin;

use abreast::text::{Text, matching, unicode};

use self::source::{Source, both};
pub use self::{editing::editing, frames::frame_reader, positions::positions};

/// A text is found wherever comparing everywhere finds it.
pub fn search(data: &[u8]) {
    let mut source = Source::new(data);
    let raw = source.document();
    let needle = source.needle(&raw);
    let mut expected = twin::exact(&raw, &needle);
    let most = source.most();
    let complete = expected.len() < most;
    expected.truncate(most);
    for text in both(&raw) {
        let hits = matching::find(&text, &needle, most);
        assert_eq!(hits.ranges, expected, "{needle:?} in {raw:?}");
        assert_eq!(hits.complete, complete, "{needle:?} in {raw:?}");
    }
}

/// What is written otherwise but means the same is found wherever comparing every span finds it.
pub fn folding(data: &[u8]) {
    let mut source = Source::new(data);
    let raw = source.document();
    let needle = source.needle(&raw);
    let is_ascii = raw.is_ascii() && needle.is_ascii();
    let mut expected = if is_ascii {
        Vec::new()
    } else {
        twin::alike(&raw, &needle)
    };
    let most = source.most();
    let complete = expected.len() <= most;
    expected.truncate(most);
    for text in both(&raw) {
        let hits = unicode::find(&text, &needle, most);
        assert_eq!(hits.ranges(), expected, "{needle:?} in {raw:?}");
        assert_eq!(hits.complete, complete, "{needle:?} in {raw:?}");
    }
    let is_whole = twin::is_alike(&raw, &needle);
    assert_eq!(
        unicode::alike(&raw, &needle),
        is_whole,
        "{needle:?} and {raw:?}"
    );
    for range in twin::exact(&raw, &needle).into_iter().take(3) {
        let splits = unicode::splits_a_character(&Text::flat(&*raw), &range);
        assert_eq!(
            splits,
            twin::splits_a_segment(&raw, &range),
            "{needle:?} in {raw:?}"
        );
    }
}
