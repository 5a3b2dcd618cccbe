//! What one agent session has seen.
//!
//! Invariant: an entry says what the session was *shown*, never what we believe the file to be now. Only a read, or the
//! session's own successful change, writes an entry; a human change never does, so the recorded version simply stops
//! matching. Pure: no clock, no disk, no await.

use std::collections::BTreeMap;

use crate::{path::FileKey, protocol::Status, text::Text, version::Version};

/// Most bytes of text that a session's entries keep to tell which lines changed. Ropes share what they have in common
/// with the open document, so this bounds what is kept of files that were closed or changed since.
const SNAPSHOT_BYTES: usize = 64 << 20;

/// The last thing a session saw of one file. A file without an observation is unseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// The session was shown this content.
    Present(Version),
    /// The session was told that the file does not exist.
    Absent,
}

/// The lines of one content that were shown: sorted, disjoint ranges of 0-based lines, ends excluded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines(Vec<(usize, usize)>);

impl Lines {
    /// All of `total` lines.
    pub fn all(total: usize) -> Self {
        Self((total > 0).then_some((0, total)).into_iter().collect())
    }

    /// Adds the lines `from..to`; none if they end before they start.
    pub fn add(&mut self, from: usize, to: usize) {
        if from >= to {
            return;
        }
        let (mut from, mut to) = (from, to);
        self.0.retain(|&(start, end)| {
            let apart = end < from || start > to;
            if !apart {
                from = from.min(start);
                to = to.max(end);
            }
            apart
        });
        let at = self.0.partition_point(|&(start, _)| start < from);
        self.0.insert(at, (from, to));
    }

    /// Adds all lines of `other`.
    pub fn extend(&mut self, other: &Self) {
        for &(from, to) in &other.0 {
            self.add(from, to);
        }
    }

    /// The 0-based lines of `0..total` that are not here, ends excluded.
    pub fn missing(&self, total: usize) -> Vec<(usize, usize)> {
        let mut missing = Vec::new();
        let mut at = 0;
        for &(start, end) in &self.0 {
            missing.push((at, start.min(total)));
            at = end;
        }
        missing.push((at, total));
        missing.retain(|&(from, to)| from < to);
        missing
    }

    /// These lines after a change: `edits` are `(first old line, old lines, new lines)`, sorted; new lines count as shown.
    #[must_use]
    pub fn after(&self, edits: &[(usize, usize, usize)]) -> Self {
        let mut after = Self::default();
        for &(mut from, to) in &self.0 {
            let mut shift = 0_isize;
            for &(old_start, n_old, n_new) in edits {
                let old_end = old_start + n_old;
                if old_start >= to {
                    break;
                }
                after.add(
                    from.wrapping_add_signed(shift),
                    old_start.wrapping_add_signed(shift),
                );
                from = from.max(old_end);
                shift += n_new.cast_signed() - n_old.cast_signed();
            }
            // Changes before `from` that the loop did not reach shift nothing more: it ran over all that start before `to`.
            if from < to {
                after.add(
                    from.wrapping_add_signed(shift),
                    to.wrapping_add_signed(shift),
                );
            }
        }
        let mut shift = 0_isize;
        for &(old_start, n_old, n_new) in edits {
            let start = old_start.wrapping_add_signed(shift);
            after.add(start, start + n_new);
            shift += n_new.cast_signed() - n_old.cast_signed();
        }
        after
    }
}

/// One file of a ledger.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What was seen.
    pub observation: Observation,
    /// The file as the session last named it.
    pub path: String,
    /// When, in the workspace's sequence of content changes.
    pub seq: u64,
    /// The content that was seen, as long as the budget lasts; tells which lines changed since.
    pub snapshot: Option<Text>,
    /// Which lines of it were shown.
    pub shown: Lines,
    /// The status last told by `ledgerChanged` or by an answer; none: whatever it is, it has to be told.
    pub told: Option<Status>,
    /// The turn in which it was observed, where the host numbers turns: it authorises from the next one on. None for
    /// the session's own changes, which count at once.
    pub turn: Option<u64>,
}

/// How many older entries of a file are kept. A call that waits while the file is read in yet more turns finds none.
const KEPT_ENTRIES: usize = 4;

/// A file of a ledger: what was seen last, and what stays the authority within the turn in which that was seen.
#[derive(Debug)]
struct Slot {
    entry: Entry,
    /// What was seen in earlier turns, the oldest first: a call of an earlier turn may still be waiting.
    before: Vec<Entry>,
}

/// Observations of one agent session, by file.
#[derive(Debug, Default)]
pub struct Ledger {
    slots: BTreeMap<FileKey, Slot>,
}

impl Ledger {
    /// The entry of a file; none: unseen.
    pub fn get(&self, key: &FileKey) -> Option<&Entry> {
        self.slots.get(key).map(|it| &it.entry)
    }

    /// What a call composed in `turn` may rely on: a model composes the calls of a turn before it sees their results.
    pub fn authority(&self, key: &FileKey, turn: Option<u64>) -> Option<&Entry> {
        let is_too_young =
            |it: &Entry| matches!((it.turn, turn), (Some(seen), Some(now)) if seen >= now);
        self.all(key)
            .find(|it| broken!(TurnIgnored) || !is_too_young(it))
    }

    /// The entry of a file, to note what was told.
    pub fn get_mut(&mut self, key: &FileKey) -> Option<&mut Entry> {
        self.slots.get_mut(key).map(|it| &mut it.entry)
    }

    /// What the session may rely on for a file, now or in another turn: to move it to another version of the same content.
    pub fn all_mut(&mut self, key: &FileKey) -> impl Iterator<Item = &mut Entry> {
        let slot = self.slots.get_mut(key);
        slot.into_iter()
            .flat_map(|it| std::iter::once(&mut it.entry).chain(it.before.iter_mut().rev()))
    }

    /// The same, to read it; the newest first.
    pub fn all(&self, key: &FileKey) -> impl Iterator<Item = &Entry> {
        let slot = self.slots.get(key);
        slot.into_iter()
            .flat_map(|it| std::iter::once(&it.entry).chain(it.before.iter().rev()))
    }

    /// All entries, by file.
    pub fn iter(&self) -> impl Iterator<Item = (&FileKey, &Entry)> {
        self.slots.iter().map(|(key, slot)| (key, &slot.entry))
    }

    /// How many files it has an entry of.
    pub fn n_entries(&self) -> usize {
        self.slots.len()
    }

    /// Records what the session has just been shown. A window of the content that was already there adds its lines; an
    /// observation older than the entry changes nothing.
    pub fn observe(&mut self, key: FileKey, mut entry: Entry) {
        let mut before = Vec::new();
        if let Some(old) = self.slots.remove(&key) {
            if old.entry.seq > entry.seq {
                self.slots.insert(key, old);
                return;
            }
            if old.entry.observation == entry.observation {
                entry.shown.extend(&old.entry.shown);
            }
            if entry.turn.is_some() {
                before = old.before;
                before.push(old.entry);
                // Whoever may rely on what was seen in this turn or a later one may rely on this.
                before.retain(|it| it.turn < entry.turn);
                if before.len() > KEPT_ENTRIES {
                    before.remove(0);
                }
            }
        }
        self.slots.insert(key, Slot { entry, before });
        self.trim_snapshots();
    }

    /// Forgets a file.
    pub fn remove(&mut self, key: &FileKey) -> Option<Entry> {
        self.slots.remove(key).map(|it| it.entry)
    }

    fn trim_snapshots(&mut self) {
        let len = |entry: &Entry| entry.snapshot.as_ref().map_or(0, Text::len_bytes);
        let mut total: usize = self.slots.values().map(|it| len(&it.entry)).sum();
        while total > SNAPSHOT_BYTES {
            let entries = self.slots.values_mut().map(|it| &mut it.entry);
            let held = entries.filter(|it| it.snapshot.is_some());
            let Some(oldest) = held.min_by_key(|it| it.seq) else {
                break;
            };
            total -= oldest.snapshot.take().map_or(0, |it| it.len_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn lines(ranges: &[(usize, usize)]) -> Lines {
        let mut lines = Lines::default();
        for &(from, to) in ranges {
            lines.add(from, to);
        }
        lines
    }

    #[test]
    fn windows_that_touch_become_one() {
        assert_eq!(lines(&[(5, 8), (0, 2), (2, 5)]), lines(&[(0, 8)]));
    }

    #[test]
    fn missing_lines_are_those_never_shown() {
        assert_eq!(
            lines(&[(2, 4), (6, 7)]).missing(9),
            [(0, 2), (4, 6), (7, 9)]
        );
        assert_eq!(lines(&[(0, 9)]).missing(9), []);
        assert_eq!(lines(&[]).missing(0), []);
    }

    #[test]
    fn shown_lines_move_with_an_edit_and_new_lines_are_shown() {
        // Lines 1 and 2 of 0..10 become five lines.
        assert_eq!(
            lines(&[(0, 4), (8, 10)]).after(&[(1, 2, 5)]),
            lines(&[(0, 7), (11, 13)])
        );
        assert_eq!(
            lines(&[(5, 6)]).after(&[(1, 0, 2), (7, 1, 0)]),
            lines(&[(1, 3), (7, 8)])
        );
        assert_eq!(lines(&[(0, 3)]).after(&[(0, 5, 0)]), lines(&[]));
    }

    /// Which of the first `total` lines are there.
    fn flags(lines: &Lines, total: usize) -> Vec<bool> {
        let mut flags = vec![true; total];
        for (from, to) in lines.missing(total) {
            assert!(from < to && to <= total, "{from}..{to} of {total}");
            flags[from..to].fill(false);
        }
        flags
    }

    /// Makes whatever numbers into changes of a text of `total` lines, sorted and disjoint.
    fn edits_within(total: usize, numbers: &[(usize, usize, usize)]) -> Vec<(usize, usize, usize)> {
        let mut at = 0;
        let mut edits = Vec::new();
        for &(gap, n_old, n_new) in numbers {
            let start = at + gap;
            if start + n_old > total {
                break;
            }
            edits.push((start, n_old, n_new));
            at = start + n_old + 1;
        }
        edits
    }

    proptest! {
        #[test]
        fn shown_lines_are_those_of_a_naive_list(
            windows in vec((0..12_usize, 0..12_usize), 0..6),
            numbers in vec((0..4_usize, 0..4_usize, 0..4_usize), 0..4),
            total in 0..14_usize,
        ) {
            let mut shown = vec![false; 12];
            for &(from, to) in &windows {
                if from < to {
                    shown[from..to].fill(true);
                }
            }
            let lines = lines(&windows);
            prop_assert!(lines.0.windows(2).all(|it| it[0].1 < it[1].0), "{lines:?}");
            let within = shown.iter().copied().chain([false; 2]).take(total);
            prop_assert_eq!(flags(&lines, total), within.collect::<Vec<_>>());

            let edits = edits_within(12, &numbers);
            for &(start, n_old, n_new) in edits.iter().rev() {
                shown.splice(start..start + n_old, vec![true; n_new]);
            }
            prop_assert_eq!(flags(&lines.after(&edits), shown.len()), shown);
        }
    }

    #[test]
    fn all_lines_of_nothing_are_none() {
        assert_eq!(Lines::all(0), Lines::default());
        assert_eq!(Lines::all(3), lines(&[(0, 3)]));
    }

    fn entry(seq: u64, observation: Observation, shown: Lines) -> Entry {
        Entry {
            observation,
            path: "a".into(),
            seq,
            snapshot: None,
            shown,
            told: Some(Status::Fresh),
            turn: None,
        }
    }

    #[test]
    fn an_older_observation_that_arrives_late_changes_nothing() {
        let key = FileKey::Uri("a:1".into());
        let mut ledger = Ledger::default();
        let version = Version::of(&Text::flat("new"));
        ledger.observe(
            key.clone(),
            entry(2, Observation::Present(version), Lines::default()),
        );
        ledger.observe(key.clone(), entry(1, Observation::Absent, Lines::default()));
        assert_eq!(
            ledger.get(&key).map(|it| it.observation),
            Some(Observation::Present(version))
        );
    }

    #[test]
    fn windows_of_one_content_add_up_and_another_content_starts_anew() {
        let key = FileKey::Uri("a:1".into());
        let mut ledger = Ledger::default();
        let seen = Observation::Present(Version::of(&Text::flat("x")));
        ledger.observe(key.clone(), entry(1, seen, lines(&[(0, 2)])));
        ledger.observe(key.clone(), entry(1, seen, lines(&[(4, 6)])));
        assert_eq!(
            ledger.get(&key).map(|it| it.shown.clone()),
            Some(lines(&[(0, 2), (4, 6)]))
        );
        ledger.observe(key.clone(), entry(2, Observation::Absent, Lines::default()));
        assert_eq!(
            ledger.get(&key).map(|it| it.shown.clone()),
            Some(Lines::default())
        );
    }

    #[test]
    fn what_is_observed_in_a_turn_authorises_from_the_next_turn_on() {
        let key = FileKey::Uri("a:1".into());
        let mut ledger = Ledger::default();
        let seen = |text: &str| Observation::Present(Version::of(&Text::flat(text)));
        let in_turn = |seq: u64, observation: Observation| Entry {
            turn: Some(7),
            ..entry(seq, observation, Lines::default())
        };
        let authority = |ledger: &Ledger, turn: Option<u64>| {
            ledger.authority(&key, turn).map(|it| it.observation)
        };
        ledger.observe(key.clone(), in_turn(1, seen("x")));
        ledger.observe(key.clone(), in_turn(2, seen("y")));
        assert_eq!(authority(&ledger, Some(7)), None);
        assert_eq!(authority(&ledger, Some(8)), Some(seen("y")));
        assert_eq!(authority(&ledger, None), Some(seen("y")));
        ledger.observe(key.clone(), entry(3, seen("own"), Lines::default()));
        assert_eq!(authority(&ledger, Some(7)), Some(seen("own")));
    }

    #[test]
    fn a_call_of_an_earlier_turn_relies_on_what_was_seen_before_it_for_four_more_turns() {
        let key = FileKey::Uri("a:1".into());
        let mut ledger = Ledger::default();
        for turn in 1..=6 {
            let entry = entry(turn, Observation::Absent, Lines::default());
            let turn = Some(turn);
            ledger.observe(key.clone(), Entry { turn, ..entry });
        }
        let seen_before = |turn: u64| {
            ledger
                .authority(&key, Some(turn))
                .map(|it| (it.turn, it.seq))
        };
        assert_eq!(seen_before(7), Some((Some(6), 6)));
        assert_eq!(seen_before(6), Some((Some(5), 5)));
        assert_eq!(seen_before(3), Some((Some(2), 2)));
        assert_eq!(seen_before(2), None);
        assert_eq!(ledger.all(&key).count(), 1 + KEPT_ENTRIES);
        assert!(ledger.all_mut(&key).map(|it| it.seq).eq((2..=6).rev()));
    }

    #[test]
    fn reads_of_one_turn_that_end_late_push_out_nothing_of_the_turns_before() {
        let key = FileKey::Uri("a:1".into());
        let mut ledger = Ledger::default();
        for (seq, turn) in [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(1))] {
            let entry = entry(seq, Observation::Absent, Lines::default());
            ledger.observe(key.clone(), Entry { turn, ..entry });
        }
        for seq in 5..15 {
            let entry = entry(seq, Observation::Absent, Lines::default());
            let turn = Some(1 + seq % 2);
            ledger.observe(key.clone(), Entry { turn, ..entry });
        }
        assert_eq!(ledger.authority(&key, Some(1)).map(|it| it.seq), Some(1));
        assert_eq!(ledger.authority(&key, Some(2)).map(|it| it.seq), Some(14));
    }

    #[test]
    fn texts_that_were_seen_longest_ago_are_dropped_when_they_are_too_much() {
        let third = Text::flat("x".repeat(SNAPSHOT_BYTES / 3));
        let key = |nth: u64| FileKey::Uri(format!("a:{nth}"));
        let mut ledger = Ledger::default();
        let mut observe = |nth: u64, seq: u64, text: &Text| {
            let snapshot = Some(text.clone());
            let entry = entry(seq, Observation::Absent, Lines::default());
            ledger.observe(key(nth), Entry { snapshot, ..entry });
            let held = (0..5).filter(|it| {
                let entry = ledger.get(&key(*it));
                entry.is_some_and(|it| it.snapshot.is_some())
            });
            held.collect::<Vec<_>>()
        };
        observe(0, 12, &third);
        observe(1, 11, &third);
        assert_eq!(observe(2, 13, &third), [0, 1, 2]);
        assert_eq!(observe(3, 14, &Text::flat("x")), [0, 1, 2, 3]);
        assert_eq!(observe(4, 15, &third), [0, 2, 3, 4]);
        assert_eq!(observe(4, 16, &Text::flat("x".repeat(SNAPSHOT_BYTES))), [4]);
    }
}
