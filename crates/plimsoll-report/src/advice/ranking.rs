//! Candidates side by side: which is the best by a metric, and which of the others are certainly worse.
//!
//! The statistics are those of `compare`: the ratio of medians with its bootstrap interval, and the Mann-Whitney test with
//! Holm's correction. The trials of a run are shuffled within each repeat, so that drift of the machine affects all
//! candidates alike.

use xxhash_rust::xxh3::xxh3_64;

use super::candidates::{Candidate, Repeats};
use crate::analysis::Direction;
use crate::analysis::statistics::{
    MIN_OF_EACH, SIGNIFICANCE, THRESHOLD_PERCENT, can_tell, holm, mann_whitney, median, median_ratio,
};
use crate::repeats::ENOUGH;
use crate::workloads::criteria::Measure;
use crate::workloads::find_metric;
use plimsoll_model::quantity::counted;
use plimsoll_model::recording::{WithheldCode, Worth};

/// Least difference of medians that a recommendation is worth, as a share: that of `compare`.
const WORTH_WHILE: f64 = THRESHOLD_PERCENT / 100.0;

/// The reason for which candidates cannot be ranked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lack {
    pub(super) code: WithheldCode,
    /// A clause, and the remedy.
    pub(super) text: String,
}

/// Two candidates by one metric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pair {
    /// The metric of the first over that of the second.
    pub(super) worth: Worth,
    p: f64,
}

impl Pair {
    /// Whether the first is better for certain, and by enough.
    pub(super) fn is_better(&self, direction: Direction) -> bool {
        let Worth { median, low, high } = self.worth;
        let by_enough = match direction {
            Direction::More => low > 1.0 && median > 1.0 + WORTH_WHILE,
            Direction::Less => high < 1.0 && median < 1.0 / (1.0 + WORTH_WHILE),
            Direction::Neither => false,
        };
        by_enough && self.p < SIGNIFICANCE
    }
}

/// Candidates with their trustworthy repeats of one metric.
pub(super) struct Field {
    direction: Direction,
    metric: &'static str,
    names: Vec<String>,
    values: Vec<Vec<f64>>,
}

/// The best candidate, and the others by the knowledge about them.
#[derive(Debug, PartialEq)]
pub(super) struct Ranking {
    pub(super) best: usize,
    /// Not certainly worse than the best.
    pub(super) level: Vec<usize>,
    /// Certainly worse; with the best over each.
    pub(super) behind: Vec<(usize, Worth)>,
}

impl Field {
    /// The candidates by a metric.
    ///
    /// # Errors
    /// A candidate has too few trustworthy repeats, or lacks the metric in one.
    pub(super) fn of(candidates: &[Candidate<'_>], measure: Measure) -> Result<Field, Lack> {
        let values = candidates.iter().map(|candidate| {
            let repeats = candidate.repeats(measure.metric);
            match lack(&candidate.name, &repeats, measure, MIN_OF_EACH) {
                Some(lack) => Err(lack),
                None => Ok(repeats.trustworthy),
            }
        });
        let values = values.collect::<Result<Vec<_>, Lack>>()?;
        Ok(Field {
            direction: find_metric(measure.metric).map_or(Direction::Neither, |metric| metric.direction),
            metric: measure.metric,
            names: candidates
                .iter()
                .map(|candidate| candidate.name.clone())
                .collect(),
            values,
        })
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn median(&self, place: usize) -> f64 {
        median(&self.values[place]).unwrap_or(0.0)
    }

    pub(super) fn repeats(&self, place: usize) -> usize {
        self.values[place].len()
    }

    /// `one` over each of the others, with p corrected for their number. Without those that no ratio can be made of.
    pub(super) fn against(&self, one: usize, others: &[usize]) -> Vec<(usize, Pair)> {
        let pairs = others
            .iter()
            .filter_map(|&other| Some((other, self.pair(one, other)?)));
        corrected(pairs.collect())
    }

    /// Each of the others over `one`, with p corrected for their number. Without those that no ratio can be made of.
    pub(super) fn against_each(&self, others: &[usize], one: usize) -> Vec<(usize, Pair)> {
        let pairs = others
            .iter()
            .filter_map(|&other| Some((other, self.pair(other, one)?)));
        corrected(pairs.collect())
    }

    fn pair(&self, one: usize, other: usize) -> Option<Pair> {
        let mut names = [&self.names[one], &self.names[other]];
        names.sort();
        let seed = xxh3_64(format!("{}/{}/{}", self.metric, names[0], names[1]).as_bytes());
        let (first, second) = (&self.values[one], &self.values[other]);
        let ratio = median_ratio(second, first, seed)?;
        let (low, high) = ratio.interval?;
        let worth = Worth {
            median: ratio.ratio,
            low,
            high,
        };
        Some(Pair {
            worth,
            p: mann_whitney(first, second)?,
        })
    }

    /// The place of the best median among `places`; of equal ones, the first.
    fn best_of(&self, places: &[usize]) -> Option<usize> {
        let better = |a: f64, b: f64| match self.direction {
            Direction::Less => a < b,
            _ => a > b,
        };
        places
            .iter()
            .copied()
            .reduce(|best, next| match better(self.median(next), self.median(best)) {
                true => next,
                false => best,
            })
    }

    /// The best of `places` and its lead over the others; `None` of no place.
    pub(super) fn rank(&self, places: &[usize]) -> Option<Ranking> {
        let best = self.best_of(places)?;
        let others: Vec<usize> = places.iter().copied().filter(|&place| place != best).collect();
        let pairs = self.against(best, &others);
        let mut ranking = Ranking {
            best,
            level: Vec::new(),
            behind: Vec::new(),
        };
        for other in others {
            let pair = pairs.iter().find(|(place, _)| *place == other);
            match pair.filter(|(_, pair)| pair.is_better(self.direction)) {
                Some((_, pair)) => ranking.behind.push((other, pair.worth)),
                None => ranking.level.push(other),
            }
        }
        Some(ranking)
    }

    /// The best of those that are certainly worse.
    pub(super) fn next(&self, ranking: &Ranking) -> Option<(usize, Worth)> {
        let behind: Vec<usize> = ranking.behind.iter().map(|(place, _)| *place).collect();
        let next = self.best_of(&behind)?;
        ranking.behind.iter().find(|(place, _)| *place == next).copied()
    }
}

/// The pairs with p corrected for their number.
fn corrected(mut pairs: Vec<(usize, Pair)>) -> Vec<(usize, Pair)> {
    let p: Vec<f64> = pairs.iter().map(|(_, pair)| pair.p).collect();
    for ((_, pair), corrected) in pairs.iter_mut().zip(holm(&p)) {
        pair.p = corrected;
    }
    pairs
}

/// The reason for which the repeats of a candidate, named `name`, do not count; `None` if they do.
pub(super) fn lack(name: &str, repeats: &Repeats, measure: Measure, least: usize) -> Option<Lack> {
    let (noun, n) = (measure.noun, repeats.trustworthy.len());
    let all = n + repeats.untrustworthy;
    // With as many others, chance alone gives complete separation too often.
    let enough = |n: usize| n >= least && can_tell(n, n);
    if repeats.without > 0 {
        return Some(Lack {
            code: WithheldCode::NotMeasured,
            text: format!(
                "{} with {name} did not measure the {noun}",
                counted(repeats.without, "trial")
            ),
        });
    }
    if enough(n) {
        return None;
    }
    Some(match enough(all) {
        true => Lack {
            code: WithheldCode::Untrustworthy,
            text: format!(
                "the {noun} with {name} is trustworthy in {n} of {}; see the notes, and run it again without the disturbance",
                counted(all, "repeat")
            ),
        },
        false => Lack {
            code: WithheldCode::TooFewRepeats,
            text: format!(
                "{n} trustworthy {} no interval; repeat each trial {ENOUGH} times (`--repeat {ENOUGH}`)",
                if n == 1 { "repeat has" } else { "repeats have" }
            ),
        },
    })
}
