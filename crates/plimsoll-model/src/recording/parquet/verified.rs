//! A copy of a file of samples whose source may be damaged or forged.
//!
//! The copy is read, not the source, which may change meanwhile. A file with the columns and descriptions of this version stays as
//! it is; of any other one, only the samples are taken over, in the layout of this version: a forged description could make a
//! data set of many files unreadable.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::decode::FileReader;
use super::encode::FileWriter;
use super::{CopyError, corrupt, verify};
use crate::recording::RecordingError;
use crate::recording::batch::{Batch, Schema};
use crate::recording::damage::ParquetDamage;
use crate::recording::schema::VERSION_KEY;

/// Most columns, a multiple of those of any version.
const COLUMNS_MAX: usize = 2000;
/// Most values of the metadata: a day at 100 Hz has half of them.
const VALUES_MAX: usize = 1 << 22;
const NAME_MAX: usize = 100;

/// Copies `source`, the file `path`, into the empty file `output`, reads the copy to its end, and returns its rows.
pub(in crate::recording) fn copy_verified(
    mut source: File,
    path: &Path,
    expected: Option<&str>,
    output: &mut File,
) -> Result<u64, CopyError> {
    let read = |error| RecordingError::io("read", path, error);
    let length = source.metadata().map_err(read)?.len();
    // The description first: a file of gigabytes that is no table is not copied.
    let described = FileReader::of(source.try_clone().map_err(read)?, path, VALUES_MAX)?;
    check_columns(described.schema()).map_err(|damage| corrupt(path, damage))?;
    source.rewind().map_err(read)?;
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 1 << 18];
    // A source that grows meanwhile does not have the checksum.
    let mut whole = (&mut source).take(length);
    loop {
        match whole.read(&mut buffer).map_err(read)? {
            0 => break,
            count => {
                hash.update(&buffer[..count]);
                output.write_all(&buffer[..count])?;
            }
        }
    }
    if let Some(expected) = expected {
        verify(path, &format!("{:016x}", hash.digest()), expected)?;
    }
    let mut reader = FileReader::of(output.try_clone()?, path, VALUES_MAX)?;
    check_columns(reader.schema()).map_err(|damage| corrupt(path, damage))?;
    if reader.is_own {
        return rows_of(&mut reader, path, |_| Ok(()));
    }
    output.set_len(0)?;
    output.rewind()?;
    let mut reader = FileReader::of(source, path, VALUES_MAX)?;
    check_columns(reader.schema()).map_err(|damage| corrupt(path, damage))?;
    let schema = reader.schema();
    let pairs = schema.version.map(|version| (VERSION_KEY, version.to_string()));
    let mut writer = FileWriter::new(BufWriter::new(output), Arc::clone(schema))?;
    let rows = rows_of(&mut reader, path, |batch| Ok(writer.write(batch)?))?;
    writer.close(pairs.as_slice())?;
    Ok(rows)
}

/// Rows of a file that [`super::encode`] wrote.
pub(in crate::recording) fn rows_of_file(file: &File, path: &Path) -> Result<u64, CopyError> {
    let rows = FileReader::of(file.try_clone()?, path, VALUES_MAX)?.rows;
    Ok(rows as u64)
}

fn rows_of(
    reader: &mut FileReader,
    path: &Path,
    mut each: impl FnMut(&Batch) -> Result<(), CopyError>,
) -> Result<u64, CopyError> {
    let (mut found, stated) = (0, reader.rows);
    while let Some(group) = reader.next_group()? {
        found += group.rows();
        each(&group)?;
    }
    match found == stated {
        true => Ok(found as u64),
        false => Err(corrupt(path, ParquetDamage::OtherRows { found, stated }).into()),
    }
}

fn check_columns(schema: &Schema) -> Result<(), ParquetDamage> {
    let fields = &schema.fields;
    if fields.len() > COLUMNS_MAX {
        return Err(ParquetDamage::ColumnCount(fields.len()));
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let mut names = HashSet::new();
    let good = |name: &'_ str| name.len() <= NAME_MAX && name.bytes().all(plain);
    match fields
        .iter()
        .all(|field| good(&field.name) && names.insert(&field.name))
    {
        true => Ok(()),
        false => Err(ParquetDamage::ColumnName),
    }
}
