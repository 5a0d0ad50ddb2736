//! Waiting for a word of memory to change (`futex(2)`). No call touches `errno`.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use crate::Errno;
use crate::raw::system_call;

/// The threads that may wait for a word and wake its waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of this process.
    Process,
    /// Those of each process that maps the word's file.
    Shared,
}

impl Scope {
    fn flag(self) -> c_int {
        match self {
            Scope::Process => libc::FUTEX_PRIVATE_FLAG,
            Scope::Shared => 0,
        }
    }
}

/// Sleeps while `word` is `expected`, until woken, interrupted, or for `limit` at most. It may wake for no reason.
pub fn futex_wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) {
    wait_at(word.as_ptr(), expected, limit, Scope::Process);
}

/// Wakes up to `count` of the threads that sleep on `word`.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    wake_at(word.as_ptr(), count, Scope::Process);
}

/// Makes the present page at `address`, a multiple of 4, a page of this process alone if it is shared by a fork, as a write does.
/// Its contents stay. It never waits for a fault that a userfaultfd delivers.
///
/// The kernel ORs 0 to the word by one atomic operation: the second one of `FUTEX_WAKE_OP`, which wakes no thread but, by
/// chance, one that sleeps on that word.
///
/// # Errors
/// [`Errno::FAULT`] for an absent page that is registered with a userfaultfd, or an address without a writable mapping.
pub fn own_page(address: usize) -> Result<(), Errno> {
    let first = AtomicU32::new(0);
    // OR 0; the second wake if the word is less than -2048.
    const OPERATION: usize = 2 << 28 | 2 << 24 | 0x800;
    let arguments = [
        first.as_ptr() as usize,
        (libc::FUTEX_WAKE_OP | Scope::Process.flag()) as usize,
        0,
        0,
        address,
        OPERATION,
    ];
    // SAFETY: the kernel checks the address, and leaves the word as it is.
    unsafe { system_call(libc::SYS_futex, arguments) }.map(drop)
}

/// As [`futex_wait`], for a word by its address. The kernel checks the address.
pub(crate) fn wait_at(word: *const u32, expected: u32, limit: Option<Duration>, scope: Scope) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos() as libc::c_long,
    });
    let limit = limit
        .as_ref()
        .map_or(core::ptr::null(), |limit| limit as *const libc::timespec);
    let operation = libc::FUTEX_WAIT | scope.flag();
    let arguments = [
        word as usize,
        operation as usize,
        expected as usize,
        limit as usize,
        0,
        0,
    ];
    // SAFETY: the kernel reads the word, if it is mapped, and the time, which outlives the call. After any result, the
    // caller looks at the word again.
    let _ = unsafe { system_call(libc::SYS_futex, arguments) };
}

/// As [`futex_wake`], for a word by its address.
pub(crate) fn wake_at(word: *const u32, count: u32, scope: Scope) {
    let operation = libc::FUTEX_WAKE | scope.flag();
    let arguments = [word as usize, operation as usize, count as usize, 0, 0, 0];
    // SAFETY: the kernel does not write to the word.
    let _ = unsafe { system_call(libc::SYS_futex, arguments) };
}
