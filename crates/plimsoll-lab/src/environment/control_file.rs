//! Files of sysfs, procfs and cgroupfs through which the kernel is asked and told.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// The trimmed text of a control file.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    text.truncate(text.trim_end().len());
    Ok(text)
}

/// The number in a control file.
pub(super) fn read_number(path: &Path) -> io::Result<u64> {
    let text = read(path)?;
    text.parse()
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, format!("`{text}` is not a number")))
}

/// Writes `value` in one call, as these files ask for, and never creates the file.
pub(super) fn write(path: &Path, value: &str) -> io::Result<()> {
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

/// Value of `key` in a file of `key value` lines (`memory.stat`, `memory.events`, `memory.oom_control`).
pub(super) fn read_field(path: &Path, key: &str) -> io::Result<Option<u64>> {
    let text = fs::read_to_string(path)?;
    Ok(text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    }))
}

/// The value that counts when two readings are compared: the chosen word of `a [b] c`, and `Y`/`N` for a flag
/// written as `1`/`0`.
pub(super) fn chosen(text: &str) -> &str {
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
    fn the_chosen_word_is_what_counts() {
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
