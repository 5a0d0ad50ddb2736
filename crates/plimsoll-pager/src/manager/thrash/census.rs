//! Faults on evicted pages by thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads that are distinguished at the same time.
pub(crate) const MOST_THREADS: usize = 64;
/// Entries that a thread tries: beyond them its faults are not counted.
const PROBES: usize = 4;

/// Counts of faults on evicted pages, by thread. Any thread counts, also in a signal handler.
///
/// They are statistics: a fault that is noted while the counts are taken may count for a thread that comes later.
#[derive(Debug)]
pub(crate) struct FaultCounts {
    entries: [Entry; MOST_THREADS],
}

/// The faults of a thread, in a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    /// The token of the thread; 0 for none.
    thread: AtomicUsize,
    faults: AtomicU64,
}

impl Default for FaultCounts {
    fn default() -> FaultCounts {
        FaultCounts {
            entries: std::array::from_fn(|_| Entry::default()),
        }
    }
}

impl FaultCounts {
    /// Counts a fault of the thread with that token, which is not 0.
    pub(crate) fn note(&self, thread: usize) {
        // Tokens are addresses, or numbers in a row: the multiplication spreads both.
        let hash = (thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        for probe in 0..PROBES {
            let entry = &self.entries[(hash as usize + probe) % MOST_THREADS];
            let mut owner = entry.thread.load(Ordering::Relaxed);
            if owner == 0 {
                let taken = entry
                    .thread
                    .compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed);
                owner = taken.map_or_else(|other| other, |_| thread);
            }
            if owner == thread {
                entry.faults.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }

    /// The faults since the last call. Entries of threads without any are free again.
    pub(crate) fn take(&self) -> Census {
        let mut census = Census::default();
        for (entry, slot) in self.entries.iter().zip(&mut census.faults) {
            let thread = entry.thread.load(Ordering::Relaxed);
            let faults = entry.faults.swap(0, Ordering::Relaxed);
            if faults > 0 {
                *slot = (thread, faults);
            } else if thread != 0 {
                let _ = entry
                    .thread
                    .compare_exchange(thread, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        census
    }
}

/// The faults on evicted pages of one interval, by thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Census {
    /// Tokens and faults; entries without faults are of no thread.
    pub(crate) faults: [(usize, u64); MOST_THREADS],
}

impl Default for Census {
    fn default() -> Census {
        Census {
            faults: [(0, 0); MOST_THREADS],
        }
    }
}

impl Census {
    /// The faults of all threads.
    pub(crate) fn all(&self) -> u64 {
        let faults = self.faults.iter().map(|(_, faults)| *faults);
        faults.fold(0, u64::saturating_add)
    }

    /// The faults of one thread.
    pub(crate) fn of(&self, thread: usize) -> u64 {
        let own = self.faults.iter().filter(|(other, _)| *other == thread);
        own.map(|(_, faults)| *faults).sum()
    }

    /// The thread with the most faults but `passed`.
    pub(crate) fn worst_but(&self, passed: Option<usize>) -> Option<(usize, u64)> {
        let others = self.faults.iter().filter(|(thread, _)| Some(*thread) != passed);
        let worst = others.max_by_key(|(_, faults)| *faults);
        worst.copied().filter(|(_, faults)| *faults > 0)
    }

    /// Percent of the faults that the thread with the most of them has.
    pub(crate) fn worst_percent(&self) -> u64 {
        match (self.worst_but(None), self.all()) {
            (Some((_, faults)), all @ 1..) => faults.saturating_mul(100) / all,
            _ => 0,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{FaultCounts, MOST_THREADS};

    #[test]
    fn faults_count_for_their_thread_until_they_are_taken() {
        let counts = FaultCounts::default();
        for fault in 0..100 {
            counts.note(0x7f00_0000_1000 + fault % 4 * 0x1000);
            counts.note(77);
        }
        let census = counts.take();
        assert_eq!((census.all(), census.of(77)), (200, 100));
        assert_eq!(census.of(0x7f00_0000_3000), 25);
        assert_eq!(census.worst_but(None), Some((77, 100)));
        assert_eq!(census.worst_but(Some(77)).map(|(_, faults)| faults), Some(25));
        assert_eq!(census.worst_percent(), 50);
        assert_eq!(counts.take().worst_but(None), None);
    }

    #[test]
    fn entries_of_threads_that_ended_are_free_after_two_intervals() {
        let counts = FaultCounts::default();
        for generation in 1..1000 {
            // Their thread number is not one of the former ones.
            counts.note(generation * 8);
            assert_eq!(counts.take().of(generation * 8), 1);
            counts.take();
        }
    }

    #[test]
    fn more_threads_than_entries_count_at_most_once_each() {
        let counts = FaultCounts::default();
        (1..=10 * MOST_THREADS).for_each(|thread| counts.note(thread));
        let census = counts.take();
        assert!(census.all() > 0 && census.all() <= MOST_THREADS as u64);
        assert!(census.faults.iter().all(|(_, faults)| *faults <= 1));
    }
}
