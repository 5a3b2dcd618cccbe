//! What differs between what is there and what should be there, for people to read.
//!
//! Line ends, blanks at line ends and byte order marks are made visible, because they are what often differs.

use std::{fmt::Write, time::Duration};

use similar::{Algorithm, DiffOp};

/// How many rows are shown.
const ROWS_MAX: usize = 24;
/// How much of a line is shown.
const CHARS_MAX: usize = 160;
/// How long the search for a small difference may take; a larger one is shown then.
const SEARCH: Duration = Duration::from_millis(500);

/// Returns rows that lead from `expected` (`-`) to `found` (`+`), with a line around each difference.
pub(crate) fn of_bytes(expected: &[u8], found: &[u8]) -> String {
    match (std::str::from_utf8(expected), std::str::from_utf8(found)) {
        (Ok(expected), Ok(found)) => of_texts(expected, found),
        _ => of_binaries(expected, found),
    }
}

/// Returns rows that lead from `expected` (`-`) to `found` (`+`), with a line around each difference.
pub(crate) fn of_texts(expected: &str, found: &str) -> String {
    let (old, new) = (lines(expected), lines(found));
    let deadline = std::time::Instant::now() + SEARCH;
    let operations =
        similar::capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    let mut rows = vec!["- expected, + found".to_string()];
    for group in similar::group_diff_ops(operations, 1) {
        let first_line = group.first().map_or(0, |it| it.old_range().start) + 1;
        rows.push(format!("@ line {first_line}"));
        for operation in group {
            let (old, new) = (&old[operation.old_range()], &new[operation.new_range()]);
            if matches!(operation, DiffOp::Equal { .. }) {
                rows.extend(old.iter().map(|it| row(' ', it)));
            } else {
                rows.extend(old.iter().map(|it| row('-', it)));
                rows.extend(new.iter().map(|it| row('+', it)));
            }
        }
    }
    if rows.len() > ROWS_MAX {
        let n_more = rows.len() - ROWS_MAX;
        rows.truncate(ROWS_MAX);
        rows.push(format!("… and {n_more} rows more"));
    }
    rows.join("\n")
}

fn of_binaries(expected: &[u8], found: &[u8]) -> String {
    let at = expected
        .iter()
        .zip(found)
        .take_while(|(expected, found)| expected == found)
        .count();
    let hex = |bytes: &[u8]| {
        bytes[at..]
            .iter()
            .take(8)
            .fold(String::new(), |mut hex, byte| {
                // Writing to a string does not fail.
                let _ = write!(hex, " {byte:02x}");
                hex
            })
    };
    let (n_expected, n_found) = (expected.len(), found.len());
    format!(
        "from byte {at} on: expected{} ({n_expected} bytes in all), found{} ({n_found} bytes in all)",
        hex(expected),
        hex(found)
    )
}

fn row(sign: char, line: &str) -> String {
    let mut shown = String::new();
    let content = line.trim_end_matches(['\r', '\n']);
    let n_blanks = content.chars().rev().take_while(|&it| it == ' ').count();
    let n_before = content.chars().count() - n_blanks;
    for (idx, char) in line.chars().enumerate() {
        if idx == CHARS_MAX {
            shown.push('…');
            break;
        }
        match char {
            '\r' => shown.push('␍'),
            '\n' => shown.push('␊'),
            '\t' => shown.push('␉'),
            '\u{feff}' => shown.push_str("⟨BOM⟩"),
            ' ' if idx >= n_before => shown.push('␠'),
            char if char.is_control() || (char.is_whitespace() && char != ' ') => {
                let _ = write!(shown, "⟨{:04X}⟩", u32::from(char));
            }
            char => shown.push(char),
        }
    }
    if !line.ends_with(['\r', '\n']) {
        shown.push_str("⟨end⟩");
    }
    format!("{sign} {shown}")
}

/// The lines with their ends.
fn lines(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut lines = Vec::new();
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let ends_line = *byte == b'\n' || (*byte == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
        if ends_line {
            lines.push(&text[start..=at]);
            start = at + 1;
        }
    }
    if start < text.len() {
        lines.push(&text[start..]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(expected_text: &str, found: &str, expected: &Expect) {
        expected.assert_eq(&of_texts(expected_text, found));
    }

    #[test]
    fn line_ends_are_visible() {
        check(
            "one\r\ntwo\r\nthree\r\n",
            "one\r\ntwo\nthree\r\n",
            &expect![[r"
                - expected, + found
                @ line 1
                  one␍␊
                - two␍␊
                + two␊
                  three␍␊"]],
        );
    }

    #[test]
    fn blanks_marks_and_a_missing_end_are_visible() {
        check(
            "\u{feff}a b  \n\tx",
            "a b\n\tx\u{a0}\n",
            &expect![[r"
                - expected, + found
                @ line 1
                - ⟨BOM⟩a b␠␠␊
                - ␉x⟨end⟩
                + a b␊
                + ␉x⟨00A0⟩␊"]],
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_numbers() {
        let shown = of_bytes(b"a\xff\x01", b"a\xff\x02\x03");
        expect!["from byte 2 on: expected 01 (3 bytes in all), found 02 03 (4 bytes in all)"]
            .assert_eq(&shown);
    }
}
