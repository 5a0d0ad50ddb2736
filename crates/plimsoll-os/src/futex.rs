//! Waiting for a word of memory to change (`futex(2)`), within this process. No call touches `errno`.
#![allow(unsafe_code)]

use core::sync::atomic::AtomicU32;
use core::time::Duration;

use crate::raw::system_call;

/// Sleeps while `word` is `expected`, until woken, interrupted, or for `limit` at most. It may wake for no reason.
pub fn futex_wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos() as libc::c_long,
    });
    let limit = limit
        .as_ref()
        .map_or(core::ptr::null(), |limit| limit as *const libc::timespec);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        word.as_ptr() as usize,
        operation as usize,
        expected as usize,
        limit as usize,
        0,
        0,
    ];
    // SAFETY: the kernel reads the word and the time, both of which outlive the call. After any result, the caller
    // looks at the word again.
    let _ = unsafe { system_call(libc::SYS_futex, arguments) };
}

/// Wakes up to `count` of the threads that sleep on `word`.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        word.as_ptr() as usize,
        operation as usize,
        count as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel does not even read the word.
    let _ = unsafe { system_call(libc::SYS_futex, arguments) };
}
