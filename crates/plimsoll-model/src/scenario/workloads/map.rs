//! The cost of mapping memory, releasing it to the kernel, and using it again (Gerstmann).

use serde::{Deserialize, Serialize};

use super::{Descriptor, Model, Need, Settings, Subjects};
use crate::scenario::assignment::{Assignment, Key, Preset, key};
use crate::scenario::builtin::builtins;
use crate::scenario::choice::named;
use crate::scenario::error::Invalid;
use crate::scenario::kind::Kind;
use crate::scenario::shared_keys;
use crate::scenario::speed::SpeedHints;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Map {
    /// Bytes of the mapping.
    pub size: u64,
    pub mapping: Mapping,
    pub touch: Touch,
    /// Seconds of the longest wait for memory to be back.
    pub hold: f64,
}

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

/// Bytes of a mapping that the worker writes.
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

/// A way to release memory. Not a key: each trial goes through all that fit its mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseMethod {
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
    Exit,
}

impl ReleaseMethod {
    /// Every way, in the order of the documentation.
    pub const ALL: [ReleaseMethod; 8] = [
        ReleaseMethod::Munmap,
        ReleaseMethod::DontNeed,
        ReleaseMethod::Free,
        ReleaseMethod::Punch,
        ReleaseMethod::Mremap,
        ReleaseMethod::MapOver,
        ReleaseMethod::PageOut,
        ReleaseMethod::Exit,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ReleaseMethod::Munmap => "munmap",
            ReleaseMethod::DontNeed => "dontneed",
            ReleaseMethod::Free => "free",
            ReleaseMethod::Punch => "punch",
            ReleaseMethod::Mremap => "mremap",
            ReleaseMethod::MapOver => "map-over",
            ReleaseMethod::PageOut => "pageout",
            ReleaseMethod::Exit => "exit",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            ReleaseMethod::Munmap => "munmap",
            ReleaseMethod::DontNeed => "MADV_DONTNEED",
            ReleaseMethod::Free => "MADV_FREE",
            ReleaseMethod::Punch => "hole punch",
            ReleaseMethod::Mremap => "mremap to a page",
            ReleaseMethod::MapOver => "mmap over it",
            ReleaseMethod::PageOut => "MADV_PAGEOUT",
            ReleaseMethod::Exit => "process exit",
        }
    }

    /// Whether it can be done to memory that is mapped so, where there is swap or not.
    pub fn fits(self, mapping: Mapping, swap: bool) -> bool {
        match self {
            ReleaseMethod::Munmap | ReleaseMethod::DontNeed | ReleaseMethod::Exit => true,
            // A populated mapping costs as much to map as to release.
            ReleaseMethod::MapOver => mapping != Mapping::Populate,
            ReleaseMethod::Free => matches!(mapping, Mapping::Anonymous | Mapping::Populate | Mapping::Thp),
            ReleaseMethod::Punch => mapping.has_file(),
            // The kernel does not let reserved huge pages grow.
            ReleaseMethod::Mremap => mapping != Mapping::Hugetlb,
            // The kernel never reclaims reserved huge pages; memory without a file needs swap.
            ReleaseMethod::PageOut => mapping == Mapping::File || (swap && mapping != Mapping::Hugetlb),
        }
    }

    /// Content of memory that was released in this way, when read again.
    pub fn leaves(self, mapping: Mapping) -> Left {
        match self {
            ReleaseMethod::Punch => Left::Nothing,
            ReleaseMethod::PageOut => Left::All,
            ReleaseMethod::Free => Left::Either,
            // The content of a file outlives the mapping.
            _ if mapping.has_file() => Left::All,
            ReleaseMethod::Mremap => Left::FirstPage,
            _ => Left::Nothing,
        }
    }
}

/// Content of released memory.
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

/// Share of the held memory, in percent, at which the system counts as having it back. The difference covers the
/// batches in which the kernel counts charges and free pages on each CPU.
pub const REALLY_BACK_PERCENT: f64 = 95.0;

const KEYS: &[Key] = &[
    shared_keys::size("bytes that the worker maps"),
    key(
        "mapping",
        Kind::Choice(Mapping::NAMES),
        Preset::Text("anonymous"),
        "how memory is mapped",
    ),
    key(
        "touch",
        Kind::Choice(Touch::NAMES),
        Preset::Text("whole"),
        "the bytes that the worker writes: every byte, or one in each 64 or 4 KiB",
    ),
    shared_keys::hold("the longest wait for memory to be back"),
];

pub(super) const WORKLOAD: Descriptor = Descriptor {
    keys: KEYS,
    subjects: Subjects::Swap,
    shrinks: true,
    scenarios: builtins! {
        "map" "Cost of mapping memory, releasing it and using it again";
    },
};

/// Adds the codes of its statements to those of others.
macro_rules! statements {
    ($add:ident $($others:tt)*) => {
        $add! { {
            /// The fastest method to release memory and to reuse it.
            MapFastest values "release_per_page_s" "reuse_per_page_s" names "method";
            /// The mapping and the touch that the finding is about.
            MapConditions names "mapping" "touch";
            /// The mapping that costs least.
            MapCheapest values "cycle_per_page_s" names "mapping" "touch" "method";
            /// `MADV_FREE` only looks fast: not all memory returned to the kernel, and none was reclaimed.
            MapFreeLazy values "release_per_page_s" "reuse_per_page_s" "back_percent";
            /// As `map-free-lazy`, and a reclaim took the rest.
            MapFreeReclaimed values "release_per_page_s" "reuse_per_page_s" "back_percent" "pressure_s";
            /// As `map-free-lazy`, and a reclaim did not take the rest.
            MapFreeNotReclaimed values "release_per_page_s" "reuse_per_page_s" "back_percent" "pressure_percent";
        } $($others)* }
    };
}
pub(crate) use statements;

impl Model for Map {
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        Ok(Map {
            size: values.bytes("size")?,
            mapping: values.choice("mapping")?,
            touch: values.choice("touch")?,
            hold: values.number("hold")?,
        })
    }

    fn size(&self, _: &Settings) -> u64 {
        self.size
    }

    fn maps_file(&self) -> bool {
        self.mapping == Mapping::File
    }

    fn rest_seconds(&self, _: &Settings, hints: &SpeedHints) -> f64 {
        hints.setup_s + 2.0 * self.hold
    }

    /// Each method maps and touches twice, is checked once, and waits while lazy methods free no memory.
    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        let swap = settings.subject.has_swap();
        let ways = ReleaseMethod::ALL
            .into_iter()
            .filter(|way| way.fits(self.mapping, swap));
        let each = ways.map(|way| {
            let lazy = way.leaves(self.mapping) == Left::Either
                || (self.mapping.has_file() && !matches!(way, ReleaseMethod::Punch | ReleaseMethod::Exit));
            let rest = if lazy { self.hold } else { 0.0 };
            2.0 * hints.fill_seconds(self.size) + hints.verify_seconds(self.size) + rest
        });
        hints.setup_s + each.sum::<f64>()
    }

    fn needs(&self) -> Vec<Need> {
        match self.mapping {
            Mapping::Hugetlb => vec![Need::HugePages(self.size)],
            _ => Vec::new(),
        }
    }
}
