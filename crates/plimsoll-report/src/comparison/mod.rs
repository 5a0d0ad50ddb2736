//! Runs against a baseline: changes, their size, and their significance.
//!
//! ```text
//! Recording, Results (two or more) -> Comparison: runs, differences of their circumstances, rows
//! "restore.seconds>10%", Comparison -> Condition -> Outcome (passed, failed, unknown)
//! ```
//!
//! The first run is the baseline; every other one is compared with it. Groups with the same identity (a trial's id
//! without its repeat) is compared, metric by metric: a [`Row`] each.

mod build;
mod circumstances;
mod condition;
mod input;
mod metrics;
mod model;
mod timelines;

pub use crate::analysis::metric::{Direction, MetricUnit};
pub use build::{CompareError, compare, compare_fleets};
pub use condition::{Condition, ConditionError, Fault, Limit, Operator, check, known};
pub use input::{Fleet, GroupValues, Input};
pub use metrics::{Nature, nature};
pub use model::{
    Basis, COMPARISON_SCHEMA, Comparison, Difference, Lone, Normalised, Outcome, Row, Run, Side, State,
    Subject, Tally, Verdict,
};
