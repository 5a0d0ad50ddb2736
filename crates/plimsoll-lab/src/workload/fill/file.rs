//! The bytes of a real file, repeated.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::StreamError;

/// Bytes of the file that are used at most.
pub(super) const LIMIT: u64 = 64 << 20;
/// The stream repeats a short file in its buffer, so that copies are long.
const LONG_COPY: usize = 64 << 10;

/// The file's bytes: one or several whole copies, never empty. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Contents(Arc<[u8]>);

impl Contents {
    pub(super) fn read(path: &Path) -> Result<Contents, StreamError> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LIMIT).read_to_end(&mut bytes))
            .map_err(|source| StreamError::Unreadable {
                path: path.to_owned(),
                source,
            })?;
        if bytes.is_empty() {
            return Err(StreamError::Empty {
                path: path.to_owned(),
            });
        }
        let copies = LONG_COPY.div_ceil(bytes.len());
        Ok(Contents(match copies {
            0 | 1 => bytes.into(),
            copies => bytes.repeat(copies).into(),
        }))
    }

    /// Writes the repeated bytes from `offset` on into all of `target`.
    pub(super) fn write(&self, offset: u64, mut target: &mut [u8]) {
        let mut within = (offset % self.0.len() as u64) as usize;
        while !target.is_empty() {
            let length = (self.0.len() - within).min(target.len());
            target[..length].copy_from_slice(&self.0[within..within + length]);
            target = &mut target[length..];
            within = 0;
        }
    }
}
