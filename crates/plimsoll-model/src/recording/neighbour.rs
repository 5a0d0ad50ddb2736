//! The metrics of every trial of any workload: its effect on a process outside of the run's cgroup.

use std::collections::BTreeMap;

/// Seconds that the process was late in 99 of 100 wake-ups.
pub const P99: &str = "neighbour_p99_s";
/// Seconds that it was late at most.
pub const MAX: &str = "neighbour_max_s";
/// CPU time of that process, in percent of one CPU.
pub const CPU: &str = "neighbour_cpu_percent";

/// The metrics, from the findings of the wake-up probe.
pub fn metrics(found: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    const OF: [(&str, &str); 3] = [(P99, "p99_s"), (MAX, "max_s"), (CPU, "probe_cpu_percent")];
    let known = OF.iter().filter_map(|(metric, finding)| {
        let value = found.get(*finding).filter(|value| value.is_finite())?;
        Some(((*metric).to_owned(), *value))
    });
    known.collect()
}
