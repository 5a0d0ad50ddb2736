//! The signals that a program can send, blocked for a thread.
#![allow(unsafe_code, reason = "the mask of a thread")]

use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// Blocks the signals of this thread that a program can send, while it holds pages busy: a handler that touched one would
/// wait for its own thread.
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    /// Blocks them until the value is dropped.
    pub(crate) fn new() -> SignalsBlocked {
        let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the sets are initialised by the calls, the second one is valid as zeroes.
        unsafe {
            libc::sigfillset(blocked.as_mut_ptr());
            // A blocked signal of a fault ends the process.
            for fault in [
                libc::SIGBUS,
                libc::SIGSEGV,
                libc::SIGILL,
                libc::SIGFPE,
                libc::SIGTRAP,
            ] {
                libc::sigdelset(blocked.as_mut_ptr(), fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr());
            SignalsBlocked(before.assume_init())
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: sets the mask that `new` found.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}
