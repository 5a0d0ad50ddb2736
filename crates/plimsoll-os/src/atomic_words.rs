//! Atomic words in memory of their own.
#![allow(unsafe_code)]

use core::ops::Deref;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicU64;

use crate::{Advice, Errno, address_space};

/// Atomic words, zero at first. None is resident before it is written, and the overcommit policy charges a page when it
/// is written.
///
/// Invariant: `start..start + count` words are mapped readable and writable and belong to this value alone.
#[derive(Debug)]
pub struct AtomicWords {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: atomic words in plain memory that this value owns alone, like `Box<[AtomicU64]>`.
unsafe impl Send for AtomicWords {}
// SAFETY: as above.
unsafe impl Sync for AtomicWords {}

impl AtomicWords {
    /// Maps `count` words.
    ///
    /// # Errors
    /// [`Errno::INVAL`] for no words, [`Errno::NOMEM`] where the address space has no room.
    pub fn new(count: usize) -> Result<AtomicWords, Errno> {
        let length = count.checked_mul(size_of::<AtomicU64>()).ok_or(Errno::NOMEM)?;
        if isize::try_from(length).is_err() {
            return Err(Errno::NOMEM);
        }
        let address = address_space::map(length)?;
        // One word of a huge page would make all of it resident. A kernel without huge pages refuses.
        let _ = address_space::advise(address, length, Advice::NoHugePage);
        let start = NonNull::new(address as *mut AtomicU64).ok_or(Errno::NOMEM)?;
        Ok(AtomicWords { start, count })
    }
}

impl Deref for AtomicWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: by the invariant the range is mapped, and it begins at a page; zero is a value of an atomic word; a
        // word changes by atomic operations alone; the borrow keeps it mapped.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for AtomicWords {
    fn drop(&mut self) {
        // SAFETY: the range is ours, whole pages to the kernel, and no reference to it outlives `self`.
        let _ = unsafe {
            address_space::unmap(self.start.as_ptr() as usize, self.count * size_of::<AtomicU64>())
        };
    }
}
