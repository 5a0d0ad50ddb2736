//! Levels of memory and of pressure.

use std::str::FromStr;

use plimsoll_model::recording::hold::HoldGoal;
use plimsoll_model::scenario::{self, Amount};

/// A level as it is asked for; shares are of the scope's total.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Level {
    /// This much is in use, by all programs together.
    Used(Amount),
    /// This much stays available to others.
    Available(Amount),
    /// This much, beside any use of others; each second `leak` bytes more.
    Held { bytes: Amount, leak: u64 },
    /// This share of time is a stall for memory.
    Pressure(Pressure),
}

impl From<scenario::Level> for Level {
    fn from(level: scenario::Level) -> Level {
        match level {
            scenario::Level::Used(amount) => Level::Used(amount),
            scenario::Level::Available(amount) => Level::Available(amount),
            scenario::Level::Bytes(bytes) => Level::Held { bytes, leak: 0 },
        }
    }
}

/// The lines of a pressure file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PressureKind {
    /// Some task stalls.
    Some,
    /// All tasks that are not idle stall.
    Full,
}

/// A share of time that is a stall, as text: `some=10%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    pub kind: PressureKind,
    /// More than 0, at most 100.
    pub percent: f64,
}

impl From<Pressure> for HoldGoal {
    fn from(pressure: Pressure) -> HoldGoal {
        match pressure.kind {
            PressureKind::Some => HoldGoal::SomePercent(pressure.percent),
            PressureKind::Full => HoldGoal::FullPercent(pressure.percent),
        }
    }
}

/// A text that is not a [`Pressure`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PressureError {
    #[error("neither some nor full; give for instance some=10%")]
    Kind,
    #[error("not a percentage; give for instance some=10%")]
    Percent,
    #[error("out of range; give more than 0% and at most 100%")]
    Range,
}

impl FromStr for Pressure {
    type Err = PressureError;

    fn from_str(text: &str) -> Result<Pressure, PressureError> {
        let (kind, percent) = text.split_once('=').ok_or(PressureError::Kind)?;
        let kind = match kind {
            "some" => PressureKind::Some,
            "full" => PressureKind::Full,
            _ => return Err(PressureError::Kind),
        };
        let percent = percent.strip_suffix('%').and_then(|number| number.parse().ok());
        let percent: f64 = percent.ok_or(PressureError::Percent)?;
        match percent > 0.0 && percent <= 100.0 {
            true => Ok(Pressure { kind, percent }),
            false => Err(PressureError::Range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pressure_is_a_line_and_a_percentage() {
        assert_eq!(
            "some=10%".parse(),
            Ok(Pressure {
                kind: PressureKind::Some,
                percent: 10.0
            })
        );
        for (text, error) in [
            ("10%", PressureError::Kind),
            ("none=10%", PressureError::Kind),
            ("full=10", PressureError::Percent),
            ("full=%", PressureError::Percent),
            ("some=0%", PressureError::Range),
            ("some=NaN%", PressureError::Range),
            ("some=-1%", PressureError::Range),
            ("some=100.1%", PressureError::Range),
        ] {
            assert_eq!(text.parse::<Pressure>(), Err(error), "{text}");
        }
    }
}
