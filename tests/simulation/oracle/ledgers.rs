//! What is told of ledgers.

use super::*;

impl Oracle {
    /// A row of `ledgerChanged` or of an answer; `since`: it was begun then, and made elsewhere.
    pub(super) fn told_row(
        &mut self,
        session: usize,
        row: &LedgerEntry,
        since: Option<u64>,
    ) -> Checked {
        let file = files::of_uri(&row.uri);
        let said: Option<Shared> = match row.state {
            Seen::Unseen => None,
            Seen::Absent => Some(None),
            Seen::Present => {
                let content = row.version.and_then(|it| self.contents.get(&it)).cloned();
                let Some(content) = content else {
                    return broken(Invariant::Ledger, "an entry for what never was");
                };
                Some(Some(content))
            }
        };
        self.decide(session, file, said.as_ref());
        let seen = self.last_seen(session, file);
        if seen != said && self.was_seen(session, file, since).contains(&said) {
            // The row was begun before that.
            return Ok(());
        }
        if seen != said {
            let credit = self.unknown.iter().find(|it| {
                it.session == session
                    && it.file == file
                    && Some(&it.content) == said.as_ref()
                    && (self.has_landed(it)
                        || self
                            .contents_since(file, self.calls[&it.call].head)
                            .contains(&it.content))
            });
            let is_handed_over =
                matches!((&seen, &said), (Some(seen), Some(said)) if alike(seen, said));
            if credit.is_none() && !is_handed_over {
                return broken(
                    Invariant::Ledger,
                    format!(
                        "{}: the entry is {said:?}, shown was {seen:?}",
                        files::path(file)
                    ),
                );
            }
            let noted = self.sessions[session]
                .entries
                .get(&file)
                .and_then(|it| it.last());
            let noted = noted.filter(|_| is_handed_over);
            let turn = noted.and_then(|it| it.turn);
            let reached = credit.and_then(|it| it.reached);
            let since = noted.map_or(reached.unwrap_or(self.clock), |it| it.since);
            self.observe(session, file, since, said, turn);
        }
        self.sessions[session].told.insert(file, row.status);
        Ok(())
    }

    /// Of two that may count the sidecar says which one does.
    fn decide(&mut self, session: usize, file: u8, said: Option<&Shared>) {
        let entries = self.sessions[session].entries.get_mut(&file);
        let Some(last) = entries.and_then(|it| it.last_mut()) else {
            return;
        };
        if let Some(rival) = last.rival.take()
            && rival.seen.as_ref() == said
        {
            last.seen = rival.seen;
        }
    }

    /// A host said what its model was shown.
    pub(super) fn observed(&mut self, id: u64, row: &LedgerEntry, since: Option<u64>) -> Checked {
        let call = &self.calls[&id];
        let (Kind::Observe { file, said }, Some(session)) = (&call.kind, call.session) else {
            return broken(Invariant::Answered, "an observation that was none");
        };
        let (file, said, turn, arrived) = (*file, *said, call.turn, call.arrived);
        if let (Said::Lost, Some(version)) = (said, row.version) {
            // Nothing that ever was, so that it is stale for good.
            let lost = Rc::from(format!("\0{version:?}"));
            if self.contents.insert(version, lost).is_some() {
                return broken(Invariant::Ledger, "what is not known is taken for known");
            }
        }
        let content: Shared = match row.version {
            None => None,
            Some(version) => match self.contents.get(&version) {
                Some(content) => Some(Rc::clone(content)),
                None => return broken(Invariant::Ledger, "an entry for what never was"),
            },
        };
        let is_there = self.contents_since(file, arrived).contains(&content);
        let is_as_said = match said {
            Said::Current => is_there,
            Said::Version(version) => row.version == Some(version),
            Said::Lost => row.version.is_some(),
        };
        if !is_as_said {
            return broken(
                Invariant::Ledger,
                format!("{} is noted as {content:?}", files::path(file)),
            );
        }
        if row.status == Status::Fresh && !is_there {
            return broken(
                Invariant::Ledger,
                format!("{} is not {content:?}", files::path(file)),
            );
        }
        let since = since.unwrap_or_else(|| self.tick());
        let was_told = self.sessions[session].told.get(&file).copied();
        self.observe(session, file, since, Some(content.clone()), turn);
        let is_older = self.last_seen(session, file) != Some(content);
        // A row of something older says nothing of what the session saw since.
        let status = was_told.filter(|_| is_older).unwrap_or(row.status);
        self.sessions[session].told.insert(file, status);
        Ok(())
    }

    /// A host is given a ledger to keep.
    pub(super) fn exported(result: &LedgerResult) -> Checked {
        let Some(export) = &result.export else {
            return Ok(());
        };
        let rows = result.entries.iter().filter(|it| it.state != Seen::Unseen);
        let rows = rows.map(|it| (&it.path, it.state, it.version));
        if rows.eq(export
            .entries
            .iter()
            .map(|it| (&it.path, it.state, it.version)))
        {
            Ok(())
        } else {
            broken(Invariant::Ledger, "what is exported is not what is told")
        }
    }

    /// A session was opened, perhaps with a ledger: an entry counts again if the file still holds that.
    pub(super) fn imported(
        &mut self,
        id: u64,
        result: &OpenSessionResult,
        since: Option<u64>,
    ) -> Checked {
        let call = &self.calls[&id];
        let (Kind::Import { entries }, Some(session)) = (&call.kind, call.session) else {
            return Ok(());
        };
        let (mut may, mut must) = (Vec::new(), 0);
        for entry in entries {
            let file = plan::file_of(&entry.path);
            let seen: Shared = entry.version.and_then(|it| self.contents.get(&it)).cloned();
            let truth = &self.files[usize::from(file)];
            let is_open =
                truth.mirror.is_some() && truth.turned.iter().all(|it| *it < call.arrived);
            let was = if is_open {
                let was = Self::since(&truth.was, call.arrived);
                was.map(|it| it.content.clone()).collect()
            } else {
                self.contents_since(file, call.arrived)
            };
            let is_certain = was.iter().all(|it| *it == seen);
            if was.contains(&seen) {
                must += usize::from(is_certain);
                may.push((file, seen, is_certain));
            }
        }
        let n = result.revalidated.unwrap_or_default();
        let n_all = n + result.dropped.unwrap_or_default();
        if n < must || n > may.len() || n_all != entries.len() {
            return broken(
                Invariant::Ledger,
                format!(
                    "{n} of {n_all} entries count again, and {must} to {} do",
                    may.len()
                ),
            );
        }
        let since = since.unwrap_or_else(|| self.tick());
        let n_may = may.len();
        for (file, seen, is_certain) in may {
            if !is_certain && n == must {
                continue;
            }
            let before = self.last_seen(session, file);
            self.observe(session, file, since, Some(seen), None);
            if !is_certain && n < n_may {
                let noted = self.sessions[session].entries.get_mut(&file);
                if let Some(noted) = noted.and_then(|it| it.last_mut()) {
                    noted.rival = Some(Rival {
                        since,
                        seen: before,
                    });
                }
            }
        }
        Ok(())
    }

    /// A session has forgotten what it had seen.
    pub(super) fn forgotten(&mut self, id: u64, forgotten: usize) -> Checked {
        let call = &self.calls[&id];
        let (Kind::Forget { file }, Some(session)) = (&call.kind, call.session) else {
            return broken(Invariant::Answered, "nothing was to be forgotten");
        };
        let entries = &self.sessions[session].entries;
        let is_known = |it: &u8| entries[it].last().is_some_and(|it| it.seen.is_some());
        let files: Vec<u8> = entries
            .keys()
            .copied()
            .filter(|it| file.is_none_or(|file| file == *it) && is_known(it))
            .collect();
        let is_certain = entries.values().flatten().all(|it| it.rival.is_none());
        if files.len() != forgotten && is_certain {
            return broken(
                Invariant::Ledger,
                format!("{forgotten} entries are forgotten, there were {files:?}"),
            );
        }
        let now = self.tick();
        for file in files {
            self.observe(session, file, now, None, None);
        }
        Ok(())
    }

    pub(in crate::simulation) fn told(&mut self, params: &Value) -> Checked {
        let name = params["sessionId"]
            .as_str()
            .and_then(|it| it.strip_prefix('s')?.parse::<u8>().ok())
            .expect("s0");
        let Some(session) = self.session(name) else {
            return broken(
                Invariant::Ledger,
                "a session that is closed is told something",
            );
        };
        for row in params["entries"].as_array().expect("entries") {
            let row = row_of(row);
            let own = Author::Session {
                session_id: format!("s{name}"),
            };
            // What stayed of a call that failed is news, and so is what a closed session of that name has done.
            let file = files::of_uri(&row.uri);
            let has_stayed = self.calls.values().any(|it| {
                let is_earlier = it.session.is_some_and(|of| {
                    of != session && self.sessions[of].name == self.sessions[session].name
                });
                // What was done and taken back is news to a session that read it in between.
                let is_left = matches!(it.answered, Some(Outcome::Refused(_)))
                    && (it.disk.over.is_some() || it.sent);
                it.files.contains(&file) && (is_earlier || it.session == Some(session) && is_left)
            });
            let is_own = !row.changed_by.is_empty() && row.changed_by.iter().all(|it| *it == own);
            if is_own && !has_stayed {
                return broken(
                    Invariant::Ledger,
                    format!("{}: a session is told of its own change", row.path),
                );
            }
            self.told_row(session, &row, None)?;
        }
        Ok(())
    }

    /// Everything has come to rest, and a session asked for its ledger.
    pub(in crate::simulation) fn check_ledger(
        &self,
        session: usize,
        rows: &[LedgerEntry],
    ) -> Checked {
        let truth = &self.sessions[session];
        for (&file, entries) in &truth.entries {
            let Some(Noted {
                since,
                seen: Some(seen),
                ..
            }) = entries.last()
            else {
                continue;
            };
            let path = files::path(file);
            let Some(row) = rows.iter().find(|it| files::of_uri(&it.uri) == file) else {
                if entries
                    .last()
                    .is_some_and(|it| matches!(it.rival, Some(Rival { seen: None, .. })))
                {
                    continue;
                }
                return broken(
                    Invariant::Ledger,
                    format!("{path} has no entry, shown was {seen:?}"),
                );
            };
            let file = &self.files[usize::from(file)];
            if file.desynced.is() {
                continue;
            }
            let (current, expected) = file.status_of(seen);
            if row.status != expected && !(current != *seen && alike(&current, seen)) {
                return broken(
                    Invariant::Ledger,
                    format!(
                        "{path} is {:?}: it is {current:?}, shown was {seen:?}",
                        row.status
                    ),
                );
            }
            if row.status == Status::Stale
                && file.human.iter().any(|it| it > since)
                && file.mirror.is_some()
                && !row.changed_by.contains(&Author::Human)
            {
                return broken(
                    Invariant::Human,
                    format!(
                        "{path} was changed by a human, and not by {:?}",
                        row.changed_by
                    ),
                );
            }
        }
        let has_entry = |file: u8| {
            truth
                .entries
                .get(&file)
                .and_then(|it| it.last())
                .is_some_and(|it| it.seen.is_some())
        };
        match rows.iter().find(|it| !has_entry(files::of_uri(&it.uri))) {
            Some(row) => broken(
                Invariant::Ledger,
                format!("{} has an entry, nothing was shown", row.path),
            ),
            None => Ok(()),
        }
    }

    /// Everything has come to rest: what was told of open documents is so.
    pub(in crate::simulation) fn check_told(&self, session: usize) -> Checked {
        let truth = &self.sessions[session];
        for (&file, entries) in &truth.entries {
            let Some(Noted {
                seen: Some(seen),
                rival: None,
                ..
            }) = entries.last()
            else {
                continue;
            };
            let it = &self.files[usize::from(file)];
            let (current, expected) = it.status_of(seen);
            if it.mirror.is_some()
                && !it.desynced.is()
                && truth.told.get(&file) != Some(&expected)
                && !alike(&current, seen)
            {
                return broken(
                    Invariant::Ledger,
                    format!(
                        "{} was told to be {:?}: it is {current:?}, shown was {seen:?}",
                        files::path(file),
                        truth.told.get(&file)
                    ),
                );
            }
        }
        Ok(())
    }
}

fn row_of(value: &Value) -> LedgerEntry {
    let parse = |name: &str| serde_json::from_value(value[name].clone());
    LedgerEntry {
        uri: value["uri"].as_str().expect("uri").to_string(),
        path: value["path"].as_str().expect("path").to_string(),
        state: parse("state").map(|it: Seen| it).expect("state"),
        version: value["version"].as_str().and_then(Version::parse),
        status: serde_json::from_value(value["status"].clone()).expect("status"),
        current_version: None,
        changed_by: authors(&value["changedBy"]),
        changed_ranges: Vec::new(),
    }
}

fn authors(value: &Value) -> Vec<Author> {
    let author = |it: &Value| match it["kind"].as_str() {
        Some("session") => Author::Session {
            session_id: it["sessionId"].as_str().expect("sessionId").to_string(),
        },
        Some("formatter") => Author::Formatter,
        Some("disk") => Author::Disk,
        _ => Author::Human,
    };
    value.as_array().into_iter().flatten().map(author).collect()
}
