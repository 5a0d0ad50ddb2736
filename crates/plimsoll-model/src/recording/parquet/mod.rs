//! The samples of a finished run: Parquet, which analysis tools read without our code.
//!
//! Written and read here because the `parquet` crate took a tenth of the time of a build, and its reader of the files
//! of earlier versions needs a C compiler. A file of samples is flat and has 64-bit integers alone, which
//! keeps it short.

mod decode;
mod encode;
mod packed;
pub mod table;
mod thrift;
mod verified;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use xxhash_rust::xxh3::Xxh3;

use self::decode::FileReader;
use self::encode::FileWriter;
pub(super) use self::verified::{copy_verified, rows_of_file};
use super::append::AppendFile;
use super::batch::{Batch, Schema};
use super::damage::{Damage, ParquetDamage, StreamDamage};
use super::folder::RecordingFile;
use super::model::RECORDING_SCHEMA;
use super::open::open;
use super::schema::{VERSION_KEY, sample_schema};
use super::{RecordingError, Samples, arrow, stream};

/// Rows of one batch.
const BATCH: usize = 1 << 13;

mod encoding {
    pub(super) const PLAIN: i32 = 0;
    /// Runs and bit-packed groups, of the masks.
    pub(super) const RLE: i32 = 3;
    /// `DELTA_BINARY_PACKED`.
    pub(super) const DIFFERENCES: i32 = 5;
    /// `PLAIN_DICTIONARY` and `RLE_DICTIONARY`, which earlier versions wrote.
    pub(super) const DICTIONARY_OF_OLD: i32 = 2;
    pub(super) const DICTIONARY: i32 = 8;
}

mod codec {
    pub(super) const NONE: i32 = 0;
    /// Which earlier versions wrote.
    pub(super) const ZSTD: i32 = 6;
}

mod page_type {
    pub(super) const DATA: i32 = 0;
    pub(super) const DICTIONARY: i32 = 2;
}

/// Writes the samples of the stream `from` as the Parquet file `to` and returns its checksum.
pub(super) fn from_stream(from: &RecordingFile, to: &RecordingFile) -> Result<String, RecordingError> {
    let mut batches = stream::Reader::open(from)?.ok_or_else(|| RecordingError::CorruptSamples {
        path: from.path().to_owned(),
        offset: 0,
        reason: StreamDamage::SchemaCutOff.into(),
    })?;
    match to.replace(|file| encode(Some(&mut batches), file)) {
        Ok(()) => checksum(to),
        Err(CopyError::Read(error)) => Err(error),
        Err(CopyError::Write(source)) => Err(RecordingError::io("write", to.path(), source)),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Read(#[from] RecordingError),
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes `batches`, or a file without samples, with the schema of this version.
pub(super) fn encode(batches: Option<&mut stream::Reader>, output: impl Write) -> Result<(), CopyError> {
    let schema = Arc::new(sample_schema());
    let pairs = own_pairs(&schema);
    let mut writer = FileWriter::new(output, schema)?;
    if let Some(batches) = batches {
        while let Some(batch) = batches.next_batch()? {
            writer.write(&batch)?;
        }
    }
    writer.close(&pairs)?;
    Ok(())
}

/// The keys and values in the metadata of a file of this version.
fn own_pairs(schema: &Schema) -> [(&'static str, String); 3] {
    // The schema once more, in Arrow's terms: with it pyarrow and Polars show the description of each column.
    let described = STANDARD.encode(arrow::schema_message(schema));
    [
        (VERSION_KEY, RECORDING_SCHEMA.to_string()),
        ("plimsoll.columns", super::schema::columns_json()),
        ("ARROW:schema", described),
    ]
}

/// Reads a Parquet file of samples, after comparing it with its checksum where one is known.
pub(super) fn read(file: &RecordingFile, expected: Option<&str>) -> Result<Samples, RecordingError> {
    let mut samples = Samples::default();
    for_each_batch(file, expected, |first, batch| {
        if first {
            samples.declare(batch.schema.value_names());
        }
        samples.append(&batch);
        Ok(())
    })?;
    samples.sort();
    Ok(samples)
}

/// Converts a finished file into a stream of `schema`, for a resumed run; `None` if it has other columns.
pub(super) fn to_stream(
    from: &RecordingFile,
    expected: Option<&str>,
    to: RecordingFile,
    schema: &Arc<Schema>,
) -> Result<Option<AppendFile>, RecordingError> {
    if !FileReader::open(from)?.schema().same_columns(schema) {
        return Ok(None);
    }
    let mut file = stream::create(to, schema)?;
    for_each_batch(from, expected, |_, batch| match batch.rows() {
        0 => Ok(()),
        _ => file.append(&arrow::batch_message(&batch)),
    })?;
    file.sync()?;
    Ok(Some(file))
}

/// Number of samples in a Parquet file.
pub(super) fn rows(file: &RecordingFile) -> Result<usize, RecordingError> {
    Ok(FileReader::open(file)?.rows)
}

/// Hands over the batches of a file, the first one empty, after comparing it with its checksum where one is known.
pub(super) fn for_each_batch(
    file: &RecordingFile,
    expected: Option<&str>,
    mut each: impl FnMut(bool, Batch) -> Result<(), RecordingError>,
) -> Result<(), RecordingError> {
    if let Some(expected) = expected {
        verify(file.path(), &checksum(file)?, expected)?;
    }
    let mut reader = FileReader::open(file)?;
    // The first, empty, batch tells the columns also of a file without rows.
    each(true, Batch::empty(Arc::clone(reader.schema())))?;
    let mut rows = 0;
    while let Some(group) = reader.next_group()? {
        rows += group.rows();
        for from in (0..group.rows()).step_by(BATCH) {
            each(false, group.slice(from..group.rows().min(from + BATCH)))?;
        }
    }
    match rows == reader.rows {
        true => Ok(()),
        false => Err(corrupt(
            file.path(),
            ParquetDamage::OtherRows {
                found: rows,
                stated: reader.rows,
            },
        )),
    }
}

pub(super) fn corrupt(path: &Path, damage: impl Into<Damage>) -> RecordingError {
    RecordingError::CorruptSamples {
        path: path.to_owned(),
        offset: 0,
        reason: damage.into(),
    }
}

pub(super) fn verify(path: &Path, found: &str, expected: &str) -> Result<(), RecordingError> {
    match found == expected {
        true => Ok(()),
        false => Err(corrupt(
            path,
            ParquetDamage::Checksum {
                found: found.to_owned(),
                expected: expected.to_owned(),
            },
        )),
    }
}

/// xxh3 of a file, 16 hex digits.
fn checksum(file: &RecordingFile) -> Result<String, RecordingError> {
    hash(&mut open(file)?).map_err(|source| RecordingError::io("read", file.path(), source))
}

pub(super) fn hash(file: &mut File) -> io::Result<String> {
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("{:016x}", hash.digest())),
            count => hash.update(&buffer[..count]),
        }
    }
}
