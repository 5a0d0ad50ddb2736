//! The PID and TID of the caller, from the kernel: the C library's copies may not exist yet, or be the parent's after a
//! fork. No call touches `errno`.
#![allow(unsafe_code)]

use crate::raw::system_call;
use crate::weak;

/// The number of this process in its namespace.
pub fn this_process() -> u32 {
    // SAFETY: the call takes no memory. It cannot fail.
    unsafe { system_call(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as u32
}

/// The number of this thread in its namespace: that of the process in its first one.
pub fn this_thread() -> u32 {
    // SAFETY: the call takes no memory. It cannot fail.
    unsafe { system_call(libc::SYS_gettid, [0; 6]) }.unwrap_or(0) as u32
}

/// Whether the C library started a thread that may still run. False also if the C library does not tell (glibc before
/// 2.32, musl). A [`Helper`](crate::Helper) does not count.
pub fn has_threads() -> bool {
    let alone = weak!("__libc_single_threaded") as *const u8;
    // SAFETY: the symbol is a byte, which glibc alone writes; null if there is none.
    !alone.is_null() && unsafe { alone.read_volatile() } == 0
}
