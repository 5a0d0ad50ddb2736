//! The options of the subject `pager`, without any privilege.

use serde_json::Value;

use super::loadline::trials_of;
use super::pager::{FEWEST_FAULTS, UNPRIVILEGED, capped_scans};
use super::refusals::unprivileged;
use super::{phase, phase_value, phases};

fn metric(trial: &Value, name: &str) -> Option<f64> {
    trial["metrics"][name].as_f64()
}

/// The store keeps to its cap, and the page file has the rest. Without a page file, there is no such value.
#[test]
fn a_cap_of_the_store_sends_copies_to_the_page_file() {
    let mut arguments = vec!["compression", "--repeat", "1"];
    let subjects = "subject=[pager:auto, pager:zstd,pagefile, pager:lz4,store-cap=4M]";
    for setting in [subjects, "size=32M", "hold=0.1", "class=random"] {
        arguments.extend(["--set", setting]);
    }
    let Some(ended) = unprivileged(&arguments) else {
        return;
    };
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 3);
    for trial in ended.trials() {
        let (stored, file) = (metric(trial, "stored_bytes"), metric(trial, "page_file_bytes"));
        match trial["subject"].as_str() {
            Some("pager:auto") => assert!(stored > Some(32e6) && file.is_none(), "{trial:#}"),
            Some("pager:zstd,pagefile") => assert!(stored > Some(0.0) && file.is_some(), "{trial:#}"),
            Some("pager:lz4,store-cap=4M") => {
                // With the tables and buffers of the page file.
                let is_capped = stored.is_some_and(|stored| stored < 10e6);
                assert!(is_capped && file > Some(28e6), "{trial:#}");
                let ratio = metric(trial, "compression_ratio");
                assert!(ratio.is_some_and(|ratio| ratio < 1.0), "{trial:#}");
                assert!(metric(trial, "stored_ratio") > Some(3.0), "{trial:#}");
            }
            other => panic!("the subject {other:?}"),
        }
    }
}

/// Random data fill a budget at a load of 1; with a page file a pager holds three times as much.
#[test]
fn a_page_file_carries_loads_that_do_not_compress() {
    let Some(ended) = &*UNPRIVILEGED else { return };
    for (section, has_file) in [("random", false), ("file", true)] {
        let trial = trials_of(ended, section)[0];
        let over = |point: &Value| point["values"]["over_budget_bytes"].as_f64().is_some();
        assert_eq!(!phases(trial).iter().any(over), has_file, "{trial:#}");
    }
}

#[test]
fn a_scan_beyond_the_cap_reads_the_page_file() {
    let subjects = "subject=[pager:lz4,store-cap=2M, pager:zstd,pagefile,trim=per-fault]";
    let Some(ended) = capped_scans(subjects, "class=random") else {
        return;
    };
    assert_eq!(ended.trials().len(), 2);
    for trial in ended.trials() {
        let faults = phase_value(phase(trial, "capped"), "faults_per_scan_count");
        assert!(faults > FEWEST_FAULTS, "{trial:#}");
    }
}
