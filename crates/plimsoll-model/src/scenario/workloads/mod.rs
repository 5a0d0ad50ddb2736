//! The workloads of worker processes. One file each, with its descriptor (keys, subjects, scenarios), its settings, its
//! estimate, the names of its findings, and the codes of its statements.

mod filling;
pub mod finding;
mod points;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::assignment::{Assignment, Key};
use super::builtin::Builtin;
use super::error::Invalid;
use super::level::Level;
use super::model::{FillClass, Subject, ThpMode};
use super::speed::SpeedHints;
use super::workload_kind::WorkloadKind;
use crate::{for_each_workload, quantity};

pub use command::PageCache;
pub use compression::TrimMechanism;
pub use filling::{Backing, Filling};
pub use heap::{HeapFreeOrder, HeapLoad};
pub use loadline::Pattern;
pub use map::{Left, Mapping, ReleaseMethod, Touch};
pub use wscap::CapBy;

macro_rules! workloads {
    ($($(#[$doc:meta])* $workload:ident($settings:ident) $module:ident $name:literal;)*) => {
        $(pub mod $module;)*
        $(pub use $module::$settings;)*

        /// The work of the worker processes, with its own settings.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Workload {
            $($(#[$doc])* $workload($settings),)*
        }

        impl Workload {
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
            fn descriptor(self) -> &'static Descriptor {
                match self {
                    $(WorkloadKind::$workload => &$module::WORKLOAD,)*
                }
            }

            /// Its settings, from the values of a section.
            pub(super) fn read(self, values: &Assignment<'_>) -> Result<Workload, Box<Invalid>> {
                Ok(match self {
                    $(WorkloadKind::$workload => Workload::$workload($settings::read(values)?),)*
                })
            }
        }
    };
}

for_each_workload!(workloads);

/// The facts about a workload without its settings.
struct Descriptor {
    /// The keys that it has beside those of every workload.
    keys: &'static [Key],
    subjects: Subjects,
    /// Whether its sizes and times can be smaller.
    shrinks: bool,
    /// The scenarios of this workload that the binary carries.
    scenarios: &'static [Builtin],
}

/// The subjects that a workload compares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subjects {
    /// Places for trimmed pages.
    Swap,
    /// Also pagers, which its workers can hold their memory in.
    SwapAndPagers,
    Allocators,
}

impl WorkloadKind {
    pub(super) fn own_keys(self) -> &'static [Key] {
        self.descriptor().keys
    }

    pub(super) fn scenarios(self) -> &'static [Builtin] {
        self.descriptor().scenarios
    }

    /// Whether its subjects are allocators, not places for trimmed pages.
    pub fn tests_allocators(self) -> bool {
        self.descriptor().subjects == Subjects::Allocators
    }

    /// Whether its worker can hold its memory in a pager.
    pub fn tests_pagers(self) -> bool {
        self.descriptor().subjects == Subjects::SwapAndPagers
    }

    /// Whether its sizes and times can be smaller.
    pub(super) fn shrinks(self) -> bool {
        self.descriptor().shrinks
    }
}

/// Bytes of the cgroup's limit above a pager's budget: the worker itself, and the pager's staging.
const PAGER_ROOM: u64 = 64 << 20;

/// Every value of one trial, resolved: bytes, seconds, names. Those that only one workload has are in [`Workload`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Settings {
    /// The work of the worker processes, with its own settings.
    pub workload: Workload,
    pub subject: Subject,
    /// Limit of the run's memory cgroup in bytes.
    pub limit: u64,
    /// Bytes of the swap device that is set up.
    pub swap_size: u64,
    /// `vm.swappiness` (and the cgroup's where it has one) during the trial; `None` leaves it alone.
    pub swappiness: Option<u32>,
    /// `vm.page-cluster` during the trial; `None` leaves it alone.
    pub page_cluster: Option<u32>,
    /// zswap's `max_pool_percent`, for the subject zswap; `None` leaves it alone.
    pub zswap_pool_percent: Option<u32>,
    /// Folder for swap files and for the files that are mapped.
    pub swap_dir: PathBuf,
    /// Level of memory that the runner holds on the machine during the trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<Level>,
    /// Timeout of a phase in seconds; its trial fails.
    pub phase_timeout: f64,
}

impl Settings {
    /// Most bytes that the workers fill, all together.
    pub fn size(&self) -> u64 {
        self.workload.model().size(self)
    }

    /// The keys that [`Settings::size`] follows from.
    pub fn size_keys(&self) -> &'static [&'static str] {
        self.workload.model().size_keys()
    }

    /// Most bytes that the workers hold, all together: more than [`Settings::size`] where they take as much as they
    /// can.
    pub fn total(&self) -> u64 {
        self.workload.model().total(self)
    }

    /// Bytes that a trial works on: those of its size that fit into its limit, or all if the workload trims them itself.
    pub fn worked_on(&self) -> u64 {
        match self.workload.model().trims_all() {
            true => self.size(),
            false => self.size().min(self.limit),
        }
    }

    /// Content of the filled memory; none if the workload writes data of its own.
    pub fn class(&self) -> Option<&FillClass> {
        self.workload.model().filled().map(|(class, _)| class)
    }

    /// Transparent huge pages for the filled memory; none if the workload sets them itself.
    pub fn thp(&self) -> Option<ThpMode> {
        self.workload.model().filled().map(|(_, thp)| thp)
    }

    /// The store behind the filled memory.
    pub fn memory(&self) -> Backing {
        let filling = self.workload.model().filling();
        filling.map_or(Backing::Anonymous, |filling| filling.memory)
    }

    /// Threads of the worker that work on its filled memory.
    pub fn threads(&self) -> u32 {
        let filling = self.workload.model().filling();
        filling.map_or(1, |filling| filling.threads)
    }

    /// Limit of the cgroup in bytes. Around pagers, whose budget is [`Settings::limit`], it has room for the processes
    /// themselves and for pages that a pager cannot save.
    pub fn cgroup_limit(&self) -> u64 {
        self.cgroup_limit_of(self.limit)
    }

    /// The same for another limit than that of the settings.
    pub fn cgroup_limit_of(&self, limit: u64) -> u64 {
        match self.subject {
            Subject::Pager(_) => {
                let processes = self.workload.model().processes();
                limit.saturating_add(PAGER_ROOM).saturating_add(processes)
            }
            _ => limit,
        }
    }

    /// Whether swapped-out pages go to a file.
    pub fn has_swap_file(&self) -> bool {
        self.subject.has_swap_file()
    }

    /// The most bytes of the worker's page file in `swap-dir`; `None` without a pager that has one.
    pub fn page_file_bytes(&self) -> Option<u64> {
        let pager = self.subject.pager();
        pager.and_then(|pager| pager.page_file_bytes(self.total()))
    }

    /// Whether a trial takes space of the disk of `swap-dir`.
    pub fn uses_disk(&self) -> bool {
        self.has_swap_file() || self.maps_file() || self.page_file_bytes().is_some()
    }

    /// Whether the worker fills a file in `swap-dir`, whose pages leave RAM for a disk.
    pub fn fills_file(&self) -> bool {
        self.visits_file() || !self.memory().goes_to_swap()
    }

    /// Whether the worker visits pages of a file beside anonymous ones.
    pub fn visits_file(&self) -> bool {
        self.workload.model().visits_file()
    }

    /// Whether the memory, or a part of it, is that of files on a disk, of its `size` at most.
    pub fn maps_file(&self) -> bool {
        self.workload.model().maps_file()
    }

    /// Checks that the settings fit each other, as far as the workload needs that.
    ///
    /// # Errors
    /// [`Unfit`]: the consequence of these settings, and the keys to change.
    pub fn check(&self) -> Result<(), Unfit> {
        if self.subject.pager().is_some() {
            self.check_pager()?;
        }
        self.workload.model().check(self)
    }

    /// Rejects settings that mean nothing to memory of a pager.
    fn check_pager(&self) -> Result<(), Unfit> {
        let unfit = |key: &str, has: &str, instead: &str| {
            let subject = &self.subject;
            Err(Unfit::new(format!(
                "`{key}` is `{has}`, but memory of the subject `{subject}` belongs to a pager in the worker; set {instead}"
            )))
        };
        if self.memory() != Backing::Anonymous {
            return unfit("memory", self.memory().name(), "`memory = \"anonymous\"`");
        }
        if self.visits_file() {
            return unfit("file-percent", "above 0", "`file-percent = 0`");
        }
        if let Some(thp @ (ThpMode::Always | ThpMode::Never)) = self.thp() {
            return unfit(
                "thp",
                thp.name(),
                "`thp = \"system\"`: the pager chooses its pages",
            );
        }
        match self.workload.model().unfit_for_pager() {
            Some(setting) => unfit(setting.key, setting.has, setting.instead),
            None => Ok(()),
        }
    }

    /// The key of this workload, and its value, that a pager under test does not take.
    pub(super) fn unfit_for_its_pager(&self) -> Option<(&'static str, &'static str)> {
        self.subject.pager()?;
        let setting = self.workload.model().unfit_for_pager()?;
        Some((setting.key, setting.has))
    }

    /// The same settings on another subject: for a runner that must do without the planned one.
    #[must_use]
    pub fn with_subject(&self, subject: Subject) -> Settings {
        Settings {
            subject,
            ..self.clone()
        }
    }
}

impl Workload {
    /// The parameters that a trial's record names whether they are swept or not.
    pub fn params(&self, settings: &Settings) -> Vec<(&'static str, String)> {
        self.model().params(settings)
    }

    /// Needs of the machine, besides the subject.
    pub fn needs(&self) -> Vec<Need> {
        self.model().needs()
    }

    /// Whether its consumers use huge pages by the setting of the system, with no key that changes that.
    pub fn has_thp_of_system(&self) -> bool {
        self.model().has_thp_of_system()
    }

    /// Whether it starts a program of the user.
    pub fn runs_program(&self) -> bool {
        self.model().runs_program()
    }

    /// Whether its trials have a CPU profile.
    pub fn takes_cpu_profile(&self) -> bool {
        self.model().takes_cpu_profile()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The soft ceiling of a cgroup (`memory.high`).
    MemoryHigh,
    /// So many bytes of reserved huge pages.
    HugePages(u64),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(String);

impl Unfit {
    pub(super) fn new(message: impl Into<String>) -> Unfit {
        Unfit(message.into())
    }
}

/// A setting that means nothing to memory of a pager.
pub(super) struct UnfitForPager {
    key: &'static str,
    has: &'static str,
    /// The setting to choose instead.
    instead: &'static str,
}

/// Facts that every workload derives from its settings.
pub(super) trait Model {
    /// Its settings, from the values of a section.
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>>
    where
        Self: Sized;

    /// Most bytes that the workers fill, all together.
    fn size(&self, settings: &Settings) -> u64;

    /// The keys that the size follows from.
    fn size_keys(&self) -> &'static [&'static str] {
        &["size"]
    }

    /// Most bytes that the workers hold, all together.
    fn total(&self, settings: &Settings) -> u64 {
        self.size(settings)
    }

    /// Bytes of the processes of the trial beside the memory under test, where they are more than one worker.
    fn processes(&self) -> u64 {
        0
    }

    /// The memory that the worker fills once; none if the workload has other memory.
    fn filling(&self) -> Option<&Filling> {
        None
    }

    /// Content of the filled memory; none if the workload writes data of its own.
    fn filled(&self) -> Option<(&FillClass, ThpMode)> {
        self.filling().map(|filling| (&filling.class, filling.thp))
    }

    /// Whether the memory, or a part of it, is that of files on a disk.
    fn maps_file(&self) -> bool {
        false
    }

    /// Whether the worker visits pages of a file beside anonymous ones.
    fn visits_file(&self) -> bool {
        false
    }

    /// Whether it trims all of its memory, whatever the limit.
    fn trims_all(&self) -> bool {
        false
    }

    /// Whether its consumers use huge pages by the setting of the system, with no key that changes that.
    fn has_thp_of_system(&self) -> bool {
        false
    }

    /// Whether it starts a program of the user.
    fn runs_program(&self) -> bool {
        false
    }

    /// Whether its trials have a CPU profile.
    fn takes_cpu_profile(&self) -> bool {
        false
    }

    /// A setting of this workload alone that means nothing to memory of a pager.
    fn unfit_for_pager(&self) -> Option<UnfitForPager> {
        None
    }

    /// Seconds of a trial that do not depend on its size.
    fn rest_seconds(&self, _: &Settings, hints: &SpeedHints) -> f64 {
        hints.setup_s + self.filling().map_or(0.0, |filling| 2.0 * filling.hold)
    }

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

    /// Needs of the machine, besides the subject.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Checks that the settings do not contradict each other.
    fn check(&self, settings: &Settings) -> Result<(), Unfit> {
        swap_holds_size(settings)
    }
}

/// Rejects a swap device smaller than the filled memory.
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
