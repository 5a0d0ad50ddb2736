//! The effect of a run on other processes.

use crate::analysis::neighbour::{HARMLESS_P99_S, P99};
use crate::workloads::sentence::Told;
use plimsoll_model::quantity::seconds;
use plimsoll_model::recording::model::{Trial, TrialStatus};
use plimsoll_model::recording::{Statement, StatementCode};

/// The worst p99 wake-up latency outside of a trial's cgroup; `None` without a probe.
pub(super) fn told(trials: &[Trial]) -> Option<Told> {
    // A failed trial disturbs others as well.
    let trusted = trials
        .iter()
        .filter(|trial| trial.status_of(P99) != TrialStatus::Untrustworthy);
    let values = trusted.filter_map(|trial| trial.metrics.get(P99));
    let worst = values.copied().reduce(f64::max)?;
    let (code, effect) = match worst > HARMLESS_P99_S {
        true => (
            StatementCode::NeighbourDisturbed,
            "The run disturbed other processes",
        ),
        false => (
            StatementCode::NeighbourUndisturbed,
            "The run did not disturb other processes",
        ),
    };
    let text = format!(
        "{effect}: p99 wake-up latency outside of the run's cgroup {}.",
        seconds(worst)
    );
    Some(Told::of(Statement::new(code, text).with(P99, worst)))
}
