//! The samples of a finished run: Parquet, which analysis tools read without our code.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use arrow_array::RecordBatch;
use xxhash_rust::xxh3::Xxh3;

use super::append::{AppendFile, replace_file};
use super::model::{RECORDING_SCHEMA, file};
use super::reader::read_manifest;
use super::schema::{arrow_schema, conform, schema_version, value_columns};
use super::stream::{self, Encoder};
use super::{RecordingError, Samples};

/// Rows of a row group: small enough to be encoded in little memory, large enough to compress well.
const ROW_GROUP: usize = 1 << 16;

/// Writes the samples of the stream `from` as the Parquet file `to` and returns its checksum.
pub(super) fn from_stream(from: &Path, to: &Path) -> Result<String, RecordingError> {
    let mut batches = stream::Reader::open(from)?.ok_or_else(|| RecordingError::CorruptSamples {
        path: from.to_owned(),
        offset: 0,
        reason: "the schema is cut off".to_owned(),
    })?;
    match replace_file(to, |file| encode(Some(&mut batches), file)) {
        Ok(()) => checksum(to),
        Err(CopyError::Read(error)) => Err(error),
        Err(CopyError::Write(source)) => Err(RecordingError::io("write", to, source)),
    }
}

/// Why samples could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] RecordingError),
    /// The copy cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes the samples of the recording in `folder` as Parquet: a finished recording's file as it is, after comparing it
/// with its checksum; otherwise what there is of the stream, with the same schema. Nothing is held in memory but a
/// group of rows.
///
/// # Errors
/// Those of [`super::Recording::open`], and those of `output`.
pub fn copy_parquet(folder: &Path, output: &mut (impl Write + Send)) -> Result<(), CopyError> {
    let manifest = read_manifest(folder)?;
    let finished = folder.join(file::SAMPLES);
    if finished.exists() {
        let read = |source| RecordingError::io("read", &finished, source);
        // One descriptor: what is verified is what is copied, should the file be replaced meanwhile.
        let mut file = File::open(&finished).map_err(read)?;
        if let Some(expected) = manifest.checksums.get(file::SAMPLES) {
            verify(&finished, &hash(&mut file).map_err(read)?, expected)?;
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
    let live = folder.join(file::SAMPLES_LIVE);
    let mut batches = match live.exists() {
        true => stream::Reader::open(&live)?,
        false => None,
    };
    encode(batches.as_mut(), output)
}

fn encode(batches: Option<&mut stream::Reader>, output: impl Write + Send) -> Result<(), CopyError> {
    let mut writer = ArrowWriter::try_new(output, arrow_schema(), Some(properties())).map_err(into_io)?;
    if let Some(batches) = batches {
        while let Some(batch) = batches.next_batch()? {
            writer
                .write(&conform(&batch).map_err(io::Error::other)?)
                .map_err(into_io)?;
        }
    }
    writer.close().map_err(into_io)?;
    Ok(())
}

fn properties() -> WriterProperties {
    let pairs = [
        ("plimsoll.schema", RECORDING_SCHEMA.to_string()),
        ("plimsoll.columns", super::schema::columns_json()),
    ];
    let pairs = pairs.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_key_value_metadata(Some(pairs.into()))
        .build()
}

/// The system's error behind a Parquet error, so that a full disk is known as such.
fn into_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}

/// Reads a Parquet file of samples, after comparing it with its checksum where one is known.
pub(super) fn read(path: &Path, expected: Option<&str>) -> Result<Samples, RecordingError> {
    let mut samples = Samples::default();
    for_each_batch(path, expected, |first, batch| {
        if first {
            samples.declare(value_columns(&batch.schema()));
        }
        samples.append(&batch).map_err(|reason| corrupt(path, reason))
    })?;
    samples.sort();
    Ok(samples)
}

/// Turns a finished file back into a stream, for a run that goes on.
pub(super) fn to_stream(
    from: &Path,
    expected: Option<&str>,
    to: PathBuf,
) -> Result<(Encoder, AppendFile), RecordingError> {
    let schema = arrow_schema();
    let (mut encoder, mut file) = stream::create(to, &schema)?;
    for_each_batch(from, expected, |_, batch| {
        let message = RecordBatch::try_new(schema.clone(), batch.columns().to_vec())
            .and_then(|batch| encoder.encode(&batch))
            .map_err(|error| corrupt(from, error.to_string()))?;
        file.append(&message)
    })?;
    file.sync()?;
    Ok((encoder, file))
}

/// Number of samples in a Parquet file.
pub(super) fn rows(path: &Path) -> Result<usize, RecordingError> {
    let file = File::open(path).map_err(|source| RecordingError::io("read", path, source))?;
    let reader = SerializedFileReader::new(file).map_err(|error| corrupt(path, error.to_string()))?;
    let rows = reader.metadata().file_metadata().num_rows();
    usize::try_from(rows).map_err(|_| corrupt(path, "a negative number of rows".to_owned()))
}

/// Hands over the batches of a file, the first one empty, after comparing it with its checksum where one is known.
pub(super) fn for_each_batch(
    path: &Path,
    expected: Option<&str>,
    mut each: impl FnMut(bool, RecordBatch) -> Result<(), RecordingError>,
) -> Result<(), RecordingError> {
    if let Some(expected) = expected {
        verify(path, &checksum(path)?, expected)?;
    }
    let file = File::open(path).map_err(|source| RecordingError::io("read", path, source))?;
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| corrupt(path, error.to_string()))?;
    if let Some(found) = schema_version(builder.schema())
        && found > RECORDING_SCHEMA
    {
        return Err(RecordingError::NewerSchema {
            path: path.to_owned(),
            found,
            known: RECORDING_SCHEMA,
        });
    }
    let empty = RecordBatch::new_empty(Arc::clone(builder.schema()));
    let batches = builder
        .with_batch_size(1 << 13)
        .build()
        .map_err(|error| corrupt(path, error.to_string()))?;
    // The first, empty, batch tells the columns also of a file without rows.
    each(true, empty)?;
    for batch in batches {
        each(false, batch.map_err(|error| corrupt(path, error.to_string()))?)?;
    }
    Ok(())
}

pub(super) fn corrupt(path: &Path, reason: String) -> RecordingError {
    RecordingError::CorruptSamples {
        path: path.to_owned(),
        offset: 0,
        reason,
    }
}

fn verify(path: &Path, found: &str, expected: &str) -> Result<(), RecordingError> {
    match found == expected {
        true => Ok(()),
        false => Err(corrupt(
            path,
            format!("its checksum is {found}, the manifest says {expected}"),
        )),
    }
}

/// xxh3 of a file, 16 hex digits.
fn checksum(path: &Path) -> Result<String, RecordingError> {
    File::open(path)
        .and_then(|mut file| hash(&mut file))
        .map_err(|source| RecordingError::io("read", path, source))
}

fn hash(file: &mut File) -> io::Result<String> {
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("{:016x}", hash.digest())),
            count => hash.update(&buffer[..count]),
        }
    }
}
