//! Where files may be changed: below the workspace folders, `extraRoots` and the server's temp dir, and nowhere else.
//!
//! `dsh_x..` are rows of DeepSeek Harness's edge cases. All of it lies in one directory, the server's `TMPDIR` too, so that nothing here is below a root by chance.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use abreast::replay::{
    client::CallError,
    editor::{Editor, Options, uri_of},
    model::Treatment,
    session::Session,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{directory, refused, server};

struct Place {
    editor: Editor,
    top: PathBuf,
    _directory: TempDir,
}

impl Place {
    fn new(options: Value) -> Self {
        Self::with(options, |_, _| {})
    }

    fn with(options: Value, adjust: impl FnOnce(&Path, &mut Options)) -> Self {
        let (directory, top) = directory();
        for name in [
            "ws",
            "ws/sub",
            "ws-evil",
            "outside",
            "extra",
            "temp",
            "ws/.git",
            "ws/sub/.git",
        ] {
            fs::create_dir_all(top.join(name)).unwrap();
            fs::write(top.join(name).join("a.txt"), "one\n").unwrap();
        }
        fs::create_dir(top.join("tree")).unwrap();
        fs::write(top.join("tree/.git"), "gitdir: elsewhere\n").unwrap();
        for (link, target) in [
            ("ws/to-outside", "outside"),
            ("ws/to-file", "outside/a.txt"),
            ("ws/to-missing", "outside/missing/deep"),
            ("ws/to-git", "ws/.git"),
            ("outside/to-ws", "ws"),
            ("ws-link", "ws"),
        ] {
            symlink(top.join(target), top.join(link)).unwrap();
        }
        let mut setup = Options::new(server(), top.join("ws"));
        let temp = top.join("temp").into();
        setup.server.environment.push(("TMPDIR".into(), temp));
        setup.initialization_options = options;
        adjust(&top, &mut setup);
        Self {
            editor: Editor::start(&setup).unwrap(),
            top,
            _directory: directory,
        }
    }

    fn path(&self, name: &str) -> String {
        if name.starts_with('/') || name.contains(':') {
            return name.to_string();
        }
        self.top.join(name).to_str().unwrap().to_string()
    }

    fn session(&self) -> Session {
        self.editor.session("s").unwrap()
    }

    /// Every way to change or make a file.
    fn changes(&self, name: &str) -> [Value; 5] {
        let path = self.path(name);
        let own = self.path("ws/a.txt");
        let new = json!({ "kind": "createIfAbsent" });
        [
            json!({ "kind": "edit", "path": path, "oldString": "one", "newString": "1" }),
            json!({ "kind": "delete", "path": path }),
            json!({ "kind": "rename", "path": path, "newPath": self.path("ws/new.txt") }),
            json!({ "kind": "write", "path": path, "content": "x", "guard": new }),
            json!({ "kind": "rename", "path": own, "newPath": path }),
        ]
    }

    /// Checks that nothing changes the files of these names, and that nothing is made there.
    #[track_caller]
    fn check_denied(&self, names: &[&str]) {
        let session = self.session();
        session.read(&self.path("ws/a.txt")).unwrap();
        for name in names {
            let path = self.path(name);
            let before = fs::read(&path).ok();
            // Reading is free; of what is missing too.
            let _ = session.read(&path);
            for change in self.changes(name) {
                let answer = session.apply(json!([change]));
                assert_eq!(code(&answer), "FS_SANDBOX_DENIED", "{change} {answer:?}");
                assert_eq!(fs::read(&path).ok(), before, "{change}");
            }
            refused(session.write(&path, "x"), "FS_SANDBOX_DENIED");
        }
        assert_eq!(fs::read_dir(self.top.join("outside")).unwrap().count(), 2);
        session.close().unwrap();
    }

    /// Checks that files of these names can be made, edited, renamed and deleted.
    #[track_caller]
    fn check_allowed(&self, names: &[&str]) {
        let session = self.session();
        for name in names {
            let path = self.path(name);
            let moved = format!("{path}.moved");
            session.write(&path, "one\n").unwrap();
            session.edit(&path, "one", "1").unwrap();
            let changes = [
                json!({ "kind": "rename", "path": path, "newPath": moved }),
                json!({ "kind": "edit", "path": moved, "oldString": "1", "newString": "2" }),
            ];
            session.apply(json!(changes)).unwrap();
            assert_eq!(fs::read_to_string(&moved).unwrap(), "2\n");
            session
                .apply(json!([{ "kind": "delete", "path": moved }]))
                .unwrap();
        }
        session.close().unwrap();
    }
}

fn code(answer: &Result<Value, CallError>) -> String {
    answer
        .as_ref()
        .map_or_else(CallError::code, ToString::to_string)
}

#[test]
fn dsh_x02_files_are_changed_below_the_workspace_folders_and_the_temp_dir() {
    let place = Place::new(json!({}));
    place.check_allowed(&[
        "ws/new.txt",
        "ws/new/deep/new.txt",
        "temp/new.txt",
        "ws-link/x.txt",
    ]);
}

#[test]
fn dsh_x03_nothing_is_changed_outside_of_them_however_it_is_named() {
    let place = Place::new(json!({ "containment": "workspace" }));
    place.check_denied(&[
        "outside/a.txt",
        "outside/new/deep/new.txt",
        "ws-evil/a.txt",
        "ws/../outside/a.txt",
        "ws/new/../../outside/a.txt",
        "ws/to-outside/a.txt",
        "ws/to-outside/new.txt",
        "ws/to-file",
        "ws/to-missing/new.txt",
        "ws/to-outside/../ws-evil/a.txt",
        "extra/a.txt",
        "a.txt",
    ]);
    let uri = format!("{}/a.txt", uri_of(&place.top.join("outside")));
    let session = place.session();
    session.read(&uri).unwrap();
    refused(session.edit(&uri, "one", "1"), "FS_SANDBOX_DENIED");
    session.read("../outside/a.txt").unwrap();
    let error = refused(
        session.edit("../outside/a.txt", "one", "1"),
        "FS_SANDBOX_DENIED",
    );
    assert!(error.message().contains(&place.path("ws")), "{error}");
    assert!(error.message().contains(&place.path("temp")), "{error}");
}

#[test]
fn what_leads_into_a_root_from_outside_is_inside() {
    let place = Place::new(json!({}));
    place.check_allowed(&["outside/to-ws/new.txt", "ws/to-outside/to-ws/new.txt"]);
}

#[test]
fn dsh_x08_a_root_behind_a_link_is_the_directory_that_the_link_leads_to() {
    let place = Place::with(json!({}), |top, options| options.root = top.join("ws-link"));
    place.check_allowed(&["ws/new.txt", "ws-link/new.txt"]);
    place.check_denied(&["outside/a.txt", "ws-link/to-outside/a.txt"]);
}

#[test]
fn dsh_x06_the_root_of_the_file_system_contains_everything() {
    let place = Place::with(json!({}), |_, options| options.root = "/".into());
    place.check_allowed(&["outside/new.txt", "ws-evil/new.txt"]);
}

#[test]
fn dsh_x05_the_root_itself_is_contained_and_no_file() {
    let place = Place::new(json!({}));
    let session = place.session();
    let root = place.path("ws");
    refused(session.read(&root), "FS_NOT_REGULAR_FILE");
    for change in &place.changes("ws")[..4] {
        let answer = session.apply(json!([change]));
        assert_eq!(code(&answer), "FS_NOT_REGULAR_FILE", "{change} {answer:?}");
    }
}

#[test]
fn dsh_x07_a_directory_whose_name_begins_like_the_root_is_outside() {
    let place = Place::new(json!({}));
    place.check_denied(&["ws-evil/a.txt", "ws-evil/new.txt"]);
}

#[test]
fn dsh_x08_below_a_root_that_is_missing_nothing_else_is_contained() {
    let place = Place::with(json!({}), |_, options| {
        options.client = json!({ "rootUri": null, "workspaceFolders": [
            { "uri": "file:///no/such/root", "name": "root" },
        ] });
    });
    place.check_denied(&["ws/a.txt", "outside/a.txt"]);
}

#[test]
fn a_link_is_written_through_and_neither_deleted_nor_renamed_nor_taken_for_a_free_name() {
    let place = Place::with(json!({}), |top, _| {
        for (link, target) in [("link", "ws/a.txt"), ("dangling", "ws/new.txt")] {
            symlink(top.join(target), top.join("ws").join(link)).unwrap();
        }
    });
    let session = place.session();
    let own = place.path("ws/a.txt");
    let link = place.path("ws/link");
    session.read(&link).unwrap();
    session.edit(&link, "one", "1").unwrap();
    for change in [
        json!({ "kind": "delete", "path": link }),
        json!({ "kind": "rename", "path": link, "newPath": place.path("ws/other") }),
    ] {
        let error = refused(session.apply(json!([change])), "FS_NOT_REGULAR_FILE");
        assert!(error.to_string().contains(&own), "{error}");
    }
    let taken = json!({ "kind": "rename", "path": own, "newPath": place.path("ws/dangling") });
    refused(session.apply(json!([taken])), "FS_ALREADY_EXISTS");
    let is_link = |name: &str| fs::symlink_metadata(place.path(name)).unwrap().is_symlink();
    assert!(is_link("ws/link") && is_link("ws/dangling"));
    assert_eq!(fs::read_to_string(&own).unwrap(), "1\n");
    // What the refusal advises.
    let delete = json!({ "kind": "delete", "path": own });
    session.apply(json!([delete])).unwrap();
    assert!(!Path::new(&own).exists());
}

#[test]
fn further_roots_may_be_named() {
    let (_outer, missing) = directory();
    let missing = missing.join("made/later");
    let place = Place::with(json!({}), |top, options| {
        let extra = uri_of(&top.join("extra"));
        options.initialization_options = json!({ "extraRoots": [extra, missing] });
    });
    let later = missing.join("new.txt");
    place.check_allowed(&["extra/new.txt", "ws/new.txt", later.to_str().unwrap()]);
    place.check_denied(&["outside/a.txt"]);
}

#[test]
fn without_a_folder_only_the_other_roots_are_left() {
    let place = Place::with(json!({}), |_, options| {
        options.client = json!({ "rootUri": null, "workspaceFolders": null });
    });
    place.check_allowed(&["temp/new.txt"]);
    place.check_denied(&["ws/a.txt", "outside/a.txt"]);
}

#[test]
fn folders_come_and_go() {
    let place = Place::new(json!({}));
    let folder = |name: &str| json!({ "uri": uri_of(&place.top.join(name)), "name": name });
    let event = json!({ "added": [folder("outside")], "removed": [folder("ws")] });
    let connection = place.editor.connection();
    connection.notify(
        "workspace/didChangeWorkspaceFolders",
        json!({ "event": event }),
    );
    place.check_allowed(&["outside/new.txt"]);
    let session = place.session();
    let own = place.path("ws/a.txt");
    session.read(&own).unwrap();
    refused(session.edit(&own, "one", "1"), "FS_SANDBOX_DENIED");
}

#[test]
fn dsh_x01_nothing_is_changed_anywhere_if_so_asked() {
    let place = Place::new(json!({ "containment": "readOnly" }));
    place.check_denied(&["ws/a.txt", "temp/a.txt", "outside/a.txt"]);
}

#[test]
fn without_containment_only_what_is_protected_is_left() {
    let place = Place::new(json!({ "containment": "none" }));
    place.check_allowed(&["outside/new.txt", "ws-evil/new.txt"]);
    let session = place.session();
    refused(
        session.write(&place.path("ws/.git/new"), "x"),
        "FS_SANDBOX_DENIED",
    );
}

#[test]
fn repositories_are_protected() {
    let place = Place::with(json!({}), |top, options| {
        options.initialization_options = json!({ "extraRoots": [top.join("tree")] });
    });
    place.check_denied(&[
        "ws/.git/a.txt",
        "ws/.git/hooks/new",
        "ws/sub/.git/a.txt",
        "ws/to-git/a.txt",
        "ws/.GIT/config",
        "tree/.git",
    ]);
    place.check_allowed(&["ws/.gitignore", "ws/.github/x.yml"]);
}

#[test]
fn other_files_may_be_protected() {
    let place = Place::new(json!({ "protected": ["sub/**", "*.lock"] }));
    place.check_denied(&[
        "ws/sub/a.txt",
        "ws/Cargo.lock",
        "ws/new/Cargo.lock",
        "temp/sub/x",
    ]);
    place.check_allowed(&["ws/.git/new.txt", "ws/a.lock.txt"]);
    let session = place.session();
    let error = refused(
        session.write(&place.path("ws/sub/b"), "x"),
        "FS_SANDBOX_DENIED",
    );
    assert!(error.message().contains("sub/**"), "{error}");
}

#[test]
fn open_documents_are_contained_too() {
    let place = Place::new(json!({}));
    let session = place.session();
    let (outside, own) = (place.path("outside/a.txt"), place.path("ws/a.txt"));
    for path in [&outside, &own] {
        place.editor.open(path).unwrap();
        session.read(path).unwrap();
    }
    refused(session.edit(&outside, "one", "1"), "FS_SANDBOX_DENIED");
    session.edit(&own, "one", "1").unwrap();
    assert_eq!(place.editor.text(&outside).as_deref(), Some("one\n"));
    place.editor.open_with("untitled:1", "one\n").unwrap();
    session.read("untitled:1").unwrap();
    session.edit("untitled:1", "one", "1").unwrap();
}

#[test]
fn an_open_document_whose_link_leads_out_by_now_is_outside() {
    let place = Place::new(json!({}));
    let link = place.path("ws/link.txt");
    symlink(place.top.join("ws/a.txt"), &link).unwrap();
    place.editor.open(&link).unwrap();
    let session = place.session();
    session.read(&link).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(place.top.join("outside/a.txt"), &link).unwrap();
    refused(session.edit(&link, "one", "1"), "FS_SANDBOX_DENIED");
}

#[test]
fn all_files_that_may_not_be_changed_are_named_and_nothing_is() {
    let place = Place::new(json!({}));
    let session = place.session();
    let own = place.path("ws/a.txt");
    session.read(&own).unwrap();
    let edit = |name: &str| {
        let path = place.path(name);
        json!({ "kind": "edit", "path": path, "oldString": "nothing such", "newString": "1" })
    };
    // Not even read: but where it lies is looked at first.
    let changes = json!([
        edit("ws/a.txt"),
        edit("outside/a.txt"),
        edit("ws/.git/a.txt")
    ]);
    let error = refused(session.apply(changes), "FS_SANDBOX_DENIED");
    assert_eq!(error.data()["change"], 1, "{error}");
    let failures = error.data()["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 2, "{error}");
    assert_eq!(failures[1]["change"], 2, "{error}");
    let dry = json!({ "changes": [edit("outside/a.txt")], "dryRun": true });
    refused(session.call("abreast/apply", dry), "FS_SANDBOX_DENIED");
}

#[test]
fn dsh_x04_a_directory_that_becomes_a_link_during_the_call_leads_nowhere() {
    let place = Place::new(json!({}));
    let session = place.session();
    let (open, closed) = (place.path("ws/a.txt"), place.path("ws/sub/a.txt"));
    place.editor.open(&open).unwrap();
    for path in [&open, &closed] {
        session.read(path).unwrap();
    }
    // The closed file is staged before the editor is asked.
    place.editor.order(Treatment::Hold);
    let edit = |path: &str, new: &str| json!({ "kind": "edit", "path": path, "oldString": "one", "newString": new });
    let new = json!({ "kind": "write", "path": place.path("ws/sub/new/b.txt"), "content": "x" });
    let call = session.start_apply(json!([edit(&open, "1"), edit(&closed, "1"), new]));
    assert!(place.editor.wait_for_held(1));
    fs::rename(place.top.join("ws/sub"), place.top.join("ws/was-sub")).unwrap();
    symlink(place.top.join("outside"), place.top.join("ws/sub")).unwrap();
    place.editor.release(Treatment::Honest);
    call.wait(place.editor.timeout()).unwrap_err();
    let read = |name: &str| fs::read_to_string(place.top.join(name)).unwrap();
    assert_eq!(read("outside/a.txt"), "one\n");
    assert_eq!(read("ws/was-sub/a.txt"), "one\n");
    assert_eq!(place.editor.text(&open).as_deref(), Some("one\n"));
    assert_eq!(fs::read_dir(place.top.join("outside")).unwrap().count(), 2);
}

#[test]
fn options_that_cannot_be_kept_are_refused_by_name() {
    for (options, name) in [
        (json!({ "protected": ["ok", "a[b"] }), "protected[1]"),
        (json!({ "protected": ["../x"] }), "protected[0]"),
        (json!({ "extraRoots": ["relative"] }), "extraRoots[0]"),
    ] {
        let (_directory, root) = directory();
        let mut setup = Options::new(server(), root);
        setup.initialization_options = options;
        let error = Editor::start(&setup).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn the_name_of_a_directory_is_no_name_for_a_file() {
    let place = Place::new(json!({}));
    let session = place.session();
    let own = place.path("ws/a.txt");
    session.read(&own).unwrap();
    for name in ["ws/new/", "ws/new/."] {
        let path = place.path(name);
        refused(session.write(&path, "x"), "FS_NOT_REGULAR_FILE");
        let rename = json!([{ "kind": "rename", "path": own, "newPath": path }]);
        refused(session.apply(rename), "FS_NOT_REGULAR_FILE");
    }
    assert!(!place.top.join("ws/new").exists());
}
