//! What happens in a run, as data.
//!
//! Invariant: an action can be played in any state; where it makes no sense it does nothing. So any list of actions is a
//! run, and what is left of one after some were deleted is a run too.

use std::fmt;

/// How a client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)]
pub(super) struct Setup {
    pub(super) utf8: bool,
    pub(super) lone_cr_is_text: bool,
    /// It checks what it is asked to apply.
    pub(super) strict: bool,
    pub(super) sync: bool,
    /// It says why it refused.
    pub(super) codes: bool,
    /// Texts get a final line break when they are opened.
    pub(super) adds_final_break: bool,
    /// It says that it applied what it did not.
    pub(super) liar: bool,
    /// The first file has a second name, so that it is changed in place.
    pub(super) linked: bool,
    /// All texts count as so large that work on them is given away.
    pub(super) large: bool,
    /// The policy's slot is empty.
    pub(super) policy_off: bool,
    /// Its lines end with LF alone, whatever else they hold; it says so of each document.
    pub(super) lf_only: bool,
    /// It and the hosts write the first file's URI in several ways.
    pub(super) escaped: bool,
}

impl Setup {
    /// A strict client that does everything right.
    pub(super) const STRICT: Self = Self {
        utf8: false,
        lone_cr_is_text: false,
        strict: true,
        sync: true,
        codes: true,
        adds_final_break: false,
        liar: false,
        linked: false,
        large: false,
        policy_off: false,
        lf_only: false,
        escaped: false,
    };
}

/// How pending changes are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// As they were made, in one notification.
    Exact,
    /// As they were made, one notification each.
    Split,
    /// One span that turns the old text into the new one.
    Minimal,
    /// A deletion, then an insertion.
    Halves,
    /// The full text.
    Full,
}

/// How the editor deals with what it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// As it should, reporting in this style.
    Right(Style),
    /// Applies; it reports and answers when it settles, with whatever was typed until then.
    Later,
    /// Answers first, reports when it flushes.
    AnswerFirst,
    /// Does nothing and says so.
    Refuse,
    /// The request fails.
    Fail,
    /// (A liar) does nothing and says that it did.
    Skip,
    /// (A liar) applies the first half without looking.
    Half,
}

/// What happens to a file behind everybody's back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    Append(&'static str),
    /// Back to what it held that many changes ago.
    Earlier(u8),
    Write(&'static str),
    Vanish,
}

/// What work on the disk runs into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Luck {
    Good,
    /// The system refuses the n-th change.
    Bad(u8),
    /// It refuses it to this user.
    Denied(u8),
    /// The same as bad luck, and somebody changes what was done before just before it is taken back.
    Worse(u8),
    /// The same, and the system takes nothing back.
    Stuck(u8),
    /// Somebody who had the n-th file open writes into it after it was displaced.
    Late(u8),
}

/// A content that a caller names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// What is there.
    Current,
    /// What was there that many contents ago.
    Earlier(u8),
    /// That there is nothing.
    Absent,
}

/// How a host says what its model was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// By its version; of what is there by nothing.
    Version,
    Text,
    /// By the LSP version of the document.
    Document,
}

/// What the editor says of a document beside its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    ReadOnly(bool),
    Conflict(bool),
    Unsynced(bool),
    /// Its lines end with LF alone.
    Lf,
}

/// A report that the sidecar cannot use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Garbled {
    /// Its changes cannot be decoded.
    Changes,
    /// It does not even name its document.
    Document,
    /// It comes under the version of the one before.
    Version,
}

/// The caller that has no session.
pub(super) const NOBODY: u8 = 9;

/// One change of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Replaces `chars` characters of what the session saw last.
    Edit {
        file: u8,
        at: u16,
        chars: u8,
        new: &'static str,
        all: bool,
    },
    /// Writes what the session saw last with `text` in front, or just `text`.
    Write {
        file: u8,
        text: &'static str,
        keep: bool,
    },
    Delete {
        file: u8,
    },
    Rename {
        file: u8,
        to: u8,
    },
}

/// The changes of a call; prints as Rust.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Steps(pub(super) Vec<Step>);

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Steps(vec!{:?})", self.0)
    }
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    // people
    Open {
        file: u8,
    },
    Close {
        file: u8,
        flush: bool,
    },
    Save {
        file: u8,
    },
    Reload {
        file: u8,
        same_version: bool,
    },
    Type {
        file: u8,
        at: u16,
        text: &'static str,
    },
    Erase {
        file: u8,
        at: u16,
        chars: u8,
    },
    Undo {
        file: u8,
    },
    Redo {
        file: u8,
    },
    SwitchEol {
        file: u8,
    },
    // the editor
    Flush {
        file: u8,
        style: Style,
    },
    Handle {
        nth: u8,
        manner: Manner,
    },
    Settle {
        nth: u8,
        style: Style,
    },
    /// What was typed is reported, and the report is broken.
    Garble {
        file: u8,
        how: Garbled,
    },
    State {
        file: u8,
        state: State,
    },
    /// The next message of the editor arrives.
    Deliver,
    /// The editor ends and all its documents with it.
    Die,
    /// The same, and the sidecar ends with it, as soon as no commit is half done; another editor starts another one.
    Quit,
    /// The sidecar dies and is started again; what it had begun to commit is finished.
    Crash,
    // the disk
    Meddle {
        file: u8,
        how: Behind,
    },
    Hint {
        file: u8,
    },
    Work {
        nth: u8,
        luck: Luck,
    },
    /// The disk makes the next change of a commit, and no more yet.
    Begin {
        nth: u8,
    },
    Finish {
        nth: u8,
    },
    // agents
    OpenSession {
        session: u8,
    },
    CloseSession {
        session: u8,
    },
    Disconnect {
        connection: u8,
    },
    Read {
        session: u8,
        file: u8,
        from: u8,
        lines: u8,
    },
    Change {
        session: u8,
        steps: Steps,
        guard: Option<Named>,
        dry_run: bool,
    },
    /// The host showed the file by other means.
    Observe {
        session: u8,
        file: u8,
        what: Named,
        by: Shown,
    },
    Forget {
        session: u8,
        file: Option<u8>,
    },
    /// The model of a session composes its next calls.
    NextTurn {
        session: u8,
    },
    Ledger {
        session: u8,
        file: Option<u8>,
    },
    /// The host keeps the ledger of a session.
    Export {
        session: u8,
    },
    /// It opens a session with what it kept last.
    Import {
        session: u8,
    },
    Cancel {
        nth: u8,
    },
    // time
    Wait {
        ms: u16,
    },
}
