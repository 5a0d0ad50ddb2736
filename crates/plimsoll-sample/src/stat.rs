//! /proc/stat: how the CPUs' time is split.

use plimsoll_proc::KeptFile;
use plimsoll_proc::cpu_times::{self, FIRST_LINE};

use plimsoll_model::columns::{Row, col};

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

pub(crate) struct Stat(KeptFile);

impl Stat {
    pub(crate) fn open() -> Self {
        Stat(KeptFile::open(cpu_times::PATH))
    }

    pub(crate) fn read(&self, buffer: &mut [u8], row: &mut Row) {
        if let Some(text) = self.0.read(&mut buffer[..FIRST_LINE]) {
            parse(text, row);
        }
    }
}

/// Parses the text of the file: for tests, which bring their own.
pub fn parse(text: &[u8], row: &mut Row) {
    for (column, time) in SPLIT.into_iter().zip(cpu_times::parse(text)) {
        if let Some(us) = time {
            row.set(column, us);
        }
    }
}
