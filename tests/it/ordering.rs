//! Messages take effect in the order in which they arrive, whatever waits.

use std::time::{Duration, Instant};

use abreast::replay::{client::Pending, document::Typing, model::Treatment};
use serde_json::{Value, json};

use crate::support::{Choices, World, refused, scaled, version, view};

const PATIENCE: Duration = Duration::from_secs(60);

/// Types 1, 2, 3, … into a document, reads after each without waiting, and returns what the reads saw.
fn numbers_seen(world: &World, n_pairs: usize) -> Vec<usize> {
    world.editor.open_with("n.txt", "0\n").unwrap();
    let session = world.session("s");
    let pending: Vec<_> = (1..=n_pairs)
        .map(|number| {
            let n_digits = (number - 1).to_string().len();
            let typing = Typing::at([0, 0], [0, n_digits], &number.to_string());
            world.editor.change("n.txt", &[typing]).unwrap();
            session.start("abreast/read", json!({ "path": "n.txt" }))
        })
        .collect();
    let number_seen = |pending: Pending| {
        let text = pending.wait(PATIENCE).unwrap()["text"]
            .as_str()
            .unwrap()
            .to_string();
        text.trim_end().parse().unwrap()
    };
    pending.into_iter().map(number_seen).collect()
}

#[test]
fn without_a_barrier_every_read_sees_exactly_the_changes_before_it() {
    let n_pairs = scaled(10_000);
    let world = World::without_sync(&[]);
    let seen = numbers_seen(&world, n_pairs);
    assert!(
        seen.iter().copied().eq(1..=n_pairs),
        "{:?}",
        first_difference(&seen)
    );
}

#[test]
fn with_a_barrier_every_read_sees_at_least_the_changes_before_it_and_never_fewer_than_the_last() {
    let n_pairs = scaled(10_000);
    let world = World::with(&[], |options| {
        options.initialization_options = json!({ "limits": { "pending": n_pairs.max(1000) } });
    });
    let seen = numbers_seen(&world, n_pairs);
    for (idx, &number) in seen.iter().enumerate() {
        assert!(
            (idx + 1..=n_pairs).contains(&number),
            "read {} saw {number}",
            idx + 1
        );
        assert!(
            idx == 0 || number >= seen[idx - 1],
            "read {} saw {number} after {}",
            idx + 1,
            seen[idx - 1]
        );
    }
}

fn first_difference(seen: &[usize]) -> Option<(usize, usize)> {
    seen.iter()
        .copied()
        .enumerate()
        .find(|&(idx, number)| number != idx + 1)
}

/// What the session of an attempt has seen of the file.
enum Seen {
    /// It need not have seen anything.
    Whatever,
    Nothing,
    Text(String),
}

/// The naive twin of one dry-run edit on a text at its place in the order.
struct Attempt {
    text: String,
    old: String,
    new: String,
    replaces_all: bool,
    seen: Seen,
}

impl Attempt {
    /// The code, or the version of the result and how many places are replaced.
    fn expected(&self) -> Result<(String, usize), &'static str> {
        let text = view(&self.text);
        match &self.seen {
            Seen::Nothing => return Err("FS_NOT_OBSERVED"),
            Seen::Text(seen) if *seen != text => return Err("FS_STALE_VERSION"),
            Seen::Whatever | Seen::Text(_) => {}
        }
        if self.old == self.new {
            return Err("FS_NO_CHANGE");
        }
        let hits: Vec<_> = (0..text.len())
            .filter(|&at| text.is_char_boundary(at) && text[at..].starts_with(&self.old))
            .collect();
        let overlap = hits.windows(2).any(|it| it[1] < it[0] + self.old.len());
        match hits.len() {
            0 => Err("FS_EDIT_NOT_FOUND"),
            1 => Ok((version(&text.replacen(&self.old, &self.new, 1)), 1)),
            n_hits if self.replaces_all && !overlap => {
                Ok((version(&text.replace(&self.old, &self.new)), n_hits))
            }
            _ => Err("FS_AMBIGUOUS_EDIT"),
        }
    }
}

#[test]
fn every_dry_run_sees_the_text_at_its_place_in_the_order() {
    const WORDS: [&str; 8] = ["a", "b", "ab", "aa", "é", "🦀", "\n", "b\na"];
    const N_DOCUMENTS: usize = 50;
    let mut choices = Choices::new(1);
    let world = World::stock(&[], |options| {
        options.initialization_options = json!({ "trustClient": true });
    });
    let unguarded = world
        .editor
        .session_with("off", json!({ "options": { "policy": "off" } }))
        .unwrap();
    let guarded = world.session("observe");
    let paths: Vec<_> = (0..N_DOCUMENTS).map(|idx| format!("d{idx}.txt")).collect();
    let mut seen = vec![None; N_DOCUMENTS];
    for (idx, path) in paths.iter().enumerate() {
        let eol = if idx % 3 == 0 { "\r\n" } else { "\n" };
        world
            .editor
            .open_with(path, &format!("ab{eol}é🦀{eol}"))
            .unwrap();
    }
    let mut attempts = Vec::new();
    for _ in 0..scaled(5_000) {
        // A keystroke, into the beginning so that texts stay short and full of hits.
        let path = &paths[choices.below(N_DOCUMENTS)];
        let length = world.editor.text(path).unwrap().len();
        let range = if length > 24 {
            [[0, 0], [1, 0]]
        } else {
            [[0, 0], [0, 0]]
        };
        let typing = Typing::at(range[0], range[1], choices.one_of(&WORDS));
        world.editor.change(path, &[typing]).unwrap();

        // A dry run, on that document or another.
        let document_idx = choices.below(N_DOCUMENTS);
        let path = &paths[document_idx];
        let text = world.editor.text(path).unwrap();
        let is_guarded = choices.below(2) == 0;
        if is_guarded && choices.below(2) == 0 {
            guarded.start("abreast/read", json!({ "path": path }));
            seen[document_idx] = Some(view(&text));
        }
        let attempt = Attempt {
            text,
            old: choices.one_of(&WORDS).to_string(),
            new: choices.one_of(&WORDS).to_string(),
            replaces_all: choices.below(4) == 0,
            seen: match &seen[document_idx] {
                _ if !is_guarded => Seen::Whatever,
                Some(seen) => Seen::Text(seen.clone()),
                None => Seen::Nothing,
            },
        };
        let session = if is_guarded { &guarded } else { &unguarded };
        let params = json!({
            "path": path, "oldString": attempt.old, "newString": attempt.new,
            "replaceAll": attempt.replaces_all, "dryRun": true,
        });
        attempts.push((path.clone(), session.start("abreast/edit", params), attempt));
    }
    let mut n_successes = 0;
    for (attempt_idx, (path, pending, attempt)) in attempts.into_iter().enumerate() {
        let answer = pending.wait(PATIENCE);
        let found = match &answer {
            Ok(result) => {
                n_successes += 1;
                assert_eq!(result["dryRun"], true);
                let file = &result["files"][0];
                let n_replacements =
                    usize::try_from(file["replacements"].as_u64().unwrap()).unwrap();
                Ok((
                    file["version"].as_str().unwrap().to_string(),
                    n_replacements,
                ))
            }
            Err(error) => Err(error.code()),
        };
        let expected = attempt.expected().map_err(str::to_string);
        let Attempt { text, old, new, .. } = &attempt;
        assert_eq!(
            found, expected,
            "attempt {attempt_idx}, {path}, {old:?} => {new:?} in {text:?}: {answer:?}"
        );
    }
    assert!(
        n_successes > attempts_worth_it(),
        "only {n_successes} dry runs succeeded, so little was tested"
    );
    assert_eq!(
        world.editor.edits_received(),
        Vec::<Value>::new(),
        "a dry run changes nothing"
    );
}

fn attempts_worth_it() -> usize {
    scaled(5_000) / 20
}

#[test]
fn edits_that_wait_for_a_slow_editor_all_land_while_the_human_types_elsewhere() {
    let (n_edits, n_keystrokes) = (scaled(300), scaled(1_500));
    let world = World::with(&[], |options| {
        options.answers_after = Duration::from_millis(300);
    });
    let edited: Vec<_> = (0..n_edits).map(|idx| format!("e{idx}.txt")).collect();
    let typed: Vec<_> = (0..20).map(|idx| format!("t{idx}.txt")).collect();
    let session = world.session("s");
    for path in &edited {
        world.editor.open_with(path, "before\n").unwrap();
        session.start("abreast/read", json!({ "path": path }));
    }
    for path in &typed {
        world.editor.open_with(path, "").unwrap();
    }
    let started = Instant::now();
    let pending: Vec<_> = edited
        .iter()
        .map(|path| session.start_edit(path, "before", "after"))
        .collect();
    for number in 0..n_keystrokes {
        let path = &typed[number % typed.len()];
        world
            .editor
            .change(path, &[Typing::at([0, 0], [0, 0], "x")])
            .unwrap();
    }
    for (path, pending) in edited.iter().zip(pending) {
        pending.wait(PATIENCE).unwrap();
        world.check_buffer(path, "after\n");
    }
    // One after the other, they would take this long by the editor's slowness alone.
    let in_sequence = Duration::from_millis(300) * u32::try_from(n_edits).unwrap();
    assert!(
        n_edits < 100 || started.elapsed() < in_sequence / 2,
        "{:?}",
        started.elapsed()
    );
    for path in &typed {
        let text = session.read(path).unwrap()["text"].clone();
        assert_eq!(text.as_str(), world.editor.text(path).as_deref());
    }
}

#[test]
fn an_edit_that_waits_for_the_editor_holds_up_no_other_document() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "a\n").unwrap();
    world.editor.open_with("b.txt", "b\n").unwrap();
    let session = world.session_that_read("s", &["a.txt", "b.txt"]);
    world.editor.order(Treatment::Hold);
    let waiting = session.start_edit("a.txt", "a", "A");
    assert!(world.editor.wait_for_held(1));

    session.edit("b.txt", "b", "B").unwrap();
    assert_eq!(session.read("a.txt").unwrap()["text"], "a\n");
    assert!(waiting.poll().is_none());

    world.editor.release(Treatment::Honest);
    waiting.wait(PATIENCE).unwrap();
    world.check_buffer("a.txt", "A\n");
}

#[test]
fn calls_of_one_document_are_answered_in_the_order_in_which_they_came() {
    let world = World::new(&[]);
    world.editor.open_with("a.txt", "0\n").unwrap();
    let session = world.session_that_read("s", &["a.txt"]);
    let pending: Vec<_> = (0..20)
        .map(|number: i32| {
            session.start_edit("a.txt", &number.to_string(), &(number + 1).to_string())
        })
        .collect();
    for pending in pending {
        pending.wait(PATIENCE).unwrap();
    }
    world.check_buffer("a.txt", "20\n");
    refused(session.edit("a.txt", "19", "x"), "FS_EDIT_NOT_FOUND");
}
