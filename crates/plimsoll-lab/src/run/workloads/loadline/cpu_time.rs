//! CPU time of visiting threads: the wait for a CPU that others use is no time of theirs.

use std::fs;
use std::thread;
use std::time::Duration;

use plimsoll_proc::schedstat::Schedstat;

use crate::workload::Cost;

/// Time that this thread could run and waited for a CPU since it began; none where the kernel does not count it.
pub(super) fn cpu_wait() -> Option<Duration> {
    waited(&fs::read("/proc/thread-self/schedstat").ok()?)
}

fn waited(schedstat: &[u8]) -> Option<Duration> {
    let spent = Schedstat::parse(schedstat)?;
    // A thread that was never on a CPU has no counts.
    (spent.on_cpu_ns > 0).then(|| Duration::from_nanos(spent.waited_ns.unsigned_abs()))
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
    use super::*;

    #[test]
    fn the_wait_for_a_cpu_is_the_second_field() {
        assert_eq!(waited(b"123456 789 5\n"), Some(Duration::from_nanos(789)));
        for nothing in ["0 0 0\n", "12", "", "a b c"] {
            assert_eq!(waited(nothing.as_bytes()), None, "{nothing:?}");
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
