//! Everything that changes a machine: the environment of a trial, the workloads in it, the runner, a level of memory
//! that is held, the sizing of running services, and programs of the user in cgroups of their own.

pub mod confined;
pub mod environment;
pub mod guard;
pub mod hold;
mod program;
pub mod recorded_hold;
pub mod run;
pub mod service;
pub mod workload;
