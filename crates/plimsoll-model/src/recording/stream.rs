//! The samples while a run goes on: an Arrow IPC stream, which needs no end to be readable.
//!
//! The reader is our own for one reason: a stream that was cut short or damaged must never do more than end or
//! err, and the sizes in its messages are checked here before anything is read by them. The columns are 64-bit
//! integers alone, which keeps that short.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::Int64Builder;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_ipc::writer::StreamWriter;
use arrow_ipc::{MessageHeader, Type, root_as_message};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};

use super::append::AppendFile;
use super::model::RECORDING_SCHEMA;
use super::schema::schema_version;
use super::{RecordingError, Samples};

/// Bytes before the metadata of a message: a mark and the metadata's length.
const PREFIX: usize = 8;
const MARK: [u8; 4] = [0xff; 4];
/// More metadata than any schema of ours could need: a larger length is damage.
const METADATA_MAX: usize = 16 << 20;

/// Encodes batches into the messages of a stream.
pub(super) struct Encoder {
    writer: StreamWriter<Vec<u8>>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// The encoder and the stream's head (the schema).
    pub(super) fn new(schema: &SchemaRef) -> Result<(Self, Vec<u8>), ArrowError> {
        let mut writer = StreamWriter::try_new(Vec::new(), schema)?;
        let head = std::mem::take(writer.get_mut());
        Ok((Encoder { writer }, head))
    }

    /// One batch as one message.
    pub(super) fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        let result = self.writer.write(batch);
        let message = std::mem::take(self.writer.get_mut());
        result.map(|()| message)
    }
}

/// Reads a stream batch by batch.
#[derive(Debug)]
pub(super) struct Reader {
    input: BufReader<File>,
    path: PathBuf,
    length: u64,
    /// Where the next message begins: the end of the last whole one.
    offset: u64,
    schema: SchemaRef,
}

/// One message: its metadata and its body.
struct Message {
    metadata: Vec<u8>,
    body: Vec<u8>,
}

impl Reader {
    /// Opens a stream and reads its schema. `None` when it was cut off before its schema was whole.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, RecordingError> {
        let io = |source| RecordingError::io("read", path, source);
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut reader = Reader {
            input: BufReader::with_capacity(1 << 20, file),
            path: path.to_owned(),
            length,
            offset: 0,
            schema: Arc::new(Schema::empty()),
        };
        let Some(message) = reader.next_message()? else {
            return Ok(None);
        };
        let schema = read_schema(&message.metadata).map_err(|reason| reader.corrupt(0, reason))?;
        if let Some(found) = schema_version(&schema)
            && found > RECORDING_SCHEMA
        {
            return Err(RecordingError::NewerSchema {
                path: path.to_owned(),
                found,
                known: RECORDING_SCHEMA,
            });
        }
        reader.schema = Arc::new(schema);
        Ok(Some(reader))
    }

    /// The stream's schema.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch, or nothing at the end or where the rest is torn.
    pub(super) fn next_batch(&mut self) -> Result<Option<RecordBatch>, RecordingError> {
        let start = self.offset;
        let Some(message) = self.next_message()? else {
            return Ok(None);
        };
        read_batch(&self.schema, &message)
            .map(Some)
            .map_err(|reason| self.corrupt(start, reason))
    }

    /// Looks again at a file that may have grown: what was torn may be whole by now.
    pub(super) fn refresh(&mut self) -> Result<(), RecordingError> {
        let io = |source| RecordingError::io("read", &self.path, source);
        let length = self.input.get_ref().metadata().map_err(io)?.len();
        if length < self.offset {
            let reason = format!("it was cut to {length} bytes after {} had been read", self.offset);
            return Err(self.corrupt(length, reason));
        }
        self.input.seek(SeekFrom::Start(self.offset)).map_err(io)?;
        self.length = length;
        Ok(())
    }

    /// Whether the stream's path still names the file that is being read.
    pub(super) fn is_current(&self) -> bool {
        match (self.input.get_ref().metadata(), std::fs::metadata(&self.path)) {
            (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }

    /// Bytes of whole messages that were read.
    pub(super) fn whole(&self) -> u64 {
        self.offset
    }

    /// Bytes that follow the whole messages: what a killed writer left of one.
    pub(super) fn torn(&self) -> u64 {
        self.length - self.offset
    }

    fn next_message(&mut self) -> Result<Option<Message>, RecordingError> {
        let left = self.length - self.offset;
        if left < PREFIX as u64 {
            return Ok(None);
        }
        let mut prefix = [0; PREFIX];
        if !self.read(&mut prefix)? {
            return Ok(None);
        }
        let (mark, size) = prefix.split_at(4);
        if mark != MARK {
            return Err(self.corrupt(self.offset, "no Arrow message begins here".to_owned()));
        }
        let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
        if size > METADATA_MAX {
            return Err(self.corrupt(self.offset, format!("{size} bytes of metadata cannot be")));
        }
        let left = left - PREFIX as u64;
        if size == 0 || (size as u64) > left {
            return Ok(None);
        }
        let mut metadata = vec![0; size];
        if !self.read(&mut metadata)? {
            return Ok(None);
        }
        let body = root_as_message(&metadata)
            .map_err(|error| self.corrupt(self.offset, format!("unreadable message ({error})")))?
            .bodyLength();
        let left = left - size as u64;
        let body = u64::try_from(body)
            .map_err(|_| self.corrupt(self.offset, "the length of its body is negative".to_owned()))?;
        if body > left {
            return Ok(None);
        }
        let mut content = vec![0; body as usize];
        if !self.read(&mut content)? {
            return Ok(None);
        }
        self.offset += PREFIX as u64 + size as u64 + body;
        Ok(Some(Message {
            metadata,
            body: content,
        }))
    }

    /// Fills `into`; false where the file has become shorter meanwhile, as its writer took a torn message back.
    fn read(&mut self, into: &mut [u8]) -> Result<bool, RecordingError> {
        match self.input.read_exact(into) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(source) => Err(RecordingError::io("read", &self.path, source)),
        }
    }

    pub(super) fn corrupt(&self, offset: u64, reason: String) -> RecordingError {
        RecordingError::CorruptSamples {
            path: self.path.clone(),
            offset,
            reason,
        }
    }
}

/// Reads what there is of a stream, with the bytes of whole messages and of a torn one.
pub(super) fn read(path: &Path) -> Result<(Samples, u64, u64), RecordingError> {
    let mut samples = Samples::default();
    let Some(mut reader) = Reader::open(path)? else {
        let length = std::fs::metadata(path).map(|file| file.len()).unwrap_or(0);
        return Ok((samples, 0, length));
    };
    let schema = reader.schema().clone();
    samples.declare(super::schema::value_columns(&schema));
    loop {
        let start = reader.whole();
        let Some(batch) = reader.next_batch()? else {
            break;
        };
        samples
            .append(&batch)
            .map_err(|reason| reader.corrupt(start, reason))?;
    }
    samples.sort();
    Ok((samples, reader.whole(), reader.torn()))
}

/// Starts a stream of `schema` in a new file.
pub(super) fn create(path: PathBuf, schema: &SchemaRef) -> Result<(Encoder, AppendFile), RecordingError> {
    let (encoder, head) = Encoder::new(schema).map_err(|error| RecordingError::Encode {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    let mut file = AppendFile::create(path)?;
    file.append(&head)?;
    Ok((encoder, file))
}

fn read_schema(metadata: &[u8]) -> Result<Schema, String> {
    let message = root_as_message(metadata).map_err(|error| error.to_string())?;
    let schema = message
        .header_as_schema()
        .ok_or("the first message is no schema")?;
    let mut fields = Vec::new();
    for field in schema.fields().ok_or("the schema has no fields")? {
        let name = field.name().ok_or("a column has no name")?;
        let int = (field.type_type() == Type::Int && field.dictionary().is_none())
            .then(|| field.type_as_int())
            .flatten()
            .filter(|int| int.bitWidth() == 64)
            .ok_or_else(|| format!("column `{name}` is not of 64-bit integers"))?;
        let kind = if int.is_signed() {
            DataType::Int64
        } else {
            DataType::UInt64
        };
        fields.push(Field::new(name, kind, true));
    }
    let metadata: HashMap<String, String> = schema
        .custom_metadata()
        .iter()
        .flatten()
        .filter_map(|pair| Some((pair.key()?.to_owned(), pair.value()?.to_owned())))
        .collect();
    Ok(Schema::new(fields).with_metadata(metadata))
}

fn read_batch(schema: &SchemaRef, message: &Message) -> Result<RecordBatch, String> {
    let header = root_as_message(&message.metadata).map_err(|error| error.to_string())?;
    if header.header_type() != MessageHeader::RecordBatch {
        return Err("a message is not a record batch".to_owned());
    }
    let batch = header
        .header_as_record_batch()
        .ok_or("a record batch has no header")?;
    if batch.compression().is_some() {
        return Err("it is compressed, which no version of plimsoll writes".to_owned());
    }
    let rows = usize::try_from(batch.length()).map_err(|_| "a negative number of rows")?;
    let buffers = batch.buffers().ok_or("a record batch has no buffers")?;
    let nodes = batch.nodes().ok_or("a record batch has no columns")?;
    if nodes.len() != schema.fields().len() || buffers.len() != 2 * nodes.len() {
        return Err("a record batch does not have the columns of the schema".to_owned());
    }
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(nodes.len());
    for (index, field) in schema.fields().iter().enumerate() {
        if nodes.get(index).length() != batch.length() {
            return Err(format!("column `{}` has another number of rows", field.name()));
        }
        let slice = |buffer: &arrow_ipc::Buffer| body_slice(&message.body, buffer.offset(), buffer.length());
        let validity = slice(buffers.get(2 * index))?;
        let values = slice(buffers.get(2 * index + 1))?;
        let size = rows.checked_mul(8).ok_or("too many rows")?;
        let values = values
            .get(..size)
            .ok_or_else(|| format!("column `{}` is too short", field.name()))?;
        if !validity.is_empty() && validity.len() < rows.div_ceil(8) {
            return Err(format!("the mask of column `{}` is too short", field.name()));
        }
        arrays.push(column(field, validity, values, rows));
    }
    RecordBatch::try_new(schema.clone(), arrays).map_err(|error| error.to_string())
}

fn body_slice(body: &[u8], offset: i64, length: i64) -> Result<&[u8], String> {
    let range = || -> Option<Range<usize>> {
        let start = usize::try_from(offset).ok()?;
        Some(start..start.checked_add(usize::try_from(length).ok()?)?)
    };
    range()
        .and_then(|range| body.get(range))
        .ok_or_else(|| "a column lies outside its message".to_owned())
}

/// One column of `rows` values; the caller has checked both lengths.
fn column(field: &Field, validity: &[u8], values: &[u8], rows: usize) -> ArrayRef {
    let words = values.chunks_exact(8).map(|chunk| {
        i64::from_le_bytes([
            chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
        ])
    });
    if field.data_type() == &DataType::UInt64 {
        return Arc::new(UInt64Array::from_iter_values(words.map(|word| word as u64)));
    }
    let words: Vec<i64> = words.collect();
    let mut builder = Int64Builder::with_capacity(rows);
    if validity.is_empty() {
        builder.append_slice(&words);
    } else {
        let present: Vec<bool> = (0..rows)
            .map(|row| validity[row / 8] >> (row % 8) & 1 == 1)
            .collect();
        builder.append_values(&words, &present);
    }
    Arc::new(builder.finish())
}
