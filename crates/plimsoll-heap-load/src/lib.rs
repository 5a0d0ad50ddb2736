//! Loads that measure the `malloc` of the process they run in.
//!
//! They call C's `malloc`, `realloc` and `free`, not Rust's global allocator, so the same program measures each
//! allocator that is preloaded into it. They are the benchmarks of Probert's talk on the Low Fragmentation Heap
//! (replacement, Larson's, aggressive allocation, external fragmentation, scaling) and three that the talk leaves out:
//! blocks freed by other threads, large blocks, idle threads.
//!
//! Three rules hold for each:
//! - A load writes bytes of every block when it allocates the block and checks them before it frees or resizes it: an
//!   allocator that returns the same memory twice, or loses written bytes, ends the load with an error and no metrics.
//! - The generator keeps its tables in mappings of its own and its threads allocate nothing besides the load, so that
//!   memory and CPU time are the allocator's. The generator's own cost is measured and reported apart.
//! - The same seed draws the same sizes in the same order.
//!
//! A load that ends with an error does not free its blocks: the process is expected to end.

mod aggressive;
mod allocator;
mod block;
mod clock;
mod crew;
mod cross_thread;
mod error;
mod footprint;
mod fragmentation;
mod idle_threads;
mod large;
mod larson;
mod mapping;
mod random;
mod rate;
mod replacement;
mod scaling;
mod sizes;
mod source;
mod table;
mod value;

pub use aggressive::{Aggressive, AggressiveResult, FreeOrder};
pub use allocator::allocator_name;
pub use block::Block;
pub use cross_thread::{CrossThread, CrossThreadResult};
pub use error::LoadError;
pub use footprint::{Footprint, Resident};
pub use fragmentation::{Fragmentation, FragmentationResult, Shifted, ShiftedPhase};
pub use idle_threads::{IdleThreads, IdleThreadsResult};
pub use large::{Large, LargeResult};
pub use larson::{Larson, LarsonResult};
pub use random::Random;
pub use rate::{Rate, Until};
pub use replacement::{Replacement, ReplacementResult};
pub use scaling::Scaling;
pub use sizes::{Sizes, SizesError, Spread, parse_bytes};
pub use source::{Calls, Source};
pub use value::{Value, Values, to_json};
