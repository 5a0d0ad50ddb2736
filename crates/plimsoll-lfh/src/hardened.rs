//! The hardened profile: a heap that notices mistakes at once, for some nanoseconds a call.
//!
//! Its blocks are those of the low-fragmentation front end, hidden from the fast paths: so every call of a hardened
//! heap comes here. The block table ([`crate::block_table`]) holds the state of each block, away from the blocks.
//!
//! `free` accepts an address only if a block in use starts there. Behind the requested bytes are eight bytes or more
//! that `free` checks; a freed block is zero, stays in quarantine for a while, and `allocate` checks that it is still
//! zero. A block larger than any bucket's ends in front of a guard page, as far as the system
//! has room for them ([`crate::guards`]).
//!
//! A walk over the heap meanwhile finds it consistent at each step: the canary of a block is written before the block
//! is in use and stays until it rests, and a block in quarantine, in a slot or in a list is `RESTING` or free before it
//! is there.
//!
//! Premises of the unsafe code: the table ([`arena::block_byte`]) covers every unit and stays; a block in use is its
//! owner's, and after `free` this module's until the front end has it.
//!
//! Invariant: the process ends with a message that names the mistake if a profile notices one. Checked by
//! `mistakes_end_the_program_with_their_description`.
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::Ordering;

use crate::affinity::QUARANTINED;
use crate::arena::{self, block_byte as state};
use crate::block_table::{FREE, HIDDEN, NEVER, RESTING, note_slack, slack};
use crate::bucket::{Bucket, SMALLEST_BLOCK};
use crate::guards::{self, GUARD};
use crate::integrity::{self, Damage};
use crate::large;
use crate::memory;
use crate::pages;
use crate::record::Record;
use crate::subsegment;
use crate::unit::{UNIT, UnitIndex, UnitKind};

/// Bytes behind each block that are checked.
pub(crate) const CANARY: usize = 8;
/// Bytes at the start of a free block that the front end uses, and checks by itself.
const LINKED: usize = 16;
/// Whether large blocks may have a guard page: where pages are longer, the canary has to do.
fn may_be_guarded() -> bool {
    pages::page() <= GUARD
}

/// The bucket of a hardened heap's block at an address, if one may be there.
fn bucket_of(address: usize) -> Option<Bucket> {
    let unit = arena::unit_of(address)?;
    let number = arena::bucket_of_unit(unit).load(Ordering::Relaxed);
    if number & HIDDEN == 0 {
        None
    } else {
        Bucket::new(number & !HIDDEN)
    }
}

/// # Safety
/// The bytes are of a block whose owner calls.
unsafe fn write_canary(end: usize) {
    // SAFETY: the caller's premise.
    unsafe { ptr::with_exposed_provenance_mut::<u64>(end).write_unaligned(integrity::canary(end)) };
}

/// # Safety
/// As for [`write_canary`].
unsafe fn is_canary(end: usize) -> bool {
    // SAFETY: the caller's premise.
    unsafe { ptr::with_exposed_provenance::<u64>(end).read_unaligned() == integrity::canary(end) }
}

/// A block of `size` bytes at a multiple of `align`, a power of two; null if no memory is left.
pub(crate) fn allocate(record: &Record, size: usize, align: usize) -> *mut u8 {
    let Some(with_canary) = size.checked_add(CANARY) else {
        return ptr::null_mut();
    };
    let bucket = match align {
        ..=SMALLEST_BLOCK => Bucket::for_size(with_canary),
        _ => Bucket::for_layout(with_canary, align),
    };
    let Some(bucket) = bucket else {
        return allocate_large(record, size, align);
    };
    let front = record.low_fragmentation();
    let block = record.take_or_flush_caches(|| front.allocate_hidden(record.backend(), bucket));
    if block.is_null() {
        return block;
    }
    let address = block as usize;
    // SAFETY: the block was free and is this call's now; it is a bucket's size long.
    unsafe {
        // The first word may still link it to another free block; the second was checked and cleared by the front end.
        block.cast::<u64>().write(0);
        if state(address).load(Ordering::Relaxed) == NEVER {
            // Former contents may be there still; `free` clears the requested bytes alone.
            ptr::write_bytes(block.add(size), 0, bucket.size() - size);
        } else if !is_zero(block.add(LINKED), bucket.size() - LINKED) {
            integrity::report(Damage::WrittenAfterFree, address, Some(bucket));
        }
        write_canary(address + size);
    }
    note_slack(address, bucket.size() - size);
    block
}

/// # Safety
/// The bytes are the caller's, aligned to words and whole words.
unsafe fn is_zero(bytes: *mut u8, length: usize) -> bool {
    // SAFETY: the caller's premise.
    let words = unsafe { core::slice::from_raw_parts(bytes.cast::<u64>(), length / 8) };
    words.iter().fold(0, |all, word| all | word) == 0
}

/// A block of its own units. The last page of its run is a guard page, if one more may be, and unused otherwise.
fn allocate_large(record: &Record, size: usize, align: usize) -> *mut u8 {
    let Some(with_guard) = size.checked_add(CANARY + GUARD) else {
        return ptr::null_mut();
    };
    let take = || large::allocate_uncached(record.backend(), with_guard, align);
    let block = record.take_or_flush_caches(take);
    if !block.is_null() {
        let address = block as usize;
        let end = address + large::run_bytes(address);
        // SAFETY: the run was just taken, and is longer than the request by both.
        unsafe {
            write_canary(address + size);
            large::note_requested(address, size);
            // A block without a guard has its canary.
            let guarded = may_be_guarded() && guards::place(end - GUARD);
            arena::unit(arena::unit_within(address))
                .guarded
                .store(u8::from(guarded), Ordering::Relaxed);
        }
    }
    block
}

/// Frees a block, if it is a hardened or a large one; returns false for another kind.
///
/// # Safety
/// `block` is not used again if it is a block.
pub(crate) unsafe fn free(record: &Record, block: *mut u8) -> bool {
    let address = block as usize;
    let Some(bucket) = bucket_of(address) else {
        // SAFETY: the caller's premise.
        return unsafe { free_large(record, block) };
    };
    let wrong = |damage| integrity::report(damage, address, Some(bucket));
    if !subsegment::starts_block(bucket.number(), address) {
        wrong(Damage::NotAStart);
    }
    let unit = arena::unit_of(address).expect("it has a bucket");
    if !arena::belongs(unit, record.number.load(Ordering::Relaxed)) {
        wrong(Damage::OtherHeap);
    }
    let byte = state(address).load(Ordering::Acquire);
    match byte {
        NEVER => wrong(Damage::NotAStart),
        FREE | RESTING => wrong(Damage::DoubleFree),
        _ => {}
    }
    let size = bucket.size() - slack(address, byte);
    // A locked exchange would wait for all that the program and `write_bytes` wrote just now. Where two threads free the
    // block at the same time, `release` sees it twice.
    state(address).store(RESTING, Ordering::Release);
    // SAFETY: the block is this call's from here on.
    unsafe {
        if !is_canary(address + size) {
            wrong(Damage::Overrun);
        }
        ptr::write_bytes(block, 0, size + CANARY);
    }
    let slots = &record.low_fragmentation().slots;
    if !slots.quarantine(block) {
        let mut leaving = [ptr::null_mut(); QUARANTINED + 1];
        let count = slots.make_room(block, &mut leaving);
        // SAFETY: they left the quarantine, and no other thread has them.
        leaving[..count]
            .iter()
            .for_each(|block| unsafe { release(record, *block) });
    }
    true
}

/// Makes a block that left the quarantine free.
///
/// # Safety
/// The block is the caller's.
unsafe fn release(record: &Record, block: *mut u8) {
    let address = block as usize;
    let Some(bucket) = bucket_of(address).filter(|_| state(address).load(Ordering::Acquire) == RESTING)
    else {
        integrity::report(Damage::DoubleFree, address, bucket_of(address));
    };
    // SAFETY: the caller's premise; a block is as long at least.
    if !unsafe { is_zero(block, LINKED) } {
        // The front end is about to write there: so it has to be noticed now.
        integrity::report(Damage::WrittenAfterFree, address, Some(bucket));
    }
    state(address).store(FREE, Ordering::Release);
    // SAFETY: the caller's premise.
    unsafe {
        record
            .low_fragmentation()
            .free_hidden(record.backend(), bucket, block)
    };
}

/// # Safety
/// As for [`free`].
unsafe fn free_large(record: &Record, block: *mut u8) -> bool {
    let Some(first) = large_at(block as usize) else {
        return false;
    };
    let address = block as usize;
    let unit = arena::unit(first);
    if unit.heap.load(Ordering::Relaxed) != record.number.load(Ordering::Relaxed) {
        integrity::report(Damage::OtherHeap, address, None);
    }
    let (length, requested) = (large::run_bytes(address), large::requested(address));
    if length - requested < CANARY + GUARD {
        // Another thread is about to free it.
        integrity::report(Damage::DoubleFree, address, None);
    }
    // SAFETY: the run is the block's, with the bytes behind it.
    unsafe {
        if !is_canary(address + requested) {
            integrity::report(Damage::Overrun, address, None);
        }
        // From here on there is no canary.
        large::note_requested(address, length);
        // The contents are gone at once; locked pages are cleared when the memory is used again. If the kernel has no
        // room to join its mappings again, no heap uses the run any more.
        let guarded = unit.guarded.load(Ordering::Relaxed) != 0;
        if !guarded || guards::remove(address + length - GUARD) {
            unit.guarded.store(0, Ordering::Relaxed);
            match pages::make_zero(address, length) {
                true => record.backend().free_untouched(first),
                false => record.backend().free(first),
            }
        } else {
            let _ = memory::discard(address, length);
        }
    }
    true
}

/// The first unit of the large block that starts at an address.
fn large_at(address: usize) -> Option<UnitIndex> {
    let first = arena::unit_of(address).filter(|unit| (arena::FIRST_UNIT..arena::end()).contains(unit))?;
    let unit = arena::unit(first);
    let starts = unit.kind() == UnitKind::Large
        && unit.first.load(Ordering::Relaxed) == first
        && address.is_multiple_of(UNIT);
    starts.then_some(first)
}

/// Bytes that were asked for, of a block in use; none of another kind of block. The process ends if there is none.
pub(crate) fn size(block: *const u8) -> Option<usize> {
    let address = block as usize;
    match bucket_of(address) {
        Some(bucket) if subsegment::starts_block(bucket.number(), address) => {
            match state(address).load(Ordering::Acquire) {
                NEVER => integrity::report(Damage::NotAStart, address, Some(bucket)),
                FREE | RESTING => integrity::report(Damage::UsedAfterFree, address, Some(bucket)),
                byte => Some(bucket.size() - slack(address, byte)),
            }
        }
        Some(bucket) => integrity::report(Damage::NotAStart, address, Some(bucket)),
        None => large_at(address).map(|_| large::requested(address)),
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use crate::{Heap, HeapOptions};
    use crate::{guards, pages, record};
    use plimsoll_testkit::{is_emulated_without, this_program};

    fn hardened() -> Heap {
        let options = HeapOptions {
            hardened: true,
            ..HeapOptions::default()
        };
        Heap::new(options).expect("there is memory")
    }

    /// Its pages returned with the block, and once more by the purge, which started a thread.
    #[test]
    fn a_freed_large_block_leaves_nothing_to_purge() {
        let heap = hardened();
        let block = heap.allocate(1 << 20);
        // SAFETY: the block is in use, and that long.
        unsafe {
            block.write_bytes(1, 1 << 20);
            heap.free(block);
        }
        let record = record::of(heap.number()).expect("the heap lives");
        let extents = record.backend().extents();
        assert_eq!((extents.free, extents.touched), (extents.owned, 0));
        assert_eq!(extents.check(), Ok(()));
    }

    fn in_child(name: &str, body: fn()) {
        const CHILD: &str = "PLIMSOLL_LFH_CHILD";
        if std::env::var_os(CHILD).is_some() {
            return body();
        }
        let status = this_program()
            .args([&std::format!("hardened::tests::{name}"), "--exact"])
            .env(CHILD, "1")
            .status()
            .expect("the test program starts");
        assert!(status.success(), "{status}");
    }

    /// The kernel's mark of the mapping that starts at an address: whether nothing can be read there.
    fn starts_a_guard(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("there is /proc");
        let start = std::format!("{address:x}-");
        maps.lines()
            .any(|line| line.starts_with(&start) && line.contains(" ---p "))
    }

    /// Each block of more than 16 KiB had a guard page. After 34,000 of them the kernel had no mapping left for the
    /// process: `malloc` returned null, and neither `mmap` nor `pthread_create` worked.
    fn fill_with_large_blocks() {
        const MOST: u32 = 64;
        guards::pretend(MOST);
        let heap = hardened();
        let blocks: Vec<*mut u8> = (0..1000).map(|_| heap.allocate(20_000)).collect();
        assert!(blocks.iter().all(|block| !block.is_null()));
        assert_eq!(guards::in_use(), MOST);
        let guarded = |block: &*mut u8| {
            let address = *block as usize;
            starts_a_guard(address + super::large::run_bytes(address) - super::GUARD)
        };
        let half = MOST as usize / 2;
        assert!(blocks[..half].iter().all(guarded), "few blocks have a guard each");
        let sampled = blocks[half..half * 9]
            .iter()
            .filter(|block| guarded(block))
            .count();
        assert_eq!(sampled, half, "one of eight has");
        assert!(!blocks[half * 9..].iter().any(guarded), "and then none");
        for block in &blocks[1..] {
            // SAFETY: the block is in use.
            unsafe { heap.free(*block) };
        }
        assert_eq!(guards::in_use(), 1);
        assert!(guarded(&heap.allocate(20_000)));
        drop(heap);
        assert_eq!(guards::in_use(), 0, "no heap has one");
    }

    #[test]
    fn guards_leave_mappings_to_the_program() {
        // QEMU takes minutes for as many mappings as the kernel allows. Long pages have no guards.
        if is_emulated_without("fast changes of many mappings") || pages::page_units() > 1 {
            return;
        }
        in_child("guards_leave_mappings_to_the_program", fill_with_large_blocks);
    }

    /// As on a system of 16 KiB pages: a part of one cannot be made inaccessible, nor accessible again, and so no large
    /// block was ever used again.
    fn use_large_blocks_of_long_pages() {
        pages::pretend(16 << 10);
        let heap = hardened();
        let block = heap.allocate(100_000);
        let end = block as usize + super::large::run_bytes(block as usize);
        // SAFETY: the block is in use, and nothing but it is in its run.
        unsafe {
            core::ptr::with_exposed_provenance_mut::<u8>(end - 1).write_volatile(1);
            heap.free(block);
        }
        let record = record::of(heap.number()).expect("the heap lives");
        let extents = record.backend().extents();
        assert_eq!(extents.free, extents.owned);
    }

    #[test]
    fn long_pages_have_no_guard() {
        in_child("long_pages_have_no_guard", use_large_blocks_of_long_pages);
    }
}
