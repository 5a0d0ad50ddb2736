//! The options of the subject `pager`, without any privilege.

use serde_json::Value;

use super::pager::FEWEST_FAULTS;
use super::refusals::unprivileged;
use super::{Ended, figure, phases};

/// A run of `work` on `subjects`, in which each byte was verified.
fn verified(work: &str, subjects: &str, arguments: &[&str]) -> Option<Ended> {
    let subjects = format!("subject={subjects}");
    let common = [work, "--wait", "--repeat", "1", "--set", &subjects];
    let ended = unprivileged(&[&common, arguments].concat())?;
    ended.assert_went_well();
    for trial in ended.trials() {
        assert_eq!(trial["verified"], true, "{trial:#}");
    }
    Some(ended)
}

fn metric(trial: &Value, name: &str) -> Option<f64> {
    trial["metrics"][name].as_f64()
}

/// The store keeps to its cap, and the page file has the rest; without one there is no such figure.
#[test]
fn a_cap_of_the_store_sends_copies_to_the_page_file() {
    let set = ["--set", "size=32M", "--set", "hold=0.1", "--set", "class=random"];
    let subjects = "[pager:auto, pager:zstd,pagefile, pager:lz4,store-cap=4M]";
    let Some(ended) = verified("compression", subjects, &set) else {
        return;
    };
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
    let set = [
        "--set",
        "limit=32M",
        "--set",
        "max-load=3",
        "--set",
        "duration=0.15",
        "--set",
        "class=random",
    ];
    let Some(ended) = verified("loadline", "[pager:lz4, pager:lz4,pagefile]", &set) else {
        return;
    };
    assert_eq!(ended.trials().len(), 2);
    for trial in ended.trials() {
        let has_file = trial["subject"] == "pager:lz4,pagefile";
        let over = |point: &Value| point["values"]["over_budget_bytes"].as_f64().is_some();
        assert_eq!(!phases(trial).iter().any(over), has_file, "{trial:#}");
    }
}

#[test]
fn a_scan_beyond_the_cap_reads_the_page_file() {
    let set = [
        "--set",
        "cap-by=limit",
        "--set",
        "size=16M",
        "--set",
        "load=1.5",
        "--set",
        "duration=2",
        "--set",
        "hold=0",
        "--set",
        "class=random",
    ];
    let subjects = "[pager:lz4,store-cap=2M, pager:zstd,pagefile,trim=per-fault]";
    let Some(ended) = verified("wscap", subjects, &set) else {
        return;
    };
    assert_eq!(ended.trials().len(), 2);
    for trial in ended.trials() {
        let capped = phases(trial).iter().find(|phase| phase["name"] == "capped");
        let faults = figure(capped.expect("a phase"), "faults_per_scan_count");
        assert!(faults > FEWEST_FAULTS, "{trial:#}");
    }
}
