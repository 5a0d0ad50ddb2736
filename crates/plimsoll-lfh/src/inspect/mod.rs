//! What heaps hold, and whether they are sound: read from the table of units, the slots and the slow paths' counters,
//! in this process or in another one that goes on meanwhile.
//!
//! It costs the heap nothing: no fast path counts for it. Nothing that is read is believed before it was checked, as it
//! may change at any time, and a damaged heap may hold anything: every walk ends, and reads only where it says.

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
pub use self::validate::{Damage, Fault, MOST_DAMAGES, Validation, validate};
pub use crate::arena::MAGIC;
