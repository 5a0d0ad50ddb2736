//! JSON documents: one a file, or one a line.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RecordingError;
use super::folder::RecordingFile;
use super::open::{max_bytes, open, open_if_there};

/// The content of a file of JSON lines.
#[derive(Debug)]
pub(super) struct Lines<T> {
    pub(super) documents: Vec<T>,
    /// Number of the whole lines, blank ones too.
    pub(super) count: usize,
    /// Length in bytes of the whole lines: where to go on writing.
    pub(super) whole: u64,
    /// Bytes after the last whole line, from a killed writer.
    pub(super) torn: u64,
}

/// Most bytes of a line. A trial of 10,000 phases with their histograms has a tenth of it.
const LINE_MAX: u64 = 64 << 20;

const LINE_ADVICE: &str = "restore the file from a copy, or delete that line to open the rest";

/// Encodes a document as one line, newline included.
pub(super) fn encode_line<T: Serialize>(path: &Path, document: &T) -> Result<Vec<u8>, RecordingError> {
    let mut line = encode(path, document, serde_json::to_vec)?;
    line.push(b'\n');
    Ok(line)
}

/// Encodes a document with indentation.
pub(super) fn encode_file<T: Serialize>(path: &Path, document: &T) -> Result<Vec<u8>, RecordingError> {
    let mut text = encode(path, document, serde_json::to_vec_pretty)?;
    text.push(b'\n');
    Ok(text)
}

fn encode<T: Serialize>(
    path: &Path,
    document: &T,
    to_vec: fn(&T) -> serde_json::Result<Vec<u8>>,
) -> Result<Vec<u8>, RecordingError> {
    to_vec(document).map_err(|error| RecordingError::Encode {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Rejects a document with a value that is not finite: JSON would hold `null`, which no reader accepts.
///
/// `document` must be of a type without optional fields, so that every `null` is such a value.
pub(super) fn require_finite<T: Serialize>(name: &str, document: &T) -> Result<(), RecordingError> {
    let value = serde_json::to_value(document).unwrap_or_default();
    match null_path(&value) {
        None => Ok(()),
        Some(field) => Err(RecordingError::NotFinite {
            document: name.to_owned(),
            field,
        }),
    }
}

fn null_path(value: &serde_json::Value) -> Option<String> {
    let inside = |(name, value): (String, &serde_json::Value)| {
        null_path(value).map(|rest| {
            if rest.is_empty() {
                name
            } else {
                format!("{name}.{rest}")
            }
        })
    };
    match value {
        serde_json::Value::Null => Some(String::new()),
        serde_json::Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, value)| (index.to_string(), value))
            .find_map(inside),
        serde_json::Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), value))
            .find_map(inside),
        _ => None,
    }
}

/// serde's error without its line number, which is always 1.
fn line_reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => format!("{reason} at column {}", error.column()),
        None => text,
    }
}

/// Reads a file of JSON lines. A last line without its newline is torn, not damage.
pub(super) fn read<T: DeserializeOwned>(file: &RecordingFile) -> Result<Lines<T>, RecordingError> {
    match open_if_there(file)? {
        Some(opened) => parse(file.path(), BufReader::with_capacity(1 << 18, opened), 0),
        None => parse(file.path(), std::io::empty(), 0),
    }
}

/// Reads `input`, a part of the file `path` that begins after its first `before` lines, line by line.
pub(super) fn parse<T: DeserializeOwned>(
    path: &Path,
    mut input: impl BufRead,
    before: usize,
) -> Result<Lines<T>, RecordingError> {
    let mut lines = Lines {
        documents: Vec::new(),
        count: 0,
        whole: 0,
        torn: 0,
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut input)
            .take(LINE_MAX)
            .read_until(b'\n', &mut line)
            .map_err(|source| RecordingError::io("read", path, source))?;
        let damaged = |reason: String| RecordingError::CorruptJson {
            path: path.to_owned(),
            line: before + lines.count + 1,
            reason,
            advice: LINE_ADVICE,
        };
        if line.len() as u64 == LINE_MAX && !line.ends_with(b"\n") {
            return Err(damaged(format!("it has more than {LINE_MAX} bytes")));
        }
        if !line.ends_with(b"\n") {
            // Even if it parses: a line is whole with its newline, or a resumed run would join the next to it.
            lines.torn = line.len() as u64;
            return Ok(lines);
        }
        if !line.trim_ascii().is_empty() {
            let document = serde_json::from_slice(&line);
            lines
                .documents
                .push(document.map_err(|error| damaged(line_reason(&error)))?);
        }
        lines.count += 1;
        lines.whole += line.len() as u64;
    }
}

/// Reads a file that is one JSON document with a `schema` field of at most `known`.
pub(super) fn read_document<T: DeserializeOwned>(
    file: &RecordingFile,
    known: u32,
    advice: &'static str,
) -> Result<T, RecordingError> {
    parse_document(file.path(), &read_whole(file)?, known, advice)
}

/// As [`read_document`], for a document that may have hundreds of megabytes: reads it once if nothing is wrong with it.
pub(super) fn read_large_document<T: DeserializeOwned>(
    file: &RecordingFile,
    known: u32,
    advice: &'static str,
    schema_of: fn(&T) -> u32,
) -> Result<T, RecordingError> {
    let content = read_whole(file)?;
    match serde_json::from_slice(&content) {
        Ok(document) if schema_of(&document) <= known => Ok(document),
        _ => parse_document(file.path(), &content, known, advice),
    }
}

fn read_whole(file: &RecordingFile) -> Result<Vec<u8>, RecordingError> {
    let path = file.path();
    let failed = |source| RecordingError::io("read", path, source);
    let opened = open(file)?;
    // To the byte: a buffer that doubles when it is full takes up to twice the memory.
    let length = opened.metadata().map_err(failed)?.len().min(max_bytes(path));
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or(0).saturating_add(1));
    opened
        .take(max_bytes(path))
        .read_to_end(&mut content)
        .map_err(failed)?;
    Ok(content)
}

fn parse_document<T: DeserializeOwned>(
    path: &Path,
    content: &[u8],
    known: u32,
    advice: &'static str,
) -> Result<T, RecordingError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: u32,
    }
    let corrupt = |error: serde_json::Error| RecordingError::CorruptJson {
        path: path.to_owned(),
        line: error.line(),
        reason: line_reason(&error),
        advice,
    };
    // The head comes first: a newer document need not have the fields of this one.
    let head: Head = serde_json::from_slice(content).map_err(corrupt)?;
    if head.schema > known {
        return Err(RecordingError::NewerSchema {
            path: path.to_owned(),
            found: head.schema,
            known,
        });
    }
    serde_json::from_slice(content).map_err(corrupt)
}
