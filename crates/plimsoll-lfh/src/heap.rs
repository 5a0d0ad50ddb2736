//! Heaps as objects, and the process's own.
#![allow(unsafe_code)]

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;
use core::sync::atomic::Ordering;

use crate::affinity::Sections;
use crate::bucket::{Bucket, LARGEST_BLOCK, SMALLEST_BLOCK};
use crate::front_end::{self, Freed};
use crate::hardened;
use crate::integrity::{self, Damage};
use crate::options::{FrontEnd, FrontEndError, HeapError, HeapOptions};
use crate::record::{self, Record};
use crate::unit::{UNIT, UnitIndex, UnitKind};
use crate::{arena, large, purge, standard, subsegment};

mod fork;

/// A heap. Its drop destroys it: its blocks are gone, and its memory returns to the kernel.
///
/// Invariants of every front end:
/// 1. Blocks in use never overlap and keep their contents. Checked by `the_heap_of_the_process_keeps_what_is_in_use`,
///    `a_new_heap_keeps_what_is_in_use`, `a_heap_for_one_thread_that_checks_itself_keeps_what_is_in_use`, and with
///    threads that free each other's blocks by `threads_free_each_others_blocks_of_the_process`.
/// 2. A call without memory for it leaves the heap as it was. Checked by `calls_without_memory_leave_a_heap_as_it_was`,
///    `a_block_shrinks_where_no_memory_is_left`, `a_limited_process_gets_null_and_goes_on` and
///    `a_process_that_is_limited_later_gets_null_and_goes_on`.
/// 3. A heap that ends returns all its memory to the kernel. Checked by
///    `a_destroyed_heap_returns_its_memory`.
#[derive(Debug)]
pub struct Heap {
    /// From 1, that of the process.
    number: u32,
}

/// A constant: the compiler knows the number of the heap.
const PROCESS_HEAP: &Heap = &Heap {
    number: arena::PROCESS,
};

/// Alignment of every block, at least.
const ALIGNMENT: usize = SMALLEST_BLOCK;

impl Heap {
    /// The heap of the process: that of [`Lfh`] and of the C symbols. It needs no start: the first call makes it.
    #[inline(always)]
    pub fn process() -> &'static Heap {
        PROCESS_HEAP
    }

    /// A new heap of its own. Its front end is Standard until [`Heap::set_front_end`] changes it; a hardened one has
    /// the low-fragmentation front end from the start.
    ///
    /// # Errors
    /// [`HeapError`] if the options contradict each other, or there is no memory or no number for it.
    pub fn new(options: HeapOptions) -> Result<Heap, HeapError> {
        record::create(options, false).map(|number| Heap { number })
    }

    /// As [`Heap::new`], a heap whose calls take no lock, as the program sees to it that they need none. It cannot have
    /// the low-fragmentation front end, so it cannot be hardened either.
    ///
    /// # Errors
    /// As for [`Heap::new`].
    ///
    /// # Safety
    /// One thread at a time uses the heap, its end included: the types allow others to do so as well. Statistics of it
    /// may be taken by any thread, at any time, and so may [`Heap::trim`] be called.
    pub unsafe fn new_no_serialize(options: HeapOptions) -> Result<Heap, HeapError> {
        record::create(options, true).map(|number| Heap { number })
    }

    /// Its number, by which statistics name it; 1 is that of the process's.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The front end of its small blocks.
    pub fn front_end(&self) -> FrontEnd {
        match self.record() {
            Some(record) => record.front_end(),
            None => FrontEnd::Standard,
        }
    }

    /// Sets the front end of small blocks from now on; those in use stay as they are.
    ///
    /// # Errors
    /// [`FrontEndError`] if the heap's options forbid it, or the low-fragmentation front end is there already.
    pub fn set_front_end(&self, front_end: FrontEnd) -> Result<(), FrontEndError> {
        match self.record() {
            Some(record) => record.set_front_end(front_end),
            None => Err(FrontEndError::OutOfMemory),
        }
    }

    /// A block of at least `size` bytes, aligned to 16; null if no memory is left. 0 bytes are a block too.
    #[inline(always)]
    pub fn allocate(&self, size: usize) -> *mut u8 {
        self.allocate_or(size, || ())
    }

    /// As [`Heap::allocate`], and calls `no_memory` if no memory is left. A caller that acts on failure (and sets
    /// `errno`) has nothing to do after the call: it ends in one jump.
    #[inline(always)]
    pub fn allocate_or(&self, size: usize, no_memory: fn()) -> *mut u8 {
        if let Some(bucket) = Bucket::for_size(size) {
            let block = front_end::allocate_fast(self.sections(), bucket);
            if !block.is_null() {
                return block;
            }
        }
        self.allocate_slowly(size, no_memory)
    }

    /// A block that the slots do not have.
    #[cold]
    #[inline(never)]
    fn allocate_slowly(&self, size: usize, no_memory: fn()) -> *mut u8 {
        let block = self.allocate_anywhere(size);
        if block.is_null() {
            no_memory();
        }
        block
    }

    fn allocate_anywhere(&self, size: usize) -> *mut u8 {
        let Some(record) = self.record() else {
            return ptr::null_mut();
        };
        if record.is_hardened() {
            return hardened::allocate(record, size, ALIGNMENT);
        }
        match Bucket::for_size(size) {
            Some(bucket) => record.allocate_slowly(bucket, size, ALIGNMENT),
            None => large::allocate(record.runs(), size, ALIGNMENT),
        }
    }

    /// The slots as the fast path sees them.
    #[inline(always)]
    fn sections(&self) -> Sections {
        match self.number {
            arena::PROCESS => Sections::of_process(),
            number => {
                record::of(number).map_or(Sections::NONE, |record| record.low_fragmentation().sections())
            }
        }
    }

    /// A block of at least `size` bytes that are zero.
    pub fn allocate_zeroed(&self, size: usize) -> *mut u8 {
        self.allocate_zeroed_aligned(ALIGNMENT, size)
    }

    /// A block of at least `size` bytes at a multiple of `align`; null also where `align` is no power of two.
    pub fn allocate_aligned(&self, align: usize, size: usize) -> *mut u8 {
        let (block, bucket) = self.allocate_fast(align, size);
        if !block.is_null() {
            return block;
        }
        let Some(record) = self.record().filter(|_| align.is_power_of_two()) else {
            return ptr::null_mut();
        };
        if record.is_hardened() {
            return hardened::allocate(record, size, align);
        }
        match bucket {
            Some(bucket) => record.allocate_slowly(bucket, size, align),
            None => large::allocate(record.runs(), size, align),
        }
    }

    /// A block of at least `size` bytes that are zero, at a multiple of `align`, a power of two.
    pub fn allocate_zeroed_aligned(&self, align: usize, size: usize) -> *mut u8 {
        let (mut block, bucket) = self.allocate_fast(align, size);
        if block.is_null() {
            let Some(record) = self.record().filter(|_| align.is_power_of_two()) else {
                return ptr::null_mut();
            };
            block = match bucket {
                _ if record.is_hardened() => hardened::allocate(record, size, align),
                Some(bucket) => record.allocate_slowly(bucket, size, align),
                None => return large::allocate_zeroed(record.runs(), size, align),
            };
        }
        if !block.is_null() {
            // SAFETY: the block has at least that many bytes.
            unsafe { ptr::write_bytes(block, 0, size) };
        }
        block
    }

    /// A block of at least `size` bytes at a multiple of `align`, if the slots have one; and the bucket that such blocks
    /// are of, if a front end serves them. Null if `align` is no power of two.
    #[inline(always)]
    fn allocate_fast(&self, align: usize, size: usize) -> (*mut u8, Option<Bucket>) {
        if !align.is_power_of_two() {
            return (ptr::null_mut(), None);
        }
        let bucket = small(align, size);
        let block = bucket.map_or(ptr::null_mut(), |bucket| {
            front_end::allocate_fast(self.sections(), bucket)
        });
        (block, bucket)
    }

    /// Makes a block at least `size` bytes long; it may move. Null if no memory is left for a longer one: the block
    /// stays as it was.
    /// Null asks for a new block; 0 bytes make it a block of the smallest size.
    ///
    /// # Safety
    /// `block` is null or a block of this heap in use; it is not used again unless null is returned.
    pub unsafe fn reallocate(&self, block: *mut u8, size: usize) -> *mut u8 {
        let Some(record) = self.record().filter(|_| !block.is_null()) else {
            return self.allocate(size);
        };
        if record.is_hardened()
            && let Some(old) = hardened::size(block)
        {
            // SAFETY: the caller's premise.
            return unsafe { self.move_to_new(block, old, size, ALIGNMENT) };
        }
        let place = Place::in_use(block);
        if let Place::Large(first) = place
            && size > LARGEST_BLOCK
        {
            check_own(record, first);
            // SAFETY: the caller's premise.
            return unsafe { large::reallocate(record.runs(), first, size) };
        }
        let usable = place.usable_size();
        match place {
            // SAFETY: the caller's premise.
            Place::Standard(_) if unsafe { record.resize_standard(block, size) } => return block,
            // Moving is not worth while unless half of the block is spared.
            Place::Bucket(_) if size <= usable && size.max(SMALLEST_BLOCK / 2) >= usable / 2 => return block,
            _ => {}
        }
        // SAFETY: the caller's premise.
        unsafe { self.move_to_new(block, usable, size, ALIGNMENT) }
    }

    /// Copies the first `bytes` bytes of a block, or as many as fit, to a new one of `size` bytes at a multiple of `align`, a
    /// power of two, and frees it. If no memory is left the block stays as it was: it is returned if it is long enough,
    /// and null is if it is not.
    ///
    /// # Safety
    /// `block` is a block of this heap in use, with that many bytes; it is not used again unless null is returned.
    unsafe fn move_to_new(&self, block: *mut u8, bytes: usize, size: usize, align: usize) -> *mut u8 {
        let new = self.allocate_aligned(align, size);
        if !new.is_null() {
            // SAFETY: both blocks are in use and have at least that many bytes; the old one is not used again.
            unsafe {
                ptr::copy_nonoverlapping(block, new, size.min(bytes));
                self.free(block);
            }
        } else if size <= bytes {
            return block;
        }
        new
    }

    /// Frees a block. Null is allowed.
    ///
    /// # Safety
    /// `block` is null or a block of this heap in use; it is not used again.
    #[inline(always)]
    pub unsafe fn free(&self, block: *mut u8) {
        // SAFETY: the caller's premise.
        match unsafe { front_end::free_fast(self.sections(), block) } {
            Freed::Done => {}
            Freed::NoRoom => self.free_tagged(block),
            // SAFETY: the caller's premise, after [`Freed::NotHere`].
            Freed::NotHere => unsafe { self.free_slowly(block) },
        }
    }

    /// Finds a place for a block that the slots have no room for.
    #[cold]
    #[inline(never)]
    fn free_tagged(&self, block: *mut u8) {
        if let Some(record) = self.record() {
            record.low_fragmentation().free_tagged(record.backend(), block);
        }
    }

    /// Frees blocks that fast paths do not know.
    ///
    /// # Safety
    /// As for [`Heap::free`], after [`Freed::NotHere`].
    #[cold]
    #[inline(never)]
    unsafe fn free_slowly(&self, block: *mut u8) {
        if block.is_null() {
            return;
        }
        let Some(record) = self.record() else {
            return;
        };
        if record.is_hardened() {
            // SAFETY: the caller's premise.
            if !unsafe { hardened::free(record, block) } {
                Place::of(block, Damage::DoubleFree);
                integrity::report(Damage::OtherHeap, block as usize, None);
            }
            return;
        }
        match Place::of(block, Damage::DoubleFree) {
            Place::Bucket(bucket) => {
                // SAFETY: the caller's premise.
                unsafe {
                    record
                        .low_fragmentation()
                        .free_slowly(record.backend(), bucket, block)
                }
            }
            Place::Large(first) => {
                check_own(record, first);
                large::free(record.runs(), first);
            }
            Place::Standard(_) => {
                purge::count_slow_call();
                // SAFETY: the caller's premise.
                unsafe { record.free_standard(block) };
            }
        }
    }

    /// Bytes of the block, at least the requested number. 0 for null.
    ///
    /// # Safety
    /// `block` is null or a block of this heap in use.
    pub unsafe fn usable_size(&self, block: *const u8) -> usize {
        if block.is_null() {
            return 0;
        }
        if self.record().is_some_and(Record::is_hardened)
            && let Some(size) = hardened::size(block)
        {
            return size;
        }
        Place::in_use(block).usable_size()
    }

    /// Returns all free memory of the heap to the kernel at once, instead of within about a second.
    pub fn trim(&self) {
        if let Some(record) = self.record() {
            record.purge_all();
        }
    }

    /// Ends the purge's period, of about 300 ms, of all heaps if it is over: memory that was free for a whole period returns
    /// to the kernel. For a thread of a program that sets a [`Memory`](crate::Memory), under which heaps start no helper of
    /// their own; calls of other threads do the same in steps, now and then.
    pub fn end_purge_period() {
        if arena::is_ready() {
            purge::end_period();
        }
    }

    fn record(&self) -> Option<&'static Record> {
        record::of(self.number)
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: the one handle of the heap ends, so no thread may use its blocks.
        unsafe { record::destroy(self.number) };
    }
}

/// Ends the process if the large block at a unit is of another heap.
fn check_own(record: &Record, first: UnitIndex) {
    if arena::unit(first).heap.load(Ordering::Relaxed) != record.number.load(Ordering::Relaxed) {
        integrity::report(Damage::OtherHeap, arena::address_of(first), None);
    }
}

/// The bucket that such blocks are of, if a front end serves them.
#[inline]
fn small(align: usize, size: usize) -> Option<Bucket> {
    match align {
        ..=ALIGNMENT => Bucket::for_size(size),
        _ => Bucket::for_layout(size, align),
    }
}

/// Where a block in use is.
#[derive(Debug, Clone, Copy)]
enum Place {
    Bucket(Bucket),
    Standard(usize),
    Large(UnitIndex),
}

impl Place {
    /// Where the block at an address is. The process ends if there is none, with the damage `freed` if its run is free.
    #[inline]
    fn of(block: *const u8, freed: Damage) -> Place {
        let address = block as usize;
        let Some(index) = arena::unit_of(address) else {
            integrity::report(Damage::Foreign, address, None)
        };
        let number = arena::bucket_of_unit(index).load(Ordering::Relaxed);
        if let Some(bucket) = subsegment::bucket_of(number) {
            return Place::Bucket(bucket);
        }
        if !(arena::FIRST_UNIT..arena::end()).contains(&index) {
            integrity::report(Damage::Foreign, address, None);
        }
        let unit = arena::unit(index);
        match unit.kind() {
            UnitKind::Standard => Place::Standard(address),
            UnitKind::Large
                if unit.first.load(Ordering::Relaxed) == index && address.is_multiple_of(UNIT) =>
            {
                Place::Large(index)
            }
            UnitKind::Free | UnitKind::Busy | UnitKind::Cached => integrity::report(freed, address, None),
            _ => integrity::report(Damage::NotAStart, address, None),
        }
    }

    /// Where the block in use at an address is. The process ends if there is none: a block that is free, and resized or
    /// used for its size, would have two owners.
    #[inline]
    fn in_use(block: *const u8) -> Place {
        let place = Place::of(block, Damage::UsedAfterFree);
        if let Place::Bucket(bucket) = place {
            let address = block as usize;
            if !subsegment::starts_block(bucket.number(), address) {
                integrity::report(Damage::NotAStart, address, Some(bucket));
            }
            // SAFETY: a block of the bucket starts there.
            if subsegment::is_absent(address, bucket) || unsafe { integrity::has_tag(block) } {
                integrity::report(Damage::UsedAfterFree, address, Some(bucket));
            }
        }
        place
    }

    fn usable_size(self) -> usize {
        match self {
            Place::Bucket(bucket) => bucket.size(),
            Place::Standard(block) => standard::usable_size(block),
            Place::Large(first) => large::usable_size(first),
        }
    }
}

/// The heap of the process as Rust's allocator: `#[global_allocator] static A: Lfh = Lfh;`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lfh;

// SAFETY: blocks of the process's heap are of the size and alignment asked for and belong to their caller.
unsafe impl GlobalAlloc for Lfh {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match layout.align() {
            ..=16 => Heap::process().allocate(layout.size()),
            align => Heap::process().allocate_aligned(align, layout.size()),
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller's premise: the block is of this allocator and in use.
        unsafe { Heap::process().free(block) };
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Heap::process().allocate_zeroed_aligned(layout.align(), layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if layout.align() <= 16 {
            // SAFETY: the caller's premise.
            return unsafe { Heap::process().reallocate(block, new_size) };
        }
        // SAFETY: the caller's premise.
        unsafe {
            // The process ends if it is free: it could become its own copy.
            Heap::process().usable_size(block);
            Heap::process().move_to_new(block, layout.size(), new_size, layout.align())
        }
    }
}

#[cfg(test)]
impl Heap {
    /// A heap of its own with that front end, for tests.
    pub(crate) fn of(front_end: FrontEnd) -> Heap {
        let heap = Heap::new(HeapOptions::default()).expect("there is memory");
        if front_end == FrontEnd::LowFragmentation {
            heap.set_front_end(front_end).expect("nothing forbids it");
        }
        heap
    }
}
