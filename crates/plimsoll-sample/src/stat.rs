//! /proc/stat: how the CPUs' time is split.

use super::fields::{number, words};
use super::kept_file::KeptFile;
use plimsoll_model::columns::{Row, col};

/// Microseconds of one tick of the clock that /proc/stat counts in, which is 100 Hz on every Linux (USER_HZ).
const TICK_US: i64 = 10_000;

/// Columns in the order of the first line.
const SPLIT: [usize; 10] = [
    col::CPU_USER_US,
    col::CPU_NICE_US,
    col::CPU_SYSTEM_US,
    col::CPU_IDLE_US,
    col::CPU_IOWAIT_US,
    col::CPU_IRQ_US,
    col::CPU_SOFTIRQ_US,
    col::CPU_STEAL_US,
    col::CPU_GUEST_US,
    col::CPU_GUEST_NICE_US,
];

/// The first line is far shorter; the lines after it need not be copied.
const FIRST_LINE: usize = 512;

/// The kept-open file.
pub(crate) struct Stat(KeptFile);

impl Stat {
    /// Opens it.
    pub(crate) fn open() -> Self {
        Stat(KeptFile::open("/proc/stat"))
    }

    /// Reads it into `row`.
    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        if let Some(text) = self.0.read(&mut buffer[..FIRST_LINE]) {
            parse(text, row);
        }
    }
}

/// Parses the first line, `cpu` and its times. Kernels before 2.6.33 have fewer times.
pub fn parse(text: &[u8], row: &mut Row) {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Some(times) = line.strip_prefix(b"cpu ") else {
        return;
    };
    for (column, word) in SPLIT.into_iter().zip(words(times)) {
        if let Some(us) = number(word).and_then(|ticks| ticks.checked_mul(TICK_US)) {
            row.set(column, us);
        }
    }
}
