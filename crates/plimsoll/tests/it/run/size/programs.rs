//! Programs that a size has to cope with, and a size that is interrupted at any moment.

use std::sync::LazyLock;

use plimsoll_proc::cgroup::Hierarchy;
use rustix::process::Signal;

use super::super::{Ended, has_laboratory};
use super::{assert_gone, assert_no_sleep, await_event, recordings, size, sized, start};

/// A search of few runs: no run is too slow.
const QUICK: [&str; 7] = [
    "--wait",
    "--engine",
    "none",
    "--repeat",
    "1",
    "--tolerate",
    "10000%",
];

/// One search for two tests: of a program that reads nothing, and leaves one process in its group and one that has a session of
/// its own. It needs more than its budget of 1 MiB to start; the tests in `known` have a budget that is kept.
pub(super) struct OverBudget {
    pub(super) ended: Ended,
    /// The name of the search's recording, and its trials.
    name: String,
    trials: String,
}

pub(super) static OVER_BUDGET: LazyLock<OverBudget> = LazyLock::new(|| {
    let options = [&QUICK[..], &["--fail-if-needs-more-than", "1M"]].concat();
    let script = "test -z \"$(cat)\" || exit 3; sleep 7205 & setsid sleep 7205 & true";
    let (run, ended) = sized(&options, &["sh", "-c", script]);
    let recording = recordings(&run, "size-2").pop();
    let recording = recording.unwrap_or_else(|| panic!("no recording: {}", ended.stderr));
    OverBudget {
        ended,
        name: recording.file_name().expect("a name").to_string_lossy().into(),
        trials: std::fs::read_to_string(recording.join("trials.jsonl")).expect("trials"),
    }
});

#[test]
fn a_program_without_input_that_leaves_processes_is_sized() {
    if !has_laboratory() {
        return;
    }
    let OverBudget { ended, name, trials } = &*OVER_BUDGET;
    // Its need is found, or untrustworthy on a busy machine.
    assert!([6, 7].contains(&ended.code), "{}", ended.stderr);
    assert_eq!(ended.results["schema"], 1, "{:#}", ended.results);
    assert_gone(name, "7205");
    assert!(trials.contains("\"left_processes\":2.0"), "{trials}");
}

#[test]
fn a_program_that_wants_a_terminal_is_found_by_the_pilot() {
    if !has_laboratory() {
        return;
    }
    let (run, ended) = sized(&QUICK, &["sh", "-c", "exec < /dev/tty; sleep 7206"]);
    ended.assert_refused(2, &["/dev/tty"]);
    assert!(recordings(&run, "").is_empty());
    assert_no_sleep("7206");
}

#[test]
fn a_program_that_leaves_its_cgroup_is_found_by_the_pilot() {
    if !has_laboratory() {
        return;
    }
    let own = Hierarchy::of_this_process().expect("a hierarchy").own;
    let script = format!("echo $$ > {}/cgroup.procs; exec sleep 7207", own.display());
    let (run, ended) = sized(&QUICK, &["sh", "-c", &script]);
    ended.assert_refused(2, &["cgroup"]);
    assert!(recordings(&run, "").is_empty());
    assert_no_sleep("7207");
}

/// Besides the moments at which the program runs: before the pilot's, between the two runs, and in the search's set-up.
#[test]
fn sigint_while_no_program_runs_ends_a_size_with_everything_undone() {
    if !has_laboratory() {
        return;
    }
    for (recording, kind) in [
        ("size-pilot", "calibration"),
        ("size-pilot", "phase-end"),
        ("size-2", "environment"),
    ] {
        let run = size();
        let started = start(
            &run,
            &["--engine", "zram:lz4", "--repeat", "1"],
            &["sleep", "0.7208"],
        );
        let name = await_event(&run, recording, |event| event["kind"] == kind);
        started.signal(Signal::INT);
        let ended = started.finish();
        assert_eq!(ended.code, 5, "{recording} {kind}: {}", ended.stderr);
        assert!(recordings(&run, "size-pilot").is_empty(), "{kind}");
        assert_gone(&name, "0.7208");
    }
}
