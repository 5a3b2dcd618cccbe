//! How the blanks of two texts differ that are the same without any.

use std::ops::Range;

use super::{Reason, block::is_word, fold::is_blank};

/// The blanks around a place.
pub(super) struct Blanks<'a> {
    pub(super) before: &'a str,
    pub(super) behind: &'a str,
}

impl<'a> Blanks<'a> {
    pub(super) fn around(view: &'a str, place: &Range<usize>) -> Self {
        let (before, behind) = (&view[..place.start], &view[place.end..]);
        Self {
            before: &before[before.trim_end_matches(is_blank).len()..],
            behind: &behind[..behind.len() - behind.trim_start_matches(is_blank).len()],
        }
    }

    /// In which blanks `old` differs from a place that is the same without any, and the place with its blanks.
    pub(super) fn compare(
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
        let char_before = view[..place.start - self.before.len()].chars().next_back();
        gaps.add(
            head,
            before,
            char_before.filter(|_| !self.before.contains('\n')),
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
    /// What differs in the blanks between two characters; there is none before those that a line starts with.
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
        let (old_ends, old_indentation) = match old.rsplit_once('\n') {
            Some(parts) => parts,
            None if before.is_none() => ("", old),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::diagnose::Fold;

    /// Why the first place that is the same without blanks is not `old`, and what stands there.
    #[track_caller]
    fn check(view: &str, old: &str, reason: Reason, found: &str) {
        let place = &Fold::Blanks.find(view, old, 1)[0];
        let compared = Blanks::around(view, place).compare(view, place, old);
        let compared = compared.map(|(reason, place)| (reason, &view[place]));
        assert_eq!(compared, Some((reason, found)));
    }

    #[test]
    fn blanks_at_the_end_of_a_line_are_trailing_and_before_more_text_they_are_not() {
        check("a();  ", "a();\t", Reason::TrailingBlanks, "a();  ");
        check("a();  \nb();", "a();\t", Reason::TrailingBlanks, "a();  ");
        check("a();  b();", "a();\t", Reason::Blanks, "a();  ");
    }

    #[test]
    fn what_stands_for_a_last_line_break_ends_with_it() {
        check(
            "a();  \n  b();",
            "a();\n",
            Reason::TrailingBlanks,
            "a();  \n",
        );
        check("a();  \n\n", "a();\n", Reason::TrailingBlanks, "a();  \n");
        check(
            "a();  \n    b();",
            "a();\n  ",
            Reason::Blanks,
            "a();  \n    ",
        );
    }

    #[test]
    fn the_blanks_that_a_line_starts_with_are_its_indentation() {
        check("    x();", "      x();", Reason::Indentation, "    x();");
        check(
            "if a:\n    x();",
            "      x();",
            Reason::Indentation,
            "    x();",
        );
        check("a    x();", "a      x();", Reason::Blanks, "a    x();");
    }
}
