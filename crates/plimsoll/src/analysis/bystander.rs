//! What a run did to those who have nothing to do with it: the heartbeat outside of the run's cgroup.

use super::{Direction, Metric};
use crate::recording::bystander::MAX;

pub use crate::recording::bystander::{CPU, P99};

/// The most that the run may make a process outside of its cgroup wait, in 99 of 100 wake-ups, in seconds. A person
/// notices a tenth of a second, and an interactive program needs several wake-ups to answer.
pub const HARMLESS_P99_S: f64 = 0.050;

const fn less(name: &'static str, title: &'static str, meaning: &'static str) -> Metric {
    Metric {
        name,
        title,
        meaning,
        direction: Direction::Less,
        telling: false,
    }
}

/// The metrics of every workload.
pub const METRICS: &[Metric] = &[
    less(
        P99,
        "bystander p99",
        "Time that a process outside of the run's cgroup, waking up a hundred times a second, was late in 99 of 100 wake-ups.",
    ),
    less(
        MAX,
        "bystander max",
        "The latest wake-up of a process outside of the run's cgroup.",
    ),
    less(
        CPU,
        "bystander CPU",
        "What that process itself cost, in percent of one CPU.",
    ),
];
