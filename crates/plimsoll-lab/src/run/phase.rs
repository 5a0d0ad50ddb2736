//! One phase: a snapshot before, the work, a snapshot after, and its cost.

use super::Runner;
use super::trial_error::TrialError;
use crate::workload::protocol::Reply;
use crate::workload::{Cost, Findings};
use plimsoll_model::columns::{Row, col};
use plimsoll_model::exit::Failure;
use plimsoll_model::recording::model::Phase;
use plimsoll_model::recording::{Levels, PhaseRows};
use plimsoll_model::scenario::Backing;

use plimsoll_model::quantity;

/// The state of the machine at one moment.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) row: Row,
    /// Bytes in each category; they sum to MemTotal.
    pub(super) categories: Levels,
    /// CPU seconds of the worker that holds the background so far.
    pub(super) background_cpu_s: f64,
}

impl Snapshot {
    /// Bytes in the target's working set.
    pub(super) fn target(&self) -> u64 {
        self.row
            .get(col::TARGET_ANON)
            .and_then(|bytes| u64::try_from(bytes).ok())
            .unwrap_or(0)
    }

    /// Bytes in the target's working set that count for memory of this kind: without a file the anonymous ones, else all.
    pub(super) fn working_set(&self, memory: Backing) -> u64 {
        match memory {
            Backing::Anonymous => self.target(),
            Backing::Memfd | Backing::File => {
                let resident = self.row.get(col::TARGET_RESIDENT);
                resident.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
            }
        }
    }

    /// Bytes of the cgroup's pages in RAM that also have a place in swap; where the kernel does not count them for a cgroup,
    /// those of the machine that are in no working set.
    ///
    /// Not of the machine where it does: another cgroup that swaps keeps pages there all the time.
    pub(super) fn swap_cache(&self) -> u64 {
        let of_machine = || self.categories.get("swap_cache");
        let bytes = self.row.get(col::CGROUP_SWAP_CACHED).or_else(of_machine);
        bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0)
    }

    /// Percent of the time since `before` in which some and all tasks waited for memory: of the cgroup where it has PSI
    /// (v2), else of the machine.
    pub(super) fn pressure_since(&self, before: &Snapshot) -> [Option<f64>; 2] {
        let columns = match self.row.get(col::CGROUP_PSI_SOME_US) {
            Some(_) => [col::CGROUP_PSI_SOME_US, col::CGROUP_PSI_FULL_US],
            None => [col::PSI_MEMORY_SOME_US, col::PSI_MEMORY_FULL_US],
        };
        let elapsed_us = self.row.t_ns.saturating_sub(before.row.t_ns) as f64 / 1e3;
        columns.map(|column| {
            let waited_us = self.row.get(column)? - before.row.get(column)?;
            quantity::ratio(100.0 * waited_us as f64, elapsed_us)
        })
    }

    fn kernel_threads_us(&self) -> i64 {
        self.row.get(col::KERNEL_THREADS_CPU_US).unwrap_or(0)
    }
}

/// Cost and findings of a phase.
#[derive(Debug, Clone, Default)]
pub(super) struct Worked {
    pub(super) cost: Cost,
    pub(super) findings: Findings,
    /// Functions of the kernel with their share of the CPU time.
    pub(super) profile: Vec<(String, f64)>,
}

impl From<Cost> for Worked {
    fn from(cost: Cost) -> Self {
        Worked {
            cost,
            ..Worked::default()
        }
    }
}

impl Worked {
    pub(super) fn of_reply(reply: Reply) -> Result<Worked, TrialError> {
        match reply {
            Reply::Found { cost, findings } => Ok(Worked {
                cost,
                findings,
                profile: Vec::new(),
            }),
            Reply::Done { cost, .. } => Ok(cost.into()),
            other => Err(TrialError::unexpected(&other)),
        }
    }
}

/// A phase that ended, with the snapshots around it.
pub(super) struct Finished {
    pub(super) phase: Phase,
    pub(super) before: Snapshot,
    pub(super) after: Snapshot,
}

impl Finished {
    pub(super) fn new(
        name: &str,
        span_ns: (u64, u64),
        worked: Worked,
        before: Snapshot,
        after: Snapshot,
    ) -> Finished {
        let kernel_us = after.kernel_threads_us() - before.kernel_threads_us();
        let cost = worked.cost;
        let phase = Phase {
            name: name.to_owned(),
            span_ns,
            seconds: cost.seconds,
            bytes: cost.bytes,
            gb_per_s: quantity::gb_per_s(cost.bytes, cost.seconds),
            cpu_user_s: cost.cpu_user_s,
            cpu_system_s: cost.cpu_system_s,
            cpu_kernel_threads_s: kernel_us.max(0) as f64 / 1e6,
            cpu_background_s: (after.background_cpu_s - before.background_cpu_s).max(0.0),
            minor_faults: cost.minor_faults,
            major_faults: cost.major_faults,
            before: before.categories.clone(),
            after: after.categories.clone(),
            values: worked.findings.values,
            latency: worked.findings.latency,
            profile: worked.profile,
        };
        Finished { phase, before, after }
    }

    pub(super) fn rows(&self) -> PhaseRows {
        PhaseRows {
            before: self.before.row,
            after: self.after.row,
        }
    }
}

impl Runner<'_> {
    /// Reads the whole system now, outside the clock of the sampler.
    pub(super) fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        let mut row = Row::empty(self.recorder.now());
        self.reader.read(&mut row);
        let categories = plimsoll_model::categories::categories(&row)
            .map(Levels::from)
            .unwrap_or_default();
        Ok(Snapshot {
            row,
            categories,
            background_cpu_s: self.background_cpu_s(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a cgroup that swapped, a trim to a swap file emptied the machine's swap cache until the phase timed out.
    #[test]
    fn the_swap_cache_of_a_trial_is_that_of_its_cgroup() {
        let mut snapshot = Snapshot {
            row: Row::empty(0),
            categories: [("swap_cache", 70 << 20)].into_iter().collect(),
            background_cpu_s: 0.0,
        };
        assert_eq!(snapshot.swap_cache(), 70 << 20);
        snapshot.row.set(col::CGROUP_SWAP_CACHED, 4096);
        assert_eq!(snapshot.swap_cache(), 4096);
    }
}
