//! An axis as numbers: its range, its places, its round ticks.

use super::Axis;
use crate::analysis::MetricUnit;
use crate::drawing::panel::round_step;

/// Limit of drawn values, so that arithmetic on axes stays finite.
const FARTHEST: f64 = 1e30;
/// The smallest value of a logarithmic axis.
const NEAREST: f64 = 1e-30;
/// Ranges narrower than this share of their values have no room for ticks that differ.
const NARROWEST: f64 = 1e-6;
/// Labelled ticks that an axis has at most.
const MOST_TICKS: usize = 24;

/// A range of values on a stretch of the drawing.
#[derive(Debug)]
pub(crate) struct Scale {
    unit: MetricUnit,
    log: bool,
    from: f64,
    to: f64,
    /// Where the ends stand in the drawing.
    start: f64,
    end: f64,
}

impl Scale {
    /// The scale of these values between two places of the drawing. `grounded` takes 0 into a linear axis.
    pub(crate) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        grounded: bool,
        (start, end): (f64, f64),
    ) -> Scale {
        let ends =
            values
                .filter_map(|value| usable(axis, value))
                .fold(None, |ends: Option<(f64, f64)>, value| {
                    let (low, high) = ends.unwrap_or((value, value));
                    Some((low.min(value), high.max(value)))
                });
        let (from, to) = match (ends, axis.log) {
            (Some(ends), true) => log_range(ends),
            (None, true) => (1.0, 10.0),
            (Some((low, high)), false) if grounded => linear_range((low.min(0.0), high.max(0.0))),
            (Some(ends), false) => linear_range(ends),
            (None, false) => (0.0, 1.0),
        };
        Scale {
            unit: axis.unit,
            log: axis.log,
            from,
            to,
            start,
            end,
        }
    }

    /// The scale of a linear axis with 0 on it.
    pub(crate) fn linear(unit: MetricUnit, values: impl Iterator<Item = f64>, ends: (f64, f64)) -> Scale {
        Scale::new(&Axis::linear("", unit), values, true, ends)
    }

    /// The position of a value; `None` outside of the axis.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        let value = match self.log {
            true if value < NEAREST => return None,
            _ if value.is_nan() => return None,
            _ => value.clamp(self.from, self.to),
        };
        let share = if self.log {
            (value / self.from).log10() / (self.to / self.from).log10()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        Some(self.start + share * (self.end - self.start))
    }

    pub(crate) fn from(&self) -> f64 {
        self.from
    }

    /// Values with words at the axis, at least `apart` from each other in the drawing where that is possible.
    pub(crate) fn ticks(&self, apart: f64) -> Vec<f64> {
        let wanted = ((self.end - self.start).abs() / apart).clamp(1.0, MOST_TICKS as f64);
        if !self.log {
            return self.linear_ticks(wanted);
        }
        let decades = (self.to / self.from).log10();
        let ticks = if self.unit == MetricUnit::Bytes {
            // Powers of two, so many doublings apart that they have room.
            let doublings = (decades / 2f64.log10() / wanted).ceil().max(1.0);
            self.powers(2.0, doublings)
        } else if decades > wanted {
            self.powers(10.0, (decades / wanted).ceil())
        } else if decades * 3.0 <= wanted {
            self.within_decades(&[1.0, 2.0, 5.0])
        } else {
            self.powers(10.0, 1.0)
        };
        match ticks.len() {
            // Less than a decade: steps of a sum say more than those of a factor.
            0 | 1 => self.linear_ticks(wanted),
            _ => ticks,
        }
    }

    /// Values with a line but no words: between the decades of a logarithmic axis.
    pub(crate) fn minor_ticks(&self) -> Vec<f64> {
        const MOST_DECADES: f64 = 6.0;
        if !self.log || self.unit == MetricUnit::Bytes || (self.to / self.from).log10() > MOST_DECADES {
            return Vec::new();
        }
        self.within_decades(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
    }

    fn linear_ticks(&self, wanted: f64) -> Vec<f64> {
        let rough = (self.to - self.from) / wanted;
        let step = match self.unit {
            MetricUnit::Bytes => 2f64.powf(rough.log2().ceil()),
            _ => round_step(rough),
        };
        let first = (self.from / step - 1e-6).ceil();
        (0..=MOST_TICKS)
            .map(|index| (first + index as f64) * step)
            .take_while(|tick| *tick <= self.to + step * 1e-6)
            .collect()
    }

    /// Every so manieth power of `base` in the range.
    fn powers(&self, base: f64, stride: f64) -> Vec<f64> {
        let exponent = |value: f64| value.ln() / base.ln();
        let first = ((exponent(self.from) - 1e-9) / stride).ceil() * stride;
        (0..=MOST_TICKS)
            .map(|index| first + index as f64 * stride)
            .take_while(|power| *power <= exponent(self.to) + 1e-9)
            .map(|power| base.powf(power))
            .collect()
    }

    fn within_decades(&self, factors: &[f64]) -> Vec<f64> {
        let decades = self.from.log10().floor() as i32..=self.to.log10().floor() as i32;
        let inside = |value: &f64| *value >= self.from * (1.0 - 1e-9) && *value <= self.to * (1.0 + 1e-9);
        decades
            .flat_map(|decade| factors.iter().map(move |factor| factor * 10f64.powi(decade)))
            .filter(inside)
            .collect()
    }
}

/// The value as the axis can take it: finite, and above 0 where steps are factors.
pub(crate) fn usable(axis: &Axis, value: f64) -> Option<f64> {
    if !value.is_finite() || (axis.log && value < NEAREST) {
        return None;
    }
    Some(value.clamp(-FARTHEST, FARTHEST))
}

/// A range that is not empty, with a little room at an end that is not 0.
fn linear_range((low, high): (f64, f64)) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if size == 0.0 {
        return (0.0, 1.0);
    }
    if high - low < size * NARROWEST {
        return (low - size / 2.0, high + size / 2.0);
    }
    let room = (high - low) * 0.03;
    let (below, above) = (
        if low == 0.0 { 0.0 } else { room },
        if high == 0.0 { 0.0 } else { room },
    );
    (low - below, high + above)
}

/// A range of at least a factor of two, with a little room at both ends.
fn log_range((low, high): (f64, f64)) -> (f64, f64) {
    let room = (high / low)
        .powf(0.02)
        .max(if high < low * 2.0 { 1.5 } else { 1.0 });
    (low / room, high * room)
}
