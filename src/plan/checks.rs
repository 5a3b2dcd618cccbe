//! Stages 4 to 9 of D2: everything that can be said before a match is looked for.

use super::{Content, FileInput, PlanJob, Step, stale};
use crate::{
    error::{Code, FsError},
    ledger::Observation,
    policy::{self, Decider, ObservationPolicy},
    protocol::{self, Change, WriteCoverage},
    text::eol,
    version::Version,
};

/// Stages 4 to 8; stage 9 is [`no_change`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Intent,
    State,
    Readable,
    Version,
    Coverage,
}

impl Stage {
    const ALL: [Self; 5] = [
        Self::Intent,
        Self::State,
        Self::Readable,
        Self::Version,
        Self::Coverage,
    ];

    fn check(self, job: &PlanJob, step: &Step) -> Option<FsError> {
        match self {
            Self::Intent => intent(job, step),
            Self::State => state(job, step),
            Self::Readable => readable(job, step),
            Self::Version => version(job, step),
            Self::Coverage => coverage(job, step),
        }
    }
}

/// Each stage over all files before the next.
pub(super) fn run(job: &PlanJob) -> Result<(), Box<FsError>> {
    for stage in Stage::ALL {
        let mut failures = Vec::new();
        for (change, step) in job.steps.iter().enumerate() {
            if is_first(job, change, step.file) || stage == Stage::State {
                failures.extend(stage.check(job, step).map(|err| (change, err)));
            }
            if let Some(target) = step.new_file {
                failures.extend(
                    rename_target(job, change, step, target, stage).map(|err| (change, err)),
                );
            }
        }
        job.fail(failures)?;
    }
    let steps = job.steps.iter().enumerate();
    job.fail(
        steps
            .filter_map(|(change, step)| Some((change, no_change(job, step)?)))
            .collect(),
    )
}

/// True if no earlier change of the call touches the file; later changes see the result of the earlier ones.
fn is_first(job: &PlanJob, change: usize, file: usize) -> bool {
    !job.steps[..change]
        .iter()
        .any(|step| step.file == file || step.new_file == Some(file))
}

fn path_of(step: &Step) -> &str {
    step.change.path()
}

/// Without a session an explicit guard stands alone.
fn decider(job: &PlanJob, step: &Step) -> Option<&'static dyn Decider> {
    if job.has_session {
        return policy::decider(job.rules.policy);
    }
    step.change.guard().is_none().then_some(&ObservationPolicy)
}

fn observation(file: &FileInput) -> Option<Observation> {
    file.entry.as_ref().map(|it| it.observation)
}

/// Stage 4: what the policy says.
fn intent(job: &PlanJob, step: &Step) -> Option<FsError> {
    let file = &job.files[step.file];
    let path = path_of(step);
    let not_found = || {
        FsError::new(
            Code::FsNotFound,
            format!("cannot {} \"{path}\": not found", step.change.verb()),
            "check the path; read it again, or write to create it",
        )
        .at(path, &file.uri)
    };
    let not_observed = |what: String| {
        if let Content::Refused(err) = &file.content {
            return FsError::from_disk(err, path).at(path, &file.uri);
        }
        let remedy = if job.has_session {
            "read the file, then retry"
        } else {
            "read the file, then retry with its version as guard"
        };
        FsError::new(Code::FsNotObserved, what, remedy).at(path, &file.uri)
    };
    let decider = decider(job, step);
    if let Change::Write { guard, .. } = &step.change {
        let creates =
            decider.is_some_and(|it| it.write(observation(file)) == policy::Guard::CreateIfAbsent);
        let named = matches!(guard, Some(protocol::Guard::CreateIfAbsent));
        let exists = match &file.content {
            Content::Absent => false,
            Content::Text(text, _) => !text.is_empty_view(),
            Content::Refused(_) => true,
        };
        return (creates && exists && !named).then(|| {
            not_observed(format!(
                "cannot overwrite existing \"{path}\" without reading it first"
            ))
        });
    }
    match decider.map(|it| it.edit(observation(file))) {
        None if matches!(file.content, Content::Absent) && step.change.guard().is_none() => {
            Some(not_found())
        }
        None | Some(Ok(_)) => None,
        Some(Err(Code::FsNotFound)) => Some(not_found()),
        Some(Err(_)) => Some(not_observed(format!(
            "{} requires reading \"{path}\" first",
            step.change.verb()
        ))),
    }
}

/// Stage 5: the client and the document's state.
fn state(job: &PlanJob, step: &Step) -> Option<FsError> {
    let file = &job.files[step.file];
    let path = path_of(step);
    if file.is_open && matches!(step.change, Change::Delete { .. } | Change::Rename { .. }) {
        return Some(open(step, path, file));
    }
    let mut err = file.obstacle.clone()?.at(path, &file.uri);
    err.what = format!("cannot {} \"{path}\": {}", step.change.verb(), err.what);
    Some(err)
}

fn open(step: &Step, path: &str, file: &FileInput) -> FsError {
    let what = format!(
        "cannot {} \"{path}\": it is open in the editor",
        step.change.verb()
    );
    FsError::new(
        Code::FsOpen,
        what,
        "close it in the editor, or ask the user to",
    )
    .at(path, &file.uri)
}

/// Stage 6: can it be read as text?
fn readable(job: &PlanJob, step: &Step) -> Option<FsError> {
    let file = &job.files[step.file];
    match &file.content {
        Content::Refused(err) => {
            Some(FsError::from_disk(err, path_of(step)).at(path_of(step), &file.uri))
        }
        Content::Absent | Content::Text(..) => None,
    }
}

/// Stage 7: is it what the session has seen, and what the caller says?
fn version(job: &PlanJob, step: &Step) -> Option<FsError> {
    let file = &job.files[step.file];
    let path = path_of(step);
    let required = decider(job, step).and_then(|it| match &step.change {
        Change::Write { .. } => Some(it.write(observation(file))),
        _ => it.edit(observation(file)).ok(),
    });
    if let Some(policy::Guard::ReplaceIfVersion(version)) = required
        && (current(file) != Some(version)
            || broken!(AbaByGeneration) && !file.changed_by.is_empty())
        && !broken!(StaleUnchecked)
    {
        return Some(stale_refusal(step, file));
    }
    match step.change.guard()? {
        _ if broken!(GuardIgnored) => None,
        protocol::Guard::ReplaceIfVersion { version } if current(file) != Some(version) => {
            let mut err = stale_refusal(step, file);
            err.observed_version = Some(version);
            Some(err)
        }
        protocol::Guard::CreateIfAbsent if current(file).is_some() => {
            let what = format!(
                "cannot {} \"{path}\": it exists already",
                step.change.verb()
            );
            let remedy = "choose another name, or read and write it";
            Some(FsError::new(Code::FsAlreadyExists, what, remedy).at(path, &file.uri))
        }
        _ => None,
    }
}

fn current(file: &FileInput) -> Option<Version> {
    match file.content {
        Content::Text(_, version) => version,
        Content::Absent | Content::Refused(_) => None,
    }
}

fn stale_refusal(step: &Step, file: &FileInput) -> FsError {
    let now = match &file.content {
        Content::Text(text, version) => Some((text, *version)),
        Content::Absent | Content::Refused(_) => None,
    };
    stale::refusal(
        step.change.verb(),
        path_of(step),
        &file.uri,
        file.entry.as_ref(),
        &file.changed_by,
        now,
    )
}

/// Stage 8: has every line been shown, where the session asks for that?
fn coverage(job: &PlanJob, step: &Step) -> Option<FsError> {
    let file = &job.files[step.file];
    let path = path_of(step);
    if !matches!(step.change, Change::Write { .. })
        || job.rules.write_coverage != WriteCoverage::Full
    {
        return None;
    }
    let (Content::Text(text, _), Some(entry)) = (&file.content, &file.entry) else {
        return None;
    };
    let missing = entry.shown.missing(text.total_lines());
    if missing.is_empty() {
        return None;
    }
    let missing: Vec<(usize, usize)> = missing
        .into_iter()
        .map(|(from, to)| (from + 1, to))
        .collect();
    let names: Vec<String> = missing
        .iter()
        .take(8)
        .map(|(from, to)| format!("{from}-{to}"))
        .collect();
    let what = format!(
        "cannot write \"{path}\": lines {} were never shown",
        names.join(", ")
    );
    let mut err =
        FsError::new(Code::FsCoverage, what, "read those lines, then retry").at(path, &file.uri);
    err.missing = missing;
    Some(err)
}

/// Stages 5 and 7 for the new name of a rename.
fn rename_target(
    job: &PlanJob,
    change: usize,
    step: &Step,
    target: usize,
    stage: Stage,
) -> Option<FsError> {
    let file = &job.files[target];
    let Change::Rename { new_path, .. } = &step.change else {
        return None;
    };
    if file.is_open && stage == Stage::State {
        return Some(open(step, new_path, file));
    }
    let exists = is_first(job, change, target) && !matches!(file.content, Content::Absent);
    if exists && stage == Stage::Version {
        let what = format!(
            "cannot rename \"{}\": \"{new_path}\" exists already",
            step.change.path()
        );
        let remedy = "choose another name, or read and write it";
        return Some(FsError::new(Code::FsAlreadyExists, what, remedy).at(new_path, &file.uri));
    }
    None
}

/// Stage 9: does the edit change anything?
fn no_change(job: &PlanJob, step: &Step) -> Option<FsError> {
    let Change::Edit {
        path,
        old_string,
        new_string,
        ..
    } = &step.change
    else {
        return None;
    };
    (eol::fold(old_string) == eol::fold(new_string)).then(|| {
        let what = format!("cannot edit \"{path}\": oldString and newString are the same");
        FsError::new(Code::FsNoChange, what, "there is nothing to do")
            .at(path, &job.files[step.file].uri)
    })
}
