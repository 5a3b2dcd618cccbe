//! What must hold, and what does not.

use std::fmt;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::simulation) enum Invariant {
    /// Rule 1: a change lands only on what the session has seen.
    Seen,
    /// Rule 2: stale is reported before any match result.
    StaleFirst,
    /// Rule 3: no keystroke and no save is lost.
    NothingLost,
    /// Rule 4: all files of a call change, or none.
    AllOrNone,
    /// Rule 5: a success is a verified one, and says what was done.
    Verified,
    /// Rule 6: what the change does not mention stays as it is.
    Bytes,
    /// Rule 9: things happen in the order in which they arrived.
    Order,
    /// Rule 10: nothing is refused without a reason that holds.
    Reason,
    /// Rule 11: what a human may have done, a human did.
    Human,
    /// Every request is answered, once.
    Answered,
    /// In the end the sidecar has the text of the editor.
    Text,
    /// A ledger says what its session was shown, and whether that is still so.
    Ledger,
    /// Nothing panics.
    Panic,
}

impl Invariant {
    /// All but the last, which is there for what nobody thought of.
    pub(in crate::simulation) const ALL: [Self; 12] = [
        Self::Seen,
        Self::StaleFirst,
        Self::NothingLost,
        Self::AllOrNone,
        Self::Verified,
        Self::Bytes,
        Self::Order,
        Self::Reason,
        Self::Human,
        Self::Answered,
        Self::Text,
        Self::Ledger,
    ];
}

/// What does not hold.
#[derive(Debug, Clone)]
pub(in crate::simulation) struct Violation {
    pub(in crate::simulation) invariant: Invariant,
    pub(in crate::simulation) detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.detail)
    }
}

pub(in crate::simulation) type Checked = Result<(), Violation>;

pub(super) fn broken(invariant: Invariant, detail: impl Into<String>) -> Checked {
    Err(Violation {
        invariant,
        detail: detail.into(),
    })
}
