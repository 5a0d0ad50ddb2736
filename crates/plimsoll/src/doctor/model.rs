//! The result of an examination.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of the examination as a document.
pub const EXAMINATION_SCHEMA: u32 = 1;

/// Capabilities and confounders of a machine: the document of `plimsoll doctor --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examination {
    pub schema: u32,
    /// Version of plimsoll.
    pub version: String,
    /// The machine in one line: kernel, CPUs, memory.
    pub machine: String,
    pub verdict: Verdict,
    /// The checks, group by group.
    pub checks: Vec<Check>,
}

impl Examination {
    pub fn check(&self, id: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.id == id)
    }
}

/// The summary of all checks, for programs and as the last line for readers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub state: Readiness,
    /// One sentence.
    pub text: String,
    /// Ids of the checks that keep experiments from running, or that limit them.
    pub because: Vec<String>,
    /// Ids of the confounders that are active.
    pub confounders: Vec<String>,
}

/// Whether experiments run on this machine, as this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// With zram, zswap and swap files.
    Ready,
    /// With some of these.
    Limited,
    /// Without root, a memory cgroup or a destination for pages.
    Blocked,
}

/// A capability or a confounder, with its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Stable name for programs.
    pub id: String,
    pub group: Group,
    /// Name for readers.
    pub title: String,
    pub state: State,
    /// The cause of the state.
    pub code: Cause,
    /// The findings, with values.
    pub found: String,
    /// The values of the findings by name, with the unit at the end of the name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// The consequence unless the state is available.
    pub lost: String,
    /// Commands, kernel options or container flags that make it available, one a line; `#` begins a comment.
    pub enable: String,
}

impl Check {
    /// The check with a value of its findings.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Check {
        self.values.insert(name.to_owned(), value.into());
        self
    }
}

/// The cause of the state of a check. The JSON name of a cause never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Cause {
    /// The capability is usable; the confounder is absent.
    Usable,
    /// A file of the kernel is hidden from this user, or unreadable.
    Hidden,
    /// This user lacks a permission or capability.
    NotPermitted,
    /// The kernel was built without it.
    NotBuilt,
    /// The kernel lacks it: it is too old, or was built without it.
    NotSupported,
    /// The module is on disk and not loaded.
    NotLoaded,
    /// A kernel option disabled it at boot.
    DisabledAtBoot,
    /// No file system shows it.
    NotMounted,
    /// Another capability is missing, on which it depends.
    Depends,
    /// Memory, disk space or a limit is too small.
    TooSmall,
    /// The file system does not support it.
    FileSystem,
    /// A setting disables or distorts it.
    Setting,
    /// A part of it is missing.
    Incomplete,
    /// Nothing of its kind is installed or configured.
    Absent,
    Guest,
    Active,
}

/// State and cause of a capability that this user can use, or of an absent confounder.
pub(super) const USABLE: (State, Cause) = (State::Available, Cause::Usable);

impl Cause {
    pub const ALL: [Cause; 16] = [
        Cause::Usable,
        Cause::Hidden,
        Cause::NotPermitted,
        Cause::NotBuilt,
        Cause::NotSupported,
        Cause::NotLoaded,
        Cause::DisabledAtBoot,
        Cause::NotMounted,
        Cause::Depends,
        Cause::TooSmall,
        Cause::FileSystem,
        Cause::Setting,
        Cause::Incomplete,
        Cause::Absent,
        Cause::Guest,
        Cause::Active,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// This user can use the capability; the confounder is absent.
    Available,
    /// This user can use a part of the capability or none; the confounder is present.
    Limited,
    /// The machine lacks the capability.
    Missing,
    /// The check could not find out.
    Unknown,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            State::Available => "available",
            State::Limited => "limited",
            State::Missing => "missing",
            State::Unknown => "unknown",
        }
    }

    /// A symbol that is clear without colour.
    pub fn symbol(self) -> char {
        match self {
            State::Available => '+',
            State::Limited => '~',
            State::Missing => '-',
            State::Unknown => '?',
        }
    }
}

/// Subject of a check, in the order of printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    Machine,
    /// Limits of pressure, and its measurement.
    Confinement,
    /// Destinations of trimmed pages.
    Stores,
    /// Ways to trim.
    Reclaim,
    /// Page faults that a program handles.
    Pager,
    Measuring,
    Confounders,
}

impl Group {
    pub fn title(self) -> &'static str {
        match self {
            Group::Machine => "Machine",
            Group::Confinement => "Confinement and safety",
            Group::Stores => "Where trimmed pages can go",
            Group::Reclaim => "How pages are trimmed",
            Group::Pager => "Faults handled by programs",
            Group::Measuring => "Measuring",
            Group::Confounders => "Confounders (available = quiet)",
        }
    }
}
