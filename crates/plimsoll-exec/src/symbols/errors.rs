//! Results of functions as C has them.
#![allow(unsafe_code, reason = "errno")]

use std::ffi::c_int;

/// Sets `errno`. Returns -1.
pub(super) fn failed(error: c_int) -> c_int {
    // SAFETY: `errno` is this thread's.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// The result of a system call: its value, or -1 with `errno`.
pub(super) fn returned(result: isize) -> isize {
    match result {
        -4095..=-1 => failed(-result as c_int) as isize,
        _ => result,
    }
}

/// `errno`.
pub(super) fn error() -> c_int {
    // SAFETY: `errno` is this thread's.
    unsafe { *libc::__errno_location() }
}
