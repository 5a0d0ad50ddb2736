//! Downsampling: how many values make one point, and what the point shows of them.
//!
//! | user | data | a point of the result |
//! |---|---|---|
//! | [`timeline`](super::timeline()) | all samples of a recording | mean and greatest of a bucket; the layers sum to MemTotal, gaps stay |
//! | `hold::curves`, `service::curves` | all samples of a recording | a single sample, as the mean of two goals or caps was never set |
//! | `contents::Timeline::thinned` | the points of a page, which has no samples | mean of a bucket, without peaks; the layers sum to MemTotal |
//! | `drawing::xy` | the points of a line | lowest and highest point of a pixel |
//! | `compare::multiples`, `compare.js` | the points of several runs | the nearest point at a time that the runs share |
//!
//! The monitor shares only [`means`]. Its `History` sums up frames as they arrive, because it drops old ones. `thin` of its
//! `page.js` halves the older rows in the browser, which has no samples.

use std::ops::Range;

/// Most points of a curve of single samples.
pub(crate) const CURVE_POINTS: usize = 1500;

/// Values that make one point, so that `count` values make at most `points`.
pub(crate) fn stride(count: usize, points: usize) -> usize {
    count.div_ceil(points).max(1)
}

/// Consecutive samples that make one point; none in a gap.
pub(super) struct Bucket {
    /// Middle between the first and the last sample.
    pub(super) t_ns: u64,
    pub(super) rows: Range<usize>,
}

/// The buckets of samples whose rate is `hz`: about `max_points`, at most three times as many with all gaps.
pub(super) fn buckets(t_ns: &[u64], rows: Range<usize>, hz: u32, max_points: usize) -> Vec<Bucket> {
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

/// Mean and greatest of values; nothing of no values.
pub(crate) fn mean_and_max(values: impl Iterator<Item = f64>) -> (Option<f64>, Option<f64>) {
    let (mut count, mut sum, mut max) = (0_u32, 0.0, f64::NEG_INFINITY);
    for value in values {
        count += 1;
        sum += value;
        max = f64::max(max, value);
    }
    let known = |value: f64| (count > 0).then_some(value);
    (known(sum / f64::from(count)), known(max))
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

/// The lowest and the highest of points, in the order of the points: of equal heights, the first and the last; a
/// single point once.
pub(crate) fn extremes<T: Copy>(points: &[T], height: impl Fn(&T) -> f64) -> impl Iterator<Item = T> {
    let by_height = |a: &usize, b: &usize| height(&points[*a]).total_cmp(&height(&points[*b]));
    let low = (0..points.len()).min_by(by_height);
    let high = (0..points.len()).max_by(by_height);
    let second = low.max(high).filter(|_| low != high);
    low.min(high)
        .into_iter()
        .chain(second)
        .map(move |index| points[index])
}

/// Index of the time that is nearest to `t`, and its distance. The times ascend.
pub(crate) fn nearest(times: &[f64], t: f64) -> Option<(usize, f64)> {
    let after = times.partition_point(|&at| at < t);
    let near = [after.checked_sub(1), Some(after)].into_iter().flatten();
    near.filter_map(|index| Some((index, (times.get(index)? - t).abs())))
        .min_by(|a, b| a.1.total_cmp(&b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Indices of the extremes of points with these heights.
    fn places(heights: &[u32]) -> Vec<usize> {
        let points: Vec<(usize, u32)> = heights.iter().copied().enumerate().collect();
        let found: Vec<(usize, u32)> = extremes(&points, |point| f64::from(point.1)).collect();
        found.into_iter().map(|(place, _)| place).collect()
    }

    #[test]
    fn extremes_keep_the_order_of_the_points() {
        assert!(places(&[]).is_empty(), "no point");
        assert_eq!(places(&[5]), [0], "a single point once");
        assert_eq!(places(&[5, 5, 5]), [0, 2], "a flat line keeps its ends");
        assert_eq!(places(&[2, 9, 1]), [1, 2], "a peak before the lowest point");
        assert_eq!(places(&[1, 9, 2]), [0, 1], "a peak after the lowest point");
        assert_eq!(places(&[1, 9, 9, 1]), [0, 2], "the first low, the last high");
    }
}
