//! The untrustworthy metrics in a sentence.

use std::collections::BTreeSet;

use crate::headline_metrics::words;
use crate::workloads::{all_metrics, find_metric};
use plimsoll_model::quantity::counted;
use plimsoll_model::recording::model::{Confounder, Trial};

/// Metrics listed by name; of more, their number.
const NAMED: usize = 4;

/// The metrics that a confounder spoils, and in how many trials: `trim, restore and 3 more metrics of 2 of 6 trials`.
pub(crate) fn spoiled(confounder: &Confounder, trials: &[Trial]) -> String {
    let spoils = trials
        .iter()
        .filter(|trial| confounder.spoils.contains(&trial.id));
    let names = spoils.flat_map(|trial| {
        let by_it = trial
            .untrustworthy
            .iter()
            .filter(|(_, by)| by.contains(&confounder.name));
        by_it.map(|(name, _)| name.as_str())
    });
    let of = format!(
        "{} of {}",
        confounder.spoils.len(),
        counted(trials.len(), "trial")
    );
    match listed(names) {
        Some(metrics) => format!("{metrics} of {of}"),
        // Failed trials have no status by metric.
        None => of,
    }
}

/// The titles of metrics, the main ones of their workload first; `None` without any. The times and speeds of phases count
/// if there is nothing else.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: BTreeSet<&str> = names.collect();
    let of_phase = |name: &&str| name.ends_with(".seconds") || name.ends_with(".gb_per_s");
    let (phases, metrics): (Vec<&str>, Vec<&str>) = names.iter().copied().partition(of_phase);
    let mut ordered = if metrics.is_empty() { phases } else { metrics };
    ordered.sort_by_key(|name| {
        let place = all_metrics().position(|metric| metric.name == *name);
        let main = find_metric(name).is_some_and(|metric| metric.headline);
        (!main, place.unwrap_or(usize::MAX))
    });
    let title = |name: &&str| find_metric(name).map_or_else(|| words(name), |metric| metric.title.to_owned());
    let mut titles: Vec<String> = ordered.iter().map(title).collect();
    match titles.len() {
        0 => None,
        1 => titles.pop(),
        few if few <= NAMED => {
            let last = titles.pop()?;
            Some(format!("{} and {last}", titles.join(", ")))
        }
        many => Some(format!(
            "{} and {}",
            titles[..NAMED].join(", "),
            counted(many - NAMED, "more metric")
        )),
    }
}
