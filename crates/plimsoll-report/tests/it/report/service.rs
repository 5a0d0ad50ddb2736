//! Reports of recordings of `plimsoll size --cgroup`.

use plimsoll_model::columns::col;
use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{EventKind, RunStatus};
use plimsoll_model::recording::service::{
    DESCENT, HOLD, PressureSignal, SERVICE, ServiceBound, ServiceSettings, ServiceSize,
};
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
        plimsoll_report::results(&recording).headline.finding
    };
    insta::assert_snapshot!(finding("floor", ServiceBound::Floor), @"The service needs at most 100 MiB: the cap reached the floor before pressure appeared.");
    insta::assert_snapshot!(finding("unreclaimable", ServiceBound::Unreclaimable), @"The service needs at most 100 MiB: the kernel could reclaim no more before pressure appeared.");
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
    insta::assert_snapshot!(lowered.finding, @"No working set found: without pressure, the memory of the service sank to 90.0 MiB in 60.0 s.");
    insta::assert_snapshot!(waits.finding, @"No working set found: the service waits for memory in at least 0.050% of the time without a lower cap.");
    assert!(waits.finding.split_whitespace().count() <= 20, "{waits:?}");
    let bullets = waits.bullets.concat();
    assert!(!bullets.contains("--duration"), "{bullets}");
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
    let words = results.headline.finding.split_whitespace().count();
    assert!(words <= 20, "{}", results.headline.finding);
    let page = build(&recording, &results);
    let signs: Vec<&str> = page.marks.iter().map(|mark| mark.sign.as_str()).collect();
    assert_eq!(signs, ["1", "2", "1"]);
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
    let svg = html::chart(&page, false);
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
