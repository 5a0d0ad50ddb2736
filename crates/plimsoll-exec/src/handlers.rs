//! The program's handlers of SIGBUS and SIGSYS, which the kernel never sees: the pager's and the library's are there. They are
//! recorded, and called for signals that are not the library's.
//!
//! | step | by |
//! |---|---|
//! | the disposition that the program inherited is recorded; [`on_foreign`] is installed for SIGBUS | [`start`] |
//! | the library installs its handler for SIGSYS | [`install_for_calls`] |
//! | the pager installs its handler, which passes others' signals on to [`on_foreign`] | the pager |
//! | the program's changes are recorded from here on | [`record`] |
//!
//! A handler of the program runs as the kernel would run it, with these differences: it is on the stack of the interrupted code, not
//! on the alternate one, and neither SIGBUS nor SIGSYS is blocked in it.
#![allow(unsafe_code, reason = "handlers of signals")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use plimsoll_os::Errno;

use crate::lock::Locked;
use crate::next_symbol::Next;
use crate::signals_blocked::SignalsBlocked;
use crate::trampoline;

/// A handler with the description of its signal.
pub(crate) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// `sigaction(2)`.
pub(crate) type Sigaction =
    unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;

/// The C library's `sigaction`.
// SAFETY: its type.
pub(crate) static NEXT_SIGACTION: Next<Sigaction> = unsafe { Next::new(c"sigaction") };

/// The signals that no mask of the program blocks: the pager's, and that of the filter.
const OURS: u64 = 1 << (libc::SIGBUS - 1) | 1 << (libc::SIGSYS - 1);

/// A signal mask of the kernel without the signals that the library needs.
pub(crate) const fn stripped(mask: u64) -> u64 {
    mask & !OURS
}

/// The library has no handlers.
const OFF: u8 = 0;
/// Masks of the program are stripped of the library's signals.
const STRIPPING: u8 = 1;
/// Also the program's handlers of these are recorded.
const RECORDING: u8 = 2;

static STEP: AtomicU8 = AtomicU8::new(OFF);

/// A disposition of a signal.
#[derive(Clone, Copy)]
pub(crate) struct Disposition {
    pub(crate) handler: usize,
    pub(crate) flags: c_int,
    /// The signals that it blocks, as the kernel has them.
    pub(crate) mask: u64,
}

impl Disposition {
    const DEFAULT: Disposition = Disposition {
        handler: libc::SIG_DFL,
        flags: 0,
        mask: 0,
    };
}

static OF_SIGBUS: Locked<Disposition> = Locked::new(Disposition::DEFAULT);
static OF_SIGSYS: Locked<Disposition> = Locked::new(Disposition::DEFAULT);

fn record_of(signal: c_int) -> Option<&'static Locked<Disposition>> {
    match signal {
        libc::SIGBUS => Some(&OF_SIGBUS),
        libc::SIGSYS => Some(&OF_SIGSYS),
        _ => None,
    }
}

/// Whether masks of the program are stripped of SIGBUS and SIGSYS.
pub(crate) fn strips_masks() -> bool {
    STEP.load(Ordering::Relaxed) >= STRIPPING
}

/// Whether the program's changes to the disposition of that signal are recorded, and not made.
pub(crate) fn is_recorded(signal: c_int) -> bool {
    STEP.load(Ordering::Relaxed) == RECORDING && record_of(signal).is_some()
}

/// Records a change of the disposition of SIGBUS or SIGSYS. Returns the former one.
pub(crate) fn exchange(signal: c_int, new: Option<Disposition>) -> Option<Disposition> {
    let record = record_of(signal)?;
    let _blocked = SignalsBlocked::new();
    let mut held = record.hold();
    let former = *held;
    if let Some(new) = new {
        *held = new;
    }
    Some(former)
}

/// The signals of a set of the C library, as the kernel has them.
pub(crate) fn kernel_mask(set: &libc::sigset_t) -> u64 {
    // SAFETY: the kernel's mask is the first word of the set.
    unsafe { ptr::from_ref(set).cast::<u64>().read() }
}

/// A set of the C library.
pub(crate) fn library_mask(mask: u64) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the kernel's mask is the first word of the set, which is valid as zeroes.
    unsafe {
        set.as_mut_ptr().cast::<u64>().write(mask);
        set.assume_init()
    }
}

/// Prepares for the pager's handler of SIGBUS: called before the pager is built.
///
/// # Errors
/// The kernel's.
pub(crate) fn start() -> Result<(), Errno> {
    STEP.store(STRIPPING, Ordering::Relaxed);
    unblock();
    install(libc::SIGBUS, on_foreign, libc::SA_SIGINFO, 0)
}

/// Installs the handler of trapped calls, in which signals but those of faults are blocked.
///
/// # Errors
/// The kernel's.
pub(crate) fn install_for_calls(handler: Handler) -> Result<(), Errno> {
    install(
        libc::SIGSYS,
        handler,
        libc::SA_SIGINFO | libc::SA_NODEFER,
        SignalsBlocked::BUT_FAULTS | SignalsBlocked::CANCELLATION,
    )
}

/// Records the program's handlers of SIGBUS and SIGSYS from here on.
pub(crate) fn record() {
    STEP.store(RECORDING, Ordering::Relaxed);
}

/// Installs a handler, and records the disposition before it.
fn install(signal: c_int, handler: Handler, flags: c_int, mask: u64) -> Result<(), Errno> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let mut former = MaybeUninit::<libc::sigaction>::zeroed();
    let set = NEXT_SIGACTION.find().ok_or(Errno::NOSYS)?;
    // SAFETY: both are valid as zeroes, and the handler obeys the rules for handlers.
    let former = unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        action.sa_mask = library_mask(mask);
        if set(signal, action, former.as_mut_ptr()) != 0 {
            return Err(Errno::of_number(*libc::__errno_location()));
        }
        former.assume_init()
    };
    exchange(signal, Some(disposition_of(&former)));
    Ok(())
}

/// The disposition that a structure of the C library states.
pub(crate) fn disposition_of(action: &libc::sigaction) -> Disposition {
    Disposition {
        handler: action.sa_sigaction,
        flags: action.sa_flags,
        mask: kernel_mask(&action.sa_mask),
    }
}

/// Unblocks SIGBUS and SIGSYS in this thread: a program may inherit them blocked.
fn unblock() {
    let ours = !stripped(u64::MAX);
    let arguments = [
        libc::SIG_UNBLOCK as usize,
        (&raw const ours) as usize,
        0,
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: the kernel reads the set.
    unsafe { trampoline::call(libc::SYS_rt_sigprocmask, arguments) };
}

/// A SIGBUS that is not the pager's: the pager's handler calls it.
extern "C" fn on_foreign(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    pass_on(signal, info, context);
}

/// Does what the program's disposition of a signal says.
pub(crate) fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(disposition) = exchange(signal, None) else {
        return;
    };
    // SAFETY: the kernel gives a valid description.
    let is_sent = unsafe { (*info).si_code } <= 0;
    match disposition.handler {
        libc::SIG_IGN if is_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => end_by(signal, is_sent),
        _ => {
            if disposition.flags & libc::SA_RESETHAND != 0 {
                exchange(signal, Some(Disposition::DEFAULT));
            }
            run(disposition, signal, info, context);
        }
    }
}

/// Has the kernel do the default action: a fault repeats when the handler returns, a sent signal is sent again.
fn end_by(signal: c_int, is_sent: bool) {
    let action = MaybeUninit::<libc::sigaction>::zeroed();
    if let Some(set) = NEXT_SIGACTION.find() {
        // SAFETY: zeroes are the default action without flags.
        unsafe { set(signal, action.as_ptr(), ptr::null_mut()) };
    }
    // The action of a trapped call is its signal too: the call does not repeat.
    if is_sent || signal == libc::SIGSYS {
        // SAFETY: these calls take no memory.
        unsafe {
            let process = trampoline::call(libc::SYS_getpid, [0; 6]) as usize;
            let thread = trampoline::call(libc::SYS_gettid, [0; 6]) as usize;
            trampoline::call(libc::SYS_tgkill, [process, thread, signal as usize, 0, 0, 0]);
        }
    }
}

/// Calls a handler of the program, with the signals blocked that the kernel would block.
fn run(disposition: Disposition, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a valid context, whose mask begins with the kernel's word.
    let interrupted = unsafe {
        (&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask)
            .cast::<u64>()
            .read()
    };
    let mask = stripped(interrupted | disposition.mask);
    let arguments = [
        libc::SIG_SETMASK as usize,
        (&raw const mask) as usize,
        0,
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: the kernel reads the set. The handler has the type that its flags state. The mask of the interrupted code is
    // restored when the library's handler returns.
    unsafe {
        trampoline::call(libc::SYS_rt_sigprocmask, arguments);
        if disposition.flags & libc::SA_SIGINFO != 0 {
            let handler: Handler = std::mem::transmute(disposition.handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(disposition.handler);
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_the_c_library_begin_with_the_kernel_s() {
        let mask = 1 << (libc::SIGTERM - 1) | 1 << 63;
        let set = library_mask(mask);
        // SAFETY: the set is valid.
        let has = |signal| unsafe { libc::sigismember(&raw const set, signal) } == 1;
        assert!(has(libc::SIGTERM) && has(64) && !has(libc::SIGINT));
        assert_eq!(kernel_mask(&set), mask);
    }

    #[test]
    fn two_signals_have_records() {
        assert!(record_of(libc::SIGBUS).is_some() && record_of(libc::SIGSYS).is_some());
        assert!(record_of(libc::SIGSEGV).is_none() && record_of(-1).is_none());
        assert!(!is_recorded(libc::SIGBUS), "nothing is recorded before the start");
    }
}
