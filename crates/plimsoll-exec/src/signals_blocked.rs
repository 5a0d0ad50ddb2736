//! A time in which a thread handles no signal, or those of faults alone.
#![allow(unsafe_code, reason = "the signal mask of the thread")]

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::trampoline;

/// Signals of this thread are blocked while the value lives.
#[derive(Debug)]
#[must_use = "dropping it unblocks the signals"]
pub(crate) struct SignalsBlocked {
    former: u64,
    /// The mask is the thread's.
    _not_send: PhantomData<*const ()>,
}

/// The signals of faults, and of trapped calls.
const OF_FAULTS: u64 = 1 << (libc::SIGBUS - 1)
    | 1 << (libc::SIGSEGV - 1)
    | 1 << (libc::SIGILL - 1)
    | 1 << (libc::SIGFPE - 1)
    | 1 << (libc::SIGTRAP - 1)
    | 1 << (libc::SIGSYS - 1);

/// The signals by which the C library cancels a thread, and has each thread change its user: `setgroups(3)` and its like wait until
/// all threads have answered.
const OF_C_LIBRARY: u64 = OF_CANCELLATION | 1 << (33 - 1);
const OF_CANCELLATION: u64 = 1 << (32 - 1);

impl SignalsBlocked {
    /// The kernel's mask of all signals but those of faults, and those of the C library: a thread that starts meanwhile inherits it.
    pub(crate) const BUT_FAULTS: u64 = !(OF_FAULTS | OF_C_LIBRARY);

    /// The signal of thread cancellation. In a function that waits, the C library's handler ends the thread where it is, and that must not
    /// be in a frame of this library: it comes when the handler of a trapped call has returned.
    pub(crate) const CANCELLATION: u64 = OF_CANCELLATION;

    /// Blocks all signals. A fault ends the process meanwhile: the thread touches no memory of the arena.
    pub(crate) fn new() -> SignalsBlocked {
        SignalsBlocked::of(libc::SIG_SETMASK, u64::MAX)
    }

    /// Blocks all signals but those of faults.
    pub(crate) fn but_faults() -> SignalsBlocked {
        SignalsBlocked::of(libc::SIG_SETMASK, SignalsBlocked::BUT_FAULTS)
    }

    /// Blocks all signals but those of faults: these stay as they are, so that one that the program blocks does not come.
    pub(crate) fn others() -> SignalsBlocked {
        SignalsBlocked::of(libc::SIG_BLOCK, SignalsBlocked::BUT_FAULTS)
    }

    /// The kernel's mask before.
    pub(crate) fn former(&self) -> u64 {
        self.former
    }

    fn of(how: libc::c_int, mask: u64) -> SignalsBlocked {
        let mut former = 0u64;
        let arguments = [
            how as usize,
            (&raw const mask) as usize,
            (&raw mut former) as usize,
            size_of::<u64>(),
            0,
            0,
        ];
        // SAFETY: the kernel reads one set and writes the other.
        unsafe { trampoline::call(libc::SYS_rt_sigprocmask, arguments) };
        SignalsBlocked {
            former,
            _not_send: PhantomData,
        }
    }
}

/// Sets the mask of the thread.
pub(crate) fn set(mask: u64) {
    let word = AtomicU64::new(mask);
    let arguments = [
        libc::SIG_SETMASK as usize,
        word.as_ptr() as usize,
        0,
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: the kernel reads the set.
    while unsafe { trampoline::call(libc::SYS_rt_sigprocmask, arguments) } == -(libc::EFAULT as isize) {
        // The stack is in the arena, and its page has left: the write brings it back.
        word.store(mask, Ordering::SeqCst);
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        set(self.former);
    }
}
