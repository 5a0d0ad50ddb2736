//! Blocks at multiples of a requested alignment.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr;

use plimsoll_lfh::Heap;
use plimsoll_os::page_size;

use crate::errno::{EINVAL, ENOMEM, or_no_memory, set};

/// Writes a block of at least `size` bytes at a multiple of `align` to `result`. Returns 0, or `EINVAL` where `align` is
/// no power of two or no multiple of a pointer's size, or `ENOMEM`; then `result` stays as it was. `errno` always does.
///
/// # Safety
/// `result` is valid for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(result: *mut *mut u8, align: usize, size: usize) -> c_int {
    // SAFETY: the caller's premise.
    unsafe { write_aligned(result, align, size) }
}

/// # Safety
/// As for [`posix_memalign`].
#[inline]
unsafe fn write_aligned(result: *mut *mut u8, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut u8>() {
        return EINVAL;
    }
    let block = Heap::process().allocate_aligned(align, size);
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's premise.
    unsafe { result.write(block) };
    0
}

/// [`posix_memalign`], by the name of its definition in glibc. That does not export it; mimalloc and tcmalloc do.
///
/// # Safety
/// As for [`posix_memalign`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __posix_memalign(result: *mut *mut u8, align: usize, size: usize) -> c_int {
    // SAFETY: the caller's premise.
    unsafe { write_aligned(result, align, size) }
}

/// A block of at least `size` bytes at a multiple of `align`; null and `EINVAL` where that is no power of two, as glibc
/// has it since 2.38. Any size will do.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut u8 {
    if !align.is_power_of_two() {
        set(EINVAL);
        return ptr::null_mut();
    }
    or_no_memory(Heap::process().allocate_aligned(align, size))
}

/// As [`aligned_alloc`], but as in glibc an `align` that is no power of two is rounded up to one.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut u8 {
    rounded(align, size)
}

/// [`memalign`], by the name that glibc has for it.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_memalign(align: usize, size: usize) -> *mut u8 {
    rounded(align, size)
}

#[inline]
fn rounded(align: usize, size: usize) -> *mut u8 {
    match align.checked_next_power_of_two() {
        Some(align) => or_no_memory(Heap::process().allocate_aligned(align, size)),
        None => {
            set(EINVAL);
            ptr::null_mut()
        }
    }
}

/// A block of at least `size` bytes at the start of a page.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut u8 {
    or_no_memory(Heap::process().allocate_aligned(page_size(), size))
}

/// [`valloc`], by the name that glibc has for it.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_valloc(size: usize) -> *mut u8 {
    or_no_memory(Heap::process().allocate_aligned(page_size(), size))
}

/// A block of whole pages, at least `size` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut u8 {
    whole_pages(size)
}

/// [`pvalloc`], by the name that glibc has for it.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_pvalloc(size: usize) -> *mut u8 {
    whole_pages(size)
}

#[inline]
fn whole_pages(size: usize) -> *mut u8 {
    let page = page_size();
    match size.checked_next_multiple_of(page) {
        Some(bytes) => or_no_memory(Heap::process().allocate_aligned(page, bytes)),
        None => {
            set(ENOMEM);
            ptr::null_mut()
        }
    }
}
