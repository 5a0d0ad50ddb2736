//! What malloc says of itself.
#![allow(unsafe_code)]

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
