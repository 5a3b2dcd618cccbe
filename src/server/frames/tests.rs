//! Tests of `frames`.

use expect_test::{Expect, expect};
use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

const MAX_BYTES: usize = 100;
const GOOD: &str = r#"{"good":1}"#;

fn decode<'a>(max_bytes: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Frame> {
    let mut reader = FrameReader::new(max_bytes);
    let mut frames = Vec::new();
    for piece in pieces {
        reader.push(piece);
        frames.extend(&mut reader);
    }
    frames.extend(reader.finish());
    frames
}

fn good() -> Frame {
    Frame::Message(GOOD.into())
}

/// The frames of a stream, however it is cut; and a good frame behind it is always served.
#[track_caller]
fn check(stream: impl AsRef<[u8]>, expected: &Expect) {
    let stream = stream.as_ref();
    let frames = decode(MAX_BYTES, [stream]);
    let lines = frames.iter().map(|frame| match frame {
        Frame::Message(body) => format!("message {}\n", body.escape_ascii()),
        Frame::Bad { code, message } => format!("bad {code} {message}\n"),
        Frame::LostChange => "lost change\n".to_string(),
    });
    expected.assert_eq(&lines.collect::<String>());

    assert_eq!(decode(MAX_BYTES, stream.chunks(1)), frames);
    let continued = [stream, &encode(GOOD.as_bytes())].concat();
    let frames = decode(MAX_BYTES, [&continued[..]]);
    assert_eq!(frames.last(), Some(&good()));
    assert_eq!(decode(MAX_BYTES, continued.chunks(1)), frames);
}

#[test]
fn frames_follow_each_other() {
    check(
        "Content-Length: 7\r\n\r\n{\"a\":1}Content-Length: 2\r\n\r\n{}",
        &expect![[r#"
                message {\"a\":1}
                message {}
            "#]],
    );
}

#[test]
fn an_empty_stream_has_no_frames() {
    check("", &expect![]);
}

#[test]
fn header_names_have_any_case_and_any_blanks() {
    check(
        "cOnTeNt-lEnGtH : \t2 \r\n\r\n{}CONTENT-LENGTH:2\r\n\r\n{}",
        &expect![[r"
                message {}
                message {}
            "]],
    );
}

#[test]
fn other_headers_are_ignored() {
    check(
        "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n\
             Content-Length: 2\r\nX: \r\n\r\n{}",
        &expect![[r"
                message {}
            "]],
    );
}

#[test]
fn lines_end_with_lf_or_crlf_or_what_a_text_stream_makes_of_it() {
    check(
        "Content-Length: 2\n\n{}Content-Length: 2\r\r\n\r\r\n{}",
        &expect![[r"
                message {}
                message {}
            "]],
    );
}

#[test]
fn line_ends_between_frames_are_ignored() {
    check(
        "\r\nContent-Length: 2\r\n\r\n{}\n\n \nContent-Length: 2\r\n\r\n{}\n",
        &expect![[r"
                message {}
                message {}
            "]],
    );
}

#[test]
fn a_body_may_be_printed_over_several_lines() {
    check(
        "Content-Length: 12\r\n\r\n{\n  \"a\": 1\n}",
        &expect![[r#"
            message {\n  \"a\": 1\n}
        "#]],
    );
}

#[test]
fn a_body_may_speak_of_headers() {
    check(
        encode(br#"{"a":"Content-Length: 2\r\n\r\n{}"}"#),
        &expect![[r#"
            message {\"a\":\"Content-Length: 2\\r\\n\\r\\n{}\"}
        "#]],
    );
}

#[test]
fn equal_lengths_given_twice_are_accepted() {
    check(
        "Content-Length: 2\r\ncontent-length: 02\r\n\r\n{}",
        &expect![[r"
                message {}
            "]],
    );
}

#[test]
fn of_two_lengths_the_later_one_counts() {
    check(
        "Content-Length: 3\r\nContent-Length: 2\r\n\r\n{}",
        &expect![[r"
                bad -32700 the header section has two Content-Lengths
                message {}
            "]],
    );
}

#[test]
fn a_length_that_is_no_number_is_refused() {
    for length in ["-2", "+2", "2.0", "0x2", "two", "2, 2", ""] {
        check(
            format!("Content-Length: {length}\r\n\r\n{{}}"),
            &expect![[r"
                bad -32700 Content-Length is not a number of bytes
            "]],
        );
    }
}

#[test]
fn a_missing_length_is_refused() {
    check(
        "Content-Type: json\r\n\r\n{}",
        &expect![[r"
            bad -32700 the header section has no Content-Length
        "]],
    );
}

#[test]
fn an_empty_body_is_refused() {
    check(
        "Content-Length: 0\r\n\r\n",
        &expect![[r"
            bad -32700 the body is empty
        "]],
    );
}

#[test]
fn garbage_is_reported_once_and_the_next_header_is_found_behind_it() {
    check(
        "\u{feff}starting server...\nready\r\n\r\n{}, Content-Length: 2\r\n\r\n{}",
        &expect![[r"
                bad -32700 a line is neither a header nor part of a body
                message {}
            "]],
    );
}

#[test]
fn garbage_may_hold_half_a_header() {
    check(
        "Content-Length: 5Content-Le\nX: Content-Length: 2\r\n\r\n{}",
        &expect![[r"
                bad -32700 Content-Length is not a number of bytes
                message {}
            "]],
    );
}

#[test]
fn an_http_request_is_garbage_before_a_frame() {
    check(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        &expect![[r"
                bad -32700 a line is neither a header nor part of a body
                message {}
            "]],
    );
}

#[test]
fn each_incident_is_reported() {
    check(
        "garbage\nContent-Length: 2\r\n\r\n{}garbage\nmore\nContent-Length: 0\r\n\r\nmore\n",
        &expect![[r"
                bad -32700 a line is neither a header nor part of a body
                message {}
                bad -32700 a line is neither a header nor part of a body
                bad -32700 the body is empty
            "]],
    );
}

#[test]
fn a_header_section_has_a_limit() {
    check(
        "x".repeat(10_000),
        &expect![[r"
            bad -32700 the header section has more than 8 KiB
        "]],
    );
    check(
        "X: y\r\n".repeat(10_000),
        &expect![[r"
            bad -32700 the header section has more than 8 KiB
        "]],
    );
    check(
        format!("{}Content-Length: 2\r\n\r\n{{}}", "X: y\r\n".repeat(1365)),
        &expect![[r"
                bad -32700 the header section has more than 8 KiB
                message {}
            "]],
    );
}

#[test]
fn a_header_section_at_the_limit_is_served() {
    let length_line = "Content-Length: 2\r\n";
    let n_bytes = MAX_HEAD_BYTES - "X: \r\n".len() - length_line.len() - "\r\n".len();
    let line = "x".repeat(n_bytes);
    check(
        format!("X: {line}\r\n{length_line}\r\n{{}}"),
        &expect![[r"
                message {}
            "]],
    );
    check(
        format!("X: {line}x\r\n{length_line}\r\n{{}}"),
        &expect![[r"
                bad -32700 the header section has more than 8 KiB
            "]],
    );
}

#[test]
fn a_body_over_the_limit_is_skipped() {
    let body = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_BYTES));
    check(
        [encode(body.as_bytes()), encode(b"{}")].concat(),
        &expect![[r#"
                bad -32600 the message has 108 bytes, the limit is 100
                lost change
                message {}
            "#]],
    );
}

#[test]
fn a_body_at_the_limit_is_served() {
    let body = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_BYTES - 8));
    check(
        encode(body.as_bytes()),
        &expect![[r#"
            message {\"a\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}
        "#]],
    );
}

#[test]
fn an_absurd_length_never_makes_the_reader_deaf() {
    check(
        "Content-Length: 5000000000\r\n\r\n{}Content-Length: 2\r\n\r\n{}",
        &expect![[r#"
                bad -32600 the message has 5000000000 bytes, the limit is 100
                lost change
                message {}
            "#]],
    );
    check(
        "Content-Length: 99999999999999999999999\r\n\r\nContent-Length: 2\r\n\r\n{}",
        &expect![[r#"
                bad -32600 the message has 18446744073709551615 bytes, the limit is 100
                lost change
                message {}
            "#]],
    );
}

#[test]
fn a_length_within_the_limit_never_makes_the_reader_deaf() {
    check(
        "Content-Length: 99\r\n\r\n{}Content-Length: 2\r\n\r\n{}",
        &expect![[r"
                bad -32700 the body is shorter than its Content-Length 99: a header follows
                message {}
            "]],
    );
}

#[test]
fn a_length_too_large_by_a_few_bytes_costs_one_message() {
    check(
        "Content-Length: 9\r\n\r\n{}Content-Length: 2\r\n\r\n{}",
        &expect![[r"
                bad -32700 the body is not a whole object
                message {}
            "]],
    );
}

#[test]
fn a_length_over_the_limit_and_too_large_costs_one_message() {
    let body = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_BYTES));
    let length = body.len() + 9;
    check(
        format!("Content-Length: {length}\r\n\r\n{body}Content-Length: 2\r\n\r\n{{}}"),
        &expect![[r#"
                bad -32600 the message has 117 bytes, the limit is 100
                lost change
                message {}
            "#]],
    );
}

#[test]
fn a_length_too_small_costs_one_message() {
    check(
        "Content-Length: 4\r\n\r\n{\"a\":1}Content-Length: 2\r\n\r\n{}",
        &expect![[r"
                bad -32700 the body is not a whole object
                message {}
            "]],
    );
}

#[test]
fn a_length_too_small_that_looks_right_costs_one_message() {
    check(
        "Content-Length: 7\r\n\r\n{\"a\":{}}Content-Length: 2\r\n\r\n{}",
        &expect![[r#"
                message {\"a\":{}
                bad -32700 bytes before a header belong to no frame
                message {}
            "#]],
    );
}

#[test]
fn a_body_that_is_json_but_no_object_is_an_invalid_request() {
    check(
        encode(b" \"text\" "),
        &expect![[r"
            bad -32600 the body is not an object
        "]],
    );
    check(
        encode(b"text"),
        &expect![[r"
            bad -32700 the body is not a whole object
        "]],
    );
}

#[test]
fn an_array_is_left_to_the_parser() {
    check(
        encode(b"[1]"),
        &expect![[r"
            message [1]
        "]],
    );
}

#[test]
fn a_body_that_is_not_utf8_is_refused() {
    check(
        encode(b"{\"a\":\"\xff\"}"),
        &expect![[r"
            bad -32700 the body is not UTF-8 at byte 6
        "]],
    );
    check(
        encode(b"{\"a\":\"\xed\xa0\x80\"}"),
        &expect![[r"
            bad -32700 the body is not UTF-8 at byte 6
        "]],
    );
}

#[test]
fn half_a_frame_at_the_end_is_reported() {
    check(
        "Content-Length: 2\r\n\r\n{",
        &expect![[r"
            bad -32700 the input ends inside a body
        "]],
    );
    check(
        "Content-Length: 2\r\n",
        &expect![[r"
            bad -32700 the input ends inside a header section
        "]],
    );
    check(
        "Content-Le",
        &expect![[r"
            bad -32700 the input ends inside a header section
        "]],
    );
}

/// Bits of frames and of garbage, more telling than random bytes.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let long_line = "x".repeat(MAX_HEAD_BYTES - 20);
    let bits = select(vec![
        "Content-Length: ".to_string(),
        "content-length:".to_string(),
        "\nContent-Length: 9".to_string(),
        "Content-Length: 12\r\n\r\n".to_string(),
        "Content-Length: 120\r\n\r\n".to_string(),
        "Content-Type: x\r\n".to_string(),
        "0".to_string(),
        "17".to_string(),
        "\r\n".to_string(),
        "\n".to_string(),
        "\r".to_string(),
        " ".to_string(),
        "-".to_string(),
        ":".to_string(),
        "{".to_string(),
        "}".to_string(),
        "{\"a\":\"é\"}".to_string(),
        "[\n]".to_string(),
        "x".repeat(WINDOW_BYTES + 5),
        " ".repeat(WINDOW_BYTES),
        format!("X: {long_line}\r\n"),
        long_line,
    ]);
    let bit = prop_oneof![
        8 => bits.prop_map(String::into_bytes),
        2 => Just(encode(GOOD.as_bytes())),
        1 => vec(any::<u8>(), 0..20),
    ];
    vec(bit, 0..16).prop_map(|bits| bits.concat())
}

fn cut<'a>(mut stream: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for &length in lengths.iter().cycle() {
        if stream.len() <= length {
            break;
        }
        let (piece, rest) = stream.split_at(length);
        pieces.push(piece);
        stream = rest;
    }
    pieces.push(stream);
    pieces
}

/// An object, printed on one line or on several.
fn body() -> impl Strategy<Value = Vec<u8>> {
    (".{0,30}", any::<bool>()).prop_map(|(text, is_pretty)| {
        let value = serde_json::json!({ "text": text, "list": [1, {}] });
        let print = if is_pretty {
            serde_json::to_vec_pretty
        } else {
            serde_json::to_vec
        };
        print(&value).expect("a value can be printed")
    })
}

proptest! {
    #[test]
    fn the_pieces_of_a_stream_do_not_matter(
        stream in stream(),
        lengths in vec(1..200_usize, 1..8),
    ) {
        let whole = decode(MAX_BYTES, [&stream[..]]);
        prop_assert_eq!(&decode(MAX_BYTES, cut(&stream, &lengths)), &whole);
        prop_assert_eq!(&decode(MAX_BYTES, stream.chunks(1)), &whole);
    }

    #[test]
    fn a_good_frame_is_served_after_anything(stream in stream()) {
        let stream = [stream, encode(GOOD.as_bytes())].concat();
        let frames = decode(MAX_BYTES, [&stream[..]]);
        prop_assert_eq!(frames.last(), Some(&good()));
    }

    #[test]
    fn a_good_frame_is_served_after_random_bytes(bytes in vec(any::<u8>(), 0..300)) {
        let stream = [bytes, encode(GOOD.as_bytes())].concat();
        let frames = decode(MAX_BYTES, stream.chunks(7));
        prop_assert_eq!(frames.last(), Some(&good()));
    }

    #[test]
    fn a_damaged_frame_costs_no_other(
        bodies in vec(body(), 1..6),
        damaged_idx in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        n_removed in 0..80_usize,
        inserted in vec(any::<u8>(), 0..80),
    ) {
        let damaged_idx = damaged_idx.index(bodies.len());
        let mut frames: Vec<_> = bodies.iter().map(|body| encode(body)).collect();
        let damaged = &mut frames[damaged_idx];
        let start = place.index(damaged.len());
        let end = damaged.len().min(start + n_removed);
        damaged.splice(start..end, inserted);

        let served: Vec<_> = decode(1000, cut(&frames.concat(), &[50]))
            .into_iter()
            .filter_map(|frame| match frame {
                Frame::Message(body) => Some(body),
                Frame::Bad { .. } | Frame::LostChange => None,
            })
            .collect();
        prop_assert!(served.starts_with(&bodies[..damaged_idx]));
        prop_assert!(served.ends_with(&bodies[damaged_idx + 1..]));
    }
}

#[test]
fn a_lost_change_is_told_before_the_next_message() {
    let change = br#"{"method":"textDocument/didChange","params":"#;
    let stream = [&encode(change)[..], &encode(GOOD.as_bytes())].concat();
    let frames = decode(MAX_BYTES, [&stream[..]]);
    assert!(matches!(frames[0], Frame::Bad { .. }), "{frames:?}");
    assert_eq!(frames[1..], [Frame::LostChange, good()]);
    assert_eq!(decode(MAX_BYTES, stream.chunks(1)), frames);
}

/// No stream makes the reader hold more than the limit and some pieces.
#[test]
fn memory_is_bounded() {
    const PIECE_BYTES: usize = 1000;
    const MAX_BYTES: usize = 100_000;
    let streams = [
        ("", "x"),
        ("", "X: y\r\n"),
        ("", "\n"),
        ("", "Content-Length: 90000\n\n{"),
        ("Content-Length: x\n", "{\"a\":1}"),
        ("Content-Length: 100000\n\n", "x"),
        ("Content-Length: 5000000000\n\n", "{\n"),
    ];
    for (head, repeated) in streams {
        let mut reader = FrameReader::new(MAX_BYTES);
        reader.push(head.as_bytes());
        let piece = repeated.repeat(PIECE_BYTES / repeated.len());
        for _ in 0..4000 {
            reader.push(piece.as_bytes());
            while reader.next().is_some() {}
            let n_bytes = reader.buffer.capacity()
                + match &reader.state {
                    State::Body(body) => body.bytes.capacity(),
                    _ => 0,
                };
            assert!(
                n_bytes <= MAX_BYTES + 2 * MAX_HEAD_BYTES + 4 * PIECE_BYTES,
                "{n_bytes} by {head:?}"
            );
        }
    }
}
