//! The contents of heaps, and their soundness: read from the table of units, the slots and the slow paths' counters, in
//! this process or in another one that runs meanwhile.
//!
//! It costs the heap nothing: no fast path counts for it. The reader checks every value before it relies on it, as
//! memory may change at any time, and a damaged heap may hold anything: every walk ends, and reads heap memory alone.
//!
//! Invariants:
//! 1. A reader uses no value that it has not checked, and reports no heap in use as damaged. Checked by
//!    `any_bytes_of_a_control_block_end_in_an_error`, `running_threads_are_no_damage`,
//!    `running_threads_in_a_hardened_heap_are_no_damage`, `data_under_a_held_lock_are_not_judged` and
//!    `a_program_under_way_is_validated_a_hundred_times`.
//! 2. A walk finds every fault of [`Fault`]. Checked by `each_fault_is_found_and_nothing_besides` and
//!    `damage_is_found_from_outside_and_from_inside`.

mod distribution;
mod hardened;
mod memory;
mod records;
mod runs;
mod slots;
mod space;
mod standard;
mod statistics;
mod this_process;
mod validate;

pub use self::distribution::{Distribution, RANGES};
pub use self::memory::{Memory, MemoryError, OtherProcess, ThisProcess};
pub use self::records::{FrontCounts, HeapRecord, Heaps};
pub use self::runs::{Description, Run, Runs};
pub use self::space::{Space, SpaceError, WindowCounts};
pub use self::statistics::{BucketStatistics, HeapStatistics};
pub use self::validate::{Damage, Fault, MOST_DAMAGES, Validation, again_allowed, validate};
pub use crate::arena::MAGIC;
