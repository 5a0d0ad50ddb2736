//! The state of ageing: windows in which the accesses to each chunk are seen, and the order of trims that follows.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::page::Chunk;

/// The shortest time of a window.
pub(crate) const WINDOW: Duration = Duration::from_secs(5);
/// A window lasts this many times the CPU time of the last one: 1% of a CPU.
const COSTS: u32 = 100;
/// Classes of heat.
pub(crate) const CLASSES: usize = Chunk::HOTTEST as usize + 1;

/// Whether a pager sees the accesses to its chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum AgeingState {
    /// It does not look.
    #[default]
    Off = 0,
    /// It looks in windows while pages are trimmed.
    On = 1,
    /// The kernel does not tell: it has no `UFFDIO_MOVE`, or refuses `MADV_COLD` or `/proc/self/smaps`. Chunks are trimmed in
    /// turn.
    Unsupported = 2,
}

impl AgeingState {
    /// The state with this number; an unknown one is off.
    pub(crate) fn of_number(number: u64) -> AgeingState {
        match number {
            1 => AgeingState::On,
            2 => AgeingState::Unsupported,
            _ => AgeingState::Off,
        }
    }
}

/// The windows of ageing. The balance-set manager alone begins and ends them.
#[derive(Debug, Default)]
pub(crate) struct Ageing {
    state: AtomicU8,
    /// Chunks above this class of heat are not trimmed now.
    most: AtomicU8,
    windows: AtomicU64,
    cost_ns: AtomicU64,
    /// Managed chunks by class at the end of the last window.
    classes: [AtomicU64; CLASSES],
    plan: Mutex<Plan>,
}

/// The window that is open, and the next one.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The shortest time of a window.
    pub(crate) window: Duration,
    /// The end of the open window, as a time since the pager was built.
    pub(crate) due: Option<Duration>,
    /// Pages that were trimmed before it began.
    pub(crate) trimmed: u64,
    /// The cost of the last window so far.
    pub(crate) cost: Duration,
}

impl Plan {
    /// The time of the window that begins now.
    pub(crate) fn length(&self) -> Duration {
        self.window.max(self.cost.saturating_mul(COSTS))
    }
}

impl Ageing {
    /// Begins to look in windows of at least `window`.
    pub(crate) fn start(&self, window: Duration) {
        self.plan().window = window;
        self.set_state(AgeingState::On);
    }

    pub(crate) fn state(&self) -> AgeingState {
        AgeingState::of_number(u64::from(self.state.load(Ordering::Relaxed)))
    }

    pub(crate) fn set_state(&self, state: AgeingState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// The windows. No fault takes this lock.
    pub(crate) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The class of heat above which chunks are not trimmed now.
    pub(crate) fn most(&self) -> u8 {
        self.most.load(Ordering::Relaxed)
    }

    /// Has chunks of the class above `seen` trimmed too. Returns false if that was the last class.
    pub(crate) fn raise(&self, seen: u8) -> bool {
        if seen >= Chunk::HOTTEST {
            return false;
        }
        // Another thread may have raised it as well.
        let _ = self
            .most
            .compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed);
        true
    }

    /// Has the coldest chunks trimmed first again.
    pub(crate) fn restart(&self) {
        self.most.store(0, Ordering::Relaxed);
    }

    /// Counts a window that ended.
    pub(crate) fn end_window(&self, classes: [u64; CLASSES]) {
        for (counter, chunks) in self.classes.iter().zip(classes) {
            counter.store(chunks, Ordering::Relaxed);
        }
        self.windows.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the CPU time of a part of a window.
    pub(crate) fn add_cost(&self, cost: Duration) {
        let ns = u64::try_from(cost.as_nanos()).unwrap_or(u64::MAX);
        self.cost_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Windows that ended.
    pub(crate) fn windows(&self) -> u64 {
        self.windows.load(Ordering::Relaxed)
    }

    /// Microseconds of CPU time of all windows.
    pub(crate) fn cost_us(&self) -> u64 {
        self.cost_ns.load(Ordering::Relaxed) / 1000
    }

    /// Managed chunks by class at the end of the last window.
    pub(crate) fn classes(&self) -> [u64; CLASSES] {
        std::array::from_fn(|class| self.classes[class].load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_longer_than_its_cost() {
        let mut plan = Plan {
            window: WINDOW,
            ..Plan::default()
        };
        assert_eq!(plan.length(), WINDOW);
        plan.cost = Duration::from_millis(80);
        assert_eq!(plan.length(), Duration::from_secs(8));
    }

    #[test]
    fn classes_are_raised_one_by_one_up_to_the_last() {
        let ageing = Ageing::default();
        for class in 0..Chunk::HOTTEST {
            assert_eq!(ageing.most(), class);
            assert!(ageing.raise(class));
            // A thread that saw the former class raises nothing.
            assert!(ageing.raise(class));
        }
        assert!(!ageing.raise(Chunk::HOTTEST));
        ageing.restart();
        assert_eq!(ageing.most(), 0);
    }
}
