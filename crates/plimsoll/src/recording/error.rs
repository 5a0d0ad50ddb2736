//! What can go wrong with a recording, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The system refused.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was tried ("create", "read", ...).
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system, the quota or the file-size limit is full.
    #[error(
        "no room to {doing} {}: {source} ({} free there). What was recorded so far is kept and opens with \
         `plimsoll report {}`. Free some space or record elsewhere with `--output DIR`, then run again with `--resume {}`",
        path.display(), free_text(*.free), folder.display(), folder.display()
    )]
    Full {
        /// What was tried.
        doing: &'static str,
        /// The file that could not grow.
        path: PathBuf,
        /// The recording.
        folder: PathBuf,
        /// Bytes free on that file system, if known.
        free: Option<u64>,
        /// What the system said.
        source: io::Error,
    },
    /// A folder of that name is there.
    #[error("{} is there already; choose another place; a run that was cut short is resumed with `plimsoll run SCENARIO --resume {}`", path.display(), path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The name of the run cannot be a folder's name.
    #[error("`{name}` cannot be the name of a recording: it must be one plain folder name")]
    Name {
        /// The name.
        name: String,
    },
    /// There is no recording.
    #[error("{} is not a recording: {reason}. A recording is the folder that `plimsoll run` names, with a manifest.json in it", path.display())]
    NotARecording {
        /// The folder asked for.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// A newer program wrote it.
    #[error("{} has schema {found}, this program reads up to {known}: update plimsoll to open it", path.display())]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest one that is known here.
        known: u32,
    },
    /// A JSON document is damaged.
    #[error("{}, line {line}, is damaged: {reason}. {advice}", path.display())]
    CorruptJson {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// The samples are damaged.
    #[error(
        "{} is damaged at byte {offset}: {reason}. Restore it from a copy; or move it away, then the recording opens \
         without its samples", path.display()
    )]
    CorruptSamples {
        /// The file.
        path: PathBuf,
        /// Offset of the part that cannot be read.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process writes it.
    #[error("{} is being written by another process; wait for it to end, or stop it with Ctrl-C", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It recorded another plan.
    #[error(
        "{} cannot be resumed with this plan: {}. Run it with the scenario and settings it was started with, or start a new run",
        path.display(), differences.join("; ")
    )]
    OtherPlan {
        /// The folder.
        path: PathBuf,
        /// What differs, in words.
        differences: Vec<String>,
    },
    /// It was recorded by a program with other columns.
    #[error("{} cannot be resumed: {reason}. It still opens with `plimsoll report {}`; start a new run to record more", path.display(), path.display())]
    OtherVersion {
        /// The folder.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
    /// A figure was infinite or not a number; JSON cannot hold it.
    #[error(
        "{document} has a figure that is not finite: {field}. This is a defect of plimsoll; please report it"
    )]
    NotFinite {
        /// The document.
        document: String,
        /// The field.
        field: String,
    },
    /// A document could not be turned into JSON.
    #[error("cannot encode {}: {reason}", path.display())]
    Encode {
        /// The file it was meant for.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl RecordingError {
    /// Wraps what the system said about `path` while `doing`; a full disk becomes [`RecordingError::Full`].
    pub(super) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        if !is_full(&source) {
            return RecordingError::Io {
                doing,
                path: path.to_owned(),
                source,
            };
        }
        let folder = path.parent().unwrap_or(path).to_owned();
        RecordingError::Full {
            doing,
            path: path.to_owned(),
            free: free_bytes(&folder),
            folder,
            source,
        }
    }

    /// True when there was no room (disk, quota or file-size limit).
    pub fn is_full(&self) -> bool {
        matches!(self, RecordingError::Full { .. })
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

fn free_text(free: Option<u64>) -> String {
    match free {
        Some(bytes) if bytes < 10 << 20 => format!("{} KiB", bytes >> 10),
        Some(bytes) => format!("{} MiB", bytes >> 20),
        None => "an unknown amount".to_owned(),
    }
}
