//! `/proc/PID/oom_score` and `oom_score_adj`: which process the OOM killer takes.

use std::io;
use std::path::Path;

use super::control;
use super::fields::first_number;

/// The text of `oom_score`: 0 to 2000, and the highest goes first.
pub fn score(text: &[u8]) -> Option<u64> {
    first_number(text)
}

/// The text of `oom_score_adj`: -1000 (never) to 1000.
pub fn adjustment(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

/// Sets the adjustment of a process.
///
/// # Errors
/// When the system refuses: lowering it takes CAP_SYS_RESOURCE.
pub fn set_adjustment(pid: u32, adjustment: i32) -> io::Result<()> {
    let path = format!("/proc/{pid}/oom_score_adj");
    control::write(Path::new(&path), &adjustment.to_string())
}
