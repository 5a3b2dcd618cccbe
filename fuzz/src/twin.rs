//! What is right, by comparing everything with everything.
//!
//! It knows no more of Unicode than normalization and the signs of `source`'s alphabets.

use std::{cmp::Ordering, ops::Range};

use abreast::error::Code;
use unicode_normalization::UnicodeNormalization;

/// What an agent sees: each character, and the raw bytes that it stands for.
pub fn view(raw: &str) -> Vec<(char, Range<usize>)> {
    let mut view: Vec<(char, Range<usize>)> = Vec::new();
    for (at, c) in raw.char_indices() {
        match view.last_mut() {
            _ if at == 0 && c == '\u{FEFF}' => {}
            Some((before @ '\r', range)) if c == '\n' => {
                *before = '\n';
                range.end += 1;
            }
            _ => view.push((c, at..at + c.len_utf8())),
        }
    }
    view
}

/// Every place at which a text is to be seen, overlapping ones included.
pub fn exact(raw: &str, needle: &str) -> Vec<Range<usize>> {
    let view = view(raw);
    let needle: Vec<char> = needle.chars().collect();
    view.windows(needle.len())
        .filter(|window| window.iter().map(|it| it.0).eq(needle.iter().copied()))
        .map(|window| window[0].1.start..window[needle.len() - 1].1.end)
        .collect()
}

/// Every span of whole segments that folds to the same in one of both readings.
pub fn alike(raw: &str, needle: &str) -> Vec<Range<usize>> {
    let start = if raw.starts_with('\u{FEFF}') { 3 } else { 0 };
    let segments = segments(&raw[start..]);
    let mut found = Vec::new();
    for reading in ["--", "-"] {
        let needle = fold(needle, reading);
        let folds: Vec<String> = segments
            .iter()
            .map(|it| fold_segment(it, reading))
            .collect();
        for first in 0..folds.len() {
            let mut span = String::new();
            for last in first..folds.len() {
                span.push_str(&folds[last]);
                if span.len() >= needle.len() {
                    if span == needle {
                        let before: usize = segments[..first].iter().map(String::len).sum();
                        let len: usize = segments[first..=last].iter().map(String::len).sum();
                        found.push(start + before..start + before + len);
                    }
                    break;
                }
            }
        }
    }
    found.sort_by_key(|it| (it.start, it.end));
    found.dedup();
    found
}

pub fn is_alike(left: &str, right: &str) -> bool {
    ["--", "-"]
        .iter()
        .any(|it| fold(left, it) == fold(right, it))
}

pub fn fold(text: &str, em_dash: &str) -> String {
    segments(text)
        .iter()
        .map(|it| fold_segment(it, em_dash))
        .collect()
}

fn fold_segment(segment: &str, em_dash: &str) -> String {
    // A mark may stand behind a line break.
    let segment = segment.replace("\r\n", "\n");
    let mut folded = String::new();
    for c in segment.nfc() {
        match c {
            '“' | '”' => folded.push('"'),
            '‘' | '’' => folded.push('\''),
            '—' => folded.push_str(em_dash),
            '–' | '\u{2011}' => folded.push('-'),
            '…' => folded.push_str("..."),
            '\u{A0}' | '\u{2003}' | '\u{3000}' => folded.push(' '),
            c => folded.push(c),
        }
    }
    folded
}

fn segments(text: &str) -> Vec<String> {
    let mut segments: Vec<String> = Vec::new();
    for c in text.chars() {
        match segments.last_mut() {
            Some(segment) if goes_on(segment.chars().next_back(), c) => segment.push(c),
            _ => segments.push(c.to_string()),
        }
    }
    segments
}

fn goes_on(before: Option<char>, c: char) -> bool {
    match (before, c) {
        (Some('\r'), '\n') => true,
        (_, '\n' | '\r') => false,
        (Some('\u{200D}'), _) => true,
        _ => matches!(
            c,
            '\u{301}' | '\u{327}' | '\u{1161}' | '\u{11A8}' | '\u{200D}' | '\u{FE0F}' | '\u{1F3FD}'
        ),
    }
}

pub fn splits_a_segment(raw: &str, range: &Range<usize>) -> bool {
    let start = if raw.starts_with('\u{FEFF}') { 3 } else { 0 };
    let mut edges = vec![start];
    for segment in segments(&raw[start..]) {
        edges.push(edges[edges.len() - 1] + segment.len());
    }
    !edges.contains(&range.start) || !edges.contains(&range.end)
}

type Places = Vec<Range<usize>>;

/// What an edit is asked for.
pub struct Edit {
    pub old: String,
    pub new: String,
    pub replace_all: bool,
    pub unicode_fallback: bool,
}

/// The places that an edit changes, and whether by the fallback; or why it is refused, and the places to tell.
pub fn edit(raw: &str, edit: &Edit) -> Result<(Places, bool), (Code, Places)> {
    if edit.old == edit.new {
        return Err((Code::FsNoChange, Vec::new()));
    }
    let mut hits = exact(raw, &edit.old);
    let by_fold = hits.is_empty();
    let is_ascii = raw.is_ascii() && edit.old.is_ascii();
    if by_fold && edit.unicode_fallback && !is_ascii {
        hits = alike(raw, &edit.old);
    }
    let overlap = hits.windows(2).any(|it| it[0].end > it[1].start);
    match hits.len().cmp(&1) {
        Ordering::Less => Err((Code::FsEditNotFound, hits)),
        Ordering::Greater if overlap || !edit.replace_all => Err((Code::FsAmbiguousEdit, hits)),
        _ if by_fold && is_alike(&edit.old, &edit.new) => Err((Code::FsNoChange, Vec::new())),
        _ => Ok((hits, by_fold)),
    }
}
