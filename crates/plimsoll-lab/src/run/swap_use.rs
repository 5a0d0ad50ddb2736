//! The swap of a trial: of a worker, and of the whole device, which pages of other cgroups use too; and the wait until the
//! cgroup holds nothing of ended workers.
//!
//! The device's counter says nothing about a worker: other programs fill the device as well, and the memory of a killed
//! worker is freed after its end.

use std::time::Duration;

use super::context::TrialContext;
use super::trial_error::TrialError;
use crate::environment::{Environment, SwapDevice};
use crate::workload::Worker;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::scenario::Backing;

/// Swap of which less than this share is in use is free: the kernel takes it in clusters, so that the last is hard to get.
const FULL: f64 = 0.9;
/// Longest wait for the memory of ended workers. A gigabyte in zram is freed in a second or two.
const DRAINED_WITHIN: Duration = Duration::from_secs(30);

/// The most swap that was seen in use while a worker worked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SwapPeak {
    /// Bytes of the worker's own memory.
    own: u64,
    /// Bytes of the device, by pages of any cgroup.
    device: u64,
}

impl SwapPeak {
    #[cfg(test)]
    pub(super) fn of(own: u64, device: u64) -> SwapPeak {
        SwapPeak { own, device }
    }

    /// Looks at a worker and the device. The end of a worker frees its swap: a look at an ended one changes nothing.
    pub(super) fn look(&mut self, context: &TrialContext<'_, '_>, worker: &Worker) {
        let own = match context.plan.settings.memory() {
            Backing::Anonymous | Backing::File => worker.residency().map_or(0, |residency| residency.swapped),
            // The kernel counts swapped pages of a memory file to no process.
            Backing::Memfd => context
                .cgroup()
                .and_then(|cgroup| cgroup.swap().ok().flatten())
                .unwrap_or(0),
        };
        self.own = self.own.max(own);
        let used = device(context).and_then(used_bytes).unwrap_or(0);
        self.device = self.device.max(used);
    }

    /// Whether the worker had left room on a device of `size` bytes.
    pub(super) fn own_is_free(self, size: u64) -> bool {
        is_free(self.own, size)
    }

    /// Whether others filled a device of `size` bytes on which the worker had left room.
    pub(super) fn is_filled_by_others(self, size: u64) -> bool {
        self.own_is_free(size) && !is_free(self.device, size)
    }
}

/// Whether a swap device of `size` bytes has room.
pub(super) fn is_free(used: u64, size: u64) -> bool {
    (used as f64) < FULL * size as f64
}

fn device<'a>(context: &TrialContext<'a, '_>) -> Option<&'a SwapDevice> {
    context.environment().and_then(Environment::swap_device)
}

/// Bytes of a swap device that are in use; `None` if unreadable.
fn used_bytes(device: &SwapDevice) -> Option<u64> {
    let areas = plimsoll_proc::swaps::active().ok()?;
    let area = areas.into_iter().find(|area| area.path == device.path)?;
    Some(area.used)
}

impl TrialContext<'_, '_> {
    /// The bytes of the trial's swap device that pages of other cgroups use; `None` if unknown, or next to nothing.
    pub(super) fn foreign_swap(&self) -> Option<u64> {
        let device = device(self)?;
        let own = self.cgroup()?.swap().ok().flatten()?;
        let foreign = used_bytes(device)?.saturating_sub(own);
        (foreign > device.size / 100).then_some(foreign)
    }

    /// Waits until the memory and the swap of ended workers are free: a worker that begins before has less of both.
    pub(super) fn drain(&self) -> Result<(), TrialError> {
        self.go_on()?;
        let Some(cgroup) = self.cgroup() else {
            return Ok(());
        };
        cgroup
            .drain(DRAINED_WITHIN, self.runner.stop.flag())
            .or_else(|error| {
                self.go_on()?;
                Err(TrialError::failed(FailureCode::NotDrained, error))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_is_free_until_nine_tenths_of_it_are_used() {
        assert!(is_free(0, 100) && is_free(89, 100));
        assert!(!is_free(90, 100) && !is_free(100, 100) && !is_free(0, 0));
    }

    /// A worker was killed at 1.12 times its limit on a device that another cgroup, or the worker before, had filled.
    #[test]
    fn a_device_that_others_filled_is_free_to_the_worker() {
        let beside_others = SwapPeak { own: 12, device: 96 };
        assert!(beside_others.own_is_free(100) && beside_others.is_filled_by_others(100));
        let alone = SwapPeak { own: 95, device: 96 };
        assert!(!alone.own_is_free(100) && !alone.is_filled_by_others(100));
        let lagging = SwapPeak { own: 12, device: 14 };
        assert!(lagging.own_is_free(100) && !lagging.is_filled_by_others(100));
    }
}
