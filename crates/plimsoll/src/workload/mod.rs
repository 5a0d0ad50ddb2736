//! What a worker does: one file an access pattern or experiment, and the protocol the runner drives it by.
//!
//! Invariant: a worker never looks at the system as a whole and never prints to people; it answers the runner.

pub mod protocol;
