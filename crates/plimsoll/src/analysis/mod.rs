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

pub mod bystander;
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
mod results;
pub mod statistics;
pub mod thrash;
pub mod timeline;
pub mod wscap;

use std::collections::BTreeMap;

use crate::recording::model::{Calibration, Trial};
use crate::scenario::{Settings, Workload};

pub use crate::quantity::{gb_per_s, ratio};
pub use crate::recording::{PhaseRows, rows_around};
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
        Workload::Compression(_) => compression::metrics(trial, rows, calibration),
        Workload::Thrash(thrash) => thrash::metrics(trial, thrash),
        Workload::Loadline(_) => loadline::metrics(trial),
        Workload::Wscap(_) => wscap::metrics(trial),
        Workload::Map(map) => map::metrics(trial, map),
        Workload::Contention(_) => contention::metrics(trial),
        Workload::Heap(_) => heap::metrics(trial),
    }
}
