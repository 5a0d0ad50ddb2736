//! Files that the user names for output.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use plimsoll_model::recording::{link_target, replace_file};

/// Bytes that are written at once.
const BUFFER: usize = 1 << 18;

/// Writes a file through `write`: the file of that name, or the one that it links to, is replaced whole or stays as it
/// was. A pipe or a device is written to directly. A link of another user than the effective one and root is refused.
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
    let target = link_target(path)?;
    match fs::metadata(&target) {
        Ok(there) if !there.is_file() => {
            let direct = OpenOptions::new().write(true).open(&target)?;
            if direct.metadata()?.is_file() {
                return Err(io::Error::other("another program has replaced it meanwhile").into());
            }
            buffered(direct)
        }
        _ => replace_file(&target, |file| buffered(file.try_clone()?)),
    }
}
