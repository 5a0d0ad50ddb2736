//! The effect of a run on unrelated processes: the wake-up latency probe outside of the run's cgroup.

use super::{Direction, Metric};
use plimsoll_model::recording::neighbour::MAX;
use plimsoll_model::trust::TIME;

pub use plimsoll_model::recording::neighbour::{CPU, P99};

/// Largest harmless p99 wake-up latency outside of the run's cgroup, in seconds. Users notice 0.1 s, and an interactive
/// program needs several wake-ups to answer.
pub const HARMLESS_P99_S: f64 = 0.050;

const fn less(name: &'static str, title: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        title,
        meaning,
        direction: Direction::Less,
        headline: false,
        spoilers: Some(TIME),
    }
}

pub const METRICS: &[Metric] = &[
    less(
        P99,
        "neighbour p99",
        "99th percentile of the wake-up latency of a process outside of the run's cgroup that wakes up 100 times per second.",
    ),
    less(MAX, "neighbour max", "Maximum wake-up latency of that process."),
    less(
        CPU,
        "neighbour CPU",
        "CPU time of that process itself, in percent of one CPU.",
    ),
];
