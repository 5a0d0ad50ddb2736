//! The messages of an Arrow IPC stream, for columns of 64-bit integers: a schema, then record batches.
//!
//! Written and read here because the `arrow` crates took a fifth of the time of a build; this module has
//! only the parts of `Schema.fbs` and `Message.fbs` that such columns need.

mod flatbuffer;

use std::ops::Range;
use std::sync::Arc;

use flatbuffer::{Node, Table, Value};

use super::batch::{Batch, Column, Field, Schema};
use super::damage::{Damage, StreamDamage};
use super::schema::VERSION_KEY;

/// Bytes before the metadata of a message: a mark and the metadata's length.
pub(super) const PREFIX: usize = 8;
/// The mark that a message begins with.
pub(super) const MARK: [u8; 4] = [0xff; 4];

/// `MetadataVersion::V5`.
const V5: i16 = 4;
const INT: u8 = 2;
/// Columns beyond this number are damage.
const FIELDS_MAX: usize = 1 << 14;

/// Slots of the tables, after `Message.fbs` and `Schema.fbs`.
mod slot {
    pub(super) mod message {
        pub(in super::super) const VERSION: usize = 0;
        pub(in super::super) const HEADER_TYPE: usize = 1;
        pub(in super::super) const HEADER: usize = 2;
        pub(in super::super) const BODY_LENGTH: usize = 3;
    }
    pub(super) mod schema {
        pub(in super::super) const FIELDS: usize = 1;
        pub(in super::super) const METADATA: usize = 2;
    }
    pub(super) mod field {
        pub(in super::super) const NAME: usize = 0;
        pub(in super::super) const NULLABLE: usize = 1;
        pub(in super::super) const TYPE_TYPE: usize = 2;
        pub(in super::super) const TYPE: usize = 3;
        pub(in super::super) const DICTIONARY: usize = 4;
        pub(in super::super) const CHILDREN: usize = 5;
        pub(in super::super) const METADATA: usize = 6;
    }
    pub(super) mod int {
        pub(in super::super) const BIT_WIDTH: usize = 0;
        pub(in super::super) const IS_SIGNED: usize = 1;
    }
    pub(super) mod batch {
        pub(in super::super) const LENGTH: usize = 0;
        pub(in super::super) const NODES: usize = 1;
        pub(in super::super) const BUFFERS: usize = 2;
        pub(in super::super) const COMPRESSION: usize = 3;
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Header {
    Schema = 1,
    RecordBatch = 3,
}

/// The message that begins a stream of `schema`.
pub(super) fn schema_message(schema: &Schema) -> Vec<u8> {
    let fields = schema.fields.iter().enumerate().map(|(index, field)| {
        let int = Node::Table(vec![
            (slot::int::BIT_WIDTH, Value::I32(64)),
            (slot::int::IS_SIGNED, Value::Bool(field.signed)),
        ]);
        let pairs = field.metadata.iter().map(|(key, value)| pair(key, value));
        Node::Table(vec![
            (slot::field::NAME, Value::Node(Node::Text(field.name.clone()))),
            (slot::field::NULLABLE, Value::Bool(!schema.is_time(index))),
            (slot::field::TYPE_TYPE, Value::U8(INT)),
            (slot::field::TYPE, Value::Node(int)),
            // Readers in C++ refuse a field without this vector.
            (slot::field::CHILDREN, Value::Node(Node::Vector(Vec::new()))),
            (slot::field::METADATA, Value::Node(Node::Vector(pairs.collect()))),
        ])
    });
    let version = schema.version.iter();
    let pairs = version.map(|version| pair(VERSION_KEY, &version.to_string()));
    let header = Node::Table(vec![
        (slot::schema::FIELDS, Value::Node(Node::Vector(fields.collect()))),
        (slot::schema::METADATA, Value::Node(Node::Vector(pairs.collect()))),
    ]);
    message(Header::Schema, header, &[])
}

fn pair(key: &str, value: &str) -> Node {
    Node::Table(vec![
        (0, Value::Node(Node::Text(key.to_owned()))),
        (1, Value::Node(Node::Text(value.to_owned()))),
    ])
}

pub(super) fn batch_message(batch: &Batch) -> Vec<u8> {
    let rows = batch.rows();
    let mut body = Body::default();
    let mut columns = batch.columns.iter();
    for index in 0..batch.schema.fields.len() {
        if batch.schema.is_time(index) {
            body.push(rows, &[], batch.times.iter().map(|time| time.to_le_bytes()));
        } else if let Some(column) = columns.next() {
            body.push_column(rows, column);
        }
    }
    let header = Node::Table(vec![
        (slot::batch::LENGTH, Value::I64(rows as i64)),
        (slot::batch::NODES, Value::Node(Node::Pairs(body.nodes))),
        (slot::batch::BUFFERS, Value::Node(Node::Pairs(body.buffers))),
    ]);
    message(Header::RecordBatch, header, &body.bytes)
}

/// The body of a record batch: for each column its mask, if some of it is absent, and its values.
#[derive(Default)]
struct Body {
    /// Length and number of absent values of each column.
    nodes: Vec<[i64; 2]>,
    /// Offset and length of each buffer.
    buffers: Vec<[i64; 2]>,
    bytes: Vec<u8>,
}

impl Body {
    fn push_column(&mut self, rows: usize, column: &Column) {
        let mut mask = vec![0_u8; rows.div_ceil(8)];
        match (column.present(), column.values()) {
            (None, []) if rows > 0 => {
                return self.push(rows, &mask, std::iter::repeat_n([0; 8], rows));
            }
            (None, _) => mask.clear(),
            (Some(present), _) => {
                for (row, _) in present.iter().enumerate().filter(|(_, present)| **present) {
                    mask[row / 8] |= 1 << (row % 8);
                }
            }
        }
        let values = column.values().iter().map(|value| value.to_le_bytes());
        self.push(rows, &mask, values);
    }

    fn push(&mut self, rows: usize, mask: &[u8], values: impl Iterator<Item = [u8; 8]>) {
        let present: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
        let absent = match mask {
            [] => 0,
            _ => rows - present as usize,
        };
        self.nodes.push([rows as i64, absent as i64]);
        self.buffers.push([self.bytes.len() as i64, mask.len() as i64]);
        self.bytes.extend_from_slice(mask);
        self.pad();
        let start = self.bytes.len();
        self.bytes.extend(values.flatten());
        self.buffers
            .push([start as i64, (self.bytes.len() - start) as i64]);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

fn message(kind: Header, header: Node, body: &[u8]) -> Vec<u8> {
    let metadata = flatbuffer::encode(Node::Table(vec![
        (slot::message::VERSION, Value::I16(V5)),
        (slot::message::HEADER_TYPE, Value::U8(kind as u8)),
        (slot::message::HEADER, Value::Node(header)),
        (slot::message::BODY_LENGTH, Value::I64(body.len() as i64)),
    ]));
    let mut message = Vec::with_capacity(PREFIX + metadata.len() + body.len());
    message.extend_from_slice(&MARK);
    message.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
    message.extend_from_slice(&metadata);
    message.extend_from_slice(body);
    message
}

/// Length of the body that follows the metadata of a message.
pub(super) fn body_length(metadata: &[u8]) -> Result<u64, StreamDamage> {
    let message = Table::root(metadata).ok_or(StreamDamage::Message)?;
    u64::try_from(message.i64(slot::message::BODY_LENGTH)).map_err(|_| StreamDamage::BodyLength)
}

fn header<'a>(metadata: &'a [u8], kind: Header) -> Option<Table<'a>> {
    let message = Table::root(metadata)?;
    let is = message.u8(slot::message::HEADER_TYPE) == kind as u8;
    message.table(slot::message::HEADER).filter(|_| is)
}

/// Reads the first message of a stream.
pub(super) fn read_schema(metadata: &[u8]) -> Result<Schema, Damage> {
    let schema = header(metadata, Header::Schema).ok_or(StreamDamage::NoSchema)?;
    let tables = schema
        .tables(slot::schema::FIELDS)
        .ok_or(StreamDamage::NoFields)?;
    if tables.len() > FIELDS_MAX {
        return Err(StreamDamage::ColumnCount(tables.len()).into());
    }
    let mut fields = Vec::new();
    for table in tables {
        let table = table.ok_or(StreamDamage::UnreadableColumn)?;
        let name = table.text(slot::field::NAME).ok_or(Damage::UnnamedColumn)?;
        let is_int =
            table.u8(slot::field::TYPE_TYPE) == INT && table.table(slot::field::DICTIONARY).is_none();
        let int = table
            .table(slot::field::TYPE)
            .filter(|int| is_int && int.i32(slot::int::BIT_WIDTH) == 64)
            .ok_or_else(|| Damage::ColumnType {
                column: name.to_owned(),
            })?;
        fields.push(Field {
            name: name.to_owned(),
            signed: int.u8(slot::int::IS_SIGNED) != 0,
            metadata: Vec::new(),
        });
    }
    let pairs = schema.tables(slot::schema::METADATA);
    let version = pairs
        .into_iter()
        .flatten()
        .flatten()
        .find(|pair| pair.text(0) == Some(VERSION_KEY))
        .and_then(|pair| pair.text(1)?.parse().ok());
    Schema::new(version, fields)
}

pub(super) fn read_batch(schema: &Arc<Schema>, metadata: &[u8], body: &[u8]) -> Result<Batch, StreamDamage> {
    let batch = header(metadata, Header::RecordBatch).ok_or(StreamDamage::NoBatch)?;
    if batch.table(slot::batch::COMPRESSION).is_some() {
        return Err(StreamDamage::Compressed);
    }
    let length = batch.i64(slot::batch::LENGTH);
    let rows = usize::try_from(length).map_err(|_| StreamDamage::NegativeRows)?;
    let nodes = batch.pairs(slot::batch::NODES).ok_or(StreamDamage::NoColumns)?;
    let buffers = batch.pairs(slot::batch::BUFFERS).ok_or(StreamDamage::NoBuffers)?;
    if nodes.len() != schema.fields.len() || buffers.len() != 2 * nodes.len() {
        return Err(StreamDamage::OtherColumns);
    }
    let mut read = Batch::empty(Arc::clone(schema));
    read.columns.clear();
    for (index, field) in schema.fields.iter().enumerate() {
        let column = || field.name.clone();
        if nodes[index][0] != length {
            return Err(StreamDamage::OtherRows { column: column() });
        }
        let mask = slice(body, buffers[2 * index])?;
        let values = slice(body, buffers[2 * index + 1])?;
        let size = rows.checked_mul(8).ok_or(StreamDamage::TooManyRows)?;
        let values = values
            .get(..size)
            .ok_or_else(|| StreamDamage::ShortColumn { column: column() })?;
        if !mask.is_empty() && mask.len() < rows.div_ceil(8) {
            return Err(StreamDamage::ShortMask { column: column() });
        }
        let (words, _) = values.as_chunks::<8>();
        if schema.is_time(index) {
            read.times = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        } else if field.signed {
            let words = words.iter().map(|word| i64::from_le_bytes(*word)).collect();
            let present = (!mask.is_empty()).then(|| {
                let bit = |row: usize| mask[row / 8] >> (row % 8) & 1 == 1;
                (0..rows).map(bit).collect()
            });
            read.columns.push(Column::new(words, present));
        } else {
            // No version writes such a column: a later one's, of which nothing is known.
            read.columns.push(Column::default());
        }
    }
    Ok(read)
}

fn slice(body: &[u8], [offset, length]: [i64; 2]) -> Result<&[u8], StreamDamage> {
    let range = || -> Option<Range<usize>> {
        let start = usize::try_from(offset).ok()?;
        Some(start..start.checked_add(usize::try_from(length).ok()?)?)
    };
    range()
        .and_then(|range| body.get(range))
        .ok_or(StreamDamage::OutsideMessage)
}
