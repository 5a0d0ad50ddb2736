//! Opening the files of a recording, which may come from anywhere.

use std::fs::File;
use std::path::Path;

use super::RecordingError;
use super::folder::RecordingFile;
use super::model::file;
use crate::regular_file::{self, Links, Refusal};

const MIB: u64 = 1 << 20;

/// Most bytes of a file of a recording. A plan has at most 10,000 trials, of about 2 KiB in the manifest and 30 KiB in
/// the results; a day of samples at 100 Hz has about 6 GiB.
pub(super) fn max_bytes(path: &Path) -> u64 {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(file::SAMPLES | file::SAMPLES_LIVE) => 64 * 1024 * MIB,
        Some(file::EVENTS | file::TRIALS | file::RESULTS) => 4 * 1024 * MIB,
        _ => 256 * MIB,
    }
}

/// Opens a file of a recording for reading: a regular file, of at most [`max_bytes`].
pub(super) fn open(file: &RecordingFile) -> Result<File, RecordingError> {
    let path = file.path();
    let max = max_bytes(path);
    let path_of = || path.to_owned();
    regular_file::open_at(file.place(), Links::Refused, max).map_err(|refusal| match refusal {
        Refusal::System(source) => RecordingError::io("read", path, source),
        Refusal::Kind(kind) => RecordingError::NotAFile {
            path: path_of(),
            kind,
        },
        Refusal::Size(bytes) => RecordingError::TooLarge {
            path: path_of(),
            bytes,
            max,
        },
    })
}

/// As [`open`]; none if there is no such file.
pub(super) fn open_if_there(file: &RecordingFile) -> Result<Option<File>, RecordingError> {
    match open(file) {
        Err(RecordingError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}
