//! The document of `plimsoll heap stat --json`; the text and the HTML report have the same source.

use serde::Serialize;

/// Schema version of [`HeapSurvey`].
pub const HEAP_SCHEMA: u32 = 1;

/// The heaps of one process or of all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeapSurvey {
    pub schema: u32,
    /// The processes that run on this heap, by process id.
    pub processes: Vec<ProcessHeaps>,
    /// Processes on this heap whose heaps are unreadable.
    pub unread: Vec<UnreadHeaps>,
    /// Number of processes whose memory this user cannot read; they may or may not run on this heap.
    pub denied: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnreadHeaps {
    pub pid: u32,
    pub why: String,
    /// Whether the program overwrote the control block.
    pub damaged: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessHeaps {
    pub pid: u32,
    pub name: String,
    /// Address of the control block.
    pub control_block: u64,
    /// Address of unit 0.
    pub window: u64,
    pub layout: u32,
    /// Whether at least one heap is hardened.
    pub hardened: bool,
    /// Synchronisation of affinity slots: `rseq` (restartable sequences), `lock` (a lock for each slot), or `none` (no
    /// heap has a low-fragmentation front end).
    pub affinity: &'static str,
    /// Segments that its heaps took.
    pub growths: u64,
    /// Requests for a segment that failed, since none was left.
    pub refusals: u64,
    /// Times that its heaps returned pages to the kernel.
    pub purges: u64,
    /// Bytes of the returned address ranges; not every page was resident.
    pub purged_bytes: u64,
    pub heaps: Vec<HeapReport>,
    /// The result of `--validate`.
    pub validation: Option<ValidationReport>,
    /// Duration of the read in microseconds; the process ran meanwhile.
    pub took_us: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeapReport {
    /// Number of the heap; 1 is the process heap.
    pub heap: u32,
    /// Address of its record.
    pub address: u64,
    /// Options as bits.
    pub flags: u32,
    /// Names of the set options.
    pub flag_names: Vec<&'static str>,
    /// `standard` or `low-fragmentation`.
    pub front_end: &'static str,
    /// Contiguous ranges of address space.
    pub segments: u64,
    /// Bytes of address space.
    pub reserved_bytes: u64,
    /// Bytes that may be resident.
    pub committed_bytes: u64,
    /// Bytes of the segments, each up to its last committed unit.
    pub virtual_bytes: u64,
    /// Bytes in free blocks of the back end.
    pub free_bytes: u64,
    pub free_blocks: u64,
    /// Bytes returned to the kernel or never used.
    pub uncommitted_bytes: u64,
    pub uncommitted_ranges: u64,
    /// Blocks larger than the largest bucket.
    pub virtual_blocks: u64,
    pub virtual_block_bytes: u64,
    /// Runs of recently freed large blocks of 32 to 128 KiB, cached for the next ones; the free blocks include them.
    pub cached_runs: u64,
    pub cached_run_bytes: u64,
    /// Waits for any lock of the heap.
    pub lock_contention: u64,
    /// Free share of committed memory in percent; none if no memory is committed.
    pub external_fragmentation_percent: Option<f64>,
    /// Uncommitted share of `virtual_bytes` in percent; none if no memory is committed.
    pub virtual_fragmentation_percent: Option<f64>,
    /// The low-fragmentation front end, if the heap has one.
    pub front: Option<FrontReport>,
    /// Blocks by size.
    pub distribution: Vec<RangeReport>,
    /// Units that changed during the read; no other value counts them.
    pub moved_units: u64,
}

/// The low-fragmentation front end of a heap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontReport {
    /// Maximum of affinity slots.
    pub affinity_limit: u64,
    /// Affinity slots in use.
    pub affinity_slots: u64,
    /// Batches of blocks moved from subsegments to an empty slot, and from a full slot to subsegments.
    pub swaps: u64,
    /// Arrays of idle slots that the heap flushed.
    pub resets: u64,
    /// Waits for a lock of the front end: a bucket's, the flush lock, or that of a slot without restartable sequences.
    pub lock_contention: u64,
    /// Bytes of descriptions of the heap and its blocks; not every page is resident.
    pub metadata_bytes: u64,
    pub subsegments: u64,
    pub subsegment_bytes: u64,
    /// Subsegments taken from the back end since the start.
    pub created: u64,
    /// Subsegments freed to the back end.
    pub deleted: u64,
    /// Empty subsegments reused.
    pub reused: u64,
    /// Subsegments made of memory with another former use.
    pub conversions: u64,
    /// Empty subsegments that their buckets cache.
    pub kept_empty: u64,
    /// Buckets that have subsegments.
    pub buckets: Vec<BucketReport>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BucketReport {
    pub block_bytes: u64,
    pub subsegments: u64,
    /// Blocks that the subsegments can hold.
    pub capacity: u64,
    /// Blocks in use.
    pub busy: u64,
    /// Free blocks in affinity slots.
    pub cached: u64,
    /// Blocks in the quarantine of a hardened heap.
    pub quarantined: u64,
    /// Free blocks in lists of subsegments.
    pub listed: u64,
    /// Free blocks in pages returned to the kernel.
    pub absent: u64,
    /// Blocks never allocated.
    pub untouched: u64,
}

/// Blocks of a range of sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RangeReport {
    /// Exclusive lower bound.
    pub above_bytes: u64,
    /// Inclusive upper bound.
    pub to_bytes: u64,
    /// Of the back end, in use.
    pub back_busy: u64,
    /// Of the back end, free.
    pub back_free: u64,
    /// Of the front end, in use.
    pub front_busy: u64,
    /// Of the front end, free.
    pub front_free: u64,
}

/// The result of a walk over all units, free blocks and slots.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ValidationReport {
    /// Units checked.
    pub units: u64,
    /// Units of all heaps of the process.
    pub all_units: u64,
    /// Whether the check ended before the last unit or slot, as too many objects changed whenever it read them, or at the
    /// largest number of damages.
    pub partial: bool,
    /// Free blocks checked.
    pub free_blocks: u64,
    /// Blocks in slots checked.
    pub cached_blocks: u64,
    /// Blocks in use of hardened heaps with a canary checked.
    pub guarded_blocks: u64,
    /// Blocks in quarantine checked.
    pub quarantined_blocks: u64,
    /// Objects that changed during the read, without a verdict.
    pub moved: u64,
    /// Inconsistent objects.
    pub damaged: u64,
    pub damage: Vec<DamageReport>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DamageReport {
    pub heap: u32,
    pub address: u64,
    /// The stable name of the fault.
    pub code: &'static str,
    /// Description of the fault.
    pub what: String,
}

/// A run of units, for the map.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Number of its first unit.
    pub first: u32,
    pub units: u32,
    pub heap: u32,
    pub kind: CellKind,
    /// Size of the blocks of a subsegment, or of a large block; otherwise 0.
    pub block_bytes: u64,
    /// Share of the blocks of a subsegment in use; 1 for a block, 0 for free units.
    pub used: f64,
}

/// Content of a run of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellKind {
    /// Blocks of one bucket.
    Subsegment,
    Large,
    /// Coalescing blocks of the Standard front end.
    Standard,
    /// Free; its pages may be resident.
    Dirty,
    /// Free; no page is resident.
    Uncommitted,
    /// The heap is freeing it.
    Busy,
}

impl CellKind {
    /// Every kind, in the order of the legend.
    pub const ALL: [CellKind; 6] = [
        CellKind::Subsegment,
        CellKind::Large,
        CellKind::Standard,
        CellKind::Dirty,
        CellKind::Uncommitted,
        CellKind::Busy,
    ];

    /// CSS class.
    pub fn class(self) -> &'static str {
        match self {
            CellKind::Subsegment => "subsegment",
            CellKind::Large => "large",
            CellKind::Standard => "standard",
            CellKind::Dirty => "dirty",
            CellKind::Uncommitted => "uncommitted",
            CellKind::Busy => "busy",
        }
    }

    /// Name in the legend.
    pub fn words(self) -> &'static str {
        match self {
            CellKind::Subsegment => "blocks of a bucket (the filled part is in use)",
            CellKind::Large => "large block",
            CellKind::Standard => "blocks of the Standard front end",
            CellKind::Dirty => "free, committed",
            CellKind::Uncommitted => "free, uncommitted",
            CellKind::Busy => "being freed",
        }
    }
}

impl Cell {
    pub fn words(&self) -> String {
        let units = match self.units {
            1 => format!("unit {}", self.first),
            many => format!("units {} to {}", self.first, self.first + (many - 1)),
        };
        match self.kind {
            CellKind::Subsegment => format!(
                "{units}: blocks of {} bytes, {:.0} % in use",
                self.block_bytes,
                self.used * 100.0
            ),
            CellKind::Large => format!("{units}: large block of {} bytes", self.block_bytes),
            kind => format!("{units}: {}", kind.words()),
        }
    }
}
