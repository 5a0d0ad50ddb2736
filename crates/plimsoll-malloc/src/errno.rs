//! `errno`, as far as malloc sets it. The heap never touches it, so success leaves it as it was.
#![allow(unsafe_code)]

use core::ffi::c_int;

pub(crate) const EAGAIN: c_int = 11;
pub(crate) const ENOMEM: c_int = 12;
pub(crate) const EBUSY: c_int = 16;
pub(crate) const EINVAL: c_int = 22;
pub(crate) const ENOTSUP: c_int = 95;

unsafe extern "C" {
    /// Where the calling thread's `errno` is: of glibc and of musl.
    safe fn __errno_location() -> *mut c_int;
}

/// Sets the calling thread's `errno`.
#[cold]
pub(crate) fn set(error: c_int) {
    // SAFETY: the address is valid, and this thread's alone.
    unsafe { __errno_location().write(error) };
}

/// Sets `errno` to `ENOMEM`.
pub(crate) fn set_no_memory() {
    set(ENOMEM);
}

/// The block itself; for null, sets `errno`.
#[inline]
pub(crate) fn or_no_memory(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        set_no_memory();
    }
    block
}
