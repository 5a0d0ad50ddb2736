//! Values over another value, of repeats: one line with its spread.

use super::ratio;
use super::statistics::summarise;

/// A line of several repeats at one place: median, least and greatest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The value on the axis.
    pub x: f64,
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

/// Repeats of a line, each by ascending x, at every place that one of them has: the others by the line between their
/// neighbouring points, and not beyond their ends.
pub fn across(lines: &[Vec<(f64, f64)>]) -> Vec<Spread> {
    let mut places: Vec<f64> = lines.iter().flatten().map(|(x, _)| *x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let spread = |x: f64| {
        let values: Vec<f64> = lines.iter().filter_map(|line| value_at(line, x)).collect();
        let summary = summarise(&values, 0)?;
        Some(Spread {
            x,
            median: summary.median,
            min: summary.min,
            max: summary.max,
        })
    };
    places.into_iter().filter_map(spread).collect()
}

/// The value of a line, by ascending x, at `x`.
fn value_at(line: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = line.iter().position(|(at, _)| *at >= x)?;
    let (right, high) = line[after];
    if right == x {
        return Some(high);
    }
    let (left, low) = line[after.checked_sub(1)?];
    Some(low + (high - low) * ratio(x - left, right - left)?)
}
