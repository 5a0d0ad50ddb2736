//! Reading Parquet files of samples: those of this version, and those that earlier ones wrote with dictionaries and
//! zstd.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ruzstd::decoding::FrameDecoder;

use super::encode::{INT64, MAGIC, REQUIRED, UINT_64, described_pairs, described_schema};
use super::packed::{decode_differences, decode_hybrid};
use super::thrift::{Reader, Struct};
use super::{codec, corrupt, encoding, own_pairs, page_type};
use crate::recording::RecordingError;
use crate::recording::batch::{Batch, Column, Field, Schema};
use crate::recording::damage::{ColumnDamage, Damage, ParquetDamage};
use crate::recording::folder::RecordingFile;
use crate::recording::model::RECORDING_SCHEMA;
use crate::recording::open::open;
use crate::recording::schema::{VERSION_KEY, sample_schema};

/// No version writes more rows into a group, more metadata, or larger pages: more is damage.
const ROWS_MAX: usize = 1 << 17;
const METADATA_MAX: u64 = 64 << 20;
const PAGE_MAX: usize = 16 << 20;
const CHUNK_MAX: u64 = 64 << 20;
/// Most values of a group: its rows take 9 bytes a value in memory.
const VALUES_MAX: usize = 1 << 24;

/// Reads a file group by group.
pub(super) struct FileReader {
    file: File,
    path: PathBuf,
    schema: Arc<Schema>,
    /// For each field of the schema whether it may be absent.
    optional: Vec<bool>,
    groups: std::vec::IntoIter<Struct>,
    pub(super) rows: usize,
    /// Whether it has the columns and descriptions that this version writes.
    pub(super) is_own: bool,
}

impl FileReader {
    /// Opens a file and reads its metadata.
    pub(super) fn open(place: &RecordingFile) -> Result<Self, RecordingError> {
        FileReader::of(open(place)?, place.path(), usize::MAX)
    }

    /// As [`FileReader::open`], of an open file with at most `most` values in its metadata.
    pub(super) fn of(mut file: File, path: &Path, most: usize) -> Result<Self, RecordingError> {
        let io = |source| RecordingError::io("read", path, source);
        let damaged = |damage: ParquetDamage| corrupt(path, damage);
        let length = file.metadata().map_err(io)?.len();
        let frame = 2 * MAGIC.len() as u64 + 4;
        if length < frame {
            return Err(damaged(ParquetDamage::TooShort));
        }
        let mut tail = [0; 8];
        file.seek(SeekFrom::Start(length - 8)).map_err(io)?;
        file.read_exact(&mut tail).map_err(io)?;
        let [a, b, c, d, magic @ ..] = tail;
        if &magic != MAGIC {
            return Err(damaged(ParquetDamage::End));
        }
        let size = u64::from(u32::from_le_bytes([a, b, c, d]));
        if size > METADATA_MAX.min(length - frame) {
            return Err(damaged(ParquetDamage::MetadataLength));
        }
        let mut metadata = vec![0; size as usize];
        file.seek(SeekFrom::Start(length - 8 - size)).map_err(io)?;
        file.read_exact(&mut metadata).map_err(io)?;
        let metadata = Reader::limited(&metadata, most)
            .structure()
            .ok_or_else(|| damaged(ParquetDamage::Metadata))?;
        let (schema, optional) = read_schema(&metadata).map_err(|damage| corrupt(path, damage))?;
        if let Some(found) = schema.version
            && found > RECORDING_SCHEMA
        {
            return Err(RecordingError::NewerSchema {
                path: path.to_owned(),
                found,
                known: RECORDING_SCHEMA,
            });
        }
        let rows = metadata.int(3).and_then(|rows| usize::try_from(rows).ok());
        let groups: Vec<Struct> = metadata.list(4).cloned().collect();
        let own = sample_schema();
        let is_own = metadata.list(2).eq(&described_schema(&own))
            && metadata.list(5).eq(&described_pairs(&own_pairs(&own)));
        Ok(FileReader {
            is_own,
            file,
            path: path.to_owned(),
            schema: Arc::new(schema),
            optional,
            groups: groups.into_iter(),
            rows: rows.ok_or_else(|| damaged(ParquetDamage::NoRows))?,
        })
    }

    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub(super) fn next_group(&mut self) -> Result<Option<Batch>, RecordingError> {
        let Some(group) = self.groups.next() else {
            return Ok(None);
        };
        let rows = group.int(3).and_then(|rows| usize::try_from(rows).ok());
        let chunks: Vec<&Struct> = group.list(1).collect();
        let fits = |rows: &usize| {
            *rows <= ROWS_MAX
                && rows.saturating_mul(chunks.len()) <= VALUES_MAX
                && chunks.len() == self.optional.len()
        };
        let Some(rows) = rows.filter(fits) else {
            return Err(corrupt(&self.path, ParquetDamage::GroupShape));
        };
        let schema = Arc::clone(&self.schema);
        let mut batch = Batch::empty(Arc::clone(&schema));
        batch.columns.clear();
        for (index, (field, chunk)) in schema.fields.iter().zip(chunks).enumerate() {
            let described = chunk.fields(3);
            let bytes = described
                .and_then(range)
                .map(|range| self.bytes(range))
                .transpose()?;
            let column = described
                .zip(bytes)
                .ok_or(ColumnDamage::NotDescribed)
                .and_then(|(described, bytes)| read_chunk(described, &bytes, rows, self.optional[index]))
                .map_err(|damage| {
                    let column = field.name.clone();
                    corrupt(&self.path, ParquetDamage::Column { column, damage })
                })?;
            if schema.is_time(index) {
                batch.times = column.values().iter().map(|value| *value as u64).collect();
            } else {
                // No version writes unsigned columns besides the time: of a later one's nothing is known.
                batch
                    .columns
                    .push(if field.signed { column } else { Column::default() });
            }
        }
        match batch.times.len() == rows {
            true => Ok(Some(batch)),
            false => Err(corrupt(&self.path, ParquetDamage::SampleWithoutTime)),
        }
    }

    fn bytes(&mut self, (start, length): (u64, u64)) -> Result<Vec<u8>, RecordingError> {
        if length > CHUNK_MAX {
            return Err(corrupt(&self.path, ParquetDamage::ColumnLength(length)));
        }
        let mut bytes = Vec::new();
        self.file
            .seek(SeekFrom::Start(start))
            .and_then(|_| (&self.file).take(length).read_to_end(&mut bytes))
            .map_err(|source| RecordingError::io("read", &self.path, source))?;
        Ok(bytes)
    }
}

/// The columns, and of each whether it may be absent.
fn read_schema(metadata: &Struct) -> Result<(Schema, Vec<bool>), Damage> {
    let mut fields = Vec::new();
    let mut optional = Vec::new();
    for element in metadata.list(2).skip(1) {
        let name = element.text(4).ok_or(Damage::UnnamedColumn)?;
        if element.code(1) != Some(INT64) || element.int(5).is_some() {
            return Err(Damage::ColumnType {
                column: name.to_owned(),
            });
        }
        let logical = element.fields(10).and_then(|logical| logical.fields(10));
        let unsigned =
            element.code(6) == Some(UINT_64) || logical.is_some_and(|logical| logical.bool(2) == Some(false));
        fields.push(Field {
            name: name.to_owned(),
            signed: !unsigned,
            metadata: Vec::new(),
        });
        optional.push(element.code(3) != Some(REQUIRED));
    }
    let version = metadata
        .list(5)
        .find(|pair| pair.text(1) == Some(VERSION_KEY))
        .and_then(|pair| pair.text(2)?.parse().ok());
    Ok((Schema::new(version, fields)?, optional))
}

/// Start and length of a column's pages.
fn range(described: &Struct) -> Option<(u64, u64)> {
    let start = described.int(11).or_else(|| described.int(9))?;
    Some((start.try_into().ok()?, described.int(7)?.try_into().ok()?))
}

fn read_chunk(described: &Struct, bytes: &[u8], rows: usize, optional: bool) -> Result<Column, ColumnDamage> {
    let codec = described.code(4).ok_or(ColumnDamage::NoCodec)?;
    let mut input = Reader::new(bytes);
    let mut dictionary: Vec<i64> = Vec::new();
    let (mut values, mut present) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    while present.len() < rows {
        let header = input.structure().ok_or(ColumnDamage::PageHead)?;
        let size = |id| header.int(id).and_then(|size| usize::try_from(size).ok());
        let page = size(3)
            .and_then(|size| input.take(size))
            .ok_or(ColumnDamage::PageCutOff)?;
        let page = decompress(codec, page, size(2).ok_or(ColumnDamage::PageWithoutLength)?)?;
        match header.code(1) {
            Some(page_type::DICTIONARY) => dictionary = plain(&page),
            Some(page_type::DATA) => {
                let described = header.fields(5).ok_or(ColumnDamage::PageNotDescribed)?;
                let count = described.int(1).and_then(|count| usize::try_from(count).ok());
                let count = count
                    .filter(|count| *count > 0 && *count <= rows - present.len())
                    .ok_or(ColumnDamage::PageRows)?;
                let (mask, rest) = levels(&page, count, optional).ok_or(ColumnDamage::Mask)?;
                let kind = described.code(2).ok_or(ColumnDamage::NoEncoding)?;
                let here = mask.iter().filter(|present| **present).count();
                let decoded = decode(kind, rest, here, &dictionary).ok_or(ColumnDamage::Encoding(kind))?;
                let mut decoded = decoded.into_iter();
                let spread = |present: &bool| present.then(|| decoded.next()).flatten().unwrap_or(0);
                values.extend(mask.iter().map(spread));
                present.extend(mask);
            }
            other => return Err(ColumnDamage::PageType(other)),
        }
    }
    match optional {
        true => Ok(Column::new(values, Some(present))),
        false => Ok(Column::new(values, None)),
    }
}

fn decompress(codec: i32, page: &[u8], size: usize) -> Result<Vec<u8>, ColumnDamage> {
    if size > PAGE_MAX {
        return Err(ColumnDamage::PageLength(size));
    }
    match codec {
        codec::NONE => Ok(page.to_vec()),
        codec::ZSTD => {
            let mut content = vec![0; size];
            match FrameDecoder::new().decode_all(page, &mut content) {
                Ok(written) if written == size => Ok(content),
                Ok(found) => Err(ColumnDamage::OtherPageLength { found, stated: size }),
                Err(error) => Err(ColumnDamage::Decompress(error.to_string())),
            }
        }
        other => Err(ColumnDamage::UnknownCodec(other)),
    }
}

/// Which rows of a page are present, and the rest of the page.
fn levels(page: &[u8], count: usize, optional: bool) -> Option<(Vec<bool>, &[u8])> {
    if !optional {
        return Some((vec![true; count], page));
    }
    let (length, rest) = page.split_first_chunk::<4>()?;
    let (levels, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let levels = decode_hybrid(levels, 1, count)?;
    Some((levels.into_iter().map(|level| level == 1).collect(), rest))
}

fn decode(kind: i32, bytes: &[u8], count: usize, dictionary: &[i64]) -> Option<Vec<i64>> {
    match kind {
        encoding::PLAIN => {
            let mut values = plain(bytes);
            values.truncate(count);
            (values.len() == count).then_some(values)
        }
        encoding::DIFFERENCES => decode_differences(bytes, count),
        encoding::DICTIONARY | encoding::DICTIONARY_OF_OLD if count == 0 => Some(Vec::new()),
        encoding::DICTIONARY | encoding::DICTIONARY_OF_OLD => {
            let (width, bytes) = bytes.split_first()?;
            let indices = decode_hybrid(bytes, (*width).into(), count)?;
            let value = |index: u64| dictionary.get(usize::try_from(index).ok()?).copied();
            indices.into_iter().map(value).collect()
        }
        _ => None,
    }
}

fn plain(bytes: &[u8]) -> Vec<i64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| i64::from_le_bytes(*word)).collect()
}
