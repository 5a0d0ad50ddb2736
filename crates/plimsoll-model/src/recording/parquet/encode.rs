//! A Parquet file of samples, written group by group.
//!
//! Each column of a group is one page of packed differences. Counters and levels of memory shrink by these as by a
//! compressor, so the pages are not compressed.

use std::io::{self, Write};
use std::sync::Arc;

use super::packed::{encode_differences, encode_flags};
use super::thrift::{Struct, Value};
use super::{codec, encoding, page_type};
use crate::recording::batch::{Batch, Column, Schema};

/// Rows of a group: few enough to be held in memory, enough to make the description of a group small beside it.
const ROW_GROUP: usize = 1 << 14;
/// The first and the last bytes of a file.
pub(super) const MAGIC: &[u8; 4] = b"PAR1";
pub(super) const INT64: i32 = 2;
pub(super) const UINT_64: i32 = 14;
/// `FieldRepetitionType::REQUIRED` and `OPTIONAL`.
pub(super) const REQUIRED: i32 = 0;
const OPTIONAL: i32 = 1;

/// Writes batches of one schema into a file.
pub(super) struct FileWriter<W> {
    output: W,
    offset: usize,
    schema: Arc<Schema>,
    times: Vec<u64>,
    columns: Vec<Column>,
    groups: Vec<Struct>,
    rows: usize,
}

impl<W: Write> FileWriter<W> {
    pub(super) fn new(mut output: W, schema: Arc<Schema>) -> io::Result<Self> {
        output.write_all(MAGIC)?;
        Ok(FileWriter {
            output,
            offset: MAGIC.len(),
            columns: vec![Column::default(); schema.value_fields().count()],
            schema,
            times: Vec::new(),
            groups: Vec::new(),
            rows: 0,
        })
    }

    /// Adds samples. Columns of the batch that the schema lacks are left out, those that the batch lacks are absent.
    pub(super) fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let mut from = 0;
        while from < batch.rows() {
            let count = (ROW_GROUP - self.times.len()).min(batch.rows() - from);
            let part = batch.slice(from..from + count);
            let before = self.times.len();
            for (index, (name, column)) in self.schema.value_names().zip(&mut self.columns).enumerate() {
                column.extend(before, part.column(name, index), count);
            }
            self.times.extend(part.times);
            from += count;
            if self.times.len() == ROW_GROUP {
                self.write_group()?;
            }
        }
        Ok(())
    }

    /// Ends the file, with `pairs` as its metadata.
    pub(super) fn close(mut self, pairs: &[(&str, String)]) -> io::Result<()> {
        if !self.times.is_empty() {
            self.write_group()?;
        }
        let in_its_types_order = || Struct::default().with(1, Struct::default());
        let metadata = Struct::default()
            .with(1, 2)
            .with(2, described_schema(&self.schema).into_iter().collect::<Value>())
            .with(3, self.rows as i64)
            .with(4, self.groups.into_iter().collect::<Value>())
            .with(5, described_pairs(pairs).into_iter().collect::<Value>())
            .with(6, concat!("plimsoll version ", env!("CARGO_PKG_VERSION")))
            .with(
                7,
                self.schema
                    .fields
                    .iter()
                    .map(|_| in_its_types_order())
                    .collect::<Value>(),
            )
            .encode();
        self.output.write_all(&metadata)?;
        self.output.write_all(&(metadata.len() as u32).to_le_bytes())?;
        self.output.write_all(MAGIC)?;
        self.output.flush()
    }

    fn write_group(&mut self) -> io::Result<()> {
        let (start, rows) = (self.offset, self.times.len());
        let times: Vec<i64> = self.times.iter().map(|time| *time as i64).collect();
        let range = self.times.iter().min().zip(self.times.iter().max());
        let range = range.map(|(least, most)| (*least as i64, *most as i64));
        let time = Page::new(None, &times, rows, range);
        let schema = Arc::clone(&self.schema);
        let mut columns = std::mem::take(&mut self.columns).into_iter();
        let mut chunks = Vec::with_capacity(schema.fields.len());
        for (index, field) in schema.fields.iter().enumerate() {
            let page = match schema.is_time(index) {
                true => &time,
                false => &Page::of(&columns.next().unwrap_or_default(), rows),
            };
            chunks.push(self.write_page(&field.name, page)?);
        }
        let size = (self.offset - start) as i64;
        self.groups.push(
            Struct::default()
                .with(1, chunks.into_iter().collect::<Value>())
                .with(2, size)
                .with(3, rows as i64)
                .with(5, start as i64)
                .with(6, size),
        );
        self.rows += rows;
        self.times.clear();
        self.columns = vec![Column::default(); schema.value_fields().count()];
        Ok(())
    }

    /// Writes a column of a group and returns its description.
    fn write_page(&mut self, name: &str, page: &Page) -> io::Result<Struct> {
        let start = self.offset as i64;
        let size = page.content.len() as i32;
        let described = Struct::default()
            .with(1, page.rows as i32)
            .with(2, page.encoding)
            .with(3, encoding::RLE)
            .with(4, encoding::RLE);
        let header = Struct::default()
            .with(1, page_type::DATA)
            .with(2, size)
            .with(3, size)
            .with(5, described)
            .encode();
        self.output.write_all(&header)?;
        self.output.write_all(&page.content)?;
        let size = header.len() + page.content.len();
        self.offset += size;
        let mut statistics = Struct::default().with(3, page.absent as i64);
        if let Some((least, most)) = page.range {
            statistics = statistics
                .with(5, most.to_le_bytes().to_vec())
                .with(6, least.to_le_bytes().to_vec());
        }
        let column = Struct::default()
            .with(1, INT64)
            .with(2, [page.encoding, encoding::RLE].into_iter().collect::<Value>())
            .with(3, [name].into_iter().collect::<Value>())
            .with(4, codec::NONE)
            .with(5, page.rows as i64)
            .with(6, size as i64)
            .with(7, size as i64)
            .with(9, start)
            .with(12, statistics);
        Ok(Struct::default().with(2, start).with(3, column))
    }
}

/// The schema in the metadata of a file.
pub(super) fn described_schema(schema: &Schema) -> Vec<Struct> {
    let root = Struct::default()
        .with(4, "schema")
        .with(5, schema.fields.len() as i32);
    let columns = (0..schema.fields.len()).map(|index| element(schema, index));
    std::iter::once(root).chain(columns).collect()
}

/// Keys and values in the metadata of a file.
pub(super) fn described_pairs(pairs: &[(&str, String)]) -> Vec<Struct> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| Struct::default().with(1, *key).with(2, value.as_str()))
        .collect()
}

/// The description of a column in the file's schema.
fn element(schema: &Schema, index: usize) -> Struct {
    let name = schema.fields[index].name.as_str();
    if !schema.is_time(index) {
        return Struct::default().with(1, INT64).with(3, OPTIONAL).with(4, name);
    }
    let unsigned = Struct::default().with(1, 64_i8).with(2, false);
    Struct::default()
        .with(1, INT64)
        .with(3, REQUIRED)
        .with(4, name)
        .with(6, UINT_64)
        .with(10, Struct::default().with(10, unsigned))
}

/// A column of a group, encoded.
struct Page {
    content: Vec<u8>,
    encoding: i32,
    rows: usize,
    absent: usize,
    range: Option<(i64, i64)>,
}

impl Page {
    fn of(column: &Column, rows: usize) -> Page {
        match (column.present(), column.values()) {
            (None, []) => Page::new(Some(&vec![false; rows]), &[], rows, None),
            (mask, values) => {
                let all = vec![true; rows];
                let mask = mask.unwrap_or(&all);
                let present = values.iter().zip(mask).filter(|(_, present)| **present);
                let values: Vec<i64> = present.map(|(value, _)| *value).collect();
                let range = values.iter().min().zip(values.iter().max());
                let range = range.map(|(least, most)| (*least, *most));
                Page::new(Some(mask), &values, rows, range)
            }
        }
    }

    fn new(mask: Option<&[bool]>, values: &[i64], rows: usize, range: Option<(i64, i64)>) -> Page {
        let mut content = Vec::new();
        if let Some(mask) = mask {
            let levels = encode_flags(mask);
            content.extend_from_slice(&(levels.len() as u32).to_le_bytes());
            content.extend_from_slice(&levels);
        }
        // No values take no bytes in the plain encoding; of no differences some readers find no header.
        let encoding = match values {
            [] => encoding::PLAIN,
            _ => {
                encode_differences(values, &mut content);
                encoding::DIFFERENCES
            }
        };
        Page {
            content,
            encoding,
            rows,
            absent: rows - values.len(),
            range,
        }
    }
}
