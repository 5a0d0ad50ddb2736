//! The symbols of calls with vectors and messages. The filter of system calls looks at arguments alone, and does not see a buffer in the arena
//! whose vector is on the stack.
//!
//! A call without a buffer in the arena passes on to the C library, where a thread can be cancelled.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::{c_int, c_uint, c_ulong};
use std::slice;

use libc::{iovec, mmsghdr, msghdr, off_t, size_t, ssize_t, timespec};

use super::errors::{failed, returned};
use crate::calls::{self, Call, is_managed};
use crate::next_symbol::Next;

/// Buffers and messages of a call. The kernel refuses more.
const MOST: usize = 1024;

/// Whether the kernel may miss a buffer of a vector.
///
/// # Safety
/// The vector has `count` entries, if it has no more than the kernel takes.
unsafe fn has_managed(vector: *const iovec, count: usize) -> bool {
    if !calls::is_active() || count == 0 || count > MOST || vector.is_null() {
        return false;
    }
    // SAFETY: the caller's premise.
    let buffers = unsafe { slice::from_raw_parts(vector, count) };
    is_managed(vector as usize) || buffers.iter().any(|buffer| is_managed(buffer.iov_base as usize))
}

/// Whether the kernel may miss a part of a message.
///
/// # Safety
/// The header is valid, and so is its vector.
unsafe fn is_managed_message(message: *const msghdr) -> bool {
    if !calls::is_active() {
        return false;
    }
    // SAFETY: the caller's premise.
    let Some(header) = (unsafe { message.as_ref() }) else {
        return false;
    };
    is_managed(message as usize)
        || is_managed(header.msg_name as usize)
        || is_managed(header.msg_control as usize)
        // SAFETY: the caller's premise.
        || unsafe { has_managed(header.msg_iov, header.msg_iovlen) }
}

/// Serves a call.
///
/// # Safety
/// The program asked for it.
unsafe fn serve(number: i64, arguments: [usize; 6]) -> ssize_t {
    // SAFETY: the caller's premise.
    returned(unsafe { calls::serve(Call::new(number, arguments)) })
}

/// Functions with a vector: their number, and the arguments behind the vector as the kernel has them.
macro_rules! vector_functions {
    ($($name:ident, $text:literal, $number:ident, ($($argument:ident: $kind:ty),*), [$($kernel:expr),*];)*) => {$(
        #[doc = concat!("`", stringify!($name), "(2)`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: c_int, vector: *const iovec, count: c_int $(, $argument: $kind)*) -> ssize_t {
            type Function = unsafe extern "C" fn(c_int, *const iovec, c_int $(, $kind)*) -> ssize_t;
            // SAFETY: the type of the function.
            static NEXT: Next<Function> = unsafe { Next::new($text) };
            // SAFETY: the caller's premise.
            unsafe {
                if !has_managed(vector, usize::try_from(count).unwrap_or(0)) {
                    return match NEXT.find() {
                        Some(next) => next(file, vector, count $(, $argument)*),
                        None => failed(libc::ENOSYS) as ssize_t,
                    };
                }
                let mut arguments = [file as usize, vector as usize, count as usize, 0, 0, 0];
                let rest: &[usize] = &[$($kernel),*];
                arguments[3..3 + rest.len()].copy_from_slice(rest);
                serve(libc::$number, arguments)
            }
        }
    )*};
}

vector_functions! {
    readv, c"readv", SYS_readv, (), [];
    writev, c"writev", SYS_writev, (), [];
    preadv, c"preadv", SYS_preadv, (offset: off_t), [offset as usize, 0];
    preadv64, c"preadv64", SYS_preadv, (offset: off_t), [offset as usize, 0];
    pwritev, c"pwritev", SYS_pwritev, (offset: off_t), [offset as usize, 0];
    pwritev64, c"pwritev64", SYS_pwritev, (offset: off_t), [offset as usize, 0];
    preadv2, c"preadv2", SYS_preadv2, (offset: off_t, flags: c_int), [offset as usize, 0, flags as usize];
    preadv64v2, c"preadv64v2", SYS_preadv2, (offset: off_t, flags: c_int), [offset as usize, 0, flags as usize];
    pwritev2, c"pwritev2", SYS_pwritev2, (offset: off_t, flags: c_int), [offset as usize, 0, flags as usize];
    pwritev64v2, c"pwritev64v2", SYS_pwritev2, (offset: off_t, flags: c_int), [offset as usize, 0, flags as usize];
}

/// `vmsplice(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmsplice(
    file: c_int,
    vector: *const iovec,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(c_int, *const iovec, size_t, c_uint) -> ssize_t> =
        unsafe { Next::new(c"vmsplice") };
    // SAFETY: the caller's premise.
    unsafe {
        match (has_managed(vector, count), NEXT.find()) {
            (false, Some(next)) => next(file, vector, count, flags),
            _ => serve(
                libc::SYS_vmsplice,
                [file as usize, vector as usize, count, flags as usize, 0, 0],
            ),
        }
    }
}

macro_rules! message_functions {
    ($($name:ident, $text:literal, $number:ident, $pointer:ty;)*) => {$(
        #[doc = concat!("`", stringify!($name), "(2)`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(socket: c_int, message: $pointer, flags: c_int) -> ssize_t {
            // SAFETY: the type of the function.
            static NEXT: Next<unsafe extern "C" fn(c_int, $pointer, c_int) -> ssize_t> = unsafe { Next::new($text) };
            // SAFETY: the caller's premise.
            unsafe {
                match (is_managed_message(message), NEXT.find()) {
                    (false, Some(next)) => next(socket, message, flags),
                    _ => serve(libc::$number, [socket as usize, message as usize, flags as usize, 0, 0, 0]),
                }
            }
        }
    )*};
}

message_functions! {
    sendmsg, c"sendmsg", SYS_sendmsg, *const msghdr;
    recvmsg, c"recvmsg", SYS_recvmsg, *mut msghdr;
}

/// Whether the kernel may miss a part of one of several messages.
///
/// # Safety
/// As for [`is_managed_message`], of each.
unsafe fn has_managed_message(messages: *const mmsghdr, count: c_uint) -> bool {
    if !calls::is_active() || messages.is_null() {
        return false;
    }
    // SAFETY: the caller's premise.
    let messages = unsafe { slice::from_raw_parts(messages, (count as usize).min(MOST)) };
    // SAFETY: the caller's premise.
    messages
        .iter()
        .any(|message| unsafe { is_managed_message(&raw const message.msg_hdr) })
}

/// `sendmmsg(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmmsg(
    socket: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int> =
        unsafe { Next::new(c"sendmmsg") };
    let arguments = [
        socket as usize,
        messages as usize,
        count as usize,
        flags as usize,
        0,
        0,
    ];
    // SAFETY: the caller's premise.
    unsafe {
        match (has_managed_message(messages, count), NEXT.find()) {
            (false, Some(next)) => next(socket, messages, count, flags),
            _ => serve(libc::SYS_sendmmsg, arguments) as c_int,
        }
    }
}

/// `recvmmsg(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmmsg(
    socket: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    type Function = unsafe extern "C" fn(c_int, *mut mmsghdr, c_uint, c_int, *mut timespec) -> c_int;
    // SAFETY: the type of the function.
    static NEXT: Next<Function> = unsafe { Next::new(c"recvmmsg") };
    let arguments = [
        socket as usize,
        messages as usize,
        count as usize,
        flags as usize,
        timeout as usize,
        0,
    ];
    // SAFETY: the caller's premise.
    unsafe {
        match (has_managed_message(messages, count), NEXT.find()) {
            (false, Some(next)) => next(socket, messages, count, flags, timeout),
            _ => serve(libc::SYS_recvmmsg, arguments) as c_int,
        }
    }
}

/// Functions with memory of another process.
macro_rules! other_memory_functions {
    ($($name:ident, $text:literal, $number:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "(2)`.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            process: libc::pid_t,
            own: *const iovec,
            own_count: c_ulong,
            other: *const iovec,
            other_count: c_ulong,
            flags: c_ulong,
        ) -> ssize_t {
            type Function =
                unsafe extern "C" fn(libc::pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> ssize_t;
            // SAFETY: the type of the function.
            static NEXT: Next<Function> = unsafe { Next::new($text) };
            let arguments = [
                process as usize,
                own as usize,
                own_count as usize,
                other as usize,
                other_count as usize,
                flags as usize,
            ];
            // SAFETY: the caller's premise.
            unsafe {
                let is_served = has_managed(own, own_count as usize) || has_managed(other, other_count as usize);
                match (is_served, NEXT.find()) {
                    (false, Some(next)) => next(process, own, own_count, other, other_count, flags),
                    _ => serve(libc::$number, arguments),
                }
            }
        }
    )*};
}

other_memory_functions! {
    process_vm_readv, c"process_vm_readv", SYS_process_vm_readv;
    process_vm_writev, c"process_vm_writev", SYS_process_vm_writev;
}
