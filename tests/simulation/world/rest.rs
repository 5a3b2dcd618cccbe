//! Coming to rest, and what must be so then.

use super::*;

impl World {
    /// Lets everything come to rest, everybody doing what they should, and checks what must be so then.
    pub(in crate::simulation) fn rest(&mut self) -> Checked {
        self.is_at_rest = true;
        self.settle()?;
        let left = self.oracle.unanswered();
        if !left.is_empty() || self.workspace.n_calls() > 0 {
            return Err(Violation {
                invariant: Invariant::Answered,
                detail: format!("calls {left:?} are not answered"),
            });
        }
        if !self.staged.is_empty() {
            return Err(Violation {
                invariant: Invariant::AllOrNone,
                detail: "something is staged, and neither committed nor aborted".to_string(),
            });
        }
        let sessions: Vec<(usize, u8)> = self
            .oracle
            .sessions
            .iter()
            .enumerate()
            .filter(|it| it.1.live)
            .map(|(idx, it)| (idx, it.name))
            .collect();
        for (idx, _) in &sessions {
            self.oracle.check_told(*idx)?;
        }
        for file in self.editor.documents.keys().copied().collect::<Vec<_>>() {
            // Who cannot be asked for the full text leaves a document unknown.
            if self.setup.sync || !self.oracle.is_desynced(file) {
                self.check_text(file)?;
            }
        }
        for (idx, name) in sessions {
            self.ledger(name, None, false)?;
            let id = self.next_call;
            self.settle()?;
            match self.answers.remove(&id) {
                Some(Answer::Ledger(result)) => self.oracle.check_ledger(idx, &result.entries)?,
                _ => {
                    return Err(Violation {
                        invariant: Invariant::Answered,
                        detail: "no ledger was answered".to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    pub(super) fn settle(&mut self) -> Checked {
        let until = self.now + REST_MS;
        for _ in 0..REST_ROUNDS {
            let mut is_busy = false;
            while !self.editor.held.is_empty() {
                self.editor.settle(0, Style::Exact);
                is_busy = true;
            }
            while !self.editor.inbox.is_empty() {
                self.handle(0, Manner::Right(Style::Exact))?;
                is_busy = true;
            }
            for file in self.editor.documents.keys().copied().collect::<Vec<_>>() {
                self.editor.flush(file, Style::Exact);
            }
            while !self.editor.outbox.is_empty() {
                self.deliver()?;
                is_busy = true;
            }
            while !self.jobs.is_empty() {
                self.run(0, Luck::Good);
                self.finish(0)?;
                is_busy = true;
            }
            if is_busy {
                continue;
            }
            match self.wake_at {
                Some(at) if at <= until => self.wait(at.saturating_sub(self.now))?,
                _ => return Ok(()),
            }
        }
        Err(Violation {
            invariant: Invariant::Answered,
            detail: "it does not come to rest".to_string(),
        })
    }

    pub(super) fn check_text(&mut self, file: u8) -> Checked {
        let params = ReadParams {
            session_id: None,
            path: files::path(file).to_string(),
            offset: None,
            limit: None,
            format: crate::protocol::Format::Text,
        };
        self.call(None, Kind::Read { file }, Request::Read(params))?;
        let id = self.next_call;
        self.settle()?;
        let is = self
            .editor
            .documents
            .get(&file)
            .map(|it| view(&it.text))
            .unwrap_or_default();
        let wrong = |what: String| Violation {
            invariant: Invariant::Text,
            detail: format!("{}: {what}", files::path(file)),
        };
        match self.answers.remove(&id) {
            Some(Answer::Read(result)) if result.truncated || result.text == is => Ok(()),
            Some(Answer::Read(result)) => Err(wrong(format!(
                "the editor has {is:?}, the sidecar {:?}",
                result.text
            ))),
            _ => Err(wrong("it cannot be read".to_string())),
        }
    }
}
