//! Identity of paths, and reading.

use std::os::unix::{fs::symlink, net::UnixListener};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// Resolves paths in a folder; `path` or `path missing` relative to it.
#[track_caller]
fn check_resolve(folder: &Folder, path: &str, expected: &str) {
    let resolved = RealDisk::new().resolve(&folder.path.join(path));
    let actual = match resolved {
        Ok(Resolved { path, exists, .. }) => {
            let relative = path.strip_prefix(&folder.path).unwrap_or(&path);
            let missing = if exists { "" } else { " missing" };
            format!("{}{missing}", relative.display())
        }
        Err(err) => format!("{:?}: {}", err.kind, err.detail),
    };
    assert_eq!(actual, expected, "{path}");
}

fn linked_folder() -> Folder {
    let folder = Folder::new(&[("real/a.txt", "a"), ("top.txt", "top")]);
    for (link, target) in [
        ("link", "real"),
        ("a", "real/a.txt"),
        ("chain", "chain2"),
        ("chain2", "link/a.txt"),
        ("dangling", "real/new.txt"),
        ("dangling_chain", "dangling"),
        ("dangling_far", "no/such/dir/x"),
        ("loop", "loop2"),
        ("loop2", "loop"),
        ("self", "self/x"),
    ] {
        symlink(target, folder.path(link)).expect("symlink");
    }
    symlink(folder.path("real/b.txt"), folder.path("absolute")).expect("symlink");
    folder
}

#[test]
fn every_spelling_of_a_file_has_one_identity() {
    let folder = linked_folder();
    for spelling in [
        "real/a.txt",
        "./real/.//a.txt",
        "link/a.txt",
        "a",
        "chain",
        "missing/../real/a.txt",
        "real/../real/a.txt",
        "link/../chain2",
    ] {
        check_resolve(&folder, spelling, "real/a.txt");
    }
    check_resolve(&folder, "link", "real");
    check_resolve(&folder, "real/..", "");
    check_resolve(&folder, "missing/..", "");
    check_resolve(&folder, "/../../..", "/");
}

#[test]
fn dots_are_taken_after_the_links_before_them() {
    let folder = linked_folder();
    folder.write("deep/er/b.txt", "b");
    symlink("deep/er", folder.path("deeper")).expect("symlink");
    check_resolve(&folder, "deeper/../b.txt", "deep/b.txt missing");
}

#[test]
fn a_missing_file_has_the_identity_that_it_will_have() {
    let folder = linked_folder();
    for (spelling, identity) in [
        ("new.txt", "new.txt"),
        ("link/new.txt", "real/new.txt"),
        ("link/x/../y/z/new.txt", "real/y/z/new.txt"),
        ("dangling", "real/new.txt"),
        ("dangling_chain", "real/new.txt"),
        ("dangling_far", "no/such/dir/x"),
        ("absolute", "real/b.txt"),
    ] {
        check_resolve(&folder, spelling, &format!("{identity} missing"));
        let changes = [folder.create(identity, "")];
        folder.change(&changes).expect("created");
        check_resolve(&folder, spelling, identity);
        folder
            .change(&[folder.delete(identity, "")])
            .expect("deleted");
    }
}

#[test]
fn paths_that_can_lead_nowhere_are_refused() {
    let folder = linked_folder();
    let loops = "Io: the path's symbolic links form a loop, or are too many";
    check_resolve(&folder, "loop", loops);
    check_resolve(&folder, "loop/x", loops);
    check_resolve(&folder, "self", loops);
    let under_a_file = "NotFound: a directory of the path is a regular file";
    check_resolve(&folder, "top.txt/x", under_a_file);
    check_resolve(&folder, "top.txt/..", under_a_file);
    check_resolve(&folder, "a/x/y", under_a_file);
    let byte = folder.path.as_os_str().len() + 2;
    let nul = format!("InvalidPath: a NUL in the path at byte {byte}");
    check_resolve(&folder, "x\0y", &nul);
    let long = "x".repeat(256);
    check_resolve(
        &folder,
        &long,
        "InvalidPath: cannot look up the path: file name too long (os error 36)",
    );
    let deep = "x/".repeat(2100);
    check_resolve(&folder, &deep, "InvalidPath: the path is too long");
    for (path, detail) in [
        ("", "an empty path"),
        (" \t", "an empty path"),
        ("a.txt", "a relative path"),
    ] {
        let err = RealDisk::new()
            .resolve(Path::new(path))
            .expect_err("refused");
        assert_eq!(
            (err.kind, &err.detail[..]),
            (DiskErrorKind::InvalidPath, detail)
        );
    }
}

#[track_caller]
fn check_look(path: &Path, limit_bytes: u64, expected: &str) {
    let actual = match RealDisk::new().look(path, limit_bytes) {
        Ok(Look::Absent) => "absent".to_string(),
        Ok(Look::Text(text)) => format!("text {}", text.raw(0..text.len_bytes())),
        Err(err) => format!("{:?}: {}", err.kind, err.detail),
    };
    assert_eq!(actual, expected, "{}", path.display());
}

#[test]
fn only_regular_files_are_read() {
    let folder = Folder::new(&[("dir/a.txt", "a")]);
    let fifo = folder.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).expect("mkfifo");
    let _listener = UnixListener::bind(folder.path("socket")).expect("bind");
    symlink("dir/a.txt", folder.path("link")).expect("symlink");
    for (path, what) in [
        ("dir", "a directory"),
        ("fifo", "a FIFO"),
        ("socket", "a socket"),
        ("/dev/null", "a character device"),
        ("link", "a symbolic link"),
        ("/", "a directory"),
    ] {
        let path = folder.path.join(path);
        check_look(&path, 10, &format!("NotRegularFile: {what}"));
        let expected = text("");
        for change in [
            DiskChange::Create {
                path: path.clone(),
                text: text(""),
            },
            DiskChange::Replace {
                path: path.clone(),
                expected: expected.clone(),
                text: text("x"),
            },
            DiskChange::Delete { path, expected },
        ] {
            let failure = folder.disk.stage(&[change]).expect_err("refused");
            assert_eq!(
                failure.error,
                DiskError::new(DiskErrorKind::NotRegularFile, what)
            );
        }
    }
    assert!(folder.path("fifo").exists());
}

#[test]
fn missing_files_are_absent_and_what_is_below_a_file_is_an_error() {
    let folder = Folder::new(&[("a.txt", "a")]);
    check_look(&folder.path("b.txt"), 10, "absent");
    check_look(&folder.path("no/b.txt"), 10, "absent");
    check_look(
        &folder.path("a.txt/b.txt"),
        10,
        "NotFound: a directory of the path is a regular file",
    );
}

#[test]
fn the_limit_is_inclusive_and_counts_bytes() {
    let folder = Folder::new(&[("a.txt", "äöü")]);
    let path = folder.path("a.txt");
    check_look(&path, 6, "text äöü");
    check_look(&path, 5, "TooLarge: at least 6 bytes, the limit is 5");
    check_look(&path, 0, "TooLarge: at least 6 bytes, the limit is 0");
    folder.write("a.txt", "");
    check_look(&path, 0, "text ");
}

#[test]
fn files_that_tell_no_size_are_read_to_their_end() {
    let path = Path::new("/proc/self/status")
        .canonicalize()
        .expect("procfs");
    match RealDisk::new().look(&path, 100_000) {
        Ok(Look::Text(text)) => assert!(text.len_bytes() > 100),
        other => panic!("{other:?}"),
    }
    check_look(&path, 3, &{
        let err = RealDisk::new().look(&path, 3).expect_err("too large");
        assert_eq!(err.kind, DiskErrorKind::TooLarge);
        format!("TooLarge: {}", err.detail)
    });
}

#[test]
fn large_texts_come_back_whole() {
    let folder = Folder::new(&[]);
    let long = "0123456789abcdef".repeat(40_000);
    folder
        .change(&[folder.create("a.txt", &long)])
        .expect("created");
    check_look(&folder.path("a.txt"), 640_000, &format!("text {long}"));
    folder
        .change(&[folder.replace("a.txt", &long, "short")])
        .expect("replaced");
    check_look(&folder.path("a.txt"), 640_000, "text short");
}
