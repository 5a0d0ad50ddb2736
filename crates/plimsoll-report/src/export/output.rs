//! Where an export goes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use plimsoll_model::recording::replace_file;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 18;

/// Writes a file through `write`: the file of that name, or the one that it links to, is replaced whole or stays as it
/// was. A pipe or a device is written to directly.
///
/// # Errors
/// The error of `write` or of the system; leaves no file behind.
pub fn to_file<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    let buffered = |file: File| -> Result<(), E> {
        let mut output = BufWriter::with_capacity(BUFFER, file);
        write(&mut output)?;
        Ok(output.flush()?)
    };
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => buffered(OpenOptions::new().write(true).open(path)?),
        Ok(_) => replace_file(&fs::canonicalize(path)?, |file| buffered(file.try_clone()?)),
        Err(_) => replace_file(path, |file| buffered(file.try_clone()?)),
    }
}
