//! malloc, free, calloc, realloc and their other names.
#![allow(unsafe_code)]

use core::ptr;

use plimsoll_lfh::Heap;

use crate::errno::{ENOMEM, or_no_memory, set, set_no_memory};

/// A block of at least `size` bytes; null and `ENOMEM` if no memory is left. 0 bytes are a block too.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    Heap::process().allocate_or(size, set_no_memory)
}

/// Frees a block. Null is allowed. `errno` stays as it was.
///
/// # Safety
/// `block` is null or was returned by this library and is in use; it is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut u8) {
    // SAFETY: the caller's premise.
    unsafe { Heap::process().free(block) };
}

/// A block of `count` times `size` bytes that are zero; null and `ENOMEM` if no memory is left or the product is
/// too large to be a size.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    zeroed(count, size)
}

#[inline]
fn zeroed(count: usize, size: usize) -> *mut u8 {
    match count.checked_mul(size) {
        Some(bytes) => or_no_memory(Heap::process().allocate_zeroed(bytes)),
        None => too_large(),
    }
}

/// Makes a block `size` bytes long; it may move. Null and `ENOMEM` if no memory is left: the block stays as it was.
///
/// As in glibc, no block is as `malloc`, and 0 bytes free the block and return null.
///
/// # Safety
/// `block` is null or was returned by this library and is in use; it is not used again, unless null is returned for
/// a size that is not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's premise.
    unsafe { resize(block, size) }
}

/// As [`realloc`], of `count` times `size` bytes; null and `ENOMEM` where the product is too large to be a size.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut u8, count: usize, size: usize) -> *mut u8 {
    // SAFETY: the caller's premise.
    unsafe { resize_array(block, count, size) }
}

/// # Safety
/// As for [`realloc`].
#[inline]
unsafe fn resize_array(block: *mut u8, count: usize, size: usize) -> *mut u8 {
    match count.checked_mul(size) {
        // SAFETY: the caller's premise.
        Some(bytes) => unsafe { resize(block, bytes) },
        None => too_large(),
    }
}

/// # Safety
/// As for [`realloc`].
#[inline]
unsafe fn resize(block: *mut u8, size: usize) -> *mut u8 {
    let heap = Heap::process();
    if size == 0 && !block.is_null() {
        // SAFETY: the caller's premise.
        unsafe { heap.free(block) };
        return ptr::null_mut();
    }
    // SAFETY: the caller's premise.
    or_no_memory(unsafe { heap.reallocate(block, size) })
}

#[cold]
fn too_large() -> *mut u8 {
    set(ENOMEM);
    ptr::null_mut()
}

/// As [`free`], by its old name.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(block: *mut u8) {
    // SAFETY: the caller's premise.
    unsafe { Heap::process().free(block) };
}

/// As [`free`]; C23. The size is the one that was asked for, and nothing depends on it.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut u8, _size: usize) {
    // SAFETY: the caller's premise.
    unsafe { Heap::process().free(block) };
}

/// As [`free`], of a block of `aligned_alloc`; C23.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut u8, _align: usize, _size: usize) {
    // SAFETY: the caller's premise.
    unsafe { Heap::process().free(block) };
}

/// [`malloc`] by the name that glibc has for replacements of malloc; programs call it too.
#[unsafe(no_mangle)]
pub extern "C" fn __libc_malloc(size: usize) -> *mut u8 {
    Heap::process().allocate_or(size, set_no_memory)
}

/// [`free`], as [`__libc_malloc`].
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_free(block: *mut u8) {
    // SAFETY: the caller's premise.
    unsafe { Heap::process().free(block) };
}

/// [`cfree`], as [`__libc_malloc`].
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_cfree(block: *mut u8) {
    // SAFETY: the caller's premise.
    unsafe { Heap::process().free(block) };
}

/// [`calloc`], as [`__libc_malloc`].
#[unsafe(no_mangle)]
pub extern "C" fn __libc_calloc(count: usize, size: usize) -> *mut u8 {
    zeroed(count, size)
}

/// [`realloc`], as [`__libc_malloc`].
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_realloc(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's premise.
    unsafe { resize(block, size) }
}

/// [`reallocarray`], as [`__libc_malloc`].
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_reallocarray(block: *mut u8, count: usize, size: usize) -> *mut u8 {
    // SAFETY: the caller's premise.
    unsafe { resize_array(block, count, size) }
}
