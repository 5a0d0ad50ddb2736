//! The bytes of frames and of scratch pages.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_os::{Errno, address_space};

use super::{Manager, Patience};
use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::page::{Locked, PAGE_SIZE, Page, PageIndex};

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
}

/// Scratch pages at the same time, one a faulting thread.
const SCRATCH_PAGES: usize = 64;

/// Pages for faulting threads to restore into before they are copied to the arena.
///
/// Invariant: a page whose bit is set in `taken` is used by the thread that set it alone.
#[derive(Debug)]
pub(crate) struct Scratch {
    pages: NonNull<Page>,
    taken: AtomicU64,
    /// Pages that were ever taken: the resident ones.
    touched: AtomicU64,
}

// SAFETY: the pages are memory that this value owns; the bits in `taken` give each to one thread at a time.
unsafe impl Send for Scratch {}
// SAFETY: as above.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Maps the pages; none is resident.
    pub(crate) fn new() -> Result<Scratch, Errno> {
        let start = address_space::map(SCRATCH_PAGES * PAGE_SIZE)?;
        Ok(Scratch {
            pages: NonNull::new(start as *mut Page).ok_or(Errno::NOMEM)?,
            taken: AtomicU64::new(0),
            touched: AtomicU64::new(0),
        })
    }

    /// Calls `work` with a page that no other thread uses.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Page) -> T) -> T {
        let mut patience = Patience::default();
        let slot = loop {
            let taken = self.taken.load(Ordering::Relaxed);
            let slot = (!taken).trailing_zeros();
            if slot < SCRATCH_PAGES as u32 {
                let with = taken | 1 << slot;
                let exchanged =
                    self.taken
                        .compare_exchange_weak(taken, with, Ordering::Acquire, Ordering::Relaxed);
                if exchanged.is_ok() {
                    break slot;
                }
            } else {
                patience.wait();
            }
        };
        self.touched.fetch_max(u64::from(slot) + 1, Ordering::Relaxed);
        // SAFETY: the slot is below the number of pages, and its bit makes it this thread's.
        let result = work(unsafe { self.pages.add(slot as usize).as_mut() });
        self.taken.fetch_and(!(1 << slot), Ordering::Release);
        result
    }

    /// Bytes that are resident.
    pub(crate) fn bytes(&self) -> u64 {
        self.touched.load(Ordering::Relaxed) * PAGE_SIZE as u64
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let start = self.pages.as_ptr() as usize;
        // SAFETY: the mapping is this value's, and nobody uses it any more.
        let _ = unsafe { address_space::unmap(start, SCRATCH_PAGES * PAGE_SIZE) };
    }
}
