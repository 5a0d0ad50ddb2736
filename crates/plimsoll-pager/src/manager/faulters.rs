//! The threads whose faults need frames: one alone, or several.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Faults in a row of one thread after which it counts as the only one.
const ALONE_AFTER: u32 = 64;

/// The thread of the last fault that needed a frame, and the number of its faults in a row.
///
/// While two CPUs run threads of a process, each move of a page interrupts the other CPU to flush its TLB; with scattered
/// single pages that was 45 % of the CPU time of the pager. A thread that faults alone therefore restocks spare frames by
/// itself, and the balance-set manager sleeps.
#[derive(Debug, Default)]
pub(crate) struct Faulters {
    last: AtomicUsize,
    in_a_row: AtomicU32,
}

impl Faulters {
    /// Notes a fault of the thread with that token. Returns whether other threads have had none for some time.
    pub(crate) fn note(&self, thread: usize) -> bool {
        if self.last.load(Ordering::Relaxed) != thread {
            self.last.store(thread, Ordering::Relaxed);
            self.in_a_row.store(0, Ordering::Relaxed);
            return false;
        }
        let in_a_row = self.in_a_row.load(Ordering::Relaxed);
        if in_a_row < ALONE_AFTER {
            self.in_a_row.store(in_a_row + 1, Ordering::Relaxed);
        }
        in_a_row >= ALONE_AFTER
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ALONE_AFTER, Faulters};

    #[test]
    fn a_thread_is_alone_after_many_faults_in_a_row_and_until_another_one_faults() {
        let faulters = Faulters::default();
        assert!((0..=ALONE_AFTER).all(|_| !faulters.note(1)));
        assert!(faulters.note(1) && faulters.note(1));
        assert!(!faulters.note(2));
        assert!((0..=ALONE_AFTER).all(|_| !faulters.note(1)));
        assert!(faulters.note(1));
    }

    #[test]
    fn threads_that_take_turns_are_never_alone() {
        let faulters = Faulters::default();
        assert!((0..10_000).all(|fault| !faulters.note(1 + fault % 2)));
    }
}
