//! The monitor: the state of all pages over time, and the effect of a trim.
//!
//! A [`Monitor`] feeds a [`State`] from the live machine or from a recording, and executes requests. User interfaces
//! draw the state and pass on requests: the terminal, the live page, or none (`--headless`).
//!
//! ```text
//! sampler -> feed -> State <- terminal
//! recording -^  \          <- serve
//!                recorder
//! ```
//!
//! Invariant: a user interface reads the [`State`] and calls the [`Monitor`]. It reads no system files and writes no
//! recording.

mod account;
mod actions;
mod cgroups;
mod error;
mod event;
mod feed;
mod follow;
mod history;
mod lister;
mod monitor;
mod options;
mod outcome;
mod program;
mod recorder;
mod replay;
pub mod serve;
mod shared;
mod state;
mod storms;
mod summary;
mod target;
pub mod terminal;
mod top;

pub use account::PagerPeaks;
pub use error::WatchError;
pub use history::{Bucket, History};
pub use monitor::{Monitor, NOTE_LETTERS};
pub use options::{Candidate, Options, Prepared, Program, Source, TargetChoice};
pub use state::{Facts, Level, Mark, MarkKind, Message, State, Status, TargetState};
pub use summary::{
    FaultTime, MachineSummary, MonitorSummary, ProgramSummary, SUMMARY_SCHEMA, Summary, TargetSummary,
};
pub use top::Top;
