//! System calls without the C library: they leave `errno` alone, which a heap must, and need no thread of its own (the
//! C library's would write to the thread-local storage of the caller).
#![allow(unsafe_code)]

use core::ffi::c_long;

use crate::Errno;

/// Makes a system call with up to six arguments.
///
/// # Errors
/// The error that the kernel returned.
///
/// # Safety
/// As for the system call itself: it may change any memory of the process.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn system_call(number: c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    let returned: isize;
    // SAFETY: the kernel's calling convention: it clobbers rcx and r11 alone; the effects of the call are the caller's
    // premise.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => returned,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    check(returned)
}

/// Makes a system call with up to six arguments.
///
/// # Errors
/// The error that the kernel returned.
///
/// # Safety
/// As for the system call itself: it may change any memory of the process.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(crate) unsafe fn system_call(number: c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    let returned: isize;
    // SAFETY: the kernel's calling convention; the effects of the call are the caller's premise.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") arguments[0] => returned,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    check(returned)
}

/// The kernel's return value, as a result.
pub(crate) fn check(returned: isize) -> Result<usize, Errno> {
    // The kernel returns errors as -4095..=-1.
    match returned {
        -4095..=-1 => Err(Errno::of_number(-returned as i32)),
        _ => Ok(returned as usize),
    }
}
