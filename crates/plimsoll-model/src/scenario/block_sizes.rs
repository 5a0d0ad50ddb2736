//! Sizes of the blocks of a load on malloc.

use std::fmt;
use std::str::FromStr;

use plimsoll_heap_load::{Sizes, SizesError, Spread};

use super::model::{ParseNameError, serde_as_text};

/// Sizes of blocks: a range, and the frequency of each size in it. As text: `0-1k`, `1-2k`, `22`, `16-64`, and
/// `log:8-1000` for [`Spread::Inverse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// The smallest in bytes, at least 1.
    pub low: u32,
    /// The largest in bytes.
    pub high: u32,
    pub spread: Spread,
}

impl BlockSizes {
    /// Up to 1 KiB.
    pub const UP_TO_1K: BlockSizes = BlockSizes::uniform(1, 1024);

    /// Each size from `low` to `high` bytes with the same frequency.
    pub const fn uniform(low: u32, high: u32) -> BlockSizes {
        BlockSizes {
            low,
            high,
            spread: Spread::Uniform,
        }
    }

    pub const fn one(bytes: u32) -> BlockSizes {
        BlockSizes::uniform(bytes, bytes)
    }

    /// Bytes of a block on an average.
    pub fn mean(self) -> u64 {
        match self.spread {
            Spread::Uniform => u64::from(self.low).midpoint(self.high.into()),
            Spread::Inverse => {
                let octaves = (f64::from(self.high) / f64::from(self.low)).ln();
                let mean = f64::from(self.high - self.low) / octaves;
                if mean.is_finite() {
                    mean as u64
                } else {
                    self.low.into()
                }
            }
        }
    }

    /// The sizes that a load draws.
    ///
    /// # Errors
    /// Fails if `low` is above `high`.
    pub fn sizes(self) -> Result<Sizes, SizesError> {
        Sizes::new(self.low, self.high, self.spread)
    }
}

impl fmt::Display for BlockSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const K: u32 = 1024;
        let BlockSizes { low, high, spread } = *self;
        if spread == Spread::Inverse {
            f.write_str("log:")?;
        }
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
        let range = text.parse::<Sizes>().ok().map(|sizes| BlockSizes {
            low: sizes.low(),
            high: sizes.high(),
            spread: sizes.spread(),
        });
        range.ok_or_else(|| ParseNameError {
            given: text.to_owned(),
            what: "size of blocks",
            known: "a number of bytes (22), or two with - between them (0-1k, 16-64), after log: mostly small ones (log:8-1000); k, m stand for 1024, 1024 x 1024",
        })
    }
}

serde_as_text!(BlockSizes);
