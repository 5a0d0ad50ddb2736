//! The pool and its members as seen from outside.

use std::time::Duration;

use super::identity::{Condition, Identity};
use super::layout::PAGE;
use super::round::Seen;
use super::table::Entry;

/// A pool at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatus {
    /// The budget in bytes.
    pub total: u64,
    /// Bytes that are charged to no member.
    pub free: u64,
    /// Times that the pool was balanced.
    pub rounds: u64,
    /// The members, those that have ended since the last round too.
    pub members: Vec<MemberStatus>,
}

/// A member at one time. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberStatus {
    /// Its process.
    pub identity: Identity,
    /// The grant: the bytes that it may have resident once it has trimmed.
    pub given: u64,
    /// The most bytes that it may have resident now.
    pub charged: u64,
    /// Bytes that it had resident at its last tick.
    pub resident: u64,
    /// Its working set.
    pub wanted: u64,
    /// The bytes that it always gets.
    pub minimum: u64,
    /// The most bytes that it gets.
    pub maximum: u64,
    /// 0 to 7.
    pub priority: u8,
    /// Faults on pages that it had in RAM before.
    pub refaults: u64,
    /// The time that its threads waited for them.
    pub stall: Duration,
    /// Stall in microseconds a second that one more GiB would save.
    pub gain: u64,
    /// It is stopped, or has said that it is suspended.
    pub is_suspended: bool,
    /// It has ended; its share returns in the next round.
    pub has_ended: bool,
}

impl MemberStatus {
    pub(crate) fn of(entry: &Entry, seen: &Seen) -> MemberStatus {
        let report = seen.row.map(|(report, _)| report).unwrap_or_default();
        MemberStatus {
            identity: entry.identity,
            given: entry.given * PAGE,
            charged: entry.charged * PAGE,
            resident: report.resident.saturating_mul(PAGE),
            wanted: report.wanted.saturating_mul(PAGE),
            minimum: entry.minimum * PAGE,
            maximum: entry.maximum * PAGE,
            priority: entry.priority,
            refaults: report.refaults,
            stall: Duration::from_micros(report.stall_us),
            gain: report.gain,
            is_suspended: report.is_suspended || seen.condition == Condition::Stopped,
            has_ended: seen.condition == Condition::Ended,
        }
    }
}
