//! Work that was given away, and time.

use super::*;

impl World {
    pub(super) fn run(&mut self, nth: usize, luck: Luck) {
        let waiting = self.jobs.iter_mut().filter(|it| !it.is_done()).nth(nth);
        let Some(job) = waiting else { return };
        let JobState::Waiting(work) = &job.state else {
            return;
        };
        let mut commit = None;
        let mut is_computed = false;
        let bad = |change: usize| DiskFailure {
            change,
            error: DiskError {
                kind: DiskErrorKind::Io,
                detail: "bad luck".to_string(),
            },
            rolled_back: true,
            unrestored: Vec::new(),
            kept: Vec::new(),
        };
        let mut written = Vec::new();
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
            Work::Stage { changes } => Outcome::Staged(match (luck, self.disk.check(changes)) {
                (_, Err(failure)) => Err(failure),
                (Luck::Bad(n), Ok(())) => Err(bad(usize::from(n) % changes.len())),
                (_, Ok(())) => {
                    self.staged.insert(job.id.0, changes.clone());
                    Ok(vec![false; changes.len()])
                }
            }),
            Work::Commit { staged } => {
                let changes = self
                    .staged
                    .remove(&staged.0)
                    .expect("what is committed was staged");
                let before = self.disk.files.clone();
                let committed = self.disk.commit(&changes, luck);
                for file in changes.iter().flat_map(files::files_of) {
                    let now = self.disk.files.get(&file);
                    if before.get(&file) != now && !written.contains(&(file, now.cloned())) {
                        written.push((file, now.cloned()));
                    }
                }
                commit = Some(staged.0);
                Outcome::Committed(committed)
            }
            Work::Abort { .. } => unreachable!("done at once"),
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
            commit,
            is_computed,
        };
        for (file, text) in written {
            self.write(file, text);
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
        match (commit, &outcome) {
            (Some(staged), Outcome::Committed(Ok(()))) => self.oracle.committed(staged),
            (Some(staged), Outcome::Committed(Err(failure))) if failure.rolled_back => {
                self.oracle.not_committed(staged);
            }
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
