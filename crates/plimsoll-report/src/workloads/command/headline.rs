//! The headline of the runs of a program.

use crate::analysis::Group;
use crate::analysis::statistics::IntervalKind;
use crate::workloads::command::{
    BASE_ANON, BASE_FILE, BASE_PEAK, BASE_WALL, KILLED_LIMIT, KNEE, NEEDED, NEEDED_SLOWDOWN, TOO_SMALL,
};
use crate::workloads::sentence::{Told, brief, bullets_of_groups};
use plimsoll_model::quantity::{bytes, seconds, significant};

/// The largest slowdown that is tolerated, where the parameters name none.
const TOLERATE: f64 = 0.05;

/// The group that needs the least memory; its details, and the others with their need, are bullets.
pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let mut needing: Vec<(&Group, f64)> = groups
        .iter()
        .filter_map(|group| Some((*group, group.median(NEEDED)?)))
        .collect();
    needing.sort_by(|a, b| a.1.total_cmp(&b.1));
    let Some(((best, needed), others)) = needing.split_first() else {
        return single_points(groups);
    };
    let program = program(best);
    let (subject, needed, slowdown) = (&best.subject, bytes(*needed), percent(tolerate(best)));
    let findings = [
        format!("With {subject}, {program} needs {needed} of memory for at most {slowdown} slowdown."),
        format!("{program} needs {needed} of memory for at most {slowdown} slowdown."),
        format!("The program needs {needed} for at most {slowdown} slowdown."),
    ];
    let mut bullets: Vec<String> = [peak(best), knee(best), killed(best)]
        .into_iter()
        .flatten()
        .collect();
    let name = |group: &Group| match group.subject != best.subject {
        true => group.subject.clone(),
        false => group.label.clone(),
    };
    let others = others
        .iter()
        .map(|(group, needed)| format!("With {}: {}.", name(group), bytes(*needed)));
    bullets.extend(bullets_of_groups(others.collect()));
    Some(Told {
        finding: brief(&findings),
        bullets,
    })
}

/// The result of trials with one limit each.
fn single_points(groups: &[&Group]) -> Option<Told> {
    let mut measured: Vec<(&Group, f64)> = groups
        .iter()
        .filter_map(|group| Some((*group, group.median(BASE_WALL)?)))
        .collect();
    measured.sort_by(|a, b| a.1.total_cmp(&b.1));
    let ((best, took), others) = measured.split_first()?;
    let program = program(best);
    let findings = [
        format!("{program} took {} with {}.", seconds(*took), best.label),
        format!("{program} took {} with {}.", seconds(*took), best.subject),
        format!("The program took {} at the least.", seconds(*took)),
    ];
    let mut bullets: Vec<String> = peak(best).into_iter().collect();
    let others = others
        .iter()
        .map(|(group, took)| format!("With {}: {}.", group.label, seconds(*took)));
    bullets.extend(bullets_of_groups(others.collect()));
    Some(Told {
        finding: brief(&findings),
        bullets,
    })
}

/// The name of the program, without its folder and its arguments.
fn program(group: &Group) -> String {
    let line = group.params.get("command").map_or("", String::as_str);
    let word = line.split(' ').next().unwrap_or_default();
    match word.rsplit('/').next() {
        Some(name) if !name.is_empty() && !name.contains('\'') => format!("`{name}`"),
        _ => "the program".to_owned(),
    }
}

fn tolerate(group: &Group) -> f64 {
    let given = group.params.get("tolerate").and_then(|share| share.parse().ok());
    given.unwrap_or(TOLERATE)
}

fn percent(share: f64) -> String {
    format!("{}%", significant(100.0 * share))
}

/// The peak, and its parts.
fn peak(group: &Group) -> Option<String> {
    let peak = group.median(BASE_PEAK)?;
    let parts = match group.median(BASE_ANON).zip(group.median(BASE_FILE)) {
        Some((anon, file)) => format!(
            ", of which {} was anonymous memory and {} page cache",
            bytes(anon),
            bytes(file)
        ),
        None => String::new(),
    };
    Some(format!(
        "Its peak under the largest limit was {}{parts}.",
        bytes(peak)
    ))
}

/// The knee, and its interval.
fn knee(group: &Group) -> Option<String> {
    let Some(knee) = group.metrics.get(KNEE) else {
        let slowdown = group.median(NEEDED_SLOWDOWN)?;
        return Some(format!(
            "No smaller limit was measured; the slowdown under it was {}%.",
            significant(slowdown)
        ));
    };
    let summary = &knee.summary;
    let (from, to) = (bytes(summary.interval.low), bytes(summary.interval.high));
    Some(match (summary.interval.kind, summary.n) {
        (IntervalKind::Bootstrap95, _) => {
            format!(
                "The knee is at {}, 95% interval {from} to {to}.",
                bytes(summary.median)
            )
        }
        (IntervalKind::Range, 1) => match group.median(TOO_SMALL) {
            Some(small) => format!(
                "The knee is at {}; {} was too small.",
                bytes(summary.median),
                bytes(small)
            ),
            None => format!("The knee is at {}.", bytes(summary.median)),
        },
        (IntervalKind::Range, n) => {
            format!(
                "The knee is at {}, in {n} repeats {from} to {to}.",
                bytes(summary.median)
            )
        }
    })
}

fn killed(group: &Group) -> Option<String> {
    let limit = group.median(KILLED_LIMIT)?;
    Some(format!(
        "The OOM killer ended it under a limit of {}.",
        bytes(limit)
    ))
}
