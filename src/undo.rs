//! What takes an edit back, and what is left of it.
//!
//! Invariant: text that a human typed since is neither removed nor moved into what was there before. A span of ours that
//! a human has changed stays as the human has it; only those that are still exactly ours are taken back. It depends on
//! what the texts hold, never on when a change came.

use std::{cmp::Ordering, iter, ops::Range};

use crate::{
    protocol::Outcome,
    text::{
        BOM, Text, diff,
        splice::{Splice, Splices},
    },
};

/// An edit that was made, and what the document holds by now.
#[derive(Debug, Clone)]
pub struct UndoJob {
    /// The text before the edit.
    pub before: Text,
    /// The text right after it.
    pub after: Text,
    /// The edit, minimal, as changes of `before`.
    pub splices: Splices,
    /// The text now.
    pub actual: Text,
}

/// What is left of an edit.
#[derive(Debug, Clone)]
pub struct Undo {
    /// Changes of the text now that take back what is still ours.
    pub splices: Splices,
    /// What is to be told of the document as it is.
    pub outcome: Outcome,
}

impl UndoJob {
    /// About how many bytes have to be looked at.
    pub fn cost(&self) -> usize {
        self.before.len_bytes() + 2 * self.actual.len_bytes() + self.after.len_bytes()
    }

    /// Compares.
    pub fn run(&self) -> Undo {
        let view_start = self.actual.view_start();
        if [&self.before, &self.after].map(Text::view_start) == [view_start; 2] {
            return self.compare();
        }
        // An editor does not show the byte order mark of a file, and writes it again when it saves.
        let mut undo = self.without_boms().compare();
        let moved = |it: &Splice| Splice {
            range: it.range.start + view_start..it.range.end + view_start,
            text: it.text.clone(),
        };
        undo.splices = undo.splices.iter().map(moved).collect();
        undo
    }

    fn without_boms(&self) -> Self {
        let n_bom = self.before.view_start();
        let before = self.before.without_bom();
        let splices = self.splices.iter().map(|it| {
            let is_first = it.range.start == 0;
            let text = it.text.strip_prefix(BOM).filter(|_| is_first);
            Splice {
                range: it.range.start.saturating_sub(n_bom)..it.range.end.saturating_sub(n_bom),
                text: text.unwrap_or(&it.text).to_string(),
            }
        });
        let splices = splices.collect::<Splices>().minimise(&before);
        Self {
            after: before.apply(&splices),
            before,
            splices,
            actual: self.actual.without_bom(),
        }
    }

    fn compare(&self) -> Undo {
        let inverse = self.splices.inverse(&self.before);
        let undone = diff::survivors(&self.before, &self.actual, &self.splices);
        let ours = diff::survivors(&self.after, &self.actual, &inverse);
        let mut n_undone = 0;
        let mut taken_back = Vec::new();
        for (splice, (undone, ours)) in iter::zip(&inverse, iter::zip(undone, ours)) {
            // What is there was made of that from which fewer bytes differ.
            let nearer = undone.n_changed.cmp(&ours.n_changed);
            let is_ours = match (undone.place, &ours.place) {
                (None, Some(_)) => nearer != Ordering::Less,
                (Some(_), None) if nearer != Ordering::Greater => {
                    n_undone += 1;
                    false
                }
                (Some(undone), Some(ours)) if is_nested(&undone, ours) => {
                    // `x` is in `f(x)`: between equals, the longer one says more.
                    let longer = splice.range.len().cmp(&splice.text.len());
                    let likelier = nearer.then(longer);
                    n_undone += usize::from(likelier == Ordering::Less);
                    likelier == Ordering::Greater
                }
                // A human's text stands there, or it cannot be told whose it is.
                _ => false,
            };
            if let Some(range) = ours.place.filter(|_| is_ours) {
                let text = splice.text.clone();
                taken_back.push(Splice { range, text });
            }
        }
        let taken_back: Splices = taken_back.into_iter().collect();
        let outcome = if n_undone == self.splices.len() {
            Outcome::RolledBack
        } else if taken_back.len() == self.splices.len() {
            Outcome::Applied
        } else {
            Outcome::KeptHuman
        };
        Undo {
            splices: taken_back.minimise(&self.actual),
            outcome,
        }
    }
}

fn is_nested(left: &Range<usize>, right: &Range<usize>) -> bool {
    let is_within = |inner: &Range<usize>, outer: &Range<usize>| {
        outer.start <= inner.start && inner.end <= outer.end
    };
    is_within(left, right) || is_within(right, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the edits of `before`, replaces the text by `actual`, and takes back what is still ours.
    #[track_caller]
    fn check(before: &str, edits: &[(&str, &str)], actual: &str, outcome: Outcome, expected: &str) {
        let base = Text::flat(before.to_string());
        let splices = edits.iter().map(|(old, new)| {
            let start = before.find(old).expect("the edit matches");
            Splice {
                range: start..start + old.len(),
                text: (*new).to_string(),
            }
        });
        let splices = splices.collect::<Splices>().minimise(&base);
        let actual = Text::flat(actual.to_string());
        let job = UndoJob {
            after: base.apply(&splices),
            before: base,
            splices,
            actual: actual.clone(),
        };
        let undo = job.run();
        assert_eq!(undo.outcome, outcome);
        let left = actual.apply(&undo.splices);
        assert_eq!(left.raw(0..left.len_bytes()), expected);
    }

    #[test]
    fn an_edit_that_nobody_touched_is_taken_back() {
        check(
            "one two\n",
            &[("two", "2")],
            "one 2\n",
            Outcome::Applied,
            "one two\n",
        );
    }

    #[test]
    fn typing_elsewhere_stays_where_it_is() {
        let edits = [("two", "2")];
        check(
            "one two\n",
            &edits,
            "zero one 2\nthree\n",
            Outcome::Applied,
            "zero one two\nthree\n",
        );
        check(
            "one two\n",
            &edits,
            "one!2?\n",
            Outcome::Applied,
            "one!two?\n",
        );
        check(
            "one two\n",
            &[("two\n", "")],
            "zero one ",
            Outcome::Applied,
            "zero one two\n",
        );
        check(
            "one two\n",
            &[("one ", "one 1 ")],
            "one 1 2\n",
            Outcome::Applied,
            "one 2\n",
        );
    }

    #[test]
    fn a_byte_order_mark_that_only_one_of_them_has_does_not_matter() {
        let bom = "\u{FEFF}one\ntwo\n";
        check(
            bom,
            &[("one\n", "")],
            "two\n",
            Outcome::Applied,
            "one\ntwo\n",
        );
        check(
            bom,
            &[("one\n", "")],
            "one\ntwo\n",
            Outcome::RolledBack,
            "one\ntwo\n",
        );
        check(
            "one\ntwo\n",
            &[("one\n", "")],
            "\u{FEFF}two\n",
            Outcome::Applied,
            bom,
        );
        // A write that takes it away or puts it there is no change for an editor that never shows it.
        check(
            bom,
            &[("\u{FEFF}", "")],
            "one\ntwo\n",
            Outcome::RolledBack,
            "one\ntwo\n",
        );
        check(
            "one\n",
            &[("one", "\u{FEFF}1")],
            "1\n",
            Outcome::Applied,
            "one\n",
        );
    }

    #[test]
    fn where_the_old_and_the_new_text_stand_apart_it_cannot_be_told_whose_is_which() {
        check(
            "one",
            &[("ne", "x")],
            "oone\nx",
            Outcome::KeptHuman,
            "oone\nx",
        );
    }

    #[test]
    fn a_span_that_a_human_has_changed_stays_as_the_human_has_it() {
        let edits = [("two", "second")];
        check(
            "one two\n",
            &edits,
            "one seCond\n",
            Outcome::KeptHuman,
            "one seCond\n",
        );
        check("one two\n", &edits, "one \n", Outcome::KeptHuman, "one \n");
        check(
            "one two\n",
            &[("two", "")],
            "one typed\n",
            Outcome::KeptHuman,
            "one typed\n",
        );
    }

    #[test]
    fn of_several_spans_those_that_are_ours_are_taken_back() {
        check(
            "a\nx\nb\ny\nc\n",
            &[("x", "first"), ("y", "second")],
            "a\nfirst!!\nb\nsecOnd\nc\n",
            Outcome::KeptHuman,
            "a\nx!!\nb\nsecOnd\nc\n",
        );
    }

    #[test]
    fn what_a_human_has_undone_is_taken_back_already() {
        let edits = [("two", "second")];
        check(
            "one two\n",
            &edits,
            "one two\n",
            Outcome::RolledBack,
            "one two\n",
        );
        check(
            "one two\n",
            &edits,
            "one two\nmore\n",
            Outcome::RolledBack,
            "one two\nmore\n",
        );
        check(
            "aaa\n",
            &[("aaa", "aaaa")],
            "aaa\n",
            Outcome::RolledBack,
            "aaa\n",
        );
        check(
            "f(x)\n",
            &[("f(x)", "x")],
            "f(x);\n",
            Outcome::RolledBack,
            "f(x);\n",
        );
    }

    #[test]
    fn an_edit_around_a_text_is_taken_back_though_the_text_is_there() {
        let edits = [("x", "f(x)")];
        check("x\n", &edits, "f(x)\n", Outcome::Applied, "x\n");
        check("x\n", &edits, "f(x);\n", Outcome::Applied, "x;\n");
        check("x\n", &edits, "x;\n", Outcome::RolledBack, "x;\n");
        check(
            "x\n",
            &[("x", "f(x)")],
            "f(y)\n",
            Outcome::KeptHuman,
            "f(y)\n",
        );
    }

    #[test]
    fn a_line_break_is_not_split() {
        check(
            "a\r\nb\r\n",
            &[("b", "b\r\nc")],
            "a\r\nb\r\nc\r\nd\r\n",
            Outcome::Applied,
            "a\r\nb\r\nd\r\n",
        );
    }

    /// All texts of at most so many of these characters.
    fn texts(n_most: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut longest = all.clone();
        for _ in 0..n_most {
            let longer = |it: &String| ["a", "\n"].map(|last| format!("{it}{last}"));
            longest = longest.iter().flat_map(longer).collect();
            all.extend(longest.clone());
        }
        all
    }

    #[test]
    fn wherever_somebody_types_into_the_old_or_the_new_text_it_is_told_which_of_them_it_is() {
        for before in texts(4) {
            let base = Text::flat(before.clone());
            let ranges = (0..=before.len())
                .flat_map(|start| (start..=before.len()).map(move |end| start..end));
            for (range, text) in
                ranges.flat_map(|it| texts(3).into_iter().map(move |text| (it.clone(), text)))
            {
                let splice = Splice { range, text };
                let splices = [splice].into_iter().collect::<Splices>().minimise(&base);
                let planned = base.apply(&splices);
                let after = planned.raw(0..planned.len_bytes());
                if before == after {
                    continue;
                }
                let cases = ["~", "~~~~~"]
                    .into_iter()
                    .flat_map(|it| [(it, true, &before), (it, false, &after)]);
                for (typed, is_undone, there) in cases {
                    for at in 0..=there.len() {
                        let mut actual = there.clone();
                        actual.insert_str(at, typed);
                        let actual = Text::flat(actual);
                        let job = UndoJob {
                            before: base.clone(),
                            after: planned.clone(),
                            splices: splices.clone(),
                            actual: actual.clone(),
                        };
                        let undo = job.run();
                        let left = actual.apply(&undo.splices);
                        let left = left.raw(0..left.len_bytes());
                        let context = format!(
                            "{before:?} -> {after:?}, {typed:?} at {at}, undone: {is_undone}, {:?}: {left:?}",
                            undo.outcome
                        );
                        let expected = match undo.outcome {
                            Outcome::Applied => &before,
                            Outcome::RolledBack => {
                                assert!(is_undone, "{context}");
                                &before
                            }
                            _ => there,
                        };
                        assert_eq!(&left.replacen(typed, "", 1), expected, "{context}");
                        assert!(!is_undone || undo.splices.is_empty(), "{context}");
                    }
                }
            }
        }
    }
}
