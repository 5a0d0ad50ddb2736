//! Chunks: 2 MiB of the arena, registered and counted as a whole.
#![allow(unsafe_code, reason = "the chunks of an arena, in a mapping of their own")]

mod commit;

use std::mem::offset_of;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use plimsoll_os::{Advice, AtomicWords, Errno, address_space};

use super::bits::{Bits, words};
use super::{PAGE_SIZE, PageIndex, PageRange, PageState, Word};

/// Pages of a chunk. Regions begin at chunks.
pub const CHUNK_PAGES: u32 = 512;

/// The owner of the faults of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkMode {
    /// Part of no region.
    Unused = 0,
    /// The kernel resolves faults by itself: all pages count as resident, and their words are virgin.
    Native = 1,
    /// A thread is registering it and looking for the present pages.
    Converting = 2,
    /// Registered: faults come to the pager.
    Managed = 3,
    /// A thread is registering it, or ends its registration: faults wait.
    Changing = 4,
}

/// The mode of a chunk, and the number of its pages in each state that the hands of the trimmer look for, so that they
/// can pass whole chunks.
///
/// Zero bytes are an unused chunk with the policy of a new region, so that an untouched record occupies nothing.
///
/// Invariant: while no page of the chunk is busy, the counters equal the states of its pages.
/// Checked by `counters_agree_with_the_words_after_any_sequence`.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Chunk {
    mode: AtomicU8,
    /// Bits of [`Mark`].
    marks: AtomicU8,
    /// The standby priority of its pages when they are trimmed, as the difference (XOR) from the normal one.
    priority: AtomicU8,
    /// The number of its region's limits, 0 for none.
    working_set: AtomicU8,
    /// Its class of heat: 0 to [`Chunk::HOTTEST`].
    heat: AtomicU8,
    /// Its pages behind the end of its region.
    beyond: AtomicU16,
    active: AtomicU16,
    modified: AtomicU16,
    standby: AtomicU16,
    /// Pages that faults made active in this window of ageing; more than the chunk has count as those.
    faults: AtomicU16,
}

/// A fact about a chunk: a bit.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Mark {
    /// A word of the chunk was written: its words are resident.
    Touched = 1,
    /// The kernel keeps its accesses apart from those of its neighbours.
    Apart = 2,
    /// Pages of it are surrendered, or were.
    Surrendered = 4,
}

impl Chunk {
    /// The highest class of heat.
    pub const HOTTEST: u8 = 7;

    /// A chunk with these bytes, which were copied from a value in another process.
    pub(crate) fn of_bytes(bytes: &[u8; size_of::<Chunk>()]) -> Chunk {
        let count = |at: usize| AtomicU16::new(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        Chunk {
            mode: AtomicU8::new(bytes[offset_of!(Chunk, mode)]),
            marks: AtomicU8::new(bytes[offset_of!(Chunk, marks)]),
            priority: AtomicU8::new(bytes[offset_of!(Chunk, priority)]),
            working_set: AtomicU8::new(bytes[offset_of!(Chunk, working_set)]),
            heat: AtomicU8::new(bytes[offset_of!(Chunk, heat)]),
            beyond: count(offset_of!(Chunk, beyond)),
            active: count(offset_of!(Chunk, active)),
            modified: count(offset_of!(Chunk, modified)),
            standby: count(offset_of!(Chunk, standby)),
            faults: count(offset_of!(Chunk, faults)),
        }
    }

    fn has(&self, mark: Mark) -> bool {
        self.marks.load(Ordering::Relaxed) & mark as u8 != 0
    }

    /// Sets a mark. Returns whether it was not set.
    fn set(&self, mark: Mark) -> bool {
        !self.has(mark) && self.marks.fetch_or(mark as u8, Ordering::Relaxed) & mark as u8 == 0
    }

    /// Whether a word of the chunk was ever written.
    pub(crate) fn is_touched(&self) -> bool {
        self.has(Mark::Touched)
    }

    /// The owner of its faults.
    pub fn mode(&self) -> ChunkMode {
        match self.mode.load(Ordering::Acquire) {
            1 => ChunkMode::Native,
            2 => ChunkMode::Converting,
            3 => ChunkMode::Managed,
            4 => ChunkMode::Changing,
            _ => ChunkMode::Unused,
        }
    }

    /// The pages of its region in it: all but in the last chunk of a region.
    pub fn pages(&self) -> u32 {
        CHUNK_PAGES.saturating_sub(u32::from(self.beyond.load(Ordering::Relaxed)))
    }

    /// Gives an unused chunk to a region that has `pages` in it.
    fn open(&self, mode: ChunkMode, pages: u32) {
        let beyond = CHUNK_PAGES.saturating_sub(pages) as u16;
        self.beyond.store(beyond, Ordering::Relaxed);
        self.mode.store(mode as u8, Ordering::Release);
    }

    /// Takes the chunk from its region, of which no page has a state any more. The mark of touched words stays.
    fn close(&self) {
        self.marks.fetch_and(Mark::Touched as u8, Ordering::Relaxed);
        self.beyond.store(0, Ordering::Relaxed);
        self.set_priority(Word::NORMAL_PRIORITY);
        self.set_working_set(0);
        self.heat.store(0, Ordering::Relaxed);
        self.faults.store(0, Ordering::Relaxed);
        self.mode.store(ChunkMode::Unused as u8, Ordering::Release);
    }

    /// Whether pages of it may be surrendered.
    pub(crate) fn has_surrendered(&self) -> bool {
        self.has(Mark::Surrendered)
    }

    /// Notes that pages of it are surrendered, before they are.
    pub(crate) fn note_surrender(&self) {
        self.set(Mark::Surrendered);
    }

    /// The standby priority of its pages when they are trimmed.
    pub fn priority(&self) -> u8 {
        self.priority.load(Ordering::Relaxed) ^ Word::NORMAL_PRIORITY
    }

    /// Sets the standby priority of its pages when they are trimmed.
    pub fn set_priority(&self, priority: u8) {
        self.priority
            .store(priority ^ Word::NORMAL_PRIORITY, Ordering::Relaxed);
    }

    /// Its class of heat: a bit for each of the last three windows of ageing, the newest the highest.
    pub fn heat(&self) -> u8 {
        self.heat.load(Ordering::Relaxed).min(Chunk::HOTTEST)
    }

    /// Counts a page that a fault made active.
    pub fn note_fault(&self) {
        if self.faults.load(Ordering::Relaxed) < CHUNK_PAGES as u16 {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The pages that faults made active in this window of ageing, which begins again.
    pub fn take_faults(&self) -> u32 {
        u32::from(self.faults.swap(0, Ordering::Relaxed))
    }

    /// Ends a window of ageing, in which the chunk was accessed or not.
    pub fn end_window(&self, is_accessed: bool) {
        let newest = if is_accessed {
            Chunk::HOTTEST.div_ceil(2)
        } else {
            0
        };
        self.heat.store(self.heat() / 2 + newest, Ordering::Relaxed);
    }

    /// Whether the kernel keeps its accesses apart from those of its neighbours.
    pub fn is_apart(&self) -> bool {
        self.has(Mark::Apart)
    }

    /// Notes that the kernel keeps its accesses apart.
    pub fn set_apart(&self) {
        self.set(Mark::Apart);
    }

    /// The number of its region's limits, 0 for none.
    pub fn working_set(&self) -> u8 {
        self.working_set.load(Ordering::Relaxed)
    }

    /// Names the limits of its region by their number, 0 for none.
    pub fn set_working_set(&self, number: u8) {
        self.working_set.store(number, Ordering::Relaxed);
    }

    /// Sets the mode if it is `from` now, and returns whether it was.
    pub fn change_mode(&self, from: ChunkMode, to: ChunkMode) -> bool {
        self.mode
            .compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// The number of its pages in `state`; 0 for states that are not counted.
    pub fn pages_in(&self, state: PageState) -> u32 {
        self.counter(state)
            .map_or(0, |counter| u32::from(counter.load(Ordering::Relaxed)))
    }

    /// Counts a page that went from one state to another. Called before the page is unlocked.
    pub fn count(&self, from: PageState, to: PageState) {
        if let Some(counter) = self.counter(to) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(counter) = self.counter(from) {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether it has the policy of a new region.
    fn has_default_policy(&self) -> bool {
        self.priority() == Word::NORMAL_PRIORITY && self.working_set() == 0
    }

    /// Marks that a word of the chunk is written, and returns whether this was the first time: its words, a page of the
    /// table, are then resident.
    pub fn touch(&self) -> bool {
        self.set(Mark::Touched)
    }

    fn counter(&self, state: PageState) -> Option<&AtomicU16> {
        match state {
            PageState::Active => Some(&self.active),
            PageState::Modified => Some(&self.modified),
            PageState::Standby => Some(&self.standby),
            _ => None,
        }
    }
}

/// Records of chunks in a page of the table.
const RECORDS_A_PAGE: u32 = (PAGE_SIZE / size_of::<Chunk>()) as u32;
const _: () = assert!(PAGE_SIZE.is_multiple_of(size_of::<Chunk>()));

/// All chunks of an arena, in a mapping of their own, and sets of them by number.
///
/// A region that is managed from the start is **sparse**: its chunks have no records until their first page has a state.
/// Those are managed chunks too ([`ChunkTable::mode`]), all of whose pages are virgin and belong to the region. A chunk of a
/// sparse region is **committed** while it is native, and may be **announced**: the program is about to use it (the module
/// `commit`).
///
/// Invariants:
/// 1. `chunks` is a mapping of `count` chunks that this value owns. They consist of atomics, for which every bit pattern,
///    zero too, is valid.
/// 2. A chunk is in the set of used ones if and only if the mode in its record is not [`ChunkMode::Unused`]. Checked by
///    `Manager::validate`.
/// 3. `committed` is the number of native chunks of sparse regions. Checked by `Manager::validate`.
#[derive(Debug)]
pub struct ChunkTable {
    chunks: NonNull<Chunk>,
    count: usize,
    /// The sets: used chunks, chunks of sparse regions, announced chunks, resident pages of records.
    sets: AtomicWords,
    /// The members of the last set.
    resident: AtomicU32,
    committed: AtomicU32,
}

// SAFETY: chunks consist of atomics in memory that this value owns.
unsafe impl Send for ChunkTable {}
// SAFETY: as above; shared access is by atomic operations.
unsafe impl Sync for ChunkTable {}

impl ChunkTable {
    /// The chunks of an arena of `pages`, all unused.
    ///
    /// # Errors
    /// [`Errno::NOMEM`] if the address space has no room, [`Errno::INVAL`] for no pages.
    pub fn new(pages: u32) -> Result<ChunkTable, Errno> {
        let count = pages.div_ceil(CHUNK_PAGES);
        let record_pages = count.div_ceil(RECORDS_A_PAGE);
        let sets = AtomicWords::new(3 * words(count) + words(record_pages))?;
        let bytes = count as usize * size_of::<Chunk>();
        let start = address_space::map(bytes)?;
        // A huge page would make more resident than is counted. A kernel without them refuses.
        let _ = address_space::advise(start, bytes, Advice::NoHugePage);
        let chunks = NonNull::new(start as *mut Chunk).ok_or(Errno::NOMEM)?;
        Ok(ChunkTable {
            chunks,
            count: count as usize,
            sets,
            resident: AtomicU32::new(0),
            committed: AtomicU32::new(0),
        })
    }

    /// All chunks, by number.
    pub fn all(&self) -> &[Chunk] {
        // SAFETY: by the invariant the mapping holds `count` valid chunks for the life of `self`.
        unsafe { slice::from_raw_parts(self.chunks.as_ptr(), self.count) }
    }

    /// The address of the first one.
    pub(crate) fn address(&self) -> usize {
        self.chunks.as_ptr() as usize
    }

    /// The address of the words of the set of used chunks: a bit each, by number.
    pub(crate) fn used_address(&self) -> usize {
        self.sets.as_ptr() as usize
    }

    /// The chunk of the first of `pages`.
    ///
    /// # Panics
    /// The page is not in the arena.
    pub fn of(&self, pages: PageRange) -> &Chunk {
        &self.all()[number_of(pages.first) as usize]
    }

    fn used(&self) -> Bits<'_> {
        Bits(&self.sets[..words(self.count as u32)])
    }

    fn sparse(&self) -> Bits<'_> {
        let words = words(self.count as u32);
        Bits(&self.sets[words..2 * words])
    }

    fn announced(&self) -> Bits<'_> {
        let words = words(self.count as u32);
        Bits(&self.sets[2 * words..3 * words])
    }

    /// The mode of a chunk, with or without a record.
    pub fn mode(&self, number: u32) -> ChunkMode {
        let recorded = match self.has_record(number) {
            true => self.all()[number as usize].mode(),
            false => ChunkMode::Unused,
        };
        match recorded {
            ChunkMode::Unused if self.sparse().has(number) => ChunkMode::Managed,
            mode => mode,
        }
    }

    /// Whether a chunk is used, and not one of a sparse region without a record.
    pub(crate) fn has_record(&self, number: u32) -> bool {
        self.used().has(number)
    }

    /// Whether a chunk belongs to a sparse region.
    pub(crate) fn is_sparse(&self, number: u32) -> bool {
        self.sparse().has(number)
    }

    /// Gives the chunks of `pages`, which begin at a chunk, to a region, each with a record.
    pub fn open(&self, pages: PageRange, mode: ChunkMode) {
        for piece in pages.pieces(CHUNK_PAGES) {
            let number = number_of(piece.first);
            self.note_resident(number);
            self.of(piece).open(mode, piece.count);
            self.used().insert(number);
        }
    }

    /// Gives the chunks of `pages`, which begin at a chunk, to a sparse region.
    pub fn open_sparse(&self, pages: PageRange) {
        let first = number_of(pages.first);
        let end = pages.end() / CHUNK_PAGES;
        self.sparse().insert_all(first, end);
        // The last one has fewer pages.
        let rest = pages.end() % CHUNK_PAGES;
        if rest > 0 {
            let rest = PageRange::new(PageIndex::new(end * CHUNK_PAGES), rest);
            self.open(rest, ChunkMode::Managed);
        }
    }

    /// The chunk of a page of a region. A chunk of a sparse region has a record from here on.
    pub(crate) fn with_record(&self, number: u32) -> &Chunk {
        let chunk = &self.all()[number as usize];
        if self.sparse().has(number) {
            if chunk.mode() == ChunkMode::Unused {
                self.note_resident(number);
                chunk.change_mode(ChunkMode::Unused, ChunkMode::Managed);
            }
            // Another thread may have changed the mode, and not be here yet.
            if chunk.mode() == ChunkMode::Managed && !self.used().has(number) {
                self.used().insert(number);
            }
        }
        chunk
    }

    /// Takes a chunk with a record from its region, of which no page has a state any more.
    pub fn close(&self, number: u32) {
        self.all()[number as usize].close();
        self.used().remove(number);
    }

    /// Ends [`ChunkTable::open_sparse`], after each chunk with a record was closed.
    pub fn close_sparse(&self, pages: PageRange) {
        let end = pages.end().div_ceil(CHUNK_PAGES);
        self.sparse().remove_all(number_of(pages.first), end);
        self.announced().remove_all(number_of(pages.first), end);
    }

    /// The first chunk from `from` on, by number, that has a record which is `wanted`; the number of all chunks without one.
    pub(crate) fn find(&self, from: u32, wanted: impl Fn(&Chunk) -> bool) -> u32 {
        let mut next = from;
        while let Some(number) = self.used().next(next) {
            if wanted(&self.all()[number as usize]) {
                return number;
            }
            next = number + 1;
        }
        self.count as u32
    }

    /// The chunks with records, in order, with their numbers.
    pub(crate) fn with_records(&self) -> impl Iterator<Item = (u32, &Chunk)> {
        self.with_records_in(0, self.count as u32)
    }

    fn with_records_in(&self, first: u32, end: u32) -> impl Iterator<Item = (u32, &Chunk)> {
        let mut next = first;
        std::iter::from_fn(move || {
            let number = self.used().next(next).filter(|number| *number < end)?;
            next = number + 1;
            Some((number, &self.all()[number as usize]))
        })
    }

    /// The parts of `pages` in chunks with records: all others are virgin. A part lies in one chunk.
    pub(crate) fn pieces(&self, pages: PageRange) -> impl Iterator<Item = PageRange> {
        let end = pages.end().div_ceil(CHUNK_PAGES);
        let chunks = self.with_records_in(number_of(pages.first), end);
        chunks.map(move |(number, _)| {
            let first = pages.first.number().max(number * CHUNK_PAGES);
            let end = pages.end().min(number * CHUNK_PAGES + CHUNK_PAGES);
            PageRange::new(PageIndex::new(first), end - first)
        })
    }

    /// Bytes of RAM of the records and the sets of an arena whose regions are below `extent` pages.
    pub(crate) fn bytes(&self, extent: u32) -> u64 {
        let sets = 3 * words(extent.div_ceil(CHUNK_PAGES)) * size_of::<AtomicU64>();
        let records = self.resident.load(Ordering::Relaxed) as usize * PAGE_SIZE;
        (records + sets.next_multiple_of(PAGE_SIZE)) as u64
    }

    /// Notes that the record of a chunk is written.
    fn note_resident(&self, number: u32) {
        let set = Bits(&self.sets[3 * words(self.count as u32)..]);
        if set.insert(number / RECORDS_A_PAGE) {
            self.resident.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The number of the chunk of a page.
fn number_of(page: PageIndex) -> u32 {
    page.number() / CHUNK_PAGES
}

impl Drop for ChunkTable {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<Chunk>();
        // SAFETY: the mapping is this value's, and no reference into it outlives `self`.
        let _ = unsafe { address_space::unmap(self.chunks.as_ptr() as usize, bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn pages(first: u32, count: u32) -> PageRange {
        PageRange::new(PageIndex::new(first), count)
    }

    #[test]
    fn a_sparse_region_has_records_of_touched_chunks_alone() {
        let chunks = ChunkTable::new(1 << 26).expect("addresses of 256 GiB");
        let region = pages(CHUNK_PAGES, (1 << 26) - 2 * CHUNK_PAGES + 7);
        let before = chunks.bytes(region.end());
        chunks.open_sparse(region);
        let last = region.end() / CHUNK_PAGES;
        assert_eq!(chunks.mode(0), ChunkMode::Unused);
        assert_eq!(chunks.mode(1), ChunkMode::Managed);
        assert_eq!(
            (chunks.mode(last), chunks.all()[last as usize].pages()),
            (ChunkMode::Managed, 7)
        );
        assert_eq!(chunks.mode(last + 1), ChunkMode::Unused);
        for number in [5, 6, 70_000] {
            assert_eq!(chunks.with_record(number).mode(), ChunkMode::Managed);
        }
        assert_eq!(chunks.with_record(0).mode(), ChunkMode::Unused);
        let used: Vec<u32> = chunks.with_records().map(|(number, _)| number).collect();
        assert_eq!(used, [5, 6, 70_000, last]);
        assert_eq!(chunks.find(6, |chunk| chunk.pages() < CHUNK_PAGES), last);
        assert_eq!(chunks.find(0, |chunk| chunk.pages() == 0), 1 << 17);
        let pieces: Vec<PageRange> = chunks.pieces(pages(5 * CHUNK_PAGES + 3, 1000)).collect();
        assert_eq!(
            pieces,
            [
                pages(5 * CHUNK_PAGES + 3, CHUNK_PAGES - 3),
                pages(6 * CHUNK_PAGES, 491)
            ]
        );
        // Chunks 5 and 6 are in one page of records.
        assert_eq!(chunks.bytes(region.end()) - before, 3 * PAGE_SIZE as u64);
        used.iter().for_each(|number| chunks.close(*number));
        chunks.close_sparse(region);
        assert_eq!(
            (chunks.with_records().count(), chunks.mode(6)),
            (0, ChunkMode::Unused)
        );
    }

    #[test]
    fn a_closed_chunk_has_the_policy_of_a_new_region() {
        let chunks = ChunkTable::new(CHUNK_PAGES).expect("addresses");
        chunks.open(pages(0, 3), ChunkMode::Native);
        let chunk = &chunks.all()[0];
        chunk.touch();
        chunk.set_priority(2);
        chunk.set_apart();
        chunk.note_surrender();
        assert_eq!((chunk.pages(), chunk.priority(), chunk.is_apart()), (3, 2, true));
        chunks.close(0);
        assert_eq!(
            (chunk.pages(), chunk.priority()),
            (CHUNK_PAGES, Word::NORMAL_PRIORITY)
        );
        assert!(!chunk.is_apart() && !chunk.has_surrendered() && chunk.is_touched());
    }
}
