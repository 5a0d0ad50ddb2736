//! Hosts whose metrics are far from those of the other hosts of their class. The rule depends on the hosts with a trustworthy value:
//!
//! - Four and more: the host's median differs from that of the class by more than 5%, and by more than `7 + 72 / hosts` median
//!   absolute deviations (MADs). For identical hosts with normally distributed values, the false-positive rate per metric, group and
//!   class is at most about 1.6% (4 to 7 hosts) and below 0.5% from 8 hosts. It is not corrected for the number of metrics. With the
//!   constant limits of textbooks, it is about 17% for four hosts.
//! - Three, too few for a MAD: all trials of the host lie beyond all trials of the other two, with enough trials for p <= 0.05 (three
//!   trustworthy trials on each host are enough). Its median differs from the nearer one by more than 5%, and by more than 3 times
//!   the difference between the other two.
//! - One or two: none is an outlier.

use plimsoll_report::analysis::metric::{Direction, MetricUnit};
use plimsoll_report::analysis::statistics::{SIGNIFICANCE, THRESHOLD_PERCENT, least_p, median};
use plimsoll_report::comparison::{Verdict, nature};

use super::data::{DataSet, Key, Measure};
use super::settings::{Majority, SettingDifference};

/// Least hosts of a class with a MAD.
const LEAST_HOSTS: usize = 4;
/// See the rule for three hosts.
const APART: f64 = 3.0;

/// A host that is far from its class, with the settings in which it differs from the majority of the class.
#[derive(Debug, Clone)]
pub struct Outlier {
    pub host: String,
    pub class: String,
    pub group: String,
    pub metric: String,
    pub unit: MetricUnit,
    pub value: f64,
    /// Median of the class.
    pub median: f64,
    /// Distance in MADs; `None` if the MAD is 0 or the class has three hosts.
    pub mads: Option<f64>,
    /// `value` over `median`, minus 1; `None` if the median is 0.
    pub change: Option<f64>,
    /// Worse, better, or changed of a metric without a better direction.
    pub verdict: Verdict,
    /// Rarest values first.
    pub differences: Vec<SettingDifference>,
}

/// The outliers of headline metrics, farthest first.
pub(super) fn all(data: &DataSet) -> Vec<Outlier> {
    let majorities = data.majorities();
    let mut found: Vec<Outlier> = Vec::new();
    for (key, measure) in &data.measures {
        if nature(&key.metric).headline {
            let majority = &majorities[key.class.as_str()];
            found.extend(of_measure(data, key, measure, majority));
        }
    }
    let size = |one: &Outlier| one.change.map_or(f64::MAX, f64::abs);
    found.sort_by(|a, b| size(b).total_cmp(&size(a)));
    found
}

/// The headline measures in which the rules can find an outlier, and all headline measures.
pub(super) fn testable(data: &DataSet) -> (usize, usize) {
    let headline = data
        .measures
        .iter()
        .filter(|(key, _)| nature(&key.metric).headline);
    let testable: Vec<bool> = headline.map(|(_, measure)| is_testable(measure)).collect();
    (testable.iter().filter(|one| **one).count(), testable.len())
}

/// Whether there are enough hosts, and of three hosts enough trials.
fn is_testable(measure: &Measure) -> bool {
    let trials: Vec<usize> = measure
        .hosts
        .values()
        .map(|values| values.trusted.len())
        .filter(|trials| *trials > 0)
        .collect();
    let all: usize = trials.iter().sum();
    let can_tell = |own: &usize| least_p(*own, all - own) <= SIGNIFICANCE;
    match trials.len() {
        LEAST_HOSTS.. => true,
        3 => trials.iter().any(can_tell),
        _ => false,
    }
}

fn of_measure<'a>(
    data: &'a DataSet,
    key: &'a Key,
    measure: &Measure,
    majority: &'a Majority<'_>,
) -> impl Iterator<Item = Outlier> + 'a {
    let values: Vec<(usize, f64)> = measure.trusted().collect();
    let numbers: Vec<f64> = values.iter().map(|(_, value)| *value).collect();
    let centre = median(&numbers).unwrap_or(0.0);
    let far = match values.len() {
        LEAST_HOSTS.. => far_from_median(&values, centre),
        3 => apart_from_two(&values, measure)
            .map(|host| (host, None))
            .into_iter()
            .collect(),
        _ => Vec::new(),
    };
    far.into_iter().map(move |((host, value), mads)| {
        let host = &data.hosts[host];
        let nature = nature(&key.metric);
        Outlier {
            host: host.name.clone(),
            class: key.class.clone(),
            group: key.group.clone(),
            metric: key.metric.clone(),
            unit: nature.unit,
            value,
            median: centre,
            mads,
            change: (centre != 0.0).then(|| (value - centre) / centre.abs()),
            verdict: match (nature.direction, value > centre) {
                (Direction::Neither, _) => Verdict::Changed,
                (Direction::Less, true) | (Direction::More, false) => Verdict::Worse,
                (Direction::Less, false) | (Direction::More, true) => Verdict::Better,
            },
            differences: majority.differences(&host.settings),
        }
    })
}

/// A host with its value.
type Place = (usize, f64);

/// Of at least [`LEAST_HOSTS`] hosts; each with its distance in MADs, unless the MAD is 0.
fn far_from_median(values: &[Place], centre: f64) -> Vec<(Place, Option<f64>)> {
    let distances: Vec<f64> = values.iter().map(|(_, value)| (value - centre).abs()).collect();
    let mad = median(&distances).unwrap_or(0.0);
    let limit = 7.0 + 72.0 / values.len() as f64;
    let far = |(place, distance): (&Place, &f64)| {
        let is_far = matters(*distance, centre) && *distance > limit * mad;
        is_far.then(|| (*place, (mad > 0.0).then(|| distance / mad)))
    };
    values.iter().zip(&distances).filter_map(far).collect()
}

/// The one of three hosts that is apart from the two others.
fn apart_from_two(values: &[Place], measure: &Measure) -> Option<Place> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let [low, middle, high] = sorted.as_slice() else {
        return None;
    };
    let (host, near) = match middle.1 - low.1 > high.1 - middle.1 {
        true => (low, [middle, high]),
        false => (high, [middle, low]),
    };
    let distance = (host.1 - near[0].1).abs();
    let between = (near[0].1 - near[1].1).abs();
    let trials = |place: &Place| {
        measure
            .hosts
            .get(&place.0)
            .map_or(&[][..], |values| &values.trusted)
    };
    let own = trials(host);
    let others: Vec<f64> = near.iter().flat_map(|place| trials(place)).copied().collect();
    let beyond = |value: &f64| match host.1 > near[0].1 {
        true => others.iter().all(|other| value > other),
        false => others.iter().all(|other| value < other),
    };
    let is_apart = own.iter().all(beyond)
        && least_p(own.len(), others.len()) <= SIGNIFICANCE
        && matters(distance, near[0].1)
        && distance > APART * between;
    is_apart.then_some(*host)
}

/// Whether a distance from a value exceeds the least change that counts.
fn matters(distance: f64, from: f64) -> bool {
    distance > THRESHOLD_PERCENT / 100.0 * from.abs()
}
