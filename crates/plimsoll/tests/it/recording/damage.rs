//! Cut at any byte, or with any bit turned over, a recording opens or reports the damage. It never panics.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_model::recording::model::{EventKind, RECORDING_SCHEMA, RESULTS_SCHEMA, TrialStatus, file};
use plimsoll_model::recording::{
    Damage, NotARecording, Recording, RecordingError, StreamDamage, WarningCode, Writer,
};
use plimsoll_model::scenario::FillClass;

use super::{event, manifest, plan, results, rows, trial};

/// A small recording; every append is one record.
fn small(parent: &Path, finished: bool) -> PathBuf {
    let plan = plan(&[FillClass::Random], 1);
    let mut writer = Writer::create(parent, manifest("small", plan.clone())).unwrap();
    writer.samples(&rows(3)).unwrap();
    writer.samples(&rows(2)).unwrap();
    writer.event(&event(0, EventKind::RunStart, "go")).unwrap();
    writer.event(&event(5, EventKind::RunEnd, "")).unwrap();
    let trial = trial(&plan, 0, TrialStatus::Ok);
    writer.trial(&trial).unwrap();
    if finished {
        return writer.finish(&results("small", vec![trial])).unwrap();
    }
    writer.folder().to_owned()
}

/// A stream that is small enough to try every bit of, as pyarrow wrote it: batches of three and two samples of `t_ns`,
/// `mem_free` and `from_the_future`.
fn write_tiny_stream(folder: &Path) {
    let tiny = plimsoll_testkit::recordings::stored().join("tiny.arrows");
    fs::copy(tiny, folder.join(file::SAMPLES_LIVE)).unwrap();
}

/// Opens the folder and looks at all of it; an error must name `damaged`.
fn open(folder: &Path, damaged: &str) -> Option<Recording> {
    match Recording::open(folder) {
        Ok(recording) => {
            for index in 0..recording.samples.len() {
                let _ = recording.samples.row(index);
            }
            let _ = plimsoll_report::results(&recording);
            Some(recording)
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.contains(damaged), "{damaged}: {said}");
            None
        }
    }
}

/// Replaces a file. Not by cutting it: some file systems then wait for the disk, thousands of times here.
fn put(path: &Path, content: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, content).unwrap();
}

/// Calls `check` with the folder after each cut of `name`, from nothing to one byte less than all.
fn at_every_cut(folder: &Path, name: &str, step: usize, mut check: impl FnMut(usize, Option<Recording>)) {
    let path = folder.join(name);
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len()).step_by(step) {
        put(&path, &whole[..length]);
        check(length, open(folder, name));
    }
    put(&path, &whole);
}

#[test]
fn a_stream_cut_anywhere_opens_with_its_whole_batches() {
    let parent = tempfile::tempdir().unwrap();
    let folder = small(parent.path(), false);
    // The head of the real one takes many kilobytes: every byte of a small one stands for it.
    for (step, tiny) in [(509, false), (1, true)] {
        if tiny {
            write_tiny_stream(&folder);
        }
        let mut lengths = Vec::new();
        at_every_cut(&folder, file::SAMPLES_LIVE, step, |_, recording| {
            let recording = recording.expect("a cut stream opens");
            assert!(!recording.complete);
            lengths.push(recording.samples.len());
        });
        assert!(lengths.is_sorted());
        lengths.dedup();
        assert_eq!(lengths, [0, 3], "a batch is whole with its last byte");
    }
}

#[test]
fn lines_cut_anywhere_open_without_the_torn_one() {
    let parent = tempfile::tempdir().unwrap();
    let folder = small(parent.path(), false);
    at_every_cut(&folder, file::EVENTS, 1, |length, recording| {
        let recording = recording.expect("cut lines open");
        let whole = fs::read(folder.join(file::EVENTS)).unwrap();
        let ends = whole.iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(recording.events.len(), ends, "{length}");
        let torn = !whole.is_empty() && !whole.ends_with(b"\n");
        let warned = recording
            .warnings
            .iter()
            .any(|warning| warning.code == WarningCode::EventTorn);
        assert_eq!(torn, warned, "{length}: {:?}", recording.warnings);
    });
    at_every_cut(&folder, file::TRIALS, 1, |_, recording| {
        assert!(recording.expect("cut lines open").trials.is_empty());
    });
}

#[test]
fn documents_and_parquet_cut_anywhere_are_named() {
    let parent = tempfile::tempdir().unwrap();
    let folder = small(parent.path(), true);
    for name in [file::MANIFEST, file::RESULTS] {
        let whole_length = fs::metadata(folder.join(name)).unwrap().len() as usize;
        at_every_cut(&folder, name, 1, |length, recording| {
            // Only the newline at the end is no loss.
            let rest = whole_length - length;
            assert_eq!(
                recording.is_some(),
                rest == 1,
                "{name} without its last {rest} bytes"
            );
        });
    }
    at_every_cut(&folder, file::SAMPLES, 997, |length, recording| {
        assert!(recording.is_none(), "{length}");
    });
    // Without the checksum, as from another program, it is the Parquet reader that finds out.
    forget_the_checksum(&folder);
    at_every_cut(&folder, file::SAMPLES, 997, |length, recording| {
        assert!(recording.is_none(), "{length}");
    });
}

/// Turns every `step`-th bit of `name` over, one at a time.
fn at_every_turned_bit(
    folder: &Path,
    name: &str,
    step: usize,
    mut check: impl FnMut(usize, Option<Recording>),
) {
    let path = folder.join(name);
    let whole = fs::read(&path).unwrap();
    for bit in (0..whole.len() * 8).step_by(step) {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        put(&path, &damaged);
        check(bit, open(folder, name));
    }
    put(&path, &whole);
}

#[test]
fn a_turned_bit_never_panics() {
    let parent = tempfile::tempdir().unwrap();
    let folder = small(&parent.path().join("live"), false);
    // Odd steps: all bits of a byte get their turn.
    at_every_turned_bit(&folder, file::SAMPLES_LIVE, 8001, |_, _| {});
    write_tiny_stream(&folder);
    at_every_turned_bit(&folder, file::SAMPLES_LIVE, 1, |_, _| {});
    for name in [file::EVENTS, file::TRIALS, file::MANIFEST] {
        at_every_turned_bit(&folder, name, 9, |_, _| {});
    }
    let folder = small(&parent.path().join("finished"), true);
    at_every_turned_bit(&folder, file::RESULTS, 9, |_, _| {});
    at_every_turned_bit(&folder, file::SAMPLES, 4001, |bit, recording| {
        assert!(recording.is_none(), "damage of bit {bit} went unseen");
    });
}

/// Takes the checksum of the samples out of the manifest, as if another program had written them.
fn forget_the_checksum(folder: &Path) {
    let path = folder.join(file::MANIFEST);
    let text = fs::read_to_string(&path).unwrap();
    let (head, tail) = text.split_once("\"samples.parquet\": \"").unwrap();
    fs::write(&path, format!("{head}\"other\": \"{tail}")).unwrap();
}

/// A turned bit that no checksum tells about is another value or an error, in a file of this version and in one with
/// dictionaries and zstd, of the first.
#[test]
fn a_turned_bit_of_parquet_without_a_checksum_never_panics() {
    let parent = tempfile::tempdir().unwrap();
    let ours = small(&parent.path().join("ours"), true);
    let old = parent.path().join("old");
    let golden = plimsoll_testkit::recordings::stored().join("recording-1/finished");
    fs::create_dir(&old).unwrap();
    for entry in fs::read_dir(golden).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, old.join(from.file_name().unwrap())).unwrap();
    }
    for folder in [ours, old] {
        forget_the_checksum(&folder);
        let path = folder.join(file::SAMPLES);
        let whole = fs::read(&path).unwrap();
        // The pages and, from the end, the metadata; between these are the texts that describe the columns.
        let pages = (0..whole.len() * 8 / 4).step_by(211);
        let metadata = (whole.len() * 8 * 3 / 4..whole.len() * 8).step_by(997);
        for bit in pages.chain(metadata) {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            put(&path, &damaged);
            if let Some(recording) = open(&folder, file::SAMPLES) {
                assert!(recording.samples.len() <= 12);
            }
        }
    }
}

#[test]
fn damage_inside_is_an_error_with_its_place_and_what_to_do() {
    let parent = tempfile::tempdir().unwrap();
    let folder = small(parent.path(), false);
    let path = folder.join(file::EVENTS);
    let lines = fs::read_to_string(&path).unwrap();
    fs::write(&path, lines.replacen("run-start", "run-fast", 1)).unwrap();
    match Recording::open(&folder).unwrap_err() {
        RecordingError::CorruptJson {
            path: damaged,
            line: 1,
            reason,
            ..
        } => {
            assert_eq!(damaged, path);
            assert!(reason.contains("run-fast"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    fs::write(&path, lines).unwrap();

    let path = folder.join(file::SAMPLES_LIVE);
    let mut stream = fs::read(&path).unwrap();
    stream[0] = 0;
    fs::write(&path, stream).unwrap();
    match Recording::open(&folder).unwrap_err() {
        RecordingError::CorruptSamples {
            path: damaged,
            offset: 0,
            reason: Damage::Stream(StreamDamage::NoMessage),
        } => assert_eq!(damaged, path),
        other => panic!("{other:?}"),
    }
    // And so it is: the rest opens without them.
    fs::remove_file(&path).unwrap();
    let recording = Recording::open(&folder).unwrap();
    assert_eq!((recording.events.len(), recording.samples.len()), (2, 0));
}

#[test]
fn a_newer_schema_is_named_and_not_guessed_at() {
    let parent = tempfile::tempdir().unwrap();
    let folder = small(parent.path(), true);
    for name in [file::MANIFEST, file::RESULTS] {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).unwrap();
        // A newer document need not have any other field that is known here.
        fs::write(&path, r#"{"schema": 7, "news": true}"#).unwrap();
        let error = Recording::open(&folder).unwrap_err();
        assert!(
            matches!(
                error,
                RecordingError::NewerSchema {
                    found: 7,
                    known,
                    ..
                } if known == if name == file::MANIFEST { RECORDING_SCHEMA } else { RESULTS_SCHEMA }
            ),
            "{error}"
        );
        let said = error.to_string();
        assert!(said.contains(name), "{said}");
        fs::write(&path, text).unwrap();
    }
}

#[test]
fn a_folder_without_a_recording_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let note = parent.path().join("note.txt");
    fs::write(&note, "hello").unwrap();
    for (path, expected) in [
        (parent.path().join("missing"), NotARecording::Absent),
        (note, NotARecording::NotAFolder),
        (parent.path().to_owned(), NotARecording::NoManifest),
    ] {
        let error = Recording::open(&path).unwrap_err();
        assert!(
            matches!(&error, RecordingError::NotARecording { path: named, reason } if *named == path && *reason == expected),
            "{error}"
        );
    }
}

#[test]
fn columns_of_another_version_do_no_harm() {
    let parent = tempfile::tempdir().unwrap();
    let folder = small(parent.path(), false);
    write_tiny_stream(&folder);
    let samples = Recording::open(&folder).unwrap().samples;
    assert_eq!(samples.t_ns(), [10, 15, 20, 30, 40], "in the order of time");
    let column = |name: &str| {
        samples
            .column(name)
            .map(|column| column.iter().collect::<Vec<_>>())
    };
    assert_eq!(
        column("from_the_future"),
        Some(vec![None, None, Some(1), None, Some(2)])
    );
    assert_eq!(
        column("mem_free"),
        Some(vec![Some(4), None, Some(3), Some(5), Some(6)])
    );
    assert_eq!(column("mem_total"), None);
    let row = samples.row(0);
    use plimsoll_model::columns::col;
    assert_eq!((row.get(col::MEM_FREE), row.get(col::MEM_TOTAL)), (Some(4), None));

    let plan = plan(&[FillClass::Random], 1);
    let now = plimsoll_model::recording::Now {
        utc: String::new(),
        monotonic_ns: 0,
    };
    let error = Writer::resume(&folder, &plan, &now).unwrap_err();
    assert!(matches!(error, RecordingError::OtherVersion { .. }), "{error}");
}
