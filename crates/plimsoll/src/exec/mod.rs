//! Runs unmodified programs in less RAM than they need, on the pager: facts of the machine and of the program, the
//! settings of the preloaded library, and the start. The engine of the kernel is `plimsoll_lab::confined`.
//!
//! # A new option
//!
//! `cli/exec.rs`, and a row in `docs/src/exec.md`. If the library needs it: a key in `settings.rs` and in
//! `plimsoll-exec/src/configuration.rs`, which refuses unknown keys.
//!
//! # A new reason to refuse a program
//!
//! - Of the file: a fact in `program/image.rs`, a variant in `obstacle.rs`.
//! - Of the machine: a check and a variant in `requirements.rs`; of the engine `kernel`, in `confined/requirements.rs` of
//!   `plimsoll-lab`.
//!
//! A row in `docs/src/exec.md`, a test in `tests/it/exec/refusals.rs`, or in `reasons.rs` if the machine must look like another one.

mod budget;
mod counters;
mod inherited;
mod launch;
mod obstacle;
mod requirements;
mod settings;
mod shared_pool;

pub use budget::available_ram;
pub use counters::{Counters, CountersFile};
pub use launch::{Launch, command, execute};
pub use obstacle::{Obstacle, obstacle};
pub use requirements::{Lack, check};
pub use settings::{Codec, PageFile, Settings};
pub use shared_pool::SharedPool;
