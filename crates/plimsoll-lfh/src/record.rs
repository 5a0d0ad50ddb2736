//! The record of a heap in the window, and the list of all heaps.
//!
//! Premises of the unsafe code: the record of a living heap is accessible and initialised; zeroed memory is a record
//! without a heap.
#![allow(unsafe_code)]

pub(crate) mod fork;
mod period;

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use crate::arena::{self, PROCESS};
use crate::backend::Backend;
use crate::bucket::Bucket;
use crate::front_end::LowFragmentation;
use crate::integrity::{self, Damage};
use crate::large::Runs;
use crate::lock::Lock;
use crate::options::{FrontEnd, FrontEndError, HeapError, HeapOptions};
use crate::purge;
use crate::run_cache::RunCache;
use crate::settings;
use crate::standard::Standard;
use crate::unit::UnitKind;
use period::Progress;

/// A heap. Read from outside by `plimsoll heap stat`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Record {
    /// Its number while it lives, 0 otherwise.
    pub(crate) number: AtomicU32,
    pub(crate) front_end: AtomicU8,
    pub(crate) no_serialize: AtomicU8,
    pub(crate) debug: AtomicU8,
    pub(crate) hardened: AtomicU8,
    pub(crate) backend: Backend,
    pub(crate) standard: Lock<Standard>,
    pub(crate) low_fragmentation: LowFragmentation,
    pub(crate) run_cache: RunCache,
}

const _: () = assert!(size_of::<Record>() <= arena::RECORD);

/// Guards the list of heaps, which is in their records, and the purge's way through them. The first in the order of
/// locks.
static HEAPS: Lock<Progress> = Lock::new(Progress::NONE);

/// The record of heap `number`; none if there is no memory for the process's first call.
#[inline(always)]
pub(crate) fn of(number: u32) -> Option<&'static Record> {
    if number == PROCESS {
        let record = PROCESS_RECORD.load(Ordering::Acquire);
        // SAFETY: the pointer is null or to an initialised record, which stays.
        return unsafe { record.as_ref() }.or_else(make_process_record);
    }
    // SAFETY: a handle to the heap exists, so its record is initialised.
    Some(unsafe { &*(arena::record_address(number) as *const Record) })
}

/// The record of the process's heap; null until the first call.
static PROCESS_RECORD: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());

#[cold]
fn make_process_record() -> Option<&'static Record> {
    if !arena::prepare(begin_process_heap) {
        return None;
    }
    let record = arena::record_address(PROCESS) as *mut Record;
    PROCESS_RECORD.store(record, Ordering::Release);
    fork::prepare();
    // SAFETY: the record was initialised with the window.
    unsafe { record.as_ref() }
}

fn begin_process_heap() -> bool {
    period::prepare();
    arena::set_on_limit(&(unmap_rest_of_slots as fn()));
    integrity::set_key(arena::directory().key.load(Ordering::Relaxed));
    let front_end = match settings::starts_standard() {
        true => FrontEnd::Standard,
        false => FrontEnd::LowFragmentation,
    };
    let options = HeapOptions {
        hardened: settings::hardened(),
        ..HeapOptions::default()
    };
    begin(PROCESS, options, front_end)
}

fn begin(number: u32, options: HeapOptions, front_end: FrontEnd) -> bool {
    let front_end = if options.hardened {
        FrontEnd::LowFragmentation
    } else {
        front_end
    };
    if !arena::open_record(number) || (options.hardened && !arena::open_block_table()) {
        return false;
    }
    // SAFETY: the record is accessible, and zero is valid for its fields.
    let record = unsafe { &*(arena::record_address(number) as *const Record) };
    record.front_end.store(front_end as u8, Ordering::Relaxed);
    record.debug.store(u8::from(options.debug), Ordering::Relaxed);
    record
        .hardened
        .store(u8::from(options.hardened), Ordering::Relaxed);
    record.backend.begin(number);
    if front_end == FrontEnd::LowFragmentation && !record.low_fragmentation.start(number, options.hardened) {
        return false;
    }
    record.number.store(number, Ordering::Release);
    true
}

/// Keeps heaps from being made and destroyed, and their memory from being purged, for the time of a fork. Returns false
/// if there is no heap and no memory for one: another thread may be about to make it, and would not be in the child.
/// This registers no handler, as the C library may be working on their list.
fn hold_list() -> bool {
    let exists = arena::prepare(begin_process_heap);
    if exists {
        HEAPS.hold();
    }
    exists
}

/// Ends [`hold_list`] in the parent.
///
/// # Safety
/// This thread called `hold_list`.
unsafe fn release_list() {
    // SAFETY: the caller's premise.
    unsafe { HEAPS.release() };
}

/// Ends [`hold_list`] in the child.
///
/// # Safety
/// This thread is the only one, and its parent called `hold_list`.
unsafe fn free_list_after_fork() {
    // SAFETY: the caller's premise.
    unsafe { HEAPS.free_after_fork() };
}

/// The living heaps' records, by number.
fn living_records() -> impl Iterator<Item = &'static Record> {
    (1..=arena::directory().heaps.load(Ordering::Acquire)).filter_map(living)
}

/// Calls `read` if a range is memory of this process's heaps that can be read: of the window, which stays, or of the
/// slots of a heap, which is not destroyed meanwhile. Whether it is.
pub(crate) fn while_readable(start: usize, length: usize, read: impl FnOnce()) -> bool {
    if arena::is_readable(start, length) {
        read();
        return true;
    }
    if !arena::is_ready() {
        return false;
    }
    let _held = HEAPS.lock();
    let readable = living_records().any(|record| record.low_fragmentation.slots.contains(start, length));
    if readable {
        read();
    }
    readable
}

fn living(number: u32) -> Option<&'static Record> {
    // SAFETY: records up to the directory's count are accessible.
    let record = unsafe { &*(arena::record_address(number) as *const Record) };
    (record.number.load(Ordering::Acquire) != 0).then_some(record)
}

/// Makes a heap, whose calls take no lock if `no_serialize`, and returns its number.
pub(crate) fn create(options: HeapOptions, no_serialize: bool) -> Result<u32, HeapError> {
    if options.hardened && (options.debug || no_serialize) {
        return Err(HeapError::Contradiction);
    }
    of(PROCESS).ok_or(HeapError::OutOfMemory)?;
    let _held = HEAPS.lock();
    let known = arena::directory().heaps.load(Ordering::Acquire);
    let number = (1..=known)
        .find(|number| living(*number).is_none())
        .unwrap_or(known + 1);
    if number > arena::HEAPS {
        return Err(HeapError::TooManyHeaps);
    }
    if !begin(number, options, FrontEnd::Standard) {
        return Err(HeapError::OutOfMemory);
    }
    if let Some(record) = living(number) {
        record
            .no_serialize
            .store(u8::from(no_serialize), Ordering::Relaxed);
    }
    Ok(number)
}

/// Ends a heap: its memory returns to the kernel.
///
/// # Safety
/// No thread uses the heap or a block of it.
pub(crate) unsafe fn destroy(number: u32) {
    let _held = HEAPS.lock();
    let Some(record) = living(number) else {
        return;
    };
    record.number.store(0, Ordering::Release);
    // SAFETY: the caller's premise.
    unsafe { record.low_fragmentation.end() };
    // SAFETY: the caller's premise.
    unsafe { arena::disown(number, record.is_hardened()) };
    // SAFETY: the record is accessible, and no thread uses it under the lock, as its number is 0.
    unsafe { ptr::write_bytes(arena::record_address(number) as *mut Record, 0, 1) };
}

impl Record {
    #[inline(always)]
    pub(crate) fn is_hardened(&self) -> bool {
        self.hardened.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    #[cfg(test)]
    pub(crate) fn run_cache(&self) -> &RunCache {
        &self.run_cache
    }

    /// Runs for a large block. A debug heap is checked first.
    #[inline]
    pub(crate) fn runs(&self) -> Runs<'_> {
        if self.debug.load(Ordering::Relaxed) != 0 {
            self.with_standard(|_| ());
        }
        self.unchecked_runs()
    }

    fn unchecked_runs(&self) -> Runs<'_> {
        Runs {
            backend: &self.backend,
            cache: &self.run_cache,
            front: &self.low_fragmentation,
        }
    }

    /// Frees the free memory in the front end and the run cache to the back end. This thread holds no lock.
    pub(crate) fn flush_caches(&self) {
        self.unchecked_runs().flush_caches();
    }

    /// The block of `take`, or of a second call of it after a flush of the caches: they may hold the missing memory.
    /// This thread holds no lock.
    #[inline]
    pub(crate) fn take_or_flush_caches(&self, take: impl Fn() -> *mut u8) -> *mut u8 {
        let block = take();
        if !block.is_null() {
            return block;
        }
        self.flush_caches();
        take()
    }

    pub(crate) fn front_end(&self) -> FrontEnd {
        match self.front_end.load(Ordering::Acquire) {
            0 => FrontEnd::Standard,
            _ => FrontEnd::LowFragmentation,
        }
    }

    pub(crate) fn set_front_end(&self, front_end: FrontEnd) -> Result<(), FrontEndError> {
        match (front_end, self.front_end()) {
            (FrontEnd::Standard, FrontEnd::LowFragmentation) => Err(FrontEndError::InUse),
            (FrontEnd::LowFragmentation, _) if self.no_serialize.load(Ordering::Relaxed) != 0 => {
                Err(FrontEndError::NoSerialize)
            }
            (FrontEnd::LowFragmentation, _) if self.debug.load(Ordering::Relaxed) != 0 => {
                Err(FrontEndError::Debug)
            }
            (FrontEnd::LowFragmentation, FrontEnd::Standard) => self.start_low_fragmentation(),
            _ => Ok(()),
        }
    }

    fn start_low_fragmentation(&self) -> Result<(), FrontEndError> {
        let _held = HEAPS.lock();
        if !self
            .low_fragmentation
            .start(self.number.load(Ordering::Relaxed), false)
        {
            return Err(FrontEndError::OutOfMemory);
        }
        self.front_end
            .store(FrontEnd::LowFragmentation as u8, Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn low_fragmentation(&self) -> &LowFragmentation {
        &self.low_fragmentation
    }

    /// A block of `bucket` that the slots do not have, or where the heap has no buckets one of `size` bytes at a multiple
    /// of `align`. Null if no memory is left.
    #[cold]
    #[inline(never)]
    pub(crate) fn allocate_slowly(&self, bucket: Bucket, size: usize, align: usize) -> *mut u8 {
        self.take_or_flush_caches(|| match self.front_end() {
            FrontEnd::LowFragmentation => self.low_fragmentation.refill(&self.backend, bucket),
            FrontEnd::Standard => {
                purge::count_slow_call();
                self.with_standard(|standard| standard.allocate(&self.backend, size, align))
            }
        })
    }

    /// # Safety
    /// A block of the Standard front end in use, which no thread uses again.
    pub(crate) unsafe fn free_standard(&self, block: *mut u8) {
        self.with_standard(|standard| {
            self.check_own(block);
            // SAFETY: the caller's premise.
            unsafe { standard.free(&self.backend, block) }
        });
    }

    /// # Safety
    /// A block of the Standard front end in use, which only the caller uses.
    pub(crate) unsafe fn resize_standard(&self, block: *mut u8, size: usize) -> bool {
        self.with_standard(|standard| {
            self.check_own(block);
            // SAFETY: the caller's premise.
            unsafe { standard.resize(block, size) }
        })
    }

    /// Ends the process if the block's run is no Standard run of this heap: the program freed it in another heap than
    /// its own, or freed it twice. Under the lock of Standard no run of this heap becomes one or ends to be one.
    fn check_own(&self, block: *mut u8) {
        let damage = match arena::unit_of(block as usize).map(arena::unit) {
            Some(unit) if unit.kind() != UnitKind::Standard => Damage::DoubleFree,
            Some(unit) if unit.heap.load(Ordering::Relaxed) == self.number.load(Ordering::Relaxed) => return,
            _ => Damage::OtherHeap,
        };
        integrity::report(damage, block as usize, None);
    }

    /// Holds every lock for the time of a fork.
    pub(crate) fn hold(&self) {
        self.low_fragmentation.hold();
        self.standard.hold();
        self.run_cache.hold();
        self.backend.lock().hold();
    }

    /// Ends [`Record::hold`] in the parent.
    ///
    /// # Safety
    /// This thread called `hold`.
    pub(crate) unsafe fn release(&self) {
        // SAFETY: the caller's premise.
        unsafe {
            self.backend.lock().release();
            self.run_cache.release();
            self.standard.release();
            self.low_fragmentation.release();
        }
    }

    /// Ends [`Record::hold`] in the child.
    ///
    /// # Safety
    /// This thread is the only one, and its parent called `hold`.
    pub(crate) unsafe fn free_after_fork(&self) {
        // SAFETY: the caller's premise.
        unsafe {
            self.backend.lock().free_after_fork();
            self.run_cache.free_after_fork();
            self.standard.free_after_fork();
            self.low_fragmentation.free_after_fork();
        }
    }

    fn with_standard<T>(&self, work: impl FnOnce(&mut Standard) -> T) -> T {
        let check = |standard: &Standard| {
            if self.debug.load(Ordering::Relaxed) != 0 {
                self.check_or_end(standard);
            }
        };
        if self.no_serialize.load(Ordering::Relaxed) != 0 {
            // SAFETY: the heap was made for one thread alone.
            let standard = unsafe { self.standard.assume_alone() };
            check(standard);
            return work(standard);
        }
        let mut standard = self.standard.lock();
        check(&standard);
        work(&mut standard)
    }

    /// Checks the whole heap, whose Standard front end is `standard`. The process ends if it is damaged.
    #[cold]
    fn check_or_end(&self, standard: &Standard) {
        // Else other threads, which take and free large blocks, change the runs that are walked over.
        let extents = self.backend.extents();
        if let Err(damaged) = standard.check(self.number.load(Ordering::Relaxed)) {
            integrity::report(Damage::Header, damaged.header, None);
        }
        if let Err(damaged) = extents.check() {
            integrity::report(Damage::Description, arena::address_of(damaged.first), None);
        }
    }
}

/// Unmaps the slots that no processor of this machine needs, unless another thread holds the list of heaps.
fn unmap_rest_of_slots() {
    if let Some(_held) = HEAPS.try_lock() {
        living_records().for_each(|record| record.low_fragmentation.slots.unmap_rest());
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::arena::injection;
    use crate::heap::Heap;

    /// Frees the blocks of a heap that has nothing else that is free and cannot grow, and allocates `size` bytes.
    fn allocates_from_what_is_kept(heap: &Heap, blocks: Vec<*mut u8>, size: usize) {
        let backend = of(heap.number()).expect("the heap lives").backend();
        injection::set(Some(0));
        while backend.take(1, 1, UnitKind::Large).is_some() {}
        for block in blocks {
            // SAFETY: the block is in use.
            unsafe { heap.free(block) };
        }
        assert_eq!(backend.extents().free, 0, "all of them are cached");
        let block = heap.allocate(size);
        injection::set(None);
        assert!(!block.is_null(), "{size} bytes");
    }

    #[test]
    fn small_blocks_are_made_of_cached_large_ones() {
        for front_end in [FrontEnd::Standard, FrontEnd::LowFragmentation] {
            let heap = Heap::of(front_end);
            // As many as a shelf has room for, one behind the other.
            let units = (2..=8_usize).flat_map(|units| (0..16 / units).map(move |_| units));
            let blocks = units.map(|units| heap.allocate(units << 14)).collect();
            allocates_from_what_is_kept(&heap, blocks, 100);
        }
    }

    #[test]
    fn hardened_blocks_are_made_of_cached_small_ones() {
        for size in [100, 50_000] {
            let options = HeapOptions {
                hardened: true,
                ..HeapOptions::default()
            };
            let heap = Heap::new(options).expect("there is memory");
            // Of these so many leave quarantine that a subsegment is empty.
            let blocks = (0..66).map(|_| heap.allocate(16_000)).collect();
            allocates_from_what_is_kept(&heap, blocks, size);
        }
    }
}
