//! The table of right answers for the Unicode fallback (`research/grok.md` part 6), by its ids, each through a real server
//! and for a closed file and an open document alike. Where the design says otherwise than the table, it is as the design
//! says.

use std::fs;

use abreast::replay::client::CallError;
use serde_json::{Value, json};

use crate::support::{World, refused};

/// An edit with the fallback, of one file.
struct Edit<'a> {
    text: &'a str,
    old: &'a str,
    new: &'a str,
    replace_all: bool,
    unicode_fallback: bool,
}

fn edit<'a>(text: &'a str, old: &'a str, new: &'a str) -> Edit<'a> {
    Edit {
        text,
        old,
        new,
        replace_all: false,
        unicode_fallback: true,
    }
}

impl Edit<'_> {
    fn all(mut self) -> Self {
        self.replace_all = true;
        self
    }

    /// Without the fallback.
    fn literally(mut self) -> Self {
        self.unicode_fallback = false;
        self
    }

    /// Does it with a closed file and with an open document; the latter not for a file with a byte order mark, which
    /// editors take away.
    fn run(&self) -> Vec<(World, Result<Value, CallError>)> {
        let kinds = [false, true].into_iter();
        let kinds = kinds.filter(|&is_open| !(is_open && self.text.starts_with('\u{FEFF}')));
        let runs = kinds.map(|is_open| {
            let world = World::new(&[("a.txt", self.text)]);
            if is_open {
                world.editor.open("a.txt").unwrap();
            }
            let session = world.session_that_read("s", &["a.txt"]);
            let params = json!({
                "path": "a.txt", "oldString": self.old, "newString": self.new,
                "replaceAll": self.replace_all, "unicodeFallback": self.unicode_fallback,
            });
            let answer = session.call("abreast/edit", params);
            (world, answer)
        });
        runs.collect()
    }

    /// Checks the text afterwards, and returns what is told of the file.
    #[track_caller]
    fn makes(&self, expected: &str) -> Value {
        let mut told = Value::Null;
        for (world, answer) in self.run() {
            let result =
                answer.unwrap_or_else(|err| panic!("{:?} in {:?}: {err}", self.old, self.text));
            told = result["files"][0].clone();
            match told["via"].as_str() {
                Some("editor") => world.check_buffer("a.txt", expected),
                _ => world.check_disk("a.txt", expected),
            }
        }
        told
    }

    /// Like [`makes`](Self::makes), and only by the fallback.
    #[track_caller]
    fn makes_by_fallback(&self, expected: &str) -> Value {
        let told = self.makes(expected);
        assert_eq!(told["unicodeNormalized"], true, "{told}");
        let literally = Edit {
            unicode_fallback: false,
            ..*self
        };
        literally.is_refused("FS_EDIT_NOT_FOUND");
        told
    }

    /// Checks that nothing changes, and returns the refusal.
    #[track_caller]
    fn is_refused(&self, code: &str) -> CallError {
        let mut told = None;
        for (world, answer) in self.run() {
            told = Some(refused(answer, code));
            world.check_disk("a.txt", self.text);
            if world.editor.text("a.txt").is_some() {
                world.check_buffer("a.txt", self.text);
            }
        }
        told.unwrap()
    }

    /// Checks that there is no hit, and that the refusal says why.
    #[track_caller]
    fn is_not_found(&self, why: &str) {
        let error = self.is_refused("FS_EDIT_NOT_FOUND");
        assert!(error.message().contains(why), "{why}: {error}");
    }

    /// Checks that there are several places, by line and column.
    #[track_caller]
    fn is_ambiguous(&self, places: &[(usize, usize)]) -> CallError {
        let error = self.is_refused("FS_AMBIGUOUS_EDIT");
        let told: Vec<_> = error.data()["matches"].as_array().unwrap().iter().collect();
        let told: Vec<_> = told
            .iter()
            .map(|it| (it["line"].clone(), it["column"].clone()))
            .collect();
        let expected: Vec<_> = places.iter().map(|it| (json!(it.0), json!(it.1))).collect();
        assert_eq!(told, expected, "{error}");
        error
    }
}

#[test]
fn grok_e01_half_an_ellipsis_is_never_edited() {
    for old in ["..", "."] {
        edit("…\n", old, "x").is_not_found("U+2026 (ellipsis)");
        edit("…\n", old, "x").all().is_not_found("");
    }
}

#[test]
fn grok_e02_an_ellipsis_is_found_with_the_dot_behind_it() {
    edit("a….b", "....", "X").makes_by_fallback("aXb");
}

#[test]
fn grok_e03_a_dot_before_an_ellipsis_is_no_part_of_it() {
    edit("a.…b", "...", "X").makes_by_fallback("a.Xb");
}

#[test]
fn grok_e04_a_hyphen_and_a_dash_are_two_places_and_more() {
    edit("-— and —", "--", "x").is_ambiguous(&[(1, 1), (1, 2), (1, 8)]);
}

#[test]
fn grok_e05_quotes_that_overlap_are_ambiguous_even_for_all() {
    edit("“““", "\"\"", "x").is_ambiguous(&[(1, 1), (1, 2)]);
    let error = edit("“““", "\"\"", "x")
        .all()
        .is_ambiguous(&[(1, 1), (1, 2)]);
    assert!(
        !error.data()["remedy"]
            .as_str()
            .unwrap()
            .contains("replaceAll"),
        "{error}"
    );
}

#[test]
fn grok_e06_exact_places_that_overlap_are_ambiguous() {
    edit("aaa", "aa", "x").is_ambiguous(&[(1, 1), (1, 2)]);
    edit("aaa", "aa", "x").all().is_ambiguous(&[(1, 1), (1, 2)]);
}

#[test]
fn grok_e07_an_accent_is_found_however_it_is_composed_and_stays_so() {
    edit("cafe\u{301} e\u{301}", "café", "tea").makes_by_fallback("tea e\u{301}");
    edit("cafe\u{301} 1", "café 1", "café 2").makes_by_fallback("cafe\u{301} 2");
    edit("café 1", "cafe\u{301} 1", "cafe\u{301} 2").makes_by_fallback("café 2");
}

#[test]
fn grok_e08_an_exact_hit_is_literal_even_inside_a_character_and_says_so() {
    let told = edit("cafe\u{301}", "cafe", "tea").makes("tea\u{301}");
    let note = told["notes"][0].as_str().unwrap_or_default();
    assert!(note.contains("inside a character"), "{told}");
    let told = edit("cafe x", "cafe", "tea").makes("tea x");
    assert_eq!(told["notes"].as_array().map_or(0, Vec::len), 0, "{told}");
}

#[test]
fn grok_e09_signs_that_are_letters_are_found_as_these() {
    for (sign, letter) in [
        ("\u{212B}", "\u{C5}"),
        ("\u{2126}", "\u{3A9}"),
        ("\u{212A}", "K"),
        ("\u{37E}", ";"),
    ] {
        edit(&format!("a{sign}b"), letter, "x").makes_by_fallback("axb");
    }
}

#[test]
fn grok_e10_jamo_are_found_as_the_syllable_that_they_are_and_no_other() {
    edit("\u{1100}\u{1161}\u{11A8}", "\u{AC01}", "x").makes_by_fallback("x");
    edit("\u{1100}\u{1161}\u{11A8}", "\u{AC00}", "x").is_not_found("");
}

#[test]
fn grok_e11_each_space_is_found_as_one() {
    let widths = ('\u{2000}'..='\u{200A}').chain(['\u{A0}', '\u{202F}', '\u{205F}', '\u{3000}']);
    let text: String = widths.map(|it| format!("a{it}b\n")).collect();
    let n_lines = text.lines().count();
    let told = edit(&text, "a b", "c")
        .all()
        .makes_by_fallback(&"c\n".repeat(n_lines));
    assert_eq!(told["replacements"], 15);
    edit("a\u{A0}\u{A0}b", "a b", "c").is_not_found("");
}

#[test]
fn grok_e12_invisible_characters_are_never_left_out_but_named() {
    for c in [
        '\u{200B}', '\u{AD}', '\u{2060}', '\u{FEFF}', '\u{200D}', '\u{FE0F}',
    ] {
        let text = format!("one\nfoo{c}bar()\n");
        let why = format!("line 2 has an extra U+{:04X}", u32::from(c));
        edit(&text, "foobar()", "x").is_not_found(&why);
    }
}

#[test]
fn grok_e13_the_byte_order_mark_is_not_shown_and_stays() {
    edit("\u{FEFF}one\ntwo\n", "one", "1").makes("\u{FEFF}1\ntwo\n");
    let world = World::new(&[("a.txt", "\u{FEFF}one\n")]);
    let read = world.session("s").read("a.txt").unwrap();
    assert_eq!(
        (&read["text"], &read["bom"]),
        (&"one\n".into(), &true.into())
    );
}

#[test]
fn grok_e14_a_byte_order_mark_that_was_copied_along_is_that_of_the_file() {
    let with_bom = edit("\u{FEFF}one\n", "\u{FEFF}one", "\u{FEFF}1");
    with_bom.makes("\u{FEFF}1\n");
    edit("\u{FEFF}one\n", "\u{FEFF}one", "1")
        .literally()
        .makes("\u{FEFF}1\n");
    edit("\u{FEFF}“a”\n", "\u{FEFF}\"a\"", "\"b\"").makes_by_fallback("\u{FEFF}“b”\n");
    edit("\u{FEFF}one\n", "\u{FEFF}one", "one").is_refused("FS_NO_CHANGE");
    edit("one\n", "\u{FEFF}one", "1").is_not_found("U+FEFF (byte order mark)");
}

#[test]
fn grok_e15_compatibility_is_never_folded() {
    for (text, old) in [("ＡＢ", "AB"), ("ﬁ", "fi"), ("x²", "x2"), ("½", "1/2")] {
        edit(&format!("{text}\n"), old, "q").is_not_found("U+");
    }
}

#[test]
fn grok_e16_minus_and_times_mean_something_else() {
    edit("a \u{2212} b\n", "a - b", "q").is_not_found("U+2212 (minus)");
    edit("2 × 3\n", "2 x 3", "q").is_not_found("U+00D7");
}

#[test]
fn grok_e17_a_letter_of_another_script_is_another_letter() {
    edit("let p\u{430}ss = 1;\n", "let pass = 1;", "q").is_not_found("Cyrillic");
}

#[test]
fn grok_e18_hyphens_and_low_quotes_are_typography() {
    for (text, old) in [
        ("a\u{2010}b", "a-b"),
        ("a\u{2011}b", "a-b"),
        ("\u{201A}a\u{201B}", "'a'"),
        ("\u{201E}a\u{201F}", "\"a\""),
    ] {
        edit(text, old, "q").makes_by_fallback("q");
    }
}

#[test]
fn grok_e19_what_only_looks_like_quotes_is_none() {
    for (text, old) in [
        ("«a»", "\"a\""),
        ("5\u{2032}", "5'"),
        ("5\u{2033}", "5\""),
        ("a\u{5F4}b", "a\"b"),
        ("`a`", "'a'"),
        ("\u{B4}a\u{B4}", "'a'"),
    ] {
        edit(text, old, "q").is_not_found("");
    }
}

/// Where look-alikes are told to be.
fn look_alikes(told: &Value) -> Vec<(u64, u64)> {
    let places = told["lookAlikes"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let number = |it: &Value| it.as_u64().unwrap();
    places
        .iter()
        .map(|it| (number(&it["line"]), number(&it["column"])))
        .collect()
}

#[test]
fn grok_e20_the_exact_text_wins_and_its_look_alikes_are_told() {
    let told = edit("\"a\" “a”", "\"a\"", "x").makes("x “a”");
    assert_eq!(look_alikes(&told), [(1, 5)]);
    assert!(told["unicodeNormalized"].is_null(), "{told}");
    let told = edit("\"a\" “a”", "\"a\"", "x").literally().makes("x “a”");
    assert!(look_alikes(&told).is_empty());
}

#[test]
fn grok_e21_all_means_all_exact_ones_and_a_look_alike_that_is_left_is_told() {
    let told = edit("\"a\" “a”", "\"a\"", "x").all().makes("x “a”");
    assert_eq!(look_alikes(&told), [(1, 5)]);
    let many = format!("{}“a”\n", "\"a\"\n".repeat(50));
    let told = edit(&many, "\"a\"", "x")
        .all()
        .makes(&format!("{}“a”\n", "x\n".repeat(50)));
    assert_eq!(
        (told["replacements"].as_u64(), look_alikes(&told)),
        (Some(50), vec![(51, 1)])
    );
}

#[test]
fn grok_e22_the_exact_hyphen_wins_over_a_dash() {
    let told = edit("x - y / x — y", "x - y", "z").makes("z / x — y");
    assert_eq!(look_alikes(&told), [(1, 9)]);
}

#[test]
fn grok_e23_different_dashes_are_ambiguous() {
    edit("x – y / x — y", "x - y", "z").is_ambiguous(&[(1, 1), (1, 9)]);
}

#[test]
fn grok_e24_typography_that_was_asked_for_finds_plain_text() {
    edit("say \"hi\"", "say “hi”", "say “ho”").makes_by_fallback("say \"ho\"");
    edit("say \"hi\"", "say “hi”", "say ‘hi’").makes_by_fallback("say ‘hi’");
}

#[test]
fn grok_e25_a_dash_that_is_changed_in_part_is_written_as_a_whole() {
    edit("a—b", "a--b", "a-+b").makes_by_fallback("a-+b");
}

#[test]
fn grok_e26_what_the_edit_does_not_change_keeps_its_characters() {
    edit("say “hello” — ok", "\"hello\" -- ok", "\"hello\" -- fine")
        .makes_by_fallback("say “hello” — fine");
}

#[test]
fn grok_e27_quotes_around_a_change_stay() {
    edit("“a”", "\"a\"", "\"b\"").makes_by_fallback("“b”");
}

#[test]
fn grok_e28_quotes_that_are_the_change_are_written() {
    edit("“a”", "\"a\"", "'a'").makes_by_fallback("'a'");
}

#[test]
fn grok_e29_typography_can_be_replaced_by_plain_text() {
    let told = edit("“a”", "“a”", "\"a\"").makes("\"a\"");
    assert!(told["unicodeNormalized"].is_null(), "{told}");
}

#[test]
fn grok_e30_other_characters_are_a_change_only_where_they_are_exact() {
    edit("a—b", "—", "--").makes("a--b");
    edit("a–b", "—", "–").is_refused("FS_NO_CHANGE");
    edit("a—b", "--", "—").is_refused("FS_NO_CHANGE");
}

#[test]
fn grok_e31_lines_keep_their_ends_and_new_ones_take_those_around() {
    edit("a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb").makes("a\r\nx\r\nb\r\nc\r\n");
    edit("a\nb\r\nc\r\n", "b", "x\ny").makes("a\nx\ny\r\nc\r\n");
    edit("a\nb\r\nc\r\n", "b\nc", "x\ny\nz").makes("a\nx\r\ny\r\nz\r\n");
}

#[test]
fn grok_e32_one_line_of_a_mixed_file_changes_alone() {
    edit("a\r\nb\nc\n", "b", "B").makes("a\r\nB\nc\n");
}

#[test]
fn grok_e33_crlf_that_is_asked_for_finds_and_writes_lf() {
    edit("a\nb\nc\n", "a\r\nb", "x\r\ny").makes("x\ny\nc\n");
}

#[test]
fn grok_e34_a_pair_is_never_split() {
    edit("a\r\nb\r\n", "a", "x").makes("x\r\nb\r\n");
    edit("a\r\nb\r\n", "\nb", "\nx").makes("a\r\nx\r\n");
    edit("a\r\nb\r\n", "\nb", "").makes("a\r\n");
    edit("“a”\r\nb\r\n", "\"a\"\nb", "\"a\" b").makes_by_fallback("“a” b\r\n");
}

#[test]
fn grok_e35_a_lone_return_and_other_separators_are_characters() {
    for sign in ["\r", "\u{2028}", "\u{2029}", "\u{85}", "\u{B}", "\u{C}"] {
        edit(&format!("a{sign}b"), "a\nb", "x").is_not_found("");
    }
    let world = World::new(&[("a.txt", "a\rb\n")]);
    assert_eq!(world.session("s").read("a.txt").unwrap()["totalLines"], 1);
}

#[test]
fn grok_e36_quotes_are_found_across_lines() {
    edit("“x\r\ny”\r\n", "\"x\ny\"", "\"x\nz\"").makes_by_fallback("“x\r\nz”\r\n");
}

#[test]
fn grok_e37_indentation_of_no_break_spaces_stays() {
    edit("\u{A0}\u{A0}go()", "  go()", "  stop()").makes_by_fallback("\u{A0}\u{A0}stop()");
}

#[test]
fn grok_e38_tabs_and_trailing_blanks_are_told_and_never_guessed() {
    edit("if a:\n\tgo()\n", "if a:\n    go()", "x").is_not_found("→ tab");
    edit("a();  \nb();\n", "a();\nb();", "x").is_not_found("blanks at the end of a line");
}

#[test]
fn grok_e39_an_emoji_is_never_split() {
    for (text, old) in [
        ("👩\u{200D}👩 —", "👩 --"),
        ("❤\u{FE0F} —", "❤ --"),
        ("👍\u{1F3FD} —", "👍 --"),
    ] {
        edit(text, old, "x").is_not_found("");
        let sign = old.trim_end_matches([' ', '-']);
        // Exactly it is there; the result says what it is part of.
        if text.starts_with(&format!("{sign}\u{200D}")) {
            continue;
        }
        let told = edit(text, sign, "x").makes(&text.replacen(sign, "x", 1));
        assert!(told["notes"][0].as_str().is_some(), "{told}");
    }
}

#[test]
fn grok_e40_what_is_no_text_is_refused_and_left() {
    for bytes in [&b"caf\xE9 x\n"[..], b"a\0b x\n", b"\xFF\xFEx\0\n\0"] {
        let world = World::new(&[]);
        let path = world.root().join("a.txt");
        fs::write(&path, bytes).unwrap();
        let session = world.session("s");
        refused(session.read("a.txt"), "FS_NOT_TEXT");
        refused(session.edit("a.txt", "x", "y"), "FS_NOT_TEXT");
        assert_eq!(fs::read(path).unwrap(), bytes);
    }
}

#[test]
fn grok_e41_nothing_is_no_text_to_look_for() {
    edit("a\n", "", "x").is_refused("-32602");
}

#[test]
fn grok_e42_the_end_of_a_file_needs_no_line_break() {
    edit("abc", "bc", "X").makes("aX");
    edit("a\nbc", "\nbc", "\nX\n").makes("a\nX\n");
    edit("a…", "a...", "b...").makes_by_fallback("b…");
    edit("abc", "abcd", "X").is_not_found("");
}

#[test]
fn grok_e43_changes_of_one_call_apply_in_sequence() {
    let world = World::new(&[("a.txt", "a…b\n")]);
    let session = world.session_that_read("s", &["a.txt"]);
    let change = |old: &str, new: &str| json!({ "kind": "edit", "path": "a.txt", "oldString": old, "newString": new, "unicodeFallback": true });
    let error = refused(
        session.apply(json!([change("a...", "x"), change("...b", "y")])),
        "FS_EDIT_NOT_FOUND",
    );
    assert_eq!(error.data()["change"], 1, "{error}");
    world.check_disk("a.txt", "a…b\n");
    session
        .apply(json!([change("...", "--"), change("a—b", "c")]))
        .unwrap();
    world.check_disk("a.txt", "c\n");
}

#[test]
fn grok_e44_positions_are_of_the_encoding_that_was_agreed_on() {
    let world = World::new(&[("a.txt", "😀e\u{301} “x” 😀\n")]);
    world.editor.open("a.txt").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    let params = json!({ "path": "a.txt", "oldString": "\"x\"", "newString": "\"yz\"", "unicodeFallback": true });
    let result = session.call("abreast/edit", params).unwrap();
    world.check_buffer("a.txt", "😀e\u{301} “yz” 😀\n");
    // Two units of the face, one each of the letter, its mark, the blank and the quote.
    let range = |from: u32, to: u32| json!({ "start": { "line": 0, "character": from }, "end": { "line": 0, "character": to } });
    let sent = &world.editor.edits_received()[0]["edit"]["documentChanges"][0]["edits"][0];
    assert_eq!(
        (&sent["range"], &sent["newText"]),
        (&range(6, 7), &"yz".into())
    );
    assert_eq!(result["files"][0]["ranges"], json!([range(6, 8)]));
}

#[test]
fn grok_e45_stale_is_told_before_any_match() {
    for (text, old) in [
        ("new\n", "old"),
        ("old old\n", "old"),
        ("“old”\n", "\"old\""),
    ] {
        let world = World::new(&[("a.txt", "old\n")]);
        let session = world.session_that_read("s", &["a.txt"]);
        world.write_disk("a.txt", text);
        let params =
            json!({ "path": "a.txt", "oldString": old, "newString": "x", "unicodeFallback": true });
        refused(session.call("abreast/edit", params), "FS_STALE_VERSION");
        world.check_disk("a.txt", text);
    }
}

#[test]
fn grok_e46_e47_large_and_repetitive_texts_are_searched_too() {
    let ascii = "let value = compute(value);\n".repeat(10_000);
    edit(&ascii, "let walue", "x").is_refused("FS_EDIT_NOT_FOUND");
    let dashes = "-".repeat(100_000);
    let error =
        edit(&format!("{dashes}—\n"), &"—".repeat(1_000), "x").is_refused("FS_AMBIGUOUS_EDIT");
    assert!(
        error.message().contains("at 1000 or more places"),
        "{error}"
    );
    edit(&dashes, &format!("{}b", "-".repeat(50_000)), "x").is_refused("FS_EDIT_NOT_FOUND");
}

#[test]
fn grok_e48_marks_of_direction_are_named() {
    for c in ('\u{202A}'..='\u{202E}').chain('\u{2066}'..='\u{2069}') {
        let why = format!("U+{:04X} (text direction mark)", u32::from(c));
        edit(&format!("if a{c} b\n"), "if a b", "x").is_not_found(&why);
    }
}
