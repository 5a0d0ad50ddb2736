//! A read-only look at `/proc`, `/sys` and `/dev`, which tests point at a made-up tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// The files of a machine below a root folder: `/` for the machine itself.
///
/// Everything may be missing (a container hides half of it), so that every question has the answer "not there".
/// Paths may have a leading slash or not.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The machine that this process runs on.
    pub fn live() -> Tree {
        Tree::below("/")
    }

    /// The machine whose files lie below `root`.
    pub fn below(root: impl Into<PathBuf>) -> Tree {
        Tree { root: root.into() }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The bytes of a file, or `None` where it is missing or may not be read.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.path(path)).ok()
    }

    /// The text of a file without white space at its ends, or `None` where it is missing or may not be read.
    pub fn read(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.bytes(path)?).trim().to_owned())
    }

    /// The value of a file that holds one.
    pub fn parse<T: FromStr>(&self, path: &str) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    /// The value in the line `key: value` of a file, without a unit that follows it.
    pub fn field(&self, path: &str, key: &str) -> Option<String> {
        let text = self.read(path)?;
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim().to_owned())
        })
    }

    /// The word in brackets, as sysfs marks the choice that is made: `always [madvise] never`.
    pub fn choice(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    }

    /// Whether there is such a file or folder.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Whether this process may read it.
    pub fn readable(&self, path: &str) -> bool {
        self.permits(path, Access::READ_OK)
    }

    /// Whether this process may write to it, as far as permissions and a read-only mount tell.
    pub fn writable(&self, path: &str) -> bool {
        self.permits(path, Access::WRITE_OK)
    }

    /// Whether this process may write to a path that [`Tree::path`] gave.
    pub fn writable_at(&self, path: &Path) -> bool {
        accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    fn permits(&self, path: &str, access: Access) -> bool {
        accessat(CWD, self.path(path), access, AtFlags::EACCESS).is_ok()
    }

    /// The names in a folder, sorted; empty if it is missing.
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    pub fn link(&self, path: &str) -> Option<PathBuf> {
        fs::read_link(self.path(path)).ok()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
}
