//! JSON documents: one a file, or one a line.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::RecordingError;

/// The content of a file of JSON lines.
#[derive(Debug)]
pub(super) struct Lines<T> {
    pub(super) documents: Vec<T>,
    /// Length in bytes of the whole lines: where to go on writing.
    pub(super) whole: u64,
    /// Bytes after the last whole line, from a killed writer.
    pub(super) torn: u64,
}

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
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Lines<T>, RecordingError> {
    let content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(RecordingError::io("read", path, source)),
    };
    parse(path, &content, 0)
}

/// Reads `content`, a part of the file `path` that begins after its first `before` lines.
pub(super) fn parse<T: DeserializeOwned>(
    path: &Path,
    content: &[u8],
    before: usize,
) -> Result<Lines<T>, RecordingError> {
    let mut lines = Lines {
        documents: Vec::new(),
        whole: 0,
        torn: 0,
    };
    for (index, line) in content.split_inclusive(|&byte| byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            // Even if it parses: a line is whole with its newline, or a resumed run would join the next to it.
            lines.torn = line.len() as u64;
            break;
        }
        lines.whole += line.len() as u64;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(line) {
            Ok(document) => lines.documents.push(document),
            Err(error) => {
                return Err(RecordingError::CorruptJson {
                    path: path.to_owned(),
                    line: before + index + 1,
                    reason: line_reason(&error),
                    advice: LINE_ADVICE,
                });
            }
        }
    }
    Ok(lines)
}

/// Reads a file that is one JSON document with a `schema` field of at most `known`.
pub(super) fn read_document<T: DeserializeOwned>(
    path: &Path,
    known: u32,
    advice: &'static str,
) -> Result<T, RecordingError> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: u32,
    }
    let content = std::fs::read(path).map_err(|source| RecordingError::io("read", path, source))?;
    let corrupt = |error: serde_json::Error| RecordingError::CorruptJson {
        path: path.to_owned(),
        line: error.line(),
        reason: line_reason(&error),
        advice,
    };
    // The head comes first: a newer document need not have the fields of this one.
    let head: Head = serde_json::from_slice(&content).map_err(corrupt)?;
    if head.schema > known {
        return Err(RecordingError::NewerSchema {
            path: path.to_owned(),
            found: head.schema,
            known,
        });
    }
    serde_json::from_slice(&content).map_err(corrupt)
}
