//! The nouns of an examination.

use serde::{Deserialize, Serialize};

/// Version of the examination as a document.
pub const EXAMINATION_SCHEMA: u32 = 1;

/// What a machine allows: the document of `plimsoll doctor --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examination {
    /// [`EXAMINATION_SCHEMA`].
    pub schema: u32,
    /// Version of the program that wrote it.
    pub version: String,
    /// The machine in one line: kernel, CPUs, memory.
    pub machine: String,
    /// The checks, group by group.
    pub checks: Vec<Check>,
}

impl Examination {
    /// The check with this id.
    pub fn check(&self, id: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.id == id)
    }
}

/// One thing that experiments need, or that disturbs them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Short stable name.
    pub id: String,
    /// What the check belongs to.
    pub group: Group,
    /// Name for people.
    pub title: String,
    /// The verdict.
    pub state: State,
    /// What was found, with numbers.
    pub found: String,
    /// What is lost where it is not available.
    pub lost: String,
    /// The command, kernel option or container flag that makes it available, a line each; `#` begins a remark.
    pub enable: String,
}

/// Verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// There, and usable by this user. For a disturbance: not disturbing.
    Available,
    /// There in part, or not for this user as it stands. For a disturbance: disturbing.
    Limited,
    /// Not there.
    Missing,
    /// It could not be found out.
    Unknown,
}

impl State {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            State::Available => "available",
            State::Limited => "limited",
            State::Missing => "missing",
            State::Unknown => "unknown",
        }
    }

    /// A sign that does not need colour.
    pub fn sign(self) -> char {
        match self {
            State::Available => '+',
            State::Limited => '~',
            State::Missing => '-',
            State::Unknown => '?',
        }
    }
}

/// What a check belongs to, in the order of printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Who runs where.
    Machine,
    /// What keeps pressure inside and stops it.
    Confinement,
    /// Where trimmed pages can go.
    Stores,
    /// How pages are made to leave a working set.
    Reclaim,
    /// What a program can do for itself.
    Pager,
    /// What is measured with.
    Measuring,
    /// What moves the numbers from outside.
    Confounders,
}

impl Group {
    /// The heading.
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
