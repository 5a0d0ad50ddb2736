//! The work of reading and reporting a recording grows with its trials, not with their square.

use std::time::Duration;

use plimsoll_model::categories::CATEGORIES;
use plimsoll_model::recording::model::{EventKind, Phase, Trial, TrialStatus, file};
use plimsoll_model::recording::{Levels, Recording, Writer};
use plimsoll_model::scenario::FillClass;
use plimsoll_report::analysis::groups;
use plimsoll_report::compare::terminal as compared;
use plimsoll_report::comparison::{Input, compare};
use plimsoll_report::page::build;
use plimsoll_report::results;
use plimsoll_report::{csv, html, markdown, terminal};

use super::ended;
use crate::recording::{event, manifest, plan, results as results_of, rows, trial};

/// A recording of `count` small trials, each a group of its own.
fn recording(count: usize) -> (tempfile::TempDir, std::path::PathBuf) {
    let parent = tempfile::tempdir().expect("a folder");
    let repeats = u32::try_from(count).expect("few");
    let mut plan = plan(&[FillClass::Random], repeats);
    for (number, trial) in plan.trials.iter_mut().enumerate() {
        trial.id = format!("zram/zram:lz4/{number}#1");
        trial.repeat = 1;
        trial.params = vec![
            ("class".to_owned(), number.to_string()),
            ("only".to_owned(), "1".to_owned()),
        ];
    }
    let mut writer = Writer::create(parent.path(), manifest("many", plan.clone())).expect("a recording");
    writer.samples(&rows(50)).expect("samples");
    for number in 0..count {
        let mut event = event(number as u64, EventKind::PhaseStart, "");
        event.trial = Some(plan.trials[number].id.clone());
        event.phase = Some("fill".to_owned());
        event.number = Some(1);
        writer.event(&event).expect("an event");
        writer
            .trial(&trial(&plan, number, TrialStatus::Ok))
            .expect("a trial");
    }
    let folder = writer.finish(&results_of("many", Vec::new())).expect("finished");
    (parent, folder)
}

/// A recording of `count` trials, each a group of its own, with as many values as a trial of compression has.
fn full_recording(count: usize) -> (tempfile::TempDir, std::path::PathBuf) {
    const METRICS: usize = 14;
    let (parent, folder) = recording(count);
    let trials = Recording::open(&folder).expect("it opens").trials;
    let levels: Levels = CATEGORIES
        .iter()
        .map(|category| (category.name, 1 << 30))
        .collect();
    let phases = ["fill", "trim", "restore", "release"].map(|name| Phase {
        name: name.to_owned(),
        before: levels.clone(),
        after: levels.clone(),
        ..trials[0].phases[0].clone()
    });
    let full = trials.into_iter().map(|trial| Trial {
        phases: phases.to_vec(),
        metrics: (0..METRICS)
            .map(|number| (format!("made_up_{number}_s"), 0.5))
            .collect(),
        ..trial
    });
    let full: Vec<Trial> = full.collect();
    let lines: Vec<String> = full
        .iter()
        .map(|trial| serde_json::to_string(trial).expect("JSON"))
        .collect();
    std::fs::write(folder.join(file::TRIALS), lines.join("\n") + "\n").expect("written");
    let results = serde_json::to_string_pretty(&results_of("many", full)).expect("JSON");
    std::fs::write(folder.join(file::RESULTS), results).expect("written");
    (parent, folder)
}

/// A report held every trial four times, with a text for each name, and its own text three times: one of 30,000 trials
/// took 2.6 GiB.
#[test]
fn the_memory_of_a_report_is_that_of_its_trials_once() {
    const TRIALS: usize = 4000;
    // Address space of the program, its libraries, stacks and samples, then of a trial; it was 130 KiB a trial.
    const BASE_KIB: usize = 64 << 10;
    const KIB_A_TRIAL: usize = 24;
    let (_parent, folder) = full_recording(TRIALS);
    let report = |format: &str, limit_kib: usize| {
        let script = "ulimit -v \"$0\" && exec \"$@\"";
        let output = folder.join("report");
        let mut command = plimsoll_testkit::command("sh");
        command
            .args([
                "-c",
                script,
                &limit_kib.to_string(),
                env!("CARGO_BIN_EXE_plimsoll"),
                "report",
                "--format",
                format,
            ])
            .arg("--output")
            .args([&output, &folder]);
        ended(&mut command)
    };
    for format in ["html", "text", "svg"] {
        let ended = report(format, BASE_KIB + TRIALS * KIB_A_TRIAL);
        assert_eq!(ended.code, Some(0), "{}: {}", ended.what, ended.stderr);
    }
}

/// CPU time of this thread for `work`.
fn cpu_of<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let before = now();
    let result = work();
    (now() - before, result)
}

/// CPU time of each step on a recording of `count` trials.
fn steps(count: usize) -> Vec<(&'static str, Duration)> {
    let (_parent, folder) = recording(count);
    let mut steps = Vec::new();
    let mut step = |name, (took, ())| steps.push((name, took));
    let (took, recording) = cpu_of(|| Recording::open(&folder).expect("it opens"));
    step("open", (took, ()));
    let (took, results) = cpu_of(|| results(&recording));
    step("results", (took, ()));
    let (took, groups) = cpu_of(|| groups(&results.trials));
    assert_eq!(groups.len(), count);
    step("groups", (took, ()));
    step(
        "terminal",
        cpu_of(|| drop(terminal::summary(&results, &groups, 100, false))),
    );
    step(
        "markdown",
        cpu_of(|| drop(markdown::markdown(&recording, &results))),
    );
    step("csv", cpu_of(|| drop(csv::csv(&results))));
    let (took, page) = cpu_of(|| build(&recording, &results));
    step("page", (took, ()));
    step("html", cpu_of(|| drop(html::render(&page))));
    let input = || Input {
        recording: &recording,
        results: &results,
    };
    let (took, comparison) = cpu_of(|| compare(&[input(), input()], 0.05).expect("alike"));
    step("compare", (took, ()));
    step(
        "compared",
        cpu_of(|| drop(compared::summary(&comparison, 100, false))),
    );
    steps
}

/// Four times the trials are at most eight times the work; a step that compares every trial with every other takes
/// sixteen. The 10,000 trials that a scenario may have once took a report more than a minute.
#[test]
fn the_work_of_a_report_does_not_grow_with_the_square_of_its_groups() {
    const FEW: usize = 500;
    const MANY: usize = 4 * FEW;
    // The least of three, as caches and other programs only add to it.
    let least = |count: usize| {
        let runs: Vec<_> = (0..3).map(|_| steps(count)).collect();
        let of_step = |place: usize| {
            runs.iter()
                .map(|run| run[place])
                .min_by_key(|step| step.1)
                .expect("three")
        };
        (0..runs[0].len()).map(of_step).collect::<Vec<_>>()
    };
    for ((name, few), (_, many)) in least(FEW).into_iter().zip(least(MANY)) {
        // Below this a step is its constant part.
        let few = few.max(Duration::from_micros(200));
        let growth = many.as_secs_f64() / few.as_secs_f64();
        eprintln!("{name}: {few:?}, {many:?}: {growth:.1} times");
        assert!(
            growth < 8.0,
            "{name} took {growth:.1} times the CPU time for 4 times the trials"
        );
    }
}
