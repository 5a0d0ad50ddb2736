//! Tests of the whole manager: over the simulated driver, and on real memory.

mod real;
mod simulated;
mod tiers;
