//! Rates of a process between two snapshots.

use serde::Serialize;

use super::process::Process;
use plimsoll_proc::CLOCK_TICK_US;

/// Rates of a process between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rates {
    pub minor_per_s: f64,
    pub major_per_s: f64,
    /// CPU time in user mode, percent of one core.
    pub user_percent: f64,
    /// CPU time in the kernel, percent of one core.
    pub system_percent: f64,
}

impl Rates {
    /// Rates on a machine with `cpus` CPUs, over the time between the two readings of this process: a snapshot of
    /// thousands takes a while, and no two take the same. None if the readings have the same time. A counter that runs
    /// backwards, such as one that became unreadable, counts as 0.
    pub fn between(before: &Process, after: &Process, cpus: u32) -> Option<Rates> {
        let seconds = after.read_ns.checked_sub(before.read_ns)? as f64 / 1e9;
        if seconds <= 0.0 {
            return None;
        }
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        // One microsecond per second is a millionth of a core.
        let percent = |before, after| rate(before, after) / 1e4;
        let user = percent(before.user_us, after.user_us);
        let system = percent(before.system_us, after.system_us);
        let threads = before.threads.max(after.threads);
        let possible = possible_part(user + system, threads, cpus, seconds);
        Some(Rates {
            minor_per_s: rate(before.minor_faults, after.minor_faults),
            major_per_s: rate(before.major_faults, after.major_faults),
            user_percent: user * possible,
            system_percent: system * possible,
        })
    }
}

/// The part of a CPU share, in percent of one core, that is possible.
///
/// The kernel counts user and system time in ticks of 10 ms, and each of both values is up to a tick late: over 100 ms,
/// one busy thread seems to use up to 120% of a core. An excess over the threads within these two ticks is such an error; a greater
/// one is the time of threads that came and went. No process uses more than the CPUs of the machine.
fn possible_part(percent: f64, threads: u64, cpus: u32, seconds: f64) -> f64 {
    let of_threads = 100.0 * threads.max(1) as f64;
    let two_ticks = 2.0 * CLOCK_TICK_US as f64 / seconds / 1e4;
    let mut most = 100.0 * f64::from(cpus.max(1));
    if percent <= of_threads + two_ticks {
        most = most.min(of_threads);
    }
    if percent > most { most / percent } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use plimsoll_proc::ProcessId;

    use super::*;

    fn process(ms: u64, threads: u64, user_us: u64, system_us: u64) -> Process {
        Process {
            identity: ProcessId {
                pid: 5,
                start_ticks: 7,
            },
            read_ns: ms * 1_000_000,
            threads,
            parent: 1,
            name: "busy".to_owned(),
            state: 'R',
            kernel_thread: false,
            minor_faults: 0,
            major_faults: 0,
            user_us,
            system_us,
            resident: 0,
            cgroups: None,
            detail: None,
        }
    }

    fn cpu(threads: u64, cpus: u32, ms: u64, ticks: (u64, u64)) -> (f64, f64) {
        let rates = Rates::between(
            &process(0, threads, 0, 0),
            &process(ms, threads, ticks.0 * 10_000, ticks.1 * 10_000),
            cpus,
        );
        let rates = rates.unwrap();
        (rates.user_percent, rates.system_percent)
    }

    /// A process with one thread, busy all the time, was seen with 110%: 11 ticks of 10 ms in 100 ms.
    #[test]
    fn the_ticks_of_the_clock_make_no_thread_use_more_than_a_core() {
        let (user, system) = cpu(1, 2, 100, (8, 3));
        assert!((user + system - 100.0).abs() < 1e-9, "{user} {system}");
        assert!(
            (user / system - 8.0 / 3.0).abs() < 1e-9,
            "both parts shrink alike"
        );
        assert_eq!(cpu(1, 2, 100, (7, 2)), (70.0, 20.0));
    }

    #[test]
    fn several_threads_use_several_cores_but_not_more_than_the_machine_has() {
        assert_eq!(cpu(4, 4, 1000, (150, 20)), (150.0, 20.0));
        let (user, system) = cpu(8, 2, 1000, (190, 12));
        assert!((user + system - 200.0).abs() < 1e-9, "{user} {system}");
        // Threads that came and went between the readings have used CPU time, too.
        assert_eq!(cpu(1, 4, 1000, (250, 0)), (250.0, 0.0));
    }

    /// The second snapshot reads more files of each process, so that the last one is read later within it than within
    /// the first: its interval is longer than that between the snapshots.
    #[test]
    fn rates_count_from_the_readings_of_the_process() {
        let rates = Rates::between(&process(1000, 1, 0, 0), &process(2500, 1, 1_500_000, 0), 1);
        assert_eq!(rates.unwrap().user_percent, 100.0);
        assert_eq!(
            Rates::between(&process(9, 1, 0, 0), &process(9, 1, 7, 0), 1),
            None
        );
    }
}
