//! Counters of a pager at one time.

mod derived;

use crate::backing::{Backing, PageFileUse};
use crate::driver::Driver;
use crate::manager::{AgeingState, Budget, Counters, Event, Manager, ThrashStep};
use crate::page::{PAGE_SIZE, PageState};

pub(crate) use derived::Derived;

/// Pages by state, bytes of RAM, and events since the pager was built.
///
/// States change while they are read; in a pager at rest the counters agree with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes of the budget.
    pub ram: u64,
    /// Pages of regions whose faults the kernel still resolves: they count as resident.
    pub native_pages: u64,
    /// Pages in the working set.
    pub active_pages: u64,
    /// Trimmed pages whose frame is the only copy.
    pub modified_pages: u64,
    /// Trimmed and saved pages whose frame is still there, by priority.
    pub standby_pages: [u64; 8],
    /// Pages in the compressed store alone.
    pub compressed_pages: u64,
    /// Pages in the page file alone.
    pub page_file_pages: u64,
    /// Pages of pinned ranges.
    pub pinned_pages: u64,
    /// Pages of suspended regions.
    pub suspended_pages: u64,
    /// Bytes of RAM of the compressed store.
    pub store_bytes: u64,
    /// Bytes of RAM of the page table, chunks and scratch pages.
    pub metadata_bytes: u64,
    /// Frames that were charged over the budget, as nothing could be reclaimed.
    pub forced_frames: u64,
    /// Faults on pages that were never touched.
    pub zero_faults: u64,
    /// Faults on modified and standby pages.
    pub soft_faults: u64,
    /// Faults on compressed and page-file pages.
    pub hard_faults: u64,
    /// Evicted pages that were restored: by hard faults, and ahead of them by streams.
    pub refaults: u64,
    /// Microseconds that all threads together waited for evicted pages.
    pub stall_us: u64,
    /// Pages restored ahead of the fault of a stream.
    pub stream_pages: u64,
    /// Faults whose page another thread had made present.
    pub spurious_faults: u64,
    /// Pages moved to the modified list.
    pub trimmed_pages: u64,
    /// Pages whose copy the store or the page file took.
    pub saved_pages: u64,
    /// Saves that the store refused.
    pub refused_saves: u64,
    /// Standby frames given to other pages.
    pub taken_frames: u64,
    /// Standby frames returned to the kernel.
    pub released_frames: u64,
    /// Attempts to trim a page that is shared by a fork, pinned by a device, or locked.
    pub unmovable_pages: u64,
    /// Pages shared by a fork that were trimmed after they became copies of their own.
    pub unshared_pages: u64,
    /// Moves that the kernel ended early.
    pub partial_moves: u64,
    /// Pages restored by a copy of their frame, as it could not be moved.
    pub copied_frames: u64,
    /// Batches that faulting threads trimmed by themselves.
    pub direct_reclaims: u64,
    /// Calls that failed as the kernel had no memory.
    pub no_memory: u64,
    /// Present pages of native regions that the pager took over.
    pub adopted_pages: u64,
    /// Whether the pager sees the accesses to its chunks.
    pub ageing: AgeingState,
    /// Windows of ageing that ended.
    pub ageing_windows: u64,
    /// Microseconds of CPU time of these.
    pub ageing_us: u64,
    /// Chunks by class of heat at the end of the last window, the coldest first.
    pub heat_chunks: [u64; 8],
    /// The state of thrash control.
    pub thrash_step: ThrashStep,
    /// Microseconds in each step, by number.
    pub thrash_us: [u64; ThrashStep::ALL.len()],
    /// Microseconds that throttled threads waited.
    pub throttled_us: u64,
    /// Percent of the last quarter of a second's faults on evicted pages that the thread with the most of them had.
    pub worst_faulter_percent: u64,
    /// Trials of a measure against thrashing, and those of them whose measure was kept.
    pub thrash_trials: u64,
    /// See [`Stats::thrash_trials`].
    pub kept_trials: u64,
    /// The page file, if the pager has one.
    pub page_file: Option<PageFileUse>,
}

impl Stats {
    /// Bytes of RAM that the pager occupies: pages, frames, store and metadata.
    pub fn resident_bytes(&self) -> u64 {
        // Counters of another process may be anything.
        let frames = [self.native_pages, self.active_pages, self.modified_pages];
        let frames = frames
            .into_iter()
            .chain(self.standby_pages)
            .fold(0, u64::saturating_add);
        let bytes = frames.saturating_mul(PAGE_SIZE as u64);
        bytes
            .saturating_add(self.store_bytes)
            .saturating_add(self.metadata_bytes)
    }
}

impl<D: Driver, B: Backing> Manager<D, B> {
    pub(crate) fn stats(&self) -> Stats {
        Stats::of(&self.counters, &self.budget, self.pins.pages(), self.derived())
    }

    /// The counters that no single atomic holds, now.
    pub(crate) fn derived(&self) -> Derived {
        Derived {
            store_bytes: self.backing.used_bytes(),
            metadata_bytes: self.metadata_bytes(),
            suspended_pages: self.regions.suspended(),
            refaults: self.refaults.count(),
            stall_us: u64::try_from(self.refaults.stall().as_micros()).unwrap_or(u64::MAX),
            ageing: self.ageing.state(),
            ageing_windows: self.ageing.windows(),
            ageing_us: self.ageing.cost_us(),
            heat_chunks: self.ageing.classes(),
            thrash: self.thrash.stats(),
            page_file: self.backing.page_file(),
        }
    }
}

impl Stats {
    /// The counters of a pager: this process's, or one that was copied from another process.
    pub(crate) fn of(counters: &Counters, budget: &Budget, pinned_pages: u64, derived: Derived) -> Stats {
        let pages = |state| counters.pages_in(state);
        let events = |event| counters.of(event);
        Stats {
            ram: budget.ram(),
            native_pages: budget.native(),
            active_pages: pages(PageState::Active),
            modified_pages: pages(PageState::Modified),
            standby_pages: [0, 1, 2, 3, 4, 5, 6, 7].map(|priority| counters.standby(priority)),
            compressed_pages: pages(PageState::Compressed),
            page_file_pages: pages(PageState::PageFile),
            pinned_pages,
            suspended_pages: derived.suspended_pages,
            store_bytes: derived.store_bytes,
            metadata_bytes: derived.metadata_bytes,
            forced_frames: budget.forced(),
            zero_faults: events(Event::ZeroFault),
            soft_faults: events(Event::SoftFault),
            hard_faults: events(Event::HardFault),
            refaults: derived.refaults,
            stall_us: derived.stall_us,
            stream_pages: events(Event::StreamPage),
            spurious_faults: events(Event::SpuriousFault),
            trimmed_pages: events(Event::Trimmed),
            saved_pages: events(Event::Saved),
            refused_saves: events(Event::Refused),
            taken_frames: events(Event::FrameTaken),
            released_frames: events(Event::FrameReleased),
            unmovable_pages: events(Event::Unmovable),
            unshared_pages: events(Event::Unshared),
            partial_moves: events(Event::PartialMove),
            copied_frames: events(Event::CopiedFrame),
            direct_reclaims: events(Event::DirectReclaim),
            no_memory: events(Event::NoMemory),
            ageing: derived.ageing,
            ageing_windows: derived.ageing_windows,
            ageing_us: derived.ageing_us,
            heat_chunks: derived.heat_chunks,
            thrash_step: derived.thrash.step,
            thrash_us: derived.thrash.step_us,
            throttled_us: derived.thrash.throttled_us,
            worst_faulter_percent: derived.thrash.worst_percent,
            thrash_trials: derived.thrash.trials,
            kept_trials: derived.thrash.kept,
            page_file: derived.page_file,
            adopted_pages: events(Event::Adopted),
        }
    }
}
