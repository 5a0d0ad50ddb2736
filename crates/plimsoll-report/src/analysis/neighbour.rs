//! What a run did to those who have nothing to do with it: the wake-up probe outside of the run's cgroup.

use super::{Direction, Metric};
use plimsoll_model::recording::neighbour::MAX;

pub use plimsoll_model::recording::neighbour::{CPU, P99};

/// The most that the run may make a process outside of its cgroup wait, in 99 of 100 wake-ups, in seconds. A person
/// notices a tenth of a second, and an interactive program needs several wake-ups to answer.
pub const HARMLESS_P99_S: f64 = 0.050;

const fn less(name: &'static str, title: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        title,
        meaning,
        direction: Direction::Less,
        headline: false,
    }
}

pub const METRICS: &[Metric] = &[
    less(
        P99,
        "neighbour p99",
        "99th percentile of the wake-up latency of a process outside of the run's cgroup that wakes up 100 times per second.",
    ),
    less(
        MAX,
        "neighbour max",
        "Maximum wake-up latency of that process.",
    ),
    less(
        CPU,
        "neighbour CPU",
        "CPU time of that process itself, in percent of one CPU.",
    ),
];
