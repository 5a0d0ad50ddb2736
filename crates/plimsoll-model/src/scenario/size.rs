//! Sizes as people write them: `1G`, `512M`, `64KiB`, bytes, `25%` of RAM, `120% size`, `50% limit`.

use std::fmt;
use std::str::FromStr;

/// A size as it is written, before it is resolved against a machine and a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeExpr {
    /// A number of bytes, at least 1.
    Bytes(u64),
    /// A share of something that is known only when the trial is.
    Share {
        /// Thousandths of a percent, 1 to [`SizeExpr::MAX_THOUSANDTHS`].
        thousandths: u64,
        of: Base,
    },
}

/// Base of a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The smaller of RAM and the limit of our own cgroup. As text: nothing, or `ram`.
    Ram,
    Size,
    Limit,
}

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// No number at its start.
    #[error("not a size")]
    NotASize,
    #[error("a size cannot be negative")]
    Negative,
    /// Less than one byte, or 0%.
    #[error("a size cannot be zero")]
    Zero,
    /// More than 2^64 - 1 bytes, or a percentage beyond any use.
    #[error("too large: {0}")]
    TooLarge(&'static str),
    #[error("too many decimals: {0}")]
    TooPrecise(&'static str),
    /// The text after the number is no unit.
    #[error("`{0}` is not a unit")]
    UnknownUnit(String),
    /// The text after the `%` is no base of a share.
    #[error("a share cannot be taken of `{0}`")]
    UnknownBase(String),
}

/// Units by their lower-case spelling. Single letters and `iB` count in 1024, as fio's do; `kB`, `MB`, ... in 1000.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("p", 1 << 50),
    ("pib", 1 << 50),
    ("pb", 1_000_000_000_000_000),
    ("e", 1 << 60),
    ("eib", 1 << 60),
    ("eb", 1_000_000_000_000_000_000),
];

/// Units to offer when one is not known, in their usual spelling.
pub(super) const UNIT_NAMES: &[&str] = &[
    "B", "K", "M", "G", "T", "P", "E", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB",
];

const BILLION: u128 = 1_000_000_000;

impl SizeExpr {
    /// Largest share: 100 000%.
    pub const MAX_THOUSANDTHS: u64 = 100_000_000;

    /// The share of `base` bytes, or the bytes themselves; `None` where that exceeds 2^64 - 1.
    pub(super) fn share(thousandths: u64, base: u64) -> Option<u64> {
        u64::try_from(u128::from(base) * u128::from(thousandths) / 100_000).ok()
    }
}

/// Splits `12.5 GiB` into the number in billionths and the trimmed rest.
fn split_number(text: &str) -> Result<(u128, &str), SizeError> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(SizeError::NotASize);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 9 {
        return Err(SizeError::TooPrecise("at most nine are kept"));
    }
    let too_large = SizeError::TooLarge("the most is 16E - 1 bytes");
    let whole: u128 = whole.parse().map_err(|_| too_large.clone())?;
    let billionths: u128 = format!("{fraction:0<9}")
        .parse()
        .map_err(|_| SizeError::NotASize)?;
    let number = whole
        .checked_mul(BILLION)
        .and_then(|n| n.checked_add(billionths))
        .ok_or(too_large)?;
    Ok((number, rest.trim()))
}

fn parse_share(billionths: u128, base: &str) -> Result<SizeExpr, SizeError> {
    let base = base.to_ascii_lowercase();
    let of = match base.strip_prefix("of ").unwrap_or(&base).trim() {
        "" | "ram" => Base::Ram,
        "size" => Base::Size,
        "limit" => Base::Limit,
        other => return Err(SizeError::UnknownBase(other.to_owned())),
    };
    if !billionths.is_multiple_of(1_000_000) {
        return Err(SizeError::TooPrecise("a percentage keeps three"));
    }
    match u64::try_from(billionths / 1_000_000) {
        Ok(0) => Err(SizeError::Zero),
        Ok(thousandths) if thousandths <= SizeExpr::MAX_THOUSANDTHS => {
            Ok(SizeExpr::Share { thousandths, of })
        }
        _ => Err(SizeError::TooLarge("the most is 100000%")),
    }
}

impl FromStr for SizeExpr {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let text = text.trim();
        if let Some(positive) = text.strip_prefix('-') {
            let is_number = positive.starts_with(|c: char| c.is_ascii_digit());
            return Err(if is_number {
                SizeError::Negative
            } else {
                SizeError::NotASize
            });
        }
        let (billionths, rest) = split_number(text)?;
        if let Some(base) = rest.strip_prefix('%') {
            return parse_share(billionths, base.trim());
        }
        let lower = rest.to_ascii_lowercase();
        let unit = UNITS.iter().find(|(name, _)| *name == lower);
        let (_, unit) = unit.ok_or_else(|| SizeError::UnknownUnit(rest.to_owned()))?;
        if *unit == 1 && !billionths.is_multiple_of(BILLION) {
            return Err(SizeError::TooPrecise("there is no part of a byte"));
        }
        let bytes = billionths.checked_mul(u128::from(*unit)).map(|b| b / BILLION);
        match bytes.and_then(|b| u64::try_from(b).ok()) {
            None => Err(SizeError::TooLarge("the most is 16E - 1 bytes")),
            Some(0) => Err(SizeError::Zero),
            Some(bytes) => Ok(SizeExpr::Bytes(bytes)),
        }
    }
}

/// The shortest exact text of a size that reads back as the same number: `1G`, `1536M`, `1000`.
pub fn size_text(bytes: u64) -> String {
    for (letter, shift) in [('E', 60), ('P', 50), ('T', 40), ('G', 30), ('M', 20), ('K', 10)] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{letter}", bytes >> shift);
        }
    }
    bytes.to_string()
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Base::Ram => "ram",
            Base::Size => "size",
            Base::Limit => "limit",
        })
    }
}

impl fmt::Display for SizeExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            SizeExpr::Bytes(bytes) => f.write_str(&size_text(bytes)),
            SizeExpr::Share { thousandths, of } => {
                let decimals = format!("{:03}", thousandths % 1000);
                let decimals = decimals.trim_end_matches('0');
                let point = if decimals.is_empty() { "" } else { "." };
                write!(f, "{}{point}{decimals}%", thousandths / 1000)?;
                match of {
                    Base::Ram => Ok(()),
                    of => write!(f, " {of}"),
                }
            }
        }
    }
}
