//! The memory eater of Mangan (2016): fill, trim, restore, release.

use serde::{Deserialize, Serialize};

use super::filling::{MEMORY, SUBJECT, THREADS};
use super::{Backing, Descriptor, Filling, Model, Settings, Subjects, Unfit, UnfitForPager, swap_holds_size};
use crate::scenario::assignment::{Assignment, Key, Preset, key};
use crate::scenario::builtin::builtins;
use crate::scenario::choice::named;
use crate::scenario::error::Invalid;
use crate::scenario::kind::Kind;
use crate::scenario::shared_keys::{self, CLASS, THP};
use crate::scenario::speed::SpeedHints;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compression {
    #[serde(flatten)]
    pub filling: Filling,
    /// Bytes of one allocation request (the worker maps `size` in requests of this many bytes).
    pub request: u64,
    pub trim: TrimMechanism,
}

/// How pages are made to leave the working set. As text: `worker`, `process-madvise`, `cgroup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrimMechanism {
    /// The worker calls `madvise(MADV_PAGEOUT)` on its own memory.
    Worker,
    /// The runner calls `process_madvise(MADV_PAGEOUT)` on the worker.
    ProcessMadvise,
    /// The runner reclaims the cgroup: `memory.reclaim` on v2, a lowered limit on v1.
    Cgroup,
}

named!(
    TrimMechanism,
    "worker" = TrimMechanism::Worker,
    "process-madvise" = TrimMechanism::ProcessMadvise,
    "cgroup" = TrimMechanism::Cgroup,
);

pub mod phase {
    pub const FILL: &str = "fill";
    /// Dirty pages of files are written to them; of such memory alone.
    pub const WRITEBACK: &str = "writeback";
    pub const TRIM: &str = "trim";
    pub const RESTORE: &str = "restore";
    pub const RELEASE: &str = "release";
}

pub mod finding {
    /// Dirty bytes of the cgroup before the writeback; absent where the kernel does not count them.
    pub const DIRTY: &str = "dirty_bytes";
    /// Bytes of files that are in the page cache after the trim.
    pub const CACHED: &str = "cached_bytes";
}

const KEYS: &[Key] = &[
    SUBJECT,
    CLASS,
    shared_keys::size("bytes that the worker fills"),
    shared_keys::request("bytes of one allocation; more than `size` means `size`"),
    MEMORY,
    THREADS,
    key(
        "trim",
        Kind::Choice(TrimMechanism::NAMES),
        Preset::Text("worker"),
        "how pages are made to leave the working set",
    ),
    shared_keys::hold("rest after fill and after trim"),
    THP,
];

pub(super) const WORKLOAD: Descriptor = Descriptor {
    keys: KEYS,
    subjects: Subjects::SwapAndPagers,
    shrinks: true,
    scenarios: builtins! {
        "compression" "Fill, trim, restore and release memory that compresses badly, well and very well";
        "compression-devices" "The compression experiment over zram, zswap, a swap file and the pager, side by side";
    },
};

/// Adds the codes of its statements to those of others.
macro_rules! statements {
    ($add:ident $($others:tt)*) => {
        $add! { {
            /// The compression ratio of each group; of groups without one, the stored bytes.
            CompressionStored values "groups" "low_compression_ratio" "high_compression_ratio" "low_stored_bytes" "high_stored_bytes" names "subject";
            /// The data with the highest and with the lowest compression ratio.
            CompressionExtremes values "groups" "low_compression_ratio" "high_compression_ratio" names "most" "least";
            /// The range of the compression ratios.
            CompressionRange values "groups" "low_compression_ratio" "high_compression_ratio";
            /// The compression ratio of one group, or its stored bytes.
            CompressionGroup values "compression_ratio" "stored_bytes" names "group";
            /// The speeds of the trim of anonymous memory.
            CompressionTrimSpeed values "low_trim_gb_per_s" "high_trim_gb_per_s";
            /// The speeds of the restore of anonymous memory.
            CompressionRestoreSpeed values "low_restore_gb_per_s" "high_restore_gb_per_s";
            /// The speeds of file pages.
            CompressionFileSpeeds values "low_writeback_gb_per_s" "high_writeback_gb_per_s" "low_trim_gb_per_s" "high_trim_gb_per_s" "low_restore_gb_per_s" "high_restore_gb_per_s";
        } $($others)* }
    };
}
pub(crate) use statements;

impl Model for Compression {
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        Ok(Compression {
            filling: Filling::read_all(values)?,
            request: values.bytes("request")?,
            trim: values.choice("trim")?,
        })
    }

    fn size(&self, _: &Settings) -> u64 {
        self.filling.size
    }

    fn filling(&self) -> Option<&Filling> {
        Some(&self.filling)
    }

    fn maps_file(&self) -> bool {
        self.filling.memory == Backing::File
    }

    fn trims_all(&self) -> bool {
        true
    }

    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        let size = self.filling.size;
        self.rest_seconds(settings, hints)
            + hints.fill_seconds(size)
            + self.filling.stored_seconds(settings, hints)
            + hints.verify_seconds(size)
    }

    fn unfit_for_pager(&self) -> Option<UnfitForPager> {
        (self.trim != TrimMechanism::Worker).then(|| UnfitForPager {
            key: "trim",
            has: self.trim.name(),
            instead: "`trim = \"worker\"`: the pager trims",
        })
    }

    fn params(&self, _: &Settings) -> Vec<(&'static str, String)> {
        let trim = ("trim", self.trim.name().to_owned());
        self.filling.params().into_iter().chain([trim]).collect()
    }

    fn check(&self, settings: &Settings) -> Result<(), Unfit> {
        swap_holds_size(settings)?;
        self.filling.check()
    }
}
