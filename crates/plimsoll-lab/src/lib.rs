//! Everything that changes a machine: the environment of a trial, the workloads in it, the runner, and the sizing of
//! running services.

pub mod environment;
pub mod run;
pub mod service;
pub mod workload;
