//! /proc/meminfo: levels of the whole machine, zswap's among them.

use plimsoll_proc::meminfo::SCALE;
use plimsoll_proc::{KeptFile, RepeatedLines};

use super::fields::{keys_of, read_into};
use plimsoll_model::columns::Row;

pub(crate) use plimsoll_proc::meminfo::PATH;

pub(crate) struct Meminfo {
    file: KeptFile,
    lines: RepeatedLines<128>,
}

impl Meminfo {
    pub(crate) fn open() -> Self {
        Meminfo {
            file: KeptFile::open(PATH),
            lines: keys(),
        }
    }

    /// Reads it into `row`. False when it cannot be read.
    pub(crate) fn read(&mut self, buffer: &mut [u8], row: &mut Row) -> bool {
        let Some(text) = self.file.read(buffer) else {
            return false;
        };
        read_into(&mut self.lines, text, row);
        true
    }
}

/// All these values are in KiB.
fn keys() -> RepeatedLines<128> {
    keys_of(PATH, |_| SCALE)
}

/// Parses the text of the file: for tests, which bring their own.
pub fn parse(text: &[u8], row: &mut Row) {
    read_into(&mut keys(), text, row);
}
