//! Edits that were sent to the editor and are not yet known to have landed.
//!
//! Invariant: an edit has landed when the buffer *is* the planned text, or is it but for changes that leave the planned
//! spans intact; never because the editor says so, and never because of when a message came.

use crate::{
    large::is_large,
    text::{
        Text, diff,
        splice::{Splice, Splices},
    },
};

/// What one document has to become.
#[derive(Debug, Clone)]
pub struct Pending {
    /// The text when the edit was sent.
    base: Text,
    /// The text that the document has to become.
    planned: Text,
    splices: Splices,
    /// What the editor reported since, as changes of `base`; none: a full text came.
    reported: Option<Splices>,
    /// True once the document was exactly the planned text.
    landed: bool,
    /// True once the editor reported any change.
    moved: bool,
}

/// What became of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The document was exactly the planned text.
    Landed,
    /// The document is the planned text but for changes elsewhere.
    Merged,
    /// Neither.
    Missing,
}

impl Verdict {
    /// By when an edit had landed in a document that is compared at `generation`. What it is merged with came after it, or
    /// with it: whoever saw that has seen more than the edit.
    pub fn landed_at(self, generation: u64) -> u64 {
        generation.saturating_sub(u64::from(self == Self::Merged))
    }
}

/// A comparison that can be made anywhere.
#[derive(Debug, Clone)]
pub struct Judgement {
    base: Text,
    planned: Text,
    actual: Text,
    splices: Splices,
}

impl Judgement {
    /// About how many bytes have to be looked at.
    pub fn cost(&self) -> usize {
        self.planned.len_bytes() + self.actual.len_bytes()
    }

    /// Compares.
    pub fn run(&self) -> Verdict {
        if self.planned.same(&self.actual) {
            Verdict::Landed
        } else if diff::landed(&self.base, &self.planned, &self.actual, &self.splices) {
            Verdict::Merged
        } else {
            Verdict::Missing
        }
    }
}

impl Pending {
    /// An edit of `base` by `splices` (minimal) has been sent.
    pub fn new(base: Text, planned: Text, splices: Splices) -> Self {
        Self {
            base,
            planned,
            splices,
            reported: Some(Splices::default()),
            landed: false,
            moved: false,
        }
    }

    /// The text that the document has to become.
    pub fn planned(&self) -> &Text {
        &self.planned
    }

    /// True once the document was exactly the planned text.
    pub fn landed(&self) -> bool {
        self.landed
    }

    /// True once the editor reported any change.
    pub fn moved(&self) -> bool {
        self.moved
    }

    /// The editor reported a change: `splice` of the text before it (none: a full text), which is now `actual`. Returns
    /// true when this makes the document the planned text.
    pub fn report(&mut self, splice: Option<Splice>, actual: &Text) -> bool {
        self.moved = true;
        if self.landed {
            return false;
        }
        match (splice, &mut self.reported) {
            (Some(splice), Some(reported)) => reported.then(splice),
            _ => self.reported = None,
        }
        self.landed = self.reaches(actual) || broken!(AnyChangeIsEcho);
        self.landed
    }

    fn reaches(&self, actual: &Text) -> bool {
        // Equal length is nearly always enough to say no, and equal changes of equal texts to say yes.
        if self.planned.len_bytes() != actual.len_bytes() {
            return false;
        }
        if self
            .reported
            .as_ref()
            .is_some_and(|it| it.minimise(&self.base) == self.splices)
        {
            return true;
        }
        // A large text is compared only once the editor has answered.
        !is_large(actual.len_bytes()) && self.planned.same(actual)
    }

    /// The comparison that decides, now that nothing more will come.
    pub fn judgement(&self, actual: Text) -> Judgement {
        Judgement {
            base: self.base.clone(),
            planned: self.planned.clone(),
            actual,
            splices: self.splices.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::text::buffer::Buffer;

    /// Plays reported changes over `base` and returns after which the edit had landed, and the last verdict.
    #[track_caller]
    fn check(
        base: &str,
        edit: (Range<usize>, &str),
        reported: &[(Range<usize>, &str)],
        landed_after: Option<usize>,
        verdict: Verdict,
    ) {
        let mut buffer = Buffer::new(base, false);
        let mut splices = Splices::default();
        splices.then(Splice {
            range: edit.0,
            text: edit.1.to_string(),
        });
        let planned = buffer.text().apply(&splices);
        let mut pending = Pending::new(buffer.text(), planned, splices.minimise(&buffer.text()));
        let mut landed = None;
        for (n, (range, text)) in reported.iter().enumerate() {
            buffer.replace(range.clone(), text);
            if pending.report(
                Some(Splice {
                    range: range.clone(),
                    text: (*text).to_string(),
                }),
                &buffer.text(),
            ) {
                landed = Some(n);
            }
        }
        assert_eq!(landed, landed_after);
        assert_eq!(pending.judgement(buffer.text()).run(), verdict);
    }

    #[test]
    fn the_edit_as_sent_lands() {
        check(
            "one two",
            (4..7, "2"),
            &[(4..7, "2")],
            Some(0),
            Verdict::Landed,
        );
    }

    #[test]
    fn an_edit_split_over_two_changes_lands_with_the_second() {
        check(
            "one two",
            (4..7, "xyz"),
            &[(4..7, ""), (4..4, "xyz")],
            Some(1),
            Verdict::Landed,
        );
    }

    #[test]
    fn an_edit_reported_as_a_larger_replacement_lands() {
        check(
            "one two",
            (4..7, "2"),
            &[(0..7, "one 2")],
            Some(0),
            Verdict::Landed,
        );
    }

    #[test]
    fn typing_elsewhere_before_the_echo_is_merged() {
        check(
            "one two",
            (4..7, "2"),
            &[(0..0, "zero "), (9..12, "2")],
            None,
            Verdict::Merged,
        );
    }

    #[test]
    fn typing_elsewhere_alone_is_not_the_edit() {
        check(
            "one two",
            (4..7, "2"),
            &[(0..0, "zero ")],
            None,
            Verdict::Missing,
        );
    }

    #[test]
    fn typing_inside_the_planned_span_is_not_the_edit() {
        check(
            "one two",
            (4..7, "three"),
            &[(4..7, "thXree")],
            None,
            Verdict::Missing,
        );
    }

    #[test]
    fn typing_of_the_same_length_is_not_the_edit() {
        check(
            "one two",
            (4..7, "222"),
            &[(0..3, "ONE")],
            None,
            Verdict::Missing,
        );
    }

    #[test]
    fn an_edit_reported_as_a_full_text_lands() {
        let base = Text::flat("one two");
        let splices: Splices = [Splice {
            range: 4..7,
            text: "2".to_string(),
        }]
        .into_iter()
        .collect();
        let planned = base.apply(&splices);
        let mut pending = Pending::new(base, planned.clone(), splices);
        assert!(!pending.report(None, &Text::flat("one 3")));
        assert!(pending.report(None, &planned));
    }

    #[test]
    fn a_deletion_that_did_not_happen_is_missing() {
        check(
            "one two three",
            (4..8, ""),
            &[(0..0, "zero ")],
            None,
            Verdict::Missing,
        );
    }
}
