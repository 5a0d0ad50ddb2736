//! Changes within the visible time: each level and each flow at its own scale, so that 10 MiB show beside 20 GiB.

use super::snapshot::Snapshot;
use super::theme::{Ink, TARGET};
use crate::watch::history::Bucket;
use plimsoll_model::categories::CATEGORIES;
use plimsoll_report::analysis::frame::Frame;
use plimsoll_report::analysis::gauges::{GAUGES, GaugeUnit, gauge};

/// A level whose changes are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// A layer of RAM.
    Layer(usize),
    SwapUsed,
}

/// A level over the visible time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LevelChange {
    pub(super) level: Level,
    /// Newest visible value minus the oldest one, in bytes.
    pub(super) change: f64,
    /// Largest minus smallest visible value, in bytes.
    pub(super) range: f64,
    /// Each sampled column between the smallest (0) and the largest value (1); None for a gap.
    pub(super) heights: Vec<Option<f64>>,
}

/// A flow whose sum is shown.
#[derive(Debug, PartialEq)]
pub(super) struct Flow {
    pub(super) title: &'static str,
    gauges: &'static [usize],
    pub(super) ink: Ink,
}

/// The flows, in the order of display.
const FLOWS: &[Flow] = &[
    flow("swap in", &[gauge::SWAP_IN], Ink::In),
    flow("swap out", &[gauge::SWAP_OUT], Ink::Out),
    flow("refaults", &[gauge::REFAULT, gauge::REFAULT_FILE], Ink::Stall),
    flow("major faults", &[gauge::MAJOR], Ink::Stall),
    flow("reclaimed", &[gauge::RECLAIMED], Ink::Out),
    flow("block in", &[gauge::DISK_IN], Ink::In),
    flow("block out", &[gauge::DISK_OUT], Ink::Out),
    flow("zero-filled", &[gauge::ZERO_FILLED], Ink::Plain),
    flow("compaction", &[gauge::COMPACTION], Ink::Stall),
];

const fn flow(title: &'static str, gauges: &'static [usize], ink: Ink) -> Flow {
    Flow { title, gauges, ink }
}

/// A flow over the visible time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FlowChange {
    pub(super) flow: &'static Flow,
    /// Bytes or events in the visible time.
    pub(super) total: f64,
    /// Largest rate of a column, per second.
    pub(super) greatest: f64,
    /// Each sampled column between 0 and the largest rate (1); None for a gap.
    pub(super) heights: Vec<Option<f64>>,
}

impl Flow {
    fn rate(&self, frame: &Frame) -> Option<f64> {
        let rates = self.gauges.iter().filter_map(|&index| frame.gauge(index));
        rates.reduce(|a, b| a + b)
    }

    pub(super) fn is_in_bytes(&self) -> bool {
        GAUGES[self.gauges[0]].unit == GaugeUnit::BytesPerSecond
    }
}

impl Level {
    fn value(self, frame: &Frame) -> Option<f64> {
        match self {
            Level::Layer(layer) => Some(frame.layers?[layer] as f64),
            Level::SwapUsed => {
                let devices = [gauge::SWAP0, gauge::SWAP1, gauge::SWAP2, gauge::SWAP3];
                let used = devices.into_iter().filter_map(|index| frame.gauge(index));
                used.reduce(|a, b| a + b)
            }
        }
    }
}

/// The visible columns from the first to the last one with samples.
fn sampled(snapshot: &Snapshot) -> &[Option<Bucket>] {
    let known = |column: &Option<Bucket>| column.is_some();
    let first = snapshot.columns.iter().position(known);
    let last = snapshot.columns.iter().rposition(known);
    match first.zip(last) {
        Some((first, last)) => &snapshot.columns[first..=last],
        None => &[],
    }
}

/// Time from the first to the last visible column with samples.
pub(super) fn span_ns(snapshot: &Snapshot) -> u64 {
    sampled(snapshot).len() as u64 * snapshot.column_ns
}

/// The levels, those that moved most first.
pub(super) fn levels(snapshot: &Snapshot) -> Vec<LevelChange> {
    let layers = (0..CATEGORIES.len()).filter(|&layer| layer != TARGET || snapshot.target.is_some());
    let levels = layers.map(Level::Layer).chain([Level::SwapUsed]);
    let mut changes: Vec<LevelChange> = levels.filter_map(|level| level_change(level, snapshot)).collect();
    // Equal ranges keep the order of the layers.
    changes.sort_by(|a, b| b.range.total_cmp(&a.range));
    changes
}

fn level_change(level: Level, snapshot: &Snapshot) -> Option<LevelChange> {
    let value = |bucket: &Option<Bucket>| level.value(&bucket.as_ref()?.mean);
    let values: Vec<Option<f64>> = sampled(snapshot).iter().map(value).collect();
    let mut known = values.iter().flatten().copied();
    let first = known.next()?;
    let (mut least, mut greatest, mut last) = (first, first, first);
    for value in known {
        (least, greatest, last) = (least.min(value), greatest.max(value), value);
    }
    let range = greatest - least;
    let height = |value: f64| if range > 0.0 { (value - least) / range } else { 0.0 };
    Some(LevelChange {
        level,
        change: last - first,
        range,
        heights: values.into_iter().map(|value| value.map(height)).collect(),
    })
}

/// The known flows, in the order of display.
pub(super) fn flows(snapshot: &Snapshot) -> Vec<FlowChange> {
    FLOWS
        .iter()
        .filter_map(|flow| flow_change(flow, snapshot))
        .collect()
}

fn flow_change(flow: &'static Flow, snapshot: &Snapshot) -> Option<FlowChange> {
    let rate = |bucket: &Option<Bucket>| flow.rate(&bucket.as_ref()?.mean);
    let columns = sampled(snapshot);
    let rates: Vec<Option<f64>> = columns.iter().map(rate).collect();
    let greatest = rates.iter().flatten().copied().reduce(f64::max)?;
    // The newest column has fewer frames than a full one.
    let seconds = |bucket: &Bucket| f64::from(bucket.frames) * snapshot.period_ns as f64 / 1e9;
    let totals = columns.iter().zip(&rates);
    let totals = totals.filter_map(|(bucket, rate)| Some((*rate)? * seconds(bucket.as_ref()?)));
    let height = |rate: f64| if greatest > 0.0 { rate / greatest } else { 0.0 };
    Some(FlowChange {
        flow,
        total: totals.sum(),
        greatest,
        heights: rates.iter().map(|rate| rate.map(height)).collect(),
    })
}

/// `heights` in at most `count` values: the largest of the columns that share one; None if all are gaps.
pub(super) fn in_cells_of(heights: &[Option<f64>], count: usize) -> Vec<Option<f64>> {
    let count = count.min(heights.len());
    let edge = |cell: usize| cell * heights.len() / count.max(1);
    let cells = (0..count).map(|cell| {
        let columns = &heights[edge(cell)..edge(cell + 1)];
        columns.iter().flatten().copied().reduce(f64::max)
    });
    cells.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_share_cells_and_keep_their_peak() {
        let heights = [Some(0.1), Some(0.9), None, None, Some(0.0), Some(0.2)];
        assert_eq!(in_cells_of(&heights, 3), [Some(0.9), None, Some(0.2)]);
        assert_eq!(in_cells_of(&heights, 6), heights);
        assert_eq!(in_cells_of(&heights, 50), heights);
        assert_eq!(in_cells_of(&heights, 0), []);
        assert_eq!(in_cells_of(&[], 5), []);
    }

    #[test]
    fn each_flow_has_gauges_of_one_unit() {
        for flow in FLOWS {
            let unit = GAUGES[flow.gauges[0]].unit;
            assert!(
                flow.gauges.iter().all(|&index| GAUGES[index].unit == unit),
                "{}",
                flow.title
            );
            assert!(matches!(unit, GaugeUnit::BytesPerSecond | GaugeUnit::PerSecond));
        }
    }
}
