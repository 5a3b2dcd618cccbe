//! What the tests of the text modules share, and the tests of `Text` itself: naive twins on a `String`.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

/// Short texts of everything that is special here.
pub(crate) fn short(most: usize) -> impl Strategy<Value = String> {
    let signs = select(vec![
        "a", "b", "a", "\n", "\n", "\r\n", "\r\n", "\r", "é", "😀", BOM,
    ]);
    vec(signs, 0..=most).prop_map(|signs| signs.concat())
}

/// Texts of several rope chunks, a chunk being about 1 KB, with something special around the seams.
pub(crate) fn long() -> impl Strategy<Value = String> {
    let filler = (
        select(vec!["x", "\n", "\r\n", "é", "ab\n"]),
        900..1000_usize,
    );
    let filler = filler.prop_map(|(sign, n_bytes)| sign.repeat(n_bytes / sign.len()));
    let repeated = (short(6), 1..200_usize).prop_map(|(sign, n)| sign.repeat(n));
    vec((short(20), prop_oneof![filler, repeated]), 0..4).prop_map(|parts| {
        parts
            .into_iter()
            .flat_map(|(short, long)| [short, long])
            .collect()
    })
}

/// Mostly short texts, else long ones.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![4 => short(12), 1 => long()]
}

/// A text as an open document and as a closed file.
pub(crate) fn both(raw: &str) -> [Text; 2] {
    [Text::Rope(Rope::from_str(raw)), Text::flat(raw)]
}

/// A range of whole characters, from two numbers of any size.
pub(crate) fn char_range(text: &str, from: usize, to: usize) -> Range<usize> {
    let mut edges: Vec<_> = text.char_indices().map(|(byte, _)| byte).collect();
    edges.push(text.len());
    let (from, to) = (from % edges.len(), to % edges.len());
    edges[from.min(to)]..edges[from.max(to)]
}

/// `n` lines, from the 0-based number of each.
pub(crate) fn lines(n: usize, line: impl Fn(usize) -> String) -> String {
    (0..n).flat_map(|it| [line(it), "\n".to_string()]).collect()
}

/// The view text.
pub(crate) fn naive_view(raw: &str) -> String {
    raw.strip_prefix(BOM).unwrap_or(raw).replace("\r\n", "\n")
}

/// The view text before a raw byte.
fn naive_view_before(raw: &str, byte: usize) -> String {
    let before = naive_view(&raw[..byte]);
    if raw[byte..].starts_with('\n') && before.ends_with('\r') {
        before[..before.len() - 1].to_string()
    } else {
        before
    }
}

#[track_caller]
fn check_lines(raw: &str, starts: &[usize], total: usize) {
    for text in both(raw) {
        let actual: Vec<_> = (0..=starts.len())
            .map_while(|line| text.line_start(line))
            .collect();
        assert_eq!((&*actual, text.total_lines()), (starts, total), "{raw:?}");
    }
}

#[test]
fn a_last_line_without_a_break_counts_as_a_line() {
    check_lines("", &[0], 0);
    check_lines("a", &[0], 1);
    check_lines("a\n", &[0, 2], 1);
    check_lines("a\r\nb", &[0, 3], 2);
    check_lines("\n\n", &[0, 1, 2], 2);
}

#[test]
fn the_first_line_starts_behind_the_byte_order_mark() {
    check_lines("\u{FEFF}", &[3], 0);
    check_lines("\u{FEFF}a\nb", &[3, 5], 2);
}

#[test]
fn only_line_feeds_break_lines() {
    check_lines("a\rb\u{2028}c\u{85}d\u{C}e", &[0], 1);
}

#[test]
fn blocks_are_at_most_64_kib() {
    for raw in ["a".repeat(200_000), "a\r\n".repeat(60_000)] {
        for text in both(&raw) {
            let mut blocks = Vec::new();
            text.for_each_view_block(|block| blocks.push(block.to_vec()));
            let lens: Vec<_> = blocks.iter().map(Vec::len).collect();
            let (last, whole) = lens.split_last().expect("there is text");
            assert!(*last <= BLOCK_BYTES, "{lens:?}");
            assert!(whole.iter().all(|&len| len == BLOCK_BYTES), "{lens:?}");
            assert_eq!(blocks.concat(), naive_view(&raw).into_bytes());
        }
    }
}

proptest! {
    #[test]
    fn a_view_is_the_folded_text_without_the_mark(raw in any_text(), from: usize, to: usize) {
        let range = char_range(&raw, from, to);
        for text in both(&raw) {
            prop_assert_eq!(text.raw(range.clone()), &raw[range.clone()]);
            prop_assert_eq!(text.view(0..raw.len()), naive_view(&raw));
            let mut blocks = Vec::new();
            text.for_each_view_block(|block| blocks.extend_from_slice(block));
            prop_assert_eq!(blocks, naive_view(&raw).into_bytes());
            prop_assert_eq!(text.is_empty_view(), naive_view(&raw).is_empty());
        }
    }

    #[test]
    fn lines_and_columns_are_counted_in_the_view(raw in any_text(), at: usize) {
        let byte = char_range(&raw, at, at).start;
        let before = naive_view_before(&raw, byte);
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().map_or(0, |it| it.chars().count());
        let starts: Vec<_> = raw.match_indices('\n').map(|(lf_byte, _)| lf_byte + 1).collect();
        for text in both(&raw) {
            prop_assert_eq!(text.line_column(byte), (line + 1, column + 1));
            prop_assert_eq!(text.lf_before(byte), line);
            let actual: Vec<_> = (1..).map_while(|line| text.line_start(line)).collect();
            prop_assert_eq!(&actual, &starts);
            prop_assert_eq!(text.total_lines(), naive_view(&raw).split_inclusive('\n').count());
        }
    }

    #[test]
    fn walking_finds_what_searching_the_string_finds(raw in any_text(), at: usize) {
        let byte = char_range(&raw, at, at).start;
        for text in both(&raw) {
            prop_assert_eq!(text.next_lf(byte), raw[byte..].find('\n').map(|it| byte + it));
            prop_assert_eq!(text.prev_lf(byte), raw[..byte].rfind('\n'));
            let forwards: Vec<_> = text.chunks_from(byte).flat_map(|(_, it)| it.to_vec()).collect();
            prop_assert_eq!(forwards, &raw.as_bytes()[byte..]);
            let mut end_byte = byte;
            for (start_byte, chunk) in text.chunks_before(byte) {
                prop_assert_eq!(chunk, &raw.as_bytes()[start_byte..end_byte]);
                end_byte = start_byte;
            }
            prop_assert_eq!(end_byte, 0);
        }
    }

    #[test]
    fn equal_means_equal_bytes(left in any_text(), right in any_text()) {
        for left_text in both(&left) {
            for right_text in both(&right) {
                prop_assert_eq!(left_text.same(&right_text), left == right);
                let n_head = left.bytes().zip(right.bytes()).take_while(|(l, r)| l == r).count();
                let n_tail =
                    left.bytes().rev().zip(right.bytes().rev()).take_while(|(l, r)| l == r).count();
                prop_assert_eq!(walk::common_prefix(&left_text, &right_text), n_head);
                prop_assert_eq!(walk::common_suffix(&left_text, &right_text, 900), n_tail.min(900));
            }
            for same in both(&left) {
                prop_assert!(left_text.same(&same));
            }
        }
    }
}
