//! What a text is taken for, so that what differs only so much is found.
//!
//! Invariant: a fold is made unit by unit and costs linear time, and so does finding. Folds are bolder than the Unicode
//! fallback of an edit, because nothing is ever written by them: they only say where a text differs, and how.

use std::ops::Range;

use memchr::memmem;
use unicode_normalization::char::decompose_compatible;

/// What is taken for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// Blanks, tabs and line breaks, and none.
    Blanks,
    /// Characters that look alike, and invisible ones and none.
    LookAlikes,
    /// Characters and their escapes or entities.
    Escapes,
    /// Upper and lower case.
    Case,
}

impl Fold {
    /// The first places, not overlapping, that are taken for the needle.
    pub(super) fn find(self, text: &str, needle: &str, most: usize) -> Vec<Range<usize>> {
        let needle = self.apply(needle);
        if needle.is_empty() {
            return Vec::new();
        }
        let folded = self.apply(text);
        let places = memmem::find_iter(folded.as_bytes(), needle.as_bytes());
        let mut places = places.take(most).peekable();
        let mut found = Vec::new();
        let mut start = None;
        let (mut raw_at, mut folded_at) = (0, 0);
        let mut unit = String::new();
        while raw_at < text.len() {
            unit.clear();
            let raw_end = raw_at + self.unit(&text[raw_at..], &mut unit);
            folded_at += unit.len();
            while let Some(&place) = places.peek() {
                if place >= folded_at {
                    break;
                }
                let start_byte = *start.get_or_insert(raw_at);
                if place + needle.len() > folded_at {
                    break;
                }
                found.push(start_byte..raw_end);
                start = None;
                places.next();
            }
            raw_at = raw_end;
        }
        found
    }

    fn apply(self, text: &str) -> String {
        let mut folded = String::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            at += self.unit(&text[at..], &mut folded);
        }
        folded
    }

    /// Folds the first unit of a text that is not empty, and returns its bytes.
    fn unit(self, text: &str, folded: &mut String) -> usize {
        let c = text.chars().next().expect("the text is not empty");
        match self {
            Self::Blanks if is_blank(c) => {}
            Self::Case if c.is_ascii() => folded.push(c.to_ascii_lowercase()),
            Self::Case => folded.extend(c.to_lowercase()),
            Self::Escapes if c == '\\' => return escape(text, folded),
            Self::Escapes if c == '&' => {
                if let Some((meant, n_bytes)) = entity(text) {
                    folded.push(meant);
                    return n_bytes;
                }
                folded.push(c);
            }
            Self::Blanks | Self::Escapes => folded.push(c),
            Self::LookAlikes if is_dash(c) => {
                folded.push('-');
                return text.find(|it| !is_dash(it)).unwrap_or(text.len());
            }
            Self::LookAlikes if is_invisible(c) => {}
            Self::LookAlikes if c.is_ascii() => folded.push(c),
            Self::LookAlikes => match look_alike(c) {
                Some(plain) => folded.push_str(plain),
                None => decompose_compatible(c, |it| match look_alike(it) {
                    Some(plain) => folded.push_str(plain),
                    None => folded.push(it),
                }),
            },
        }
        c.len_utf8()
    }
}

/// Blanks, tabs and line breaks; a lone carriage return is invisible instead.
pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n')
}

/// However often it is escaped, `\n` is taken for a line break, and `\"` for a quote.
fn escape(text: &str, folded: &mut String) -> usize {
    let n_backslashes = text.bytes().take_while(|&it| it == b'\\').count();
    let behind = &text[n_backslashes..];
    match behind.bytes().next() {
        Some(b'n') => folded.push('\n'),
        Some(b't') => folded.push('\t'),
        Some(b'r') => {}
        Some(quote @ (b'"' | b'\'' | b'`' | b'/')) => folded.push(char::from(quote)),
        Some(b'u') => {
            let digits = behind.get(1..5).filter(|it| is_hex(it));
            let meant = digits.and_then(|it| char::from_u32(u32::from_str_radix(it, 16).ok()?));
            folded.push(meant.unwrap_or('\\'));
            return n_backslashes + if meant.is_some() { 5 } else { 0 };
        }
        _ => {
            folded.push('\\');
            return n_backslashes;
        }
    }
    n_backslashes + 1
}

fn is_hex(digits: &str) -> bool {
    digits.bytes().all(|it| it.is_ascii_hexdigit())
}

/// The character that an entity at the start of the text means, and the entity's bytes.
fn entity(text: &str) -> Option<(char, usize)> {
    /// As long as `&#x10FFFF;`.
    const MOST_BYTES: usize = 10;
    let end = text.bytes().take(MOST_BYTES).position(|it| it == b';')?;
    let meant = match &text[1..end] {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        other => {
            let number = other.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((meant, end + 1))
}

fn is_dash(c: char) -> bool {
    matches!(
        c,
        '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}'
    )
}

pub(super) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{B}'..='\u{1F}' | '\u{7F}'..='\u{9F}' | '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{180E}'
        | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}' | '\u{E0001}'..='\u{E01EF}')
}

/// Letters and signs that no decomposition takes for what they look like.
fn look_alike(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2018}'..='\u{201B}' | '\u{B4}' | '\u{2BC}' | '\u{2032}' => "'",
        '\u{201C}'..='\u{201F}' | '\u{2033}' => "\"",
        '‹' => "<",
        '›' => ">",
        '\u{2044}' | '\u{2215}' => "/",
        '\u{2217}' => "*",
        '\u{2236}' | '\u{A789}' => ":",
        '\u{2223}' | '\u{1C0}' => "|",
        '×' | 'х' | 'χ' => "x",
        'а' | 'α' => "a",
        'с' | 'ϲ' => "c",
        'ԁ' => "d",
        'е' => "e",
        'һ' => "h",
        'і' | 'ι' | 'ı' => "i",
        'ј' => "j",
        'о' | 'ο' => "o",
        'р' | 'ρ' => "p",
        'ԛ' => "q",
        'ѕ' => "s",
        'ν' | 'ѵ' => "v",
        'ԝ' => "w",
        'у' => "y",
        'А' | 'Α' => "A",
        'В' | 'Β' => "B",
        'С' => "C",
        'Е' | 'Ε' => "E",
        'Н' | 'Η' => "H",
        'І' | 'Ι' => "I",
        'Ј' => "J",
        'К' | 'Κ' => "K",
        'М' | 'Μ' => "M",
        'Ν' => "N",
        'О' | 'Ο' => "O",
        'Р' | 'Ρ' => "P",
        'Ѕ' => "S",
        'Т' | 'Τ' => "T",
        'Х' | 'Χ' => "X",
        'У' | 'Υ' => "Y",
        'Ζ' => "Z",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(fold: Fold, text: &str, needle: &str, expected: Expect) {
        let found = fold.find(text, needle, 9);
        let shown = found.into_iter().map(|it| format!("⟦{}⟧", &text[it]));
        expected.assert_eq(&shown.collect::<String>());
    }

    #[test]
    fn each_fold_finds_what_it_takes_for_the_needle() {
        check(
            Fold::Blanks,
            "f( a,\tb ) f(a,b)",
            "f(a, b)",
            expect!["⟦f( a,\tb )⟧⟦f(a,b)⟧"],
        );
        check(
            Fold::LookAlikes,
            "“a”—\u{200B}ｂ",
            "\"a\"--b",
            expect!["⟦“a”—\u{200b}ｂ⟧"],
        );
        check(
            Fold::Escapes,
            r"a &lt; \\n\u0026 b",
            "< \n& ",
            expect![r"⟦&lt; \\n\u0026 ⟧"],
        );
        check(Fold::Escapes, r"a\r\nb", "a\nb", expect![r"⟦a\r\nb⟧"]);
        check(
            Fold::Escapes,
            r#"say(\"a\") \u0041 \u+041"#,
            r#""a") A"#,
            expect![[r#"⟦\"a\") \u0041⟧"#]],
        );
        check(Fold::Escapes, r"\u+041", "A", expect![""]);
        check(
            Fold::Escapes,
            "&#65;&#x41;&#X41; &#x110000; &#xx;",
            "A",
            expect!["⟦&#65;⟧⟦&#x41;⟧⟦&#X41;⟧"],
        );
        check(Fold::Case, "Ab aB", "AB", expect!["⟦Ab⟧⟦aB⟧"]);
        check(Fold::Case, "É é", "é", expect!["⟦É⟧⟦é⟧"]);
    }

    #[test]
    fn letters_and_signs_are_taken_for_what_they_look_like() {
        for (text, expected) in [
            ("асԁеһіјорԛѕѵԝху", "acdehijopqsvwxy"),
            ("АВСЕНІЈКМОРЅТХУ", "ABCEHIJKMOPSTXY"),
            ("αϲιορνχ ΑΒΕΗΙΚΜΝΟΡΤΧΥΖ", "aciopvx ABEHIKMNOPTXYZ"),
            ("‹ı×› ⁄∕ ∗ ∶꞉ ∣ǀ", "<ix> // * :: ||"),
        ] {
            assert_eq!(Fold::LookAlikes.apply(text), expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_taken_for_the_needle(
            text in r#"[aA \t\n—–\-"“\\n&lt;#8\u{200B}]{0,20}"#,
            needle in r#"[aA \n\-"\\n<&]{1,4}"#,
        ) {
            for fold in [Fold::Blanks, Fold::LookAlikes, Fold::Escapes, Fold::Case] {
                for place in fold.find(&text, &needle, 9) {
                    let found = fold.apply(&text[place]);
                    prop_assert!(found.contains(&fold.apply(&needle)), "{:?} {:?}", fold, found);
                }
            }
        }
    }
}
