//! The run: open a session and a recording, start the sampler, calibrate, go through the trials, undo, conclude.
//!
//! Invariant: whatever happens after a session is open, it is finished; whatever happens after a recording is
//! open, it is left readable.

mod phase;
mod recorder;
mod stop;
mod trial;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::analysis;
use crate::environment::{self, Environment, Session};
use crate::exit::{Exit, Failure, OrExit};
use crate::progress::Progress;
use crate::recording::model::{
    Calibration, EventKind, Manifest, RECORDING_SCHEMA, Results, RunStatus, SamplerSettings, Trial,
};
use crate::recording::{self, Recording, Writer, file};
use crate::report;
use crate::sample::{Reader, Sampler, SamplerConfig, Target};
use crate::scenario::{Machine, Plan, SpeedHints};
use crate::workload::Worker;
use crate::workload::protocol::{Command, Reply};
use recorder::{Recorder, plain_event};
use stop::Stop;

/// What a run needs to know, resolved.
#[derive(Debug, Clone)]
pub struct Options {
    /// What to run.
    pub plan: Plan,
    /// The machine that the plan was resolved for.
    pub machine: Machine,
    /// Bytes kept free for the rest of the machine; `None` takes the default.
    pub reserve: Option<u64>,
    /// Samples a second.
    pub hz: u32,
    /// Folder that the recording's folder is made in.
    pub output: PathBuf,
    /// Recording to go on with.
    pub resume: Option<PathBuf>,
    /// How long to wait for another run to end; `None` is refused at once.
    pub wait: Option<Duration>,
}

/// What a run left.
#[derive(Debug)]
pub struct Outcome {
    /// Folder of the recording.
    pub directory: PathBuf,
    /// The page, where it could be written.
    pub page: Option<PathBuf>,
    /// The verdict and all numbers.
    pub results: Results,
    /// How the program should end.
    pub exit: Exit,
}

/// Everything that a trial works with.
struct Laboratory<'a> {
    recorder: Recorder,
    sampler: Sampler,
    reader: Reader,
    session: Option<Session>,
    calibration: Option<Calibration>,
    stop: Arc<Stop>,
    progress: &'a mut Progress,
    executable: PathBuf,
    seed: u64,
}
