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
pub mod frame;
pub mod gauges;
pub mod groups;
mod results;
pub mod statistics;
pub mod timeline;

pub use confounders::judge;
pub use frame::Frame;
pub use groups::{Group, groups};
pub use results::{results, run_status, sampler_report};
pub use timeline::{Timeline, timeline};

/// `numerator / denominator` where that is a finite number.
pub fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    let ratio = numerator / denominator;
    ratio.is_finite().then_some(ratio)
}

/// Gigabytes (1e9 bytes) a second; 0 for what took no time that could be measured.
pub fn gb_per_s(bytes: u64, seconds: f64) -> f64 {
    ratio(bytes as f64 / 1e9, seconds).unwrap_or(0.0)
}
