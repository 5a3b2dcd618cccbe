//! All of `tests/cases`.

use std::path::Path;

use abreast::replay;

use crate::support::server;

#[test]
fn every_case_comes_out_as_it_says() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let sources = replay::load(&[directory]).unwrap();
    assert!(
        sources.len() >= 168,
        "only {} cases are there",
        sources.len()
    );
    let mut failures = Vec::new();
    replay::play_all(&sources, &server(), |source, result| {
        let id = source.id();
        match result {
            Ok(outcome) => {
                let failed = outcome.failures.iter();
                failures.extend(failed.map(|it| format!("{id}, {}: {}", it.place, it.what)));
            }
            Err(error) => failures.push(format!("{id}: {error}")),
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
