//! What malloc says of itself.
#![allow(unsafe_code)]

use core::ffi::c_int;

use plimsoll_lfh::Heap;

/// Bytes that the block has, at least as many as were asked for. 0 for null.
///
/// # Safety
/// `block` is null or was returned by this library and is in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut u8) -> usize {
    // SAFETY: the caller's premise.
    unsafe { Heap::process().usable_size(block) }
}

/// Gives free memory back to the system at once. Returns 1, as glibc does where something was given back; how much is
/// kept (`pad`) is the heap's own affair.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    Heap::process().trim();
    1
}

/// Sets a parameter of glibc's malloc. None of them has a meaning here, so it returns 0: not set.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(_parameter: c_int, _value: c_int) -> c_int {
    0
}

/// [`mallopt`], by the name that glibc has for it.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_mallopt(_parameter: c_int, _value: c_int) -> c_int {
    0
}
