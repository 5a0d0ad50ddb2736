//! Work on malloc: loads whose subject is an allocator.

use std::fmt;
use std::str::FromStr;

use plimsoll_heap_load::Sizes;
use serde::{Deserialize, Serialize};

use super::model::{ParseNameError, serde_as_text};
use super::workloads::named;

/// A load on malloc (Probert).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Heap {
    /// Which load.
    pub load: HeapLoad,
    /// Threads at a time.
    pub threads: u32,
    /// Blocks that each thread holds; of `scaling` all threads together.
    pub blocks: u32,
    /// Their sizes.
    pub sizes: BlockSizes,
    /// Bytes that `aggressive` allocates in each thread, and `fragmentation` in all.
    pub volume: u64,
    /// Seconds that are measured, of those loads that go on until then.
    pub duration: f64,
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

    /// Whether it goes on for its `duration`, rather than until a piece of work is done.
    pub fn is_timed(&self) -> bool {
        !matches!(self.load, HeapLoad::Aggressive | HeapLoad::Fragmentation)
    }
}

/// The load on malloc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeapLoad {
    /// Each thread frees a block of its own at random and allocates another one.
    Replacement,
    /// The same, and threads end and hand their blocks on to new ones.
    Larson,
    /// Each thread allocates many small blocks at once and frees them, twice.
    Aggressive,
    /// Sizes that shift, so that what was freed does not fit what is asked for.
    Fragmentation,
    /// As replacement, with the blocks divided among the threads.
    Scaling,
}

/// Sizes of blocks: every one of a range as often as another. As text: `0-1k`, `1-2k`, `22`, `16-64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// The smallest in bytes, at least 1.
    pub low: u32,
    /// The largest in bytes.
    pub high: u32,
}

impl BlockSizes {
    /// Up to 1 KiB.
    pub const UP_TO_1K: BlockSizes = BlockSizes { low: 1, high: 1024 };

    /// This one alone.
    pub const fn one(bytes: u32) -> BlockSizes {
        BlockSizes {
            low: bytes,
            high: bytes,
        }
    }

    /// Bytes of a block on an average.
    pub fn mean(self) -> u64 {
        u64::from(self.low).midpoint(self.high.into())
    }
}

impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const K: u32 = 1024;
        let BlockSizes { low, high } = *self;
        if low == high {
            write!(f, "{low}")
        } else if high.is_multiple_of(K) && (low == 1 || low.is_multiple_of(K)) {
            // A block has at least one byte: 0 stands for 1.
            write!(f, "{}-{}k", low / K, high / K)
        } else {
            write!(f, "{low}-{high}")
        }
    }
}

impl FromStr for BlockSizes {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Other spreads are none of a scenario's.
        let sizes = Some(text).filter(|text| !text.contains(':'));
        let sizes = sizes.and_then(|text| text.parse::<Sizes>().ok());
        let range = sizes.map(|sizes| BlockSizes {
            low: sizes.low(),
            high: sizes.high(),
        });
        range.ok_or_else(|| ParseNameError {
            given: text.to_owned(),
            what: "size of blocks",
            known: "a number of bytes (22), or two with - between them (0-1k, 16-64); k, m stand for 1024, 1024 x 1024",
        })
    }
}

serde_as_text!(BlockSizes);

named!(
    HeapLoad,
    "replacement" = HeapLoad::Replacement,
    "larson" = HeapLoad::Larson,
    "aggressive" = HeapLoad::Aggressive,
    "fragmentation" = HeapLoad::Fragmentation,
    "scaling" = HeapLoad::Scaling,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_blocks_are_written_as_they_are_read() {
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
    fn what_is_live_is_that_of_all_threads() {
        let heap = |load| Heap {
            load,
            threads: 4,
            blocks: 1000,
            sizes: BlockSizes { low: 22, high: 22 },
            volume: 1 << 20,
            duration: 1.0,
        };
        assert_eq!(heap(HeapLoad::Replacement).live(), 88_000);
        assert_eq!(heap(HeapLoad::Scaling).live(), 22_000);
        assert_eq!(heap(HeapLoad::Scaling).blocks_a_thread(), 250);
        assert_eq!(heap(HeapLoad::Aggressive).live(), 4 << 20);
        assert_eq!(heap(HeapLoad::Fragmentation).live(), 1 << 20);
    }
}
