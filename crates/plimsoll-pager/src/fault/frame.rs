//! Frames for faults: new ones while the budget allows, else those of standby pages.

use std::time::Duration;

use plimsoll_os::Errno;

use super::{FaultError, MOST_TRIES};
use crate::backing::{Backing, Damaged};
use crate::driver::{Area, Driver};
use crate::manager::{BLOCK, Event, Manager, Patience, TrimMode};
use crate::page::{Locked, Page, PageIndex, PageRange, Place, ZERO_PAGE};
use crate::trim::Reclaim;

/// Rounds in which a faulting thread looks for a frame before it exceeds the budget, and those of them in which the store
/// may be full.
const MOST_ROUNDS: u32 = 512;
const MOST_FULL_ROUNDS: u32 = 8;

/// Bytes of copies that a fault on a full store moves.
const CLEANED_AT_ONCE: u64 = 64 << 10;

/// Milliseconds for which a fault waits at most that the budget grows, how often it asks in this time, and how often its wait
/// may be met in vain: other threads may have taken all of it.
const LONGEST_WAIT_MS: u32 = 2000;
const ASK_EVERY_MS: u32 = 8;
const MOST_GROWTHS: u32 = 64;

/// A frame for a page.
enum Frame<'m> {
    /// The kernel allocates it; the budget is charged.
    New,
    /// That of a standby page, which this thread holds busy.
    Taken(PageIndex, Locked<'m>),
}

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Makes an absent page present with the bytes at `place`, or with zeros. The budget is charged for it.
    pub(super) fn fill(&self, page: PageIndex, place: Option<Place>) -> Result<(), FaultError> {
        match self.find_frame() {
            Frame::New => {
                let filled = match place {
                    Some(place) => self.scratch.with(|[scratch]| {
                        self.backing.get(page, place, scratch)?;
                        self.copy_in(page, scratch)
                    }),
                    None => self.fill_zero(page),
                };
                filled.inspect_err(|_| self.budget.uncharge(1))
            }
            Frame::Taken(from, standby) => self.fill_taken(page, place, from, standby),
        }
    }

    /// Zeros for a virgin page. One that is present already was native a moment ago.
    fn fill_zero(&self, page: PageIndex) -> Result<(), FaultError> {
        let copied = self.copy_unless_present(page, &ZERO_PAGE);
        self.end_if_present(page, copied)
    }

    /// As [`Manager::fill`], in the frame of the standby page `from`.
    fn fill_taken(
        &self,
        page: PageIndex,
        place: Option<Place>,
        from: PageIndex,
        standby: Locked<'_>,
    ) -> Result<(), FaultError> {
        let frame = PageRange::new(from, 1);
        // The kernel makes a copy of a shared frame at the first write.
        let shared = self.shared_in(Area::Shadow, frame);
        let filled: Result<(), Damaged> = self.with_frame_mut(from, &standby, |frame| match place {
            Some(place) => self.backing.get(page, place, frame),
            None => {
                frame.fill(0);
                Ok(())
            }
        });
        self.note_unshared(shared);
        let mut outcome = filled.map_err(FaultError::from);
        let mut is_moved = false;
        if outcome.is_ok() {
            is_moved = self.driver.move_pages(Area::Shadow, frame, page).done == 1;
            if !is_moved {
                outcome = self.with_frame(from, &standby, |bytes| match place {
                    Some(_) => self.copy_in(page, bytes),
                    None => self.fill_zero(page),
                });
                self.counters.add(Event::CopiedFrame, 1);
            }
        }
        if !is_moved {
            // It fails for pages that are locked in RAM alone, and those of the shadow are not.
            let _ = self.driver.discard(Area::Shadow, frame);
        }
        if outcome.is_err() {
            self.budget.uncharge(1);
        }
        self.counters.add(Event::FrameTaken, 1);
        self.frame_is_gone(from, standby);
        outcome
    }

    /// Charges a new frame, or takes that of a standby page, after trimming if need be. If nothing can be reclaimed and the
    /// budget does not grow, it exceeds the budget: a program cannot be refused memory that it has.
    fn find_frame(&self) -> Frame<'_> {
        if let Some(frame) = self.free_frame() {
            return frame;
        }
        for _ in 0..MOST_GROWTHS {
            if let Some(frame) = self.reclaim_frame() {
                return frame;
            }
            if !self.wait_for_budget() {
                break;
            }
        }
        self.budget.force();
        Frame::New
    }

    /// Charges a new frame, after the budget has grown by free pages of its pool if need be. None in a pager without a pool, and
    /// of a pool without free pages.
    fn free_frame(&self) -> Option<Frame<'_>> {
        while self.has_free_pages() {
            if self.budget.charge(1, self.overhead_bytes()) {
                return Some(Frame::New);
            }
            if !self.wait_for_budget() {
                break;
            }
        }
        None
    }

    /// In a pager whose budget is a grant: has the pool asked for more, and waits. Returns whether the budget has grown.
    fn wait_for_budget(&self) -> bool {
        let Some(_waiting) = self.need.open(plimsoll_os::coarse_milliseconds()) else {
            return false;
        };
        let before = self.budget.ram();
        for waited in 0..LONGEST_WAIT_MS {
            if waited % ASK_EVERY_MS == 0 {
                // Its thread wakes that of the pool.
                self.wake_balancer();
            }
            plimsoll_os::sleep_briefly(Duration::from_millis(1));
            if self.budget.ram() > before || self.budget.spare(self.overhead_bytes()) > 0 {
                self.need.is_met();
                return true;
            }
            if !self.need.can_be_met() {
                return false;
            }
        }
        self.need.give_up(plimsoll_os::coarse_milliseconds());
        false
    }

    /// As [`Manager::find_frame`], within the budget; none if nothing can be reclaimed.
    fn reclaim_frame(&self) -> Option<Frame<'_>> {
        let mode = self.trim_mode();
        let mut patience = Patience::default();
        let mut full = 0;
        if mode != TrimMode::PerFault {
            self.keep_stock();
        }
        for _ in 0..MOST_ROUNDS {
            if self.budget.charge(1, self.overhead_bytes()) {
                return Some(Frame::New);
            }
            let reclaim = match mode {
                TrimMode::PerFault => self.trim_one(),
                TrimMode::BalanceSet => {
                    // Frames over the budget must not be used again: the store has grown.
                    if self.budget.excess(self.overhead_bytes()) > 0 {
                        self.settle();
                    } else if let Some((page, locked)) = self.take_standby() {
                        return Some(Frame::Taken(page, locked));
                    }
                    self.counters.add(Event::DirectReclaim, 1);
                    self.reclaim()
                }
            };
            match reclaim {
                Reclaim::Made => {}
                Reclaim::Nothing => patience.wait(),
                Reclaim::Full if self.make_room() => {}
                Reclaim::Full => {
                    full += 1;
                    self.clean_store(CLEANED_AT_ONCE);
                }
            }
            if full == MOST_FULL_ROUNDS {
                break;
            }
        }
        None
    }

    /// Whether a page of the arena is absent though a copy found it present (`EEXIST`). The kernel looks at its page table
    /// twice, and another thread may have it release the table in between: `MADV_DONTNEED` of whole 2 MiB does
    /// (`CONFIG_PT_RECLAIM`). If the kernel does not tell, the page counts as present.
    pub(super) fn is_absent(&self, page: PageIndex) -> bool {
        self.driver.presence(Area::Arena, page) == Some(false)
    }

    /// As [`Manager::copy_unless_present`]; [`Errno::EXIST`] is for a present page.
    pub(super) fn copy_in(&self, page: PageIndex, bytes: &Page) -> Result<(), FaultError> {
        match self.copy_unless_present(page, bytes)? {
            true => Ok(()),
            false => Err(FaultError::Refused(Errno::EXIST)),
        }
    }

    /// Copies `bytes` to a page if it is absent, and returns whether it was. Waits while the kernel has no memory, and releases
    /// frames. After all tries, the error has the reason of the last refusal.
    pub(super) fn copy_unless_present(&self, page: PageIndex, bytes: &Page) -> Result<bool, FaultError> {
        let mut races = Patience::default();
        let mut last = Errno::NOMEM;
        for _ in 0..MOST_TRIES {
            let Err(errno) = self.driver.copy(page, bytes) else {
                return Ok(true);
            };
            match errno {
                Errno::EXIST if !self.is_absent(page) => return Ok(false),
                // The mapping is being changed: by a fork, for one. Or the page table is.
                Errno::AGAIN | Errno::EXIST => races.wait(),
                // The source of a copy is memory of this process: the kernel had no frame to read it into (EFAULT).
                Errno::NOMEM | Errno::FAULT => {
                    self.counters.add(Event::NoMemory, 1);
                    if self.release_standby(BLOCK) == 0 {
                        plimsoll_os::sleep_briefly(Duration::from_micros(500));
                    }
                }
                _ => return Err(FaultError::Refused(errno)),
            }
            last = errno;
        }
        Err(match last {
            Errno::NOMEM => FaultError::NoMemory,
            // EFAULT too: its number tells more than the words.
            errno => FaultError::Refused(errno),
        })
    }
}
