//! One experiment on many machines.
//!
//! A fleet folder holds a scenario, a program and a [`Plan`](plan::Plan) with its tasks. An engine (Slurm, ssh, Kubernetes) places
//! the tasks on hosts, logs and retries them. A task is a run with an id and at most one result ([`task`]). [`collect`] merges the
//! results into a data set; [`report`] reads the data set and the plan.

pub mod accounting;
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
mod sha256;
pub mod slurm;
pub mod ssh;
mod submission;
pub mod task;
mod text;
pub mod views;

pub use error::FleetError;
pub use folder::Folder;
pub use submission::{Cancelled, Submitted, submit_commands};
