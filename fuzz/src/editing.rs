//! One edit, from what is asked for to the text edits that the editor gets.

use std::{ops::Range, path::PathBuf};

use abreast::{
    path::FileKey,
    plan::{Content, FileInput, FilePlan, Place, PlanJob, Step},
    protocol::{Change, Limits, PolicyName, Rules},
    text::{
        Text,
        buffer::{Buffer, Encoding},
    },
};

use super::{
    positions,
    source::Source,
    twin::{self, Edit},
};

/// An edit changes what it means and nothing else, or is refused as it must be.
pub fn editing(data: &[u8]) {
    let mut source = Source::new(data);
    let raw = source.document();
    let edit = Edit {
        old: as_sent(source.needle(&raw)),
        new: as_sent(source.text(4)),
        replace_all: source.flip(),
        unicode_fallback: source.flip(),
    };
    let with_bom = raw.starts_with('\u{FEFF}') && source.below(8) == 0;
    let encoding = [Encoding::Utf8, Encoding::Utf16][source.below(2)];
    let buffer = Buffer::new(&raw, source.flip());
    let is_open = source.flip();
    let told = format!(
        "{:?} -> {:?} in {raw:?}, all: {}, fallback: {}",
        edit.old, edit.new, edit.replace_all, edit.unicode_fallback
    );
    let planned = job(&raw, &edit, with_bom, is_open.then_some(&buffer), encoding).run();
    match (planned, twin::edit(&raw, &edit)) {
        (Ok(plan), Ok((hits, by_fold))) => {
            let [plan] = &plan.files[..] else {
                panic!("one file is planned: {told}");
            };
            let after = plan.after.as_ref().map(whole).unwrap_or_default();
            assert_eq!(plan.result.replacements, hits.len(), "{told}");
            assert_eq!(plan.result.unicode_normalized, by_fold, "{told}");
            if by_fold {
                check_fold(&raw, &after, &hits, &edit, &told);
            } else {
                check_exact(&raw, &after, &hits, &edit, &told);
            }
            check_bytes(&raw, plan, &after, &hits, &told);
            if is_open {
                check_editor_edits(&raw, plan, &after, &buffer, encoding, &told);
            }
        }
        (Err(err), Err((code, hits))) => {
            assert_eq!(err.code, code, "{told}: {}", err.what);
            let places: Vec<_> = err.matches.iter().map(|it| (it.line, it.column)).collect();
            let expected: Vec<_> = hits.iter().map(|it| line_column(&raw, it.start)).collect();
            let n_told = expected.len().min(20);
            assert_eq!(places, expected[..n_told], "{told}");
        }
        (Ok(_), Err((code, _))) => panic!("should be refused with {code:?}: {told}"),
        (Err(err), Ok(_)) => panic!("should not be refused with {:?}: {told}", err.code),
    }
}

/// A text whose line breaks mean what they say: a CR before an LF would be one with it.
fn as_sent(mut text: String) -> String {
    while text.contains("\r\n") {
        text = text.replace("\r\n", "\n");
    }
    text
}

/// The call; with the byte order mark that the file has, if it was copied along.
fn job(
    raw: &str,
    edit: &Edit,
    with_bom: bool,
    buffer: Option<&Buffer>,
    encoding: Encoding,
) -> PlanJob {
    let text = |text: &str| {
        if with_bom {
            format!("\u{FEFF}{text}")
        } else {
            text.to_string()
        }
    };
    let (old_string, new_string) = (text(&edit.old), text(&edit.new));
    let key = FileKey::Path(PathBuf::from("/a.txt"));
    let (place, text) = match buffer {
        Some(buffer) => (Place::Editor(buffer.clone()), buffer.text()),
        None => (Place::Disk, Text::flat(raw)),
    };
    PlanJob {
        steps: vec![Step {
            change: Change::Edit {
                path: "a.txt".to_string(),
                old_string,
                new_string,
                replace_all: edit.replace_all,
                unicode_fallback: Some(edit.unicode_fallback),
                guard: None,
            },
            file: 0,
            new_file: None,
        }],
        files: vec![FileInput {
            uri: key.uri(),
            key,
            place,
            content: Content::Text(text, None),
            entry: None,
            changed_by: Vec::new(),
            obstacle: None,
            is_open: buffer.is_some(),
        }],
        has_session: true,
        rules: Rules {
            policy: PolicyName::Off,
            ..Rules::default()
        },
        limits: Limits::default(),
        encoding,
        is_apply: false,
    }
}

fn whole(text: &Text) -> String {
    text.raw(0..text.len_bytes())
}

fn seen(raw: &str) -> String {
    twin::view(raw).into_iter().map(|it| it.0).collect()
}

/// The 1-based line and column of a raw byte.
fn line_column(raw: &str, byte: usize) -> (usize, usize) {
    let before = twin::view(raw).into_iter().filter(|it| it.1.end <= byte);
    before.fold((1, 1), |(line, column), (c, _)| {
        if c == '\n' {
            (line + 1, 1)
        } else {
            (line, column + 1)
        }
    })
}

/// The view with the hits replaced.
fn replaced(raw: &str, hits: &[Range<usize>], new: &str) -> String {
    let mut expected = String::new();
    let mut rest = hits.iter().peekable();
    for (c, range) in twin::view(raw) {
        if rest.next_if(|it| it.start == range.start).is_some() {
            expected.push_str(new);
        }
        if !hits.iter().any(|it| it.contains(&range.start)) {
            expected.push(c);
        }
    }
    expected
}

/// The view afterwards is the view with the hits replaced.
fn check_exact(raw: &str, after: &str, hits: &[Range<usize>], edit: &Edit, told: &str) {
    assert_eq!(seen(after), replaced(raw, hits, &edit.new), "{told}");
    assert_eq!(
        after.starts_with('\u{FEFF}'),
        raw.starts_with('\u{FEFF}'),
        "{told}"
    );
}

/// The text afterwards is alike to the text with the hit replaced. Several hits may be of different readings.
fn check_fold(raw: &str, after: &str, hits: &[Range<usize>], edit: &Edit, told: &str) {
    if hits.len() != 1 {
        return;
    }
    // Not of the bytes: a carriage return before the hit and a line feed of the edit are no line break.
    let expected = replaced(raw, hits, &edit.new);
    assert!(twin::is_alike(&seen(after), &expected), "{told}: {after:?}");
}

/// What lies outside of the hits, and is no line feed that a lone carriage return has come to stand beside, is the same
/// to the byte; so is what old and new text have in common at both ends.
fn check_bytes(raw: &str, plan: &FilePlan, after: &str, hits: &[Range<usize>], told: &str) {
    let mut made = String::new();
    let mut at = 0;
    for splice in &plan.splices {
        made += &raw[at..splice.range.start];
        made += &splice.text;
        at = splice.range.end;
        let is_seal = |range: Range<usize>| matches!(&raw[range], "" | "\n" | "\r");
        let (start, end) = (splice.range.start, splice.range.end);
        let is_of_a_hit = hits.iter().any(|hit| {
            let is_near = start + 1 >= hit.start
                && start <= hit.end + 1
                && end >= hit.start
                && end <= hit.end + 1;
            is_near
                && is_seal(start.min(hit.start)..hit.start)
                && is_seal(hit.end..end.max(hit.end))
        }) || spans_hits(raw, hits, start..end);
        assert!(is_of_a_hit, "outside of the hits: {splice:?}: {told}");
    }
    made += &raw[at..];
    assert_eq!(made, after, "{told}");
}

/// Whether a range is made of hits, and of line breaks next to them that became pairs: splices that touch are one.
fn spans_hits(raw: &str, hits: &[Range<usize>], range: Range<usize>) -> bool {
    let is_inside = |at: usize| hits.iter().any(|it| it.contains(&at));
    let is_seal = |at: usize| {
        matches!(raw.as_bytes()[at], b'\r' | b'\n')
            && hits.iter().any(|it| it.end == at || it.start == at + 1)
    };
    !range.is_empty() && range.into_iter().all(|at| is_inside(at) || is_seal(at))
}

/// The text edits, made by line and character, make the planned text; and none says what is there already.
fn check_editor_edits(
    raw: &str,
    plan: &FilePlan,
    after: &str,
    buffer: &Buffer,
    encoding: Encoding,
    told: &str,
) {
    let mut made = raw.to_string();
    for edit in plan.edits.iter().rev() {
        let range =
            buffer.byte_at(edit.range.start, encoding)..buffer.byte_at(edit.range.end, encoding);
        assert_eq!(edit.old_text, raw[range.clone()], "{told}");
        assert_ne!(edit.old_text, edit.new_text, "{told}");
        let is_pair =
            |at: usize, text: &str| text[..at].ends_with('\r') && text[at..].starts_with('\n');
        assert!(
            !is_pair(range.start, raw) && !is_pair(range.end, raw),
            "{told}"
        );
        let in_common = positions::common_chars(&edit.old_text, &edit.new_text);
        assert!(!in_common, "not minimal: {edit:?}: {told}");
        made.replace_range(range, &edit.new_text);
    }
    assert_eq!(made, after, "{told}");
}
