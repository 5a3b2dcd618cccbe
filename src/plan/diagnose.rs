#![doc = include_str!("diagnose.md")]
//!
//! Invariant: the answer depends on the text and on what was asked for, on no clock; work is linear in both, over at most
//! [`MOST_BYTES`] of the text, and what is said is bounded. Nothing is ever edited by what is found here. Of a file that
//! the caller may not have read, only line numbers are told.

mod block;
mod context;
mod fold;

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

pub(super) use self::context::contexts;
use self::{
    block::is_word,
    fold::{Fold, is_blank, is_invisible},
};
use crate::{
    error::Nearest,
    text::{Text, unicode},
};

/// So much of a text is looked at; a miss in a longer one is explained from its beginning.
const MOST_BYTES: usize = 4 << 20;
/// Most places that are looked at for one reason.
const MOST_PLACES: usize = 32;
/// How many times the text's length the places together may be long.
const WORK_FACTOR: usize = 4;
/// Most lines, and most characters, of the nearest text.
const TEXT_LINES: usize = 6;
const TEXT_CHARS: usize = 400;
/// Characters before and from a difference on that are shown.
const CHARS_BEFORE: usize = 12;
const CHARS_FROM: usize = 28;
/// Most differing characters that are named, and how far behind the first difference they are looked for.
const CHARS_NAMED: usize = 3;
const CHARS_COMPARED: usize = 400;

/// Why a text was not found.
#[derive(Debug, PartialEq)]
pub(super) struct Miss {
    /// Where it nearly is.
    pub(super) nearest: Option<Nearest>,
    /// What to do, and why.
    pub(super) remedy: String,
}

/// Explains why `old` (line ends as LF) is not in the text; without any of its text unless the caller has read it.
pub(super) fn miss(text: &Text, old: &str, was_read: bool) -> Miss {
    let view = beginning(text);
    let found = Search { view: &view, old }.run();
    let Some(found) = found else {
        return Miss {
            nearest: None,
            remedy: "nothing there is like it: re-read the file and copy the text exactly, blanks and line breaks included"
                .to_string(),
        };
    };
    let nearest = if was_read {
        found.nearest(&view)
    } else {
        Nearest {
            line: line_of(&view, found.first_difference(&view)) + 1,
            text: String::new(),
            why: found.why_without_text(&view),
        }
    };
    let advice = match found.reason {
        Reason::LineNumbers => "leave the line numbers out of oldString",
        Reason::Similar { .. } => "re-read the file there and copy the text exactly",
        // It can be told only where the text can.
        Reason::LookAlikes
            if was_read && unicode::alike(&found.old, &view[found.place.clone()]) =>
        {
            "copy the text exactly, or set unicodeFallback"
        }
        _ => "copy the text exactly",
    };
    Miss {
        remedy: format!("{advice}: {}", nearest.why),
        nearest: Some(nearest),
    }
}

/// The view, up to a constant length.
fn beginning(text: &Text) -> String {
    let mut end = text.len_bytes().min(MOST_BYTES);
    while text.byte(end).is_some_and(|it| it & 0xC0 == 0x80) {
        end -= 1;
    }
    text.view(0..end)
}

/// In the order in which they are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    Blanks,
    LookAlikes,
    Escapes,
    LineNumbers,
    Case,
    TrailingBlanks,
    Indentation,
    Similar { percent: usize, apart: Vec<usize> },
}

/// The nearest place.
struct Found {
    reason: Reason,
    /// The bytes of the view that should have been `old`.
    place: Range<usize>,
    /// What was compared with them.
    old: String,
}

struct Search<'a> {
    view: &'a str,
    old: &'a str,
}

impl Search<'_> {
    fn run(&self) -> Option<Found> {
        let mut by_blanks = self.by_blanks();
        let mut take = |reason| {
            let idx = by_blanks.iter().position(|it| it.reason == reason)?;
            Some(by_blanks.swap_remove(idx))
        };
        take(Reason::Blanks)
            .or_else(|| self.by_look_alikes())
            .or_else(|| self.by_fold(Fold::Escapes, Reason::Escapes))
            .or_else(|| self.by_line_numbers())
            .or_else(|| self.by_fold(Fold::Case, Reason::Case))
            .or_else(|| take(Reason::TrailingBlanks))
            .or_else(|| take(Reason::Indentation))
            .or_else(|| self.by_similarity())
    }

    fn found(&self, reason: Reason, place: Range<usize>) -> Found {
        Found {
            reason,
            place,
            old: self.old.to_string(),
        }
    }

    /// The first place for each reason that has to do with blanks.
    fn by_blanks(&self) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        let mut budget = WORK_FACTOR * (self.view.len() + self.old.len());
        for place in Fold::Blanks.find(self.view, self.old, MOST_PLACES) {
            let around = Blanks::around(self.view, &place);
            let n_bytes = around.before.len() + place.len() + around.behind.len() + self.old.len();
            let Some(left) = budget.checked_sub(n_bytes) else {
                break;
            };
            budget = left;
            if let Some((reason, place)) = around.compare(self.view, &place, self.old)
                && found.iter().all(|it| it.reason != reason)
            {
                found.push(self.found(reason, place));
            }
        }
        found
    }

    fn by_look_alikes(&self) -> Option<Found> {
        let is_plain = |text: &str| {
            let mut bytes = text.bytes();
            bytes.all(|it| matches!(it, b' '..=b'~' | b'\n' | b'\t'))
        };
        if is_plain(self.view) && is_plain(self.old) {
            return None;
        }
        let places = Fold::LookAlikes.find(self.view, self.old, MOST_PLACES);
        let mut places = places.into_iter().map(|it| self.with_marks(it));
        let place = places.find(|place| {
            let pairs = code_points(self.old, &self.view[place.clone()]);
            let mut chars = pairs
                .iter()
                .flat_map(|(old, new)| old.chars().chain(new.chars()));
            chars.any(|it| !it.is_ascii() || is_invisible(it))
        })?;
        Some(self.found(Reason::LookAlikes, place))
    }

    /// A place with the invisible characters around it that `old` has, too.
    fn with_marks(&self, place: Range<usize>) -> Range<usize> {
        let head = self.old.find(|it| !is_invisible(it)).unwrap_or(0);
        let tail = self.old.trim_end_matches(is_invisible).len();
        let has = |side: bool, mark: &str| {
            !mark.is_empty()
                && if side {
                    self.view[..place.start].ends_with(mark)
                } else {
                    self.view[place.end..].starts_with(mark)
                }
        };
        let (head, tail) = (&self.old[..head], &self.old[tail..]);
        let start = place.start - if has(true, head) { head.len() } else { 0 };
        start..place.end + if has(false, tail) { tail.len() } else { 0 }
    }

    fn by_fold(&self, fold: Fold, reason: Reason) -> Option<Found> {
        let place = fold.find(self.view, self.old, 1).pop()?;
        Some(self.found(reason, place))
    }

    fn by_line_numbers(&self) -> Option<Found> {
        let candidates = [true, false].map(|it| without_line_numbers(self.old, it));
        candidates.into_iter().flatten().find_map(|old| {
            let start = self.view.find(&old)?;
            Some(Found {
                reason: Reason::LineNumbers,
                place: start..start + old.len(),
                old,
            })
        })
    }

    fn by_similarity(&self) -> Option<Found> {
        let old = without_line_numbers(self.old, true).filter(|it| it.contains('\n'));
        let old = old.unwrap_or_else(|| self.old.to_string());
        let old = old.trim_matches('\n').to_string();
        let lines: Vec<&str> = self.view.split('\n').collect();
        let old_lines: Vec<&str> = old.split('\n').collect();
        let block = block::most_like(&lines, &old_lines)?;
        let bytes = |lines: &[&str]| lines.iter().map(|it| it.len() + 1).sum::<usize>();
        let start = bytes(&lines[..block.lines.start]);
        let end = start + bytes(&lines[block.lines]) - 1;
        Some(Found {
            reason: Reason::Similar {
                percent: block.percent,
                apart: block.apart,
            },
            place: start..end,
            old,
        })
    }
}

/// A pasted listing without its line numbers (`12: `, `12→`, `  12|`); none if not every line has one.
fn without_line_numbers(old: &str, eats_blank: bool) -> Option<String> {
    let mut last_number: Option<u32> = None;
    let mut sign = None;
    let mut lines = Vec::new();
    for line in old.split('\n') {
        if line.trim().is_empty() {
            lines.push(line);
            continue;
        }
        let line = line.trim_start();
        let n_digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let number = line[..n_digits].parse().ok()?;
        if last_number.replace(number).is_some_and(|it| it >= number) {
            return None;
        }
        let behind = &line[n_digits..];
        let behind = if behind.starts_with('\t') {
            behind
        } else {
            behind.trim_start()
        };
        let c = behind.chars().next()?;
        if !matches!(c, '\t' | ':' | '|' | '→' | '│') || *sign.get_or_insert(c) != c {
            return None;
        }
        let rest = &behind[c.len_utf8()..];
        lines.push(match rest.strip_prefix(' ') {
            Some(rest) if eats_blank => rest,
            _ => rest,
        });
    }
    let text = lines.join("\n");
    (last_number.is_some() && !text.trim().is_empty()).then_some(text)
}

/// The blanks around a place.
struct Blanks<'a> {
    before: &'a str,
    behind: &'a str,
}

impl<'a> Blanks<'a> {
    fn around(view: &'a str, place: &Range<usize>) -> Self {
        let (before, behind) = (&view[..place.start], &view[place.end..]);
        Self {
            before: &before[before.trim_end_matches(is_blank).len()..],
            behind: &behind[..behind.len() - behind.trim_start_matches(is_blank).len()],
        }
    }

    /// In which blanks `old` differs from a place that is the same without any, and the place with its blanks.
    fn compare(
        &self,
        view: &str,
        place: &Range<usize>,
        old: &str,
    ) -> Option<(Reason, Range<usize>)> {
        let core = old.trim_matches(is_blank);
        let core_start = old.len() - old.trim_start_matches(is_blank).len();
        let (head, tail) = (&old[..core_start], &old[core_start + core.len()..]);
        let before = self.head(head);
        let behind = self.tail(tail);
        let mut gaps = Gaps::default();
        gaps.add(
            head,
            before,
            view[..place.start - self.before.len()].chars().next_back(),
            core.chars().next(),
        );
        gaps.add(
            tail,
            behind,
            core.chars().next_back(),
            view[place.end + self.behind.len()..].chars().next(),
        );
        let is_at_line_end =
            self.behind.len() == view.len() - place.end || self.behind.contains('\n');
        if tail != behind && !tail.contains('\n') && is_at_line_end {
            gaps.trailing = true;
            gaps.other = false;
        }
        let (mut old, mut new) = (core, &view[place.clone()]);
        let mut last = None;
        while let Some(c) = old.chars().next() {
            // Equal characters, as both are the same without blanks.
            old = &old[c.len_utf8()..];
            new = &new[c.len_utf8()..];
            last = Some(c);
            let gap = |text: &'_ str| text.len() - text.trim_start_matches(is_blank).len();
            let (old_gap, new_gap) = (gap(old), gap(new));
            gaps.add(
                &old[..old_gap],
                &new[..new_gap],
                last,
                old[old_gap..].chars().next(),
            );
            (old, new) = (&old[old_gap..], &new[new_gap..]);
        }
        debug_assert!(
            new.is_empty() && last.is_some(),
            "both are the same without blanks"
        );
        Some((
            gaps.reason()?,
            place.start - before.len()..place.end + behind.len(),
        ))
    }

    /// What of the blanks before stands for those that `old` starts with.
    fn head(&self, old: &str) -> &'a str {
        if self.before.ends_with(old) {
            return &self.before[self.before.len() - old.len()..];
        }
        let n_breaks = old.matches('\n').count();
        let mut breaks = self.before.rmatch_indices('\n').map(|it| it.0);
        match n_breaks.checked_sub(1) {
            None => breaks
                .next()
                .map_or(self.before, |it| &self.before[it + 1..]),
            Some(idx) => breaks.nth(idx).map_or(self.before, |it| &self.before[it..]),
        }
    }

    /// What of the blanks behind stands for those that `old` ends with.
    fn tail(&self, old: &str) -> &'a str {
        if self.behind.starts_with(old) {
            return &self.behind[..old.len()];
        }
        let mut breaks = self.behind.match_indices('\n').map(|it| it.0);
        match old.matches('\n').count().checked_sub(1) {
            None => breaks.next().map_or(self.behind, |it| &self.behind[..it]),
            Some(idx) => match breaks.nth(idx) {
                Some(it) if old.ends_with('\n') => &self.behind[..=it],
                Some(_) => breaks.next().map_or(self.behind, |it| &self.behind[..it]),
                None => self.behind,
            },
        }
    }
}

/// What differs in the blanks between the same characters.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // a set of what was seen
struct Gaps {
    trailing: bool,
    indentation: bool,
    other: bool,
    /// Words are joined or parted: it is not the same text.
    words: bool,
}

impl Gaps {
    fn add(&mut self, old: &str, new: &str, before: Option<char>, behind: Option<char>) {
        if old == new {
            return;
        }
        if (old.is_empty() || new.is_empty())
            && before.is_some_and(is_word)
            && behind.is_some_and(is_word)
        {
            self.words = true;
            return;
        }
        if old.matches('\n').count() != new.matches('\n').count() {
            self.other = true;
            return;
        }
        let is_indentation = before.is_none_or(|it| it == '\n');
        let (old_ends, old_indentation) = match old.rsplit_once('\n') {
            Some(parts) => parts,
            None if is_indentation => ("", old),
            None => {
                self.other = true;
                return;
            }
        };
        let (new_ends, new_indentation) = new.rsplit_once('\n').unwrap_or(("", new));
        self.trailing |= old_ends != new_ends;
        if old_indentation != new_indentation {
            let mut blanks = old_indentation.bytes().chain(new_indentation.bytes());
            let first = blanks.next();
            if blanks.all(|it| Some(it) == first) {
                self.indentation = true;
            } else {
                self.other = true;
            }
        }
    }

    fn reason(&self) -> Option<Reason> {
        match (self.words, self.other, self.trailing, self.indentation) {
            (true, ..) | (_, false, false, false) => None,
            (_, false, true, false) => Some(Reason::TrailingBlanks),
            (_, false, false, true) => Some(Reason::Indentation),
            _ => Some(Reason::Blanks),
        }
    }
}

impl Found {
    /// The byte of the view up to which all is as asked for.
    fn first_difference(&self, view: &str) -> usize {
        match self.reason {
            Reason::LineNumbers | Reason::Similar { .. } => self.place.start,
            _ => self.place.start + common(&self.old, &view[self.place.clone()]),
        }
    }

    fn nearest(&self, view: &str) -> Nearest {
        let at = self.first_difference(view);
        Nearest {
            line: line_of(view, at) + 1,
            text: lines_from(view, at, self.place.end),
            why: self.why(view),
        }
    }

    fn why(&self, view: &str) -> String {
        let found = &view[self.place.clone()];
        let line = line_of(view, self.first_difference(view)) + 1;
        let shows_blanks = matches!(
            self.reason,
            Reason::Blanks | Reason::TrailingBlanks | Reason::Indentation
        );
        let differs = |note: &str| {
            let (has, asked) = pieces(&self.old, found, shows_blanks);
            let legend = if shows_blanks {
                legend(&has, &asked)
            } else {
                String::new()
            };
            let sep = if note.is_empty() || legend.is_empty() {
                ""
            } else {
                "; "
            };
            format!("line {line} has `{has}` where oldString has `{asked}` ({note}{sep}{legend})")
        };
        match &self.reason {
            Reason::Blanks => differs(""),
            Reason::LookAlikes => named(line, &code_points(&self.old, found)),
            Reason::Escapes => differs("escapes or entities"),
            Reason::Case => differs("upper and lower case"),
            Reason::TrailingBlanks => differs("blanks at the end of a line"),
            Reason::Indentation => differs("another indentation"),
            Reason::LineNumbers => {
                format!("line {line} has the text without the line numbers that oldString has")
            }
            Reason::Similar { apart, .. } => {
                let alike = self.why_without_text(view);
                let first = self.old.split('\n').zip(found.split('\n')).enumerate();
                let mut first = first.map(|(idx, (old, new))| (idx, old.trim(), new.trim()));
                match first.find(|(_, old, new)| old != new) {
                    Some((idx, old, new)) if apart.is_empty() => {
                        let (has, asked) = pieces(old, new, false);
                        let line = line + idx;
                        format!("{alike}: line {line} has `{has}` where oldString has `{asked}`")
                    }
                    _ => alike,
                }
            }
        }
    }

    fn why_without_text(&self, view: &str) -> String {
        let line = line_of(view, self.first_difference(view)) + 1;
        match &self.reason {
            Reason::Blanks => format!("line {line} has other blanks, tabs or line breaks"),
            Reason::LookAlikes => {
                format!("line {line} has characters that look alike or are invisible")
            }
            Reason::Escapes => format!("line {line} is the same but for escapes or entities"),
            Reason::LineNumbers => format!("line {line} is the same without the line numbers"),
            Reason::Case => format!("line {line} is the same but for upper and lower case"),
            Reason::TrailingBlanks => format!("line {line} has other blanks at its end"),
            Reason::Indentation => format!("line {line} has another indentation"),
            Reason::Similar { percent, apart } => {
                let last = line_of(view, self.place.end) + 1;
                let (lines, verb) = if last > line {
                    (format!("lines {line}-{last}"), "are")
                } else {
                    (format!("line {line}"), "is")
                };
                let alike = format!("{lines} {verb} most like it ({percent} %)");
                if apart.is_empty() {
                    return alike;
                }
                let apart: Vec<String> = apart.iter().map(|it| (it + 1).to_string()).collect();
                let apart = apart.join(", ");
                format!("{alike}; its lines are all there, but apart or in another order ({apart})")
            }
        }
    }
}

/// The 0-based line.
fn line_of(view: &str, byte: usize) -> usize {
    memchr::memchr_iter(b'\n', &view.as_bytes()[..byte]).count()
}

/// The bytes of whole characters that two texts both start with.
fn common(left: &str, right: &str) -> usize {
    let chars = left.chars().zip(right.chars());
    let same = chars.take_while(|(left, right)| left == right);
    same.map(|(c, _)| c.len_utf8()).sum()
}

/// The lines of a range, bounded; in a long line, what is around the start.
fn lines_from(view: &str, from: usize, to: usize) -> String {
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
fn pieces(old: &str, new: &str, shows_blanks: bool) -> (String, String) {
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
fn legend(has: &str, asked: &str) -> String {
    let signs = [('→', "→ tab"), ('·', "· blank"), ('↵', "↵ line break")];
    let used = signs
        .iter()
        .filter(|it| has.contains(it.0) || asked.contains(it.0));
    used.map(|it| it.1).collect::<Vec<_>>().join(", ")
}

/// The first different characters that differ, each as asked for and as found.
fn code_points(old: &str, new: &str) -> Vec<(String, String)> {
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

fn named(line: usize, pairs: &[(String, String)]) -> String {
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

#[cfg(test)]
mod tests;
