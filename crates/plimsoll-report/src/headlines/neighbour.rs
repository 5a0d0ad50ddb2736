//! What a run did to others.

use crate::analysis::neighbour::{HARMLESS_P99_S, P99};
use plimsoll_model::quantity::seconds;
use plimsoll_model::recording::model::Trial;

/// How late the worst trial made those outside of its cgroup; none where no trial knows.
pub(super) fn sentence(trials: &[Trial]) -> Option<String> {
    // A trial that failed has harmed others all the same.
    let figures = trials.iter().filter_map(|trial| trial.metrics.get(P99));
    let worst = figures.copied().reduce(f64::max)?;
    let effect = if worst > HARMLESS_P99_S {
        "The run disturbed other processes"
    } else {
        "The run did not disturb other processes"
    };
    Some(format!(
        "{effect}: p99 wake-up latency outside of the run's cgroup {}.",
        seconds(worst)
    ))
}
