//! The end of the editor, and of the sidecar.

use super::*;

impl World {
    /// The editor is gone; the sidecar ends once no commit is half done, and others start.
    pub(super) fn quit(&mut self) -> Checked {
        // What was sent is read before the end.
        self.editor.held.clear();
        while !self.editor.outbox.is_empty() {
            self.deliver()?;
        }
        self.oracle.editor_gone();
        self.editor.leave();
        for session in 0..3 {
            if connection_of(Some(session)) == ConnectionId::EDITOR {
                self.oracle.close_session(session);
            }
        }
        self.dispatch(Event::Ended, None, None)?;
        while let Some(nth) = self.nth_commit() {
            self.run(nth, Luck::Good);
            let done = self.jobs.iter().filter(|it| it.is_done());
            self.finish(done.count() - 1)?;
        }
        self.restart();
        Ok(())
    }

    /// The sidecar dies; what it had begun to commit is finished by the next one, if that can be.
    pub(super) fn crash(&mut self) {
        for idx in 0..self.jobs.len() {
            let JobState::Committing(commit, _) = &mut self.jobs[idx].state else {
                continue;
            };
            commit.is_recalled = false;
            let before = self.disk.files.clone();
            let _ = commit.finish(&mut self.disk, Luck::Good);
            self.written(&before);
        }
        self.restart();
        self.editor.meet_another();
    }

    /// Which of the jobs that are not done is a commit.
    fn nth_commit(&self) -> Option<usize> {
        let mut waiting = self.jobs.iter().filter(|it| !it.is_done());
        waiting.position(Job::is_commit)
    }

    fn restart(&mut self) {
        self.jobs.clear();
        self.staged.clear();
        self.turns.clear();
        self.wake_at = None;
        self.oracle.restarted();
        self.start_sidecar();
    }
}
