//! `/proc/PID/smaps_rollup`: the sums of `smaps`.

use super::fields::{kib, lines};

/// Proportional set size in bytes.
pub fn pss(text: &[u8]) -> Option<u64> {
    kib(lines(text).find_map(|line| line.strip_prefix(b"Pss:"))?)
}
