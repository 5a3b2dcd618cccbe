//! What an editor reports that is out of the ordinary, and that the model editors never do.

use super::*;
use crate::{
    protocol::{DocumentState, EolKind, ReadResult, Via},
    text::buffer::Encoding,
};

fn bench() -> Bench {
    Bench::new(true, false, Luck::Good)
}

fn here(line: u32, character: u32) -> Range {
    let here = Position { line, character };
    Range {
        start: here,
        end: here,
    }
}

/// Types into an open document; `half` is the UTF-16 code unit that U+FFFD in the text stands for.
fn typed(path: &str, lsp_version: i32, range: Range, text: &str, half: Option<u16>) -> Event {
    let change = ContentChange {
        range: Some(range),
        range_length: None,
        text: text.to_string(),
        halves: half.into_iter().map(|unit| (0, unit)).collect(),
    };
    Event::Changed {
        uri: uri(path),
        lsp_version,
        changes: Some(vec![change]),
    }
}

impl Bench {
    pub(super) fn settle(&mut self) {
        while self.step() {}
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

    fn edit(&mut self, path: &str, old: &str, new: &str) -> Result<Answer, Failure> {
        self.ask_to_edit("s", path, old, new);
        self.settle();
        self.replies.pop().expect("it is answered")
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
        let event = typed("/w/a.txt", 2, here(0, 3), "x", None);
        bench.workspace.handle(bench.now, event);
        bench
            .documents
            .get_mut("/w/a.txt")
            .expect("open")
            .lsp_version = 2;
        assert_eq!(bench.read("/w/a.txt").text, expected, "{eol:?}");
    }
}

#[test]
fn two_characters_that_arrive_in_four_halves_are_whole_again() {
    let mut bench = bench();
    bench.workspace.client.encoding = Encoding::Utf16;
    bench.open_with("/w/a.txt", "<>");
    // 😀 and 😁; their first halves stand side by side for a while.
    let halves = [(1, 0xD83D), (2, 0xD83D), (2, 0xDE00), (4, 0xDE01)];
    for (lsp_version, (character, unit)) in (2..).zip(halves) {
        let event = typed(
            "/w/a.txt",
            lsp_version,
            here(0, character),
            "\u{FFFD}",
            Some(unit),
        );
        bench.workspace.handle(bench.now, event);
        bench
            .documents
            .get_mut("/w/a.txt")
            .expect("open")
            .lsp_version = lsp_version;
    }
    assert_eq!(bench.read("/w/a.txt").text, "<😀😁>");
}

#[test]
fn a_file_that_the_editor_shows_twice_is_edited_while_both_show_the_same() {
    for (other, expected) in [(OLD, None), ("other\n", Some(Code::FsConflict))] {
        let mut bench = bench();
        let document = Document {
            text: other.to_string(),
            instance: 1,
            lsp_version: 1,
            undo: Vec::new(),
        };
        bench.documents.insert("/w/link.txt".to_string(), document);
        bench.send(Event::Opened {
            uri: uri("/w/link.txt"),
            key: FileKey::Path(OPEN[0].into()),
            lsp_version: 1,
            text: other.to_string(),
        });
        bench.settle();
        let code = match bench.edit(OPEN[0], "alpha", "beta") {
            Ok(_) => None,
            Err(Failure::Fs(err)) => Some(err.code),
            Err(err @ Failure::Params { .. }) => panic!("{err:?}"),
        };
        assert_eq!(code, expected, "{other}");
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
