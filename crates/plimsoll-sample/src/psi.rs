//! Pressure stall information: time that tasks lost for want of memory, I/O or CPU.

use std::path::Path;

use super::fields::{number, words};
use super::kept_file::KeptFile;
use plimsoll_model::columns::{Row, col};

/// A kept-open pressure file and the columns of its two totals.
pub(crate) struct PressureFile {
    file: KeptFile,
    some: usize,
    full: Option<usize>,
}

impl PressureFile {
    /// Opens `path`, whose `some` total feeds one column and `full` total another.
    pub(crate) fn open(path: impl AsRef<Path>, some: usize, full: Option<usize>) -> Self {
        PressureFile {
            file: KeptFile::open(path),
            some,
            full,
        }
    }

    /// Reads it into `row`.
    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        let Some(text) = self.file.read(buffer) else {
            return;
        };
        let (some, full) = parse(text);
        if let Some(us) = some {
            row.set(self.some, us);
        }
        if let (Some(us), Some(column)) = (full, self.full) {
            row.set(column, us);
        }
    }
}

/// The three files of the whole machine.
pub(crate) struct Psi([PressureFile; 3]);

impl Psi {
    /// Opens them.
    pub(crate) fn open() -> Self {
        Psi([
            PressureFile::open(
                "/proc/pressure/memory",
                col::PSI_MEMORY_SOME_US,
                Some(col::PSI_MEMORY_FULL_US),
            ),
            PressureFile::open(
                "/proc/pressure/io",
                col::PSI_IO_SOME_US,
                Some(col::PSI_IO_FULL_US),
            ),
            // `full` of the whole machine's CPU has no meaning: something always runs.
            PressureFile::open("/proc/pressure/cpu", col::PSI_CPU_SOME_US, None),
        ])
    }

    /// Reads them into `row`.
    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        for file in &self.0 {
            file.read(buffer, row);
        }
    }
}

/// The totals of the `some` and the `full` line in microseconds.
pub fn parse(text: &[u8]) -> (Option<i64>, Option<i64>) {
    let mut totals = (None, None);
    for line in text.split(|&byte| byte == b'\n') {
        let mut words = words(line);
        let total = match words.next() {
            Some(b"some") => &mut totals.0,
            Some(b"full") => &mut totals.1,
            _ => continue,
        };
        *total = words
            .find_map(|word| word.strip_prefix(b"total="))
            .and_then(number);
    }
    totals
}
