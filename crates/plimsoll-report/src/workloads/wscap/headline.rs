//! The headline of a wscap run.

use crate::analysis::Group;
use crate::analysis::statistics::{IntervalKind, Summary};
use crate::workloads::sentence::{Told, brief, bullets_of_groups, range};
use crate::workloads::wscap::{CACHE_HITS, FAULT_PATH, SLOWDOWN, load, place};
use plimsoll_model::quantity::significant;
use plimsoll_model::recording::{Statement, StatementCode};
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
    let finding = finding(&there, load)?;
    let mut bullets = match finding.code {
        StatementCode::WscapByGroup => spreads(&there),
        _ => bullets_of_groups(there.iter().map(|point| point.stated()).collect()),
    };
    bullets.extend(faults(&there));
    bullets.extend(cache_hits(&there));
    bullets.extend(largest_free(&points).map(free));
    Some(Told { finding, bullets })
}

/// The slowdown at a load.
fn finding(points: &[&Point<'_>], load: f64) -> Option<Statement> {
    let head = format!("At {} its cap a scan takes", times(load));
    let slowdowns: Vec<f64> = points.iter().map(|point| point.slowdown.median).collect();
    let statement = |code: StatementCode, text: String| {
        Statement::new(code, text)
            .with("groups", slowdowns.len() as f64)
            .with("load", load)
            .with_range(SLOWDOWN, &slowdowns)
    };
    let mut candidates = Vec::new();
    if points.len() <= NAMED_GROUPS {
        let text = format!("{head} {}.", as_long_by_group(points));
        candidates.push(statement(StatementCode::WscapByGroup, text));
    }
    let mechanisms = mechanisms(points);
    let text = format!("{head} {}.", as_long_by_mechanism(points, &mechanisms));
    candidates
        .push(statement(StatementCode::WscapByMechanism, text).naming("mechanisms", mechanisms.join(", ")));
    let text = format!("{head} {}\u{d7} as long.", range(&slowdowns)?);
    candidates.push(statement(StatementCode::WscapRange, text));
    Some(brief(candidates))
}

/// The share of the CPU time in page faults.
fn faults(points: &[&Point<'_>]) -> Option<Statement> {
    let percents = medians(points, FAULT_PATH);
    let text = format!("{}% of its CPU time goes into page faults.", range(&percents)?);
    Some(Statement::new(StatementCode::WscapFaultTime, text).with_range(FAULT_PATH, &percents))
}

fn cache_hits(points: &[&Point<'_>]) -> Option<Statement> {
    let percents = medians(points, CACHE_HITS);
    let text = format!(
        "{}% of the faults in files found their page in the page cache.",
        range(&percents)?
    );
    Some(Statement::new(StatementCode::WscapCacheHits, text).with_range(CACHE_HITS, &percents))
}

fn medians(points: &[&Point<'_>], metric: &str) -> Vec<f64> {
    points
        .iter()
        .filter_map(|point| point.group.median(metric))
        .collect()
}

/// The largest load without a slowdown.
fn free(load: f64) -> Statement {
    let text = format!("Up to {} its cap it takes as long as without one.", times(load));
    Statement::new(StatementCode::WscapFree, text).with("load", load)
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

    /// Its slowdown, behind its name.
    fn stated(&self) -> Statement {
        let text = format!("{}: {}.", self.group.label, factor(&self.slowdown));
        self.spread(text)
    }

    /// A statement about its slowdown and the spread of that.
    fn spread(&self, text: String) -> Statement {
        let (slowdown, interval) = (&self.slowdown, self.slowdown.interval);
        let repeated = |value: f64| (slowdown.n > 1).then_some(value);
        Statement::new(StatementCode::WscapGroup, text)
            .naming("group", &self.group.label)
            .with(SLOWDOWN, slowdown.median)
            .with("low_slowdown_ratio", repeated(interval.low))
            .with("high_slowdown_ratio", repeated(interval.high))
            .with("repeats", slowdown.n as f64)
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
fn as_long_by_mechanism(points: &[&Point<'_>], mechanisms: &[&str]) -> String {
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

/// The mechanisms of the caps, by name.
fn mechanisms<'a>(points: &[&'a Point<'_>]) -> Vec<&'a str> {
    let mut mechanisms: Vec<&str> = points.iter().map(|point| point.cap_by()).collect();
    mechanisms.sort_unstable();
    mechanisms.dedup();
    mechanisms
}

/// The spread of each point whose repeats have any.
fn spreads(points: &[&Point<'_>]) -> Vec<Statement> {
    let spread = |point: &&Point<'_>| {
        let spread = interval(&point.slowdown)?;
        let text = match points.len() {
            1 => format!("The slowdown is {spread}."),
            _ => format!("{}: {spread}.", named(point, points)),
        };
        Some(point.spread(text))
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

    fn said(trials: &[Trial]) -> Option<Told> {
        let groups = groups(trials);
        told(&groups.iter().collect::<Vec<_>>())
    }

    fn codes(told: &Told) -> Vec<StatementCode> {
        told.bullets.iter().map(|bullet| bullet.code).collect()
    }

    /// The load, the range of the slowdown, and the mechanisms.
    fn slowdowns(finding: &Statement) -> (StatementCode, [f64; 3], Option<&str>) {
        let values = ["load", "low_slowdown_ratio", "high_slowdown_ratio"];
        let mechanisms = finding.names.get("mechanisms").map(String::as_str);
        (finding.code, values.map(|name| finding.values[name]), mechanisms)
    }

    /// The groups of the bullets, with their slowdowns.
    fn groups_told(told: &Told) -> Vec<(&str, f64)> {
        let bullets = told.bullets.iter();
        let of_groups = bullets.filter(|bullet| bullet.code == StatementCode::WscapGroup);
        of_groups
            .map(|bullet| (&*bullet.names["group"], bullet.values[SLOWDOWN]))
            .collect()
    }

    /// The only test of the whole text.
    #[test]
    fn text_of_two_mechanisms() {
        let told = said(&[
            trial("zram", "2", "limit", 1, 100.0),
            trial("zram", "2", "balance", 1, 2.0),
        ]);
        insta::assert_snapshot!(told.unwrap().finding, @"At twice its cap a scan takes 2.00× as long trimmed once a second, 100× under a cgroup limit.");
    }

    #[test]
    fn one_point_has_its_spread_in_a_bullet() {
        let trials: Vec<Trial> = [(1, 110.0), (2, 120.0), (3, 130.0)]
            .map(|(repeat, slowdown)| trial("zram:lz4", "2", "limit", repeat, slowdown))
            .into();
        let told = said(&trials).unwrap();
        assert_eq!(
            slowdowns(&told.finding),
            (StatementCode::WscapByGroup, [2.0, 120.0, 120.0], None)
        );
        assert_eq!(
            codes(&told),
            [StatementCode::WscapGroup, StatementCode::WscapFaultTime]
        );
        let [spread, faults] = &told.bullets[..] else {
            panic!("{told:?}")
        };
        let spread = ["low_slowdown_ratio", "high_slowdown_ratio", "repeats"].map(|name| spread.values[name]);
        assert_eq!(spread, [110.0, 130.0, 3.0]);
        assert_eq!(faults.values["high_fault_path_percent"], 98.0);
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
        let told = said(&trials).unwrap();
        assert_eq!(
            slowdowns(&told.finding),
            (StatementCode::WscapByGroup, [2.0, 120.0, 120.0], None)
        );
        let last = told.bullets.last().unwrap();
        assert_eq!((last.code, last.values["load"]), (StatementCode::WscapFree, 0.9));
    }

    /// A cgroup's limit does not count zram's store; the budget of a pager counts its own.
    #[test]
    fn the_cap_of_a_pager_is_its_budget() {
        let told = said(&[
            trial("zram", "2", "limit", 1, 100.0),
            trial("pager:lz4", "2", "limit", 1, 8.0),
        ])
        .unwrap();
        assert_eq!(
            slowdowns(&told.finding),
            (
                StatementCode::WscapByMechanism,
                [2.0, 8.0, 100.0],
                Some("budget, limit")
            )
        );
        let mut groups = groups_told(&told);
        groups.sort_by(|a, b| a.1.total_cmp(&b.1));
        let [(pager, fast), (zram, slow)] = groups[..] else {
            panic!("{groups:?}")
        };
        assert_eq!((fast, slow), (8.0, 100.0));
        assert!(
            pager.starts_with("pager:lz4") && zram.starts_with("zram"),
            "{groups:?}"
        );
    }

    #[test]
    fn mechanisms_have_a_clause_each() {
        let by_mechanism = (
            StatementCode::WscapByMechanism,
            [2.0, 2.0, 100.0],
            Some("balance, limit"),
        );
        let of = |id: &str| {
            [
                trial(id, "2", "limit", 1, 100.0),
                trial(id, "2", "balance", 1, 2.0),
            ]
        };
        let few = said(&of("zram")).unwrap().finding;
        assert_eq!(slowdowns(&few), by_mechanism);
        let many: Vec<Trial> = ["a", "b", "c"].into_iter().flat_map(of).collect();
        let many = said(&many).unwrap().finding;
        assert_eq!(slowdowns(&many), by_mechanism);
        assert_eq!(many.text, few.text, "each mechanism has its range");
    }

    #[test]
    fn without_a_slowdown_there_is_no_sentence() {
        let mut nothing = trial("zram", "2", "limit", 1, 1.0);
        nothing.metrics.clear();
        assert!(said(&[nothing]).is_none() && said(&[]).is_none());
    }
}
