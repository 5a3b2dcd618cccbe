//! Why an edit missed: the place nearest to `oldString` and what it has instead; and of several places, what makes each
//! unique.
//!
//! Reasons are looked for in the order of [`Reason`]; the first that holds is told. The README has an example of each.
//!
//! Invariant: the answer depends on the text and on what was asked for, on no clock; work is linear in both, over at most
//! [`MOST_BYTES`] of the text, and what is said is bounded. Nothing is ever edited by what is found here. Of a file that
//! the caller may not have read, only line numbers are told.

mod blanks;
mod block;
mod code_point;
mod context;
mod excerpt;
mod fold;
mod line_numbers;

use std::ops::Range;

pub(super) use self::context::contexts;
use self::{
    blanks::Blanks,
    code_point::{code_points, named},
    excerpt::{legend, lines_from, pieces},
    fold::{Fold, is_invisible},
    line_numbers::without_line_numbers,
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

/// Why there is no hit, in the order in which the reasons are looked for.
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

#[cfg(test)]
mod tests;
