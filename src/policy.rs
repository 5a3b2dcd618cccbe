//! Who decides whether a session may change a file.
//!
//! A slot, as in DSH: an intent goes to the decider, if there is one. Invariant: nothing else knows what a decider
//! decides; with an empty slot (`policy: "off"`) every intent is unconditional, and every method stays the same.

use crate::{error::Code, ledger::Observation, protocol::PolicyName, version::Version};

/// The condition under which a change may happen. It is checked where the text is replaced, not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The file must not exist; an empty one counts as not existing.
    CreateIfAbsent,
    /// The file must have exactly this content.
    ReplaceIfVersion(Version),
}

/// Decides intents from what the session has observed of the file.
pub trait Decider: Sync {
    /// May the session write the whole file?
    fn write(&self, observation: Option<Observation>) -> Guard;
    /// May the session change the file in place, rename it or delete it?
    fn edit(&self, observation: Option<Observation>) -> Result<Guard, Code>;
}

/// The default decider: what was seen may be changed, as long as it is what was seen.
#[derive(Debug)]
pub struct ObservationPolicy;

impl Decider for ObservationPolicy {
    fn write(&self, observation: Option<Observation>) -> Guard {
        match observation {
            Some(Observation::Present(version)) => Guard::ReplaceIfVersion(version),
            Some(Observation::Absent) | None => Guard::CreateIfAbsent,
        }
    }

    fn edit(&self, observation: Option<Observation>) -> Result<Guard, Code> {
        match observation {
            Some(Observation::Present(version)) => Ok(Guard::ReplaceIfVersion(version)),
            Some(Observation::Absent) => Err(Code::FsNotFound),
            None => Err(Code::FsNotObserved),
        }
    }
}

/// The slot's content for a session; callers without a session are held to the observation policy, having seen nothing.
pub fn decider(policy: PolicyName) -> Option<&'static dyn Decider> {
    match policy {
        PolicyName::Observe => Some(&ObservationPolicy),
        PolicyName::Off => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;

    #[track_caller]
    fn check(seen: Option<Observation>, write: Guard, edit: Result<Guard, Code>) {
        assert_eq!(ObservationPolicy.write(seen), write);
        assert_eq!(ObservationPolicy.edit(seen), edit);
    }

    #[test]
    fn unseen_file_can_only_be_created() {
        check(None, Guard::CreateIfAbsent, Err(Code::FsNotObserved));
    }

    #[test]
    fn absent_file_can_only_be_created() {
        check(
            Some(Observation::Absent),
            Guard::CreateIfAbsent,
            Err(Code::FsNotFound),
        );
    }

    #[test]
    fn seen_file_can_be_changed_at_the_seen_version() {
        let version = Version::of(&Text::flat("fn main() {}\n".to_string()));
        let guard = Guard::ReplaceIfVersion(version);
        check(Some(Observation::Present(version)), guard, Ok(guard));
    }

    #[test]
    fn an_empty_slot_decides_nothing() {
        assert!(decider(PolicyName::Off).is_none());
    }
}
