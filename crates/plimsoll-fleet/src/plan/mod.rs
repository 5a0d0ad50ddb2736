//! The plan of a fleet: `plan.json`.
//!
//! Its text becomes scripts and commands. So reading and writing check every field that does: [`Plan::check`].

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use crate::name::{NameError, RunName, TaskId};

use crate::hosts::Host;
use crate::sha256::is_sha256;
use crate::text::{is_line, is_word};
use crate::{FleetError, Folder};

pub const FILE: &str = "plan.json";
/// The scenario in a fleet's folder.
pub const SCENARIO: &str = "scenario.toml";
/// The program in a fleet's folder.
pub const PROGRAM: &str = "plimsoll";
/// The folder of the results in a fleet's folder.
pub const TASKS: &str = "tasks";
pub const VERSION: u32 = 1;
/// Longest plan: about 1 million tasks.
const MOST_BYTES: u64 = 1 << 28;
/// Most tasks of a plan. Slurm's limit is up to 4,000,001 (`MaxArraySize`).
pub const MOST_TASKS: usize = 1_000_000;
const LONGEST_LINE: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`VERSION`].
    pub version: u32,
    pub run: RunName,
    /// UTC, RFC 3339.
    pub created: String,
    pub scenario: PlannedScenario,
    /// `KEY=VALUE`, after the scenario on the command line.
    #[serde(default)]
    pub changes: Vec<String>,
    #[serde(default)]
    pub quick: bool,
    pub binary: Binary,
    pub engine: Engine,
    /// Most hosts at work at the same time.
    pub at_most: u32,
    /// Failed tasks after which no other task starts.
    #[serde(default)]
    pub stop_after: Option<u32>,
    /// Attempts of a task beyond the first.
    pub retries: u32,
    /// Actions as root on each host.
    pub privileges: Vec<Privilege>,
    /// In the order of the engine's index, from 0.
    pub tasks: Vec<Task>,
}

/// The scenario in [`SCENARIO`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedScenario {
    pub name: String,
    pub sha256: String,
}

/// The program in [`PROGRAM`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binary {
    pub sha256: String,
    pub bytes: u64,
    /// `plimsoll --version`, without the name.
    pub version: String,
}

/// The program that places the tasks on hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Engine {
    Slurm {
        partition: String,
        time_limit_minutes: u32,
    },
    Ssh {
        hosts: Vec<Host>,
    },
    Kubernetes {
        namespace: String,
        image: String,
        /// Nodes to use, each for its own tasks; if empty, the scheduler chooses.
        #[serde(default)]
        nodes: Vec<String>,
        /// A quantity of Kubernetes: `8Gi`.
        memory_limit: String,
        /// Keys of taints with the effect `NoSchedule`: nodes with these get tasks as well.
        #[serde(default)]
        tolerations: Vec<String>,
    },
}

impl Engine {
    pub fn name(&self) -> &'static str {
        match self {
            Engine::Slurm { .. } => "slurm",
            Engine::Ssh { .. } => "ssh",
            Engine::Kubernetes { .. } => "kubernetes",
        }
    }
}

/// An action as root on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Privilege {
    pub action: String,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub id: TaskId,
    /// The host that must run it: `[user@]name[:port]` for ssh, a node of Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// From 1.
    pub repeat: u32,
}

impl Plan {
    /// Reads the plan of a fleet's folder, and checks it.
    ///
    /// # Errors
    /// A missing file; [`FleetError::Version`]; [`FleetError::Format`] with the reason.
    pub fn read(folder: &Path) -> Result<Plan, FleetError> {
        let plan = Folder::open(folder)?.read_json::<Plan>(FILE, MOST_BYTES, VERSION)?;
        let path = folder.join(FILE);
        let plan = plan.ok_or_else(|| FleetError::io("read", &path, rustix::io::Errno::NOENT))?;
        plan.check().map_err(|reason| FleetError::format(&path, reason))?;
        Ok(plan)
    }

    /// Writes it into a fleet's folder.
    ///
    /// # Errors
    /// A plan that [`Plan::read`] would refuse; the system's.
    pub fn write(&self, folder: &Path) -> Result<(), FleetError> {
        self.check()
            .map_err(|reason| FleetError::format(&folder.join(FILE), reason))?;
        Folder::open(folder)?.write_json(FILE, self)
    }

    /// The classes of the hosts file, by [`Task::host`].
    pub fn host_classes(&self) -> HashMap<String, &str> {
        let Engine::Ssh { hosts } = &self.engine else {
            return HashMap::new();
        };
        let with_class = hosts.iter();
        with_class
            .filter_map(|host| Some((host.address(), host.class.as_deref()?)))
            .collect()
    }

    /// Checks every field that becomes part of a script, a command or a path.
    ///
    /// # Errors
    /// The first defect.
    pub fn check(&self) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("its version is {}, not {VERSION}", self.version));
        }
        let line = |what: &str, text: &str| match is_line(text, LONGEST_LINE) {
            true => Ok(()),
            false => Err(format!("{what} is no line of text")),
        };
        line("the time of its creation", &self.created)?;
        line("the name of the scenario", &self.scenario.name)?;
        line("the version of the program", &self.binary.version)?;
        if !is_sha256(&self.scenario.sha256) || !is_sha256(&self.binary.sha256) {
            return Err("a hash is no SHA-256 of 64 lowercase hexadecimal digits".to_owned());
        }
        for change in &self.changes {
            line("a change", change)?;
            if !change.contains('=') || change.starts_with(['-', '=']) {
                return Err(format!("the change `{change}` is no KEY=VALUE"));
            }
        }
        for privilege in &self.privileges {
            line("an action as root", &privilege.action)?;
            line("the reason of an action as root", &privilege.reason)?;
        }
        if self.at_most == 0 {
            return Err("no host may work: `at_most` is 0".to_owned());
        }
        self.check_engine()?;
        self.check_tasks()
    }

    fn check_engine(&self) -> Result<(), String> {
        let word = |what: &str, text: &str| match is_word(text) {
            true => Ok(()),
            false => Err(format!("{what} has characters that a command must quote")),
        };
        match &self.engine {
            Engine::Slurm {
                partition,
                time_limit_minutes,
            } => {
                word("the partition", partition)?;
                match time_limit_minutes {
                    0 => Err("the time limit is 0".to_owned()),
                    _ => Ok(()),
                }
            }
            Engine::Ssh { hosts } => match hosts.iter().find(|host| !host.is_valid()) {
                Some(_) => Err("a host is no `[user@]name` with a port and a class".to_owned()),
                None if hosts.is_empty() => Err("it has no hosts".to_owned()),
                None => Ok(()),
            },
            Engine::Kubernetes {
                namespace,
                image,
                nodes,
                memory_limit,
                tolerations,
            } => {
                word("the namespace", namespace)?;
                word("the image", image)?;
                word("the memory limit", memory_limit)?;
                nodes.iter().try_for_each(|node| word("a node", node))?;
                tolerations.iter().try_for_each(|key| word("a toleration", key))
            }
        }
    }

    fn check_tasks(&self) -> Result<(), String> {
        if !(1..=MOST_TASKS).contains(&self.tasks.len()) {
            return Err(format!(
                "it has {} tasks, not 1 to {MOST_TASKS}",
                self.tasks.len()
            ));
        }
        let mut ids = BTreeSet::new();
        for task in &self.tasks {
            if !ids.insert(&task.id) {
                return Err(format!("the task {} is there twice", task.id));
            }
            if task.host.as_ref().is_some_and(|host| !is_word(host)) {
                return Err(format!("the host of the task {} is no word", task.id));
            }
        }
        Ok(())
    }
}
