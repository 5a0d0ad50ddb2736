//! Visiting the pages of filled memory by a pattern, with the latency of every visit.

use serde::{Deserialize, Serialize};

use crate::scenario::Pattern;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// How pages are chosen.
    pub pattern: Pattern,
    /// Seconds of computing after each visit.
    pub compute: f64,
    /// Seconds to warm up before anything is counted.
    pub warm_up: f64,
    /// Seconds to measure.
    pub seconds: f64,
    /// Seed of the choices.
    pub seed: u64,
}
