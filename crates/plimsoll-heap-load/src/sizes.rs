//! The sizes of the blocks that a load asks for.

use std::fmt;
use std::str::FromStr;

/// A range of sizes and their distribution over it.
///
/// As text: `0-1k`, `16-64`, `16k-1m`, `22` for one size, `log:8b-1000` for [`Spread::Inverse`]. A lower bound without
/// a unit has the unit of the upper one, as in "1-2k"; `b` stands for bytes. A lower bound of 0 means 1, as a block of
/// no bytes cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    low: u32,
    high: u32,
    spread: Spread,
}

/// How often each size of a range is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Every size as often as another.
    Uniform,
    /// Every power of two as often as another, so that small blocks are the many, as in SmartHeap's sh8bench.
    Inverse,
}

/// A range of sizes that makes no sense, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizesError(String);

impl Sizes {
    /// Sizes from `low` (at least 1) to `high` bytes, both included.
    ///
    /// # Errors
    /// Fails when `low` is above `high`, or `high` is 0.
    pub fn new(low: u32, high: u32, spread: Spread) -> Result<Sizes, SizesError> {
        let low = low.max(1);
        if low > high {
            return Err(SizesError(format!(
                "sizes from {low} to {high} bytes: the first must not be above the second \
                 (a bound without a unit has the unit of the second: write 16b-1k for 16 bytes)"
            )));
        }
        Ok(Sizes { low, high, spread })
    }

    /// Sizes from `low` to `high` bytes, known to be right.
    pub(crate) const fn uniform(low: u32, high: u32) -> Sizes {
        assert!(low > 0 && low <= high);
        Sizes {
            low,
            high,
            spread: Spread::Uniform,
        }
    }

    /// The smallest size in bytes, at least 1.
    pub fn low(self) -> u32 {
        self.low
    }

    pub fn high(self) -> u32 {
        self.high
    }

    pub fn spread(self) -> Spread {
        self.spread
    }

    /// A size from the lower half of a random draw.
    #[inline(always)]
    pub fn pick(self, draw: u64) -> u32 {
        let below = |count: u32| (((draw & 0xFFFF_FFFF) * u64::from(count)) >> 32) as u32;
        match self.spread {
            Spread::Uniform => {
                // The span of all 32-bit sizes does not fit, and no load uses it: the highest is left out there.
                let span = (self.high - self.low).saturating_add(1);
                self.low + below(span)
            }
            Spread::Inverse => {
                let first = self.low.ilog2();
                let octave = first + below(self.high.ilog2() - first + 1);
                let within = (draw >> 24) as u32 & ((1 << octave) - 1);
                ((1 << octave) + within).clamp(self.low, self.high)
            }
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spread = match self.spread {
            Spread::Uniform => "",
            Spread::Inverse => "log:",
        };
        write!(f, "{spread}{}b-{}b", self.low, self.high)
    }
}

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Sizes, SizesError> {
        let (spread, range) = match text.strip_prefix("log:") {
            Some(range) => (Spread::Inverse, range),
            None => (Spread::Uniform, text),
        };
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let unit = high.trim_start_matches(|c: char| c.is_ascii_digit());
        let low = if low.ends_with(|c: char| c.is_ascii_digit()) {
            format!("{low}{unit}")
        } else {
            low.to_owned()
        };
        let bytes = |bound: &str| {
            parse_bytes(bound).and_then(|bytes| {
                u32::try_from(bytes)
                    .map_err(|_| SizesError(format!("`{bound}` is above 4 GiB, the largest block")))
            })
        };
        Sizes::new(bytes(&low)?, bytes(high)?, spread)
    }
}

/// Bytes from text such as `22`, `8b`, `16k`, `70m`, `2g`; the units are powers of 1024.
///
/// # Errors
/// Fails on another text, and above 2^64.
pub fn parse_bytes(text: &str) -> Result<u64, SizesError> {
    let wrong = || {
        SizesError(format!(
            "`{text}` is no size: write a number and b, k, m or g, as in 22, 8b or 16k"
        ))
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "" | "b" | "B" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).ok_or_else(wrong)
}

impl fmt::Display for SizesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SizesError {}
