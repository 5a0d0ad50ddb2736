//! Sizes of the blocks of a load on malloc.

use std::fmt;
use std::str::FromStr;

use plimsoll_heap_load::Sizes;

use super::model::{ParseNameError, serde_as_text};

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
