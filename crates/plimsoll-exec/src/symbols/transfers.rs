//! The symbols of transfers of bytes (`read`, `write` and their like). The filter traps a transfer with its buffer in the arena, which
//! takes about 8 us; here it is served without a signal. Transfers of the C library itself, or by the program's own instruction,
//! are trapped.
//!
//! A call whose buffer is elsewhere passes on to the next library with the symbol: the C library, as a rule. One that another preloaded
//! library defines does not see the calls with buffers in the arena.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{off_t, pthread_t, size_t, sockaddr, socklen_t, ssize_t};

use super::errors::{failed, returned};
use crate::calls::{self, Call, is_managed};
use crate::next_symbol::Next;

/// Whether a transfer with that buffer would be trapped, and no thread has to end in it.
fn is_served(buffer: usize) -> bool {
    calls::is_active() && is_managed(buffer) && !HAS_CANCELLED.load(Ordering::Relaxed)
}

/// Functions with a buffer: the condition on which the C library makes the call in any case, the number of the call, and its
/// arguments as the kernel has them.
macro_rules! functions {
    ($($name:ident, $text:literal, ($($argument:ident: $kind:ty),*), $passes_on:expr, $number:ident, [$($kernel:expr),*];)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            ///
            /// # Safety
            /// As for the C library's.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> ssize_t {
                if !is_served(buffer_of!($($argument)*) as usize) || $passes_on {
                    return match next::$name.find() {
                        // SAFETY: the caller's premise.
                        Some(next) => unsafe { next($($argument),*) },
                        None => failed(libc::ENOSYS) as ssize_t,
                    };
                }
                let mut arguments = [0; 6];
                let given: &[usize] = &[$($kernel as usize),*];
                arguments[..given.len()].copy_from_slice(given);
                // SAFETY: the caller's premise.
                returned(unsafe { calls::serve_transfer(Call::new(libc::$number, arguments)) })
            }
        )*

        /// The C library's functions.
        #[allow(non_upper_case_globals, reason = "the names of C")]
        mod next {
            use super::*;

            $(
                // SAFETY: the type of the function.
                pub(super) static $name: Next<unsafe extern "C" fn($($kind),*) -> ssize_t> = unsafe { Next::new($text) };
            )*
        }

        /// Finds the C library's functions: they may be called in signal handlers, where it may not search.
        pub(super) fn prepare() {
            $(let _ = next::$name.find();)*
            let _ = PTHREAD_CANCEL.find();
        }
    };
}

/// Whether a thread was ever cancelled: the C library's functions end such a thread, whose frames must not be this library's.
static HAS_CANCELLED: AtomicBool = AtomicBool::new(false);

// SAFETY: the type of the function.
static PTHREAD_CANCEL: Next<unsafe extern "C" fn(pthread_t) -> c_int> =
    unsafe { Next::new(c"pthread_cancel") };

/// `pthread_cancel(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cancel(thread: pthread_t) -> c_int {
    HAS_CANCELLED.store(true, Ordering::Relaxed);
    match PTHREAD_CANCEL.find() {
        // SAFETY: the caller's premise.
        Some(next) => unsafe { next(thread) },
        None => libc::ENOSYS,
    }
}

/// The second argument of a function.
macro_rules! buffer_of {
    ($first:ident $buffer:ident $($rest:ident)*) => {
        $buffer
    };
}

functions! {
    read, c"read", (file: c_int, buffer: *mut c_void, bytes: size_t), false, SYS_read, [file, buffer, bytes];
    write, c"write", (file: c_int, buffer: *const c_void, bytes: size_t), false, SYS_write, [file, buffer, bytes];
    pread, c"pread", (file: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t), false,
        SYS_pread64, [file, buffer, bytes, offset];
    pread64, c"pread64", (file: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t), false,
        SYS_pread64, [file, buffer, bytes, offset];
    pwrite, c"pwrite", (file: c_int, buffer: *const c_void, bytes: size_t, offset: off_t), false,
        SYS_pwrite64, [file, buffer, bytes, offset];
    pwrite64, c"pwrite64", (file: c_int, buffer: *const c_void, bytes: size_t, offset: off_t), false,
        SYS_pwrite64, [file, buffer, bytes, offset];
    recv, c"recv", (socket: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int), false,
        SYS_recvfrom, [socket, buffer, bytes, flags];
    send, c"send", (socket: c_int, buffer: *const c_void, bytes: size_t, flags: c_int), false,
        SYS_sendto, [socket, buffer, bytes, flags];
    recvfrom, c"recvfrom", (socket: c_int, buffer: *mut c_void, bytes: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t),
        false, SYS_recvfrom, [socket, buffer, bytes, flags, address, length];
    sendto, c"sendto", (socket: c_int, buffer: *const c_void, bytes: size_t, flags: c_int, address: *const sockaddr, length: socklen_t),
        false, SYS_sendto, [socket, buffer, bytes, flags, address, length];
    // Programs that are compiled with _FORTIFY_SOURCE: the C library ends one whose buffer is too small.
    __read_chk, c"__read_chk", (file: c_int, buffer: *mut c_void, bytes: size_t, room: size_t), bytes > room,
        SYS_read, [file, buffer, bytes];
    __pread_chk, c"__pread_chk", (file: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t, room: size_t), bytes > room,
        SYS_pread64, [file, buffer, bytes, offset];
    __pread64_chk, c"__pread64_chk", (file: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t, room: size_t), bytes > room,
        SYS_pread64, [file, buffer, bytes, offset];
    __recv_chk, c"__recv_chk", (socket: c_int, buffer: *mut c_void, bytes: size_t, room: size_t, flags: c_int), bytes > room,
        SYS_recvfrom, [socket, buffer, bytes, flags];
    __recvfrom_chk, c"__recvfrom_chk", (socket: c_int, buffer: *mut c_void, bytes: size_t, room: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t),
        bytes > room, SYS_recvfrom, [socket, buffer, bytes, flags, address, length];
}
