//! Segments of the store in the page file: those that were idle longest move there whole.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use plimsoll_os::{Advice, Errno, Mapping, thread_token};

use super::files::{CountedFile, Files};
use super::relocate;
use crate::backing::{Owners, PageFileUse, Room};
use crate::page_file::{
    BLOCK_BYTES, Batch, Block, Completed, NewFile, PageFile, PageFileOptions, ReadError, SLOT_BYTES,
    SLOTS_PER_WRITE, Segment, Slot, StartError, State, Writer,
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
/// A child of a fork reads the files of its parents, and writes to one of its own. It opens that file before another thread of it
/// runs, as the lowest free number of a descriptor is the program's; [`FileTier::serve`]'s thread makes it a page file when the
/// first copies are to move there.
///
/// Invariant: a slot is in use exactly while a page's word names it, or a thread with the lock of `worker` fills it
/// ([`SlotCounts`](super::slot_counts::SlotCounts)).
pub(crate) struct FileTier {
    pub(super) files: Files,
    /// The file that a child of a fork makes; none if it makes none.
    of_children: Option<FileOfChildren>,
    /// Whether the worker has such a file.
    is_open: AtomicBool,
    /// The thread that makes it a page file: no signal handler. 0 without one.
    maker: AtomicUsize,
    /// Whether another thread waits for that.
    is_awaited: AtomicBool,
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
    pub(super) writer: Writer,
    /// Segments that are about to be encrypted, or cleaned.
    pub(super) plain: Mapping,
    /// The places of the entries of a segment that is cleaned.
    pub(super) sources: Sources,
    /// Seconds since the last write.
    idle: u32,
    /// The file of this process, a child of a fork, until copies are to move there.
    new: Option<NewFile>,
}

/// The page file of a child of a fork.
#[derive(Debug)]
pub(crate) struct FileOfChildren {
    /// The folder, from the root on.
    pub(crate) folder: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) options: PageFileOptions,
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
    pub(crate) fn new(file: PageFile, mut writer: Writer, ram: u64) -> Result<FileTier, Errno> {
        let (segments, writes) = plan(ram);
        let files = Files::new(file)?;
        writer.keep_slots(KEPT_SLOTS);
        writer.count_buffers(writes, segments);
        let plain = Mapping::anonymous(segments.max(CLEANED_SEGMENTS) * SEGMENT)?;
        // A huge page would make more resident than is counted. A kernel without them refuses.
        let _ = plain.advise(Advice::NoHugePage);
        let tier = FileTier {
            files,
            of_children: None,
            is_open: AtomicBool::new(false),
            maker: AtomicUsize::new(0),
            is_awaited: AtomicBool::new(false),
            worker: Mutex::new(Worker {
                writer,
                plain,
                sources: Sources::new(),
                idle: 0,
                new: None,
            }),
            segments,
            writes,
            bytes: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
        };
        if let Some(worker) = tier.worker() {
            tier.publish(&worker);
        }
        Ok(tier)
    }

    /// The same, whose copies in children of forks make a file as well.
    pub(crate) fn with_file_of_children(self, file: FileOfChildren) -> FileTier {
        FileTier {
            of_children: Some(file),
            ..self
        }
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

    /// Ends a fork in the parent, or in the child, which then opens a file of its own. Without one, it only reads.
    pub(super) fn end_fork(&self, is_child: bool) {
        self.files.iter().for_each(|file| file.file.end_fork(is_child));
        if is_child {
            // The parent's thread does not exist here.
            self.maker.store(0, Ordering::Relaxed);
            self.is_awaited.store(false, Ordering::Relaxed);
            let is_open = self.worker().is_some_and(|mut worker| {
                // That of the parent.
                worker.new = None;
                worker.new = self.open_own();
                worker.new.is_some()
            });
            self.is_open.store(is_open, Ordering::Release);
        }
    }

    fn open_own(&self) -> Option<NewFile> {
        let own = self.of_children.as_ref()?;
        self.files.most_of_next()?;
        let new = NewFile::open_in(&own.folder, own.options).ok()?;
        new.at_own_number().ok()
    }

    /// Has this thread, which runs no signal handler, make the file of this process when copies are to move there. Others wait
    /// for it until the next call.
    pub(super) fn serve(&self) {
        self.maker.store(thread_token(), Ordering::Release);
        if self.is_awaited.load(Ordering::Relaxed)
            && let Some(mut worker) = self.worker()
        {
            self.is_awaited.store(false, Ordering::Relaxed);
            if worker.new.is_some() && self.make(&mut worker) {
                self.publish(&worker);
            }
        }
    }

    /// Makes the open file the page file of this process. Returns false if that cannot be done: then never.
    fn make(&self, worker: &mut Worker) -> bool {
        let new = worker.new.take();
        let made = self.of_children.as_ref().zip(new).and_then(|(own, new)| {
            let most = self.files.most_of_next()?;
            new.make(own.bytes.min(most), false).ok()
        });
        let is_made = made.is_some_and(|(file, mut writer)| {
            writer.keep_slots(KEPT_SLOTS);
            writer.count_buffers(self.writes, self.segments);
            let is_added = self.files.add(file);
            if is_added {
                // The writer of the parent's file: its end would touch mappings that the kernel did not copy.
                std::mem::forget(std::mem::replace(&mut worker.writer, writer));
                self.is_full.store(false, Ordering::Relaxed);
            }
            is_added
        });
        self.is_open.store(false, Ordering::Release);
        is_made
    }

    /// Ends the use of the parents' files, in a child.
    pub(super) fn leave(&self) {
        self.files.iter().for_each(|file| file.file.leave());
        self.is_open.store(false, Ordering::Relaxed);
        if let Some(mut worker) = self.worker() {
            worker.new = None;
        }
    }

    /// Bytes of a write.
    pub(super) fn write_bytes(&self) -> u64 {
        (self.segments * SEGMENT) as u64
    }

    /// Bytes of RAM of file, counts and buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether a spill can succeed.
    pub(super) fn takes_more(&self) -> bool {
        match self.files.last().file.state() {
            State::Failed(_) => false,
            State::OfParent => self.will_make(),
            _ => !self.is_full.load(Ordering::Relaxed),
        }
    }

    /// Whether a thread will make the open file a page file.
    fn will_make(&self) -> bool {
        self.is_open.load(Ordering::Acquire) && self.maker.load(Ordering::Acquire) != 0
    }

    /// The worker, if no thread has it.
    fn worker(&self) -> Option<MutexGuard<'_, Worker>> {
        match self.worker.try_lock() {
            Ok(worker) => Some(worker),
            // A thread that panicked left its writes to the next one.
            Err(TryLockError::Poisoned(worker)) => Some(worker.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn publish(&self, worker: &Worker) {
        let buffers = worker.plain.len() as u64 + Sources::BYTES;
        let files: u64 = self.files.iter().map(CountedFile::bytes).sum();
        let bytes = files + buffers + size_of::<FileTier>() as u64;
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
        if self.is_open.load(Ordering::Relaxed) {
            match self.maker.load(Ordering::Relaxed) {
                0 => return Room::None,
                maker if maker != thread_token() => {
                    self.is_awaited.store(true, Ordering::Relaxed);
                    return Room::Promised;
                }
                _ if !self.make(&mut worker) => return Room::None,
                _ => {}
            }
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
            let Some(completed) = worker.writer.complete(true) else {
                return (moved, stop);
            };
            moved += self.finish(&completed, &mut flights, owners);
        }
    }

    /// Starts the write of the segments that were idle longest.
    fn start<'s>(&self, store: &'s Store, worker: &mut Worker) -> Result<Flight<'s>, Stop> {
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
            match worker.writer.start(&segments[..count]) {
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
        let Ok(slots) = completed.outcome else { return 0 };
        let mut spills = flight.map(|flight| flight.spills).into_iter().flatten();
        let mut moved = 0;
        for slot in slots.iter() {
            match spills.next().flatten() {
                Some(spill) => moved += u64::from(self.move_pages(spill, *slot, owners)),
                // A thread that panicked started the write.
                None => self.free_slot(self.files.last(), *slot),
            }
        }
        moved
    }

    /// Names a slot, which has the bytes of a segment, to the owners of the segment's pages. Returns the pages that moved.
    fn move_pages(&self, spill: Spill<'_>, slot: Slot, owners: &dyn Owners) -> u32 {
        let own = self.files.last();
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
        let file = &self.files.last().file;
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
            worker.writer.rest();
            // The pages stay counted: the next write uses them again.
            let _ = worker.plain.discard();
        }
        self.publish(&worker);
    }

    /// Counters now: the state and the disk space of the file that was made last; sizes, copies and traffic of all.
    pub(super) fn stats(&self) -> PageFileUse {
        let stats = self.files.last().file.stats();
        let state = self.files.last().file.state();
        let all = self.files.iter().map(|file| file.file.stats());
        let mut sum = PageFileUse {
            state,
            bytes: 0,
            used_bytes: 0,
            allocated_bytes: stats.allocated_bytes,
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
        self.worker().map_or(Ok(()), |worker| worker.writer.validate())
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
