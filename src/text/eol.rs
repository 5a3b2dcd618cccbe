//! Line ends: folding them for the view, telling their style, and writing them back.
//!
//! Invariant: a lone carriage return is an ordinary character; `fold(&with_eol(view, eol))` is `view` for every
//! view text and either style.

use std::borrow::Cow;

use memchr::{memchr_iter, memmem};
use serde::{Deserialize, Serialize};

use super::Text;

/// A style of line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Eol {
    /// `\n`
    Lf,
    /// `\r\n`
    Crlf,
}

/// The line ends of a whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EolKind {
    /// Only `\n`.
    Lf,
    /// Only `\r\n`.
    Crlf,
    /// Both.
    Mixed,
    /// No line break at all.
    None,
}

impl Text {
    /// Tells the line ends; O(n).
    pub fn eol(&self) -> EolKind {
        match count(self) {
            (0, 0) => EolKind::None,
            (_, 0) => EolKind::Lf,
            (0, _) => EolKind::Crlf,
            (_, _) => EolKind::Mixed,
        }
    }
}

/// The style of most line breaks, LF if they are balanced; `None` without a line break.
pub fn majority(text: &Text) -> Option<Eol> {
    match count(text) {
        (0, 0) => None,
        (n_lf, n_crlf) if n_crlf > n_lf => Some(Eol::Crlf),
        (_, _) => Some(Eol::Lf),
    }
}

/// Turns every CRLF into LF.
pub fn fold(text: &str) -> Cow<'_, str> {
    match memmem::find(text.as_bytes(), b"\r\n") {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.replace("\r\n", "\n")),
    }
}

/// Writes the line breaks of a view text in a style.
///
/// A break behind a literal carriage return is always CRLF: as LF, it would swallow that character.
pub fn with_eol(view: &str, eol: Eol) -> String {
    match eol {
        Eol::Lf => view.replace("\r\n", "\r\r\n"),
        Eol::Crlf => view.replace('\n', "\r\n"),
    }
}

/// The numbers of LF and of CRLF line breaks.
fn count(text: &Text) -> (usize, usize) {
    let mut n_crlf = 0;
    let mut cr_pending = false;
    for (_, chunk) in text.chunks_from(0) {
        n_crlf += usize::from(cr_pending && chunk.first() == Some(&b'\n'));
        n_crlf += memchr_iter(b'\r', chunk)
            .filter(|cr_idx| chunk.get(cr_idx + 1) == Some(&b'\n'))
            .count();
        cr_pending = chunk.last() == Some(&b'\r');
    }
    (text.lf_before(text.len_bytes()) - n_crlf, n_crlf)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::tests::{any_text, both};

    #[track_caller]
    fn check(raw: &str, kind: &str, expected_majority: Option<Eol>) {
        for text in both(raw) {
            let actual = serde_json::to_string(&text.eol()).expect("a plain enum");
            assert_eq!(actual, format!("\"{kind}\""));
            assert_eq!(majority(&text), expected_majority);
        }
    }

    #[test]
    fn the_kind_tells_lf_crlf_mixed_and_none() {
        check("", "none", None);
        check("a\rb", "none", None);
        check("a\nb\n", "lf", Some(Eol::Lf));
        check("a\r\nb\r\n", "crlf", Some(Eol::Crlf));
        check("a\r\nb\r\nc\n", "mixed", Some(Eol::Crlf));
        check("a\r\nb\nc\n", "mixed", Some(Eol::Lf));
    }

    #[test]
    fn a_balanced_text_counts_as_lf() {
        check("a\r\nb\n", "mixed", Some(Eol::Lf));
    }

    #[test]
    fn a_return_before_a_crlf_stays_a_character() {
        assert_eq!(fold("a\r\r\nb\rc"), "a\r\nb\rc");
        assert_eq!(with_eol("a\r\nb\n", Eol::Lf), "a\r\r\nb\n");
    }

    proptest! {
        #[test]
        fn a_view_survives_any_line_ends(raw in any_text()) {
            let view = fold(&raw);
            for eol in [Eol::Lf, Eol::Crlf] {
                let raw = with_eol(&view, eol);
                prop_assert_eq!(fold(&raw), &*view);
            }
        }

        #[test]
        fn counting_is_exact_across_chunks(raw in any_text()) {
            let n_crlf = raw.matches("\r\n").count();
            for text in both(&raw) {
                prop_assert_eq!(count(&text), (raw.matches('\n').count() - n_crlf, n_crlf));
            }
        }
    }
}
