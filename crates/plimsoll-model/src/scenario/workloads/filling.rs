//! The memory of a workload whose worker fills it once and rests between its phases.

use serde::{Deserialize, Serialize};

use crate::scenario::assignment::Assignment;
use crate::scenario::error::Invalid;
use crate::scenario::model::{FillClass, ThpMode};

/// Settings that such workloads share. In a document they stand among the workload's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Filling {
    pub class: FillClass,
    /// Bytes that the worker fills.
    pub size: u64,
    /// Seconds of rest after the fill and after the next phase.
    pub hold: f64,
    /// Transparent huge pages for the memory.
    pub thp: ThpMode,
}

impl Filling {
    pub(super) fn read(values: &Assignment<'_>) -> Result<Self, Box<Invalid>> {
        Ok(Filling {
            class: values.class("class")?,
            size: values.bytes("size")?,
            hold: values.number("hold")?,
            thp: values.choice("thp")?,
        })
    }
}
