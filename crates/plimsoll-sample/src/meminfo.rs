//! /proc/meminfo: levels of the whole machine, zswap's among them.

use super::fields::KeyedLines;
use super::kept_file::KeptFile;
use plimsoll_model::columns::Row;

/// Where it is.
pub(crate) const PATH: &str = "/proc/meminfo";

/// The kept-open file and its keys.
pub(crate) struct Meminfo {
    file: KeptFile,
    lines: KeyedLines<128>,
}

impl Meminfo {
    /// Opens it.
    pub(crate) fn open() -> Self {
        Meminfo {
            file: KeptFile::open(PATH),
            lines: keys(),
        }
    }

    /// Reads it into `row`. False when it cannot be read.
    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) -> bool {
        let Some(text) = self.file.read(buffer) else {
            return false;
        };
        self.lines.parse(text, row);
        true
    }
}

/// Every value that is asked for stands in KiB.
fn keys() -> KeyedLines<128> {
    KeyedLines::of_file(PATH, |_| 1024)
}

/// Parses the text of the file: for tests, which bring their own.
pub fn parse(text: &[u8], row: &mut Row) {
    keys().parse(text, row);
}
