//! Resumption of an interrupted run.

use plimsoll_model::columns::Row;
use plimsoll_model::recording::model::{EventKind, TrialStatus, file};
use plimsoll_model::recording::{Now, PlanDifference, Recording, RecordingError, WarningCode, Writer};
use plimsoll_model::scenario::{FillClass, Workload};

use plimsoll_testkit::recordings::{event, manifest, plan, results, rows, trial};

fn now(monotonic_ns: u64) -> Now {
    Now {
        utc: "2026-01-03T00:00:00Z".into(),
        monotonic_ns,
    }
}

#[test]
fn a_killed_run_goes_on_where_it_was_cut() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 3);
    let mut writer = Writer::create(parent.path(), manifest("on", plan.clone())).unwrap();
    let first = rows(20);
    writer.samples(&first).unwrap();
    writer.event(&event(0, EventKind::RunStart, "")).unwrap();
    writer.trial(&trial(&plan, 0, TrialStatus::Ok)).unwrap();
    writer.trial(&trial(&plan, 1, TrialStatus::Failed)).unwrap();
    let folder = writer.folder().to_owned();
    drop(writer);
    // A kill in the middle of a write leaves part of a record in each file.
    for name in [file::SAMPLES_LIVE, file::EVENTS, file::TRIALS] {
        let path = folder.join(name);
        let mut content = std::fs::read(&path).unwrap();
        content.extend_from_slice(&content.clone()[..17]);
        std::fs::write(&path, content).unwrap();
    }

    // After a reboot the clock is younger than the recording.
    let resumed = Writer::resume(&folder, &plan, &now(500)).unwrap();
    let done: Vec<&str> = resumed.done.iter().map(|trial| trial.id.as_str()).collect();
    assert_eq!(done, [plan.trials[0].id.as_str()], "failed trials run again");
    let codes: Vec<WarningCode> = resumed.warnings.iter().map(|warning| warning.code).collect();
    let expected = [
        WarningCode::SamplesTorn,
        WarningCode::EventTorn,
        WarningCode::TrialTorn,
        WarningCode::ResultsMissing,
    ];
    assert_eq!(codes, expected);
    let mut writer = resumed.writer;
    let part = writer.manifest().resumed.last().unwrap().clone();
    let origin = writer.origin_ns();
    assert_eq!(500_u64.wrapping_sub(origin), part.t_ns);
    assert!(part.t_ns > first.last().unwrap().t_ns);

    let second: Vec<Row> = rows(5)
        .iter()
        .map(|row| {
            let mut later = Row::empty(row.t_ns + part.t_ns);
            (0..plimsoll_model::columns::COLUMNS.len()).for_each(|column| {
                if let Some(value) = row.get(column) {
                    later.set(column, value);
                }
            });
            later
        })
        .collect();
    writer.samples(&second).unwrap();
    writer.trial(&trial(&plan, 1, TrialStatus::Ok)).unwrap();
    writer.trial(&trial(&plan, 2, TrialStatus::Ok)).unwrap();
    writer
        .event(&event(part.t_ns + 1, EventKind::RunEnd, ""))
        .unwrap();
    let folder = writer.finish(&results("on", Vec::new())).unwrap();

    let recording = Recording::open(&folder).unwrap();
    assert!(recording.complete, "{:?}", recording.warnings);
    let read: Vec<Row> = (0..recording.samples.len())
        .map(|index| recording.samples.row(index))
        .collect();
    assert_eq!(read, [first, second].concat());
    assert_eq!(recording.trials.len(), 3);
    assert!(
        recording
            .trials
            .iter()
            .all(|trial| trial.status == TrialStatus::Ok)
    );
    assert_eq!(recording.events.len(), 2);
}

#[test]
fn a_run_that_was_interrupted_and_finished_its_files_goes_on_too() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 2);
    let mut writer = Writer::create(parent.path(), manifest("int", plan.clone())).unwrap();
    writer.samples(&rows(12)).unwrap();
    writer.trial(&trial(&plan, 0, TrialStatus::Ok)).unwrap();
    let folder = writer.finish(&results("int", Vec::new())).unwrap();

    let resumed = Writer::resume(&folder, &plan, &now(9_000_000_000)).unwrap();
    assert!(!folder.join(file::RESULTS).exists());
    assert!(!folder.join(file::SAMPLES).exists());
    assert_eq!(resumed.done.len(), 1);
    drop(resumed);
    let recording = Recording::open(&folder).unwrap();
    assert_eq!(
        recording.samples.len(),
        12,
        "the samples of the first part are kept"
    );
}

#[test]
fn a_run_whose_last_manifest_could_not_be_written_goes_on_and_loses_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 2);
    let mut writer = Writer::create(parent.path(), manifest("last", plan.clone())).unwrap();
    writer.samples(&rows(12)).unwrap();
    let folder = writer.folder().to_owned();
    let keep = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let (manifest, stream) = (keep(file::MANIFEST), keep(file::SAMPLES_LIVE));
    writer.finish(&results("last", Vec::new())).unwrap();
    // As the disk was full just before: the Parquet file is there, no checksum, and the stream.
    std::fs::write(folder.join(file::MANIFEST), manifest).unwrap();
    std::fs::write(folder.join(file::SAMPLES_LIVE), stream).unwrap();

    let mut writer = Writer::resume(&folder, &plan, &now(9_000_000_000))
        .unwrap()
        .writer;
    let later = Row::empty(writer.manifest().resumed[0].t_ns);
    writer.samples(&[later]).unwrap();
    drop(writer);
    let recording = Recording::open(&folder).unwrap();
    let length = recording.samples.len();
    assert_eq!(length, 13, "the old finished file hides what came after it");
    assert_eq!(recording.samples.row(12), later);
}

#[test]
fn another_plan_is_refused_with_what_differs() {
    let parent = tempfile::tempdir().unwrap();
    let recorded = plan(&[FillClass::Random], 2);
    let writer = Writer::create(parent.path(), manifest("other", recorded.clone())).unwrap();
    let folder = writer.folder().to_owned();
    drop(writer);

    let mut asked = recorded.clone();
    asked.seed = 8;
    match &mut asked.trials[1].settings.workload {
        Workload::Compression(compression) => compression.filling.size = 1 << 20,
        other => panic!("{other:?}"),
    }
    asked
        .trials
        .push(plan(&[FillClass::Constant], 1).trials.remove(0));
    let error = Writer::resume(&folder, &asked, &now(0)).unwrap_err();
    let RecordingError::OtherPlan { differences, .. } = error else {
        panic!("{error}")
    };
    let expected = [
        PlanDifference::Seed { was: 7, now: 8 },
        PlanDifference::Setting {
            trial: "zram/zram:lz4/random#2".to_owned(),
            key: "size".to_owned(),
            was: (64 << 20).into(),
            now: (1 << 20).into(),
        },
        PlanDifference::TrialAdded("zram/zram:lz4/constant#1".to_owned()),
    ];
    assert_eq!(differences, expected);

    // A new description changes no trial.
    let mut asked = recorded;
    asked.description = "Better words.".into();
    Writer::resume(&folder, &asked, &now(0)).unwrap();
}

#[test]
fn a_recording_has_one_writer_at_a_time() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 2);
    let writer = Writer::create(parent.path(), manifest("busy", plan.clone())).unwrap();
    let folder = writer.folder().to_owned();
    let error = Writer::resume(&folder, &plan, &now(0)).unwrap_err();
    assert!(matches!(error, RecordingError::InUse { .. }), "{error}");
    drop(writer);
    Writer::resume(&folder, &plan, &now(0)).unwrap();
}

#[test]
fn a_folder_without_a_recording_cannot_be_resumed() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 1);
    for folder in [parent.path().join("missing"), parent.path().to_owned()] {
        let error = Writer::resume(&folder, &plan, &now(0)).unwrap_err();
        assert!(matches!(error, RecordingError::NotARecording { .. }), "{error}");
    }
}
