//! Saying what changed since a session saw a file: by whom, and which lines.

use crate::{
    error::{Code, FsError},
    ledger::{Entry, Observation},
    protocol::Author,
    text::{Text, diff},
    version::Version,
};

/// Most line ranges that a message names; `changedRanges` has them all.
const RANGES_IN_MESSAGE: usize = 4;

/// Builds `FS_STALE_VERSION` for a file whose content (none: it is gone) is not what the session saw.
pub fn refusal(
    verb: &str,
    path: &str,
    uri: &str,
    entry: Option<&Entry>,
    changed_by: &[Author],
    now: Option<(&Text, Option<Version>)>,
) -> FsError {
    let ranges = match (entry.and_then(|it| it.snapshot.as_ref()), now) {
        (Some(seen), Some((text, _))) => diff::changed_ranges(seen, text),
        _ => Vec::new(),
    };
    let detail = if now.is_none() {
        "it no longer exists".to_string()
    } else {
        [authors(changed_by), lines(&ranges)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(", ")
    };
    let detail = if detail.is_empty() {
        detail
    } else {
        format!(" ({detail})")
    };
    let remedy = if ranges.is_empty() {
        "re-read the file, then retry"
    } else {
        "re-read the file (or those lines), then retry"
    };
    let what = format!("cannot {verb} \"{path}\": file changed since it was read{detail}");
    let mut err = FsError::new(Code::FsStaleVersion, what, remedy).at(path, uri);
    err.observed_version = entry.and_then(|it| match it.observation {
        Observation::Present(version) => Some(version),
        Observation::Absent => None,
    });
    err.current_version = now.and_then(|(_, version)| version);
    err.changed_by = changed_by.to_vec();
    err.changed_ranges = ranges;
    err
}

/// The same for a document that the editor `was` ("opened", "closed") while the call was under way.
pub fn meanwhile(verb: &str, path: &str, uri: &str, was: &str) -> FsError {
    let what = format!(
        "cannot {verb} \"{path}\": file changed since it was read (it was {was} in the editor)"
    );
    FsError::new(Code::FsStaleVersion, what, "re-read the file, then retry").at(path, uri)
}

fn authors(changed_by: &[Author]) -> Option<String> {
    let names: Vec<String> = changed_by
        .iter()
        .map(|author| match author {
            Author::Human => "by the user".to_string(),
            Author::Session { session_id } => format!("by session {session_id:?}"),
            Author::Formatter => "by a formatter".to_string(),
            Author::Disk => "on disk".to_string(),
        })
        .collect();
    (!names.is_empty()).then(|| names.join(" and "))
}

/// `line 3`, `lines 3-5, 9`.
fn lines(ranges: &[(usize, usize)]) -> Option<String> {
    let (first, last) = (ranges.first()?, ranges.last()?);
    let one = first.0 == last.1;
    let mut names: Vec<String> = ranges
        .iter()
        .take(RANGES_IN_MESSAGE)
        .map(|&(from, to)| {
            if from == to {
                from.to_string()
            } else {
                format!("{from}-{to}")
            }
        })
        .collect();
    if ranges.len() > RANGES_IN_MESSAGE {
        names.push("…".to_string());
    }
    Some(format!(
        "{} {}",
        if one { "line" } else { "lines" },
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::{ledger::Lines, protocol::Status};

    #[track_caller]
    fn check(seen: &str, by: &[Author], now: Option<&str>, expected: Expect) {
        let seen = Text::flat(seen.to_string());
        let entry = Entry {
            observation: Observation::Present(Version::of(&seen)),
            path: "a.rs".into(),
            seq: 0,
            snapshot: Some(seen),
            shown: Lines::default(),
            told: Some(Status::Fresh),
            turn: None,
        };
        let now = now.map(|it| Text::flat(it.to_string()));
        let err = refusal(
            "edit",
            "a.rs",
            "file:///a.rs",
            Some(&entry),
            by,
            now.as_ref().map(|it| (it, None)),
        );
        expected.assert_eq(&err.message());
    }

    #[test]
    fn tells_who_changed_which_line() {
        check(
            "a\nb\n",
            &[Author::Human],
            Some("a\nB\n"),
            expect![[
                r#"cannot edit "a.rs": file changed since it was read (by the user, line 2) — re-read the file (or those lines), then retry"#
            ]],
        );
    }

    #[test]
    fn tells_several_authors_and_ranges() {
        let by = [
            Author::Session {
                session_id: "s2".into(),
            },
            Author::Disk,
        ];
        check(
            "a\nb\nc\nd\n",
            &by,
            Some("A\nB\nc\nD\n"),
            expect![[
                r#"cannot edit "a.rs": file changed since it was read (by session "s2" and on disk, lines 1-2, 4) — re-read the file (or those lines), then retry"#
            ]],
        );
    }

    #[test]
    fn names_four_ranges_and_says_that_there_are_more() {
        let seen = "a\n=\nb\n=\nc\n=\nd\n=\ne\n";
        check(
            seen,
            &[],
            Some("A\n=\nB\n=\nC\n=\nD\n=\ne\n"),
            expect![[
                r#"cannot edit "a.rs": file changed since it was read (lines 1, 3, 5, 7) — re-read the file (or those lines), then retry"#
            ]],
        );
        check(
            seen,
            &[],
            Some("A\n=\nB\n=\nC\n=\nD\n=\nE\n"),
            expect![[
                r#"cannot edit "a.rs": file changed since it was read (lines 1, 3, 5, 7, …) — re-read the file (or those lines), then retry"#
            ]],
        );
    }

    #[test]
    fn tells_that_the_file_is_gone() {
        check(
            "a\n",
            &[],
            None,
            expect![[
                r#"cannot edit "a.rs": file changed since it was read (it no longer exists) — re-read the file, then retry"#
            ]],
        );
    }
}
