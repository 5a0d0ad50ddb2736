//! One sample against another: how far apart their medians are, and whether chance alone would do it.

use super::{RESAMPLES, SplitMix64, median_of_sorted, resampled_median};

/// Probability below which chance is not taken for the reason.
pub const SIGNIFICANCE: f64 = 0.05;
/// Least change of a median that counts if the user chooses no other, in percent.
pub const THRESHOLD_PERCENT: f64 = 5.0;
/// Values of each sample below which the bootstrap of a ratio of medians is too narrow: with four, chance alone is
/// taken for a change in 8% of all cases instead of 5%.
pub const MIN_OF_EACH: usize = 5;
/// Product of the sizes up to which Mann-Whitney's distribution is computed: its counts are then below 2^53, exact.
const EXACT_UP_TO: usize = 400;

/// Medians of two samples, as a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianRatio {
    /// Median of the second over median of the first.
    pub ratio: f64,
    /// 95% percentile bootstrap, both sides resampled. None where the samples are too few ([`can_tell`]) or where
    /// resampling gives a median that no ratio can be made of.
    pub interval: Option<(f64, f64)>,
}

/// The ratio of the medians of `second` and `first`, each not empty, finite and in any order; none unless both medians
/// are above 0. The same seed gives the same interval, and exchanged samples the inverse one.
pub fn median_ratio(first: &[f64], second: &[f64], seed: u64) -> Option<MedianRatio> {
    let (first, second) = (ascending(first), ascending(second));
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let (base, other) = (median_of_sorted(&first), median_of_sorted(&second));
    if !(base > 0.0 && other > 0.0) {
        return None;
    }
    let ratio = Some(other / base).filter(|ratio| ratio.is_finite())?;
    let interval = can_tell(first.len(), second.len())
        .then(|| interval(&first, &second, seed))
        .flatten();
    Some(MedianRatio { ratio, interval })
}

fn interval(first: &[f64], second: &[f64], seed: u64) -> Option<(f64, f64)> {
    // The lesser sample draws first, so that the draws do not depend on which of the two is called the first.
    let exchanged = first.iter().partial_cmp(second.iter()) == Some(std::cmp::Ordering::Greater);
    let mut random = SplitMix64(seed);
    let mut scratch = Vec::with_capacity(first.len().max(second.len()));
    let mut ratios = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut draw = |sorted: &[f64]| resampled_median(sorted, &mut random, &mut scratch);
        let (base, other) = if exchanged {
            let other = draw(second);
            (draw(first), other)
        } else {
            (draw(first), draw(second))
        };
        if !(base > 0.0 && other > 0.0) {
            return None;
        }
        ratios.push(other / base);
    }
    ratios.sort_by(f64::total_cmp);
    let tail = RESAMPLES / 40;
    let ends = (ratios[tail], ratios[RESAMPLES - 1 - tail]);
    (ends.0.is_finite() && ends.1.is_finite()).then_some(ends)
}

/// Whether an interval of samples of these sizes can be believed: each has [`MIN_OF_EACH`] values, and complete
/// separation is rarer by chance than [`SIGNIFICANCE`] (with three and three it happens in one of ten).
pub fn can_tell(first: usize, second: usize) -> bool {
    first.min(second) >= MIN_OF_EACH && least_p(first, second) <= SIGNIFICANCE
}

/// The least two-sided p that samples of these sizes can give: that of complete separation.
pub fn least_p(first: usize, second: usize) -> f64 {
    let less = first.min(second);
    if less == 0 {
        return 1.0;
    }
    let arrangements: f64 = (1..=less)
        .map(|index| (first + second - less + index) as f64 / index as f64)
        .product();
    (2.0 / arrangements).min(1.0)
}

/// Two-sided p of the Mann-Whitney U test: how often samples of one distribution would lie at least so far apart.
///
/// Exact where no value occurs twice and the samples are small; otherwise the normal approximation with corrections
/// for ties and continuity. None where a sample is empty.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<f64> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let (u, ties) = u_statistic(first, second);
    let (n, m) = (first.len() as f64, second.len() as f64);
    if ties == 0.0 && first.len() * second.len() <= EXACT_UP_TO {
        // Without ties U is a whole number.
        let less = u.min(n * m - u).round() as usize;
        let counts = u_counts(first.len(), second.len());
        let all: f64 = counts.iter().sum();
        let tail: f64 = counts[..=less].iter().sum();
        return Some((2.0 * tail / all).min(1.0));
    }
    let total = n + m;
    let variance = n * m / 12.0 * ((total + 1.0) - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        // All values are the same one.
        return Some(1.0);
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    Some(two_sided_normal(z))
}

/// U of the first sample, and the sum of t^3 - t over the groups of t equal values.
fn u_statistic(first: &[f64], second: &[f64]) -> (f64, f64) {
    let mut all: Vec<(f64, bool)> = first.iter().map(|&value| (value, true)).collect();
    all.extend(second.iter().map(|&value| (value, false)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut ranks, mut ties, mut before) = (0.0, 0.0, 0);
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let count = equal.len() as f64;
        let rank = before as f64 + (count + 1.0) / 2.0;
        ranks += rank * equal.iter().filter(|(_, of_first)| *of_first).count() as f64;
        ties += count.powi(3) - count;
        before += equal.len();
    }
    let n = first.len() as f64;
    (ranks - n * (n + 1.0) / 2.0, ties)
}

/// In how many arrangements of `n` and `m` values U takes each value from 0 to n * m: the coefficients of the Gaussian
/// binomial, by multiplying with (1 - q^(m+i)) and dividing by (1 - q^i) for i from 1 to n.
fn u_counts(n: usize, m: usize) -> Vec<f64> {
    let mut counts = vec![0.0; n * m + 1];
    counts[0] = 1.0;
    for i in 1..=n {
        for at in (m + i..counts.len()).rev() {
            counts[at] -= counts[at - m - i];
        }
        for at in i..counts.len() {
            counts[at] += counts[at - i];
        }
    }
    counts
}

/// Probability that a normal variable lies further from 0 than `z` deviations: erfc(z / sqrt 2), by the rational
/// Chebyshev fit of Numerical Recipes (2nd edition, 6.2), whose relative error is below 1.2e-7.
fn two_sided_normal(z: f64) -> f64 {
    const FIT: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x);
    let fit = FIT.iter().rev().fold(0.0, |sum, factor| sum * t + factor);
    (t * (fit - x * x).exp()).min(1.0)
}

/// Holm's correction of p values that are looked at together: with it, one in twenty tables of mere chance has a value
/// below 0.05, instead of one in twenty values. In the order of `p`.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut corrected = vec![1.0; p.len()];
    let mut least = 0.0_f64;
    for (place, &index) in order.iter().enumerate() {
        least = least.max((p.len() - place) as f64 * p[index]).min(1.0);
        corrected[index] = least;
    }
    corrected
}

fn ascending(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
