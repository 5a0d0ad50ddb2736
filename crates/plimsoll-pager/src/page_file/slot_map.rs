//! The free slots of a page file, as a bitmap.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use plimsoll_os::{AtomicWords, Errno};

use super::units::{SLOTS_PER_WRITE, Slot};

/// Slots that share a word.
const BITS: u32 = u64::BITS;
/// Slots of a chunk of 1 MiB, the unit in which space is allocated.
pub(super) const CHUNK_SLOTS: u32 = SLOTS_PER_WRITE as u32;
/// Bits of a chunk, at the low end of a word.
const CHUNK_MASK: u64 = (1 << CHUNK_SLOTS) - 1;
const _: () = assert!(BITS.is_multiple_of(CHUNK_SLOTS));

/// Slots side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Run {
    pub(super) const NONE: Run = Run { first: 0, count: 0 };

    pub(super) fn slots(self) -> impl Iterator<Item = Slot> {
        (self.first..self.first + self.count).filter_map(Slot::new)
    }
}

/// A set bit is a free slot with space on disk.
///
/// Invariant: one thread, the writer's, clears bits; any thread sets them. So a bit that the writer sees set stays
/// set until it clears it. `free` is the number of set bits, once all calls have returned.
#[derive(Debug)]
pub(super) struct SlotMap {
    words: AtomicWords,
    free: AtomicU64,
    /// No word from this one on was ever set.
    end: AtomicU32,
}

impl SlotMap {
    pub(super) fn new(slots: u32) -> Result<SlotMap, Errno> {
        Ok(SlotMap {
            words: AtomicWords::new(slots.div_ceil(BITS) as usize)?,
            free: AtomicU64::new(0),
            end: AtomicU32::new(0),
        })
    }

    /// Number of free slots.
    pub(super) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// One past the highest slot that ever was free.
    pub(super) fn high_water(&self) -> u64 {
        u64::from(self.end.load(Ordering::Relaxed)) * u64::from(BITS)
    }

    /// Adds a slot that is not in the map. Lock-free and async-signal-safe.
    pub(super) fn put(&self, slot: Slot) {
        let (word, bit) = place(slot.number());
        self.free.fetch_add(1, Ordering::Relaxed);
        self.words[word].fetch_or(bit, Ordering::Release);
    }

    /// Adds the slots of chunks that are not in the map.
    pub(super) fn put_chunks(&self, first: u32, count: u32) {
        for chunk in first..first + count {
            let slot = chunk * CHUNK_SLOTS;
            self.free.fetch_add(u64::from(CHUNK_SLOTS), Ordering::Relaxed);
            self.words[(slot / BITS) as usize].fetch_or(CHUNK_MASK << (slot % BITS), Ordering::Release);
        }
        let end = ((first + count) * CHUNK_SLOTS).div_ceil(BITS);
        self.end.fetch_max(end, Ordering::Relaxed);
    }

    /// Takes all slots of a chunk if they are free. For the writer alone.
    pub(super) fn take_chunk(&self, chunk: u32) -> bool {
        let slot = chunk * CHUNK_SLOTS;
        let mask = CHUNK_MASK << (slot % BITS);
        let word = &self.words[(slot / BITS) as usize];
        if word.load(Ordering::Acquire) & mask != mask {
            return false;
        }
        word.fetch_and(!mask, Ordering::AcqRel);
        self.free.fetch_sub(u64::from(CHUNK_SLOTS), Ordering::Relaxed);
        true
    }

    /// Takes `count` slots side by side, the lowest such ones; otherwise nothing. For the writer alone.
    pub(super) fn take_run(&self, count: u32) -> Option<Run> {
        let run = self.find(count);
        (run.count == count).then(|| self.take(run))
    }

    /// Takes the longest run of at most `most` slots. For the writer alone.
    pub(super) fn take_longest(&self, most: u32) -> Option<Run> {
        let run = self.find(most);
        (run.count > 0).then(|| self.take(run))
    }

    /// Whether a slot is in the map.
    pub(super) fn contains(&self, slot: Slot) -> bool {
        let (word, bit) = place(slot.number());
        self.words[word].load(Ordering::Acquire) & bit != 0
    }

    fn take(&self, run: Run) -> Run {
        for slot in run.slots() {
            let (word, bit) = place(slot.number());
            self.words[word].fetch_and(!bit, Ordering::AcqRel);
        }
        self.free.fetch_sub(u64::from(run.count), Ordering::Relaxed);
        run
    }

    /// The lowest run of `most` free slots, or the lowest of the longest ones.
    fn find(&self, most: u32) -> Run {
        let mut best = Run::NONE;
        let mut run = Run::NONE;
        let end = self.end.load(Ordering::Relaxed);
        for (number, word) in (0..end).zip(self.words.iter()) {
            let bits = word.load(Ordering::Acquire);
            let mut bit = 0;
            while bit < BITS {
                let ones = (!(bits >> bit)).trailing_zeros().min(BITS - bit);
                if ones > 0 {
                    if run.count == 0 {
                        run.first = number * BITS + bit;
                    }
                    run.count += ones;
                    if run.count >= most {
                        run.count = most;
                        return run;
                    }
                    bit += ones;
                } else {
                    bit += (bits >> bit).trailing_zeros().min(BITS - bit);
                }
                if run.count > best.count {
                    best = run;
                }
                if bit < BITS || ones == 0 {
                    run = Run::NONE;
                }
            }
        }
        best
    }
}

/// Word and bit of a slot.
fn place(slot: u32) -> (usize, u64) {
    ((slot / BITS) as usize, 1 << (slot % BITS))
}
