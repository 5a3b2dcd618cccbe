//! Everything through a real server process: one binary, because it links once.
//!
//! `ABREAST_TEST_SCALE` (a number, default 1) scales how many rounds the long tests play; `ABREAST_TEST_SERVER`
//! (a command line) tests another server.

#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]
#![allow(unreachable_pub, reason = "`pub` marks what the other modules use")]

mod cancel;
mod cases;
mod command_line;
#[cfg(unix)]
mod containment;
#[cfg(unix)]
mod descriptors;
mod documents;
#[cfg(unix)]
mod dsh;
#[cfg(unix)]
mod dsh_edits;
mod editors;
mod errors;
mod fuzz;
mod grok;
mod hostile;
#[cfg(unix)]
mod killed;
mod ledger;
mod lifecycle;
mod misses;
#[cfg(unix)]
mod nvim;
mod ordering;
mod protocol;
mod races;
mod reads;
mod rollback;
mod rules;
mod sessions;
mod stress;
mod support;
mod watching;
