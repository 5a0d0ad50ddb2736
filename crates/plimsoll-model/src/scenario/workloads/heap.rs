//! Work on malloc: loads whose subject is an allocator.

use serde::{Deserialize, Serialize};

use super::{Descriptor, Model, Settings, Subjects};
use crate::scenario::assignment::{Assignment, Key, MIB, PAGE, Preset, derived, key};
use crate::scenario::block_sizes::BlockSizes;
use crate::scenario::builtin::builtins;
use crate::scenario::choice::named;
use crate::scenario::error::{Invalid, Problem};
use crate::scenario::kind::{INSTALLED, Kind, integer};
use crate::scenario::shared_keys::{self, limit};
use crate::scenario::speed::SpeedHints;
use crate::scenario::value::Value;

/// Bytes that the original's aggressive test allocates, and that its fragmentation test uses.
const AGGRESSIVE_VOLUME: u64 = 50 * MIB;
const FRAGMENTATION_VOLUME: u64 = 70 * MIB;
/// Bytes of a block of the aggressive test.
const AGGRESSIVE_BLOCK: u32 = 32;
/// Bytes that an allocator may use for each thread, besides four times its blocks, before the runner ends its worker.
const HEAP_OF_THREAD: u64 = 4 * MIB;
/// Bytes that allocators take for each live one, at most as a rule.
const TAKEN_FOR_LIVE: u64 = 2;
/// Number of times that the fragmentation load allocates its live bytes.
const FRAGMENTATION_TURNS: f64 = 20.0;

/// A load on malloc (Probert).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Heap {
    pub load: HeapLoad,
    /// Threads at a time.
    pub threads: u32,
    /// Blocks that each thread holds; of `scaling` all threads together.
    pub blocks: u32,
    pub sizes: BlockSizes,
    /// Bytes that `aggressive` allocates in each thread, and `fragmentation` in all.
    pub volume: u64,
    /// Seconds that are measured, of those loads that go on until then.
    pub duration: f64,
    /// Seconds from the end of the load until the measurement of its remaining memory.
    pub hold: f64,
}

impl Heap {
    /// Bytes that are in use at a time, on an average.
    pub fn live(&self) -> u64 {
        let blocks = u64::from(self.blocks);
        let blocks = match self.load {
            HeapLoad::Replacement | HeapLoad::Larson => blocks * u64::from(self.threads),
            HeapLoad::Scaling => blocks.max(self.threads.into()),
            HeapLoad::Aggressive => return self.volume.saturating_mul(self.threads.into()),
            HeapLoad::Fragmentation => return self.volume,
        };
        blocks * self.sizes.mean()
    }

    /// Blocks that a thread holds, of the loads in which it holds a number of them.
    pub fn blocks_a_thread(&self) -> u32 {
        match self.load {
            HeapLoad::Scaling => (self.blocks / self.threads).max(1),
            _ => self.blocks,
        }
    }

    /// Whether the load runs for its `duration`, rather than for a fixed amount of work.
    pub fn is_timed(&self) -> bool {
        !matches!(self.load, HeapLoad::Aggressive | HeapLoad::Fragmentation)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeapLoad {
    /// Each thread frees a block of its own at random and allocates another one.
    Replacement,
    /// The same, and threads end and hand their blocks on to new ones.
    Larson,
    /// Each thread allocates many small blocks at once and frees them, twice.
    Aggressive,
    /// Sizes that shift, so that freed blocks do not fit later requests.
    Fragmentation,
    /// As replacement, with the blocks divided among the threads.
    Scaling,
}

named!(
    HeapLoad,
    "replacement" = HeapLoad::Replacement,
    "larson" = HeapLoad::Larson,
    "aggressive" = HeapLoad::Aggressive,
    "fragmentation" = HeapLoad::Fragmentation,
    "scaling" = HeapLoad::Scaling,
);

pub mod finding {
    /// CPU seconds of the process an operation: an allocation and a free.
    pub const OPERATION_CPU: &str = "operation_cpu_s";
    /// Operations a second on the wall, of all threads together.
    pub const OPERATIONS: &str = "operations_per_s";
    /// CPU seconds an operation that the generator takes by itself.
    pub const GENERATOR_CPU: &str = "generator_cpu_s";
    /// CPU seconds an allocation of a process that has allocated nothing yet.
    pub const COLD_CPU: &str = "cold_cpu_s";
    /// CPU seconds an allocation of memory that was allocated and freed before.
    pub const STEADY_CPU: &str = "steady_cpu_s";
    /// CPU seconds a free of the cold part.
    pub const FREE_CPU: &str = "free_cpu_s";
    /// Wall seconds of all allocations and frees of the aggressive load.
    pub const AGGRESSIVE: &str = "aggressive_s";
    /// Threads that lived in Larson's load.
    pub const THREADS_LIVED: &str = "threads_lived";
    /// Requested bytes in use at the time of the measurement.
    pub const LIVE: &str = "live_bytes";
    /// Resident bytes more than before the first block, with them.
    pub const RESIDENT: &str = "resident_growth_bytes";
    /// The most that they were.
    pub const PEAK: &str = "peak_growth_bytes";
    /// Live bytes in percent of resident ones; of the fragmentation load at its worst.
    pub const LIVE_SHARE: &str = "live_percent";
    /// The same at the end of the fragmentation load.
    pub const LAST_LIVE_SHARE: &str = "last_live_percent";
    /// Free blocks of the heap at the end of the fragmentation load, as `heap stat` counts them; of our allocator.
    pub const FREE_BLOCKS: &str = "free_blocks";
    /// The same of its uncommitted ranges.
    pub const UNCOMMITTED_RANGES: &str = "uncommitted_ranges";
    /// Free memory of the heap in percent of its committed memory, at the same time.
    pub const EXTERNAL_FRAGMENTATION: &str = "external_fragmentation_percent";
    /// Uncommitted memory between committed memory of the heap, in percent, at the same time.
    pub const VIRTUAL_FRAGMENTATION: &str = "virtual_fragmentation_percent";
    /// Resident bytes more than before the load, after everything was freed.
    pub const LEFT: &str = "left_bytes";
}

const KEYS: &[Key] = &[
    key(
        "subject",
        Kind::Subject,
        Preset::Text(INSTALLED),
        "the allocator under test: a name, the path of a library after `preload=`, or `installed`, which stands for \
         all that the machine has",
    ),
    key(
        "heap-load",
        Kind::Choice(HeapLoad::NAMES),
        Preset::Text("replacement"),
        "the worker's load on its heap",
    ),
    shared_keys::threads("threads that do so at a time"),
    key(
        "blocks",
        integer(1, 100_000_000, false),
        Preset::Text("10000"),
        "blocks that each thread holds; of `heap-load = \"scaling\"` all together, divided among the threads",
    ),
    key(
        "block-size",
        Kind::BlockSizes,
        Preset::Of("`0-1k`; of `aggressive` `32`", |values| {
            let sizes = match values.choice("heap-load")? {
                HeapLoad::Aggressive => BlockSizes::one(AGGRESSIVE_BLOCK),
                _ => BlockSizes::UP_TO_1K,
            };
            Ok(Some(Value::BlockSizes(sizes)))
        }),
        "sizes of the blocks, each of a range as often as another: `22`, `0-1k`, `1-2k`",
    ),
    key(
        "volume",
        Kind::Size,
        Preset::Of("`50M`; of `fragmentation` `70M`", |values| {
            let volume = match values.choice("heap-load")? {
                HeapLoad::Fragmentation => FRAGMENTATION_VOLUME,
                _ => AGGRESSIVE_VOLUME,
            };
            Ok(Some(Value::bytes(values.scale.of(volume))))
        }),
        "bytes that each thread of `heap-load = \"aggressive\"` allocates; of `fragmentation`, that are live",
    ),
    derived("size", "the bytes of its blocks, at least `1M`", |values| {
        Ok(Some(Value::bytes(Heap::read(values)?.live().max(MIB))))
    }),
    limit(
        Preset::Of(
            "four times its blocks + `64M` + `4M` a thread, at most half of the available memory",
            |values| {
                let size = values.bytes("size")?;
                let threads = values.integer("threads")?;
                let wanted = size
                    .checked_mul(4)
                    .and_then(|bytes| bytes.checked_add(64 * MIB + threads * HEAP_OF_THREAD));
                let most = (values.available() / 2).max(size.saturating_add(64 * MIB));
                Ok(wanted.map(|wanted| Value::bytes(wanted.min(most))))
            },
        ),
        "limit of the memory cgroup that the worker runs in, also where no cgroup can be made: a worker that takes more is \
         ended",
    ),
    shared_keys::duration("how long blocks are replaced, in seconds"),
    shared_keys::hold("rest from the end of the load until its remaining memory is measured"),
];

pub(super) const WORKLOAD: Descriptor = Descriptor {
    keys: KEYS,
    subjects: Subjects::Allocators,
    shrinks: true,
    scenarios: builtins! {
        "heap-replacement" "Cost of an allocation and a free on each allocator, in a heap full of blocks";
        "heap-larson" "Cost of frees by other threads than the allocating one, while threads come and go";
        "heap-aggressive" "Speed of growing and shrinking heaps: 50 MB in blocks of 32 bytes in each thread";
        "heap-fragmentation" "RAM of heaps with 70 MB of blocks of shifting sizes, and after all frees";
        "heap-scaling" "Throughput of heaps with 1 to 512 threads, against the ideal";
    },
};

impl Model for Heap {
    /// One of blocks that are all alike has no range of sizes.
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        let heap = Heap {
            load: values.choice("heap-load")?,
            threads: values.count("threads")?,
            blocks: values.count("blocks")?,
            sizes: values.block_sizes("block-size")?,
            volume: values.bytes("volume")?,
            duration: values.number("duration")?,
            hold: values.number("hold")?,
        };
        match values.given("block-size") {
            Some((value, place))
                if heap.load == HeapLoad::Aggressive && heap.sizes.low != heap.sizes.high =>
            {
                let message = format!("`aggressive` allocates blocks of one size, not of {value} bytes");
                Err(place
                    .error(Problem::BadValue, message, "a range of sizes")
                    .help("write for example block-size = 32"))
            }
            _ => Ok(heap),
        }
    }

    fn size_keys(&self) -> &'static [&'static str] {
        match self.load {
            HeapLoad::Replacement | HeapLoad::Larson => &["blocks", "block-size", "threads"],
            HeapLoad::Scaling => &["blocks", "block-size"],
            HeapLoad::Aggressive => &["volume", "threads"],
            HeapLoad::Fragmentation => &["volume"],
        }
    }

    fn size(&self, _: &Settings) -> u64 {
        let live = self.live().max(MIB);
        live.checked_next_multiple_of(PAGE).unwrap_or(live)
    }

    /// The overhead of an allocator is unknown beforehand.
    fn total(&self, settings: &Settings) -> u64 {
        settings.limit
    }

    fn rest_seconds(&self, _: &Settings, hints: &SpeedHints) -> f64 {
        hints.heap_setup_s + hints.process_s + self.hold
    }

    /// Besides the measured operations, each block is allocated and freed once, and each thread started.
    fn seconds(&self, settings: &Settings, hints: &SpeedHints) -> f64 {
        /// Seconds a block, allocated and freed by the slowest of allocators.
        const BLOCK_S: f64 = 0.1e-6;
        /// Seconds a thread, and of the generator's own cost that is measured besides.
        const THREAD_S: f64 = 100e-6;
        const OWN_S: f64 = 0.1;
        let blocks = self.live() as f64 / self.sizes.mean().max(1) as f64;
        let measured = match self.load {
            HeapLoad::Aggressive => blocks * BLOCK_S,
            // Many times as much is allocated as is live.
            HeapLoad::Fragmentation => FRAGMENTATION_TURNS * blocks * BLOCK_S,
            HeapLoad::Replacement | HeapLoad::Larson | HeapLoad::Scaling => self.duration,
        };
        self.rest_seconds(settings, hints)
            + OWN_S
            + f64::from(self.threads) * THREAD_S
            + blocks * BLOCK_S
            + measured
    }

    fn resident(&self, settings: &Settings) -> u64 {
        self.size(settings)
            .saturating_mul(TAKEN_FOR_LIVE)
            .min(settings.limit)
    }

    fn stored(&self, _: &Settings) -> u64 {
        0
    }

    /// A value without a key is no parameter.
    fn params(&self, _: &Settings) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_round_trip() {
        for (text, low, high) in [
            ("0-1k", 1, 1024),
            ("1-2k", 1024, 2048),
            ("22", 22, 22),
            ("16-64", 16, 64),
            ("1000-2000", 1000, 2000),
        ] {
            let sizes = BlockSizes { low, high };
            assert_eq!(text.parse(), Ok(sizes), "{text}");
            assert_eq!(sizes.to_string(), text);
        }
        for text in ["", "k", "2-1k", "log:8b-1k", "0", "-5", "1-2-3"] {
            assert!(text.parse::<BlockSizes>().is_err(), "{text}");
        }
    }

    #[test]
    fn live_bytes_count_all_threads() {
        let heap = |load| Heap {
            load,
            threads: 4,
            blocks: 1000,
            sizes: BlockSizes { low: 22, high: 22 },
            volume: 1 << 20,
            duration: 1.0,
            hold: 0.0,
        };
        assert_eq!(heap(HeapLoad::Replacement).live(), 88_000);
        assert_eq!(heap(HeapLoad::Scaling).live(), 22_000);
        assert_eq!(heap(HeapLoad::Scaling).blocks_a_thread(), 250);
        assert_eq!(heap(HeapLoad::Aggressive).live(), 4 << 20);
        assert_eq!(heap(HeapLoad::Fragmentation).live(), 1 << 20);
    }
}
