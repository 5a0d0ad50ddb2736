//! Two data sets, for example of two dates or images, with the statistics of `plimsoll compare`.
//!
//! A host is one value of a metric: the median of its trials. Trials of one host are not independent values of its class.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_model::sanitize::sanitize;
use plimsoll_report::analysis::statistics::{THRESHOLD_PERCENT, median};
use plimsoll_report::comparison::{
    Comparison, Condition, Difference, Fleet, GroupValues, Side, check, compare_fleets, known, nature,
};

use super::data::{DataSet, Measure, Task};
use crate::FleetError;

/// Groups that an error names.
const MOST_NAMED: usize = 5;

/// The names of the metrics in conditions.
pub(super) fn wanted(conditions: &[Condition]) -> BTreeSet<&str> {
    conditions
        .iter()
        .map(|condition| condition.metric.as_str())
        .collect()
}

/// Compares `other` with `baseline` and checks the conditions.
pub(super) fn compare(
    baseline: &DataSet,
    other: &DataSet,
    scenarios: [String; 2],
    conditions: &[Condition],
) -> Result<Comparison, FleetError> {
    let [of_baseline, of_other] = scenarios;
    let wanted = wanted(conditions);
    let fleets = [
        fleet(baseline, of_baseline, &wanted),
        fleet(other, of_other, &wanted),
    ];
    check_results(baseline, other)?;
    check_groups(&fleets)?;
    let differences = differences(baseline, other);
    let mut comparison = compare_fleets(
        &fleets,
        differences,
        warnings(baseline, other),
        THRESHOLD_PERCENT / 100.0,
    )?;
    for condition in conditions {
        let outcomes = check(condition, &comparison).map_err(|error| {
            let names = || format!("the metrics are: {}", known(&comparison).join(", "));
            let advice = error.mistake().help.unwrap_or_else(names);
            FleetError::refused(format!("cannot check the condition: {error}"), advice)
        })?;
        comparison.conditions.extend(outcomes);
    }
    Ok(comparison)
}

/// Refuses a data set without a result.
fn check_results(baseline: &DataSet, other: &DataSet) -> Result<(), FleetError> {
    for (letter, data) in [("A", baseline), ("B", other)] {
        if !data.tasks.iter().any(Task::is_done) {
            let side = format!("{letter} ({})", sanitize(&data.run));
            return Err(FleetError::refused(
                format!("cannot compare the fleets: no task of {side} has a result"),
                "run `plimsoll fleet collect`, which lists the reasons",
            ));
        }
    }
    Ok(())
}

/// Refuses data sets without a class and group in common.
fn check_groups(fleets: &[Fleet; 2]) -> Result<(), FleetError> {
    let names = |fleet: &Fleet| -> BTreeSet<String> {
        let groups = fleet.groups.iter();
        groups.map(|group| group.group.clone()).collect()
    };
    let [before, after] = [names(&fleets[0]), names(&fleets[1])];
    if !before.is_disjoint(&after) {
        return Ok(());
    }
    let (before, after) = (listed(&before), listed(&after));
    Err(FleetError::refused(
        format!("cannot compare the fleets: no class and group is in both (A: {before}; B: {after})"),
        "check the table `Classes of hosts` in the reports of both",
    ))
}

/// The first names, and the number of the others.
fn listed(names: &BTreeSet<String>) -> String {
    let first: Vec<&str> = names.iter().take(MOST_NAMED).map(String::as_str).collect();
    match names.len() - first.len() {
        0 if first.is_empty() => "none".to_owned(),
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The groups of a data set, those of each class for themselves.
fn fleet(data: &DataSet, scenario: String, wanted: &BTreeSet<&str>) -> Fleet {
    let mut groups: BTreeMap<(&str, &str), Vec<(String, Side)>> = BTreeMap::new();
    for (key, measure) in &data.measures {
        let compared = nature(&key.metric).headline || wanted.contains(key.metric.as_str());
        if let Some(side) = side(measure).filter(|_| compared) {
            let group = groups.entry((&key.class, &key.group)).or_default();
            group.push((key.metric.clone(), side));
        }
    }
    let group = |((class, group), sides): ((&str, &str), Vec<(String, Side)>)| GroupValues {
        group: format!("{class}/{group}"),
        label: format!("{class}: {group}"),
        note: String::new(),
        sides,
    };
    let started = data.tasks.iter().filter_map(|task| task.started.clone()).min();
    Fleet {
        name: data.run.clone(),
        folder: data.path.display().to_string(),
        scenario,
        started: started.unwrap_or_default(),
        tasks: data.tasks.len(),
        failed: data.tasks.iter().filter(|task| !task.is_done()).count(),
        groups: groups.into_iter().map(group).collect(),
    }
}

/// The trustworthy values of the hosts or, without any, all.
fn side(measure: &Measure) -> Option<Side> {
    let all: Vec<(f64, bool)> = measure
        .hosts
        .values()
        .filter_map(|values| values.value())
        .collect();
    let untrustworthy = !all.iter().any(|(_, trusted)| *trusted);
    let counted = all.iter().filter(|(_, trusted)| untrustworthy || *trusted);
    let values: Vec<f64> = counted.map(|(value, _)| *value).collect();
    Some(Side {
        median: median(&values)?,
        values,
        untrustworthy,
    })
}

/// The settings that the majority of a class has in one data set and not in the other, and the numbers of hosts.
fn differences(baseline: &DataSet, other: &DataSet) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut push = |kind: &'static str, name: String, was: &str, is: &str| {
        if was != is {
            found.push(Difference {
                run: 1,
                kind,
                name,
                baseline: was.to_owned(),
                other: is.to_owned(),
            });
        }
    };
    let (before, after) = (baseline.majorities(), other.majorities());
    let hosts = |data: &DataSet, class: &str| {
        let hosts = data.classes();
        hosts.get(class).map_or(0, Vec::len).to_string()
    };
    for (class, was) in &before {
        let Some(is) = after.get(class) else { continue };
        push(
            "machine",
            format!("hosts of {class}"),
            &hosts(baseline, class),
            &hosts(other, class),
        );
        let (was, is): (BTreeMap<&str, &str>, BTreeMap<&str, &str>) =
            (was.values().collect(), is.values().collect());
        let names: BTreeSet<&str> = was.keys().chain(is.keys()).copied().collect();
        for name in names {
            let value =
                |values: &BTreeMap<&str, &str>| values.get(name).copied().unwrap_or("no majority").to_owned();
            push("settings", format!("{class}: {name}"), &value(&was), &value(&is));
        }
    }
    found
}

fn warnings(baseline: &DataSet, other: &DataSet) -> Vec<String> {
    let mut warnings = Vec::new();
    for (letter, data) in [("A", baseline), ("B", other)] {
        let lacking = data.tasks.iter().filter(|task| !task.is_done()).count();
        if lacking > 0 {
            let tasks = data.tasks.len();
            warnings.push(format!(
                "{letter} ({}): {lacking} of {tasks} tasks have no result",
                data.run
            ));
        }
    }
    let classes = |data: &DataSet| -> BTreeSet<String> {
        data.classes().keys().map(|class| (*class).to_owned()).collect()
    };
    let (before, after) = (classes(baseline), classes(other));
    for class in before.symmetric_difference(&after) {
        warnings.push(format!("only one of the fleets has hosts of the class {class}"));
    }
    warnings
}
