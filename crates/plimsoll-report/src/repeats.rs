//! How many repeats a comparison with another run needs, for the hint at the end of a run.

use std::borrow::Cow;

use crate::analysis::statistics::{MIN_OF_EACH, median, summarise};
use crate::analysis::{Direction, Group};
use crate::headlines;
use crate::workloads;
use plimsoll_model::quantity::significant;

/// Repeats from which a group has an interval, and `compare` a verdict with one trial to spare.
pub const ENOUGH: usize = MIN_OF_EACH + 1;
/// Differences that the hint is about, as shares: a larger one than the default threshold of a comparison.
const DIFFERENCES: [f64; 2] = [0.10, 0.20];
/// Standard deviations between two medians that are seen at 95% confidence in 80% of the comparisons (1.96 + 0.84), times
/// the error of a median over that of a mean, sqrt(pi / 2), and of two samples over one, sqrt(2).
const SEEN: f64 = 2.8 * 1.2533 * std::f64::consts::SQRT_2;

/// The repeats that a comparison needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Needed {
    /// Trustworthy repeats of the group that has the fewest.
    pub have: usize,
    /// The main metric with the largest typical spread; `None` if no group has two repeats of one.
    pub spread: Option<Spread>,
}

/// The spread of a main metric between repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    pub title: String,
    /// Standard deviation over median, the median of the groups.
    pub share: f64,
}

impl Spread {
    /// Repeats of each run with which a comparison shows a difference, a share of the median, in four of five cases.
    pub fn repeats_for(&self, difference: f64) -> usize {
        let repeats = (SEEN * self.share / difference).powi(2).ceil();
        (repeats as usize).max(ENOUGH)
    }
}

/// The repeats that a comparison of the run of these groups needs; `None` without a trial that counts.
pub fn needed(groups: &[Group]) -> Option<Needed> {
    let trusted: Vec<Cow<'_, Group>> = groups.iter().map(Group::trusted).collect();
    let mut have: Vec<usize> = Vec::new();
    let mut spreads: Vec<Spread> = Vec::new();
    for kind in headlines::kinds(groups) {
        let of_kind: Vec<&Group> = trusted
            .iter()
            .map(AsRef::as_ref)
            .filter(|group: &&Group| group.workload == kind.name())
            .collect();
        let compared =
            |metric: &&crate::analysis::Metric| metric.headline && metric.direction != Direction::Neither;
        let report = workloads::of(kind);
        for metric in report.known.iter().filter(compared) {
            let measured = of_kind.iter().filter_map(|group| group.metrics.get(metric.name));
            let values: Vec<Vec<f64>> = measured.map(|measured| measured.values()).collect();
            have.extend(values.iter().map(Vec::len));
            spreads.extend(typical(metric.title, &values));
        }
        for phase in report.timed_phases.iter().flat_map(|timed| timed.main) {
            let phases = of_kind.iter().flat_map(|group| &group.phases);
            let measured = phases.filter(|found| &*found.name == *phase);
            let values: Vec<Vec<f64>> = measured.map(|found| found.seconds.values()).collect();
            spreads.extend(typical(&format!("{phase} time"), &values));
        }
    }
    let spread = spreads.into_iter().max_by(|a, b| a.share.total_cmp(&b.share));
    Some(Needed {
        have: have.into_iter().min()?,
        spread,
    })
}

/// The median over groups of the spread of a metric.
fn typical(title: &str, groups: &[Vec<f64>]) -> Option<Spread> {
    let shares: Vec<f64> = groups.iter().filter_map(|values| share(values)).collect();
    Some(Spread {
        title: title.to_owned(),
        share: median(&shares)?,
    })
}

/// Standard deviation over median.
fn share(values: &[f64]) -> Option<f64> {
    let summary = summarise(values, 0)?;
    let share = summary.standard_deviation? / summary.median.abs();
    share.is_finite().then_some(share)
}

/// The hint in one or two sentences.
pub fn hint(needed: &Needed) -> String {
    let mut text = String::new();
    if needed.have < MIN_OF_EACH {
        text += &format!(
            "To compare this run with another, repeat each trial at least {ENOUGH} times (`--repeat {ENOUGH}`): with {} `compare` \
             gives no verdict, because chance alone separates so few values too often.",
            needed.have
        );
    }
    if let Some(spread) = &needed.spread {
        let [small, large] = DIFFERENCES.map(|difference| spread.repeats_for(difference));
        let named = |difference: f64| format!("{:.0}%", difference * 100.0);
        let what = match small == large {
            true => format!("{small} repeats show a difference of {}", named(DIFFERENCES[0])),
            false => format!(
                "a difference of {} needs {small} repeats, one of {} {large}",
                named(DIFFERENCES[0]),
                named(DIFFERENCES[1])
            ),
        };
        if !text.is_empty() {
            text.push(' ');
        }
        text += &format!(
            "At the spread of {} between repeats ({}%) {what}.",
            spread.title,
            significant(spread.share * 100.0)
        );
    }
    text
}
