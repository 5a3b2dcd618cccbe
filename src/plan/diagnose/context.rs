//! The shortest context that makes each of several places unique.
//!
//! Invariant: what is returned occurs once in the text. Wherever a context occurs, what was looked for is in it and so is
//! a place, too: the places are compared with one another, never the whole text.

use std::ops::Range;

use crate::text::Text;

/// Most lines on either side.
const MOST_LINES: usize = 3;
/// Most characters of a context.
const MOST_CHARS: usize = 300;
/// So many places are compared; among more, none is called unique.
const MOST_PLACES: usize = 1000;
/// Bytes around a place that are looked at: as many characters as a context may have.
const AROUND_BYTES: usize = MOST_CHARS * 4;

/// The context of each of the first `n_listed` places, all of which are given: whole lines, without the last break.
pub(in crate::plan) fn contexts(
    text: &Text,
    places: &[Range<usize>],
    n_listed: usize,
) -> Vec<Option<String>> {
    let n_listed = n_listed.min(places.len());
    if places.len() > MOST_PLACES {
        return vec![None; n_listed];
    }
    let around: Vec<Around> = places.iter().map(|it| Around::of(text, it)).collect();
    (0..n_listed)
        .map(|idx| {
            let (head, tail) = around[idx].shortest(idx, &around)?;
            let found = text.view(places[idx].clone());
            Some(format!("{head}{found}{tail}"))
        })
        .collect()
}

/// The view before and behind a place, as far as a context may reach.
struct Around {
    before: String,
    behind: String,
    /// Where whole lines start in `before`, nearest first.
    starts: Vec<usize>,
    /// Where whole lines end in `behind`, nearest first.
    ends: Vec<usize>,
    /// How many characters a context may add to the place.
    most_chars: usize,
}

impl Around {
    fn of(text: &Text, place: &Range<usize>) -> Self {
        let is_edge = |at: usize| text.byte(at).is_none_or(|it| it & 0xC0 != 0x80);
        let from = (place.start.saturating_sub(AROUND_BYTES)..=place.start)
            .find(|&it| is_edge(it))
            .unwrap_or(place.start);
        let to = (place.end..=text.len_bytes().min(place.end + AROUND_BYTES))
            .rev()
            .find(|&it| is_edge(it))
            .unwrap_or(place.end);
        let before = text.view(from..place.start);
        let behind = text.view(place.end..to);
        let mut starts: Vec<usize> = memchr::memrchr_iter(b'\n', before.as_bytes())
            .map(|it| it + 1)
            .collect();
        if from <= text.view_start() {
            starts.push(0);
        }
        starts.truncate(MOST_LINES + 1);
        let mut ends: Vec<usize> = memchr::memchr_iter(b'\n', behind.as_bytes()).collect();
        if to == text.len_bytes() {
            ends.push(behind.len());
        }
        ends.truncate(MOST_LINES + 1);
        // More bytes are more characters than a context may have.
        let found_chars = if place.len() > AROUND_BYTES {
            usize::MAX
        } else {
            text.view(place.clone()).chars().count()
        };
        Self {
            before,
            behind,
            starts,
            ends,
            most_chars: MOST_CHARS.saturating_sub(found_chars),
        }
    }

    /// The shortest text before and behind that no other place has.
    fn shortest(&self, own_idx: usize, all: &[Self]) -> Option<(&str, &str)> {
        let mut best: Option<(usize, &str, &str)> = None;
        for &start in &self.starts {
            for &end in &self.ends {
                let (head, tail) = (&self.before[start..], &self.behind[..end]);
                let n_chars = head.chars().count() + tail.chars().count();
                if n_chars > self.most_chars || best.is_some_and(|it| it.0 <= n_chars) {
                    continue;
                }
                let is_unique = all.iter().enumerate().all(|(idx, it)| {
                    idx == own_idx || !it.before.ends_with(head) || !it.behind.starts_with(tail)
                });
                if is_unique {
                    best = Some((n_chars, head, tail));
                }
            }
        }
        best.map(|(_, head, tail)| (head, tail))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;
    use crate::text::{
        matching,
        tests::{any_text, both, lines, naive_view},
    };

    fn all(text: &Text, old: &str) -> Vec<Option<String>> {
        let places = matching::find(text, old, usize::MAX).ranges;
        contexts(text, &places, 20)
    }

    #[track_caller]
    fn check(text: &str, old: &str, expected: Expect) {
        let shown = all(&Text::flat(text), old)
            .into_iter()
            .map(|it| format!("{}\n", it.map_or("-".to_string(), |it| format!("{it:?}"))));
        expected.assert_eq(&shown.collect::<String>());
    }

    #[test]
    fn the_shortest_lines_around_that_are_unique() {
        check(
            "fn a() {\r\n    go();\r\n}\r\nfn b() {\r\n    go();\r\n}\r\n",
            "go();",
            expect![[r#"
                "fn a() {\n    go();"
                "fn b() {\n    go();"
            "#]],
        );
    }

    #[test]
    fn the_rest_of_the_line_may_do() {
        check(
            "let a = 1;\nlet b = 1;\n",
            "= 1",
            expect![[r#"
                "let a = 1;"
                "let b = 1;"
            "#]],
        );
    }

    #[test]
    fn there_is_none_farther_away_than_three_lines() {
        check(
            "a\n.\n.\n.\nx\n.\n.\n.\n.\nx\n.\n.\n.\nb\n",
            "x",
            expect![[r#"
                -
                -
            "#]],
        );
    }

    #[test]
    fn there_is_none_of_more_than_300_characters() {
        let far = "é".repeat(300);
        check(
            &format!("a{far}x\nb{far}x\nc\nx\n"),
            "x",
            expect![[r#"
                -
                -
                "c\nx"
            "#]],
        );
        let just = "é".repeat(MOST_CHARS - 2);
        let told = all(&Text::flat(format!("a{just}x\nx\n")), "x");
        assert_eq!(told[0], Some(format!("a{just}x")));
        let long = "x".repeat(AROUND_BYTES + 1);
        assert_eq!(
            all(&Text::flat(format!("a{long}\nb{long}")), &long),
            [None, None]
        );
    }

    #[test]
    fn among_more_than_a_thousand_places_none_is_called_unique() {
        for (n, is_told) in [(MOST_PLACES, true), (MOST_PLACES + 1, false)] {
            let text = Text::flat(lines(n, |it| format!("{it} x")));
            let told = all(&text, "x");
            assert_eq!(told.len(), 20);
            assert!(told.iter().all(|it| it.is_some() == is_told));
        }
    }

    proptest! {
        #[test]
        fn a_context_occurs_once_and_is_whole_lines(raw in any_text(), old in "[abx\n]{1,3}") {
            for text in both(&raw) {
                for context in all(&text, &old).into_iter().flatten() {
                    prop_assert_eq!(matching::find(&text, &context, 9).ranges.len(), 1);
                    prop_assert!(context.chars().count() <= MOST_CHARS);
                    let view = format!("\n{}\n", naive_view(&raw));
                    let lines = format!("\n{context}\n");
                    prop_assert!(view.contains(&lines));
                }
            }
        }

        #[test]
        fn no_fewer_lines_around_would_do(raw in any_text(), old in "[ab\n]{1,2}") {
            let text = Text::flat(&*raw);
            let view = naive_view(&raw);
            // A mark before the old text is part of no line.
            prop_assume!(!raw.contains('\u{FEFF}') && !raw.contains("\r\r"));
            let places: Vec<usize> = (0..view.len()).filter(|&it| view.as_bytes()[it..].starts_with(old.as_bytes())).collect();
            prop_assume!(places.len() <= 20);
            for (place, context) in places.iter().zip(all(&text, &old)) {
                let (before, behind) = (&view[..*place], &view[place + old.len()..]);
                let starts = before.rmatch_indices('\n').map(|it| it.0 + 1).chain([0]).take(MOST_LINES + 1);
                let ends = behind.match_indices('\n').map(|it| it.0).chain([behind.len()]);
                let ends: Vec<usize> = ends.take(MOST_LINES + 1).collect();
                let candidates = starts.flat_map(|start| ends.iter().map(move |end| (start, end)));
                let shortest = candidates
                    .map(|(start, end)| &view[start..place + old.len() + end])
                    .filter(|it| it.chars().count() <= MOST_CHARS)
                    .filter(|it| (0..view.len()).filter(|&at| view.as_bytes()[at..].starts_with(it.as_bytes())).count() == 1)
                    .map(|it| it.chars().count())
                    .min();
                prop_assert_eq!(context.map(|it| it.chars().count()), shortest);
            }
        }
    }
}
