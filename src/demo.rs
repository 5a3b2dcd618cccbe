//! A tour of fifteen seconds: what the sidecar is for, on real files, through a real server process.
//!
//! Invariant: every step is checked against what is told about it, and the exit status is 0 only if all came out so;
//! the demo can be believed, and is a test.

mod stage;

use std::{
    fs,
    io::{self, Write},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use serde_json::{Value, json};

use self::stage::{Actor, Row, Stage};
use crate::replay::{
    client::{CallError, ServerCommand},
    document::Typing,
    editor::{Editor, Options},
    session::Session,
};

/// How long a step stays before the next one comes.
const PACE: Duration = Duration::from_millis(470);
/// How long a server may take for one call.
const PATIENCE: Duration = Duration::from_secs(12);

const SHOP: &str = "shop.py";
const INVOICE: &str = "invoice.py";
const PRICES: &str = "prices.toml";

const SHOP_TEXT: &str = r#""""A small shop."""

VAT = 0.19


def total(prices):
    return sum(prices) * (1 + VAT)
"#;
const INVOICE_TEXT: &str = "from shop import total\n\nprint(total([5, 8]))\n";
const PRICES_TEXT: &str = "tea = 4\ncoffee = 5\n";

/// The arguments of `abreast demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Do not pause between the steps
    #[arg(long)]
    pub fast: bool,
    /// The server to show, as a command line [default: this program with `serve --stdio`]
    #[arg(long, value_name = "CMD")]
    pub server: Option<String>,
}

/// Shows the tour.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut out = anstream::stdout().lock();
    match show(arguments, &mut out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            // If stdout is gone, stderr is what is left; if that is gone too, the status must do.
            let _ = writeln!(anstream::stderr(), "abreast demo: {error}");
            ExitCode::from(2)
        }
    }
}

fn show(arguments: &Arguments, out: &mut impl Write) -> io::Result<bool> {
    let server = match &arguments.server {
        Some(line) => ServerCommand::parse(line)
            .ok_or_else(|| io::Error::other(format!("--server {line:?} is not a command line")))?,
        None => ServerCommand::current_exe()?,
    };
    let directory = tempfile::Builder::new().prefix("abreast-demo-").tempdir()?;
    let root = directory.path().canonicalize()?;
    for (path, text) in [
        (SHOP, SHOP_TEXT),
        (INVOICE, INVOICE_TEXT),
        (PRICES, PRICES_TEXT),
    ] {
        fs::write(root.join(path), text)?;
    }
    let mut options = Options::new(server, &root);
    options.timeout = PATIENCE;
    let editor = Editor::start(&options).map_err(io::Error::other)?;
    let agent = editor.session("demo").map_err(io::Error::other)?;
    editor.open(SHOP).map_err(io::Error::other)?;

    let pace = if arguments.fast { Duration::ZERO } else { PACE };
    let mut stage = Stage::new(out, pace);
    stage.open(&root)?;
    let mut tour = Tour {
        editor,
        agent,
        root: &root,
    };
    tour.unseen_text(&mut stage)?;
    tour.two_files(&mut stage)?;
    tour.no_guessing(&mut stage)?;
    tour.undo(&mut stage)?;
    tour.another_program(&mut stage)?;
    tour.end(&mut stage)?;
    stage.close()
}

/// What a step brought to show, or how it came out otherwise than told.
type Shown = Result<Vec<Row>, String>;

struct Tour<'a> {
    editor: Editor,
    agent: Session,
    root: &'a Path,
}

impl Tour<'_> {
    fn unseen_text<W: Write>(&mut self, stage: &mut Stage<W>) -> io::Result<()> {
        stage.scene("Nobody writes over what they have not seen")?;
        let seen = self.agent.read(SHOP);
        stage.step(Actor::Agent, "reads shop.py", reads(seen, "VAT = 0.19"))?;

        let typed = self.types(SHOP, "VAT = 0.19", "VAT = 0.21  # since May");
        stage.step(Actor::You, "type in shop.py and do not save", typed)?;

        let (old, new) = (
            "return sum(prices) * (1 + VAT)",
            "return round(sum(prices) * (1 + VAT), 2)",
        );
        let refused = self.agent.edit(SHOP, old, new);
        let told = refuses(refused, "FS_STALE_VERSION", "by the user");
        stage.step(Actor::Agent, "edits shop.py as it remembers it", told)?;

        let seen = self.agent.read(SHOP);
        stage.step(
            Actor::Agent,
            "reads again, and sees your unsaved line",
            reads(seen, "since May"),
        )?;

        let landed = self.agent.edit(SHOP, old, new);
        stage.step(Actor::Agent, "edits again", changes(landed))?;

        let on_disk = self.on_disk(SHOP, SHOP_TEXT);
        stage.step(
            Actor::Disk,
            "shop.py is as it was: saving is up to you",
            on_disk,
        )
    }

    fn two_files<W: Write>(&mut self, stage: &mut Stage<W>) -> io::Result<()> {
        stage.scene("Files change together, or not at all")?;
        let seen = self.agent.read(INVOICE);
        stage.step(
            Actor::Agent,
            "reads invoice.py, which is not open",
            reads(seen, "import total"),
        )?;

        let typed = self.types(SHOP, "A small shop.", "A small shop, open daily.");
        stage.step(Actor::You, "type in shop.py", typed)?;

        let renaming = json!([
            { "kind": "edit", "path": SHOP, "oldString": "def total", "newString": "def gross_total" },
            { "kind": "edit", "path": INVOICE, "oldString": "total", "newString": "gross_total",
              "replaceAll": true },
        ]);
        let before = self.editor.text(SHOP);
        let refused = self.agent.apply(renaming.clone());
        let told = refuses(refused, "FS_STALE_VERSION", "by the user");
        stage.step(Actor::Agent, "renames total() in both files", told)?;

        let untouched = self.on_disk(INVOICE, INVOICE_TEXT).and_then(|rows| {
            if self.editor.text(SHOP) == before {
                Ok(rows)
            } else {
                Err("shop.py has changed".to_string())
            }
        });
        stage.step(
            Actor::Disk,
            "neither file has changed, not even by half",
            untouched,
        )?;

        let seen = self.agent.read(SHOP);
        stage.step(
            Actor::Agent,
            "reads shop.py again",
            reads(seen, "open daily"),
        )?;

        let landed = self.agent.apply(renaming);
        stage.step(
            Actor::Agent,
            "renames: one file in your editor, one on the disk",
            changes(landed),
        )
    }

    fn no_guessing<W: Write>(&mut self, stage: &mut Stage<W>) -> io::Result<()> {
        stage.scene("A place is named, never guessed")?;
        let refused = self.agent.edit(SHOP, "prices", "amounts");
        let told = refuses(refused, "FS_AMBIGUOUS_EDIT", "");
        stage.step(Actor::Agent, "replaces prices, which is there twice", told)?;

        let everywhere = json!({ "path": SHOP, "oldString": "prices", "newString": "amounts", "replaceAll": true });
        let landed = self.agent.call("abreast/edit", everywhere);
        stage.step(Actor::Agent, "says that it means both", changes(landed))
    }

    fn undo<W: Write>(&mut self, stage: &mut Stage<W>) -> io::Result<()> {
        stage.scene("What you take back has not happened")?;
        let typed = self.types(SHOP, "def gross_total", "# TODO\ndef gross_total");
        stage.step(Actor::You, "type in shop.py", typed)?;

        let undone = self.editor.change(SHOP, &[Typing::at([5, 0], [6, 0], "")]);
        let undone = undone.map(|()| Vec::new()).map_err(|it| it.to_string());
        stage.step(Actor::You, "delete it again", undone)?;

        let landed = self.agent.edit(SHOP, "VAT = 0.21", "VAT: float = 0.21");
        stage.step(
            Actor::Agent,
            "edits, and need not read again",
            changes(landed),
        )
    }

    fn another_program<W: Write>(&mut self, stage: &mut Stage<W>) -> io::Result<()> {
        stage.scene("Other programs count too")?;
        let seen = self.agent.read(PRICES);
        stage.step(
            Actor::Agent,
            "reads prices.toml, which is not open",
            reads(seen, "coffee = 5"),
        )?;

        fs::write(self.root.join(PRICES), "tea = 4\ncoffee = 6\n")?;
        let rows = vec![Row::minus(2, "coffee = 5"), Row::plus(2, "coffee = 6")];
        stage.step(Actor::Disk, "another program rewrites it", Ok(rows))?;

        let refused = self.agent.write(PRICES, "tea = 5\ncoffee = 5\n");
        let told = refuses(refused, "FS_STALE_VERSION", "");
        stage.step(Actor::Agent, "writes the file as it remembers it", told)?;

        let seen = self.agent.read(PRICES);
        stage.step(Actor::Agent, "reads again", reads(seen, "coffee = 6"))?;

        let landed = self.agent.edit(PRICES, "tea = 4", "tea = 5");
        let landed = changes(landed)
            .and_then(|rows| self.on_disk(PRICES, "tea = 5\ncoffee = 6\n").map(|_| rows));
        stage.step(Actor::Agent, "changes the line that it means", landed)
    }

    fn end<W: Write>(&mut self, stage: &mut Stage<W>) -> io::Result<()> {
        stage.scene("And in the end")?;
        let expected = r#""""A small shop, open daily."""

VAT: float = 0.21  # since May


def gross_total(amounts):
    return round(sum(amounts) * (1 + VAT), 2)
"#;
        let saved = self.editor.save(SHOP).map_err(|it| it.to_string());
        let saved = saved.and_then(|()| self.on_disk(SHOP, expected)).map(|_| {
            let lines = expected.lines().enumerate();
            lines
                .map(|(line_idx, line)| Row::plain(line_idx + 1, line))
                .collect()
        });
        stage.step(
            Actor::You,
            "save shop.py: every word of yours and of the agent's is there",
            saved,
        )?;
        let ended = match self.editor.shut_down(Duration::from_secs(2)) {
            Some(status) if status.success() => Ok(Vec::new()),
            Some(status) => Err(format!("the server ended with {status}")),
            None => Err("the server did not end".to_string()),
        };
        stage.step(
            Actor::You,
            "close the editor, and the sidecar ends with it",
            ended,
        )
    }

    fn types(&self, path: &str, old: &str, new: &str) -> Shown {
        let before = self.editor.text(path).unwrap_or_default();
        self.editor
            .types(path, old, new)
            .map_err(|it| it.to_string())?;
        let after = self.editor.text(path).unwrap_or_default();
        Ok(stage::difference(&before, &after))
    }

    fn on_disk(&self, path: &str, expected: &str) -> Shown {
        match fs::read_to_string(self.root.join(path)) {
            Ok(found) if found == expected => Ok(Vec::new()),
            Ok(found) => Err(format!("{path} has on the disk: {found:?}")),
            Err(error) => Err(format!("{path}: {error}")),
        }
    }
}

fn reads(answer: Result<Value, CallError>, expected: &str) -> Shown {
    let result = answer.map_err(|it| it.to_string())?;
    let text = result["text"].as_str().unwrap_or_default();
    if text.contains(expected) {
        Ok(Vec::new())
    } else {
        Err(format!("it reads {text:?}"))
    }
}

fn changes(answer: Result<Value, CallError>) -> Shown {
    let result = answer.map_err(|it| it.to_string())?;
    let files = result["files"]
        .as_array()
        .ok_or("the result has no files")?;
    let mut rows = Vec::new();
    for file in files {
        if files.len() > 1 {
            let place = if file["via"] == "editor" {
                "in the editor"
            } else {
                "on the disk"
            };
            rows.push(Row::heading(&format!(
                "{} {place}",
                file["path"].as_str().unwrap_or_default()
            )));
        }
        rows.extend(stage::hunks(&file["hunks"]));
    }
    rows.push(Row::Landed);
    Ok(rows)
}

fn refuses(answer: Result<Value, CallError>, code: &str, part: &str) -> Shown {
    match answer {
        Ok(_) => Err(format!("it was done, but {code} was to be expected")),
        Err(error) if error.code() == code && error.message().contains(part) => {
            Ok(vec![Row::Refused {
                code: code.to_string(),
                message: error.message(),
            }])
        }
        Err(error) => Err(format!("{error} (expected: {code} {part})")),
    }
}
