//! The lock of a recording: its writer holds it exclusively.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::RecordingError;
use super::folder::RecordingFolder;

/// How often, and after how many milliseconds, a lock is tried again that may be only looked at by [`is_written`].
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE_MS: u64 = 4;

/// Takes the folder for writing. The lock goes with the process, however it ends.
pub(super) fn lock(folder: &RecordingFolder) -> Result<File, RecordingError> {
    let handle = folder.readable();
    let folder = folder.path();
    let handle = handle.map_err(|source| RecordingError::io("open", folder, source))?;
    for attempt in 1.. {
        match flock(handle.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(rustix::io::Errno::WOULDBLOCK) if attempt < LOCK_TRIES => {
                std::thread::sleep(Duration::from_millis(LOCK_PAUSE_MS));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(RecordingError::InUse {
                    path: folder.to_owned(),
                });
            }
            Err(error) => return Err(RecordingError::io("lock", folder, error.into())),
        }
    }
    Ok(handle)
}

/// Whether a process writes the recording in `folder` now.
///
/// To know, the lock is taken for a moment, shared, so that several readers do not take each other for a writer.
pub(super) fn is_written(folder: &Path) -> Result<bool, RecordingError> {
    let handle = open_folder(folder)?;
    match flock(handle.as_fd(), FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(error) => Err(RecordingError::io("lock", folder, error.into())),
    }
}

fn open_folder(folder: &Path) -> Result<File, RecordingError> {
    // Without waiting: a pipe may have taken the folder's place.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(handle) => Ok(File::from(handle)),
        Err(error) => Err(RecordingError::io("open", folder, error.into())),
    }
}
