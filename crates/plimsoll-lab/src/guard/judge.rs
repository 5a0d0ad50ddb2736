//! Whether a policy helps: the useful work with it against the work before.
//!
//! Useful work is CPU time in user mode: a process that thrashes waits, or works in the kernel.

use std::collections::HashMap;
use std::time::Duration;

use plimsoll_proc::ProcessId;

/// User time of the candidates, summed over their lives.
#[derive(Debug, Default)]
pub(super) struct Useful {
    known: HashMap<ProcessId, u64>,
    total_us: u64,
}

impl Useful {
    /// Takes in the user time of each candidate so far.
    pub(super) fn take(&mut self, times: impl Iterator<Item = (ProcessId, u64)>) {
        let mut now = HashMap::new();
        for (process, user_us) in times {
            // The time before the first look is of an earlier time.
            let before = self.known.get(&process).copied().unwrap_or(user_us);
            self.total_us += user_us.saturating_sub(before);
            now.insert(process, user_us);
        }
        self.known = now;
    }

    /// Whether it was a candidate at the last look.
    pub(super) fn has(&self, process: ProcessId) -> bool {
        self.known.contains_key(&process)
    }

    pub(super) fn total_us(&self) -> u64 {
        self.total_us
    }
}

/// An interval in which work is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    at: Duration,
    total_us: u64,
}

impl Span {
    pub(super) fn begin(at: Duration, useful: &Useful) -> Span {
        Span {
            at,
            total_us: useful.total_us(),
        }
    }

    pub(super) fn length(self, now: Duration) -> Duration {
        now.saturating_sub(self.at)
    }

    /// CPUs of user time since its begin.
    pub(super) fn rate(self, now: Duration, useful: &Useful) -> f64 {
        let seconds = self.length(now).as_secs_f64();
        match seconds > 0.0 {
            true => useful.total_us().saturating_sub(self.total_us) as f64 / 1e6 / seconds,
            false => 0.0,
        }
    }
}

/// Work with a policy over that before it, from which on the policy helps.
const GAIN: f64 = 1.05;
/// Work, in CPUs, below which a comparison says nothing: some clock ticks a second.
const LEAST: f64 = 0.005;

/// Whether the policy helps. Where neither work can be measured, fewer stalls decide.
pub(super) fn helps(before: f64, with: f64, stalls_before: f64, stalls_with: f64) -> bool {
    match before < LEAST && with < LEAST {
        true => stalls_with < 0.5 * stalls_before,
        false => with >= GAIN * before,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_between_two_looks_is_work() {
        let process = |pid| ProcessId { pid, start_ticks: 1 };
        let mut useful = Useful::default();
        useful.take([(process(1), 500), (process(2), 70)].into_iter());
        assert_eq!(useful.total_us(), 0, "time before the first look");
        let span = Span::begin(Duration::from_secs(1), &useful);
        useful.take([(process(1), 2_000_500)].into_iter());
        useful.take([(process(2), 100), (process(1), 2_000_400)].into_iter());
        assert!((span.rate(Duration::from_secs(3), &useful) - 1.0).abs() < 1e-9);
        assert_eq!(span.rate(Duration::from_secs(1), &useful), 0.0);
    }

    #[test]
    fn a_policy_has_to_gain() {
        assert!(helps(0.1, 0.11, 1.0, 1.0) && !helps(0.1, 0.1, 1.0, 0.0));
        assert!(helps(0.001, 0.002, 0.9, 0.1) && !helps(0.001, 0.002, 0.9, 0.8));
    }
}
