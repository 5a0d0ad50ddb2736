//! Use of the machine in an interval.

use plimsoll_model::columns::Row;
use plimsoll_model::columns::col;
use plimsoll_model::quantity::ratio;

/// Use of the machine in an interval. Metrics that the kernel does not count are absent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Use {
    /// Pages read back a second: from swap devices, from zswap, and pages of zeros.
    pub(super) pages_in_per_s: Option<f64>,
    /// Pages put away a second.
    pub(super) pages_out_per_s: Option<f64>,
    /// CPU time in programs, in percent of all CPUs.
    pub(super) user_percent: Option<f64>,
    /// CPU time in the kernel, interrupts left out, in percent of all CPUs.
    pub(super) system_percent: Option<f64>,
    /// Time in which at least one task waited for memory, in percent.
    pub(super) stalled_percent: Option<f64>,
}

impl Use {
    pub(super) fn figures(&self) -> [(&'static str, Option<f64>); 5] {
        [
            ("pages_in_per_s", self.pages_in_per_s),
            ("pages_out_per_s", self.pages_out_per_s),
            ("user_percent", self.user_percent),
            ("system_percent", self.system_percent),
            ("stalled_percent", self.stalled_percent),
        ]
    }
}

pub(super) fn usage(before: &Row, after: &Row) -> Use {
    let seconds = after.t_ns.saturating_sub(before.t_ns) as f64 / 1e9;
    let growth = |column: usize| Some(after.get(column)?.checked_sub(before.get(column)?)? as f64);
    // The first column is always counted; the others are not by every kernel, and then hold nothing.
    let pages = |columns: [usize; 3]| {
        growth(columns[0])?;
        let pages: f64 = columns.into_iter().filter_map(growth).sum();
        ratio(pages, seconds)
    };
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
    Use {
        pages_in_per_s: pages([col::PSWPIN, col::ZSWPIN, col::SWPIN_ZERO]),
        pages_out_per_s: pages([col::PSWPOUT, col::ZSWPOUT, col::SWPOUT_ZERO]),
        user_percent: growth(col::CPU_USER_US)
            .and_then(|user| share(user + growth(col::CPU_NICE_US).unwrap_or(0.0))),
        system_percent: growth(col::CPU_SYSTEM_US).and_then(share),
        stalled_percent: growth(col::PSI_MEMORY_SOME_US)
            .and_then(|stalled| ratio(100.0 * stalled / 1e6, seconds)),
    }
}
