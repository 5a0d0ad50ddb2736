//! CPU time of visiting threads: the wait for a CPU that others use is no time of theirs.

use std::fs;
use std::thread;
use std::time::Duration;

use plimsoll_proc::schedstat::Schedstat;

use crate::workload::Cost;

/// The wait of this thread for a CPU from a time on.
#[derive(Debug)]
pub(super) struct CpuWait {
    before: Duration,
}

impl CpuWait {
    pub(super) fn start() -> CpuWait {
        // A thread that has just begun has waited, if at all, and has no time on a CPU yet.
        let before = schedstat().map_or(Duration::ZERO, waited);
        CpuWait { before }
    }

    /// Time that it could run and waited since; none where the kernel does not count it.
    pub(super) fn stop(self) -> Option<Duration> {
        let after = schedstat().filter(is_counted)?;
        Some(waited(after).saturating_sub(self.before))
    }
}

fn schedstat() -> Option<Schedstat> {
    Schedstat::parse(&fs::read("/proc/thread-self/schedstat").ok()?)
}

/// Whether the kernel counts: a thread that has worked was on a CPU.
fn is_counted(spent: &Schedstat) -> bool {
    spent.on_cpu_ns > 0
}

fn waited(spent: Schedstat) -> Duration {
    Duration::from_nanos(spent.waited_ns.unsigned_abs())
}

/// Seconds of work without those that a thread waited for a CPU, on an average; never less than the CPU time, which is
/// counted apart from the wait, and never more than all seconds: CPU time is read around them, and may be some
/// microseconds longer. More threads than CPUs wait for each other, which is a part of their work.
pub(super) fn own_seconds(cost: Cost, waited: Option<Duration>, threads: usize) -> f64 {
    if crowding(u32::try_from(threads).unwrap_or(u32::MAX)) > 1.0 {
        return cost.seconds;
    }
    let threads = threads as f64;
    let waited = waited.unwrap_or_default().as_secs_f64() / threads;
    (cost.seconds - waited)
        .max((cost.cpu_user_s + cost.cpu_system_s) / threads)
        .min(cost.seconds)
}

/// Threads to a CPU, at least 1.
pub(super) fn crowding(threads: u32) -> f64 {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    (f64::from(threads) / cpus as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::visitor::compute;
    use super::*;

    #[test]
    fn the_wait_for_a_cpu_is_the_second_field() {
        let parsed = |text: &str| Schedstat::parse(text.as_bytes());
        let spent = parsed("123456 789 5\n").expect("a schedstat");
        assert!(is_counted(&spent));
        assert_eq!(waited(spent), Duration::from_nanos(789));
        assert!(parsed("0 0 0\n").is_some_and(|spent| !is_counted(&spent)));
        for nothing in ["12", "", "a b c"] {
            assert!(parsed(nothing).is_none(), "{nothing:?}");
        }
    }

    /// A thread that has just begun has no time on a CPU. Its wait was then unknown, and the useful work of several threads
    /// was counted by wall time at some loads and without the wait at others: 248% of that at the lowest load.
    #[test]
    fn the_wait_of_a_new_thread_is_known() {
        let work = || {
            let wait = CpuWait::start();
            std::hint::black_box(compute(1, 5_000_000));
            wait.stop().is_some()
        };
        let counted = work();
        for _ in 0..20 {
            assert_eq!(thread::spawn(work).join().expect("no panic"), counted);
        }
    }

    #[test]
    fn own_seconds_exclude_the_wait_for_a_cpu() {
        let cost = Cost {
            seconds: 2.0,
            cpu_user_s: 0.25,
            cpu_system_s: 0.25,
            ..Cost::default()
        };
        let own = |waited| own_seconds(cost, Some(Duration::from_secs_f64(waited)), 1);
        assert_eq!((own_seconds(cost, None, 1), own(0.5), own(1.9)), (2.0, 1.5, 0.5));
        let read_late = Cost {
            cpu_user_s: 1.8,
            ..cost
        };
        assert_eq!(own_seconds(read_late, None, 1), 2.0);
        // A thousand threads wait for each other.
        assert_eq!(own_seconds(cost, Some(Duration::from_secs(500)), 100_000), 2.0);
    }
}
