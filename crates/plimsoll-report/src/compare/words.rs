//! Values, verdicts and notes of a comparison as text.

use std::collections::BTreeMap;

use crate::analysis::statistics::SIGNIFICANCE;
use crate::comparison::{Basis, Comparison, Outcome, Row, Run, State, Verdict};
use crate::drawing::xy::value;
use plimsoll_model::quantity;

pub fn sentence(comparison: &Comparison) -> String {
    let tally = comparison.tally();
    if comparison.basis == Basis::Timelines {
        return "Comparison of whole timelines, one value per metric: changes without a verdict.".to_owned();
    }
    let counts = [
        (tally.worse, "worse"),
        (tally.better, "better"),
        (tally.changed, "changed"),
        (tally.same, "the same"),
        (tally.unclear, "unclear"),
    ];
    let counted: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let all = tally.worse + tally.better + tally.changed + tally.same + tally.unclear;
    let against = match comparison.runs.len() {
        2 => "B against A".to_owned(),
        others => format!("{} runs against A", others - 1),
    };
    let metrics = quantity::counted(all, "metric");
    let mut text = format!("{against}: of {metrics} {}.", counted.join(", "));
    let moved = comparison
        .rows
        .iter()
        .filter(|row| row.restates.is_none() && moved(row))
        .count();
    if moved > 0 {
        let holding = comparison.rows.iter().filter(|row| moved_for_sure(row)).count();
        text += &format!(
            " {holding} of the {moved} changes {} significant after Holm's correction for the number of tests.",
            if holding == 1 { "remains" } else { "remain" }
        );
    }
    text
}

fn moved(row: &Row) -> bool {
    matches!(row.verdict, Verdict::Worse | Verdict::Better | Verdict::Changed)
}

fn moved_for_sure(row: &Row) -> bool {
    moved(row) && row.p_holm.is_some_and(|p| p < SIGNIFICANCE)
}

/// Whether the summary shows the row: headline metrics and changes.
pub fn shown(row: &Row) -> bool {
    row.restates.is_none() && (crate::comparison::nature(&row.metric).headline || moved(row))
}

pub fn verdict(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Worse => ("\u{2717}", "worse"),
        Verdict::Better => ("\u{2713}", "better"),
        Verdict::Changed => ("\u{2260}", "changed"),
        Verdict::Same => ("=", "same"),
        Verdict::Unclear => ("?", "unclear"),
    }
}

/// Symbol and word of the state of a condition.
pub fn state(state: State) -> (&'static str, &'static str) {
    match state {
        State::Passed => ("\u{2713}", "passed"),
        State::Failed => ("\u{2717}", "FAILED"),
        State::Unknown => ("!", "UNKNOWN"),
    }
}

/// The state of a condition, with its numbers.
pub fn outcome(comparison: &Comparison, outcome: &Outcome) -> String {
    let (symbol, word) = state(outcome.state);
    let run = &comparison.runs[outcome.run].letter;
    let place = match outcome.group.is_empty() {
        true => String::new(),
        false => format!(" {}", comparison.label(&outcome.group)),
    };
    let numbers = outcome.row.map(|row| &comparison.rows[row]).map(|row| {
        format!(
            ": {} \u{2192} {} ({}{})",
            value(row.unit, row.baseline.median),
            value(row.unit, row.other.median),
            change(row.change),
            row.interval
                .map(|ends| format!(", {}", interval(Some(ends))))
                .unwrap_or_default()
        )
    });
    format!(
        "{symbol} {word} {}: {run}{place}{}; {}",
        outcome.condition,
        numbers.unwrap_or_default(),
        outcome.reason
    )
}

pub fn run(run: &Run) -> String {
    let trials = match run.trials {
        0 => "no trials".to_owned(),
        trials => quantity::counted(trials, "trial"),
    };
    let mut text = format!("{} {}: {trials}", run.letter, run.name);
    for (count, word) in [(run.failed, "failed"), (run.untrustworthy, "untrustworthy")] {
        if count > 0 {
            text += &format!(", {count} {word}");
        }
    }
    format!("{text}, {} ({})", run.started, run.folder)
}

/// A change in percent, with its sign.
pub fn change(change: Option<f64>) -> String {
    change.map_or_else(|| "\u{2013}".to_owned(), |change| format!("{}%", percent(change)))
}

/// Both ends of an interval of a change.
pub fn interval(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(
        || "\u{2013}".to_owned(),
        |(low, high)| format!("{}..{}%", percent(low), percent(high)),
    )
}

/// A share as signed percent without its sign of percent: one decimal below 100.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = usize::from(percent.abs() < 99.95);
    let text = format!("{:.decimals$}", percent.abs());
    let nothing = text.chars().all(|digit| matches!(digit, '0' | '.'));
    match nothing {
        true => text,
        false if percent > 0.0 => format!("+{text}"),
        false => format!("\u{2212}{text}"),
    }
}

pub fn probability(p: Option<f64>) -> String {
    match p {
        None => "\u{2013}".to_owned(),
        Some(p) if p < 0.001 => "<0.001".to_owned(),
        Some(p) if p < 0.1 => format!("{p:.3}"),
        Some(p) => format!("{p:.2}"),
    }
}

/// Lines about groups and metrics without a counterpart: first a line for each such group, then a line for such metrics
/// of each other group.
pub fn lone(comparison: &Comparison) -> Vec<String> {
    let name = |run: usize| &comparison.runs[run].letter;
    let mut lines = Vec::new();
    let mut metrics: BTreeMap<(usize, usize, &str), Vec<&str>> = BTreeMap::new();
    for lone in &comparison.lone {
        let because = match lone.reason.is_empty() {
            true => String::new(),
            false => format!(" ({})", lone.reason),
        };
        match &lone.metric {
            None => lines.push(format!(
                "{} is in {} alone, {} lacks it{because}: not compared",
                lone.group,
                name(lone.present),
                name(lone.absent)
            )),
            Some(metric) => metrics
                .entry((lone.present, lone.absent, &lone.group))
                .or_default()
                .push(metric),
        }
    }
    for ((present, absent, group), list) in metrics {
        lines.push(format!(
            "{}: {} of {} in {} alone, {} lacks it: not compared",
            group,
            list.join(", "),
            list.len(),
            name(present),
            name(absent)
        ));
    }
    lines
}
