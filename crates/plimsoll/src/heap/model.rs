//! What is told of heaps: the document of `plimsoll heap stat --json`, which the text and the page are made of too.

use serde::Serialize;

/// Version of [`HeapSurvey`] as JSON.
pub const HEAP_SCHEMA: u32 = 1;

/// The heaps of one process or of all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeapSurvey {
    /// [`HEAP_SCHEMA`].
    pub schema: u32,
    /// The processes that run on this heap, by number.
    pub processes: Vec<ProcessHeaps>,
    /// Processes that run on it, or did, and whose heaps could not be read.
    pub unread: Vec<UnreadHeaps>,
    /// Processes that this user may not look into; they may run on it or not.
    pub denied: u32,
}

/// A process whose heaps could not be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UnreadHeaps {
    /// Its number.
    pub pid: u32,
    /// Why, in words.
    pub why: String,
    /// Whether something wrote over what leads to them.
    pub damaged: bool,
}

/// The heaps of a process.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcessHeaps {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Address of the control block.
    pub control_block: u64,
    /// Address of unit 0.
    pub window: u64,
    /// Version of the layout.
    pub layout: u32,
    /// Whether one of its heaps is hardened.
    pub hardened: bool,
    /// How processors are told apart: `rseq` (restartable sequences), `lock` (a lock for each slot), or `none` (no
    /// heap has a low-fragmentation front end).
    pub affinity: &'static str,
    /// Times that a heap of it was given address space.
    pub growths: u64,
    /// Times that none was left.
    pub refusals: u64,
    /// Times that pages were given back to the system.
    pub purges: u64,
    /// Bytes that were given back, as addresses: not each page was resident.
    pub purged_bytes: u64,
    /// Its heaps, by number.
    pub heaps: Vec<HeapReport>,
    /// What `--validate` found.
    pub validation: Option<ValidationReport>,
    /// Microseconds that reading took; the process was not stopped.
    pub took_us: u64,
}

/// A heap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeapReport {
    /// Its number; 1 is that of the process.
    pub heap: u32,
    /// Address of its record.
    pub address: u64,
    /// Its options, as bits.
    pub flags: u32,
    /// The names of those that are set.
    pub flag_names: Vec<&'static str>,
    /// `standard` or `low-fragmentation`.
    pub front_end: &'static str,
    /// Pieces of address space, each without a gap.
    pub segments: u64,
    /// Bytes of address space.
    pub reserved_bytes: u64,
    /// Bytes that may be resident.
    pub committed_bytes: u64,
    /// Bytes of the segments, each up to its last committed unit.
    pub virtual_bytes: u64,
    /// Bytes in free blocks of the back end.
    pub free_bytes: u64,
    /// How many free blocks those are.
    pub free_blocks: u64,
    /// Bytes that were given back to the system or never used.
    pub uncommitted_bytes: u64,
    /// How many ranges those are.
    pub uncommitted_ranges: u64,
    /// Blocks larger than the largest bucket.
    pub virtual_blocks: u64,
    /// Bytes of them.
    pub virtual_block_bytes: u64,
    /// Runs of 32 to 128 KiB that were large blocks a moment ago, kept whole for the next ones; they are among the free
    /// blocks.
    pub cached_runs: u64,
    /// Bytes of them.
    pub cached_run_bytes: u64,
    /// Times that somebody had to wait for a lock of the heap, whichever.
    pub lock_contention: u64,
    /// Free of committed, percent; none where nothing is committed.
    pub external_fragmentation_percent: Option<f64>,
    /// Uncommitted inside of virtual, percent; none where nothing is committed.
    pub virtual_fragmentation_percent: Option<f64>,
    /// The low-fragmentation front end; none for a heap without it.
    pub front: Option<FrontReport>,
    /// Blocks by size.
    pub distribution: Vec<RangeReport>,
    /// Units that were changed while they were read: they are counted nowhere else.
    pub moved_units: u64,
}

/// The low-fragmentation front end of a heap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontReport {
    /// Affinity slots that there may be.
    pub affinity_limit: u64,
    /// Those in use.
    pub affinity_slots: u64,
    /// Batches of blocks moved from subsegments to a slot that had none, and from a full slot to subsegments.
    pub swaps: u64,
    /// Arrays of slots that were emptied because nobody used them.
    pub resets: u64,
    /// Times that somebody had to wait for a lock of the front end: a bucket's, the drain's, or that of a slot that
    /// restartable sequences do not serve.
    pub lock_contention: u64,
    /// Bytes that describe the heap and its blocks, as addresses: not each page is resident.
    pub metadata_bytes: u64,
    /// Subsegments now.
    pub subsegments: u64,
    /// Bytes of them.
    pub subsegment_bytes: u64,
    /// Subsegments made since the start.
    pub created: u64,
    /// Subsegments given back to the back end.
    pub deleted: u64,
    /// Empty subsegments that were used again.
    pub reused: u64,
    /// Subsegments made of memory that had served something else.
    pub conversions: u64,
    /// Empty subsegments kept for their bucket.
    pub kept_empty: u64,
    /// Buckets that have subsegments.
    pub buckets: Vec<BucketReport>,
}

/// A bucket.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BucketReport {
    /// Bytes of its blocks.
    pub block_bytes: u64,
    /// Subsegments.
    pub subsegments: u64,
    /// Blocks that they have room for.
    pub capacity: u64,
    /// Blocks in use.
    pub busy: u64,
    /// Free blocks at hand in affinity slots.
    pub cached: u64,
    /// Blocks of a hardened heap that rest in quarantine.
    pub quarantined: u64,
    /// Free blocks in lists of subsegments.
    pub listed: u64,
    /// Free blocks of pages that were given back to the system.
    pub absent: u64,
    /// Blocks that were never handed out.
    pub untouched: u64,
}

/// Blocks of a range of sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RangeReport {
    /// They are larger than this.
    pub above_bytes: u64,
    /// They are at most as large as this.
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

/// What a walk over everything found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ValidationReport {
    /// Units looked at.
    pub units: u64,
    /// Free blocks looked at.
    pub free_blocks: u64,
    /// Blocks in slots looked at.
    pub cached_blocks: u64,
    /// Blocks in use of hardened heaps whose canary was looked at.
    pub guarded_blocks: u64,
    /// Blocks in the quarantine of hardened heaps looked at.
    pub quarantined_blocks: u64,
    /// Things that moved while they were read, and could not be judged.
    pub moved: u64,
    /// Things that are wrong; 0 where everything is as it should be.
    pub damaged: u64,
    /// Each of them.
    pub damage: Vec<DamageReport>,
}

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DamageReport {
    /// Heap.
    pub heap: u32,
    /// Where.
    pub address: u64,
    /// What.
    pub what: String,
}

/// What a run of units holds, for the picture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Number of its first unit.
    pub first: u32,
    /// Units.
    pub units: u32,
    /// Heap.
    pub heap: u32,
    /// What it is.
    pub kind: CellKind,
    /// Bytes of a block of a subsegment, or bytes asked for of a large block; 0 otherwise.
    pub block_bytes: u64,
    /// Share of its blocks in use, of a subsegment; 1 for a block, 0 for free units.
    pub used: f64,
}

/// What a run of units is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellKind {
    /// Blocks of one bucket.
    Subsegment,
    /// One large block.
    Large,
    /// Coalescing blocks of the Standard front end.
    Standard,
    /// Free, its pages may be resident.
    Dirty,
    /// Free, its pages are not there.
    Uncommitted,
    /// Being changed.
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

    /// Its name in styles.
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

    /// Its name for people.
    pub fn words(self) -> &'static str {
        match self {
            CellKind::Subsegment => "blocks of a bucket (filled up as far as they are in use)",
            CellKind::Large => "large block",
            CellKind::Standard => "blocks of the Standard front end",
            CellKind::Dirty => "free, committed",
            CellKind::Uncommitted => "free, uncommitted",
            CellKind::Busy => "being given back",
        }
    }
}

impl Cell {
    /// What it holds, in words.
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
