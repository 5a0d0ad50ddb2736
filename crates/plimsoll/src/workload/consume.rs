//! A consumer of the thrashing benchmark: memory from malloc, cycles of writes at random bytes, sleeps.

use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consume {
    /// S: bytes that it allocates.
    pub bytes: u64,
    /// W: writes in one cycle.
    pub writes: u64,
    /// t_s: seconds of sleep between two cycles.
    pub sleep: f64,
    /// Seconds from the command to its own start.
    pub start: f64,
    /// Seconds from the command to the common end.
    pub end: f64,
    /// Seed of the places and the bytes.
    pub seed: u64,
}
