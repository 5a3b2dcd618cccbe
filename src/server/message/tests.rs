//! Tests of `message`.

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
