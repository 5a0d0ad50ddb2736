//! The wait until a cgroup holds nothing of ended processes.
//!
//! The kernel frees the memory and the swap of a killed process after its end: a reader of its files in /proc, or the OOM
//! reaper, may hold them for a while. A process that begins before has less of both.

use plimsoll_proc::cgroup::{Field, MemoryCgroup};

use super::super::error::EnvironmentError;
use super::{POLL, Patience};

/// Part of the limit that may remain: the kernel counts in batches of pages.
const FEW: u64 = 50;

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
        self.memory.max(self.swap) <= limit / FEW
    }
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
        assert!(!held(3, 0).is_drained(100) && !held(0, 3).is_drained(100));
    }
}
