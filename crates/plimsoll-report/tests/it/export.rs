//! Exports: other programs read the recorded values.

mod prometheus;
mod samples;
