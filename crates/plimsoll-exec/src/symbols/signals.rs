//! The symbols of signals: handlers of SIGBUS and SIGSYS are recorded, and no mask blocks these signals.
//!
//! Without the library's own handlers, each passes on to the C library.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sighandler_t, sigset_t, stack_t, timespec};

use super::errors::failed;
use crate::calls;
use crate::handlers::{
    Disposition, NEXT_SIGACTION, disposition_of, exchange, is_recorded, kernel_mask, library_mask, stripped,
    strips_masks,
};
use crate::next_symbol::Next;

/// `sigaction(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's premise.
    unsafe {
        if is_recorded(signal) {
            record(signal, new, old);
            return 0;
        }
        let Some(next) = NEXT_SIGACTION.find() else {
            return failed(libc::ENOSYS);
        };
        if new.is_null() || !strips_masks() {
            return next(signal, new, old);
        }
        let mut action = *new;
        action.sa_mask = library_mask(stripped(kernel_mask(&action.sa_mask)));
        next(signal, &raw const action, old)
    }
}

/// [`sigaction`] by its other name.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's premise.
    unsafe { sigaction(signal, new, old) }
}

/// Records a handler of SIGBUS or SIGSYS. The program's memory is read and written before and after: it may be absent.
unsafe fn record(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) {
    // SAFETY: the caller's premise.
    let new = unsafe { new.as_ref() }.map(disposition_of);
    let Some(former) = exchange(signal, new) else {
        return;
    };
    if !old.is_null() {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the structure is valid as zeroes; the rest is the caller's premise.
        unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = former.handler;
            action.sa_flags = former.flags;
            action.sa_mask = library_mask(former.mask);
            old.write(*action);
        }
    }
}

/// Records a handler with these flags, as `signal(3)` does. Returns the former one.
fn record_handler(signal: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    let new = Disposition {
        handler,
        flags,
        mask: 0,
    };
    exchange(signal, Some(new)).map_or(libc::SIG_ERR, |former| former.handler)
}

/// The names of `signal(3)`, each with the flags of its handlers.
macro_rules! signal_functions {
    ($($name:ident, $text:literal, $flags:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            // SAFETY: the type of the function.
            static NEXT: Next<unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t> = unsafe { Next::new($text) };
            if is_recorded(signal) {
                return record_handler(signal, handler, $flags);
            }
            match NEXT.find() {
                // SAFETY: the caller's premise.
                Some(next) => unsafe { next(signal, handler) },
                None => libc::SIG_ERR,
            }
        }
    )*};
}

signal_functions! {
    signal, c"signal", libc::SA_RESTART;
    bsd_signal, c"bsd_signal", libc::SA_RESTART;
    ssignal, c"ssignal", libc::SA_RESTART;
    sysv_signal, c"sysv_signal", libc::SA_RESETHAND | libc::SA_NODEFER;
    __sysv_signal, c"__sysv_signal", libc::SA_RESETHAND | libc::SA_NODEFER;
}

/// `sigset(3)`. The library's signals cannot be held.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
    const SIG_HOLD: sighandler_t = 2;
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t> =
        unsafe { Next::new(c"sigset") };
    if is_recorded(signal) {
        return match handler {
            SIG_HOLD => exchange(signal, None).map_or(libc::SIG_ERR, |former| former.handler),
            handler => record_handler(signal, handler, 0),
        };
    }
    match NEXT.find() {
        // SAFETY: the caller's premise.
        Some(next) => unsafe { next(signal, handler) },
        None => libc::SIG_ERR,
    }
}

/// The functions that take a signal alone, and do nothing for the library's signals, or record that they are ignored.
macro_rules! one_signal_functions {
    ($($name:ident, $text:literal, $is_ignore:literal;)*) => {$(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int) -> c_int {
            // SAFETY: the type of the function.
            static NEXT: Next<unsafe extern "C" fn(c_int) -> c_int> = unsafe { Next::new($text) };
            if is_recorded(signal) {
                if $is_ignore {
                    record_handler(signal, libc::SIG_IGN, 0);
                }
                return 0;
            }
            match NEXT.find() {
                // SAFETY: the caller's premise.
                Some(next) => unsafe { next(signal) },
                None => failed(libc::ENOSYS),
            }
        }
    )*};
}

one_signal_functions! {
    sigignore, c"sigignore", true;
    sighold, c"sighold", false;
}

type MaskFunction = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

/// The functions that change a mask. The kernel reads and writes copies: the program's may be absent.
macro_rules! mask_functions {
    ($($name:ident, $text:literal, $no_function:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
            // SAFETY: the type of the function.
            static NEXT: Next<MaskFunction> = unsafe { Next::new($text) };
            match NEXT.find() {
                // SAFETY: the caller's premise.
                Some(next) => unsafe { change_mask(next, how, new, old) },
                None => $no_function,
            }
        }
    )*};
}

mask_functions! {
    sigprocmask, c"sigprocmask", failed(libc::ENOSYS);
    pthread_sigmask, c"pthread_sigmask", libc::ENOSYS;
}

unsafe fn change_mask(next: MaskFunction, how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the caller's premise. Sets have the kernel's mask in their first word, and the C library writes no other.
    unsafe {
        if !strips_masks() {
            return next(how, new, old);
        }
        let set = new.as_ref().map(|set| match how {
            libc::SIG_UNBLOCK => library_mask(kernel_mask(set)),
            _ => library_mask(stripped(kernel_mask(set))),
        });
        let mut former = library_mask(0);
        let result = next(
            how,
            set.as_ref().map_or(ptr::null(), ptr::from_ref),
            &raw mut former,
        );
        if result == 0 && !old.is_null() {
            old.cast::<u64>().write(kernel_mask(&former));
        }
        result
    }
}

/// A copy of a mask without the library's signals; none for a null pointer.
unsafe fn copy_stripped(set: *const sigset_t) -> Option<sigset_t> {
    // SAFETY: the caller's premise.
    unsafe { set.as_ref() }.map(|set| match strips_masks() {
        true => library_mask(stripped(kernel_mask(set))),
        false => library_mask(kernel_mask(set)),
    })
}

fn pointer(set: Option<&sigset_t>) -> *const sigset_t {
    set.map_or(ptr::null(), ptr::from_ref)
}

/// Functions with a mask for their duration: their arguments, the mask last.
macro_rules! masked_functions {
    ($($name:ident, $text:literal, ($($argument:ident: $kind:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "(2)`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind,)* mask: *const sigset_t) -> c_int {
            // SAFETY: the type of the function.
            static NEXT: Next<unsafe extern "C" fn($($kind,)* *const sigset_t) -> c_int> = unsafe { Next::new($text) };
            match NEXT.find() {
                // SAFETY: the caller's premise.
                Some(next) => unsafe {
                    let copy = copy_stripped(mask);
                    next($($argument,)* pointer(copy.as_ref()))
                },
                None => failed(libc::ENOSYS),
            }
        }
    )*};
}

masked_functions! {
    sigsuspend, c"sigsuspend", ();
    ppoll, c"ppoll", (files: *mut pollfd, count: nfds_t, timeout: *const timespec);
    pselect, c"pselect", (
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        other: *mut fd_set,
        timeout: *const timespec
    );
    epoll_pwait, c"epoll_pwait", (file: c_int, events: *mut epoll_event, most: c_int, timeout: c_int);
    epoll_pwait2, c"epoll_pwait2", (file: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec);
}

/// The masks of BSD: one word.
macro_rules! word_functions {
    ($($name:ident, $text:literal;)*) => {$(
        #[doc = concat!("`", stringify!($name), "(3)`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(mask: c_int) -> c_int {
            // SAFETY: the type of the function.
            static NEXT: Next<unsafe extern "C" fn(c_int) -> c_int> = unsafe { Next::new($text) };
            let kept = match strips_masks() {
                true => stripped(u64::from(mask as u32)) as u32 as c_int,
                false => mask,
            };
            match NEXT.find() {
                // SAFETY: the caller's premise.
                Some(next) => unsafe { next(kept) },
                None => failed(libc::ENOSYS),
            }
        }
    )*};
}

word_functions! {
    sigblock, c"sigblock";
    sigsetmask, c"sigsetmask";
}

/// `pthread_attr_setsigmask_np(3)`: the mask that a thread begins with.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_attr_setsigmask_np(
    attributes: *mut libc::pthread_attr_t,
    mask: *const sigset_t,
) -> c_int {
    type Function = unsafe extern "C" fn(*mut libc::pthread_attr_t, *const sigset_t) -> c_int;
    // SAFETY: the type of the function.
    static NEXT: Next<Function> = unsafe { Next::new(c"pthread_attr_setsigmask_np") };
    match NEXT.find() {
        // SAFETY: the caller's premise.
        Some(next) => unsafe {
            let copy = copy_stripped(mask);
            next(attributes, pointer(copy.as_ref()))
        },
        None => libc::ENOSYS,
    }
}

/// `sigaltstack(2)`: a stack in the arena stays present.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(*const stack_t, *mut stack_t) -> c_int> =
        unsafe { Next::new(c"sigaltstack") };
    let Some(next) = NEXT.find() else {
        return failed(libc::ENOSYS);
    };
    // SAFETY: the caller's premise. The C library's own call has copies, since the program's may be absent.
    unsafe {
        let copy = new.as_ref().copied();
        if let Some(stack) = &copy
            && let Err(error) = calls::keep_stack(stack)
        {
            return failed(error.raw());
        }
        let mut former = MaybeUninit::<stack_t>::zeroed();
        let set = copy.as_ref().map_or(ptr::null(), ptr::from_ref);
        let result = next(
            set,
            if old.is_null() {
                ptr::null_mut()
            } else {
                former.as_mut_ptr()
            },
        );
        if result == 0 && !old.is_null() {
            old.write(former.assume_init());
        }
        result
    }
}

/// Finds the C library's functions that a handler of a signal may need first.
pub(crate) fn prepare() {
    NEXT_SIGACTION.find();
    let mut set = library_mask(0);
    // SAFETY: the calls change nothing, and find their functions.
    unsafe {
        sigprocmask(libc::SIG_BLOCK, ptr::null(), &raw mut set);
        pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut set);
    }
}
