//! Edits that are refused: by the editor, because of what the editor has open, because of where the file is.

use super::*;
use crate::protocol::DocumentState;

impl Bench {
    fn answer(&mut self, ask: AskId, answer: Value) {
        let answer = Ok(answer);
        self.arrive(Event::Answered { ask, answer });
    }

    fn change_folders(&mut self, names: &[&str]) {
        let folders = names.iter().map(|name| Folder {
            name: (*name).to_string(),
            path: format!("/{name}").into(),
        });
        self.arrive(Event::Folders(folders.collect()));
    }
}

#[test]
fn an_edit_that_is_refused_because_the_document_moved_is_made_if_it_is_the_same_again() {
    for has_sync in [true, false] {
        // The editor need not say why.
        let mut bench = Bench::new(has_sync, false, Luck::Good);
        bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
        let (ask, _) = bench.up_to("workspace/applyEdit");
        bench.set(OPEN[0], format!("{TYPED}{OLD}"));
        bench.set(OPEN[0], OLD.to_string());
        bench.answer(ask, json!({ "applied": false }));
        bench.settle();
        assert_eq!(bench.ended(), None);

        // It can know of something that it does not report, such as other line ends.
        for code in ["version", "instance", "text", "eol"] {
            let mut bench = Bench::new(has_sync, false, Luck::Good);
            bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
            let (ask, _) = bench.up_to("workspace/applyEdit");
            bench.answer(
                ask,
                json!({ "applied": false, "abreast": { "code": code } }),
            );
            bench.settle();
            assert_eq!(bench.ended(), None, "{code}");
        }

        let mut bench = Bench::new(has_sync, false, Luck::Good);
        bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
        let (ask, _) = bench.up_to("workspace/applyEdit");
        bench.answer(ask, json!({ "applied": false }));
        bench.settle();
        assert_eq!(bench.ended(), Some(Code::FsEditorRejected));
    }
}

#[test]
fn undecodable_bytes_are_known_before_a_document_is_edited() {
    let path = "/w/a.txt";
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.disk.insert(path.into(), String::new());
    bench.binary.insert(path.into());
    let text = "caf\u{FFFD}\n".to_string();
    bench.open_as(path, FileKey::Path(path.into()), text);
    assert!(bench.step(), "it is opened");
    let look = bench.queue.pop_front().expect("its file is looked at");
    bench.read(path);
    bench.ask_to_edit("s", path, "caf", "tea");
    bench.settle();
    assert!(bench.replies.is_empty(), "{:?}", bench.replies);
    bench.queue.push_back(look);
    bench.settle();
    assert_eq!(bench.ended(), Some(Code::FsNotText));
}

#[test]
fn an_unsynced_file_is_changed_again_once_it_is_closed() {
    let path = "/w/closed.txt";
    let mut bench = Bench::new(true, false, Luck::Good);
    let state = DocumentState::unsynced(uri(path));
    let key = Some(FileKey::Path(path.into()));
    bench.send(Event::State { state, key });
    assert_eq!(bench.edit(path, "alpha", "beta"), Some(Code::FsOpen));
    for other in OPEN {
        bench.close(other);
    }
    assert_eq!(bench.edit(path, "alpha", "beta"), Some(Code::FsOpen));
    bench.send(Event::Closed { uri: uri(path) });
    assert_eq!(bench.edit(path, "alpha", "beta"), None);
}

#[test]
fn a_folder_that_goes_away_takes_the_calls_with_it_that_wait() {
    let rename = json!({ "kind": "rename", "path": "/w/moved.txt", "newPath": "/v/moved.txt" });
    let rename: Change = serde_json::from_value(rename).expect("a rename");
    for (left, expected) in [
        (&["w", "v"][..], None),
        (&["w"], Some("name a file below \"/w\", or")),
        (&["v"], Some("name a file below \"/v\", or")),
        (&[], Some("open its folder in the editor")),
    ] {
        let mut bench = Bench::new(true, false, Luck::Good);
        bench.change_folders(&["w", "v"]);
        bench.settle();
        bench.ask_to_edit("s", OPEN[0], "alpha", "ALPHA");
        let (ask, params) = bench.up_to("workspace/applyEdit");
        let wait: Change = serde_json::from_value(
            json!({ "kind": "edit", "path": OPEN[0], "oldString": "omega", "newString": "OMEGA" }),
        )
        .expect("an edit");
        bench.ask_to_apply(vec![wait, rename.clone()]);
        bench.settle();
        bench.change_folders(left);
        bench.apply(ask, &params);
        bench.settle();
        let result = bench.replies.pop().expect("the second call is answered");
        match (result, expected) {
            (Ok(_), None) => assert!(bench.disk.contains_key(Path::new("/v/moved.txt"))),
            (Err(Failure::Fs(err)), Some(expected)) => {
                assert_eq!(err.code, Code::FsSandboxDenied);
                let remedy = err.remedy.unwrap_or_default();
                assert!(remedy.contains(expected), "{left:?}: {remedy}");
            }
            (result, _) => panic!("{left:?}: {result:?}"),
        }
    }
}

#[test]
fn a_nul_is_never_written() {
    let edit = json!({ "kind": "edit", "path": OPEN[0], "oldString": "alpha", "newString": "\0" });
    let write = json!({ "kind": "write", "path": "/w/new.txt", "content": "a\0b" });
    for (changes, member) in [
        (vec![edit.clone()], "changes[0].newString"),
        (vec![write.clone()], "changes[0].content"),
        (
            vec![json!({ "kind": "delete", "path": "/w/gone.txt" }), write],
            "changes[1].content",
        ),
    ] {
        let mut bench = Bench::new(true, false, Luck::Good);
        let changes = changes.into_iter().map(serde_json::from_value);
        bench.ask_to_apply(changes.collect::<Result<_, _>>().expect("changes"));
        bench.settle();
        match bench.replies.pop() {
            Some(Err(Failure::Params { message, .. })) => {
                assert!(message.starts_with(member), "{message}");
            }
            other => panic!("{other:?}"),
        }
        assert!(bench.disk.contains_key(Path::new("/w/gone.txt")));
    }
    let mut bench = Bench::new(true, false, Luck::Good);
    bench.ask_to_edit("s", OPEN[0], "alpha", "\0");
    bench.settle();
    match bench.replies.pop() {
        Some(Err(Failure::Params { message, .. })) => {
            assert!(message.starts_with("newString: "), "{message}");
        }
        other => panic!("{other:?}"),
    }
}
