//! Plays one case: real files in a directory of their own, a fresh server process, a strict editor.
//!
//! Invariant: a case passes only if the server was asked, answered everything in frames, and ended as it should;
//! a server that is silent or does not know a method fails every expectation, `"ok": false` included.

mod expectation;
mod files;

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::{
    expectation::deviation,
    files::{lay_out, mode_of, set_modified, write_file},
};
use super::{
    case::{
        AgentCall, AgentStep, Case, DiskAction, DiskStep, Edit, EditorStep, Expected,
        ExpectedEntry, Final, FinalCheck, NextApplyEdit, Place, Step,
    },
    client::{CallError, Pending, ServerCommand},
    difference,
    editor::{Editor, Options, StartError, merge, quoted},
    model::Treatment,
    session::Session,
};

/// How long a server may take to end after `exit`.
const END: Duration = Duration::from_secs(5);
/// By how much `touch` moves the modification time; more than the coarsest file system's clock.
const TOUCH: Duration = Duration::from_secs(3);

/// How a case came out.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was not as it should be; nothing if the case has passed.
    pub failures: Vec<Failure>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Outcome {
    /// Returns whether everything was as it should be.
    pub fn is_passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Something that was not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step or check, by its 1-based number and in words.
    pub place: String,
    /// What was expected and what came; several lines where texts differ.
    pub what: String,
}

/// Why a case could not be played at all.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// The case's directory cannot be made.
    #[error("cannot lay out the case's files: {0}")]
    Files(#[from] io::Error),
    /// There is no server.
    #[error(transparent)]
    Start(StartError),
}

/// Plays a case with a fresh server.
pub fn play(case: &Case, server: &ServerCommand) -> Result<Outcome, PlayError> {
    let started = Instant::now();
    let directory = tempfile::Builder::new().prefix("abreast-case-").tempdir()?;
    let root = directory.path().canonicalize()?;
    for file in &case.files {
        lay_out(&root, file)?;
    }
    let mut options = Options::new(server.clone(), &root);
    merge(
        &mut options.initialization_options,
        case.options.clone().unwrap_or_else(|| json!({})),
    );
    merge(
        &mut options.client,
        case.client.clone().unwrap_or_else(|| json!({})),
    );
    let failures = match Editor::start(&options) {
        Ok(editor) => Play {
            editor,
            root,
            sessions: HashMap::new(),
            failures: Vec::new(),
        }
        .through(case),
        Err(error @ StartError::Spawn { .. }) => return Err(PlayError::Start(error)),
        Err(error @ StartError::Initialize { .. }) => {
            vec![Failure {
                place: "start".to_string(),
                what: error.to_string(),
            }]
        }
    };
    Ok(Outcome {
        failures,
        elapsed: started.elapsed(),
    })
}

struct Play {
    editor: Editor,
    root: PathBuf,
    sessions: HashMap<String, Session>,
    failures: Vec<Failure>,
}

/// The play cannot go on: the server is gone or silent.
struct Stop;

impl Play {
    fn through(mut self, case: &Case) -> Vec<Failure> {
        for (step_idx, step) in case.steps.iter().enumerate() {
            let place = format!("step {} ({})", step_idx + 1, step.describe());
            if let Err(Stop) = self.step(&place, step) {
                return self.failures;
            }
        }
        for (final_idx, expected) in case.finals.iter().enumerate() {
            let at = if expected.place == Place::Buffer {
                "buffer"
            } else {
                "disk"
            };
            let place = format!("final {} ({at} {})", final_idx + 1, expected.path);
            for check in &expected.checks {
                if let Err(what) = self.check(expected, check) {
                    self.fail(&place, what);
                }
            }
        }
        if self.editor.n_unused_orders() > 0 {
            self.fail(
                "end",
                "nextApplyEdit was prepared, but no workspace/applyEdit came".to_string(),
            );
        }
        match self.editor.shut_down(END) {
            Some(status) if status.success() => {}
            Some(status) => self.fail(
                "end",
                format!("the server ended with {status}{}", self.stderr()),
            ),
            None => self.fail(
                "end",
                format!("the server did not end within {END:?} of exit"),
            ),
        }
        if let Some(violation) = self.editor.connection().violation() {
            self.fail("end", violation);
        }
        self.failures
    }

    fn step(&mut self, place: &str, step: &Step) -> Result<(), Stop> {
        match step {
            Step::Agent(step) => {
                let answer = self.send(step)?.wait(self.editor.timeout());
                self.judge(place, step.expected.as_ref(), &answer)
            }
            Step::Parallel {
                steps,
                expected_count,
            } => self.parallel(place, steps, expected_count.as_ref()),
            Step::Editor(step) => {
                if let Err(what) = self.edit_by_hand(step) {
                    self.fail(place, what);
                }
                Ok(())
            }
            Step::Disk(step) => {
                if let Err(error) = self.change_disk(step) {
                    self.fail(place, error.to_string());
                }
                Ok(())
            }
            Step::ExpectLedger(expected) => self.check_ledger(place, expected),
        }
    }

    fn parallel(
        &mut self,
        place: &str,
        steps: &[AgentStep],
        expected_count: Option<&BTreeMap<String, usize>>,
    ) -> Result<(), Stop> {
        // The sessions first, so that the calls themselves follow each other without a pause.
        for step in steps {
            self.session(&step.session)?;
        }
        let pending = steps
            .iter()
            .map(|it| self.send(it))
            .collect::<Result<Vec<_>, _>>()?;
        let mut count = BTreeMap::<String, usize>::new();
        for (step, pending) in steps.iter().zip(pending) {
            let answer = pending.wait(self.editor.timeout());
            let name = answer
                .as_ref()
                .map_or_else(CallError::code, |_| "ok".to_string());
            *count.entry(name).or_default() += 1;
            self.judge(
                &format!("{place}, {}", step.call.describe()),
                step.expected.as_ref(),
                &answer,
            )?;
        }
        if let Some(expected) = expected_count.filter(|&it| *it != count) {
            self.fail(
                place,
                format!("expected {}, found {}", json!(expected), json!(count)),
            );
        }
        Ok(())
    }

    fn session(&mut self, name: &str) -> Result<Session, Stop> {
        if let Some(session) = self.sessions.get(name) {
            return Ok(session.clone());
        }
        match self.editor.session(name) {
            Ok(session) => {
                self.sessions.insert(name.to_string(), session.clone());
                Ok(session)
            }
            Err(error) => {
                self.fail(
                    &format!("openSession {name}"),
                    format!("{error}{}", self.stderr()),
                );
                Err(Stop)
            }
        }
    }

    fn send(&mut self, step: &AgentStep) -> Result<Pending, Stop> {
        let session = self.session(&step.session)?;
        let (method, params) = self.wire_call(&step.call);
        Ok(session.start(method, params))
    }

    fn wire_call(&self, call: &AgentCall) -> (&'static str, Value) {
        match call {
            AgentCall::Read {
                path,
                offset,
                limit,
            } => {
                let mut params = json!({ "path": self.rooted(path) });
                set(&mut params, "offset", offset.as_ref());
                set(&mut params, "limit", limit.as_ref());
                ("abreast/read", params)
            }
            AgentCall::Edit(edit) => ("abreast/edit", self.wire_edit(edit)),
            AgentCall::Write { path, content } => (
                "abreast/write",
                json!({ "path": self.rooted(path), "content": content }),
            ),
            AgentCall::Batch { edits } => {
                let changes: Vec<_> = edits
                    .iter()
                    .map(|edit| {
                        let mut change = self.wire_edit(edit);
                        change["kind"] = "edit".into();
                        change
                    })
                    .collect();
                ("abreast/apply", json!({ "changes": changes }))
            }
            AgentCall::Apply { changes } => {
                let mut changes = changes.clone();
                for change in &mut changes {
                    for member in ["path", "newPath"] {
                        if let Some(path) = change[member].as_str().map(|it| self.rooted(it)) {
                            change[member] = path.into();
                        }
                    }
                }
                ("abreast/apply", json!({ "changes": changes }))
            }
        }
    }

    fn wire_edit(&self, edit: &Edit) -> Value {
        let mut params = json!({
            "path": self.rooted(&edit.path),
            "oldString": edit.old_string,
            "newString": edit.new_string,
        });
        set(&mut params, "replaceAll", edit.replace_all.as_ref());
        set(
            &mut params,
            "unicodeFallback",
            edit.unicode_fallback.as_ref(),
        );
        params
    }

    fn rooted(&self, path: &str) -> String {
        path.replace("${ROOT}", &self.root.to_string_lossy())
    }

    fn judge(
        &mut self,
        place: &str,
        expected: Option<&Expected>,
        answer: &Result<Value, CallError>,
    ) -> Result<(), Stop> {
        if let Err(error @ (CallError::TimedOut { .. } | CallError::Closed { .. })) = answer {
            self.fail(place, format!("{error}{}", self.stderr()));
            return Err(Stop);
        }
        let unexpected = deviation(expected.unwrap_or(&Expected::default()), answer);
        if let Some(what) = unexpected {
            self.fail(place, what);
        }
        Ok(())
    }

    fn check_ledger(&mut self, place: &str, expected: &ExpectedEntry) -> Result<(), Stop> {
        let session = self.session(&expected.session)?;
        let answer = session.ledger_entry(&self.rooted(&expected.path));
        let expected = Expected {
            ok: Some(true),
            fields: Some(expected.fields.clone().into()),
            ..Expected::default()
        };
        self.judge(place, Some(&expected), &answer)
    }

    fn edit_by_hand(&self, step: &EditorStep) -> Result<(), String> {
        let editor = &self.editor;
        match step {
            EditorStep::DidOpen {
                path,
                text,
                lsp_version,
            } => editor.open_as(&self.rooted(path), *lsp_version, text.as_deref()),
            EditorStep::DidChange { path, typings } => editor.change(&self.rooted(path), typings),
            EditorStep::DidSave { path } => editor.save(&self.rooted(path)),
            EditorStep::DidClose { path } => editor.close(&self.rooted(path)),
            EditorStep::NextApplyEdit(how) => {
                editor.order(match how {
                    NextApplyEdit::Reject => Treatment::Reject,
                    NextApplyEdit::TypeFirst(typing) => Treatment::TypeFirst(vec![typing.clone()]),
                    NextApplyEdit::DropSilently => Treatment::DropSilently,
                });
                Ok(())
            }
        }
        .map_err(|it| it.to_string())
    }

    fn change_disk(&self, step: &DiskStep) -> io::Result<()> {
        let name = self.rooted(&step.path);
        let path = self.root.join(&name);
        let was_there = path.symlink_metadata().is_ok();
        let kind = match &step.action {
            DiskAction::Write { bytes, keep_mtime } => {
                let modified = keep_mtime
                    .then(|| fs::metadata(&path)?.modified())
                    .transpose()?;
                write_file(&path, bytes)?;
                if let Some(modified) = modified {
                    set_modified(&path, modified)?;
                }
                if was_there { 2 } else { 1 }
            }
            DiskAction::Delete => {
                fs::remove_file(&path)?;
                3
            }
            DiskAction::Touch => {
                set_modified(&path, fs::metadata(&path)?.modified()? + TOUCH)?;
                2
            }
        };
        if step.notify {
            self.editor.tell_disk_change(&name, kind);
        }
        Ok(())
    }

    fn check(&self, expected: &Final, check: &FinalCheck) -> Result<(), String> {
        let name = self.rooted(&expected.path);
        let path = self.root.join(&name);
        let found = || match expected.place {
            Place::Buffer => self
                .editor
                .text(&name)
                .map(String::into_bytes)
                .ok_or("not open in the editor".to_string()),
            Place::Disk => fs::read(&path).map_err(|it| it.to_string()),
        };
        match check {
            FinalCheck::Bytes(bytes) => match found()? {
                found if found == *bytes => Ok(()),
                found => Err(difference::of_bytes(bytes, &found)),
            },
            FinalCheck::OneOf(texts) => match found()? {
                found if texts.iter().any(|it| it.as_bytes() == found) => Ok(()),
                found => {
                    let found = String::from_utf8_lossy(&found);
                    Err(format!(
                        "expected one of {}, found {}",
                        json!(texts),
                        json!(found)
                    ))
                }
            },
            FinalCheck::Absent => {
                let is_there = match expected.place {
                    Place::Buffer => self.editor.text(&name).is_some(),
                    Place::Disk => path.symlink_metadata().is_ok(),
                };
                if is_there {
                    Err("expected to be absent, but it is there".to_string())
                } else {
                    Ok(())
                }
            }
            FinalCheck::Mode(mode) => same(
                &format!("{mode:04o}"),
                &format!("{:04o}", mode_of(&path).map_err(|it| it.to_string())?),
            ),
            FinalCheck::Symlink(target) => {
                let found = fs::read_link(&path)
                    .map_err(|it| format!("expected a link to {target}: {it}"))?;
                same(target, &found.to_string_lossy())
            }
            FinalCheck::Listing(names) => {
                let entries = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
                let mut found: Vec<_> = entries
                    .map_err(|it| it.to_string())?
                    .iter()
                    .map(|it| it.file_name().to_string_lossy().into_owned())
                    .collect();
                let mut names = names.clone();
                names.sort();
                found.sort();
                same(&names.join(" "), &found.join(" "))
            }
        }
    }

    fn stderr(&self) -> String {
        quoted(&self.editor.connection().stderr())
    }

    fn fail(&mut self, place: &str, what: String) {
        self.failures.push(Failure {
            place: place.to_string(),
            what,
        });
    }
}

fn same(expected: &str, found: &str) -> Result<(), String> {
    if expected == found {
        Ok(())
    } else {
        Err(format!("expected {expected}, found {found}"))
    }
}

fn set<T: Clone + Into<Value>>(params: &mut Value, member: &str, value: Option<&T>) {
    if let Some(value) = value {
        params[member] = value.clone().into();
    }
}
