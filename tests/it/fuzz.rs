//! The fuzz targets of `fuzz/`, the very same functions, on random bytes: enough to see that they hold, and the
//! comparison of matching with brute force. `ABREAST_TEST_SCALE=20` is the full measure of a million edits.

use proptest::{
    collection::vec,
    prelude::any,
    test_runner::{Config, TestRunner},
};

use crate::support::scaled;

#[path = "../../fuzz/src/lib.rs"]
mod targets;

/// Most bytes of a case.
const MOST_BYTES: usize = 64;

/// Runs a target; a failure is shown with the shortest bytes that still fail.
#[track_caller]
fn check(n_cases: usize, target: fn(&[u8])) {
    let mut runner = TestRunner::new(Config {
        cases: u32::try_from(scaled(n_cases)).unwrap(),
        failure_persistence: None,
        ..Config::default()
    });
    let bytes = vec(any::<u8>(), 0..MOST_BYTES);
    runner
        .run(&bytes, |bytes| {
            target(&bytes);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_search_finds_what_brute_force_finds() {
    check(20_000, targets::search);
}

#[test]
fn the_fallback_finds_what_brute_force_finds() {
    check(20_000, targets::folding);
}

#[test]
fn an_edit_does_what_brute_force_says_and_changes_no_other_byte() {
    check(50_000, targets::editing);
}

#[test]
fn positions_are_those_that_counting_finds() {
    check(5_000, targets::positions);
}

#[test]
fn any_stream_is_cut_into_the_same_frames() {
    check(10_000, targets::frame_reader);
}

#[test]
fn a_line_feed_that_an_edit_keeps_makes_no_break_of_the_carriage_return_before_it() {
    // A dash after `\r\r\n` is taken away by the fallback.
    targets::editing(&[
        227, 252, 25, 85, 142, 32, 1, 0, 0, 57, 27, 156, 64, 63, 0, 47, 11, 7, 0, 0, 11, 20, 43,
        105, 21, 81, 115, 0, 157, 0, 0,
    ]);
}
