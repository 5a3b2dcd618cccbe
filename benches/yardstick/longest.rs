//! The longest time that one event takes of the thread that takes them all.
//!
//! The same script runs several times over a document of 100 MB; of each event the shortest of its times counts.

use std::{collections::BTreeMap, time::Duration};

use abreast::{
    protocol::{LedgerParams, ObserveParams},
    workspace::Request,
};

use crate::{
    driver::{Driver, Manner, URI, edits_of, text},
    table::{Row, Target, time},
};

const N_BYTES: usize = 100_000_000;
const N_RUNS: usize = 3;
const MOST: Duration = Duration::from_millis(2);

/// All rows of this module.
pub(crate) fn rows() -> Vec<Row> {
    let mut shortest: Vec<(&'static str, Duration)> = Vec::new();
    for run in 1..=N_RUNS {
        eprintln!("  script, run {run} of {N_RUNS}");
        let text = text(N_BYTES);
        let n_lines = text.lines().count();
        let mut driver = Driver::new(text);
        driver.handled.clear();
        script(&mut driver, n_lines);
        if shortest.is_empty() {
            shortest = driver.handled;
            continue;
        }
        assert_eq!(
            shortest.len(),
            driver.handled.len(),
            "the script is the same"
        );
        for (least, now) in shortest.iter_mut().zip(&driver.handled) {
            assert_eq!(least.0, now.0, "the script is the same");
            least.1 = least.1.min(now.1);
        }
    }
    let mut longest: BTreeMap<&'static str, Duration> = BTreeMap::new();
    for &(name, time) in &shortest {
        let longest = longest.entry(name).or_default();
        *longest = time.max(*longest);
    }
    let mut rows: Vec<(&'static str, Duration)> = longest.into_iter().collect();
    rows.sort_by_key(|it| std::cmp::Reverse(it.1));
    rows.into_iter()
        .map(|(name, longest)| Row {
            name: format!("longest {name} while 100 MB are worked on"),
            value: time(longest),
            baseline: time(MOST),
            ratio: Some(longest.as_secs_f64() / MOST.as_secs_f64()),
            target: Target::AtMost(1.0),
        })
        .collect()
}

/// Reads, edits, hashes and compares, with everything that an editor and a human can do meanwhile.
fn script(driver: &mut Driver, n_lines: usize) {
    let [edit, back] = [false, true].map(|back| edits_of(n_lines, 1, back));
    let [many, many_back] = [false, true].map(|back| edits_of(n_lines, 20, back));
    driver.reads(1);
    driver.reads(n_lines / 2);
    driver.types(n_lines / 3, "typed");
    driver.tells();
    driver.reads(n_lines / 3);
    driver.edits(&edit).expect("fresh");
    driver.tells();
    driver.edits(&many).expect("fresh");
    driver.edits(&many_back).expect("fresh");
    driver.tells();
    // Stale: what changed is told.
    driver.types(n_lines / 4, "typed\n");
    driver.edits(&back).expect_err("stale");
    driver.tells();
    let ledger = LedgerParams {
        session_id: "s".to_string(),
        path: None,
        export: false,
    };
    driver.succeeds("ledger", Request::Ledger(ledger));
    let observe = ObserveParams {
        session_id: "s".to_string(),
        path: URI.to_string(),
        version: None,
        document_version: None,
        text: None,
    };
    driver.succeeds("observe", Request::Observe(observe));
    driver
        .edits(&[("nowhere in it".to_string(), String::new())])
        .expect_err("not found");
    for manner in [
        Manner::TypesFirst,
        Manner::Refuses,
        Manner::TypesAndRefuses,
        Manner::Lies,
        Manner::IsLate,
    ] {
        driver.reads(1);
        driver.manner = manner;
        // What comes of it differs; what it takes is what is looked at.
        let _ = driver.edits(&back);
        driver.tells();
        driver.manner = Manner::Applies;
        driver.reads(1);
        let _ = driver.edits(&edit);
        driver.tells();
    }
    for n in 0..100 {
        driver.types(n * 997 % n_lines, "x");
    }
    driver.tells();
}
