//! Everything that changes a machine: the environment of a trial, the workloads in it, the runner, and a level of
//! memory that is held.

pub mod environment;
pub mod hold;
mod program;
pub mod run;
pub mod workload;
