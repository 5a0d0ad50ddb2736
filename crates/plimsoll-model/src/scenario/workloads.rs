//! The kinds of work that worker processes do, each with what it alone needs to know.

use serde::{Deserialize, Serialize};

use super::heap::Heap;
use super::model::Settings;

/// What the worker processes do. One variant a file in `run/` and one or more in `workload/`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// The memory eater: fill, trim, restore, release.
    Compression,
    /// Consumers that together need more than there is, started one after the other.
    Thrash(Thrash),
    /// One worker that visits its memory, at one load after the other.
    Loadline(Loadline),
    /// One worker that scans its memory, first uncapped and then under a cap.
    Wscap(Wscap),
    /// Memory mapped, touched, handed back and used again.
    Map(Map),
    /// A program that holds memory while another one asks for more.
    Contention(Contention),
    /// A load on malloc, in a process that runs on the allocator under test.
    Heap(Heap),
}

/// The kinds of work without what they need to know: what a scenario file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkloadKind {
    /// [`Workload::Compression`].
    Compression,
    /// [`Workload::Thrash`].
    Thrash,
    /// [`Workload::Loadline`].
    Loadline,
    /// [`Workload::Wscap`].
    Wscap,
    /// [`Workload::Map`].
    Map,
    /// [`Workload::Contention`].
    Contention,
    /// [`Workload::Heap`].
    Heap,
}

impl Workload {
    /// Which kind it is.
    pub fn kind(&self) -> WorkloadKind {
        match self {
            Workload::Compression => WorkloadKind::Compression,
            Workload::Thrash(_) => WorkloadKind::Thrash,
            Workload::Loadline(_) => WorkloadKind::Loadline,
            Workload::Wscap(_) => WorkloadKind::Wscap,
            Workload::Map(_) => WorkloadKind::Map,
            Workload::Contention(_) => WorkloadKind::Contention,
            Workload::Heap(_) => WorkloadKind::Heap,
        }
    }
}

impl WorkloadKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [WorkloadKind; 7] = [
        WorkloadKind::Compression,
        WorkloadKind::Thrash,
        WorkloadKind::Loadline,
        WorkloadKind::Wscap,
        WorkloadKind::Map,
        WorkloadKind::Contention,
        WorkloadKind::Heap,
    ];

    /// The name in a scenario file and in [`crate::recording::model::Trial::workload`].
    pub const fn name(self) -> &'static str {
        match self {
            WorkloadKind::Compression => "compression",
            WorkloadKind::Thrash => "thrash",
            WorkloadKind::Loadline => "loadline",
            WorkloadKind::Wscap => "wscap",
            WorkloadKind::Map => "map",
            WorkloadKind::Contention => "contention",
            WorkloadKind::Heap => "heap",
        }
    }

    /// Whether its memory is filled with a class of data.
    pub fn is_filled(self) -> bool {
        !matches!(
            self,
            WorkloadKind::Thrash | WorkloadKind::Map | WorkloadKind::Heap
        )
    }

    /// The kind of a name.
    pub fn of_name(name: &str) -> Option<WorkloadKind> {
        WorkloadKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The thrashing benchmark of Maziero, Santos and Santin (2013).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Thrash {
    /// N: consumer processes.
    pub consumers: u32,
    /// S: bytes that each allocates. [`super::Settings::size`] is those of all together.
    pub consumer_size: u64,
    /// W: writes at random bytes in one cycle.
    pub writes: u64,
    /// t_s: seconds of sleep between two cycles.
    pub sleep: f64,
    /// t_c: seconds between the starts of two consumers.
    pub stagger: f64,
}

impl Thrash {
    /// Seconds from the start of the first consumer to the common end: when all have started, they work together
    /// for as long as one start takes.
    pub fn seconds(&self) -> f64 {
        f64::from(self.consumers + 1) * self.stagger
    }
}

/// The sweep of load that finds how much this machine carries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Loadline {
    /// How pages are chosen.
    pub pattern: Pattern,
    /// Largest load, as a multiple of the limit. [`super::Settings::size`] is that load in bytes.
    pub max_load: f64,
    /// Seconds of computing after each visit of a page.
    pub compute: f64,
    /// Seconds that are measured at each load.
    pub duration: f64,
}

impl Loadline {
    /// The loads that are measured first, over the whole axis.
    pub fn coarse_loads(&self) -> impl Iterator<Item = f64> + use<> {
        const COARSE: [f64; 9] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0];
        let most = self.max_load;
        COARSE.into_iter().filter(move |load| *load < most).chain([most])
    }

    /// About the loads of a trial: the coarse ones, and six around a knee that is taken to be at 1.5.
    pub(super) fn usual_loads(&self) -> impl Iterator<Item = f64> + use<> {
        self.coarse_loads().chain([self.max_load.min(1.5); 6])
    }
}

/// How a worker chooses the page that it visits next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Every page as likely as any other.
    Uniform,
    /// A few pages often, many seldom (Zipf's law).
    Zipf,
    /// One page after the other, round and round.
    Sequential,
    /// 90% of the visits to 10% of the pages.
    HotCold,
    /// Each page names the next: no visit can begin before the one before it has ended.
    Chase,
}

/// The working-set cap of Dawson (2023).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Wscap {
    /// Size over cap: 2 is a cap of half the size.
    pub load: f64,
    /// What holds the worker to its cap.
    pub cap_by: CapBy,
    /// Seconds of each measured stretch.
    pub duration: f64,
}

impl Wscap {
    /// Seconds that each figure in a trial's lists of scans a second stands for: as often as the system is sampled.
    pub const RATE_INTERVAL_S: f64 = 0.1;

    /// The cap in bytes, for memory of `size` bytes.
    pub fn cap(&self, size: u64) -> u64 {
        (size as f64 / self.load) as u64
    }
}

/// What holds a worker to a cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapBy {
    /// The hard limit of its cgroup (`memory.limit_in_bytes`, `memory.max`): trimmed at every fault.
    Limit,
    /// The soft ceiling of its cgroup (`memory.high`, v2 alone): trimmed and held back at every fault.
    High,
    /// Somebody who looks once a second and trims what is above the cap, as a balance-set manager does: needs no
    /// privilege and no cgroup.
    Balance,
}

/// The cost of mapping memory, handing it back, and getting it again (Gerstmann).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// How memory is mapped.
    pub mapping: Mapping,
    /// What of it is written.
    pub touch: Touch,
}

/// How memory is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Private and anonymous, in pages of the base size.
    Anonymous,
    /// The same, populated by the kernel as it is mapped (`MAP_POPULATE`).
    Populate,
    /// A memory file, shared.
    Memfd,
    /// A file on a disk, shared.
    File,
    /// Private and anonymous with transparent huge pages.
    Thp,
    /// Private and anonymous in reserved huge pages.
    Hugetlb,
}

/// What of a mapping is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Touch {
    /// Every byte.
    Whole,
    /// A byte in each 64 KiB.
    #[serde(rename = "64k")]
    Every64K,
    /// A byte in each 4 KiB.
    #[serde(rename = "4k")]
    Every4K,
}

impl Touch {
    /// Bytes from one byte that is written to the next.
    pub fn step(self) -> u64 {
        match self {
            Touch::Whole => 1,
            Touch::Every4K => 4 << 10,
            Touch::Every64K => 64 << 10,
        }
    }

    /// Pages of 4 KiB in which it writes, of a mapping of `bytes`.
    pub fn pages(self, bytes: u64) -> u64 {
        bytes.div_ceil(self.step().max(4 << 10))
    }
}

/// A way to hand memory back. Not a key: each trial goes through all that fit its mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GiveBack {
    /// `munmap`: no address is left, and private pages are gone.
    Munmap,
    /// `madvise(MADV_DONTNEED)`: the addresses stay.
    DontNeed,
    /// `madvise(MADV_FREE)`: pages may go when memory is short.
    Free,
    /// `fallocate(FALLOC_FL_PUNCH_HOLE)` on all of the file behind it.
    Punch,
    /// `mremap` to one page; to use it again it grows.
    Mremap,
    /// `mmap(MAP_FIXED)` of the same kind over it.
    MapOver,
    /// `madvise(MADV_PAGEOUT)`: reclaimed now, and kept in swap or the file.
    PageOut,
    /// The end of the process.
    Exit,
}

impl GiveBack {
    /// Every way, in the order of the documentation.
    pub const ALL: [GiveBack; 8] = [
        GiveBack::Munmap,
        GiveBack::DontNeed,
        GiveBack::Free,
        GiveBack::Punch,
        GiveBack::Mremap,
        GiveBack::MapOver,
        GiveBack::PageOut,
        GiveBack::Exit,
    ];

    /// The name of its phase.
    pub fn name(self) -> &'static str {
        match self {
            GiveBack::Munmap => "munmap",
            GiveBack::DontNeed => "dontneed",
            GiveBack::Free => "free",
            GiveBack::Punch => "punch",
            GiveBack::Mremap => "mremap",
            GiveBack::MapOver => "map-over",
            GiveBack::PageOut => "pageout",
            GiveBack::Exit => "exit",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            GiveBack::Munmap => "munmap",
            GiveBack::DontNeed => "MADV_DONTNEED",
            GiveBack::Free => "MADV_FREE",
            GiveBack::Punch => "hole punch",
            GiveBack::Mremap => "mremap to a page",
            GiveBack::MapOver => "mmap over it",
            GiveBack::PageOut => "MADV_PAGEOUT",
            GiveBack::Exit => "process exit",
        }
    }

    /// Whether it can be done to memory that is mapped so, where there is swap or not.
    pub fn fits(self, mapping: Mapping, swap: bool) -> bool {
        match self {
            GiveBack::Munmap | GiveBack::DontNeed | GiveBack::Exit => true,
            // One that is populated as it is mapped takes as much as it gives back.
            GiveBack::MapOver => mapping != Mapping::Populate,
            GiveBack::Free => matches!(mapping, Mapping::Anonymous | Mapping::Populate | Mapping::Thp),
            GiveBack::Punch => mapping.has_file(),
            // The kernel does not let reserved huge pages grow.
            GiveBack::Mremap => mapping != Mapping::Hugetlb,
            // Reserved huge pages are never reclaimed; what has no file needs swap to go to.
            GiveBack::PageOut => mapping == Mapping::File || (swap && mapping != Mapping::Hugetlb),
        }
    }

    /// What memory that was handed back so holds when it is read again.
    pub fn leaves(self, mapping: Mapping) -> Left {
        match self {
            GiveBack::Punch => Left::Nothing,
            GiveBack::PageOut => Left::All,
            GiveBack::Free => Left::Either,
            // What is in a file is no private matter of the mapping.
            _ if mapping.has_file() => Left::All,
            GiveBack::Mremap => Left::FirstPage,
            _ => Left::Nothing,
        }
    }
}

/// What memory that was handed back still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It reads as zero.
    Nothing,
    /// Its first page is as it was; the others read as zero.
    FirstPage,
    /// Each page is as it was, or reads as zero.
    Either,
    /// It is as it was.
    All,
}

impl Mapping {
    /// Bytes that sizes of reserved huge pages are multiples of: on x86-64 and, with the usual base pages, on AArch64.
    pub const HUGE_PAGE: u64 = 2 << 20;

    /// Whether a file is behind it, in memory or on a disk.
    pub fn has_file(self) -> bool {
        matches!(self, Mapping::Memfd | Mapping::File)
    }
}

/// Two programs and too little memory (Mangan, the last part).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contention {
    /// Whether the program that holds memory is stopped (SIGSTOP) while the other one asks.
    pub suspended: bool,
}

impl Contention {
    /// Most bytes that the second program asks for: what the limit and the swap can hold besides the first one's,
    /// less a tenth of the swap and an eighth of the limit, so that nobody is killed. 0 where not even one request fits.
    pub fn most_asked(settings: &Settings) -> u64 {
        let swap = match settings.subject.has_swap() {
            true => settings.swap_size / 10 * 9,
            false => 0,
        };
        let room = (settings.limit / 8 * 7).saturating_add(swap);
        let asks = room.saturating_sub(settings.size) / settings.request.max(1);
        asks.saturating_mul(settings.request)
    }
}

/// Gives an enum of choices the names that a scenario file has for them.
macro_rules! named {
    ($noun:ty, $($name:literal = $variant:expr,)*) => {
        impl $noun {
            /// The names in a scenario file.
            pub(super) const NAMES: &'static [&'static str] = &[$($name),*];

            /// The choice of a name.
            pub(super) fn of_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some($variant),)*
                    _ => None,
                }
            }

            /// The name in a scenario file.
            pub fn name(self) -> &'static str {
                const CHOICES: &[($noun, &str)] = &[$(($variant, $name)),*];
                CHOICES.iter().find(|(choice, _)| *choice == self).map_or("", |(_, name)| name)
            }
        }
    };
}
pub(super) use named;

named!(
    Pattern,
    "uniform" = Pattern::Uniform,
    "zipf" = Pattern::Zipf,
    "sequential" = Pattern::Sequential,
    "hot-cold" = Pattern::HotCold,
    "chase" = Pattern::Chase,
);
named!(
    CapBy,
    "limit" = CapBy::Limit,
    "high" = CapBy::High,
    "balance" = CapBy::Balance,
);
named!(
    Mapping,
    "anonymous" = Mapping::Anonymous,
    "populate" = Mapping::Populate,
    "memfd" = Mapping::Memfd,
    "file" = Mapping::File,
    "thp" = Mapping::Thp,
    "hugetlb" = Mapping::Hugetlb,
);
named!(
    Touch,
    "whole" = Touch::Whole,
    "64k" = Touch::Every64K,
    "4k" = Touch::Every4K,
);
