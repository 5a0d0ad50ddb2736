//! The headline of a loadline run.

use crate::analysis::Group;
use crate::analysis::statistics::IntervalKind;
use crate::workloads::loadline::{KILLED_LOAD, KNEE, KNEE_HIGH, KNEE_LOW, KNEE_RAM};
use plimsoll_model::quantity::significant;
use plimsoll_model::scenario::FillClass;

/// A store that takes less than this share of a load is not worth a word.
const STORE_TOLD: f64 = 0.02;

/// The group with the highest load line in full, the others with their load.
pub(super) fn sentence(groups: &[&Group]) -> Option<String> {
    let mut groups: Vec<&Group> = groups
        .iter()
        .copied()
        .filter(|group| carried(group).is_some())
        .collect();
    groups.sort_by(|a, b| carried(b).unwrap_or(0.0).total_cmp(&carried(a).unwrap_or(0.0)));
    let (best, others) = groups.split_first()?;
    let mut text = format!(
        "With {} this machine sustains {} its memory before useful work falls below half",
        description(best, others),
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
            Some(format!("with {} {}{killed}", short(group, best), factor(group)?))
        })
        .collect();
    if !others.is_empty() {
        text += &format!("; {}", others.join(", "));
    }
    Some(text + ".")
}

/// The difference of a group from the best one: its subject, or its pattern if nothing else differs.
fn short<'a>(group: &'a Group, best: &Group) -> &'a str {
    let differs = |name: &str| group.params.get(name) != best.params.get(name);
    let mut others = group
        .params
        .keys()
        .filter(|name| !matches!(name.as_str(), "subject" | "pattern"));
    let alike = others.all(|name| !differs(name));
    match (alike, group.subject != best.subject, differs("pattern")) {
        (true, true, false) => &group.subject,
        (true, false, true) => group
            .params
            .get("pattern")
            .map_or(&group.label, |pattern| pattern),
        _ => &group.label,
    }
}

/// Subject, pattern if it distinguishes the groups, and class of the data.
fn description(group: &Group, others: &[&Group]) -> String {
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

/// Whether most repeats found a knee; one that carried the largest load has none.
fn has_knee(group: &Group) -> bool {
    let count = |metric: &str| group.metrics.get(metric).map_or(0, |found| found.values().len());
    2 * count(KNEE) > count(KNEE_LOW)
}

/// How often its memory a group carries: the knee or, without one, the least that a repeat carried, which is certain.
fn carried(group: &Group) -> Option<f64> {
    match has_knee(group) {
        true => group.median(KNEE),
        false => Some(group.metrics.get(KNEE_LOW)?.summary.min),
    }
}

fn factor(group: &Group) -> Option<String> {
    let more = if has_knee(group) { "" } else { "more than " };
    Some(format!("{more}{}\u{d7}", significant(carried(group)?)))
}

/// The range of the knee: from the interval over the repeats of the sustained load to that of the load no
/// longer was. None without a knee.
fn interval(group: &Group) -> Option<String> {
    if !has_knee(group) {
        return None;
    }
    let (low, high) = (group.metrics.get(KNEE_LOW)?, group.metrics.get(KNEE_HIGH)?);
    let from = significant(low.summary.interval.low);
    let to = significant(high.summary.interval.high);
    Some(match (high.summary.interval.kind, high.summary.n) {
        (IntervalKind::Bootstrap95, _) => format!("95% {from} to {to}"),
        (IntervalKind::Range, 1) => format!("between {from} and {to}"),
        (IntervalKind::Range, n) => format!("{from} to {to} in {n} repeats"),
    })
}

fn with_store(group: &Group) -> Option<String> {
    if !has_knee(group) {
        return None;
    }
    let (load, by_ram) = (group.median(KNEE)?, group.median(KNEE_RAM)?);
    let told = by_ram < load * (1.0 - STORE_TOLD);
    told.then(|| {
        format!(
            "{}\u{d7} counting the RAM of the compressed store",
            significant(by_ram)
        )
    })
}

fn killed(group: &Group) -> Option<String> {
    let load = group.median(KILLED_LOAD)?;
    Some(format!(
        "at {}\u{d7} the OOM killer ends the program",
        significant(load)
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::groups::{Dot, measured};
    use plimsoll_model::recording::model::TrialStatus;

    fn group(subject: &str, metrics: &[(&str, f64)]) -> Group {
        let metrics: Vec<(&str, &[f64])> = metrics
            .iter()
            .map(|(name, value)| (*name, std::slice::from_ref(value)))
            .collect();
        repeated(subject, &metrics)
    }

    /// A group with the figures of several repeats.
    fn repeated(subject: &str, metrics: &[(&str, &[f64])]) -> Group {
        let one = |value: &f64| Dot {
            trial: "a#1".to_owned(),
            value: *value,
            status: TrialStatus::Ok,
        };
        Group {
            places: Vec::new(),
            label: format!("{subject} ratio=2.5"),
            workload: "loadline".to_owned(),
            subject: subject.to_owned(),
            params: BTreeMap::from([("class".to_owned(), "ratio=2.5".to_owned())]),
            trials: vec!["a#1".to_owned()],
            failed: 0,
            untrustworthy: false,
            metrics: metrics
                .iter()
                .filter_map(|(name, values)| {
                    let dots = values.iter().map(one).collect();
                    Some(((*name).to_owned(), measured(dots, 1)?))
                })
                .collect(),
            phases: Vec::new(),
        }
    }

    #[test]
    fn the_sentence_states_the_sustained_load() {
        let zram = group(
            "zram:lz4",
            &[(KNEE, 1.9), (KNEE_LOW, 1.85), (KNEE_HIGH, 1.94), (KNEE_RAM, 1.5)],
        );
        let none = group(
            "none",
            &[
                (KNEE, 0.97),
                (KNEE_LOW, 0.97),
                (KNEE_HIGH, 1.0),
                (KILLED_LOAD, 1.0),
            ],
        );
        assert_eq!(
            sentence(&[&none, &zram]).as_deref(),
            Some(
                "With zram:lz4 and data that compresses 2.5:1 this machine sustains 1.90\u{d7} its memory before useful \
                 work falls below half (between 1.85 and 1.94; 1.50\u{d7} counting the RAM of the compressed store); \
                 with none 0.97\u{d7} (at 1.00\u{d7} the OOM killer ends the program)."
            )
        );
    }

    #[test]
    fn a_knee_in_the_minority_of_repeats_is_not_stated() {
        let zram = repeated(
            "zram",
            &[
                (KNEE_LOW, &[2.9, 3.0, 3.0]),
                (KNEE, &[2.95]),
                (KNEE_HIGH, &[3.0]),
                (KNEE_RAM, &[2.0]),
            ],
        );
        let better = repeated(
            "zswap",
            &[(KNEE_LOW, &[2.95]), (KNEE, &[2.97]), (KNEE_HIGH, &[2.99])],
        );
        let text = sentence(&[&zram, &better]).expect("a sentence");
        assert!(text.starts_with("With zswap"), "{text}");
        assert!(text.ends_with("; with zram more than 2.90\u{d7}."), "{text}");
        let text = sentence(&[&zram]).expect("a sentence");
        assert!(
            text.ends_with("sustains more than 2.90\u{d7} its memory before useful work falls below half."),
            "{text}"
        );
    }

    #[test]
    fn without_a_knee_the_load_line_is_above_the_highest_load() {
        let zram = group("zram", &[(KNEE_LOW, 3.0)]);
        let text = sentence(&[&zram]).expect("a sentence");
        assert!(
            text.contains("sustains more than 3.00\u{d7} its memory"),
            "{text}"
        );
        assert_eq!(sentence(&[]), None);
    }
}
