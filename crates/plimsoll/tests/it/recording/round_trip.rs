//! Every value is read as it was written.

use std::collections::BTreeMap;

use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::recording::model::{EventKind, Phase, Results, Trial, TrialStatus, file};
use plimsoll_model::recording::{
    FailureCode, Levels, Recording, RecordingError, Samples, TrialFailure, WarningCode, Writer,
};
use plimsoll_model::scenario::FillClass;
use proptest::prelude::*;

use super::{csv_of, event, manifest, plan, read_by_others, results, rows, trial};

#[test]
fn a_finished_recording_reads_back_whole() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random, FillClass::Constant], 1);
    let manifest = manifest("whole", plan.clone());
    let mut writer = Writer::create(parent.path(), manifest.clone()).unwrap();
    let rows = rows(25);
    for batch in rows.chunks(10) {
        writer.samples(batch).unwrap();
    }
    let events = [
        event(0, EventKind::RunStart, "go"),
        event(9, EventKind::RunEnd, ""),
    ];
    let trials = [
        trial(&plan, 0, TrialStatus::Ok),
        trial(&plan, 1, TrialStatus::Failed),
    ];
    events.iter().for_each(|event| writer.event(event).unwrap());
    trials.iter().for_each(|trial| writer.trial(trial).unwrap());
    let results = results("whole", trials.to_vec());
    let folder = writer.finish(&results).unwrap();

    let recording = Recording::open(&folder).unwrap();
    assert!(recording.complete, "{:?}", recording.warnings);
    assert_eq!(recording.warnings, []);
    assert_eq!(recording.events, events);
    assert_eq!(recording.trials, trials);
    assert_eq!(Recording::read_results(&folder).unwrap().as_ref(), Some(&results));
    let without_trials = Results {
        trials: Vec::new(),
        ..results
    };
    assert_eq!(recording.results, Some(without_trials));
    assert_eq!(
        recording.manifest,
        plimsoll_model::recording::model::Manifest {
            checksums: recording.manifest.checksums.clone(),
            ..manifest
        }
    );
    let read: Vec<Row> = (0..recording.samples.len())
        .map(|index| recording.samples.row(index))
        .collect();
    assert_eq!(read, rows);
    assert!(!folder.join(file::SAMPLES_LIVE).exists());
}

#[test]
fn a_run_that_was_killed_opens_with_everything_that_was_written() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 2);
    let mut writer = Writer::create(parent.path(), manifest("killed", plan.clone())).unwrap();
    let rows = rows(30);
    writer.samples(&rows[..20]).unwrap();
    writer.samples(&rows[20..]).unwrap();
    writer.trial(&trial(&plan, 0, TrialStatus::Ok)).unwrap();
    let folder = writer.folder().to_owned();

    let meanwhile = Recording::open(&folder).unwrap();
    assert!(
        meanwhile
            .warnings
            .iter()
            .any(|warning| warning.code == WarningCode::StillRecording),
        "{:?}",
        meanwhile.warnings
    );
    // A kill leaves no more behind than dropping does: nothing is buffered.
    drop(writer);
    let recording = Recording::open(&folder).unwrap();
    assert!(!recording.complete);
    assert_eq!(recording.samples.len(), 30);
    assert_eq!(recording.trials.len(), 1);
    assert!(recording.results.is_none());
    let codes: Vec<WarningCode> = recording.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(
        codes,
        [WarningCode::SamplesUnfinished, WarningCode::ResultsMissing]
    );
}

#[test]
fn a_recording_never_overwrites_another() {
    let parent = tempfile::tempdir().unwrap();
    let manifest = manifest("one", plan(&[FillClass::Random], 1));
    let _first = Writer::create(parent.path(), manifest.clone()).unwrap();
    let second = Writer::create(parent.path(), manifest);
    assert!(matches!(second, Err(RecordingError::Exists { .. })), "{second:?}");
}

#[test]
fn a_name_that_leaves_the_parent_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    for name in ["", ".", "..", "../up", "a/b", "/abs"] {
        let made = Writer::create(parent.path(), manifest(name, plan(&[FillClass::Random], 1)));
        assert!(
            matches!(made, Err(RecordingError::Name { .. })),
            "{name}: {made:?}"
        );
    }
}

#[test]
fn a_value_that_json_cannot_hold_is_refused_by_name() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 1);
    let mut writer = Writer::create(parent.path(), manifest("nan", plan.clone())).unwrap();
    let mut bad = trial(&plan, 0, TrialStatus::Ok);
    bad.metrics.insert("a_ratio".into(), f64::INFINITY);
    let error = writer.trial(&bad).unwrap_err().to_string();
    assert!(error.contains("metrics.a_ratio"), "{error}");
    bad.metrics.clear();
    bad.phases[0].gb_per_s = f64::NAN;
    let error = writer.trial(&bad).unwrap_err().to_string();
    assert!(error.contains("phases.0.gb_per_s"), "{error}");
}

#[test]
fn a_trial_that_ran_again_replaces_its_former_self() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 2);
    let mut writer = Writer::create(parent.path(), manifest("again", plan.clone())).unwrap();
    for (index, status) in [
        (0, TrialStatus::Failed),
        (1, TrialStatus::Ok),
        (0, TrialStatus::Ok),
    ] {
        writer.trial(&trial(&plan, index, status)).unwrap();
    }
    let trials = Recording::open(writer.folder()).unwrap().trials;
    let kept: Vec<(u32, TrialStatus)> = trials.iter().map(|trial| (trial.repeat, trial.status)).collect();
    assert_eq!(kept, [(2, TrialStatus::Ok), (1, TrialStatus::Ok)]);
}

#[test]
fn the_stream_of_a_killed_run_is_plain_arrow() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(parent.path(), manifest("arrow", plan(&[FillClass::Random], 1))).unwrap();
    let rows = rows(12);
    writer.samples(&rows[..7]).unwrap();
    writer.samples(&rows[7..]).unwrap();
    let expected = csv_of(writer.folder());
    let said = read_by_others(writer.folder(), &expected);
    assert!(said.is_empty() || said.contains("in 2 batches"), "{said}");
}

/// Any trial that can be recorded: any text, any finite value.
fn any_trial() -> impl Strategy<Value = Trial> {
    let value = || proptest::num::f64::NORMAL | proptest::num::f64::ZERO | proptest::num::f64::SUBNORMAL;
    let phase = (
        any::<String>(),
        any::<[u64; 5]>(),
        [value(), value(), value()],
        any::<i64>(),
    )
        .prop_map(|(name, counts, values, bytes)| Phase {
            before: Levels::from_iter([(name.as_str(), bytes)]),
            name,
            span_ns: (counts[0], counts[1]),
            seconds: values[0],
            bytes: counts[2],
            gb_per_s: values[1],
            cpu_user_s: values[2],
            minor_faults: counts[3],
            major_faults: counts[4],
            values: BTreeMap::from([("value_s".to_owned(), values[0])]),
            latency: (counts[3] % 2 == 0).then(|| counts[4].to_string()),
            profile: vec![("function".to_owned(), values[1])],
            ..Phase::default()
        });
    (
        any::<[String; 4]>(),
        proptest::collection::vec(phase, 0..4),
        proptest::collection::btree_map(any::<String>(), value(), 0..4),
        any::<(u32, bool, u64, u64)>(),
    )
        .prop_map(
            |([id, subject, name, text], phases, metrics, (repeat, verified, start, end))| Trial {
                id,
                workload: "thrash".to_owned(),
                lists: BTreeMap::from([("each".to_owned(), metrics.values().copied().collect())]),
                subject,
                params: BTreeMap::from([(name, text.clone())]),
                repeat,
                status: TrialStatus::Failed,
                reasons: vec![text.clone()],
                failures: vec![TrialFailure {
                    code: FailureCode::ALL[repeat as usize % FailureCode::ALL.len()],
                    message: text,
                    exit_code: (!verified).then_some(3),
                    signal: verified.then_some(9),
                }],
                untrustworthy: BTreeMap::new(),
                other_programs: Vec::new(),
                verified,
                span_ns: (start, end),
                phases,
                metrics,
            },
        )
}

/// Rows with any values, times that never decrease, any column absent.
fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        0..2_000_000_000_u64,
        proptest::collection::vec(proptest::option::of(any::<i64>()), COLUMNS.len()),
    );
    proptest::collection::vec(row, 0..20).prop_map(|rows| {
        let mut t_ns = 0;
        rows.into_iter()
            .map(|(step, values)| {
                t_ns += step;
                let mut row = Row::empty(t_ns);
                for (index, value) in values.into_iter().enumerate() {
                    if let Some(value) = value {
                        row.set(index, value);
                    }
                }
                row
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_words_and_values_survive_json_lines(trials in proptest::collection::vec(any_trial(), 0..5), text: String) {
        let parent = tempfile::tempdir().unwrap();
        let plan = plan(&[FillClass::Random], 1);
        let mut writer = Writer::create(parent.path(), manifest("json", plan)).unwrap();
        let mut event = event(u64::MAX, EventKind::Mark, &text);
        event.phase = Some(text);
        writer.event(&event).unwrap();
        let mut expected: Vec<Trial> = Vec::new();
        for trial in trials {
            writer.trial(&trial).unwrap();
            expected.retain(|earlier| earlier.id != trial.id);
            expected.push(trial);
        }
        let results = results("json", expected.clone());
        let folder = writer.finish(&results).unwrap();
        let recording = Recording::open(&folder).unwrap();
        prop_assert_eq!(recording.trials, expected);
        prop_assert_eq!(Recording::read_results(&folder).unwrap(), Some(results));
        prop_assert_eq!(recording.events, vec![event]);
    }

    #[test]
    fn any_rows_in_any_batches_survive_stream_and_parquet(rows in any_rows(), batch in 1..7_usize) {
        let parent = tempfile::tempdir().unwrap();
        let plan = plan(&[FillClass::Random], 1);
        let mut writer = Writer::create(parent.path(), manifest("any", plan)).unwrap();
        for batch in rows.chunks(batch) {
            writer.samples(batch).unwrap();
        }
        let expected = Samples::from_rows(&rows);
        let live = Recording::open(writer.folder()).unwrap();
        prop_assert_eq!(&live.samples, &expected);
        for (index, row) in rows.iter().enumerate() {
            prop_assert_eq!(&live.samples.row(index), row);
        }
        let folder = writer.finish(&results("any", Vec::new())).unwrap();
        prop_assert_eq!(&Recording::open(&folder).unwrap().samples, &expected);
    }
}
