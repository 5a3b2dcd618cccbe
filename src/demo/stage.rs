//! How the demo looks: scenes, steps, small differences, and one line of counts.

use std::{
    io::{self, Write},
    path::Path,
    thread,
    time::Duration,
};

use anstyle::{AnsiColor, Style};
use serde_json::Value;

const WIDTH: usize = 92;
/// Where the rows below a step begin.
const INDENT: usize = 10;

const TITLE: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const GREEN: Style = AnsiColor::Green.on_default();
const RED: Style = AnsiColor::Red.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();

/// Who does something.
#[derive(Clone, Copy, Debug)]
pub(super) enum Actor {
    Agent,
    You,
    Disk,
}

impl Actor {
    fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::You => "you",
            Self::Disk => "disk",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Agent => AnsiColor::Magenta.on_default().bold(),
            Self::You => AnsiColor::Cyan.on_default().bold(),
            Self::Disk => AnsiColor::Blue.on_default().bold(),
        }
    }
}

/// Something shown below a step.
#[derive(Clone, Debug)]
pub(super) enum Row {
    /// A line of a text, with its number and `-`, `+` or a blank before it.
    Line {
        number: usize,
        sign: char,
        text: String,
    },
    /// What the rows after it belong to.
    Heading(String),
    /// A change has landed; it is counted, and the step says so.
    Landed,
    /// A change was refused; it is counted, and the step says so.
    Refused { code: String, message: String },
}

impl Row {
    pub(super) fn plain(number: usize, text: &str) -> Self {
        Self::Line {
            number,
            sign: ' ',
            text: text.to_string(),
        }
    }

    pub(super) fn minus(number: usize, text: &str) -> Self {
        Self::Line {
            number,
            sign: '-',
            text: text.to_string(),
        }
    }

    pub(super) fn plus(number: usize, text: &str) -> Self {
        Self::Line {
            number,
            sign: '+',
            text: text.to_string(),
        }
    }

    pub(super) fn heading(text: &str) -> Self {
        Self::Heading(text.to_string())
    }
}

/// Where the tour is shown, and what has been counted.
pub(super) struct Stage<'a, W> {
    out: &'a mut W,
    pace: Duration,
    n_scenes: usize,
    n_steps: usize,
    n_as_told: usize,
    n_landed: usize,
    n_refused: usize,
}

impl<'a, W: Write> Stage<'a, W> {
    pub(super) fn new(out: &'a mut W, pace: Duration) -> Self {
        Self {
            out,
            pace,
            n_scenes: 0,
            n_steps: 0,
            n_as_told: 0,
            n_landed: 0,
            n_refused: 0,
        }
    }

    pub(super) fn open(&mut self, root: &Path) -> io::Result<()> {
        writeln!(
            self.out,
            "{TITLE}abreast{TITLE:#}: an agent and you, in the same files at the same time"
        )?;
        writeln!(self.out)?;
        let introduction = format!(
            "The agent reads and writes through the sidecar; your editor tells it every keystroke. All of this \
             really happens, in {}, with a server process of its own. shop.py is open in your editor.",
            root.display()
        );
        for line in wrap(&introduction, WIDTH) {
            writeln!(self.out, "{FAINT}{line}{FAINT:#}")?;
        }
        self.pause(2)
    }

    pub(super) fn scene(&mut self, title: &str) -> io::Result<()> {
        self.n_scenes += 1;
        writeln!(self.out, "\n{TITLE}{}  {title}{TITLE:#}\n", self.n_scenes)?;
        self.pause(1)
    }

    /// Shows a step; one that did not come out as told is marked, and the tour goes on.
    pub(super) fn step(
        &mut self,
        actor: Actor,
        what: &str,
        shown: Result<Vec<Row>, String>,
    ) -> io::Result<()> {
        self.n_steps += 1;
        let (style, name) = (actor.style(), actor.name());
        write!(self.out, "   {style}{name:<5}{style:#}  {what}")?;
        match shown {
            Ok(rows) => {
                self.n_as_told += 1;
                self.verdict(&rows)?;
                for row in &rows {
                    self.row(row)?;
                }
            }
            Err(found) => {
                writeln!(self.out, "  {RED}✗ not as told{RED:#}")?;
                for line in wrap(&found, WIDTH - INDENT) {
                    writeln!(self.out, "{:INDENT$}{RED}{line}{RED:#}", "")?;
                }
            }
        }
        self.pause(1)
    }

    /// Shows the counts, and returns whether everything came out as told.
    pub(super) fn close(self) -> io::Result<bool> {
        let Self {
            n_steps,
            n_as_told,
            n_landed,
            n_refused,
            ..
        } = self;
        let is_right = n_as_told == n_steps;
        let (style, sign, end) = if is_right {
            (GREEN, '✓', ", none of your words was lost")
        } else {
            (RED, '✗', "")
        };
        writeln!(
            self.out,
            "\n{style}{sign} {n_as_told} of {n_steps} steps came out as told: {n_landed} changes landed, \
             {n_refused} were refused{end}.{style:#}"
        )?;
        Ok(is_right)
    }

    fn verdict(&mut self, rows: &[Row]) -> io::Result<()> {
        if rows.iter().any(|it| matches!(it, Row::Refused { .. })) {
            self.n_refused += 1;
            writeln!(self.out, "  {YELLOW}⊘ refused{YELLOW:#}")
        } else if rows.iter().any(|it| matches!(it, Row::Landed)) {
            self.n_landed += 1;
            writeln!(self.out, "  {GREEN}✓ done{GREEN:#}")
        } else {
            writeln!(self.out)
        }
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        match row {
            Row::Line { number, sign, text } => {
                let style = match sign {
                    '-' => RED,
                    '+' => GREEN,
                    _ => Style::new(),
                };
                writeln!(
                    self.out,
                    "{:INDENT$}{FAINT}{number:>2}{FAINT:#} {style}{sign} {text}{style:#}",
                    ""
                )
            }
            Row::Heading(text) => writeln!(self.out, "{:INDENT$}{FAINT}{text}{FAINT:#}", ""),
            Row::Landed => Ok(()),
            Row::Refused { code, message } => {
                let mut lines = wrap(&format!("{code}: {message}"), WIDTH - INDENT).into_iter();
                let first = lines.next().unwrap_or_default();
                let rest = first.strip_prefix(code.as_str()).unwrap_or_default();
                writeln!(self.out, "{:INDENT$}{YELLOW}{code}{YELLOW:#}{rest}", "")?;
                lines.try_for_each(|line| writeln!(self.out, "{:INDENT$}{line}", ""))
            }
        }
    }

    fn pause(&mut self, n_beats: u32) -> io::Result<()> {
        self.out.flush()?;
        thread::sleep(self.pace * n_beats);
        Ok(())
    }
}

/// Returns the changed lines of a result's hunks, without their context.
pub(super) fn hunks(hunks: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    for hunk in hunks.as_array().into_iter().flatten() {
        let start = |member: &str| {
            hunk[member]
                .as_u64()
                .and_then(|it| usize::try_from(it).ok())
                .unwrap_or(1)
        };
        let (mut old, mut new) = (start("oldStart"), start("newStart"));
        for line in hunk["lines"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            let text = line.get(1..).unwrap_or_default();
            match line.chars().next() {
                Some('-') => {
                    rows.push(Row::minus(old, text));
                    old += 1;
                }
                Some('+') => {
                    rows.push(Row::plus(new, text));
                    new += 1;
                }
                Some(' ') => {
                    old += 1;
                    new += 1;
                }
                _ => {}
            }
        }
    }
    rows
}

/// Returns the lines that differ, of two texts that differ in one place.
pub(super) fn difference(before: &str, after: &str) -> Vec<Row> {
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let n_head = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    let tails = old[n_head..].iter().rev().zip(new[n_head..].iter().rev());
    let n_tail = tails.take_while(|(old, new)| old == new).count();
    let minus = (n_head..old.len() - n_tail).map(|it| Row::minus(it + 1, old[it]));
    let plus = (n_head..new.len() - n_tail).map(|it| Row::plus(it + 1, new[it]));
    minus.chain(plus).collect()
}

/// Breaks a text between words so that no line is longer than `width` where that is possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(rows: &[Row]) -> String {
        let mut seen = Vec::new();
        let mut stage = Stage::new(&mut seen, Duration::ZERO);
        rows.iter()
            .try_for_each(|it| stage.row(it))
            .expect("a vector takes all");
        String::from_utf8(anstream::adapter::strip_bytes(&seen).into_vec()).expect("UTF-8")
    }

    #[test]
    fn the_changed_lines_have_their_numbers() {
        let hunk =
            json!([{ "oldStart": 2, "newStart": 2, "lines": [" a", "-b", "+B", "+C", " d"] }]);
        let found = shown(&hunks(&hunk));
        assert_eq!(
            found,
            "           3 - b\n           3 + B\n           4 + C\n"
        );
        let found = shown(&difference("a\nb\n", "a\n# new\nb\n"));
        assert_eq!(found, "           2 + # new\n");
    }

    #[test]
    fn a_long_message_is_broken_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 4), ["unbreakable"]);
    }

    #[test]
    fn one_step_not_as_told_spoils_the_tour() {
        let mut seen = Vec::new();
        let mut stage = Stage::new(&mut seen, Duration::ZERO);
        stage
            .step(Actor::Agent, "edits", Ok(vec![Row::Landed]))
            .expect("a vector takes all");
        stage
            .step(Actor::You, "type", Err("it did not".to_string()))
            .expect("a vector takes all");
        assert!(!stage.close().expect("a vector takes all"));
        let seen = String::from_utf8(seen).expect("UTF-8");
        assert!(
            seen.contains("1 of 2 steps came out as told: 1 changes landed, 0 were refused."),
            "{seen}"
        );
    }
}
