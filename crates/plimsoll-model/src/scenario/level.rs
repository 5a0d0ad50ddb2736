//! A level of memory: `used=80%`, `available=2G`, `bytes=512M`.

use std::fmt;
use std::str::FromStr;

use super::model::serde_as_text;
use super::size::{Base, SizeError, SizeExpr};

/// Levels to offer when one is not known.
pub(super) const LEVELS: &[&str] = &["used=80%", "available=2G", "bytes=512M"];

/// A part of the memory of a machine or a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Bytes(u64),
    /// Thousandths of a percent of the whole, 1 to [`Amount::WHOLE`].
    Share(u64),
}

/// A text that is not an [`Amount`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AmountError {
    #[error("{0}; give bytes or a share, for instance 512M or 80%")]
    Size(#[from] SizeError),
    #[error("the share of another value; give a share of the whole, for instance 80%")]
    Base,
    #[error("more than the whole; give a share of at most 100%")]
    MoreThanWhole,
}

impl Amount {
    /// 100% in thousandths of a percent.
    pub const WHOLE: u64 = 100_000;

    /// Bytes, of a whole of `total`.
    pub fn of(self, total: u64) -> u64 {
        match self {
            Amount::Bytes(bytes) => bytes,
            // At most the whole.
            Amount::Share(thousandths) => SizeExpr::share(thousandths, total).unwrap_or(total),
        }
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Amount, AmountError> {
        match text.parse()? {
            SizeExpr::Bytes(bytes) => Ok(Amount::Bytes(bytes)),
            SizeExpr::Share { of, .. } if of != Base::Ram => Err(AmountError::Base),
            SizeExpr::Share { thousandths, .. } if thousandths > Amount::WHOLE => {
                Err(AmountError::MoreThanWhole)
            }
            SizeExpr::Share { thousandths, .. } => Ok(Amount::Share(thousandths)),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Amount::Bytes(bytes) => SizeExpr::Bytes(bytes).fmt(f),
            Amount::Share(thousandths) => SizeExpr::Share {
                thousandths,
                of: Base::Ram,
            }
            .fmt(f),
        }
    }
}

/// A level that one process holds while others allocate and free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// All programs together use this much.
    Used(Amount),
    /// This much stays available to other programs.
    Available(Amount),
    /// The holder holds this much, regardless of other programs.
    Bytes(Amount),
}

/// A text that is not a [`Level`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LevelError {
    #[error("`{0}` is not a level; known are used=SIZE, available=SIZE, bytes=SIZE")]
    Unknown(String),
    #[error("cannot read the level `{given}`: {source}")]
    Amount { given: String, source: AmountError },
}

impl Level {
    /// Bytes that stay available to other programs, the experiment included, on a machine with `ram` bytes of which
    /// `available` are available without the level.
    pub fn leaves(self, ram: u64, available: u64) -> u64 {
        match self {
            Level::Used(amount) => ram.saturating_sub(amount.of(ram)),
            Level::Available(amount) => amount.of(ram),
            Level::Bytes(amount) => available.saturating_sub(amount.of(ram)),
        }
    }
}

impl FromStr for Level {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Level, LevelError> {
        let (name, amount) = text.split_once('=').unwrap_or((text, ""));
        let level = match name.trim() {
            "used" => Level::Used,
            "available" => Level::Available,
            "bytes" => Level::Bytes,
            _ => return Err(LevelError::Unknown(text.to_owned())),
        };
        amount.parse().map(level).map_err(|source| LevelError::Amount {
            given: text.to_owned(),
            source,
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Used(amount) => write!(f, "used={amount}"),
            Level::Available(amount) => write!(f, "available={amount}"),
            Level::Bytes(amount) => write!(f, "bytes={amount}"),
        }
    }
}

serde_as_text!(Level);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_level_round_trips(kind in 0..3_u8, share: bool, number in 1..=Amount::WHOLE) {
            let amount = if share { Amount::Share(number) } else { Amount::Bytes(number) };
            let level = match kind {
                0 => Level::Used(amount),
                1 => Level::Available(amount),
                _ => Level::Bytes(amount),
            };
            prop_assert_eq!(level.to_string().parse(), Ok(level));
        }
    }

    #[test]
    fn a_level_leaves_memory_to_the_experiment() {
        let leaves = |text: &str| text.parse::<Level>().unwrap().leaves(1000, 900);
        assert_eq!(leaves("used=80%"), 200);
        assert_eq!(leaves("available=300"), 300);
        assert_eq!(leaves("bytes=300"), 600);
        assert_eq!(leaves("bytes=1000"), 0);
    }

    #[test]
    fn other_texts_are_no_levels() {
        for text in [
            "",
            "80%",
            "free=1G",
            "used",
            "used=",
            "used=0",
            "used=nan%",
            "used=-1G",
            "used=5% size",
        ] {
            assert!(text.parse::<Level>().is_err(), "{text}");
        }
        assert!(matches!(
            "used=101%".parse::<Level>(),
            Err(LevelError::Amount {
                source: AmountError::MoreThanWhole,
                ..
            })
        ));
    }
}
