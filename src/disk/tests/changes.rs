//! What changes do, and what they leave alone.

use std::os::unix::fs::{MetadataExt, symlink};

use super::*;

/// Makes changes in a folder and shows what came of them.
#[track_caller]
fn check(folder: &Folder, changes: &[DiskChange], expected: &str, shows: &str) {
    assert_eq!(outcome(folder.change(changes)), expected);
    assert_eq!(folder.shows(), shows);
}

#[test]
fn each_kind_of_change_does_what_it_says() {
    let folder = Folder::new(&[("a", "A"), ("b", "B"), ("c", "C")]);
    let changes = [
        folder.replace("a", "A", "AA"),
        folder.delete("b", "B"),
        folder.rename("c", "new/dir/c", "C"),
        folder.create("new/d", "D"),
    ];
    check(
        &folder,
        &changes,
        "ok",
        "a=AA new/ new/d=D new/dir/ new/dir/c=C",
    );
}

#[test]
fn changes_are_made_in_their_order() {
    let folder = Folder::new(&[("a", "A"), ("b", "B")]);
    let changes = [
        folder.rename("a", "c", "A"),
        folder.replace("c", "A", "AA"),
        folder.replace("c", "AA", "AAA"),
        folder.create("a", "new"),
        folder.replace("a", "new", "newer"),
        folder.delete("b", "B"),
        folder.create("b", "again"),
        folder.rename("b", "d/b", "again"),
        folder.create("e", "E"),
        folder.delete("e", "E"),
    ];
    check(&folder, &changes, "ok", "a=newer c=AAA d/ d/b=again");
}

#[test]
fn a_change_is_checked_against_what_the_changes_before_it_leave() {
    let folder = Folder::new(&[("a", "A"), ("b", "B")]);
    let check = |changes: &[DiskChange], expected: &str| {
        check(&folder, changes, expected, "a=A b=B");
    };
    check(
        &[folder.rename("a", "c", "A"), folder.replace("a", "A", "x")],
        "1 Stale: the file does not exist any more",
    );
    check(
        &[folder.rename("a", "c", "A"), folder.replace("c", "B", "x")],
        "1 Stale: the file has another content",
    );
    check(
        &[folder.replace("a", "A", "x"), folder.replace("a", "A", "y")],
        "1 Stale: the file has another content",
    );
    check(
        &[folder.delete("a", "A"), folder.delete("a", "A")],
        "1 Stale: the file does not exist any more",
    );
    check(
        &[folder.create("c", ""), folder.create("c", "")],
        "1 Exists: a file is there already",
    );
    check(
        &[folder.rename("a", "c", "A"), folder.rename("b", "c", "B")],
        "1 Exists: a file is there already",
    );
}

#[test]
fn one_refused_change_leaves_all_as_it_was() {
    let folder = Folder::new(&[("a", "A"), ("b", "B"), ("c", "C")]);
    let first = [
        folder.replace("a", "A", "x"),
        folder.create("new/dir/d", "D"),
        folder.rename("c", "far/c", "C"),
    ];
    for (last, expected) in [
        (
            folder.replace("b", "b", "x"),
            "3 Stale: the file has another content",
        ),
        (
            folder.replace("no/b", "B", "x"),
            "3 Stale: the file does not exist any more",
        ),
        (
            folder.delete("b", ""),
            "3 Stale: the file has another content",
        ),
        (
            folder.rename("b", "x", "BB"),
            "3 Stale: the file has another content",
        ),
        (
            folder.rename("x", "y", ""),
            "3 Stale: the file does not exist any more",
        ),
        (
            folder.rename("b", "a", "B"),
            "3 Exists: a file is there already",
        ),
        (folder.create("b", "B"), "3 Exists: a file is there already"),
        (
            folder.create("b/x", "B"),
            "3 NotFound: a directory of the path is a regular file",
        ),
        (
            folder.create("b/x/y", "B"),
            "3 NotFound: a directory of the path is a regular file",
        ),
    ] {
        let changes = [&first[..], &[last]].concat();
        check(&folder, &changes, expected, "a=A b=B c=C");
    }
}

#[test]
fn aborting_removes_everything_even_made_directories() {
    let folder = Folder::new(&[("a", "A")]);
    let changes = [
        folder.replace("a", "A", "x"),
        folder.create("new/dir/b", "B"),
        folder.create("other/b", "B"),
    ];
    let staged = folder.disk.stage(&changes).expect("staged");
    assert_eq!(staged.changes().len(), 3);
    folder.write("other/mine", "M");
    folder.disk.abort(staged);
    assert_eq!(folder.shows(), "a=A other/ other/mine=M");
    drop(folder.disk.stage(&changes).expect("staged"));
    assert_eq!(folder.shows(), "a=A other/ other/mine=M");
}

#[test]
fn what_changed_between_stage_and_commit_is_stale() {
    for (change, human, expected, shows) in [
        (
            "replace",
            "save",
            "0 Stale: the file has changed",
            "a=human",
        ),
        (
            "replace",
            "remove",
            "0 Stale: the file does not exist any more",
            "",
        ),
        (
            "replace",
            "mkdir",
            "0 Stale: the file does not exist any more",
            "a/",
        ),
        ("delete", "save", "0 Stale: the file has changed", "a=human"),
        (
            "delete",
            "remove",
            "0 Stale: the file does not exist any more",
            "",
        ),
        ("rename", "save", "0 Stale: the file has changed", "a=human"),
        (
            "rename",
            "remove",
            "0 Stale: the file does not exist any more",
            "",
        ),
        (
            "rename",
            "occupy",
            "0 Exists: a file is there already",
            "a=A b=human",
        ),
        (
            "create",
            "occupy",
            "0 Exists: a file is there already",
            "a=A b=human",
        ),
        (
            "create",
            "occupy with mkdir",
            "0 NotRegularFile: a directory",
            "a=A b/",
        ),
        ("replace", "touch", "ok", "a=x"),
        ("replace", "save the same", "ok", "a=x"),
        ("replace", "save and undo", "ok", "a=x"),
    ] {
        let folder = Folder::new(&[("a", "A")]);
        let changes = match change {
            "replace" => [folder.replace("a", "A", "x")],
            "delete" => [folder.delete("a", "A")],
            "rename" => [folder.rename("a", "b", "A")],
            _ => [folder.create("b", "B")],
        };
        let staged = folder.disk.stage(&changes).expect("staged");
        match human {
            "save" => folder.write("a", "human"),
            "remove" => fs::remove_file(folder.path("a")).expect("removed"),
            "mkdir" => {
                fs::remove_file(folder.path("a")).expect("removed");
                fs::create_dir(folder.path("a")).expect("made");
            }
            "occupy" => folder.write("b", "human"),
            "occupy with mkdir" => fs::create_dir(folder.path("b")).expect("made"),
            "touch" => fs::File::open(folder.path("a"))
                .and_then(|file| file.set_modified(std::time::SystemTime::UNIX_EPOCH))
                .expect("touched"),
            "save and undo" => {
                folder.write("a", "human");
                folder.write("a", "A");
            }
            _ => folder.write("a", "A"),
        }
        let result = outcome(folder.disk.commit(staged));
        assert_eq!(
            (&result[..], &folder.shows()[..]),
            (expected, shows),
            "{change}, {human}"
        );
    }
}

#[test]
fn mode_and_special_bits_are_kept() {
    for mode in [
        0o644, 0o600, 0o640, 0o664, 0o755, 0o4755, 0o2755, 0o1644, 0o666,
    ] {
        let folder = Folder::new(&[("a", "A")]);
        folder.chmod("a", mode);
        folder
            .change(&[folder.replace("a", "A", "x")])
            .expect("replaced");
        assert_eq!(format!("{:o}", folder.mode("a")), format!("{mode:o}"));
    }
}

#[test]
fn a_mode_given_after_staging_is_kept() {
    let folder = Folder::new(&[("a", "A")]);
    let staged = folder
        .disk
        .stage(&[folder.replace("a", "A", "x")])
        .expect("staged");
    folder.chmod("a", 0o751);
    folder.disk.commit(staged).expect("committed");
    assert_eq!(
        (folder.mode("a"), folder.shows()),
        (0o751, "a=x".to_string())
    );
}

#[test]
fn owner_attributes_and_acl_are_kept() {
    // Version 2; owner rw-, user 1234 rwx, group r--, mask rwx, others ---.
    const ACL: [u8; 44] = [
        2, 0, 0, 0, //
        1, 0, 6, 0, 255, 255, 255, 255, //
        2, 0, 7, 0, 210, 4, 0, 0, //
        4, 0, 4, 0, 255, 255, 255, 255, //
        16, 0, 7, 0, 255, 255, 255, 255, //
        32, 0, 0, 0, 255, 255, 255, 255,
    ];
    let folder = Folder::new(&[("a", "A"), ("plain", "P")]);
    let path = folder.path("a");
    // Others than root cannot give files away.
    let _ = std::os::unix::fs::chown(&path, Some(1234), Some(2345));
    let owner = |path: &Path| {
        fs::metadata(path)
            .map(|it| (it.uid(), it.gid()))
            .expect("exists")
    };
    let before = owner(&path);
    let flags = rustix::fs::XattrFlags::empty();
    let set = |path: &Path, name, value| rustix::fs::setxattr(path, name, value, flags);
    if set(&path, "user.note", b"kept").is_err() {
        return; // a file system without attributes
    }
    set(&path, "system.posix_acl_access", &ACL).expect("an ACL");
    set(&folder.path, "system.posix_acl_default", &ACL).expect("a default ACL");
    let mode = folder.mode("a");
    let changes = [
        folder.replace("a", "A", "x"),
        folder.replace("plain", "P", "y"),
    ];
    folder.change(&changes).expect("replaced");
    let get = |path: &Path, name| {
        let mut value = [0; 100];
        rustix::fs::getxattr(path, name, &mut value[..]).map(|n_bytes| value[..n_bytes].to_vec())
    };
    assert_eq!(get(&path, "user.note").expect("kept"), b"kept");
    assert_eq!(get(&path, "system.posix_acl_access").expect("kept"), ACL);
    assert_eq!((folder.mode("a"), owner(&path)), (mode, before));
    assert!(get(&folder.path("plain"), "system.posix_acl_access").is_err());
}

#[test]
fn a_new_file_has_the_mode_that_the_system_gives() {
    let folder = Folder::new(&[("by_hand", "")]);
    folder
        .change(&[folder.create("made", ""), folder.create("dir/made", "")])
        .expect("created");
    assert_eq!(folder.mode("made"), folder.mode("by_hand"));
    fs::create_dir(folder.path("dir_by_hand")).expect("made");
    assert_eq!(folder.mode("dir"), folder.mode("dir_by_hand"));
}

#[test]
fn read_only_files_and_directories_are_left_alone() {
    let folder = Folder::new(&[("a", "A"), ("dir/b", "B"), ("c", "C")]);
    folder.chmod("a", 0o444);
    folder.chmod("dir", 0o555);
    let read_only = "0 PermissionDenied: the file is read-only";
    let admits_none = "0 PermissionDenied: the directory is read-only";
    for (change, expected) in [
        (folder.replace("a", "A", "x"), read_only),
        (folder.delete("a", "A"), read_only),
        (folder.rename("a", "x", "A"), read_only),
        (folder.replace("dir/b", "B", "x"), admits_none),
        (folder.delete("dir/b", "B"), admits_none),
        (folder.rename("dir/b", "x", "B"), admits_none),
        (folder.rename("c", "dir/c", "C"), admits_none),
        (folder.create("dir/c", "C"), admits_none),
        (
            folder.create("dir/x/y/c", "C"),
            "0 PermissionDenied: cannot make the directory: permission denied (os error 13)",
        ),
    ] {
        check(&folder, &[change], expected, "a=A c=C dir/ dir/b=B");
    }
    folder.chmod("dir", 0o755);
}

#[test]
fn all_names_of_a_file_show_the_change() {
    let folder = Folder::new(&[("a", "old text")]);
    fs::hard_link(folder.path("a"), folder.path("b")).expect("linked");
    let changes = [
        folder.replace("a", "old text", "new"),
        folder.create("c", "C"),
    ];
    let staged = folder.disk.stage(&changes).expect("staged");
    assert_eq!(staged.in_place(), [true, false]);
    let committed = folder.disk.commit(staged).expect("committed");
    assert_eq!(committed.in_place, [true, false]);
    assert_eq!(folder.shows(), "a=new b=new c=C");
    let changes = [
        folder.replace("b", "new", "much longer than before"),
        folder.replace("b", "much longer than before", "short"),
        folder.rename("a", "d", "short"),
    ];
    assert_eq!(
        outcome(folder.change(&changes)),
        "2 Stale: the file has another content"
    );
    assert_eq!(folder.shows(), "a=new b=new c=C");
}

#[test]
fn a_name_given_after_staging_makes_the_change_stale() {
    let folder = Folder::new(&[("a", "A")]);
    let staged = folder
        .disk
        .stage(&[folder.replace("a", "A", "x")])
        .expect("staged");
    fs::hard_link(folder.path("a"), folder.path("b")).expect("linked");
    let result = outcome(folder.disk.commit(staged));
    assert_eq!(result, "0 Stale: the file has got another name");
    assert_eq!(folder.shows(), "a=A b=A");
}

#[test]
fn the_longest_names_work() {
    let name = "n".repeat(255);
    let folder = Folder::new(&[]);
    let other = "m".repeat(255);
    folder
        .change(&[folder.create(&name, "1")])
        .expect("created");
    folder
        .change(&[folder.replace(&name, "1", "2")])
        .expect("replaced");
    folder
        .change(&[folder.rename(&name, &other, "2")])
        .expect("renamed");
    assert_eq!(folder.shows(), format!("{other}=2"));
    folder
        .change(&[folder.delete(&other, "2")])
        .expect("deleted");
    assert_eq!(folder.shows(), "");
}

#[test]
fn a_directory_moved_away_or_swapped_for_a_link_is_not_followed() {
    for swap in ["move", "link"] {
        let folder = Folder::new(&[("dir/a", "A"), ("secret/a", "A"), ("z", "Z")]);
        let changes = [
            folder.replace("z", "Z", "x"),
            folder.replace("dir/a", "A", "x"),
        ];
        let staged = folder.disk.stage(&changes).expect("staged");
        fs::rename(folder.path("dir"), folder.path("moved")).expect("renamed");
        if swap == "link" {
            symlink("secret", folder.path("dir")).expect("linked");
        }
        let result = outcome(folder.disk.commit(staged));
        assert_eq!(
            result,
            "1 Stale: the directory of the file was moved or removed"
        );
        let link = if swap == "link" { "dir->secret " } else { "" };
        let shows = format!("{link}moved/ moved/a=A secret/ secret/a=A z=Z");
        assert_eq!(folder.shows(), shows);
    }
}

#[test]
fn ropes_are_written_and_compared_like_flat_texts() {
    let folder = Folder::new(&[("a", "a\r\nb")]);
    let rope = |text: &str| Text::Rope(ropey::Rope::from_str(text));
    let replace = |expected: &str, text: &str| DiskChange::Replace {
        path: folder.path("a"),
        expected: rope(expected),
        text: rope(text),
    };
    check(
        &folder,
        &[replace("a\r\nb", "\u{FEFF}c\r\n")],
        "ok",
        "a=\u{FEFF}c\r\n",
    );
    check(
        &folder,
        &[replace("\u{FEFF}c\n", "x")],
        "0 Stale: the file has another content",
        "a=\u{FEFF}c\r\n",
    );
}
