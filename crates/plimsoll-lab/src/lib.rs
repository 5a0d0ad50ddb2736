//! Everything that changes a machine: the environment of a trial, the workloads in it, and the runner.

pub mod environment;
mod program;
pub mod run;
pub mod workload;
