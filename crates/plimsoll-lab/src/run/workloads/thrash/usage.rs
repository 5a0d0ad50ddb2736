//! Use of the machine in an interval.

use plimsoll_model::columns::Row;
use plimsoll_model::columns::col;
use plimsoll_model::quantity::ratio;
use plimsoll_model::scenario::workloads::thrash::finding;

/// The mover of pages into and out of RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paging {
    /// The kernel, to swap.
    Swap,
    /// The pagers of the consumers. The kernel knows neither their pages nor the waits for them.
    Pagers,
}

/// Use of the machine in an interval. Metrics that the kernel, or the pagers, do not count are absent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Use {
    /// Pages read back a second: from swap devices, from zswap, and pages of zeros; from the stores of pagers.
    pub(super) pages_in_per_s: Option<f64>,
    /// Pages put away a second.
    pages_out_per_s: Option<f64>,
    /// CPU time in programs, in percent of all CPUs.
    user_percent: Option<f64>,
    /// CPU time in the kernel, interrupts left out, in percent of all CPUs.
    system_percent: Option<f64>,
    /// Time in which at least one task waited for memory of the kernel, in percent.
    pub(super) stalled_percent: Option<f64>,
    pager_hard_faults_per_s: Option<f64>,
    pager_soft_faults_per_s: Option<f64>,
    pager_trims_per_s: Option<f64>,
}

impl Use {
    pub(super) fn values(&self) -> [(&'static str, Option<f64>); 8] {
        [
            ("pages_in_per_s", self.pages_in_per_s),
            ("pages_out_per_s", self.pages_out_per_s),
            ("user_percent", self.user_percent),
            ("system_percent", self.system_percent),
            ("stalled_percent", self.stalled_percent),
            (finding::PAGER_HARD_FAULTS_PER_S, self.pager_hard_faults_per_s),
            (finding::PAGER_SOFT_FAULTS, self.pager_soft_faults_per_s),
            (finding::PAGER_TRIMS, self.pager_trims_per_s),
        ]
    }
}

pub(super) fn usage(before: &Row, after: &Row, paging: Paging) -> Use {
    let seconds = after.t_ns.saturating_sub(before.t_ns) as f64 / 1e9;
    let growth = |column: usize| Some(after.get(column)?.checked_sub(before.get(column)?)? as f64);
    // The first column is always counted; the others are not by every kernel, and then hold nothing.
    let pages = |columns: &[usize]| {
        growth(*columns.first()?)?;
        let pages: f64 = columns.iter().copied().filter_map(growth).sum();
        ratio(pages, seconds)
    };
    let by_pagers = |columns: &[usize]| pages(columns).filter(|_| paging == Paging::Pagers);
    let busy = [
        col::CPU_USER_US,
        col::CPU_NICE_US,
        col::CPU_SYSTEM_US,
        col::CPU_IRQ_US,
        col::CPU_SOFTIRQ_US,
        col::CPU_STEAL_US,
    ];
    let idle = [col::CPU_IDLE_US, col::CPU_IOWAIT_US];
    let all: f64 = busy.into_iter().chain(idle).filter_map(growth).sum();
    let share = |part: f64| ratio(100.0 * part, all);
    let (pages_in, pages_out): (&[usize], &[usize]) = match paging {
        Paging::Swap => (
            &[col::PSWPIN, col::ZSWPIN, col::SWPIN_ZERO],
            &[col::PSWPOUT, col::ZSWPOUT, col::SWPOUT_ZERO],
        ),
        Paging::Pagers => (
            &[col::TARGET_PAGER_HARD_FAULTS, col::TARGET_PAGER_READ_AHEAD],
            &[col::TARGET_PAGER_SAVED],
        ),
    };
    Use {
        pages_in_per_s: pages(pages_in),
        pages_out_per_s: pages(pages_out),
        user_percent: growth(col::CPU_USER_US)
            .and_then(|user| share(user + growth(col::CPU_NICE_US).unwrap_or(0.0))),
        system_percent: growth(col::CPU_SYSTEM_US).and_then(share),
        stalled_percent: growth(col::PSI_MEMORY_SOME_US)
            .and_then(|stalled| ratio(100.0 * stalled / 1e6, seconds))
            .filter(|_| paging == Paging::Swap),
        pager_hard_faults_per_s: by_pagers(&[col::TARGET_PAGER_HARD_FAULTS]),
        pager_soft_faults_per_s: by_pagers(&[col::TARGET_PAGER_SOFT_FAULTS]),
        pager_trims_per_s: by_pagers(&[col::TARGET_PAGER_TRIMMED]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row with these counters at a time in seconds.
    fn row(seconds: u64, counters: &[(usize, i64)]) -> Row {
        let mut row = Row::empty(seconds * 1_000_000_000);
        for (column, value) in counters {
            row.set(*column, *value);
        }
        row
    }

    /// The swap of the machine is another program's, and PSI does not see the waits for a pager: neither is 0.
    #[test]
    fn pages_are_those_of_the_mover() {
        let counted = |seconds: u64, factor: i64| {
            row(
                seconds,
                &[
                    (col::PSWPIN, 100 * factor),
                    (col::PSWPOUT, 200 * factor),
                    (col::PSI_MEMORY_SOME_US, 1_000_000 * factor),
                    (col::TARGET_PAGER_HARD_FAULTS, 10 * factor),
                    (col::TARGET_PAGER_READ_AHEAD, 4 * factor),
                    (col::TARGET_PAGER_SOFT_FAULTS, 6 * factor),
                    (col::TARGET_PAGER_TRIMMED, 30 * factor),
                    (col::TARGET_PAGER_SAVED, 20 * factor),
                ],
            )
        };
        let (before, after) = (counted(1, 1), counted(3, 5));
        let values = |paging| {
            let used = usage(&before, &after, paging).values();
            used.map(|(name, value)| value.map(|value| (name, value)))
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        };
        let swap = [
            ("pages_in_per_s", 200.0),
            ("pages_out_per_s", 400.0),
            ("stalled_percent", 200.0),
        ];
        assert_eq!(values(Paging::Swap), swap);
        let pagers = [
            ("pages_in_per_s", 28.0),
            ("pages_out_per_s", 40.0),
            ("pager_hard_faults_per_s", 20.0),
            ("pager_soft_faults_per_s", 12.0),
            ("pager_trims_per_s", 60.0),
        ];
        assert_eq!(values(Paging::Pagers), pagers);
    }

    /// A pager that cannot be read, or has ended, has no values.
    #[test]
    fn pagers_without_a_record_have_no_pages() {
        let before = row(1, &[(col::TARGET_PAGER_HARD_FAULTS, 10), (col::PSWPIN, 1)]);
        for after in [row(2, &[(col::PSWPIN, 9)]), row(1, &[])] {
            let used = usage(&before, &after, Paging::Pagers);
            assert!(used.values().iter().all(|(_, value)| value.is_none()), "{used:?}");
        }
    }
}
