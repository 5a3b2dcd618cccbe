//! Characters that an editor which counts in UTF-16 reports in two halves.

use super::{reports::span, *};

const PATH: &str = "/w/a.txt";
/// The halves of 😀; 😁 begins with the same one.
const FIRST: u16 = 0xD83D;
const SECOND: u16 = 0xDE00;
const OTHER_SECOND: u16 = 0xDE01;

fn bench(text: &str) -> Bench {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.workspace.client.encoding = Encoding::Utf16;
    bench.open_with(PATH, text);
    bench
}

impl Bench {
    fn type_half(&mut self, character: u32, unit: u16) {
        let at = span(0, character..character);
        self.report(PATH, at, "\u{FFFD}", Some((0, unit)));
    }
}

#[test]
fn two_characters_that_arrive_in_four_halves_are_whole_again() {
    let mut bench = bench("<>");
    // Their first halves stand side by side for a while.
    for (character, unit) in [(1, FIRST), (2, FIRST), (2, SECOND), (4, OTHER_SECOND)] {
        bench.type_half(character, unit);
    }
    assert_eq!(bench.read(PATH).text, "<😀😁>");
}

#[test]
fn a_half_stays_where_it_is_whatever_is_replaced_before_it() {
    for (old, new, expected) in [
        (0..2, "é", "é<😀>"),
        (0..1, "123", "123b<😀>"),
        (1..2, "", "a<😀>"),
    ] {
        let mut bench = bench("ab<>");
        bench.type_half(3, FIRST);
        let n_before =
            3 + u32::try_from(new.chars().count()).expect("short") - (old.end - old.start);
        bench.report(PATH, span(0, old), new, None);
        bench.type_half(n_before + 1, SECOND);
        assert_eq!(bench.read(PATH).text, expected);
    }
}

#[test]
fn a_half_can_come_behind_other_text() {
    let mut bench = bench("<>");
    bench.report(PATH, span(0, 1..1), "xy\u{FFFD}", Some((2, FIRST)));
    bench.type_half(4, SECOND);
    assert_eq!(bench.read(PATH).text, "<xy😀>");
}

#[test]
fn half_a_character_that_nothing_completes_is_asked_for_when_it_is_read() {
    let mut bench = bench("<>");
    bench.type_half(1, FIRST);
    assert!(bench.queue.is_empty(), "the other half may come");
    bench.ask_to_read(PATH);
    bench.up_to("abreast/sync");
    bench.wait();
    assert_eq!(bench.ended(), Some(Code::FsDesynced));
    bench.check_full_is_asked_for(PATH);
    bench.report_full(PATH, "<😀>");
    assert_eq!(bench.read(PATH).text, "<😀>");
}

#[test]
fn a_half_within_a_character_is_not_put_beside_it() {
    let mut bench = bench("😀");
    bench.type_half(1, OTHER_SECOND);
    bench.check_full_is_asked_for(PATH);
    bench.report_full(PATH, "😁😀");
    assert_eq!(bench.read(PATH).text, "😁😀");
}

#[test]
fn a_character_that_is_typed_in_halves_while_an_edit_is_out_and_removed_is_none() {
    let mut bench = bench("alpha\n");
    bench.read(PATH);
    bench.ask_to_edit("s", PATH, "alpha", "beta");
    let (ask, _) = bench.up_to("workspace/applyEdit");
    bench.type_half(0, FIRST);
    bench.type_half(1, SECOND);
    bench.report(PATH, span(0, 0..2), "", None);
    let answer = Ok(json!({ "applied": false }));
    bench.arrive(Event::Answered { ask, answer });
    bench.settle();
    assert_eq!(bench.ended(), None);
    assert_eq!(bench.documents[PATH].text, "beta\n");
}
