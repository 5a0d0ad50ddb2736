//! The samples of a run in progress: an Arrow IPC stream, which is readable without an end.
//!
//! A stream that was cut short or damaged must never do more than end or err: the sizes in its messages are checked
//! here before anything is read by them.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::append::AppendFile;
use super::arrow::{self, MARK, PREFIX};
use super::batch::{Batch, Schema};
use super::damage::{Damage, StreamDamage};
use super::folder::RecordingFile;
use super::model::RECORDING_SCHEMA;
use super::open::open;
use super::{RecordingError, Samples};

/// Most bytes of metadata: a larger length is damage.
const METADATA_MAX: usize = 16 << 20;
/// Most bytes of a batch: a larger one is damage, also in a file that is long enough for it.
const BODY_MAX: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Reader {
    input: BufReader<File>,
    place: RecordingFile,
    length: u64,
    /// Where the next message begins: the end of the last whole one.
    offset: u64,
    schema: Arc<Schema>,
}

/// One message: its metadata and its body.
struct Message {
    metadata: Vec<u8>,
    body: Vec<u8>,
}

impl Reader {
    /// Opens a stream and reads its schema. `None` when it was cut off before its schema was whole.
    pub(super) fn open(place: &RecordingFile) -> Result<Option<Self>, RecordingError> {
        let path = place.path();
        let io = |source| RecordingError::io("read", path, source);
        let file = open(place)?;
        let length = file.metadata().map_err(io)?.len();
        let mut reader = Reader {
            input: BufReader::with_capacity(1 << 20, file),
            place: place.clone(),
            length,
            offset: 0,
            schema: Arc::new(Schema::first_is_time(None, Vec::new())),
        };
        let Some(message) = reader.next_message()? else {
            return Ok(None);
        };
        let schema = arrow::read_schema(&message.metadata).map_err(|damage| reader.corrupt(0, damage))?;
        if let Some(found) = schema.version
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

    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The next batch, or nothing at the end or where the rest is torn.
    pub(super) fn next_batch(&mut self) -> Result<Option<Batch>, RecordingError> {
        let start = self.offset;
        let Some(message) = self.next_message()? else {
            return Ok(None);
        };
        arrow::read_batch(&self.schema, &message.metadata, &message.body)
            .map(Some)
            .map_err(|damage| self.corrupt(start, damage))
    }

    /// Looks again at a file that may have grown: a torn batch may be whole by now.
    pub(super) fn refresh(&mut self) -> Result<(), RecordingError> {
        let io = |source| RecordingError::io("read", self.place.path(), source);
        let length = self.input.get_ref().metadata().map_err(io)?.len();
        if length < self.offset {
            let read = self.offset;
            return Err(self.corrupt(length, StreamDamage::Shortened { length, read }));
        }
        self.input.seek(SeekFrom::Start(self.offset)).map_err(io)?;
        self.length = length;
        Ok(())
    }

    /// Whether the stream's path still names the file that is being read.
    pub(super) fn is_current(&self) -> bool {
        match (rustix::fs::fstat(self.input.get_ref()), self.place.stat()) {
            (Ok(open), Ok(named)) => (open.st_dev, open.st_ino) == (named.st_dev, named.st_ino),
            _ => false,
        }
    }

    /// Bytes of whole messages that were read.
    pub(super) fn whole(&self) -> u64 {
        self.offset
    }

    /// Bytes after the whole messages, from a killed writer.
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
            return Err(self.corrupt(self.offset, StreamDamage::NoMessage));
        }
        let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
        if size > METADATA_MAX {
            return Err(self.corrupt(self.offset, StreamDamage::MetadataLength(size)));
        }
        let left = left - PREFIX as u64;
        if size == 0 || (size as u64) > left {
            return Ok(None);
        }
        let mut metadata = vec![0; size];
        if !self.read(&mut metadata)? {
            return Ok(None);
        }
        let body = arrow::body_length(&metadata).map_err(|damage| self.corrupt(self.offset, damage))?;
        let left = left - size as u64;
        if body > left {
            return Ok(None);
        }
        if body > BODY_MAX {
            return Err(self.corrupt(self.offset, StreamDamage::BatchLength(body)));
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
            Err(source) => Err(RecordingError::io("read", self.place.path(), source)),
        }
    }

    pub(super) fn corrupt(&self, offset: u64, damage: impl Into<Damage>) -> RecordingError {
        RecordingError::CorruptSamples {
            path: self.place.path().to_owned(),
            offset,
            reason: damage.into(),
        }
    }
}

/// Reads a stream, with the number of bytes in whole messages and in a torn one.
pub(super) fn read(file: &RecordingFile) -> Result<(Samples, u64, u64), RecordingError> {
    let mut samples = Samples::default();
    let Some(mut reader) = Reader::open(file)? else {
        let length = file
            .stat()
            .map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        return Ok((samples, 0, length));
    };
    samples.declare(reader.schema().value_names());
    while let Some(batch) = reader.next_batch()? {
        samples.append(&batch);
    }
    samples.sort();
    Ok((samples, reader.whole(), reader.torn()))
}

/// Starts a stream of `schema` in a new file.
pub(super) fn create(place: RecordingFile, schema: &Schema) -> Result<AppendFile, RecordingError> {
    let mut file = AppendFile::create(place)?;
    file.append(&arrow::schema_message(schema))?;
    Ok(file)
}
