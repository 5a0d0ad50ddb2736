//! The report of one data set.

use plimsoll_model::exit::Exit;
use plimsoll_report::comparison::Verdict;

use super::super::page;
use super::{GROUP, MadeHost, MadeSet, RESTORE, hosts};
use crate::FleetError;

/// The n-th of equal hosts has another algorithm, and is slower by a share.
fn with_slow_host(count: usize, slow: usize, share: f64) -> Vec<MadeHost> {
    let mut hosts = hosts(count, 1.0);
    hosts[slow].algorithm = "lzo";
    hosts[slow]
        .restore
        .iter_mut()
        .for_each(|seconds| *seconds *= 1.0 + share);
    hosts
}

#[test]
fn a_slow_host_is_an_outlier_and_its_other_algorithm_is_named() {
    // Three hosts have a rule of their own.
    for (count, slow) in [(3, 1), (4, 0), (12, 11), (40, 17)] {
        let (outcome, html) = MadeSet::new("march", &with_slow_host(count, slow, 0.4)).report();
        let [outlier] = outcome.outliers.as_slice() else {
            panic!("{count} hosts: {:?}", outcome.outliers);
        };
        assert_eq!(outlier.host, format!("host{slow:03}"));
        assert_eq!(
            (outlier.group.as_str(), outlier.metric.as_str()),
            (GROUP, RESTORE)
        );
        assert_eq!((outlier.class.as_str(), outlier.verdict), ("big", Verdict::Worse));
        assert!((outlier.change.unwrap() - 0.4).abs() < 0.06, "{outlier:?}");
        assert_eq!(outlier.mads.is_some(), count > 3, "{outlier:?}");
        let [setting] = outlier.differences.as_slice() else {
            panic!("{:?}", outlier.differences);
        };
        assert_eq!(
            (
                setting.name.as_str(),
                setting.value.as_str(),
                setting.majority.as_str()
            ),
            ("zram algorithm", "lzo", "lz4")
        );
        assert_eq!(setting.hosts, 1);
        for line in [&outcome.lines()[1], &html] {
            let words = "algorithm lzo in place of lz4";
            assert!(line.contains(words), "{line}");
        }
    }
}

#[test]
fn equal_hosts_have_no_outlier() {
    for count in [1, 2, 3, 4, 5, 12, 60] {
        let (outcome, _) = MadeSet::new("march", &hosts(count, 1.0)).report();
        assert!(
            outcome.outliers.is_empty(),
            "{count} hosts: {:?}",
            outcome.outliers
        );
        assert_eq!(outcome.exit(), Exit::Done);
        assert_eq!(outcome.summary.done, count);
    }
}

#[test]
fn two_hosts_and_untrustworthy_values_give_no_outlier() {
    let (outcome, html) = MadeSet::new("march", &with_slow_host(2, 0, 0.4)).report();
    assert!(outcome.outliers.is_empty(), "{:?}", outcome.outliers);
    assert!(html.contains("None of the 2 combinations"), "{html}");
    let mut hosts = with_slow_host(3, 0, 0.4);
    hosts.iter_mut().for_each(|host| host.restore.truncate(2));
    let (outcome, html) = MadeSet::new("march", &hosts).report();
    assert!(outcome.outliers.is_empty(), "{:?}", outcome.outliers);
    assert!(html.contains("None of the 2 combinations"), "{html}");
    let mut hosts = with_slow_host(12, 0, 0.4);
    hosts[0].status = "untrustworthy";
    let (outcome, html) = MadeSet::new("march", &hosts).report();
    assert!(outcome.outliers.is_empty(), "{:?}", outcome.outliers);
    let doubtful = outcome.distributions.iter().flat_map(|one| &one.hosts);
    assert_eq!(doubtful.filter(|host| !host.trusted).count(), 2);
    assert!(html.contains("No outliers in the 2 of 2 combinations"), "{html}");
    assert!(html.contains("host doubt"));
}

#[test]
fn classes_are_compared_with_themselves() {
    let mut all = hosts(10, 1.0);
    for (index, host) in hosts(10, 3.0).into_iter().enumerate() {
        all.push(MadeHost {
            name: format!("small{index}"),
            class: "small".to_owned(),
            ..host
        });
    }
    let (outcome, _) = MadeSet::new("march", &all).report();
    assert!(outcome.outliers.is_empty(), "{:?}", outcome.outliers);
    let restore: Vec<_> = outcome
        .distributions
        .iter()
        .filter(|one| one.metric == RESTORE)
        .collect();
    let [big, small] = restore.as_slice() else {
        panic!("{restore:?}")
    };
    assert_eq!((big.class.as_str(), small.class.as_str()), ("big", "small"));
    let ratio = small.quantiles.unwrap().median / big.quantiles.unwrap().median;
    assert!((ratio - 3.0).abs() < 0.01, "{ratio}");
}

#[test]
fn distributions_are_of_the_medians_of_hosts() {
    let mut hosts = hosts(3, 1.0);
    for (host, values) in hosts
        .iter_mut()
        .zip([[1.0, 9.0, 2.0], [4.0, 4.0, 4.0], [3.0, 3.0, 8.0]])
    {
        host.restore = values.to_vec();
    }
    let (outcome, html) = MadeSet::new("march", &hosts).report();
    let restore = outcome
        .distributions
        .iter()
        .find(|one| one.metric == RESTORE)
        .unwrap();
    let values: Vec<f64> = restore.hosts.iter().map(|host| host.value).collect();
    assert_eq!(values, [2.0, 4.0, 3.0]);
    let quantiles = restore.quantiles.unwrap();
    assert_eq!((quantiles.min, quantiles.median, quantiles.max), (2.0, 3.0, 4.0));
    // The page has them as sort keys, or as texts, and each host as a dot.
    for text in ["host000: 2.00 s", "host001: 4.00 s", "host002: 3.00 s"] {
        assert!(html.contains(text), "{text}");
    }
    // A metric that is no headline is in the data set alone.
    assert!(!html.contains("stored_bytes"));
    assert!(html.contains("compression_ratio"));
}

#[test]
fn tasks_that_are_not_done_are_listed_with_their_reason() {
    let mut hosts = hosts(9, 1.0);
    hosts[8].state = "unreadable";
    for (host, state) in hosts.iter_mut().zip(["failed", "missing", "corrupt"]) {
        host.state = state;
    }
    let set = MadeSet::new("march", &hosts);
    // A file of a finished task that is gone, and one that is damaged.
    std::fs::remove_file(
        set.data()
            .join("run=march/host=host004/task=0004/metrics.parquet"),
    )
    .unwrap();
    std::fs::write(
        set.data()
            .join("run=march/host=host005/task=0005/metrics.parquet"),
        "PAR1 PAR1",
    )
    .unwrap();
    let (outcome, html) = set.report();
    let summary = &outcome.summary;
    assert_eq!(
        (
            summary.tasks,
            summary.done,
            summary.failed,
            summary.missing,
            summary.corrupt
        ),
        (9, 3, 1, 1, 3)
    );
    assert_eq!((summary.unreadable, summary.attempts), (1, 9));
    assert_eq!(summary.engine_restarts, 5);
    let listed: Vec<&str> = summary.unfinished.iter().map(|task| task.task.as_str()).collect();
    assert_eq!(listed, ["0000", "0001", "0002", "0004", "0005", "0008"]);
    assert!(summary.unfinished.iter().all(|task| !task.reason.is_empty()));
    assert!(
        html.contains("the worker &#60;b&#62;was killed") || html.contains("the worker &lt;b&gt;was killed")
    );
    assert!(html.contains("NODE_FAIL"));
    assert!(page::tasks_sentence(summary).contains("3 corrupt, 1 unreadable"));
}

#[test]
fn hostile_names_stay_texts() {
    const HOSTILE: &str = "</script><script>alert(1)</script>\"'&\u{202e}\u{1b}[31m";
    let mut hosts = with_slow_host(12, 3, 0.4);
    for host in &mut hosts {
        host.class = HOSTILE.to_owned();
    }
    hosts[3].swappiness = HOSTILE;
    hosts[3].kernel = HOSTILE;
    let (outcome, html) = MadeSet::new("march", &hosts).report();
    assert_eq!(outcome.outliers.len(), 1);
    assert_eq!(
        html.matches("<script").count(),
        1,
        "the script of the report alone"
    );
    assert!(html.contains("alert(1)") && !html.contains("<script>alert"));
    assert!(!html.contains(['\u{202e}', '\u{1b}']));
    assert!(!html.contains("<b>"));
    assert!(
        outcome
            .lines()
            .iter()
            .all(|line| !line.contains(['\u{202e}', '\u{1b}', '\n']))
    );
}

#[test]
fn data_sets_that_cannot_be_read_are_errors() {
    let set = MadeSet::new("march", &hosts(2, 1.0));
    let error = set.against(None, &["restore.seconds>10%"]).unwrap_err();
    assert!(matches!(error, FleetError::Refused { .. }), "{error}");
    let other = MadeSet {
        plan: super::plan("april", 2),
        ..MadeSet::new("march", &hosts(2, 1.0))
    };
    let error = other.against(None, &[]).unwrap_err();
    assert!(matches!(error, FleetError::Format { .. }), "{error}");
    std::fs::remove_file(set.data().join("tasks.parquet")).unwrap();
    let error = set.against(None, &[]).unwrap_err();
    assert!(matches!(error, FleetError::Io { .. }), "{error}");
}
