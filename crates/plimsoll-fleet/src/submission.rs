//! The submitted job of a fleet: `submitted.json`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{FleetError, Folder};

const FILE: &str = "submitted.json";
/// The commands of a submission.
const SCRIPT: &str = "submit.sh";
const VERSION: u32 = 1;
const MOST_BYTES: u64 = 1 << 16;

/// A job that an engine accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submitted {
    pub version: u32,
    /// As in the plan: `slurm`, `ssh`, `kubernetes`.
    pub engine: String,
    /// The engine's id of the job: a number of Slurm, a process id, a name.
    pub job: String,
    /// UTC, RFC 3339.
    pub at: String,
}

impl Submitted {
    /// A job that the engine accepts now.
    pub fn now(engine: &str, job: impl ToString) -> Submitted {
        Submitted {
            version: VERSION,
            engine: engine.to_owned(),
            job: job.to_string(),
            at: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        }
    }

    /// The job of a fleet's folder; `None` before it is submitted.
    ///
    /// # Errors
    /// A file that cannot be read, or has unexpected content.
    pub fn read(folder: &Path) -> Result<Option<Submitted>, FleetError> {
        Folder::open(folder)?.read_json(FILE, MOST_BYTES, VERSION)
    }

    /// Writes it into a fleet's folder.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, folder: &Path) -> Result<(), FleetError> {
        Folder::open(folder)?.write_json(FILE, self)
    }

    /// Removes it, so that the fleet can be submitted again.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(folder: &Path) -> Result<(), FleetError> {
        Folder::open(folder)?.remove(FILE)
    }
}

/// The commands that a submission runs.
///
/// # Errors
/// A missing file; the system's.
pub fn submit_commands(folder: &Path) -> Result<String, FleetError> {
    let path = folder.join(SCRIPT);
    let bytes = Folder::open(folder)?.read(SCRIPT, MOST_BYTES)?;
    let bytes = bytes.ok_or_else(|| FleetError::io("open", &path, rustix::io::Errno::NOENT))?;
    String::from_utf8(bytes).map_err(|error| FleetError::format(&path, error))
}

/// The result of `fleet cancel`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cancelled {
    /// Ended or removed objects of the engine, one a line.
    pub stopped: Vec<String>,
    /// Those that the engine could not end, with the reason.
    pub left: Vec<String>,
}
