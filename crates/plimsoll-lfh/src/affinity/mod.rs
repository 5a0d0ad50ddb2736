//! Affinity slots (per-CPU caches): for each processor that a thread may run on, an array of free blocks a bucket.
//!
//! A slot is [`SLOT`] bytes: a [`Header`] for each bucket, the arrays, and records of the slow path. If the system has
//! restartable sequences, the slot of a thread is that of its concurrency id and [`rseq`] works on it without a lock;
//! elsewhere it is one of a few that the thread's address chooses, and a lock replaces the section. Either way the
//! number of processors bounds that of slots, for any number of threads.
//!
//! The environment variable `PLIMSOLL_HEAP_RSEQ=off` makes slots locked.
//!
//! Invariant: locked slots behave as slots with restartable sequences, which serve wherever the system has them.
//! Checked by `slots_are_the_same_without_sections`, `the_front_end_is_the_same_without_sections` and
//! `sections_are_used_where_the_system_has_them`.
#![allow(unsafe_code)]

mod header;
mod layout;
mod mapping;
mod quarantine;
#[cfg(target_arch = "x86_64")]
mod rseq;
mod runs;
mod shared;

use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

pub(crate) use self::header::Header;
pub(crate) use self::layout::{
    LOCK, MOST_POINTERS, QUARANTINE, QUARANTINE_HEADER, QUARANTINED, RUN_POINTERS, RUN_ROWS, SHORTEST_RUN,
    SLOT, STEP, begin, most_pointers, units_of,
};
use self::mapping::Counts;
pub(crate) use self::shared::SHARED;
use crate::bucket::Bucket;
use crate::lock::Lock;
use crate::memory;
use crate::set_once::SET_ONCE;
use crate::settings;

/// The most locked slots: contention then bounds the use of more.
const MOST_LOCKED_SLOTS: usize = 64;

/// The slots of a heap. Zeroed memory is a set of none yet: nothing can be taken from it or put into it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SlotSet {
    /// Where the slots of processors are, if sections serve them; 0 otherwise. The fast path's only look at it.
    pub(crate) sections: AtomicUsize,
    /// Where the slots are, shared ones first; 0 if there are none.
    pub(crate) slots: AtomicUsize,
    /// How many there are, see `mapping`.
    pub(crate) counts: AtomicU64,
}

impl SlotSet {
    /// Maps the slots. Returns false if there is no memory for them. The caller keeps other threads from doing so at
    /// the same time.
    pub(crate) fn start(&self) -> bool {
        self.start_for(plimsoll_os::possible_processors())
    }

    /// As [`SlotSet::start`], with sections for so many processors; without sections if their number is not known.
    fn start_for(&self, processors: Option<usize>) -> bool {
        let area = match settings::sections() {
            true => plimsoll_os::restartable_area(),
            false => None,
        };
        let sections = area.zip(processors).and_then(|(area, processors)| {
            SET_ONCE.area.store(area, Ordering::Release);
            // At the start, as threads make the call slow. If it fails, a flush leaves arrays as they are.
            let _ = plimsoll_os::prepare_to_restart_sequences();
            mapping::map_for_sections(processors)
        });
        let locked = || {
            let count = SHARED + (2 * plimsoll_os::allowed_processors()).clamp(4, MOST_LOCKED_SLOTS);
            let counts = Counts {
                writable: count,
                mapped: count,
            };
            mapping::map(count).map(|slots| (slots, counts))
        };
        let Some((slots, counts)) = sections.or_else(locked) else {
            return false;
        };
        counts.store(&self.counts);
        self.slots.store(slots, Ordering::Release);
        let served = sections.map_or(0, |_| slots + SHARED * SLOT);
        self.sections.store(served, Ordering::Release);
        true
    }

    /// Whether the slots are mapped.
    pub(crate) fn has_started(&self) -> bool {
        self.slots.load(Ordering::Acquire) != 0
    }

    /// How many slots threads may use, shared ones too; 0 before the start.
    pub(crate) fn count(&self) -> usize {
        match self.has_started() {
            true => Counts::load(&self.counts).writable,
            false => 0,
        }
    }

    /// Whether a range is in the slots.
    pub(crate) fn contains(&self, start: usize, length: usize) -> bool {
        let slots = self.slots.load(Ordering::Acquire);
        slots != 0
            && start
                .checked_sub(slots)
                .and_then(|offset| offset.checked_add(length))
                .is_some_and(|end| end <= self.count() * SLOT)
    }

    /// Whether restartable sequences serve the slots.
    pub(crate) fn uses_sections(&self) -> bool {
        self.sections.load(Ordering::Acquire) != 0
    }

    /// Unmaps the slots.
    ///
    /// # Safety
    /// No thread uses the set any more.
    pub(crate) unsafe fn end(&self) {
        let mapped = Counts::load(&self.counts).mapped;
        self.sections.store(0, Ordering::Relaxed);
        let slots = self.slots.swap(0, Ordering::Relaxed);
        if slots != 0 {
            // SAFETY: `start` mapped exactly that, and the caller's premise.
            unsafe { memory::release(slots, mapped * SLOT) };
        }
    }

    /// The slots as the fast path sees them.
    #[inline(always)]
    pub(crate) fn sections(&self) -> Sections {
        Sections(self.sections.load(Ordering::Acquire))
    }

    /// The number of the slot that serves this thread, now. The thread may be served by another one at once.
    pub(crate) fn mine(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.uses_sections() {
            // SAFETY: the set has started by sections, so the area is there.
            let id = unsafe { rseq::concurrency_id(SET_ONCE.area.load(Ordering::Relaxed)) };
            return self.slot_of(id);
        }
        // Thread pointers differ in their middle bits: spread them.
        let spread = (thread_pointer() >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
        SHARED + (((spread >> 32) * self.count().saturating_sub(SHARED)) >> 32)
    }

    /// Takes up to `blocks.len()` free blocks of the bucket from the slot that serves this thread. Returns how many.
    pub(crate) fn pop_batch(&self, bucket: Bucket, blocks: &mut [*mut u8]) -> usize {
        self.pop_from(bucket.index(), blocks)
    }

    /// As [`SlotSet::pop_batch`], from the array of that header.
    fn pop_from(&self, index: usize, blocks: &mut [*mut u8]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.uses_sections() {
            let slots = self.sections.load(Ordering::Relaxed);
            // SAFETY: the set has started, and the slice is valid for its length.
            return unsafe {
                rseq::pop_batch(
                    slots,
                    SET_ONCE.area.load(Ordering::Relaxed),
                    index,
                    blocks.as_mut_ptr(),
                    blocks.len(),
                )
            };
        }
        let slot = self.mine();
        let _held = self.lock(slot).lock();
        // SAFETY: the lock is held.
        unsafe { self.take_alone(slot, index, blocks) }
    }

    /// Takes up to `blocks.len()` pointers from the end of the array of a header. Returns how many.
    ///
    /// # Safety
    /// No other thread takes from the array or puts into it meanwhile.
    unsafe fn take_alone(&self, slot: usize, index: usize, blocks: &mut [*mut u8]) -> usize {
        let (at, count) = self.header_at(slot, index).take(blocks.len() as u16);
        for (offset, block) in (0..count).zip(blocks) {
            // SAFETY: the header counts pointers there, and the caller's premise.
            *block = unsafe { self.pointer(slot, at + offset).read() };
        }
        count as usize
    }

    /// Puts as many of the blocks into the slot that serves this thread as there is room for, from the first. Returns
    /// how many.
    pub(crate) fn push_batch(&self, bucket: Bucket, blocks: &[*mut u8]) -> usize {
        self.push_to(bucket.index(), blocks)
    }

    /// As [`SlotSet::push_batch`], to the array of that header.
    fn push_to(&self, index: usize, blocks: &[*mut u8]) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.uses_sections() {
            let slots = self.sections.load(Ordering::Relaxed);
            // SAFETY: the set has started, and the slice is valid for its length.
            return unsafe {
                rseq::push_batch(
                    slots,
                    SET_ONCE.area.load(Ordering::Relaxed),
                    index,
                    blocks.as_ptr(),
                    blocks.len(),
                )
            };
        }
        let slot = self.mine();
        let _held = self.lock(slot).lock();
        // SAFETY: the lock is held.
        unsafe { self.put_alone(slot, index, blocks) }
    }

    /// Puts as many of the blocks at the end of the array of a header as there is room for, from the first. Returns how
    /// many.
    ///
    /// # Safety
    /// As for [`SlotSet::take_alone`].
    unsafe fn put_alone(&self, slot: usize, index: usize, blocks: &[*mut u8]) -> usize {
        let header = self.header_at(slot, index);
        let (at, count) = header.room(blocks.len() as u16);
        for (offset, block) in (0..count).zip(blocks) {
            // SAFETY: the header has room there, and the caller's premise.
            unsafe { self.pointer(slot, at + offset).write(*block) };
        }
        header.put(count);
        count as usize
    }

    /// Makes the array of the bucket usable in the slot that serves this thread, if it was never used. Returns the
    /// number of the slot in which it did so. The bucket's lock is held.
    pub(crate) fn prepare(&self, bucket: Bucket) -> Option<usize> {
        self.prepare_at(bucket.index(), Header::prepared(bucket))
    }

    /// As [`SlotSet::prepare`], for the array of that header.
    fn prepare_at(&self, index: usize, prepared: u64) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if self.uses_sections() {
            let slots = self.sections.load(Ordering::Relaxed);
            // SAFETY: the set has started, so area and slots are as `rseq` requires.
            let slot = unsafe {
                rseq::prepare(
                    slots,
                    self.slot(self.count()),
                    SET_ONCE.area.load(Ordering::Relaxed),
                    index,
                    prepared,
                )
            };
            return (slot != 0).then(|| self.number_of(slot));
        }
        let slot = self.mine();
        let _held = self.lock(slot).lock();
        self.header_at(slot, index).prepare(prepared).then_some(slot)
    }

    /// Keeps all threads from the bucket's array in a slot; sections in progress still may commit. Returns false if the
    /// array is not in use. The caller holds the bucket's lock.
    pub(crate) fn stop(&self, slot: usize, bucket: Bucket) -> bool {
        let _held = (!self.uses_sections()).then(|| self.lock(slot).lock());
        self.header(slot, bucket).stop()
    }

    /// Restarts every section that began before. Returns false if the system cannot.
    pub(crate) fn restart_sections(&self) -> bool {
        !self.uses_sections() || plimsoll_os::restart_sequences().is_ok()
    }

    /// The pointers of a stopped array.
    ///
    /// # Safety
    /// The array was stopped, [`SlotSet::restart_sections`] returned true after that, and the caller holds the bucket's
    /// lock.
    pub(crate) unsafe fn stopped(&self, slot: usize, bucket: Bucket) -> &[*mut u8] {
        let begin = begin(bucket);
        let count = self.header(slot, bucket).current().saturating_sub(begin);
        // SAFETY: sections wrote pointers up to `current`, and no thread writes there while the array is stopped.
        unsafe { core::slice::from_raw_parts(self.pointer(slot, begin), count as usize) }
    }

    /// The header of a bucket in a slot.
    pub(crate) fn header(&self, slot: usize, bucket: Bucket) -> &Header {
        self.header_at(slot, bucket.index())
    }

    fn header_at(&self, slot: usize, index: usize) -> &Header {
        let at = self.slot(slot) + index * size_of::<Header>();
        // SAFETY: inside of the slot, where headers are; zeroed memory is a header.
        unsafe { &*(at as *const Header) }
    }

    /// The active subsegment of a bucket in a slot: its unit, 0 for none. The caller holds the bucket's lock.
    pub(crate) fn active(&self, slot: usize, bucket: Bucket) -> &AtomicU32 {
        let at = self.slot(slot) + layout::ACTIVE + bucket.index() * size_of::<u32>();
        // SAFETY: inside of the slot, where nothing else is.
        unsafe { &*(at as *const AtomicU32) }
    }

    /// The lock of a slot that sections do not serve.
    pub(crate) fn lock(&self, slot: usize) -> &Lock<()> {
        // SAFETY: inside of the slot, where nothing else is; zeroed memory is a free lock.
        unsafe { &*((self.slot(slot) + layout::LOCK) as *const Lock<()>) }
    }

    /// The number of the slot at an address.
    #[cfg(target_arch = "x86_64")]
    fn number_of(&self, slot: usize) -> usize {
        (slot - self.slots.load(Ordering::Relaxed)) / SLOT
    }

    fn slot(&self, slot: usize) -> usize {
        debug_assert!(slot <= self.count());
        self.slots.load(Ordering::Relaxed) + slot * SLOT
    }

    fn pointer(&self, slot: usize, step: u16) -> *mut *mut u8 {
        (self.slot(slot) + step as usize * STEP) as *mut *mut u8
    }
}

/// Where the slots of a heap are, if sections serve them; 0 otherwise: then nothing can be taken or put.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sections(usize);

impl Sections {
    /// No slots.
    pub(crate) const NONE: Sections = Sections(0);

    /// Those of the process's heap; none before its front end has started.
    #[inline(always)]
    pub(crate) fn of_process() -> Sections {
        Sections(SET_ONCE.sections.load(Ordering::Acquire))
    }

    /// Makes these those of the process's heap.
    pub(crate) fn set_of_process(self) {
        SET_ONCE.sections.store(self.0, Ordering::Release);
    }

    /// Takes a free block of the bucket from this processor's slot. Null if the slot has none.
    #[inline(always)]
    pub(crate) fn pop(self, bucket: Bucket) -> *mut u8 {
        self.pop_at(bucket.index())
    }

    /// The same, from the array of that header.
    #[inline(always)]
    fn pop_at(self, index: usize) -> *mut u8 {
        #[cfg(target_arch = "x86_64")]
        if self.0 != 0 {
            // SAFETY: the set has started, so area and slots are as `rseq` requires.
            return unsafe { rseq::pop(self.0, SET_ONCE.area.load(Ordering::Relaxed), index) };
        }
        let _ = index;
        ptr::null_mut()
    }

    /// Puts a free block of the bucket into this processor's slot. Returns false if the slot is full.
    #[inline(always)]
    pub(crate) fn push(self, bucket: Bucket, block: *mut u8) -> bool {
        self.push_at(bucket.index(), block)
    }

    /// The same, to the array of that header.
    #[inline(always)]
    fn push_at(self, index: usize, block: *mut u8) -> bool {
        #[cfg(target_arch = "x86_64")]
        if self.0 != 0 {
            // SAFETY: the set has started, so area and slots are as `rseq` requires.
            return unsafe { rseq::push(self.0, SET_ONCE.area.load(Ordering::Relaxed), index, block) };
        }
        let _ = (index, block);
        false
    }
}

/// Something that differs between threads that run at the same time.
#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the first word of a thread's control block is its own address, by the ABI.
    unsafe {
        core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, pure, readonly, preserves_flags));
    }
    pointer
}

/// Something that differs between threads that run at the same time.
#[cfg(target_arch = "aarch64")]
fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: every process may read the register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, pure, nomem, preserves_flags));
    }
    pointer
}

#[cfg(test)]
impl SlotSet {
    /// A set of no slots.
    fn unstarted() -> SlotSet {
        SlotSet {
            sections: AtomicUsize::new(0),
            slots: AtomicUsize::new(0),
            counts: AtomicU64::new(0),
        }
    }
}

#[cfg(test)]
mod tests;
