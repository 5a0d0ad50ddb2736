//! Reports of recordings of `plimsoll hold`.

use plimsoll_model::columns::{Row, col};
use plimsoll_model::recording::hold::{
    APPROACH, HOLD, HOLD_SCENARIO, HeldLevel, HoldEnd, HoldGoal, HoldSettings,
};
use plimsoll_model::recording::model::{Event, EventKind, RunStatus};
use plimsoll_model::recording::{Recording, Samples, StatementCode};
use plimsoll_report::page::build;
use plimsoll_report::{comparison, csv, export, html, markdown, terminal};

use super::lone::{self, HOSTILE, MIB, event};
use super::simulation::MEM_TOTAL;
use super::synthetic;

fn settings(goal: HoldGoal) -> HoldSettings {
    HoldSettings {
        goal,
        leak_bytes_per_s: None,
        cgroup: None,
        total_bytes: Some(MEM_TOTAL as u64),
        reserve_bytes: 512 << 20,
        ramp_s: 0.0,
        duration_s: Some(60.0),
        class: Some("random".to_owned()),
        touch_every_s: None,
    }
}

/// A minute at 10 Hz: 1000 MiB stay available of 3000, after 10 s in which the level is approached; from 30 s to 40 s another
/// program takes 400 MiB, and in the first second of that the level is 100 MiB off. The last second is after the end.
fn sample(tick: i64, row: &mut Row) {
    let others = if (300..400).contains(&tick) { 400 } else { 0 };
    let off = if (300..310).contains(&tick) { 100 } else { 0 };
    let available = match tick {
        ..100 => 3000 - 20 * tick,
        _ => 1000 - off,
    };
    let held = 3000 - others - available;
    row.set(col::MEM_TOTAL, MEM_TOTAL as i64);
    row.set(col::MEM_FREE, available * MIB);
    row.set(col::TARGET_ANON, held * MIB);
    row.set(col::RUNNER_CPU_US, tick * 500);
    row.set(col::TARGET_CPU_US, tick * 200);
    if tick <= 605 {
        row.set(col::HOLD_HELD, held * MIB);
        row.set(col::HOLD_AVAILABLE, available * MIB);
        row.set(col::HOLD_GOAL, 1000 * MIB);
    }
}

fn recording_of(settings: &HoldSettings, sample: impl Fn(i64, &mut Row)) -> Recording {
    let text = serde_json::to_string(settings).expect("JSON");
    let (approach, hold) = (Some((APPROACH, 1)), Some((HOLD, 2)));
    let events = vec![
        event(0, EventKind::RunStart, None, ""),
        event(0, EventKind::Environment, None, &text),
        event(0, EventKind::PhaseStart, approach, ""),
        event(10, EventKind::PhaseStart, hold, ""),
        event(60, EventKind::PhaseEnd, hold, "duration"),
        event(61, EventKind::RunEnd, None, ""),
    ];
    let mut recording = lone::recording(HOLD_SCENARIO, "hold of a level of the machine", events);
    recording.samples = lone::samples(611, sample);
    recording
}

fn recording() -> Recording {
    recording_of(&settings(HoldGoal::AvailableBytes(1000 << 20)), sample)
}

/// A pressure that varies between 9% and 11% once it is reached.
fn pressure() -> Recording {
    let settings = HoldSettings {
        class: None,
        ..settings(HoldGoal::SomePercent(10.0))
    };
    recording_of(&settings, |tick, row| {
        row.set(col::MEM_TOTAL, MEM_TOTAL as i64);
        row.set(col::HOLD_AVAILABLE, 3000 * MIB);
        row.set(
            col::HOLD_STALLED_PPM,
            100 * tick.min(100) * 10 + 10_000 * (tick % 3 - 1),
        );
    })
}

fn level(recording: &Recording) -> (HeldLevel, RunStatus) {
    let results = plimsoll_report::results(recording);
    (results.hold.expect("a level"), results.status)
}

fn is_close(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value - expected).abs() < 1e-3)
}

#[test]
fn the_course_counts_from_the_time_at_which_the_level_was_reached() {
    let (level, status) = level(&recording());
    assert_eq!((level.ended, status), (Some(HoldEnd::Duration), RunStatus::Ok));
    assert_eq!((level.reached_s, level.seconds), (Some(10.0), 60.0));
    // 10 of 501 looks, of which the last is at the end.
    assert!(is_close(level.within, 491.0 / 501.0), "{:?}", level.within);
    let (held, off) = (level.held_bytes.expect("held"), level.off_bytes.expect("off"));
    assert_eq!((held.least >> 20, held.most >> 20), (1600, 2000));
    assert_eq!((off.least, off.most >> 20), (0, 100));
    // 700 us in each tenth of a second.
    assert!(is_close(level.cpu_percent, 0.7), "{:?}", level.cpu_percent);
    assert_eq!(level.stalled_percent, None);
}

#[test]
fn a_pressure_has_its_share_of_time_and_no_bytes() {
    let (level, _) = level(&pressure());
    let stalled = level.stalled_percent.expect("a pressure");
    assert!(is_close(Some(stalled.least), 9.0) && is_close(Some(stalled.most), 11.0));
    assert!((stalled.mean - 10.0).abs() < 0.01, "{stalled:?}");
    assert_eq!(
        (level.held_bytes, level.off_bytes, level.within),
        (None, None, Some(1.0))
    );
}

/// The status of the recording and the code of its trust, by the end of the hold.
#[test]
fn an_early_end_shows_in_the_status() {
    use StatementCode::{HoldFailed, HoldInterrupted, HoldTooShort};
    let with = |duration_s: Option<f64>, change: &dyn Fn(&mut Vec<Event>)| {
        let settings = HoldSettings {
            duration_s,
            ..settings(HoldGoal::AvailableBytes(1000 << 20))
        };
        let mut recording = recording_of(&settings, sample);
        change(&mut recording.events);
        let results = plimsoll_report::results(&recording);
        let trust = results.headline.trust.iter().map(|trust| trust.code);
        (results.status, trust.collect::<Vec<_>>())
    };
    let interrupted = || (RunStatus::Interrupted, vec![HoldInterrupted]);
    let ended = |word: &'static str| {
        move |events: &mut Vec<Event>| {
            let mut ends = events
                .iter_mut()
                .filter(|event| event.kind == EventKind::PhaseEnd);
            ends.next().expect("an end").text = word.to_owned();
        }
    };
    let minute = Some(60.0);
    assert_eq!(with(minute, &ended("signal")), interrupted());
    assert_eq!(
        with(None, &ended("signal")),
        (RunStatus::Ok, Vec::new()),
        "it has no other end"
    );
    assert_eq!(with(minute, &ended("reserve")), interrupted());
    assert_eq!(
        with(minute, &ended("failed")),
        (RunStatus::Failed, vec![HoldFailed])
    );
    assert_eq!(with(minute, &ended("of-a-later-version")), interrupted());
    let never = |events: &mut Vec<Event>| {
        events.retain(|event| event.kind != EventKind::PhaseStart || event.phase.as_deref() != Some(HOLD));
    };
    assert_eq!(with(minute, &never), (RunStatus::Failed, vec![HoldTooShort]));
    let killed = |events: &mut Vec<Event>| events.truncate(4);
    assert_eq!(with(minute, &killed), interrupted());
    let at_once = |events: &mut Vec<Event>| events.truncate(1);
    assert_eq!(with(minute, &at_once), interrupted());
}

/// A killed hold has the course of its samples.
#[test]
fn a_killed_hold_is_reported_up_to_its_last_sample() {
    let mut recording = recording();
    recording.events.truncate(4);
    let (level, status) = level(&recording);
    assert_eq!((level.ended, status), (None, RunStatus::Interrupted));
    assert_eq!((level.reached_s, level.seconds), (Some(10.0), 61.0));
    assert!(level.held_bytes.is_some());
    recording.samples = Samples::default();
    let page = build(&recording, &plimsoll_report::results(&recording));
    assert!(html::render(&page).ends_with("</html>"));
}

#[test]
fn the_report_shows_the_level_in_its_tolerance_and_the_held_memory() {
    let mut recording = recording();
    let mut settings = settings(HoldGoal::AvailableBytes(1000 << 20));
    settings.cgroup = Some(HOSTILE.to_owned());
    recording.events[1].text = serde_json::to_string(&settings).expect("JSON");
    recording.manifest.plan.title = format!("hold of a level of the cgroup {HOSTILE}");
    let results = plimsoll_report::results(&recording);
    let words = results.headline.finding.text.split_whitespace().count();
    assert!(words <= 20, "{}", results.headline.finding);
    let page = build(&recording, &results);
    let curves = page.hold.as_ref().expect("curves");
    assert_eq!(
        (curves.t.last(), curves.released),
        (Some(&60.0), Some(60.0)),
        "none after the end"
    );
    let labels: Vec<&str> = page.marks.iter().map(|mark| mark.label.as_str()).collect();
    assert_eq!(labels, ["1", "2"]);
    let html = html::render(&page);
    std::fs::write(synthetic::folder().join("held.html"), &html).expect("written");
    assert!(!html.contains("<img src=x") && !html.contains('\u{202e}'));
    let section = html.split_once("id=\"hold\"").expect("a section").1;
    let section = section.split_once("</section>").expect("it ends").0;
    assert_eq!(section.matches("<svg class=\"xy\"").count(), 3, "{section}");
    assert_eq!(section.matches("class=\"band\"").count(), 2, "{section}");
    assert!(
        section.contains("reached") && section.contains("released"),
        "{section}"
    );
    assert_eq!(lone::charts(section), ["level-available", "distance", "memory"]);
    let svg = html::chart(&page, None, false).expect("the first chart");
    assert_eq!(
        lone::attributes(&svg, "aria-label").next(),
        lone::attributes(section, "aria-label").next(),
        "the first chart of the section"
    );
    for text in [
        terminal::watched(&recording, &results, 100),
        terminal::held(results.hold.as_ref().expect("a level")),
    ] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
    }
    let markdown = markdown::markdown(&recording, &results);
    assert!(!markdown.contains("<img src=x"), "{markdown}");
}

#[test]
fn the_text_of_a_hold() {
    let (recording, pressure) = (recording(), pressure());
    let mut text = String::new();
    for recording in [&recording, &pressure] {
        let results = plimsoll_report::results(recording);
        text += &terminal::watched(recording, &results, 100);
        text.push('\n');
        text += &terminal::held(results.hold.as_ref().expect("a level"));
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_table_of_a_hold_has_a_value_a_line() {
    let results = plimsoll_report::results(&recording());
    let text = csv::csv(&results);
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("run,trial,workload,subject,repeat,status,verified,phase,metric,value")
    );
    let start = format!("{},,hold,,1,ok,,,", results.run);
    let found: Vec<&str> = lines.map(|line| line.strip_prefix(&start).expect(line)).collect();
    let value = |name: &str| {
        found
            .iter()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(','))
    };
    assert_eq!(value("goal_available_bytes"), Some("1048576000"));
    assert_eq!(value("reached_s"), Some("10"));
    assert_eq!(value("most_off_bytes"), Some("104857600"));
    assert_eq!(value("least_stalled_percent"), None);
    let of_pressure = csv::csv(&plimsoll_report::results(&pressure()));
    assert!(of_pressure.contains(",goal_some_percent,10\n"), "{of_pressure}");
}

/// Two holds are compared by their whole timelines; one can also be exported in each form.
#[test]
fn holds_are_compared_and_exported() {
    let (one, other) = (recording(), pressure());
    let results = [&one, &other].map(plimsoll_report::results);
    let inputs = [
        comparison::Input {
            recording: &one,
            results: &results[0],
        },
        comparison::Input {
            recording: &other,
            results: &results[1],
        },
    ];
    let compared = comparison::compare(&inputs, 0.05).expect("two timelines");
    assert_eq!(compared.basis, comparison::Basis::Timelines);
    let mut text = Vec::new();
    export::csv(&one, &mut text).expect("memory");
    export::json(&one, &results[0], &mut text).expect("memory");
    export::prometheus(&one, &results[0], &mut text).expect("memory");
    assert!(String::from_utf8(text).expect("text").contains("hold_available"));
}
