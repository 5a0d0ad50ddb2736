//! Summary statistics of the repeats of one measurement.
//!
//! The median stands for the repeats, since noise on a machine is one-sided: a run is never faster than it can be, but
//! sometimes much slower.

mod two_samples;

pub use two_samples::{
    MIN_OF_EACH, MedianRatio, SIGNIFICANCE, THRESHOLD_PERCENT, can_tell, holm, least_p, mann_whitney,
    median_ratio,
};

/// Repeats below which no interval of 95% exists: with five, even minimum to maximum contains the population's
/// median only with a probability of 1 - 2 * 0.5^5 = 93.75%.
pub const MIN_FOR_INTERVAL: usize = 6;
/// Resamples of the bootstrap. The 2.5% tails then hold 50 resamples each.
pub const RESAMPLES: usize = 2000;

/// Summary of repeats. All values are finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    pub n: usize,
    /// Middle value, or the mean of the two middle ones.
    pub median: f64,
    pub min: f64,
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (n - 1); none for a single value.
    pub standard_deviation: Option<f64>,
    /// Where the median would lie if the repeats were repeated.
    pub interval: Interval,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    pub kind: IntervalKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalKind {
    /// Minimum to maximum: the repeats are too few for an interval of a stated probability.
    Range,
    /// 95% percentile bootstrap.
    Bootstrap95,
}

impl IntervalKind {
    /// Its name in a legend.
    pub fn text(self) -> &'static str {
        match self {
            IntervalKind::Range => "minimum to maximum (fewer than 6 repeats)",
            IntervalKind::Bootstrap95 => "95% bootstrap interval of the median",
        }
    }
}

/// Sums up the finite ones of `values`; none when there is none. The same seed gives the same interval.
pub fn summarise(values: &[f64], seed: u64) -> Option<Summary> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (&min, &max) = (sorted.first()?, sorted.last()?);
    let n = sorted.len();
    // Divided before they are added, so that large values do not overflow.
    let mean = sorted
        .iter()
        .map(|value| value / n as f64)
        .sum::<f64>()
        .clamp(min, max);
    let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
    let standard_deviation = (n > 1)
        .then(|| (squares / (n - 1) as f64).sqrt())
        .filter(|deviation| deviation.is_finite());
    Some(Summary {
        n,
        median: median_of_sorted(&sorted),
        min,
        max,
        mean,
        standard_deviation,
        interval: interval(&sorted, seed),
    })
}

fn interval(sorted: &[f64], seed: u64) -> Interval {
    if sorted.len() < MIN_FOR_INTERVAL {
        return Interval {
            low: sorted[0],
            high: sorted[sorted.len() - 1],
            kind: IntervalKind::Range,
        };
    }
    let mut random = SplitMix64(seed);
    let mut scratch = Vec::with_capacity(sorted.len());
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| resampled_median(sorted, &mut random, &mut scratch))
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    Interval {
        low: medians[tail],
        high: medians[RESAMPLES - 1 - tail],
        kind: IntervalKind::Bootstrap95,
    }
}

/// Median of as many values, drawn from `sorted` with replacement; `scratch` is overwritten.
fn resampled_median(sorted: &[f64], random: &mut SplitMix64, scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    scratch.extend(sorted.iter().map(|_| sorted[random.below(sorted.len())]));
    scratch.sort_by(f64::total_cmp);
    median_of_sorted(scratch)
}

/// The median of the finite ones of `values`; none where there is none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| median_of_sorted(&sorted))
}

/// Median of values in ascending order, of which there is at least one.
fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        sorted[middle - 1] / 2.0 + sorted[middle] / 2.0
    }
}

/// Vigna's SplitMix64: small, and good enough to draw with.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`. The bias is below `bound / 2^64`.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}
