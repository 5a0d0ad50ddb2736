//! The headline of a loadline run.

use crate::analysis::Group;
use crate::analysis::statistics::IntervalKind;
use crate::workloads::loadline::{KILLED_LOAD, KNEE, KNEE_HIGH, KNEE_LOW, KNEE_RAM};
use crate::workloads::sentence::{Told, brief, bullets_of_groups};
use plimsoll_model::quantity::significant;
use plimsoll_model::scenario::FillClass;

/// A store that takes less than this share of a load is not worth a word.
const STORE_TOLD: f64 = 0.02;

/// The group with the highest load line; its details, and the others with their load, are bullets.
pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let mut groups: Vec<&Group> = groups
        .iter()
        .copied()
        .filter(|group| carried(group).is_some())
        .collect();
    groups.sort_by(|a, b| carried(b).unwrap_or(0.0).total_cmp(&carried(a).unwrap_or(0.0)));
    let (best, others) = groups.split_first()?;
    let factor_of_best = factor(best)?;
    let finding = |name: &str| {
        format!(
            "With {name} this machine sustains {factor_of_best} its memory before useful work falls below half."
        )
    };
    let name = others
        .first()
        .map_or(best.subject.as_str(), |other| short(best, other));
    let mut bullets: Vec<String> = [
        interval(best),
        with_store(best),
        killed(best),
        circumstances(best, name),
    ]
    .into_iter()
    .flatten()
    .map(|note| format!("{note}."))
    .collect();
    let others = others.iter().filter_map(|group| {
        let killed = killed(group).map_or(String::new(), |killed| format!("; {}", lower(&killed)));
        Some(format!(
            "With {}: {}{killed}.",
            short(group, best),
            factor(group)?
        ))
    });
    bullets.extend(bullets_of_groups(others.collect()));
    Some(Told {
        finding: brief(&[
            finding(name),
            finding(&best.subject),
            format!("This machine sustains {factor_of_best} its memory before useful work falls below half."),
        ]),
        bullets,
    })
}

/// The sentence as the continuation of another one.
fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_lowercase().chain(letters).collect()
    })
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

/// The data and the pattern of the visits, as far as `name`, which stands in the finding, does not state them.
fn circumstances(group: &Group, name: &str) -> Option<String> {
    if name == group.label {
        return None;
    }
    let data = match group.params.get("class").map(|class| class.parse()) {
        Some(Ok(FillClass::Ratio(ratio))) => Some(format!("compress {ratio}:1")),
        Some(Ok(FillClass::Random)) => Some("do not compress".to_owned()),
        Some(Ok(class)) => Some(format!("are of the class {class}")),
        Some(Err(_)) | None => None,
    };
    let pattern = group.params.get("pattern").filter(|pattern| *pattern != name);
    match (data, pattern) {
        (Some(data), Some(pattern)) => Some(format!("The data {data}; visits follow the pattern {pattern}")),
        (Some(data), None) => Some(format!("The data {data}")),
        (None, Some(pattern)) => Some(format!("Visits follow the pattern {pattern}")),
        (None, None) => None,
    }
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
        (IntervalKind::Bootstrap95, _) => format!("95% interval of that load: {from}\u{d7} to {to}\u{d7}"),
        (IntervalKind::Range, 1) => format!("Tried loads: {from}\u{d7} was sustained, {to}\u{d7} was not"),
        (IntervalKind::Range, n) => format!("Range in {n} repeats: {from}\u{d7} to {to}\u{d7}"),
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
            "Counting the RAM of the compressed store: {}\u{d7}",
            significant(by_ram)
        )
    })
}

fn killed(group: &Group) -> Option<String> {
    let load = group.median(KILLED_LOAD)?;
    Some(format!(
        "At {}\u{d7} the OOM killer ends the program",
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
            trial: "a#1".into(),
            value: *value,
            status: TrialStatus::Ok,
        };
        Group {
            places: Vec::new(),
            label: format!("{subject} ratio=2.5"),
            workload: "loadline".to_owned(),
            subject: subject.to_owned(),
            params: BTreeMap::from([("class".to_owned(), "ratio=2.5".to_owned())]),
            trials: vec!["a#1".into()],
            failed: 0,
            untrustworthy: false,
            metrics: metrics
                .iter()
                .filter_map(|(name, values)| {
                    let dots = values.iter().map(one).collect();
                    Some(((*name).into(), measured(dots, || 1)?))
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
        let told = told(&[&none, &zram]).expect("told");
        assert_eq!(
            told.finding,
            "With zram:lz4 this machine sustains 1.90\u{d7} its memory before useful work falls below half."
        );
        assert_eq!(
            told.bullets,
            [
                "Tried loads: 1.85\u{d7} was sustained, 1.94\u{d7} was not.",
                "Counting the RAM of the compressed store: 1.50\u{d7}.",
                "The data compress 2.5:1.",
                "With none: 0.97\u{d7}; at 1.00\u{d7} the OOM killer ends the program.",
            ]
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
        let both = told(&[&zram, &better]).expect("told");
        assert!(both.finding.starts_with("With zswap "), "{}", both.finding);
        assert_eq!(both.bullets.last().unwrap(), "With zram: more than 2.90\u{d7}.");
        let alone = told(&[&zram]).expect("told");
        assert!(
            alone.finding.contains("sustains more than 2.90\u{d7} its memory"),
            "{}",
            alone.finding
        );
        assert_eq!(alone.bullets, ["The data compress 2.5:1."]);
    }

    #[test]
    fn without_a_knee_the_load_line_is_above_the_highest_load() {
        let zram = group("zram", &[(KNEE_LOW, 3.0)]);
        let finding = told(&[&zram]).expect("told").finding;
        assert!(
            finding.contains("sustains more than 3.00\u{d7} its memory"),
            "{finding}"
        );
        assert!(told(&[]).is_none());
    }
}
