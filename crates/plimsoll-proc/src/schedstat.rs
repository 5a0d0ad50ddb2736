//! `/proc/PID/schedstat`: `on-cpu waited slices`, times in nanoseconds.

use super::fields::{number, words};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedstat {
    /// Nanoseconds on a CPU. 0 for a thread that reads its own file: the kernel does not count.
    pub on_cpu_ns: i64,
    /// Nanoseconds in which it could run and waited for a CPU.
    pub waited_ns: i64,
}

impl Schedstat {
    /// Parses the text of the file. Does not allocate.
    pub fn parse(text: &[u8]) -> Option<Schedstat> {
        let mut numbers = words(text).map(number);
        Some(Schedstat {
            on_cpu_ns: numbers.next()??,
            waited_ns: numbers.next()??,
        })
    }
}
