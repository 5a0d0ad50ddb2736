//! Pages restored ahead of the faults of a stream, in batches.

use plimsoll_os::Errno;

use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::manager::{Event, MOST_AHEAD, Manager};
use crate::page::{CHUNK_PAGES, Locked, PAGE_SIZE, Page, PageIndex, PageRange, PageState, Place};

/// Zeros for the pages of a batch.
static ZERO_PAGES: [Page; MOST_AHEAD as usize] = [[0; PAGE_SIZE]; MOST_AHEAD as usize];

/// Pages that this thread holds busy, from the first one on.
type Batch<'m> = [Option<Locked<'m>>; MOST_AHEAD as usize];

/// The way to restore a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Zero,
    Soft,
    Hard,
}

impl Way {
    fn of(state: PageState) -> Option<Way> {
        match state {
            PageState::Virgin => Some(Way::Zero),
            PageState::Modified | PageState::Standby => Some(Way::Soft),
            PageState::Compressed | PageState::PageFile => Some(Way::Hard),
            PageState::Active | PageState::Busy | PageState::Surrendered => None,
        }
    }
}

/// The places of saved copies, as many as the first ones are known.
struct Places {
    places: [Place; MOST_AHEAD as usize],
    count: usize,
}

impl Places {
    fn known(&self) -> &[Place] {
        &self.places[..self.count]
    }
}

fn places(batch: &[Option<Locked<'_>>]) -> Places {
    let mut found = Places {
        places: [Place::default(); MOST_AHEAD as usize],
        count: 0,
    };
    let known = batch.iter().map_while(|slot| slot.as_ref()?.place());
    for (place, slot) in known.zip(&mut found.places) {
        *slot = place;
        found.count += 1;
    }
    found
}

impl<D: Driver, B: Backing> Manager<D, B> {
    /// After the fault on `page`: if it belongs to a stream, restores the pages behind it.
    pub(super) fn follow_stream(&self, page: PageIndex) {
        let Some(stream) = self.streams.note(page) else {
            return;
        };
        let chunk_end = (page.number() / CHUNK_PAGES) * CHUNK_PAGES + self.chunk(page).pages();
        let behind = page.plus(1);
        // Frames that are in use must not go for pages that are not yet.
        let share = (self.budget.ram() / (16 * PAGE_SIZE as u64)) as u32;
        let count = stream
            .ahead()
            .min(share)
            .min(chunk_end.saturating_sub(behind.number()));
        let restored = self.restore_ahead(PageRange::new(behind, count));
        if restored > 0 {
            self.counters.add(Event::StreamPage, u64::from(restored));
            self.streams.expect(stream, behind.plus(restored));
        }
    }

    /// Restores the first pages of `pages` that are alike. Takes spare frames alone: it trims nothing. Returns their number.
    fn restore_ahead(&self, pages: PageRange) -> u32 {
        let mut batch: Batch<'_> = [const { None }; MOST_AHEAD as usize];
        let mut way = None;
        let mut locked = 0;
        for (page, slot) in pages.pages().zip(&mut batch) {
            let word = self.table.word(page);
            let seen = word.load();
            let next = Way::of(seen.state());
            if next.is_none() || (way.is_some() && way != next) {
                break;
            }
            way = next;
            *slot = word.try_lock(seen);
            if slot.is_none() {
                break;
            }
            locked += 1;
        }
        let run = PageRange::new(pages.first, locked);
        match way {
            Some(Way::Soft) => self.move_back(run, &mut batch),
            Some(Way::Hard) => self.restore_run(run, &mut batch),
            Some(Way::Zero) => self.zero_run(run, &mut batch),
            None => 0,
        }
    }

    /// Moves the frames of modified or standby pages back in one call.
    fn move_back(&self, run: PageRange, batch: &mut Batch<'_>) -> u32 {
        let moved = self.move_counted(Area::Shadow, run);
        let done = moved.done.min(run.count);
        for (page, slot) in PageRange::new(run.first, done).pages().zip(batch) {
            if let Some(locked) = slot.take() {
                if let Some(place) = locked.place() {
                    self.backing.free(page, place);
                }
                self.activate(page, locked, Locked::soft_fault);
            }
        }
        done
    }

    /// Fills virgin pages with zeros, in one call.
    fn zero_run(&self, run: PageRange, batch: &mut Batch<'_>) -> u32 {
        let charged = (0..run.count).take_while(|_| self.budget.charge(1, self.overhead_bytes()));
        let charged = charged.count() as u32;
        let (mut done, mut most) = (0, charged);
        while done < charged {
            let zeros = &ZERO_PAGES[..most.min(charged - done) as usize];
            let copied = self.driver.copy_run(run.first.plus(done), zeros);
            done += copied.done;
            match copied.stopped {
                // A page that is present was native a moment ago. An absent one waits for its own fault.
                Some(Errno::EXIST) if copied.done == 0 && !self.is_absent(run.first.plus(done)) => done += 1,
                // After progress, the next call reports the cause.
                _ if copied.done > 0 => {}
                // The run is in two mappings: the kernel copies into one alone.
                Some(Errno::NOENT) if most > 1 => most /= 2,
                _ => break,
            }
        }
        self.budget.uncharge(u64::from(charged - done));
        let slots = batch.iter_mut().map_while(Option::take);
        for (page, locked) in run.pages().zip(slots).take(done as usize) {
            self.activate(page, locked, Locked::fill_zero);
        }
        done
    }

    /// Restores saved copies: into adjacent frames of standby pages, which then move in one call, or by copies.
    fn restore_run<'m>(&'m self, run: PageRange, batch: &mut Batch<'m>) -> u32 {
        let mut frames: Batch<'_> = [const { None }; MOST_AHEAD as usize];
        if self.budget.excess(self.overhead_bytes()) == 0
            && let Some(taken) = self.take_standby_run(run.count, &mut frames)
        {
            return self.restore_into(run, batch, taken, &mut frames);
        }
        let restore = |pages: &mut [Page; MOST_AHEAD as usize]| {
            let charged = (0..run.count).take_while(|_| self.budget.charge(1, self.overhead_bytes()));
            let charged = charged.count();
            let places = places(&batch[..charged]);
            let done = match self.backing.get_run(run.first, places.known(), pages) {
                0 => 0,
                restored => self.driver.copy_run(run.first, &pages[..restored]).done,
            };
            self.budget.uncharge(charged as u64 - u64::from(done));
            done
        };
        let overhead = self.overhead_bytes();
        let done = self.run_scratch.with_room(&self.budget, overhead, restore);
        let done = done.unwrap_or_default();
        self.end_hard_run(PageRange::new(run.first, done), batch);
        done
    }

    /// Restores the first pages of `run` into the frames of `taken`.
    fn restore_into<'m>(
        &'m self,
        run: PageRange,
        batch: &mut Batch<'m>,
        taken: PageRange,
        frames: &mut Batch<'m>,
    ) -> u32 {
        let places = places(&batch[..run.count.min(taken.count) as usize]);
        // A copy that cannot be restored has spoilt its frame, and a fault on its page reports it.
        let shared = self.shared_in(Area::Shadow, taken);
        let filled = self.with_frames_mut(taken, frames, |pages| {
            self.backing.get_run(run.first, places.known(), pages) as u32
        });
        self.note_unshared(shared);
        let spoilt = (filled as usize + 1).min(places.known().len());
        let (moved, copied) = match filled {
            0 => (0, 0),
            _ => self.place_run(PageRange::new(taken.first, filled), run.first, frames),
        };
        for (number, from) in taken.pages().take(spoilt).enumerate() {
            let Some(frame) = frames[number].take() else { break };
            if number >= moved as usize {
                // It fails for pages that are locked in RAM alone, and those of the shadow are not.
                let _ = self.driver.discard(Area::Shadow, PageRange::new(from, 1));
                self.budget.uncharge(u64::from(number >= copied as usize));
            }
            self.frame_is_gone(from, frame);
        }
        let restored = moved.max(copied);
        self.end_hard_run(PageRange::new(run.first, restored), batch);
        self.counters.add(Event::FrameTaken, u64::from(restored));
        restored
    }

    /// Moves the frames of `pages` to the pages from `to` on. If those have other rights than frames (`mprotect(2)`), it copies
    /// the frames. Returns the pages moved, and copied.
    fn place_run(&self, pages: PageRange, to: PageIndex, frames: &[Option<Locked<'_>>]) -> (u32, u32) {
        let moved = self.driver.move_pages(Area::Shadow, pages, to);
        if moved.done > 0 || moved.stopped != Some(Errno::INVAL) {
            return (moved.done.min(pages.count), 0);
        }
        let copied = self.with_frames_mut(pages, frames, |pages| self.driver.copy_run(to, pages).done);
        self.counters.add(Event::CopiedFrame, u64::from(copied));
        (0, copied)
    }

    /// Ends the faults on `pages`, which are present now.
    fn end_hard_run<'m>(&'m self, pages: PageRange, batch: &mut Batch<'m>) {
        for (page, slot) in pages.pages().zip(batch) {
            if let Some(locked) = slot.take() {
                self.end_hard(page, locked);
            }
        }
    }

    pub(super) fn end_hard(&self, page: PageIndex, locked: Locked<'_>) {
        if let Some(place) = locked.place() {
            self.backing.free(page, place);
        }
        self.refaults.note(locked.before().clock());
        self.activate(page, locked, Locked::hard_fault);
    }
}
