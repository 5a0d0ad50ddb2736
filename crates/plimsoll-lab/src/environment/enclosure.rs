//! A memory cgroup for a program of the user, beside runs.
//!
//! A run holds the machine lock for its life: it measures, and swap, zswap and sysctls are the machine's. A cgroup with a
//! limit changes nothing of the machine, so an enclosure has a journal of its own and no lock: enclosures, a run and
//! `cleanup` do not wait for each other. `cleanup` finds the journal locked while its owner lives, and leaves it alone;
//! of a dead owner it kills the processes of the cgroup and removes it.
//!
//! Swap that is turned on for the program is the machine's, and so is the memory controller that cgroup v2 may have to
//! enable for the children of the root. The enclosure holds the lock while it makes these changes, and while it undoes
//! them. A run that holds the lock at the end may rely on them: they then stay in the journal, for `cleanup`.
//!
//! Invariant: the journal's changes of the machine come before those of the program alone, so that the latter can be
//! undone without the lock. Checked by `an_enclosure_beside_a_run_is_removed_and_a_killed_one_is_cleaned_up`.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use plimsoll_model::scenario::Subject;
use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy};

use super::cgroup::{Cgroup, CgroupSettings, find_parent};
use super::change::Change;
use super::cleanup::undo_changes;
use super::error::{EnvironmentError, Missing};
use super::journal::Journal;
use super::lock::MachineLock;
use super::requirements::missing_swap;
use super::state::{self, Lock, StateFolder};
use super::undo::{Left, LeftCause};
use super::{swap_file, zram};

/// How long a change of the machine waits for a run to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// The caller blocks signals meanwhile.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Swap that is turned on for a program, above the priority of all other areas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnSwap {
    /// A zram device with this algorithm or the kernel's default.
    Zram {
        algorithm: Option<String>,
        bytes: u64,
    },
    File {
        folder: PathBuf,
        bytes: u64,
    },
}

impl OwnSwap {
    pub fn bytes(&self) -> u64 {
        match self {
            OwnSwap::Zram { bytes, .. } | OwnSwap::File { bytes, .. } => *bytes,
        }
    }

    /// Its requirements that are missing here. Changes nothing.
    pub fn missing(&self) -> Vec<Missing> {
        match self {
            OwnSwap::Zram { algorithm, .. } => {
                let subject = Subject::Zram(algorithm.clone());
                missing_swap(&subject, Path::new(""), zram::algorithms().as_deref())
            }
            OwnSwap::File { folder, .. } => missing_swap(&Subject::SwapFile, folder, None),
        }
    }

    fn turn_on(&self, journal: &mut Journal) -> Result<(), EnvironmentError> {
        match self {
            OwnSwap::Zram { algorithm, bytes } => zram::create(journal, algorithm.as_deref(), *bytes),
            OwnSwap::File { folder, bytes } => swap_file::create(journal, folder, *bytes),
        }
        .map(drop)
    }
}

/// A memory cgroup for a program of the user, whose pages may go to swap. Dropping it kills the processes in it and
/// removes it; [`Enclosure::remove`] also returns the result.
#[derive(Debug)]
pub struct Enclosure {
    state: PathBuf,
    /// `None` only after [`Enclosure::remove`] took it.
    journal: Option<Journal>,
    cgroup: Cgroup,
}

impl Enclosure {
    /// Makes a cgroup with a limit of `bytes` below that of this process, and turns `swap` on for it. The journal keeps
    /// `command` for its readers.
    ///
    /// # Errors
    /// When the system refuses the cgroup, its limit or the swap, or the state folder cannot be written;
    /// [`EnvironmentError::Busy`] when a run holds the machine and a change of the machine is needed.
    pub fn make(
        command: &[String],
        bytes: u64,
        swap: Option<&OwnSwap>,
    ) -> Result<Enclosure, EnvironmentError> {
        Self::make_in(&state::path()?, command, bytes, swap)
    }

    /// As [`Enclosure::make`], with the journal in the folder `state`.
    ///
    /// # Errors
    /// As [`Enclosure::make`].
    pub fn make_in(
        state: &Path,
        command: &[String],
        bytes: u64,
        swap: Option<&OwnSwap>,
    ) -> Result<Enclosure, EnvironmentError> {
        let hierarchy = Hierarchy::of_this_process().map_err(|found| {
            EnvironmentError::system(
                "find the memory cgroup of this process",
                std::io::Error::other(found),
            )
        })?;
        let folder = StateFolder::make(state)?;
        let mut journal = Journal::create_for(&folder, "exec", command)?;
        match enclose(&mut journal, &folder, &hierarchy, bytes, swap) {
            Ok(cgroup) => Ok(Enclosure {
                state: state.to_owned(),
                journal: Some(journal),
                cgroup,
            }),
            Err(cause) => match undo(journal, state) {
                Ok(()) => Err(cause),
                Err(undo) => Err(EnvironmentError::AndUndo {
                    cause: Box::new(cause),
                    undo: Box::new(undo),
                }),
            },
        }
    }

    pub fn cgroup(&self) -> &Cgroup {
        &self.cgroup
    }

    /// Kills the processes in the cgroup, removes it and the journal.
    ///
    /// # Errors
    /// [`EnvironmentError::LeftBehind`] when something stays; the journal then stays too, for `cleanup`.
    pub fn remove(mut self) -> Result<(), EnvironmentError> {
        match self.journal.take() {
            Some(journal) => undo(journal, &self.state),
            None => Ok(()),
        }
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take() {
            // Changes that stay are in the journal.
            let _ = undo(journal, &self.state);
        }
    }
}

fn enclose(
    journal: &mut Journal,
    folder: &StateFolder,
    hierarchy: &Hierarchy,
    limit: u64,
    swap: Option<&OwnSwap>,
) -> Result<Cgroup, EnvironmentError> {
    let enables = hierarchy.version == CgroupVersion::V2 && find_parent(hierarchy).is_none();
    let _lock = match enables || swap.is_some() {
        true => Some(MachineLock::acquire(
            folder,
            Lock::Machine,
            journal.run(),
            Some(PATIENCE),
            &NEVER,
        )?),
        false => None,
    };
    if let Some(swap) = swap {
        swap.turn_on(journal)?;
    }
    let settings = CgroupSettings {
        limit,
        swappiness: None,
        swap: true,
        kill: true,
        // As without the cgroup: the OOM killer ends one process of several.
        as_one: false,
    };
    Cgroup::create(journal, hierarchy, settings)
}

/// Undoes the changes from the cgroup on, then those of the machine under its lock, and removes the journal.
fn undo(mut journal: Journal, state: &Path) -> Result<(), EnvironmentError> {
    let cgroup = journal.find(|change| matches!(change, Change::Cgroup { .. }));
    let mut left = match cgroup {
        Some(number) => undo_changes(&mut journal, number, |_| true).left,
        None => Vec::new(),
    };
    if left.is_empty() && !journal.outstanding_since(0).is_empty() {
        let lock = StateFolder::make(state).and_then(|folder| {
            MachineLock::acquire(&folder, Lock::Machine, journal.run(), Some(PATIENCE), &NEVER)
        });
        match lock {
            Ok(_lock) => left = undo_changes(&mut journal, 0, |_| true).left,
            Err(error) => left.push(Left {
                what: "changes of the machine".to_owned(),
                why: error.to_string(),
                cause: match &error {
                    EnvironmentError::Busy { holder, .. } => LeftCause::of_holder(holder),
                    _ => LeftCause::UndoFailed,
                },
            }),
        }
    }
    let path = journal.path().to_owned();
    if left.is_empty() {
        return journal.close().map_err(|source| {
            EnvironmentError::system(format!("remove the journal {}", path.display()), source)
        });
    }
    Err(EnvironmentError::LeftBehind { left, journal: path })
}
