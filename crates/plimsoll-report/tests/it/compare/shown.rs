//! Synthetic runs compared: verdicts, how often they are wrong, conditions, and every form of output.

use std::collections::BTreeSet;

use plimsoll_model::recording::Recording;
use plimsoll_model::recording::model::{Results, TrialStatus};
use plimsoll_report::analysis::groups;
use plimsoll_report::analysis::statistics::median_ratio;
use plimsoll_report::compare::{csv, html, markdown, terminal, words};
use plimsoll_report::comparison::{
    Basis, CompareError, Comparison, Condition, Fault, Input, Lone, Row, State, Verdict, check, compare,
};
use plimsoll_report::page::build;
use plimsoll_report::repeats::{Spread, hint, needed};
use serde_json::Value;

use crate::report::kinds;
use crate::report::recorded::recording;
use crate::report::simulation::{Noise, QUICK, Shape};
use crate::report::synthetic;

fn shape(repeats: u32) -> Shape {
    Shape { repeats, ..QUICK }
}

/// A run whose restore takes `seconds` with the given noise; everything else is as simulated.
fn run(repeats: u32, seconds: f64, deviation: f64, noise: &mut Noise) -> Recording {
    run_of(shape(repeats), seconds, deviation, noise)
}

/// As [`run`], of trials of any shape.
fn run_of(shape: Shape, seconds: f64, deviation: f64, noise: &mut Noise) -> Recording {
    let mut run = recording(shape, 10);
    for trial in &mut run.trials {
        let restore = trial
            .phases
            .iter_mut()
            .find(|phase| phase.name == "restore")
            .expect("restore");
        restore.seconds = seconds * (1.0 + deviation * noise.normal());
        restore.gb_per_s = restore.bytes as f64 / restore.seconds / 1e9;
    }
    run
}

fn results(recording: &Recording) -> Results {
    let mut results = recording.results.clone().expect("a finished run");
    results.trials = recording.trials.clone();
    results
}

fn compared(runs: &[&Recording]) -> Comparison {
    let results: Vec<Results> = runs.iter().map(|run| results(run)).collect();
    let inputs: Vec<Input<'_>> = runs
        .iter()
        .zip(&results)
        .map(|(recording, results)| Input { recording, results })
        .collect();
    compare(&inputs, 0.05).expect("comparable")
}

fn row<'a>(comparison: &'a Comparison, class: &str, metric: &str) -> &'a Row {
    let found = comparison
        .rows
        .iter()
        .find(|row| row.group.ends_with(class) && row.metric == metric);
    found.expect("the row")
}

/// A baseline and a run whose restore is half slower.
fn slower(repeats: u32) -> Comparison {
    let mut noise = Noise(5);
    let baseline = run(repeats, 1.0, 0.03, &mut noise);
    let mut other = run(repeats, 1.5, 0.03, &mut noise);
    other.manifest.run = "compression-20260203T040506Z-beef".to_owned();
    other
        .manifest
        .host
        .settings
        .insert("/proc/sys/vm/swappiness".to_owned(), "100".to_owned());
    let mut comparison = compared(&[&baseline, &other]);
    comparison.runs[1].name = other.manifest.run;
    comparison
}

#[test]
fn a_shift_of_a_fifth_is_found_and_nothing_is_found_in_nothing() {
    let (mut found, mut worse, mut better) = (0, 0, 0);
    let (tables, of_each) = (3, 3);
    for table in 0..tables {
        let mut noise = Noise(100 + table);
        let baseline = run(10, 1.0, 0.03, &mut noise);
        let same = run(10, 1.0, 0.03, &mut noise);
        let slow = run(10, 1.2, 0.03, &mut noise);
        let comparison = compared(&[&baseline, &same, &slow]);
        for row in comparison
            .rows
            .iter()
            .filter(|row| row.metric == "restore.seconds")
        {
            found += i32::from(row.run == 2 && row.verdict == Verdict::Worse);
            worse += i32::from(row.run == 1 && row.verdict == Verdict::Worse);
            better += i32::from(row.run == 1 && row.verdict == Verdict::Better);
        }
    }
    let all = (tables * of_each) as i32;
    assert_eq!(
        found, all,
        "a shift of 20% with 3% of noise and 10 repeats is always found"
    );
    assert_eq!(
        (worse, better),
        (0, 0),
        "5% is far outside of 3% of noise with 10 repeats"
    );
}

#[test]
fn counters_are_no_settings_of_the_machine() {
    let with_counters = |value: &str| {
        let mut run = recording(shape(1), 10);
        let khugepaged = "/sys/kernel/mm/transparent_hugepage/khugepaged";
        for path in [
            format!("{khugepaged}/full_scans"),
            format!("{khugepaged}/pages_collapsed"),
            "/sys/module/damon_reclaim/parameters/nr_quota_exceeds".to_owned(),
            format!("{khugepaged}/scan_sleep_millisecs"),
        ] {
            run.manifest.host.settings.insert(path, value.to_owned());
        }
        run
    };
    let comparison = compared(&[&with_counters("1"), &with_counters("2")]);
    let settings = comparison
        .differences
        .iter()
        .filter(|found| found.kind == "settings");
    let names: Vec<&str> = settings
        .map(|found| found.name.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(names, ["scan_sleep_millisecs"]);
}

#[test]
fn the_repeats_of_the_hint_show_the_difference_that_it_names() {
    // A tenth and a fifth of deviation, differences of a tenth and a fifth: in four of five comparisons at least.
    for (deviation, difference) in [(0.06, 0.10), (0.1, 0.20)] {
        let spread = Spread {
            title: "a metric".to_owned(),
            share: deviation,
        };
        let repeats = spread.repeats_for(difference);
        let mut noise = Noise(11);
        let comparisons = 200;
        let mut sample = |median: f64| -> Vec<f64> {
            (0..repeats)
                .map(|_| median * (1.0 + deviation * noise.normal()))
                .collect()
        };
        let seen = (0..comparisons).filter(|&seed| {
            let (baseline, other) = (sample(1.0), sample(1.0 + difference));
            let interval = median_ratio(&baseline, &other, seed).and_then(|ratio| ratio.interval);
            interval.is_some_and(|(low, _)| low > 1.0)
        });
        let share = seen.count() as f64 / comparisons as f64;
        assert!((0.65..=0.97).contains(&share), "{repeats} repeats: {share}");
    }
}

#[test]
fn a_run_says_how_many_repeats_a_comparison_needs() {
    let needed_of = |repeats: u32| {
        let run = recording(shape(repeats), 10);
        needed(&groups(&run.trials)).expect("trials")
    };
    let few = needed_of(3);
    assert_eq!(few.have, 3);
    assert!(few.spread.is_some());
    let once = needed_of(1);
    assert_eq!((once.have, once.spread.is_none()), (1, true));
    for needed in [&few, &once] {
        assert!(hint(needed).contains("--repeat 6"), "{}", hint(needed));
    }
    let enough = needed_of(6);
    assert_eq!(enough.have, 6);
    assert!(!hint(&enough).contains("--repeat"), "{}", hint(&enough));
    // With the repeats that it asks for, a comparison gives verdicts.
    let noise = &mut Noise(3);
    let (baseline, same) = (run(6, 1.0, 0.01, noise), run(6, 1.0, 0.01, noise));
    let comparison = compared(&[&baseline, &same]);
    assert_eq!(
        row(&comparison, "random", "restore.seconds").verdict,
        Verdict::Same
    );
    assert_eq!(needed(&[]), None);
}

#[test]
fn chance_is_taken_for_a_change_no_more_often_than_stated() {
    use plimsoll_report::analysis::statistics::median_ratio;
    for (n, m) in [(5, 5), (6, 6), (10, 10), (5, 12)] {
        let (mut worse, mut better) = (0.0, 0.0);
        let tables = 600_u32;
        for table in 0..tables {
            let mut noise = Noise(u64::from(table) * 7919 + n as u64);
            for _ in 0..8 {
                noise.next();
            }
            let mut sample =
                |count: usize| -> Vec<f64> { (0..count).map(|_| 1.0 + 0.05 * noise.normal()).collect() };
            let (first, second) = (sample(n), sample(m));
            let (low, high) = median_ratio(&first, &second, u64::from(table))
                .and_then(|ratio| ratio.interval)
                .expect("enough repeats");
            worse += f64::from(u8::from(low > 1.0));
            better += f64::from(u8::from(high < 1.0));
        }
        let share = |count: f64| count / f64::from(tables);
        // Nominal is 2.5% a side, without any threshold; three deviations of 600 tables are 1.9%.
        assert!(
            share(worse) < 0.044 && share(better) < 0.044,
            "{n} against {m}: {} worse, {} better",
            share(worse),
            share(better)
        );
    }
}

#[test]
fn restore_that_is_half_slower_is_worse_and_the_rest_is_not() {
    let comparison = slower(6);
    let worse = row(&comparison, "random", "restore.seconds");
    assert_eq!(worse.verdict, Verdict::Worse);
    assert!((worse.change.expect("a change") - 0.5).abs() < 0.05);
    assert_eq!(
        row(&comparison, "random", "restore.gb_per_s").verdict,
        Verdict::Worse
    );
    assert!(matches!(
        row(&comparison, "random", "fill.seconds").verdict,
        Verdict::Same | Verdict::Unclear
    ));
    assert_eq!(comparison.tally().worse, 3);
    assert!(
        comparison
            .differences
            .iter()
            .any(|one| one.name.contains("swappiness"))
    );
}

#[test]
fn one_run_each_gets_no_verdict() {
    let mut noise = Noise(3);
    let (baseline, other) = (run(1, 1.0, 0.0, &mut noise), run(1, 2.0, 0.0, &mut noise));
    let comparison = compared(&[&baseline, &other]);
    let restore = row(&comparison, "random", "restore.seconds");
    assert_eq!(
        (restore.verdict, restore.interval, restore.p),
        (Verdict::Unclear, None, None)
    );
    assert_eq!(
        (restore.baseline.values.len(), restore.other.values.len()),
        (1, 1)
    );
    assert!((restore.change.expect("a change") - 1.0).abs() < 1e-9);
}

fn state(comparison: &Comparison, condition: &str) -> Vec<State> {
    let condition: Condition = condition.parse().expect("a condition");
    let outcomes = check(&condition, comparison).expect("known");
    outcomes.iter().map(|outcome| outcome.state).collect()
}

#[test]
fn conditions_follow_the_values() {
    let comparison = slower(6);
    for (condition, expected) in [
        ("restore.seconds>10%", State::Failed),
        ("*/random/restore.seconds > 10%", State::Failed),
        ("restore.seconds>70%", State::Passed),
        ("restore.seconds>1.2s", State::Failed),
        ("restore.seconds>1800ms", State::Passed),
        ("restore.gb_per_s<-10%", State::Failed),
        ("fill.seconds>10%", State::Passed),
        ("fill_to_memset_ratio<-10%", State::Unknown),
    ] {
        let states = state(&comparison, condition);
        assert!(
            states.iter().all(|one| *one == expected),
            "{condition}: {states:?}"
        );
        assert!(!states.is_empty());
    }
}

#[test]
fn untrustworthy_values_never_pass() {
    let mut noise = Noise(9);
    let baseline = run(5, 1.0, 0.03, &mut noise);
    let mut other = run(5, 1.0, 0.03, &mut noise);
    for trial in other
        .trials
        .iter_mut()
        .filter(|trial| trial.id.contains("random"))
    {
        trial.status = TrialStatus::Untrustworthy;
        trial.reasons = vec!["CPU steal".to_owned()];
    }
    for trial in other
        .trials
        .iter_mut()
        .filter(|trial| trial.id.contains("constant"))
    {
        trial.status = TrialStatus::Failed;
        trial.reasons = vec!["wrong bytes".to_owned()];
    }
    let comparison = compared(&[&baseline, &other]);
    assert_eq!(
        state(&comparison, "*random/restore.seconds>10%"),
        [State::Unknown]
    );
    assert_eq!(
        state(&comparison, "*constant/restore.seconds>10%"),
        [State::Unknown]
    );
    assert_eq!(state(&comparison, "*runs20/restore.seconds>10%"), [State::Passed]);
    let lone = |lone: &Lone| {
        lone.group.ends_with("constant") && (lone.present, lone.absent) == (0, 1) && !lone.reason.is_empty()
    };
    assert!(comparison.lone.iter().any(lone), "{:?}", comparison.lone);
}

#[test]
fn conditions_that_are_none_say_why() {
    let comparison = slower(5);
    for (text, fault) in [
        ("restore.seconds", Fault::NoOperator),
        (">10%", Fault::NoMetric),
        ("restore.seconds>fast", Fault::NoLimit),
        ("restore.seconds>10GiB", Fault::NoLimit),
        ("restore.gb_per_s>10%", Fault::Improvement),
        ("restore.seconds<10%", Fault::Improvement),
    ] {
        let error = text.parse::<Condition>().expect_err("no condition");
        assert_eq!(error.fault, fault, "{text}: {error}");
    }
    let fault = |text: &str| {
        let condition: Condition = text.parse().expect("a condition");
        let error = check(&condition, &comparison).expect_err("unknown");
        let help = error.mistake().help.unwrap_or_default();
        (error.fault, help)
    };
    assert_eq!(fault("nothing/restore.seconds>10%").0, Fault::UnknownGroup);
    // Several names are near: they are all offered, the best first, and the others are left out.
    for (text, best, also) in [
        ("restor.seconds>10%", "restore.seconds", "restore.gb_per_s"),
        ("restore>10%", "restore.seconds", "restore.gb_per_s"),
        ("neighbour_p9_s>10%", "neighbour_p99_s", "neighbour_max_s"),
    ] {
        let (Fault::UnknownMetric { nearest }, help) = fault(text) else {
            panic!("{text}: another fault");
        };
        assert_eq!(
            nearest.first().map(String::as_str),
            Some(best),
            "{text}: {nearest:?}"
        );
        assert!(
            nearest.iter().any(|name| name == also) && nearest.len() <= 5,
            "{text}: {nearest:?}"
        );
        assert!(
            nearest.iter().all(|name| help.contains(name)) && !help.contains("compression_ratio"),
            "{help}"
        );
    }
    let (Fault::UnknownMetric { nearest }, help) = fault("qqqq>10%") else {
        panic!("another fault");
    };
    assert!(nearest.is_empty() && help.contains("fill.seconds"), "{help}");
}

#[test]
fn runs_without_a_common_group_are_refused_with_their_groups() {
    let mut noise = Noise(3);
    let baseline = run(1, 1.0, 0.0, &mut noise);
    let mut other = baseline.clone();
    for trial in &mut other.trials {
        trial.id = trial.id.replace("lzo-rle", "lz4");
    }
    let (a, b) = (results(&baseline), results(&other));
    let inputs = [
        Input {
            recording: &baseline,
            results: &a,
        },
        Input {
            recording: &other,
            results: &b,
        },
    ];
    let error = compare(&inputs, 0.05).expect_err("nothing in common");
    assert!(matches!(error, CompareError::NothingInCommon(_)));
    assert!(error.to_string().contains("zram:lz4") && error.to_string().contains("zram:lzo-rle"));
}

#[test]
fn recordings_without_trials_are_compared_by_their_timelines() {
    let mut noise = Noise(3);
    let mut baseline = run(1, 1.0, 0.0, &mut noise);
    baseline.trials.clear();
    let comparison = compared(&[&baseline, &run(1, 1.0, 0.0, &mut noise)]);
    assert!(
        comparison
            .rows
            .iter()
            .any(|row| row.metric == "swap.peak_used_bytes")
    );
    assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::Unclear));
    assert_eq!(comparison.basis, Basis::Timelines);
    assert_eq!(comparison.warnings.len(), 1, "{:?}", comparison.warnings);
}

#[test]
fn every_form_shows_the_same_comparison() {
    let mut comparison = slower(6);
    let condition: Condition = "*random/restore.seconds>10%".parse().expect("a condition");
    comparison.conditions = check(&condition, &comparison).expect("known");
    comparison.version = "0.0.0".to_owned();
    insta::assert_snapshot!("terminal_80", terminal::summary(&comparison, 80, false));
    insta::assert_snapshot!("terminal_120", terminal::summary(&comparison, 120, false));
    insta::assert_snapshot!("markdown", markdown::markdown(&comparison));
    insta::assert_snapshot!("csv", csv::csv(&comparison));
    comparison.rows.truncate(2);
    insta::assert_snapshot!("json", serde_json::to_string_pretty(&comparison).expect("json"));
}

#[test]
fn a_narrow_terminal_is_not_overrun() {
    let text = terminal::summary(&slower(6), 80, false);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(widest <= 80, "{widest} columns:\n{text}");
    assert!(terminal::summary(&slower(6), 80, true).contains('\u{1b}'));
}

/// The data of the script in a page.
fn data_of(page: &str) -> Value {
    let (_, rest) = page
        .split_once("<script type=\"application/json\" id=\"data\">")
        .expect("data");
    let (data, _) = rest.split_once("</script>").expect("an end");
    serde_json::from_str(data).expect("JSON")
}

#[test]
fn the_page_holds_static_drawings_of_one_choice_and_no_text_breaks_out() {
    const ATTACK: &str = "</script><img src=x onerror=\"window.broken=1\">\u{1b}[31m";
    let mut noise = Noise(5);
    // Longer trials: the marks and the samples of the runs differ.
    let longer = Shape {
        trial_s: 5.0,
        ..shape(5)
    };
    let baseline = run(5, 1.0, 0.03, &mut noise);
    let mut other = run_of(longer, 1.5, 0.03, &mut noise);
    other.manifest.host.hostname = ATTACK.to_owned();
    let mut comparison = compared(&[&baseline, &other]);
    comparison.runs[1].name = ATTACK.to_owned();
    let pages = [&baseline, &other].map(|run| build(run, &results(run)));
    let page = html::render(&comparison, &pages);
    std::fs::write(synthetic::folder().join("compare.html"), &page).expect("written");
    assert!(
        page.ends_with("</html>") && page.len() < 5_000_000,
        "{} bytes",
        page.len()
    );
    assert!(!page.contains("<img") && !page.contains("NaN"));
    assert_eq!(page.matches("</script>").count(), 2);
    // The attribute is the argument of `report --chart`, which a comparison does not have.
    assert!(!page.contains("data-chart"));
    assert_eq!(
        page.matches("<svg class=\"bars\"").count(),
        3,
        "a chart of intervals a group"
    );
    assert_eq!(
        page.matches("<svg class=\"timeline\"").count(),
        6,
        "a timeline a group and run"
    );
    assert_eq!(
        page.matches("<svg class=\"xy\"").count(),
        3,
        "a difference a group"
    );
    let data = data_of(&page);
    let list = |value: &Value| value.as_array().expect("a list").clone();
    assert_eq!(list(&data["groups"]).len(), 3);
    assert!(!list(&data["layers"]).is_empty());
    for group in list(&data["groups"]) {
        let runs = list(&group["runs"]);
        assert_eq!(runs.len(), 2, "{}", group["label"]);
        let title = runs[1]["title"].as_str().expect("text");
        assert!(title.contains("</script><img"), "{title}");
        for run in runs {
            let times = list(&run["t"]).len();
            let layers = list(&run["layers"]);
            assert!(layers.iter().all(|layer| list(&layer["v"]).len() == times));
            for offered in list(&data["layers"]) {
                assert!(offered["ink"].is_string(), "{offered}");
                let is_there = layers.iter().any(|layer| layer["ink"] == offered["ink"]);
                assert!(is_there, "{offered}");
            }
            // Each alignment can be chosen.
            let marks = list(&run["marks"]);
            for number in ["1", "2", "3", "4"] {
                assert!(marks.iter().any(|mark| mark["label"] == number), "mark {number}");
            }
        }
    }
    assert!(!terminal::summary(&comparison, 100, false).contains('\u{1b}'));
    assert!(words::sentence(&comparison).starts_with("B against A"));
}

/// A recording of the thrashing benchmark with this many times the repeats, whose useful work is `factor` times as much.
fn thrash(rounds: usize, factor: f64, noise: &mut Noise) -> Recording {
    let mut run = recording(shape(1), 10);
    run.trials = (0..rounds).flat_map(|_| kinds::thrash_trials()).collect();
    let mut repeats = std::collections::BTreeMap::new();
    for trial in &mut run.trials {
        let repeat: &mut u32 = repeats.entry(trial.subject.clone()).or_default();
        *repeat += 1;
        trial.repeat = *repeat;
        trial.id = format!("thrash/{}#{repeat}", trial.subject);
        let cycles = trial.metrics.get_mut("cycles_per_s").expect("a metric");
        *cycles *= factor * (1.0 + 0.01 * noise.normal());
    }
    run
}

#[test]
fn workloads_without_the_four_phases_are_compared_by_their_metrics() {
    let mut noise = Noise(5);
    let (baseline, other) = (thrash(3, 1.0, &mut noise), thrash(3, 0.5, &mut noise));
    let comparison = compared(&[&baseline, &other]);
    let metrics: BTreeSet<&str> = comparison.rows.iter().map(|row| row.metric.as_str()).collect();
    assert!(
        metrics.contains("cycles_per_s") && metrics.contains("recovery_s"),
        "{metrics:?}"
    );
    // The plan sets the length of a phase, and the values of phases are not metrics.
    for name in ["load.seconds", "rest.seconds", "pages_in_per_s", "wakeup_p99_s"] {
        assert!(!metrics.contains(name), "{name}");
    }
    for row in &comparison.rows {
        let shifted = row.metric == "cycles_per_s";
        assert_eq!(row.change.is_some_and(|change| change < -0.4), shifted, "{row:?}");
        assert_eq!(row.p_holm.is_some(), row.p.is_some(), "{row:?}");
        assert_eq!(row.restates, None, "{row:?}");
        if !shifted {
            assert_eq!(row.verdict, Verdict::Same, "{row:?}");
        }
    }
    let page = |run: &Recording| build(run, &results(run));
    let pages = [page(&baseline), page(&other)];
    assert!(html::render(&comparison, &pages).contains("cycles_per_s"));
}
