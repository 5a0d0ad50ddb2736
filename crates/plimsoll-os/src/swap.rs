//! Swap devices and files.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_int};

use crate::Errno;

/// `SWAP_FLAG_PREFER` of `<linux/swap.h>`: the low bits hold a priority.
const FLAG_PREFER: c_int = 0x8000;
/// `SWAP_FLAG_PRIO_MASK` of `<linux/swap.h>`.
const PRIORITY_MASK: u16 = 0x7fff;

/// Starts swapping to `path`, a device or file with a swap signature (`swapon(2)`). A higher `priority`
/// (0 to 32767) is used first; `None` lets the kernel choose one below all others.
///
/// # Errors
/// [`Errno::PERM`] without CAP_SYS_ADMIN, [`Errno::INVAL`] for a path without a signature, a file with holes or a
/// priority above 32767, `EBUSY` when it is in use already.
pub fn swap_on(path: &CStr, priority: Option<u16>) -> Result<(), Errno> {
    let flags = match priority {
        Some(priority) if priority > PRIORITY_MASK => return Err(Errno::INVAL),
        Some(priority) => FLAG_PREFER | c_int::from(priority),
        None => 0,
    };
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    Errno::check(unsafe { libc::swapon(path.as_ptr(), flags) }).map(drop)
}

/// Stops swapping to `path`; the kernel reads its contents back into RAM first, which may take long (`swapoff(2)`).
///
/// # Errors
/// [`Errno::INVAL`] when `path` is not in use as swap, [`Errno::NOMEM`] when RAM has no room for its contents, [`Errno::INTR`] when a signal cut it short (swap is then still on), [`Errno::PERM`] without CAP_SYS_ADMIN.
pub fn swap_off(path: &CStr) -> Result<(), Errno> {
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    Errno::check(unsafe { libc::swapoff(path.as_ptr()) }).map(drop)
}
