//! Native chunks: those of a sparse region that become native, by a commit or by a fault, and registering any.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plimsoll_os::Errno;

use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::manager::{Event, Manager, Patience, TrimMode};
use crate::page::{CHUNK_PAGES, Chunk, ChunkMode, PAGE_SIZE, PageIndex, PageRange, PageState, Word};

/// A fault, or a change of a mapping, ends before; but a thread must not wait for ever.
const MOST_WAITS: u32 = 1000;
/// The longest wait for a larger budget, of a commit and of a fault. It takes about 1 ms on a quiet machine.
const LONGEST_WISH_MS: u32 = 100;
const LONGEST_WISH_OF_FAULT_MS: u32 = 20;
const NAP: Duration = Duration::from_micros(100);
const NAPS_A_WAKE: u32 = 10;
/// A wait asks for this part of the pages in use, too, so that waits become rare.
const WISHED_PART: u64 = 4;
/// Native chunks that a trim makes managed at most before it trims a page.
const MOST_GIVEN_UP: u32 = 64;
/// Native chunks that are looked at in a second while nearly all of the pool is in use. One look takes a few microseconds.
const MOST_LOOKED_AT: u32 = 256;
/// A native chunk with fewer present pages than one in so many is mostly unused.
const USED_PART: usize = 4;

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Registers the native chunk of `page`, so that its faults come to the pager, and adopts its present pages. Returns
    /// whether this call did: a chunk with absent pages under a pin stays native. A chunk of a sparse region without present
    /// pages has no record afterwards.
    pub(crate) fn manage(&self, page: PageIndex) -> bool {
        let number = page.number() / CHUNK_PAGES;
        let chunk = self.chunk(page);
        let pages = PageRange::new(PageIndex::new(number * CHUNK_PAGES), chunk.pages());
        if !chunk.change_mode(ChunkMode::Native, ChunkMode::Changing) {
            return false;
        }
        if !self.has_pinned_present(pages) {
            chunk.change_mode(ChunkMode::Changing, ChunkMode::Native);
            return false;
        }
        if self.driver.register(pages).is_err() {
            self.counters.add(Event::NoMemory, 1);
            chunk.change_mode(ChunkMode::Changing, ChunkMode::Native);
            return false;
        }
        // From here on absent pages fault to the pager. A page that is present stays so: nothing trims it while its word
        // is virgin.
        self.adopt_present(number, pages);
        true
    }

    /// Makes the pinned ones among `pages`, of a changing chunk that is not registered yet, present: a system call that uses them may
    /// fail once their faults come to the pager. Returns whether all are: those to which the program may not write stay absent.
    fn has_pinned_present(&self, pages: PageRange) -> bool {
        // A thread that pins pages either sees the chunk changing, or is seen here.
        self.pins.fence();
        let mut pinned = self.pins.ranges().filter_map(|range| range.common(pages));
        pinned.all(|range| self.driver.populate_native(range))
    }

    /// Counts the present pages of a chunk that was just registered, and lets its faults go on.
    fn adopt_present(&self, number: u32, pages: PageRange) {
        let chunk = self.chunks.of(pages);
        let mut present = [false; CHUNK_PAGES as usize];
        // Without the list every page counts as present; the trimmer finds out which ones are not.
        if self.driver.present(Area::Arena, pages, &mut present).is_err() {
            present = [true; CHUNK_PAGES as usize];
        }
        if !present.contains(&true) && self.chunks.may_lose_record(number) {
            self.budget.release_native(u64::from(pages.count));
            self.chunks.end_release(number);
            return;
        }
        self.chunks.note_managed(number);
        chunk.change_mode(ChunkMode::Changing, ChunkMode::Converting);
        let mut adopted = 0;
        for (page, _) in pages.pages().zip(present).filter(|(_, present)| *present) {
            adopted += u64::from(self.adopt(page));
        }
        self.budget.release_native(u64::from(pages.count) - adopted);
        self.counters.add(Event::Adopted, adopted);
        chunk.change_mode(ChunkMode::Converting, ChunkMode::Managed);
    }

    /// Makes the chunks of a sparse region that `pages` touch native, if the budget has room for all of their pages and the stock
    /// of spare frames; else a fault may commit each of them ([`Manager::commit_touched`]). Chunks that have pages with a state
    /// stay managed.
    pub(crate) fn commit(&self, pages: PageRange) {
        self.chunks.announce(pages);
        let wanted = self.chunks.uncommitted(pages).count() as u64;
        let count = wanted * u64::from(CHUNK_PAGES);
        if wanted == 0 || self.is_shrinking() {
            return;
        }
        if self.reserve(count)
            || self.grow_for(pages, count, LONGEST_WISH_MS)
            // Faults commit the parts that are used. To make other chunks managed costs more.
            || (!self.is_ample() && self.is_uncommitted(pages) && self.give_up_for(count))
        {
            self.commit_reserved(pages, wanted);
        }
    }

    /// Before a fault on `page`: makes its chunk native if the program announced it, no page of it was used yet, and at most half of
    /// the pool is in use afterwards. One fault then does for all of its pages, wherever the next access is. If the budget does not
    /// grow in a short time, the chunk stays managed.
    ///
    /// The caller is inside the gate: a fork does not copy a chunk in between.
    pub(crate) fn commit_touched(&self, page: PageIndex) {
        let number = page.number() / CHUNK_PAGES;
        if !self.chunks.awaits_commit(number)
            || self.trim_mode() != TrimMode::BalanceSet
            || self.is_shrinking()
            || !self.is_ample()
        {
            return;
        }
        let chunk = pages_of(&(number..number + 1));
        let count = u64::from(CHUNK_PAGES);
        if !self.reserve(count) && !self.grow_for(chunk, count, LONGEST_WISH_OF_FAULT_MS) {
            return;
        }
        // The program may have decommitted it during the wait: it would stay native without a use.
        match self.chunks.awaits_commit(number) {
            true => self.commit_reserved(chunk, 1),
            false => self.budget.release_native(count),
        }
    }

    fn is_shrinking(&self) -> bool {
        self.budget.ram() > self.budget.target()
    }

    /// Whether at most half of the pool is in use with one more native chunk: never in a pool of less than 4 MiB. False in a pager
    /// without a pool.
    fn is_ample(&self) -> bool {
        self.need.is_ample(self.own_pages() + u64::from(CHUNK_PAGES))
    }

    /// Whether a chunk that `pages` touch may be committed.
    fn is_uncommitted(&self, pages: PageRange) -> bool {
        self.chunks.uncommitted(pages).next().is_some()
    }

    /// Pages that this process is charged for: its parent pays for others.
    fn own_pages(&self) -> u64 {
        let inherited = self.inherited.load(Ordering::Relaxed);
        (self.resident_bytes() / PAGE_SIZE as u64).saturating_sub(inherited)
    }

    /// Makes up to `wanted` chunks that `pages` touch native, for whose pages the budget is reserved. Ends the reservation for the
    /// others.
    fn commit_reserved(&self, pages: PageRange, wanted: u64) {
        let mut numbers = self
            .chunks
            .uncommitted(pages)
            .filter(|number| self.chunks.begin_commit(*number))
            // Another thread may have taken records meanwhile.
            .take(wanted as usize)
            .peekable();
        let mut committed = 0;
        while let Some(first) = numbers.next() {
            let mut end = first + 1;
            while numbers.next_if(|number| *number == end).is_some() {
                end += 1;
            }
            if self.commit_run(first..end) {
                committed += u64::from(end - first) * u64::from(CHUNK_PAGES);
            }
        }
        self.budget
            .release_native(wanted * u64::from(CHUNK_PAGES) - committed);
    }

    /// Reserves the budget for pages of chunks that are to be committed.
    fn reserve(&self, count: u64) -> bool {
        let stock = self.watermarks().1 * PAGE_SIZE as u64;
        self.budget.reserve_native(count, self.overhead_bytes() + stock)
    }

    /// The frames that the budget has room for beside the stock of spare frames.
    fn spare_without_stock(&self) -> u64 {
        let stock = self.watermarks().1 * PAGE_SIZE as u64;
        self.budget.spare(self.overhead_bytes() + stock)
    }

    /// As [`Manager::reserve`], after the reservations for pages that were never touched have ended, if that makes room.
    fn give_up_for(&self, count: u64) -> bool {
        if self.spare_without_stock() + u64::from(self.chunks.committed()) * u64::from(CHUNK_PAGES) < count {
            return false;
        }
        self.give_up_committed(u32::MAX);
        self.reserve(count)
    }

    /// As [`Manager::reserve`], in a pager whose budget is a grant: has the pool give it free pages, and waits for a moment. A fault of
    /// each page would take longer.
    fn grow_for(&self, pages: PageRange, count: u64, longest_ms: u32) -> bool {
        let used = self.own_pages();
        // Each program has a large table of its heap, of which it uses little, and small parts of chunks: it would hold much more than
        // it uses. Of memory that more than doubles its use, it may use little too.
        if count > (2 * u64::from(pages.count)).min(used.max(u64::from(CHUNK_PAGES))) {
            return false;
        }
        let start = plimsoll_os::coarse_milliseconds();
        let missing = || count.saturating_sub(self.spare_without_stock());
        let Some(wish) = self.need.wish(missing(), start) else {
            return false;
        };
        let (mut naps, mut now, mut woken_at) = (0, start, None);
        loop {
            // A nap takes longer on a busy machine.
            if naps % NAPS_A_WAKE == 0 || woken_at != Some(now) {
                woken_at = Some(now);
                wish.set(count + self.watermarks().1 + used / WISHED_PART);
                // Its thread wakes that of the pool.
                self.wake_balancer();
            }
            plimsoll_os::sleep_briefly(NAP);
            naps += 1;
            // Another thread was first. The wish was not vain: the next one needs no pause.
            if !self.is_uncommitted(pages) {
                return false;
            }
            // The last free pages of the pool may just have been granted to this member.
            let has_more = self.need.has_free(missing());
            if self.reserve(count) {
                wish.is_met();
                return true;
            }
            if !has_more {
                return false;
            }
            now = plimsoll_os::coarse_milliseconds();
            if now.wrapping_sub(start) > longest_ms {
                wish.give_up(now);
                return false;
            }
        }
    }

    /// Makes the chunks of a run native, which are changing. Returns false if the kernel refuses: then they are managed.
    fn commit_run(&self, run: Range<u32>) -> bool {
        let pages = pages_of(&run);
        if self.driver.unregister(pages).is_ok() {
            run.for_each(|number| self.chunks.end_commit(number));
            return true;
        }
        self.counters.add(Event::NoMemory, 1);
        let mut patience = Patience::default();
        // A part may not be registered any more. To register it again needs no memory.
        while self.driver.register(pages).is_err() && patience.waits() < MOST_WAITS {
            patience.wait();
        }
        run.for_each(|number| self.chunks.abort_commit(number));
        false
    }

    /// Drops the contents of `pages`, as [`Manager::discard`] does, and ends the reservation of the committed chunks in it.
    ///
    /// # Errors
    /// As those of [`Manager::discard`].
    pub(crate) fn decommit(&self, pages: PageRange) -> Result<(), Errno> {
        self.chunks.withdraw(pages);
        let whole = pages.first.number().div_ceil(CHUNK_PAGES)..pages.end() / CHUNK_PAGES;
        let mut next = whole.start;
        while next < whole.end && self.chunks.committed() > 0 {
            let first = self.chunks.find(next, |chunk| chunk.mode() == ChunkMode::Native);
            let mut end = first;
            while end < whole.end && self.chunks.begin_release(end) {
                end += 1;
            }
            if first < end {
                self.release_run(first..end);
            }
            next = end.max(first).saturating_add(1);
        }
        self.discard(pages)
    }

    /// Takes the records from the chunks of a run, which are changing. A chunk of which a page does not go, or which the kernel
    /// does not register, keeps its record.
    fn release_run(&self, run: Range<u32>) {
        let pages = pages_of(&run);
        if self.driver.register(pages).is_err() {
            self.counters.add(Event::NoMemory, 1);
            for number in run {
                let chunk = &self.chunks.all()[number as usize];
                chunk.change_mode(ChunkMode::Changing, ChunkMode::Native);
            }
            return;
        }
        if self.driver.discard(Area::Arena, pages).is_err() {
            return run.for_each(|number| self.adopt_present(number, pages_of(&(number..number + 1))));
        }
        self.budget.release_native(u64::from(pages.count));
        run.for_each(|number| self.chunks.end_release(number));
    }

    /// Makes up to `most` committed chunks managed: pages that were never touched reserve no budget any more.
    pub(crate) fn give_up_committed(&self, most: u32) {
        let is_native = |chunk: &Chunk| chunk.mode() == ChunkMode::Native;
        let (mut next, mut given_up) = (0, 0);
        while given_up < most && self.chunks.committed() > 0 {
            let number = self.chunks.find(next, is_native);
            if number as usize >= self.chunks.all().len() {
                break;
            }
            if self.chunks.is_sparse(number) {
                self.manage(PageIndex::new(number * CHUNK_PAGES));
                given_up += 1;
            }
            next = number + 1;
        }
    }

    /// Before a trim: as [`Manager::give_up_committed`], bounded work.
    pub(super) fn give_up_some(&self) {
        if self.chunks.committed() > 0 {
            self.give_up_committed(MOST_GIVEN_UP);
        }
    }

    /// While nearly all of the pool is in use: makes committed chunks managed that are mostly unused, as other members may need
    /// their pages. To be called each second; bounded work.
    pub(crate) fn give_up_unused(&self) {
        if !self.need.is_scarce(self.own_pages()) {
            return;
        }
        let is_native = |chunk: &Chunk| chunk.mode() == ChunkMode::Native;
        let mut next = self.look_hand.load(Ordering::Relaxed);
        for _ in 0..MOST_LOOKED_AT {
            let number = self.chunks.find(next, is_native);
            if number as usize >= self.chunks.all().len() {
                // The next call begins at the first chunk again.
                next = 0;
                break;
            }
            next = number + 1;
            if self.chunks.is_sparse(number) && self.is_mostly_unused(number) {
                self.manage(PageIndex::new(number * CHUNK_PAGES));
            }
        }
        self.look_hand.store(next, Ordering::Relaxed);
    }

    /// Whether few pages of a native chunk are present.
    fn is_mostly_unused(&self, number: u32) -> bool {
        let mut present = [false; CHUNK_PAGES as usize];
        let listed = self
            .driver
            .present(Area::Arena, pages_of(&(number..number + 1)), &mut present);
        let used = present.iter().filter(|present| **present).count();
        listed.is_ok() && used < present.len() / USED_PART
    }

    /// Counts a present page of a chunk that was just registered, unless a fault did.
    fn adopt(&self, page: PageIndex) -> bool {
        let word = self.table.word(page);
        let mut patience = Patience::default();
        while patience.waits() < MOST_WAITS {
            let seen = word.load();
            match seen.state() {
                PageState::Virgin => {}
                PageState::Busy => {
                    patience.wait();
                    continue;
                }
                _ => return false,
            }
            let Some(locked) = word.try_lock(seen) else {
                continue;
            };
            let priority = Word::NORMAL_PRIORITY;
            self.count(page, PageState::Virgin, PageState::Active, priority);
            self.budget.adopt();
            locked.adopt();
            return true;
        }
        false
    }
}

/// The pages of whole chunks.
fn pages_of(run: &Range<u32>) -> PageRange {
    let count = (run.end - run.start) * CHUNK_PAGES;
    PageRange::new(PageIndex::new(run.start * CHUNK_PAGES), count)
}
