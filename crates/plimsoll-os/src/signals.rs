//! Signal dispositions and the signal mask: those that this process was started with, and the default ones.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::errno::Errno;

/// The highest signal number of Linux.
const LAST: libc::c_int = 64;

/// The signals that this process ignored and blocked when it was started, as [`take_over_signals`] found them.
static RECORDED: AtomicBool = AtomicBool::new(false);
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// Signals whose disposition this process changes if it was started with them ignored: Rust's runtime that of SIGPIPE,
/// [`take_over_signals`] that of SIGCHLD.
const CHANGED: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGCHLD];

/// The bit of a signal in a set.
const fn bit(signal: libc::c_int) -> u64 {
    1 << (signal - 1)
}

/// Whether this process ignores `signal`.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: reads a disposition into a structure of that type, which is valid as zeroes too.
    unsafe {
        libc::sigaction(signal, null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Sets every signal to its default disposition but SIGPIPE, which Rust's runtime ignores so that a write to a closed
/// pipe is an error, and empties the signal mask of this thread. To be called before other threads are started.
///
/// # Errors
/// The mask cannot be set.
pub fn default_signals() -> Result<(), Errno> {
    for signal in (1..=LAST).filter(|signal| *signal != libc::SIGPIPE) {
        if is_ignored(signal) {
            // SAFETY: no handler is installed. Refused for the C library's own signals.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    set_mask(0)
}

/// Records the ignored and the blocked signals, and sets two things that a program relies on: SIGCHLD is not ignored,
/// since children could not be waited for, and no signal is blocked, since a request to stop would not arrive. To be
/// called before Rust's runtime starts, which ignores SIGPIPE: from the section `.init_array` of the program.
pub extern "C" fn take_over_signals() {
    let ignored = CHANGED.iter().filter(|signal| is_ignored(**signal));
    let ignored = ignored.fold(0, |set, signal| set | bit(*signal));
    IGNORED.store(ignored, Ordering::Relaxed);
    BLOCKED.store(mask(), Ordering::Relaxed);
    RECORDED.store(true, Ordering::Release);
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
    // Refused for a number that is no operation alone.
    let _ = set_mask(0);
}

/// Gives this process the dispositions and the signal mask that [`take_over_signals`] found, if it was called. For a
/// process that is about to execute a program which its caller started through this one. Async-signal-safe.
///
/// # Errors
/// The mask cannot be set.
pub fn restore_inherited_signals() -> Result<(), Errno> {
    if !RECORDED.load(Ordering::Acquire) {
        return Ok(());
    }
    let ignored = IGNORED.load(Ordering::Relaxed);
    for signal in CHANGED {
        let disposition = if ignored & bit(signal) == 0 {
            libc::SIG_DFL
        } else {
            libc::SIG_IGN
        };
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, disposition) };
    }
    set_mask(BLOCKED.load(Ordering::Relaxed))
}

/// The signals that this thread blocks.
fn mask() -> u64 {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by the first call, and read by the others.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, null(), set.as_mut_ptr());
        (1..=LAST)
            .filter(|signal| libc::sigismember(set.as_ptr(), *signal) == 1)
            .fold(0, |mask, signal| mask | bit(signal))
    }
}

fn set_mask(mask: u64) -> Result<(), Errno> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by the first call.
    let failed = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in (1..=LAST).filter(|signal| mask & bit(*signal) != 0) {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), null_mut())
    };
    if failed == 0 {
        Ok(())
    } else {
        Err(Errno::of_number(failed))
    }
}
