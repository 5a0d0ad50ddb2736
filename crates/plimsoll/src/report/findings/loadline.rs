//! What a loadline run showed.

use super::median;
use crate::analysis::Group;
use crate::analysis::loadline::{KILLED_LOAD, KNEE, KNEE_HIGH, KNEE_LOW, KNEE_RAM};
use crate::analysis::statistics::IntervalKind;
use crate::quantity::significant;
use crate::scenario::FillClass;

/// A store that takes less than this share of a load is not worth a word.
const STORE_TOLD: f64 = 0.02;

/// What the numbers say: the group that carries most in full, the others with their load.
pub(super) fn sentence(groups: &[&Group]) -> Option<String> {
    let carried = |group: &Group| median(group, KNEE).or_else(|| median(group, KNEE_LOW));
    let mut groups: Vec<&Group> = groups
        .iter()
        .copied()
        .filter(|group| carried(group).is_some())
        .collect();
    groups.sort_by(|a, b| carried(b).unwrap_or(0.0).total_cmp(&carried(a).unwrap_or(0.0)));
    let (best, others) = groups.split_first()?;
    let mut text = format!(
        "With {} this machine carries {} its memory before useful work falls under half",
        what(best, others),
        factor(best)?
    );
    let notes: Vec<String> = [interval(best), with_store(best), killed(best)]
        .into_iter()
        .flatten()
        .collect();
    if !notes.is_empty() {
        text += &format!(" ({})", notes.join("; "));
    }
    let others: Vec<String> = others
        .iter()
        .filter_map(|group| {
            let killed = killed(group).map_or(String::new(), |killed| format!(" ({killed})"));
            Some(format!("with {} {}{killed}", group.label, factor(group)?))
        })
        .collect();
    if !others.is_empty() {
        text += &format!("; {}", others.join(", "));
    }
    Some(text + ".")
}

/// Subject, pattern where that tells the groups apart, and what the data is.
fn what(group: &Group, others: &[&Group]) -> String {
    let pattern = |group: &Group| group.params.get("pattern").cloned();
    let subject = match pattern(group) {
        Some(named) if others.iter().any(|other| pattern(other) != pattern(group)) => {
            format!("{}, visits by the pattern {named}", group.subject)
        }
        _ => group.subject.clone(),
    };
    let data = match group.params.get("class").map(|class| class.parse()) {
        Some(Ok(FillClass::Ratio(ratio))) => format!("data that compresses {ratio}:1"),
        Some(Ok(FillClass::Random)) => "data that does not compress".to_owned(),
        Some(Ok(class)) => format!("data of the class {class}"),
        Some(Err(_)) | None => return subject,
    };
    format!("{subject} and {data}")
}

/// How often its memory a group carries.
fn factor(group: &Group) -> Option<String> {
    let count = |metric: &str| group.metrics.get(metric).map_or(0, |found| found.values().len());
    // A repeat that carried the largest load has no knee.
    if 2 * count(KNEE) > count(KNEE_LOW) {
        return Some(format!("{}\u{d7}", significant(median(group, KNEE)?)));
    }
    let most = group.metrics.get(KNEE_LOW)?.summary.max;
    Some(format!("more than {}\u{d7}", significant(most)))
}

/// From where to where the knee may lie: the interval over the repeats of what was still carried, to that of what no
/// longer was.
fn interval(group: &Group) -> Option<String> {
    let (low, high) = (group.metrics.get(KNEE_LOW)?, group.metrics.get(KNEE_HIGH)?);
    let range = format!(
        "{} to {}",
        significant(low.summary.interval.low),
        significant(high.summary.interval.high)
    );
    Some(match (high.summary.interval.kind, high.summary.n) {
        (IntervalKind::Bootstrap95, _) => format!("95% {range}"),
        (IntervalKind::Range, 1) => format!("between {range}"),
        (IntervalKind::Range, n) => format!("{range} in {n} repeats"),
    })
}

fn with_store(group: &Group) -> Option<String> {
    let (load, by_ram) = (median(group, KNEE)?, median(group, KNEE_RAM)?);
    let told = by_ram < load * (1.0 - STORE_TOLD);
    told.then(|| {
        format!(
            "{}\u{d7} counting the RAM of the compressed store",
            significant(by_ram)
        )
    })
}

fn killed(group: &Group) -> Option<String> {
    let load = median(group, KILLED_LOAD)?;
    Some(format!(
        "at {}\u{d7} the OOM killer ends the program",
        significant(load)
    ))
}
