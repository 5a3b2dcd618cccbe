//! Which block of lines is taken for the one that was meant.

use super::*;

const OLD: &str = "let total = price + tax;";

fn find(text: &str, old: &str) -> Option<Block> {
    let [text, old] = [text, old].map(|it| it.split('\n').collect::<Vec<_>>());
    most_like(&text, &old)
}

#[track_caller]
fn check(text: &str, old: &str, lines: Range<usize>) {
    assert_eq!(find(text, old).map(|it| it.lines), Some(lines));
}

#[test]
fn a_block_is_found_wherever_it_starts() {
    let block = "fn total(items: &[Item]) -> u32 {\n    items.iter().sum()\n}";
    let old = block.replace("u32", "u64");
    for n in 0..6 {
        let noise = "// noise\n".repeat(n);
        check(&format!("{noise}{block}\n"), &old, n..n + 3);
    }
}

#[test]
fn the_line_most_like_is_taken_and_of_equal_ones_the_first() {
    let text = "let total = cost + tip;\nlet total = price + tip;\nlet total = price + tip;";
    check(text, OLD, 1..2);
}

#[test]
fn lines_that_hold_all_of_it_and_much_more_do_not_hide_the_nearest() {
    let long = "price + tax; let total = because(this, line, is, about, something, different);\n";
    let text = format!("{}let total = cost + tax;", long.repeat(CANDIDATES + 1));
    check(&text, OLD, CANDIDATES + 1..CANDIDATES + 2);
}

#[test]
fn the_same_letters_in_another_order_are_not_alike() {
    let reversed: String = OLD.chars().rev().collect();
    let text = format!("{reversed}\n").repeat(CANDIDATES + 1);
    assert_eq!(find(&text, OLD), None);
    let text = format!("{text}let total = price + tip;");
    check(&text, OLD, CANDIDATES + 1..CANDIDATES + 2);
}

#[test]
fn lines_of_nothing_but_signs_are_not_called_apart() {
    let found = find("{\n}\n", "}\n{").expect("they are there");
    assert!(found.apart.is_empty());
    let found = find("{\n} else\n", "} else\n{").expect("they are there");
    assert_eq!(found.apart, [1, 0]);
}
