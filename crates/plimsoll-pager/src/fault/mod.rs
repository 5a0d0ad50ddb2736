//! Faults: from any state to active, on the faulting thread or on that of the pager.
//!
//! # Rules of the signal handler
//! - Nothing allocates or takes a lock of the C library; `errno` is as before; all other signals are masked.
//! - The stack that a fault needs is bounded (64 KiB is enough). It is the faulting thread's own, not the alternate one.
//! - A fault waits for a busy page only while it holds no page busy itself; while it does, it only tries locks.
//! - A SIGBUS at an address of no pager, or of a surrendered page, goes to the handler that was installed before.

mod frame;
mod last_words;
mod signal;
mod stream;
mod thread;

use std::time::Instant;

use plimsoll_os::Errno;

use crate::backing::{Backing, Damaged};
use crate::driver::{Area, Driver};
use crate::manager::{Event, Manager, Patience, TrimMode};
use crate::page::{CHUNK_PAGES, ChunkMode, Locked, PageIndex, PageRange, PageState, ZERO_PAGE};

pub(crate) use last_words::Facts;
#[cfg(all(test, not(loom)))]
pub(crate) use last_words::last_line;
pub(crate) use signal::{Faults, Registration, TooManyPagers, forget_other_handlers};
pub(crate) use thread::{FaultThread, ThreadFaults};

/// The reason why a page cannot be made present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultError {
    /// Its saved copy is damaged.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The kernel has no memory for it, though the pager released all that it could.
    #[error("cannot restore a page: the kernel is out of memory; raise the memory limit of the cgroup")]
    NoMemory,
    /// The kernel refuses for another reason.
    #[error("cannot restore a page: {0}")]
    Refused(Errno),
}

/// Tries of a call that the kernel had no memory for; they take a second together.
const MOST_TRIES: u32 = 2000;

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Makes `page` present for the program, and returns when it is. It may be trimmed again at once, unless it is pinned. A
    /// page that is native now, or in no region, stays as it is.
    pub(crate) fn fault(&self, page: PageIndex) -> Result<(), FaultError> {
        let word = self.table.word(page);
        let mut patience = Patience::default();
        loop {
            let seen = word.load();
            if seen.state() == PageState::Surrendered {
                return Err(FaultError::Refused(Errno::FAULT));
            }
            let Some(locked) = word.try_lock(seen) else {
                patience.wait();
                continue;
            };
            if seen.state() == PageState::Virgin {
                let number = page.number() / CHUNK_PAGES;
                match self.chunks.with_record(number).mode() {
                    ChunkMode::Converting | ChunkMode::Managed => {}
                    ChunkMode::Changing => {
                        drop(locked);
                        patience.wait();
                        continue;
                    }
                    // Another thread has just taken the record from a chunk of a sparse region: the next look makes one.
                    ChunkMode::Unused if self.chunks.is_sparse(number) => continue,
                    // The region was closed after the fault. The thread touches the page again if it still waits.
                    ChunkMode::Unused => {
                        self.driver.wake(page);
                        return Ok(());
                    }
                    // Since the fault: the kernel resolves it when the thread tries again. The end of a registration wakes
                    // threads, but not one that faults at the same moment.
                    ChunkMode::Native => {
                        self.driver.wake(page);
                        return Ok(());
                    }
                }
            }
            let stalled_since = seen.state().is_evicted().then(Instant::now);
            match seen.state() {
                PageState::Virgin => self.zero_fault(page, locked),
                PageState::Active => self.spurious_fault(page, locked),
                PageState::Modified | PageState::Standby => self.soft_fault(page, locked),
                // A busy page cannot be locked, and a surrendered one is none of the pager's.
                PageState::Compressed | PageState::PageFile | PageState::Busy | PageState::Surrendered => {
                    self.hard_fault(page, locked)
                }
            }?;
            // In the per-fault mode no page comes without a fault of its own.
            if seen.state() != PageState::Active && self.trim_mode() == TrimMode::BalanceSet {
                self.follow_stream(page);
            }
            self.hold_maximum(page);
            if let Some(since) = stalled_since {
                self.refaults.add_stall(since.elapsed());
            }
            return Ok(());
        }
    }

    fn zero_fault(&self, page: PageIndex, locked: Locked<'_>) -> Result<(), FaultError> {
        self.fill(page, None)?;
        self.counters.add(Event::ZeroFault, 1);
        self.activate(page, locked, Locked::fill_zero);
        Ok(())
    }

    /// Another thread has made the page present, or the program has dropped it (`MADV_DONTNEED`): then it is zero. A page
    /// that a trim left write-protected becomes writable.
    fn spurious_fault(&self, page: PageIndex, locked: Locked<'_>) -> Result<(), FaultError> {
        self.counters.add(Event::SpuriousFault, 1);
        let filled = self.copy_unless_present(page, &ZERO_PAGE);
        self.driver.unblock(page);
        locked.keep();
        self.end_if_present(page, filled)
    }

    /// The outcome of a copy to a page that another thread may have made present. Then the copy has woken no thread, and that of
    /// the fault may wait all the same: the kernel can take a page for absent while its entry changes.
    fn end_if_present(&self, page: PageIndex, copied: Result<bool, FaultError>) -> Result<(), FaultError> {
        if !copied? {
            self.driver.wake(page);
        }
        Ok(())
    }

    /// Moves the frame of a modified or standby page back.
    fn soft_fault(&self, page: PageIndex, locked: Locked<'_>) -> Result<(), FaultError> {
        let one = PageRange::new(page, 1);
        let mut moved = self.move_counted(Area::Shadow, one);
        for _ in 0..4 {
            if moved.stopped != Some(Errno::AGAIN) {
                break;
            }
            moved = self.move_counted(Area::Shadow, one);
        }
        if moved.done == 0 {
            let shared = self.shared_in(Area::Shadow, one);
            self.with_frame(page, &locked, |frame| self.copy_in(page, frame))?;
            self.counters.add(Event::CopiedFrame, 1);
            self.note_unshared(shared);
            // It fails for pages that are locked in RAM alone, and those of the shadow are not.
            let _ = self.driver.discard(Area::Shadow, one);
        }
        if let Some(place) = locked.place() {
            self.backing.free(page, place);
        }
        self.counters.add(Event::SoftFault, 1);
        self.activate(page, locked, Locked::soft_fault);
        Ok(())
    }

    /// Restores the saved copy of a compressed or page-file page.
    fn hard_fault(&self, page: PageIndex, locked: Locked<'_>) -> Result<(), FaultError> {
        let place = locked.place();
        // The copy comes into the caches while a frame is found.
        if let Some(place) = place {
            self.backing.expect(place);
        }
        self.fill(page, place)?;
        self.counters.add(Event::HardFault, 1);
        self.end_hard(page, locked);
        Ok(())
    }

    /// Counts the page as active, and unlocks it by the transition `end`.
    fn activate<'w>(&self, page: PageIndex, locked: Locked<'w>, end: impl FnOnce(Locked<'w>)) {
        let before = locked.before();
        self.count(page, before.state(), PageState::Active, before.priority());
        self.chunk(page).note_fault();
        end(locked);
    }
}
