//! Deterministic simulation: the pure core among models of people, an editor, a disk and several agents.
//!
//! A run is a setup and a list of actions ([`action`]). [`chance`] makes up runs from seeds; [`world`] plays them;
//! [`oracle`] says what must be so after each step, and when everything has come to rest. A run that breaks an
//! invariant is shrunk by leaving out actions, and printed as Rust, ready to be pasted into `found`.
//!
//! [`breaks`] plays the same among deliberate faults of the core, to see that each of them is caught.
//!
//! `ABREAST_TEST_SCALE` scales the number of runs; `ABREAST_TEST_SEED` plays one of them; with `ABREAST_TEST_FAILURES`
//! above 1 all of them are played, and what failed is counted.

mod action;
mod breaks;
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
    collections::BTreeMap,
    fmt::Write,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use action::{Action, Setup};
use chance::Chances;
use oracle::{Checked, Invariant, Violation};
use random::Random;
use world::World;

/// The first seed; the others follow.
const BASE_SEED: u64 = 0xAB5E_A575;
const N_RUNS: u64 = 12_000;
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
    actions: Vec<Action>,
}

impl Run {
    fn play(&self, trace: bool) -> (u64, Checked) {
        let mut n_events = 0;
        let outcome = guarded(|| {
            let mut world = World::new(self.setup, &self.files);
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
            "Run {{\n    setup: {:?},\n    files: vec!{:?},\n    actions: vec![\n",
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
        actions: Vec::new(),
    };
    let mut n_events = 0;
    let actions = &mut run.actions;
    let outcome = guarded(|| {
        let mut world = World::new(setup, &files);
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

/// Does `n` pieces of work on all cores, by number, until one says that it is enough.
fn on_all_cores(n: u64, work: impl Fn(u64) -> bool + Sync) {
    let next = AtomicU64::new(0);
    let is_enough = AtomicBool::new(false);
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                while !is_enough.load(Ordering::Relaxed) {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= n {
                        return;
                    }
                    if work(nth) {
                        is_enough.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// How much longer than usual the long tests are to take.
pub(crate) fn scale() -> f64 {
    variable("ABREAST_TEST_SCALE").unwrap_or(1.0)
}

#[test]
fn no_interleaving_breaks_a_rule() {
    hush();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )]
    let n_runs = (N_RUNS as f64 * scale()) as u64;
    let (first, n_runs) =
        variable("ABREAST_TEST_SEED").map_or((BASE_SEED, n_runs), |seed: u64| (seed, 1));
    let counts_all = variable("ABREAST_TEST_FAILURES").is_some_and(|most: u64| most > 1);
    let started = Instant::now();
    let n_events = AtomicU64::new(0);
    let failures: Mutex<BTreeMap<u64, Violation>> = Mutex::default();
    on_all_cores(n_runs, |nth| {
        let (_, n, outcome) = explore(first + nth);
        n_events.fetch_add(n, Ordering::Relaxed);
        let Err(violation) = outcome else {
            return false;
        };
        let mut failures = failures.lock().expect("nobody panics");
        failures.insert(first + nth, violation);
        !counts_all
    });
    let failures = failures.into_inner().expect("nobody panics");
    eprintln!(
        "{} events of {n_runs} runs in {:?}",
        n_events.into_inner(),
        started.elapsed()
    );
    if counts_all {
        let mut kinds: BTreeMap<String, (usize, u64)> = BTreeMap::new();
        for (seed, violation) in &failures {
            let name = violation.to_string().chars().take(60).collect();
            kinds.entry(name).or_insert((0, *seed)).0 += 1;
        }
        for (name, (n, seed)) in kinds {
            eprintln!("{n} times, seed {seed}: {name}");
        }
    }
    let Some((&seed, violation)) = failures.first_key_value() else {
        return;
    };
    let mut run = explore(seed).0;
    let shrunk = run.shrink(violation.invariant);
    run.play(true).1.ok();
    panic!("seed {seed}: {violation}\nshrunk: {shrunk}\n{}", run.rust());
}
