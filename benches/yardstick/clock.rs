//! Time, as far as it can be told apart from that of other processes on the machine.
//!
//! Invariant: what is compared was measured in alternating rounds of one run; of many rounds a low quantile counts,
//! because whatever disturbs a round makes it longer.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time that this thread has used.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a thread's time is positive")
}

/// Runs `f` and returns its CPU time.
pub(crate) fn cpu_of<T>(f: impl FnOnce() -> T) -> (T, Duration) {
    let start = thread_cpu();
    let result = f();
    (result, thread_cpu().saturating_sub(start))
}

/// The tenth part of the rounds is faster than this.
pub(crate) fn low(mut rounds: Vec<Duration>) -> Duration {
    rounds.sort_unstable();
    rounds[rounds.len() / 10]
}

/// Alternates rounds of two things; each returns what its round took.
pub(crate) fn versus(
    n_rounds: usize,
    mut value: impl FnMut(usize) -> Duration,
    mut baseline: impl FnMut(usize) -> Duration,
) -> (Duration, Duration) {
    let (mut values, mut baselines) = (Vec::new(), Vec::new());
    for round in 0..n_rounds {
        // Whoever comes second finds warmer caches, or colder ones.
        if round % 2 == 0 {
            values.push(value(round));
            baselines.push(baseline(round));
        } else {
            baselines.push(baseline(round));
            values.push(value(round));
        }
    }
    (low(values), low(baselines))
}
