//! What an editor reports that is out of the ordinary, and that the model editors never do.

use super::*;
use crate::protocol::{DocumentState, EolKind, ReadResult, Via};

fn bench() -> Bench {
    Bench::new(true, false, Luck::Good)
}

pub(super) fn span(line: u32, characters: std::ops::Range<u32>) -> Range {
    let at = |character| Position { line, character };
    Range {
        start: at(characters.start),
        end: at(characters.end),
    }
}

impl Bench {
    pub(super) fn settle(&mut self) {
        while self.step() {}
    }

    /// The editor reports a change; `half`: where in the text U+FFFD stands for this UTF-16 code unit.
    pub(super) fn report(
        &mut self,
        path: &str,
        range: Range,
        text: &str,
        half: Option<(usize, u16)>,
    ) {
        let change = ContentChange {
            range: Some(range),
            range_length: None,
            text: text.to_string(),
            halves: half.into_iter().collect(),
        };
        self.report_all(path, change);
    }

    /// The editor sends the full text.
    pub(super) fn report_full(&mut self, path: &str, text: &str) {
        let change = ContentChange {
            range: None,
            range_length: None,
            text: text.to_string(),
            halves: Vec::new(),
        };
        self.report_all(path, change);
    }

    fn report_all(&mut self, path: &str, change: ContentChange) {
        let document = self.documents.get_mut(path).expect("it is open");
        document.lsp_version += 1;
        let lsp_version = document.lsp_version;
        self.take(Event::Changed {
            uri: uri(path),
            lsp_version,
            changes: Some(vec![change]),
        });
    }

    #[track_caller]
    pub(super) fn check_full_is_asked_for(&mut self, path: &str) {
        let (_, params) = self.up_to("abreast/sync");
        assert_eq!(params["full"], json!([uri(path)]));
    }

    /// Opens a file with a text that the disk has as well.
    pub(super) fn open_with(&mut self, path: &str, text: &str) {
        self.disk.insert(path.into(), text.to_string());
        self.open(path);
        self.settle();
    }

    pub(super) fn ask_to_read(&mut self, path: &str) {
        let params = json!({ "sessionId": "s", "path": path });
        let params: ReadParams = serde_json::from_value(params).expect("a read");
        self.call(Request::Read(params));
    }

    pub(super) fn read(&mut self, path: &str) -> ReadResult {
        self.ask_to_read(path);
        self.settle();
        self.was_read()
    }

    pub(super) fn was_read(&mut self) -> ReadResult {
        match self.replies.pop() {
            Some(Ok(Answer::Read(result))) => *result,
            other => panic!("{other:?}"),
        }
    }

    /// How an edit ends.
    pub(super) fn edit(&mut self, path: &str, old: &str, new: &str) -> Option<Code> {
        self.ask_to_edit("s", path, old, new);
        self.settle();
        self.ended()
    }

    pub(super) fn ask_to_edit(&mut self, session: &str, path: &str, old: &str, new: &str) {
        let edit = json!({ "kind": "edit", "path": path, "oldString": old, "newString": new });
        self.call(Request::Change {
            params: ApplyParams {
                session_id: Some(session.to_string()),
                changes: vec![serde_json::from_value(edit).expect("an edit")],
                call_id: None,
                label: None,
                dry_run: false,
            },
            is_apply: false,
        });
    }

    /// A read up to its barrier, which the test answers.
    fn read_up_to_barrier(&mut self, path: &str) -> AskId {
        self.ask_to_read(path);
        self.step();
        match self.queue.pop_front() {
            Some(Item::Ask(ask, "abreast/sync", _)) => ask,
            _ => panic!("no barrier is asked for"),
        }
    }
}

#[test]
fn a_document_that_the_barrier_does_not_name_is_closed() {
    let mut bench = bench();
    bench.disk.insert(OPEN[0].into(), "saved\n".to_string());
    let ask = bench.read_up_to_barrier(OPEN[0]);
    let answer = Ok(json!({ "documents": {} }));
    bench.send(Event::Answered { ask, answer });
    bench.settle();
    let read = bench.was_read();
    assert_eq!((read.via, read.text.as_str()), (Via::Disk, "saved\n"));
}

#[test]
fn a_document_opened_again_since_the_barrier_was_asked_for_is_not_closed_by_it() {
    let mut bench = bench();
    let ask = bench.read_up_to_barrier(OPEN[0]);
    bench.close(OPEN[0]);
    bench.open_with(OPEN[0], "again\n");
    let answer = Ok(json!({ "documents": {} }));
    bench.send(Event::Answered { ask, answer });
    bench.settle();
    bench.replies.clear();
    let read = bench.read(OPEN[0]);
    assert_eq!((read.via, read.text.as_str()), (Via::Editor, "again\n"));
}

#[test]
fn a_carriage_return_is_text_where_the_editor_says_that_lines_end_with_lf() {
    for (eol, expected) in [(EolKind::Lf, "ab\rx\ncd"), (EolKind::Crlf, "abx\ncd")] {
        let mut bench = bench();
        bench.workspace.client.lone_cr_is_text = true;
        bench.open_with("/w/a.txt", "ab\r\ncd");
        let state = DocumentState {
            eol: Some(eol),
            unsynced: None,
            ..DocumentState::unsynced(uri("/w/a.txt"))
        };
        bench.send(Event::State { state, key: None });
        bench.report("/w/a.txt", span(0, 3..3), "x", None);
        assert_eq!(bench.read("/w/a.txt").text, expected, "{eol:?}");
    }
}

#[test]
fn a_file_that_the_editor_shows_twice_is_edited_while_both_show_the_same() {
    for (other, expected) in [(OLD, None), ("other\n", Some(Code::FsConflict))] {
        let mut bench = bench();
        bench.open_as(
            "/w/link.txt",
            FileKey::Path(OPEN[0].into()),
            other.to_string(),
        );
        bench.settle();
        assert_eq!(bench.edit(OPEN[0], "alpha", "beta"), expected, "{other}");
    }
}

#[test]
fn the_full_text_is_asked_for_where_the_editor_can_be_asked() {
    for has_sync in [true, false] {
        let mut bench = Bench::new(has_sync, false, Luck::Good);
        bench.send(Event::Changed {
            uri: uri(OPEN[0]),
            lsp_version: 2,
            changes: None,
        });
        let asked = bench.queue.iter();
        let asked = asked.filter_map(|it| match it {
            Item::Ask(_, _, params) => Some(&params["full"]),
            _ => None,
        });
        let expected = has_sync.then(|| json!([uri(OPEN[0])]));
        assert_eq!(asked.collect::<Vec<_>>(), Vec::from_iter(&expected));
    }
}

#[test]
fn a_document_that_is_opened_twice_is_one_however_its_uri_is_spelled() {
    for spelled in [OPEN[0], "/w/%6Fpen.txt"] {
        let mut bench = bench();
        bench.documents.remove(OPEN[0]);
        let key = FileKey::Path(OPEN[0].into());
        bench.open_as(spelled, key, format!("{OLD}again\n"));
        let read = bench.read(OPEN[0]);
        assert_eq!((read.via, read.total_lines), (Via::Editor, 6));
        assert_eq!(bench.edit(OPEN[0], "alpha", "beta"), None);
        bench.close(spelled);
        let read = bench.read(OPEN[0]);
        assert_eq!((read.via, read.text.as_str()), (Via::Disk, OLD));
    }
}

#[test]
fn a_change_of_a_document_that_is_not_open_is_ignored_and_logged() {
    let path = "/w/closed.txt";
    let mut bench = bench();
    for (lsp_version, changes) in [(2, Some(Vec::new())), (3, None)] {
        let uri = uri(path);
        let event = Event::Changed {
            uri,
            lsp_version,
            changes,
        };
        let effects = bench.workspace.handle(bench.now, event);
        assert!(matches!(effects[..], [Effect::Log { .. }]), "{effects:?}");
    }
    assert_eq!(bench.edit(path, "alpha", "beta"), None);
}

#[test]
fn after_a_change_with_an_old_version_the_full_text_is_asked_for() {
    let mut bench = bench();
    let document = bench.documents.get_mut(OPEN[0]).expect("open");
    document.lsp_version = 0;
    bench.report(OPEN[0], span(0, 0..0), "x", None);
    bench.check_full_is_asked_for(OPEN[0]);
    assert_eq!(bench.edit(OPEN[0], "alpha", "beta"), Some(Code::FsDesynced));
    bench.report_full(OPEN[0], OLD);
    assert_eq!(bench.edit(OPEN[0], "alpha", "beta"), None);
}
