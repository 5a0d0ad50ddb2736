//! The hardened profile: a heap that notices mistakes at once, for some nanoseconds a call.
//!
//! Its blocks are those of the low-fragmentation front end, whose fast paths it keeps out of sight: so every call of a
//! hardened heap comes here. A byte for each 16 bytes of the window, out of the way of the blocks, says whether a
//! block starts there and what became of it:
//!
//! ```text
//!             allocate              free                 quarantine is full
//! NEVER or FREE ----> in use + slack ----> QUARANTINED ----------------------> FREE
//! ```
//!
//! So an address is freed only if a block in use starts there. Behind what was asked for stand eight bytes or more that
//! `free` checks; what was freed is zero, stays in quarantine for a while, and is checked to be still zero when it is
//! handed out again. A block larger than any bucket's ends in front of a page that cannot be reached.
//!
//! Premises of the unsafe code: the table covers the window and stays; a block in use is its owner's, and after `free`
//! this module's until it comes to the front end.
#![allow(unsafe_code)]

use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use plimsoll_os::address_space;

use crate::arena::{self, BUCKET_OF_UNIT, WINDOW};
use crate::bucket::{Bucket, SMALLEST_BLOCK};
use crate::integrity::{self, Damage};
use crate::large;
use crate::pages;
use crate::record::Record;
use crate::unit::{UNIT, UnitIndex, UnitKind};

/// Set in [`BUCKET_OF_UNIT`] beside the bucket of a hardened heap's units: no fast path knows such a bucket.
pub(crate) const HIDDEN: u8 = 0x80;

/// Bytes behind each block that are checked.
const CANARY: usize = 8;
/// Bytes behind a large block that cannot be reached.
const GUARD: usize = 4096;

/// What the table says: no block starts there, or it was never handed out.
const NEVER: u8 = 0;
const FREE: u8 = 1;
const QUARANTINED: u8 = 2;
/// From here on: in use, with so many bytes more than were asked for.
const IN_USE: u8 = 3;
/// In use, with a number of bytes more that the next two bytes of the table hold.
const IN_USE_LONG: u8 = u8::MAX;

/// Address of the table; 0 where no heap is hardened.
static TABLE: AtomicUsize = AtomicUsize::new(0);

/// Makes the table. False where there is no address space for it: 16 GiB, of which what describes blocks is used.
pub(crate) fn start() -> bool {
    if TABLE.load(Ordering::Acquire) != 0 {
        return true;
    }
    let Ok(table) = address_space::map(WINDOW / SMALLEST_BLOCK) else {
        return false;
    };
    if TABLE
        .compare_exchange(0, table, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        // SAFETY: the mapping was made above, and nobody knows of it.
        let _ = unsafe { address_space::unmap(table, WINDOW / SMALLEST_BLOCK) };
    }
    true
}

/// The byte of the table for an address of the window.
fn state(address: usize) -> &'static AtomicU8 {
    let at = TABLE.load(Ordering::Relaxed) + (address - arena::window()) / SMALLEST_BLOCK;
    // SAFETY: the table covers the window; it is made of atomics, for which zero is valid.
    unsafe { &*ptr::with_exposed_provenance(at) }
}

/// Forgets what was in units that become a subsegment.
pub(crate) fn begin_subsegment(start: usize, units: u32) {
    let bytes = units as usize * UNIT / SMALLEST_BLOCK;
    // SAFETY: the table covers the window, and no block starts in the units, so nobody looks at their bytes.
    unsafe { ptr::write_bytes(state(start).as_ptr(), NEVER, bytes) };
}

/// Notes how many bytes more than asked for a block has, as it comes into use.
fn note_slack(block: usize, slack: usize) {
    if slack < (IN_USE_LONG - IN_USE) as usize {
        state(block).store(IN_USE + slack as u8, Ordering::Release);
        return;
    }
    // A block with so much slack is long enough to have further bytes of the table to itself.
    state(block + SMALLEST_BLOCK).store(slack as u8, Ordering::Relaxed);
    state(block + 2 * SMALLEST_BLOCK).store((slack >> 8) as u8, Ordering::Relaxed);
    state(block).store(IN_USE_LONG, Ordering::Release);
}

/// The bytes more than asked for of a block in use, by its byte of the table.
fn slack(block: usize, byte: u8) -> usize {
    if byte != IN_USE_LONG {
        return (byte - IN_USE) as usize;
    }
    let low = state(block + SMALLEST_BLOCK).load(Ordering::Relaxed);
    let high = state(block + 2 * SMALLEST_BLOCK).load(Ordering::Relaxed);
    low as usize | (high as usize) << 8
}

/// The bucket of a hardened heap's block at an address, if one may be there.
fn bucket_of(address: usize) -> Option<Bucket> {
    let unit = arena::unit_of(address)?;
    let number = BUCKET_OF_UNIT[unit as usize].load(Ordering::Relaxed);
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

/// A block of `size` bytes at a multiple of `align`, a power of two; null where no memory is left.
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
    let block = record
        .low_fragmentation()
        .allocate_hidden(record.backend(), bucket);
    if block.is_null() {
        return block;
    }
    let address = block as usize;
    // SAFETY: the block was free and is this call's now; it is a bucket's size long.
    unsafe {
        // Its first word may still link it to another free block; the second was checked by the front end.
        block.cast::<u64>().write(0);
        if state(address).load(Ordering::Relaxed) == NEVER {
            // What it was before may be there still; `free` clears what was asked for alone.
            ptr::write_bytes(block.add(size), 0, bucket.size() - size);
        } else if !is_zero(block, bucket.size()) {
            integrity::report(Damage::WrittenAfterFree, address, Some(bucket));
        }
        write_canary(address + size);
    }
    note_slack(address, bucket.size() - size);
    block
}

/// # Safety
/// The block is the caller's, and so long.
unsafe fn is_zero(block: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller's premise; blocks are aligned to words and whole words long.
    let words = unsafe { core::slice::from_raw_parts(block.cast::<u64>(), bytes / 8) };
    words.iter().fold(0, |all, word| all | word) == 0
}

/// A block of its own units, behind which the last page of its run cannot be reached.
fn allocate_large(record: &Record, size: usize, align: usize) -> *mut u8 {
    let Some(with_guard) = size.checked_add(CANARY + GUARD) else {
        return ptr::null_mut();
    };
    let block = large::allocate_uncached(record.backend(), with_guard, align);
    if !block.is_null() {
        let address = block as usize;
        let end = address + large::run_bytes(address);
        large::note_asked(address, size);
        // SAFETY: the run was just taken, and is longer than what was asked for by both.
        unsafe {
            write_canary(address + size);
            // Where the kernel has no room for another mapping, the canary has to do.
            let _ = address_space::make_inaccessible(end - GUARD, GUARD);
        }
    }
    block
}

/// Gives a block back, if it is a hardened one's or a large one; no where it is of another kind.
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
    if !address.is_multiple_of(SMALLEST_BLOCK) {
        wrong(Damage::NotAStart);
    }
    let unit = arena::unit(arena::unit_of(address).expect("it has a bucket"));
    if unit.heap.load(Ordering::Relaxed) != record.number.load(Ordering::Relaxed) {
        wrong(Damage::OtherHeap);
    }
    // One of two threads that free the block at the same time sees that the other one did.
    let byte = state(address).load(Ordering::Acquire);
    match byte {
        NEVER => wrong(Damage::NotAStart),
        FREE | QUARANTINED => wrong(Damage::DoubleFree),
        _ => {}
    }
    let size = bucket.size() - slack(address, byte);
    let taken = state(address).compare_exchange(byte, QUARANTINED, Ordering::AcqRel, Ordering::Relaxed);
    if taken.is_err() {
        wrong(Damage::DoubleFree);
    }
    // SAFETY: the block is this call's from here on.
    unsafe {
        if !is_canary(address + size) {
            wrong(Damage::Overrun);
        }
        ptr::write_bytes(block, 0, size + CANARY);
    }
    let slot = record.low_fragmentation().slot_of_thread();
    if let Some((leaving, bucket)) = record.quarantine.exchange(slot, block, bucket) {
        state(leaving as usize).store(FREE, Ordering::Release);
        // SAFETY: the block left the quarantine, and nobody else has it.
        unsafe {
            record
                .low_fragmentation()
                .free_hidden(record.backend(), bucket, leaving)
        };
    }
    true
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
    let length = large::run_bytes(address);
    // SAFETY: the run is the block's, with what is behind it.
    unsafe {
        if !is_canary(address + large::asked(address)) {
            integrity::report(Damage::Overrun, address, None);
        }
        let _ = address_space::make_accessible(address + length - GUARD, GUARD);
        // What was in it is gone at once. Where pages are locked it goes when the memory is used again.
        let _ = pages::make_zero(address, length);
    }
    record.backend().give(first);
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

/// Bytes that were asked for, of a block in use; none of another kind of block. The process ends where there is none.
pub(crate) fn size(block: *const u8) -> Option<usize> {
    let address = block as usize;
    match bucket_of(address) {
        Some(bucket) if address.is_multiple_of(SMALLEST_BLOCK) => {
            match state(address).load(Ordering::Acquire) {
                NEVER => integrity::report(Damage::NotAStart, address, Some(bucket)),
                FREE | QUARANTINED => integrity::report(Damage::UsedAfterFree, address, Some(bucket)),
                byte => Some(bucket.size() - slack(address, byte)),
            }
        }
        Some(bucket) => integrity::report(Damage::NotAStart, address, Some(bucket)),
        None => large_at(address).map(|_| large::asked(address)),
    }
}

/// Parts of the quarantine; threads of different processors use different ones.
const PARTS: usize = 8;
/// Blocks of at most [`SHORT`] bytes in a part, and longer ones.
const SHORT_BLOCKS: usize = 256;
const LONG_BLOCKS: usize = 32;
const SHORT: usize = 1024;

/// Blocks that were freed and are not to be used again yet, the oldest leaving first: at most 6 MiB a heap.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Quarantine {
    parts: [Part; PARTS],
}

#[derive(Debug)]
#[repr(C, align(64))]
struct Part {
    next: [AtomicU32; 2],
    short: [AtomicUsize; SHORT_BLOCKS],
    long: [AtomicUsize; LONG_BLOCKS],
}

impl Quarantine {
    /// Takes a block in, and returns the one that has to leave for it.
    fn exchange(&self, slot: usize, block: *mut u8, bucket: Bucket) -> Option<(*mut u8, Bucket)> {
        let part = &self.parts[slot % PARTS];
        let (next, places) = match bucket.size() {
            ..=SHORT => (&part.next[0], &part.short[..]),
            _ => (&part.next[1], &part.long[..]),
        };
        // Two threads may choose the same place: then one block leaves a little earlier.
        let at = next.load(Ordering::Relaxed);
        next.store(at.wrapping_add(1), Ordering::Relaxed);
        let leaving = places[at as usize % places.len()].swap(block.expose_provenance(), Ordering::AcqRel);
        let bucket = bucket_of(leaving).filter(|_| leaving != 0)?;
        Some((ptr::with_exposed_provenance_mut(leaving), bucket))
    }
}
