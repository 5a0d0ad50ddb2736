//! The headline of a loadline run.

use crate::analysis::Group;
use crate::analysis::statistics::IntervalKind;
use crate::workloads::loadline::conditions::{
    Basis, circumstances, relative_to, share_of, size_of, visited_file,
};
use crate::workloads::loadline::{KILLED_LOAD, KNEE, KNEE_RAM, OVERLOAD, WORK};
use crate::workloads::sentence::{Told, brief, bullets_of_groups};
use plimsoll_model::quantity::{self, significant};
use plimsoll_model::scenario::Subject;

/// A store that takes less than this share of a load is not worth a word.
const STORE_TOLD: f64 = 0.02;

/// The group with the highest load line; its details, and the others with their load, are bullets.
pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let basis = Basis::of(groups);
    let mut carrying: Vec<&Group> = groups.to_vec();
    carrying.retain(|group| basis.carried(group).is_some());
    carrying.sort_by(|a, b| {
        let carried = |group| basis.carried(group).unwrap_or(0.0);
        carried(b).total_cmp(&carried(a))
    });
    let Some((best, others)) = carrying.split_first() else {
        return none_carried(groups, basis);
    };
    let name = others
        .first()
        .map_or(best.subject.as_str(), |other| short(best, other));
    let mut bullets: Vec<String> = [
        interval(best, basis),
        with_store(best, basis),
        useful_work(best, basis),
        overloaded(best),
        killed(best),
        relative_to(best),
        circumstances(best, name),
        visited_file(best),
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
            amount(group, basis)?
        ))
    });
    let failed = groups.iter().filter(|group| basis.carried(group).is_none());
    let failed = failed.filter_map(|group| {
        let reason = not_carried(group, basis)?;
        Some(format!("With {}: {}.", short(group, best), lower(&reason)))
    });
    bullets.extend(bullets_of_groups(others.chain(failed).collect()));
    let findings = [
        finding(best, basis, Some(name))?,
        finding(best, basis, Some(&best.subject))?,
        finding(best, basis, None)?,
    ];
    Some(Told {
        finding: brief(&findings),
        bullets,
    })
}

/// The result of the best group, which the name stands for if it is given.
fn finding(group: &Group, basis: Basis, name: Option<&str>) -> Option<String> {
    let condition = basis.condition(group);
    let amount = amount(group, basis)?;
    let with = name.map_or(String::new(), |name| format!("With {name} "));
    let (this, a) = match name {
        Some(_) => ("this", "a"),
        None => ("This", "A"),
    };
    Some(match (size_of(group), basis.has_line(group)) {
        (Some(size), true) => {
            let size = quantity::bytes(size);
            format!("{with}{a} working set of {size} needs {amount}; with less, {condition}.")
        }
        (Some(size), false) => {
            let size = quantity::bytes(size);
            format!("{with}{a} working set of {size} needs {amount}, the smallest limit.")
        }
        (None, _) => format!("{with}{this} machine sustains {amount} its memory before {condition}."),
    })
}

/// The result where even the lowest load of every group was too much.
fn none_carried(groups: &[&Group], basis: Basis) -> Option<Told> {
    let group = groups.iter().find(|group| not_carried(group, basis).is_some())?;
    let reason = not_carried(group, basis)?;
    let notes = [useful_work(group, basis), overloaded(group), killed(group)];
    Some(Told {
        finding: brief(&[
            format!("With {}, {}.", group.subject, lower(&reason)),
            format!("{reason}."),
        ]),
        bullets: notes
            .into_iter()
            .flatten()
            .map(|note| format!("{note}."))
            .collect(),
    })
}

/// The lowest load misses the condition; none of a group that measured nothing.
fn not_carried(group: &Group, basis: Basis) -> Option<String> {
    let measured = group.metrics.contains_key(WORK) || group.metrics.contains_key(OVERLOAD);
    measured.then(|| format!("Even at the lowest load {}", basis.condition(group)))
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
        .chain(best.params.keys())
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

/// The load that a group carries as a factor, or the limit that its working set needs.
fn amount(group: &Group, basis: Basis) -> Option<String> {
    let carried = basis.carried(group)?;
    let has_line = basis.has_line(group);
    Some(match size_of(group) {
        Some(size) => {
            let most = if has_line { "" } else { "at most " };
            format!("{most}{}", quantity::bytes(size / carried))
        }
        None => {
            let more = if has_line { "" } else { "more than " };
            format!("{more}{}\u{d7}", significant(carried))
        }
    })
}

/// The range of the knee: from the interval over the repeats of the sustained load to that of the load no
/// longer was. None without a knee.
fn interval(group: &Group, basis: Basis) -> Option<String> {
    if !basis.has_line(group) {
        return None;
    }
    let (_, low, high) = basis.metrics();
    let (low, high) = (group.metrics.get(low)?, group.metrics.get(high)?);
    let (from, to) = (low.summary.interval.low, high.summary.interval.high);
    let (of, from, to) = match size_of(group) {
        Some(size) => ("limit", quantity::bytes(size / from), quantity::bytes(size / to)),
        None => (
            "load",
            format!("{}\u{d7}", significant(from)),
            format!("{}\u{d7}", significant(to)),
        ),
    };
    Some(match (high.summary.interval.kind, high.summary.n) {
        (IntervalKind::Bootstrap95, _) => format!("95% interval of that {of}: {from} to {to}"),
        (IntervalKind::Range, 1) => format!("Tried {of}s: {from} was sustained, {to} was not"),
        (IntervalKind::Range, n) => format!("Range in {n} repeats: {from} to {to}"),
    })
}

fn with_store(group: &Group, basis: Basis) -> Option<String> {
    if basis != Basis::Work || !basis.has_line(group) {
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

/// The load line by useful work, where the finding is about latency.
fn useful_work(group: &Group, basis: Basis) -> Option<String> {
    if basis == Basis::Work || !Basis::Work.has_line(group) {
        return None;
    }
    let condition = Basis::Work.condition(group);
    Some(format!("At {} {condition}", amount(group, Basis::Work)?))
}

/// The load from which on visits are not made in time, where visits are due at a rate.
fn overloaded(group: &Group) -> Option<String> {
    let load = group.median(OVERLOAD)?;
    Some(format!(
        "From {}\u{d7} on the worker is overloaded: it makes less than {} of the visits that are due",
        significant(load),
        share_of(group).words(),
    ))
}

fn killed(group: &Group) -> Option<String> {
    let load = significant(group.median(KILLED_LOAD)?);
    Some(match group.subject.parse() {
        Ok(Subject::Pager(_)) => format!("At {load}\u{d7} the pager exceeds its budget"),
        _ => format!("At {load}\u{d7} the OOM killer ends the program"),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::groups::{Dot, measured};
    use crate::workloads::loadline::{KNEE_HIGH, KNEE_LOW, NEEDED, TARGET_HIGH, TARGET_LOAD};
    use plimsoll_model::recording::model::TrialStatus;

    fn group(subject: &str, metrics: &[(&str, f64)]) -> Group {
        let metrics: Vec<(&str, &[f64])> = metrics
            .iter()
            .map(|(name, value)| (*name, std::slice::from_ref(value)))
            .collect();
        repeated(subject, &metrics)
    }

    /// A group with the values of several repeats.
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

    /// No OOM killer ends a pager: it keeps data that cannot be saved, above its budget.
    #[test]
    fn a_load_that_a_pager_cannot_hold_is_one_beyond_its_budget() {
        let pager = group(
            "pager:lz4",
            &[(KNEE, 2.1), (KNEE_LOW, 2.0), (KNEE_HIGH, 2.2), (KILLED_LOAD, 2.5)],
        );
        insta::assert_snapshot!(told(&[&pager]).expect("told").bullets.join("\n"), @"
        Tried loads: 2.00× was sustained, 2.20× was not.
        At 2.50× the pager exceeds its budget.
        The data compress 2.5:1.
        ");
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
        insta::assert_snapshot!(both.finding, @"With zswap this machine sustains 2.97× its memory before useful work falls below half.");
        assert_eq!(both.bullets.last().unwrap(), "With zram: more than 2.90\u{d7}.");
        let alone = told(&[&zram]).expect("told");
        insta::assert_snapshot!(alone.finding, @"With zram this machine sustains more than 2.90× its memory before useful work falls below half.");
        assert_eq!(alone.bullets, ["The data compress 2.5:1."]);
    }

    #[test]
    fn without_a_knee_the_load_line_is_above_the_highest_load() {
        let zram = group("zram", &[(KNEE_LOW, 3.0)]);
        insta::assert_snapshot!(told(&[&zram]).expect("told").finding, @"With zram this machine sustains more than 3.00× its memory before useful work falls below half.");
        assert!(told(&[]).is_none());
    }

    fn with_params(mut group: Group, params: &[(&str, &str)]) -> Group {
        let params = params
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        group.params.extend(params);
        group
    }

    #[test]
    fn a_fixed_working_set_has_a_limit_that_it_needs() {
        let metrics = [
            (KNEE, 1.5),
            (KNEE_LOW, 1.4),
            (KNEE_HIGH, 1.6),
            (KNEE_RAM, 1.5),
            (NEEDED, 100.0 * 1024.0 * 1024.0),
            (WORK, 1e5),
        ];
        let params = [
            ("size", "157286400"),
            ("limits", "150M,100M"),
            ("target-work", "0.8"),
        ];
        let told = told(&[&with_params(group("zram", &metrics), &params)]).expect("told");
        assert_eq!(
            told.finding,
            "With zram a working set of 150 MiB needs 100 MiB; with less, useful work falls below 80%."
        );
        let base = "Useful work is relative to that at load 1.00, the lowest one.";
        assert!(
            told.bullets.iter().any(|bullet| bullet == base),
            "{:?}",
            told.bullets
        );
    }

    #[test]
    fn a_target_is_the_finding_and_useful_work_a_bullet() {
        let metrics = [
            (KNEE, 1.9),
            (KNEE_LOW, 1.85),
            (KNEE_HIGH, 1.94),
            (TARGET_LOAD, 1.2),
            (TARGET_HIGH, 1.25),
        ];
        let params = [("target-p99", "0.001")];
        let zram = with_params(group("zram", &metrics), &params);
        let swap = with_params(group("swapfile", &[(WORK, 1e5), (KNEE_LOW, 1.0)]), &params);
        let told = told(&[&swap, &zram]).expect("told");
        assert_eq!(
            told.finding,
            "With zram this machine sustains 1.20\u{d7} its memory before p99 exceeds 1.00 ms."
        );
        for bullet in [
            "Tried loads: 1.20\u{d7} was sustained, 1.25\u{d7} was not.",
            "At 1.90\u{d7} useful work falls below half.",
            "With swapfile: even at the lowest load p99 exceeds 1.00 ms.",
        ] {
            assert!(
                told.bullets.iter().any(|told| told == bullet),
                "{:?}",
                told.bullets
            );
        }
    }

    #[test]
    fn overload_is_said() {
        let params = [("rate", "10000")];
        let metrics = [(KNEE, 1.9), (KNEE_LOW, 1.85), (KNEE_HIGH, 1.94), (OVERLOAD, 1.94)];
        let served = with_params(group("zram", &metrics), &params);
        insta::assert_snapshot!(told(&[&served]).expect("told").bullets.join("\n"), @"
        Tried loads: 1.85× was sustained, 1.94× was not.
        From 1.94× on the worker is overloaded: it makes less than 95% of the visits that are due.
        The data compress 2.5:1.
        ");
        let never = with_params(group("zram", &[(OVERLOAD, 0.5), (WORK, 4000.0)]), &params);
        let finding = told(&[&never]).expect("told").finding;
        assert_eq!(
            finding,
            "With zram, even at the lowest load visits fall below 95% of the rate."
        );
    }

    #[test]
    fn the_share_and_the_device_of_file_pages_are_said() {
        let zram = group("zram", &[(KNEE, 1.9), (KNEE_LOW, 1.85), (KNEE_HIGH, 1.94)]);
        let bullets =
            |params: &[(&str, &str)]| told(&[&with_params(zram.clone(), params)]).expect("told").bullets;
        let said = bullets(&[("file-percent", "50"), ("file-system", "ext4 on /dev/vda")]);
        let file = "Of the visited pages, 50% are those of a file (ext4 on /dev/vda), the others anonymous.";
        assert!(said.iter().any(|bullet| bullet == file), "{said:?}");
        let said = bullets(&[("file-percent", "100")]);
        assert_eq!(
            said.last().unwrap(),
            "Of the visited pages, 100% are those of a file."
        );
        assert!(!bullets(&[]).iter().any(|bullet| bullet.contains("file")));
    }
}
