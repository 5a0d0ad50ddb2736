//! Two data sets.

use plimsoll_model::exit::Exit;
use plimsoll_report::comparison::{Basis, State, Verdict};

use super::{MadeHost, MadeSet, RESTORE, hosts};
use crate::FleetError;

fn faster(hosts: &mut [MadeHost], factor: f64) {
    for seconds in hosts.iter_mut().flat_map(|host| &mut host.restore) {
        *seconds *= factor;
    }
}

#[test]
fn a_planted_difference_is_found_and_fails_its_condition() {
    let baseline = MadeSet::new("old-image", &hosts(12, 1.0));
    let mut slower = hosts(12, 1.0);
    faster(&mut slower, 1.25);
    for host in &mut slower {
        host.kernel = "6.13.0";
    }
    let new = MadeSet::new("new-image", &slower);
    let (outcome, html) = new.against(Some(&baseline), &["restore.seconds>10%"]).unwrap();
    let comparison = outcome.comparison.as_ref().unwrap();
    let row = comparison.rows.iter().find(|row| row.metric == RESTORE).unwrap();
    assert_eq!(row.verdict, Verdict::Worse);
    assert!(
        (row.change.unwrap() - 0.25).abs() < 1e-9 && row.p_holm.unwrap() < 0.01,
        "{row:?}"
    );
    assert_eq!((row.baseline.values.len(), row.other.values.len()), (12, 12));
    assert_eq!(
        (comparison.basis, comparison.state()),
        (Basis::Hosts, State::Failed)
    );
    assert_eq!(outcome.exit(), Exit::Regression);
    let lines = outcome.lines().join("\n");
    for name in ["A: old-image (", "B: new-image ("] {
        assert!(lines.contains(name), "{lines}");
    }
    let kernel = comparison
        .differences
        .iter()
        .find(|one| one.name.ends_with("kernel"))
        .unwrap();
    assert_eq!(
        (kernel.baseline.as_str(), kernel.other.as_str()),
        ("6.12.1", "6.13.0")
    );
    assert!(
        html.contains("FAILED restore.seconds&#62;10%") || html.contains("FAILED restore.seconds&gt;10%")
    );
    // The other metric is the same on all hosts.
    let same = comparison
        .rows
        .iter()
        .find(|row| row.metric == "compression_ratio")
        .unwrap();
    assert_eq!(same.verdict, Verdict::Same);
}

#[test]
fn equal_data_sets_have_no_difference() {
    let baseline = MadeSet::new("monday", &hosts(12, 1.0));
    // The same hosts with other noise.
    let mut other = hosts(13, 1.0);
    other.remove(0);
    let set = MadeSet::new("tuesday", &other);
    let (outcome, _) = set
        .against(Some(&baseline), &["restore.seconds>10%", "compression_ratio<-5%"])
        .unwrap();
    let comparison = outcome.comparison.as_ref().unwrap();
    let tally = comparison.tally();
    assert_eq!(
        (tally.worse, tally.better, tally.changed),
        (0, 0, 0),
        "{:?}",
        comparison.rows
    );
    assert_eq!(comparison.state(), State::Passed);
    assert_eq!(outcome.exit(), Exit::Done);
    assert!(comparison.differences.is_empty(), "{:?}", comparison.differences);
}

#[test]
fn few_hosts_give_no_verdict_however_many_trials_they_have() {
    let many = |seconds: f64| -> Vec<MadeHost> {
        let mut hosts = hosts(3, seconds);
        hosts.iter_mut().for_each(|host| host.restore = vec![seconds; 50]);
        hosts
    };
    let baseline = MadeSet::new("monday", &many(1.0));
    let (outcome, _) = MadeSet::new("tuesday", &many(2.0))
        .against(Some(&baseline), &[])
        .unwrap();
    let comparison = outcome.comparison.as_ref().unwrap();
    let row = comparison.rows.iter().find(|row| row.metric == RESTORE).unwrap();
    assert_eq!((row.verdict, row.change), (Verdict::Unclear, Some(1.0)));
    assert!(row.remark.contains("3 hosts"), "{}", row.remark);
}

#[test]
fn a_condition_on_another_metric_reads_it_and_an_unknown_one_is_an_error() {
    let sets = [
        MadeSet::new("monday", &hosts(6, 1.0)),
        MadeSet::new("tuesday", &hosts(6, 1.0)),
    ];
    let (outcome, _) = sets[1].against(Some(&sets[0]), &["stored_bytes>10%"]).unwrap();
    let conditions = &outcome.comparison.as_ref().unwrap().conditions;
    assert!(matches!(conditions.as_slice(), [one] if one.state == State::Passed && one.row.is_some()));
    let error = sets[1]
        .against(Some(&sets[0]), &["no_such_metric>10%"])
        .unwrap_err();
    assert!(matches!(error, FleetError::Refused { .. }), "{error}");
    assert_eq!(error.exit(), Exit::Usage);
}

#[test]
fn data_sets_without_a_class_in_common_are_an_error() {
    let baseline = MadeSet::new("monday", &hosts(6, 1.0));
    let mut others = hosts(6, 1.0);
    others.iter_mut().for_each(|host| host.class = "small".to_owned());
    let error = MadeSet::new("tuesday", &others)
        .against(Some(&baseline), &[])
        .unwrap_err();
    assert!(matches!(error, FleetError::Refused { .. }), "{error}");
    assert_eq!(error.exit(), Exit::Usage);
    let text = error.to_string();
    for group in ["A: big/zram", "B: small/zram"] {
        assert!(text.contains(group), "{text}");
    }
}

#[test]
fn a_data_set_without_a_result_is_an_error() {
    let baseline = MadeSet::new("monday", &hosts(6, 1.0));
    let mut others = hosts(6, 1.0);
    others.iter_mut().for_each(|host| host.state = "missing");
    let error = MadeSet::new("tuesday", &others)
        .against(Some(&baseline), &[])
        .unwrap_err();
    assert!(matches!(error, FleetError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("B (tuesday)"), "{error}");
}
