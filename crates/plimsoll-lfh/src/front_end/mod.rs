//! The low-fragmentation front end of a heap: slots over the subsegments of each bucket.
//!
//! Fast paths move one pointer between the program and its processor's slot. If the slot is empty, [`refill`] takes a
//! batch from the slot's active subsegment; if it is full, [`flush`] frees a batch to the subsegments of its blocks.
//! [`remote_free`](crate::remote_free) has the states of a subsegment and their transitions.
//!
//! Locks, in this order: the flush lock, a bucket's, a slot's (without sections), the back end's.
//!
//! [`refill`]: LowFragmentation::refill
//! [`flush`]: LowFragmentation::flush
#![allow(unsafe_code)]

mod bucket_lists;
mod flush;
mod purgeable;
mod remote;
mod runs;

use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

pub(crate) use self::bucket_lists::BucketLists;
pub(crate) use self::flush::Idle;
use crate::affinity::{MOST_POINTERS, Sections, SlotSet, most_pointers};
use crate::arena::{self, PROCESS, WINDOW};
use crate::backend::Backend;
use crate::bucket::{BUCKETS, Bucket};
use crate::integrity::{self, Damage};
use crate::lock::Lock;
use crate::purge;
use crate::subsegment::{self, Subsegment};
use crate::unit::UNIT;

/// The most blocks that move between a slot and subsegments at once.
const BATCH: usize = MOST_POINTERS / 2;

/// The front end of one heap. Zeroed memory is one that was not started.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LowFragmentation {
    pub(crate) slots: SlotSet,
    /// Number of the heap.
    heap: AtomicU32,
    /// Slots from this number on were never used.
    pub(crate) slots_used: AtomicU32,
    /// 1 where fast paths do not know the slots: of a hardened heap, whose calls go through `hardened`.
    hidden: AtomicU32,
    pub(crate) upkeep: Upkeep,
    /// By number; that of 0 is not used.
    pub(crate) buckets: [BucketLock; BUCKETS + 1],
}

/// Notes of slow paths for the flush. A cache line of its own: calls that only take a block from a slot read its
/// neighbours.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Upkeep {
    /// Subsegments that became sparse, so that pages may be purgeable, since the last look at all runs.
    sparse: AtomicU32,
    /// Subsegments begun, and times that absent pages became blocks, since the last look for purgeable pages.
    begun: AtomicU32,
    /// Units, at most, that became resident for them, since free extents were last purged for it.
    grown: AtomicU32,
    /// The unit at which the next look at runs begins; 0 is the first. Flush lock.
    looked_to: AtomicU32,
    /// The flush lock: one thread at a time flushes.
    pub(crate) flushing: Lock<()>,
}

/// Cache lines of their own, as different processors work on neighbours.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct BucketLock {
    pub(crate) lock: Lock<BucketLists>,
}

/// The outcome of a free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freed {
    /// The block is free.
    Done,
    /// The block has its tag and no place yet.
    NoRoom,
    /// The address is not the start of a block of a bucket, as far as was looked.
    NotHere,
}

impl LowFragmentation {
    /// Starts the front end. Returns false if there is no memory for it. The caller keeps other threads from doing so
    /// at the same time, and has set the key of the process.
    pub(crate) fn start(&self, heap: u32, hidden: bool) -> bool {
        self.heap.store(heap, Ordering::Relaxed);
        self.hidden.store(u32::from(hidden), Ordering::Relaxed);
        let started = self.slots.has_started() || self.slots.start();
        if started && heap == PROCESS && !hidden {
            self.slots.sections().set_of_process();
        }
        started
    }

    /// Unmaps the slots.
    ///
    /// # Safety
    /// No thread uses the heap any more.
    pub(crate) unsafe fn end(&self) {
        // SAFETY: the caller's premise.
        unsafe { self.slots.end() };
    }

    /// The slots as [`allocate_fast`] and [`free_fast`] see them.
    #[inline(always)]
    pub(crate) fn sections(&self) -> Sections {
        if self.hidden() {
            Sections::NONE
        } else {
            self.slots.sections()
        }
    }

    /// The number of the slot that serves this thread, now.
    pub(crate) fn slot_of_thread(&self) -> usize {
        self.slots.mine()
    }

    /// Whether fast paths do not know the slots.
    pub(crate) fn hidden(&self) -> bool {
        self.hidden.load(Ordering::Relaxed) != 0
    }

    /// A block of a hidden front end; null if no memory is left.
    pub(crate) fn allocate_hidden(&self, backend: &Backend, bucket: Bucket) -> *mut u8 {
        let block = allocate_fast(self.slots.sections(), bucket);
        if block.is_null() {
            self.refill(backend, bucket)
        } else {
            block
        }
    }

    /// Frees a block of a hidden front end.
    ///
    /// # Safety
    /// It is a block of the bucket, of this heap, and no thread uses it any more.
    pub(crate) unsafe fn free_hidden(&self, backend: &Backend, bucket: Bucket, block: *mut u8) {
        // SAFETY: the caller's premise.
        if !unsafe { integrity::set_tag(block) } {
            integrity::report(Damage::DoubleFree, block as usize, Some(bucket));
        }
        if !self.slots.sections().push(bucket, block) {
            purge::count_slow_call();
            self.flush(backend, bucket, block);
        }
    }

    /// Continues after [`Freed::NoRoom`].
    pub(crate) fn free_tagged(&self, backend: &Backend, block: *mut u8) {
        match any_bucket_at(block) {
            Some(bucket) => self.flush(backend, bucket, block),
            None => integrity::report(Damage::Foreign, block as usize, None),
        }
    }

    /// Continues after [`Freed::NotHere`], in a subsegment of the bucket: one with absent pages may have the block.
    ///
    /// # Safety
    /// As for [`free_fast`].
    pub(crate) unsafe fn free_slowly(&self, backend: &Backend, bucket: Bucket, block: *mut u8) {
        if !subsegment::starts_block(bucket.number(), block as usize) {
            integrity::report(Damage::NotAStart, block as usize, Some(bucket));
        }
        let subsegment = Subsegment::containing(block as usize, bucket);
        let absent = subsegment.absent().has(subsegment.number(block));
        // SAFETY: a block of the bucket starts there, and is the heap's from now on.
        if absent || !unsafe { integrity::set_tag(block) } {
            integrity::report(Damage::DoubleFree, block as usize, Some(bucket));
        }
        if !self.sections().push(bucket, block) {
            self.flush(backend, bucket, block);
        }
    }

    /// Finds a block where the slot has none, and fills the slot. Null if no memory is left.
    #[cold]
    #[inline(never)]
    pub(crate) fn refill(&self, backend: &Backend, bucket: Bucket) -> *mut u8 {
        let mut one = [ptr::null_mut()];
        if !self.slots.uses_sections() && self.slots.pop_batch(bucket, &mut one) == 1 {
            open(one[0], bucket);
            return one[0];
        }
        let mut blocks = [ptr::null_mut(); BATCH + 1];
        let slot = self.slots.mine();
        let (taken, refills) = {
            let mut lists = self.buckets[bucket.index()].lock.lock();
            self.grow(slot, bucket);
            let room = self.slots.header(slot, bucket).capacity() as usize / 2;
            lists.refills = lists.refills.wrapping_add(1);
            let wanted = &mut blocks[..room.min(BATCH) + 1];
            let mut taken = self.slots.take_shared(bucket, wanted);
            if taken * 2 <= wanted.len() {
                taken += lists.take(self, backend, slot, bucket, &mut wanted[taken..]);
            }
            (taken, lists.refills)
        };
        purge::on_slow_call(refills);
        let Some((first, rest)) = blocks[..taken].split_first() else {
            return ptr::null_mut();
        };
        let pushed = self.slots.push_batch(bucket, rest);
        if pushed < rest.len() {
            self.free_remote(backend, bucket, &rest[pushed..]);
        }
        self.compensate_growth(backend);
        open(*first, bucket);
        *first
    }

    /// Finds a place for a free block whose slot is full: the array grows, or a half of it moves to the shared slots,
    /// or to its subsegments.
    fn flush(&self, backend: &Backend, bucket: Bucket, block: *mut u8) {
        if !self.slots.has_started() {
            integrity::report(Damage::OtherHeap, block as usize, Some(bucket));
        }
        if !self.slots.uses_sections() && self.slots.push_batch(bucket, &[block]) == 1 {
            return;
        }
        let slot = self.slots.mine();
        let header = self.slots.header(slot, bucket);
        let lock = &self.buckets[bucket.index()].lock;
        let mut asked_for = None;
        let grown = header.capacity() < most_pointers(bucket) && {
            let mut lists = lock.lock();
            asked_for = Some(lists.note_flush());
            self.grow(slot, bucket)
        };
        if grown && self.slots.push_batch(bucket, &[block]) == 1 {
            return;
        }
        let mut blocks = [block; BATCH + 1];
        let half = (header.capacity() as usize / 2).min(BATCH);
        let taken = 1 + self.slots.pop_batch(bucket, &mut blocks[1..=half]);
        let blocks = &blocks[..taken];
        self.check_heap(bucket, blocks);
        let shared = {
            let mut lists = lock.lock();
            let grows = asked_for.unwrap_or_else(|| lists.note_flush());
            self.slots.share(bucket, blocks, grows)
        };
        self.free_remote(backend, bucket, &blocks[shared..]);
    }

    /// Prepares the bucket's array in the slot, or enlarges it. Returns false at its maximum. The caller holds the
    /// bucket's lock.
    fn grow(&self, slot: usize, bucket: Bucket) -> bool {
        let header = self.slots.header(slot, bucket);
        if header.capacity() > 0 {
            return header.grow(bucket);
        }
        let prepared = self.slots.prepare(bucket);
        // The thread may run on another processor by now; the one that it came from gets an active subsegment all the same.
        let last = prepared.map_or(slot, |prepared| prepared.max(slot));
        self.slots_used.fetch_max(last as u32 + 1, Ordering::Relaxed);
        prepared.is_some()
    }

    /// Holds every lock for the time of a fork.
    pub(crate) fn hold(&self) {
        self.upkeep.flushing.hold();
        for bucket in Bucket::all() {
            self.buckets[bucket.index()].lock.hold();
        }
        if !self.slots.uses_sections() {
            (0..self.slots.count()).for_each(|slot| self.slots.lock(slot).hold());
        }
    }

    /// Ends [`LowFragmentation::hold`] in the parent.
    ///
    /// # Safety
    /// This thread holds the locks by `hold`.
    pub(crate) unsafe fn release(&self) {
        // SAFETY: the caller's premise.
        self.each_lock(|lock| unsafe { lock.release() }, |lock| unsafe { lock.release() });
    }

    /// Ends [`LowFragmentation::hold`] in the child. Blocks that other threads had in local variables are lost to it;
    /// blocks in slots are not.
    ///
    /// # Safety
    /// This thread is the only one, and its parent held the locks by `hold`.
    pub(crate) unsafe fn free_after_fork(&self) {
        // SAFETY: the caller's premise.
        self.each_lock(
            |lock| unsafe { lock.free_after_fork() },
            |lock| unsafe { lock.free_after_fork() },
        );
    }

    fn each_lock(&self, plain: impl Fn(&Lock<()>), of_bucket: impl Fn(&Lock<BucketLists>)) {
        if !self.slots.uses_sections() {
            (0..self.slots.count()).for_each(|slot| plain(self.slots.lock(slot)));
        }
        for bucket in Bucket::all() {
            of_bucket(&self.buckets[bucket.index()].lock);
        }
        plain(&self.upkeep.flushing);
    }
}

/// A block from this processor's slot; null if that has none, or sections serve no slot: then
/// [`LowFragmentation::refill`] finds one.
#[inline(always)]
pub(crate) fn allocate_fast(sections: Sections, bucket: Bucket) -> *mut u8 {
    let block = sections.pop(bucket);
    if !block.is_null() {
        open(block, bucket);
    }
    block
}

/// Puts the block into this processor's slot. Where that has no room, or sections serve no slot,
/// [`LowFragmentation::free_tagged`] goes on; where it is not a block of a bucket, [`LowFragmentation::free_slowly`].
///
/// # Safety
/// If it is a block of a bucket, it is one of this heap and not used again.
#[inline(always)]
pub(crate) unsafe fn free_fast(sections: Sections, block: *mut u8) -> Freed {
    let Some(bucket) = bucket_at(block) else {
        return Freed::NotHere;
    };
    // SAFETY: a block of the bucket starts there, and is the heap's from now on.
    if !unsafe { integrity::set_tag(block) } {
        integrity::report(Damage::DoubleFree, block as usize, Some(bucket));
    }
    match sections.push(bucket, block) {
        true => Freed::Done,
        false => Freed::NoRoom,
    }
}

/// The bucket of the block that starts there, also where pages of its subsegment are absent; none if no block of a
/// bucket does.
fn any_bucket_at(block: *mut u8) -> Option<Bucket> {
    let unit = arena::unit_of(block as usize)?;
    let bucket = subsegment::bucket_of(arena::bucket_of_unit(unit).load(Ordering::Relaxed))?;
    subsegment::starts_block(bucket.number(), block as usize).then_some(bucket)
}

/// The bucket of the block that starts there; none if no block of a bucket does that fast paths know.
#[inline(always)]
fn bucket_at(block: *mut u8) -> Option<Bucket> {
    let window = arena::window();
    let offset = (block as usize).wrapping_sub(window);
    if offset >= WINDOW {
        return None;
    }
    // SAFETY: an address in the window is of a unit of it.
    let number = unsafe { arena::bucket_of_unit_in(window, offset / UNIT) }.load(Ordering::Relaxed);
    if !subsegment::starts_block(number, block as usize) {
        return None;
    }
    // SAFETY: a number at which something starts is a bucket's.
    Some(unsafe { Bucket::new_unchecked(number) })
}

/// Makes a free block one in use.
#[inline(always)]
fn open(block: *mut u8, bucket: Bucket) {
    // SAFETY: pointers from slots and subsegments are starts of free blocks, each in one place only.
    if !unsafe { integrity::clear_tag(block) } {
        integrity::report(Damage::WrittenAfterFree, block as usize, Some(bucket));
    }
}

#[cfg(test)]
mod tests;
