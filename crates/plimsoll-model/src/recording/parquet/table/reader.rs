//! Reading a table that [`super::Writer`] wrote.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::super::encode::{MAGIC, REQUIRED};
use super::super::packed::{decode_differences, decode_hybrid};
use super::super::thrift::{Reader as Input, Struct};
use super::super::{codec, encoding, page_type};
use super::{Column, Kind, TableError, Value};
use crate::regular_file::{self, Links, Refusal};

/// The writer writes no more rows into a group, and no longer columns and files: more is damage.
const ROWS_MAX: usize = 1 << 14;
const CHUNK_MAX: u64 = 64 << 20;
const METADATA_MAX: u64 = 64 << 20;
const FILE_MAX: u64 = 16 << 30;

/// Reads a table row group by row group.
pub struct Reader {
    file: File,
    columns: &'static [Column],
    /// For each column its place in the file and whether it may be absent there; `None` if the file lacks it.
    places: Vec<Option<(usize, bool)>>,
    groups: std::vec::IntoIter<Struct>,
}

/// Opens a table for reading `columns` of it. The file may have others, and may lack optional ones.
///
/// # Errors
/// [`TableError::Column`], [`TableError::Damaged`] and those of the system.
pub fn open(path: &Path, columns: &'static [Column]) -> Result<Reader, TableError> {
    let mut file = regular_file::open(path, Links::Refused, FILE_MAX).map_err(|refusal| match refusal {
        Refusal::System(error) => TableError::Io(error),
        Refusal::Kind(kind) => TableError::NotAFile(kind),
        Refusal::Size(bytes) => TableError::TooLarge(bytes),
    })?;
    let length = file.metadata()?.len();
    let frame = 2 * MAGIC.len() as u64 + 4;
    if length < frame {
        return Err(TableError::Damaged("it is too short"));
    }
    let mut tail = [0; 8];
    file.seek(SeekFrom::Start(length - 8))?;
    file.read_exact(&mut tail)?;
    let [a, b, c, d, magic @ ..] = tail;
    let size = u64::from(u32::from_le_bytes([a, b, c, d]));
    if &magic != MAGIC || size > METADATA_MAX.min(length - frame) {
        return Err(TableError::Damaged("it does not end as Parquet does"));
    }
    let mut metadata = vec![0; size as usize];
    file.seek(SeekFrom::Start(length - 8 - size))?;
    file.read_exact(&mut metadata)?;
    let metadata = Input::new(&metadata)
        .structure()
        .ok_or(TableError::Damaged("unreadable metadata"))?;
    let fields: Vec<&Struct> = metadata.list(2).skip(1).collect();
    let place = |column: &Column| {
        let index = fields.iter().position(|field| field.text(4) == Some(column.name));
        match index {
            None if column.optional => Ok(None),
            Some(index) if fields[index].code(1) == Some(column.kind.physical()) => {
                Ok(Some((index, fields[index].code(3) != Some(REQUIRED))))
            }
            _ => Err(TableError::Column(column.name)),
        }
    };
    let places = columns.iter().map(place).collect::<Result<_, _>>()?;
    let groups: Vec<Struct> = metadata.list(4).cloned().collect();
    Ok(Reader {
        file,
        columns,
        places,
        groups: groups.into_iter(),
    })
}

impl Reader {
    /// The rows of the next group, with a value or its absence for each column.
    ///
    /// # Errors
    /// [`TableError::Damaged`] and those of the system.
    pub fn next_group(&mut self) -> Result<Option<Vec<Vec<Value>>>, TableError> {
        let Some(group) = self.groups.next() else {
            return Ok(None);
        };
        let rows = group.int(3).and_then(|rows| usize::try_from(rows).ok());
        let rows = rows
            .filter(|rows| *rows <= ROWS_MAX)
            .ok_or(TableError::Damaged("an impossible number of rows"))?;
        let chunks: Vec<&Struct> = group.list(1).collect();
        let mut table: Vec<Vec<Value>> = vec![Vec::with_capacity(self.columns.len()); rows];
        for (column, place) in self.columns.iter().zip(&self.places) {
            let Some((index, optional)) = place else {
                table.iter_mut().for_each(|row| row.push(Value::Absent));
                continue;
            };
            let described = chunks.get(*index).and_then(|chunk| chunk.fields(3));
            let described = described.ok_or(TableError::Damaged("a column is not described"))?;
            let bytes = bytes(&self.file, described)?;
            let values = read_chunk(column.kind, &bytes, rows, *optional)
                .filter(|_| described.code(4) == Some(codec::NONE))
                .ok_or(TableError::Damaged("a column cannot be read"))?;
            if !column.optional && values.contains(&Value::Absent) {
                return Err(TableError::Column(column.name));
            }
            table
                .iter_mut()
                .zip(values)
                .for_each(|(row, value)| row.push(value));
        }
        Ok(Some(table))
    }
}

/// The pages of a column of a group.
fn bytes(mut file: &File, described: &Struct) -> Result<Vec<u8>, TableError> {
    let start = described.int(11).or_else(|| described.int(9));
    let place = |value: Option<i64>| value.and_then(|value| u64::try_from(value).ok());
    let (Some(start), Some(length)) = (place(start), place(described.int(7))) else {
        return Err(TableError::Damaged("a column has no place"));
    };
    if length > CHUNK_MAX {
        return Err(TableError::Damaged("a column of impossible length"));
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The values of a column of a group; `None` if they are damaged.
fn read_chunk(kind: Kind, bytes: &[u8], rows: usize, optional: bool) -> Option<Vec<Value>> {
    let mut input = Input::new(bytes);
    let mut dictionary: Vec<&str> = Vec::new();
    let mut values = Vec::with_capacity(rows);
    while values.len() < rows {
        let header = input.structure()?;
        let page = input.take(usize::try_from(header.int(3)?).ok()?)?;
        match header.code(1)? {
            page_type::DICTIONARY => {
                let count = usize::try_from(header.fields(7)?.int(1)?).ok()?;
                dictionary = texts(page, count)?;
            }
            page_type::DATA => {
                let described = header.fields(5)?;
                let count = usize::try_from(described.int(1)?).ok()?;
                if count == 0 || count > rows - values.len() {
                    return None;
                }
                let (mask, rest) = levels(page, count, optional)?;
                let here = mask.iter().filter(|present| **present).count();
                let mut found = decode(kind, described.code(2)?, rest, here, &dictionary)?.into_iter();
                for present in mask {
                    values.push(match present {
                        true => found.next()?,
                        false => Value::Absent,
                    });
                }
            }
            _ => return None,
        }
    }
    Some(values)
}

/// Which rows of a page are present, and the rest of the page.
fn levels(page: &[u8], count: usize, optional: bool) -> Option<(Vec<bool>, &[u8])> {
    if !optional {
        return Some((vec![true; count], page));
    }
    let (length, rest) = page.split_first_chunk::<4>()?;
    let (levels, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let levels = decode_hybrid(levels, 1, count)?;
    (levels.len() == count).then(|| (levels.into_iter().map(|level| level == 1).collect(), rest))
}

fn decode(kind: Kind, coded: i32, bytes: &[u8], count: usize, dictionary: &[&str]) -> Option<Vec<Value>> {
    if count == 0 {
        return Some(Vec::new());
    }
    match (kind, coded) {
        (Kind::Text, encoding::DICTIONARY) => {
            let (width, bytes) = bytes.split_first()?;
            let indices = decode_hybrid(bytes, (*width).into(), count)?;
            let text = |index: u64| dictionary.get(usize::try_from(index).ok()?).copied();
            let texts = indices
                .into_iter()
                .map(|index| Some(Value::Text(text(index)?.to_owned())));
            texts.collect()
        }
        (Kind::Integer, encoding::DIFFERENCES) => {
            let integers = decode_differences(bytes, count)?;
            Some(integers.into_iter().map(Value::Integer).collect())
        }
        (Kind::Number, encoding::PLAIN) => {
            let (words, _) = bytes.as_chunks::<8>();
            let words = words.get(..count)?.iter();
            Some(
                words
                    .map(|word| Value::Number(f64::from_le_bytes(*word)))
                    .collect(),
            )
        }
        (Kind::Flag, encoding::PLAIN) => {
            let flag = |index: usize| Some(Value::Flag(bytes.get(index / 8)? >> (index % 8) & 1 == 1));
            (0..count).map(flag).collect()
        }
        _ => None,
    }
}

/// The entries of a dictionary of texts.
fn texts(mut page: &[u8], count: usize) -> Option<Vec<&str>> {
    let mut texts = Vec::new();
    for _ in 0..count {
        let (length, rest) = page.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        texts.push(std::str::from_utf8(text).ok()?);
        page = rest;
    }
    Some(texts)
}
