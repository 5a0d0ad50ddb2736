//! Descriptors of the library, and the symbols that close descriptors.
//!
//! Programs take low numbers by themselves (`dup2(file, 3)`), so the library's are high. Programs close all that they do not know
//! (`close_range(3, ~0)`), in themselves and between `vfork` and `execve`: the library's have to stay. That of the pool, which children
//! inherit, is protected too.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU64, Ordering};

use super::errors::{failed, returned};
use crate::next_symbol::Next;
use crate::trampoline;

/// The library's descriptors are below it: it is the usual limit of a process.
const MOST: usize = 1024;
/// Descriptors of the library, at most.
const ROOM: usize = 128;

/// The protected descriptors, one bit each.
static PROTECTED: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

/// Low numbers that are in use while the library opens its descriptors.
pub(crate) struct LowNumbers {
    /// Numbers from here on are the library's.
    first: usize,
    /// The numbers that this value occupies, one bit each.
    occupied: [u64; MOST / 64],
}

/// Makes a system call with three numbers.
fn system_call(number: i64, first: usize, second: usize, third: usize) -> isize {
    // SAFETY: the calls of this module take no memory.
    unsafe { trampoline::call(number, [first, second, third, 0, 0, 0]) }
}

/// The first number for the library's descriptors.
fn first_number() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes the limit to the variable.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let limit = usize::try_from(limit.rlim_cur).unwrap_or(MOST).min(MOST);
    limit.saturating_sub(ROOM).max(limit / 2)
}

impl LowNumbers {
    /// Occupies the low numbers that are free.
    pub(crate) fn occupy() -> LowNumbers {
        let mut low = LowNumbers {
            first: first_number(),
            occupied: [0; MOST / 64],
        };
        let event = system_call(libc::SYS_eventfd2, 0, libc::EFD_CLOEXEC as usize, 0);
        let mut next = event;
        while let Some(file) = usize::try_from(next).ok().filter(|file| *file < low.first) {
            low.occupied[file / 64] |= 1 << (file % 64);
            next = system_call(
                libc::SYS_fcntl,
                event as usize,
                libc::F_DUPFD_CLOEXEC as usize,
                file + 1,
            );
        }
        if next >= 0 {
            system_call(libc::SYS_close, next as usize, 0, 0);
        }
        low
    }

    /// Frees the low numbers, and protects the descriptors that the library has opened meanwhile.
    pub(crate) fn free(self) {
        for file in 0..self.first {
            if self.occupied[file / 64] >> (file % 64) & 1 == 1 {
                system_call(libc::SYS_close, file, 0, 0);
            }
        }
        for file in self.first..MOST {
            let flags = system_call(libc::SYS_fcntl, file, libc::F_GETFD as usize, 0);
            // Inherited ones have stayed open at the execution of the program.
            if flags > 0 && flags as c_int & libc::FD_CLOEXEC != 0 {
                protect(file as c_int);
            }
        }
    }
}

/// Has the program leave a descriptor alone.
pub(crate) fn protect(file: c_int) {
    let file = usize::try_from(file).unwrap_or(MOST);
    if let Some(word) = PROTECTED.get(file / 64) {
        word.fetch_or(1 << (file % 64), Ordering::Relaxed);
    }
}

/// Whether the program must not touch a descriptor. The pager gives its own other files while it forks.
fn is_protected(file: c_int) -> bool {
    !super::fork::is_forker() && is_marked(file)
}

fn is_marked(file: c_int) -> bool {
    let file = usize::try_from(file).unwrap_or(MOST);
    let word = PROTECTED.get(file / 64);
    word.is_some_and(|word| word.load(Ordering::Relaxed) >> (file % 64) & 1 == 1)
}

/// `close(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(file: c_int) -> c_int {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(c_int) -> c_int> = unsafe { Next::new(c"close") };
    if is_protected(file) {
        return failed(libc::EBADF);
    }
    match NEXT.find() {
        // SAFETY: the caller's premise.
        Some(next) => unsafe { next(file) },
        None => failed(libc::ENOSYS),
    }
}

/// `dup2(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(c_int, c_int) -> c_int> = unsafe { Next::new(c"dup2") };
    match NEXT.find() {
        _ if is_protected(new) => failed(libc::EBUSY),
        // SAFETY: the caller's premise.
        Some(next) => unsafe { next(old, new) },
        None => failed(libc::ENOSYS),
    }
}

/// `dup3(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if is_protected(new) {
        return failed(libc::EBUSY);
    }
    // SAFETY: the call takes no memory.
    returned(unsafe {
        trampoline::call(
            libc::SYS_dup3,
            [old as usize, new as usize, flags as usize, 0, 0, 0],
        )
    }) as c_int
}

/// `close_range(2)`: the ranges between protected descriptors.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let close = |first: c_uint, last: c_uint| {
        // SAFETY: the call takes no memory.
        returned(unsafe {
            trampoline::call(
                libc::SYS_close_range,
                [first as usize, last as usize, flags as usize, 0, 0, 0],
            )
        }) as c_int
    };
    let mut next = first;
    for file in first..=last.min(MOST as c_uint) {
        if !is_protected(file as c_int) {
            continue;
        }
        if file > next && close(next, file - 1) != 0 {
            return -1;
        }
        next = file + 1;
    }
    // The kernel judges an empty range.
    if next <= last || first > last {
        close(next, last)
    } else {
        0
    }
}

/// `closefrom(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: the caller's premise.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}
