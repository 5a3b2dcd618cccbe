//! The characters in which two texts differ, by their names.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{common, fold::is_invisible};

/// Most differing characters that are named, and how far behind the first difference they are looked for.
const CHARS_NAMED: usize = 3;
const CHARS_COMPARED: usize = 400;

/// The first different characters that differ, each as asked for and as found.
pub(super) fn code_points(old: &str, new: &str) -> Vec<(String, String)> {
    let at = common(old, new);
    let chars = |text: &str| {
        text[at..]
            .chars()
            .take(CHARS_COMPARED)
            .collect::<Vec<char>>()
    };
    let (old, new) = (chars(old), chars(new));
    let mut pairs: Vec<(String, String)> = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let text = |chars: &[char]| chars.iter().take(CHARS_NAMED).collect::<String>();
        let pair = (text(&old[op.old_range()]), text(&new[op.new_range()]));
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
        if pairs.len() == CHARS_NAMED {
            break;
        }
    }
    pairs
}

pub(super) fn named(line: usize, pairs: &[(String, String)]) -> String {
    let clauses = pairs
        .iter()
        .map(|(old, new)| match (old.as_str(), new.as_str()) {
            (old, "") => format!("lacks {}", names(old)),
            ("", new) => format!("has an extra {}", names(new)),
            (old, new) => format!("has {} where oldString has {}", names(new), names(old)),
        });
    let clauses: Vec<String> = clauses.collect();
    format!("line {line} {}", clauses.join(", "))
}

fn names(text: &str) -> String {
    text.chars().map(name).collect::<Vec<_>>().join(" ")
}

/// The code point, and what it is.
fn name(c: char) -> String {
    let code = u32::from(c);
    let known = match c {
        '\r' => "carriage return",
        '\t' => "tab",
        ' ' => "blank",
        '\n' => "line break",
        '\u{A0}' => "no-break space",
        '\u{AD}' => "soft hyphen",
        '\u{200B}' => "zero width space",
        '\u{200C}' => "zero width non-joiner",
        '\u{200D}' => "zero width joiner",
        '\u{200E}' => "left-to-right mark",
        '\u{200F}' => "right-to-left mark",
        '\u{2010}' => "hyphen",
        '\u{2011}' => "no-break hyphen",
        '\u{2013}' => "en dash",
        '\u{2014}' => "em dash",
        '\u{2018}' => "left single quote",
        '\u{2019}' => "right single quote",
        '\u{201C}' => "left double quote",
        '\u{201D}' => "right double quote",
        '\u{2026}' => "ellipsis",
        '\u{202F}' => "narrow no-break space",
        '\u{2060}' => "word joiner",
        '\u{2212}' => "minus",
        '\u{3000}' => "ideographic space",
        '\u{FEFF}' => "byte order mark",
        '\u{2000}'..='\u{200A}' | '\u{205F}' => "space of another width",
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => "text direction mark",
        '\u{FE00}'..='\u{FE0F}' => "variation selector",
        '\u{300}'..='\u{36F}' => "combining mark",
        '\u{370}'..='\u{3FF}' => return format!("U+{code:04X} (Greek `{c}`)"),
        '\u{400}'..='\u{52F}' => return format!("U+{code:04X} (Cyrillic `{c}`)"),
        c if is_invisible(c) => "invisible",
        c => return format!("U+{code:04X} (`{c}`)"),
    };
    format!("U+{code:04X} ({known})")
}
