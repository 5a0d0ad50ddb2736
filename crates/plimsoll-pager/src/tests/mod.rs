//! Tests of the whole manager: over the simulated driver, and on real memory.

mod policy;
mod real;
mod resize;
mod simulated;
