//! The first line of `/proc/stat` (`proc_stat(5)`): how the CPUs' time is split.

use super::fields::{lines, number, words};
use super::pid_stat::CLOCK_TICK_US;

pub const PATH: &str = "/proc/stat";

/// Bytes that the first line is shorter than; the lines after it need not be copied.
pub const FIRST_LINE: usize = 512;

/// Position of a time in [`parse`]'s result.
pub mod at {
    /// Programs.
    pub const USER: usize = 0;
    /// Programs of low priority.
    pub const NICE: usize = 1;
    pub const SYSTEM: usize = 2;
    /// Nothing.
    pub const IDLE: usize = 3;
    /// Nothing, while a device was waited for.
    pub const IOWAIT: usize = 4;
    /// Interrupts.
    pub const IRQ: usize = 5;
    /// Work put off from interrupts.
    pub const SOFTIRQ: usize = 6;
    /// Taken by the host.
    pub const STEAL: usize = 7;
    /// Guests, which is contained in `USER`.
    pub const GUEST: usize = 8;
    /// Guests of low priority, which is contained in `NICE`.
    pub const GUEST_NICE: usize = 9;
}

/// The times in microseconds. Kernels before 2.6.33 have fewer; all are None where the text does not begin with them.
/// Does not allocate.
pub fn parse(text: &[u8]) -> [Option<i64>; 10] {
    let mut times = [None; 10];
    let line = lines(text).next().unwrap_or_default();
    if let Some(rest) = line.strip_prefix(b"cpu ") {
        for (time, word) in times.iter_mut().zip(words(rest)) {
            *time = number(word).and_then(|ticks| ticks.checked_mul(CLOCK_TICK_US));
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_line_of_an_old_kernel_has_fewer_times() {
        let times = parse(b"cpu  10 20 30 40 50 60 70\ncpu0 1 2 3 4 5 6 7\n");
        assert_eq!(times[at::USER], Some(100_000));
        assert_eq!(times[at::SOFTIRQ], Some(700_000));
        assert_eq!(times[at::STEAL], None);
        assert_eq!(parse(b"cpu0 1 2 3\n"), [None; 10]);
    }
}
