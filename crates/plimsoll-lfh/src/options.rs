//! The options of a heap, and the errors of making one and of setting its front end.

use core::fmt;

/// The front end that serves blocks of up to [`LARGEST_BLOCK`](crate::LARGEST_BLOCK) bytes.
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
    /// Every call checks the whole heap. It cannot have the low-fragmentation front end.
    pub debug: bool,
    /// The hardened profile: a byte a block out of line, guard pages, quarantine, zero on free. It is one of the
    /// low-fragmentation front end.
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
    /// The heap was to be hardened, and beside that checked at each call (`debug`) or used without locks
    /// ([`Heap::new_no_serialize`](crate::Heap::new_no_serialize)).
    Contradiction,
}

/// Why a front end could not be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontEndError {
    /// The heap was made for one thread alone ([`Heap::new_no_serialize`](crate::Heap::new_no_serialize)).
    NoSerialize,
    /// The heap was made to check itself (`debug`).
    Debug,
    /// The low-fragmentation front end stays until the heap is destroyed.
    InUse,
    /// No memory is left for it.
    OutOfMemory,
}

impl fmt::Display for HeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HeapError::OutOfMemory => "a heap could not be made: no memory is left for it",
            HeapError::TooManyHeaps => {
                "a heap could not be made: destroy one first, there are as many as may be"
            }
            HeapError::Contradiction => {
                "a heap could not be made: a hardened one has the low-fragmentation front end, which one that checks \
                 itself (debug) or takes no lock (no_serialize) cannot have; leave one of the two out"
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
            FrontEndError::OutOfMemory => "the front end could not be set: no memory is left for it",
        })
    }
}

impl core::error::Error for FrontEndError {}
