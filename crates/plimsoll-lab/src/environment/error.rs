//! Errors of the environment, each with a remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_proc::swap_header::SwapHeaderError;
use plimsoll_proc::{ControlError, Distrust};
use serde::Serialize;

use super::holder::Holder;
use super::swap_folder::SwapFolderDefect;
use super::undo::Left;

/// Environment variable that moves the state folder.
pub(super) const STATE_DIR: &str = "PLIMSOLL_STATE_DIR";

/// Remedy for a cgroup without `memory.high`.
pub(super) const HOW_TO_GET_HIGH: &str =
    "boot with cgroup v2 alone (`cgroup_no_v1=memory`), or cap by the limit (`cap-by=limit`)";

/// Why the environment could not be made, or not be undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    #[error("cannot run the trial on this machine:\n{}", list(.0))]
    Missing(Vec<Missing>),
    #[error("cannot lock this machine ({}): {holder} holds it; wait for it (`--wait`) or end it", lock.display())]
    Busy { holder: Holder, lock: PathBuf },
    #[error("cannot guard ({}): {holder} guards already; end it first", lock.display())]
    Guarded { holder: Holder, lock: PathBuf },
    /// Another user could write to the state folder, or it cannot be opened.
    #[error(
        "cannot use the state folder {}: {defect}; set {} to a folder that only you can write to, or correct the owner and \
         the permissions", folder.display(), STATE_DIR
    )]
    StateFolder { folder: PathBuf, defect: Distrust },
    #[error(
        "cannot find a state folder: neither XDG_STATE_HOME nor HOME names one; set {} to a folder that only you can \
         write to",
        STATE_DIR
    )]
    NoStateFolder,
    /// The user stopped the run while it waited for the machine or the kernel.
    #[error("cannot complete the change: a signal stopped the run")]
    Interrupted,
    #[error("cannot reclaim the cgroup within {:.1} s; raise `phase-timeout`, or lower `size`", timeout.as_secs_f64())]
    ReclaimTimedOut { timeout: Duration },
    /// A cgroup's limit cannot be set, as more stays in use than it allows.
    #[error(
        "cannot limit the cgroup to {limit} bytes: {used} are in use after the reclaim; raise `swap-size` or the cap"
    )]
    LimitNotReached { limit: u64, used: u64 },
    #[error(
        "cannot begin with an empty cgroup: {} s after the end of its processes it holds {memory} bytes of memory and {swap} \
         of swap; run on a quieter machine, or lower `limit`",
        timeout.as_secs()
    )]
    NotDrained {
        timeout: Duration,
        memory: u64,
        swap: u64,
    },
    #[error("cannot end processes {processes:?}: they live {:.0} s after SIGKILL, or start others as fast as they end", within.as_secs_f64())]
    Unkillable { within: Duration, processes: Vec<u32> },
    #[error("cannot set memory.high: cgroup v1 has none; {HOW_TO_GET_HIGH}")]
    NoHigh,
    #[error(
        "cannot make a cgroup with a limit there: the children do not have the memory controller; use another cgroup"
    )]
    NoChildren,
    /// A change of the system, or its undoing, failed.
    #[error("cannot {action}: {source}{}", advice_clause(.advice))]
    System {
        /// Attempted action; follows "cannot".
        action: String,
        source: io::Error,
        /// Remedy; may be empty.
        advice: String,
    },
    /// The kernel took a value but does not show it.
    #[error("cannot set {} to `{wanted}`: it holds `{found}` after the write, so the kernel does not support the value", path.display())]
    NotTaken {
        path: PathBuf,
        wanted: String,
        found: String,
    },
    #[error("cannot set the zram algorithm `{asked}`: this kernel has {}", available.join(", "))]
    UnknownAlgorithm { asked: String, available: Vec<String> },
    #[error("cannot set the zswap compressor `{asked}`: the kernel uses `{found}`; loaded now: {}", available.join(", "))]
    UnknownCompressor {
        asked: String,
        found: String,
        /// Compressors of `/proc/crypto`.
        available: Vec<String>,
    },
    /// The path of a new swap area leads to another file or device.
    #[error("cannot turn swap on {} on: another program has put another file in its place; end that program", path.display())]
    Replaced { path: PathBuf },
    #[error("cannot make a swap file in {}: {defect}; or name another folder with `swap-dir`", folder.display())]
    UnsuitableFolder {
        folder: PathBuf,
        #[source]
        defect: SwapFolderDefect,
    },
    #[error(
        "cannot make a swap file of {needed} bytes in {}: {available} bytes are available, of which {reserve} stay free; free some space, lower `swap-size` or name another `swap-dir`", folder.display()
    )]
    DiskFull {
        folder: PathBuf,
        needed: u64,
        /// Bytes free for this user.
        available: u64,
        /// Bytes that are not to be used.
        reserve: u64,
    },
    /// Size that no swap area can have.
    #[error(transparent)]
    Header(#[from] SwapHeaderError),
    /// A change could not be undone; the journal stays.
    #[error("cannot undo every change (journal {}); remove the causes, then run `plimsoll cleanup`:\n{}", journal.display(), list(left))]
    LeftBehind { left: Vec<Left>, journal: PathBuf },
    /// Set-up failed, and so did undoing its first part.
    #[error("{cause}\nand cannot undo the part that was set up: {undo}")]
    AndUndo {
        cause: Box<EnvironmentError>,
        undo: Box<EnvironmentError>,
    },
}

impl EnvironmentError {
    /// A failed change of the system. `action` follows "cannot".
    pub(super) fn system(action: impl Into<String>, source: io::Error) -> Self {
        let advice = advice(&source);
        EnvironmentError::System {
            action: action.into(),
            source,
            advice: advice.to_owned(),
        }
    }

    /// As [`EnvironmentError::system`], with a remedy.
    pub(super) fn system_with(
        action: impl Into<String>,
        source: io::Error,
        advice: impl Into<String>,
    ) -> Self {
        EnvironmentError::System {
            action: action.into(),
            source,
            advice: advice.into(),
        }
    }

    /// A control file that could not be read.
    pub(super) fn reading(path: &Path, source: io::Error) -> Self {
        Self::system(format!("read {}", path.display()), source)
    }

    /// A control file that could not be written.
    pub(super) fn writing(path: &Path, value: &str, source: io::Error) -> Self {
        Self::system(format!("write `{value}` to {}", path.display()), source)
    }
}

impl From<ControlError> for EnvironmentError {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Read { path, source } => Self::reading(&path, source),
            ControlError::Write { path, value, source } => Self::writing(&path, &value, source),
        }
    }
}

/// Usual remedy for an error of the system.
fn advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "run as root (`sudo plimsoll ...`)",
        Some(libc::EROFS) => {
            "it is mounted read-only here, as in most containers: run on the host or in a privileged container"
        }
        Some(libc::ENOSPC) => "the disk is full: free some space",
        _ => "",
    }
}

fn advice_clause(advice: &str) -> String {
    if advice.is_empty() {
        String::new()
    } else {
        format!("; {advice}")
    }
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items
        .iter()
        .map(|item| format!("  - {item}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Kinds of requirements of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MissingKind {
    /// A memory cgroup to make others in.
    Cgroup,
    /// A privilege that this user or container lacks.
    Privilege,
    /// The soft ceiling of a cgroup.
    MemoryHigh,
    Zram,
    ZramAlgorithm,
    Zswap,
    ZswapCompressor,
    /// A folder that can hold a swap file.
    SwapFolder,
    HugePages,
    Allocator,
    /// The file that memory is filled with.
    DataFile,
    /// A value of `vm.swappiness` that the kernel accepts.
    Swappiness,
    /// userfaultfd with the features that a pager needs.
    Userfaultfd,
}

impl MissingKind {
    /// Whether a run is refused for the lack of it. Without a privilege or a cgroup, a trial still does the phases that
    /// need neither.
    pub fn refuses(self) -> bool {
        !matches!(self, MissingKind::Cgroup | MissingKind::Privilege)
    }
}

/// A requirement of a trial that this machine or user lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub kind: MissingKind,
    /// The missing item, as text.
    pub what: String,
    /// The consequence.
    pub why: String,
    pub how: String,
    /// The names of the same kind that the machine has; may be empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub available: Vec<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}. ", self.what, self.why)?;
        if !self.available.is_empty() {
            write!(f, "Available here: {}. ", self.available.join(", "))?;
        }
        write!(f, "To get it: {}", self.how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::scenario::keys;

    /// Words in backticks that name no option, command or value.
    fn keys_in(text: &str) -> Vec<&str> {
        let is_key = |word: &&str| {
            word.chars()
                .all(|c| c.is_ascii_lowercase() || c == '-' || c == '_')
        };
        text.split('`').skip(1).step_by(2).filter(is_key).collect()
    }

    #[test]
    fn errors_name_only_keys_of_scenarios() {
        let folder = PathBuf::from("/x");
        let errors = [
            EnvironmentError::UnsuitableFolder {
                folder: folder.clone(),
                defect: SwapFolderDefect::InMemory,
            },
            EnvironmentError::DiskFull {
                folder,
                needed: 3,
                available: 2,
                reserve: 1,
            },
            EnvironmentError::ReclaimTimedOut {
                timeout: Duration::from_secs(1),
            },
        ];
        for error in errors {
            let text = error.to_string();
            let named = keys_in(&text);
            assert!(!named.is_empty(), "{text}");
            for name in named {
                assert!(
                    keys().any(|key| key.name == name),
                    "no key is called `{name}`: {text}"
                );
            }
        }
    }
}
