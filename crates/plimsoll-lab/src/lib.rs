//! Everything that changes a machine: the environment of a trial, the workloads in it, the runner, a level of memory
//! that is held, and the sizing of running services.

pub mod environment;
pub mod hold;
mod program;
pub mod recorded_hold;
pub mod run;
pub mod service;
pub mod workload;
