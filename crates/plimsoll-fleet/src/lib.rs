//! One experiment on many machines.
//!
//! A [`Plan`](plan::Plan) is a folder with a scenario, a program and a list of tasks. An engine (Slurm, ssh, Kubernetes) places the
//! tasks on hosts, logs and retries them. A task is a run with an id and at most one result ([`task`]). [`collect`] merges the
//! results into a data set, and [`report`] reads only that.

pub mod collect;
mod error;
pub mod fingerprint;
mod folder;
pub mod hosts;
pub mod kubernetes;
mod name;
pub mod plan;
pub mod planning;
pub mod report;
mod script;
pub mod slurm;
pub mod ssh;
mod submission;
pub mod task;
mod text;
pub mod views;

pub use error::FleetError;
pub use folder::Folder;
pub use submission::{Cancelled, Submitted, submit_commands};
