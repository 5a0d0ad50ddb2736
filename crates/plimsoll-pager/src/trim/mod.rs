//! Trimming: from active to modified by moves in batches, from modified to standby through the store, and from standby to
//! a free frame.
//!
//! Each function passes the pages by its own hand ([`Hand`](crate::manager::Hand)), does bounded work, never waits for a
//! busy page, and may run on several threads at once, in signal handlers too.

mod balance;
mod frames;
mod heat;
mod limits;
mod native;
mod policy;
mod resize;
mod save;
mod spill;
mod thrash;

use std::ops::RangeInclusive;

use plimsoll_os::Errno;

#[cfg(test)]
pub(crate) use heat::MOST_APART;
pub(crate) use save::Reclaim;

use crate::backing::Backing;
use crate::driver::{Area, Driver, Partial};
use crate::manager::{BLOCK, Event, Manager};
use crate::page::{Chunk, ChunkMode, Locked, PageIndex, PageRange, PageState};

/// Backoff of a page that is shared by a fork or pinned by a device: three laps pass it.
const BUSY_BACKOFF: u8 = 4;
/// Backoff of a page that a device has pinned for longer, or whose mapping does not let it move: an `mlock(2)` of the program.
const UNFIT_BACKOFF: u8 = 15;
/// The backoff with which a page is tried again.
const LAST_BACKOFF: u8 = 1;
/// Tries to move a page that a race keeps in place.
const MOST_RACES: u32 = 4;

/// The active pages of a block that this thread holds busy, by offset in the block.
type Batch<'m> = [Option<Locked<'m>>; BLOCK as usize];

/// Whether the trimmer respects the backoff of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Pages that could not be moved a short time ago are passed.
    Normal,
    /// As normal, in the order of another hand.
    Local,
    /// All pages are tried: the caller named them.
    Named,
}

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Moves up to `want` active pages to the modified list, from the coldest chunks that have some, in the order of the trim
    /// hand. Returns the number moved.
    ///
    /// It passes regions that have their minimum or less, unless no others have active pages: the budget comes first. Committed
    /// chunks become managed before.
    pub(crate) fn trim_active(&self, want: u32) -> u32 {
        self.give_up_some();
        let kept = self.sets_at_minimum();
        match self.trim_classes(want, kept) {
            0 if kept != 0 => self.trim_classes(want, 0),
            moved => moved,
        }
    }

    /// As [`Manager::trim_active`], without the working sets in `kept`, a bit each, by number: a lap for each class of heat
    /// until one has pages to trim. No chunk is passed twice.
    fn trim_classes(&self, want: u32, kept: u64) -> u32 {
        let mut classes = 0..=self.ageing.most();
        loop {
            let moved = self.trim_lap(want, kept, &classes);
            let last = *classes.end();
            if moved > 0 || !self.ageing.raise(last) {
                return moved;
            }
            classes = last + 1..=last + 1;
        }
    }

    /// One lap at most over chunks of these classes of heat.
    fn trim_lap(&self, want: u32, kept: u64, classes: &RangeInclusive<u8>) -> u32 {
        let mut lap = self.trim_hand.lap(self.extent());
        let mut moved = 0;
        while moved < want {
            let is_wanted = |chunk: &Chunk| {
                let is_kept = kept >> chunk.working_set() & 1 == 1;
                !is_kept
                    && classes.contains(&chunk.heat())
                    && (chunk.mode() == ChunkMode::Native || chunk.pages_in(PageState::Active) > 0)
            };
            let block = lap.next(|chunk| self.chunks.find(chunk, is_wanted));
            let Some(block) = block else { break };
            moved += self.trim_block(block, Urgency::Normal, want - moved);
        }
        moved
    }

    /// Moves the active pages of `pages` to the modified list; native ones are registered first. Returns the number moved.
    pub(crate) fn trim_range(&self, pages: PageRange) -> u32 {
        let blocks = self.chunks.pieces(pages).flat_map(|piece| piece.pieces(BLOCK));
        blocks
            .map(|block| self.trim_block(block, Urgency::Named, BLOCK))
            .sum()
    }

    /// Moves up to `most` active pages of a block, which lies in one chunk.
    fn trim_block(&self, block: PageRange, urgency: Urgency, most: u32) -> u32 {
        if self.chunks.of(block).mode() == ChunkMode::Native {
            self.manage(block.first);
        }
        let mut batch: Batch<'_> = [const { None }; BLOCK as usize];
        let mut locked = 0;
        for (number, slot) in block.pages().zip(&mut batch) {
            let Some(page) = self.table.word(number).try_lock_in(PageState::Active) else {
                continue;
            };
            let laps = page.before().backoff();
            if laps > LAST_BACKOFF && urgency != Urgency::Named {
                page.keep_with_backoff(laps - 1);
                continue;
            }
            *slot = Some(page);
            locked += 1;
            if locked == most {
                if urgency == Urgency::Normal {
                    self.trim_hand.stop_behind(number);
                }
                break;
            }
        }
        if locked == 0 {
            return 0;
        }
        // A thread that pins pages either sees them busy, or is seen here.
        self.pins.fence();
        if self.pins.any(block) {
            for (page, slot) in block.pages().zip(&mut batch) {
                if self.pins.holds(page) {
                    *slot = None;
                }
            }
        }
        self.move_out(block.first, &mut batch, urgency)
    }

    /// Moves every run of pages that the batch holds; the batch is empty afterwards. Returns the number moved.
    fn move_out(&self, first: PageIndex, batch: &mut Batch<'_>, urgency: Urgency) -> u32 {
        let mut moved = 0;
        let mut at = 0;
        let mut races = 0;
        let mut most = batch.len();
        while at < batch.len() {
            let held = batch[at..].iter().take_while(|slot| slot.is_some());
            let run = held.count().min(most);
            if run == 0 {
                at += 1;
                continue;
            }
            let pages = PageRange::new(first.plus(at as u32), run as u32);
            let partial = self.move_counted(Area::Arena, pages);
            let done = (partial.done as usize).min(run);
            for (page, slot) in pages.pages().zip(&mut batch[at..at + done]) {
                if let Some(locked) = slot.take() {
                    self.end_trim(page, locked);
                }
            }
            moved += done as u32;
            at += done;
            if done == run {
                most = (2 * most).min(batch.len());
            } else {
                let errno = partial.stopped.unwrap_or(Errno::AGAIN);
                self.counters.add(Event::PartialMove, 1);
                // After progress, the next call reports the cause.
                if done > 0 {
                    races = 0;
                } else if errno == Errno::INVAL && run > 1 {
                    // The program has changed the rights to some of these pages (`mprotect(2)`): the kernel moves no page of
                    // a run that has several mappings.
                    most = run / 2;
                } else if errno == Errno::AGAIN && races < MOST_RACES {
                    races += 1;
                } else if errno == Errno::NOMEM {
                    self.counters.add(Event::NoMemory, 1);
                    batch[at..].fill_with(|| None);
                } else {
                    races = 0;
                    if let Some(locked) = batch[at].take() {
                        let page = first.plus(at as u32);
                        let is_tried_again =
                            urgency == Urgency::Named || locked.before().backoff() == LAST_BACKOFF;
                        let is_moved = match errno {
                            Errno::BUSY => is_tried_again && self.move_shared(page),
                            Errno::INVAL => self.driver.copy_out(page).done == 1,
                            _ => false,
                        };
                        if is_moved {
                            self.end_trim(page, locked);
                            moved += 1;
                        } else {
                            self.not_moved(page, locked, errno);
                        }
                    }
                    at += 1;
                }
            }
        }
        self.counters.add(Event::Trimmed, u64::from(moved));
        moved
    }

    /// Moves pages to the other area. Without `UFFDIO_MOVE`, that makes copies of shared ones.
    pub(crate) fn move_counted(&self, from: Area, pages: PageRange) -> Partial {
        let shared = match self.driver.moves() {
            true => 0,
            false => self.shared_in(from, pages),
        };
        let moved = self.driver.move_pages(from, pages, pages.first);
        self.note_unshared(shared.min(u64::from(moved.done)));
        moved
    }

    /// Counts a page that was moved to its frame slot as modified, and unlocks it.
    fn end_trim(&self, page: PageIndex, locked: Locked<'_>) {
        let priority = self.chunk(page).priority();
        self.count(page, PageState::Active, PageState::Modified, priority);
        locked.trim(priority);
    }

    /// Moves an active page that a fork shares, which costs a copy of it. A page that a device has pinned stays where the
    /// device writes to it. Returns whether it was moved.
    fn move_shared(&self, page: PageIndex) -> bool {
        let one = PageRange::new(page, 1);
        let is_own = self.driver.unshare(page).is_ok();
        self.note_unshared(u64::from(is_own));
        let is_moved = is_own && self.driver.move_pages(Area::Arena, one, page).done == 1;
        self.counters.add(Event::Unshared, u64::from(is_moved));
        is_moved
    }

    /// Unlocks an active page that the kernel did not move.
    fn not_moved(&self, page: PageIndex, locked: Locked<'_>, errno: Errno) {
        match errno {
            Errno::NOENT => {
                // The program dropped the page (`MADV_DONTNEED`). Nothing else may make it virgin.
                match self.driver.presence(Area::Arena, page) {
                    Some(false) => self.drop_contents(page, locked),
                    // No copy can be made of it.
                    Some(true) => {
                        self.counters.add(Event::Unmovable, 1);
                        locked.keep_with_backoff(UNFIT_BACKOFF);
                    }
                    None => {}
                }
            }
            Errno::EXIST => {
                // No state of the word has a frame beside an active page. The frame goes only if the page is seen: without it,
                // the frame would be the only copy.
                if self.driver.presence(Area::Arena, page) == Some(true) {
                    let _ = self.driver.discard(Area::Shadow, PageRange::new(page, 1));
                }
            }
            Errno::AGAIN => {}
            Errno::BUSY => {
                self.counters.add(Event::Unmovable, 1);
                let backoff = match locked.before().backoff() {
                    LAST_BACKOFF => UNFIT_BACKOFF,
                    _ => BUSY_BACKOFF,
                };
                locked.keep_with_backoff(backoff);
            }
            _ => {
                self.counters.add(Event::Unmovable, 1);
                locked.keep_with_backoff(UNFIT_BACKOFF);
            }
        }
    }
}
