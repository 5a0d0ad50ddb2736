//! Reports of recordings of `plimsoll size --cgroup`.

use plimsoll_model::columns::col;
use plimsoll_model::recording::model::{EventKind, Headline, RunStatus};
use plimsoll_model::recording::service::{
    DESCENT, HOLD, PressureSignal, SERVICE, ServiceBound, ServiceSettings, ServiceSize,
};
use plimsoll_model::recording::{Recording, Statement, StatementCode};
use plimsoll_report::page::build;
use plimsoll_report::{html, markdown, terminal};

use super::lone::{self, HOSTILE, MIB, attributes, event, only};

/// A minute at 10 Hz: the memory sinks from 300 to 100 MiB in 20 s, stays there for 30 s with one burst to 120 MiB, and an
/// attempt below it begins in the last 10 s. The bound of the hold is `bound`.
fn recording(bound: &str) -> Recording {
    let settings = ServiceSettings {
        cgroup: HOSTILE.to_owned(),
        cap_file: "memory.high".to_owned(),
        cap_before: "max".to_owned(),
        target_percent: 0.1,
        floor_bytes: 0,
        interval_s: 0.5,
        signal: PressureSignal::Cgroup,
    };
    let settings = serde_json::to_string(&settings).expect("JSON");
    let events = vec![
        event(0, EventKind::RunStart, None, ""),
        event(0, EventKind::Environment, None, &settings),
        event(0, EventKind::PhaseStart, Some((DESCENT, 1)), ""),
        event(20, EventKind::PhaseStart, Some((HOLD, 2)), bound),
        event(50, EventKind::PhaseStart, Some((DESCENT, 1)), ""),
        event(60, EventKind::RunEnd, None, ""),
    ];
    let mut recording = lone::recording(SERVICE, &format!("size of the cgroup {HOSTILE}"), events);
    recording.samples = lone::samples(601, |tick, row| {
        let usage = match tick {
            ..200 => 300 - tick,
            300..310 => 120,
            500.. => 90,
            _ => 100,
        };
        row.set(col::CGROUP_USAGE, usage * MIB);
        // The burst is without a cap.
        if tick > 0 && !(300..310).contains(&tick) {
            row.set(col::CGROUP_CAP, usage * MIB);
        }
        row.set(col::CGROUP_ANON, usage * MIB);
        row.set(col::CGROUP_SWAP, (300 - usage) * MIB);
        row.set(col::CGROUP_SWAP_CACHED, 0);
        row.set(col::CGROUP_PSI_SOME_US, tick * 100);
        row.set(col::CGROUP_REFAULT_ANON, tick);
        row.set(col::CGROUP_REFAULT_FILE, tick);
    });
    recording
}

fn size(recording: &Recording) -> ServiceSize {
    let results = plimsoll_report::results(recording);
    assert_eq!(results.status, RunStatus::Ok);
    results.service.expect("a size")
}

#[test]
fn the_working_set_is_the_memory_while_pressure_holds_the_cap() {
    let size = size(&recording("pressure"));
    let set = size.working_set.expect("found");
    let mib = |bytes: u64| bytes >> 20;
    assert_eq!(size.bound, ServiceBound::Pressure);
    assert_eq!(
        [set.p50_bytes, set.p90_bytes, set.p99_bytes, set.max_bytes].map(mib),
        [100, 100, 120, 120],
        "neither the descent nor the last attempt counts"
    );
    assert_eq!((mib(size.peak_bytes), mib(size.last_bytes)), (300, 90));
    assert_eq!(size.anonymous_bytes.map(mib), Some(300));
    assert_eq!((size.settled_s, size.seconds), (Some(20.0), 60.0));
    // 100 us in each tenth of a second, and two refaults.
    let close =
        |value: Option<f64>, expected: f64| value.is_some_and(|value| (value - expected).abs() < 0.01);
    assert!(close(size.pressure_percent, 0.1), "{:?}", size.pressure_percent);
    assert!(close(size.refaults_per_s, 20.0), "{:?}", size.refaults_per_s);
    assert_eq!(size.advice.len(), 2);
}

#[test]
fn a_bound_without_pressure_is_an_upper_limit() {
    let finding = |text: &str, bound: ServiceBound| {
        let recording = recording(text);
        assert_eq!(size(&recording).bound, bound);
        let finding = plimsoll_report::results(&recording).headline.finding;
        (finding.code, finding.values["p50_bytes"] / 1048576.0)
    };
    assert_eq!(
        finding("floor", ServiceBound::Floor),
        (StatementCode::ServiceFloor, 100.0)
    );
    assert_eq!(
        finding("unreclaimable", ServiceBound::Unreclaimable),
        (StatementCode::ServiceUnreclaimable, 100.0)
    );
}

#[test]
fn a_descent_without_an_end_gives_no_advice() {
    let mut recording = recording("pressure");
    recording
        .events
        .retain(|event| event.phase.as_deref() != Some(HOLD));
    let size = size(&recording);
    assert_eq!(
        (size.bound, size.working_set, size.settled_s),
        (ServiceBound::None, None, None)
    );
    assert!(size.advice.is_empty());
    recording
        .events
        .retain(|event| event.kind != EventKind::Environment);
    assert_eq!(plimsoll_report::results(&recording).service, None);
}

/// The only test of the whole text.
#[test]
fn text_of_a_working_set() {
    let headline = plimsoll_report::results(&recording("pressure")).headline;
    let texts: Vec<&str> = headline.statements().map(|statement| &*statement.text).collect();
    insta::assert_snapshot!(texts.join("\n"), @"
    The service needs 100 MiB (median working set) of the 300 MiB that it had taken.
    Over time: p90 100 MiB, p99 120 MiB, greatest 120 MiB.
    Found after 20.0 s; from then on 0.10% pressure and 20 refaults a second, at a target of 0.10%.
    Anonymous memory, in RAM and in swap: 300 MiB.
    Kubernetes: requests 300 MiB, limits 375 MiB. Without swap, as nodes are by default, all 300 MiB of anonymous memory stay in RAM.
    systemd: MemoryHigh 120 MiB, MemoryMax 150 MiB. They need swap or zram for the 180 MiB of anonymous memory outside of the working set.
    ");
}

/// A service at its own limit waits without a lower cap: the headline said that it had no pressure, and needed less.
#[test]
fn a_service_that_waits_by_itself_needs_more() {
    let mut recording = recording("pressure");
    recording
        .events
        .retain(|event| event.phase.as_deref() != Some(HOLD));
    let lowered = plimsoll_report::results(&recording).headline;
    recording.samples = lone::changed(&recording.samples, |_, row| only(&row, &[col::CGROUP_USAGE]));
    let waits = plimsoll_report::results(&recording).headline;
    let (sank, took) = (
        lowered.finding.values["last_bytes"],
        lowered.finding.values["duration_s"],
    );
    assert_eq!(lowered.finding.code, StatementCode::ServiceWithoutPressure);
    assert_eq!((sank / 1048576.0, took), (90.0, 60.0));
    assert_eq!(waits.finding.code, StatementCode::ServiceWaits);
    assert_eq!(waits.finding.values["waiting_percent"], 0.05);
    assert!(waits.finding.text.split_whitespace().count() <= 20, "{waits:?}");
    let remedy = |headline: &Headline| headline.bullets.last().map(|bullet| bullet.code);
    assert_eq!(remedy(&lowered), Some(StatementCode::ServiceNeedsTime));
    assert_eq!(remedy(&waits), Some(StatementCode::ServiceNeedsMore));
    let waiting_helps = |bullet: &Statement| bullet.code == StatementCode::ServiceNeedsTime;
    assert!(!waits.bullets.iter().any(waiting_helps), "{waits:?}");
}

/// Counters of a stranger's recording.
#[test]
fn counters_beyond_any_count_have_a_rate() {
    let mut recording = recording("pressure");
    recording.samples = lone::changed(&recording.samples, |index, mut row| {
        let most = [499, 599].contains(&index);
        row.set(col::CGROUP_REFAULT_ANON, if most { i64::MAX } else { 0 });
        row
    });
    recording
        .events
        .insert(5, event(55, EventKind::PhaseStart, Some((HOLD, 2)), "pressure"));
    let size = size(&recording);
    assert!(size.refaults_per_s.is_some_and(|rate| rate > 1e17), "{size:?}");
}

/// The head, both charts over time and the table of sizes; the name of the cgroup stays text.
#[test]
fn the_report_shows_memory_cap_and_pressure_over_time() {
    let recording = recording("pressure");
    let results = plimsoll_report::results(&recording);
    let words = results.headline.finding.text.split_whitespace().count();
    assert!(words <= 20, "{}", results.headline.finding);
    let page = build(&recording, &results);
    let labels: Vec<&str> = page.marks.iter().map(|mark| mark.label.as_str()).collect();
    assert_eq!(labels, ["1", "2", "1"]);
    let html = html::render(&page);
    assert!(!html.contains("<img src=x") && !html.contains('\u{202e}'));
    let section = html.split_once("id=\"service\"").expect("a section").1;
    let section = section.split_once("</section>").expect("it ends").0;
    assert_eq!(section.matches("<svg class=\"xy\"").count(), 2, "{section}");
    assert_eq!(lone::charts(section), ["memory", "pressure"]);
    let size = results.service.as_ref().expect("a size");
    let set = size.working_set.expect("found");
    let sizes = [
        Some(set.p50_bytes),
        Some(set.p90_bytes),
        Some(set.p99_bytes),
        Some(set.max_bytes),
        Some(size.peak_bytes),
        size.peak_file_bytes,
        size.anonymous_bytes,
        size.least_cap_bytes,
    ];
    let shown = attributes(section, "data-sort").map(|bytes| bytes.parse().expect("bytes"));
    assert_eq!(
        shown.collect::<Vec<u64>>(),
        sizes.into_iter().flatten().collect::<Vec<u64>>()
    );
    let svg = html::chart(&page, None, false).expect("the first chart");
    assert_eq!(
        attributes(&svg, "aria-label").next(),
        attributes(section, "aria-label").next(),
        "the first chart of the section"
    );
    let text = terminal::watched(&recording, &results, 100);
    assert!(
        text.contains("MemoryHigh=120M") && text.contains("memory: 300Mi"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    let markdown = markdown::markdown(&recording, &results);
    assert!(!markdown.contains("<img src=x"), "{markdown}");
}

/// Of v1, which has no pressure of a cgroup, the refaults are drawn.
#[test]
fn without_pressure_the_report_shows_refaults() {
    let mut recording = recording("pressure");
    let columns = [col::CGROUP_USAGE, col::CGROUP_CAP, col::CGROUP_REFAULT_ANON];
    recording.samples = lone::changed(&recording.samples, |_, row| only(&row, &columns));
    let size = size(&recording);
    assert_eq!((size.pressure_percent, size.anonymous_bytes), (None, None));
    let results = plimsoll_report::results(&recording);
    let html = html::render(&build(&recording, &results));
    assert_eq!(lone::charts(&html), ["memory", "refaults"]);
}
