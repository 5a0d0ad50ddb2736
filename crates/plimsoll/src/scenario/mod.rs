//! What is asked: a scenario file in TOML becomes typed trials.
//!
//! `text -> Document (spans kept) -> Plan (sweeps expanded, sizes resolved against a Machine) -> TrialPlan`
//!
//! Invariant: nothing in here reads the system but the scenario file itself; the numbers of the machine come in
//! through [`Machine`].

mod allocator;
mod assignment;
mod bounds;
mod document;
mod error;
mod estimate;
mod heap;
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
mod workloads;

pub use allocator::{Allocator, AllocatorSet, FrontEnd, KNOWN_ALLOCATORS, KnownAllocator};
pub use bounds::Bounds;
pub use document::Document;
pub use error::{Invalid, Problem, ScenarioError};
pub use estimate::{PlanEstimate, SpeedHints};
pub use heap::{BlockSizes, Heap, HeapLoad};
pub use keys::{KEYS, Key, Kind, keys_help, keys_markdown};
pub use mistake::{Marked, Mistake};
pub use model::{
    FillClass, Machine, Order, ParseNameError, Plan, SectionPlan, Settings, Subject, ThpMode, TrialPlan,
    TrimMechanism,
};
pub use nearest::near;
pub use order::shuffle;
pub use overrides::Overrides;
pub use size::{Base, SizeError, SizeExpr, size_text};
pub use source::{Builtin, MAX_FILE_BYTES, Source, builtin, find};
pub use workloads::{
    CapBy, Contention, GiveBack, Left, Loadline, Map, Mapping, Pattern, Thrash, Touch, Workload,
    WorkloadKind, Wscap,
};
