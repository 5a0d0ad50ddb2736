//! What a run did to those who have nothing to do with it: the wake-up probe outside of the run's cgroup.

use std::collections::BTreeMap;

use super::metric::metrics;

/// The most that the run may make a process outside of its cgroup wait, in 99 of 100 wake-ups, in seconds. A person
/// notices a tenth of a second, and an interactive program needs several wake-ups to answer.
pub const HARMLESS_P99_S: f64 = 0.050;

metrics! {
    P99 "neighbour_p99_s" Less false "neighbour p99" "Time that a process outside of the run's cgroup, waking up a hundred times a second, was late in 99 of 100 wake-ups.";
    MAX "neighbour_max_s" Less false "neighbour max" "The latest wake-up of a process outside of the run's cgroup.";
    CPU "neighbour_cpu_percent" Less false "neighbour CPU" "What that process itself cost, in percent of one CPU.";
}

/// The metrics, from the figures that the wake-up probe found.
pub fn metrics(figures: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    const OF: [(&str, &str); 3] = [(P99, "p99_s"), (MAX, "max_s"), (CPU, "probe_cpu_percent")];
    let known = OF.iter().filter_map(|(metric, figure)| {
        let value = figures.get(*figure).filter(|value| value.is_finite())?;
        Some(((*metric).to_owned(), *value))
    });
    known.collect()
}
