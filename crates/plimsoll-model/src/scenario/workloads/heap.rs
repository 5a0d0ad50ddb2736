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

/// Bytes that an allocator may use for each thread, besides four times its blocks, before the runner ends its worker.
const HEAP_OF_THREAD: u64 = 4 * MIB;
/// Bytes that allocators take for each live one, at most as a rule.
const TAKEN_FOR_LIVE: u64 = 2;
/// Blocks that are in flight between two threads of the cross-thread load, at most.
const IN_FLIGHT: u64 = 4096;
/// Times that the load of idle threads sleeps, and seconds of each.
const IDLE_RESTS: f64 = 2.0 * 0.2;
/// Number of times that the fragmentation load allocates its live bytes.
const FRAGMENTATION_TURNS: f64 = 20.0;

/// A load on malloc (Probert).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Heap {
    pub load: HeapLoad,
    /// Threads at a time; of `cross-thread` an even number.
    pub threads: u32,
    /// Blocks that each thread holds; of `scaling` all threads together; of `idle-threads`, that each uses.
    pub blocks: u32,
    pub sizes: BlockSizes,
    /// Bytes that `aggressive` allocates in each thread, and `fragmentation` in all.
    pub volume: u64,
    /// Order in which `aggressive` frees its blocks.
    #[serde(default)]
    pub free_order: HeapFreeOrder,
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
            HeapLoad::Replacement | HeapLoad::Larson | HeapLoad::Large => blocks * u64::from(self.threads),
            HeapLoad::Scaling => blocks.max(self.threads.into()),
            HeapLoad::CrossThread => IN_FLIGHT * u64::from(self.pairs_of_threads()),
            // One after the other.
            HeapLoad::IdleThreads => self.threads.into(),
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

    /// Pairs of the cross-thread load: a thread that allocates, and one that frees.
    pub fn pairs_of_threads(&self) -> u32 {
        (self.threads / 2).max(1)
    }

    /// Whether the load runs for its `duration`, rather than for a fixed amount of work.
    pub fn is_timed(&self) -> bool {
        match self.load {
            HeapLoad::Replacement
            | HeapLoad::Larson
            | HeapLoad::Scaling
            | HeapLoad::CrossThread
            | HeapLoad::Large => true,
            HeapLoad::Aggressive | HeapLoad::Fragmentation | HeapLoad::IdleThreads => false,
        }
    }

    /// Whether the load depends on `blocks`.
    pub fn has_blocks(&self) -> bool {
        match self.load {
            HeapLoad::Replacement
            | HeapLoad::Larson
            | HeapLoad::Scaling
            | HeapLoad::Large
            | HeapLoad::IdleThreads => true,
            HeapLoad::Aggressive | HeapLoad::Fragmentation | HeapLoad::CrossThread => false,
        }
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
    /// Half of the threads allocate blocks, and each passes them to another thread, which frees them.
    CrossThread,
    /// Each thread replaces large blocks at random, and then grows blocks by `realloc`.
    Large,
    /// Many threads allocate and free a few blocks each, then sleep.
    IdleThreads,
}

named!(
    HeapLoad,
    "replacement" = HeapLoad::Replacement,
    "larson" = HeapLoad::Larson,
    "aggressive" = HeapLoad::Aggressive,
    "fragmentation" = HeapLoad::Fragmentation,
    "scaling" = HeapLoad::Scaling,
    "cross-thread" = HeapLoad::CrossThread,
    "large" = HeapLoad::Large,
    "idle-threads" = HeapLoad::IdleThreads,
);

/// Order in which blocks are freed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeapFreeOrder {
    /// The order of their allocation.
    #[default]
    Allocated,
    Random,
}

named!(
    HeapFreeOrder,
    "allocated" = HeapFreeOrder::Allocated,
    "random" = HeapFreeOrder::Random,
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
    /// The part of [`GENERATOR_CPU`] that is spent on frees; of the aggressive load.
    pub const GENERATOR_FREE_CPU: &str = "generator_free_cpu_s";
    /// CPU seconds a call of `realloc`; of the load of large blocks.
    pub const REALLOC_CPU: &str = "realloc_cpu_s";
    /// CPU seconds a call of `realloc` that the generator takes by itself.
    pub const GENERATOR_REALLOC_CPU: &str = "generator_realloc_cpu_s";
    /// Resident bytes an idle thread, its stack included.
    pub const IDLE_THREAD: &str = "idle_thread_bytes";
    /// The part of [`IDLE_THREAD`] that a thread without allocations does not take.
    pub const IDLE_THREAD_HEAP: &str = "idle_thread_heap_bytes";
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

/// The values of a load without keys of its own.
struct Defaults {
    threads: u64,
    blocks: u64,
    sizes: BlockSizes,
    /// Bytes that the original's tests allocate.
    volume: u64,
    /// The limit for each byte of its blocks.
    limit_times: u64,
}

impl Defaults {
    const OF_MOST: Defaults = Defaults {
        threads: 1,
        blocks: 10_000,
        sizes: BlockSizes::UP_TO_1K,
        volume: 50 * MIB,
        limit_times: 4,
    };

    fn of(values: &Assignment<'_>) -> Result<Defaults, Box<Invalid>> {
        Ok(match values.choice("heap-load")? {
            HeapLoad::Replacement | HeapLoad::Larson | HeapLoad::Scaling => Defaults::OF_MOST,
            HeapLoad::Aggressive => Defaults {
                sizes: BlockSizes::one(32),
                ..Defaults::OF_MOST
            },
            // The load's table of its small blocks is almost as large as they are.
            HeapLoad::Fragmentation => Defaults {
                volume: 70 * MIB,
                limit_times: 5,
                ..Defaults::OF_MOST
            },
            HeapLoad::CrossThread => Defaults {
                threads: 2,
                sizes: BlockSizes::uniform(8, 2048),
                ..Defaults::OF_MOST
            },
            HeapLoad::Large => Defaults {
                blocks: 64,
                sizes: BlockSizes::uniform(16 << 10, 1 << 20),
                ..Defaults::OF_MOST
            },
            HeapLoad::IdleThreads => Defaults {
                threads: 1000,
                blocks: 16,
                ..Defaults::OF_MOST
            },
        })
    }
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
    key(
        "threads",
        integer(1, 4096, false),
        Preset::Of("`1`; of `cross-thread` `2`, of `idle-threads` `1000`", |values| {
            Ok(Some(Value::Integer(Defaults::of(values)?.threads)))
        }),
        "threads that do so at a time; of `cross-thread` half of them allocate and the others free",
    ),
    key(
        "blocks",
        integer(1, 100_000_000, false),
        Preset::Of("`10000`; of `large` `64`, of `idle-threads` `16`", |values| {
            Ok(Some(Value::Integer(Defaults::of(values)?.blocks)))
        }),
        "blocks that each thread holds; of `heap-load = \"scaling\"` all together, divided among the threads; of \
         `idle-threads`, that each thread allocates and frees",
    ),
    key(
        "block-size",
        Kind::BlockSizes,
        Preset::Of(
            "`0-1k`; of `aggressive` `32`, of `cross-thread` `8-2048`, of `large` `16-1024k`",
            |values| Ok(Some(Value::BlockSizes(Defaults::of(values)?.sizes))),
        ),
        "sizes of the blocks, each of a range as often as another: `22`, `0-1k`, `1-2k`; with `log:`, each power of two \
         as often as another: `log:8-1000`",
    ),
    key(
        "free-order",
        Kind::Choice(HeapFreeOrder::NAMES),
        Preset::Text("allocated"),
        "order in which `heap-load = \"aggressive\"` frees its blocks",
    ),
    key(
        "volume",
        Kind::Size,
        Preset::Of("`50M`; of `fragmentation` `70M`", |values| {
            let volume = Defaults::of(values)?.volume;
            Ok(Some(Value::bytes(values.scale.of(volume))))
        }),
        "bytes that each thread of `heap-load = \"aggressive\"` allocates; of `fragmentation`, that are live",
    ),
    derived("size", "the bytes of its blocks, at least `1M`", |values| {
        Ok(Some(Value::bytes(Heap::read(values)?.live().max(MIB))))
    }),
    limit(
        Preset::Of(
            "four times its blocks, five times those of `fragmentation`, + `64M` + `4M` a thread, at most half of the available memory",
            |values| {
                let size = values.bytes("size")?;
                let threads = values.integer("threads")?;
                let wanted = size
                    .checked_mul(Defaults::of(values)?.limit_times)
                    .and_then(|bytes| bytes.checked_add(64 * MIB + threads * HEAP_OF_THREAD));
                let most = (values.available() / 2).max(size.saturating_add(64 * MIB));
                Ok(wanted.map(|wanted| Value::bytes(wanted.min(most))))
            },
        ),
        "limit of the memory cgroup that the worker runs in, also where no cgroup can be made: a worker that takes more is \
         ended",
    ),
    shared_keys::duration(
        "how long blocks are replaced, in seconds; of `large` also, after that, how long blocks are grown",
    ),
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
        "heap-cross-thread" "Cost of blocks that one thread allocates and another frees, on each allocator";
        "heap-large" "Cost of large blocks and of their growth by realloc, on each allocator";
        "heap-idle-threads" "RAM that an allocator keeps for each of a thousand idle threads";
    },
};

/// Adds the codes of its statements to those of others.
macro_rules! statements {
    ($add:ident $($others:tt)*) => {
        $add! { {
            /// The CPU time of an allocator over that of the best other one; of several tests, the geometric mean.
            HeapCpuTime values "tests" "cpu_time_ratio" names "subject" "other";
            /// The worst of these tests.
            HeapWorstCpuTime values "worst_cpu_time_ratio" names "subject" "other" "test";
            /// The RAM of an allocator over its live bytes, and that of the best other one.
            HeapRam values "ram_to_live_ratio" "other_ram_to_live_ratio" names "subject" "other";
            /// The memory of an allocator that remained resident after all frees, and that of the best other one.
            HeapLeft values "left_bytes" "other_left_bytes" names "subject" "other";
            /// The RAM of an idle thread, and that with the best other allocator.
            HeapIdleThread values "idle_thread_bytes" "other_idle_thread_bytes" names "subject" "other";
        } $($others)* }
    };
}
pub(crate) use statements;

impl Model for Heap {
    /// One of blocks that are all alike has no range of sizes.
    fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        let heap = Heap {
            load: values.choice("heap-load")?,
            threads: values.count("threads")?,
            blocks: values.count("blocks")?,
            sizes: values.block_sizes("block-size")?,
            volume: values.bytes("volume")?,
            free_order: values.choice("free-order")?,
            duration: values.number("duration")?,
            hold: values.number("hold")?,
        };
        match values.given("block-size") {
            Some((value, place))
                if heap.load == HeapLoad::Aggressive && heap.sizes.low != heap.sizes.high =>
            {
                let message = format!("`aggressive` allocates blocks of one size, not of {value} bytes");
                return Err(place
                    .error(Problem::BadValue, message, "a range of sizes")
                    .help("write for example block-size = 32"));
            }
            _ => {}
        }
        match values.given("threads") {
            Some((value, place)) if heap.load == HeapLoad::CrossThread && heap.threads % 2 == 1 => {
                let message = format!("`cross-thread` needs pairs of threads, not {value} threads");
                Err(place
                    .error(Problem::BadValue, message, "an odd number of threads")
                    .help("write for example threads = 2"))
            }
            _ => Ok(heap),
        }
    }

    fn size_keys(&self) -> &'static [&'static str] {
        match self.load {
            HeapLoad::Replacement | HeapLoad::Larson | HeapLoad::Large => {
                &["blocks", "block-size", "threads"]
            }
            HeapLoad::CrossThread | HeapLoad::IdleThreads => &["block-size", "threads"],
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
            HeapLoad::Replacement | HeapLoad::Larson | HeapLoad::Scaling | HeapLoad::CrossThread => {
                self.duration
            }
            HeapLoad::Large => 2.0 * self.duration,
            HeapLoad::IdleThreads => IDLE_RESTS,
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
    use plimsoll_heap_load::Spread;

    use super::*;

    #[test]
    fn block_sizes_round_trip() {
        for (text, low, high, spread) in [
            ("0-1k", 1, 1024, Spread::Uniform),
            ("1-2k", 1024, 2048, Spread::Uniform),
            ("22", 22, 22, Spread::Uniform),
            ("16-64", 16, 64, Spread::Uniform),
            ("1000-2000", 1000, 2000, Spread::Uniform),
            ("16-1024k", 16 << 10, 1 << 20, Spread::Uniform),
            ("log:8-1000", 8, 1000, Spread::Inverse),
        ] {
            let sizes = BlockSizes { low, high, spread };
            assert_eq!(text.parse(), Ok(sizes), "{text}");
            assert_eq!(sizes.to_string(), text);
        }
        for text in ["", "k", "2-1k", "log:", "lin:8-1000", "0", "-5", "1-2-3"] {
            assert!(text.parse::<BlockSizes>().is_err(), "{text}");
        }
    }

    #[test]
    fn mostly_small_blocks_have_a_smaller_mean() {
        let mean = |text: &str| text.parse::<BlockSizes>().unwrap().mean();
        assert_eq!(mean("8-1000"), 504);
        assert!((150..250).contains(&mean("log:8-1000")));
        assert_eq!(mean("log:22"), 22);
    }

    #[test]
    fn live_bytes_count_all_threads() {
        let heap = |load| Heap {
            load,
            threads: 4,
            blocks: 1000,
            sizes: BlockSizes::one(22),
            volume: 1 << 20,
            free_order: HeapFreeOrder::Allocated,
            duration: 1.0,
            hold: 0.0,
        };
        assert_eq!(heap(HeapLoad::Replacement).live(), 88_000);
        assert_eq!(heap(HeapLoad::Scaling).live(), 22_000);
        assert_eq!(heap(HeapLoad::Scaling).blocks_a_thread(), 250);
        assert_eq!(heap(HeapLoad::Aggressive).live(), 4 << 20);
        assert_eq!(heap(HeapLoad::Fragmentation).live(), 1 << 20);
        assert_eq!(heap(HeapLoad::CrossThread).live(), 2 * 4096 * 22);
        assert_eq!(heap(HeapLoad::Large).live(), 88_000);
        assert_eq!(heap(HeapLoad::IdleThreads).live(), 88);
    }
}
