//! `Content-Length` frames.
//!
//! Invariant: reading is strict, because a client that repairs what a server sends hides the server's faults.

use std::{
    io::{self, BufRead, Write},
    sync::mpsc,
};

use serde_json::Value;

/// The largest frame that a server may send; larger ones are taken for garbage in front of a number.
const FRAME_BYTES_MAX: usize = 1 << 30;

/// Puts a header before a body.
pub fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    frame.extend_from_slice(body);
    frame
}

/// Reads one message, strictly; nothing at the end of the output, an explanation for all that is not a frame.
pub(super) fn read_frame(stdout: &mut impl BufRead) -> Result<Option<Value>, String> {
    let mut length = None;
    for n_headers in 0.. {
        let mut line = Vec::new();
        let n_bytes = stdout
            .read_until(b'\n', &mut line)
            .map_err(|it| it.to_string())?;
        if n_bytes == 0 && n_headers == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let Some(header) = line.strip_suffix("\r\n") else {
            return Err(format!(
                "not a header line on the server's stdout: {line:?}"
            ));
        };
        if header.is_empty() {
            break;
        }
        match header.split_once(": ") {
            Some(("Content-Length", digits)) => length = digits.parse::<usize>().ok(),
            Some(("Content-Type", _)) => {}
            _ => return Err(format!("not a header on the server's stdout: {header:?}")),
        }
    }
    let Some(length) = length.filter(|&it| it <= FRAME_BYTES_MAX) else {
        return Err("a frame without a usable Content-Length on the server's stdout".to_string());
    };
    let mut body = vec![0; length];
    stdout
        .read_exact(&mut body)
        .map_err(|it| format!("the server's output ended within a frame: {it}"))?;
    match serde_json::from_slice(&body) {
        Ok(message @ Value::Object(_)) => Ok(Some(message)),
        Ok(other) => Err(format!(
            "not a JSON-RPC message on the server's stdout: {other}"
        )),
        Err(error) => Err(format!("not JSON on the server's stdout: {error}")),
    }
}

/// Writes until the sender is dropped, then closes the server's input; flushes when there is nothing more to write.
pub(super) fn write_frames(input: impl Write, to_write: &mpsc::Receiver<Vec<u8>>) {
    let mut input = io::BufWriter::with_capacity(64 * 1024, input);
    while let Ok(first) = to_write.recv() {
        let mut next = Some(first);
        while let Some(bytes) = next {
            if input.write_all(&bytes).is_err() {
                return;
            }
            next = to_write.try_recv().ok();
        }
        if input.flush().is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(output: &str, expected: &Expect) {
        let mut stdout = output.as_bytes();
        let mut seen = Vec::new();
        loop {
            match read_frame(&mut stdout) {
                Ok(Some(message)) => seen.push(message.to_string()),
                Ok(None) => break,
                Err(violation) => {
                    seen.push(format!("violation: {violation}"));
                    break;
                }
            }
        }
        expected.assert_eq(&(seen.join("\n") + "\n"));
    }

    #[test]
    fn frames_are_read_one_after_the_other() {
        check(
            "Content-Length: 8\r\n\r\n{\"id\":1}Content-Type: x\r\nContent-Length: 2\r\n\r\n{}",
            &expect![[r#"
                {"id":1}
                {}
            "#]],
        );
    }

    #[test]
    fn a_log_line_on_stdout_is_a_violation() {
        check(
            "Content-Length: 2\r\n\r\n{}INFO ready\n",
            &expect![[r#"
                {}
                violation: not a header line on the server's stdout: "INFO ready\n"
            "#]],
        );
    }

    #[test]
    fn an_end_within_a_frame_is_a_violation() {
        check(
            "Content-Length: 3\r\n\r\n{}",
            &expect![[r"
                violation: the server's output ended within a frame: failed to fill whole buffer
            "]],
        );
    }
}
