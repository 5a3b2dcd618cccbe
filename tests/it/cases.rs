//! All of `tests/cases`.

use std::path::Path;

use abreast::replay;

use crate::support::server;

/// Cases whose outcome needs the Unicode fallback; they may fail until it is there.
const NEED_UNICODE_FALLBACK: [&str; 5] = [
    "R27-curly-with-fallback",
    "R27-fallback-ambiguous",
    "R28-nbsp-with-fallback",
    "R30-fallback-changes-nothing-else",
    "R52-decomposed-accents-with-fallback",
];

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
                let is_tolerated = NEED_UNICODE_FALLBACK.contains(&id.as_str());
                let unexpected = outcome.failures.iter().filter(|_| !is_tolerated);
                failures.extend(unexpected.map(|it| format!("{id}, {}: {}", it.place, it.what)));
            }
            Err(error) => failures.push(format!("{id}: {error}")),
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
