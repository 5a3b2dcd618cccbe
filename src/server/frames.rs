//! Cuts the byte stream of an editor into JSON bodies and repairs what can be repaired.
//!
//! Invariant: a well-formed frame is served whatever came before it. JSON text cannot hold a raw
//! line end right after `Content-Length: N` (inside a string line ends are escaped, outside of one
//! the words are an error), so such a line always starts a frame. It ends garbage, a body shorter
//! than announced, and the skipping of a body over the limit; a wrong length never makes us deaf.
//! The frames depend on the bytes alone, not on the pieces in which they arrive, and memory is
//! bounded by the size limit, the largest piece and a header section.
//!
//! Sans-IO, and no JSON parser: a body only has to begin and end like an object or an array.

#[cfg(test)]
mod tests;

mod surrogates;

use std::{
    mem,
    ops::{ControlFlow, Range},
    str,
};

use memchr::{memchr, memchr_iter, memmem};
use serde::de::IgnoredAny;

pub use surrogates::{LoneSurrogate, Repaired, repair_surrogates};

/// The JSON-RPC code for what is not a frame or not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON-RPC code for JSON that is not a message, and for a message that is too large.
pub const INVALID_REQUEST: i64 = -32600;

/// The longest header section; real ones have under 100 bytes.
const MAX_HEAD_BYTES: usize = 8 * 1024;
/// In what is left out, this tells a change of a document.
const CHANGE: &[u8] = b"/didChange\"";
/// How far before its line end a `Content-Length` header is looked for behind foreign bytes.
const WINDOW_BYTES: usize = 64;

/// What the stream held next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// One complete body: UTF-8, and an object or an array by its first and last character.
    Message(Vec<u8>),
    /// Something unusable, once per incident: what follows it up to the next header is left out.
    Bad {
        /// [`PARSE_ERROR`] or [`INVALID_REQUEST`].
        code: i64,
        /// What was wrong, for people; never holds content.
        message: String,
    },
    /// What was left out may have been a change of a document, nobody knows of which.
    LostChange,
}

/// A decoder of frames: bytes go in by [`push`](Self::push), frames come out as from an iterator.
///
/// Take all frames after each push, or the bytes pile up. `None` means "not yet".
#[derive(Debug)]
pub struct FrameReader {
    max_bytes: usize,
    /// The bytes from `start` on are not consumed; from there to `scanned` there is no line end.
    buffer: Vec<u8>,
    start: usize,
    scanned: usize,
    state: State,
    /// Whether the incident at hand has been reported; a complete header section ends it.
    reported: bool,
    /// Something that may have been a change was left out since the last message.
    lost_change: bool,
    /// The message that waits until that has been told.
    held: Option<Frame>,
}

#[derive(Debug)]
enum State {
    Head(Head),
    /// Looking for the next header.
    Lost,
    Body(Body),
}

/// A header section so far; its lines are not kept.
#[derive(Debug, Default)]
struct Head {
    length: Option<u64>,
    n_bytes: usize,
}

#[derive(Debug)]
struct Body {
    length: u64,
    n_missing: u64,
    /// Whether the body is within the limit. Otherwise `bytes` is only its last window.
    kept: bool,
    bytes: Vec<u8>,
}

/// One line of a header section.
enum Line {
    Blank,
    ContentLength(u64),
    BadContentLength,
    /// A `Content-Length` behind bytes that are no header.
    ContentLengthAfterGarbage(u64),
    OtherHeader,
    Garbage,
}

/// `Break` holds the answer of `FrameReader::next`.
type Step = ControlFlow<Option<Frame>>;

impl FrameReader {
    /// Creates a reader that refuses bodies of more than `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            state: State::default(),
            reported: false,
            lost_change: false,
            held: None,
        }
    }

    /// Takes in the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Ends the stream: reports half a frame, if one is left.
    pub fn finish(&mut self) -> Option<Frame> {
        let blank = self.buffer[self.start..].trim_ascii().is_empty();
        self.buffer.clear();
        self.start = 0;
        self.scanned = 0;
        let place = match mem::take(&mut self.state) {
            State::Head(head) if head.length.is_none() && head.n_bytes == 0 && blank => {
                return None;
            }
            State::Head(_) => "a header section",
            State::Body(_) => "a body",
            State::Lost => return None,
        };
        self.report(PARSE_ERROR, format!("the input ends inside {place}"))
            .break_value()
            .flatten()
    }

    fn head(&mut self, head: Head) -> Step {
        const TOO_LONG: &str = "the header section has more than 8 KiB";
        let Some(line_end) = self.line_end() else {
            if head.n_bytes + self.buffer.len() - self.start > MAX_HEAD_BYTES {
                return self.lose(TOO_LONG);
            }
            self.state = State::Head(head);
            return Step::Break(None);
        };
        let n_bytes = head.n_bytes + line_end + 1 - self.start;
        if n_bytes > MAX_HEAD_BYTES {
            // The line is not consumed: it may be the header of the next frame.
            return self.lose(TOO_LONG);
        }
        let line = Line::parse(&self.buffer[self.start..line_end]);
        self.consume(line_end + 1);
        match line {
            Line::Blank => match head.length {
                Some(length) => self.begin_body(length),
                // Some clients end a body with a line end.
                None if head.n_bytes == 0 => Step::Continue(()),
                None => self.lose("the header section has no Content-Length"),
            },
            Line::ContentLength(length) => {
                self.state = State::Head(Head {
                    length: Some(length),
                    n_bytes,
                });
                match head.length {
                    // The later one may be that of the next frame, the first one cut off.
                    Some(other) if other != length => {
                        self.report(PARSE_ERROR, "the header section has two Content-Lengths")
                    }
                    _ => Step::Continue(()),
                }
            }
            Line::ContentLengthAfterGarbage(length) => {
                self.state = State::resynchronised(length);
                self.report(PARSE_ERROR, "bytes before a header belong to no frame")
            }
            Line::BadContentLength => self.lose("Content-Length is not a number of bytes"),
            Line::OtherHeader => {
                let length = head.length;
                self.state = State::Head(Head { length, n_bytes });
                Step::Continue(())
            }
            Line::Garbage => self.lose("a line is neither a header nor part of a body"),
        }
    }

    fn lost(&mut self) -> Step {
        let line_end = self.line_end();
        self.note_lost(self.start..line_end.unwrap_or(self.buffer.len()));
        let Some(line_end) = line_end else {
            self.start = self
                .start
                .max(self.buffer.len().saturating_sub(WINDOW_BYTES));
            self.state = State::Lost;
            return Step::Break(None);
        };
        self.state = match header_at_end(&self.buffer[self.start..line_end]) {
            Some((length, _)) => State::resynchronised(length),
            None => State::Lost,
        };
        self.consume(line_end + 1);
        Step::Continue(())
    }

    fn begin_body(&mut self, length: u64) -> Step {
        self.reported = false;
        if length == 0 {
            return self.report(PARSE_ERROR, "the body is empty");
        }
        let kept = usize::try_from(length).is_ok_and(|it| it <= self.max_bytes);
        self.state = State::Body(Body {
            length,
            n_missing: length,
            kept,
            bytes: Vec::new(),
        });
        if kept {
            return Step::Continue(());
        }
        let max_bytes = self.max_bytes;
        self.lost_change = true;
        self.report(
            INVALID_REQUEST,
            format!("the message has {length} bytes, the limit is {max_bytes}"),
        )
    }

    fn body(&mut self, mut body: Body) -> Step {
        let n_available = self.buffer.len() - self.start;
        let n_piece = usize::try_from(body.n_missing).map_or(n_available, |it| it.min(n_available));
        let piece = &self.buffer[self.start..self.start + n_piece];

        if let Some((line_end, n_header)) = header_inside(&body.bytes, piece) {
            body.append(&piece[..line_end]);
            self.consume(self.start + line_end);
            self.give_back(n_header, line_end, &body.bytes);
            let length = body.length;
            self.lost_change |= may_be_change(&body.bytes);
            return self.report(
                PARSE_ERROR,
                format!("the body is shorter than its Content-Length {length}: a header follows"),
            );
        }

        body.append(piece);
        self.consume(self.start + n_piece);
        if body.n_missing > 0 {
            self.state = State::Body(body);
            return Step::Break(None);
        }
        let Err((code, message)) = body.check() else {
            if body.kept {
                return Step::Break(Some(Frame::Message(body.bytes)));
            }
            return Step::Continue(());
        };
        // A length that is too large ends inside the next header, so the end is looked at again.
        self.lost_change |= may_be_change(&body.bytes);
        let n_back = body.bytes.len().min(WINDOW_BYTES);
        self.give_back(n_back, n_piece, &body.bytes);
        self.state = State::Lost;
        self.report(code, message)
    }

    /// Makes the last `n_back` bytes of `body` unread; its last `n_piece` are still in the buffer.
    fn give_back(&mut self, n_back: usize, n_piece: usize, body: &[u8]) {
        if n_back <= n_piece {
            self.consume(self.start - n_back);
        } else {
            let tail = &body[body.len() - n_back..];
            self.buffer.splice(..self.start, tail.iter().copied());
            self.consume(0);
        }
    }

    /// Finds the end of the line that begins at `start`.
    fn line_end(&mut self) -> Option<usize> {
        let line_end = memchr(b'\n', &self.buffer[self.scanned..]).map(|it| self.scanned + it);
        self.scanned = line_end.unwrap_or(self.buffer.len());
        line_end
    }

    fn consume(&mut self, end: usize) {
        self.start = end;
        self.scanned = end;
    }

    fn note_lost(&mut self, range: Range<usize>) {
        self.lost_change |= may_be_change(&self.buffer[range]);
    }

    fn lose(&mut self, message: &str) -> Step {
        self.state = State::Lost;
        self.report(PARSE_ERROR, message)
    }

    fn report(&mut self, code: i64, message: impl Into<String>) -> Step {
        if mem::replace(&mut self.reported, true) {
            return Step::Continue(());
        }
        Step::Break(Some(Frame::Bad {
            code,
            message: message.into(),
        }))
    }
}

impl Iterator for FrameReader {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        if self.held.is_some() {
            return self.held.take();
        }
        loop {
            // Every step sets the state anew, unless the next thing is a fresh header section.
            let step = match mem::take(&mut self.state) {
                State::Head(head) => self.head(head),
                State::Body(body) => self.body(body),
                State::Lost => self.lost(),
            };
            let Step::Break(answer) = step else { continue };
            if matches!(answer, Some(Frame::Message(_))) && mem::take(&mut self.lost_change) {
                self.held = answer;
                return Some(Frame::LostChange);
            }
            return answer;
        }
    }
}

impl State {
    /// The state after a `Content-Length` line that was found among foreign bytes.
    fn resynchronised(length: u64) -> Self {
        Self::Head(Head {
            length: Some(length),
            n_bytes: 0,
        })
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Head(Head::default())
    }
}

impl Body {
    fn append(&mut self, piece: &[u8]) {
        self.n_missing -= piece.len() as u64;
        if self.kept {
            // Doubles as bytes arrive: an announced length is not worth memory yet.
            let n_bytes = self.bytes.len() + piece.len();
            if n_bytes > self.bytes.capacity() {
                let rest = usize::try_from(self.n_missing).map_or(n_bytes, |it| it.min(n_bytes));
                self.bytes.reserve_exact(piece.len() + rest);
            }
            self.bytes.extend_from_slice(piece);
        } else {
            self.bytes.extend_from_slice(window(piece));
            let n_surplus = self.bytes.len().saturating_sub(WINDOW_BYTES);
            self.bytes.drain(..n_surplus);
        }
    }

    /// Refuses a complete body that is no message by its ends, or not UTF-8.
    fn check(&self) -> Result<(), (i64, String)> {
        let body = self.bytes.trim_ascii();
        if !self.kept {
            return match body.last() {
                Some(b'}' | b']') => Ok(()),
                _ => Err((INVALID_REQUEST, String::new())),
            };
        }
        match (body.first(), body.last()) {
            (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) => {}
            _ if serde_json::from_slice::<IgnoredAny>(body).is_ok() => {
                return Err((INVALID_REQUEST, "the body is not an object".to_string()));
            }
            _ => return Err((PARSE_ERROR, "the body is not a whole object".to_string())),
        }
        str::from_utf8(&self.bytes).map(|_| ()).map_err(|err| {
            let byte = err.valid_up_to();
            (PARSE_ERROR, format!("the body is not UTF-8 at byte {byte}"))
        })
    }
}

impl Line {
    fn parse(line: &[u8]) -> Self {
        if line.trim_ascii().is_empty() {
            return Self::Blank;
        }
        let (name, value) = match memchr(b':', line) {
            Some(colon) => (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()),
            None => (&b""[..], line),
        };
        let is_content_length = name.eq_ignore_ascii_case(CONTENT_LENGTH);
        if is_content_length && let Some(length) = parse_length(value) {
            return Self::ContentLength(length);
        }
        if let Some((length, _)) = header_at_end(line) {
            return Self::ContentLengthAfterGarbage(length);
        }
        if is_content_length {
            return Self::BadContentLength;
        }
        if !name.is_empty() && name.iter().all(|&it| is_token_byte(it)) {
            return Self::OtherHeader;
        }
        Self::Garbage
    }
}

const CONTENT_LENGTH: &[u8] = b"content-length";

/// Finds a `Content-Length` line that ends in `piece`, the continuation of `before`: where its line
/// end is in `piece`, and how many bytes the header has before that.
fn header_inside(before: &[u8], piece: &[u8]) -> Option<(usize, usize)> {
    memchr_iter(b'\n', piece).find_map(|line_end| {
        let head = window(&piece[..line_end]);
        let n_before = before.len().min(WINDOW_BYTES - head.len());
        let header = if n_before == 0 {
            header_at_end(head)
        } else {
            header_at_end(&[&before[before.len() - n_before..], head].concat())
        };
        header.map(|(_, n_header)| (line_end, n_header))
    })
}

/// Parses the `Content-Length: N` at the end of a line: N, and how many bytes the header has.
fn header_at_end(line: &[u8]) -> Option<(u64, usize)> {
    let line = window(line);
    let rest = trim_end(line, |it| matches!(it, b' ' | b'\t' | b'\r'));
    let before_digits = trim_end(rest, |it| it.is_ascii_digit());
    let length = parse_length(&rest[before_digits.len()..])?;
    let rest = trim_end(before_digits, is_blank).strip_suffix(b":")?;
    let rest = trim_end(rest, is_blank);
    let name_start = rest.len().checked_sub(CONTENT_LENGTH.len())?;
    rest[name_start..]
        .eq_ignore_ascii_case(CONTENT_LENGTH)
        .then_some((length, line.len() - name_start))
}

/// Parses digits and nothing else; what exceeds 64 bits is the largest number.
fn parse_length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let append = |n: u64, it: &u8| n.saturating_mul(10).saturating_add(u64::from(it - b'0'));
    Some(digits.iter().fold(0, append))
}

/// The part of a line in which a header behind foreign bytes is looked for.
fn window(line: &[u8]) -> &[u8] {
    &line[line.len().saturating_sub(WINDOW_BYTES)..]
}

fn trim_end(bytes: &[u8], is_trimmed: impl Fn(u8) -> bool) -> &[u8] {
    let end = bytes.iter().rposition(|&it| !is_trimmed(it));
    &bytes[..end.map_or(0, |it| it + 1)]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The bytes of a header name (RFC 9110, `tchar`).
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether a body that cannot be read may be a change of a document.
pub fn may_be_change(body: &[u8]) -> bool {
    memmem::find(body, CHANGE).is_some()
}

/// Frames a message.
pub fn encode(body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(body.len() + 40);
    encode_into(&mut frame, body);
    frame
}

/// Appends a framed message to `output`.
pub(crate) fn encode_into(output: &mut Vec<u8>, body: &[u8]) {
    output.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    output.extend_from_slice(body);
}
