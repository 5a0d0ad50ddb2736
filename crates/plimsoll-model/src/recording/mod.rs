//! The recording of a run: a folder with a manifest, samples, events, trials and results.
//!
//! ```text
//! Writer::create -> samples, event, trial ... -> finish          Recording::open (at any moment, also after a kill)
//!        ^                                         |
//!        +------------- Writer::resume <-----------+ (cut short)          Follow::open -> poll, poll ... (while it grows)
//! ```
//!
//! Invariant: the format is in [`model`], the modules that it names, and the column table alone; writer and reader hold no names of their own.
//! Invariant: at every instant the folder opens. Files are replaced whole or appended to in whole records, and an
//! append that fails is taken back. Checked by `a_run_that_was_killed_opens_with_everything_that_was_written`.
//!
//! `docs/recording-format.md` describes the files for readers without this code.

mod append;
mod arrow;
pub mod background;
mod batch;
pub mod catalog;
mod copy;
mod counters;
mod damage;
mod difference;
mod error;
mod failure;
mod folder;
mod follow;
pub mod hold;
mod levels;
mod lines;
mod lock;
pub mod model;
pub mod neighbour;
mod open;
mod parquet;
mod phase_rows;
mod reader;
mod recommendation;
mod renamed;
mod replace;
mod resume;
mod samples;
mod schema;
pub mod service;
pub mod size;
mod starts;
mod statement;
mod stream;
mod streamed;
mod trial;
mod warning;
mod writer;

pub use copy::copy_parquet;
pub use counters::is_counter;
pub use damage::{ColumnDamage, Damage, ParquetDamage, StreamDamage};
pub use difference::PlanDifference;
pub use error::{NotARecording, RecordingError};
pub use failure::{FailureCode, TrialFailure};
pub use folder::RecordingFolder;
pub use follow::{Follow, FollowState, News, StopCause};
pub use levels::Levels;
pub use parquet::{CopyError, table};
pub use phase_rows::{PhaseRows, rows_around};
pub use reader::Recording;
pub use recommendation::{
    ConfigurationFile, Recommendation, RecommendationCode, Withheld, WithheldCode, Worth,
};
pub use replace::replace_file;
pub use resume::{Now, Resumed};
pub use samples::{ColumnView, Samples};
pub use schema::{columns_markdown, format_table_markdown};
pub use statement::{Statement, StatementCode, statements_markdown};
pub use streamed::{ResultsHead, copy_samples, for_each_trial};
pub use warning::{Warning, WarningCode};
pub use writer::Writer;
