//! `/proc/swaps` (`proc_swaps(5)`): the swap areas in use.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::Tree;
use super::fields::{self, number, unescape, words};

pub const PATH: &str = "/proc/swaps";

/// A line of the file. Borrows from it; parsing does not allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Path of the device or file as the kernel writes it: a space is `\040`.
    pub name: &'a [u8],
    /// `partition` or `file`.
    pub kind: &'a [u8],
    pub size: Option<i64>,
    pub used: Option<i64>,
    /// The word of its priority.
    priority: Option<&'a [u8]>,
}

impl Line<'_> {
    /// Its priority; the kernel fills the highest first.
    pub fn priority(&self) -> Option<i32> {
        std::str::from_utf8(self.priority?).ok()?.parse().ok()
    }
}

/// The lines of the text, without the heading.
pub fn lines(text: &[u8]) -> impl Iterator<Item = Line<'_>> {
    fields::lines(text).filter_map(line)
}

fn line(line: &[u8]) -> Option<Line<'_>> {
    let kib = |word| number(word).and_then(|kib| kib.checked_mul(1024));
    let mut words = words(line);
    let name = words.next()?;
    let kind = words.next()?;
    (name != b"Filename" && kind != b"Type").then(|| Line {
        name,
        kind,
        size: words.next().and_then(kib),
        used: words.next().and_then(kib),
        priority: words.next(),
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveSwap {
    pub path: PathBuf,
    pub size: u64,
    /// Bytes of it that are in use.
    pub used: u64,
    /// Its priority; the kernel fills the highest first.
    pub priority: i32,
}

impl ActiveSwap {
    fn of(line: Line<'_>) -> Option<ActiveSwap> {
        Some(ActiveSwap {
            path: PathBuf::from(OsString::from_vec(unescape(line.name))),
            size: line.size?.unsigned_abs(),
            used: line.used?.unsigned_abs(),
            priority: line.priority()?,
        })
    }

    /// Number of the zram device that it is on.
    pub fn zram(&self) -> Option<u32> {
        super::zram::number_in(self.path.file_name()?.to_str()?)
    }
}

/// The swap areas in a text of the file. A line that is not whole is passed over.
pub fn parse(text: &[u8]) -> Vec<ActiveSwap> {
    lines(text).filter_map(ActiveSwap::of).collect()
}

/// The swap areas in use.
///
/// # Errors
/// When the file cannot be read.
pub fn active() -> io::Result<Vec<ActiveSwap>> {
    Ok(parse(&fs::read(PATH)?))
}

/// The swap areas of the machine whose files are `tree`; none if the file is missing.
pub fn of(tree: &Tree) -> Vec<ActiveSwap> {
    parse(&tree.bytes(PATH).unwrap_or_default())
}

/// The path of a device or file as the kernel writes it here: blanks, line ends and backslashes in octal.
pub fn kernel_name(path: &Path) -> Vec<u8> {
    let mut name = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => name.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            byte => name.push(byte),
        }
    }
    name
}

/// Whether the device or file is in use as swap.
///
/// # Errors
/// When the file cannot be read.
pub fn is_active(path: &Path) -> io::Result<bool> {
    Ok(find(&active()?, path).is_some())
}

/// The area at `path`. The kernel adds ` (deleted)` to the path of a file that was deleted while it was in use, as
/// some kernels allow; a file that has such a name is not taken for it.
pub fn find<'a>(areas: &'a [ActiveSwap], path: &Path) -> Option<&'a ActiveSwap> {
    let mut deleted = path.as_os_str().to_owned();
    deleted.push(" (deleted)");
    let deleted = Path::new(&deleted);
    areas
        .iter()
        .find(|area| area.path == path || (area.path == deleted && !deleted.exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_ends_in_deleted_is_not_a_deleted_file() {
        let folder = tempfile::tempdir().unwrap();
        let theirs = folder.path().join("swap (deleted)");
        fs::write(&theirs, "").unwrap();
        let areas = [ActiveSwap {
            path: theirs.clone(),
            size: 0,
            used: 0,
            priority: 1,
        }];
        assert_eq!(find(&areas, &folder.path().join("swap")), None);
        assert!(find(&areas, &theirs).is_some());
        fs::remove_file(&theirs).unwrap();
        assert!(find(&areas, &folder.path().join("swap")).is_some());
    }

    #[test]
    fn the_kernels_name_of_a_path_is_read_back_as_the_path() {
        for path in ["/dev/zram0", "/a b/swap\t\\1\n"] {
            let mut line = kernel_name(Path::new(path));
            line.extend_from_slice(b" file 1020 0 -2\n");
            let areas = parse(&line);
            assert_eq!(
                areas.first().map(|area| area.path.as_path()),
                Some(Path::new(path))
            );
        }
    }

    #[test]
    fn proc_swaps() {
        let text = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/zram0                              partition\t65532\t\t12\t\t100\n\
                    /a\\040b/swap\\040(deleted)                file\t\t1020\t\t0\t\t-2\n";
        let swaps = parse(text);
        assert_eq!(
            swaps[0],
            ActiveSwap {
                path: "/dev/zram0".into(),
                size: 65532 << 10,
                used: 12 << 10,
                priority: 100
            }
        );
        assert_eq!(swaps[0].zram(), Some(0));
        assert_eq!(
            swaps[1],
            ActiveSwap {
                path: "/a b/swap (deleted)".into(),
                size: 1020 << 10,
                used: 0,
                priority: -2
            }
        );
        assert_eq!(swaps.len(), 2);
        assert_eq!(parse(b""), []);
    }
}
