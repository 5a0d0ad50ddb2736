//! The headline of the runs of a program.

use crate::analysis::Group;
use crate::analysis::statistics::IntervalKind;
use crate::workloads::command::{
    BASE_ANON, BASE_FILE, BASE_PEAK, BASE_WALL, KILLED_LIMIT, KNEE, NEEDED, NEEDED_SLOWDOWN, TOO_SMALL,
};
use crate::workloads::sentence::{Told, brief_text, bullets_of_groups};
use plimsoll_model::quantity::{bytes, seconds, significant};
use plimsoll_model::recording::{Statement, StatementCode};

/// The largest slowdown that is tolerated, where the parameters name none.
const TOLERATE: f64 = 0.05;

/// The group that needs the least memory; its details, and the others with their need, are bullets.
pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let needing = by_median(groups, NEEDED);
    let Some(((best, needed), others)) = needing.split_first() else {
        return single_points(groups);
    };
    let mut bullets: Vec<Statement> = [peak(best), knee(best), killed(best)]
        .into_iter()
        .flatten()
        .collect();
    let name = |group: &Group| match group.subject != best.subject {
        true => group.subject.clone(),
        false => group.label.clone(),
    };
    let others = others.iter().map(|(group, needed)| {
        let text = format!("With {}: {}.", name(group), bytes(*needed));
        needs(Statement::new(StatementCode::CommandNeeds, text), group, *needed)
    });
    bullets.extend(bullets_of_groups(others.collect()));
    Some(Told {
        finding: finding(best, *needed),
        bullets,
    })
}

/// The groups that have the metric, by its median.
fn by_median<'a>(groups: &[&'a Group], metric: &str) -> Vec<(&'a Group, f64)> {
    let mut measured: Vec<(&Group, f64)> = groups
        .iter()
        .filter_map(|group| Some((*group, group.median(metric)?)))
        .collect();
    measured.sort_by(|a, b| a.1.total_cmp(&b.1));
    measured
}

fn finding(best: &Group, needed: f64) -> Statement {
    let program = program_in_words(best);
    let (subject, amount, slowdown) = (&best.subject, bytes(needed), percent(tolerate(best)));
    let finding = brief_text(
        StatementCode::CommandNeeds,
        [
            format!("With {subject}, {program} needs {amount} of memory for at most {slowdown} slowdown."),
            format!("{program} needs {amount} of memory for at most {slowdown} slowdown."),
            format!("The program needs {amount} for at most {slowdown} slowdown."),
        ],
    );
    needs(finding, best, needed)
}

/// The statement with the need of a group.
fn needs(statement: Statement, group: &Group, needed: f64) -> Statement {
    of_group(statement, group)
        .with(NEEDED, needed)
        .with("tolerate_percent", 100.0 * tolerate(group))
}

/// The result of trials with one limit each.
fn single_points(groups: &[&Group]) -> Option<Told> {
    let measured = by_median(groups, BASE_WALL);
    let ((best, took), others) = measured.split_first()?;
    let program = program_in_words(best);
    let finding = brief_text(
        StatementCode::CommandTook,
        [
            format!("{program} took {} with {}.", seconds(*took), best.label),
            format!("{program} took {} with {}.", seconds(*took), best.subject),
            format!("The program took {} at the least.", seconds(*took)),
        ],
    );
    let mut bullets: Vec<Statement> = peak(best).into_iter().collect();
    let others = others.iter().map(|(group, took)| {
        let text = format!("With {}: {}.", group.label, seconds(*took));
        of_group(Statement::new(StatementCode::CommandTook, text), group).with(BASE_WALL, *took)
    });
    bullets.extend(bullets_of_groups(others.collect()));
    Some(Told {
        finding: of_group(finding, best).with(BASE_WALL, *took),
        bullets,
    })
}

/// The statement with the names of a group and of its program.
fn of_group(statement: Statement, group: &Group) -> Statement {
    let statement = statement.naming("group", &group.label);
    match program(group) {
        Some(name) => statement.naming("program", name),
        None => statement,
    }
}

fn program_in_words(group: &Group) -> String {
    program(group).map_or_else(|| "the program".to_owned(), |name| format!("`{name}`"))
}

/// The name of the program, without its folder and its arguments; `None` if it is quoted.
fn program(group: &Group) -> Option<&str> {
    let line = group.params.get("command")?;
    let name = line.split(' ').next()?.rsplit('/').next()?;
    (!name.is_empty() && !name.contains('\'')).then_some(name)
}

fn tolerate(group: &Group) -> f64 {
    let given = group.params.get("tolerate").and_then(|share| share.parse().ok());
    given.unwrap_or(TOLERATE)
}

fn percent(share: f64) -> String {
    format!("{}%", significant(100.0 * share))
}

fn peak(group: &Group) -> Option<Statement> {
    let peak = group.median(BASE_PEAK)?;
    let parts = group.median(BASE_ANON).zip(group.median(BASE_FILE));
    let words = parts.map(|(anon, file)| {
        format!(
            ", of which {} was anonymous memory and {} page cache",
            bytes(anon),
            bytes(file)
        )
    });
    let text = format!(
        "Its peak under the largest limit was {}{}.",
        bytes(peak),
        words.unwrap_or_default()
    );
    let statement = Statement::new(StatementCode::CommandPeak, text)
        .with(BASE_PEAK, peak)
        .with(BASE_ANON, parts.map(|(anon, _)| anon))
        .with(BASE_FILE, parts.map(|(_, file)| file));
    Some(statement)
}

fn knee(group: &Group) -> Option<Statement> {
    let Some(measured) = group.metrics.get(KNEE) else {
        return no_smaller_limit(group);
    };
    let summary = &measured.summary;
    let (median, low, high) = (summary.median, summary.interval.low, summary.interval.high);
    let (knee, from, to) = (bytes(median), bytes(low), bytes(high));
    let spread = |code, text: String| {
        Statement::new(code, text)
            .with("low_knee_bytes", low)
            .with("high_knee_bytes", high)
    };
    let statement = match (summary.interval.kind, summary.n) {
        (IntervalKind::Bootstrap95, _) => {
            let text = format!("The knee is at {knee}, 95% interval {from} to {to}.");
            spread(StatementCode::CommandKneeInterval, text)
        }
        (IntervalKind::Range, 1) => {
            let small = group.median(TOO_SMALL);
            let words = small.map(|small| format!("; {} was too small", bytes(small)));
            let text = format!("The knee is at {knee}{}.", words.unwrap_or_default());
            Statement::new(StatementCode::CommandKnee, text).with(TOO_SMALL, small)
        }
        (IntervalKind::Range, n) => {
            let text = format!("The knee is at {knee}, in {n} repeats {from} to {to}.");
            spread(StatementCode::CommandKneeRange, text).with("repeats", n as f64)
        }
    };
    Some(statement.with(KNEE, median))
}

fn no_smaller_limit(group: &Group) -> Option<Statement> {
    let slowdown = group.median(NEEDED_SLOWDOWN)?;
    let text = format!(
        "No smaller limit was measured; the slowdown under it was {}%.",
        significant(slowdown)
    );
    Some(Statement::new(StatementCode::CommandNoSmallerLimit, text).with(NEEDED_SLOWDOWN, slowdown))
}

fn killed(group: &Group) -> Option<Statement> {
    let limit = group.median(KILLED_LIMIT)?;
    let text = format!("The OOM killer ended it under a limit of {}.", bytes(limit));
    Some(Statement::new(StatementCode::CommandKilled, text).with(KILLED_LIMIT, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::groups;
    use plimsoll_model::recording::model::Trial;

    fn trial(subject: &str, metrics: &[(&str, f64)]) -> Trial {
        let mut trial = Trial::made_up("command", Vec::new());
        trial.id = format!("size/{subject}#1");
        trial.subject = subject.to_owned();
        trial.params = [("command", "/usr/bin/gzip -9 file")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        let metrics = metrics.iter();
        trial.metrics = metrics
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        trial
    }

    fn said(trials: &[Trial]) -> Vec<Statement> {
        let groups = groups(trials);
        let told = told(&groups.iter().collect::<Vec<_>>()).unwrap();
        std::iter::once(told.finding).chain(told.bullets).collect()
    }

    fn values(statement: &Statement) -> (StatementCode, Vec<(&str, f64)>) {
        let values = statement.values.iter();
        (
            statement.code,
            values.map(|(name, value)| (name.as_str(), *value)).collect(),
        )
    }

    #[test]
    fn the_group_that_needs_the_least_memory_is_the_finding() {
        use StatementCode::{CommandKilled, CommandKnee, CommandNeeds};
        let zram = [
            (NEEDED, 200.0),
            (KNEE, 190.0),
            (TOO_SMALL, 180.0),
            (KILLED_LIMIT, 100.0),
        ];
        let said = said(&[trial("none", &[(NEEDED, 300.0)]), trial("zram", &zram)]);
        let found: Vec<_> = said.iter().map(values).collect();
        assert_eq!(
            found,
            [
                (CommandNeeds, vec![(NEEDED, 200.0), ("tolerate_percent", 5.0)]),
                (CommandKnee, vec![(KNEE, 190.0), (TOO_SMALL, 180.0)]),
                (CommandKilled, vec![(KILLED_LIMIT, 100.0)]),
                (CommandNeeds, vec![(NEEDED, 300.0), ("tolerate_percent", 5.0)]),
            ]
        );
        let names = ["program", "group"].map(|role| said[0].names[role].as_str());
        assert_eq!(names, ["gzip", "zram"]);
    }

    #[test]
    fn without_a_search_the_finding_is_the_shortest_time() {
        let said = said(&[
            trial("none", &[(BASE_WALL, 3.0)]),
            trial("zram", &[(BASE_WALL, 2.0)]),
        ]);
        let found: Vec<_> = said.iter().map(values).collect();
        assert_eq!(
            found,
            [
                (StatementCode::CommandTook, vec![(BASE_WALL, 2.0)]),
                (StatementCode::CommandTook, vec![(BASE_WALL, 3.0)]),
            ]
        );
    }
}
