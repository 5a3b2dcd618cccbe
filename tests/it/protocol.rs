//! `src/protocol.md` against the types and the server: a reference that says something else than the code is worth less
//! than none.

use std::collections::{BTreeMap, BTreeSet};

use abreast::{
    error::{Code, FsError, Match, Nearest},
    protocol::{
        ApplyResult, Author, Change, EolKind, ExportedEntry, ExportedLedger, FileResult,
        ForgetResult, Guard, Hunk, LedgerEntry, LedgerResult, LimitMembers, OpenSessionResult,
        Operation, Outcome, Place, Position, Range, ReadResult, Rules, Seen, ServerMembers,
        SessionOptions, SessionRow, SessionsResult, Status, Via,
    },
    text::Text,
    version::Version,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::support::{World, refused};

const REFERENCE: &str = include_str!("../../src/protocol.md");

/// Methods of later issues.
const LATER_METHODS: [&str; 6] = [
    "digest",
    "flush",
    "changes",
    "review",
    "listTools",
    "callTool",
];
/// Codes of later issues.
const LATER_CODES: [&str; 1] = ["FS_PATCH_SYNTAX"];
/// Fields of later issues, by type.
const LATER_FIELDS: [(&str, &[&str]); 4] = [
    ("ReadResult", &["unchanged", "diff"]),
    ("FileResult", &["saved", "formatted"]),
    ("FsErrorData", &["diff", "refreshed"]),
    ("Author", &["label", "callId"]),
];
/// What the sidecar sends to the editor, and the editor to the sidecar: no methods that it serves.
const OF_THE_EDITOR: [&str; 6] = [
    "sync",
    "save",
    "ledgerChanged",
    "reviewChanged",
    "sessionsChanged",
    "documentState",
];

/// The TypeScript blocks of the reference, without their comments.
fn blocks() -> Vec<String> {
    let mut blocks = Vec::new();
    for (idx, part) in REFERENCE.split("```").enumerate() {
        if idx % 2 == 1 {
            let code = part
                .strip_prefix("ts\n")
                .unwrap_or_else(|| panic!("a block of another language: {part}"));
            blocks.push(without_comments(code));
        }
    }
    assert!(blocks.len() >= 6, "{}", blocks.len());
    blocks
}

fn without_comments(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(['/', '"']) {
        kept.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = if rest.starts_with("/*") {
            rest.find("*/").expect("a comment ends") + 2
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(string) = rest.strip_prefix('"') {
            let end = string.find('"').expect("a string ends") + 2;
            kept.push_str(&rest[..end]);
            end
        } else {
            kept.push('/');
            1
        };
        rest = &rest[end..];
    }
    kept + rest
}

/// Splits at separators that are in no bracket and no string.
fn split(code: &str, separators: &[char]) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    let mut in_string = false;
    for char in code.chars() {
        match char {
            '"' => in_string = !in_string,
            '{' | '[' | '(' if !in_string => depth += 1,
            '}' | ']' | ')' if !in_string => depth -= 1,
            _ => {}
        }
        if depth == 0 && !in_string && separators.contains(&char) {
            parts.push(String::new());
        } else {
            parts.last_mut().unwrap().push(char);
        }
    }
    parts
        .into_iter()
        .map(|it| it.trim().to_string())
        .filter(|it| !it.is_empty())
        .collect()
}

/// What is between a brace at the beginning and its partner, and what follows.
fn braced(code: &str) -> (&str, &str) {
    let code = code.trim_start();
    assert!(code.starts_with('{'), "no object: {code:.60}");
    let mut depth = 0;
    for (at, char) in code.char_indices() {
        match char {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&code[1..at], &code[at + 1..]);
        }
    }
    panic!("an object without end: {code:.60}");
}

/// The names of the members of an object type, and whether each is optional.
fn members(object: &str) -> BTreeMap<String, bool> {
    split(object, &[';', ',', '\n'])
        .iter()
        .map(|member| {
            let n_name = member
                .find(|it: char| !it.is_ascii_alphanumeric())
                .unwrap_or(member.len());
            assert!(n_name > 0, "no member: {member:?}");
            (
                member[..n_name].to_string(),
                member[n_name..].starts_with('?'),
            )
        })
        .collect()
}

fn names(members: &BTreeMap<String, bool>) -> BTreeSet<String> {
    members.keys().cloned().collect()
}

/// The members of an `interface`.
fn interface(name: &str) -> BTreeMap<String, bool> {
    let all = blocks().join("\n");
    let head = format!("interface {name} ");
    let at = all.find(&head).unwrap_or_else(|| panic!("no {head}"));
    let rest = &all[at + head.len()..];
    let rest = rest.strip_prefix("extends SessionOptions ").unwrap_or(rest);
    members(braced(rest).0)
}

/// The parameters of a method and what it answers, as written.
fn method(name: &str) -> (BTreeMap<String, bool>, String) {
    let all = blocks().join("\n");
    let head = format!("\"abreast/{name}\"");
    let at = all.find(&head).unwrap_or_else(|| panic!("no {head}"));
    let (params, rest) = braced(&all[at + head.len()..]);
    let answer = rest.trim_start().strip_prefix("->").expect("an answer");
    (members(params), answer.trim_start().to_string())
}

fn answer(name: &str) -> BTreeMap<String, bool> {
    let (_, answer) = method(name);
    members(braced(&answer).0)
}

fn fields(example: &impl Serialize) -> BTreeSet<String> {
    let value = serde_json::to_value(example).unwrap();
    value.as_object().unwrap().keys().cloned().collect()
}

/// Checks the fields of an example in which everything is said against the reference.
#[track_caller]
fn check(name: &str, full: &impl Serialize, documented: &BTreeMap<String, bool>) {
    let later = LATER_FIELDS
        .iter()
        .find(|it| it.0 == name)
        .map_or(&[][..], |it| it.1);
    let mut expected = names(documented);
    for field in later {
        assert!(expected.remove(*field), "{name} has no {field}");
    }
    assert_eq!(fields(full), expected, "{name}");
}

/// Checks that an example in which only what must be said is said leaves out nothing that is not optional.
#[track_caller]
fn check_sparse(name: &str, sparse: &impl Serialize, documented: &BTreeMap<String, bool>) {
    let fields = fields(sparse);
    for (field, is_optional) in documented {
        assert!(
            *is_optional || fields.contains(field),
            "{name} without {field}"
        );
    }
}

fn a_version() -> Version {
    Version::of(&Text::flat("text"))
}

fn a_hunk() -> Hunk {
    Hunk {
        old_start: 1,
        old_lines: 1,
        new_start: 1,
        new_lines: 1,
        lines: vec!["-a".to_string(), "+b".to_string()],
    }
}

fn a_position() -> Position {
    Position {
        line: 0,
        character: 0,
    }
}

fn full_file() -> FileResult {
    FileResult {
        uri: "file:///a".to_string(),
        path: "a".to_string(),
        operation: Operation::Update,
        via: Via::Editor,
        outcome: Outcome::Applied,
        version: Some(a_version()),
        previous_version: Some(a_version()),
        replacements: 1,
        dirty: Some(true),
        unicode_normalized: true,
        look_alikes: vec![Place { line: 1, column: 1 }],
        notes: vec!["note".to_string()],
        in_place: true,
        unseen_lines: 1,
        hunks: vec![a_hunk()],
        ranges: vec![Range {
            start: a_position(),
            end: a_position(),
        }],
        diff: "diff".to_string(),
        diff_truncated: true,
    }
}

#[test]
fn the_blocks_of_the_reference_are_balanced() {
    for block in blocks() {
        let mut open = Vec::new();
        let mut in_string = false;
        for char in block.chars() {
            match char {
                '"' => in_string = !in_string,
                '\n' => assert!(!in_string, "a string over a line end: {block}"),
                '{' | '[' | '(' if !in_string => open.push(char),
                '}' | ']' | ')' if !in_string => {
                    let partner = match char {
                        '}' => '{',
                        ']' => '[',
                        _ => '(',
                    };
                    assert_eq!(open.pop(), Some(partner), "{block}");
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "{block}");
    }
    // Every interface and every method can be taken apart.
    let all = blocks().join("\n");
    for part in all.split("interface ").skip(1) {
        let name = part.split([' ', '{']).next().unwrap();
        assert!(!interface(name).is_empty(), "{name}");
    }
}

#[test]
fn the_server_serves_the_methods_of_the_reference() {
    let world = World::new(&[]);
    let announced = &world.editor.initialized()["capabilities"]["experimental"]["abreast"];
    let served: BTreeSet<String> = announced["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap().to_string())
        .collect();
    let mut documented = BTreeSet::new();
    for block in blocks() {
        for part in block.split("\"abreast/").skip(1) {
            let name = part.split('"').next().unwrap();
            documented.insert(name.to_string());
        }
    }
    assert!(documented.remove("result"), "the metadata of tool results");
    for name in OF_THE_EDITOR {
        let is_named =
            documented.remove(name) || REFERENCE.contains(&format!("\"abreast/{name}\""));
        assert!(is_named, "{name}");
    }
    for name in LATER_METHODS {
        assert!(documented.remove(name), "{name}");
        let method = format!("abreast/{name}");
        refused(
            world.editor.call(&method, json!({ "sessionId": "s" })),
            "-32601",
        );
    }
    let documented: BTreeSet<_> = documented
        .iter()
        .map(|it| format!("abreast/{it}"))
        .collect();
    assert_eq!(served, documented);
    assert_eq!(announced["version"], 1);
    assert_eq!(announced["minVersion"], 1);
    assert!(announced["tools"].is_array());
}

#[test]
fn the_options_are_those_of_the_reference() {
    let set = |keys: &[&str]| {
        keys.iter()
            .map(|it| (*it).to_string())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        set(SessionOptions::KEYS),
        names(&interface("SessionOptions"))
    );
    assert_eq!(set(ServerMembers::KEYS), names(&interface("ServerOptions")));
    let all = blocks().join("\n");
    let limits = all.split("limits?:").nth(1).unwrap();
    assert_eq!(set(LimitMembers::KEYS), names(&members(braced(limits).0)));
    assert_eq!(
        fields(&Rules::default()),
        names(&interface("SessionOptions"))
    );
}

#[test]
fn the_defaults_of_the_limits_are_those_of_the_reference() {
    let limits = abreast::protocol::Limits::default();
    for text in [
        format!("readLines?: number /*{}*/", limits.read_lines),
        format!("readBytes?: number /*{}*/", limits.read_bytes),
        format!("lineChars?: number /*{} ", limits.line_chars),
        format!("fileBytes?: number /*{} GiB*/", limits.file_bytes >> 30),
        format!("diffBytes?: number /*{} KiB*/", limits.diff_bytes >> 10),
        format!("pending?: number /*{}*/", limits.pending),
    ] {
        assert!(REFERENCE.contains(&text), "{text}");
    }
}

#[test]
fn a_read_answers_what_the_reference_says() {
    let full = ReadResult {
        uri: "file:///a".to_string(),
        path: "a".to_string(),
        version: a_version(),
        text: "text".to_string(),
        start_line: 1,
        end_line: 1,
        total_lines: 2,
        truncated: true,
        next_offset: Some(2),
        cut_lines: vec![1],
        eol: EolKind::Lf,
        bom: false,
        via: Via::Editor,
        dirty: Some(true),
        behind: true,
    };
    let documented = answer("read");
    check("ReadResult", &full, &documented);
    let sparse = ReadResult {
        next_offset: None,
        cut_lines: Vec::new(),
        dirty: None,
        behind: false,
        ..full
    };
    check_sparse("ReadResult", &sparse, &documented);
    for (kind, name) in [
        (EolKind::Lf, "lf"),
        (EolKind::Crlf, "crlf"),
        (EolKind::Mixed, "mixed"),
        (EolKind::None, "none"),
    ] {
        assert_eq!(json!(kind), name);
    }
}

#[test]
fn a_change_answers_what_the_reference_says() {
    check("Hunk", &a_hunk(), &interface("Hunk"));
    let documented = interface("FileResult");
    check("FileResult", &full_file(), &documented);
    let sparse = FileResult {
        version: None,
        previous_version: None,
        dirty: None,
        unicode_normalized: false,
        look_alikes: Vec::new(),
        notes: Vec::new(),
        in_place: false,
        unseen_lines: 0,
        hunks: Vec::new(),
        ranges: Vec::new(),
        diff: String::new(),
        diff_truncated: false,
        ..full_file()
    };
    check_sparse("FileResult", &sparse, &documented);
    let result = |dry_run| ApplyResult {
        files: Vec::new(),
        dry_run,
    };
    check("ApplyResult", &result(true), &interface("ApplyResult"));
    check_sparse("ApplyResult", &result(false), &interface("ApplyResult"));
    for (value, names) in [
        (
            json!([
                Operation::Create,
                Operation::Update,
                Operation::Delete,
                Operation::Rename
            ]),
            r#""create" | "update" | "delete" | "rename""#,
        ),
        (json!([Via::Editor, Via::Disk]), r#""editor" | "disk""#),
        (
            json!([
                Outcome::Applied,
                Outcome::RolledBack,
                Outcome::KeptHuman,
                Outcome::Unknown
            ]),
            r#""applied" | "rolledBack" | "keptHuman" | "unknown""#,
        ),
        (
            json!([Seen::Unseen, Seen::Present, Seen::Absent]),
            r#""unseen" | "present" | "absent""#,
        ),
        (
            json!([Status::Fresh, Status::Stale]),
            r#""fresh" | "stale""#,
        ),
    ] {
        let values: Vec<_> = value
            .as_array()
            .unwrap()
            .iter()
            .map(Value::to_string)
            .collect();
        assert_eq!(values.join(" | "), names);
        assert!(REFERENCE.contains(names), "{names}");
    }
}

#[test]
fn what_is_told_of_sessions_is_what_the_reference_says() {
    let opened = OpenSessionResult {
        session_id: "s".to_string(),
        options: Rules::default(),
        tools: Vec::new(),
        revalidated: Some(1),
        dropped: Some(1),
    };
    check("OpenSessionResult", &opened, &answer("openSession"));
    let row = SessionRow {
        session_id: "s".to_string(),
        label: Some("label".to_string()),
        entries: 1,
        stale: 0,
        own: true,
    };
    let (_, rows) = method("sessions");
    let documented = rows.split("sessions:").nth(1).unwrap();
    check("SessionRow", &row, &members(braced(documented).0));
    let sessions = SessionsResult {
        sessions: vec![row],
    };
    check("SessionsResult", &sessions, &answer("sessions"));
    check(
        "ForgetResult",
        &ForgetResult { forgotten: 1 },
        &answer("forget"),
    );

    let entry = LedgerEntry {
        uri: "file:///a".to_string(),
        path: "a".to_string(),
        state: Seen::Present,
        version: Some(a_version()),
        status: Status::Stale,
        current_version: Some(a_version()),
        changed_by: vec![Author::Human],
        changed_ranges: vec![(1, 2)],
    };
    check("LedgerEntry", &entry, &interface("LedgerEntry"));
    let sparse = LedgerEntry {
        version: None,
        current_version: None,
        changed_by: Vec::new(),
        changed_ranges: Vec::new(),
        ..entry.clone()
    };
    check_sparse("LedgerEntry", &sparse, &interface("LedgerEntry"));
    let exported = ExportedLedger {
        version: 1,
        entries: vec![ExportedEntry {
            path: "/a".to_string(),
            state: Seen::Present,
            version: Some(a_version()),
        }],
    };
    let all = blocks().join("\n");
    let documented = all.split("type ExportedLedger =").nth(1).unwrap();
    check("ExportedLedger", &exported, &members(braced(documented).0));
    let documented = documented.split("entries:").nth(1).unwrap();
    check(
        "ExportedEntry",
        &exported.entries[0],
        &members(braced(documented).0),
    );
    let ledger = LedgerResult {
        entries: vec![entry],
        export: Some(exported),
    };
    check("LedgerResult", &ledger, &answer("ledger"));
}

#[test]
fn an_error_carries_what_the_reference_says() {
    let mut full = FsError::new(Code::FsStaleVersion, "what", "remedy").at("a", "file:///a");
    full.retryable = true;
    full.observed_version = Some(a_version());
    full.current_version = Some(a_version());
    full.changed_by = vec![Author::Disk];
    full.changed_ranges = vec![(1, 2)];
    full.matches = vec![Match {
        line: 1,
        column: 1,
        context: Some("context".to_string()),
    }];
    full.nearest = Some(Nearest {
        line: 1,
        text: "text".to_string(),
        why: "why".to_string(),
    });
    full.missing = vec![(1, 2)];
    full.change = Some(0);
    full.failures = vec![FsError::new(Code::FsNotFound, "what", "")];
    full.files = vec![full_file()];
    let documented = interface("FsErrorData");
    check("FsErrorData", &full, &documented);
    check_sparse(
        "FsErrorData",
        &FsError::new(Code::FsAborted, "what", ""),
        &documented,
    );
    let all = blocks().join("\n");
    let of = |head: &str| members(braced(all.split(head).nth(1).unwrap()).0);
    check("Match", &full.matches[0], &of("matches?:"));
    check("Nearest", full.nearest.as_ref().unwrap(), &of("nearest?:"));
}

#[test]
fn the_codes_are_those_of_the_reference_in_its_order() {
    let mut documented = Vec::new();
    for row in REFERENCE.lines().filter(|it| it.starts_with("| FS_")) {
        let column = row.split('|').nth(1).unwrap();
        documented.extend(column.split(',').map(|it| it.trim().to_string()));
    }
    documented.retain(|it| !LATER_CODES.contains(&it.as_str()));
    let codes: Vec<String> = Code::ALL
        .iter()
        .map(|it| json!(it).as_str().unwrap().to_string())
        .collect();
    assert_eq!(codes, documented);
    for code in LATER_CODES {
        assert!(REFERENCE.contains(&format!("| {code} |")), "{code}");
    }
}

#[test]
fn guards_changes_and_authors_are_written_as_the_reference_says() {
    let version = a_version().to_string();
    for (example, expected) in [
        (json!({ "kind": "createIfAbsent" }), Guard::CreateIfAbsent),
        (
            json!({ "kind": "replaceIfVersion", "version": version }),
            Guard::ReplaceIfVersion {
                version: a_version(),
            },
        ),
    ] {
        assert_eq!(
            serde_json::from_value::<Guard>(example.clone()).unwrap(),
            expected
        );
        assert_eq!(json!(expected), example);
    }
    let all = blocks().join("\n");
    let kinds = all
        .split("type Change =")
        .nth(1)
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    for kind in split(kinds, &['|']) {
        let documented = members(braced(&kind).0);
        let name = kind.split('"').nth(1).unwrap();
        let mut example = json!({});
        for field in documented.keys() {
            example[field] = match field.as_str() {
                "kind" => name.into(),
                "replaceAll" | "unicodeFallback" => true.into(),
                "eol" => "literal".into(),
                "guard" => json!({ "kind": "createIfAbsent" }),
                _ => "text".into(),
            };
        }
        let full: Change = serde_json::from_value(example.clone())
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(full.verb(), name);
        for (field, is_optional) in &documented {
            let mut without = example.clone();
            without.as_object_mut().unwrap().remove(field);
            let other = serde_json::from_value::<Change>(without);
            assert_eq!(other.is_ok(), *is_optional, "{name} without {field}");
            // A member that nobody reads would not be missed.
            assert_ne!(other.ok().as_ref(), Some(&full), "{name} without {field}");
        }
    }
    for author in [
        json!({ "kind": "human" }),
        json!({ "kind": "formatter" }),
        json!({ "kind": "disk" }),
        json!({ "kind": "session", "sessionId": "s" }),
    ] {
        let parsed: Author = serde_json::from_value(author.clone()).unwrap();
        assert_eq!(json!(parsed), author);
    }
}

#[test]
fn every_parameter_of_the_reference_is_read() {
    let world = World::new(&[("a.txt", "one\n")]);
    // What any call may carry, and what is read by later issues only.
    let unread = [("read", "since")];
    for name in [
        "openSession",
        "closeSession",
        "forget",
        "observe",
        "ledger",
        "read",
        "edit",
        "write",
        "apply",
    ] {
        let (documented, _) = method(name);
        for (field, is_optional) in &documented {
            if unread.contains(&(name, field)) {
                continue;
            }
            // Of no type that any member has.
            let wrong = json!({ "no such": [[]] });
            let right = |field: &str| match field {
                "sessionId" | "path" | "oldString" | "newString" | "content" => json!("a.txt"),
                "changes" => json!([{ "kind": "delete", "path": "a.txt" }]),
                _ => Value::Null,
            };
            let mut params = json!({});
            for (other, is_optional) in &documented {
                if !is_optional {
                    params[other] = right(other);
                }
            }
            if *is_optional
                && right(field).is_null()
                && ["model", "options"].contains(&field.as_str())
            {
                params[field] = json!("of no type");
                if field == "model" {
                    continue;
                }
            } else {
                params[field] = wrong;
            }
            let method = format!("abreast/{name}");
            let answer = world.editor.call(&method, params.clone());
            let error = refused(answer, "-32602");
            assert!(
                error.data().is_null(),
                "{name} does not look at {field} in {params}: {error}"
            );
            if !is_optional {
                params.as_object_mut().unwrap().remove(field);
                let error = refused(world.editor.call(&method, params), "-32602");
                assert!(
                    error.message().contains(field.as_str()),
                    "{name} without {field}: {error}"
                );
            }
        }
    }
}

#[test]
fn the_words_of_dsh_are_in_the_reference() {
    for words in [
        "edit requires reading \"<path>\" first",
        "cannot overwrite existing \"<path>\" without reading it first",
        "cannot edit \"<path>\": not found",
        "cannot edit \"<path>\": file changed since it was read",
        "cannot write \"<path>\": file changed since it was read",
    ] {
        assert!(REFERENCE.contains(words), "{words}");
    }
}
