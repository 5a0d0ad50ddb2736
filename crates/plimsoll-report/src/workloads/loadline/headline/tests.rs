use std::collections::BTreeMap;

use super::StatementCode::*;
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

fn zram_and_none() -> [Group; 2] {
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
    [none, zram]
}

fn told(groups: &[&Group]) -> Told {
    super::told(groups).expect("told")
}

/// The code and the values of a statement.
fn values(statement: &Statement) -> (StatementCode, Vec<(&str, f64)>) {
    let values = statement.values.iter();
    (
        statement.code,
        values.map(|(name, value)| (name.as_str(), *value)).collect(),
    )
}

/// The same, with the subject of its group.
fn of_group(statement: &Statement) -> (StatementCode, &str, Vec<(&str, f64)>) {
    let (code, values) = values(statement);
    let label = &statement.names["group"];
    (code, label.strip_suffix(" ratio=2.5").expect("a label"), values)
}

fn codes(told: &Told) -> Vec<StatementCode> {
    told.bullets.iter().map(|bullet| bullet.code).collect()
}

/// The only test of the whole text.
#[test]
fn text_of_two_groups() {
    let [none, zram] = zram_and_none();
    let told = told(&[&none, &zram]);
    let texts: Vec<&str> = std::iter::once(&told.finding)
        .chain(&told.bullets)
        .map(|statement| &*statement.text)
        .collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    With zram:lz4 this machine sustains 1.90× its memory before useful work falls below half.
    Tried loads: 1.85× was sustained, 1.94× was not.
    Counting the RAM of the compressed store: 1.50×.
    The data compress 2.5:1.
    With none: 0.97×; at 1.00× the OOM killer ends the program.
    ");
}

#[test]
fn the_finding_states_the_sustained_load() {
    let [none, zram] = zram_and_none();
    let told = told(&[&none, &zram]);
    assert_eq!(
        of_group(&told.finding),
        (
            LoadlineSustained,
            "zram:lz4",
            vec![("load", 1.9), ("target_work_ratio", 0.5)]
        )
    );
    let [tried, store, data, other] = &told.bullets[..] else {
        panic!("{told:?}")
    };
    assert_eq!(
        values(tried),
        (LoadlineTried, vec![("high_load", 1.94), ("low_load", 1.85)])
    );
    assert_eq!(values(store), (LoadlineWithStore, vec![(KNEE_RAM, 1.5)]));
    assert_eq!((data.code, &*data.names["class"]), (LoadlineData, "ratio=2.5"));
    assert_eq!(
        of_group(other),
        (
            LoadlineSustained,
            "none",
            vec![("load", 0.97), (KILLED_LOAD, 1.0), ("target_work_ratio", 0.5)]
        )
    );
}

/// No OOM killer ends a pager: it keeps data that cannot be saved, above its budget.
#[test]
fn a_load_that_a_pager_cannot_hold_is_one_beyond_its_budget() {
    let on = |subject: &str| {
        let metrics = [(KNEE, 2.1), (KNEE_LOW, 2.0), (KNEE_HIGH, 2.2), (KILLED_LOAD, 2.5)];
        told(&[&group(subject, &metrics)])
    };
    let (pager, zram) = (on("pager:lz4"), on("zram"));
    assert_eq!(codes(&pager), [LoadlineTried, LoadlineOverBudget, LoadlineData]);
    assert_eq!(
        values(&pager.bullets[0]).1,
        [("high_load", 2.2), ("low_load", 2.0)]
    );
    assert_eq!(values(&pager.bullets[1]).1, [(KILLED_LOAD, 2.5)]);
    assert_eq!(codes(&zram), [LoadlineTried, LoadlineKilled, LoadlineData]);
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
    let both = told(&[&zram, &better]);
    let loads = |load: f64| vec![("load", load), ("target_work_ratio", 0.5)];
    assert_eq!(of_group(&both.finding), (LoadlineSustained, "zswap", loads(2.97)));
    let more = (LoadlineSustainedMore, "zram", loads(2.9));
    assert_eq!(of_group(both.bullets.last().unwrap()), more);
    let alone = told(&[&zram]);
    assert_eq!(of_group(&alone.finding), more);
    assert_eq!(codes(&alone), [LoadlineData]);
}

#[test]
fn without_a_knee_the_load_line_is_above_the_highest_load() {
    let zram = group("zram", &[(KNEE_LOW, 3.0)]);
    assert_eq!(
        of_group(&told(&[&zram]).finding),
        (
            LoadlineSustainedMore,
            "zram",
            vec![("load", 3.0), ("target_work_ratio", 0.5)]
        )
    );
    assert!(super::told(&[]).is_none());
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
    const MIB: f64 = 1048576.0;
    let metrics = [
        (KNEE, 1.5),
        (KNEE_LOW, 1.4),
        (KNEE_HIGH, 1.6),
        (KNEE_RAM, 1.5),
        (NEEDED, 100.0 * MIB),
        (WORK, 1e5),
    ];
    let params = [
        ("size", "157286400"),
        ("limits", "150M,100M"),
        ("target-work", "0.8"),
    ];
    let told = told(&[&with_params(group("zram", &metrics), &params)]);
    assert_eq!(
        of_group(&told.finding),
        (
            LoadlineNeeds,
            "zram",
            vec![
                ("limit_bytes", 100.0 * MIB),
                ("size_bytes", 150.0 * MIB),
                ("target_work_ratio", 0.8)
            ]
        )
    );
    let relative = (LoadlineRelative, vec![("load", 1.0)]);
    assert!(
        told.bullets.iter().any(|bullet| values(bullet) == relative),
        "{told:?}"
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
    let told = told(&[&swap, &zram]);
    let target = ("target_p99_s", 0.001);
    assert_eq!(
        of_group(&told.finding),
        (LoadlineSustained, "zram", vec![("load", 1.2), target])
    );
    let of_swap = of_group(told.bullets.last().unwrap());
    assert_eq!(of_swap, (LoadlineNotSustained, "swapfile", vec![target]));
    for bullet in [
        (LoadlineTried, vec![("high_load", 1.25), ("low_load", 1.2)]),
        (
            LoadlineUsefulWork,
            vec![("load", 1.9), ("target_work_ratio", 0.5)],
        ),
    ] {
        assert!(told.bullets.iter().any(|told| values(told) == bullet), "{told:?}");
    }
}

#[test]
fn overload_is_said() {
    let params = [("rate", "10000")];
    let metrics = [(KNEE, 1.9), (KNEE_LOW, 1.85), (KNEE_HIGH, 1.94), (OVERLOAD, 1.94)];
    let served = told(&[&with_params(group("zram", &metrics), &params)]);
    assert_eq!(codes(&served), [LoadlineTried, LoadlineOverloaded, LoadlineData]);
    assert_eq!(
        values(&served.bullets[1]).1,
        [(OVERLOAD, 1.94), ("target_visits_ratio", 0.95)]
    );
    let never = with_params(group("zram", &[(OVERLOAD, 0.5), (WORK, 4000.0)]), &params);
    assert_eq!(
        of_group(&told(&[&never]).finding),
        (LoadlineNotSustained, "zram", vec![("target_visits_ratio", 0.95)])
    );
}

#[test]
fn the_share_and_the_device_of_file_pages_are_said() {
    let zram = group("zram", &[(KNEE, 1.9), (KNEE_LOW, 1.85), (KNEE_HIGH, 1.94)]);
    let of_files = |params: &[(&str, &str)]| {
        let bullets = told(&[&with_params(zram.clone(), params)]).bullets;
        let mut bullets = bullets.into_iter();
        let bullet = bullets.find(|bullet| bullet.code == LoadlineFilePages)?;
        Some((
            bullet.values["file_percent"],
            bullet.names.get("file_system").cloned(),
        ))
    };
    let device = "ext4 on /dev/vda";
    assert_eq!(
        of_files(&[("file-percent", "50"), ("file-system", device)]),
        Some((50.0, Some(device.to_owned())))
    );
    assert_eq!(of_files(&[("file-percent", "100")]), Some((100.0, None)));
    assert_eq!(of_files(&[]), None);
}
