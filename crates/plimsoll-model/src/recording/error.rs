//! Errors of recordings, with their remedies.

use std::io;
use std::path::{Path, PathBuf};

use super::damage::Damage;
use super::difference::{PlanDifference, listed};
use crate::quantity;

/// Why a recording could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The file system or the quota is full, or the file reached its size limit.
    #[error(
        "cannot {doing} {}: {source} ({} free); the samples so far are in the recording: see `plimsoll report {}`. Free \
         some space or record elsewhere with `--output DIR`, then run again with `--resume {}`",
        path.display(), free_text(*.free), folder.display(), folder.display()
    )]
    Full {
        doing: &'static str,
        /// The file that could not grow.
        path: PathBuf,
        folder: PathBuf,
        /// Bytes free on that file system, if known.
        free: Option<u64>,
        source: io::Error,
    },
    #[error("cannot create {}: it exists; choose another place, or resume an interrupted run with `plimsoll run SCENARIO --resume {}`", path.display(), path.display())]
    Exists { path: PathBuf },
    /// Another user swapped the new folder for another one.
    #[error("cannot create {}: another user has put something else in its place; record below a folder that only you can write to (`--output DIR`)", path.display())]
    Replaced { path: PathBuf },
    /// The name of the run is no valid folder name.
    #[error("cannot create recording `{name}`: the name must be one plain folder name")]
    Name { name: String },
    #[error("{} is not a recording: {reason}; name the folder that `plimsoll run` printed, with a manifest.json in it", path.display())]
    NotARecording { path: PathBuf, reason: NotARecording },
    /// A document is a link, a folder, a pipe, a socket or a device.
    #[error("cannot read {}: it is {kind}, not a regular file; replace it by a copy of the file itself", path.display())]
    NotAFile { path: PathBuf, kind: &'static str },
    #[error(
        "cannot read {}: it has {bytes} bytes, and the most is {max}; no version of plimsoll writes such a file: restore \
         it from a copy", path.display()
    )]
    TooLarge { path: PathBuf, bytes: u64, max: u64 },
    #[error("cannot open {}: it has schema {found}, and this program reads up to {known}; update plimsoll", path.display())]
    NewerSchema {
        path: PathBuf,
        found: u32,
        /// The newest one that is known here.
        known: u32,
    },
    #[error("cannot read {}: line {line} is damaged: {reason}; {advice}", path.display())]
    CorruptJson {
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        reason: String,
        advice: &'static str,
    },
    #[error(
        "cannot read {}: it is damaged at byte {offset}: {reason}; restore it from a copy, or move it away to open the \
         recording without its samples", path.display()
    )]
    CorruptSamples {
        path: PathBuf,
        /// Offset of the part that cannot be read.
        offset: u64,
        reason: Damage,
    },
    #[error("cannot write {}: another process writes it; wait for its end, or stop it with Ctrl-C", path.display())]
    InUse { path: PathBuf },
    #[error(
        "cannot resume {} with this plan: {}; use the scenario and settings of its first part, or start a new run",
        path.display(), listed(differences)
    )]
    OtherPlan {
        path: PathBuf,
        differences: Vec<PlanDifference>,
    },
    /// A version with other columns recorded it.
    #[error("cannot resume {}: {reason}; `plimsoll report {}` still opens it; start a new run to record more", path.display(), path.display())]
    OtherVersion { path: PathBuf, reason: String },
    /// A value is infinite or not a number; JSON cannot hold it.
    #[error(
        "cannot encode {document}: {field} is not finite; this is a defect of plimsoll, please report it"
    )]
    NotFinite { document: String, field: String },
    /// serde cannot encode a document.
    #[error("cannot encode {}: {reason}", path.display())]
    Encode {
        /// The file it was meant for.
        path: PathBuf,
        reason: String,
    },
}

/// The reason that a path names no recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotARecording {
    #[error("there is no such folder")]
    Absent,
    #[error("it is not a folder")]
    NotAFolder,
    #[error("it holds no manifest.json")]
    NoManifest,
}

impl RecordingError {
    /// Wraps the system's error for `path`; a full disk becomes [`RecordingError::Full`].
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

    /// True for a full disk, a used-up quota or the file-size limit.
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
    free.map_or("an unknown amount".to_owned(), |bytes| {
        quantity::bytes(bytes as f64)
    })
}
