//! A read-only look at `/proc`, `/sys` and `/dev`, which tests point at a made-up tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// The files of a machine below a root folder: `/` for the machine itself.
///
/// Everything may be missing (a container hides half of it), so that every question has the answer "not there".
/// Paths are given without the leading slash.
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

    /// `path` below the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file without white space at its ends, or `None` where it is missing or may not be read.
    pub fn read(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
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

    /// The bytes in the line `key:   n kB` of a file.
    pub fn kib_field(&self, path: &str, key: &str) -> Option<u64> {
        let value = self.field(path, key)?;
        let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    }

    /// The word in brackets, as sysfs marks the choice that is made: `always [madvise] never`.
    pub fn choice(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let start = text.find('[')? + 1;
        let end = start + text[start..].find(']')?;
        Some(text[start..end].to_owned())
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

    fn permits(&self, path: &str, access: Access) -> bool {
        accessat(CWD, self.path(path), access, AtFlags::EACCESS).is_ok()
    }

    /// The names in a folder, sorted; none where it is missing.
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The target of a symbolic link.
    pub fn link(&self, path: &str) -> Option<PathBuf> {
        fs::read_link(self.path(path)).ok()
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
