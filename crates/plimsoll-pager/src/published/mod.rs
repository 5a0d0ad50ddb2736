//! A pager as other processes see it: a record in a mapping of its own, and its reader.
//!
//! ```text
//!  process with a pager                             another process
//!  mapping of one page: Root --------------------> PublishedPager::open
//!    addresses of page table, chunks,                 |-> stats()     pages by state, events, bytes
//!    counters, budget, pins                           |-> mapped()    pages of regions
//!    derived counters <- balance-set manager          '-> validate()  every word, against the counters
//! ```
//!
//! The pager does nothing for it: the reader copies the atomics that faults and trims change anyway. Counters that no
//! single atomic holds are in the record itself; the balance-set manager renews them whenever it works, and once a
//! second. A reader finds the record by the first bytes of its mapping ([`MAGIC`]), whose length is [`RECORD_BYTES`]. A
//! child of a fork has no record: its copy of the mapping is zero.
//!
//! The reader treats every byte as hostile: it checks a value before it relies on it, its work is bounded for any
//! contents, and it writes nothing. Checked by `any_bytes_of_a_record_end_in_an_error_or_in_bounded_work`.

mod reader;
mod root;
mod validate;

pub use crate::driver::Pagemap;
pub use reader::{LOOK_BYTES, LOOK_READS, Mapped, OpenError, PublishedPager};
pub(crate) use root::Publication;
pub use root::{LAYOUT, MAGIC, RECORD_BYTES};
pub use validate::{MOST_VIOLATIONS, Validation};

#[cfg(all(test, not(loom)))]
mod tests;
