//! In place of [`trampoline`](crate::trampoline) where no instruction is exempt from a filter: system calls by an instruction of
//! the library's own code.
#![allow(unsafe_code, reason = "system calls")]

use plimsoll_os::Errno;

/// Makes a system call. Returns the kernel's result: an error is the negative of its number. `errno` stays as it was.
///
/// # Safety
/// As for the system call: it may change any memory of the process.
pub(crate) unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    let returned: isize;
    // SAFETY: the kernel's calling convention; the effects of the call are the caller's premise.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
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
    returned
}

/// A result of the kernel as a `Result`.
pub(crate) fn check(returned: isize) -> Result<usize, Errno> {
    match returned {
        -4095..=-1 => Err(Errno::of_number(-returned as i32)),
        _ => Ok(returned as usize),
    }
}
