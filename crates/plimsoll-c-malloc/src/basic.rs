//! malloc, free, calloc and realloc.
#![allow(unsafe_code, reason = "blocks that are freed and resized by their addresses")]

use core::ptr;

use crate::errno::{ENOMEM, or_no_memory, set, set_no_memory};
use crate::source::Source;

/// A block of at least `size` bytes; null and `ENOMEM` if no memory is left. 0 bytes are a block too.
#[inline(always)]
pub fn malloc(source: impl Source, size: usize) -> *mut u8 {
    source.allocate_or(size, set_no_memory)
}

/// Frees a block. Null is allowed. `errno` stays as it was.
///
/// # Safety
/// `block` is null or of this source and in use; it is not used again.
#[inline(always)]
pub unsafe fn free(source: impl Source, block: *mut u8) {
    // SAFETY: the caller's premise.
    unsafe { source.free(block) };
}

/// As [`free`]. The further argument is a size, an alignment or a tag, on which nothing depends.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub unsafe fn free_with<A>(source: impl Source, block: *mut u8, _: A) {
    // SAFETY: the caller's premise.
    unsafe { source.free(block) };
}

/// As [`free_with`], with two further arguments.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub unsafe fn free_with_two<A, B>(source: impl Source, block: *mut u8, _: A, _: B) {
    // SAFETY: the caller's premise.
    unsafe { source.free(block) };
}

/// A block of `count` times `size` bytes that are zero; null and `ENOMEM` if no memory is left or the product is
/// too large to be a size.
#[inline]
pub fn calloc(source: impl Source, count: usize, size: usize) -> *mut u8 {
    match count.checked_mul(size) {
        Some(bytes) => or_no_memory(source.allocate_zeroed(bytes)),
        None => too_large(),
    }
}

/// Makes a block `size` bytes long; it may move. Null and `ENOMEM` if no memory is left: the block stays as it was.
///
/// As in glibc, no block is as `malloc`, and 0 bytes free the block and return null.
///
/// # Safety
/// `block` is null or of this source and in use; it is not used again, unless null is returned for a size that is not 0.
#[inline]
pub unsafe fn realloc(source: impl Source, block: *mut u8, size: usize) -> *mut u8 {
    if size == 0 && !block.is_null() {
        // SAFETY: the caller's premise.
        unsafe { source.free(block) };
        return ptr::null_mut();
    }
    // SAFETY: the caller's premise.
    or_no_memory(unsafe { source.reallocate(block, size) })
}

/// As [`realloc`], of `count` times `size` bytes; null and `ENOMEM` where the product is too large to be a size.
///
/// # Safety
/// As for [`realloc`].
#[inline]
pub unsafe fn reallocarray(source: impl Source, block: *mut u8, count: usize, size: usize) -> *mut u8 {
    match count.checked_mul(size) {
        // SAFETY: the caller's premise.
        Some(bytes) => unsafe { realloc(source, block, bytes) },
        None => too_large(),
    }
}

#[cold]
fn too_large() -> *mut u8 {
    set(ENOMEM);
    ptr::null_mut()
}
