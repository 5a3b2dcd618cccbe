//! What this client can do, resolved once from `initialize`.
//!
//! Invariant: nothing else looks into the client's capability tree.

use serde_json::Value;

use crate::{protocol::PROTOCOL_VERSION, text::buffer::Encoding};

/// The client's abilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // a flat list of abilities
pub struct Capabilities {
    /// Of positions, both ways.
    pub encoding: Encoding,
    /// Takes `workspace/applyEdit` at all.
    pub apply_edit: bool,
    /// Applies all documents of an edit or none.
    pub transactional: bool,
    /// Refuses stale edits reliably (`strictApplyEdit`).
    pub strict: bool,
    /// Answers `abreast/sync`.
    pub sync: bool,
    /// Does not count a lone CR as a line break.
    pub lone_cr_is_text: bool,
    /// Registers file watchers on request.
    pub watch_files: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self::of(&Value::Null)
    }
}

impl Capabilities {
    /// Reads the `capabilities` of `initialize`.
    pub fn of(capabilities: &Value) -> Self {
        let flag = |pointer: &str| capabilities.pointer(pointer) == Some(&Value::Bool(true));
        let offers_utf8 = capabilities
            .pointer("/general/positionEncodings")
            .and_then(Value::as_array)
            .is_some_and(|it| it.iter().any(|it| it == "utf-8"));
        let failure_handling = capabilities
            .pointer("/workspace/workspaceEdit/failureHandling")
            .and_then(Value::as_str);
        let version = capabilities
            .pointer("/experimental/abreast/version")
            .and_then(Value::as_u64);
        // A plugin of another protocol version may mean something else by the same flags.
        let known = version == Some(u64::from(PROTOCOL_VERSION));
        Self {
            encoding: if offers_utf8 {
                Encoding::Utf8
            } else {
                Encoding::Utf16
            },
            apply_edit: flag("/workspace/applyEdit"),
            transactional: matches!(
                failure_handling,
                Some("transactional" | "textOnlyTransactional")
            ),
            strict: known && flag("/experimental/abreast/strictApplyEdit"),
            sync: known && flag("/experimental/abreast/sync"),
            lone_cr_is_text: known && flag("/experimental/abreast/loneCrIsText"),
            watch_files: flag("/workspace/didChangeWatchedFiles/dynamicRegistration"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_that_says_nothing_is_neither_strict_nor_utf8() {
        let client = Capabilities::of(&json!({}));
        assert_eq!(
            (client.encoding, client.strict, client.sync),
            (Encoding::Utf16, false, false)
        );
    }

    #[test]
    fn utf8_is_taken_wherever_it_is_offered() {
        let client =
            Capabilities::of(&json!({"general": {"positionEncodings": ["utf-16", "utf-8"]}}));
        assert_eq!(client.encoding, Encoding::Utf8);
    }

    #[test]
    fn flags_of_another_protocol_version_count_for_nothing() {
        let of = |version: u32| {
            Capabilities::of(
                &json!({"experimental": {"abreast": {"version": version, "strictApplyEdit": true}}}),
            )
        };
        assert!(of(1).strict);
        assert!(!of(2).strict);
    }
}
