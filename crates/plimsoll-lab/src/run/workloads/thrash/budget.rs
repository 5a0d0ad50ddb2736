//! The budget of the consumers' pagers, watched from outside during the load.
//!
//! A pager that can save nothing exceeds its grant rather than lose data. No kernel ends it without a cgroup, so the runner
//! does, as the OOM killer ends a consumer that finds no swap.

use std::time::{Duration, Instant};

use crate::run::context::TrialContext;
use crate::run::trial_error::TrialError;
use crate::workload::above_budget;
use plimsoll_model::columns::{Row, col};
use plimsoll_model::exit::Exit;
use plimsoll_model::quantity;
use plimsoll_model::recording::FailureCode;

/// Time between two looks, each of which reads every pager.
const PAUSE: Duration = Duration::from_millis(250);
/// Looks in a row above the budget that are an excess: two seconds, in which other members have trimmed for a pager that
/// cannot trim by itself.
const LASTING: u32 = 8;

/// The RAM of pagers that is theirs alone.
const RESIDENT: [usize; 5] = [
    col::TARGET_PAGER_ACTIVE,
    col::TARGET_PAGER_MODIFIED,
    col::TARGET_PAGER_STANDBY,
    col::TARGET_PAGER_STORE,
    col::TARGET_PAGER_METADATA,
];

#[derive(Debug)]
pub(super) struct Budget {
    /// Bytes of all pagers together.
    bytes: u64,
    /// The most bytes that were seen above it.
    most: u64,
    /// Looks above it in a row, up to the latest.
    looks_above: u32,
    next: Instant,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Budget {
        Budget {
            bytes,
            most: 0,
            looks_above: 0,
            next: Instant::now(),
        }
    }

    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Takes in the pagers of a row. A row without pagers changes nothing.
    pub(super) fn look(&mut self, row: &Row) -> &Budget {
        self.next = Instant::now() + PAUSE;
        let bytes = |column| row.get(column).and_then(|bytes| u64::try_from(bytes).ok());
        let resident = RESIDENT
            .into_iter()
            .map(bytes)
            .try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)));
        if let Some(resident) = resident {
            let above = above_budget(resident, self.bytes);
            self.most = self.most.max(above);
            self.looks_above = if above > 0 { self.looks_above + 1 } else { 0 };
        }
        self
    }

    /// Whether the pagers have been above the budget for long.
    pub(super) fn is_lasting(&self) -> bool {
        self.looks_above >= LASTING
    }

    /// The most bytes that were seen above the budget.
    pub(super) fn most(&self) -> u64 {
        self.most
    }
}

pub(super) fn over_budget(context: &TrialContext<'_, '_>, budget: &Budget) -> TrialError {
    let subject = &context.plan.settings.subject;
    let remedy = match context.plan.settings.page_file_bytes() {
        Some(_) => "",
        None => "add `pagefile` to the subject, ",
    };
    TrialError::new(
        Exit::Killed,
        FailureCode::OverLimit,
        format_args!(
            "the pagers of the consumers were {} above their budget of {} for {} s and were ended: `{subject}` cannot \
             save what they wrote; {remedy}raise `limit`, or lower `writes`",
            quantity::bytes(budget.most as f64),
            quantity::bytes(budget.bytes as f64),
            (PAUSE * LASTING).as_secs(),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(each: i64) -> Row {
        let mut row = Row::empty(0);
        for column in RESIDENT {
            row.set(column, each);
        }
        row
    }

    /// One share that moves between the readings of two pagers counts twice.
    #[test]
    fn an_excess_lasts_for_looks_in_a_row() {
        let mut budget = Budget::new(1000);
        for _ in 1..LASTING {
            assert!(!budget.look(&row(205)).is_lasting());
        }
        assert!(!budget.look(&row(204)).is_lasting(), "1020 is within 2%");
        assert_eq!(budget.most(), 5);
        assert!(!budget.look(&Row::empty(0)).is_lasting());
        for _ in 1..LASTING {
            assert!(!budget.look(&row(300)).is_lasting());
        }
        assert!(budget.look(&row(210)).is_lasting());
        assert_eq!(budget.most(), 480);
    }
}
