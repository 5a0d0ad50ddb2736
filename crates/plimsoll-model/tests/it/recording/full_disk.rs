//! A full disk under the recording, on a real file system of 2 MiB.

use std::path::Path;

use plimsoll_model::recording::model::file;
use plimsoll_model::recording::{Recording, RecordingError, WarningCode, Writer};
use plimsoll_model::scenario::FillClass;

use plimsoll_testkit::recordings::{manifest, plan, results, rows};

/// A tmpfs of its own, gone at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = plimsoll_testkit::command("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "plimsoll-test"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(SmallDisk(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = plimsoll_testkit::command("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_an_error_and_keeps_the_recording() {
    let Some(disk) = SmallDisk::mount("2m") else {
        plimsoll_testkit::capability("mount", false, "cannot mount a tmpfs");
        return;
    };
    let mut writer = Writer::create(disk.path(), manifest("full", plan(&[FillClass::Random], 1))).unwrap();
    let folder = writer.folder().to_owned();
    let batch = rows(50);
    let mut whole = 0;
    let error = loop {
        match writer.samples(&batch) {
            Ok(()) => whole += batch.len(),
            Err(error) => break error,
        }
        assert!(whole < 1_000_000, "2 MiB never fill up");
    };
    assert!(error.is_full(), "{error}");
    let RecordingError::Full {
        path,
        folder: recorded,
        free,
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!((path, recorded), (&folder.join(file::SAMPLES_LIVE), &folder));
    assert!(free.is_some_and(|bytes| bytes < 2 << 20), "{free:?}");
    // The remedy.
    assert!(error.to_string().contains("--resume"), "{error}");
    // The batch that did not fit left nothing behind, so the stream goes on once there is room.
    let recording = Recording::open(&folder).unwrap();
    assert_eq!(recording.samples.len(), whole);
    assert!(whole > 0);
    assert!(
        recording
            .warnings
            .iter()
            .all(|warning| warning.code != WarningCode::SamplesTorn),
        "{:?}",
        recording.warnings
    );

    // Finishing needs room for the Parquet file; without it everything still opens.
    std::fs::write(disk.path().join("filler"), vec![0; 1 << 20]).unwrap_err();
    let finished = writer.finish(&results("full", Vec::new()));
    assert!(
        matches!(finished, Err(RecordingError::Full { .. })),
        "{finished:?}"
    );
    assert_eq!(Recording::open(&folder).unwrap().samples.len(), whole);
    let left: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_disk_that_is_full_from_the_start_makes_no_recording() {
    let Some(disk) = SmallDisk::mount("16k") else {
        plimsoll_testkit::capability("mount", false, "cannot mount a tmpfs");
        return;
    };
    let made = Writer::create(disk.path(), manifest("none", plan(&[FillClass::Random], 40)));
    assert!(
        matches!(made, Err(RecordingError::Full { .. })),
        "{:?}",
        made.map(|_| ())
    );
}
