//! Windows of a text, as an agent is shown them.
//!
//! Invariant: what is returned is a piece of the view text to the letter, except for lines that are listed as cut; and
//! wherever something is left out, the result says how to go on, and going on makes progress.

use crate::{
    error::{Code, FsError},
    ledger::Lines,
    protocol::{Format, Limits},
    text::Text,
};

/// What is asked for: 1-based first line, number of lines.
#[derive(Debug, Clone, Copy, Default)]
#[allow(missing_docs)]
pub struct Wanted {
    pub offset: Option<usize>,
    pub limit: Option<usize>,
    pub format: Format,
}

/// A window: 1-based lines `start_line..=end_line` (an empty one ends before it starts).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Window {
    pub text: String,
    pub start_line: usize,
    pub end_line: usize,
    pub total_lines: usize,
    pub truncated: bool,
    pub next_offset: Option<usize>,
    pub cut_lines: Vec<usize>,
    /// The lines that were shown as a whole.
    pub shown: Lines,
}

/// Cuts a window out of a text.
///
/// # Errors
///
/// `FS_OUT_OF_RANGE` for an offset beyond the last line.
pub fn window(text: &Text, wanted: Wanted, limits: &Limits) -> Result<Window, Box<FsError>> {
    let total_lines = text.total_lines();
    let start_line = wanted.offset.unwrap_or(1);
    if start_line > total_lines.max(1) {
        let what = format!("offset {start_line} is out of range: the file has {total_lines} lines");
        let remedy = format!("use an offset from 1 to {}", total_lines.max(1));
        return Err(Box::new(FsError::new(Code::FsOutOfRange, what, remedy)));
    }
    let wanted_lines = wanted
        .limit
        .unwrap_or(limits.read_lines)
        .min(limits.read_lines);
    let mut rows = Rows {
        limits,
        n_bytes: 0,
        text: String::new(),
        numbered: wanted.format == Format::Numbered,
        cut: Vec::new(),
    };
    let mut line = start_line;
    let mut start = text
        .line_start(start_line - 1)
        .unwrap_or_else(|| text.len_bytes());
    while line <= total_lines && line < start_line.saturating_add(wanted_lines) {
        let end = line_end(text, line, start);
        if !rows.push(text, line, start..end) {
            break;
        }
        start = end;
        line += 1;
    }
    let end_line = line - 1;
    let next_offset = (end_line < total_lines).then_some(line);
    let mut shown = Lines::default();
    let mut from = start_line - 1;
    for &cut in &rows.cut {
        shown.add(from, cut - 1);
        from = cut;
    }
    shown.add(from, end_line);
    if rows.numbered {
        let capped = next_offset.is_some() && line < start_line.saturating_add(wanted_lines);
        rows.text.push_str(&footer(
            start_line,
            end_line,
            total_lines,
            next_offset,
            capped,
        ));
    }
    Ok(Window {
        truncated: next_offset.is_some() || !rows.cut.is_empty(),
        text: rows.text,
        start_line,
        end_line,
        total_lines,
        next_offset,
        cut_lines: rows.cut,
        shown,
    })
}

fn footer(start: usize, end: usize, total: usize, next: Option<usize>, capped: bool) -> String {
    match next {
        None => format!("\n(End of file - total {total} lines)"),
        Some(next) => {
            let capped = if capped { "Output capped. " } else { "" };
            format!(
                "\n({capped}Showing lines {start}-{end} of {total}. Use offset={next} to continue.)"
            )
        }
    }
}

struct Rows<'a> {
    limits: &'a Limits,
    /// Of the rows so far, each with a line break.
    n_bytes: usize,
    text: String,
    numbered: bool,
    cut: Vec<usize>,
}

impl Rows<'_> {
    /// Adds a line, given by its bytes with its break; false if it does not fit any more. The first line always fits,
    /// cut if need be.
    fn push(&mut self, text: &Text, line: usize, bytes: std::ops::Range<usize>) -> bool {
        let has_break = text.byte(bytes.end.saturating_sub(1)) == Some(b'\n');
        let is_first = self.n_bytes == 0;
        // No character has more than four bytes: what a line can show of itself is bounded before it is copied.
        let most = self.limits.line_chars.saturating_mul(4).saturating_add(2);
        let (mut row, mut is_cut) = view(text, bytes, most);
        let broken = row.ends_with('\n');
        if broken {
            row.pop();
        }
        if let Some((at, _)) = row.char_indices().nth(self.limits.line_chars) {
            row.truncate(at);
            is_cut = true;
        }
        if self.n_bytes.saturating_add(row.len()) > self.limits.read_bytes {
            if !is_first {
                return false;
            }
            let mut at = self.limits.read_bytes;
            while !row.is_char_boundary(at) {
                at -= 1;
            }
            row.truncate(at);
            is_cut = true;
        }
        self.n_bytes += row.len() + 1;
        if is_cut {
            self.cut.push(line);
        }
        if self.numbered {
            let cut = if is_cut { "… (line cut)" } else { "" };
            self.text += &format!("{line}: {row}{cut}\n");
        } else {
            self.text.push_str(&row);
            if broken || is_cut && has_break {
                self.text.push('\n');
            }
        }
        true
    }
}

/// Where a 1-based line that starts at `start` ends, behind its break. A rope knows that; of a flat text everything
/// before its nth line would have to be read.
fn line_end(text: &Text, line: usize, start: usize) -> usize {
    match text {
        Text::Rope(_) => text.line_start(line).unwrap_or_else(|| text.len_bytes()),
        Text::Flat(_) => text.line_end(start),
    }
}

/// The view text of a line, at most about `most` bytes of it; true if there is more.
fn view(text: &Text, range: std::ops::Range<usize>, most: usize) -> (String, bool) {
    if range.len() <= most {
        return (text.view(range), false);
    }
    let mut end = range.start + most;
    while text.byte(end).is_some_and(|byte| byte & 0xC0 == 0x80) {
        end -= 1;
    }
    (text.view(range.start..end), true)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn limits() -> Limits {
        Limits {
            read_lines: 3,
            read_bytes: 23,
            line_chars: 8,
            ..Limits::default()
        }
    }

    #[track_caller]
    fn check(text: &str, offset: usize, limit: usize, format: Format, expected: Expect) {
        let wanted = Wanted {
            offset: Some(offset),
            limit: Some(limit),
            format,
        };
        let actual = match window(&Text::flat(text.to_string()), wanted, &limits()) {
            Ok(it) => format!(
                "{}|{}-{}/{} next {:?} cut {:?}",
                it.text, it.start_line, it.end_line, it.total_lines, it.next_offset, it.cut_lines
            ),
            Err(err) => err.message(),
        };
        expected.assert_eq(&actual);
    }

    #[test]
    fn a_window_keeps_the_line_break_of_its_last_line() {
        check(
            "a\nb\nc\nd",
            2,
            2,
            Format::Text,
            expect![[r#"
            b
            c
            |2-3/4 next Some(4) cut []"#]],
        );
        check(
            "a\nb\nc\nd",
            4,
            9,
            Format::Text,
            expect!["d|4-4/4 next None cut []"],
        );
    }

    #[test]
    fn an_empty_text_has_an_empty_window_at_line_1_only() {
        check("", 1, 9, Format::Text, expect!["|1-0/0 next None cut []"]);
        check(
            "",
            2,
            9,
            Format::Text,
            expect!["offset 2 is out of range: the file has 0 lines — use an offset from 1 to 1"],
        );
    }

    #[test]
    fn a_long_line_is_cut_between_characters_and_listed() {
        check(
            "ääääääääää\nb\n",
            1,
            9,
            Format::Text,
            expect![[r#"
            ääääääää
            b
            |1-2/2 next None cut [1]"#]],
        );
    }

    #[test]
    fn a_window_ends_where_the_bytes_do_and_says_where_to_go_on() {
        check(
            "1234567\n1234567\n12345678\n",
            1,
            9,
            Format::Numbered,
            expect![[r#"
            1: 1234567
            2: 1234567

            (Output capped. Showing lines 1-2 of 3. Use offset=3 to continue.)|1-2/3 next Some(3) cut []"#]],
        );
    }

    #[test]
    fn numbered_rows_end_with_a_footer() {
        check(
            "a\r\nb\r\n",
            1,
            1,
            Format::Numbered,
            expect![[r#"
            1: a

            (Showing lines 1-1 of 2. Use offset=2 to continue.)|1-1/2 next Some(2) cut []"#]],
        );
        check(
            "a\r\nb\r\n",
            2,
            1,
            Format::Numbered,
            expect![[r#"
            2: b

            (End of file - total 2 lines)|2-2/2 next None cut []"#]],
        );
    }

    #[test]
    fn a_first_line_longer_than_the_byte_limit_is_cut_so_that_reading_on_makes_progress() {
        let limits = Limits {
            read_bytes: 5,
            ..Limits::default()
        };
        let it = window(
            &Text::flat("äääää\nb\n".to_string()),
            Wanted::default(),
            &limits,
        )
        .expect("in range");
        assert_eq!(
            (it.text.as_str(), it.next_offset, it.cut_lines),
            ("ää\n", Some(2), vec![1])
        );
    }
}
