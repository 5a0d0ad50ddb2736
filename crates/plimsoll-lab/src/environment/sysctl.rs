//! Values in control files: changed through the journal, and restored unless another program has changed them since.

use std::io;
use std::path::Path;

use plimsoll_proc::{chosen, read, write};

use super::undo::{UndoError, Undone};

use super::change::Change;
use super::error::EnvironmentError;
use super::journal::Journal;

/// Sets `path` to `value`, journalled. Returns the value before, or `None` when it held `value` already.
///
/// # Errors
/// When it cannot be read or written, or does not show the value afterwards.
pub(super) fn set(
    journal: &mut Journal,
    path: &Path,
    value: &str,
) -> Result<Option<String>, EnvironmentError> {
    let current = || read(path).map_err(|source| EnvironmentError::reading(path, source));
    let before = chosen(&current()?).to_owned();
    if before == chosen(value) {
        return Ok(None);
    }
    let number = journal.record(Change::Value {
        path: path.to_owned(),
        before: before.clone(),
        wrote: value.to_owned(),
    })?;
    if let Err(source) = write(path, value) {
        journal.record_undone(number)?;
        return Err(EnvironmentError::writing(path, value, source));
    }
    let now = current()?;
    if chosen(&now) == chosen(value) {
        return Ok(Some(before));
    }
    Err(EnvironmentError::NotTaken {
        path: path.to_owned(),
        wanted: value.to_owned(),
        found: chosen(&now).to_owned(),
    })
}

/// Restores `before` if the file still holds `wrote`.
pub(super) fn undo(path: &Path, before: &str, wrote: &str) -> Result<Undone, UndoError> {
    let now = match read(path) {
        Ok(now) => now,
        // The module or device that it belonged to is gone, and its value with it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Undone::Gone),
        Err(source) => return Err(UndoError::system("read it")(source)),
    };
    if chosen(&now) == chosen(before) {
        return Ok(Undone::Gone);
    }
    if chosen(&now) != chosen(wrote) {
        return Ok(Undone::NotOurs(format!(
            "it holds `{}`, not the `{wrote}` of this run: another program changed it (it was `{before}`)",
            chosen(&now)
        )));
    }
    write(path, before).map_err(UndoError::system(format!("write `{before}` back")))?;
    match read(path) {
        Ok(now) if chosen(&now) == chosen(before) => Ok(Undone::Gone),
        Ok(now) => Err(UndoError::NotTaken {
            before: before.to_owned(),
            found: chosen(&now).to_owned(),
        }),
        Err(source) => Err(UndoError::system("read it back")(source)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_value_is_restored_unless_another_process_changed_it() {
        for (now, expected, alone) in [("7", "1", false), ("1", "1", false), ("9", "9", true)] {
            let folder = tempfile::tempdir().unwrap();
            let value = folder.path().join("value");
            fs::write(&value, now).unwrap();
            let undone = undo(&value, "1", "7").unwrap();
            assert_eq!(matches!(undone, Undone::NotOurs(_)), alone, "held {now}");
            assert_eq!(fs::read_to_string(&value).unwrap(), expected, "held {now}");
        }
        let absent = Path::new("/proc/sys/vm/plimsoll_absent");
        assert_eq!(undo(absent, "1", "7").unwrap(), Undone::Gone);
    }
}
