//! The statistics of the target's zram device.

use plimsoll_proc::{KeptFile, zram};

use plimsoll_model::columns::{Row, col};

const MM_STAT: [usize; 8] = [
    col::ZRAM_ORIG_DATA_SIZE,
    col::ZRAM_COMPR_DATA_SIZE,
    col::ZRAM_MEM_USED_TOTAL,
    col::ZRAM_MEM_LIMIT,
    col::ZRAM_MEM_USED_MAX,
    col::ZRAM_SAME_PAGES,
    col::ZRAM_PAGES_COMPACTED,
    col::ZRAM_HUGE_PAGES,
];

const IO_STAT: [usize; 4] = [
    col::ZRAM_FAILED_READS,
    col::ZRAM_FAILED_WRITES,
    col::ZRAM_INVALID_IO,
    col::ZRAM_NOTIFY_FREE,
];

/// The kept-open files of one device.
pub(crate) struct Zram {
    mm_stat: KeptFile,
    io_stat: KeptFile,
}

impl Zram {
    /// Opens those of `device` ("zram1").
    pub(crate) fn open(device: &str) -> Self {
        Zram {
            mm_stat: KeptFile::open(format!("{}/{device}/mm_stat", zram::BLOCK)),
            io_stat: KeptFile::open(format!("{}/{device}/io_stat", zram::BLOCK)),
        }
    }

    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        if let Some(text) = self.mm_stat.read(buffer) {
            parse(text, &MM_STAT, row);
        }
        if let Some(text) = self.io_stat.read(buffer) {
            parse(text, &IO_STAT, row);
        }
    }
}

fn parse(text: &[u8], columns: &[usize], row: &mut Row) {
    for (&column, value) in columns.iter().zip(zram::values(text)) {
        if let Some(value) = value {
            row.set(column, value);
        }
    }
}
