//! `errno`, as far as malloc sets it. The heap never touches it, so success leaves it as it was.
#![allow(unsafe_code, reason = "the calling thread's errno")]

use core::ffi::c_int;

/// A resource is used up for now.
pub const EAGAIN: c_int = 11;
/// No memory is left.
pub const ENOMEM: c_int = 12;
/// In use.
pub const EBUSY: c_int = 16;
/// An argument that is not allowed.
pub const EINVAL: c_int = 22;
/// Not possible.
pub const ENOTSUP: c_int = 95;

unsafe extern "C" {
    /// Where the calling thread's `errno` is: of glibc and of musl.
    safe fn __errno_location() -> *mut c_int;
}

/// Sets the calling thread's `errno`.
#[cold]
pub fn set(error: c_int) {
    // SAFETY: the address is valid, and this thread's alone.
    unsafe { __errno_location().write(error) };
}

/// Sets `errno` to `ENOMEM`.
pub fn set_no_memory() {
    set(ENOMEM);
}

/// The block itself; for null, sets `errno`.
#[inline]
pub fn or_no_memory(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        set_no_memory();
    }
    block
}
