//! Every deliberate fault of the core is caught, and every invariant is needed to catch one.
//!
//! `breaks.md` says which invariant catches a fault first, and in which run; `UPDATE_EXPECT=1` writes it.

use std::{collections::BTreeMap, fmt::Write, sync::Mutex};

use expect_test::expect_file;

use super::{BASE_SEED, explore, hush, on_all_cores, oracle::Invariant};
use crate::breaks::{self, Break};

/// How many runs a fault may go unnoticed; those that need a rare coincidence may longer.
fn budget(fault: Break) -> u64 {
    match fault {
        Break::EpochIgnored | Break::HandOverAnything | Break::UnknownIsFailed => 10_000,
        Break::OnlyFirstTakenBack | Break::LeftIsNotTold => 6000,
        _ => 3000,
    }
}

/// The first run that notices the fault, and how.
fn catch(fault: Break) -> Option<(u64, Invariant)> {
    breaks::switch(Some(fault));
    let mut runs = 0..budget(fault);
    let caught = runs.find_map(|nth| {
        let violation = explore(BASE_SEED + nth).2.err()?;
        Some((nth, violation.invariant))
    });
    breaks::switch(None);
    caught
}

#[test]
fn every_break_is_caught_and_every_invariant_is_the_first_to_catch_one() {
    hush();
    let caught = Mutex::new(BTreeMap::new());
    on_all_cores(Break::ALL.len() as u64, |nth| {
        let nth = usize::try_from(nth).expect("few faults");
        let outcome = catch(Break::ALL[nth]);
        caught.lock().expect("nobody panics").insert(nth, outcome);
        false
    });
    let caught = caught.into_inner().expect("nobody panics");
    let mut table = String::from(
        "Deliberate faults of the core (`src/breaks.rs` says what each does), the invariant that catches it first, and \
         in which run of the simulation.\n\n| fault | caught by | run |\n|---|---|---|\n",
    );
    for (nth, outcome) in &caught {
        let fault = Break::ALL[*nth];
        let _ = match outcome {
            Some((run, invariant)) => writeln!(table, "| {fault:?} | {invariant:?} | {run} |"),
            None => writeln!(table, "| {fault:?} | - | - |"),
        };
    }
    eprintln!("{table}");
    let missed: Vec<Break> = (caught.iter().filter(|it| it.1.is_none()))
        .map(|it| Break::ALL[*it.0])
        .collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
    let idle: Vec<&Invariant> = Invariant::ALL
        .iter()
        .filter(|invariant| caught.values().flatten().all(|it| it.1 != **invariant))
        .collect();
    assert!(idle.is_empty(), "the first for no fault: {idle:?}");
    expect_file!["breaks.md"].assert_eq(&table);
}
