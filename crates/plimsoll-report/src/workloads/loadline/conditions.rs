//! The conditions of a load line, from the metrics and parameters of a group.

use super::{KNEE, KNEE_HIGH, KNEE_LOW, NEEDED, TARGET_HIGH, TARGET_LOAD, TARGET_NEEDED};
use crate::analysis::Group;
use plimsoll_model::quantity::{self, significant};
use plimsoll_model::recording::{Statement, StatementCode};
use plimsoll_model::scenario::workloads::loadline::{CARRIED, SERVED};
use plimsoll_model::scenario::{FillClass, SizeExpr};

/// A lowest load above this is worth a word: not all of it stays in memory.
const BASE_TOLD: f64 = 0.75;

/// The condition that the headline is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// Useful work.
    Work,
    /// Latency, where a scenario has a target.
    P99,
}

impl Basis {
    pub(super) fn of(groups: &[&Group]) -> Basis {
        match groups.iter().any(|group| target(group).is_some()) {
            true => Basis::P99,
            false => Basis::Work,
        }
    }

    /// The metrics of the line, of the last load that is carried, and of the first that is not.
    pub(super) const fn metrics(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Basis::Work => (KNEE, KNEE_LOW, KNEE_HIGH),
            Basis::P99 => (TARGET_LOAD, TARGET_LOAD, TARGET_HIGH),
        }
    }

    /// Whether most repeats found the line; one that carried the largest load has none.
    pub(super) fn has_line(self, group: &Group) -> bool {
        let (_, low, high) = self.metrics();
        let count = |metric: &str| group.metrics.get(metric).map_or(0, |found| found.values().len());
        let end = match self {
            Basis::Work => KNEE,
            // The last load that meets the target is there also where no load misses it.
            Basis::P99 => high,
        };
        2 * count(end) > count(low)
    }

    /// The load that a group carries: the line or, without one, the least that a repeat carried, which is certain.
    pub(super) fn carried(self, group: &Group) -> Option<f64> {
        let (line, low, _) = self.metrics();
        match self.has_line(group) {
            true => group.median(line),
            false => Some(group.metrics.get(low)?.summary.min),
        }
    }

    /// The end of the line, as a clause.
    pub(super) fn condition(self, group: &Group) -> String {
        let share = share_of(group);
        match (self, target(group)) {
            (Basis::P99, Some(target)) => format!("p99 exceeds {}", quantity::seconds(target)),
            (Basis::P99 | Basis::Work, _) if share.of_rate => {
                format!("visits fall below {} of the rate", share.words())
            }
            (Basis::P99 | Basis::Work, _) => format!("useful work falls below {}", share.words()),
        }
    }

    /// A statement with the target that ends the line.
    pub(super) fn with_target(self, statement: Statement, group: &Group) -> Statement {
        match (self, target(group)) {
            (Basis::P99, Some(target)) => statement.with("target_p99_s", target),
            (Basis::P99 | Basis::Work, _) => share_of(group).stated(statement),
        }
    }
}

/// The share of useful work down to which a load is carried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    pub(super) share: f64,
    /// Whether it is a share of the visits that are due.
    pub(super) of_rate: bool,
}

impl Share {
    /// `half`, or in percent.
    pub(super) fn words(self) -> String {
        match self.share == CARRIED {
            true => "half".to_owned(),
            false => {
                let percent = significant(100.0 * self.share);
                let percent = percent.trim_end_matches('0').trim_end_matches('.');
                format!("{percent}%")
            }
        }
    }

    pub(super) fn stated(self, statement: Statement) -> Statement {
        let name = match self.of_rate {
            true => "target_visits_ratio",
            false => "target_work_ratio",
        };
        statement.with(name, self.share)
    }
}

pub(super) fn share_of(group: &Group) -> Share {
    let of_rate = group.params.contains_key("rate");
    let given = number(group, "target-work");
    let share = given.unwrap_or(if of_rate { SERVED } else { CARRIED });
    Share { share, of_rate }
}

/// The largest p99 in seconds of a load that meets the target.
pub(super) fn target(group: &Group) -> Option<f64> {
    number(group, "target-p99").filter(|target| *target > 0.0)
}

/// The working set, where it is the same at every load.
pub(super) fn size_of(group: &Group) -> Option<f64> {
    let fixed = [NEEDED, TARGET_NEEDED]
        .iter()
        .any(|name| group.metrics.contains_key(name));
    let fixed = fixed || group.params.contains_key("limits");
    number(group, "size").filter(|_| fixed)
}

fn number(group: &Group, name: &str) -> Option<f64> {
    group.params.get(name)?.parse().ok()
}

/// The data and the pattern of the visits, as far as `name`, which stands in the finding, does not state them.
pub(super) fn circumstances(group: &Group, name: &str) -> Option<Statement> {
    if name == group.label {
        return None;
    }
    let class = group.params.get("class");
    let data = match class.map(|class| class.parse()) {
        Some(Ok(FillClass::Ratio(ratio))) => Some(format!("compress {ratio}:1")),
        Some(Ok(FillClass::Random)) => Some("do not compress".to_owned()),
        Some(Ok(class)) => Some(format!("are of the class {class}")),
        Some(Err(_)) | None => None,
    };
    let pattern = group.params.get("pattern").filter(|pattern| *pattern != name);
    let text = match (&data, pattern) {
        (Some(data), Some(pattern)) => format!("The data {data}; visits follow the pattern {pattern}."),
        (Some(data), None) => format!("The data {data}."),
        (None, Some(pattern)) => format!("Visits follow the pattern {pattern}."),
        (None, None) => return None,
    };
    let names = [("class", class.filter(|_| data.is_some())), ("pattern", pattern)];
    let names = names.into_iter().filter_map(|(role, name)| Some((role, name?)));
    let statement = Statement::new(StatementCode::LoadlineData, text);
    Some(names.fold(statement, |statement, (role, name)| statement.naming(role, name)))
}

/// The share and the place of file pages, of visits that have any.
pub(super) fn visited_file(group: &Group) -> Option<Statement> {
    let percent = group
        .params
        .get("file-percent")
        .filter(|percent| *percent != "0")?;
    let place = group.params.get("file-system");
    let at = place.map_or(String::new(), |place| format!(" ({place})"));
    let others = if percent == "100" {
        ""
    } else {
        ", the others anonymous"
    };
    let text = format!("Of the visited pages, {percent}% are those of a file{at}{others}.");
    let statement = Statement::new(StatementCode::LoadlineFilePages, text)
        .with("file_percent", percent.parse::<f64>().ok());
    Some(match place {
        Some(place) => statement.naming("file_system", place),
        None => statement,
    })
}

/// The load that useful work is relative to, where a scenario gives one that is not light.
pub(super) fn relative_to(group: &Group) -> Option<Statement> {
    let first = |name: &str| group.params.get(name)?.split(',').next();
    let lowest = match (first("loads"), first("limits").map(str::parse)) {
        (Some(load), _) => load.parse().ok()?,
        (None, Some(Ok(SizeExpr::Bytes(limit)))) => size_of(group)? / limit as f64,
        (None, _) => return None,
    };
    let told = lowest > BASE_TOLD && !group.params.contains_key("rate");
    let text = format!(
        "Useful work is relative to that at load {}, the lowest one.",
        significant(lowest)
    );
    told.then(|| Statement::new(StatementCode::LoadlineRelative, text).with("load", lowest))
}
