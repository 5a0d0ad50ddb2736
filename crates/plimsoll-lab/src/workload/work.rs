//! The interface between a worker and its workloads.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::memory::Memory;
use super::protocol::{RefusalCode, Reply};

/// The worker's side of a workload: it carries out the workload's own requests, and keeps the state between them.
pub(crate) trait Work {
    /// Carries out a request, on the worker's filled memory, if any. An error holds action, cause and remedy.
    fn carry_out(&mut self, request: &Value, memory: Option<&mut Memory>) -> Result<Reply, WorkError>;

    /// Forgets the state of the filled memory, which is gone.
    fn released(&mut self) {}
}

/// The reason why a worker does not carry out a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error("cannot carry out a request of `{0}`: no workload has this name")]
    UnknownWorkload(String),
    #[error("cannot carry out {0}: this workload has no requests")]
    NoRequests(Value),
    #[error("cannot read the request: {0}")]
    Request(#[source] serde_json::Error),
    #[error("cannot {action}: no memory is filled; send a fill first")]
    NothingFilled { action: &'static str },
    /// An error of the workload's own.
    #[error(transparent)]
    Workload(Box<dyn std::error::Error>),
}

impl WorkError {
    pub(crate) fn code(&self) -> RefusalCode {
        match self {
            WorkError::UnknownWorkload(_) | WorkError::NoRequests(_) => RefusalCode::UnknownWorkload,
            WorkError::Request(_) => RefusalCode::Request,
            WorkError::NothingFilled { .. } => RefusalCode::NothingFilled,
            WorkError::Workload(_) => RefusalCode::Workload,
        }
    }

    /// Wraps an error of the workload's own.
    pub(crate) fn of_workload(error: impl std::error::Error + 'static) -> WorkError {
        WorkError::Workload(Box::new(error))
    }
}

/// The worker's side of a workload that needs no requests of its own.
#[derive(Debug, Default)]
pub(crate) struct NoRequests;

impl Work for NoRequests {
    fn carry_out(&mut self, request: &Value, _: Option<&mut Memory>) -> Result<Reply, WorkError> {
        Err(WorkError::NoRequests(request.clone()))
    }
}

pub(crate) fn typed<T: DeserializeOwned>(request: &Value) -> Result<T, WorkError> {
    T::deserialize(request).map_err(WorkError::Request)
}
