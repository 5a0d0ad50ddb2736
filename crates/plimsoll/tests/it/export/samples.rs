//! Parquet, CSV and JSON, read back by other means than those that wrote them.

use std::fs;
use std::io::{Seek, Write};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::recording::model::{RECORDING_SCHEMA, file};
use plimsoll_model::recording::{Recording, RecordingError};
use plimsoll_report::analysis;
use plimsoll_report::export;
use serde_json::Value;

use super::recorded;
use crate::recording::rows;

fn parquet_of(folder: &std::path::Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    export::parquet(folder, &mut bytes).unwrap();
    bytes
}

fn in_a_file(bytes: &[u8]) -> fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

/// The rows of a Parquet file, read by the format's own library, and the schema's metadata.
fn read_parquet(bytes: &[u8]) -> (Vec<Row>, std::collections::HashMap<String, String>) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(in_a_file(bytes)).unwrap();
    let metadata = builder.schema().metadata().clone();
    assert!(
        builder.schema().field(1).metadata().contains_key("unit"),
        "columns are described"
    );
    let batches: Vec<RecordBatch> = builder.build().unwrap().map(Result::unwrap).collect();
    let mut rows = Vec::new();
    for batch in batches {
        let times = batch.column_by_name("t_ns").unwrap().as_primitive::<UInt64Type>();
        for index in 0..batch.num_rows() {
            let mut row = Row::empty(times.value(index));
            for (at, column) in COLUMNS.iter().enumerate() {
                let values = batch
                    .column_by_name(column.name)
                    .unwrap()
                    .as_primitive::<Int64Type>();
                if values.is_valid(index) {
                    row.set(at, values.value(index));
                }
            }
            rows.push(row);
        }
    }
    (rows, metadata.into())
}

#[test]
fn parquet_of_a_finished_recording_is_its_file_and_of_another_the_same_samples() {
    let parent = tempfile::tempdir().unwrap();
    let finished = recorded(parent.path(), true);
    let bytes = parquet_of(&finished);
    assert_eq!(bytes, fs::read(finished.join(file::SAMPLES)).unwrap());
    let (whole, described) = read_parquet(&bytes);
    assert!(whole == rows(25));
    assert_eq!(described["plimsoll.schema"], RECORDING_SCHEMA.to_string());
    let parent = tempfile::tempdir().unwrap();
    let (made, also) = read_parquet(&parquet_of(&recorded(parent.path(), false)));
    assert!(made == whole);
    assert_eq!(also, described);
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
    assert!(error.to_string().contains("checksum"), "{error}");
    assert!(bytes.is_empty());
}

#[test]
fn a_recording_without_samples_is_exported_with_none() {
    let parent = tempfile::tempdir().unwrap();
    let folder = recorded(parent.path(), false);
    fs::remove_file(folder.join(file::SAMPLES_LIVE)).unwrap();
    assert!(read_parquet(&parquet_of(&folder)).0.is_empty());
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
    let results = analysis::results(&recording);
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
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recording-1");
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
