//! Time by system call, for callers that may not use the C library's. No call touches `errno`.
#![allow(unsafe_code)]

use crate::raw::system_call;

/// Milliseconds since some start, to the accuracy of the kernel's tick (`CLOCK_MONOTONIC_COARSE`). They do not advance
/// while the machine sleeps, and wrap after 49 days: compare differences.
pub fn coarse_milliseconds() -> u32 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let arguments = [
        libc::CLOCK_MONOTONIC_COARSE as usize,
        &raw mut now as usize,
        0,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes the time, which outlives the call. Without it the time is 0.
    let _ = unsafe { system_call(libc::SYS_clock_gettime, arguments) };
    (now.tv_sec as u32)
        .wrapping_mul(1000)
        .wrapping_add((now.tv_nsec / 1_000_000) as u32)
}
