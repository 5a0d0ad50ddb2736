//! The distribution of each headline metric over the hosts of each class.

use plimsoll_report::analysis::metric::MetricUnit;
use plimsoll_report::comparison::nature;

use super::data::{DataSet, Key, Measure};

/// A metric of a group over the hosts of a class.
#[derive(Debug, Clone)]
pub struct Distribution {
    pub class: String,
    pub group: String,
    pub metric: String,
    pub unit: MetricUnit,
    /// Hosts with a value, by name.
    pub hosts: Vec<HostValue>,
    /// Of the trustworthy values; `None` without any.
    pub quantiles: Option<Quantiles>,
}

#[derive(Debug, Clone)]
pub struct HostValue {
    pub host: String,
    /// Median of the host's trials.
    pub value: f64,
    /// Whether a trial's value is trustworthy.
    pub trusted: bool,
    /// Trials with a value.
    pub trials: usize,
}

/// Quantiles of values, interpolated between neighbours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    pub min: f64,
    pub p10: f64,
    pub p25: f64,
    pub median: f64,
    pub p75: f64,
    pub p90: f64,
    pub max: f64,
}

impl Quantiles {
    /// Of finite values, at least one.
    pub(super) fn of(values: &[f64]) -> Option<Quantiles> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let below = place.floor() as usize;
            let above = (below + 1).min(last);
            let part = place - below as f64;
            sorted[below] * (1.0 - part) + sorted[above] * part
        };
        Some(Quantiles {
            min: sorted[0],
            p10: at(0.1),
            p25: at(0.25),
            median: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            max: sorted[last],
        })
    }
}

/// Those of headline metrics, by group and metric and then by class.
pub(super) fn all(data: &DataSet) -> Vec<Distribution> {
    let mut all: Vec<Distribution> = data
        .measures
        .iter()
        .filter(|(key, _)| nature(&key.metric).headline)
        .map(|(key, measure)| of(data, key, measure))
        .collect();
    all.sort_by_cached_key(|one| {
        (
            by_number(&one.group),
            importance(&one.metric),
            one.metric.clone(),
            one.class.clone(),
        )
    });
    all
}

fn of(data: &DataSet, key: &Key, measure: &Measure) -> Distribution {
    let value = |(host, values): (&usize, &super::data::HostValues)| {
        let (value, trusted) = values.value()?;
        Some(HostValue {
            host: data.hosts[*host].name.clone(),
            value,
            trusted,
            trials: values.trials(),
        })
    };
    let trusted: Vec<f64> = measure.trusted().map(|(_, value)| value).collect();
    Distribution {
        class: key.class.clone(),
        group: key.group.clone(),
        metric: key.metric.clone(),
        unit: nature(&key.metric).unit,
        hosts: measure.hosts.iter().filter_map(value).collect(),
        quantiles: Quantiles::of(&trusted),
    }
}

/// The place of a metric in the tables of the workloads; those of phases come first.
fn importance(metric: &str) -> usize {
    let mut all = plimsoll_report::workloads::all_metrics();
    all.position(|known| known.name == metric)
        .map_or(0, |place| place + 1)
}

/// The parts of a string for sorting: numbers compare by their value.
pub(super) fn by_number(text: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest
            .find(|letter: char| !letter.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|letter: char| letter.is_ascii_digit())
            .unwrap_or(after.len());
        let (words, after) = after.split_at(letters);
        parts.push((number.parse().unwrap_or(0), words.to_owned()));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_between_neighbours() {
        assert_eq!(Quantiles::of(&[]), None);
        let one = Quantiles::of(&[3.0]).unwrap();
        assert_eq!((one.min, one.p25, one.median, one.max), (3.0, 3.0, 3.0, 3.0));
        let four = Quantiles::of(&[4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            (four.min, four.p25, four.median, four.p75),
            (1.0, 1.75, 2.5, 3.25)
        );
        assert!((four.p10 - 1.3).abs() < 1e-12 && (four.p90 - 3.7).abs() < 1e-12);
    }

    #[test]
    fn groups_are_sorted_by_their_numbers() {
        let mut groups = ["load/x=16", "load/x=4", "a/x=100"];
        groups.sort_by_cached_key(|group| by_number(group));
        assert_eq!(groups, ["a/x=100", "load/x=4", "load/x=16"]);
    }
}
