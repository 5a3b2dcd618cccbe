//! Work that was given away, and time.

use super::*;

impl World {
    pub(super) fn run(&mut self, nth: usize, luck: Luck) {
        let waiting = self.jobs.iter_mut().filter(|it| !it.is_done()).nth(nth);
        let Some(job) = waiting else { return };
        let before = self.disk.files.clone();
        if let JobState::Waiting(Work::Commit { staged }) = job.state {
            let changes = self.staged.remove(&staged.0);
            let changes = changes.expect("what is committed was staged");
            job.state = JobState::Committing(Commit::new(changes), staged.0);
        }
        if let JobState::Committing(under_way, staged) = &mut job.state {
            let committed = under_way.finish(&mut self.disk, luck);
            let staged = *staged;
            self.is_committed(nth, staged, committed, &before);
            return;
        }
        let JobState::Waiting(work) = &job.state else {
            return;
        };
        let mut is_computed = false;
        let outcome = match work {
            Work::Look { key, like, .. } => {
                let crate::path::FileKey::Path(path) = key else {
                    unreachable!("only files are looked at")
                };
                Outcome::Looked(match self.disk.files.get(&files::of_path(path)) {
                    Some(text) => Looked::text(Text::flat(text.clone()), like.as_ref()),
                    None => Looked::Absent { near: Vec::new() },
                })
            }
            Work::Stage { changes } => {
                let staged = self.disk.check(changes);
                Outcome::Staged(staged.and_then(|()| luck.of_stage(changes)).map(|()| {
                    self.staged.insert(job.id.0, changes.clone());
                    self.disk.in_place(changes)
                }))
            }
            Work::Commit { .. } => unreachable!("see above"),
            Work::Abort { .. } | Work::Recall { .. } => unreachable!("done at once"),
            Work::Compute(_) => {
                is_computed = true;
                let JobState::Waiting(Work::Compute(compute)) = std::mem::replace(
                    &mut job.state,
                    JobState::Waiting(Work::Abort { staged: job.id }),
                ) else {
                    return;
                };
                compute.run()
            }
        };
        job.state = JobState::Done {
            outcome,
            commit: None,
            is_computed,
        };
    }

    /// The disk makes the next change of a commit.
    pub(super) fn begin(&mut self, nth: usize) {
        let before = self.disk.files.clone();
        let waiting = self.jobs.iter_mut().filter(|it| !it.is_done()).nth(nth);
        let Some(job) = waiting else { return };
        if let JobState::Waiting(Work::Commit { staged }) = job.state {
            let changes = self.staged.remove(&staged.0);
            let changes = changes.expect("what is committed was staged");
            job.state = JobState::Committing(Commit::new(changes), staged.0);
        }
        let JobState::Committing(commit, staged) = &mut job.state else {
            return;
        };
        let staged = *staged;
        if commit.is_made() {
            return;
        }
        match commit.make_next(&mut self.disk) {
            Ok(()) => self.written(&before),
            Err(failure) => self.is_committed(nth, staged, Err(failure), &before),
        }
    }

    /// The disk is done with a commit.
    fn is_committed(
        &mut self,
        nth: usize,
        staged: u64,
        committed: Result<(), DiskFailure>,
        before: &BTreeMap<u8, String>,
    ) {
        self.written(before);
        self.oracle.is_over(staged, &committed);
        let mut waiting = self.jobs.iter_mut().filter(|it| !it.is_done());
        let job = waiting.nth(nth).expect("it was there");
        job.state = JobState::Done {
            outcome: Outcome::Committed(committed),
            commit: Some(staged),
            is_computed: false,
        };
    }

    /// Notes what is on disk now.
    pub(super) fn written(&mut self, before: &BTreeMap<u8, String>) {
        for file in 0..UNTITLED {
            let now = self.disk.files.get(&file);
            if before.get(&file) != now {
                self.write(file, now.cloned());
            }
        }
    }

    pub(super) fn finish(&mut self, nth: usize) -> Checked {
        let Some(idx) = self
            .jobs
            .iter()
            .enumerate()
            .filter(|it| it.1.is_done())
            .map(|it| it.0)
            .nth(nth)
        else {
            return Ok(());
        };
        let Job { id, since, state } = self.jobs.remove(idx);
        let JobState::Done {
            outcome,
            commit,
            is_computed,
        } = state
        else {
            return Ok(());
        };
        if matches!(outcome, Outcome::Committed(Ok(()))) {
            self.oracle.moved();
        }
        match (commit, &outcome) {
            (Some(staged), Outcome::Committed(Ok(()))) => self.oracle.committed(staged)?,
            (Some(staged), Outcome::Committed(Err(failure))) if failure.unrestored.is_empty() => {
                self.oracle.not_committed(staged);
            }
            (Some(staged), Outcome::Committed(Err(_))) => self.oracle.half_committed(staged),
            _ => {}
        }
        if self.trace {
            let name = format!("{outcome:?}");
            trace(&format!(
                "    job {id:?}: {}",
                name.chars().take(160).collect::<String>()
            ));
        }
        self.dispatch(
            Event::Done { job: id, outcome },
            None,
            is_computed.then_some(since),
        )
    }

    fn passes(&mut self, ms: Millis) -> Checked {
        self.now += ms;
        if self.jobs.is_empty() {
            self.oracle.waits(ms)?;
        }
        Ok(())
    }

    pub(super) fn start(&mut self, job: JobId, work: Work) -> Checked {
        if self.trace {
            let name = format!("{work:?}");
            trace(&format!(
                "    start {job:?}: {}",
                name.chars().take(200).collect::<String>()
            ));
        }
        match &work {
            Work::Abort { staged } => {
                self.staged.remove(&staged.0);
                return Ok(());
            }
            Work::Recall { commit } => {
                let mut jobs = self.jobs.iter_mut().filter(|it| it.id == *commit);
                match jobs.next().map(|it| &mut it.state) {
                    Some(JobState::Committing(commit, _)) => commit.is_recalled = true,
                    Some(state @ JobState::Waiting(_)) => {
                        let JobState::Waiting(Work::Commit { staged }) = *state else {
                            return Ok(());
                        };
                        let changes = self.staged.remove(&staged.0).unwrap_or_default();
                        let mut recalled = Commit::new(changes);
                        recalled.is_recalled = true;
                        *state = JobState::Committing(recalled, staged.0);
                    }
                    Some(JobState::Done { .. }) | None => {}
                }
                return Ok(());
            }
            Work::Stage { changes } => self.oracle.staged(job.0, changes)?,
            Work::Commit { staged } => {
                let changes = self.staged.get(&staged.0).cloned().unwrap_or_default();
                self.oracle.granted(staged.0, &changes)?;
            }
            Work::Look { .. } | Work::Compute(_) => {}
        }
        let since = self.oracle.tick();
        self.jobs.push(Job {
            id: job,
            since,
            state: JobState::Waiting(work),
        });
        Ok(())
    }

    pub(super) fn wait(&mut self, ms: Millis) -> Checked {
        let until = self.now + ms;
        while let Some(at) = self.wake_at.filter(|it| *it <= until) {
            let at = self.now.max(at);
            self.passes(at - self.now)?;
            self.wake_at = None;
            self.dispatch(Event::Tick, None, None)?;
        }
        self.passes(until - self.now)
    }
}
