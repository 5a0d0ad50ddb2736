//! Recordings to numbers. Prints nothing, reads no system.
//!
//! ```text
//! Recording -> confounders (disturbances, with the trials that they spoil)
//!           -> groups  (repeats of one trial side by side, with intervals)
//!           -> timeline (samples thinned out for a report)
//! Row, Row  -> Frame (layers and gauges of one sample, for the monitor)
//! ```
//!
//! Invariant: an unknown value is absent. No function here returns an infinity or a NaN. Checked by
//! `no_value_is_ever_infinite`.

pub mod background;
pub mod confounders;
pub mod curves;
pub mod frame;
pub mod gauges;
pub mod groups;
pub mod lines;
pub mod metric;
pub mod name_map;
pub mod neighbour;
pub mod statistics;
pub mod thinning;
pub mod timeline;

pub use frame::Frame;
pub use groups::{Group, groups};
pub use metric::{Direction, Metric, MetricUnit};

pub use plimsoll_model::quantity::{gb_per_s, ratio};
pub use plimsoll_model::recording::{PhaseRows, rows_around};
pub use timeline::{Timeline, timeline};
