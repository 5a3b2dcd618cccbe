//! Closed files are changed from memory where the disk will compare them.

use super::{commits::change, *};
use crate::error::Code;

const CLOSED: &str = "/w/closed.txt";

impl Bench {
    /// Does all that is to be done, and says what was asked of the disk.
    pub(super) fn asked_of_disk(&mut self) -> Vec<&'static str> {
        let mut asked = Vec::new();
        while let Some(item) = self.queue.front() {
            if let Item::Work(_, work) = item {
                asked.extend(match work {
                    Work::Look { .. } => Some("look"),
                    Work::Stage { .. } => Some("stage"),
                    Work::Commit { .. } => Some("commit"),
                    _ => None,
                });
            }
            self.step();
        }
        asked
    }

    #[track_caller]
    fn check_edit(&mut self, old: &str, new: &str, asked: &[&str], expected: Result<(), Code>) {
        self.ask_to_edit("s", CLOSED, old, new);
        assert_eq!(self.asked_of_disk(), asked);
        let outcome = match self.replies.pop().expect("it is answered") {
            Ok(_) => Ok(()),
            Err(Failure::Fs(err)) => Err(err.code),
            Err(err) => panic!("{err:?}"),
        };
        assert_eq!(outcome, expected);
    }
}

#[test]
fn a_closed_file_that_the_session_knows_is_changed_without_a_look() {
    let mut bench = Bench::new(true, false, Luck::Good);
    for (old, new) in [("alpha", "beta"), ("beta", "gamma")] {
        bench.check_edit(old, new, &["stage", "commit"], Ok(()));
    }
    // Nothing would compare it, so it is looked at.
    let missing = Err(Code::FsEditNotFound);
    bench.check_edit("nowhere", "", &["look"], missing);
}

#[test]
fn a_closed_file_that_has_changed_unseen_is_looked_at_before_anything_is_said_of_it() {
    let mut bench = Bench::new(true, false, Luck::Good);
    let theirs = OLD.replace("last", "theirs");
    bench.disk.insert(CLOSED.into(), theirs.clone());
    let stale = Err(Code::FsStaleVersion);
    bench.check_edit("alpha", "beta", &["stage", "look"], stale);
    assert_eq!(bench.disk[Path::new(CLOSED)], theirs);
    // From now on it is known to be another one.
    bench.check_edit("alpha", "beta", &["look"], stale);
    bench.read(CLOSED);
    bench.check_edit("alpha", "beta", &["stage", "commit"], Ok(()));
}

#[test]
fn a_closed_file_is_looked_at_where_nothing_is_to_be_written() {
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.disk.insert(CLOSED.into(), "theirs\n".to_string());
    let same = json!({ "kind": "write", "path": CLOSED, "content": OLD });
    bench.ask_to_apply(vec![change(same)]);
    assert_eq!(bench.asked_of_disk(), ["look"]);
    assert_eq!(bench.ended(), Some(Code::FsStaleVersion));
}
