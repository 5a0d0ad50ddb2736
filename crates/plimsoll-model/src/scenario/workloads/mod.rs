//! The workloads: what worker processes do. One file each, with its settings, its keys, what it takes, and the names
//! of what its phases find.

pub mod compression;
pub mod contention;
pub mod heap;
pub mod loadline;
pub mod map;
pub mod thrash;
pub mod wscap;

use serde::{Deserialize, Serialize};

use super::assignment::Assignment;
use super::error::Invalid;
use super::estimate::SpeedHints;
use super::keys::Key;
use super::model::{FillClass, Settings, ThpMode};
use crate::quantity;

pub use compression::{Compression, TrimMechanism};
pub use contention::Contention;
pub use heap::{BlockSizes, Heap, HeapLoad};
pub use loadline::{Loadline, Pattern};
pub use map::{GiveBack, Left, Map, Mapping, Touch};
pub use thrash::Thrash;
pub use wscap::{CapBy, Wscap};

/// The list of the workloads, in the order of the documentation: variant and type, module, name in a scenario file.
macro_rules! workloads {
    ($($(#[$doc:meta])* $workload:ident $module:ident $name:literal;)*) => {
        /// What the worker processes do, with the settings of its own.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Workload {
            $($(#[$doc])* $workload($workload),)*
        }

        /// The workloads without their settings: what a scenario file names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum WorkloadKind {
            $($(#[$doc])* $workload,)*
        }

        impl Workload {
            /// Which one it is.
            pub fn kind(&self) -> WorkloadKind {
                match self {
                    $(Workload::$workload(_) => WorkloadKind::$workload,)*
                }
            }

            pub(super) fn model(&self) -> &dyn Model {
                match self {
                    $(Workload::$workload(settings) => settings,)*
                }
            }
        }

        impl WorkloadKind {
            /// Every workload, in the order of the documentation.
            pub const ALL: [WorkloadKind; [$($name),*].len()] = [$(WorkloadKind::$workload),*];

            /// The name in a scenario file and in [`crate::recording::model::Trial::workload`].
            pub const fn name(self) -> &'static str {
                match self {
                    $(WorkloadKind::$workload => $name,)*
                }
            }

            /// The keys of its own.
            pub(super) fn own_keys(self) -> &'static [Key] {
                match self {
                    $(WorkloadKind::$workload => $module::KEYS,)*
                }
            }

            /// Its settings, from the values of a section.
            pub(super) fn read(self, values: &Assignment<'_>) -> Result<Workload, Box<Invalid>> {
                Ok(match self {
                    $(WorkloadKind::$workload => Workload::$workload($workload::read(values)?),)*
                })
            }
        }
    };
}

workloads! {
    /// The memory eater: fill, trim, restore, release.
    Compression compression "compression";
    /// Consumers that together need more than there is, started one after the other.
    Thrash thrash "thrash";
    /// One worker that visits its memory, at one load after the other.
    Loadline loadline "loadline";
    /// One worker that scans its memory, first uncapped and then under a cap.
    Wscap wscap "wscap";
    /// Memory mapped, touched, handed back and used again.
    Map map "map";
    /// A program that holds memory while another one asks for more.
    Contention contention "contention";
    /// A load on malloc, in a process that runs on the allocator under test.
    Heap heap "heap";
}

impl Default for WorkloadKind {
    /// What a section without the key `workload` runs.
    fn default() -> Self {
        WorkloadKind::Compression
    }
}

impl WorkloadKind {
    /// The workload of a name.
    pub fn of_name(name: &str) -> Option<WorkloadKind> {
        WorkloadKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether its subjects are allocators, not places for trimmed pages.
    pub fn tests_allocators(self) -> bool {
        self == WorkloadKind::Heap
    }
}

impl Workload {
    /// The parameters that a trial's record names whether they are swept or not.
    pub fn params(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        self.model().params(settings)
    }

    /// What it needs of the machine besides its subject.
    pub fn needs(&self) -> Vec<Need> {
        self.model().needs()
    }
}

/// What a workload needs of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The soft ceiling of a cgroup (`memory.high`).
    MemoryHigh,
    /// So many bytes of reserved huge pages.
    HugePages(u64),
}

/// Settings that do not fit each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(String);

impl Unfit {
    pub(super) fn new(message: impl Into<String>) -> Unfit {
        Unfit(message.into())
    }
}

/// What every workload can tell of its settings.
pub(super) trait Model {
    /// Its settings, from the values of a section.
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>>
    where
        Self: Sized;

    /// Bytes that the workers fill, all together and at most.
    fn size(&self, settings: &Settings) -> u64;

    /// Most bytes that the workers hold, all together.
    fn total(&self, settings: &Settings) -> u64 {
        self.size(settings)
    }

    /// What the memory is filled with; none where the workload writes something of its own.
    fn filled(&self) -> Option<(&FillClass, ThpMode)> {
        None
    }

    /// Whether the memory is that of a file on a disk.
    fn maps_file(&self) -> bool {
        false
    }

    /// Seconds of a trial that do not depend on its size.
    fn rest_seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64;

    /// Seconds that a trial takes.
    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64;

    /// Bytes of memory that the workers take at any time, at most.
    fn resident(&self, settings: &Settings) -> u64 {
        self.total(settings).min(settings.limit)
    }

    /// Bytes that a compressed store holds at any time, at most.
    fn stored(&self, settings: &Settings) -> u64 {
        let share = self.filled().map_or(1.0, |(class, _)| class.stored_share());
        (self.total(settings) as f64 * share) as u64
    }

    /// The parameters that a trial's record names whether they are swept or not.
    fn params(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        let size = ("size", self.size(settings).to_string());
        let class = self.filled().map(|(class, _)| ("class", class.to_string()));
        [size].into_iter().chain(class).collect()
    }

    /// What it needs of the machine besides its subject.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Checks that the settings fit each other.
    fn check(&self, settings: &Settings) -> Result<(), Unfit> {
        swap_holds_size(settings)
    }
}

/// Refuses a swap device that does not hold all that is filled.
fn swap_holds_size(settings: &Settings) -> Result<(), Unfit> {
    if !settings.subject.has_swap() || settings.swap_size >= settings.size() {
        return Ok(());
    }
    Err(Unfit::new(format!(
        "`swap-size` is {}, less than the size of {}: the rest would stay in memory or go to other swap; raise `swap-size`",
        quantity::bytes(settings.swap_size as f64),
        quantity::bytes(settings.size() as f64),
    )))
}
