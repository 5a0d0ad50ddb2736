//! Writing a table, row group by row group.

use std::collections::HashMap;
use std::io::{self, Write};

use super::super::encode::{MAGIC, REQUIRED};
use super::super::packed::{encode_differences, encode_flags, encode_indices};
use super::super::thrift::{Struct, Value as Field};
use super::super::{codec, encoding, page_type};
use super::{Column, Kind, TableError, Value, format};

/// Rows of a group.
const ROW_GROUP: usize = 1 << 14;
/// Bytes of texts of a group, which ends it before its rows do.
const GROUP_BYTES: usize = 8 << 20;

/// Writes rows of `columns`. One group of rows is in memory.
pub struct Writer<W> {
    output: W,
    offset: usize,
    columns: &'static [Column],
    /// The rows of the group, column by column.
    values: Vec<Vec<Value>>,
    bytes: usize,
    groups: Vec<Struct>,
    rows: usize,
}

impl<W: Write> Writer<W> {
    /// # Errors
    /// Those of `output`.
    pub fn new(mut output: W, columns: &'static [Column]) -> io::Result<Self> {
        output.write_all(MAGIC)?;
        Ok(Writer {
            output,
            offset: MAGIC.len(),
            columns,
            values: vec![Vec::new(); columns.len()],
            bytes: 0,
            groups: Vec::new(),
            rows: 0,
        })
    }

    /// Adds a row, which has a value or its absence for each column.
    ///
    /// # Errors
    /// [`TableError::Row`]; those of the output.
    pub fn write(&mut self, row: Vec<Value>) -> Result<(), TableError> {
        let fits = |(column, value): (&Column, &Value)| match (column.kind, value) {
            (_, Value::Absent) => column.optional,
            (Kind::Text, Value::Text(_))
            | (Kind::Integer, Value::Integer(_))
            | (Kind::Number, Value::Number(_))
            | (Kind::Flag, Value::Flag(_)) => true,
            _ => false,
        };
        if let Some(missing) = self.columns.get(row.len()) {
            return Err(TableError::Row(missing.name));
        }
        if let Some((column, _)) = self.columns.iter().zip(&row).find(|both| !fits(*both)) {
            return Err(TableError::Row(column.name));
        }
        for (column, value) in self.values.iter_mut().zip(row) {
            self.bytes += if let Value::Text(text) = &value {
                text.len()
            } else {
                8
            };
            column.push(value);
        }
        if self.values.first().map_or(0, Vec::len) == ROW_GROUP || self.bytes >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    /// Ends the file, with `pairs` and the descriptions of the columns as its metadata.
    ///
    /// # Errors
    /// Those of the output.
    pub fn close(mut self, pairs: &[(&str, String)]) -> io::Result<()> {
        self.write_group()?;
        let root = Struct::default()
            .with(4, "schema")
            .with(5, self.columns.len() as i32);
        let described = ("plimsoll.columns", columns_json(self.columns));
        let pairs = pairs
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .chain([(described.0, described.1.as_str())])
            .map(|(key, value)| Struct::default().with(1, key).with(2, value));
        let schema = std::iter::once(root).chain(self.columns.iter().map(element));
        let metadata = Struct::default()
            .with(1, 2)
            .with(2, schema.collect::<Field>())
            .with(3, self.rows as i64)
            .with(4, self.groups.into_iter().collect::<Field>())
            .with(5, pairs.collect::<Field>())
            .with(6, concat!("plimsoll version ", env!("CARGO_PKG_VERSION")))
            .encode();
        self.output.write_all(&metadata)?;
        self.output.write_all(&(metadata.len() as u32).to_le_bytes())?;
        self.output.write_all(MAGIC)?;
        self.output.flush()
    }

    fn write_group(&mut self) -> io::Result<()> {
        let rows = self.values.first().map_or(0, Vec::len);
        if rows == 0 {
            return Ok(());
        }
        let start = self.offset;
        let columns: Vec<Vec<Value>> = self.values.iter_mut().map(std::mem::take).collect();
        let mut chunks = Vec::with_capacity(columns.len());
        for (column, values) in self.columns.iter().zip(&columns) {
            chunks.push(self.write_chunk(column, values)?);
        }
        let size = (self.offset - start) as i64;
        self.groups.push(
            Struct::default()
                .with(1, chunks.into_iter().collect::<Field>())
                .with(2, size)
                .with(3, rows as i64)
                .with(5, start as i64)
                .with(6, size),
        );
        self.rows += rows;
        self.bytes = 0;
        Ok(())
    }

    /// Writes a column of a group and returns its description.
    fn write_chunk(&mut self, column: &Column, values: &[Value]) -> io::Result<Struct> {
        let start = self.offset;
        let present: Vec<bool> = values.iter().map(|value| *value != Value::Absent).collect();
        let absent = present.iter().filter(|present| !**present).count();
        let mut content = Vec::new();
        if column.optional {
            let levels = encode_flags(&present);
            content.extend_from_slice(&(levels.len() as u32).to_le_bytes());
            content.extend_from_slice(&levels);
        }
        let dictionary = texts(values);
        let (kind, dictionary) = match column.kind {
            // No values take no bytes in the plain encoding.
            _ if absent == values.len() => (encoding::PLAIN, None),
            Kind::Text => {
                encode_indices(&dictionary.indices, dictionary.entries.len(), &mut content);
                (encoding::DICTIONARY, Some(dictionary.entries))
            }
            Kind::Integer => {
                let integers = values.iter().filter_map(|value| match value {
                    Value::Integer(value) => Some(*value),
                    _ => None,
                });
                encode_differences(&integers.collect::<Vec<_>>(), &mut content);
                (encoding::DIFFERENCES, None)
            }
            Kind::Number => {
                for value in values {
                    if let Value::Number(number) = value {
                        content.extend_from_slice(&number.to_le_bytes());
                    }
                }
                (encoding::PLAIN, None)
            }
            Kind::Flag => {
                let flags = values.iter().filter(|value| **value != Value::Absent);
                let flags: Vec<bool> = flags.map(|value| *value == Value::Flag(true)).collect();
                content.extend(flags.chunks(8).map(|eight| {
                    let bits = eight.iter().enumerate();
                    bits.fold(0, |byte, (bit, flag)| byte | u8::from(*flag) << bit)
                }));
                (encoding::PLAIN, None)
            }
        };
        let dictionary_at = dictionary.as_ref().map(|_| self.offset as i64);
        if let Some(entries) = dictionary {
            let mut texts = Vec::new();
            for text in &entries {
                texts.extend_from_slice(&(text.len() as u32).to_le_bytes());
                texts.extend_from_slice(text.as_bytes());
            }
            let described = Struct::default()
                .with(1, entries.len() as i32)
                .with(2, encoding::PLAIN);
            self.write_page(page_type::DICTIONARY, &texts, (7, described))?;
        }
        let data_at = self.offset as i64;
        let described = Struct::default()
            .with(1, values.len() as i32)
            .with(2, kind)
            .with(3, encoding::RLE)
            .with(4, encoding::RLE);
        self.write_page(page_type::DATA, &content, (5, described))?;
        let size = (self.offset - start) as i64;
        let encodings = match dictionary_at {
            Some(_) => vec![encoding::PLAIN, kind, encoding::RLE],
            None => vec![kind, encoding::RLE],
        };
        let mut described = Struct::default()
            .with(1, column.kind.physical())
            .with(2, encodings.into_iter().collect::<Field>())
            .with(3, [column.name].into_iter().collect::<Field>())
            .with(4, codec::NONE)
            .with(5, values.len() as i64)
            .with(6, size)
            .with(7, size)
            .with(9, data_at);
        if let Some(at) = dictionary_at {
            described = described.with(11, at);
        }
        let described = described.with(12, Struct::default().with(3, absent as i64));
        Ok(Struct::default().with(2, start as i64).with(3, described))
    }

    fn write_page(&mut self, page: i32, content: &[u8], (id, described): (i16, Struct)) -> io::Result<()> {
        let size = content.len() as i32;
        let header = Struct::default()
            .with(1, page)
            .with(2, size)
            .with(3, size)
            .with(id, described)
            .encode();
        self.output.write_all(&header)?;
        self.output.write_all(content)?;
        self.offset += header.len() + content.len();
        Ok(())
    }
}

/// The texts of a column, each once, and for each value that is present the place of its text.
struct Dictionary<'a> {
    entries: Vec<&'a str>,
    indices: Vec<u64>,
}

fn texts(values: &[Value]) -> Dictionary<'_> {
    let mut places: HashMap<&str, u64> = HashMap::new();
    let mut dictionary = Dictionary {
        entries: Vec::new(),
        indices: Vec::new(),
    };
    for value in values {
        let Value::Text(text) = value else { continue };
        let place = *places.entry(text).or_insert_with(|| {
            dictionary.entries.push(text);
            dictionary.entries.len() as u64 - 1
        });
        dictionary.indices.push(place);
    }
    dictionary
}

/// The description of a column in the file's schema.
fn element(column: &Column) -> Struct {
    let repetition = match column.optional {
        true => format::OPTIONAL,
        false => REQUIRED,
    };
    let plain = Struct::default()
        .with(1, column.kind.physical())
        .with(3, repetition)
        .with(4, column.name);
    match column.kind {
        Kind::Text => plain
            .with(6, format::UTF8)
            .with(10, Struct::default().with(1, Struct::default())),
        _ => plain,
    }
}

fn columns_json(columns: &[Column]) -> String {
    let columns = columns.iter().map(
        |column| serde_json::json!({ "name": column.name, "unit": column.unit, "meaning": column.meaning }),
    );
    serde_json::Value::Array(columns.collect()).to_string()
}
