//! The work that the caller of a run does for it, since the runner depends neither on reports nor on the heap that
//! the program carries.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plimsoll_model::recording::model::{Calibration, Results, Trial};
use plimsoll_model::recording::{PhaseRows, Recording, RecordingFolder};
use plimsoll_model::scenario::{FrontEnd, HeapProfile, Settings};

/// An error of a service, as text for the user.
pub type ServiceError = Box<dyn Error + Send + Sync>;

/// Computes the metrics of a trial. The rows are the samples next to each of its phases, in the same order.
pub type Metrics = fn(&Trial, &Settings, &[PhaseRows], Option<&Calibration>) -> BTreeMap<String, f64>;

#[derive(Debug, Clone, Copy)]
pub struct Services {
    /// Computes the metrics of a trial.
    pub metrics: Metrics,
    /// Computes the results of a recording.
    pub results: fn(&Recording) -> Results,
    /// Writes the report of a finished recording into its folder, and returns the file.
    pub report: fn(&Recording, &Results, &RecordingFolder) -> Result<PathBuf, ServiceError>,
    /// The project's own heap.
    pub heap: HeapService,
}

/// Access to the heap that the program carries.
#[derive(Debug, Clone, Copy)]
pub struct HeapService {
    /// Unpacks the library to preload, and returns its file.
    pub unpack: fn() -> Result<PathBuf, ServiceError>,
    /// The environment variables that start a program on that library, with a front end and a profile.
    pub variables: fn(&Path, FrontEnd, HeapProfile) -> Vec<(&'static str, OsString)>,
    /// Reads the heap of a running process; `None` where the process has none.
    pub inspect: fn(u32) -> Result<Option<HeapState>, ServiceError>,
}

/// The values of a heap that a trial records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeapState {
    /// Its front end; `None` for one that this version does not know.
    pub front_end: Option<FrontEnd>,
    pub profile: HeapProfile,
    pub free_blocks: u64,
    /// Ranges of address space without memory.
    pub uncommitted_ranges: u64,
    /// External fragmentation, in percent; `None` where nothing is free.
    pub external_fragmentation_percent: Option<f64>,
    /// Virtual fragmentation, in percent; `None` where no address space is free.
    pub virtual_fragmentation_percent: Option<f64>,
}
