//! The headline of a wscap run.

use crate::analysis::Group;
use crate::analysis::statistics::{IntervalKind, Summary};
use crate::workloads::sentence::{Told, brief, bullets_of_groups, range};
use crate::workloads::wscap::{CACHE_HITS, FAULT_PATH, SLOWDOWN, load, place};
use plimsoll_model::quantity::significant;
use plimsoll_model::scenario::Subject;

/// Groups listed one by one; of more, the finding gives a range.
const NAMED_GROUPS: usize = 4;
/// Size over cap that the finding is about, or the tried one next to it: clearly too large, and still in use.
const USUAL_LOAD: f64 = 2.0;
/// The mechanism of a cap on a pager.
const BUDGET: &str = "budget";
/// Slowdown up to this factor counts as none: within the spread of repeats.
const AS_LONG: f64 = 1.1;

pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let points: Vec<Point<'_>> = groups.iter().filter_map(|group| Point::of(group)).collect();
    let distance = |point: &Point<'_>| (point.load / USUAL_LOAD).ln().abs();
    let load = points
        .iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))?
        .load;
    let there: Vec<&Point<'_>> = points.iter().filter(|point| point.load == load).collect();
    let head = format!("At {} its cap a scan takes", times(load));
    let all: Vec<f64> = there.iter().map(|point| point.slowdown.median).collect();
    let named = (there.len() <= NAMED_GROUPS).then(|| format!("{head} {}.", as_long_by_group(&there)));
    let ranges = [
        format!("{head} {}.", as_long_by_mechanism(&there)),
        format!("{head} {}\u{d7} as long.", range(&all)?),
    ];
    let finding = brief(&named.iter().cloned().chain(ranges).collect::<Vec<_>>());
    let mut bullets = match named.as_ref() == Some(&finding) {
        true => spreads(&there),
        false => bullets_of_groups(
            there
                .iter()
                .map(|point| format!("{}: {}.", point.group.label, factor(&point.slowdown)))
                .collect(),
        ),
    };
    let in_faults: Vec<f64> = there
        .iter()
        .filter_map(|point| point.group.median(FAULT_PATH))
        .collect();
    if let Some(percent) = range(&in_faults) {
        bullets.push(format!("{percent}% of its CPU time goes into page faults."));
    }
    let hits: Vec<f64> = there
        .iter()
        .filter_map(|point| point.group.median(CACHE_HITS))
        .collect();
    if let Some(percent) = range(&hits) {
        bullets.push(format!(
            "{percent}% of the faults in files found their page in the page cache."
        ));
    }
    if let Some(largest) = largest_free(&points) {
        bullets.push(format!(
            "Up to {} its cap it takes as long as without one.",
            times(largest)
        ));
    }
    Some(Told { finding, bullets })
}

struct Point<'a> {
    group: &'a Group,
    load: f64,
    slowdown: Summary,
}

impl<'a> Point<'a> {
    fn of(group: &'a Group) -> Option<Point<'a>> {
        Some(Point {
            group,
            load: load(&group.params)?,
            slowdown: group.metrics.get(SLOWDOWN)?.summary,
        })
    }

    /// The mechanism of the cap: on a pager, whose budget `cap-by=limit` sets, another than on the kernel's memory.
    fn cap_by(&self) -> &str {
        if matches!(self.group.subject.parse(), Ok(Subject::Pager(_))) {
            return BUDGET;
        }
        self.group.params.get("cap-by").map_or("", String::as_str)
    }
}

fn times(load: f64) -> String {
    match load {
        1.0 => "the size of".to_owned(),
        2.0 => "twice".to_owned(),
        load => format!("{load} times"),
    }
}

/// The name of a point among others: with its mechanism if they differ in that.
fn named(point: &Point<'_>, among: &[&Point<'_>]) -> String {
    let place = place(&point.group.subject, &point.group.params);
    match among.iter().all(|other| other.cap_by() == point.cap_by()) {
        true => place,
        false => format!("{place} {}", capped_by(point.cap_by())),
    }
}

/// `120x as long on zram, 90.0x on swapfile`.
fn as_long_by_group(points: &[&Point<'_>]) -> String {
    let clauses = points.iter().enumerate().map(|(place, point)| {
        let times = significant(point.slowdown.median);
        let words = if place == 0 { " as long" } else { "" };
        format!("{times}\u{d7}{words} on {}", named(point, points))
    });
    clauses.collect::<Vec<_>>().join(", ")
}

/// `2.00x as long trimmed once a second, 90.0 to 120x under a cgroup limit`: a cap enforced once a second and one enforced
/// at every fault are not comparable.
fn as_long_by_mechanism(points: &[&Point<'_>]) -> String {
    let mut mechanisms: Vec<&str> = points.iter().map(|point| point.cap_by()).collect();
    mechanisms.sort_unstable();
    mechanisms.dedup();
    let clauses = mechanisms.iter().enumerate().filter_map(|(place, mechanism)| {
        let of_it = points.iter().filter(|point| point.cap_by() == *mechanism);
        let medians: Vec<f64> = of_it.map(|point| point.slowdown.median).collect();
        let words = if place == 0 { " as long" } else { "" };
        Some(format!(
            "{}\u{d7}{words} {}",
            range(&medians)?,
            capped_by(mechanism)
        ))
    });
    clauses.collect::<Vec<_>>().join(", ")
}

/// The spread of each point whose repeats have any.
fn spreads(points: &[&Point<'_>]) -> Vec<String> {
    let spread = |point: &&Point<'_>| {
        let spread = interval(&point.slowdown)?;
        Some(match points.len() {
            1 => format!("The slowdown is {spread}."),
            _ => format!("{}: {spread}.", named(point, points)),
        })
    };
    points.iter().filter_map(spread).collect()
}

fn factor(slowdown: &Summary) -> String {
    let spread = interval(slowdown).map_or(String::new(), |spread| format!(", {spread}"));
    format!("{}\u{d7}{spread}", significant(slowdown.median))
}

fn capped_by(mechanism: &str) -> String {
    match mechanism {
        "limit" => "under a cgroup limit".to_owned(),
        "high" => "under memory.high".to_owned(),
        BUDGET => "in a pager's budget".to_owned(),
        "balance" => "trimmed once a second".to_owned(),
        other => format!("capped by {other}"),
    }
}

/// The spread of the repeats; `None` of a single one, and where it is too small to be seen.
fn interval(summary: &Summary) -> Option<String> {
    let (low, high) = (
        significant(summary.interval.low),
        significant(summary.interval.high),
    );
    if low == high {
        return None;
    }
    match summary.interval.kind {
        IntervalKind::Bootstrap95 => Some(format!("{low}\u{d7} to {high}\u{d7} (95% interval)")),
        IntervalKind::Range if summary.n > 1 => {
            Some(format!("{low}\u{d7} to {high}\u{d7} in {} repeats", summary.n))
        }
        IntervalKind::Range => None,
    }
}

/// The largest size over cap up to which no group takes longer; none where it was not looked for.
fn largest_free(points: &[Point<'_>]) -> Option<f64> {
    let costs = |point: &&Point<'_>| point.slowdown.median > AS_LONG;
    let first_that_costs = points
        .iter()
        .filter(costs)
        .map(|point| point.load)
        .reduce(f64::min)?;
    points
        .iter()
        .map(|point| point.load)
        .filter(|load| *load < first_that_costs)
        .reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::groups;
    use plimsoll_model::recording::model::Trial;

    fn trial(id: &str, load: &str, cap_by: &str, repeat: u32, slowdown: f64) -> Trial {
        let document = serde_json::json!({
            "id": format!("{id}/load={load}/{cap_by}#{repeat}"), "workload": "wscap", "subject": id,
            "params": {"load": load, "cap-by": cap_by, "size": "67108864"}, "repeat": repeat, "status": "ok",
            "reasons": [], "verified": true, "span_ns": [0, 1], "phases": [],
            "metrics": {"slowdown_ratio": slowdown, "fault_path_percent": 98.0},
        });
        serde_json::from_value(document).unwrap()
    }

    fn said(trials: &[Trial]) -> Option<Vec<String>> {
        let groups = groups(trials);
        let told = told(&groups.iter().collect::<Vec<_>>())?;
        Some(std::iter::once(told.finding).chain(told.bullets).collect())
    }

    #[test]
    fn one_point_has_its_spread_in_a_bullet() {
        let trials: Vec<Trial> = [(1, 110.0), (2, 120.0), (3, 130.0)]
            .map(|(repeat, slowdown)| trial("zram:lz4", "2", "limit", repeat, slowdown))
            .into();
        assert_eq!(
            said(&trials).unwrap(),
            [
                "At twice its cap a scan takes 120\u{d7} as long on zram:lz4.",
                "The slowdown is 110\u{d7} to 130\u{d7} in 3 repeats.",
                "98.0% of its CPU time goes into page faults.",
            ]
        );
    }

    #[test]
    fn a_sweep_tells_up_to_where_a_cap_costs_nothing() {
        let trials: Vec<Trial> = [
            ("0.5", 1.0),
            ("0.9", 1.05),
            ("1.1", 90.0),
            ("2", 120.0),
            ("4", 130.0),
        ]
        .map(|(load, slowdown)| trial("zram:lz4", load, "limit", 1, slowdown))
        .into();
        let said = said(&trials).unwrap();
        assert_eq!(
            said[0],
            "At twice its cap a scan takes 120\u{d7} as long on zram:lz4."
        );
        assert_eq!(
            said.last().unwrap(),
            "Up to 0.9 times its cap it takes as long as without one."
        );
    }

    /// A cgroup's limit does not count zram's store; the budget of a pager counts its own.
    #[test]
    fn the_cap_of_a_pager_is_its_budget() {
        let trials = [
            trial("zram", "2", "limit", 1, 100.0),
            trial("pager:lz4", "2", "limit", 1, 8.0),
        ];
        insta::assert_snapshot!(said(&trials).unwrap()[0], @"At twice its cap a scan takes 8.00× as long in a pager's budget, 100× under a cgroup limit.");
    }

    #[test]
    fn mechanisms_have_a_clause_each() {
        let few = said(&[
            trial("zram", "2", "limit", 1, 100.0),
            trial("zram", "2", "balance", 1, 2.0),
        ]);
        let few = few.unwrap();
        assert_eq!(
            few[0],
            "At twice its cap a scan takes 2.00\u{d7} as long trimmed once a second, 100\u{d7} under a cgroup limit."
        );
        let many: Vec<Trial> = ["a", "b", "c"]
            .into_iter()
            .flat_map(|id| {
                [
                    trial(id, "2", "limit", 1, 100.0),
                    trial(id, "2", "balance", 1, 2.0),
                ]
            })
            .collect();
        assert_eq!(said(&many).unwrap()[0], few[0], "each mechanism has its range");
    }

    #[test]
    fn without_a_slowdown_there_is_no_sentence() {
        let mut nothing = trial("zram", "2", "limit", 1, 1.0);
        nothing.metrics.clear();
        assert_eq!(said(&[nothing]), None);
        assert_eq!(said(&[]), None);
    }
}
