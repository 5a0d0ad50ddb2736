//! The headline of a wscap run.

use crate::analysis::Group;
use crate::analysis::statistics::{IntervalKind, Summary};
use crate::workloads::sentence::range;
use crate::workloads::wscap::{FAULT_PATH, SLOWDOWN, load};
use plimsoll_model::quantity::significant;

/// Groups listed one by one; of more, the sentence gives a range.
const NAMED_GROUPS: usize = 4;
/// Size over cap of the original.
const ORIGINAL_LOAD: f64 = 2.0;
/// Slowdown up to this factor counts as none: within the spread of repeats.
const AS_LONG: f64 = 1.1;

pub(super) fn sentence(groups: &[&Group]) -> Option<String> {
    let points: Vec<Point<'_>> = groups.iter().filter_map(|group| Point::of(group)).collect();
    let distance = |point: &Point<'_>| (point.load / ORIGINAL_LOAD).ln().abs();
    let load = points
        .iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))?
        .load;
    let there: Vec<&Point<'_>> = points.iter().filter(|point| point.load == load).collect();
    let mut sentence = format!("At {} its cap a scan takes {}", times(load), as_long(&there)?);
    let in_faults: Vec<f64> = there
        .iter()
        .filter_map(|point| point.group.median(FAULT_PATH))
        .collect();
    if let Some(percent) = range(&in_faults) {
        sentence += &format!("; {percent}% of its CPU time goes into page faults");
    }
    sentence += "; the original saw 250\u{d7}, at worst 800\u{d7}, at twice its cap.";
    if let Some(largest) = largest_free(&points) {
        sentence += &format!(
            " Up to {} its cap it takes as long as without one.",
            times(largest)
        );
    }
    Some(sentence)
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

    fn cap_by(&self) -> &str {
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

/// How many times as long a scan takes in each group, or the range where there are too many to name.
fn as_long(points: &[&Point<'_>]) -> Option<String> {
    if points.len() > NAMED_GROUPS {
        // A cap enforced once a second and one enforced at every fault are not comparable.
        let mut mechanisms: Vec<&str> = points.iter().map(|point| point.cap_by()).collect();
        mechanisms.sort_unstable();
        mechanisms.dedup();
        let clauses: Vec<String> = mechanisms
            .iter()
            .filter_map(|mechanism| {
                let of_it = points.iter().filter(|point| point.cap_by() == *mechanism);
                let medians: Vec<f64> = of_it.map(|point| point.slowdown.median).collect();
                Some(format!(
                    "{}\u{d7} as long {}",
                    range(&medians)?,
                    capped_by(mechanism)
                ))
            })
            .collect();
        return (!clauses.is_empty()).then(|| clauses.join(", "));
    }
    let one_mechanism = points.windows(2).all(|pair| pair[0].cap_by() == pair[1].cap_by());
    let clause = |point: &&Point<'_>| {
        let mut text = format!(
            "{}\u{d7} as long on {}",
            significant(point.slowdown.median),
            point.group.subject
        );
        if !one_mechanism {
            text += &format!(" {}", capped_by(point.cap_by()));
        }
        text + &interval(&point.slowdown)
    };
    let clauses: Vec<String> = points.iter().map(clause).collect();
    (!clauses.is_empty()).then(|| clauses.join(", "))
}

fn capped_by(mechanism: &str) -> String {
    match mechanism {
        "limit" => "under a cgroup limit".to_owned(),
        "high" => "under memory.high".to_owned(),
        "balance" => "trimmed once a second".to_owned(),
        other => format!("capped by {other}"),
    }
}

fn interval(summary: &Summary) -> String {
    let (low, high) = (
        significant(summary.interval.low),
        significant(summary.interval.high),
    );
    match summary.interval.kind {
        IntervalKind::Bootstrap95 => format!(" (95% {low} to {high})"),
        IntervalKind::Range if summary.n > 1 => format!(" ({low} to {high} in {} repeats)", summary.n),
        IntervalKind::Range => String::new(),
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

    fn said(trials: &[Trial]) -> Option<String> {
        let groups = groups(trials);
        sentence(&groups.iter().collect::<Vec<_>>())
    }

    #[test]
    fn one_point_has_its_spread_beside_the_original() {
        let trials: Vec<Trial> = [(1, 110.0), (2, 120.0), (3, 130.0)]
            .map(|(repeat, slowdown)| trial("zram:lz4", "2", "limit", repeat, slowdown))
            .into();
        assert_eq!(
            said(&trials).unwrap(),
            "At twice its cap a scan takes 120\u{d7} as long on zram:lz4 (110 to 130 in 3 repeats); 98.0% of its CPU \
             time goes into page faults; the original saw 250\u{d7}, at worst 800\u{d7}, at twice its cap."
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
        assert!(
            said.starts_with("At twice its cap a scan takes 120\u{d7} as long"),
            "{said}"
        );
        assert!(
            said.ends_with("Up to 0.9 times its cap it takes as long as without one."),
            "{said}"
        );
    }

    #[test]
    fn mechanisms_have_a_clause_each() {
        let few = said(&[
            trial("zram", "2", "limit", 1, 100.0),
            trial("zram", "2", "balance", 1, 2.0),
        ]);
        let few = few.unwrap();
        assert!(
            few.contains("100\u{d7} as long on zram under a cgroup limit"),
            "{few}"
        );
        assert!(
            few.contains("2.00\u{d7} as long on zram trimmed once a second"),
            "{few}"
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
        let many = said(&many).unwrap();
        assert!(
            many.contains("2.00\u{d7} as long trimmed once a second, 100\u{d7} as long under a cgroup limit"),
            "{many}"
        );
    }

    #[test]
    fn without_a_slowdown_there_is_no_sentence() {
        let mut nothing = trial("zram", "2", "limit", 1, 1.0);
        nothing.metrics.clear();
        assert_eq!(said(&[nothing]), None);
        assert_eq!(said(&[]), None);
    }
}
