//! Deliberate faults, to see that the simulation catches each of them (`tests/simulation/breaks.rs`).
//!
//! Invariant: only the library's own tests can switch one on. Everywhere else `broken!` *is* `false`, so the binary that
//! the other tests play with is the one that is shipped; a cargo feature would need a second build for that. This is
//! also why the simulation is compiled into the library's tests.

#[cfg(test)]
pub(crate) use switch::{Break, is_on, switch};

/// True while this fault is switched on.
#[cfg(not(test))]
macro_rules! broken {
    ($fault:ident) => {
        false
    };
}

/// True while this fault is switched on.
#[cfg(test)]
macro_rules! broken {
    ($fault:ident) => {
        crate::breaks::is_on(crate::breaks::Break::$fault)
    };
}

#[cfg(test)]
mod switch {
    use std::cell::Cell;

    macro_rules! breaks {
        ($($(#[$doc:meta])* $name:ident,)*) => {
            /// A fault.
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub(crate) enum Break {
                $($(#[$doc])* $name,)*
            }

            impl Break {
                pub(crate) const ALL: &[Self] = &[$(Self::$name),*];
            }
        };
    }

    breaks! {
        /// `applyEdit` names no LSP version.
        VersionIgnored,
        /// `applyEdit` names no instance.
        InstanceIgnored,
        /// Any `didChange` while an edit is out is its echo.
        AnyChangeIsEcho,
        /// The editor's answer alone is a success.
        AnswerIsBelieved,
        /// The report of our own edit is dropped.
        EchoLost,
        /// A document that was reported in a way that cannot be used is known all the same.
        DesyncIgnored,
        /// What is observed in a turn authorises in that turn.
        TurnIgnored,
        /// An explicit guard is not checked.
        GuardIgnored,
        /// A change that the editor reports moves the ledger along.
        HumanRefreshesLedger,
        /// What was typed while an edit was out is nobody's.
        TypingForgotten,
        /// Stage 7 is left out.
        StaleUnchecked,
        /// Matches are looked for before stage 7.
        StaleAfterMatch,
        /// A version is fresh only if nobody touched the file since, whatever it holds.
        AbaByGeneration,
        /// What a result observes is what the file holds when the answer goes out.
        VersionOfLaterLook,
        /// What a read observes is what the document holds when the answer goes out.
        ReadObservesLater,
        /// A call goes in front of those that wait.
        QueueSwapped,
        /// A call is planned, and its guard checked, when it arrives.
        GuardBeforeQueue,
        /// Who comes next in a queue is not told.
        NextForgotten,
        /// A plan is carried out on whatever the documents hold by then.
        PlanMayBeOld,
        /// An edit that was not answered in time is taken to have failed.
        UnknownIsFailed,
        /// A barrier is over with its answer, whatever it says is still to come.
        AnswerOvertakes,
        /// That a file is absent is not noted.
        AbsentIsUnseen,
        /// An edit that is half of a call stays when the rest cannot be done.
        NotTakenBack,
        /// A dry run is carried out.
        DryRunIsRun,
        /// A call can be cancelled after its commit point.
        CancelledTooLate,
        /// A commit is granted though the editor has opened the file.
        CommitUnderBuffer,
        /// Who opened a file while the editor had its part to do is not asked for before the commit is granted.
        GrantNotChecked,
        /// The disk commits before the editor is asked.
        CommitBeforeEditor,
        /// What the disk could not commit is told as done.
        FailureIsSuccess,
        /// What a failed commit left on disk is not told.
        LeftIsNotTold,
        /// The session is credited with what the disk refused.
        RefusedIsSeen,
        /// Of what the editor has done only the first document is taken back.
        OnlyFirstTakenBack,
        /// What is taken back becomes what it was, whatever a human has typed since.
        TypingTakenBack,
        /// A call of which a part stays is told as done.
        PartIsAll,
        /// What was staged stays when the call is refused.
        StagedStays,
        /// A file that was opened during the commit counts as closed.
        OpenedIsClosed,
        /// A document that goes away with its part of the call does not call the commit back.
        NotRecalled,
        /// A session that is opened again under an id is the one that was closed.
        EpochIgnored,
        /// Entries are handed over between texts that are not alike.
        HandOverAnything,
        /// New line breaks are LF.
        AlwaysLf,
    }

    thread_local! {
        static ON: Cell<Option<Break>> = const { Cell::new(None) };
    }

    /// Switches a fault on, or all off, in this thread.
    pub(crate) fn switch(fault: Option<Break>) {
        ON.set(fault);
    }

    pub(crate) fn is_on(fault: Break) -> bool {
        ON.get() == Some(fault)
    }
}
