//! Why heaps cannot be made, and front ends not be set.

use core::fmt;

/// Why a heap could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeapError {
    /// No address space or memory is left.
    OutOfMemory,
    /// As many heaps as there may be exist already.
    TooManyHeaps,
    /// The heap was to be hardened, and beside that checked at each call (`debug`) or used without locks
    /// ([`Heap::new_no_serialize`](super::Heap::new_no_serialize)).
    Contradiction,
}

/// Why a front end could not be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrontEndError {
    /// The heap was made for one thread alone ([`Heap::new_no_serialize`](super::Heap::new_no_serialize)).
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
