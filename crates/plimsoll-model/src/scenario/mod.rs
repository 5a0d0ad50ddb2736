//! Scenarios: a file in TOML becomes typed trials.
//!
//! `text -> Document (spans kept) -> Plan (sweeps expanded, sizes resolved against a Machine) -> TrialPlan`
//!
//! Invariant: [`Source::read`] reads the scenario file, and nothing else reads the system; the caller passes the values
//! of the machine as [`Machine`]. Checked by `models_and_reports_read_no_system`.
//!
//! Layers: texts and errors (`source_text`, `error`); nouns (`model`, `size`, `scale`, `value`); a key and its values
//! (`assignment`, `shared_keys`); the workloads; the tables over all of them (`keys`, `plan`, `estimate`); parsing and
//! resolution (`document`, `overrides`, `resolve`).

mod allocator;
mod assignment;
mod block_sizes;
mod bounds;
mod builtin;
mod choice;
mod document;
mod error;
mod estimate;
mod guard_policy;
mod keys;
mod kind;
mod level;
mod mistake;
mod model;
mod nearest;
mod order;
mod overrides;
mod pager;
mod parse_value;
mod plan;
mod resolve;
mod scale;
mod settings;
mod shared_keys;
mod show;
mod size;
mod source;
mod source_text;
mod speed;
mod subjects;
mod value;
mod workload_kind;
pub mod workloads;

pub use allocator::{Allocator, AllocatorSet, FrontEnd, HeapProfile, KNOWN_ALLOCATORS, KnownAllocator};
pub use assignment::Key;
pub use block_sizes::BlockSizes;
pub use bounds::Bounds;
pub use builtin::Builtin;
pub use document::Document;
pub use error::{Invalid, Problem, ScenarioError};
pub use estimate::PlanEstimate;
pub use guard_policy::{GuardPolicy, UnknownPolicy};
pub use keys::{all as keys, keys_help, keys_markdown, of as keys_of};
pub use kind::{Kind, swap_subjects};
pub use level::{Amount, AmountError, Level, LevelError};
pub use mistake::{Marked, Mistake};
pub use model::{FillClass, Machine, Order, ParseNameError, Subject, ThpMode};
pub use nearest::near;
pub use order::shuffle;
pub use overrides::Overrides;
pub use pager::{PAGER_OPTIONS, PagerCodec, PagerOption, PagerOptions, PagerTextError, PagerTrim};
pub use plan::{Plan, SectionPlan, TrialPlan};
pub use size::{Base, SizeError, SizeExpr, size_text};
pub use source::{MAX_FILE_BYTES, builtin, find};
pub use source_text::Source;
pub use speed::SpeedHints;
pub use value::quoted;
pub use workload_kind::WorkloadKind;
pub use workloads::{
    Backing, CapBy, Filling, HeapFreeOrder, HeapLoad, Left, Mapping, Need, PageCache, Pattern, ReleaseMethod,
    Settings, Touch, TrimMechanism, Unfit, Workload,
};

macro_rules! settings {
    ($($(#[$doc:meta])* $workload:ident($settings:ident) $module:ident $name:literal;)*) => {
        pub use workloads::{$($settings),*};
    };
}
crate::for_each_workload!(settings);
