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

/// The error of [`Heap::new`](crate::Heap::new).
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

/// The error of [`Heap::set_front_end`](crate::Heap::set_front_end).
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
            HeapError::OutOfMemory => "cannot make a heap: no memory is left; free some, or raise the limit (ulimit -v)",
            HeapError::TooManyHeaps => {
                "cannot make a heap: the maximum number of heaps exists; destroy one first"
            }
            HeapError::Contradiction => {
                "cannot make a heap: a hardened heap has the low-fragmentation front end, which a heap with `debug` or \
                 `no_serialize` cannot have; drop one of the options"
            }
        })
    }
}

impl core::error::Error for HeapError {}

impl fmt::Display for FrontEndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FrontEndError::NoSerialize => {
                "cannot set the front end: a heap for one thread (no_serialize) has Standard alone; make another heap"
            }
            FrontEndError::Debug => "cannot set the front end: a heap that checks itself (debug) has Standard alone; make another heap",
            FrontEndError::InUse => {
                "cannot set the front end: LowFragmentation stays until the heap is destroyed; make another heap"
            }
            FrontEndError::OutOfMemory => "cannot set the front end: no memory is left; free some, or raise the limit (ulimit -v)",
        })
    }
}

impl core::error::Error for FrontEndError {}
