//! When the disk is looked at, and what is said of a file while nobody has looked.

use super::{authors::session, *};
use crate::protocol::Status;

const CLOSED: &str = "/w/closed.txt";

fn bench() -> Bench {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.join("other", CLOSED);
    bench
}

fn changed_on_disk(path: &str) -> Event {
    Event::FilesChanged(vec![FileKey::Path(path.into())])
}

#[test]
fn only_a_closed_file_that_somebody_has_seen_is_looked_at_for_a_hint() {
    let mut bench = bench();
    for (path, n_looks) in [(OPEN[0], 0), ("/w/new.txt", 0), (CLOSED, 1)] {
        bench.send(changed_on_disk(path));
        assert_eq!(bench.asked_of_disk().len(), n_looks, "{path}");
    }
}

#[test]
fn a_hint_during_a_commit_is_followed_once_it_is_done_and_finds_nothing_new() {
    let mut bench = bench();
    bench.ask_to_edit("s", CLOSED, "alpha", "ALPHA");
    bench.step_to_commit();
    bench.send(changed_on_disk(CLOSED));
    assert_eq!(bench.asked_of_disk(), ["commit", "look"]);
    let row = bench.row("other", CLOSED);
    assert_eq!(
        (row.status, row.changed_by),
        (Status::Stale, vec![session("s")])
    );
}

#[test]
fn a_file_that_was_opened_and_closed_as_it_is_was_not_changed_by_the_disk() {
    let mut bench = bench();
    bench.open(CLOSED);
    bench.close(CLOSED);
    bench.settle();
    bench.ask_to_edit("s", CLOSED, "alpha", "ALPHA");
    bench.settle();
    bench.check_changed_by(CLOSED, &[session("s")]);
}

#[test]
fn nothing_is_told_of_a_clean_document_that_was_closed_before_the_disk_is_looked_at() {
    let mut bench = bench();
    bench.close(OPEN[0]);
    bench.step();
    bench.pass_time();
    bench.settle();
    bench.pass_time();
    assert_eq!(bench.told_rows(), Vec::<Value>::new());
}

#[test]
fn what_was_typed_is_gone_with_the_document_before_the_disk_is_looked_at() {
    let mut bench = bench();
    bench.set(OPEN[0], format!("{TYPED}{OLD}"));
    bench.settle();
    bench.pass_time();
    let told = bench.told_rows();
    assert_eq!((told.len(), &told[0]["status"]), (1, &json!("stale")));
    bench.close(OPEN[0]);
    bench.step();
    bench.pass_time();
    let told = bench.told_rows();
    assert_eq!((told.len(), &told[0]["status"]), (1, &json!("fresh")));
    let old = Version::of(&Text::flat(OLD));
    assert_eq!(told[0]["currentVersion"], json!(old));
}
