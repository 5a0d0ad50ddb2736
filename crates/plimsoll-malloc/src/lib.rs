//! The C symbols of malloc over `plimsoll-lfh`, to be preloaded: `LD_PRELOAD=libplimsoll_malloc.so program`.
#![allow(unsafe_code)]

use plimsoll_lfh::Heap;

/// A block of at least `size` bytes; null where no memory is left.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    Heap::process().allocate(size)
}

/// Gives a block back.
///
/// # Safety
/// `block` is null or was returned by this library and is in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut u8) {
    // SAFETY: the caller's premise.
    unsafe { Heap::process().free(block) };
}
