//! Control files of sysfs, procfs and cgroupfs: a value a file, read whole and written in one call.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A control file that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Reading failed, or the file holds no such value.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The kernel did not take the value.
    #[error("cannot write `{value}` to {}: {source}", path.display())]
    Write {
        path: PathBuf,
        value: String,
        source: io::Error,
    },
}

impl ControlError {
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        ControlError::Read {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn write(path: &Path, value: &str, source: io::Error) -> Self {
        ControlError::Write {
            path: path.to_owned(),
            value: value.to_owned(),
            source,
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            ControlError::Read { path, .. } | ControlError::Write { path, .. } => path,
        }
    }

    pub fn io(&self) -> &io::Error {
        match self {
            ControlError::Read { source, .. } | ControlError::Write { source, .. } => source,
        }
    }

    /// The answer without the file.
    pub fn into_io(self) -> io::Error {
        match self {
            ControlError::Read { source, .. } | ControlError::Write { source, .. } => source,
        }
    }

    pub fn errno(&self) -> Option<i32> {
        self.io().raw_os_error()
    }
}

/// The trimmed text of a control file.
///
/// # Errors
/// When the system refuses, or the file holds no text.
pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// The number in a control file.
///
/// # Errors
/// When the system refuses, or the file holds no number (`InvalidData`).
pub fn read_number(path: &Path) -> io::Result<u64> {
    let text = read(path)?;
    text.parse()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("`{text}` is not a number")))
}

/// Writes `value` in one call, as these files ask for, and never creates the file.
///
/// # Errors
/// When the system refuses, or takes a part of the value only.
pub fn write(path: &Path, value: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let written = file.write(value.as_bytes())?;
    if written == value.len() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("only {written} bytes of `{value}` were taken"),
        ))
    }
}

/// The value that counts when two readings are compared: the chosen word of `a [b] c`, and `Y`/`N` for a flag
/// written as `1`/`0`.
pub fn chosen(text: &str) -> &str {
    let text = text.trim();
    if let Some((_, rest)) = text.split_once('[')
        && let Some((chosen, _)) = rest.split_once(']')
    {
        return chosen;
    }
    match text {
        "Y" => "1",
        "N" => "0",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bracketed_word_is_the_choice() {
        assert_eq!(chosen("lzo-rle lzo [lz4] \n"), "lz4");
        assert_eq!(chosen("Y\n"), chosen("1"));
        assert_eq!(chosen("N"), chosen("0"));
        assert_eq!(chosen("60\n"), "60");
        assert_ne!(chosen("Y"), chosen("0"));
    }

    #[test]
    fn a_missing_control_file_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.max");
        assert!(write(&path, "1").is_err());
        assert!(!path.exists());
    }
}
