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

#[cfg(test)]
mod tests;

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
