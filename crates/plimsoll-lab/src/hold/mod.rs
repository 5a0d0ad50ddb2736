//! A level of memory or pressure, held in a closed loop while other programs come and go: `plimsoll hold`, and the
//! background of a trial.
//!
//! A worker holds the memory and is the first victim of the OOM killer; this process reads the level ten times a
//! second, and has the worker take more or release some. The end of either process frees the memory. A pressure alone
//! changes the machine, by a cgroup: see `pressure`.
//!
//! Layers, from the bottom: `level`, `options`, `controller` (pure), `error`; `gauge`, `held` (the worker's side), `summary`;
//! `observer`, `tick`; `holder` and `pressure`, the two loops; `background`. `recorded_hold` makes a recording.
//!
//! # A new level
//!
//! 1. A variant of `Level` in `level.rs`; of memory, its goal in `holder.rs`.
//! 2. An option in `cli/hold.rs` of `plimsoll`.
//! 3. Its goal in `recording/hold.rs` of `plimsoll-model`, its words in `hold/words.rs` of `plimsoll-report`.
//! 4. If trials can have it as `background`: also `scenario/level.rs` of `plimsoll-model`.

mod background;
mod controller;
mod error;
mod gauge;
mod held;
mod holder;
mod level;
mod observer;
mod options;
mod pressure;
mod summary;
mod tick;

use crate::workload::Work;
use holder::Holder;
use plimsoll_sample::stop::Stop;

pub use background::fits;
pub(crate) use background::{Background, time_to_reach};
pub use controller::{Controller, Goal, Reading, Step};
pub use error::HoldError;
pub use gauge::Scope;
pub use level::{Level, Pressure, PressureError, PressureKind};
pub use observer::{Observer, Start};
pub use options::{Options, Status};
pub use summary::{Ending, Summary};

/// The worker's side.
pub(crate) fn work(name: &str) -> Option<Box<dyn Work>> {
    held::work(name).or_else(|| pressure::work(name))
}

/// Holds a level until a stop or the end of its duration. Everything is released when it returns.
///
/// # Errors
/// [`HoldError`]: the level cannot be read, cannot be had, or its worker was killed.
pub fn hold(
    options: &Options,
    stop: &Stop,
    observer: &mut dyn Observer,
) -> Result<(Summary, Ending), HoldError> {
    if let Level::Pressure(goal) = options.level {
        return pressure::hold(goal, options, stop, observer);
    }
    let mut holder = Holder::start(options, holder::spawn)?;
    observer.begin(&Start {
        settings: &holder.settings,
        worker: holder.worker.pid(),
        cgroup: options.scope.cgroup(),
    })?;
    holder.run(stop.flag(), &mut |status, summary| observer.look(status, summary))
}
