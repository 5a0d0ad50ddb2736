//! Copies the samples of a recording as one Parquet file.

use std::io::{Read, Seek, Write};
use std::path::Path;

use super::model::file;
use super::open::open;
use super::parquet::{self, CopyError};
use super::reader::read_manifest;
use super::{RecordingError, RecordingFolder, stream};

/// Writes the samples of the recording in `folder` as Parquet: a finished recording's file as it is, after comparing it
/// with its checksum; otherwise the stream so far, with the same schema. Memory use is one
/// group of rows.
///
/// # Errors
/// Those of [`super::Recording::open`], and those of `output`.
pub fn copy_parquet(folder: &Path, output: &mut impl Write) -> Result<(), CopyError> {
    let folder = RecordingFolder::open(folder)?;
    let manifest = read_manifest(&folder)?;
    let finished = folder.file(file::SAMPLES);
    if finished.exists() {
        let read = |source| RecordingError::io("read", finished.path(), source);
        // One descriptor for both: a file that another process replaces meanwhile is not copied unverified.
        let mut file = open(&finished)?;
        if let Some(expected) = manifest.checksums.get(file::SAMPLES) {
            parquet::verify(
                finished.path(),
                &parquet::hash(&mut file).map_err(read)?,
                expected,
            )?;
            file.rewind().map_err(read)?;
        }
        let mut buffer = vec![0; 1 << 18];
        loop {
            match file.read(&mut buffer).map_err(read)? {
                0 => return Ok(()),
                count => output.write_all(&buffer[..count])?,
            }
        }
    }
    let live = folder.file(file::SAMPLES_LIVE);
    let mut batches = match live.exists() {
        true => stream::Reader::open(&live)?,
        false => None,
    };
    parquet::encode(batches.as_mut(), output)
}
