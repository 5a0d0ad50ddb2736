//! Disk space for the recording of a run, checked before the run starts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::quantity::bytes;
use plimsoll_model::recording::{Warning, WarningCode};
use plimsoll_model::scenario::Plan;

use crate::environment;

/// Bytes of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingSize {
    /// Of a run that takes as long as expected.
    pub expected: u64,
    /// Of a run that takes as long as it may.
    pub most: u64,
}

/// There is no room for the recording.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot make the recording in {}: it takes about {}, and {} are available{}; free some space, or name another \
     folder with `--output`",
    folder.display(), bytes(*.expected as f64), bytes(*.available as f64), beside(*.files)
)]
struct NoRoom {
    folder: PathBuf,
    expected: u64,
    /// Bytes of the file system that the files of the trials leave.
    available: u64,
    /// Bytes that the largest files of a trial take in the same file system.
    files: u64,
}

fn beside(files: u64) -> String {
    match files {
        0 => String::new(),
        files => format!(" beside the trials' files of {}", bytes(files as f64)),
    }
}

/// Refuses a run whose recording cannot be expected to fit. Returns a warning if it may not fit.
///
/// # Errors
/// Exit code 3, with the space that is available.
pub fn check_room(plan: &Plan, output: &Path, size: RecordingSize) -> Result<Option<Warning>, Failure> {
    let folder = existing(output);
    let space = environment::disk_available(&folder).or_exit(Exit::Missing)?;
    let files = files_beside(plan, &folder);
    let available = space.saturating_sub(files);
    if available < size.expected {
        let no_room = NoRoom {
            folder: output.to_owned(),
            expected: size.expected,
            available,
            files,
        };
        return Err(Failure::new(Exit::Missing, no_room));
    }
    Ok((available < size.most).then(|| {
        let text = format!(
            "the recording may take up to {}, and {} are available in {}",
            bytes(size.most as f64),
            bytes(available as f64),
            output.display()
        );
        Warning::new(WarningCode::LittleRoom, text)
    }))
}

/// The nearest ancestor that exists.
fn existing(folder: &Path) -> PathBuf {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let found = absolute.ancestors().find(|folder| folder.exists());
    found.unwrap_or(Path::new("/")).to_owned()
}

/// Bytes that the files of a trial take in the file system of `folder`, at most.
fn files_beside(plan: &Plan, folder: &Path) -> u64 {
    let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    let here = device(folder);
    let beside = plan.trials.iter().any(|trial| {
        let settings = &trial.settings;
        settings.uses_disk() && device(&settings.swap_dir) == here
    });
    if beside { plan.bounds().disk } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_made_yet_counts_as_the_one_that_it_will_be_made_in() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_owned();
        assert_eq!(existing(&here.join("a/b")), here);
        assert_eq!(existing(&here), here);
        assert!(existing(Path::new("not/there")).is_dir());
    }
}
