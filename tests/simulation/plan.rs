//! What a call asks for, the naive way: string replacement, change by change.

use std::collections::BTreeMap;

use crate::{
    error::Code,
    protocol::{Change, Guard},
    version::Version,
};

use super::{
    files,
    text::{BOM, fold, hits, view},
};

/// The view of a file; none: it is not there.
pub(super) type Content = Option<String>;

/// The file that a name of the run means.
pub(super) fn file_of(name: &str) -> u8 {
    if name.contains(':') {
        files::of_uri(name)
    } else {
        files::of_path(std::path::Path::new(name))
    }
}

/// The files of a call, in the order in which they are named.
pub(super) fn files_of(changes: &[Change]) -> Vec<u8> {
    let mut files = Vec::new();
    for change in changes {
        let new_path = match change {
            Change::Rename { new_path, .. } => Some(new_path.as_str()),
            _ => None,
        };
        for name in [Some(change.path()), new_path].into_iter().flatten() {
            let file = file_of(name);
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

/// The changes of one file.
pub(super) fn changes_of(changes: &[Change], file: u8) -> Vec<Change> {
    let own = changes.iter().filter(|it| file_of(it.path()) == file);
    own.cloned().collect()
}

/// The version of a view; not of a raw text, where a line end may be `\r\r\n`.
pub(super) fn version(view: &str) -> Version {
    let hash = blake3::hash(view.as_bytes()).to_hex();
    Version::parse(&format!("b3:{}", &hash[..32])).expect("32 digits")
}

/// Makes the changes on what the files hold.
pub(super) fn run(changes: &[Change], files: &mut BTreeMap<u8, Content>) -> Result<(), Code> {
    for change in changes {
        let file = file_of(change.path());
        let content = files.get(&file).cloned().flatten();
        // Each change sees the result of those before it, and so does what its caller says that the file holds.
        match change.guard() {
            Some(Guard::ReplaceIfVersion { version: named })
                if content.as_deref().map(version) != Some(named) =>
            {
                return Err(Code::FsStaleVersion);
            }
            Some(Guard::CreateIfAbsent) if content.is_some() => {
                return Err(Code::FsAlreadyExists);
            }
            _ => {}
        }
        match change {
            Change::Edit {
                old_string,
                new_string,
                replace_all,
                ..
            } => {
                let text = content.ok_or(Code::FsNotFound)?;
                files.insert(
                    file,
                    Some(edit(&text, old_string, new_string, *replace_all)?),
                );
            }
            Change::Write { content: new, .. } => {
                let new = if content.is_some() {
                    new.trim_start_matches(BOM)
                } else {
                    new
                };
                files.insert(file, Some(view(new)));
            }
            Change::Delete { .. } => {
                content.ok_or(Code::FsNotFound)?;
                files.insert(file, None);
            }
            Change::Rename { new_path, .. } => {
                let to = file_of(new_path);
                if files.get(&to).is_some_and(Option::is_some) || to == file {
                    return Err(Code::FsAlreadyExists);
                }
                files.insert(to, Some(content.ok_or(Code::FsNotFound)?));
                files.insert(file, None);
            }
        }
    }
    Ok(())
}

fn edit(text: &str, old: &str, new: &str, all: bool) -> Result<String, Code> {
    let (old, new) = (fold(old), fold(new));
    if old == new {
        return Err(Code::FsNoChange);
    }
    let hits = hits(text, &old);
    let overlap = hits.windows(2).any(|it| it[1] < it[0] + old.len());
    match hits.len() {
        0 => Err(Code::FsEditNotFound),
        1 => Ok(text.replacen(&old, &new, 1)),
        _ if all && !overlap => Ok(text.replace(&old, &new)),
        _ => Err(Code::FsAmbiguousEdit),
    }
}

/// True if `after` is `before` with each hit of `old` replaced by something that reads as `new`, and not a byte more.
pub(super) fn only_hits_changed(before: &str, after: &str, old: &str, new: &str) -> bool {
    let (old, new) = (fold(old), fold(new));
    let mut rest = after;
    let mut from = 0;
    for (start, end) in raw_hits(before, &old) {
        let Some(behind) = rest.strip_prefix(&before[from..start]) else {
            return false;
        };
        let Some(len) = raw_len(behind, &new) else {
            return false;
        };
        rest = &behind[len..];
        from = end;
    }
    rest == &before[from..]
}

/// The length of the raw text that reads as `new`.
fn raw_len(raw: &str, new: &str) -> Option<usize> {
    let mut at = 0;
    for sign in new.chars() {
        let rest = &raw[at..];
        at += if sign == '\n' && rest.starts_with("\r\n") {
            2
        } else if rest.starts_with(sign) {
            sign.len_utf8()
        } else {
            return None;
        };
    }
    Some(at)
}

/// Where a view text is in a raw one.
fn raw_hits(raw: &str, old: &str) -> Vec<(usize, usize)> {
    // For each byte of the view, where it is in the raw text.
    let mut places = Vec::new();
    let start = if raw.starts_with(BOM) { BOM.len() } else { 0 };
    let bytes = raw.as_bytes();
    for at in start..bytes.len() {
        if bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n') {
            continue;
        }
        let is_pair = bytes[at] == b'\n' && at > start && bytes[at - 1] == b'\r';
        places.push((at - usize::from(is_pair), at + 1));
    }
    let hits = hits(&view(raw), old);
    hits.into_iter()
        .map(|it| (places[it].0, places[it + old.len() - 1].1))
        .collect()
}
