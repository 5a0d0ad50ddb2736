//! `plimsoll run thrash` on real zram in a real cgroup: four consumers of 24 MiB in two fifths of that.

use std::sync::LazyLock;

use rustix::process::Signal;
use serde_json::Value;

use super::pager::has_userfaultfd;
use super::{Ended, PLIMSOLL, Run, ends_soon, has_laboratory, is_trusted, metric, phase_names, phases};

/// 4 x 24 MiB, a cycle of a third of an area and 20 ms of sleep, a consumer every 0.4 s. In a cgroup of a few
/// thousand pages the kernel now and then finds none to reclaim, and kills; this one has ten thousand.
pub(super) const SMALL: [&str; 9] = [
    "N=4",
    "S=24M",
    "W=2000",
    "ts=0.02",
    "tc=0.4",
    "hold=0.5",
    "subject=zram",
    "--repeat",
    "1",
];

pub(super) fn small(more: &[&str]) -> Run {
    Run::of("thrash", &[&SMALL[..], more].concat())
}

/// One run of [`SMALL`] on zram and on a pager, for several tests. A static is never dropped, and would keep the folder of
/// the recording: its files are read here.
pub(super) struct Shared {
    pub(super) ended: Ended,
    pub(super) page: String,
    pub(super) csv: String,
}

pub(super) static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let subjects = match has_userfaultfd() {
        true => "subject=[zram, pager:lz4]",
        false => "subject=zram",
    };
    let run = small(&[subjects]);
    let ended = run.finish();
    let recording = run.recording().unwrap_or_default();
    let csv = plimsoll_testkit::command(PLIMSOLL)
        .args(["report", "--format", "csv"])
        .arg(&recording)
        .output()
        .expect("plimsoll starts");
    Shared {
        ended,
        page: std::fs::read_to_string(recording.join("report.html")).unwrap_or_default(),
        csv: String::from_utf8_lossy(&csv.stdout).into_owned(),
    }
});

/// The trial of a subject.
fn of_subject<'e>(ended: &'e Ended, subject: &str) -> &'e Value {
    let found = ended.trials().iter().find(|trial| trial["subject"] == subject);
    found.unwrap_or_else(|| panic!("no trial of {subject}: {:#}", ended.results))
}

pub(super) fn list(trial: &Value, name: &str) -> Vec<f64> {
    let values = trial["lists"][name].as_array();
    let values = values.unwrap_or_else(|| panic!("{name}: {trial:#}"));
    values.iter().filter_map(Value::as_f64).collect()
}

#[test]
fn consumers_start_one_after_the_other_write_and_end_together() {
    if !has_laboratory() {
        return;
    }
    let Shared { ended, page, .. } = &*SHARED;
    ended.assert_went_well();
    let trial = of_subject(ended, "zram");
    check_consumers(trial);
    check_values(trial);
    for part in [
        "data-chart=\"swap-in\"",
        "data-chart=\"wakeup\"",
        "data-chart=\"fairness\"",
        "id=\"thrash-thrash-pages\"",
    ] {
        assert!(page.contains(part), "the page lacks `{part}`");
    }
    let bullets = ended.results["headline"]["bullets"].as_array().expect("a list");
    let has_recovery = |trial: &Value| {
        let mut own = bullets
            .iter()
            .filter(|bullet| bullet["names"]["group"] == trial["subject"]);
        // A bullet about the recovery has at least one of these values.
        own.any(|bullet| {
            let values = &bullet["values"];
            values["recovery_s"].is_number() || values["recovery_repeats"].is_number()
        })
    };
    for trial in ended.trials() {
        assert_eq!(
            has_recovery(trial),
            is_trusted(trial, "cycles_per_s"),
            "a headline has all trustworthy metrics, and no others: {trial:#}"
        );
    }
    // The header of the page shows the same bullets.
    let header = page.split_once("</header>").expect("a header").0;
    for bullet in bullets {
        let text = bullet["text"].as_str().expect("a text").replace('\'', "&#39;");
        assert!(header.contains(&format!("<li>{text}</li>")), "{bullet:#}");
    }
    assert_eq!(header.matches("<li>").count(), bullets.len(), "{bullets:#?}");
}

/// Starts 0.4 s apart, the common end 2 s after the first start, as many sleeps as cycles or one less.
fn check_consumers(trial: &Value) {
    let (cycles, sleeps) = (list(trial, "consumer_cycles"), list(trial, "consumer_sleeps"));
    let active = list(trial, "consumer_active_s");
    assert_eq!((cycles.len(), sleeps.len(), active.len()), (4, 4, 4));
    let (started, ended) = (
        list(trial, "consumer_start_late_s"),
        list(trial, "consumer_end_late_s"),
    );
    let in_time = list(trial, "consumer_cycles_in_time");
    assert_eq!(in_time.len(), 4);
    for consumer in 0..4 {
        assert!(cycles[consumer] >= 1.0, "{trial:#}");
        assert!(
            (0.0..=1.0).contains(&(cycles[consumer] - in_time[consumer])),
            "{trial:#}"
        );
        assert!(
            (0.0..=1.0).contains(&(cycles[consumer] - sleeps[consumer])),
            "{trial:#}"
        );
        // Not more cycles than sleeps fit, whatever the machine does.
        assert!(cycles[consumer] <= active[consumer] / 0.02 + 1.0, "{trial:#}");
        let asked = 0.4 * f64::from(5 - consumer as u32);
        let late = ended[consumer] - started[consumer];
        // A busy machine may tell a consumer its start when that has passed.
        assert!((active[consumer] - asked - late).abs() < 0.3, "{trial:#}");
    }
    let counted = list(trial, "consumer_counted_cycles");
    for (cycles, counted) in cycles.iter().zip(counted) {
        assert_eq!(counted, (cycles / 16.0).ceil());
    }
}

fn check_values(trial: &Value) {
    let phases = phases(trial);
    assert_eq!(phase_names(trial), ["rest", "load", "recovery"]);
    // Two fifths of the memory that is written again and again: it must thrash, and on a busy machine a little.
    assert!(metric(trial, "load_pages_in_per_s") > 100.0, "{trial:#}");
    assert!(metric(trial, "load_pages_out_per_s") > 100.0, "{trial:#}");
    assert!(phases[1]["major_faults"].as_u64() > Some(100), "{trial:#}");
    let ratio = metric(trial, "distinct_pages_ratio");
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
    let fairness = metric(trial, "fairness_ratio");
    assert!((0.25 - 1e-9..=1.0 + 1e-9).contains(&fairness), "{fairness}");
    assert!(metric(trial, "cycles_done_percent") > 0.0);
    let in_time: f64 = list(trial, "consumer_cycles_in_time").iter().sum();
    assert!(
        (metric(trial, "cycles_per_s") - in_time / 2.0).abs() < 1e-6,
        "{trial:#}"
    );
    assert!(metric(trial, "small_set_slowdown_ratio") > 0.0);
    // Recovery within the observed time depends on the machine. Only a trial that recovers has `recovery_s`.
    let recovered = metric(trial, "recovered_ratio");
    match trial["metrics"]["recovery_s"].as_f64() {
        Some(seconds) => assert!(recovered == 1.0 && seconds >= 0.0, "{trial:#}"),
        None => assert_eq!(recovered, 0.0, "{trial:#}"),
    }
    assert!(phases[1]["values"]["lead_s"].as_f64() > Some(0.0), "{trial:#}");
    for phase in phases {
        for probe in ["wakeup", "launch", "small_set"] {
            for statistic in ["p50_s", "p99_s", "max_s", "count"] {
                let name = format!("{probe}_{statistic}");
                assert!(phase["values"][&name].as_f64() > Some(0.0), "{name}: {phase:#}");
            }
        }
        let failed = phase["values"]["launch_failed_count"].as_f64();
        assert!(failed >= Some(0.0), "{phase:#}");
        assert!(phase["latency"].is_string(), "{phase:#}");
    }
}

#[test]
fn fewer_writes_page_less_a_cycle_and_longer_sleeps_make_fewer_cycles() {
    if !has_laboratory() {
        return;
    }
    // e2, e1 and e3 of the paper in small: a third of the area, a thirtieth, twenty times the sleep.
    let [e1, e3] = ["W=200", "ts=0.4"].map(|change| small(&[change]).finish());
    for ended in [&e1, &e3, &SHARED.ended] {
        ended.assert_went_well();
    }
    // By the cycle, since how many there are in two seconds is the machine's.
    let pages = |trial: &Value| {
        let cycles: f64 = list(trial, "consumer_cycles").iter().sum();
        2.0 * metric(trial, "load_pages_in_per_s") / cycles
    };
    let (e2, e1) = (
        pages(of_subject(&SHARED.ended, "zram")),
        pages(of_subject(&e1, "zram")),
    );
    assert!(e1 < e2, "e1 {e1}, e2 {e2} pages in a cycle");
    let e3 = of_subject(&e3, "zram");
    let (cycles, active) = (list(e3, "consumer_cycles"), list(e3, "consumer_active_s"));
    for (cycles, active) in cycles.iter().zip(active) {
        assert!(*cycles >= 1.0 && *cycles <= active / 0.4 + 1.0, "{e3:#}");
    }
}

#[test]
fn loads_beyond_memory_are_refused_before_the_run() {
    let ended = small(&["swap-size=4M"]).finish();
    ended.assert_refused(1, &["`swap-size`"]);
    let ended = small(&["subject=none"]).finish();
    assert_eq!(ended.code, 1, "{}", ended.stderr);
}

#[test]
fn an_interrupted_load_ends_at_once_and_leaves_nothing() {
    if !has_laboratory() {
        return;
    }
    let run = small(&["tc=60"]);
    let mut started = run.start();
    started.await_event("phase-start", "load");
    let consumer = started.worker();
    started.signal(Signal::INT);
    let ended = started.finish();
    ended.assert_stopped(5, "signal", "SIGINT");
    assert!(ends_soon(consumer), "a worker outlived the run");
}
