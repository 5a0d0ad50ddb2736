//! `plimsoll run thrash` with consumers on pagers that share one budget: beside zram, without root, counted from outside.

use std::time::Duration;

use plimsoll_model::scenario::workloads::thrash::mechanism;
use plimsoll_sample::pagers::all_stats;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::pager::has_userfaultfd;
use super::refusals::unprivileged;
use super::thrash::{SHARED, SMALL, Shared, list};
use super::{Run, Started, ends_soon, has_laboratory, metric, phase, phase_names, phase_value};

/// The metrics that only pagers have, and those that only the kernel counts.
const OF_PAGERS: [&str; 5] = [
    "pager_hard_faults_per_s",
    "pager_soft_faults_per_s",
    "pager_trims_per_s",
    "pager_stalled_percent",
    "over_budget_bytes",
];
const OF_KERNEL: &str = "load_stalled_percent";

/// Paging of the pagers in place of the kernel's; the work and the probes as for any subject.
fn check_paged(trial: &Value) {
    assert_eq!(trial["verified"], true, "{trial:#}");
    assert_eq!(phase_names(trial), ["rest", "load", "recovery"]);
    for name in ["load_pages_in_per_s", "load_pages_out_per_s", "pager_trims_per_s"] {
        assert!(metric(trial, name) > 100.0, "{name}: {trial:#}");
    }
    for name in OF_PAGERS {
        assert!(metric(trial, name) >= 0.0, "{name}: {trial:#}");
    }
    let (faults, pages) = (
        metric(trial, "pager_hard_faults_per_s"),
        metric(trial, "load_pages_in_per_s"),
    );
    assert!(faults > 0.0 && faults <= pages, "{trial:#}");
    let stalled = metric(trial, "pager_stalled_percent");
    assert!(stalled > 0.0 && stalled <= 100.0, "{trial:#}");
    assert!(trial["metrics"].get(OF_KERNEL).is_none(), "{trial:#}");
    for name in [
        "cycles_per_s",
        "fairness_ratio",
        "load_wakeup_p99_s",
        "load_launch_p99_s",
        "small_set_slowdown_ratio",
    ] {
        assert!(metric(trial, name) > 0.0, "{name}: {trial:#}");
    }
    // Nothing is restored while nothing runs, and the counters go on after the end of the load.
    assert_eq!(
        phase_value(phase(trial, "rest"), "pages_in_per_s"),
        0.0,
        "{trial:#}"
    );
    assert!(phase_value(phase(trial, "recovery"), "pages_in_per_s") >= 0.0);
}

#[test]
fn consumers_on_zram_and_on_pagers_are_rows_of_one_report() {
    if !has_userfaultfd() || !has_laboratory() {
        return;
    }
    let Shared { ended, page, csv } = &*SHARED;
    ended.assert_went_well();
    assert_eq!(ended.trials().len(), 2);
    for trial in ended.trials() {
        if trial["subject"] == "pager:lz4" {
            check_paged(trial);
            assert_eq!(trial["params"]["mechanism"], mechanism::IN_CGROUP, "{trial:#}");
        } else {
            assert!(metric(trial, "load_pages_in_per_s") > 100.0, "{trial:#}");
            let foreign = OF_PAGERS
                .iter()
                .filter(|name| trial["metrics"].get(**name).is_some());
            assert_eq!(foreign.count(), 0, "{trial:#}");
        }
    }
    for part in [
        "id=\"thrash-thrash-pagers\"",
        "data-chart=\"swap-in\"",
        "data-chart=\"fairness\"",
    ] {
        assert!(page.contains(part), "the page lacks `{part}`");
    }
    for text in ["zram", "pager:lz4", "pager_stalled_percent"] {
        assert!(csv.contains(text), "no {text}: {csv}");
    }
}

/// Without root `plimsoll run thrash` measured nothing.
#[test]
fn consumers_on_pagers_need_no_root() {
    if !has_userfaultfd() {
        return;
    }
    let subjects = "subject=[zram, \"pager:zstd,trim=per-fault\", \"pager:auto,store-cap=2M\"]";
    let Some(ended) = unprivileged(&[&["thrash"], &SMALL[..], &[subjects]].concat()) else {
        return;
    };
    ended.assert_went_well();
    let codes = ended.warning_codes();
    assert!(codes.contains(&"subject-replaced"), "{codes:?}");
    assert!(!codes.contains(&"capability-missing"), "{codes:?}");
    let subjects = ended
        .trials()
        .iter()
        .filter_map(|trial| trial["subject"].as_str());
    let mut subjects: Vec<&str> = subjects.collect();
    subjects.sort_unstable();
    assert_eq!(
        subjects,
        ["pager", "pager:auto,store-cap=2M", "pager:zstd,trim=per-fault"]
    );
    for trial in ended.trials() {
        check_paged(trial);
        assert_eq!(
            trial["params"]["mechanism"],
            mechanism::WITHOUT_CGROUP,
            "{trial:#}"
        );
    }
}

/// Pages that do not compress have no place in a budget without a page file: the trial is ended, and says how to go on.
#[test]
fn consumers_that_write_more_than_the_budget_can_hold_are_ended() {
    if !has_userfaultfd() {
        return;
    }
    // One area of three times the least budget. After the first cycle a page has 300 random bytes, and it ends long before
    // the load.
    let keys = [
        "N=1",
        "S=12M",
        "limit=4M",
        "W=1000000",
        "ts=0",
        "tc=300",
        "hold=0.5",
    ];
    let arguments = [&["thrash"], &keys[..], &["subject=pager:lz4", "--repeat", "1"]].concat();
    let Some(ended) = unprivileged(&arguments) else {
        return;
    };
    ended.assert_failed(5, "over-limit");
    for words in ["`pagefile`", "`limit`"] {
        assert!(
            ended.stderr.contains(words) || ended.results.to_string().contains(words),
            "{words}: {}",
            ended.stderr
        );
    }
}

/// The consumers of a run: the last `count` processes that it started.
fn consumers(started: &Started<'_>, count: usize) -> Vec<u32> {
    let children = started.children();
    children[children.len() - count..].to_vec()
}

/// Anonymous bytes of a process in RAM, counted page by page: `/proc/PID/status` may lack some on each CPU.
fn anonymous(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a consumer lives");
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok())
        .expect("a number of KiB")
        << 10
}

/// Those beside its pager.
fn own(pid: u32) -> u64 {
    let of_pager: u64 = all_stats(pid).iter().map(|stats| stats.resident_bytes()).sum();
    anonymous(pid).saturating_sub(of_pager)
}

/// The shape of e1, a tenth of its sizes: 25 areas of 10 MiB in a budget of 102.4 MiB.
#[test]
fn twenty_five_consumers_stay_within_their_budget_as_the_kernel_counts_it() {
    const COUNT: usize = 25;
    if !has_userfaultfd() || !has_laboratory() {
        return;
    }
    let keys = ["tc=0.4", "hold=0.5", "subject=pager:lz4"];
    let run = Run::of(
        "thrash-e1",
        &[&["--scale", "0.1", "--repeat", "1"], &keys[..]].concat(),
    );
    let mut started = run.start();
    started.await_event("phase-start", "load");
    let pids = consumers(&started, COUNT);
    let each = || pids.iter().map(|pid| anonymous(*pid));
    let recovery = || {
        let events = run.recording().expect("a recording").join("events.jsonl");
        let text = std::fs::read_to_string(events).expect("events");
        text.contains("recovery")
    };
    let mut sums = Vec::new();
    while !recovery() {
        // A share that moves from one process to another between their readings would count twice.
        let once: Vec<u64> = each().collect();
        sums.push(
            once.into_iter()
                .zip(each())
                .map(|(once, again)| once.min(again))
                .sum::<u64>(),
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    // Their memory is free, and their own tables are as large as they become. The runner must not end them meanwhile.
    started.signal(Signal::STOP);
    let beside: u64 = pids.iter().map(|pid| own(*pid)).sum();
    started.signal(Signal::CONT);
    let ended = started.finish();
    ended.assert_went_well();
    let [trial] = ended.trials() else {
        panic!("one trial: {:#}", ended.results)
    };
    check_paged(trial);
    assert_eq!(list(trial, "consumer_cycles").len(), COUNT);
    assert_eq!(metric(trial, "over_budget_bytes"), 0.0, "{trial:#}");
    let budget = (1_u64 << 30) / 10;
    let most = sums.iter().max().expect("a reading");
    assert!(
        *most <= budget + budget / 50 + beside,
        "{most} bytes, of which {beside} are beside the pagers; {} readings",
        sums.len()
    );
    // The budget is used, too: the areas are two and a half times as large.
    assert!(*most >= budget * 3 / 4, "{most} of {budget}");
}

#[test]
fn a_killed_consumer_ends_its_trial_at_once_and_leaves_nothing() {
    if !has_userfaultfd() || !has_laboratory() {
        return;
    }
    for subject in ["subject=pager:lz4", "subject=zram"] {
        let run = Run::of("thrash", &[&SMALL[..], &["tc=60", subject]].concat());
        let mut started = run.start();
        started.await_event("phase-start", "load");
        let pids = consumers(&started, 4);
        let victim = Pid::from_raw(pids[1] as i32).expect("a process id");
        kill_process(victim, Signal::KILL).expect("it lives");
        let ended = started.finish();
        ended.assert_failed(5, "worker-killed");
        assert!(
            pids.iter().all(|pid| ends_soon(*pid)),
            "a consumer outlived the run"
        );
    }
}
