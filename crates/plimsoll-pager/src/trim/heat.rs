//! Ageing: the heat of chunks, by which the trimmer passes them.
//!
//! A window begins as the kernel forgets the accesses to the active pages of each chunk, and ends as it tells which of them
//! were accessed since. A chunk is accessed if that was one in [`FEW`] at least, or if faults made as many pages active: a chunk
//! that the trimmer empties again and again has no page to see. The trimmer takes pages of the coldest chunks first; which
//! pages of a chunk stay is decided by soft faults.
//!
//! The kernel tells accesses by mapping, so neighbouring chunks must not be one: of two, one is registered for
//! write-protection as well, which nothing uses.

use std::time::Duration;

use plimsoll_os::{Errno, thread_time};

use crate::backing::Backing;
use crate::driver::{Accesses, Driver};
use crate::manager::{AgeingState, CLASSES, Event, Manager};
use crate::page::{CHUNK_PAGES, Chunk, ChunkMode, PageIndex, PageRange, PageState};

/// A chunk with fewer accessed pages than one in so many is not accessed.
const FEW: u64 = 16;
/// The most chunks that are set apart: each adds up to two mappings of the 65530 that a process may have.
pub(crate) const MOST_APART: usize = 8192;

impl<D: Driver, B: Backing> Manager<D, B> {
    /// Ends the open window if it is over, and begins the next one if pages were trimmed since the last one began. `now` is the
    /// time since the pager was built. For the thread of the balance-set manager alone, while no region is closed.
    pub(crate) fn age_chunks(&self, now: Duration) {
        if self.ageing.state() != AgeingState::On {
            return;
        }
        let mut plan = self.ageing.plan();
        // Not the time that passes: on a busy machine, windows would be so long that each chunk is used in each of them.
        let start = thread_time();
        let since = || thread_time().saturating_sub(start);
        let mut spent = Duration::ZERO;
        if let Some(due) = plan.due {
            if now < due {
                return;
            }
            plan.due = None;
            self.end_window();
            spent = since();
            plan.cost += spent;
            self.ageing.add_cost(spent);
        }
        // Without trims no order of chunks is needed.
        let trimmed = self.counters.of(Event::Trimmed);
        if trimmed == plan.trimmed || self.ageing.state() != AgeingState::On {
            return;
        }
        plan.trimmed = trimmed;
        plan.due = Some(now + plan.length());
        self.begin_window();
        plan.cost = since().saturating_sub(spent);
        self.ageing.add_cost(plan.cost);
    }

    /// Has the kernel forget all accesses to chunks with active pages.
    fn begin_window(&self) {
        // Those of closed regions are merged again.
        let mut apart = self.aged_chunks().filter(|(_, chunk)| chunk.is_apart()).count();
        let mut is_known = false;
        let mut is_refused = false;
        for (number, chunk) in self.aged_chunks() {
            // Those since the last window.
            chunk.take_faults();
            if !self.is_in_use(number) {
                continue;
            }
            for odd in [number | 1, number.saturating_sub(1) | 1] {
                if apart < MOST_APART && self.set_apart(odd) {
                    apart += 1;
                }
            }
            for run in self.own_runs(pages_of(number, chunk)) {
                match self.driver.forget_accesses(run) {
                    Ok(()) => is_known = true,
                    Err(_) => is_refused = true,
                }
            }
        }
        if is_refused && !is_known {
            self.ageing.set_state(AgeingState::Unsupported);
        }
    }

    /// Sets a managed chunk apart from its neighbours, unless it is. Returns whether it did.
    fn set_apart(&self, number: u32) -> bool {
        if number as usize >= self.chunks.all().len() || self.chunks.mode(number) != ChunkMode::Managed {
            return false;
        }
        let chunk = self.chunks.with_record(number);
        // Another thread may commit it.
        if chunk.is_apart() || chunk.mode() != ChunkMode::Managed {
            return false;
        }
        let mut runs = self.own_runs(pages_of(number, chunk));
        match runs.try_for_each(|run| self.driver.set_apart(run)) {
            Ok(()) => {
                chunk.set_apart();
                true
            }
            Err(Errno::OPNOTSUPP) => {
                self.ageing.set_state(AgeingState::Unsupported);
                false
            }
            // The chunk shares the heat of its neighbours.
            Err(_) => {
                self.counters.add(Event::NoMemory, 1);
                false
            }
        }
    }

    /// Reads the accesses since the window began, and makes chunks hotter and colder by them.
    fn end_window(&self) {
        let aged: Vec<u32> = self.aged_chunks().map(|(number, _)| number).collect();
        let mut seen = vec![Accesses::default(); aged.len()];
        let read = self.driver.accesses(&mut |pages, accesses| {
            // Chunks that are one mapping have the accesses of all of it.
            let first = aged.partition_point(|number| *number < pages.first.number() / CHUNK_PAGES);
            let end = aged.partition_point(|number| *number < pages.end().div_ceil(CHUNK_PAGES));
            for sum in &mut seen[first..end] {
                sum.present = sum.present.saturating_add(accesses.present);
                sum.accessed = sum.accessed.saturating_add(accesses.accessed);
            }
        });
        if read.is_err() {
            self.ageing.set_state(AgeingState::Unsupported);
            return;
        }
        let mut classes = [0; CLASSES];
        for (number, Accesses { present, accessed }) in aged.into_iter().zip(seen) {
            let chunk = &self.chunks.all()[number as usize];
            let is_seen = accessed > 0 && accessed.saturating_mul(FEW) >= present && self.is_in_use(number);
            let faults = u64::from(chunk.take_faults());
            chunk.end_window(is_seen || (faults > 0 && faults * FEW >= u64::from(chunk.pages())));
            classes[usize::from(chunk.heat())] += 1;
        }
        self.ageing.end_window(classes);
        self.ageing.restart();
    }

    /// Managed chunks with records, with their numbers.
    fn aged_chunks(&self) -> impl Iterator<Item = (u32, &Chunk)> {
        let chunks = self.chunks.with_records();
        chunks.filter(|(_, chunk)| chunk.mode() == ChunkMode::Managed)
    }

    /// Whether a chunk has active pages.
    fn is_in_use(&self, number: u32) -> bool {
        self.chunks.all()[number as usize].pages_in(PageState::Active) > 0
    }
}

/// The pages of a region in the chunk of this number.
fn pages_of(number: u32, chunk: &Chunk) -> PageRange {
    PageRange::new(PageIndex::new(number * CHUNK_PAGES), chunk.pages())
}
