//! The environment of one trial: made of the settings, described for the record, undone in reverse.

use std::fmt;
use std::path::{Path, PathBuf};

use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy};
use plimsoll_proc::sysctl::{PAGE_CLUSTER, SWAPPINESS};
use serde::{Serialize, Serializer};

use plimsoll_model::scenario::{Settings, Subject};

use super::cgroup::{Cgroup, CgroupSettings};
use super::error::{EnvironmentError, Missing, MissingKind};
use super::journal::Journal;
use super::requirements::missing;
use super::session::Session;
use super::swap_device::{SwapDevice, SwapKind};
use super::undo::UndoReport;
use super::zswap::ZswapDescription;
use super::{swap_file, sysctl, zram, zswap};

/// The cgroup, swap area and sysctls of one trial. [`Environment::tear_down`] undoes them, or else the end of the
/// session.
#[derive(Debug)]
#[must_use]
pub struct Environment {
    /// Number of the first change of this trial in the session's journal.
    first: u32,
    cgroup: Option<Cgroup>,
    swap: Option<SwapDevice>,
    description: Description,
}

/// The settings in force, as read back from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    pub cgroup: Option<CgroupDescription>,
    /// The swap area, where the subject has one.
    pub swap: Option<SwapDescription>,
    /// zswap, where the kernel has it.
    pub zswap: Option<ZswapDescription>,
    /// System-wide values that were changed for the trial.
    pub values: Vec<ValueDescription>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CgroupDescription {
    #[serde(serialize_with = "version_name")]
    pub version: CgroupVersion,
    pub path: PathBuf,
    pub limit: Option<u64>,
}

fn version_name<S: Serializer>(version: &CgroupVersion, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(version.name())
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwapDescription {
    pub device: SwapDevice,
    /// How it came to be, in words.
    pub mechanism: String,
}

/// A value that was changed for a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ValueDescription {
    pub path: PathBuf,
    pub before: String,
    pub now: String,
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(cgroup) = &self.cgroup {
            let limit = cgroup
                .limit
                .map_or("no limit".to_owned(), |bytes| format!("limit {bytes} bytes"));
            parts.push(format!(
                "cgroup {} {}, {limit}",
                cgroup.version,
                cgroup.path.display()
            ));
        }
        match &self.swap {
            Some(swap) => parts.push(swap.mechanism.clone()),
            None => parts.push("no swap".to_owned()),
        }
        if let Some(zswap) = self.zswap.as_ref().filter(|zswap| zswap.enabled) {
            parts.push(format!(
                "zswap {}, pool up to {} % of RAM",
                zswap.compressor, zswap.max_pool_percent
            ));
        }
        for value in &self.values {
            parts.push(format!(
                "{} {} -> {}",
                value.path.display(),
                value.before,
                value.now
            ));
        }
        f.write_str(&parts.join("; "))
    }
}

impl Environment {
    /// Sets up the cgroup with its limit, the sysctls, zswap and the subject's swap. A failure undoes the parts
    /// before it.
    ///
    /// # Errors
    /// [`EnvironmentError::Missing`] with every missing requirement, before any change; any other variant when the
    /// system refuses something.
    pub fn prepare(session: &mut Session, settings: &Settings) -> Result<Environment, EnvironmentError> {
        let lacking = missing(settings);
        if !lacking.is_empty() {
            return Err(EnvironmentError::Missing(lacking));
        }
        let first = session.journal().next_number();
        match set_up(session.journal_mut(), settings, first) {
            Ok(environment) => Ok(environment),
            Err(cause) => match session.undo_since(first) {
                Ok(_) => Err(cause),
                Err(undo) => Err(EnvironmentError::AndUndo {
                    cause: Box::new(cause),
                    undo: Box::new(undo),
                }),
            },
        }
    }

    pub fn cgroup(&self) -> Option<&Cgroup> {
        self.cgroup.as_ref()
    }

    pub fn swap_device(&self) -> Option<&SwapDevice> {
        self.swap.as_ref()
    }

    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Undoes everything in reverse and verifies it. The trial's processes should have ended; those of the
    /// journal that have not are killed.
    ///
    /// # Errors
    /// [`EnvironmentError::LeftBehind`] when something could not be undone. It stays in the journal, and ending
    /// the session tries again.
    pub fn tear_down(self, session: &mut Session) -> Result<UndoReport, EnvironmentError> {
        session.undo_since(self.first)
    }
}

fn set_up(journal: &mut Journal, settings: &Settings, first: u32) -> Result<Environment, EnvironmentError> {
    let hierarchy = Hierarchy::of_this_process().map_err(|found| {
        EnvironmentError::Missing(vec![Missing {
            kind: MissingKind::Cgroup,
            what: format!("a memory cgroup ({found})"),
            why: "the worker's memory cannot be limited".to_owned(),
            how: "boot with the memory controller enabled".to_owned(),
            available: Vec::new(),
        }])
    })?;
    let allowed = CgroupSettings {
        limit: settings.cgroup_limit(),
        swappiness: settings.swappiness,
        swap: settings.subject.has_swap(),
        // A program of the user starts others, which no journal names.
        kill: settings.workload.runs_program(),
        as_one: true,
    };
    let cgroup = Cgroup::create(journal, &hierarchy, allowed)?;
    let values = set_sysctls(journal, settings)?;
    match &settings.subject {
        Subject::Zswap(compressor) => {
            zswap::turn_on(journal, compressor.as_deref(), settings.zswap_pool_percent)?;
        }
        Subject::Zram(_) | Subject::SwapFile => zswap::turn_off(journal)?,
        Subject::NoSwap | Subject::Pager(_) | Subject::Allocator(_) => {}
    }
    let swap = match &settings.subject {
        Subject::Zram(algorithm) => Some(zram::create(journal, algorithm.as_deref(), settings.swap_size)?),
        Subject::Zswap(_) | Subject::SwapFile => Some(swap_file::create(
            journal,
            &settings.swap_dir,
            settings.swap_size,
        )?),
        Subject::NoSwap | Subject::Pager(_) | Subject::Allocator(_) => None,
    };
    let description = Description {
        cgroup: Some(CgroupDescription {
            version: cgroup.version(),
            path: cgroup.path().to_owned(),
            limit: cgroup.limit()?,
        }),
        swap: swap.clone().map(|device| SwapDescription {
            mechanism: mechanism(&device),
            device,
        }),
        zswap: zswap::describe(),
        values,
    };
    Ok(Environment {
        first,
        cgroup: Some(cgroup),
        swap,
        description,
    })
}

fn set_sysctls(
    journal: &mut Journal,
    settings: &Settings,
) -> Result<Vec<ValueDescription>, EnvironmentError> {
    let mut values = Vec::new();
    for (asked, path) in [
        (settings.swappiness, SWAPPINESS),
        (settings.page_cluster, PAGE_CLUSTER),
    ] {
        let Some(asked) = asked else { continue };
        let (path, now) = (Path::new(path), asked.to_string());
        if let Some(before) = sysctl::set(journal, path, &now)? {
            values.push(ValueDescription {
                path: path.to_owned(),
                before,
                now,
            });
        }
    }
    Ok(values)
}

fn mechanism(device: &SwapDevice) -> String {
    let (path, size, priority) = (device.path.display(), device.size, device.priority);
    match &device.kind {
        SwapKind::Zram { algorithm, added, .. } => {
            let origin = if *added { "added" } else { "taken over while free" };
            format!("{path} ({origin}), {algorithm}, {size} bytes, priority {priority}")
        }
        SwapKind::File => format!("swap file {path}, {size} bytes, priority {priority}"),
    }
}
