//! The parsers of values of options. Clap adds the option and the value to their errors.

use plimsoll_model::scenario::{SizeError, SizeExpr};

/// Longest duration in seconds: ten years.
const LONGEST: f64 = 3.2e8;

/// An option has an invalid value. Clap adds the option and the value.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    #[error("not a time; give seconds, or a number with s, m, h or d")]
    NoNumber,
    #[error("out of range; give seconds from 0 to {LONGEST}")]
    Seconds,
    #[error("{0}; give bytes, for instance 512M")]
    Size(#[from] SizeError),
    #[error("a share; give bytes, for instance 512M")]
    Share,
    #[error("not bytes a second; give for instance 10M/s")]
    Rate,
    #[error("no time; give more than 0 seconds")]
    NoTime,
    #[error("not a share; give a percentage above 0 and below 100, for instance 0.1%")]
    Percent,
    #[error("not an address and a port; give for instance 127.0.0.1:8080; port 0 selects a free port")]
    Address,
}

/// Parses a time: seconds, or a number with `s`, `m`, `h` or `d`.
pub(super) fn seconds(text: &str) -> Result<f64, ValueError> {
    const UNITS: [(char, f64); 4] = [('s', 1.0), ('m', 60.0), ('h', 3600.0), ('d', 86400.0)];
    let unit = UNITS
        .into_iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    let number: f64 = number.trim().parse().map_err(|_| ValueError::NoNumber)?;
    let seconds = number * unit;
    match (0.0..=LONGEST).contains(&seconds) {
        true => Ok(seconds),
        false => Err(ValueError::Seconds),
    }
}

/// Parses a time above 0.
pub(super) fn some_seconds(text: &str) -> Result<f64, ValueError> {
    match seconds(text)? {
        0.0 => Err(ValueError::NoTime),
        seconds => Ok(seconds),
    }
}

/// Parses bytes with a unit.
pub(super) fn bytes(text: &str) -> Result<u64, ValueError> {
    match text.parse()? {
        SizeExpr::Bytes(bytes) => Ok(bytes),
        SizeExpr::Share { .. } => Err(ValueError::Share),
    }
}

/// Parses bytes a second.
pub(super) fn rate(text: &str) -> Result<u64, ValueError> {
    match text.strip_suffix("/s").ok_or(ValueError::Rate)?.parse()? {
        SizeExpr::Bytes(bytes) => Ok(bytes),
        SizeExpr::Share { .. } => Err(ValueError::Rate),
    }
}

/// Parses a percentage above 0 and below 100, with or without `%`. Returns percent.
pub(super) fn percent(text: &str) -> Result<f64, ValueError> {
    let number: f64 = text
        .strip_suffix('%')
        .unwrap_or(text)
        .parse()
        .map_err(|_| ValueError::Percent)?;
    match number > 0.0 && number < 100.0 {
        true => Ok(number),
        false => Err(ValueError::Percent),
    }
}

/// Parses an address and a port; `localhost` is 127.0.0.1.
pub(super) fn address(text: &str) -> Result<std::net::SocketAddr, ValueError> {
    let named = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    let address = named.as_deref().unwrap_or(text).parse();
    address.map_err(|_| ValueError::Address)
}
