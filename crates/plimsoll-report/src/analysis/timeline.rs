//! Samples thinned out for a report: an hour at 100 Hz becomes some thousand points.
//!
//! Other places thin out other data, or must keep another property:
//!
//! | place | data | a point of the result |
//! |---|---|---|
//! | [`timeline`] | all samples of a recording | mean and greatest of equally many samples; the layers sum to MemTotal, gaps stay |
//! | `hold::curves`, `service::curves` | all samples of a recording | a single sample, as the mean of two goals or caps was never set |
//! | `contents::Timeline::thinned` | the points of a page, which has no samples | mean of equally many points, without peaks; the layers sum to MemTotal |
//! | `drawing::xy::thinned` | the points of a line | lowest and highest point of a pixel |
//! | `compare::multiples` | the points of several runs | the nearest point at a time that the runs share |
//! | `plimsoll_monitor::watch::History` | frames that arrive one by one; old ones are dropped | mean and greatest of the frames of an interval, the sum of whole seconds |
//! | `thin` of `watch/page.js` | rows that the monitor sent once | mean of two rows of the older half |

use std::collections::BTreeMap;
use std::ops::Range;

use super::frame::{Machine, Point, cpu_time};
use super::gauges::{CPU_TIMES, GAUGES, Gauge, Reading, Scale};
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
    /// Time of each point: the mean of its samples'.
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

/// Consecutive samples that make one point; none in a gap.
struct Bucket {
    t_ns: u64,
    rows: Range<usize>,
}

/// Most points of a curve of single samples.
pub(crate) const CURVE_POINTS: usize = 1500;

/// Values that make one point, so that `count` values make at most `points`.
pub(crate) fn stride(count: usize, points: usize) -> usize {
    count.div_ceil(points).max(1)
}

fn buckets(t_ns: &[u64], rows: Range<usize>, hz: u32, max_points: usize) -> Vec<Bucket> {
    let per_bucket = stride(rows.len(), max_points);
    let period = 1_000_000_000 / u64::from(hz.max(1));
    let span = match rows.is_empty() {
        true => 0,
        false => t_ns[rows.end - 1] - t_ns[rows.start],
    };
    // What is narrower than a point cannot be seen; and so there are never more gaps than points.
    let gap = (span / max_points as u64).max(period + period / 2);
    let mut buckets = Vec::new();
    let mut start = rows.start;
    for row in rows.clone() {
        let next = row + 1;
        let before_gap = next < rows.end && t_ns[next] - t_ns[row] > gap;
        if before_gap || next == rows.end || next - start == per_bucket {
            buckets.push(Bucket {
                t_ns: t_ns[start] + (t_ns[row] - t_ns[start]) / 2,
                rows: start..next,
            });
            start = next;
        }
        if before_gap {
            buckets.push(Bucket {
                t_ns: t_ns[row] + (t_ns[next] - t_ns[row]) / 2,
                rows: next..next,
            });
        }
    }
    buckets
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

/// Means of `count` samples, rounded down; the rounding loss, less than a byte per layer, goes to the last layer, so that
/// the sum is the rounded-down mean of the total. Nothing of no samples.
pub fn means<const N: usize>(sums: &[i128; N], count: i128) -> Option<[i64; N]> {
    if count == 0 {
        return None;
    }
    let total = sums.iter().sum::<i128>().div_euclid(count);
    let mut means = sums.map(|sum| sum.div_euclid(count));
    means[N - 1] += total - means.iter().sum::<i128>();
    // A mean lies between values that were an i64 each.
    Some(means.map(|mean| mean as i64))
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
    let mut line = Line {
        gauge: index,
        mean: Vec::with_capacity(buckets.len()),
        max: Vec::with_capacity(buckets.len()),
    };
    for bucket in buckets {
        let values = bucket.rows.clone().filter_map(value);
        let mut count = 0;
        let (mut sum, mut max) = (0.0, f64::NEG_INFINITY);
        for value in values {
            count += 1;
            sum += value;
            max = f64::max(max, value);
        }
        let known = |value: f64| (count > 0).then_some(value);
        line.mean.push(known(sum / f64::from(count)));
        line.max.push(known(max));
    }
    line
}
