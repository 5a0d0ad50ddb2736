//! The bytes of frames and of scratch pages.
#![allow(
    unsafe_code,
    reason = "bytes of frames, which belong to the thread that holds their page busy"
)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_os::{Advice, Errno, address_space};

use super::{Budget, Manager, Patience};
use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::page::{Locked, PAGE_SIZE, Page, PageIndex, PageRange};

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Calls `read` with the bytes of the frame of `page`, which `locked` holds busy in a state that has a frame.
    pub(crate) fn with_frame<T>(
        &self,
        page: PageIndex,
        locked: &Locked<'_>,
        read: impl FnOnce(&Page) -> T,
    ) -> T {
        debug_assert!(locked.before().state().has_frame());
        // SAFETY: the frame of a page in such a state is present, and whoever holds the page busy alone uses it.
        read(unsafe { self.driver.address(Area::Shadow, page).as_ref() })
    }

    /// Calls `write` with the bytes of the frame of `page`, a standby page that `locked` holds busy, to be overwritten.
    pub(crate) fn with_frame_mut<T>(
        &self,
        page: PageIndex,
        locked: &Locked<'_>,
        write: impl FnOnce(&mut Page) -> T,
    ) -> T {
        debug_assert!(locked.before().state().has_frame());
        // SAFETY: as in `with_frame`; a standby page has a saved copy, so its frame may change.
        write(unsafe { self.driver.address(Area::Shadow, page).as_mut() })
    }

    /// As [`Manager::with_frame_mut`], with the frames of adjacent pages: those of `pages`, which `locked` holds busy.
    pub(crate) fn with_frames_mut<T>(
        &self,
        pages: PageRange,
        locked: &[Option<Locked<'_>>],
        write: impl FnOnce(&mut [Page]) -> T,
    ) -> T {
        let is_busy = |slot: &Option<Locked<'_>>| {
            slot.as_ref()
                .is_some_and(|locked| locked.before().state().has_frame())
        };
        let held = locked.iter().take_while(|slot| is_busy(slot)).count();
        let count = held.min(pages.count as usize);
        let first = self.driver.address(Area::Shadow, pages.first);
        // SAFETY: as above, for each of them; frames of adjacent pages are adjacent.
        write(unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), count) })
    }
}

/// Up to 64 buffers for faulting threads to restore into before the bytes are copied to the arena: of one page, or of a run of
/// pages.
///
/// Invariant: a buffer whose bit is set in `taken` is used by the thread that set it alone.
#[derive(Debug)]
pub(crate) struct Scratch<const PAGES: usize, const SLOTS: usize> {
    buffers: NonNull<[Page; PAGES]>,
    taken: AtomicU64,
    /// Buffers that were ever taken: the resident ones.
    touched: AtomicU64,
}

// SAFETY: the buffers are memory that this value owns; the bits in `taken` give each to one thread at a time.
unsafe impl<const PAGES: usize, const SLOTS: usize> Send for Scratch<PAGES, SLOTS> {}
// SAFETY: as above.
unsafe impl<const PAGES: usize, const SLOTS: usize> Sync for Scratch<PAGES, SLOTS> {}

impl<const PAGES: usize, const SLOTS: usize> Scratch<PAGES, SLOTS> {
    const BYTES: usize = SLOTS * PAGES * PAGE_SIZE;

    /// Maps the buffers; none is resident.
    pub(crate) fn new() -> Result<Scratch<PAGES, SLOTS>, Errno> {
        let start = address_space::map(Self::BYTES)?;
        // A huge page would make more resident than is counted. A kernel without them refuses.
        let _ = address_space::advise(start, Self::BYTES, Advice::NoHugePage);
        Ok(Scratch {
            buffers: NonNull::new(start as *mut [Page; PAGES]).ok_or(Errno::NOMEM)?,
            taken: AtomicU64::new(0),
            touched: AtomicU64::new(0),
        })
    }

    /// Calls `work` with a buffer that no other thread uses.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut [Page; PAGES]) -> T) -> T {
        let mut patience = Patience::default();
        let slot = loop {
            match self.take() {
                Some(slot) => break slot,
                None => patience.wait(),
            }
        };
        self.touched.fetch_max(slot + 1, Ordering::Relaxed);
        self.lend(slot, work)
    }

    /// As [`Scratch::with`], if a buffer is free, and is resident or fits into `budget` beside `overhead` bytes.
    pub(crate) fn with_room<T>(
        &self,
        budget: &Budget,
        overhead: u64,
        work: impl FnOnce(&mut [Page; PAGES]) -> T,
    ) -> Option<T> {
        let slot = self.take()?;
        if slot >= self.touched.load(Ordering::Relaxed) {
            if !budget.charge(PAGES as u64, overhead) {
                self.return_slot(slot);
                return None;
            }
            // From frames to metadata.
            self.touched.fetch_max(slot + 1, Ordering::Relaxed);
            budget.uncharge(PAGES as u64);
        }
        Some(self.lend(slot, work))
    }

    /// The number of a free buffer, which is this thread's from now on.
    fn take(&self) -> Option<u64> {
        loop {
            let taken = self.taken.load(Ordering::Relaxed);
            let slot = (!taken).trailing_zeros();
            if slot >= SLOTS as u32 {
                return None;
            }
            let with = taken | 1 << slot;
            let exchanged =
                self.taken
                    .compare_exchange_weak(taken, with, Ordering::Acquire, Ordering::Relaxed);
            if exchanged.is_ok() {
                return Some(slot.into());
            }
        }
    }

    fn lend<T>(&self, slot: u64, work: impl FnOnce(&mut [Page; PAGES]) -> T) -> T {
        // SAFETY: the slot is below the number of buffers, and its bit makes it this thread's. Any bytes are pages.
        let result = work(unsafe { self.buffers.add(slot as usize).as_mut() });
        self.return_slot(slot);
        result
    }

    fn return_slot(&self, slot: u64) {
        self.taken.fetch_and(!(1 << slot), Ordering::Release);
    }

    /// Bytes that are resident.
    pub(crate) fn bytes(&self) -> u64 {
        self.touched.load(Ordering::Relaxed) * (PAGES * PAGE_SIZE) as u64
    }
}

impl<const PAGES: usize, const SLOTS: usize> Drop for Scratch<PAGES, SLOTS> {
    fn drop(&mut self) {
        let start = self.buffers.as_ptr() as usize;
        // SAFETY: the mapping is this value's, and nobody uses it any more.
        let _ = unsafe { address_space::unmap(start, Self::BYTES) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Each of 64 threads that followed a stream at the same time once left a buffer of 128 KiB behind.
    #[test]
    fn threads_that_find_no_buffer_with_room_add_none() {
        let scratch = Scratch::<32, 2>::new().expect("addresses");
        let budget = Budget::new(16 << 20);
        let innermost = scratch.with_room(&budget, 0, |_| {
            scratch.with_room(&budget, 0, |_| scratch.with_room(&budget, 0, |_| ()))
        });
        assert_eq!(innermost, Some(Some(None)));
        assert_eq!(scratch.bytes(), 2 * 32 * PAGE_SIZE as u64);
        // Both are free again.
        assert_eq!(scratch.with_room(&budget, 0, |_| ()), Some(()));
    }
}
