//! Pressure stall information (`Documentation/accounting/psi.rst`): time that tasks lost for want of memory, I/O or
//! CPU.

use super::fields::{lines, number, words};

/// Where that of the whole machine's memory is.
pub const MEMORY: &str = "/proc/pressure/memory";
pub const IO: &str = "/proc/pressure/io";
pub const CPU: &str = "/proc/pressure/cpu";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stall<'a> {
    /// Percent of the last 10 seconds, as the kernel writes it.
    pub last_10_s: Option<&'a str>,
    /// All of it in microseconds.
    pub total_us: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure<'a> {
    /// Some task stalled.
    pub some: Stall<'a>,
    /// All tasks stalled.
    pub full: Stall<'a>,
}

/// Parses the text of the file. Does not allocate.
pub fn parse(text: &[u8]) -> Pressure<'_> {
    let mut pressure = Pressure::default();
    for line in lines(text) {
        let mut words = words(line);
        let stall = match words.next() {
            Some(b"some") => &mut pressure.some,
            Some(b"full") => &mut pressure.full,
            _ => continue,
        };
        for word in words {
            if let Some(total) = word.strip_prefix(b"total=") {
                stall.total_us = number(total);
                break;
            }
            if let Some(share) = word.strip_prefix(b"avg10=") {
                stall.last_10_s = std::str::from_utf8(share).ok();
            }
        }
    }
    pressure
}
