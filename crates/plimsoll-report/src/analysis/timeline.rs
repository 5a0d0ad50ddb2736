//! Samples thinned out for a report: an hour at 100 Hz becomes some thousand points.

use std::collections::BTreeMap;
use std::ops::Range;

use super::frame::{Machine, Point, cpu_time};
use super::gauges::{CPU_TIMES, GAUGES, Gauge, Reading, Scale};
use super::thinning::{Bucket, buckets, mean_and_max, means};
use plimsoll_model::categories::INPUTS;
use plimsoll_model::categories::{CATEGORIES, categories};
use plimsoll_model::columns::COLUMNS;
use plimsoll_model::recording::{ColumnView, Samples};

/// Layers and lines over time. All vectors are as long as `t_ns`.
///
/// A point without values separates samples that are further apart than one missed tick or than the resolution of the
/// report: no line crosses a gap in the samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    /// Time of each point: the middle between its first and its last sample; of a gap, its middle.
    pub t_ns: Vec<u64>,
    /// Samples in each point; 0 in a gap.
    pub samples: Vec<u32>,
    /// Mean bytes of each of [`CATEGORIES`], in that order.
    ///
    /// Invariant: where there are values, they sum to the mean of MemTotal exactly.
    pub layers: Vec<Vec<Option<i64>>>,
    /// The requested lines, in that order.
    pub lines: Vec<Line>,
}

/// One line of a [`Timeline`].
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Index of its gauge in [`GAUGES`].
    pub gauge: usize,
    /// Mean over each point's samples.
    pub mean: Vec<Option<f64>>,
    /// Greatest of each point's samples: a peak stays visible however much is thinned out.
    pub max: Vec<Option<f64>>,
}

/// Thins out the samples within `range` (nanoseconds since the start) to about `max_points` points, at most three times as many
/// with all gaps.
///
/// `hz` is the nominal rate of the sampler, which defines a missed tick. The lines are those of `gauges`
/// (indices into [`GAUGES`]); one whose columns the recording lacks has no values.
pub fn timeline(
    samples: &Samples,
    machine: Machine,
    hz: u32,
    range: Range<u64>,
    max_points: usize,
    gauges: &[usize],
) -> Timeline {
    let t_ns = samples.t_ns();
    let first = t_ns.partition_point(|&t| t < range.start);
    let last = t_ns.partition_point(|&t| t < range.end).max(first);
    let buckets = buckets(t_ns, first..last, hz, max_points.max(1));
    Timeline {
        t_ns: buckets.iter().map(|bucket| bucket.t_ns).collect(),
        samples: buckets.iter().map(|bucket| bucket.rows.len() as u32).collect(),
        layers: layers(samples, &buckets),
        lines: gauges
            .iter()
            .map(|&gauge| line(samples, machine, &buckets, gauge))
            .collect(),
    }
}

fn layers(samples: &Samples, buckets: &[Bucket]) -> Vec<Vec<Option<i64>>> {
    let mut layers: Vec<Vec<Option<i64>>> = vec![Vec::with_capacity(buckets.len()); CATEGORIES.len()];
    for bucket in buckets {
        let mut sums = [0_i128; CATEGORIES.len()];
        let mut count = 0;
        for row in bucket.rows.clone() {
            if let Some(categories) = categories(&samples.row_of(row, INPUTS)) {
                for (sum, bytes) in sums.iter_mut().zip(categories.bytes()) {
                    *sum += i128::from(bytes);
                }
                count += 1;
            }
        }
        let means = means(&sums, count);
        for (index, layer) in layers.iter_mut().enumerate() {
            layer.push(means.map(|means| means[index]));
        }
    }
    layers
}

/// The times of all CPUs by column, for a gauge that needs them.
fn cpu_times<'a>(samples: &'a Samples, gauge: &Gauge) -> BTreeMap<usize, ColumnView<'a>> {
    let needed = gauge.reading == Reading::Rate(Scale::PercentOfCpus);
    let columns = CPU_TIMES.iter().filter(|_| needed);
    columns
        .filter_map(|&column| Some((column, samples.column(COLUMNS[column].name)?)))
        .collect()
}

fn line(samples: &Samples, machine: Machine, buckets: &[Bucket], index: usize) -> Line {
    let gauge = &GAUGES[index];
    let names = gauge.columns.iter().map(|&column| COLUMNS[column].name);
    let columns: Vec<ColumnView> = names.filter_map(|name| samples.column(name)).collect();
    let point = |row: usize| Point::of(samples.t_ns()[row], columns.iter().map(|column| column.get(row)));
    let cpu_times = cpu_times(samples, gauge);
    let cpu_times = &cpu_times;
    let cpu_time = |row: usize| {
        let time = |at: Option<usize>| move |column: usize| cpu_times.get(&column)?.get(at?);
        cpu_time(time(Some(row)), time(row.checked_sub(1)))
    };
    let value = |row: usize| gauge.value(point(row), row.checked_sub(1).map(point), machine, cpu_time(row));
    let points = buckets
        .iter()
        .map(|bucket| mean_and_max(bucket.rows.clone().filter_map(&value)));
    let (mean, max) = points.unzip();
    Line {
        gauge: index,
        mean,
        max,
    }
}
