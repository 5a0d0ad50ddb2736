//! Chunks: 2 MiB of the arena, registered and counted as a whole.
#![allow(unsafe_code, reason = "the chunks of an arena, in a mapping of their own")]

use std::mem::offset_of;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use plimsoll_os::{Errno, address_space};

use super::{PageRange, PageState, Word};

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
}

/// The mode of a chunk, and the number of its pages in each state that the hands of the trimmer look for, so that they
/// can pass whole chunks.
///
/// Invariant: while no page of the chunk is busy, the counters equal the states of its pages.
/// Checked by `counters_agree_with_the_words_after_any_sequence`.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Chunk {
    mode: AtomicU8,
    /// 1 once a word of the chunk was written.
    touched: AtomicU8,
    /// The standby priority of its pages when they are trimmed.
    priority: AtomicU8,
    /// The number of its region's limits, 0 for none.
    working_set: AtomicU8,
    /// Its class of heat: 0 to [`Chunk::HOTTEST`].
    heat: AtomicU8,
    /// 1 if the kernel keeps its accesses apart from those of its neighbours.
    is_apart: AtomicU8,
    pages: AtomicU16,
    active: AtomicU16,
    modified: AtomicU16,
    standby: AtomicU16,
    /// Pages that faults made active in this window of ageing; more than the chunk has count as those.
    faults: AtomicU16,
}

impl Chunk {
    /// The highest class of heat.
    pub const HOTTEST: u8 = 7;

    /// A chunk with these bytes, which were copied from a value in another process.
    pub(crate) fn of_bytes(bytes: &[u8; size_of::<Chunk>()]) -> Chunk {
        let count = |at: usize| AtomicU16::new(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
        Chunk {
            mode: AtomicU8::new(bytes[offset_of!(Chunk, mode)]),
            touched: AtomicU8::new(bytes[offset_of!(Chunk, touched)]),
            priority: AtomicU8::new(bytes[offset_of!(Chunk, priority)]),
            working_set: AtomicU8::new(bytes[offset_of!(Chunk, working_set)]),
            heat: AtomicU8::new(bytes[offset_of!(Chunk, heat)]),
            is_apart: AtomicU8::new(bytes[offset_of!(Chunk, is_apart)]),
            pages: count(offset_of!(Chunk, pages)),
            active: count(offset_of!(Chunk, active)),
            modified: count(offset_of!(Chunk, modified)),
            standby: count(offset_of!(Chunk, standby)),
            faults: count(offset_of!(Chunk, faults)),
        }
    }

    /// Whether a word of the chunk was ever written.
    pub(crate) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed) != 0
    }

    /// The mode.
    pub fn mode(&self) -> ChunkMode {
        match self.mode.load(Ordering::Acquire) {
            1 => ChunkMode::Native,
            2 => ChunkMode::Converting,
            3 => ChunkMode::Managed,
            _ => ChunkMode::Unused,
        }
    }

    /// The pages of its region in it: all but in the last chunk of a region.
    pub fn pages(&self) -> u32 {
        u32::from(self.pages.load(Ordering::Relaxed))
    }

    /// Gives an unused chunk to a region that has `pages` in it.
    pub fn open(&self, mode: ChunkMode, pages: u32) {
        self.pages.store(pages.min(CHUNK_PAGES) as u16, Ordering::Relaxed);
        self.set_priority(Word::NORMAL_PRIORITY);
        self.heat.store(0, Ordering::Relaxed);
        self.is_apart.store(0, Ordering::Relaxed);
        self.mode.store(mode as u8, Ordering::Release);
    }

    /// The standby priority of its pages when they are trimmed.
    pub fn priority(&self) -> u8 {
        self.priority.load(Ordering::Relaxed)
    }

    /// Sets the standby priority of its pages when they are trimmed.
    pub fn set_priority(&self, priority: u8) {
        self.priority.store(priority, Ordering::Relaxed);
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
        self.is_apart.load(Ordering::Relaxed) != 0
    }

    /// Notes that the kernel keeps its accesses apart.
    pub fn set_apart(&self) {
        self.is_apart.store(1, Ordering::Relaxed);
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

    /// Marks that a word of the chunk is written, and returns whether this was the first time: its words, a page of the
    /// table, are then resident.
    pub fn touch(&self) -> bool {
        self.touched.load(Ordering::Relaxed) == 0 && self.touched.swap(1, Ordering::Relaxed) == 0
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

/// All chunks of an arena, in a mapping of their own.
///
/// Invariant: `chunks` is a mapping of `count` chunks that this value owns. They consist of atomics, for which every bit
/// pattern, zero too, is valid.
#[derive(Debug)]
pub struct ChunkTable {
    chunks: NonNull<Chunk>,
    count: usize,
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
        let count = pages.div_ceil(CHUNK_PAGES) as usize;
        let start = address_space::map(count * size_of::<Chunk>())?;
        let chunks = NonNull::new(start as *mut Chunk).ok_or(Errno::NOMEM)?;
        Ok(ChunkTable { chunks, count })
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

    /// The chunk of the first of `pages`.
    ///
    /// # Panics
    /// The page is not in the arena.
    pub fn of(&self, pages: PageRange) -> &Chunk {
        &self.all()[(pages.first.number() / CHUNK_PAGES) as usize]
    }
}

impl Drop for ChunkTable {
    fn drop(&mut self) {
        let bytes = self.count * size_of::<Chunk>();
        // SAFETY: the mapping is this value's, and no reference into it outlives `self`.
        let _ = unsafe { address_space::unmap(self.chunks.as_ptr() as usize, bytes) };
    }
}
