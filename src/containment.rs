//! Where files may be changed.
//!
//! Invariant: only canonical paths are compared, and by whole components, so that neither `..` nor a link nor a sibling
//! with the same beginning (`/ws-evil` beside `/ws`) leads out. What cannot be judged is refused.
//!
//! Nothing here touches the disk: the engine looks up the roots together with the paths of a call.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::{
    path::{self, FileKey, Folder, Lookups},
    protocol::Containment as Mode,
};

/// What is protected unless the options say otherwise: repositories, also nested ones, and the `.git` file of a worktree.
const PROTECTED: &str = "**/.git/**";

/// The options that say where files may be changed.
#[derive(Debug, Clone)]
pub struct Containment {
    mode: Mode,
    extra_roots: Vec<PathBuf>,
    protected: Protected,
    /// Where the server may leave temporary files; a root like the others.
    pub temp_dir: Option<PathBuf>,
}

impl Default for Containment {
    fn default() -> Self {
        Self::new(None, None, None).expect("the defaults are valid")
    }
}

impl Containment {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// A sentence that names the member with the wrong value.
    pub fn new(
        mode: Option<Mode>,
        extra_roots: Option<Vec<String>>,
        protected: Option<Vec<String>>,
    ) -> Result<Self, String> {
        let extra_roots = extra_roots.into_iter().flatten().enumerate();
        let extra_roots = extra_roots.map(|(idx, name)| {
            let path = if name.starts_with("file:") {
                path::dir_uri_to_path(&name)
            } else {
                Some(PathBuf::from(&name))
            };
            path.filter(|it| it.is_absolute() && !name.contains('\0'))
                .ok_or_else(|| {
                    format!("extraRoots[{idx}]: {name:?} is no absolute path of this machine")
                })
        });
        let protected = protected.unwrap_or_else(|| vec![PROTECTED.to_string()]);
        Ok(Self {
            mode: mode.unwrap_or_default(),
            extra_roots: extra_roots.collect::<Result<_, _>>()?,
            protected: Protected::new(&protected)?,
            temp_dir: None,
        })
    }

    /// The directories below which files may be changed, as they were given; to be looked up before [`Roots::of`].
    pub fn given(&self, folders: &[Folder]) -> Vec<PathBuf> {
        let folders = folders.iter().map(|it| &it.path);
        folders
            .chain(&self.extra_roots)
            .chain(&self.temp_dir)
            .cloned()
            .collect()
    }

    /// Says why a file may not be changed.
    pub fn denial(&self, key: &FileKey, roots: &Roots) -> Option<Denial> {
        if self.mode == Mode::ReadOnly {
            return Some(Denial::ReadOnly);
        }
        let path = match key {
            FileKey::Path(path) => path,
            // It names a file, but nobody here can say which.
            FileKey::Uri(uri) if uri.starts_with("file:") && self.mode == Mode::Workspace => {
                return Some(Denial::Outside);
            }
            FileKey::Uri(_) => return None,
        };
        let is_below = |it: &&Root| path.starts_with(&it.canonical);
        let mut around = roots.0.iter().filter(is_below).peekable();
        if self.mode == Mode::Workspace && around.peek().is_none() {
            return Some(Denial::Outside);
        }
        let glob = self.protected.of(path, around.map(|it| &*it.canonical));
        glob.map(|it| Denial::Protected(it.to_string()))
    }
}

/// Why a file may not be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// Nothing may be changed.
    ReadOnly,
    /// It lies below no root.
    Outside,
    /// It is protected, by this glob.
    Protected(String),
}

/// A directory below which files may be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Root {
    /// As the options or the editor named it.
    given: PathBuf,
    canonical: PathBuf,
}

/// The directories below which files may be changed, as they were looked up for one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots(Vec<Root>);

impl Roots {
    /// Those of `given` that can be looked up.
    pub fn of(given: Vec<PathBuf>, lookups: &Lookups) -> Self {
        let roots = given.into_iter().filter_map(|given| {
            let canonical = match lookups.get(&given) {
                Some(Ok(resolved)) => resolved.path.clone(),
                Some(Err(_)) => return None,
                None => given.clone(),
            };
            Some(Root { given, canonical })
        });
        Self(roots.collect())
    }

    /// Leaves those that are still given.
    pub fn retain(&mut self, given: &[PathBuf]) {
        self.0.retain(|it| given.contains(&it.given));
    }

    /// The names of the directories, for people and models.
    pub fn names(&self) -> String {
        let names = self
            .0
            .iter()
            .map(|it| format!("\"{}\"", it.given.display()));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Globs of what is never changed.
///
/// They compare without case: on a disk that does the same, `.GIT` is the repository too, and elsewhere nobody needs it.
#[derive(Debug, Clone)]
struct Protected {
    given: Vec<String>,
    /// Of paths relative to a root; the globs' indices are those of `given`.
    relative: GlobSet,
    /// Of absolute paths; with the index of each in `given`.
    absolute: GlobSet,
    absolute_idx: Vec<usize>,
}

impl Protected {
    fn new(given: &[String]) -> Result<Self, String> {
        let mut relative = GlobSetBuilder::new();
        let mut absolute = GlobSetBuilder::new();
        let mut absolute_idx = Vec::new();
        for (idx, name) in given.iter().enumerate() {
            let failed = |why: &str| format!("protected[{idx}]: {name:?} {why}");
            let glob = |pattern: &str| {
                let mut builder = GlobBuilder::new(pattern);
                let builder = builder.literal_separator(true).case_insensitive(true);
                builder.build().map_err(|err| failed(&err.to_string()))
            };
            // All below a directory, or the directory: whoever protects one means the other, too.
            let pattern = name.strip_suffix("/**").unwrap_or(name);
            let pattern = pattern.strip_suffix('/').unwrap_or(pattern);
            let below = pattern.trim_start_matches("./").trim_start_matches('/');
            if below.is_empty() {
                return Err(failed("names nothing"));
            }
            if below.split('/').any(|it| it == "..") {
                return Err(failed("must not contain \"..\""));
            }
            relative.add(if name.contains('/') {
                glob(below)?
            } else {
                glob(&format!("**/{below}"))?
            });
            if pattern.starts_with('/') {
                absolute.add(glob(pattern)?);
                absolute_idx.push(idx);
            }
        }
        let build = |builder: GlobSetBuilder| {
            let built = builder.build();
            built.map_err(|err| format!("protected: {err}"))
        };
        Ok(Self {
            given: given.to_vec(),
            relative: build(relative)?,
            absolute: build(absolute)?,
            absolute_idx,
        })
    }

    /// The glob that protects a path, or a directory above it, below one of the roots.
    fn of<'a>(&self, path: &Path, roots: impl Iterator<Item = &'a Path>) -> Option<&str> {
        for root in roots {
            let below = path.strip_prefix(root).unwrap_or(path);
            if let Some(idx) = first_match(&self.relative, below) {
                return Some(&self.given[idx]);
            }
        }
        let idx = first_match(&self.absolute, path)?;
        Some(&self.given[self.absolute_idx[idx]])
    }
}

/// The index of the first glob that matches a path or a directory above it.
fn first_match(globs: &GlobSet, path: &Path) -> Option<usize> {
    let mut above = PathBuf::new();
    path.components().find_map(|component| {
        above.push(component);
        let is_named = matches!(component, Component::Normal(_));
        let matches = is_named.then(|| globs.matches(&above))?;
        matches.into_iter().min()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(names: &[&str]) -> Roots {
        Roots::of(
            names.iter().map(PathBuf::from).collect(),
            &Lookups::default(),
        )
    }

    fn key(path: &str) -> FileKey {
        FileKey::Path(path.into())
    }

    #[track_caller]
    fn check_protected(globs: &[&str], path: &str, expected: Option<&str>) {
        let globs = globs.iter().map(ToString::to_string).collect();
        let containment = Containment::new(None, None, Some(globs)).expect("the globs are valid");
        let denial = containment.denial(&key(path), &roots(&["/ws", "/other"]));
        let expected = expected.map(|it| Denial::Protected(it.to_string()));
        assert_eq!(denial, expected, "{path}");
    }

    #[test]
    fn a_file_is_changed_only_below_a_root_compared_by_whole_names() {
        let containment = Containment::default();
        let outside = Some(Denial::Outside);
        for (path, root, expected) in [
            ("/ws/a", "/ws", &None),
            ("/ws/a", "/ws/", &None),
            ("/ws", "/ws", &None),
            ("/ws-evil/a", "/ws", &outside),
            ("/w/a", "/ws", &outside),
            ("/a", "/ws", &outside),
            ("/etc/passwd", "/", &None),
        ] {
            let denial = containment.denial(&key(path), &roots(&[root]));
            assert_eq!(denial, *expected, "{path} below {root}");
        }
        assert_eq!(containment.denial(&key("/ws/a"), &roots(&[])), outside);
    }

    #[test]
    fn what_only_an_editor_has_is_no_file() {
        let containment = Containment::default();
        let denial = |uri: &str| containment.denial(&FileKey::Uri(uri.into()), &roots(&["/ws"]));
        assert_eq!(denial("untitled:Untitled-1"), None);
        assert_eq!(denial("file://host/etc/passwd"), Some(Denial::Outside));
    }

    #[test]
    fn a_glob_protects_below_each_root_and_below_what_it_names() {
        check_protected(&["secret/*.key"], "/ws/secret/a.key", Some("secret/*.key"));
        check_protected(
            &["secret/*.key"],
            "/other/secret/a.key",
            Some("secret/*.key"),
        );
        check_protected(&["secret/*.key"], "/ws/secret/a/b.key", None);
        check_protected(&["secret/*.key"], "/ws/a/secret/a.key", None);
        check_protected(&["secret/**"], "/ws/secret", Some("secret/**"));
        check_protected(&["secret"], "/ws/a/secret/b/c", Some("secret"));
        check_protected(&["./secret/"], "/ws/secret/b", Some("./secret/"));
        check_protected(&["*.key"], "/ws/a/b.key", Some("*.key"));
        check_protected(&["/ws/x/**"], "/ws/x/y", Some("/ws/x/**"));
        check_protected(&["a", "/x"], "/ws/x/y", Some("/x"));
        check_protected(&["a", "**"], "/ws/b", Some("**"));
        check_protected(&[], "/ws/.git/config", None);
    }

    #[test]
    fn repositories_are_protected_by_default() {
        let containment = Containment::default();
        for (path, is_protected) in [
            ("/ws/.git/config", true),
            ("/ws/.git", true),
            ("/ws/.GIT/hooks/pre-commit", true),
            ("/ws/sub/.git/config", true),
            ("/ws/.gitignore", false),
            ("/ws/.github/x.yml", false),
            ("/ws/a.git/config", false),
        ] {
            let denial = containment.denial(&key(path), &roots(&["/ws"]));
            assert_eq!(denial.is_some(), is_protected, "{path}");
        }
    }

    #[test]
    fn what_is_protected_stays_so_without_containment() {
        let containment =
            Containment::new(Some(Mode::None), None, None).expect("the options are valid");
        let denial = |path: &str| containment.denial(&key(path), &roots(&["/ws"]));
        assert_eq!(denial("/etc/passwd"), None);
        assert!(matches!(
            denial("/ws/.git/config"),
            Some(Denial::Protected(_))
        ));
    }

    #[test]
    fn options_that_cannot_be_kept_are_named() {
        for (roots, globs, name) in [
            (vec!["relative"], vec![], "extraRoots[0]"),
            (vec!["/a", ""], vec![], "extraRoots[1]"),
            (vec!["file://host/a"], vec![], "extraRoots[0]"),
            (vec![], vec!["a", "b["], "protected[1]"),
            (vec![], vec![""], "protected[0]"),
            (vec![], vec!["/"], "protected[0]"),
            (vec![], vec!["../a"], "protected[0]"),
        ] {
            let owned = |it: Vec<&str>| Some(it.into_iter().map(str::to_string).collect());
            let err = Containment::new(None, owned(roots), owned(globs)).expect_err(name);
            assert!(err.starts_with(name), "{err}");
        }
    }
}
