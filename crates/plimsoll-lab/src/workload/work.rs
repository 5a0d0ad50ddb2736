//! The interface between a worker and its workloads.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::memory::Memory;
use super::protocol::Reply;

/// The worker's side of a workload: it carries out the workload's own requests, and keeps the state between them.
pub(crate) trait Work {
    /// Carries out a request, on the worker's filled memory, if any. An error holds action, cause and remedy.
    fn carry_out(&mut self, request: &Value, memory: Option<&mut Memory>) -> Result<Reply, String>;

    /// Forgets the state of the filled memory, which is gone.
    fn released(&mut self) {}
}

/// The worker's side of a workload that needs no requests of its own.
#[derive(Debug, Default)]
pub(crate) struct NoRequests;

impl Work for NoRequests {
    fn carry_out(&mut self, request: &Value, _: Option<&mut Memory>) -> Result<Reply, String> {
        Err(format!(
            "cannot carry out {request}: this workload has no requests"
        ))
    }
}

pub(crate) fn typed<T: DeserializeOwned>(request: &Value) -> Result<T, String> {
    T::deserialize(request).map_err(|error| format!("cannot read the request: {error}"))
}

pub(crate) fn nothing_filled(what: &str) -> String {
    format!("cannot {what}: no memory is filled; send a fill first")
}
