//! A time in which a thread handles no signal, or those of faults alone.
#![allow(unsafe_code, reason = "the signal mask of the thread")]

use std::marker::PhantomData;

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
const OF_FAULTS: [libc::c_int; 6] = [
    libc::SIGBUS,
    libc::SIGSEGV,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
];

impl SignalsBlocked {
    /// Blocks all signals. A fault ends the process meanwhile: the thread touches no memory of the arena.
    pub(crate) fn new() -> SignalsBlocked {
        SignalsBlocked::of(u64::MAX)
    }

    /// Blocks all signals but those of faults.
    pub(crate) fn but_faults() -> SignalsBlocked {
        let faults = OF_FAULTS
            .iter()
            .fold(0, |mask, signal| mask | 1u64 << (signal - 1));
        SignalsBlocked::of(!faults)
    }

    fn of(mask: u64) -> SignalsBlocked {
        let mut former = 0u64;
        let arguments = [
            libc::SIG_SETMASK as usize,
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

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let former = (&raw const self.former) as usize;
        let arguments = [libc::SIG_SETMASK as usize, former, 0, size_of::<u64>(), 0, 0];
        // SAFETY: the kernel reads the set.
        unsafe { trampoline::call(libc::SYS_rt_sigprocmask, arguments) };
    }
}
