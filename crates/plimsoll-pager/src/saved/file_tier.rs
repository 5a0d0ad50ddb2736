//! Segments of the store in the page file: those that were idle longest move there whole.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use plimsoll_os::{Advice, Errno, Mapping};

use super::deferred::{Creation, FilePlan};
use super::files::{CountedFile, Files};
use super::relocate;
use crate::backing::{Owners, PageFileUse, Room};
use crate::page_file::{
    BLOCK_BYTES, Batch, Block, Completed, NewFile, PageFile, ReadError, SLOT_BYTES, SLOTS_PER_WRITE, Segment,
    Slot, StartError, State, Writer,
};
use crate::store::{Blocks, FOUND, SEGMENT, Spill, Store};

/// The most writes in flight.
const MOST_WRITES: usize = 4;

/// Slots that spills leave free: cleaning of the page file writes to one before it frees others.
const KEPT_SLOTS: u32 = 1;

/// Seconds without a write after which buffers and free disk space are returned.
const REST: u32 = 8;

/// Segments that cleaning writes for a spill that finds no free slot.
const CLEANED_AT_ONCE: u32 = 4;

/// The page file of a pager.
///
/// A child of a fork reads the files of its ancestors, and writes to its own. That file is deferred ([`Creation`]), as is the
/// file of a pager with [`PagerBuilder::defer_page_file`](crate::PagerBuilder::defer_page_file).
///
/// Invariant: a slot is in use exactly while a page's word names it, or a thread with the lock of `worker` fills it
/// ([`SlotCounts`](super::slot_counts::SlotCounts)).
pub(crate) struct FileTier {
    pub(super) files: Files,
    /// The deferred file.
    pub(super) creation: Creation,
    /// The state of spills. It is tried, and never waited for: signal handlers use it.
    worker: Mutex<Worker>,
    /// Segments of a write.
    segments: usize,
    /// Writes in flight.
    writes: usize,
    /// Bytes of RAM of file, counts and buffers.
    bytes: AtomicU64,
    /// Whether no slot was free, and none has been freed since.
    is_full: AtomicBool,
}

/// Segments of memory that cleaning needs: one to read, one to write.
const CLEANED_SEGMENTS: usize = 2;

/// Slots with less than so many of 256 of their pages in use are cleaned if no other slot is free, and ahead of that.
const MOST_LIVE: u64 = 256 / 8 * 7;
const MOST_LIVE_AHEAD: u64 = 256 / 2;

/// The slots and units from which the entries of a segment come, in their order.
pub(super) struct Sources(pub(super) Vec<crate::store::Place>);

impl Sources {
    /// Entries of a segment: none has less than three units of 8 bytes.
    pub(super) const MOST: usize = SEGMENT / 24;
    const BYTES: u64 = (Sources::MOST * size_of::<crate::store::Place>()) as u64;

    fn new() -> Sources {
        Sources(Vec::with_capacity(Sources::MOST))
    }
}

/// The part of a page file that one thread at a time uses.
pub(super) struct Worker {
    /// None before a file is created, in this process or in an ancestor.
    pub(super) writer: Option<Writer>,
    /// Segments that are about to be encrypted, or cleaned.
    pub(super) plain: Mapping,
    /// The places of the entries of a segment that is cleaned.
    pub(super) sources: Sources,
    /// Seconds since the last write.
    idle: u32,
    /// The deferred file of this process, while it is not created.
    pub(super) new: Option<NewFile>,
}

/// A write in flight, and the segments in RAM that it is of.
struct Flight<'s> {
    batch: Batch,
    spills: Spills<'s>,
}

type Spills<'s> = [Option<Spill<'s>>; SLOTS_PER_WRITE];
type Flights<'s> = [Option<Flight<'s>>; MOST_WRITES];

/// The reason why no write was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// No segment can move.
    Nothing,
    /// No slot is free.
    Full,
    /// The page file does not write any more.
    Failed,
}

impl fmt::Debug for FileTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTier").field("files", &self.files).finish()
    }
}

/// `bytes` of reads are aligned to pages.
impl Blocks for FileTier {
    type Error = ReadError;

    fn seal(&self, slot: u32, block: usize) -> u64 {
        let block = self.block_of(slot, block);
        block.map_or(0, |(file, block)| file.seal(file.file.seal(block)))
    }

    fn read(&self, slot: u32, block: usize, bytes: &mut [u8; BLOCK_BYTES]) -> Result<(), ReadError> {
        match self.block_of(slot, block) {
            Some((file, block)) => file.file.read_block_to(block, bytes),
            None => {
                // No place names such a block, and zeros are no entry.
                bytes.fill(0);
                Ok(())
            }
        }
    }
}

impl FileTier {
    /// A page file for a pager with `ram` bytes. Its buffers take a 32nd of that at most, but 128 KiB at least.
    ///
    /// # Errors
    /// The kernel has no room for the tables.
    pub(crate) fn new(file: PageFile, writer: Writer, ram: u64) -> Result<FileTier, Errno> {
        let tier = FileTier::without_file(ram)?;
        if let Some(mut worker) = tier.worker() {
            tier.take(&mut worker, file, writer)?;
            tier.publish(&worker);
        }
        Ok(tier)
    }

    /// As [`FileTier::new`], with an open file that becomes a page file on first use.
    ///
    /// # Errors
    /// The kernel has no room for a buffer.
    pub(crate) fn deferred(new: NewFile, plan: FilePlan, ram: u64) -> Result<FileTier, Errno> {
        let tier = FileTier::without_file(ram)?.with_plan(plan);
        if let Some(mut worker) = tier.worker() {
            tier.keep_open(&mut worker, new);
            tier.publish(&worker);
        }
        Ok(tier)
    }

    fn without_file(ram: u64) -> Result<FileTier, Errno> {
        let (segments, writes) = plan(ram);
        let plain = Mapping::anonymous(segments.max(CLEANED_SEGMENTS) * SEGMENT)?;
        // A huge page would make more resident than is counted. A kernel without them refuses.
        let _ = plain.advise(Advice::NoHugePage);
        Ok(FileTier {
            files: Files::none(),
            creation: Creation::default(),
            worker: Mutex::new(Worker {
                writer: None,
                plain,
                sources: Sources::new(),
                idle: 0,
                new: None,
            }),
            segments,
            writes,
            bytes: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
        })
    }

    /// The same, with a plan of the file that this process, or a child of a fork, is to create.
    pub(crate) fn with_plan(self, plan: FilePlan) -> FileTier {
        FileTier {
            creation: Creation::of(plan),
            ..self
        }
    }

    /// Takes a page file, which is this process's own.
    ///
    /// # Errors
    /// The kernel has no room for its counts.
    pub(super) fn take(&self, worker: &mut Worker, file: PageFile, mut writer: Writer) -> Result<(), Errno> {
        self.files.add(file)?;
        writer.keep_slots(KEPT_SLOTS);
        writer.count_buffers(self.writes, self.segments);
        // The writer of a parent's file: its end would touch mappings that the kernel did not copy.
        std::mem::forget(worker.writer.replace(writer));
        self.is_full.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn block_of(&self, slot: u32, block: usize) -> Option<(&CountedFile, Block)> {
        let (file, slot) = self.files.find(slot)?;
        Some((file, slot.block_at(block * BLOCK_BYTES)?))
    }

    /// Prepares a fork with a child that has a copy of this value.
    ///
    /// # Errors
    /// The process can open no further descriptor.
    pub(super) fn begin_fork(&self) -> Result<(), Errno> {
        self.files.iter().try_for_each(|file| file.file.begin_fork())
    }

    pub(super) fn write_bytes(&self) -> u64 {
        (self.segments * SEGMENT) as u64
    }

    /// Bytes of RAM of file, counts and buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether a spill can succeed.
    pub(super) fn takes_more(&self) -> bool {
        match self.files.last().map(|last| last.file.state()) {
            Some(State::Failed(_)) => false,
            None | Some(State::OfParent) => self.creation.is_pending(),
            Some(_) => !self.is_full.load(Ordering::Relaxed),
        }
    }

    /// The worker, if no thread has it.
    pub(super) fn worker(&self) -> Option<MutexGuard<'_, Worker>> {
        match self.worker.try_lock() {
            Ok(worker) => Some(worker),
            // A thread that panicked left its writes to the next one.
            Err(TryLockError::Poisoned(worker)) => Some(worker.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn publish(&self, worker: &Worker) {
        let buffers = worker.plain.len() as u64 + Sources::BYTES;
        // Those of the first file count before it is created, so that they are in the budget then.
        let reserved_buffers = match worker.writer.is_none() && worker.new.is_some() {
            true => (self.writes * self.segments * SEGMENT) as u64,
            false => 0,
        };
        let files: u64 = self.files.iter().map(CountedFile::bytes).sum();
        let bytes = files + buffers + reserved_buffers + size_of::<FileTier>() as u64;
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Frees a page of a slot, which places have that number for.
    pub(super) fn free_page(&self, number: u32) {
        if let Some((file, slot)) = self.files.find(number)
            && file.counts.remove(slot)
        {
            self.free_slot(file, slot);
        }
    }

    /// Frees a slot that no page is in.
    pub(super) fn free_slot(&self, file: &CountedFile, slot: Slot) {
        // It holds data: the thread that counted its last page out is the only one that frees it.
        let freed = file.file.free(slot);
        debug_assert!(freed.is_ok());
        self.is_full.store(false, Ordering::Relaxed);
    }

    /// As [`Backing::spill`](crate::backing::Backing::spill).
    pub(super) fn spill(&self, store: &Store, bytes: u64, owners: &dyn Owners) -> Room {
        let Some(mut worker) = self.worker() else {
            return Room::Busy;
        };
        if let Err(room) = self.prepare(&mut worker) {
            return room;
        }
        worker.idle = 0;
        let (mut moved, mut stop) = self.write_idle(store, &mut worker, bytes, owners);
        if stop == Some(Stop::Full) {
            let freed = self.clean(&mut worker, owners, MOST_LIVE, CLEANED_AT_ONCE);
            if freed > 0 && moved == 0 {
                (moved, stop) = self.write_idle(store, &mut worker, bytes, owners);
            }
            if freed == 0 && stop == Some(Stop::Full) {
                self.is_full.store(true, Ordering::Relaxed);
            }
        }
        self.publish(&worker);
        match moved {
            0 => Room::None,
            _ => Room::Made,
        }
    }

    /// Writes the segments that were idle longest, about `bytes` of them, several writes at a time, and waits for them.
    /// Returns the pages that moved, and the reason why it ended early.
    fn write_idle(
        &self,
        store: &Store,
        worker: &mut Worker,
        bytes: u64,
        owners: &dyn Owners,
    ) -> (u64, Option<Stop>) {
        let mut flights: Flights<'_> = [const { None }; MOST_WRITES];
        let (mut left, mut moved, mut stop) = (bytes, 0, None);
        loop {
            let free = flights[..self.writes].iter_mut().find(|flight| flight.is_none());
            if let Some(free) = free
                && left > 0
                && stop.is_none()
            {
                match self.start(store, worker) {
                    Ok(flight) => {
                        let segments = flight.spills.iter().flatten().count();
                        left = left.saturating_sub((segments * SEGMENT) as u64);
                        *free = Some(flight);
                    }
                    Err(reason) => stop = Some(reason),
                }
                continue;
            }
            let completed = worker.writer.as_mut().and_then(|writer| writer.complete(true));
            let Some(completed) = completed else {
                return (moved, stop);
            };
            moved += self.finish(&completed, &mut flights, owners);
        }
    }

    /// Starts the write of the segments that were idle longest.
    fn start<'s>(&self, store: &'s Store, worker: &mut Worker) -> Result<Flight<'s>, Stop> {
        let Some(writer) = &mut worker.writer else {
            return Err(Stop::Failed);
        };
        let (plain, _) = worker.plain.bytes_mut().as_chunks_mut::<SEGMENT>();
        let mut spills: Spills<'s> = [const { None }; SLOTS_PER_WRITE];
        let mut count = take_idle(store, &mut plain[..self.segments], &mut spills);
        if count == 0 {
            // All copies may be in segments that are not full.
            store.close_segments();
            count = take_idle(store, &mut plain[..self.segments], &mut spills);
        }
        while count > 0 {
            let segments: [&Segment; SLOTS_PER_WRITE] =
                std::array::from_fn(|number| &plain[number.min(count - 1)]);
            match writer.start(&segments[..count]) {
                Ok(batch) => return Ok(Flight { batch, spills }),
                Err(StartError::Full { free, .. }) if free < count as u64 => {
                    // The others stay in RAM.
                    count = free as usize;
                    spills[count..].fill_with(|| None);
                    if count == 0 {
                        return Err(Stop::Full);
                    }
                }
                Err(StartError::Full { .. }) => return Err(Stop::Full),
                Err(_) => return Err(Stop::Failed),
            }
        }
        Err(Stop::Nothing)
    }

    /// Moves the pages of a write that is complete. Returns their number.
    fn finish(&self, completed: &Completed, flights: &mut Flights<'_>, owners: &dyn Owners) -> u64 {
        let of_batch = |flight: &&mut Option<Flight<'_>>| {
            flight
                .as_ref()
                .is_some_and(|flight| flight.batch == completed.batch)
        };
        let flight = flights.iter_mut().find(of_batch).and_then(Option::take);
        // After an error the segments stay in RAM.
        let (Ok(slots), Some(own)) = (completed.outcome, self.files.last()) else {
            return 0;
        };
        let mut spills = flight.map(|flight| flight.spills).into_iter().flatten();
        let mut moved = 0;
        for slot in slots.iter() {
            match spills.next().flatten() {
                Some(spill) => moved += u64::from(self.move_pages(spill, own, *slot, owners)),
                // A thread that panicked started the write.
                None => self.free_slot(own, *slot),
            }
        }
        moved
    }

    /// Names a slot of the file `own`, which has the bytes of a segment, to the owners of the segment's pages. Returns the pages
    /// that moved.
    fn move_pages(&self, spill: Spill<'_>, own: &CountedFile, slot: Slot, owners: &dyn Owners) -> u32 {
        own.counts.begin(slot);
        let spilled = spill.finish(own.number_of(slot), |page, old, new| {
            own.counts.add(slot);
            let is_moved = relocate(owners, page, old, new);
            if !is_moved {
                // Never the last one: the slot is being filled.
                let _ = own.counts.remove(slot);
            }
            is_moved
        });
        if own.counts.end(slot, spilled.moved) {
            self.free_slot(own, slot);
        }
        spilled.moved
    }

    /// A second has passed: cleans the page file if it is nearly full, and returns what was not used for a while.
    pub(super) fn age(&self, owners: &dyn Owners) {
        let Some(mut worker) = self.worker() else { return };
        // The parents need not keep slots for a process that reads none.
        let unread = self.files.iter().filter(|file| file.file.is_empty());
        unread.for_each(|file| file.file.leave());
        let Some(last) = self.files.last() else {
            self.publish(&worker);
            return;
        };
        let file = &last.file;
        file.release_held();
        let stats = file.stats();
        let slots = match file.state() {
            State::OfParent => {
                self.publish(&worker);
                return;
            }
            State::Limited { bytes, .. } => bytes / SLOT_BYTES as u64,
            _ => stats.slots,
        };
        // What cleaning frees beside a child of a fork, the child may still read.
        if stats.used_slots > slots - slots / 8 && !file.has_readers() {
            self.clean(&mut worker, owners, MOST_LIVE_AHEAD, SLOTS_PER_WRITE as u32);
        }
        self.is_full.store(false, Ordering::Relaxed);
        worker.idle = worker.idle.saturating_add(1);
        if worker.idle == REST {
            if let Some(writer) = &mut worker.writer {
                writer.rest();
            }
            // The pages stay counted: the next write uses them again.
            let _ = worker.plain.discard();
        }
        self.publish(&worker);
    }

    /// Counters now: the state and the disk space of the newest file; sizes, copies and traffic of all. Before there is one,
    /// the size is that of the deferred file. If this process cannot create one, the state has the error.
    pub(super) fn stats(&self) -> PageFileUse {
        let last = self.files.last().map(|last| &last.file);
        let state = match last.map(PageFile::state) {
            None => self.creation.refusal().unwrap_or(State::Writable),
            Some(State::OfParent) => self.creation.refusal().unwrap_or(State::OfParent),
            Some(own) => own,
        };
        let all = self.files.iter().map(|file| file.file.stats());
        let mut sum = PageFileUse {
            state,
            bytes: if last.is_none() { self.creation.bytes() } else { 0 },
            used_bytes: 0,
            allocated_bytes: last.map_or(0, |last| last.stats().allocated_bytes),
            written_bytes: 0,
            read_bytes: 0,
            write_failures: u64::from(matches!(state, State::Failed(_))),
            read_failures: 0,
        };
        for stats in all {
            sum.bytes += stats.slots * SLOT_BYTES as u64;
            sum.used_bytes += stats.used_slots * SLOT_BYTES as u64;
            sum.written_bytes += stats.segments_written * SLOT_BYTES as u64;
            sum.read_bytes += stats.blocks_read * BLOCK_BYTES as u64;
            sum.read_failures += stats.read_errors + stats.damaged_blocks;
        }
        sum
    }

    /// Checks the page file; not while another thread writes it.
    pub(crate) fn validate(&self) -> Result<(), crate::page_file::Violation> {
        let Some(worker) = self.worker() else {
            return Ok(());
        };
        worker.writer.as_ref().map_or(Ok(()), Writer::validate)
    }
}

/// Segments of a write and writes in flight, for so many bytes of RAM.
fn plan(ram: u64) -> (usize, usize) {
    let buffers = ram / 32 / SEGMENT as u64;
    // A buffer of segments as they are, and one for each write in flight.
    let segments = (buffers / (MOST_WRITES as u64 + 1)).clamp(1, SLOTS_PER_WRITE as u64);
    let writes = (buffers / segments)
        .saturating_sub(1)
        .clamp(1, MOST_WRITES as u64);
    (segments as usize, writes as usize)
}

/// Copies the segments that were idle longest to `plain`, one to each element. Returns their number.
fn take_idle<'s>(store: &'s Store, plain: &mut [Segment], spills: &mut Spills<'s>) -> usize {
    let mut count = 0;
    for segment in store.idle_longest().into_iter().flatten() {
        let Some(target) = plain.get_mut(count) else { break };
        if let Some(spill) = store.take_for_spill(segment, target) {
            spills[count] = Some(spill);
            count += 1;
        }
    }
    count
}

const _: () = assert!(FOUND >= SLOTS_PER_WRITE && SEGMENT == SLOT_BYTES);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{MOST_WRITES, plan};
    use crate::page_file::{SLOT_BYTES, SLOTS_PER_WRITE};

    #[test]
    fn buffers_are_a_small_part_of_the_budget() {
        assert_eq!(plan(1 << 30), (SLOTS_PER_WRITE, MOST_WRITES));
        assert_eq!(plan(4 << 20), (1, 1));
        for ram in (22..40).map(|shift| 1_u64 << shift) {
            let (segments, writes) = plan(ram);
            let bytes = ((writes + 1) * segments * SLOT_BYTES) as u64;
            assert!(bytes <= (ram / 32).max(128 << 10), "{ram}: {segments} {writes}");
        }
    }
}
