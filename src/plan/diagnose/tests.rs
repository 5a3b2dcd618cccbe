use expect_test::{Expect, expect, expect_file};
use proptest::prelude::*;

use super::{
    excerpt::{TEXT_CHARS, TEXT_LINES},
    *,
};
use crate::text::tests::{both, lines, naive_view};

#[track_caller]
fn check(text: &str, old: &str, expected: Expect) {
    let [rope, flat] = both(text);
    let found = miss(&rope, old, true);
    assert_eq!(found, miss(&flat, old, true));
    let nearest = found.nearest.map_or("none\n".to_string(), |it| {
        format!("{}: {:?}\n{}\n", it.line, it.text, it.why)
    });
    expected.assert_eq(&format!("{nearest}{}\n", found.remedy));
}

#[test]
fn other_blanks_or_tabs() {
    check(
        "fn main() {\r\n\tgo(1);\r\n\tstop();\r\n}\r\n",
        "    go(1);\n    stop();",
        expect![[r#"
            2: "\tgo(1);\n\tstop();"
            line 2 has `→go(1);…` where oldString has `····go(1);…` (→ tab, · blank)
            copy the text exactly: line 2 has `→go(1);…` where oldString has `····go(1);…` (→ tab, · blank)
        "#]],
    );
    check(
        "f(a,b);\n",
        "f(a, b)",
        expect![[r#"
        1: "f(a,b);"
        line 1 has `f(a,b)` where oldString has `f(a,·b)` (· blank)
        copy the text exactly: line 1 has `f(a,b)` where oldString has `f(a,·b)` (· blank)
    "#]],
    );
    check(
        "call(\n    a,\n)\n",
        "call(a,)",
        expect![[r#"
        1: "call(\n    a,\n)"
        line 1 has `call(↵····a,…` where oldString has `call(a,)` (· blank, ↵ line break)
        copy the text exactly: line 1 has `call(↵····a,…` where oldString has `call(a,)` (· blank, ↵ line break)
    "#]],
    );
    check(
        "last",
        "last\n",
        expect![[r#"
        1: "last"
        line 1 has `last` where oldString has `last↵` (↵ line break)
        copy the text exactly: line 1 has `last` where oldString has `last↵` (↵ line break)
    "#]],
    );
}

#[test]
fn words_are_never_joined_by_leaving_blanks_out() {
    check(
        "format\n",
        "for mat",
        expect![[r#"
        1: "format"
        line 1 is most like it (50 %): line 1 has `format` where oldString has `for mat`
        re-read the file there and copy the text exactly: line 1 is most like it (50 %): line 1 has `format` where oldString has `for mat`
    "#]],
    );
}

#[test]
fn look_alike_and_invisible_characters() {
    check(
        "a\nit’s “so”\n",
        "it's \"so\"",
        expect![[r#"
            2: "it’s “so”"
            line 2 has U+2019 (right single quote) where oldString has U+0027 (`'`), has U+201C (left double quote) where oldString has U+0022 (`"`), has U+201D (right double quote) where oldString has U+0022 (`"`)
            copy the text exactly, or set unicodeFallback: line 2 has U+2019 (right single quote) where oldString has U+0027 (`'`), has U+201C (left double quote) where oldString has U+0022 (`"`), has U+201D (right double quote) where oldString has U+0022 (`"`)
        "#]],
    );
    check(
        "foo\u{200B}bar()\n",
        "foobar()",
        expect![[r#"
            1: "foo\u{200b}bar()"
            line 1 has an extra U+200B (zero width space)
            copy the text exactly: line 1 has an extra U+200B (zero width space)
        "#]],
    );
    check(
        "let pass = 1;\n",
        "let p\u{430}ss = 1;",
        expect![[r#"
        1: "let pass = 1;"
        line 1 has U+0061 (`a`) where oldString has U+0430 (Cyrillic `а`)
        copy the text exactly: line 1 has U+0061 (`a`) where oldString has U+0430 (Cyrillic `а`)
    "#]],
    );
    check(
        "a\rb\n",
        "ab",
        expect![[r#"
            1: "a\rb"
            line 1 has an extra U+000D (carriage return)
            copy the text exactly: line 1 has an extra U+000D (carriage return)
        "#]],
    );
    check(
        "x — y\n",
        "x -- y",
        expect![[r#"
        1: "x — y"
        line 1 has U+2014 (em dash) where oldString has U+002D (`-`) U+002D (`-`)
        copy the text exactly, or set unicodeFallback: line 1 has U+2014 (em dash) where oldString has U+002D (`-`) U+002D (`-`)
    "#]],
    );
    check(
        "foo\u{61C}bar()\n",
        "foobar()",
        expect![[r#"
        1: "foo\u{61c}bar()"
        line 1 has an extra U+061C (invisible)
        copy the text exactly: line 1 has an extra U+061C (invisible)
    "#]],
    );
    // Marks that both have around it are no difference.
    check(
        "say(\u{200B}\u{200B}“hi”\u{200C});\n",
        "\u{200B}\"hi\"\u{200C}",
        expect![[r#"
            1: "say(\u{200b}\u{200b}“hi”\u{200c});"
            line 1 has U+201C (left double quote) where oldString has U+0022 (`"`), has U+201D (right double quote) where oldString has U+0022 (`"`)
            copy the text exactly, or set unicodeFallback: line 1 has U+201C (left double quote) where oldString has U+0022 (`"`), has U+201D (right double quote) where oldString has U+0022 (`"`)
        "#]],
    );
    // Signs that everybody can see are none, either.
    check(
        "é\nx - y\n",
        "x -- y",
        expect![[r#"
        2: "x - y"
        line 2 is most like it (85 %): line 2 has `x - y` where oldString has `x -- y`
        re-read the file there and copy the text exactly: line 2 is most like it (85 %): line 2 has `x - y` where oldString has `x -- y`
    "#]],
    );
    check(
        "foobar()\n",
        "\u{FEFF}foobar()",
        expect![[r#"
            1: "foobar()"
            line 1 lacks U+FEFF (byte order mark)
            copy the text exactly: line 1 lacks U+FEFF (byte order mark)
        "#]],
    );
}

#[test]
fn literal_escapes_and_entities() {
    check(
        "if a {\n\tb();\n}\n",
        r"if a {\n\tb();",
        expect![[r#"
        1: "if a {\n\tb();"
        line 1 has `if a {↵→b();` where oldString has `if a {\n\tb();` (escapes or entities)
        copy the text exactly: line 1 has `if a {↵→b();` where oldString has `if a {\n\tb();` (escapes or entities)
    "#]],
    );
    check(
        "a < b && c\n",
        "a &lt; b &amp;&amp; c",
        expect![[r#"
        1: "a < b && c"
        line 1 has `a < b && c` where oldString has `a &lt; b &amp;&amp; c` (escapes or entities)
        copy the text exactly: line 1 has `a < b && c` where oldString has `a &lt; b &amp;&amp; c` (escapes or entities)
    "#]],
    );
    check(
        r#"say("a\\n");"#,
        r#"say("a\n");"#,
        expect![[r#"
        1: "say(\"a\\\\n\");"
        line 1 has `say("a\\n");` where oldString has `say("a\n");` (escapes or entities)
        copy the text exactly: line 1 has `say("a\\n");` where oldString has `say("a\n");` (escapes or entities)
    "#]],
    );
}

#[test]
fn pasted_line_numbers() {
    check(
        "a\nif b {\n    c();\n}\n",
        "2: if b {\n3:     c();",
        expect![[r#"
            2: "if b {\n    c();"
            line 2 has the text without the line numbers that oldString has
            leave the line numbers out of oldString: line 2 has the text without the line numbers that oldString has
        "#]],
    );
    check(
        "a\nif b {\n    c();\n}\n",
        " 2→if b {\n 3→    c();",
        expect![[r#"
            2: "if b {\n    c();"
            line 2 has the text without the line numbers that oldString has
            leave the line numbers out of oldString: line 2 has the text without the line numbers that oldString has
        "#]],
    );
    check(
        "a\nif b {\n    c();\n}\n",
        "   3|    c();",
        expect![[r#"
            3: "    c();"
            line 3 has the text without the line numbers that oldString has
            leave the line numbers out of oldString: line 3 has the text without the line numbers that oldString has
        "#]],
    );
}

#[test]
fn upper_and_lower_case() {
    check(
        "let maxBytes = 1;\n",
        "let maxbytes = 1;",
        expect![[r#"
        1: "let maxBytes = 1;"
        line 1 has `let maxBytes = 1;` where oldString has `let maxbytes = 1;` (upper and lower case)
        copy the text exactly: line 1 has `let maxBytes = 1;` where oldString has `let maxbytes = 1;` (upper and lower case)
    "#]],
    );
}

#[test]
fn trailing_blanks() {
    check(
        "a();  \nb();\n",
        "a();\nb();",
        expect![[r#"
        1: "a();  \nb();"
        line 1 has `a();··↵b();` where oldString has `a();↵b();` (blanks at the end of a line; · blank, ↵ line break)
        copy the text exactly: line 1 has `a();··↵b();` where oldString has `a();↵b();` (blanks at the end of a line; · blank, ↵ line break)
    "#]],
    );
    check(
        "a();\nb();\n",
        "a();\t",
        expect![[r#"
        1: "a();"
        line 1 has `a();` where oldString has `a();→` (blanks at the end of a line; → tab)
        copy the text exactly: line 1 has `a();` where oldString has `a();→` (blanks at the end of a line; → tab)
    "#]],
    );
}

#[test]
fn another_indentation() {
    check(
        "class A:\n    def f(self):\n        pass\n",
        "def f(self):\n    pass",
        expect![[r#"
            3: "        pass"
            line 3 has `········pass` where oldString has `····pass` (another indentation; · blank)
            copy the text exactly: line 3 has `········pass` where oldString has `····pass` (another indentation; · blank)
        "#]],
    );
}

#[test]
fn the_most_similar_lines() {
    check(
        "fn a() {}\n\nfn total(items: &[Item]) -> u32 {\n    items.iter().map(|it| it.price).sum()\n}\n",
        "fn total(items: &[Item]) -> u64 {\n    items.iter().map(|i| i.price).sum()\n}",
        expect![[r#"
            3: "fn total(items: &[Item]) -> u32 {\n    items.iter().map(|it| it.price).sum()\n}"
            lines 3-5 are most like it (93 %): line 3 has `…[Item]) -> u32 {` where oldString has `…[Item]) -> u64 {`
            re-read the file there and copy the text exactly: lines 3-5 are most like it (93 %): line 3 has `…[Item]) -> u32 {` where oldString has `…[Item]) -> u64 {`
        "#]],
    );
    check(
        "a();\nlet total = price;\nreturn total;\n",
        "let total = price;\nreturn totals;",
        expect![[r#"
            2: "let total = price;\nreturn total;"
            lines 2-3 are most like it (98 %): line 3 has `return total;` where oldString has `return totals;`
            re-read the file there and copy the text exactly: lines 2-3 are most like it (98 %): line 3 has `return total;` where oldString has `return totals;`
        "#]],
    );
}

#[test]
fn lines_that_moved() {
    check(
        "use b::B;\nuse c::C;\nuse a::A;\n\nfn main() {}\n",
        "use a::A;\nuse b::B;\nuse c::C;",
        expect![[r#"
            1: "use b::B;\nuse c::C;\nuse a::A;"
            lines 1-3 are most like it (75 %); its lines are all there, but apart or in another order (3, 1, 2)
            re-read the file there and copy the text exactly: lines 1-3 are most like it (75 %); its lines are all there, but apart or in another order (3, 1, 2)
        "#]],
    );
}

#[test]
fn nothing_similar() {
    check(
        "alpha\nbeta\n",
        "struct Widget { size: u32 }",
        expect![[r#"
            none
            nothing there is like it: re-read the file and copy the text exactly, blanks and line breaks included
        "#]],
    );
    check(
        "",
        "a",
        expect![[r#"
        none
        nothing there is like it: re-read the file and copy the text exactly, blanks and line breaks included
    "#]],
    );
}

#[test]
fn a_file_that_was_not_read_is_not_quoted() {
    for (_, text, old) in EXAMPLES {
        let found = miss(&Text::flat(*text), old, false);
        if let Some(nearest) = found.nearest {
            assert_eq!(nearest.text, "");
            assert!(!found.remedy.contains(['`', '+']), "{}", found.remedy);
        }
    }
}

/// A kind, a file, and what was asked for.
const EXAMPLES: &[(&str, &str, &str)] = &[
    (
        "other blanks, tabs or line breaks",
        "if ok {\n\tgo();\n}\n",
        "if ok {\n    go();",
    ),
    (
        "look-alike or invisible characters",
        "say(“hi”);\n",
        "say(\"hi\");",
    ),
    ("", "foo\u{200B}bar();\n", "foobar();"),
    (
        "literal `\\n`, `\\t`, `\\\"` or entities",
        "a();\nb();\n",
        "a();\\nb();",
    ),
    ("", "if a < b {\n", "if a &lt; b {"),
    ("pasted line numbers", "a();\nb();\n", "2: b();"),
    (
        "upper and lower case",
        "let maxBytes = 1;\n",
        "let maxbytes = 1;",
    ),
    (
        "blanks at the end of a line",
        "a();  \nb();\n",
        "a();\nb();",
    ),
    (
        "another indentation",
        "  if a:\n      b()\n",
        "  if a:\n    b()",
    ),
    (
        "partly changed",
        "fn area(w: u32, h: u32) -> u32 {\n",
        "fn area(w: u32, h: u32) -> u64 {",
    ),
    ("moved", "use b::B;\nuse a::A;\n", "use a::A;\nuse b::B;"),
    ("nothing similar", "alpha\n", "struct Widget"),
];

#[test]
fn the_table_in_the_readme_is_true() {
    const HEAD: &str = "| kind | the file has | `oldString` | the remedy |\n|---|---|---|---|\n";
    let readme = include_str!("../../../README.md");
    let (before, rest) = readme.split_once(HEAD).expect("the README has the table");
    let rows = rest
        .split_inclusive('\n')
        .take_while(|it| it.starts_with('|'));
    let behind = &rest[rows.map(str::len).sum()..];
    let cell = |text: &str| text.replace('|', "\\|");
    let rows = EXAMPLES.iter().map(|(kind, text, old)| {
        let remedy = miss(&Text::flat(*text), old, true).remedy;
        let code = |text: &str| cell(&format!("{text:?}"));
        let (text, old, remedy) = (code(text), code(old), cell(&remedy));
        format!("| {kind} | `{text}` | `{old}` | {remedy} |\n")
    });
    let expected = format!("{before}{HEAD}{}{behind}", rows.collect::<String>());
    expect_file!["../../../README.md"].assert_eq(&expected);
}

#[test]
fn what_is_looked_at_of_a_large_text_ends_with_a_whole_character() {
    let text = "é".repeat(MOST_BYTES / 2 + 1);
    for start in ["", "x"] {
        for text in both(&format!("{start}{text}")) {
            let whole = MOST_BYTES - start.len();
            assert_eq!(beginning(&text).len(), whole);
        }
    }
}

#[test]
fn a_large_miss_takes_little_time_and_space() {
    let text = lines(20_000, |it| format!("    let value_{it} = compute({it});"));
    for old in [
        "aaaa".repeat(50_000),
        lines(5_000, |it| format!("  let valu_{it} = {it}")),
    ] {
        let found = miss(&Text::flat(text.as_str()), &old, true);
        assert_bounded(&found);
    }
    let blanks = " ".repeat(1 << 20);
    assert_bounded(&miss(&Text::flat(format!("a{blanks}b")), "a b", true));
    assert_bounded(&miss(
        &Text::flat("a ".repeat(1 << 19)),
        &"a".repeat(1 << 16),
        true,
    ));
}

#[track_caller]
fn assert_bounded(found: &Miss) {
    assert!(found.remedy.chars().count() < 400, "{}", found.remedy);
    if let Some(nearest) = &found.nearest {
        assert!(nearest.text.chars().count() <= TEXT_CHARS + 2);
        assert!(nearest.text.split('\n').count() <= TEXT_LINES);
    }
}

proptest! {
    #[test]
    fn a_miss_is_always_explained_within_bounds(
        text in r#"([aAbВ“"’'—\-…{}() \t\n\r:|0-9\\&;<\u{200B}\u{FEFF}é]|\r\n|foo|&lt;|\\n|    ){0,60}"#,
        old in r#"([aAbВ“"’'—\-.{}() \t\n\r:|0-9\\&;<\u{200B}\u{FEFF}é]|foo|&lt;|\\n|    |1: |2→){1,30}"#,
    ) {
        let old = crate::text::eol::fold(&old);
        let view = naive_view(&text);
        prop_assume!(!view.contains(&*old));
        for text in both(&text) {
            for was_read in [true, false] {
                let found = miss(&text, &old, was_read);
                assert_bounded(&found);
                if let Some(nearest) = found.nearest {
                    prop_assert!(nearest.line >= 1 && nearest.line <= view.split('\n').count());
                    let shown = nearest.text.trim_matches('…');
                    prop_assert!(view.contains(shown));
                }
            }
        }
    }

    #[test]
    fn what_differs_only_in_one_way_is_found(
        words in proptest::collection::vec("[a-z]{3,6}\\(\\);", 2..6),
        way in 0..5_usize,
    ) {
        let text: String = words.iter().map(|it| format!("    {it}\n")).collect();
        let old = match way {
            0 => text.replace("    ", "\t"),
            1 => text.replace('(', "\u{200B}("),
            2 => text.replace('\n', "\\n"),
            3 => text.to_uppercase(),
            _ => text.replace("    ", "  "),
        };
        let nearest = miss(&Text::flat(text), &old, true).nearest;
        // Half of the first line's indentation is there, too.
        let line = if way == 4 { 2 } else { 1 };
        prop_assert_eq!(nearest.map(|it| it.line), Some(line));
    }
}

#[test]
fn a_reason_that_comes_first_is_told_whatever_stands_first_in_the_file() {
    // Other indentation at many places, blanks at the end of a line, other blanks.
    let indented = "    if a:\n        f( a )\n".repeat(12);
    let text = format!("{indented}if a:  \n  f( a )\nif  a:\n  f( a )\n");
    let place = |text: &str| miss(&Text::flat(text), "if a:\n  f( a )", true).remedy;
    assert_starts(&place(&text), "copy the text exactly: line 27 has `if··a:");
    let text = text.replace("if  a:", "if b:");
    assert_starts(
        &place(&text),
        "copy the text exactly: line 25 has `if·a:··↵",
    );
    let text = text.replace("if a:  \n", "IF a:\n");
    assert_starts(&place(&text), "copy the text exactly: line 25 has `IF a:");
    let text = text.replace("IF a:", "IF b:");
    assert_starts(
        &place(&text),
        "copy the text exactly: line 2 has `········f(",
    );
}

#[track_caller]
fn assert_starts(text: &str, start: &str) {
    assert!(text.starts_with(start), "{text}");
}
