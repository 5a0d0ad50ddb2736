//! Writing a byte in every page of filled memory, again and again, and counting the scans.

use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    /// Seconds to go on for.
    pub seconds: f64,
    /// Most bytes that stay resident, where the worker trims itself once a second; none where somebody else does.
    pub balance: Option<u64>,
}
