//! The wait until a cgroup holds nothing of ended processes.
//!
//! The kernel frees the memory and the swap of a killed process after its end: a reader of its files in /proc, or the OOM
//! reaper, may hold them for a while. A process that begins before has less of both.

use plimsoll_proc::cgroup::{Field, MemoryCgroup};

use super::super::error::EnvironmentError;
use super::patience::{POLL, Patience};

/// Part of the limit that may remain: the kernel counts in batches of pages.
const FEW: u64 = 50;
/// Largest share of the limit that such slots may be: its inverse.
const MOST_FREE_SLOTS: u64 = 16;

/// Anonymous memory of a cgroup; nothing where the kernel does not count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    memory: u64,
    swap: u64,
}

impl Held {
    fn of(cgroup: &MemoryCgroup) -> Result<Held, EnvironmentError> {
        Ok(Held {
            memory: cgroup.stat()?.get(Field::Anon).unwrap_or(0),
            swap: cgroup.swap()?.unwrap_or(0),
        })
    }

    /// Whether that is next to nothing for a cgroup of `limit` bytes.
    fn is_drained(self, limit: u64) -> bool {
        let few = limit / FEW;
        self.memory <= few && self.swap <= few + charged_free_slots().min(limit / MOST_FREE_SLOTS)
    }
}

/// Bytes of swap slots that are free and still charged: before Linux 6.14, each CPU collects up to 64 of them. (On a
/// machine with two CPUs, 94 of an ended worker stayed charged for longer than 30 s.)
fn charged_free_slots() -> u64 {
    const SLOTS: u64 = 64;
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    cpus * SLOTS * rustix::param::page_size() as u64
}

pub(super) fn drain(cgroup: &MemoryCgroup, patience: &Patience<'_>) -> Result<(), EnvironmentError> {
    let limit = cgroup.limit()?.unwrap_or(u64::MAX);
    loop {
        let held = Held::of(cgroup)?;
        if held.is_drained(limit) {
            return Ok(());
        }
        match patience.check() {
            Ok(()) => std::thread::sleep(POLL),
            Err(EnvironmentError::ReclaimTimedOut { timeout }) => {
                return Err(EnvironmentError::NotDrained {
                    timeout,
                    memory: held.memory,
                    swap: held.swap,
                });
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_drained_when_next_to_nothing_remains() {
        let held = |memory, swap| Held { memory, swap };
        assert!(held(0, 0).is_drained(100) && held(2, 2).is_drained(100));
        assert!(!held(3, 0).is_drained(100) && !held(0, 9).is_drained(100));
    }

    /// In a guest with two CPUs and Linux 6.12, a load line never began: "30 s after the end of its processes it holds 0
    /// bytes of memory and 385024 of swap".
    #[test]
    fn free_swap_slots_that_are_still_charged_are_nothing_of_a_worker() {
        let limit = 16 << 20;
        let slots = charged_free_slots().min(limit / MOST_FREE_SLOTS);
        let held = |swap| Held { memory: 0, swap };
        assert!(held(limit / FEW + slots).is_drained(limit));
        assert!(!held(limit / FEW + slots + 1).is_drained(limit));
        assert!(held(385_024 - limit / FEW).swap <= charged_free_slots());
    }
}
