//! What is mounted where.

use super::tree::Tree;

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The folder inside the file system that is mounted (a container shows only its own cgroup).
    pub inner: String,
    /// Where it is mounted.
    pub point: String,
    /// Type of the file system.
    pub kind: String,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// Options of the file system itself.
    pub options: String,
}

impl Mount {
    /// The folder of cgroup `path` below this mount; the mount's own where the cgroup lies outside of it.
    pub(super) fn folder_of(&self, path: &str, tree: &Tree) -> String {
        let below = match path.strip_prefix(self.inner.trim_end_matches('/')) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => path,
        };
        let folder = format!("{}{}", self.point, below.trim_end_matches('/'));
        if tree.exists(&folder) {
            folder
        } else {
            self.point.clone()
        }
    }
}

/// What is mounted, in the order of mounting.
pub fn mounts(tree: &Tree) -> Vec<Mount> {
    let text = tree.read("proc/self/mountinfo").unwrap_or_default();
    let parse = |line: &str| -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (inner, point, flags) = (left.next()?, left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, _source, options) = (right.next()?, right.next()?, right.next().unwrap_or(""));
        Some(Mount {
            inner: unescape(inner),
            point: unescape(point),
            kind: kind.to_owned(),
            read_only: flags
                .split(',')
                .chain(options.split(','))
                .any(|flag| flag == "ro"),
            options: options.to_owned(),
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Undoes the kernel's escapes in paths: a backslash and three octal digits.
pub(super) fn unescape(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
