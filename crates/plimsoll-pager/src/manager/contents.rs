//! The end of the contents of pages: discarded ranges, closed regions, and pages that the program takes for mappings of its
//! own.

use plimsoll_os::Errno;

use super::{BLOCK, Manager, Patience};
use crate::backing::Backing;
use crate::driver::{Area, Driver};
use crate::page::{CHUNK_PAGES, Chunk, ChunkMode, Locked, PageIndex, PageRange, PageState};

/// The reason why pages are not reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeBackError {
    /// A page is the pager's already. Nothing was changed.
    Owned,
    /// The kernel refuses. Pages before the chunk that it refuses are reclaimed.
    System(Errno),
}

/// The state of a page after the end of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Virgin,
    Surrendered,
}

impl Ending {
    /// Whether a page has to be locked for it.
    fn concerns(self, state: PageState) -> bool {
        match state {
            PageState::Surrendered => false,
            PageState::Virgin => self == Ending::Surrendered,
            _ => true,
        }
    }
}

/// Pages that this thread holds busy.
type Slots<'m> = [Option<Locked<'m>>];

/// The area that has a page of a slot.
fn area_of(slot: &Option<Locked<'_>>) -> Option<Area> {
    match slot.as_ref()?.before().state() {
        PageState::Active => Some(Area::Arena),
        state if state.has_frame() => Some(Area::Shadow),
        _ => None,
    }
}

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Drops the contents of `pages`: they read as zero. Surrendered pages stay as they are. The work is for chunks with
    /// records alone.
    ///
    /// # Errors
    /// The kernel refuses for pages that are locked in RAM (`mlock(2)`); pages before them are dropped.
    pub(crate) fn discard(&self, pages: PageRange) -> Result<(), Errno> {
        for piece in self.chunks.pieces(pages) {
            if self.chunks.of(piece).mode() != ChunkMode::Managed {
                // Pages that are adopted meanwhile are absent and active: a fault or the trimmer finds that out.
                self.driver.discard(Area::Arena, piece)?;
            }
            self.end_piece(piece, Ending::Virgin)?;
        }
        Ok(())
    }

    /// Closes the region on `pages`, which no thread uses any more, and of which no page is surrendered: contents and saved
    /// copies are gone.
    ///
    /// # Errors
    /// The kernel refuses: the addresses stay in use.
    pub(crate) fn close(&self, pages: PageRange) -> Result<(), Errno> {
        self.regions.close(pages.count);
        // The program may have locked some in RAM (`mlock(2)`).
        self.driver.unlock(pages);
        for piece in self.chunks.pieces(pages) {
            let chunk = self.chunks.of(piece);
            self.wait_for_conversion(piece.first);
            let is_native = chunk.change_mode(ChunkMode::Native, ChunkMode::Unused);
            // Before the budget is: other threads charge it at once. A page that a trimmer moves meanwhile is in the shadow
            // then, or absent; the next step finds it.
            if let Err(errno) = self.driver.discard(Area::Arena, piece) {
                // Its pages stay, and so does their charge.
                if is_native {
                    chunk.change_mode(ChunkMode::Unused, ChunkMode::Native);
                }
                return Err(errno);
            }
            if is_native {
                self.budget.release_native(u64::from(chunk.pages()));
                self.chunks.note_managed(piece.first.number() / CHUNK_PAGES);
            } else {
                self.end_piece(piece, Ending::Virgin)?;
            }
            self.chunks.close(piece.first.number() / CHUNK_PAGES);
        }
        self.chunks.close_sparse(pages);
        self.driver.close(pages)
    }

    /// Gives `pages` to the program: their contents are gone, and nothing touches them until [`Manager::take_back`]. Not at the
    /// same time as the balance-set manager.
    ///
    /// # Errors
    /// The kernel refuses to register a native chunk, or to drop a page; pages before it are surrendered.
    pub(crate) fn surrender(&self, pages: PageRange) -> Result<(), Errno> {
        for piece in pages.pieces(CHUNK_PAGES) {
            // The words of a native chunk have no states.
            if !self.is_managed_now(piece.first) {
                return Err(Errno::NOMEM);
            }
            self.chunk(piece.first).note_surrender();
            self.driver.unlock(piece);
            self.end_piece(piece, Ending::Surrendered)?;
        }
        Ok(())
    }

    /// Takes surrendered pages back, which are fresh memory: they are virgin. Not at the same time as the balance-set manager.
    ///
    /// # Errors
    /// [`TakeBackError`].
    pub(crate) fn take_back(&self, pages: PageRange) -> Result<(), TakeBackError> {
        let is_surrendered = |page| self.table.word(page).load().state() == PageState::Surrendered;
        if self.chunks.pieces(pages).map(|piece| piece.count).sum::<u32>() < pages.count
            || !pages.pages().all(is_surrendered)
        {
            return Err(TakeBackError::Owned);
        }
        for piece in pages.pieces(CHUNK_PAGES) {
            let is_apart = self.chunk(piece.first).is_apart();
            let renewed = self.driver.renew(piece, is_apart);
            renewed.map_err(TakeBackError::System)?;
            for page in piece.pages() {
                let locked = self.lock(page);
                self.count(page, PageState::Surrendered, PageState::Virgin, 0);
                locked.reclaim();
            }
        }
        Ok(())
    }

    /// Whether a page of `pages` is surrendered.
    pub(crate) fn has_surrendered(&self, pages: PageRange) -> bool {
        let pieces = self.chunks.pieces(pages);
        let mut marked = pieces.filter(|piece| self.chunks.of(*piece).has_surrendered());
        marked.any(|piece| piece.pages().any(|page| self.is_surrendered(page)))
    }

    pub(crate) fn is_surrendered(&self, page: PageIndex) -> bool {
        self.counters.pages_in(PageState::Surrendered) > 0
            && self.chunks.of(PageRange::new(page, 1)).has_surrendered()
            && self.table.word(page).load().state() == PageState::Surrendered
    }

    /// The runs of `pages`, which lie in one chunk, that are alike: surrendered, or the pager's.
    pub(crate) fn runs_of(&self, pages: PageRange) -> impl Iterator<Item = (PageRange, bool)> {
        let is_mixed = self.chunks.of(pages).has_surrendered();
        let mut rest = pages;
        std::iter::from_fn(move || {
            if rest.count == 0 {
                return None;
            }
            let is_surrendered = is_mixed && self.is_surrendered(rest.first);
            let same = |page: &PageIndex| !is_mixed || self.is_surrendered(*page) == is_surrendered;
            let count = match is_mixed {
                true => rest.pages().take_while(same).count() as u32,
                false => rest.count,
            };
            // Another thread may surrender the first page meanwhile.
            let run = PageRange::new(rest.first, count.max(1));
            rest = PageRange::new(rest.first.plus(run.count), rest.count - run.count);
            Some((run, is_surrendered))
        })
    }

    /// The runs of `pages`, which lie in one chunk, that are the pager's.
    pub(crate) fn own_runs(&self, pages: PageRange) -> impl Iterator<Item = PageRange> {
        let runs = self.runs_of(pages);
        runs.filter_map(|(run, is_surrendered)| (!is_surrendered).then_some(run))
    }

    /// The parts of the arena, which has `pages`, that are the pager's, in a region or not.
    pub(crate) fn own_parts(&self, pages: u32) -> impl Iterator<Item = PageRange> {
        let mut next = 0;
        std::iter::from_fn(move || {
            while next < pages && self.is_surrendered(PageIndex::new(next)) {
                next += 1;
            }
            let first = next;
            next = self.next_surrendered(first, pages);
            (first < next).then(|| PageRange::new(PageIndex::new(first), next - first))
        })
    }

    /// The first surrendered page from `from` up to `end`; `end` without one.
    fn next_surrendered(&self, from: u32, end: u32) -> u32 {
        let mut page = from;
        while page < end {
            let chunk = self.chunks.find(page / CHUNK_PAGES, Chunk::has_surrendered);
            let first = page.max(chunk.saturating_mul(CHUNK_PAGES)).min(end);
            page = chunk.saturating_add(1).saturating_mul(CHUNK_PAGES).min(end);
            let found = (first..page).find(|page| self.is_surrendered(PageIndex::new(*page)));
            if let Some(found) = found {
                return found;
            }
        }
        end
    }

    /// Registers the chunk of `page` if it is native. Returns whether it is managed now: not if the kernel refuses, nor if absent
    /// pages of it are pinned.
    fn is_managed_now(&self, page: PageIndex) -> bool {
        let mut is_tried = false;
        loop {
            match self.settled_mode(page) {
                ChunkMode::Managed => return true,
                ChunkMode::Native if !is_tried => is_tried = !self.manage(page),
                _ => return false,
            }
        }
    }

    /// The mode of the chunk of a page of a region, which has a record from here on, when no thread changes it.
    pub(crate) fn settled_mode(&self, page: PageIndex) -> ChunkMode {
        loop {
            match self.chunks.with_record(page.number() / CHUNK_PAGES).mode() {
                ChunkMode::Converting | ChunkMode::Changing => self.wait_for_conversion(page),
                mode => return mode,
            }
        }
    }

    /// Waits while another thread registers the chunk of `page`.
    fn wait_for_conversion(&self, page: PageIndex) {
        let chunk = self.chunk(page);
        let mut patience = Patience::default();
        while matches!(chunk.mode(), ChunkMode::Converting | ChunkMode::Changing) {
            patience.wait();
        }
    }

    /// Ends the contents of `piece`, which lies in one chunk.
    fn end_piece(&self, piece: PageRange, ending: Ending) -> Result<(), Errno> {
        if !self.chunks.of(piece).is_touched() && ending == Ending::Virgin {
            return Ok(());
        }
        let mut blocks = piece.pieces(BLOCK);
        blocks.try_for_each(|block| self.end_block(block, ending))
    }

    /// Ends the contents of a block: of the pages that no other thread has, in runs; then of each other one, for which it
    /// waits.
    fn end_block(&self, block: PageRange, ending: Ending) -> Result<(), Errno> {
        let mut slots = [const { None }; BLOCK as usize];
        let mut is_whole = true;
        for (page, slot) in block.pages().zip(&mut slots) {
            let word = self.table.word(page);
            let seen = word.load();
            if ending.concerns(seen.state()) {
                *slot = word.try_lock(seen);
                is_whole &= slot.is_some();
            }
        }
        self.end_slots(block.first, &mut slots[..block.count as usize], ending)?;
        if is_whole {
            return Ok(());
        }
        for page in block.pages() {
            if ending.concerns(self.table.word(page).load().state()) {
                self.end_slots(page, &mut [Some(self.lock(page))], ending)?;
            }
        }
        Ok(())
    }

    /// Ends the contents of the pages in `slots`, the first of which is `first`.
    fn end_slots(&self, first: PageIndex, slots: &mut Slots<'_>, ending: Ending) -> Result<(), Errno> {
        let mut at = 0;
        while at < slots.len() {
            let area = area_of(&slots[at]);
            let alike = slots[at..].iter().take_while(|slot| area_of(slot) == area);
            let count = alike.count();
            let run = PageRange::new(first.plus(at as u32), count as u32);
            if let Some(area) = area {
                let shared = self.shared_in(area, run);
                self.driver.discard(area, run)?;
                self.budget.uncharge(count as u64);
                self.note_unshared(shared);
            }
            for (page, slot) in run.pages().zip(&mut slots[at..]) {
                if let Some(locked) = slot.take() {
                    self.end_page(page, locked, ending);
                }
            }
            at += count;
        }
        Ok(())
    }

    /// Frees the saved copy of a page without a frame, and unlocks it.
    fn end_page(&self, page: PageIndex, locked: Locked<'_>, ending: Ending) {
        let before = locked.before();
        if let Some(place) = before.place() {
            self.backing.free(page, place);
        }
        let after = match ending {
            Ending::Virgin => PageState::Virgin,
            Ending::Surrendered => PageState::Surrendered,
        };
        if before.state() != after {
            self.count(page, before.state(), after, before.priority());
        }
        match ending {
            Ending::Virgin => locked.discard(),
            Ending::Surrendered => locked.surrender(),
        }
    }

    /// Makes a page virgin: frees its saved copy and its frame. Its page in the arena, if it was active, is the caller's
    /// to drop.
    pub(crate) fn drop_contents(&self, page: PageIndex, locked: Locked<'_>) {
        let state = locked.before().state();
        if state.has_frame() {
            // It fails for locked pages alone, and those of the shadow are not.
            let _ = self.driver.discard(Area::Shadow, PageRange::new(page, 1));
        }
        if state.has_frame() || state == PageState::Active {
            self.budget.uncharge(1);
        }
        self.end_page(page, locked, Ending::Virgin);
    }
}
