//! Frames of standby pages: taken for other pages, or released to the kernel.

use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::manager::{BLOCK, Event, Manager};
use crate::page::{Locked, PageIndex, PageRange, PageState};

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Locks a standby page of the lowest priority present, in the order of the take hand: its frame is free to take.
    /// None if no page is standby.
    pub(crate) fn take_standby(&self) -> Option<(PageIndex, Locked<'_>)> {
        let lowest = self.counters.lowest_standby()?;
        let mut lap = self.take_hand.lap(self.extent());
        while let Some(block) = lap.next(|chunk| self.find_standby(chunk)) {
            for page in block.pages() {
                let word = self.table.word(page);
                let seen = word.load();
                if seen.state() != PageState::Standby || seen.priority() > lowest {
                    continue;
                }
                if let Some(locked) = word.try_lock(seen) {
                    self.take_hand.stop_behind(page);
                    return Some((page, locked));
                }
            }
        }
        None
    }

    /// Locks up to `most` adjacent standby pages of the lowest priority present, in the order of the take hand, into the
    /// first slots of `frames`. None if no page is standby.
    pub(crate) fn take_standby_run<'m>(
        &'m self,
        most: u32,
        frames: &mut [Option<Locked<'m>>],
    ) -> Option<PageRange> {
        let (first, locked) = self.take_standby()?;
        let lowest = locked.before().priority();
        let (slot, rest) = frames.split_first_mut()?;
        *slot = Some(locked);
        let mut run = PageRange::new(first, 1);
        let end = (first.number() / BLOCK + 1) * BLOCK;
        for (number, slot) in (first.number() + 1..end).zip(rest) {
            if run.count >= most {
                break;
            }
            let word = self.table.word(PageIndex::new(number));
            let seen = word.load();
            if seen.state() != PageState::Standby || seen.priority() > lowest {
                break;
            }
            *slot = word.try_lock(seen);
            if slot.is_none() {
                break;
            }
            run.count += 1;
        }
        self.take_hand.stop_behind(PageIndex::new(run.end() - 1));
        Some(run)
    }

    /// The first chunk with standby pages from `chunk` on.
    fn find_standby(&self, chunk: u32) -> u32 {
        self.chunks
            .find(chunk, |chunk| chunk.pages_in(PageState::Standby) > 0)
    }

    /// Ends the standby state of a page whose frame is gone: moved elsewhere, or released.
    pub(crate) fn frame_is_gone(&self, page: PageIndex, locked: Locked<'_>) {
        let before = locked.before();
        // A standby page has a place.
        let Some(place) = before.place() else { return };
        let tier = self.backing.tier(place);
        let after = crate::page::saved_state(tier);
        self.count(page, PageState::Standby, after, before.priority());
        locked.take_frame(tier, self.refaults.evict());
    }

    /// Returns the frames of about `want` standby pages to the kernel, lowest priority first. Returns their number.
    pub(crate) fn release_standby(&self, want: u32) -> u32 {
        let mut released = 0;
        while released < want {
            let Some(lowest) = self.counters.lowest_standby() else {
                break;
            };
            let mut lap = self.take_hand.lap(self.extent());
            let before = released;
            while released < want {
                let Some(block) = lap.next(|chunk| self.find_standby(chunk)) else {
                    break;
                };
                released += self.release_block(block, lowest);
            }
            if released == before {
                break;
            }
        }
        released
    }

    /// Returns the frames of the standby pages of `pages` to the kernel, whatever their priority.
    pub(crate) fn release_range(&self, pages: PageRange) -> u32 {
        let blocks = self.chunks.pieces(pages).flat_map(|piece| piece.pieces(BLOCK));
        blocks.map(|block| self.release_block(block, 7)).sum()
    }

    /// Releases the frames of a block's standby pages of at most `priority`, in runs.
    fn release_block(&self, block: PageRange, priority: u8) -> u32 {
        let mut batch = [const { None }; BLOCK as usize];
        for (page, slot) in block.pages().zip(&mut batch) {
            let word = self.table.word(page);
            let seen = word.load();
            if seen.state() == PageState::Standby && seen.priority() <= priority {
                *slot = word.try_lock(seen);
            }
        }
        let mut released = 0;
        let mut at = 0;
        while at < batch.len() {
            let run = batch[at..].iter().take_while(|slot| slot.is_some()).count();
            let pages = PageRange::new(block.first.plus(at as u32), run as u32);
            let shared = self.shared_in(Area::Shadow, pages);
            // It fails for pages that are locked in RAM alone: those stay as they are.
            if run > 0 && self.driver.discard(Area::Shadow, pages).is_ok() {
                for (page, slot) in pages.pages().zip(&mut batch[at..]) {
                    if let Some(locked) = slot.take() {
                        self.frame_is_gone(page, locked);
                    }
                }
                self.budget.uncharge(run as u64);
                self.note_unshared(shared);
                released += run as u32;
            }
            at += run.max(1);
        }
        self.counters.add(Event::FrameReleased, u64::from(released));
        released
    }
}
