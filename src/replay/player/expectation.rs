//! Whether an answer is the expected one.

use serde_json::Value;

use crate::replay::{case::Expected, client::CallError, difference};

/// What a JSON-RPC error without a code of its own must not be when a refusal is expected: no server, no method, a bug.
const NO_ANSWERS: [i64; 5] = [-32700, -32600, -32601, -32603, -32002];

/// Returns how an answer differs from what is expected; only answers that a server must never give are wrong always.
pub(super) fn deviation(expected: &Expected, answer: &Result<Value, CallError>) -> Option<String> {
    let fields_of = match answer {
        Ok(result) => {
            if let Some(code) = &expected.error {
                return Some(format!("expected {code}, but it succeeded"));
            }
            if expected.ok == Some(false) {
                return Some("expected a refusal, but it succeeded".to_string());
            }
            if let Some(text) = &expected.text {
                let found = result["text"].as_str().unwrap_or_default();
                if found != text {
                    return Some(format!(
                        "it read another text\n{}",
                        difference::of_texts(text, found)
                    ));
                }
            }
            result
        }
        Err(error) => {
            let code = error.code();
            let is_meant = expected.error.as_ref() == Some(&code);
            let is_no_answer = error
                .refusal()
                .is_some_and(|it| NO_ANSWERS.contains(&it.rpc_code));
            if !is_meant && (expected.error.is_some() || expected.ok == Some(true) || is_no_answer)
            {
                let wanted = match &expected.error {
                    Some(code) => code,
                    None if expected.ok == Some(true) => "success",
                    None => "a refusal",
                };
                return Some(format!(
                    "expected {wanted}, found {code}: {}",
                    error.message()
                ));
            }
            error.data()
        }
    };
    if let Some(part) = &expected.message {
        let message = answer
            .as_ref()
            .err()
            .map(CallError::message)
            .unwrap_or_default();
        if !message.contains(part) {
            return Some(format!(
                "expected a message with {part:?}, found {message:?}"
            ));
        }
    }
    expected
        .fields
        .as_ref()
        .and_then(|it| missing(it, fields_of, ""))
}

/// Returns the first member of `expected` that `found` has not, or has otherwise.
fn missing(expected: &Value, found: &Value, at: &str) -> Option<String> {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            expected.iter().find_map(|(name, expected)| {
                let at = if at.is_empty() {
                    name.clone()
                } else {
                    format!("{at}.{name}")
                };
                missing(expected, found.get(name).unwrap_or(&Value::Null), &at)
            })
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            let mut pairs = expected.iter().zip(found).enumerate();
            pairs.find_map(|(idx, (expected, found))| {
                missing(expected, found, &format!("{at}[{idx}]"))
            })
        }
        (expected, found) if expected == found => None,
        (expected, found) => Some(format!("{at}: expected {expected}, found {found}")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;
    use crate::replay::client::Refusal;

    #[expect(clippy::needless_pass_by_value, reason = "the cases read better")]
    #[track_caller]
    fn check(expected: Value, answer: Result<Value, CallError>, deviates: &Expect) {
        let expected: Expected = serde_json::from_value(expected).expect("an expectation");
        deviates.assert_eq(&deviation(&expected, &answer).unwrap_or_default());
    }

    fn refusal(rpc_code: i64, data: Value) -> Result<Value, CallError> {
        Err(CallError::Refused(Refusal {
            rpc_code,
            message: "changed by the user".to_string(),
            data,
        }))
    }

    #[test]
    fn any_refusal_is_as_good_as_another_where_none_is_named() {
        check(
            json!({ "ok": false }),
            refusal(-32602, Value::Null),
            &expect![""],
        );
        check(
            json!({ "ok": false }),
            refusal(-32803, json!({ "code": "FS_NOT_TEXT" })),
            &expect![""],
        );
        check(
            json!({ "ok": false }),
            Ok(Value::Null),
            &expect!["expected a refusal, but it succeeded"],
        );
    }

    #[test]
    fn a_missing_method_is_no_refusal() {
        check(
            json!({ "ok": false }),
            refusal(-32601, Value::Null),
            &expect!["expected a refusal, found -32601: changed by the user"],
        );
        check(
            json!({ "error": "-32601" }),
            refusal(-32601, Value::Null),
            &expect![""],
        );
    }

    #[test]
    fn a_named_code_is_the_only_right_one() {
        check(
            json!({ "error": "FS_STALE_VERSION" }),
            refusal(-32803, json!({ "code": "FS_NOT_TEXT" })),
            &expect!["expected FS_STALE_VERSION, found FS_NOT_TEXT: changed by the user"],
        );
        check(
            json!({ "error": "FS_STALE_VERSION" }),
            Ok(Value::Null),
            &expect!["expected FS_STALE_VERSION, but it succeeded"],
        );
    }

    #[test]
    fn the_message_has_what_is_asked_for() {
        check(
            json!({ "ok": false, "message": "by the user" }),
            refusal(-32803, Value::Null),
            &expect![""],
        );
        check(
            json!({ "ok": false, "message": "by a formatter" }),
            refusal(-32803, Value::Null),
            &expect![[r#"expected a message with "by a formatter", found "changed by the user""#]],
        );
    }

    #[test]
    fn fields_are_a_part_of_what_is_there() {
        let result = json!({ "files": [{ "path": "a", "via": "disk" }], "dryRun": true });
        check(
            json!({ "ok": true, "fields": { "files": [{ "via": "disk" }] } }),
            Ok(result.clone()),
            &expect![""],
        );
        check(
            json!({ "ok": true, "fields": { "files": [{ "via": "editor" }] } }),
            Ok(result.clone()),
            &expect![[r#"files[0].via: expected "editor", found "disk""#]],
        );
        check(
            json!({ "ok": true, "fields": { "bom": false } }),
            Ok(result),
            &expect!["bom: expected false, found null"],
        );
    }
}
