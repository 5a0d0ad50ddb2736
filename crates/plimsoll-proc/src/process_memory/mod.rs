//! Memory of other processes: mappings that begin with a mark, and copies of pages for longer reads.
//!
//! Heaps and pagers publish a record at the start of a private anonymous mapping. Not every kernel lets a program name
//! its mappings, so a reader looks at the first bytes.

mod bounded;
mod marks;
mod snapshot;

pub use bounded::BoundedMemory;
pub use marks::{FindError, MOST_MARKS, Mark, marked};
pub use snapshot::Snapshot;
