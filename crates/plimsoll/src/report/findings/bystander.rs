//! What a run did to others.

use crate::analysis::Group;
use crate::analysis::bystander::{HARMLESS_P99_S, P99};
use crate::quantity::seconds;

/// How late the worst trial made those outside of its cgroup; none where no trial knows.
pub(super) fn sentence(groups: &[Group]) -> Option<String> {
    let figures = groups.iter().filter_map(|group| group.metrics.get(P99));
    let worst = figures.map(|figure| figure.summary.max).reduce(f64::max)?;
    let told = if worst > HARMLESS_P99_S {
        "Others were held up"
    } else {
        "Others were not held up"
    };
    Some(format!(
        "{told}: outside of the run's cgroup 99 of 100 wake-ups came within {}.",
        seconds(worst)
    ))
}
