//! The cgroups below one, within bounds.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How much of a tree is read: anyone with a delegated cgroup can make as many below it as they like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Levels below the first cgroup.
    pub depth: usize,
    /// Cgroups, the first included.
    pub count: usize,
}

/// A cgroup of a [`Walk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub folder: PathBuf,
    /// Levels below the first cgroup.
    pub depth: usize,
    /// Place of its parent in the walk; None for the first.
    pub parent: Option<usize>,
}

/// A cgroup and those below it, level by level: the bounds leave out the deepest ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    pub cgroups: Vec<Found>,
    /// Whether there are more than the bounds allow.
    pub too_many: bool,
    /// Whether some are deeper than the bounds allow.
    pub too_deep: bool,
    /// Cgroups whose children this user may not list.
    pub denied: usize,
}

/// Lists `first` and the cgroups below it. One that is removed meanwhile has no children.
///
/// # Errors
/// When `first` cannot be listed.
pub fn walk(first: &Path, bounds: Bounds) -> io::Result<Walk> {
    let mut walk = Walk {
        cgroups: vec![Found {
            folder: first.to_owned(),
            depth: 0,
            parent: None,
        }],
        ..Walk::default()
    };
    let mut place = 0;
    while place < walk.cgroups.len() {
        let (folder, depth) = (walk.cgroups[place].folder.clone(), walk.cgroups[place].depth);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if place == 0 => return Err(error),
            Err(error) => {
                walk.denied += usize::from(error.kind() == io::ErrorKind::PermissionDenied);
                place += 1;
                continue;
            }
        };
        for entry in entries.filter_map(Result::ok) {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            walk.too_deep |= depth >= bounds.depth;
            walk.too_many |= walk.cgroups.len() >= bounds.count;
            if depth >= bounds.depth || walk.cgroups.len() >= bounds.count {
                break;
            }
            walk.cgroups.push(Found {
                folder: entry.path(),
                depth: depth + 1,
                parent: Some(place),
            });
        }
        place += 1;
    }
    Ok(walk)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { depth: 8, count: 100 };

    fn made(folders: impl IntoIterator<Item = String>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for folder in folders {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        root
    }

    #[test]
    fn a_tree_is_listed_level_by_level_with_parents() {
        let root = made(["a/b/c".to_owned(), "d".to_owned()]);
        fs::write(root.path().join("memory.current"), "1").unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("loop")).unwrap();
        let walk = walk(root.path(), BOUNDS).unwrap();
        let depths: Vec<usize> = walk.cgroups.iter().map(|found| found.depth).collect();
        assert_eq!(
            depths,
            [0, 1, 1, 2, 3],
            "neither the file nor the link is a cgroup"
        );
        for found in &walk.cgroups[1..] {
            let parent = &walk.cgroups[found.parent.unwrap()];
            assert_eq!(found.folder.parent(), Some(parent.folder.as_path()));
        }
        assert!(!walk.too_many && !walk.too_deep);
    }

    /// A user with a delegated cgroup makes as many as they like, side by side or one in the other. The bounds alone
    /// count: this test makes few.
    #[test]
    fn hostile_trees_are_read_within_the_bounds() {
        let flat = made(
            (0..10_000)
                .map(|number| format!("wide/{number}"))
                .chain(["z/y".to_owned()]),
        );
        let wide = walk(flat.path(), BOUNDS).unwrap();
        assert_eq!((wide.cgroups.len(), wide.too_many), (BOUNDS.count, true));
        assert!(
            wide.cgroups.iter().any(|found| found.folder.ends_with("z")),
            "the upper levels come first"
        );
        let deep = made([["d"; 60].join("/")]);
        let deep = walk(deep.path(), BOUNDS).unwrap();
        assert_eq!((deep.cgroups.len(), deep.too_deep), (BOUNDS.depth + 1, true));
    }

    #[test]
    fn a_first_cgroup_that_is_missing_is_an_error() {
        assert_eq!(
            walk(Path::new("/nowhere"), BOUNDS).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
