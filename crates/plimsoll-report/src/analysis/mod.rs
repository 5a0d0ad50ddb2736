//! Recordings to numbers. Prints nothing, reads no system.
//!
//! ```text
//! Recording -> results (what results.json holds)
//!           -> groups  (repeats of one trial side by side, with intervals)
//!           -> timeline (samples thinned out to what a page can show)
//! Row, Row  -> Frame (layers and gauges of one sample, for the monitor)
//! ```
//!
//! Invariant: a figure that is not known is absent. No function here returns an infinity or a NaN.

pub mod compare;
pub mod compression;
pub mod confounders;
pub mod contention;
pub mod curves;
pub mod frame;
pub mod gauges;
pub mod groups;
pub mod heap;
pub mod loadline;
pub mod map;
pub mod metric;
pub mod neighbour;
mod results;
pub mod statistics;
pub mod thrash;
pub mod timeline;
pub mod wscap;

use std::collections::BTreeMap;

use plimsoll_model::recording::PhaseRows;
use plimsoll_model::recording::model::{Calibration, Trial};
use plimsoll_model::scenario::{Settings, Workload};

pub use confounders::judge;
pub use frame::Frame;
pub use groups::{Group, groups};
pub use metric::{Direction, Metric, MetricUnit};
pub use results::{results, run_status, sampler_report};
pub use timeline::{Timeline, timeline};

/// The metrics of a trial, by its kind of work.
///
/// `rows` are the samples next to each of `trial.phases`, in the same order. A metric that cannot be known is absent.
pub fn metrics(
    trial: &Trial,
    settings: &Settings,
    rows: &[PhaseRows],
    calibration: Option<&Calibration>,
) -> BTreeMap<String, f64> {
    match &settings.workload {
        Workload::Compression => compression::metrics(trial, rows, calibration),
        Workload::Thrash(thrash) => thrash::metrics(trial, thrash),
        Workload::Loadline(_) => loadline::metrics(trial),
        Workload::Wscap(_) => wscap::metrics(trial),
        Workload::Map(map) => map::metrics(trial, map),
        Workload::Contention(_) => contention::metrics(trial),
        Workload::Heap(_) => heap::metrics(trial),
    }
}

/// `numerator / denominator` where that is a finite number.
pub fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    let ratio = numerator / denominator;
    ratio.is_finite().then_some(ratio)
}

/// Gigabytes (1e9 bytes) a second; 0 for what took no time that could be measured.
pub fn gb_per_s(bytes: u64, seconds: f64) -> f64 {
    ratio(bytes as f64 / 1e9, seconds).unwrap_or(0.0)
}
