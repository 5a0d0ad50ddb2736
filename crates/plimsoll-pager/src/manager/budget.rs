//! The budget: the frames that may be resident, given the bytes of the store and of metadata.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::page::PAGE_SIZE;

/// A native page in the word of resident pages; a frame is 1.
const NATIVE: u64 = 1 << 32;

/// Counts resident frames against a number of bytes.
///
/// Invariant: a charge succeeds only while frames, native pages, overhead and [`Budget::reserve`] together fit into
/// `ram`. The reserve covers growth of the store between a charge and the next one.
/// Checked by `a_charge_never_exceeds_the_budget`, `charges_and_native_regions_together_never_exceed_the_budget`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Budget {
    ram: AtomicU64,
    /// The bytes that the budget is to have: below `ram` while it shrinks, else equal.
    target: AtomicU64,
    /// Pages of native chunks, all of which may be present, in the upper half; present pages of managed chunks, in arena
    /// and shadow, in the lower. One word, so that a charge and a native region never pass the check at the same time.
    resident: AtomicU64,
    /// Frames that were charged over the cap, as nothing could be reclaimed.
    forced: AtomicU64,
}

impl Budget {
    /// A budget of `ram` bytes.
    pub(crate) fn new(ram: u64) -> Budget {
        Budget {
            ram: AtomicU64::new(ram),
            target: AtomicU64::new(ram),
            resident: AtomicU64::new(0),
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
            target: word(std::mem::offset_of!(Budget, target)),
            resident: word(std::mem::offset_of!(Budget, resident)),
            forced: word(std::mem::offset_of!(Budget, forced)),
        }
    }

    /// Bytes of the budget.
    pub(crate) fn ram(&self) -> u64 {
        self.ram.load(Ordering::Relaxed)
    }

    /// The bytes that the budget is to have.
    pub(crate) fn target(&self) -> u64 {
        self.target.load(Ordering::SeqCst)
    }

    /// Changes the budget: it grows at once, and shrinks by [`Budget::approach_target`].
    pub(crate) fn set_target(&self, ram: u64) {
        self.target.store(ram, Ordering::SeqCst);
        // Another thread that shrinks either sees the new target, or does so before this growth.
        self.ram.fetch_max(ram, Ordering::SeqCst);
    }

    /// Shrinks the budget by up to `step` bytes towards its target. Returns whether it is there.
    pub(crate) fn approach_target(&self, step: u64) -> bool {
        let shrink = |ram: u64| {
            let target = self.target();
            (ram > target).then(|| target.max(ram.saturating_sub(step)))
        };
        let _ = self.ram.fetch_update(Ordering::SeqCst, Ordering::SeqCst, shrink);
        self.ram() <= self.target()
    }

    /// Makes the budget and its target smaller at once.
    pub(crate) fn lose(&self, bytes: u64) {
        for word in [&self.target, &self.ram] {
            let less = |ram: u64| Some(ram.saturating_sub(bytes));
            let _ = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        }
    }

    /// Bytes that charges leave free, for the store to grow into: a 128th of the budget, at least four pages.
    pub(crate) fn reserve(&self) -> u64 {
        (self.ram() / 128).clamp(4 * PAGE_SIZE as u64, 4 << 20)
    }

    /// Frames, native ones included, that fit beside `overhead` bytes.
    pub(crate) fn limit(&self, overhead: u64) -> u64 {
        self.ram().saturating_sub(overhead + self.reserve()) / PAGE_SIZE as u64
    }

    /// Adds pages to the word if they fit beside `overhead` bytes.
    fn add(&self, pages: u64, unit: u64, overhead: u64) -> bool {
        let limit = self.limit(overhead);
        self.resident
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |resident| {
                (total(resident) + pages <= limit).then_some(resident + pages * unit)
            })
            .is_ok()
    }

    /// Charges `frames` frames if they fit.
    pub(crate) fn charge(&self, frames: u64, overhead: u64) -> bool {
        self.add(frames, 1, overhead)
    }

    /// Charges a frame that is resident whatever the budget allows, as nothing could be reclaimed.
    pub(crate) fn force(&self) {
        self.resident.fetch_add(1, Ordering::Relaxed);
        self.forced.fetch_add(1, Ordering::Relaxed);
    }

    /// Frames that were charged over the cap.
    pub(crate) fn forced(&self) -> u64 {
        self.forced.load(Ordering::Relaxed)
    }

    /// Returns frames that are resident no more.
    pub(crate) fn uncharge(&self, frames: u64) {
        let before = self.resident.fetch_sub(frames, Ordering::Relaxed);
        debug_assert!(before % NATIVE >= frames);
    }

    /// Reserves the pages of a native region if all could be resident.
    pub(crate) fn reserve_native(&self, pages: u64, overhead: u64) -> bool {
        self.add(pages, NATIVE, overhead)
    }

    /// Ends the reservation of native pages.
    pub(crate) fn release_native(&self, pages: u64) {
        let before = self.resident.fetch_sub(pages * NATIVE, Ordering::Relaxed);
        debug_assert!(before / NATIVE >= pages);
    }

    /// Counts a native page as a frame: the sum stays.
    pub(crate) fn adopt(&self) {
        let before = self.resident.fetch_sub(NATIVE - 1, Ordering::Relaxed);
        debug_assert!(before >= NATIVE);
    }

    /// Present pages of managed chunks.
    pub(crate) fn frames(&self) -> u64 {
        self.resident.load(Ordering::Relaxed) % NATIVE
    }

    /// Pages of native chunks.
    pub(crate) fn native(&self) -> u64 {
        self.resident.load(Ordering::Relaxed) / NATIVE
    }

    /// Frames to release until a charge could succeed again: 0 while the budget holds.
    pub(crate) fn excess(&self, overhead: u64) -> u64 {
        total(self.resident.load(Ordering::Relaxed)).saturating_sub(self.limit(overhead))
    }

    /// Frames that could be charged now.
    pub(crate) fn spare(&self, overhead: u64) -> u64 {
        self.limit(overhead)
            .saturating_sub(total(self.resident.load(Ordering::Relaxed)))
    }
}

/// Frames and native pages of the word.
fn total(resident: u64) -> u64 {
    resident / NATIVE + resident % NATIVE
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
    fn a_budget_grows_at_once_and_shrinks_in_steps() {
        let budget = Budget::new(100);
        budget.set_target(300);
        assert_eq!(budget.ram(), 300);
        budget.set_target(90);
        assert_eq!((budget.ram(), budget.target()), (300, 90));
        assert!(!budget.approach_target(100));
        assert_eq!(budget.ram(), 200);
        // A growth ends the shrinking where it is.
        budget.set_target(150);
        assert_eq!(budget.ram(), 200);
        assert!(budget.approach_target(100));
        assert_eq!(budget.ram(), 150);
        assert!(budget.approach_target(100));
        assert_eq!(budget.ram(), 150);
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

    /// With a counter for each of the two, both could pass the check before the other one had counted.
    #[test]
    fn charges_and_native_regions_together_never_exceed_the_budget() {
        const ROUNDS: usize = 2000;
        let budget = Budget::new(1 << 20);
        let limit = ((1 << 20) - budget.reserve()) / 4096;
        let wrong = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|number| {
                    let budget = &budget;
                    scope.spawn(move || {
                        let mut wrong = 0;
                        for _ in 0..ROUNDS {
                            let is_native = number % 2 == 0;
                            let pages = limit / 2 + 1;
                            let done = match is_native {
                                true => budget.reserve_native(pages, 0),
                                false => budget.charge(pages, 0),
                            };
                            if done {
                                wrong += usize::from(budget.frames() + budget.native() > limit);
                                match is_native {
                                    true => budget.release_native(pages),
                                    false => budget.uncharge(pages),
                                }
                            }
                        }
                        wrong
                    })
                })
                .collect();
            let threads = threads.into_iter();
            threads
                .map(|thread| thread.join().expect("no panic"))
                .sum::<usize>()
        });
        assert_eq!((wrong, budget.frames(), budget.native()), (0, 0, 0));
    }

    #[test]
    fn an_adopted_page_is_counted_once() {
        let budget = Budget::new(1 << 20);
        assert!(budget.reserve_native(200, 0));
        let spare = budget.spare(0);
        (0..150).for_each(|_| budget.adopt());
        assert_eq!(
            (budget.frames(), budget.native(), budget.spare(0)),
            (150, 50, spare)
        );
        budget.release_native(50);
        assert_eq!((budget.native(), budget.spare(0)), (0, spare + 50));
    }
}
