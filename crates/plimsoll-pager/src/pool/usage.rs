//! The use of memory that a member reports.

use std::time::Duration;

use super::distances::RefaultDistances;

/// The use of memory that a member reports. Sizes are in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Usage<'d> {
    /// Bytes that count against the grant: resident pages, compressed store, metadata.
    pub resident: u64,
    /// The working set: bytes that the member would keep if it could. It gets no more, and others get those above.
    pub wanted: u64,
    /// Its refaults since its start, by distance.
    pub distances: &'d RefaultDistances,
    /// The time that its threads waited for refaults since its start.
    pub stall: Duration,
    /// The member is suspended: it keeps its minimum alone until a later report. A stopped process counts as suspended
    /// without this.
    pub is_suspended: bool,
    /// Threads of the member wait for memory and can trim nothing: the pool takes pages for it from others at once, down to
    /// their minima.
    pub is_needy: bool,
    /// Threads of the member are about to use more memory: the pool gives it free pages at once.
    pub is_wishing: bool,
    /// Bytes of pages that it still shares with the member from which it was forked, an upper bound.
    pub inherited: u64,
    /// Bytes of pages that it shares with members forked from it, an upper bound.
    pub shared: u64,
}

impl<'d> Usage<'d> {
    /// No memory in use.
    pub fn new(distances: &'d RefaultDistances) -> Usage<'d> {
        Usage {
            resident: 0,
            wanted: 0,
            distances,
            stall: Duration::ZERO,
            is_suspended: false,
            is_needy: false,
            is_wishing: false,
            inherited: 0,
            shared: 0,
        }
    }
}
