//! What happens between the grant of a commit and the answer.

use super::*;

pub(super) const CLOSED: &str = "/w/closed.txt";
const EDITED: &str = "first\nALPHA\nmiddle\nomega\nlast\n";

impl Bench {
    #[track_caller]
    pub(super) fn step_to(&mut self, is_it: fn(&Item) -> bool) {
        while !self.queue.front().is_some_and(is_it) {
            assert!(self.step(), "it comes");
        }
    }

    /// Up to the editing of documents.
    #[track_caller]
    pub(super) fn step_to_edit(&mut self) {
        self.step_to(|it| matches!(it, Item::Ask(_, "workspace/applyEdit", _)));
    }

    /// Up to the commit.
    #[track_caller]
    pub(super) fn step_to_commit(&mut self) {
        self.step_to(|it| matches!(it, Item::Work(_, Work::Commit { .. })));
    }

    /// What became of the files of the only call, of which a part is done.
    #[track_caller]
    fn ended_in_part(&mut self) -> Vec<Became> {
        assert_eq!(self.replies.len(), 1);
        match self.replies.pop() {
            Some(Err(Failure::Fs(err))) if err.code == Code::FsPartiallyApplied => {
                err.files.iter().map(|it| it.outcome).collect()
            }
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn change(change: Value) -> Change {
    serde_json::from_value(change).expect("a change")
}

pub(super) fn edit(path: &str) -> Change {
    change(json!({ "kind": "edit", "path": path, "oldString": "alpha", "newString": "ALPHA" }))
}

fn rename(from: &str, to: &str) -> Change {
    change(json!({ "kind": "rename", "path": from, "newPath": to }))
}

/// A closed file was changed on disk, and after the grant the editor opened it with its old text.
fn opened_after_the_grant(has_sync: bool) -> Bench {
    let mut bench = Bench::new(has_sync, false, Luck::Good);
    bench.ask_to_apply(vec![edit(CLOSED)]);
    bench.step_to_commit();
    bench.open(CLOSED);
    for _ in 0..3 {
        bench.step();
    }
    assert_eq!(bench.disk[Path::new(CLOSED)], EDITED);
    assert!(bench.replies.is_empty(), "the editor shows the old text");
    bench
}

#[test]
fn a_file_opened_during_its_commit_is_changed_once_the_editor_shows_the_new_text() {
    for has_sync in [true, false] {
        let mut bench = opened_after_the_grant(has_sync);
        bench.set(CLOSED, EDITED.to_string());
        bench.settle();
        assert_eq!(bench.ended(), None);
    }
}

#[test]
fn a_file_opened_during_its_commit_is_stale_once_the_editor_has_reported_everything() {
    let mut bench = opened_after_the_grant(true);
    bench.settle();
    assert_eq!(bench.ended(), Some(Code::FsStaleVersion));
}

#[test]
fn a_file_opened_during_its_commit_is_stale_when_an_editor_without_barriers_has_had_its_time() {
    let mut bench = opened_after_the_grant(false);
    let committed = bench.now;
    bench.settle();
    bench.now = committed + barrier::EDIT_BARRIER_MS - 2;
    bench.send(Event::Tick);
    assert!(bench.replies.is_empty());
    bench.send(Event::Tick);
    assert_eq!(bench.ended(), Some(Code::FsStaleVersion));
}

#[test]
fn a_file_opened_with_what_was_taken_back_on_disk_is_taken_back_in_the_editor() {
    let mut bench = Bench::new(true, false, Luck::CommitFails);
    bench.ask_to_apply(vec![edit(CLOSED)]);
    bench.step_to_commit();
    bench.disk.insert(CLOSED.into(), EDITED.to_string());
    bench.open(CLOSED);
    bench.disk.insert(CLOSED.into(), OLD.to_string());
    bench.settle();
    assert_eq!(bench.ended(), Some(Code::FsIoError));
    assert_eq!(bench.documents[CLOSED].text, OLD);
}

#[test]
fn a_commit_that_the_disk_refuses_for_itself_is_not_tried_again() {
    let mut bench = Bench::new(true, false, Luck::CommitFails);
    bench.ask_to_apply(vec![edit(CLOSED)]);
    assert_eq!(bench.asked_of_disk(), ["stage", "commit"]);
    assert_eq!(bench.ended(), Some(Code::FsIoError));
}

#[test]
fn a_failed_commit_that_left_everything_as_planned_is_a_success() {
    let mut bench = Bench::new(true, false, Luck::CommitSticks);
    bench.ask_to_apply(vec![edit(CLOSED)]);
    bench.settle();
    assert_eq!(bench.ended(), None);
}

#[test]
fn nothing_is_asked_of_the_editor_after_a_commit_of_files_that_it_does_not_show() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.ask_to_apply(vec![edit(OPEN[0]), edit(CLOSED)]);
    bench.step_to_commit();
    bench.step();
    bench.step();
    assert_eq!(bench.ended(), None);
    assert!(bench.queue.is_empty());
}

#[test]
fn a_file_that_somebody_deleted_after_its_commit_is_not_told_as_taken_back() {
    let mut bench = Bench::new(true, false, Luck::CommitSticks);
    bench.ask_to_apply(vec![edit(CLOSED)]);
    bench.step_to_commit();
    bench.step();
    bench.disk.remove(Path::new(CLOSED));
    bench.settle();
    assert_eq!(bench.ended_in_part(), [Became::KeptHuman]);
}

#[test]
fn a_moved_file_that_stays_on_disk_stays_in_the_editor_that_opened_it() {
    let mut bench = Bench::new(true, false, Luck::Good);
    let to = "/w/deep/moved.txt";
    bench.ask_to_apply(vec![rename("/w/moved.txt", to), edit(to), edit(CLOSED)]);
    bench.step_to_commit();
    let Some(Item::Work(job, Work::Commit { staged })) = bench.queue.pop_front() else {
        unreachable!("it is the commit")
    };
    let changes = bench.staged.remove(&staged).expect("it was staged");
    changed(&mut bench.disk, &changes[..2]);
    bench.open(to);
    bench.settle();
    let failure = DiskFailure {
        change: 2,
        error: DiskError::new(DiskErrorKind::Io, "as was ordered"),
        unrestored: vec![0, 1],
        kept: Vec::new(),
    };
    let outcome = Outcome::Committed(Err(failure));
    bench.send(Event::Done { job, outcome });
    bench.settle();
    assert_eq!(bench.ended_in_part(), [Became::Applied, Became::RolledBack]);
    assert_eq!(bench.disk[Path::new(to)], EDITED);
    assert_eq!(bench.documents[to].text, EDITED);
}

#[test]
fn what_is_typed_during_a_commit_into_a_document_that_stays_as_it_is_makes_it_stale() {
    let mut bench = Bench::new(true, false, Luck::Good);
    let same = change(json!({ "kind": "write", "path": OPEN[0], "content": OLD }));
    bench.ask_to_apply(vec![same, edit(CLOSED)]);
    bench.step_to_commit();
    bench.set(OPEN[0], format!("{TYPED}{OLD}"));
    bench.settle();
    assert_eq!(bench.ended(), None);
    assert_eq!(bench.row("s", OPEN[0]).changed_by, [Author::Human]);
}

#[test]
fn what_a_human_typed_into_the_old_text_stays_though_another_file_got_the_same_by_the_call() {
    let mut bench = Bench::new(true, false, Luck::CommitFails);
    bench.ask_to_apply(vec![edit(CLOSED), edit("/w/moved.txt")]);
    bench.step_to_commit();
    bench.disk.insert(CLOSED.into(), EDITED.to_string());
    bench.open(CLOSED);
    bench.disk.insert(CLOSED.into(), OLD.to_string());
    bench.open("/w/moved.txt");
    let typed = format!("{TYPED}{EDITED}");
    bench.set("/w/moved.txt", typed.clone());
    let commit = bench.queue.pop_front().expect("the commit");
    bench.queue.push_back(commit);
    bench.settle();
    assert_eq!(bench.ended(), Some(Code::FsIoError));
    assert_eq!(bench.documents[CLOSED].text, OLD);
    assert_eq!(bench.documents["/w/moved.txt"].text, typed);
}

#[test]
fn a_moved_file_that_was_taken_back_is_told_so_though_the_editor_opened_it() {
    let mut bench = Bench::new(true, false, Luck::CommitFails);
    let to = "/w/deep/moved.txt";
    bench.ask_to_apply(vec![rename("/w/moved.txt", to), edit(to)]);
    bench.step_to_commit();
    bench.disk.insert(to.into(), EDITED.to_string());
    bench.open(to);
    bench.disk.remove(Path::new(to));
    bench.settle();
    assert_eq!(bench.ended(), Some(Code::FsIoError));
}

#[test]
fn a_file_opened_before_its_commit_is_told_by_its_name_and_by_what_was_to_become_of_it() {
    let open = "it is open in the editor";
    let (gone, moved) = ("/w/gone.txt", "/w/moved.txt");
    for (late, path, code, why) in [
        (edit(CLOSED), CLOSED, Code::FsStaleVersion, "opened"),
        (
            change(json!({ "kind": "delete", "path": gone })),
            gone,
            Code::FsOpen,
            open,
        ),
        (
            rename(moved, "/w/deep/moved.txt"),
            moved,
            Code::FsOpen,
            open,
        ),
    ] {
        let mut bench = Bench::new(true, false, Luck::Good);
        bench.ask_to_apply(vec![edit(OPEN[0]), late]);
        bench.step_to_edit();
        bench.open(path);
        bench.settle();
        match bench.replies.pop() {
            Some(Err(Failure::Fs(err))) => {
                assert_eq!((err.code, err.path.as_deref()), (code, Some(path)));
                assert!(err.what.contains(why), "{}", err.what);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(bench.documents[OPEN[0]].text, OLD);
    }
}

#[test]
fn files_that_change_places_are_written_and_those_that_follow_each_other_are_only_renamed() {
    let (gone, free) = ("/w/gone.txt", "/w/free.txt");
    let follow = vec![rename(gone, free), rename(CLOSED, gone)];
    let mut back = follow.clone();
    back.push(rename(free, CLOSED));
    for (changes, n_renames, n_writes) in [(follow, 2, 0), (back, 0, 2)] {
        let mut bench = Bench::new(true, false, Luck::Good);
        bench.ask_to_apply(changes);
        bench.step_to_commit();
        let staged = bench.staged.values().next().expect("it is staged");
        let is_rename = |it: &&DiskChange| matches!(it, DiskChange::Rename { .. });
        let renames = staged.iter().filter(is_rename).count();
        assert_eq!((renames, staged.len()), (n_renames, n_renames + n_writes));
        bench.settle();
        assert_eq!(bench.ended(), None);
        assert_eq!(bench.disk[Path::new(gone)], OLD);
    }
}

#[test]
fn a_document_that_stays_as_it_is_is_not_sent_to_the_editor() {
    let mut bench = Bench::new(true, false, Luck::Good);
    let same = json!({ "kind": "write", "path": OPEN[0], "content": OLD });
    bench.ask_to_apply(vec![change(same), edit(OPEN[1])]);
    let (_, params) = bench.up_to("workspace/applyEdit");
    let sent = params["edit"]["documentChanges"].as_array();
    assert_eq!(sent.map(Vec::len), Some(1), "{params}");
}
