//! Abreast is an editor sidecar: it lets AI agents and people edit the same files at the same time without either one
//! writing over text that it has not seen.
//!
//! An editor starts it and speaks LSP to it over standard input and output; agents read, edit and write *through* it.
//!
//! ```text
//!  editor ──LSP, stdio──┐                                             ┌─ workspace/applyEdit, abreast/sync ─> editor
//!                       │  server ──Event──► engine ──► workspace ──Effect──►┤
//!  agent's host ────────┘  (JSON-RPC)   (one inbox)     (pure)        ├─ look, stage, commit ──────────────> disk
//!                                                                     └─ replies, notifications ───────────> caller
//! ```
//!
//! A message becomes an [`Event`](workspace::Event) in the order in which it came over the wire. The
//! [`workspace`] is a state machine without I/O, clock, await or randomness: it takes the event and returns
//! [`Effect`](workspace::Effect)s. The [`engine`] has them carried out and feeds what comes of them back through the
//! same inbox. So everything that can go wrong between people, agents, an editor and a disk is a list of events.
//!
//! # The rules that never bend
//!
//! 1. No write over unseen text.
//! 2. The guard is checked where the write happens: version first, then match, then replace.
//! 3. No human keystroke or save is lost, whatever the interleaving.
//! 4. All files of a call change, or none.
//! 5. A success is a verified success.
//! 6. Bytes outside the changed span stay identical.
//! 7. Edits are literal.
//! 8. The defence is removable, and then every method is the same to the letter.
//! 9. State changes in arrival order.
//! 10. Every refusal has a stable code and a remedy that can succeed.
//! 11. An ambiguity about who changed something resolves to *human*, hence stale.
//!
//! Rules 1, 3 and 4 hold with editors that can refuse a stale edit; with others the sidecar promises less, and says so.
//!
//! # Words
//!
//! A *document* is what an editor has open; its buffer is the truth while it is. A *closed file* is what only the disk
//! has. The *view text* is what an agent sees and matches against: line ends as LF, no byte order mark. A
//! [`version`](version::Version) is a hash of the view text. A *session* is one agent conversation, and its
//! [`ledger`] says what it has *observed* of each file. A *guard* is what a change requires the file to hold; a *plan* is
//! all changes of one call with their guards; an *echo* is the editor's report of an edit of ours; every other change
//! that the editor reports is *human*.
//!
//! # Modules, in reading order
//!
//! [`text`] and [`version`], [`ledger`] and [`policy`], [`plan`], [`pending`] and [`undo`] are the pure parts of the
//! [`workspace`]; [`read`] renders, [`path`] names files, [`containment`] says which may be changed, [`error`] refuses;
//! [`protocol`] is the wire, [`capabilities`] what the client can do, [`server`] JSON-RPC, [`engine`] the shell,
//! [`disk`] the only module that touches files, [`watcher`] hints that others did.

// Tests print their seeds and counts.
#![cfg_attr(test, allow(clippy::print_stderr))]

#[macro_use]
mod breaks;

pub mod capabilities;
pub mod containment;
pub mod demo;
pub mod disk;
pub mod engine;
pub mod error;
mod large;
pub mod ledger;
pub mod path;
pub mod pending;
pub mod plan;
pub mod policy;
pub mod protocol;
pub mod read;
pub mod replay;
pub mod server;
pub mod text;
pub mod undo;
pub mod version;
pub mod watcher;
pub mod workspace;

/// Here, and not beside the other tests of `tests/`, because only here a deliberate fault can be switched on (`breaks`).
#[cfg(test)]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
