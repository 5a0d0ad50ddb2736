//! Why nothing can be watched.

use std::io;

use plimsoll_model::recording::RecordingError;
use plimsoll_sample::SampleError;

/// Why a monitor cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// There are no samples.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The recording cannot be written, or opened.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The program cannot be started.
    #[error("cannot start `{name}`: {source}; is it installed and in the PATH?")]
    Program {
        /// Its name, as it was given.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The target is not there.
    #[error("cannot watch {what}: {reason}")]
    Target {
        /// What was to be watched.
        what: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A thread was refused.
    #[error("cannot start a thread of the monitor: {0}; is there a limit on processes (`ulimit -u`)?")]
    Thread(#[source] io::Error),
}
