//! Heaps as objects for C: `include/plimsoll_heap.h` documents each function.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};
use core::fmt::Write;
use core::ptr;

use plimsoll_c_malloc::StandardError;
use plimsoll_c_malloc::errno::{EAGAIN, EBUSY, EINVAL, ENOMEM, ENOTSUP, or_no_memory, set};
use plimsoll_c_malloc::information::Holdings;
use plimsoll_lfh::{FrontEnd, FrontEndError, Heap, HeapError, HeapOptions};

/// `PLIMSOLL_HEAP_NO_SERIALIZE`
const NO_SERIALIZE: c_uint = 1;
/// `PLIMSOLL_HEAP_DEBUG`
const DEBUG: c_uint = 2;
/// `PLIMSOLL_HEAP_HARDENED`
const HARDENED: c_uint = 4;

/// `PLIMSOLL_HEAP_STANDARD`
const STANDARD: c_int = FrontEnd::Standard as c_int;
/// `PLIMSOLL_HEAP_LOW_FRAGMENTATION`
const LOW_FRAGMENTATION: c_int = FrontEnd::LowFragmentation as c_int;

/// A new heap. Its handle is a block of the process's heap.
#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_heap_create(options: c_uint) -> *mut Heap {
    if options & !(NO_SERIALIZE | DEBUG | HARDENED) != 0 {
        set(EINVAL);
        return ptr::null_mut();
    }
    let handle = or_no_memory(Heap::process().allocate(size_of::<Heap>())).cast::<Heap>();
    if handle.is_null() {
        return handle;
    }
    let choices = HeapOptions {
        debug: options & DEBUG != 0,
        hardened: options & HARDENED != 0,
    };
    let made = match options & NO_SERIALIZE {
        0 => Heap::new(choices),
        // SAFETY: the caller guarantees that one thread at a time uses the heap, as the header demands.
        _ => unsafe { Heap::new_no_serialize(choices) },
    };
    match made {
        Ok(heap) => {
            // SAFETY: the block was allocated above for this one value, and blocks are aligned to 16.
            unsafe { handle.write(heap) };
            handle
        }
        Err(error) => {
            // SAFETY: the block was allocated above, and no other thread knows it.
            unsafe { Heap::process().free(handle.cast()) };
            set(match error {
                HeapError::TooManyHeaps => EAGAIN,
                HeapError::Contradiction => EINVAL,
                _ => ENOMEM,
            });
            ptr::null_mut()
        }
    }
}

/// The end of a heap and of all its blocks.
///
/// # Safety
/// `heap` is null, the process's, or was returned by [`plimsoll_heap_create`]; neither it nor its blocks are used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_destroy(heap: *mut Heap) -> c_int {
    if heap.is_null() {
        return 0;
    }
    // By number: the address of a constant need not be the same everywhere.
    // SAFETY: the caller's premise.
    if unsafe { &*heap }.number() == Heap::process().number() {
        return EINVAL;
    }
    // SAFETY: the caller's premise: the handle holds a heap, which ends here, as does the block of the handle.
    unsafe {
        heap.drop_in_place();
        Heap::process().free(heap.cast());
    }
    0
}

/// The heap of `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_heap_process() -> *const Heap {
    Heap::process()
}

/// A block.
///
/// # Safety
/// `heap` is a heap that was not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_alloc(heap: *const Heap, size: usize) -> *mut u8 {
    // SAFETY: the caller's premise.
    or_no_memory(unsafe { &*heap }.allocate(size))
}

/// A block of zeros.
///
/// # Safety
/// As for [`plimsoll_heap_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_calloc(heap: *const Heap, count: usize, size: usize) -> *mut u8 {
    // SAFETY: the caller's premise.
    let heap = unsafe { &*heap };
    let block = count.checked_mul(size).map(|bytes| heap.allocate_zeroed(bytes));
    or_no_memory(block.unwrap_or(ptr::null_mut()))
}

/// A block at a multiple of `align`.
///
/// # Safety
/// As for [`plimsoll_heap_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_aligned_alloc(
    heap: *const Heap,
    align: usize,
    size: usize,
) -> *mut u8 {
    if !align.is_power_of_two() {
        set(EINVAL);
        return ptr::null_mut();
    }
    // SAFETY: the caller's premise.
    or_no_memory(unsafe { &*heap }.allocate_aligned(align, size))
}

/// A block of another size.
///
/// # Safety
/// As for [`plimsoll_heap_alloc`]; `block` is null or a block of that heap in use, and is not used again unless null is
/// returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_realloc(heap: *const Heap, block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's premise.
    or_no_memory(unsafe { (*heap).reallocate(block, size) })
}

/// The end of a block.
///
/// # Safety
/// As for [`plimsoll_heap_alloc`]; `block` is null or a block of that heap in use, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_free(heap: *const Heap, block: *mut u8) {
    // SAFETY: the caller's premise.
    unsafe { (*heap).free(block) };
}

/// Bytes of a block.
///
/// # Safety
/// As for [`plimsoll_heap_alloc`]; `block` is null or a block of that heap in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_usable_size(heap: *const Heap, block: *const u8) -> usize {
    // SAFETY: the caller's premise.
    unsafe { (*heap).usable_size(block) }
}

/// Sets the front end.
///
/// # Safety
/// As for [`plimsoll_heap_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_set_front_end(heap: *const Heap, code: c_int) -> c_int {
    let front_end = match code {
        STANDARD => FrontEnd::Standard,
        LOW_FRAGMENTATION => FrontEnd::LowFragmentation,
        _ => return EINVAL,
    };
    // SAFETY: the caller's premise.
    match unsafe { &*heap }.set_front_end(front_end) {
        Ok(()) => 0,
        Err(FrontEndError::InUse) => EBUSY,
        Err(FrontEndError::OutOfMemory) => ENOMEM,
        Err(_) => ENOTSUP,
    }
}

/// The code of the front end.
///
/// # Safety
/// As for [`plimsoll_heap_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_front_end(heap: *const Heap) -> c_int {
    // SAFETY: the caller's premise.
    unsafe { &*heap }.front_end() as c_int
}

/// Returns free memory to the kernel.
///
/// # Safety
/// As for [`plimsoll_heap_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_trim(heap: *const Heap) {
    // SAFETY: the caller's premise.
    unsafe { &*heap }.trim();
}

/// The contents of the heap.
///
/// # Safety
/// As for [`plimsoll_heap_alloc`]; `holdings` is valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn plimsoll_heap_count(heap: *const Heap, holdings: *mut Holdings) {
    // SAFETY: the caller's premise.
    unsafe { holdings.write(Holdings::of(&*heap)) };
}

/// Walks over all heaps of the process. Returns how many damages there are, having written each to standard error; at
/// least 1 if the walk could not go on to its end for damage. A walk that was cut short, as too much changed, says so.
#[unsafe(no_mangle)]
pub extern "C" fn plimsoll_heap_validate() -> usize {
    let mut told = 0;
    let mut tell = |damage| {
        told += 1;
        // If standard error takes no bytes, no other place for the text remains.
        let _ = writeln!(StandardError, "plimsoll: the heap is damaged: {damage}");
    };
    let found = match Heap::validate_all(&mut tell) {
        Ok(None) => return 0,
        Ok(Some(found)) => found,
        Err(error) => {
            // As above.
            let _ = writeln!(
                StandardError,
                "plimsoll: the heap is damaged: the walk over it ended early: {error}"
            );
            return told + 1;
        }
    };
    if found.stopped {
        // As above.
        let _ = writeln!(
            StandardError,
            "plimsoll: the walk over the heap ended after {} damages: there may be more",
            found.damaged
        );
    }
    if found.cut_short {
        // As above.
        let _ = writeln!(
            StandardError,
            "plimsoll: the walk over the heap ended after {} of {} units: too much changed whenever it was read",
            found.units, found.all_units
        );
    }
    found.damaged as usize
}
