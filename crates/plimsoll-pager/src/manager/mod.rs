//! The state of a pager that faults and trims share: page table, budget, pins, hands and counters.
//!
//! The functions that change it are in [`trim`](crate::trim) and [`fault`](crate::fault). All of them may run in a signal
//! handler on any thread: none allocates or takes a lock of the C library.

mod ageing;
mod budget;
mod contents;
mod counters;
mod faulters;
mod frames;
mod hand;
mod need;
mod pins;
mod refaults;
mod regions;
mod streams;
mod thrash;
mod working_sets;

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use plimsoll_os::Errno;

use crate::backing::Backing;
use crate::driver::Driver;
use crate::page::{
    CHUNK_PAGES, Chunk, ChunkMode, ChunkTable, Locked, PageIndex, PageRange, PageState, PageTable, PageWord,
    Place, saved_state,
};

pub use ageing::AgeingState;
pub(crate) use ageing::{Ageing, CLASSES, WINDOW};
pub(crate) use budget::Budget;
pub(crate) use contents::TakeBackError;
pub(crate) use counters::{Counters, Event};
pub(crate) use faulters::Faulters;
pub(crate) use frames::Scratch;
pub(crate) use hand::{BLOCK, Hand};
pub(crate) use need::Need;
pub(crate) use pins::{Pin, Pins, Purpose};
pub(crate) use refaults::Refaults;
pub(crate) use regions::Regions;
pub(crate) use streams::{MOST_AHEAD, Streams};
pub(crate) use thrash::{INTERVAL, Interval, Thrash, ThrashStats, Totals};
pub use thrash::{ThrashControl, ThrashStep};
pub use working_sets::WorkingSetError;
pub(crate) use working_sets::{WorkingSet, WorkingSets};

/// The rule by which a pager trims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum TrimMode {
    /// A thread keeps a stock of spare frames, and trims in batches when it runs low (NT's balance-set manager).
    #[default]
    BalanceSet = 0,
    /// Each fault at the cap trims one page, saves it and releases its frame, and streams restore nothing ahead: the
    /// pathological mode of a working set with a hard limit, for experiments. A fault trims another page only if the store
    /// needed the frame of the first.
    PerFault = 1,
}

/// The state of one pager.
///
/// Invariants, while no page is busy:
/// 1. A page has a present page in the arena if and only if it is active or its chunk is native, a frame in the shadow if
///    and only if it is modified or standby, and a saved copy that belongs to it alone if and only if it is standby,
///    compressed or page-file.
/// 2. The budget's frames are the pages of managed chunks that are active, modified or standby.
/// 3. The counters of states, of chunks and of the pager, equal the words.
/// 4. A surrendered page has no frame, no saved copy and no charge, and its chunk is managed; the driver touches the page in
///    the arena by no call.
///
/// Checked by `counters_agree_with_the_words_after_any_sequence`.
pub(crate) struct Manager<D, B> {
    pub(crate) table: PageTable,
    pub(crate) chunks: ChunkTable,
    pub(crate) driver: D,
    pub(crate) backing: B,
    pub(crate) budget: Budget,
    pub(crate) pins: Pins,
    pub(crate) streams: Streams,
    pub(crate) faulters: Faulters,
    /// Pages of the budget that this process shares with its parent, which pays for them.
    pub(crate) inherited: AtomicU64,
    /// Shared pages that this process copied or released, while it had inherited ones.
    pub(crate) copies: AtomicU64,
    pub(crate) counters: Counters,
    pub(crate) scratch: Scratch<1, 64>,
    /// For pages that are restored ahead: few, as each takes 128 KiB of the budget until the pager ends. A thread that finds none restores
    /// nothing ahead.
    pub(crate) run_scratch: Scratch<{ MOST_AHEAD as usize }, 6>,
    /// From active to modified.
    pub(crate) trim_hand: Hand,
    /// From modified to standby.
    pub(crate) save_hand: Hand,
    /// From standby to a free frame.
    pub(crate) take_hand: Hand,
    /// The chunk at which the next look for mostly unused native ones begins.
    pub(crate) look_hand: AtomicU32,
    /// Pages below which all regions are.
    extent: AtomicU32,
    /// Chunks of which a word was ever written.
    touched_chunks: AtomicU32,
    /// The rule by which faults at the cap trim.
    trim_mode: AtomicU8,
    /// Wakes the balance-set manager: 1 while it has work.
    wake: AtomicU32,
    /// Faults on pages whose frame was taken or released.
    pub(crate) refaults: Refaults,
    pub(crate) regions: Regions,
    pub(crate) working_sets: WorkingSets,
    pub(crate) ageing: Ageing,
    /// Faults that wait for a larger budget.
    pub(crate) need: Need,
    pub(crate) thrash: Thrash,
}

impl<D: Driver, B: Backing> Manager<D, B> {
    /// A manager of `pages` pages, all of which are in no region, under a budget of `ram` bytes.
    pub(crate) fn new(driver: D, backing: B, pages: u32, ram: u64) -> Result<Manager<D, B>, Errno> {
        Ok(Manager {
            table: PageTable::new(pages)?,
            chunks: ChunkTable::new(pages)?,
            driver,
            backing,
            budget: Budget::new(ram),
            pins: Pins::new(),
            streams: Streams::new(),
            faulters: Faulters::default(),
            inherited: AtomicU64::new(0),
            copies: AtomicU64::new(0),
            counters: Counters::default(),
            scratch: Scratch::new()?,
            run_scratch: Scratch::new()?,
            trim_hand: Hand::default(),
            save_hand: Hand::default(),
            take_hand: Hand::default(),
            look_hand: AtomicU32::new(0),
            extent: AtomicU32::new(0),
            touched_chunks: AtomicU32::new(0),
            trim_mode: AtomicU8::new(TrimMode::BalanceSet as u8),
            wake: AtomicU32::new(0),
            refaults: Refaults::new(ram),
            regions: Regions::default(),
            working_sets: WorkingSets::new(),
            ageing: Ageing::default(),
            need: Need::default(),
            thrash: Thrash::default(),
        })
    }

    /// Pages below which all regions are.
    pub(crate) fn extent(&self) -> u32 {
        self.extent.load(Ordering::Relaxed)
    }

    /// The word of [`Manager::extent`], which other processes read.
    pub(crate) fn extent_word(&self) -> &AtomicU32 {
        &self.extent
    }

    /// The rule by which faults at the cap trim.
    pub(crate) fn trim_mode(&self) -> TrimMode {
        match self.trim_mode.load(Ordering::Relaxed) {
            1 => TrimMode::PerFault,
            _ => TrimMode::BalanceSet,
        }
    }

    /// Changes the rule by which faults at the cap trim.
    pub(crate) fn set_trim_mode(&self, mode: TrimMode) {
        self.trim_mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Wakes the balance-set manager, if it sleeps.
    pub(crate) fn wake_balancer(&self) {
        if self.wake.load(Ordering::Relaxed) == 0 && self.wake.swap(1, Ordering::AcqRel) == 0 {
            plimsoll_os::futex_wake(&self.wake, 1);
        }
    }

    /// Sleeps until [`Manager::wake_balancer`], or for `limit`.
    pub(crate) fn wait_for_work(&self, limit: Duration) {
        if self.wake.load(Ordering::Acquire) == 0 {
            plimsoll_os::futex_wait(&self.wake, 0, Some(limit));
        }
        self.wake.store(0, Ordering::Release);
    }

    pub(crate) fn chunk(&self, page: PageIndex) -> &Chunk {
        self.chunks.of(PageRange::new(page, 1))
    }

    /// The pages of each chunk with present pages in one of the areas.
    pub(crate) fn chunks_with_frames(&self) -> impl Iterator<Item = PageRange> {
        let has_frames = |chunk: &Chunk| match chunk.mode() {
            ChunkMode::Unused => false,
            ChunkMode::Native | ChunkMode::Converting | ChunkMode::Changing => true,
            ChunkMode::Managed => [PageState::Active, PageState::Modified, PageState::Standby]
                .iter()
                .any(|state| chunk.pages_in(*state) > 0),
        };
        let chunks = self.chunks.with_records();
        chunks
            .filter(move |(_, chunk)| has_frames(chunk))
            .map(|(number, chunk)| PageRange::new(PageIndex::new(number * CHUNK_PAGES), chunk.pages()))
    }

    /// Counts a page that went from one state to another, with its standby priority. Called before it is unlocked.
    pub(crate) fn count(&self, page: PageIndex, from: PageState, to: PageState, priority: u8) {
        let chunk = match from {
            PageState::Virgin => self.chunks.with_record(page.number() / CHUNK_PAGES),
            _ => self.chunk(page),
        };
        if from == PageState::Virgin && chunk.touch() {
            self.touched_chunks.fetch_add(1, Ordering::Relaxed);
        }
        chunk.count(from, to);
        self.counters.count_state(from, to, priority);
    }

    /// Bytes of RAM that the pager may not give to frames: the store, and metadata.
    pub(crate) fn overhead_bytes(&self) -> u64 {
        self.backing.used_bytes() + self.metadata_bytes()
    }

    /// Bytes of RAM of the words of touched chunks, of the records of chunks, and of scratch pages.
    pub(crate) fn metadata_bytes(&self) -> u64 {
        let words = CHUNK_PAGES as usize * size_of::<PageWord>();
        let words = u64::from(self.touched_chunks.load(Ordering::Relaxed)) * words as u64;
        words + self.chunks.bytes(self.extent()) + self.scratch.bytes() + self.run_scratch.bytes()
    }

    /// Whether the store may grow: a part of the budget, a 16th, stays with frames, as no program works without any.
    pub(crate) fn store_may_grow(&self) -> bool {
        let ram = self.budget.ram();
        self.overhead_bytes() + self.budget.reserve() < ram - ram / 16
    }

    /// Opens a region on `pages`, which begin at a chunk and belong to no region. It stays native while all native pages
    /// fit into the budget; else it is sparse, and faults come to the pager from the start.
    ///
    /// # Errors
    /// The kernel refuses the mappings; nothing is left behind.
    pub(crate) fn open(&self, pages: PageRange) -> Result<(), Errno> {
        self.driver.open(pages)?;
        self.extent.fetch_max(pages.end(), Ordering::Relaxed);
        let native = self
            .budget
            .reserve_native(u64::from(pages.count), self.overhead_bytes());
        if !native && let Err(errno) = self.driver.register(pages) {
            let _ = self.driver.close(pages);
            return Err(errno);
        }
        match native {
            true => self.chunks.open(pages, ChunkMode::Native),
            false => self.chunks.open_sparse(pages),
        }
        self.regions.open(pages.count);
        Ok(())
    }

    /// Touches `pages`, native ones, so that the kernel or the handler makes them present.
    pub(crate) fn touch(&self, pages: PageRange) {
        self.driver.populate(pages);
    }

    /// Locks a page, and waits while it is busy. The caller holds no other page busy.
    pub(crate) fn lock(&self, page: PageIndex) -> Locked<'_> {
        let word = self.table.word(page);
        let mut patience = Patience::default();
        loop {
            if let Some(locked) = word.try_lock(word.load()) {
                return locked;
            }
            patience.wait();
        }
    }

    /// Waits for each page that is busy, for a short time at most. The caller holds no page busy.
    pub(crate) fn wait_for_busy(&self, pages: PageRange) {
        const MOST_WAITS: u32 = 1000;
        for page in pages.pages() {
            let mut patience = Patience::default();
            while self.table.word(page).load().state() == PageState::Busy && patience.waits() < MOST_WAITS {
                patience.wait();
            }
        }
    }

    /// Whether one of the pages is on standby or busy.
    pub(crate) fn has_standby_or_busy(&self, pages: PageRange) -> bool {
        let mut states = pages.pages().map(|page| self.table.word(page).load().state());
        states.any(|state| matches!(state, PageState::Standby | PageState::Busy))
    }

    /// Moves a saved copy of `owner` if it still is at `old`: the store calls it while it cleans. Returns whether the page
    /// now has its copy at `new`; if not, the copy at `old` stays valid.
    pub(crate) fn relocate(&self, owner: PageIndex, old: Place, new: Place) -> bool {
        let word = self.table.word(owner);
        let seen = word.load();
        let Some(locked) = (seen.place() == Some(old)).then(|| word.try_lock(seen)).flatten() else {
            return false;
        };
        let tier = self.backing.tier(new);
        let before = seen.state();
        let after = match before {
            PageState::Standby => PageState::Standby,
            _ => saved_state(tier),
        };
        self.count(owner, before, after, seen.priority());
        locked.relocate(new, tier);
        true
    }
}

/// Waits for another thread, first for a short time, then for longer ones.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    waits: u32,
}

impl Patience {
    /// Waits once.
    pub(crate) fn wait(&mut self) {
        self.waits = self.waits.saturating_add(1);
        match self.waits {
            0..=32 => std::hint::spin_loop(),
            33..=96 => plimsoll_os::yield_processor(),
            // A thread with a real-time priority would never let the holder run.
            _ => plimsoll_os::sleep_briefly(std::time::Duration::from_micros(50)),
        }
    }

    /// How often it has waited.
    pub(crate) fn waits(&self) -> u32 {
        self.waits
    }
}
