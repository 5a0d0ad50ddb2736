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

/// The totals of the text of the file in microseconds: `some` and `full`. Does not allocate, and reads no average.
pub fn totals(text: &[u8]) -> (Option<i64>, Option<i64>) {
    let total_of = |kind: &[u8]| {
        let line = lines(text)
            .filter_map(|line| line.strip_prefix(kind))
            .find(|rest| rest.first() == Some(&b' '))?;
        // The kernel writes the total last.
        let start = line.iter().rposition(|&byte| byte == b'=')? + 1;
        line[..start]
            .ends_with(b" total=")
            .then(|| number(&line[start..]))?
    };
    (total_of(b"some"), total_of(b"full"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_the_whole_parse() {
        for text in [
            &b"some avg10=0.00 avg60=0.12 avg300=1.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=45\n"[..],
            b"some avg10=0.00 avg60=0.12 avg300=1.00 total=9223372036854775807\n",
            b"full avg10=0.00 avg60=0.00 avg300=0.00 total=0",
            b"some total=\nfull total=x\n",
            b"something total=5\n",
            b"some avg10=0.00\n",
            b"",
        ] {
            let whole = parse(text);
            assert_eq!(totals(text), (whole.some.total_us, whole.full.total_us));
        }
    }
}
