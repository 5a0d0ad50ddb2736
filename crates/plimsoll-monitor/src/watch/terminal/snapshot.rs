//! A copy of the visible state, so that the state is locked only briefly.

use std::sync::Arc;

use crate::processes::CgroupListing;
use crate::watch::history::{Bucket, History};
use crate::watch::state::{Facts, Mark, Message, State, Status, TargetState};
use crate::watch::top::Top;
use plimsoll_report::analysis::frame::Frame;

/// Averaging time of displayed rates: faster changes are unreadable.
const READABLE_NS: u64 = 1_000_000_000;

/// The visible state.
///
/// Columns before the newest frame are summed up once and cached; a refresh sums up only later ones.
///
/// Invariant: `columns[n]` is the interval of length `column_ns` that begins at `(first + n) * column_ns`.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub facts: Facts,
    pub target: Option<TargetState>,
    /// Names of the swap devices, by slot.
    pub swap_devices: Vec<String>,
    pub status: Status,
    pub message: Option<Message>,
    /// The tree of cgroups, once it was read.
    pub cgroups: Option<Arc<CgroupListing>>,
    /// Marks by time.
    pub marks: Vec<Mark>,
    /// The latest list of processes.
    pub top: Option<Arc<Top>>,
    /// Visible columns, oldest first; None for a gap.
    pub columns: Vec<Option<Bucket>>,
    /// Number of the first visible column, counted from the start of the recording; negative before it.
    pub first: i64,
    pub column_ns: u64,
    /// Time between two ticks.
    pub period_ns: u64,
    /// Times of the oldest and the newest frame.
    pub span: Option<(u64, u64)>,
    /// The newest frame, with rates over the last second.
    pub newest: Option<Frame>,
    /// Largest delay of a tick within the last second, in milliseconds.
    pub late_ms: Option<f64>,
    /// Time of the right edge of a following view.
    pub edge_ns: u64,
    revision: Option<u64>,
    /// Columns from this number on may still change.
    settled: Option<i64>,
}

impl Snapshot {
    /// A snapshot without visible columns.
    pub fn of(state: &State) -> Snapshot {
        let mut snapshot = Snapshot {
            facts: state.facts.clone(),
            target: None,
            swap_devices: Vec::new(),
            status: Status::default(),
            message: None,
            cgroups: None,
            marks: Vec::new(),
            top: None,
            columns: Vec::new(),
            first: 0,
            column_ns: READABLE_NS,
            period_ns: state.history.period_ns(),
            span: None,
            newest: None,
            late_ms: None,
            edge_ns: 0,
            revision: None,
            settled: None,
        };
        snapshot.refresh_facts(state, 0);
        snapshot
    }

    /// Copies everything except the columns. `now_ns` is the monitor's time.
    pub fn refresh_facts(&mut self, state: &State, now_ns: u64) {
        if self.revision != Some(state.revision) {
            self.revision = Some(state.revision);
            self.facts.clone_from(&state.facts);
            self.target.clone_from(&state.target);
            self.swap_devices.clone_from(&state.swap_devices);
            self.status.clone_from(&state.status);
            self.message = state.messages.last().cloned();
            self.cgroups.clone_from(&state.cgroups);
            self.marks.clone_from(&state.marks);
            self.top.clone_from(&state.top);
            self.period_ns = state.history.period_ns();
        }
        self.span = state.history.span();
        let latest = self.span.map_or(0, |(_, latest)| latest);
        let moves = !self.status.replay && self.status.ended.is_none();
        // The newest frame may be in transit: it counts as missing after two periods.
        let overdue = now_ns.saturating_sub(2 * self.period_ns);
        self.edge_ns = if moves { latest.max(overdue) } else { latest };
        let second = self.span.and_then(|(_, latest)| {
            summed(&state.history, latest.saturating_sub(READABLE_NS) + 1, latest + 1)
        });
        self.late_ms = second.and_then(|second| second.max(plimsoll_report::analysis::gauges::gauge::LATE));
        self.newest = second.map(|second| {
            let mut frame = second.mean;
            frame.layers = state
                .history
                .latest()
                .and_then(|latest| latest.layers)
                .or(frame.layers);
            frame
        });
    }

    /// Shows `count` columns of `column_ns`, from number `first` on.
    pub fn show(&mut self, history: &History, column_ns: u64, first: i64, count: usize) {
        let settled = self.settled.filter(|_| self.column_ns == column_ns);
        match usize::try_from(first - self.first) {
            // Columns that left on the left make room on the right.
            Ok(moved) => drop(self.columns.drain(..moved.min(self.columns.len()))),
            Err(_) => self.columns.clear(),
        }
        let kept = settled.map_or(0, |settled| {
            usize::try_from(settled.saturating_sub(first)).unwrap_or(0)
        });
        self.columns.truncate(kept.min(count));
        for number in first + self.columns.len() as i64..first + count as i64 {
            let bucket = u64::try_from(number).ok().and_then(|number| {
                let from = number.saturating_mul(column_ns);
                let to = from.saturating_add(column_ns);
                summed(history, from, to).or_else(|| held(history, column_ns, to))
            });
            self.columns.push(bucket);
        }
        (self.first, self.column_ns) = (first, column_ns);
        self.settled = history.span().map(|(_, latest)| column_number(latest, column_ns));
    }

    /// Changes whenever the visible state changes.
    pub(super) fn stamp(&self) -> (Option<u64>, Option<(u64, u64)>, u64) {
        (self.revision, self.span, self.edge_ns / self.column_ns.max(1))
    }

    /// Index of the visible column at a time.
    pub fn column_of(&self, t_ns: u64) -> Option<usize> {
        let place = usize::try_from(column_number(t_ns, self.column_ns) - self.first).ok()?;
        (place < self.columns.len()).then_some(place)
    }

    /// Start time of the column at an index.
    pub fn time_of(&self, place: usize) -> Option<u64> {
        let number = u64::try_from(self.first + place as i64).ok()?;
        Some(number.saturating_mul(self.column_ns))
    }
}

/// Number of the column at a time.
pub(super) fn column_number(t_ns: u64, column_ns: u64) -> i64 {
    i64::try_from(t_ns / column_ns.max(1)).unwrap_or(i64::MAX)
}

fn summed(history: &History, from: u64, to: u64) -> Option<Bucket> {
    history.buckets(from..to, 1).pop().flatten()
}

/// The frame that still stands at the end of a column without one: where a column is hardly longer than a tick, or
/// shorter, not every column has a frame. A frame stands for a period and a half: a missed tick stays a gap.
fn held(history: &History, column_ns: u64, to: u64) -> Option<Bucket> {
    let period_ns = history.period_ns();
    if column_ns >= 2 * period_ns {
        return None;
    }
    let from = to.saturating_sub(period_ns + period_ns / 2);
    let later = history.after(from).take_while(|frame| frame.t_ns < to).last();
    let last_ns = later.map_or(from, |frame| frame.t_ns);
    summed(history, last_ns, last_ns + 1)
}
