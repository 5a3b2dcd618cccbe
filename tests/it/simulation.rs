//! Deterministic simulation: the pure core among models of people, an editor, a disk and several agents.
//!
//! A run is a setup and a list of actions ([`action`]). [`chance`] makes up runs from seeds; [`world`] plays them;
//! [`oracle`] says what must be so after each step, and when everything has come to rest. A run that breaks an
//! invariant is shrunk by leaving out actions, and printed as Rust, ready to be pasted into `found`.
//!
//! `ABREAST_TEST_SCALE` scales the number of runs; `ABREAST_TEST_SEED` plays one of them.

mod action;
mod chance;
mod editor;
mod files;
mod found;
mod oracle;
mod plan;
mod random;
mod text;
mod world;

use std::{
    cell::Cell,
    fmt::Write,
    panic::{self, AssertUnwindSafe},
    time::{Duration, Instant},
};

use action::{Action, Setup};
use chance::Chances;
use oracle::{Checked, Invariant, Violation};
use random::Random;
use world::World;

/// The first seed; the others follow.
const BASE_SEED: u64 = 0xAB5E_A575;
const N_RUNS: u64 = 5000;
const N_ACTIONS: usize = 200;
const SHRINK: Duration = Duration::from_secs(20);

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// A run as it can be played again.
#[derive(Debug, Clone)]
struct Run {
    setup: Setup,
    files: Vec<&'static str>,
    lenient: bool,
    actions: Vec<Action>,
}

impl Run {
    fn play(&self, trace: bool) -> (u64, Checked) {
        let mut n_events = 0;
        let outcome = guarded(|| {
            let mut world = World::new(self.setup, &self.files, self.lenient);
            world.trace = trace;
            let outcome = self
                .actions
                .iter()
                .try_for_each(|it| world.play(it))
                .and_then(|()| world.rest());
            n_events = world.n_events;
            outcome
        });
        (n_events, outcome)
    }

    /// Leaves out what does not matter.
    fn shrink(&mut self, invariant: Invariant) -> Violation {
        let until = Instant::now() + SHRINK;
        let mut violation = self.play(false).1.expect_err("it fails");
        let mut chunk = self.actions.len().div_ceil(2);
        while chunk > 0 && Instant::now() < until {
            let mut from = 0;
            let mut is_smaller = false;
            while from < self.actions.len() && Instant::now() < until {
                let mut less = self.clone();
                less.actions
                    .drain(from..(from + chunk).min(self.actions.len()));
                match less.play(false).1 {
                    Err(err) if err.invariant == invariant => {
                        *self = less;
                        violation = err;
                        is_smaller = true;
                    }
                    _ => from += chunk,
                }
            }
            if !is_smaller || chunk > 1 {
                chunk /= 2;
            }
        }
        violation
    }

    fn rust(&self) -> String {
        let mut text = format!(
            "Run {{\n    setup: {:?},\n    files: vec!{:?},\n    lenient: false,\n    actions: vec![\n",
            self.setup, self.files
        );
        for action in &self.actions {
            let _ = writeln!(text, "        {action:?},");
        }
        text.push_str("    ],\n}");
        text
    }
}

/// Makes a panic of the core a violation.
fn guarded(run: impl FnOnce() -> Checked) -> Checked {
    IS_QUIET.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(run));
    IS_QUIET.set(false);
    outcome.unwrap_or_else(|_| {
        let detail = PANIC.take().unwrap_or_default();
        Err(Violation {
            invariant: Invariant::Panic,
            detail,
        })
    })
}

fn hush() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_QUIET.get() {
                PANIC.set(Some(info.to_string()));
            } else {
                loud(info);
            }
        }));
    });
}

/// Makes up a run and plays it.
fn explore(seed: u64) -> (Run, u64, Checked) {
    let mut random = Random::new(seed);
    let (setup, files) = chance::setup(&mut random);
    let chances = Chances::new(setup, &mut random);
    let mut run = Run {
        setup,
        files: files.clone(),
        lenient: chance::KNOWN,
        actions: Vec::new(),
    };
    let mut n_events = 0;
    let actions = &mut run.actions;
    let outcome = guarded(|| {
        let mut world = World::new(setup, &files, chance::KNOWN);
        let mut outcome = Ok(());
        for _ in 0..N_ACTIONS {
            let action = chances.choose(&world, &mut random);
            actions.push(action.clone());
            outcome = world.play(&action);
            if outcome.is_err() {
                break;
            }
        }
        let outcome = outcome.and_then(|()| world.rest());
        n_events = world.n_events;
        outcome
    });
    (run, n_events, outcome)
}

#[test]
#[allow(clippy::print_stderr)]
fn no_interleaving_breaks_a_rule() {
    hush();
    let variable = |name: &str| std::env::var(name).ok();
    let scale: f64 = variable("ABREAST_TEST_SCALE")
        .and_then(|it| it.parse().ok())
        .unwrap_or(1.0);
    let only: Option<u64> = variable("ABREAST_TEST_SEED").and_then(|it| it.parse().ok());
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    let n_runs = (N_RUNS as f64 * scale) as u64;
    let seeds = only.map_or(BASE_SEED..BASE_SEED + n_runs, |it| it..it + 1);
    let started = Instant::now();
    let mut n_events = 0;
    let most: usize = variable("ABREAST_TEST_FAILURES")
        .and_then(|it| it.parse().ok())
        .unwrap_or(1);
    let mut found: std::collections::BTreeMap<String, (usize, u64)> =
        std::collections::BTreeMap::new();
    for seed in seeds {
        let (mut run, n, outcome) = explore(seed);
        n_events += n;
        let Err(violation) = outcome else { continue };
        if most > 1 {
            let name = violation.to_string().chars().take(60).collect();
            let it = found.entry(name).or_insert((0, seed));
            it.0 += 1;
            continue;
        }
        let violation_was = violation.to_string();
        let violation = run.shrink(violation.invariant);
        run.play(true).1.ok();
        panic!(
            "seed {seed}: {violation_was}\nshrunk: {violation}\n{}",
            run.rust()
        );
    }
    eprintln!("{n_events} events in {:?}", started.elapsed());
    for (name, (n, seed)) in &found {
        eprintln!("{n} times, seed {seed}: {name}");
    }
    assert!(found.is_empty());
}
