//! A time in which a thread handles no signal.
#![allow(unsafe_code, reason = "the signal mask of the thread")]

use std::marker::PhantomData;

use crate::trampoline;

/// All signals of this thread are blocked while the value lives. A fault ends the process meanwhile: the thread touches no
/// memory of the arena.
#[derive(Debug)]
#[must_use = "dropping it unblocks the signals"]
pub(crate) struct SignalsBlocked {
    former: u64,
    /// The mask is the thread's.
    _not_send: PhantomData<*const ()>,
}

impl SignalsBlocked {
    pub(crate) fn new() -> SignalsBlocked {
        let all = u64::MAX;
        let mut former = 0u64;
        let arguments = [
            libc::SIG_SETMASK as usize,
            (&raw const all) as usize,
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
