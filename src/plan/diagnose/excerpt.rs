//! What is shown of a text: bounded, and around what differs.

use super::{
    common,
    fold::{is_blank, is_invisible},
};

/// Most lines, and most characters, of the nearest text.
pub(super) const TEXT_LINES: usize = 6;
pub(super) const TEXT_CHARS: usize = 400;
/// Characters before and from a difference on that are shown.
const CHARS_BEFORE: usize = 12;
const CHARS_FROM: usize = 28;

/// The lines of a range, bounded; in a long line, what is around the start.
pub(super) fn lines_from(view: &str, from: usize, to: usize) -> String {
    let line_start = view[..from].rfind('\n').map_or(0, |it| it + 1);
    let line_end = view[to..].find('\n').map_or(view.len(), |it| to + it);
    let before = &view[line_start..from];
    let skipped = if before.chars().count() > TEXT_CHARS / 2 {
        let kept = before.char_indices().rev().nth(TEXT_CHARS / 4);
        kept.map_or(0, |it| it.0)
    } else {
        0
    };
    let text = &view[line_start + skipped..line_end];
    let n_lines = text.match_indices('\n').nth(TEXT_LINES - 1);
    let by_lines = n_lines.map_or(text.len(), |it| it.0);
    let by_chars = text
        .char_indices()
        .nth(TEXT_CHARS)
        .map_or(text.len(), |it| it.0);
    let end = by_lines.min(by_chars);
    let dots = |is_cut| if is_cut { "…" } else { "" };
    format!(
        "{}{}{}",
        dots(skipped > 0),
        &text[..end],
        dots(end < text.len())
    )
}

/// What both have around the first difference: what was found, and what was asked for.
pub(super) fn pieces(old: &str, new: &str, shows_blanks: bool) -> (String, String) {
    let at = common(old, new);
    let piece = |text: &str| piece(text, at, shows_blanks);
    (piece(new), piece(old))
}

fn piece(text: &str, at: usize, shows_blanks: bool) -> String {
    let line_start = text[..at].rfind('\n').map_or(0, |it| it + 1);
    let head = text[line_start..at].char_indices().rev();
    let start = head
        .take(CHARS_BEFORE)
        .last()
        .map_or(at, |it| line_start + it.0);
    let behind = &text[at..];
    let mut end = behind
        .char_indices()
        .nth(CHARS_FROM)
        .map_or(text.len(), |it| at + it.0);
    if shows_blanks {
        // A line is enough, if there is something in it.
        let sign = behind.find(|it| !is_blank(it)).unwrap_or(behind.len());
        let line_end = behind[sign..]
            .find('\n')
            .map_or(text.len(), |it| at + sign + it);
        end = end.min(line_end);
    }
    let shown = text[start..end].chars().map(|c| match c {
        '\n' => '↵',
        '\t' => '→',
        ' ' if shows_blanks => '·',
        c if is_invisible(c) => '\u{FFFD}',
        c => c,
    });
    let dots = |is_cut| if is_cut { "…" } else { "" };
    format!(
        "{}{}{}",
        dots(start > line_start),
        shown.collect::<String>(),
        dots(end < text.len())
    )
}

/// What the signs for blanks mean.
pub(super) fn legend(has: &str, asked: &str) -> String {
    let signs = [('→', "→ tab"), ('·', "· blank"), ('↵', "↵ line break")];
    let used = signs
        .iter()
        .filter(|it| has.contains(it.0) || asked.contains(it.0));
    used.map(|it| it.1).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_line_what_is_around_the_difference_is_shown() {
        let shown = |n_before: usize| {
            let line = format!("{}here", "é".repeat(n_before));
            let from = "x\n".len() + line.len() - "here".len();
            lines_from(&format!("x\n{line}\ny"), from, from + 1)
        };
        assert_eq!(shown(200), format!("{}here", "é".repeat(200)));
        assert_eq!(shown(201), format!("…{}here", "é".repeat(101)));
    }

    #[test]
    fn an_invisible_character_is_shown_by_a_sign() {
        let (has, asked) = pieces("a\u{200B}b c", "a\u{200B}b C", false);
        assert_eq!([has, asked], ["a\u{FFFD}b C", "a\u{FFFD}b c"]);
    }
}
