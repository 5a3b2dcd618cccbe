//! One edit: what it means in a text, or why it cannot be done.
//!
//! Invariant: an edit that may mean several places is refused with all of them, never settled by a guess. The exact text
//! comes first; only if it is nowhere, and the caller asked for it, what is written otherwise but means the same.

use std::ops::Range;

use super::diagnose;
use crate::{
    error::{Code, FsError, Match},
    protocol::Place,
    text::{BOM, Text, eol, matching, rewrite, splice::Splice, unicode},
};

/// Most places that are listed.
const PLACES_LISTED: usize = 20;
/// Most places that are counted.
const PLACES_COUNTED: usize = 1000;

/// What is asked for.
pub(super) struct Edit<'a> {
    pub(super) text: &'a Text,
    pub(super) path: &'a str,
    pub(super) uri: &'a str,
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    pub(super) replace_all: bool,
    pub(super) unicode_fallback: bool,
    /// True if the caller has read the file: only then a refusal quotes it.
    pub(super) was_read: bool,
}

/// What it means.
pub(super) struct Edited {
    pub(super) splices: Vec<Splice>,
    pub(super) n_hits: usize,
    pub(super) unicode_normalized: bool,
    pub(super) look_alikes: Vec<Place>,
    pub(super) notes: Vec<String>,
}

impl Edit<'_> {
    pub(super) fn run(&self) -> Result<Edited, FsError> {
        let (old, new) = (eol::fold(self.old), eol::fold(self.new));
        let (old, new) = self.without_bom(&old, &new);
        if old == new {
            return Err(self.no_change(
                "oldString and newString are the same",
                "there is nothing to do",
            ));
        }
        let most = if self.replace_all {
            usize::MAX
        } else {
            PLACES_COUNTED
        };
        let exact = matching::find(self.text, old, most);
        if exact.ranges.is_empty() {
            return self.run_by_unicode(old, new, most);
        }
        self.check_places(&exact.ranges, exact.complete)?;
        let splits = |it: &&Range<usize>| unicode::splits_a_character(self.text, it);
        let n_splits = exact.ranges.iter().filter(splits).count();
        let notes = (n_splits > 0).then(|| {
            "the text that was replaced begins or ends inside a character with its marks"
                .to_string()
        });
        let look_alikes = if self.unicode_fallback {
            self.look_alikes(old, &exact.ranges)
        } else {
            Vec::new()
        };
        let n_hits = exact.ranges.len();
        Ok(Edited {
            splices: rewrite::replace_all(self.text, &exact.ranges, new),
            n_hits,
            unicode_normalized: false,
            look_alikes,
            notes: notes.into_iter().collect(),
        })
    }

    fn run_by_unicode(&self, old: &str, new: &str, most: usize) -> Result<Edited, FsError> {
        let not_found = || {
            let what = format!("cannot edit \"{}\": oldString was not found", self.path);
            let miss = diagnose::miss(self.text, old, self.was_read);
            let err = FsError::new(Code::FsEditNotFound, what, miss.remedy);
            FsError {
                nearest: miss.nearest,
                ..err.at(self.path, self.uri)
            }
        };
        if !self.unicode_fallback {
            return Err(not_found());
        }
        let alike = unicode::find(self.text, old, most);
        let ranges = alike.ranges();
        if ranges.is_empty() {
            return Err(not_found());
        }
        self.check_places(&ranges, alike.complete)?;
        if unicode::alike(old, new) {
            return Err(self.no_change(
                "oldString and newString differ only in how characters are written, and oldString is not there as written",
                "copy the text exactly as it is in the file, if its characters are to change",
            ));
        }
        Ok(Edited {
            splices: unicode::replace(self.text, &alike, old, new),
            n_hits: ranges.len(),
            unicode_normalized: true,
            look_alikes: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Old and new without the byte order mark of a file that has one: it is no part of what can be edited, and whoever
    /// copied it along means the text behind it.
    fn without_bom<'a>(&self, old: &'a str, new: &'a str) -> (&'a str, &'a str) {
        match old.strip_prefix(BOM) {
            Some(rest) if !rest.is_empty() && self.text.has_bom() => {
                (rest, new.strip_prefix(BOM).unwrap_or(new))
            }
            _ => (old, new),
        }
    }

    fn no_change(&self, why: &str, remedy: &str) -> FsError {
        let what = format!("cannot edit \"{}\": {why}", self.path);
        FsError::new(Code::FsNoChange, what, remedy).at(self.path, self.uri)
    }

    /// The first places that only the fallback would find, beside the exact ones.
    fn look_alikes(&self, old: &str, exact: &[Range<usize>]) -> Vec<Place> {
        let alike = unicode::find(self.text, old, exact.len().saturating_add(PLACES_LISTED));
        let ranges = alike.ranges().into_iter();
        let others = ranges.filter(|it| {
            let is_exact = |hit: &Range<usize>| (hit.start, hit.end);
            exact
                .binary_search_by_key(&(it.start, it.end), is_exact)
                .is_err()
        });
        others
            .take(PLACES_LISTED)
            .map(|it| self.place(it.start))
            .collect()
    }

    fn place(&self, byte: usize) -> Place {
        let (line, column) = self.text.line_column(byte);
        Place { line, column }
    }

    /// Refuses more than one place, unless all are meant and can all be replaced.
    fn check_places(&self, places: &[Range<usize>], complete: bool) -> Result<(), FsError> {
        let overlap = places.windows(2).any(|pair| pair[1].start < pair[0].end);
        if !overlap && (places.len() <= 1 || self.replace_all) {
            return Ok(());
        }
        let contexts = if self.was_read && complete {
            diagnose::contexts(self.text, places, PLACES_LISTED)
        } else {
            vec![None; places.len().min(PLACES_LISTED)]
        };
        let matches: Vec<Match> = places
            .iter()
            .zip(contexts)
            .map(|(place, context)| {
                let Place { line, column } = self.place(place.start);
                Match {
                    line,
                    column,
                    context,
                }
            })
            .collect();
        let mut lines: Vec<String> = matches.iter().map(|it| it.line.to_string()).collect();
        lines.dedup();
        let what = format!(
            "cannot edit \"{}\": oldString was found at {}{} places ({} {}{})",
            self.path,
            places.len(),
            if complete { "" } else { " or more" },
            if lines.len() == 1 { "line" } else { "lines" },
            lines.join(", "),
            if places.len() > PLACES_LISTED {
                ", …"
            } else {
                ""
            },
        );
        let remedy = if overlap {
            "add context around the one that you mean (the places overlap, so they cannot all be replaced)"
        } else {
            "add context around the one that you mean, or set replaceAll"
        };
        let mut err = FsError::new(Code::FsAmbiguousEdit, what, remedy).at(self.path, self.uri);
        err.matches = matches;
        Err(err)
    }
}
