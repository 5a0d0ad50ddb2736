//! Blocks at multiples of a requested alignment.
#![allow(unsafe_code, reason = "the pointer to which posix_memalign writes")]

use core::ffi::c_int;
use core::ptr;

use plimsoll_os::page_size;

use crate::errno::{EINVAL, ENOMEM, or_no_memory, set};
use crate::source::Source;

/// Writes a block of at least `size` bytes at a multiple of `align` to `result`. Returns 0, or `EINVAL` where `align` is
/// no power of two or no multiple of a pointer's size, or `ENOMEM`; then `result` stays as it was. `errno` always does.
///
/// # Safety
/// `result` is valid for a pointer.
#[inline]
pub unsafe fn posix_memalign(source: impl Source, result: *mut *mut u8, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut u8>() {
        return EINVAL;
    }
    let block = source.allocate_aligned(align, size);
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's premise.
    unsafe { result.write(block) };
    0
}

/// A block of at least `size` bytes at a multiple of `align`; null and `EINVAL` where that is no power of two, as glibc
/// has it since 2.38. Any size will do.
#[inline]
pub fn aligned_alloc(source: impl Source, align: usize, size: usize) -> *mut u8 {
    if !align.is_power_of_two() {
        set(EINVAL);
        return ptr::null_mut();
    }
    or_no_memory(source.allocate_aligned(align, size))
}

/// As [`aligned_alloc`], but as in glibc an `align` that is no power of two is rounded up to one.
#[inline]
pub fn memalign(source: impl Source, align: usize, size: usize) -> *mut u8 {
    match align.checked_next_power_of_two() {
        Some(align) => or_no_memory(source.allocate_aligned(align, size)),
        None => {
            set(EINVAL);
            ptr::null_mut()
        }
    }
}

/// A block of at least `size` bytes at the start of a page.
#[inline]
pub fn valloc(source: impl Source, size: usize) -> *mut u8 {
    or_no_memory(source.allocate_aligned(page_size(), size))
}

/// A block of whole pages, at least `size` bytes.
#[inline]
pub fn pvalloc(source: impl Source, size: usize) -> *mut u8 {
    let page = page_size();
    match size.checked_next_multiple_of(page) {
        Some(bytes) => or_no_memory(source.allocate_aligned(page, bytes)),
        None => {
            set(ENOMEM);
            ptr::null_mut()
        }
    }
}
