//! Plays case files against a real server process with a model editor, and the pieces to do so.
//!
//! `abreast replay` is for the authors of editor extensions and agent hosts: what must come of a sequence of reads,
//! keystrokes and edits is written down as a case (format: [`case`]) and played as often as they like, against this
//! server or another. The demo and the integration tests use the same pieces: [`client`] speaks JSON-RPC with a
//! process, [`model`] is a strict editor without one, [`editor`] joins the two, [`session`] is an agent in it, and
//! [`player`] makes a case of them.
//!
//! Invariant: nothing here knows how the server works inside; what it says on the wire and does to files is all.

pub mod case;
pub mod client;
mod difference;
pub mod document;
pub mod editor;
pub mod frames;
pub mod model;
pub mod player;
pub mod session;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use anstyle::{AnsiColor, Style};
use serde_json::json;

use self::{
    case::{Case, CaseError},
    client::ServerCommand,
    player::{Outcome, PlayError},
};

/// How many cases are played at the same time.
const WORKERS: usize = 2;
/// How many failures of a case are shown; those after them mostly follow from the first.
const FAILURES_SHOWN_MAX: usize = 4;

const PASSED: Style = AnsiColor::Green.on_default();
const FAILED: Style = AnsiColor::Red.on_default().bold();
const FAINT: Style = Style::new().dimmed();

/// What `abreast replay --help` shows at its end.
const HELP: &str = r#"A minimal case (the whole format: src/replay/case-format.md). A step without `expect` may come out either way:

  {
    "id": "typed-after-the-read",
    "files": [{ "path": "a.txt", "text": "one\ntwo\n" }],
    "steps": [
      { "editor": "didOpen", "path": "a.txt" },
      { "agent": "read", "session": "s1", "path": "a.txt", "expect": { "ok": true } },
      { "editor": "didChange", "path": "a.txt", "range": [[0, 0], [0, 3]], "text": "ONE" },
      { "agent": "edit", "session": "s1", "path": "a.txt", "oldString": "two", "newString": "2",
        "expect": { "error": "FS_STALE_VERSION" } }
    ],
    "final": [{ "where": "buffer", "path": "a.txt", "text": "ONE\ntwo\n" }]
  }

Exit status: 0 if every case passed, 1 if one failed, 2 if a file is not a case or there is nothing to play."#;

/// The arguments of `abreast replay`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Arguments {
    /// Case files, and directories with case files (*.json, at any depth)
    #[arg(required = true, value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Print one JSON object per case: { id, file, passed, ms, failures: [{ place, what }] }, and one with the counts
    #[arg(long)]
    pub json: bool,
    /// The server to play against, as a command line [default: this program with `serve --stdio`]
    #[arg(long, value_name = "CMD")]
    pub server: Option<String>,
    /// Play only the cases whose id contains this
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Leave out the cases whose id contains this; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub skip: Vec<String>,
}

/// A case file: the case, or why it is none.
#[derive(Debug)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// What is in it.
    pub case: Result<Case, CaseError>,
}

impl Source {
    /// Returns the case's id, or the name of a file that is no case.
    pub fn id(&self) -> String {
        match &self.case {
            Ok(case) => case.id.clone(),
            Err(_) => self
                .path
                .file_stem()
                .unwrap_or(self.path.as_os_str())
                .to_string_lossy()
                .into_owned(),
        }
    }
}

/// Plays what the arguments name, and prints how it came out.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut out = anstream::stdout().lock();
    match print_all(arguments, &mut out) {
        Ok(code) => code,
        Err(error) => {
            // If stdout is gone, stderr is what is left; if that is gone too, the status must do.
            let _ = writeln!(anstream::stderr(), "abreast replay: {error}");
            ExitCode::from(2)
        }
    }
}

fn print_all(arguments: &Arguments, out: &mut impl Write) -> io::Result<ExitCode> {
    let server = match &arguments.server {
        Some(line) => ServerCommand::parse(line)
            .ok_or_else(|| io::Error::other(format!("--server {line:?} is not a command line")))?,
        None => ServerCommand::current_exe()?,
    };
    let mut sources = load(&arguments.paths)?;
    if let Some(filter) = &arguments.filter {
        sources.retain(|it| it.id().contains(filter.as_str()));
    }
    sources.retain(|it| {
        !arguments
            .skip
            .iter()
            .any(|skip| it.id().contains(skip.as_str()))
    });
    if sources.is_empty() {
        return Err(io::Error::other("no case to play"));
    }
    let (mut n_passed, mut n_failed, mut n_broken) = (0, 0, 0);
    let mut printed = Ok(());
    play_all(&sources, &server, |source, result| {
        match result {
            Ok(outcome) if outcome.is_passed() => n_passed += 1,
            Ok(_) => n_failed += 1,
            Err(_) => n_broken += 1,
        }
        if printed.is_ok() {
            printed = if arguments.json {
                print_json(out, source, result)
            } else {
                print(out, source, result)
            };
        }
    });
    printed?;
    let n_not_passed = n_failed + n_broken;
    if arguments.json {
        writeln!(
            out,
            "{}",
            json!({ "passed": n_passed, "failed": n_not_passed })
        )?;
    } else {
        let style = if n_not_passed == 0 { PASSED } else { FAILED };
        writeln!(
            out,
            "{style}{n_passed} passed, {n_not_passed} failed{style:#}"
        )?;
    }
    Ok(match (n_failed, n_broken) {
        (0, 0) => ExitCode::SUCCESS,
        (_, 0) => ExitCode::from(1),
        _ => ExitCode::from(2),
    })
}

/// Reads the case files that some paths name; a directory stands for all `*.json` in it, in the order of their names.
pub fn load(paths: &[PathBuf]) -> io::Result<Vec<Source>> {
    let mut files = Vec::new();
    for path in paths {
        collect(path, &mut files)
            .map_err(|it| io::Error::new(it.kind(), format!("{}: {it}", path.display())))?;
    }
    Ok(files
        .into_iter()
        .map(|path| Source {
            case: Case::load(&path),
            path,
        })
        .collect())
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.metadata()?.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    let mut entries = path
        .read_dir()?
        .map(|entry| entry.map(|it| it.path()))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() || entry.extension().is_some_and(|it| it == "json") {
            collect(&entry, files)?;
        }
    }
    Ok(())
}

/// Why there is no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Unplayed {
    /// The file is not a case.
    #[error("not a case: {0}")]
    NotACase(String),
    /// The case could not be played.
    #[error(transparent)]
    Play(#[from] PlayError),
}

/// Plays cases, several at the same time, and calls `report` for each in their order.
pub fn play_all(
    sources: &[Source],
    server: &ServerCommand,
    mut report: impl FnMut(&Source, &Result<Outcome, Unplayed>),
) {
    let next = AtomicUsize::new(0);
    let (finished, results) = mpsc::channel();
    let finished = Mutex::new(finished);
    thread::scope(|scope| {
        for _ in 0..WORKERS.min(sources.len()) {
            let finished = finished
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let next = &next;
            scope.spawn(move || {
                while let Some((idx, source)) = {
                    let idx = next.fetch_add(1, Ordering::Relaxed);
                    sources.get(idx).map(|it| (idx, it))
                } {
                    let result = match &source.case {
                        Ok(case) => player::play(case, server).map_err(Unplayed::Play),
                        Err(error) => Err(Unplayed::NotACase(error.to_string())),
                    };
                    if finished.send((idx, result)).is_err() {
                        break;
                    }
                }
            });
        }
        let mut early = std::collections::BTreeMap::new();
        let mut n_reported = 0;
        while n_reported < sources.len() {
            let Ok((idx, result)) = results.recv() else {
                break;
            };
            early.insert(idx, result);
            while let Some(result) = early.remove(&n_reported) {
                report(&sources[n_reported], &result);
                n_reported += 1;
            }
        }
    });
}

fn print(
    out: &mut impl Write,
    source: &Source,
    result: &Result<Outcome, Unplayed>,
) -> io::Result<()> {
    let id = source.id();
    match result {
        Ok(outcome) => {
            let ms = outcome.elapsed.as_millis();
            if outcome.is_passed() {
                return writeln!(out, "{PASSED}✓{PASSED:#} {id} {FAINT}{ms} ms{FAINT:#}");
            }
            writeln!(
                out,
                "{FAILED}✗ {id}{FAILED:#} {FAINT}{ms} ms  {}{FAINT:#}",
                source.path.display()
            )?;
            if let Ok(case) = &source.case {
                writeln!(out, "    {}", case.about)?;
            }
            for failure in outcome.failures.iter().take(FAILURES_SHOWN_MAX) {
                let mut lines = failure.what.lines();
                writeln!(
                    out,
                    "    {}: {}",
                    failure.place,
                    lines.next().unwrap_or_default()
                )?;
                for line in lines {
                    let style = match line.chars().next() {
                        Some('-') => AnsiColor::Red.on_default(),
                        Some('+') => AnsiColor::Green.on_default(),
                        _ => Style::new(),
                    };
                    writeln!(out, "      {style}{line}{style:#}")?;
                }
            }
            let n_more = outcome.failures.len().saturating_sub(FAILURES_SHOWN_MAX);
            if n_more > 0 {
                writeln!(out, "    … and {n_more} more")?;
            }
            Ok(())
        }
        Err(error) => {
            writeln!(
                out,
                "{FAILED}✗ {id}{FAILED:#}  {FAINT}{}{FAINT:#}",
                source.path.display()
            )?;
            writeln!(out, "    {error}")
        }
    }
}

fn print_json(
    out: &mut impl Write,
    source: &Source,
    result: &Result<Outcome, Unplayed>,
) -> io::Result<()> {
    let mut object = json!({ "id": source.id(), "file": source.path.to_string_lossy() });
    match result {
        Ok(outcome) => {
            let failures = outcome
                .failures
                .iter()
                .map(|it| json!({ "place": it.place, "what": it.what }));
            object["passed"] = outcome.is_passed().into();
            object["ms"] = u64::try_from(outcome.elapsed.as_millis())
                .unwrap_or(u64::MAX)
                .into();
            object["failures"] = failures.collect();
        }
        Err(error) => {
            object["passed"] = false.into();
            object["error"] = error.to_string().into();
        }
    }
    writeln!(out, "{object}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_in_the_help_is_a_case() {
        let start = HELP.find('{').expect("an object");
        let end = HELP.rfind("\n  }").expect("its end") + 4;
        Case::parse(&HELP[start..end]).expect("a case");
    }

    #[test]
    fn every_case_of_the_project_is_a_case() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
        for source in load(&[directory]).expect("a directory") {
            source
                .case
                .unwrap_or_else(|it| panic!("{}: {it}", source.path.display()));
        }
    }

    #[test]
    fn a_file_that_is_no_case_is_reported_in_its_place() {
        let source = Source {
            path: "x.json".into(),
            case: Case::parse("{}"),
        };
        let server = ServerCommand::serve("/nonexistent/server");
        let mut seen = Vec::new();
        play_all(&[source], &server, |source, result| {
            print(&mut seen, source, result).expect("a vector takes all");
        });
        let seen =
            String::from_utf8(anstream::adapter::strip_bytes(&seen).into_vec()).expect("UTF-8");
        assert_eq!(seen, "✗ x  x.json\n    not a case: missing field `id`\n");
    }
}
