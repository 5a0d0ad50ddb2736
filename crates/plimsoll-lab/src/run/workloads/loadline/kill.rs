//! The cause of a kill by the OOM killer: the load, or something that says nothing about it.
//!
//! The OOM killer sometimes ends a worker although its own swap is free: other programs have filled the swap device, or the
//! kernel's reclaim decides by old statistics, which `environment::cgroup` has it sum often enough to make this rare.

use crate::run::swap_use::SwapPeak;

/// The cause of a kill by the OOM killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillCause {
    /// The worker had filled its swap, or has none.
    Load,
    /// The worker's swap and the device were free: the kernel decided by old statistics.
    Early,
    /// Others had filled the device, or a larger load was completed.
    Disturbance,
}

/// Why a worker was killed at `load` on a device of `size` bytes, if `completed` is the largest load that was completed.
pub(super) fn cause_of_kill(swap: SwapPeak, size: Option<u64>, load: f64, completed: f64) -> KillCause {
    if completed > load {
        return KillCause::Disturbance;
    }
    match size {
        Some(size) if swap.is_filled_by_others(size) => KillCause::Disturbance,
        Some(size) if swap.own_is_free(size) => KillCause::Early,
        _ => KillCause::Load,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker was killed at load 1.12, and 1.5 and 2 ran to the end: the load line was then given as 1.09.
    #[test]
    fn a_kill_below_a_completed_load_is_a_disturbance() {
        let full = SwapPeak::of(96, 96);
        assert_eq!(cause_of_kill(full, Some(100), 1.12, 2.0), KillCause::Disturbance);
        assert_eq!(cause_of_kill(full, None, 0.9, 1.0), KillCause::Disturbance);
        assert_eq!(cause_of_kill(full, Some(100), 3.0, 2.0), KillCause::Load);
        assert_eq!(
            cause_of_kill(SwapPeak::default(), None, 1.5, 1.0),
            KillCause::Load
        );
    }

    #[test]
    fn a_kill_is_judged_by_the_swap_of_the_worker_itself() {
        let cause = |own, device| cause_of_kill(SwapPeak::of(own, device), Some(100), 3.0, 2.0);
        assert_eq!(cause(12, 96), KillCause::Disturbance, "others filled the device");
        assert_eq!(cause(12, 14), KillCause::Early);
        assert_eq!(cause(91, 96), KillCause::Load);
    }
}
