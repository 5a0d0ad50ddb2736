//! Parquet, CSV and JSON, read back by other means than those that wrote them.

use std::fs;
use std::path::Path;

use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::recording::model::file;
use plimsoll_model::recording::{Recording, RecordingError, Writer};
use plimsoll_model::scenario::FillClass;
use plimsoll_report::export::{self, ExportError};
use serde_json::Value;

use plimsoll_testkit::other_readers::read_by_others;
use plimsoll_testkit::recordings::recorded;
use plimsoll_testkit::recordings::{manifest, plan, results, rows, stored};

fn parquet_of(folder: &std::path::Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    export::parquet(folder, &mut bytes).unwrap();
    bytes
}

/// A copy of the recording in `folder` whose samples are those of `parquet`.
fn with_samples(folder: &Path, parquet: &[u8]) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in [file::MANIFEST, file::EVENTS, file::TRIALS] {
        fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    fs::write(copy.path().join(file::SAMPLES), parquet).unwrap();
    copy
}

/// The rows of a Parquet file.
fn read_parquet(folder: &Path, parquet: &[u8]) -> Vec<Row> {
    let samples = Recording::open(with_samples(folder, parquet).path())
        .unwrap()
        .samples;
    (0..samples.len()).map(|index| samples.row(index)).collect()
}

#[test]
fn parquet_of_a_finished_recording_is_its_file_and_of_another_the_same_samples() {
    let parent = tempfile::tempdir().unwrap();
    let finished = recorded(parent.path(), true);
    let bytes = parquet_of(&finished);
    assert_eq!(bytes, fs::read(finished.join(file::SAMPLES)).unwrap());
    assert!(read_parquet(&finished, &bytes) == rows(25));
    let csv = csv_of(&finished);
    read_by_others(&finished, &csv);
    let parent = tempfile::tempdir().unwrap();
    let killed = recorded(parent.path(), false);
    let made = parquet_of(&killed);
    assert!(read_parquet(&killed, &made) == rows(25));
    read_by_others(with_samples(&killed, &made).path(), &csv);
}

/// Several groups of rows, the least and the largest values, counters that jump, columns that are never there.
#[test]
fn other_programs_read_the_same_values_of_a_long_recording() {
    let parent = tempfile::tempdir().unwrap();
    let plan = plan(&[FillClass::Random], 1);
    let mut writer = Writer::create(parent.path(), manifest("long", plan)).unwrap();
    let rows: Vec<Row> = (0..20_000_usize)
        .map(|index| {
            let mut row = Row::empty(index as u64 * 10_000_000);
            let mixed = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for (column, bits) in [0, 1, 7, 8, 31, 32, 33, 63, 64].into_iter().enumerate() {
                let value = mixed.checked_shr(64 - bits).unwrap_or(0) as i64;
                row.set(column, value);
                if index % 3 == 0 {
                    row.set(column + 20, index as i64 * 4096 - value);
                }
            }
            row.set(40, [i64::MIN, i64::MAX, 0][index % 3]);
            row
        })
        .collect();
    for batch in rows.chunks(999) {
        writer.samples(batch).unwrap();
    }
    let live = csv_of(writer.folder());
    let folder = writer.finish(&results("long", Vec::new())).unwrap();
    let samples = Recording::open(&folder).unwrap().samples;
    assert_eq!(samples.len(), rows.len());
    for (index, row) in rows.iter().enumerate() {
        assert!(samples.row(index) == *row, "row {index}");
    }
    let csv = csv_of(&folder);
    assert!(csv == live);
    read_by_others(&folder, &csv);
}

#[test]
fn a_damaged_parquet_file_is_not_passed_on() {
    let parent = tempfile::tempdir().unwrap();
    let folder = recorded(parent.path(), true);
    let path = folder.join(file::SAMPLES);
    let mut content = fs::read(&path).unwrap();
    content[1000] ^= 1;
    fs::write(&path, content).unwrap();
    let mut bytes = Vec::new();
    let error = export::parquet(&folder, &mut bytes).unwrap_err();
    assert!(
        matches!(&error, ExportError::Read(RecordingError::CorruptSamples { path: damaged, .. }) if *damaged == path),
        "{error}"
    );
    assert!(bytes.is_empty());
}

#[test]
fn a_recording_without_samples_is_exported_with_none() {
    let parent = tempfile::tempdir().unwrap();
    let folder = recorded(parent.path(), false);
    fs::remove_file(folder.join(file::SAMPLES_LIVE)).unwrap();
    assert!(read_parquet(&folder, &parquet_of(&folder)).is_empty());
    let mut text = Vec::new();
    export::csv(&Recording::open(&folder).unwrap(), &mut text).unwrap();
    assert_eq!(text.iter().filter(|&&byte| byte == b'\n').count(), 1);
}

#[test]
fn csv_holds_every_sample_and_nothing_where_the_system_did_not_say() {
    let parent = tempfile::tempdir().unwrap();
    for finished in [true, false] {
        let parent = parent.path().join(finished.to_string());
        let recording = Recording::open(&recorded(&parent, finished)).unwrap();
        let mut text = Vec::new();
        export::csv(&recording, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        assert_eq!(header[0], "t_ns");
        let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(header[1..], names);
        let read: Vec<Row> = lines
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                assert_eq!(fields.len(), header.len());
                let mut row = Row::empty(fields[0].parse().unwrap());
                for (at, field) in fields[1..].iter().enumerate() {
                    if !field.is_empty() {
                        row.set(at, field.parse().unwrap());
                    }
                }
                row
            })
            .collect();
        assert!(read == rows(25));
    }
}

#[test]
fn json_holds_everything_once() {
    let parent = tempfile::tempdir().unwrap();
    let recording = Recording::open(&recorded(parent.path(), true)).unwrap();
    let results = plimsoll_report::results(&recording);
    let mut text = Vec::new();
    export::json(&recording, &results, &mut text).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    let same = |key: &str, value: Value| assert_eq!(document[key], value, "{key}");
    same("schema", export::EXPORT_SCHEMA.into());
    same("complete", true.into());
    same("manifest", serde_json::to_value(&recording.manifest).unwrap());
    same("events", serde_json::to_value(&recording.events).unwrap());
    same("trials", serde_json::to_value(&recording.trials).unwrap());
    same("results", serde_json::to_value(&results).unwrap());
    let samples = &document["samples"];
    let columns = samples["columns"].as_object().unwrap();
    assert_eq!(columns.len(), COLUMNS.len());
    assert_eq!(columns["pswpin"]["unit"], "count-pages");
    for (index, expected) in rows(25).iter().enumerate() {
        assert_eq!(samples["t_ns"][index], expected.t_ns);
        for (at, column) in COLUMNS.iter().enumerate() {
            let value = &columns[column.name]["values"][index];
            assert_eq!(value.as_i64(), expected.get(at), "{} {index}", column.name);
            assert!(value.is_i64() || value.is_null());
        }
    }
    // A control character of a note cannot reach a terminal.
    assert!(!text.contains(&0x1b));
}

#[test]
fn the_recordings_of_the_first_version_are_exported() {
    let golden = stored().join("recording-1");
    let mut seen = 0;
    for entry in fs::read_dir(golden).unwrap() {
        let folder = entry.unwrap().path();
        let recording = match Recording::open(&folder) {
            Ok(recording) => recording,
            Err(RecordingError::NotARecording { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        let mut csv = Vec::new();
        export::csv(&recording, &mut csv).unwrap();
        let lines = csv.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(lines, recording.samples.len() + 1);
        let mut parquet = Vec::new();
        export::parquet(&folder, &mut parquet).unwrap();
        assert_eq!(&parquet[..4], b"PAR1");
        seen += 1;
    }
    assert!(seen >= 1);
}

/// The samples of the recording in `folder` as CSV, for comparison with the values that another program reads.
fn csv_of(folder: &Path) -> Vec<u8> {
    let mut csv = Vec::new();
    export::csv(&Recording::open(folder).unwrap(), &mut csv).unwrap();
    csv
}
