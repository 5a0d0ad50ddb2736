//! The one mapping that all memory of a store is in: reserved whole, resident where it was used.
#![allow(unsafe_code, reason = "the mapping of a compressed store, and its parts")]

use core::ptr::NonNull;

use plimsoll_os::{Advice, Errno, address_space};

use super::units::PAGE;

/// The mapping, zero at first.
///
/// Invariant: `start..start + length` is mapped readable and writable, and belongs to this value and its parts.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    length: usize,
    /// Bytes that parts have.
    given: usize,
}

// SAFETY: it is plain memory of the process; the owners of its parts keep Rust's rules for them.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// Whole pages of a [`Memory`], which belong to the owner of this value.
#[derive(Debug)]
pub(super) struct Part {
    /// The start of the memory.
    memory: usize,
    offset: usize,
    length: usize,
}

impl Memory {
    /// Maps `length` bytes, rounded up to pages. None is resident, nor committed, before it is used.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] where the address space, RLIMIT_AS or the overcommit policy has no room.
    pub(super) fn map(length: usize) -> Result<Memory, Errno> {
        let length = length.checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        let start = address_space::map(length)?;
        // Huge pages would make more resident than was used. A kernel without them refuses the advice: fine as well.
        let _ = address_space::advise(start, length, Advice::NoHugePage);
        let start = NonNull::new(start as *mut u8).ok_or(Errno::NOMEM)?;
        Ok(Memory {
            start,
            length,
            given: 0,
        })
    }

    /// The next `length` bytes, rounded up to pages; none if there are not so many.
    pub(super) fn take(&mut self, length: usize) -> Option<Part> {
        let length = length.next_multiple_of(PAGE);
        let offset = self.given;
        self.given = offset.checked_add(length).filter(|end| *end <= self.length)?;
        Some(Part {
            memory: self.start.as_ptr() as usize,
            offset,
            length,
        })
    }

    /// The address of `count` values of type `T`, `offset` bytes into a part. They must lie in the part and be aligned.
    pub(super) fn at<T>(&self, part: &Part, offset: usize, count: usize) -> NonNull<T> {
        let is_inside =
            part.memory == self.start.as_ptr() as usize && offset + count * size_of::<T>() <= part.length;
        assert!(
            is_inside && offset.is_multiple_of(align_of::<T>()) && align_of::<T>() <= PAGE,
            "a value lies in its part"
        );
        // SAFETY: a part is inside of the mapping.
        unsafe { self.start.add(part.offset + offset).cast() }
    }

    /// Returns pages of a part to the kernel; they read as zero afterwards. Returns whether it did: not if they are locked.
    ///
    /// # Safety
    /// No code relies on their contents, or reads or writes them at the same time but by atomic words.
    pub(super) unsafe fn discard(&self, part: &Part, offset: usize, length: usize) -> bool {
        let start = self.at::<u8>(part, offset, length).as_ptr() as usize;
        // SAFETY: the range is in the part, and the caller's premise.
        unsafe { address_space::discard(start, length) }.is_ok()
    }

    /// The address of the mapping, and its length.
    #[cfg(all(test, not(loom)))]
    pub(super) fn range(&self) -> (usize, usize) {
        (self.start.as_ptr() as usize, self.length)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and the borrows of its parts have ended with it.
        let _ = unsafe { address_space::unmap(self.start.as_ptr() as usize, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::units::Page;

    #[test]
    fn parts_do_not_overlap() {
        let mut memory = Memory::map(3 * PAGE).expect("there is address space");
        let first = memory.take(1).expect("3 pages are left");
        let second = memory.take(2 * PAGE).expect("2 pages are left");
        assert!(memory.take(1).is_none());
        let addresses = [
            memory.at::<Page>(&first, 0, 1).as_ptr() as usize,
            memory.at::<Page>(&second, 0, 2).as_ptr() as usize,
        ];
        assert_eq!(addresses[1] - addresses[0], PAGE);
    }

    #[test]
    #[should_panic(expected = "a value lies in its part")]
    fn a_part_of_another_memory_is_refused() {
        let mut memory = Memory::map(PAGE).expect("there is address space");
        let part = memory.take(PAGE).expect("it is whole");
        let other = Memory::map(PAGE).expect("there is address space");
        other.at::<u8>(&part, 0, 1);
    }
}
