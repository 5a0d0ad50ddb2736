//! The scenario `compression-devices`: the kernel's devices and the pager in one run.

use std::sync::LazyLock;

use plimsoll_testkit::capability;
use serde_json::Value;

use super::pager::has_userfaultfd;
use super::refusals::unprivileged;
use super::{Ended, Run, has_laboratory};

const SMALL: [&str; 9] = [
    "--set",
    "size=32M",
    "--set",
    "hold=0.1",
    "--set",
    "class=[random, ratio=2.5]",
    "--repeat",
    "1",
    "--quick",
];
const OF_KERNEL: [&str; 4] = ["zram:lzo-rle", "zram:lz4", "zswap", "swapfile"];
const OF_PAGER: [&str; 2] = ["pager:lz4", "pager:zstd"];

/// One run as root, for several tests, and its page. A static is never dropped, and would keep the folder of the recording.
static AS_ROOT: LazyLock<(Ended, String)> = LazyLock::new(|| {
    let run = Run::of("compression-devices", &SMALL);
    let ended = run.finish();
    let page = run.recording().unwrap_or_default().join("report.html");
    (ended, std::fs::read_to_string(page).unwrap_or_default())
});

pub(super) fn as_root() -> Option<&'static (Ended, String)> {
    let zswap = std::path::Path::new("/sys/module/zswap").exists();
    let can_run = has_laboratory() && has_userfaultfd() && capability("zswap", zswap, "needs zswap");
    can_run.then(|| &*AS_ROOT)
}

/// One run without root, for several tests; none where this user cannot become another.
static WITHOUT_ROOT: LazyLock<Option<Ended>> =
    LazyLock::new(|| unprivileged(&[&["compression-devices", "--wait"], &SMALL[..]].concat()));

pub(super) fn without_root() -> Option<&'static Ended> {
    let can_run = has_laboratory() && has_userfaultfd();
    can_run.then(|| WITHOUT_ROOT.as_ref()).flatten()
}

/// The trials of the kernel's devices.
pub(super) fn of_kernel(ended: &Ended) -> impl Iterator<Item = &Value> {
    OF_KERNEL.iter().flat_map(|subject| of(ended, subject))
}

/// The trial of a subject with data of a ratio.
pub(super) fn compressible<'e>(ended: &'e Ended, subject: &str) -> &'e Value {
    let found = of(ended, subject)
        .into_iter()
        .find(|trial| trial["params"]["class"] == "ratio=2.5");
    found.unwrap_or_else(|| panic!("{subject}: {:#}", ended.results))
}

fn of<'e>(ended: &'e Ended, subject: &str) -> Vec<&'e Value> {
    let trials = ended.trials().iter();
    trials.filter(|trial| trial["subject"] == subject).collect()
}

fn is_complete(trial: &Value) -> bool {
    let number = |name: &str| trial["metrics"][name].as_f64();
    trial["verified"] == true
        && trial["status"] != "failed"
        && number("restore_gb_per_s") > Some(0.0)
        && number("stored_bytes") > Some(0.0)
}

#[test]
fn every_device_and_the_pager_are_measured_in_one_run() {
    let Some((ended, page)) = as_root() else { return };
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 2 * (OF_KERNEL.len() + OF_PAGER.len()));
    for subject in OF_KERNEL.iter().chain(&OF_PAGER) {
        let trials = of(ended, subject);
        assert_eq!(trials.len(), 2, "{subject}");
        for trial in trials {
            assert!(is_complete(trial), "{trial:#}");
        }
    }
    for subject in OF_KERNEL.iter().chain(&OF_PAGER) {
        assert!(page.contains(&format!("<td>{subject} ")), "no {subject}");
    }
}

/// Rows of the pager are complete, those of the kernel failed, and the run names the missing privilege.
#[test]
fn without_root_the_rows_of_the_pager_are_complete() {
    let Some(ended) = without_root() else { return };
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    for subject in OF_PAGER {
        let trials = of(ended, subject);
        assert_eq!(trials.len(), 2, "{subject}");
        for trial in trials {
            assert!(is_complete(trial), "{trial:#}");
        }
    }
    for subject in OF_KERNEL {
        let trials = of(ended, subject);
        assert_eq!(trials.len(), 2, "{subject}");
        for trial in trials {
            assert_eq!(trial["status"], "failed", "{trial:#}");
            assert_eq!(trial["verified"], true, "{trial:#}");
        }
    }
    assert!(
        ended.warning_codes().contains(&"capability-missing"),
        "{:#}",
        ended.results
    );
}
