//! Pressure stall information: time that tasks lost for want of memory, I/O or CPU.

use std::path::Path;

use plimsoll_proc::{KeptFile, psi};

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

    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        let Some(text) = self.file.read(buffer) else {
            return;
        };
        let (some, full) = psi::totals(text);
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
    pub(crate) fn open() -> Self {
        Psi([
            PressureFile::open(
                psi::MEMORY,
                col::PSI_MEMORY_SOME_US,
                Some(col::PSI_MEMORY_FULL_US),
            ),
            PressureFile::open(psi::IO, col::PSI_IO_SOME_US, Some(col::PSI_IO_FULL_US)),
            // `full` of the whole machine's CPU has no meaning: something always runs.
            PressureFile::open(psi::CPU, col::PSI_CPU_SOME_US, None),
        ])
    }

    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        for file in &self.0 {
            file.read(buffer, row);
        }
    }
}
