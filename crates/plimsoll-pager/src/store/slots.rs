//! Numbers that threads lease: of prepared memory that one thread at a time uses. Leasing never waits, so that a signal
//! handler may do it, in a thread that has leases of its own.
//!
//! The lowest free number is leased, so that memory is touched only for as many threads as there are at a time.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, Ordering};

/// `64 * WORDS` numbers.
///
/// Invariant: a number is leased to one thread at a time, which sees the writes of the one before. Checked by
/// `one_thread_at_a_time_has_a_slot`.
#[derive(Debug)]
pub(super) struct Slots<const WORDS: usize> {
    /// A bit for each number, set while it is leased.
    taken: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Slots<WORDS> {
    pub(super) const COUNT: usize = 64 * WORDS;

    pub(super) fn new() -> Slots<WORDS> {
        Slots {
            taken: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Leases a number; none if all are leased. [`Slots::release`] ends it.
    pub(super) fn lease(&self) -> Option<usize> {
        for (index, word) in self.taken.iter().enumerate() {
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let free = (!taken).trailing_zeros();
                let before = word.fetch_or(1 << free, Ordering::Acquire);
                if before & 1 << free == 0 {
                    return Some(index * 64 + free as usize);
                }
                taken = before;
            }
        }
        None
    }

    /// Leases that number; false if it is leased.
    pub(super) fn lease_number(&self, number: usize) -> bool {
        let bit = 1 << (number % 64);
        self.taken[number / 64].fetch_or(bit, Ordering::Acquire) & bit == 0
    }

    /// Ends the lease of a number.
    pub(super) fn release(&self, number: usize) {
        self.taken[number / 64].fetch_and(!(1 << (number % 64)), Ordering::Release);
    }

    /// Ends every lease: in the child of a fork, whose other threads are gone.
    pub(super) fn release_all(&self) {
        for word in &self.taken {
            word.store(0, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_leased_once() {
        let slots = Slots::<2>::new();
        let leased: Vec<_> = core::iter::from_fn(|| slots.lease()).collect();
        assert_eq!(leased, (0..Slots::<2>::COUNT).collect::<Vec<_>>());
        slots.release(77);
        assert!(!slots.lease_number(76));
        assert!(slots.lease_number(77));
        slots.release(3);
        slots.release(99);
        assert_eq!(slots.lease(), Some(3), "the lowest is leased first");
        slots.release_all();
        assert_eq!(slots.lease(), Some(0));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    #[test]
    #[allow(unsafe_code)]
    fn one_thread_at_a_time_has_a_slot() {
        loom::model(|| {
            let shared = Arc::new((Slots::<1>::new(), UnsafeCell::new(0)));
            // One number is left.
            for _ in 1..64 {
                shared.0.lease();
            }
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || {
                        let leased = shared.0.lease();
                        if let Some(number) = leased {
                            // SAFETY: loom fails if two threads are here, or one without the writes of the other.
                            shared.1.with_mut(|value| unsafe { *value += 1 });
                            shared.0.release(number);
                        }
                        leased.is_some()
                    })
                })
                .collect();
            let leases = threads
                .into_iter()
                .filter_map(|thread| thread.join().ok())
                .filter(|had| *had);
            assert!(leases.count() >= 1);
        });
    }
}
