//! What is asked: a scenario file in TOML becomes typed trials.
//!
//! `text -> Document (spans kept) -> Plan (sweeps expanded, sizes resolved against a Machine) -> TrialPlan`
//!
//! Invariant: nothing in here reads the system but the scenario file itself; the numbers of the machine come in
//! through [`Machine`].

mod allocator;
mod assignment;
mod bounds;
mod choice;
mod document;
mod error;
mod estimate;
mod keys;
mod mistake;
mod model;
mod nearest;
mod order;
mod overrides;
mod resolve;
mod settings;
mod show;
mod size;
mod source;
mod value;
pub mod workloads;

pub use allocator::{Allocator, AllocatorSet, FrontEnd, KNOWN_ALLOCATORS, KnownAllocator};
pub use bounds::Bounds;
pub use document::Document;
pub use error::{Invalid, Problem, ScenarioError};
pub use estimate::{PlanEstimate, SpeedHints};
pub use mistake::{Marked, Mistake};

pub use keys::{Key, Kind, all as keys, keys_help, keys_markdown, of as keys_of};
pub use model::{
    FillClass, Machine, Order, ParseNameError, Plan, SectionPlan, Settings, Subject, ThpMode, TrialPlan,
};
pub use nearest::near;
pub use order::shuffle;
pub use overrides::Overrides;
pub use size::{Base, SizeError, SizeExpr, size_text};
pub use source::{Builtin, MAX_FILE_BYTES, Source, builtin, find};
pub use workloads::{
    BlockSizes, CapBy, Compression, Contention, GiveBack, Heap, HeapLoad, Left, Loadline, Map, Mapping, Need,
    Pattern, Thrash, Touch, TrimMechanism, Unfit, Workload, WorkloadKind, Wscap,
};
