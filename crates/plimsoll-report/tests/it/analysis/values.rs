//! Statistics, groups, metrics and results.

use std::collections::BTreeMap;

use plimsoll_model::columns::Row;
use plimsoll_model::columns::col;
use plimsoll_model::recording::model::{EventKind, Phase, RunStatus, Trial, TrialStatus};
use plimsoll_model::recording::{PhaseRows, rows_around};
use plimsoll_model::recording::{Recording, Samples, WarningCode, Writer};
use plimsoll_model::scenario::FillClass;
use plimsoll_report::analysis::statistics::{IntervalKind, summarise};
use plimsoll_report::analysis::{gb_per_s, groups, ratio};
use plimsoll_report::results;
use plimsoll_report::workloads::compression::metrics;
use plimsoll_report::{csv::csv, json::json, markdown::markdown};
use proptest::prelude::*;

use plimsoll_testkit::recordings::{calibration, event, manifest, plan, trial};

#[test]
fn a_few_repeats_have_a_range_and_no_interval() {
    let summary = summarise(&[3.0, 1.0, 2.0], 1).unwrap();
    assert_eq!((summary.n, summary.median, summary.mean), (3, 2.0, 2.0));
    assert_eq!(summary.standard_deviation, Some(1.0));
    assert_eq!(summary.interval.kind, IntervalKind::Range);
    assert_eq!((summary.interval.low, summary.interval.high), (1.0, 3.0));
    let one = summarise(&[5.0], 1).unwrap();
    assert_eq!((one.median, one.standard_deviation), (5.0, None));
    assert_eq!(summarise(&[], 1), None);
    assert_eq!(summarise(&[f64::NAN, f64::INFINITY], 1), None);
}

/// Probability that the median of `n` values drawn with replacement is at most the `k`-th of the `n` (odd `n`): at least
/// half of the draws are among the first `k`.
fn median_at_most(n: u32, k: u32) -> f64 {
    let p = f64::from(k) / f64::from(n);
    let choose = |j: u32| (1..=j).fold(1.0, |product, i| product * f64::from(n - j + i) / f64::from(i));
    (n.div_ceil(2)..=n)
        .map(|j| choose(j) * p.powi(j as i32) * (1.0 - p).powi((n - j) as i32))
        .sum()
}

#[test]
fn the_bootstrap_finds_the_interval_that_can_be_computed_exactly() {
    for n in [7, 9, 15, 21] {
        let values: Vec<f64> = (1..=n).map(f64::from).collect();
        let exact = |level: f64| f64::from((1..=n).find(|&k| median_at_most(n, k) >= level).unwrap());
        for seed in 0..5 {
            let interval = summarise(&values, seed).unwrap().interval;
            assert_eq!(interval.kind, IntervalKind::Bootstrap95);
            // Of 2000 resamples the tails are known to about half a percent: the ends may be one value off.
            assert!((interval.low - exact(0.025)).abs() <= 1.0, "{n}: {interval:?}");
            assert!((interval.high - exact(0.975)).abs() <= 1.0, "{n}: {interval:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_summary_agrees_with_the_obvious_way(values in proptest::collection::vec(-1e12..1e12_f64, 1..40), seed: u64) {
        let summary = summarise(&values, seed).unwrap();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let mean = values.iter().sum::<f64>() / n as f64;
        prop_assert!((summary.median - median).abs() < 1e-3);
        prop_assert!((summary.mean - mean).abs() < 1e-3);
        prop_assert_eq!((summary.min, summary.max), (sorted[0], sorted[n - 1]));
        let interval = summary.interval;
        prop_assert!(summary.min <= interval.low && interval.low <= summary.median);
        prop_assert!(summary.median <= interval.high && interval.high <= summary.max);
        prop_assert_eq!(summarise(&values, seed), Some(summary));
    }

    #[test]
    fn no_value_is_ever_infinite(
        seconds in prop_oneof![Just(0.0), Just(1e-300), 0.0..10.0_f64],
        levels in proptest::collection::vec(proptest::option::of(any::<i64>()), 16),
        subject in prop_oneof![Just("zram:lz4"), Just("zswap"), Just("swapfile"), Just("none"), Just("odd")],
    ) {
        let mut trial = compression_trial(subject);
        for phase in &mut trial.phases {
            phase.seconds = seconds;
            phase.gb_per_s = gb_per_s(phase.bytes, seconds);
        }
        let row = |from: usize| {
            let columns = [
                col::SWAP_TOTAL, col::SWAP_FREE, col::TARGET_RESIDENT, col::ZRAM_ORIG_DATA_SIZE,
                col::ZRAM_COMPR_DATA_SIZE, col::ZRAM_MEM_USED_TOTAL, col::ZSWAP_STORED, col::ZSWAP_POOL,
            ];
            let mut row = Row::empty(0);
            for (column, level) in columns.into_iter().zip(&levels[from..]) {
                if let Some(level) = level {
                    row.set(column, *level);
                }
            }
            row
        };
        let around = PhaseRows { before: row(0), after: row(8) };
        let mut zero = calibration();
        zero.memset_gb_per_s = 0.0;
        for (name, value) in metrics(&trial, &[around; 3], Some(&zero)) {
            prop_assert!(value.is_finite(), "{} is {}", name, value);
        }
    }
}

/// Fill, trim and restore of 1 GB each.
fn compression_trial(subject: &str) -> Trial {
    let phase = |name: &str, seconds: f64, start: u64| Phase {
        name: name.into(),
        span_ns: (start, start + (seconds * 1e9) as u64),
        seconds,
        bytes: 1_000_000_000,
        gb_per_s: gb_per_s(1_000_000_000, seconds),
        ..Phase::default()
    };
    let mut trial = trial(&plan(&[FillClass::Runs20], 1), 0, TrialStatus::Ok);
    trial.subject = subject.into();
    trial.phases = vec![
        phase("fill", 0.25, 1_000_000_000),
        phase("trim", 2.0, 2_000_000_000),
        phase("restore", 1.0, 5_000_000_000),
    ];
    trial
}

fn row(t_ns: u64, levels: &[(usize, i64)]) -> Row {
    let mut row = Row::empty(t_ns);
    levels.iter().for_each(|&(column, level)| row.set(column, level));
    row
}

#[test]
fn metrics_of_zram_match_its_counters() {
    let before = row(
        900_000_000,
        &[
            (col::SWAP_TOTAL, 4000),
            (col::SWAP_FREE, 4000),
            (col::TARGET_RESIDENT, 1100),
            (col::ZRAM_ORIG_DATA_SIZE, 100),
            (col::ZRAM_COMPR_DATA_SIZE, 50),
            (col::ZRAM_MEM_USED_TOTAL, 60),
        ],
    );
    let after = row(
        4_100_000_000,
        &[
            (col::SWAP_TOTAL, 4000),
            (col::SWAP_FREE, 3000),
            (col::TARGET_RESIDENT, 110),
            (col::ZRAM_ORIG_DATA_SIZE, 1100),
            (col::ZRAM_COMPR_DATA_SIZE, 300),
            (col::ZRAM_MEM_USED_TOTAL, 460),
        ],
    );
    let samples = Samples::from_rows(&[before, after, row(9_000_000_000, &[])]);
    let trial = compression_trial("zram:lz4");
    let around: Vec<PhaseRows> = trial
        .phases
        .iter()
        .map(|phase| rows_around(&samples, phase).unwrap())
        .collect();
    assert_eq!(around[0].before, before);
    assert_eq!((around[1].before, around[1].after), (before, after));
    let found = metrics(&trial, &around, Some(&calibration()));
    let expected = BTreeMap::from(
        [
            ("fill_gb_per_s", 4.0),
            ("trim_gb_per_s", 0.5),
            ("restore_gb_per_s", 1.0),
            ("fill_to_memset_ratio", 4.0 / 20.0),
            ("fill_to_first_touch_ratio", 4.0 / 4.0),
            ("trim_to_memcpy_ratio", 0.5 / 10.0),
            ("restore_to_read_ratio", 1.0 / 16.0),
            ("swapped_bytes", 1000.0),
            ("trimmed_bytes", 990.0),
            ("trimmed_ratio", 990.0 / 1e9),
            ("original_bytes", 1000.0),
            ("stored_bytes", 400.0),
            ("compression_ratio", 4.0),
            ("stored_ratio", 2.5),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    assert_eq!(found, expected);
}

#[test]
fn constant_memory_leaves_nothing_to_compress_and_no_infinite_ratio() {
    let before = row(
        0,
        &[(col::ZRAM_ORIG_DATA_SIZE, 0), (col::ZRAM_COMPR_DATA_SIZE, 0)],
    );
    let after = row(
        1,
        &[
            (col::ZRAM_ORIG_DATA_SIZE, 4096),
            (col::ZRAM_COMPR_DATA_SIZE, 0),
            (col::ZRAM_MEM_USED_TOTAL, 0),
        ],
    );
    let found = metrics(
        &compression_trial("zram"),
        &[PhaseRows { before, after }; 3],
        None,
    );
    assert_eq!(found.get("original_bytes"), Some(&4096.0));
    assert_eq!(found.get("stored_bytes"), Some(&0.0));
    assert!(!found.contains_key("compression_ratio") && !found.contains_key("stored_ratio"));
}

#[test]
fn undefined_ratios_are_absent() {
    assert_eq!(ratio(1.0, 0.0), None);
    assert_eq!(ratio(0.0, 0.0), None);
    assert_eq!(ratio(3.0, 2.0), Some(1.5));
    assert_eq!(gb_per_s(1 << 30, 0.0), 0.0);
    assert_eq!(gb_per_s(3_000_000_000, 1.5), 2.0);
}

#[test]
fn trials_of_two_sections_are_no_repeats_of_each_other() {
    let plan = plan(&[FillClass::Random, FillClass::Constant], 2);
    let mut trials: Vec<Trial> = (0..4).map(|index| trial(&plan, index, TrialStatus::Ok)).collect();
    // The same again with another limit, which no parameter tells.
    for index in [0, 2] {
        let mut other = trials[index].clone();
        other.id = other.id.replacen("zram/", "tight/", 1);
        trials.push(other);
    }
    let labelled = |trials: &[Trial]| -> Vec<(String, usize)> {
        let groups = groups(trials);
        groups
            .into_iter()
            .map(|group| (group.label, group.trials.len()))
            .collect()
    };
    let expected = [
        ("zram:lz4 constant", 2),
        ("zram:lz4 random (tight)", 2),
        ("zram:lz4 random (zram)", 2),
    ];
    let expected = expected.map(|(label, repeats)| (label.to_owned(), repeats));
    assert_eq!(labelled(&trials), expected);
    trials.reverse();
    assert_eq!(labelled(&trials), expected, "in whatever order they ran");
    // Within a section the ids are what is left to tell groups apart.
    for trial in &mut trials {
        trial.id = trial.id.replacen("tight/", "zram/more/", 1);
    }
    let labels: Vec<String> = labelled(&trials).into_iter().map(|(label, _)| label).collect();
    assert_eq!(
        labels,
        [
            "zram:lz4 constant",
            "zram/more/zram:lz4/random",
            "zram/zram:lz4/random"
        ]
    );
}

#[test]
fn repeats_are_grouped_and_failed_ones_are_in_no_statistic() {
    let plan = plan(&[FillClass::Random, FillClass::Constant], 3);
    let mut trials: Vec<Trial> = (0..6).map(|index| trial(&plan, index, TrialStatus::Ok)).collect();
    trials[0].status = TrialStatus::Failed;
    trials[2].status = TrialStatus::Untrustworthy;
    for index in [1, 3, 5] {
        trials[index].status = TrialStatus::Untrustworthy;
    }
    let groups = groups(&trials);
    let labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
    assert_eq!(labels, ["zram:lz4 constant", "zram:lz4 random"]);
    let random = &groups[1];
    assert_eq!(
        (random.trials.len(), random.failed, random.untrustworthy),
        (3, 1, false)
    );
    let speed = &random.metrics["fill_gb_per_s"];
    assert_eq!(speed.dots.len(), 2, "every dot that did not fail is shown");
    assert_eq!(speed.summary.n, 1, "only trustworthy values are summed up");
    assert_eq!(speed.summary.median, 4.2237);
    assert_eq!(random.phases[0].seconds.summary.median, 0.3);
    // If no value is trustworthy, the summary has all values, and the group is marked as untrustworthy.
    let constant = &groups[0];
    assert!(constant.untrustworthy);
    assert_eq!(constant.metrics["fill_gb_per_s"].summary.n, 3);
}

/// Writes a run of `statuses` and reads it back.
fn run(statuses: &[TrialStatus], planned: u32, ended: bool, missing: &[&str]) -> Recording {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], planned);
    let mut manifest = manifest("run", plan.clone());
    manifest.missing = missing.iter().map(|&name| name.into()).collect();
    let mut writer = Writer::create(parent.path(), manifest).unwrap();
    writer.samples(&[0, 1, 2, 3].map(Row::empty)).unwrap();
    for (index, &status) in statuses.iter().enumerate() {
        writer.trial(&trial(&plan, index, status)).unwrap();
    }
    let mut warning = event(1, EventKind::Warning, "look out");
    warning.code = Some(WarningCode::KilledRun);
    writer.event(&warning).unwrap();
    if ended {
        writer.event(&event(2, EventKind::RunEnd, "")).unwrap();
    }
    Recording::open(writer.folder()).unwrap()
}

#[test]
fn the_verdict_follows_from_the_trials() {
    use TrialStatus::{Failed, Ok, Untrustworthy};
    /// Statuses of the trials that ended, trials planned, whether the run wrote its end, capabilities missing, verdict.
    type Case = (
        &'static [TrialStatus],
        u32,
        bool,
        &'static [&'static str],
        RunStatus,
    );
    let cases: [Case; 8] = [
        (&[Ok, Ok], 2, true, &[], RunStatus::Ok),
        (&[Ok, Untrustworthy], 2, true, &[], RunStatus::Untrustworthy),
        (&[Failed, Untrustworthy], 2, true, &[], RunStatus::Failed),
        (&[Ok], 2, true, &[], RunStatus::Interrupted),
        (&[Ok, Ok], 2, false, &[], RunStatus::Interrupted),
        (&[], 2, true, &["zram"], RunStatus::Incomplete),
        (&[Failed], 2, true, &["zram"], RunStatus::Failed),
        (&[], 0, true, &[], RunStatus::Ok),
    ];
    for (statuses, planned, ended, missing, expected) in cases {
        let recording = run(statuses, planned, ended, missing);
        let results = results(&recording);
        assert_eq!(results.status, expected, "{statuses:?} of {planned}");
        assert_eq!(results.calibration, Some(calibration()));
        let codes: Vec<WarningCode> = results.warnings.iter().map(|warning| warning.code).collect();
        let mut warned = vec![WarningCode::CapabilityMissing; missing.len()];
        warned.push(WarningCode::KilledRun);
        assert_eq!(codes, warned);
        assert_eq!(results.sampler.samples, 4);
    }
}

#[test]
fn exports_quote_names_of_scenarios_and_machines() {
    let mut recording = run(&[TrialStatus::Ok, TrialStatus::Failed], 2, true, &[]);
    let nasty = "=cmd|' /C calc'!A0\",<script>\n| x |";
    for trial in &mut recording.trials {
        trial.params.insert("class".into(), nasty.into());
        trial.reasons.push(nasty.into());
        trial.lists.insert(nasty.into(), vec![3.5, 4.5]);
        trial.phases[0].values.insert(nasty.into(), 0.25);
        trial.phases[0].profile.push((nasty.into(), 0.125));
    }
    recording.manifest.host.hostname = nasty.into();
    let results = results(&recording);

    let csv = csv(&results);
    let header = "run,trial,workload,subject,class,repeat,status,verified,phase,metric,value\n";
    assert!(csv.starts_with(header), "{csv}");
    assert!(
        csv.contains("\"'=cmd|' /C calc'!A0\"\",<script>\n| x |\""),
        "{csv}"
    );
    assert!(!csv.contains(",=") && !csv.contains(",\"="), "{csv}");
    assert!(csv.contains(",2,failed,false,fill,minor_faults,16384\n"), "{csv}");
    assert!(csv.contains(",1,ok,true,,fill_gb_per_s,0.2237\n"), "{csv}");

    let values: Vec<&str> = csv
        .lines()
        .filter_map(|line| line.rsplit_once(',').map(|(_, value)| value))
        .collect();
    for value in ["3.5", "4.5", "0.25", "0.125"] {
        assert!(values.contains(&value), "{value} in {csv}");
    }

    let text = markdown(&recording, &results);
    assert!(!text.contains("<script>"), "{text}");
    let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let summary = table.iter().find(|line| line.contains("cmd")).unwrap();
    assert_eq!(cells(summary), cells(table[0]), "{summary}");

    let json = json(&results).unwrap();
    let back: plimsoll_model::recording::model::Results = serde_json::from_str(&json).unwrap();
    assert_eq!(back, results);
}
