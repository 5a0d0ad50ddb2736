//! The memory of slots: as many as the machine has processors are writable, and so many more are read-only as a kernel
//! can have.
//!
//! A process may be restored on a machine with more processors than it was started on (CRIU): then threads have
//! concurrency ids past its slots, and no fast path compares an id with the number of slots. A read-only slot is zero,
//! an unused one: fast paths find neither a block nor room in it. The slow path makes it writable ([`SlotSet::slot_of`]).
//!
//! Invariant: sections write to writable slots alone. Checked by `ids_past_the_slots_get_slots`.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering};

use plimsoll_os::MOST_PROCESSORS;

use super::SlotSet;
use super::layout::SLOT;
use super::shared::SHARED;
use crate::memory::{self, Access};

/// Kernels count processors in words of so many.
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "only restartable slots have ids")
)]
const WORD: usize = u64::BITS as usize;

/// How many slots are writable, and how many are mapped; the shared ones count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) writable: usize,
    pub(super) mapped: usize,
}

impl Counts {
    /// As one number. Readers from outside take the writable slots from its low half.
    const fn word(self) -> u64 {
        self.writable as u64 | (self.mapped as u64) << 32
    }

    const fn of_word(word: u64) -> Counts {
        Counts {
            writable: word as u32 as usize,
            mapped: (word >> 32) as usize,
        }
    }

    pub(super) fn load(from: &AtomicU64) -> Counts {
        Counts::of_word(from.load(Ordering::Acquire))
    }

    pub(super) fn store(self, to: &AtomicU64) {
        to.store(self.word(), Ordering::Release);
    }

    /// Replaces `self`. Returns false if another thread did.
    fn replace(self, by: Counts, at: &AtomicU64) -> bool {
        at.compare_exchange(self.word(), by.word(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// Maps slots for so many processors, and read-only ones for as many as a kernel can have: not if the address space is
/// limited. Returns their address; none if no memory is left.
pub(super) fn map_for_sections(processors: usize) -> Option<(usize, Counts)> {
    let writable = SHARED + processors;
    let most = SHARED + processors.max(MOST_PROCESSORS);
    let reserved = match memory::is_limited() {
        false => memory::reserve(most * SLOT).map(|start| (start, most)),
        true => None,
    };
    let Some((start, mapped)) = reserved else {
        let counts = Counts {
            writable,
            mapped: writable,
        };
        return map(writable).map(|start| (start, counts));
    };
    memory::use_base_pages(start, mapped * SLOT);
    let (end, rest) = (start + writable * SLOT, (mapped - writable) * SLOT);
    // SAFETY: the range was reserved a moment ago, and no other thread knows it.
    let opened = unsafe {
        memory::set_access(start, writable * SLOT, Access::Write)
            .and_then(|()| memory::set_access(end, rest, Access::Read))
    };
    if opened.is_err() {
        // SAFETY: as above.
        unsafe { memory::release(start, mapped * SLOT) };
        return None;
    }
    Some((start, Counts { writable, mapped }))
}

/// Maps so many slots, whose pages come with their use: a system that always uses huge pages would fill each page with
/// unused slots.
pub(super) fn map(count: usize) -> Option<usize> {
    let slots = memory::map(count * SLOT)?;
    memory::use_base_pages(slots, count * SLOT);
    Some(slots)
}

impl SlotSet {
    /// The slot of a concurrency id, which becomes writable if it is not. Without memory for it, another slot's number:
    /// sections on the id's own slot find nothing and no room.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only restartable slots have ids")
    )]
    pub(super) fn slot_of(&self, id: usize) -> usize {
        let slot = SHARED + id;
        let counts = Counts::load(&self.counts);
        if slot < counts.writable || self.extend(slot) {
            return slot;
        }
        counts.writable - 1
    }

    /// Makes a read-only slot writable, and its neighbours. Returns false if there is no memory for it.
    #[cold]
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only restartable slots have ids")
    )]
    fn extend(&self, slot: usize) -> bool {
        let slots = self.slots.load(Ordering::Acquire);
        loop {
            let counts = Counts::load(&self.counts);
            if slot < counts.writable {
                return true;
            }
            if slot >= counts.mapped {
                return false;
            }
            let writable = (SHARED + (slot + 1 - SHARED).next_multiple_of(WORD)).min(counts.mapped);
            let (start, length) = (counts.writable * SLOT, (writable - counts.writable) * SLOT);
            // SAFETY: `map_for_sections` mapped the range, of which this changes nothing but the access. `unmap_rest` does
            // not unmap slots of this machine's processors.
            if unsafe { memory::set_access(slots + start, length, Access::Write) }.is_err() {
                return false;
            }
            if counts.replace(Counts { writable, ..counts }, &self.counts) {
                return true;
            }
        }
    }

    /// Unmaps the read-only slots for which this machine has no processors, as a limit on address space was set. No set
    /// is destroyed meanwhile.
    pub(crate) fn unmap_rest(&self) {
        let slots = self.slots.load(Ordering::Acquire);
        let counts = Counts::load(&self.counts);
        let Some(processors) = plimsoll_os::possible_processors() else {
            return;
        };
        let mapped = counts.writable.max(SHARED + processors);
        if slots != 0 && mapped < counts.mapped && counts.replace(Counts { mapped, ..counts }, &self.counts) {
            let (start, end) = (mapped * SLOT, counts.mapped * SLOT);
            // SAFETY: no thread has an id of these slots.
            unsafe { memory::release(slots + start, end - start) };
        }
    }
}
