//! Lone surrogates: escapes such as `\ud800` that JSON allows and no Rust string can hold.
//!
//! Invariant: a repair moves no byte and touches nothing but these escapes, so offsets in the repaired
//! body are those of the sent one. Joining the halves of a pair again is left to who knows the text.

use memchr::{memchr, memmem};

/// A body in which every lone surrogate escape became `\ufffd`; no byte moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repaired {
    /// The body that a parser accepts.
    pub body: Vec<u8>,
    /// What was replaced, in order of occurrence; never empty.
    pub lone: Vec<LoneSurrogate>,
}

/// A surrogate escape without its other half, such as an editor sends that splits a pair over two
/// changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoneSurrogate {
    /// The code unit, D800 to DFFF.
    pub unit: u16,
    /// Where its escape begins in the body.
    pub byte: usize,
    /// How many U+FFFD come before it in all strings of the repaired body, real ones included.
    pub n_fffd_before: usize,
}

/// Replaces lone surrogate escapes, which no Rust string can hold; `None` if there are none.
///
/// In JSON a backslash occurs in strings only, so nothing else is ever touched.
pub fn repair_surrogates(body: &[u8]) -> Option<Repaired> {
    let first_backslash = memchr(b'\\', body)?;
    let mut lone = Vec::new();
    let mut n_fffd = 0;
    let mut counted = 0;
    let mut after_pair = 0;
    for at in memmem::find_iter(&body[first_backslash..], br"\u").map(|it| first_backslash + it) {
        if at < after_pair || is_escaped(body, at) {
            continue;
        }
        match unit_at(body, at) {
            Some(0xFFFD) => n_fffd += 1,
            Some(0xD800..=0xDBFF) if matches!(unit_at(body, at + 6), Some(0xDC00..=0xDFFF)) => {
                after_pair = at + 12;
            }
            Some(unit @ 0xD800..=0xDFFF) => {
                n_fffd += memmem::find_iter(&body[counted..at], "\u{fffd}").count();
                counted = at;
                lone.push(LoneSurrogate {
                    unit,
                    byte: at,
                    n_fffd_before: n_fffd,
                });
                n_fffd += 1;
            }
            _ => {}
        }
    }
    if lone.is_empty() {
        return None;
    }
    let mut body = body.to_vec();
    for &LoneSurrogate { byte, .. } in &lone {
        body[byte..byte + 6].copy_from_slice(br"\ufffd");
    }
    Some(Repaired { body, lone })
}

/// Returns the code unit of the escape `\uXXXX` at `at`.
fn unit_at(body: &[u8], at: usize) -> Option<u16> {
    let digits = body.get(at..at + 6)?.strip_prefix(br"\u")?;
    digits.iter().try_fold(0, |unit: u16, &digit| {
        let value = char::from(digit).to_digit(16)?;
        Some(unit << 4 | u16::try_from(value).ok()?)
    })
}

/// Whether the backslash at `at` is the second half of an escaped backslash.
fn is_escaped(body: &[u8], at: usize) -> bool {
    let before = body[..at].iter().rev();
    before.take_while(|&&it| it == b'\\').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    #[test]
    fn escaped_backslashes_are_no_surrogates() {
        assert_eq!(repair_surrogates(br#"{"a":"\\ud800 \\\\uDC00"}"#), None);
        assert_eq!(repair_surrogates(br#"{"a":"\uD83D\uDE00 \ud8"}"#), None);
        let repaired = repair_surrogates(br#"{"a":"\\\uD83D"}"#).map(|it| it.body);
        assert_eq!(repaired.as_deref(), Some(&br#"{"a":"\\\ufffd"}"#[..]));
    }

    proptest! {
        #[test]
        fn repaired_text_is_what_a_lossy_decoder_makes_of_it(
            units in vec(
                select(vec![0x5C, 0x75, 0x64, 0x38, 0x22, 0x0A, 0xE9, 0xFFFD, 0xD83D, 0xDE00]),
                0..12,
            ),
            escaped in vec(any::<bool>(), 12),
        ) {
            let text: String = units
                .iter()
                .zip(escaped)
                .map(|(&unit, escaped)| match char::from_u32(u32::from(unit)) {
                    Some(it) if !escaped => {
                        let quoted = serde_json::json!(it).to_string();
                        quoted[1..quoted.len() - 1].to_string()
                    }
                    _ => format!("\\u{unit:04X}"),
                })
                .collect();
            let body = format!("\"{text}\"").into_bytes();
            let repaired = repair_surrogates(&body);

            let parsed: String = serde_json::from_slice(
                repaired.as_ref().map_or(&body, |it| &it.body),
            )?;
            prop_assert_eq!(&parsed, &String::from_utf16_lossy(&units));
            let lone = repaired.map_or(Vec::new(), |it| it.lone);
            let n_fffd_before = |n_chars| parsed.chars().take(n_chars).filter(|&it| it == '\u{fffd}').count();
            let expected: Vec<_> = char::decode_utf16(units)
                .enumerate()
                .filter_map(|(idx, it)| Some((it.err()?.unpaired_surrogate(), n_fffd_before(idx))))
                .collect();
            let actual: Vec<_> = lone.iter().map(|it| (it.unit, it.n_fffd_before)).collect();
            prop_assert_eq!(actual, expected);
            for it in lone {
                let escape = format!("\\u{:04X}", it.unit);
                prop_assert!(body[it.byte..].starts_with(escape.as_bytes()));
            }
        }
    }
}
