//! Heaps as objects, and the process's own.
#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_os::address_space;

/// Who serves blocks of up to [`LARGEST_BLOCK`](crate::LARGEST_BLOCK) bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrontEnd {
    /// One lock over coalescing blocks.
    Standard = 0,
    /// Buckets and affinity slots.
    LowFragmentation = 2,
}

/// How a heap is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeapOptions {
    /// One thread alone uses the heap, so its calls take no lock. It cannot have the low-fragmentation front end.
    pub no_serialize: bool,
    /// Every call checks the whole heap. It cannot have the low-fragmentation front end.
    pub debug: bool,
    /// The hardened profile: a byte a block out of line, guard pages, quarantine, zero on free.
    pub hardened: bool,
}

/// Why a heap could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapError {
    /// No address space or memory is left.
    OutOfMemory,
    /// As many heaps as there may be exist already.
    TooManyHeaps,
}

/// Why a front end could not be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontEndError {
    /// The heap was made for one thread alone (`no_serialize`).
    NoSerialize,
    /// The heap was made to check itself (`debug`).
    Debug,
    /// The low-fragmentation front end stays until the heap is destroyed.
    InUse,
}

impl fmt::Display for HeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeapError::OutOfMemory => "a heap could not be made: no memory is left for it",
            HeapError::TooManyHeaps => {
                "a heap could not be made: destroy one first, there are as many as may be"
            }
        })
    }
}

impl core::error::Error for HeapError {}

impl fmt::Display for FrontEndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrontEndError::NoSerialize => {
                "the front end stays Standard: the heap was made for one thread alone (no_serialize)"
            }
            FrontEndError::Debug => "the front end stays Standard: the heap was made to check itself (debug)",
            FrontEndError::InUse => {
                "the front end stays LowFragmentation: it ends only when the heap is destroyed"
            }
        })
    }
}

impl core::error::Error for FrontEndError {}

/// A heap.
#[derive(Debug)]
pub struct Heap(());

static PROCESS: Heap = Heap(());
static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Heap {
    /// The heap of the process: that of [`Lfh`] and of the C symbols. It needs no start: the first call makes it.
    pub fn process() -> &'static Heap {
        &PROCESS
    }

    /// A block of at least `size` bytes, aligned to 16; null where no memory is left. 0 bytes are a block too.
    pub fn allocate(&self, size: usize) -> *mut u8 {
        self.allocate_aligned(16, size)
    }

    /// A block of at least `size` bytes that are zero.
    pub fn allocate_zeroed(&self, size: usize) -> *mut u8 {
        self.allocate(size)
    }

    /// A block of at least `size` bytes at a multiple of `align`, a power of two.
    pub fn allocate_aligned(&self, align: usize, size: usize) -> *mut u8 {
        let align = align.max(16);
        let Some(bytes) = size.checked_add(align + 16).filter(|bytes| *bytes < 1 << 40) else {
            return ptr::null_mut();
        };
        if NEXT.load(Ordering::Acquire) == 0 {
            let start = address_space::map(64 << 30).unwrap_or(0);
            let _ = NEXT.compare_exchange(0, start, Ordering::AcqRel, Ordering::Acquire);
        }
        let start = NEXT.fetch_add(bytes.next_multiple_of(16), Ordering::Relaxed);
        let block = (start + 16).next_multiple_of(align) as *mut u8;
        // SAFETY: the range was just taken from the mapping for this block alone.
        unsafe { block.cast::<usize>().sub(1).write(size) };
        block
    }

    /// Makes a block `size` bytes long; it may move. Null where no memory is left: the block stays as it was.
    ///
    /// # Safety
    /// `block` is null or a block of this heap in use; it is not used again unless null is returned.
    pub unsafe fn reallocate(&self, block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() {
            return self.allocate(size);
        }
        let new = self.allocate(size);
        if !new.is_null() {
            // SAFETY: both blocks are in use and have at least that many bytes.
            unsafe { ptr::copy_nonoverlapping(block, new, size.min(self.usable_size(block))) };
        }
        new
    }

    /// Gives a block back. Null is allowed.
    ///
    /// # Safety
    /// `block` is null or a block of this heap in use; it is not used again.
    pub unsafe fn free(&self, _block: *mut u8) {}

    /// Bytes that the block has, at least what was asked for. 0 for null.
    ///
    /// # Safety
    /// `block` is null or a block of this heap in use.
    pub unsafe fn usable_size(&self, block: *const u8) -> usize {
        if block.is_null() {
            return 0;
        }
        // SAFETY: a block has its size in front of it.
        unsafe { block.cast::<usize>().sub(1).read() }
    }
}

/// The heap of the process as Rust's allocator: `#[global_allocator] static A: Lfh = Lfh;`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lfh;

// SAFETY: blocks of the process's heap are of the size and alignment asked for and belong to their caller.
unsafe impl GlobalAlloc for Lfh {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match layout.align() {
            ..=16 => Heap::process().allocate(layout.size()),
            align => Heap::process().allocate_aligned(align, layout.size()),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller's premise: the block is of this allocator and in use.
        unsafe { Heap::process().free(block) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match layout.align() {
            ..=16 => Heap::process().allocate_zeroed(layout.size()),
            align => {
                let block = Heap::process().allocate_aligned(align, layout.size());
                if !block.is_null() {
                    // SAFETY: the block has at least that many bytes.
                    unsafe { ptr::write_bytes(block, 0, layout.size()) };
                }
                block
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= 16 {
            // SAFETY: the caller's premise.
            return unsafe { Heap::process().reallocate(block, new_size) };
        }
        let new = Heap::process().allocate_aligned(layout.align(), new_size);
        if !new.is_null() {
            // SAFETY: both blocks are in use and have at least that many bytes; the old one is not used again.
            unsafe {
                ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                Heap::process().free(block);
            }
        }
        new
    }
}
