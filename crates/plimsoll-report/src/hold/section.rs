//! The section of a held level over time: the level against its goal, its distance from the goal, and the memory behind it.

use crate::analysis::MetricUnit;
use crate::contents::{HoldCurves, Page};
use crate::drawing::values;
use crate::drawing::xy::{Axis, Chart, Line};
use crate::workloads::section::{Drawing, Section};
use plimsoll_model::recording::hold::HoldGoal;

/// Values over the time of the curves.
type Values = [Option<f64>];

/// The section; `None` for another recording.
pub(crate) fn section(page: &Page) -> Option<Section> {
    let curves = page.hold.as_ref()?;
    Some(Section {
        id: "hold",
        title: "The level that was held",
        drawings: [level(curves), distance(curves), memory(curves)]
            .into_iter()
            .flatten()
            .collect(),
        tables: Vec::new(),
        ..Section::default()
    })
}

/// The level and its goal, with the tolerance around the goal.
fn level(curves: &HoldCurves) -> Option<Drawing> {
    let (id, caption, axis, unit) = match curves.kind {
        HoldGoal::AvailableBytes(_) => (
            "level-available",
            "Memory available to other programs",
            "available",
            MetricUnit::Bytes,
        ),
        HoldGoal::HeldBytes(_) => ("level-held", "Memory that is held", "held", MetricUnit::Bytes),
        HoldGoal::SomePercent(_) => (
            "level-some",
            "Time in which some task waited for memory",
            "stalled",
            MetricUnit::Percent,
        ),
        HoldGoal::FullPercent(_) => (
            "level-full",
            "Time in which all tasks waited for memory",
            "stalled",
            MetricUnit::Percent,
        ),
    };
    let goal = turns(&curves.t, &curves.goal);
    let band = goal.iter().filter_map(|(t, goal)| {
        let goal = (*goal)?;
        let tolerance = curves.kind.tolerance(goal);
        Some((*t, goal - tolerance, goal + tolerance))
    });
    let goal = Line {
        label: "goal".to_owned(),
        ink: 1,
        band: band.collect(),
        points: goal,
        ..Line::default()
    };
    drawing(
        curves,
        (id, caption),
        "The band around the goal is the tolerance.",
        (axis, unit),
        vec![line("level", 0, &curves.t, &curves.level), goal],
    )
}

/// The distance from the goal once the level was reached: the tolerance is a small part of the level itself.
fn distance(curves: &HoldCurves) -> Option<Drawing> {
    let reached = curves.reached?;
    let (last, end) = (
        curves.t.last().copied()?,
        curves.released.unwrap_or(f64::INFINITY),
    );
    let end = end.min(last);
    let (title, share) = match curves.kind.percent() {
        Some(_) => ("distance, points", false),
        None => ("distance, percent of the goal", true),
    };
    let unit = |goal: f64| if share { 100.0 / goal } else { 1.0 };
    let points = curves.t.iter().zip(curves.level.iter().zip(&curves.goal));
    let points = points.filter(|(t, _)| (reached..=end).contains(*t));
    let points: Vec<(f64, Option<f64>)> = points
        .map(|(t, (level, goal))| {
            let distance = level.zip(*goal).map(|(level, goal)| (level - goal) * unit(goal));
            (*t, distance.filter(|distance| distance.is_finite()))
        })
        .collect();
    let tolerance = curves.kind.tolerance(1.0) * unit(1.0);
    let goal = Line {
        label: "goal".to_owned(),
        ink: 1,
        points: vec![(reached, Some(0.0)), (end, Some(0.0))],
        band: vec![(reached, -tolerance, tolerance), (end, -tolerance, tolerance)],
        ..Line::default()
    };
    let level = Line {
        label: "level".to_owned(),
        points,
        ..Line::default()
    };
    drawing(
        curves,
        ("distance", "Distance of the level from its goal, once reached"),
        "The band is the tolerance.",
        (title, MetricUnit::Percent),
        vec![level, goal],
    )
}

/// The memory that was held, and that which was left.
fn memory(curves: &HoldCurves) -> Option<Drawing> {
    let available = line("available", 1, &curves.t, &curves.available);
    match curves.kind.percent() {
        Some(_) => drawing(
            curves,
            ("available", "Memory available to other programs"),
            "A pressure takes none of it.",
            ("available", MetricUnit::Bytes),
            vec![available],
        ),
        None => drawing(
            curves,
            ("memory", "Held memory and memory available to other programs"),
            "The hold takes and releases memory while other programs come and go.",
            ("memory", MetricUnit::Bytes),
            vec![line("held", 0, &curves.t, &curves.held), available],
        ),
    }
}

fn line(label: &str, ink: usize, t: &[f64], values: &Values) -> Line {
    Line {
        label: label.to_owned(),
        ink,
        points: t.iter().copied().zip(values.iter().copied()).collect(),
        ..Line::default()
    }
}

/// The points at which a value begins, changes or ends: a goal that stays needs two.
fn turns(t: &[f64], values: &Values) -> Vec<(f64, Option<f64>)> {
    let differs = |index: usize, other: Option<usize>| {
        other
            .and_then(|other| values.get(other))
            .is_none_or(|other| *other != values[index])
    };
    let turns = |index: &usize| differs(*index, index.checked_sub(1)) || differs(*index, Some(index + 1));
    (0..t.len().min(values.len()))
        .filter(turns)
        .map(|index| (t[index], values[index]))
        .collect()
}

fn drawing(
    curves: &HoldCurves,
    (id, caption): (&'static str, &str),
    hint: &str,
    (title, unit): (&str, MetricUnit),
    lines: Vec<Line>,
) -> Option<Drawing> {
    let mark = |t: Option<f64>, words: &str| t.map(|t| (t, words.to_owned()));
    let marks = [mark(curves.reached, "reached"), mark(curves.released, "released")];
    let chart = Chart {
        title: caption.to_owned(),
        x: Axis::linear("time", MetricUnit::Seconds),
        y: Axis::linear(title, unit),
        lines,
        marks: marks.into_iter().flatten().collect(),
        levels: Vec::new(),
    };
    Some(Drawing {
        id,
        caption: caption.to_owned(),
        hint: hint.to_owned(),
        svg: values::draw(&chart)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_that_stays_has_two_points() {
        let t: Vec<f64> = (0..7).map(f64::from).collect();
        let values = [None, Some(5.0), Some(5.0), Some(5.0), Some(6.0), Some(6.0), None];
        let kept: Vec<f64> = turns(&t, &values).iter().map(|(t, _)| *t).collect();
        assert_eq!(kept, [0.0, 1.0, 3.0, 4.0, 5.0, 6.0]);
        assert!(turns(&[], &[]).is_empty());
    }
}
