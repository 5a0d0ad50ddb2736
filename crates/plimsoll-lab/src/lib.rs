//! Everything that changes a machine: the environment of a trial, the workloads in it, and the runner.

pub mod environment;
pub mod run;
pub mod workload;
