//! Prepared memory that one thread at a time leases: buffers and contexts of codecs, for readers and for writers.
#![allow(unsafe_code, reason = "values in prepared memory, of one thread at a time")]

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::memory::{Memory, Part};
use super::slots::Slots;

/// A value in prepared memory.
///
/// # Safety
/// Zeroed memory is a value of the type, and the type needs no drop.
pub(super) unsafe trait Area: Sized {}

/// `64 * WORDS` values of type `T` in a memory, a slot each.
pub(super) struct Areas<T, const WORDS: usize> {
    slots: Slots<WORDS>,
    /// The highest slot that was ever leased, + 1: the values above are not resident.
    touched: AtomicUsize,
    part: Part,
    of: PhantomData<fn() -> T>,
}

impl<T: Area, const WORDS: usize> Areas<T, WORDS> {
    /// The values.
    pub(super) const COUNT: usize = Slots::<WORDS>::COUNT;

    /// Bytes of a part for them.
    pub(super) const BYTES: usize = Slots::<WORDS>::COUNT * size_of::<T>();

    /// Areas in a part of [`Areas::BYTES`] bytes, which were never used.
    pub(super) fn new(part: Part) -> Areas<T, WORDS> {
        Areas {
            slots: Slots::new(),
            touched: AtomicUsize::new(0),
            part,
            of: PhantomData,
        }
    }

    /// Leases a value; none if all are leased. Never waits.
    pub(super) fn lease<'m>(&'m self, memory: &'m Memory) -> Option<Lease<'m, T, WORDS>> {
        self.slots.lease().map(|slot| self.leased(memory, slot))
    }

    /// Leases the value of that slot; none if it is leased.
    pub(super) fn lease_slot<'m>(&'m self, memory: &'m Memory, slot: usize) -> Option<Lease<'m, T, WORDS>> {
        self.slots.lease_number(slot).then(|| self.leased(memory, slot))
    }

    fn leased<'m>(&'m self, memory: &'m Memory, slot: usize) -> Lease<'m, T, WORDS> {
        if slot >= self.touched.load(Ordering::Relaxed) {
            self.touched.fetch_max(slot + 1, Ordering::Relaxed);
        }
        Lease {
            slots: &self.slots,
            slot,
            value: memory.at(&self.part, slot * size_of::<T>(), 1),
        }
    }

    /// Slots that were ever leased are below.
    pub(super) fn touched(&self) -> usize {
        self.touched.load(Ordering::Relaxed)
    }

    /// Ends every lease: in the child of a fork, whose other threads are gone.
    pub(super) fn release_all(&self) {
        self.slots.release_all();
    }
}

impl<T, const WORDS: usize> fmt::Debug for Areas<T, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Areas")
            .field("slots", &self.slots)
            .field("part", &self.part)
            .finish()
    }
}

/// A leased value, returned when dropped.
pub(super) struct Lease<'m, T, const WORDS: usize> {
    slots: &'m Slots<WORDS>,
    slot: usize,
    value: NonNull<T>,
}

impl<T, const WORDS: usize> Deref for Lease<'_, T, WORDS> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the slot is leased, so this is the only reference; the part belongs to
        // the areas, and held zeros at first: a value, by the premise of `Area`.
        unsafe { self.value.as_ref() }
    }
}

impl<T, const WORDS: usize> DerefMut for Lease<'_, T, WORDS> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the lease is borrowed exclusively.
        unsafe { self.value.as_mut() }
    }
}

impl<T, const WORDS: usize> Drop for Lease<'_, T, WORDS> {
    fn drop(&mut self) {
        self.slots.release(self.slot);
    }
}
