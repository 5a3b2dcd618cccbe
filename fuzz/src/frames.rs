//! The reader of frames, on streams of anything.

use abreast::server::frames::{Frame, FrameReader, encode};

use super::source::Source;

const MAX_BYTES: usize = 100;
const GOOD: &[u8] = br#"{"good":1}"#;
/// What streams are made of, beside single bytes.
const PARTS: [&[u8]; 14] = [
    b"Content-Length: 2\r\n\r\n{}",
    b"Content-Length: ",
    b"content-length:3",
    b"Content-Length: 99999999999999999999",
    b"Content-Type: a\r\n",
    b"\r\n\r\n",
    b"\r\n",
    b"\n",
    b"10",
    b"{",
    b"}",
    b"[1]",
    b"/didChange\"",
    b"\xFF",
];

/// The pieces of a stream do not matter, and a good frame is served whatever came before it.
pub fn frame_reader(data: &[u8]) {
    let mut source = Source::new(data);
    let n_parts = source.below(24);
    let mut stream = Vec::new();
    for _ in 0..n_parts {
        match source.below(PARTS.len() + 2) {
            idx if idx < PARTS.len() => stream.extend_from_slice(PARTS[idx]),
            _ => stream.push(source.byte()),
        }
    }
    let lengths = [1 + source.below(30), 1 + source.below(5)];
    stream.extend_from_slice(source.rest());
    let frames = decode([&stream[..]]);
    assert_eq!(decode(cut(&stream, lengths)), frames);
    for frame in &frames {
        if let Frame::Message(body) = frame {
            let text = std::str::from_utf8(body).expect("a body is text").trim();
            let is_json = text.starts_with('{') && text.ends_with('}')
                || text.starts_with('[') && text.ends_with(']');
            assert!(is_json && body.len() <= MAX_BYTES, "{text:?}");
        }
    }
    let continued = [&stream[..], &encode(GOOD)].concat();
    let frames = decode([&continued[..]]);
    assert_eq!(frames.last(), Some(&Frame::Message(GOOD.to_vec())));
    assert_eq!(decode(cut(&continued, lengths)), frames);
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Frame> {
    let mut reader = FrameReader::new(MAX_BYTES);
    let mut frames = Vec::new();
    for piece in pieces {
        reader.push(piece);
        frames.extend(&mut reader);
    }
    frames.extend(reader.finish());
    frames
}

/// Pieces of both lengths in turn.
fn cut(stream: &[u8], lengths: [usize; 2]) -> Vec<&[u8]> {
    let mut rest = stream;
    let mut pieces = Vec::new();
    for length in lengths.into_iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, tail) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}
