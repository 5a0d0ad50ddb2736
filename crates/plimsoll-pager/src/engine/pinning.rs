//! Pages made active, and kept so by pins.

use plimsoll_os::{Errno, thread_token};

use super::Engine;
use crate::backing::Backing;
use crate::error::RangeError;
use crate::fault::FaultError;
use crate::manager::{Patience, Pin, Purpose};
use crate::page::{CHUNK_PAGES, ChunkMode, PAGE_SIZE, PageIndex, PageRange, PageState};

/// The first pages of a range, which were made active.
struct MadeActive {
    /// Their number.
    done: u32,
    /// The reason why the page behind them was not.
    error: Option<FaultError>,
}

impl<B: Backing + 'static> Engine<B> {
    /// Makes `pages` present.
    pub(crate) fn prefetch(&self, pages: PageRange) -> Result<(), FaultError> {
        let manager = self.manager();
        for piece in pages.pieces(CHUNK_PAGES) {
            let number = piece.first.number() / CHUNK_PAGES;
            if manager.chunks.awaits_commit(number) && !self.is_forked() {
                let _work = self.work();
                manager.commit_touched(piece.first);
            }
            if manager.chunks.mode(number) != ChunkMode::Managed {
                manager.touch(piece);
                continue;
            }
            let _work = self.work();
            for page in piece.pages() {
                self.make_active(page)?;
            }
        }
        Ok(())
    }

    /// Makes a page of a managed chunk active, unless it is surrendered.
    fn make_active(&self, page: PageIndex) -> Result<(), FaultError> {
        let manager = self.manager();
        let mut patience = Patience::default();
        loop {
            match manager.table.word(page).load().state() {
                PageState::Active | PageState::Surrendered => return Ok(()),
                PageState::Virgin => match manager.chunks.mode(page.number() / CHUNK_PAGES) {
                    // Another thread has committed the chunk.
                    ChunkMode::Native => return Ok(()),
                    // Another thread has closed the region.
                    ChunkMode::Unused => return Err(FaultError::Refused(Errno::NOENT)),
                    ChunkMode::Converting | ChunkMode::Managed | ChunkMode::Changing => {
                        manager.fault(page)?
                    }
                },
                PageState::Busy => patience.wait(),
                _ => manager.fault(page)?,
            }
        }
    }

    /// Makes `pages` present and keeps them so until [`Engine::unpin`].
    pub(crate) fn pin(&self, pages: PageRange) -> Result<Pin, RangeError> {
        let manager = self.manager();
        let pinned = (manager.pins.pages() + u64::from(pages.count)) * PAGE_SIZE as u64;
        if pinned > manager.budget.ram() / 2 {
            return Err(RangeError::PinTooLarge { bytes: pages.bytes() });
        }
        let work = self.work();
        let pin = manager
            .pins
            .publish(pages, Purpose::Guard)
            .ok_or(RangeError::TooManyPins)?;
        drop(work);
        match self.prefetch(pages) {
            Ok(()) => {
                for run in pages
                    .pieces(CHUNK_PAGES)
                    .flat_map(|piece| manager.own_runs(piece))
                {
                    // A page that the program dropped (`MADV_DONTNEED`) is active and absent.
                    manager.touch(run);
                }
                Ok(pin)
            }
            Err(error) => {
                manager.pins.remove(pin);
                Err(error.into())
            }
        }
    }

    /// Pins as many of `pages`, from the first one on, as half of the frames of the budget allow, and makes them present without
    /// touching them, for a system call of this thread. Returns their number, at least 1. May be called in a signal handler.
    pub(crate) fn pin_first(&self, pages: PageRange) -> Result<(Pin, u32), RangeError> {
        let manager = self.manager();
        // The store may have most of the budget: a fault that finds no frame takes long.
        let most = manager.budget.limit(manager.overhead_bytes()) / 2;
        let left = most.saturating_sub(manager.pins.pages());
        let wanted = PageRange::new(pages.first, left.min(pages.count.into()) as u32);
        if wanted.count == 0 {
            return Err(RangeError::PinTooLarge { bytes: pages.bytes() });
        }
        self.pin_active(wanted, Purpose::Call(thread_token()))
    }

    /// As [`Engine::pin_first`], of one page and whatever the budget has: the thread ends the pin before it waits for anything.
    pub(crate) fn pin_for_a_moment(&self, page: PageIndex) -> Result<Pin, RangeError> {
        // So often the page may leave between its fault and the pin.
        const MOST_TRIES: usize = 16;
        for _ in 0..MOST_TRIES {
            if let Some(pin) = self.pin_after_fault(page)? {
                return Ok(pin);
            }
        }
        let (pin, _) = self.pin_active(PageRange::new(page, 1), Purpose::Moment(thread_token()))?;
        Ok(pin)
    }

    /// Makes a page active and pins it then: a fault may take long, and the slots are few. None if the page has left in between.
    fn pin_after_fault(&self, page: PageIndex) -> Result<Option<Pin>, RangeError> {
        let pages = PageRange::new(page, 1);
        let pins = &self.manager().pins;
        let _work = self.work();
        if let Some(error) = self.make_first_active(pages).error {
            return Err(error.into());
        }
        let pin = pins.publish(pages, Purpose::Moment(thread_token()));
        let pin = pin.ok_or(RangeError::TooManyPins)?;
        if self.is_page_active(page) {
            return Ok(Some(pin));
        }
        pins.remove(pin);
        Ok(None)
    }

    /// As [`Engine::pin_first`], of all `pages` of a region, for the life of the process. Half of the frames of the budget may be pinned so, and
    /// three quarters in all: other pins, which end, leave room.
    pub(crate) fn pin_for_ever(&self, pages: PageRange, region: PageRange) -> Result<(), RangeError> {
        // Signal stacks of a few threads, and their words, are pinned while the store has most of the budget, too.
        const LEAST: u64 = 32;
        let manager = self.manager();
        if manager.pins.is_kept(pages) {
            return Ok(());
        }
        let too_large = RangeError::PinTooLarge { bytes: pages.bytes() };
        let most = manager.budget.limit(manager.overhead_bytes());
        let count = u64::from(pages.count);
        let kept = manager.pins.kept_pages() + count;
        let fits = kept <= most / 2 && manager.pins.pages() + count <= most / 4 * 3;
        if !fits && kept > LEAST {
            return Err(too_large);
        }
        let (pin, count) = self.pin_active(pages, Purpose::Process(thread_token()))?;
        if count < pages.count {
            manager.pins.remove(pin);
            return Err(too_large);
        }
        // A child of a fork has whole pins.
        let _work = self.work();
        manager.pins.keep(pin, region);
        Ok(())
    }

    /// Pins `pages` and makes them active, up to the first one that cannot be. Returns their number, at least 1.
    fn pin_active(&self, pages: PageRange, purpose: Purpose) -> Result<(Pin, u32), RangeError> {
        let manager = self.manager();
        let _work = self.work();
        let pin = manager
            .pins
            .publish(pages, purpose)
            .ok_or(RangeError::TooManyPins)?;
        let mut done = 0;
        for piece in pages.pieces(CHUNK_PAGES) {
            let made = self.make_first_active(piece);
            done += made.done;
            let Some(error) = made.error else { continue };
            if done == 0 {
                manager.pins.remove(pin);
                return Err(error.into());
            }
            manager.pins.shorten(pin, PageRange::new(pages.first, done));
            break;
        }
        Ok((pin, done))
    }

    /// Makes the first pages of `piece`, which lies in one chunk, active, or has the kernel resolve their faults.
    fn make_first_active(&self, piece: PageRange) -> MadeActive {
        self.manager().commit_touched(piece.first);
        // The kernel makes pages of a native chunk present when a system call uses them. A thread that makes the chunk managed
        // makes pinned pages present before.
        if self.manager().settled_mode(piece.first) == ChunkMode::Native {
            let (done, error) = (piece.count, None);
            return MadeActive { done, error };
        }
        let mut done = 0;
        let error = piece.pages().find_map(|page| {
            let error = self.make_active(page).err();
            done += u32::from(error.is_none());
            error
        });
        MadeActive { done, error }
    }

    /// Whether all `pages` are active, or the kernel resolves their faults. They may leave at once unless they are pinned.
    pub(crate) fn is_active(&self, pages: PageRange) -> bool {
        let _work = self.work();
        pages.pages().all(|page| self.is_page_active(page))
    }

    /// As [`Engine::is_active`], of a page, by a thread at work. A pin that was there before keeps the page so.
    fn is_page_active(&self, page: PageIndex) -> bool {
        let manager = self.manager();
        match manager.table.word(page).load().state() {
            PageState::Active | PageState::Surrendered => true,
            // A look makes no record: a chunk with one is not committed any more.
            PageState::Virgin => {
                manager.chunks.has_record(page.number() / CHUNK_PAGES)
                    && manager.settled_mode(page) == ChunkMode::Native
            }
            _ => false,
        }
    }

    /// Whether a page of `pages` is pinned.
    pub(crate) fn is_pinned(&self, pages: PageRange) -> bool {
        self.manager().pins.any(pages)
    }

    pub(crate) fn unpin(&self, pin: Pin) {
        self.manager().pins.remove(pin);
    }
}
