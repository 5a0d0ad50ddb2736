//! /proc/vmstat: counters of faults, reclaim, refaults and swap.

use plimsoll_proc::vmstat::PATH;
use plimsoll_proc::{KeptFile, RepeatedLines};

use super::fields::{keys_of, read_into};
use plimsoll_model::columns::{Row, Unit};

/// Longer than any line: a name of the kernel's source and a number.
const LONGEST_LINE: usize = 256;

pub(crate) struct Vmstat {
    file: KeptFile,
    lines: RepeatedLines<256>,
}

impl Vmstat {
    pub(crate) fn open() -> Self {
        Vmstat {
            file: KeptFile::open(PATH),
            lines: keys(),
        }
    }

    pub(crate) fn read(&mut self, buffer: &mut [u8], row: &mut Row) {
        if let Some(text) = self.file.read_records(buffer, LONGEST_LINE) {
            read_into(&mut self.lines, text, row);
        }
    }
}

/// Levels are in pages, and the two counters of bytes (pgpgin and pgpgout) in KiB.
fn keys() -> RepeatedLines<256> {
    keys_of(PATH, |unit| match unit {
        Unit::Bytes => rustix::param::page_size() as i64,
        Unit::CountBytes => 1024,
        _ => 1,
    })
}

/// Parses the text of the file: for tests, which bring their own.
pub fn parse(text: &[u8], row: &mut Row) {
    read_into(&mut keys(), text, row);
}
