//! What one JSON body says: a request, a notification, or the answer to a request of ours.
//!
//! Invariant: every body becomes a message or a refusal, never a crash; parameters and results stay
//! raw text, so a keystroke builds no tree. Decided here, because JSON-RPC leaves it open:
//! - a known member that occurs twice is refused (which one counts is not for us to guess);
//!   unknown members are ignored;
//! - `params: null` is as good as none (many clients send it); other scalars are refused;
//! - `id: null` with a method is a request; numbers must be integers of 64 bits, so that the answer
//!   carries exactly the same id;
//! - of `result` and `error` one may be `null` next to the other.

use std::{borrow::Cow, fmt};

use memchr::{memchr2, memchr2_iter};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};
use tower_lsp::jsonrpc::Id;

use super::frames::{INVALID_REQUEST, PARSE_ERROR};

/// The longest id; it is stored and sent back.
const MAX_ID_BYTES: usize = 1024;
/// The deepest nesting of a body. One level less, that of `params`, is the most that serde decodes.
const MAX_DEPTH: usize = 128;
/// The LSP code for an error that does not say what it is.
const UNKNOWN_ERROR_CODE: i64 = -32001;

/// A well-formed JSON-RPC message.
#[derive(Debug)]
pub enum Message<'a> {
    /// A call that wants an answer.
    Request {
        /// What the answer must carry.
        id: Id,
        /// Any string, known or not.
        method: Cow<'a, str>,
        /// An object or an array.
        params: Option<&'a RawValue>,
    },
    /// A call without an answer.
    Notification {
        /// Any string, known or not.
        method: Cow<'a, str>,
        /// An object or an array.
        params: Option<&'a RawValue>,
    },
    /// The answer to one of our requests.
    Answer {
        /// The id of our request; null if the editor could not read it.
        id: Id,
        /// The result, `None` for null.
        result: Result<Option<&'a RawValue>, AnswerError>,
    },
}

/// The error by which an editor answers.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerError {
    /// The code of JSON-RPC or LSP; -32001 if there is none.
    pub code: i64,
    /// What went wrong.
    pub message: String,
    /// More about it.
    pub data: Option<Value>,
}

/// A body that is not a message, and how to answer it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// [`PARSE_ERROR`] or [`INVALID_REQUEST`].
    pub code: i64,
    /// What was wrong; never holds content.
    pub message: String,
    /// The id to answer with: null if it is unreadable, or is that of a request of ours.
    pub id: Id,
    /// The method, if one was readable: the document it would have changed is unknown from now on.
    pub method: Option<String>,
    /// The request of ours that this was, or may have been, meant to answer. Look there first.
    pub answers: Option<Id>,
}

impl<'a> Message<'a> {
    /// Parses one body.
    ///
    /// Lone surrogates pass here but not when parameters are decoded: repair them before.
    pub fn parse(body: &'a [u8]) -> Result<Self, Refusal> {
        let envelope: Envelope = serde_json::from_slice(body).map_err(|err| {
            // A value of another type is an error before the rest is looked at.
            let err = match serde_json::from_slice::<IgnoredAny>(body) {
                Ok(_) if err.is_data() => return Refusal::no_object(body),
                Err(later_err) if err.is_data() => later_err,
                _ => err,
            };
            Refusal {
                code: PARSE_ERROR,
                ..Refusal::invalid(format!("the message is not JSON: {err}"))
            }
        })?;
        envelope.open(is_too_deep(body))
    }
}

impl Refusal {
    fn invalid(message: impl Into<String>) -> Self {
        Self {
            code: INVALID_REQUEST,
            message: message.into(),
            id: Id::Null,
            method: None,
            answers: None,
        }
    }

    fn no_object(body: &[u8]) -> Self {
        Self::invalid(if body.trim_ascii_start().starts_with(b"[") {
            "batches are not served; send one message at a time"
        } else {
            "the message is not an object"
        })
    }
}

/// The members of a message, not yet looked at.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    /// A member that occurs more than once; the last one is above.
    duplicate: Option<Member>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Member {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    #[serde(other)]
    Other,
}

impl<'a> Envelope<'a> {
    fn open(self, is_too_deep: bool) -> Result<Message<'a>, Refusal> {
        let once = |it, member| Option::filter(it, |_| self.duplicate != Some(member));
        let (id, id_error) = match once(self.id, Member::Id).map(parse_id).transpose() {
            Ok(id) => (id, None),
            Err(message) => (None, Some(message)),
        };
        let method = once(self.method, Member::Method).and_then(parse_string);
        let is_answer = self.method.is_none() && (self.result.is_some() || self.error.is_some());

        let refuse = |message: &str| {
            let answers = id.clone().filter(|_| self.method.is_none());
            Err(Refusal {
                id: id.clone().filter(|_| !is_answer).unwrap_or_default(),
                method: method.as_deref().map(str::to_string),
                answers,
                ..Refusal::invalid(message)
            })
        };
        if self.duplicate.is_some() {
            return refuse("a member of the message occurs twice");
        }
        let version = self.jsonrpc.and_then(parse_string);
        if version.as_deref() != Some("2.0") {
            return refuse("`jsonrpc` must be \"2.0\"");
        }
        if let Some(message) = id_error {
            return refuse(message);
        }
        if is_too_deep {
            return refuse("the message is nested too deeply");
        }

        if is_answer {
            let error = self.error.filter(|it| !is_null(it));
            let result = match (self.result, error) {
                (Some(result), None) => Ok(Some(result).filter(|it| !is_null(it))),
                (result, Some(error)) if result.is_none_or(is_null) => Err(parse_error(error)),
                (Some(_), Some(_)) => return refuse("an answer has either `result` or `error`"),
                (None, _) => return refuse("an answer needs a `result` or an `error`"),
            };
            return match id {
                Some(id) => Ok(Message::Answer { id, result }),
                None if result.is_err() => Ok(Message::Answer {
                    id: Id::Null,
                    result,
                }),
                None => refuse("an answer needs an `id`"),
            };
        }
        if self.result.is_some() || self.error.is_some() {
            return refuse("a message with a `method` has no `result` and no `error`");
        }
        let params = match self.params {
            Some(params) if params.get().starts_with(['{', '[']) => Some(params),
            Some(params) if !is_null(params) => {
                return refuse("`params` must be an object or an array");
            }
            _ => None,
        };
        let Some(method) = method else {
            return refuse("`method` must be a string");
        };
        Ok(match id {
            Some(id) => Message::Request { id, method, params },
            None => Message::Notification { method, params },
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(member) = map.next_key::<Member>()? {
            let slot = match member {
                Member::Jsonrpc => &mut envelope.jsonrpc,
                Member::Id => &mut envelope.id,
                Member::Method => &mut envelope.method,
                Member::Params => &mut envelope.params,
                Member::Result => &mut envelope.result,
                Member::Error => &mut envelope.error,
                Member::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(map.next_value()?).is_some() {
                envelope.duplicate = Some(member);
            }
        }
        Ok(envelope)
    }
}

fn parse_id(raw: &RawValue) -> Result<Id, &'static str> {
    let text = raw.get();
    match text.as_bytes()[0] {
        b'n' => Ok(Id::Null),
        b'"' => match parse_string(raw) {
            Some(id) if id.len() <= MAX_ID_BYTES => Ok(Id::String(id.into_owned())),
            Some(_) => Err("`id` has more than 1 KiB"),
            None => Err("`id` is not a valid string"),
        },
        b'-' | b'0'..=b'9' => match text.parse() {
            Ok(id) => Ok(Id::Number(id)),
            Err(_) => Err("`id` must be an integer of 64 bits"),
        },
        _ => Err("`id` must be an integer or a string"),
    }
}

/// Reads an error as far as it can be read: someone waits for it, so it is never refused.
fn parse_error(raw: &RawValue) -> AnswerError {
    let mut error = serde_json::from_str(raw.get()).unwrap_or(Value::Null);
    AnswerError {
        code: error["code"].as_i64().unwrap_or(UNKNOWN_ERROR_CODE),
        message: match error.get_mut("message").map(Value::take) {
            Some(Value::String(message)) => message,
            _ => "the editor's error has no message".to_string(),
        },
        data: error.get_mut("data").map(Value::take),
    }
}

/// Returns the text of a JSON string, borrowed if it has no escapes.
fn parse_string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(raw.get()).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// Whether valid JSON is nested deeper than serde decodes. Raw values skip serde's own check.
fn is_too_deep(body: &[u8]) -> bool {
    if memchr2_iter(b'[', b'{', body).nth(MAX_DEPTH).is_none() {
        return false;
    }
    let mut depth = 0;
    let mut at = 0;
    while let Some(&byte) = body.get(at) {
        at += 1;
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b'"' => at = string_end(body, at),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return true;
        }
    }
    false
}

/// Returns where the string ends whose first character is at `at`.
fn string_end(body: &[u8], mut at: usize) -> usize {
    while let Some(n_plain) = memchr2(b'"', b'\\', &body[at..]) {
        at += n_plain + 1;
        if body[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    body.len()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;
    use crate::server::frames::repair_surrogates;

    fn show(body: &[u8]) -> String {
        let text =
            |it: Option<&RawValue>| it.map_or("none".to_string(), std::string::ToString::to_string);
        match Message::parse(body) {
            Ok(Message::Request { id, method, params }) => {
                format!("request {id} {method} {}", text(params))
            }
            Ok(Message::Notification { method, params }) => {
                format!("notification {method} {}", text(params))
            }
            Ok(Message::Answer { id, result }) => match result {
                Ok(result) => format!("answer {id} {}", text(result)),
                Err(AnswerError {
                    code,
                    message,
                    data,
                }) => {
                    format!("answer {id} error {code} {message:?} {data:?}")
                }
            },
            Err(Refusal {
                code,
                message,
                id,
                method,
                answers,
            }) => {
                let method = method.map_or(String::new(), |it| format!(", method {it}"));
                let answers = answers.map_or(String::new(), |it| format!(", answers {it}"));
                format!("refused {code} id {id}{method}{answers}: {message}")
            }
        }
    }

    #[track_caller]
    fn check(body: impl AsRef<[u8]>, expected: &Expect) {
        expected.assert_eq(&show(body.as_ref()));
    }

    /// A request with the given id and parameters.
    fn request(id: &str, params: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{params}}}"#)
    }

    #[test]
    fn a_request_has_an_id_and_a_method() {
        check(
            request("1", r#"{ "a": [1] }"#),
            &expect![[r#"request 1 m { "a": [1] }"#]],
        );
        check(
            r#" { "method" : "m\u002fn" , "jsonrpc" : "2.0" , "id" : "a" } "#,
            &expect![[r#"request "a" m/n none"#]],
        );
    }

    #[test]
    fn a_call_without_id_is_a_notification() {
        check(
            r#"{"jsonrpc":"2.0","method":"m","params":[1,2],"more":{"id":3}}"#,
            &expect!["notification m [1,2]"],
        );
    }

    #[test]
    fn a_request_may_have_the_id_null() {
        check(request("null", "{}"), &expect!["request null m {}"]);
    }

    #[test]
    fn null_parameters_are_none() {
        check(request("1", "null"), &expect!["request 1 m none"]);
    }

    #[test]
    fn other_scalars_are_no_parameters() {
        check(
            request("1", "\"text\""),
            &expect!["refused -32600 id 1, method m: `params` must be an object or an array"],
        );
        check(
            request("1", "5"),
            &expect!["refused -32600 id 1, method m: `params` must be an object or an array"],
        );
    }

    #[test]
    fn ids_are_kept_exactly() {
        check(
            request("-9223372036854775808", "{}"),
            &expect!["request -9223372036854775808 m {}"],
        );
        check(
            request(r#""\"\u00e9""#, "{}"),
            &expect![[r#"request "\"é" m {}"#]],
        );
        check(
            request(&format!("{:?}", "x".repeat(1025)), "{}"),
            &expect!["refused -32600 id null, method m: `id` has more than 1 KiB"],
        );
    }

    #[test]
    fn ids_that_cannot_be_kept_are_refused() {
        for id in [
            "1.5",
            "1.0",
            "1e3",
            "9223372036854775808",
            "123456789012345678901234567890",
        ] {
            check(
                request(id, "{}"),
                &expect!["refused -32600 id null, method m: `id` must be an integer of 64 bits"],
            );
        }
        check(
            request("true", "{}"),
            &expect!["refused -32600 id null, method m: `id` must be an integer or a string"],
        );
        check(
            request("[1]", "{}"),
            &expect!["refused -32600 id null, method m: `id` must be an integer or a string"],
        );
        check(
            request(r#""\ud800""#, "{}"),
            &expect!["refused -32600 id null, method m: `id` is not a valid string"],
        );
    }

    #[test]
    fn an_answer_has_a_result() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":{"applied":true}}"#,
            &expect![[r#"answer 7 {"applied":true}"#]],
        );
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":null}"#,
            &expect!["answer 7 none"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":"s","result":false,"error":null}"#,
            &expect![[r#"answer "s" false"#]],
        );
    }

    #[test]
    fn an_answer_may_have_an_error_instead() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":-32800,"message":"no","data":[1]}}"#,
            &expect![[r#"answer 7 error -32800 "no" Some(Array [Number(1)])"#]],
        );
        check(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#,
            &expect![[r#"answer null error -32700 "what?" None"#]],
        );
    }

    #[test]
    fn an_error_is_read_as_far_as_possible() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"error":"no"}"#,
            &expect![[r#"answer 7 error -32001 "the editor's error has no message" None"#]],
        );
        check(
            r#"{"jsonrpc":"2.0","error":{"code":"E","message":5}}"#,
            &expect![[r#"answer null error -32001 "the editor's error has no message" None"#]],
        );
        check(
            r#"{"jsonrpc":"2.0","id":7,"error":{"message":"\ud800"}}"#,
            &expect![[r#"answer 7 error -32001 "the editor's error has no message" None"#]],
        );
    }

    #[test]
    fn a_refused_answer_names_the_request_it_was_meant_for() {
        check(
            r#"{"id":7,"result":1}"#,
            &expect![[r#"refused -32600 id null, answers 7: `jsonrpc` must be "2.0""#]],
        );
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":1,"error":{}}"#,
            &expect!["refused -32600 id null, answers 7: an answer has either `result` or `error`"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":7,"error":null}"#,
            &expect!["refused -32600 id null, answers 7: an answer needs a `result` or an `error`"],
        );
        check(
            r#"{"jsonrpc":"2.0","result":1}"#,
            &expect!["refused -32600 id null: an answer needs an `id`"],
        );
    }

    #[test]
    fn without_a_method_it_may_have_been_an_answer() {
        check(
            r#"{"jsonrpc":"2.0","id":7}"#,
            &expect!["refused -32600 id 7, answers 7: `method` must be a string"],
        );
        check(
            r#"{"jsonrpc":"2.0"}"#,
            &expect!["refused -32600 id null: `method` must be a string"],
        );
        check(
            "{}",
            &expect![[r#"refused -32600 id null: `jsonrpc` must be "2.0""#]],
        );
    }

    #[test]
    fn a_method_is_a_string() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            &expect!["refused -32600 id 1: `method` must be a string"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":null}"#,
            &expect!["refused -32600 id 1: `method` must be a string"],
        );
    }

    #[test]
    fn a_call_is_no_answer() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
            &expect![
                "refused -32600 id 1, method m: a message with a `method` has no `result` and no `error`"
            ],
        );
    }

    #[test]
    fn the_version_must_be_right() {
        check(
            r#"{"id":1,"method":"m"}"#,
            &expect![[r#"refused -32600 id 1, method m: `jsonrpc` must be "2.0""#]],
        );
        check(
            r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#,
            &expect![[r#"refused -32600 id 1, method m: `jsonrpc` must be "2.0""#]],
        );
        check(
            r#"{"jsonrpc":2.0,"method":"textDocument/didChange","params":{}}"#,
            &expect![[
                r#"refused -32600 id null, method textDocument/didChange: `jsonrpc` must be "2.0""#
            ]],
        );
    }

    #[test]
    fn members_occur_once() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}"#,
            &expect!["refused -32600 id 1, method m: a member of the message occurs twice"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#,
            &expect!["refused -32600 id null, method m: a member of the message occurs twice"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","\u006dethod":"n"}"#,
            &expect!["refused -32600 id 1: a member of the message occurs twice"],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m","x":1,"x":2}"#,
            &expect!["request 1 m none"],
        );
    }

    #[test]
    fn a_batch_is_refused_as_a_whole() {
        check(
            "[]",
            &expect!["refused -32600 id null: batches are not served; send one message at a time"],
        );
        check(
            format!(" [{}]", request("1", "{}")),
            &expect!["refused -32600 id null: batches are not served; send one message at a time"],
        );
        check(
            "[{]",
            &expect![
                "refused -32700 id null: the message is not JSON: key must be a string at line 1 column 3"
            ],
        );
    }

    #[test]
    fn what_is_no_object_is_refused() {
        check(
            "5",
            &expect!["refused -32600 id null: the message is not an object"],
        );
        check(
            "null",
            &expect!["refused -32600 id null: the message is not an object"],
        );
    }

    #[test]
    fn what_is_not_json_is_a_parse_error() {
        check(
            "",
            &expect![
                "refused -32700 id null: the message is not JSON: EOF while parsing a value at line 1 column 0"
            ],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1"#,
            &expect![
                "refused -32700 id null: the message is not JSON: EOF while parsing an object at line 1 column 23"
            ],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,}"#,
            &expect![
                "refused -32700 id null: the message is not JSON: trailing comma at line 1 column 25"
            ],
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"m"}}"#,
            &expect![
                "refused -32700 id null: the message is not JSON: trailing characters at line 1 column 38"
            ],
        );
        check(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\nb\"}",
            &expect![[
                r"refused -32700 id null: the message is not JSON: control character (\u0000-\u001F) found while parsing a string at line 1 column 35"
            ]],
        );
        check(
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
            &expect![
                "refused -32700 id null: the message is not JSON: invalid unicode code point at line 1 column 35"
            ],
        );
    }

    #[test]
    fn nesting_has_the_limit_that_serde_has() {
        let nested = |n: usize| "[".repeat(n - 1) + "[],[]" + &"]".repeat(n - 1);
        let served = request("1", &nested(MAX_DEPTH - 1));
        let Ok(Message::Request { params, .. }) = Message::parse(served.as_bytes()) else {
            panic!("{}", show(served.as_bytes()));
        };
        let params = params.expect("the request has parameters").get();
        assert!(serde_json::from_str::<Value>(params).is_ok());

        assert!(serde_json::from_str::<Value>(&nested(MAX_DEPTH)).is_err());
        check(
            request("1", &nested(MAX_DEPTH)),
            &expect!["refused -32600 id 1, method m: the message is nested too deeply"],
        );
        check(
            request("1", &nested(1_000_000)),
            &expect!["refused -32600 id 1, method m: the message is nested too deeply"],
        );
        check(
            "[".repeat(1_000_000),
            &expect![
                "refused -32700 id null: the message is not JSON: EOF while parsing a list at line 1 column 1000000"
            ],
        );
    }

    #[test]
    fn many_brackets_are_not_deep() {
        let wide = format!("[{}]", r#"[],{},"[[{\"[\\","#.repeat(1000) + "1");
        assert!(show(request("1", &wide).as_bytes()).starts_with("request 1 m [[]"));
    }

    proptest! {
        /// Every body is parsed or refused, and what serde takes for an object is never "not JSON".
        #[test]
        fn no_body_is_a_crash(
            bits in vec(select(vec![
                "{", "}", "[", "]", ",", ":", "\"", "\\", "1", "-", "null", " ", "\"2.0\"", "{}",
                "\"jsonrpc\":\"2.0\"", "\"id\":1", "\"method\":\"m\"", "\"params\":[]", "\"result\":",
                "\"error\":", "\\ud800", "é",
            ]), 0..12),
            has_braces in any::<bool>(),
        ) {
            let body = if has_braces { format!("{{{}}}", bits.join(",")) } else { bits.concat() };
            let body = match repair_surrogates(body.as_bytes()) {
                Some(repaired) => repaired.body,
                None => body.into_bytes(),
            };
            let is_json = serde_json::from_slice::<IgnoredAny>(&body).is_ok();
            let is_parse_error = matches!(
                Message::parse(&body),
                Err(Refusal { code: PARSE_ERROR, .. })
            );
            prop_assert_eq!(is_parse_error, !is_json);
        }
    }
}
