//! The properties of a metric by its name: unit, direction, calibration.

use crate::analysis::metric::{Direction, MetricUnit};
use crate::workloads::find_metric;
use plimsoll_model::recording::model::Calibration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nature {
    pub unit: MetricUnit,
    pub direction: Direction,
    /// Whether the summary for people shows it even when nothing changed.
    pub headline: bool,
}

/// Values other than metrics of trials. Names and, after a `*`, endings of names: the first match applies.
const NATURES: &[(&str, MetricUnit, Direction, bool)] = &[
    ("release.seconds", MetricUnit::Seconds, Direction::Less, false),
    ("timeline.seconds", MetricUnit::Seconds, Direction::Neither, true),
    ("*.seconds", MetricUnit::Seconds, Direction::Less, true),
    ("*gb_per_s", MetricUnit::GbPerS, Direction::More, false),
    ("pressure.*", MetricUnit::Percent, Direction::Less, true),
    ("faults.*", MetricUnit::Count, Direction::Less, true),
    (
        "target.peak_resident_bytes",
        MetricUnit::Bytes,
        Direction::Neither,
        true,
    ),
    (
        "swap.peak_used_bytes",
        MetricUnit::Bytes,
        Direction::Neither,
        true,
    ),
    ("swap.in_bytes", MetricUnit::Bytes, Direction::Less, true),
    ("swap.out_bytes", MetricUnit::Bytes, Direction::Less, true),
    ("*_percent", MetricUnit::Percent, Direction::Neither, true),
    ("*_bytes", MetricUnit::Bytes, Direction::Neither, false),
    ("*_ratio", MetricUnit::Ratio, Direction::Neither, false),
    ("*_s", MetricUnit::Seconds, Direction::Neither, false),
];

/// The phases of the compression experiment, whose times are measurements.
const PHASES: [&str; 5] = ["fill", "writeback", "trim", "restore", "release"];

/// The properties of the metric with this name; an unknown name is a count.
pub fn nature(metric: &str) -> Nature {
    if let Some(known) = find_metric(metric) {
        return Nature {
            unit: MetricUnit::of_name(metric),
            direction: known.direction,
            headline: known.headline,
        };
    }
    let fits = |pattern: &str| match pattern.strip_prefix('*') {
        Some(ending) => metric.ends_with(ending),
        None => match pattern.strip_suffix('*') {
            Some(start) => metric.starts_with(start),
            None => metric == pattern,
        },
    };
    let found = NATURES.iter().find(|(pattern, ..)| fits(pattern));
    let (unit, direction, headline) = found.map_or(
        (MetricUnit::Count, Direction::Neither, false),
        |&(_, unit, direction, headline)| (unit, direction, headline),
    );
    Nature {
        unit,
        direction,
        headline,
    }
}

/// A speed of the calibration that a phase's work is set against, with its name.
pub(super) fn calibration_of(metric: &str, calibration: &Calibration) -> Option<(&'static str, f64)> {
    match metric.split_once('.')? {
        ("fill", "seconds" | "gb_per_s") => {
            Some(("calibration.first_touch", calibration.first_touch_gb_per_s))
        }
        ("trim", "seconds" | "gb_per_s") => Some(("calibration.memcpy", calibration.memcpy_gb_per_s)),
        ("restore", "seconds" | "gb_per_s") => Some(("calibration.read", calibration.read_gb_per_s)),
        _ => None,
    }
}

/// The metric of which this one is a restatement: only one of the two is tested, lest the same result counts twice.
pub(super) fn restated(metric: &str) -> Option<String> {
    if let Some(phase) = metric.strip_suffix(".gb_per_s") {
        return Some(format!("{phase}.seconds"));
    }
    let (phase, against) = metric.split_once("_to_")?;
    let of_phase = PHASES.contains(&phase) && against.ends_with("_ratio");
    of_phase.then(|| format!("{phase}.seconds"))
}

/// Speeds of phases stand among a trial's metrics too; they are compared once, as `PHASE.gb_per_s`.
pub(super) fn is_speed_of_phase(metric: &str) -> bool {
    let phase = metric.strip_suffix("_gb_per_s");
    phase.is_some_and(|phase| PHASES.contains(&phase))
}
