//! The budget: the frames that may be resident, given the bytes of the store and of metadata.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::page::PAGE_SIZE;

/// Counts resident frames against a number of bytes.
///
/// Invariant: a charge succeeds only while frames, native pages, overhead and [`Budget::reserve`] together fit into
/// `ram`. The reserve covers growth of the store between a charge and the next one.
/// Checked by `a_charge_never_exceeds_the_budget`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Budget {
    ram: AtomicU64,
    /// Present pages of managed chunks, in arena and shadow.
    frames: AtomicU64,
    /// Pages of native chunks, all of which may be present.
    native: AtomicU64,
    /// Frames that were charged over the cap, as nothing could be reclaimed.
    forced: AtomicU64,
}

impl Budget {
    /// A budget of `ram` bytes.
    pub(crate) fn new(ram: u64) -> Budget {
        Budget {
            ram: AtomicU64::new(ram),
            frames: AtomicU64::new(0),
            native: AtomicU64::new(0),
            forced: AtomicU64::new(0),
        }
    }

    /// A budget with these bytes, which were copied from a value in another process.
    pub(crate) fn of_bytes(bytes: &[u8; size_of::<Budget>()]) -> Budget {
        let word = |at: usize| {
            let bytes = bytes[at..].first_chunk().expect("a field is inside");
            AtomicU64::new(u64::from_ne_bytes(*bytes))
        };
        Budget {
            ram: word(std::mem::offset_of!(Budget, ram)),
            frames: word(std::mem::offset_of!(Budget, frames)),
            native: word(std::mem::offset_of!(Budget, native)),
            forced: word(std::mem::offset_of!(Budget, forced)),
        }
    }

    /// Bytes of the budget.
    pub(crate) fn ram(&self) -> u64 {
        self.ram.load(Ordering::Relaxed)
    }

    /// Changes the budget. Frames over it are released by and by.
    pub(crate) fn set_ram(&self, ram: u64) {
        self.ram.store(ram, Ordering::Relaxed);
    }

    /// Bytes that charges leave free, for the store to grow into: a 128th of the budget, at least four pages.
    pub(crate) fn reserve(&self) -> u64 {
        (self.ram() / 128).clamp(4 * PAGE_SIZE as u64, 4 << 20)
    }

    /// Frames, native ones included, that fit beside `overhead` bytes.
    fn limit(&self, overhead: u64) -> u64 {
        self.ram().saturating_sub(overhead + self.reserve()) / PAGE_SIZE as u64
    }

    /// Charges `frames` frames if they fit.
    pub(crate) fn charge(&self, frames: u64, overhead: u64) -> bool {
        let limit = self
            .limit(overhead)
            .saturating_sub(self.native.load(Ordering::Relaxed));
        self.frames
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |present| {
                (present + frames <= limit).then_some(present + frames)
            })
            .is_ok()
    }

    /// Charges a frame that is resident whatever the budget allows.
    pub(crate) fn force(&self, frames: u64) {
        self.frames.fetch_add(frames, Ordering::Relaxed);
    }

    /// Counts a frame over the cap: nothing could be reclaimed.
    pub(crate) fn count_forced(&self) {
        self.forced.fetch_add(1, Ordering::Relaxed);
    }

    /// Frames that were charged over the cap.
    pub(crate) fn forced(&self) -> u64 {
        self.forced.load(Ordering::Relaxed)
    }

    /// Returns frames that are resident no more.
    pub(crate) fn uncharge(&self, frames: u64) {
        let before = self.frames.fetch_sub(frames, Ordering::Relaxed);
        debug_assert!(before >= frames);
    }

    /// Reserves the pages of a native region if all could be resident.
    pub(crate) fn reserve_native(&self, pages: u64, overhead: u64) -> bool {
        let limit = self
            .limit(overhead)
            .saturating_sub(self.frames.load(Ordering::Relaxed));
        self.native
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |native| {
                (native + pages <= limit).then_some(native + pages)
            })
            .is_ok()
    }

    /// Ends the reservation of native pages.
    pub(crate) fn release_native(&self, pages: u64) {
        self.native.fetch_sub(pages, Ordering::Relaxed);
    }

    /// Present pages of managed chunks.
    pub(crate) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Pages of native chunks.
    pub(crate) fn native(&self) -> u64 {
        self.native.load(Ordering::Relaxed)
    }

    /// Frames to release until a charge could succeed again: 0 while the budget holds.
    pub(crate) fn excess(&self, overhead: u64) -> u64 {
        (self.frames() + self.native()).saturating_sub(self.limit(overhead))
    }

    /// Frames that could be charged now.
    pub(crate) fn spare(&self, overhead: u64) -> u64 {
        self.limit(overhead).saturating_sub(self.frames() + self.native())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Budget;

    #[test]
    fn a_charge_never_exceeds_the_budget() {
        let budget = Budget::new(1 << 20);
        let overhead = 64 << 10;
        let mut charged = 0;
        while budget.charge(1, overhead) {
            charged += 1;
        }
        assert!(charged * 4096 + overhead + budget.reserve() <= 1 << 20);
        assert!((charged + 1) * 4096 + overhead + budget.reserve() > 1 << 20);
        assert_eq!((budget.spare(overhead), budget.excess(overhead)), (0, 0));
        // The store grows: frames have to go.
        assert_eq!(budget.excess(overhead + (16 << 10)), 4);
        assert!(!budget.reserve_native(1, overhead));
        budget.uncharge(charged);
        assert!(budget.reserve_native(charged, overhead) && !budget.charge(1, overhead));
    }

    #[test]
    fn threads_together_charge_no_more_than_one_could() {
        let budget = Budget::new(4 << 20);
        let charged: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| scope.spawn(|| (0..1000).filter(|_| budget.charge(1, 0)).count() as u64))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .sum()
        });
        assert_eq!(charged, budget.frames());
        assert_eq!(charged, ((4 << 20) - budget.reserve()) / 4096);
    }
}
