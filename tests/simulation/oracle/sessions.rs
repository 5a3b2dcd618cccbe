//! What each session has seen, and when.

use super::*;

impl Oracle {
    pub(in crate::simulation) fn session(&self, name: u8) -> Option<usize> {
        self.sessions
            .iter()
            .rposition(|it| it.name == name && it.live)
    }

    pub(in crate::simulation) fn open_session(&mut self, name: u8) {
        if self.session(name).is_none() {
            self.sessions.push(SessionTruth {
                name,
                live: true,
                entries: BTreeMap::new(),
                told: BTreeMap::new(),
            });
        }
    }

    pub(in crate::simulation) fn close_session(&mut self, name: u8) {
        if let Some(session) = self.session(name) {
            self.sessions[session].live = false;
        }
    }

    /// What a session saw of a file last; none: nothing.
    pub(in crate::simulation) fn last_seen(&self, session: usize, file: u8) -> Option<Shared> {
        self.sessions[session]
            .entries
            .get(&file)?
            .last()?
            .seen
            .clone()
    }

    /// True if a session has seen what a file holds, as far as the sidecar can know.
    pub(in crate::simulation) fn is_fresh(&self, session: usize, file: u8) -> bool {
        let was = &self.files[usize::from(file)].was;
        self.last_seen(session, file) == was.last().map(|it| it.content.clone())
    }

    pub(super) fn observe(
        &mut self,
        session: usize,
        file: u8,
        since: u64,
        seen: Option<Shared>,
        turn: Option<u64>,
    ) {
        let at = self.tick();
        // Of what was shown while nothing changed, what was told later counts.
        let next_move = self.moves.partition_point(|it| *it <= since);
        let next_move = self.moves.get(next_move).copied().unwrap_or(u64::MAX);
        let mut rival = None;
        let session = &mut self.sessions[session];
        if !session.live {
            return;
        }
        let entries = session.entries.entry(file).or_default();
        let newest = entries.last().map(|it| Rival {
            since: it.since,
            seen: it.seen.clone(),
        });
        let rivals = entries.last().and_then(|it| it.rival.clone());
        let newer = newest.into_iter().chain(rivals);
        let newer = newer.filter(|it| seen.is_some() && it.seen.is_some() && it.since > since);
        if let Some(newer) = newer.max_by_key(|it| it.since) {
            if newer.since >= next_move {
                return;
            }
            rival = Some(newer);
        }
        entries.push(Noted {
            at,
            since,
            seen,
            rival,
            turn,
        });
        session.told.insert(file, Status::Fresh);
    }

    /// What was seen before a session saw what it saw last, but not before `since`; nothing without that.
    pub(super) fn was_seen(
        &self,
        session: usize,
        file: u8,
        since: Option<u64>,
    ) -> Vec<Option<Shared>> {
        let (Some(since), Some(entries)) = (since, self.sessions[session].entries.get(&file))
        else {
            // Where it never saw anything, nothing can have been there before.
            return Vec::new();
        };
        let first = entries.partition_point(|it| it.at <= since);
        (first..entries.len())
            .map(|n| entries[..n].last()?.seen.clone())
            .collect()
    }

    /// What a call could rely on at some time since it was the first in its queues: what its session had seen in earlier
    /// turns, or what a caller without a session names.
    pub(super) fn authorities(&self, call: &CallTruth, file: u8) -> Vec<Option<Shared>> {
        let Some(session) = call.session else {
            return vec![match call.guard(file) {
                Some(Guard::ReplaceIfVersion { version }) => {
                    self.contents.get(&version).cloned().map(Some)
                }
                Some(Guard::CreateIfAbsent) => Some(None),
                None => None,
            }];
        };
        let no_entries = Vec::new();
        let entries = self.sessions[session]
            .entries
            .get(&file)
            .unwrap_or(&no_entries);
        let is_old =
            |it: &&Noted| !matches!((it.turn, call.turn), (Some(seen), Some(now)) if seen >= now);
        let first = entries.partition_point(|it| it.at <= call.head);
        let known =
            (first..=entries.len()).map(|n| entries[..n].iter().rfind(is_old)?.seen.clone());
        let counting = &entries[first.saturating_sub(1)..];
        let rivals = counting.iter().filter(is_old);
        let rivals = rivals.filter_map(|it| it.rival.clone().map(|it| it.seen));
        let own = self
            .unknown
            .iter()
            .filter(|it| it.session == session && it.file == file)
            // Whoever made it so, the session knows it.
            .filter(|it| self.has_landed(it) || it.reached.is_some())
            .map(|it| Some(it.content.clone()));
        known.chain(rivals).chain(own).collect()
    }

    /// A call changes a file that holds this: it may.
    pub(super) fn check_authority(&self, call: &CallTruth, file: u8, content: &Shared) -> Checked {
        let seen = self.authorities(call, file);
        let is_empty = content.as_deref().is_none_or(str::is_empty);
        let is_free = self.setup.policy_off && call.session.is_some();
        if !is_free && !is_empty && !seen.iter().flatten().any(|it| alike(it, content)) {
            return broken(
                Invariant::Seen,
                format!(
                    "{} is {content:?}, and was seen as {seen:?}",
                    files::path(file)
                ),
            );
        }
        let is_as_named = match call.guard(file) {
            None => true,
            Some(Guard::CreateIfAbsent) => content.is_none(),
            Some(Guard::ReplaceIfVersion { version: named }) => {
                content.as_deref().map(version) == Some(named)
            }
        };
        if is_as_named {
            Ok(())
        } else {
            broken(
                Invariant::Seen,
                format!(
                    "{} is {content:?}, which the guard does not name",
                    files::path(file)
                ),
            )
        }
    }

    pub(super) fn has_landed(&self, unknown: &Unknown) -> bool {
        self.calls[&unknown.call].landed.contains_key(&unknown.file)
    }

    pub(super) fn since(was: &[Was], from: u64) -> impl Iterator<Item = &Was> {
        let first = was.iter().rposition(|it| it.at <= from).unwrap_or(0);
        was[first..].iter()
    }

    /// What the file held at some time since.
    pub(super) fn contents_since(&self, file: u8, from: u64) -> Vec<Shared> {
        let truth = &self.files[usize::from(file)];
        let all = Self::since(&truth.was, from).chain(Self::since(&truth.was_on_disk, from));
        all.map(|it| it.content.clone()).collect()
    }

    /// What a file held so many contents ago.
    pub(in crate::simulation) fn earlier_text(&self, file: u8, ago: usize) -> Shared {
        let was = &self.files[usize::from(file)].was;
        was.iter()
            .rev()
            .nth(ago % was.len().max(1))?
            .content
            .clone()
    }

    /// The version of that.
    pub(in crate::simulation) fn earlier(&self, file: u8, ago: usize) -> Option<Version> {
        self.earlier_text(file, ago).as_deref().map(version)
    }
}
