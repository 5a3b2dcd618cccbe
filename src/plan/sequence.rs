//! Stage 10 of D2 and what follows from it: the changes in sequence, each on the result of those before it.

use std::collections::HashMap;

use super::{
    Content, EditorEdit, FileInput, FilePlan, PlanJob, Step, blank_result, edit::Edit, stale,
};
use crate::{
    error::{Code, FsError},
    ledger::{Lines, Observation},
    protocol::{self, Change, Hunk, Operation, Place, PolicyName, Range, WriteEol},
    text::{
        Text,
        buffer::{Buffer, Encoding},
        diff, rewrite,
        splice::{Splice, Splices},
    },
    version::Version,
};

/// What a file holds after the changes so far.
#[derive(Debug, Clone)]
struct Working {
    /// The file whose text `splices` start from; none: the call brought the text.
    base: Option<usize>,
    splices: Splices,
    text: Text,
    replacements: usize,
    unseen_lines: usize,
    /// True once the call wrote the whole text.
    written: bool,
    unicode_normalized: bool,
    look_alikes: Vec<Place>,
    notes: Vec<String>,
}

/// Runs the changes and returns the plans of all files that end up different, or that a change left as they were.
pub(super) fn run(job: &PlanJob) -> Result<Vec<FilePlan>, Box<FsError>> {
    let mut states: Vec<Option<Working>> = job.files.iter().enumerate().map(initial).collect();
    let mut failed: Vec<usize> = Vec::new();
    let mut failures = Vec::new();
    for (change, step) in job.steps.iter().enumerate() {
        if failed.contains(&step.file) {
            continue;
        }
        if let Err(err) = run_step(job, change, step, &mut states) {
            failures.push((change, err));
            failed.push(step.file);
            failed.extend(step.new_file);
        }
    }
    job.fail(failures)?;
    Ok(finish(job, &states))
}

fn initial((idx, file): (usize, &FileInput)) -> Option<Working> {
    let Content::Text(text, _) = &file.content else {
        return None;
    };
    Some(Working {
        base: Some(idx),
        splices: Splices::default(),
        text: text.clone(),
        replacements: 0,
        unseen_lines: 0,
        written: false,
        unicode_normalized: false,
        look_alikes: Vec::new(),
        notes: Vec::new(),
    })
}

fn run_step(
    job: &PlanJob,
    change: usize,
    step: &Step,
    states: &mut [Option<Working>],
) -> Result<(), FsError> {
    let file = &job.files[step.file];
    let path = step.change.path();
    let is_later = job.steps[..change]
        .iter()
        .any(|it| it.file == step.file || it.new_file == Some(step.file));
    if is_later {
        check_guard(step, file, states[step.file].as_ref())?;
    }
    let gone = || {
        let what = format!("cannot {} \"{path}\": not found", step.change.verb());
        FsError::new(
            Code::FsNotFound,
            what,
            "check the path; read it again, or write to create it",
        )
        .at(path, &file.uri)
    };
    match &step.change {
        Change::Edit {
            old_string,
            new_string,
            replace_all,
            unicode_fallback,
            ..
        } => {
            let working = states[step.file].as_mut().ok_or_else(gone)?;
            let edit = Edit {
                text: &working.text,
                path,
                uri: &file.uri,
                old: old_string,
                new: new_string,
                replace_all: *replace_all,
                unicode_fallback: unicode_fallback.unwrap_or(job.rules.unicode_fallback),
                was_read: working.was_read(job),
            };
            let edited = edit.run()?;
            working.replacements += edited.n_hits;
            working.unicode_normalized |= edited.unicode_normalized;
            working.look_alikes.extend(edited.look_alikes);
            working.notes.extend(edited.notes);
            working.take(edited.splices);
        }
        Change::Write { content, eol, .. } => match &mut states[step.file] {
            Some(working) => {
                if !is_later {
                    working.unseen_lines = unseen_lines(file, &working.text);
                }
                let splices = match eol {
                    WriteEol::Keep => rewrite::overwrite(&working.text, content),
                    WriteEol::Literal => literal(&working.text, content),
                };
                working.take(splices);
                working.replacements += 1;
                working.written = true;
            }
            state @ None => {
                *state = Some(Working {
                    base: None,
                    splices: Splices::default(),
                    text: Text::flat(content.clone()),
                    replacements: 1,
                    unseen_lines: 0,
                    written: true,
                    unicode_normalized: false,
                    look_alikes: Vec::new(),
                    notes: Vec::new(),
                });
            }
        },
        Change::Delete { .. } => {
            states[step.file].take().ok_or_else(gone)?;
        }
        Change::Rename { new_path, .. } => {
            let target = step.new_file.expect("a rename has a target");
            if target == step.file || states[target].is_some() {
                let what = format!("cannot rename \"{path}\": \"{new_path}\" exists already");
                let remedy = "choose another name, or read and write it";
                return Err(FsError::new(Code::FsAlreadyExists, what, remedy)
                    .at(new_path, &job.files[target].uri));
            }
            states[target] = Some(states[step.file].take().ok_or_else(gone)?);
        }
    }
    Ok(())
}

/// An explicit guard of a later change of a file is about the result of the changes before it.
fn check_guard(step: &Step, file: &FileInput, state: Option<&Working>) -> Result<(), FsError> {
    let path = step.change.path();
    match (step.change.guard(), state) {
        (Some(protocol::Guard::ReplaceIfVersion { version }), Some(working))
            if Version::of(&working.text) == version =>
        {
            Ok(())
        }
        (Some(protocol::Guard::ReplaceIfVersion { .. }), state) => {
            let now = state.map(|it| (&it.text, None));
            Err(stale::refusal(
                step.change.verb(),
                path,
                &file.uri,
                None,
                &[],
                now,
            ))
        }
        (Some(protocol::Guard::CreateIfAbsent), Some(_)) => {
            let what = format!(
                "cannot {} \"{path}\": it exists already",
                step.change.verb()
            );
            Err(FsError::new(
                Code::FsAlreadyExists,
                what,
                "choose another name, or read and write it",
            )
            .at(path, &file.uri))
        }
        (Some(protocol::Guard::CreateIfAbsent) | None, _) => Ok(()),
    }
}

impl Working {
    /// The least changes that make this of its base; none if it was changed there and back again, in whatever way.
    fn minimal(&self, before: &Text) -> Splices {
        if before.same(&self.text) {
            return Splices::default();
        }
        self.splices.minimise(before)
    }

    /// Whether the caller knows the text: past the guards, except of a caller without a session or with policy off.
    fn was_read(&self, job: &PlanJob) -> bool {
        let Some(base) = self.base else {
            return true;
        };
        let entry = job.files[base].entry.as_ref();
        let has_seen = entry.is_some_and(|it| matches!(it.observation, Observation::Present(_)));
        job.has_session && job.rules.policy == PolicyName::Observe && has_seen
    }

    /// Applies splices of the current text.
    fn take(&mut self, splices: Vec<Splice>) {
        let splices: Splices = splices.into_iter().collect();
        self.text = self.text.apply(&splices);
        if self.base.is_some() {
            self.splices.then_all(splices);
        }
    }
}

fn unseen_lines(file: &FileInput, text: &Text) -> usize {
    let total = text.total_lines();
    let missing = file
        .entry
        .as_ref()
        .map_or_else(|| vec![(0, total)], |it| it.shown.missing(total));
    missing.iter().map(|(from, to)| to - from).sum()
}

/// A whole-file write to the letter.
fn literal(text: &Text, content: &str) -> Vec<Splice> {
    let new = Text::flat(content.to_string());
    diff::diff(text, &new).iter().cloned().collect()
}

/// Compares what was with what is to be, file by file.
fn finish(job: &PlanJob, states: &[Option<Working>]) -> Vec<FilePlan> {
    let mut moved_to: HashMap<usize, usize> = HashMap::new();
    for (idx, state) in states.iter().enumerate() {
        if let Some(base) = state.as_ref().and_then(|it| it.base)
            && base != idx
            && matches!(job.files[idx].content, Content::Absent)
        {
            moved_to.insert(base, idx);
        }
    }
    let mut plans = Vec::new();
    for idx in order(job) {
        let file = &job.files[idx];
        let before = match &file.content {
            Content::Text(text, version) => Some((text, *version)),
            Content::Absent | Content::Refused(_) => None,
        };
        match (before, &states[idx]) {
            (None, None) => {}
            (Some(_), None) if moved_to.contains_key(&idx) => {}
            (Some((text, version)), None) => plans.push(delete(job, idx, text, version)),
            (None, Some(working)) => match working.base {
                Some(from) => plans.push(rename(job, idx, from, working)),
                None => plans.push(create(job, idx, working)),
            },
            (Some((text, version)), Some(working)) => {
                plans.push(update(job, idx, text, version, working));
            }
        }
    }
    plans
}

/// The files in the order in which the call names them.
fn order(job: &PlanJob) -> Vec<usize> {
    let mut order = Vec::new();
    for idx in job
        .steps
        .iter()
        .flat_map(|step| [Some(step.file), step.new_file])
        .flatten()
    {
        if !order.contains(&idx) {
            order.push(idx);
        }
    }
    order
}

/// The file as the call last named it.
fn path_of(job: &PlanJob, idx: usize) -> &str {
    let named = |step: &Step| match &step.change {
        Change::Rename { new_path, .. } if step.new_file == Some(idx) => {
            Some(new_path.as_str().to_string())
        }
        change => (step.file == idx).then(|| change.path().to_string()),
    };
    let last = job
        .steps
        .iter()
        .rposition(|step| named(step).is_some())
        .expect("a file of the plan is named by a step");
    match &job.steps[last].change {
        Change::Rename { new_path, .. } if job.steps[last].new_file == Some(idx) => new_path,
        change => change.path(),
    }
}

fn delete(job: &PlanJob, idx: usize, text: &Text, version: Option<Version>) -> FilePlan {
    let file = &job.files[idx];
    let mut result = blank_result(&file.uri, path_of(job, idx), Operation::Delete, file.via());
    result.previous_version = version;
    FilePlan {
        file: idx,
        key: file.key.clone(),
        renamed_from: None,
        moved_from: None,
        operation: Operation::Delete,
        before: Some(text.clone()),
        after: None,
        splices: Splices::default(),
        edits: Vec::new(),
        shown: Lines::default(),
        result,
    }
}

fn create(job: &PlanJob, idx: usize, working: &Working) -> FilePlan {
    let file = &job.files[idx];
    let nothing = Text::flat(String::new());
    let splices = diff::diff(&nothing, &working.text);
    let mut plan = changed(
        job,
        idx,
        &nothing,
        &working.text,
        splices,
        Operation::Create,
    );
    plan.before = None;
    plan.result.replacements = working.replacements;
    plan.result.version = Some(Version::of(&working.text));
    plan.shown = Lines::all(working.text.total_lines());
    plan.result.via = file.via();
    plan
}

fn rename(job: &PlanJob, idx: usize, from: usize, working: &Working) -> FilePlan {
    let Content::Text(before, version) = &job.files[from].content else {
        unreachable!("a renamed file had a text")
    };
    let splices = working.minimal(before);
    let mut plan = changed(job, idx, before, &working.text, splices, Operation::Rename);
    plan.renamed_from = Some(job.files[from].key.clone());
    fill(&mut plan, &job.files[from], *version, working);
    plan
}

fn update(
    job: &PlanJob,
    idx: usize,
    before: &Text,
    version: Option<Version>,
    working: &Working,
) -> FilePlan {
    let splices = if working.base == Some(idx) {
        working.minimal(before)
    } else {
        diff::diff(before, &working.text)
    };
    let mut plan = changed(job, idx, before, &working.text, splices, Operation::Update);
    let moved_from = working.base.filter(|from| *from != idx);
    let is_edited = !working.splices.is_empty();
    plan.moved_from = moved_from.map(|from| (job.files[from].key.clone(), is_edited));
    fill(&mut plan, &job.files[idx], version, working);
    plan
}

fn fill(plan: &mut FilePlan, file: &FileInput, version: Option<Version>, working: &Working) {
    plan.result.previous_version = version;
    plan.result.version = if plan.splices.is_empty() {
        version
    } else {
        Some(Version::of(&working.text))
    };
    plan.result.replacements = working.replacements;
    plan.result.unseen_lines = working.unseen_lines;
    plan.result.unicode_normalized = working.unicode_normalized;
    plan.result.look_alikes.clone_from(&working.look_alikes);
    plan.result.notes.clone_from(&working.notes);
    plan.shown = if working.written {
        Lines::all(working.text.total_lines())
    } else {
        let shown = file
            .entry
            .as_ref()
            .map(|it| it.shown.clone())
            .unwrap_or_default();
        shown.after(&line_edits(&plan.result.hunks))
    };
}

/// Everything that follows from the texts before and after.
fn changed(
    job: &PlanJob,
    idx: usize,
    before: &Text,
    after: &Text,
    splices: Splices,
    operation: Operation,
) -> FilePlan {
    let file = &job.files[idx];
    let path = path_of(job, idx);
    let mut result = blank_result(&file.uri, path, operation, file.via());
    result.hunks = diff::hunks(before, after, &splices);
    (result.diff, result.diff_truncated) =
        diff::unified(path, &result.hunks, job.limits.diff_bytes);
    let (edits, after) = match &file.place {
        super::Place::Editor(buffer) => {
            let (edits, ranges, after) = editor_edits(buffer, &splices, job.encoding);
            result.ranges = ranges;
            (edits, after)
        }
        super::Place::Disk => (Vec::new(), after.clone()),
    };
    FilePlan {
        file: idx,
        key: file.key.clone(),
        renamed_from: None,
        moved_from: None,
        operation,
        before: Some(before.clone()),
        after: Some(after),
        splices,
        edits,
        shown: Lines::default(),
        result,
    }
}

/// The splices as text edits of the buffer, where the new text will be, and the text that the buffer will have.
fn editor_edits(
    buffer: &Buffer,
    splices: &Splices,
    encoding: Encoding,
) -> (Vec<EditorEdit>, Vec<Range>, Text) {
    let text = buffer.text();
    let at = |buffer: &Buffer, range: &std::ops::Range<usize>| Range {
        start: buffer.position_of(range.start, encoding),
        end: buffer.position_of(range.end, encoding),
    };
    let edits = splices
        .iter()
        .map(|splice| EditorEdit {
            range: at(buffer, &splice.range),
            old_text: text.raw(splice.range.clone()),
            new_text: splice.text.clone(),
        })
        .collect();
    let mut after = buffer.clone();
    for splice in splices.iter().rev() {
        after.replace(splice.range.clone(), &splice.text);
    }
    let ranges = splices
        .new_ranges()
        .iter()
        .map(|range| at(&after, range))
        .collect();
    (edits, ranges, after.text())
}

/// The changed lines of hunks: 0-based first old line, old lines, new lines.
fn line_edits(hunks: &[Hunk]) -> Vec<(usize, usize, usize)> {
    let mut edits = Vec::new();
    for hunk in hunks {
        let mut line = if hunk.old_lines == 0 {
            hunk.old_start
        } else {
            hunk.old_start - 1
        };
        let mut open: Option<(usize, usize, usize)> = None;
        for row in &hunk.lines {
            match row.as_bytes().first() {
                Some(b'-') => {
                    open.get_or_insert((line, 0, 0)).1 += 1;
                    line += 1;
                }
                Some(b'+') => open.get_or_insert((line, 0, 0)).2 += 1,
                Some(b'\\') => {}
                _ => {
                    edits.extend(open.take());
                    line += 1;
                }
            }
        }
        edits.extend(open);
    }
    edits
}
