//! The headline of a loadline run.

use crate::analysis::Group;
use crate::analysis::statistics::IntervalKind;
use crate::workloads::loadline::conditions::{
    Basis, circumstances, relative_to, share_of, size_of, visited_file,
};
use crate::workloads::loadline::{KILLED_LOAD, KNEE, KNEE_RAM, OVERLOAD, WORK};
use crate::workloads::sentence::{Told, brief, brief_text, bullets_of_groups};
use plimsoll_model::quantity::{self, significant};
use plimsoll_model::recording::{Statement, StatementCode};
use plimsoll_model::scenario::Subject;

/// A store that takes less than this share of a load is not worth a word.
const STORE_TOLD: f64 = 0.02;

/// The group with the highest load line; its details, and the others with their load, are bullets.
pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let basis = Basis::of(groups);
    let mut carrying: Vec<&Group> = groups.to_vec();
    carrying.retain(|group| basis.carried(group).is_some());
    carrying.sort_by(|a, b| {
        let carried = |group| basis.carried(group).unwrap_or(0.0);
        carried(b).total_cmp(&carried(a))
    });
    let Some((best, others)) = carrying.split_first() else {
        return none_carried(groups, basis);
    };
    let name = others
        .first()
        .map_or(best.subject.as_str(), |other| short(best, other));
    let mut bullets = details(best, basis, name);
    let others = others.iter().filter_map(|group| other(group, best, basis));
    let failed = groups.iter().filter(|group| basis.carried(group).is_none());
    let failed = failed.filter_map(|group| {
        let reason = not_carried(group, basis)?;
        let text = format!("With {}: {}.", short(group, best), lower(&reason));
        Some(missing_target(Statement::new(NOT_SUSTAINED, text), group, basis))
    });
    bullets.extend(bullets_of_groups(others.chain(failed).collect()));
    let findings = [
        finding(best, basis, Some(name))?,
        finding(best, basis, Some(&best.subject))?,
        finding(best, basis, None)?,
    ];
    Some(Told {
        finding: brief(findings.into()),
        bullets,
    })
}

fn details(best: &Group, basis: Basis, name: &str) -> Vec<Statement> {
    [
        interval(best, basis),
        with_store(best, basis),
        useful_work(best, basis),
        overloaded(best),
        killed(best).map(|killed| killed.stated()),
        relative_to(best),
        circumstances(best, name),
        visited_file(best),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The load of another group than the best one.
fn other(group: &Group, best: &Group, basis: Basis) -> Option<Statement> {
    let killed = killed(group);
    let words = killed
        .as_ref()
        .map(|killed| format!("; {}", lower(&killed.words())));
    let text = format!(
        "With {}: {}{}.",
        short(group, best),
        amount(group, basis)?,
        words.unwrap_or_default()
    );
    let load = killed.map(|killed| killed.load);
    Some(carried(text, group, basis)?.with(KILLED_LOAD, load))
}

/// The result of the best group, which the name stands for if it is given.
fn finding(group: &Group, basis: Basis, name: Option<&str>) -> Option<Statement> {
    let condition = basis.condition(group);
    let amount = amount(group, basis)?;
    let with = name.map_or(String::new(), |name| format!("With {name} "));
    let (this, a) = match name {
        Some(_) => ("this", "a"),
        None => ("This", "A"),
    };
    let text = match (size_of(group), basis.has_line(group)) {
        (Some(size), true) => {
            let size = quantity::bytes(size);
            format!("{with}{a} working set of {size} needs {amount}; with less, {condition}.")
        }
        (Some(size), false) => {
            let size = quantity::bytes(size);
            format!("{with}{a} working set of {size} needs {amount}, the smallest limit.")
        }
        (None, _) => format!("{with}{this} machine sustains {amount} its memory before {condition}."),
    };
    carried(text, group, basis)
}

/// A statement about the load that a group carries.
fn carried(text: String, group: &Group, basis: Basis) -> Option<Statement> {
    let code = match (size_of(group), basis.has_line(group)) {
        (Some(_), true) => StatementCode::LoadlineNeeds,
        (Some(_), false) => StatementCode::LoadlineNeedsAtMost,
        (None, true) => StatementCode::LoadlineSustained,
        (None, false) => StatementCode::LoadlineSustainedMore,
    };
    let load = basis.carried(group)?;
    let statement = Statement::new(code, text).naming("group", &group.label);
    let statement = match size_of(group) {
        Some(size) => statement
            .with("size_bytes", size)
            .with("limit_bytes", size / load),
        None => statement.with("load", load),
    };
    Some(basis.with_target(statement, group))
}

const NOT_SUSTAINED: StatementCode = StatementCode::LoadlineNotSustained;

/// The result where even the lowest load of every group was too much.
fn none_carried(groups: &[&Group], basis: Basis) -> Option<Told> {
    let group = groups.iter().find(|group| not_carried(group, basis).is_some())?;
    let reason = not_carried(group, basis)?;
    let texts = [
        format!("With {}, {}.", group.subject, lower(&reason)),
        format!("{reason}."),
    ];
    let killed = killed(group).map(|killed| killed.stated());
    let notes = [useful_work(group, basis), overloaded(group), killed];
    Some(Told {
        finding: missing_target(brief_text(NOT_SUSTAINED, texts), group, basis),
        bullets: notes.into_iter().flatten().collect(),
    })
}

/// The statement with a group that misses its target at the lowest load.
fn missing_target(statement: Statement, group: &Group, basis: Basis) -> Statement {
    basis.with_target(statement.naming("group", &group.label), group)
}

/// The lowest load misses the condition; none of a group that measured nothing.
fn not_carried(group: &Group, basis: Basis) -> Option<String> {
    let measured = group.metrics.contains_key(WORK) || group.metrics.contains_key(OVERLOAD);
    measured.then(|| format!("Even at the lowest load {}", basis.condition(group)))
}

/// The sentence as the continuation of another one.
fn lower(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

/// The difference of a group from the best one: its subject, or its pattern if nothing else differs.
fn short<'a>(group: &'a Group, best: &Group) -> &'a str {
    let differs = |name: &str| group.params.get(name) != best.params.get(name);
    let mut others = group
        .params
        .keys()
        .chain(best.params.keys())
        .filter(|name| !matches!(name.as_str(), "subject" | "pattern"));
    let alike = others.all(|name| !differs(name));
    match (alike, group.subject != best.subject, differs("pattern")) {
        (true, true, false) => &group.subject,
        (true, false, true) => group
            .params
            .get("pattern")
            .map_or(&group.label, |pattern| pattern),
        _ => &group.label,
    }
}

/// The load that a group carries as a factor, or the limit that its working set needs.
fn amount(group: &Group, basis: Basis) -> Option<String> {
    let carried = basis.carried(group)?;
    let has_line = basis.has_line(group);
    Some(match size_of(group) {
        Some(size) => {
            let most = if has_line { "" } else { "at most " };
            format!("{most}{}", quantity::bytes(size / carried))
        }
        None => {
            let more = if has_line { "" } else { "more than " };
            format!("{more}{}\u{d7}", significant(carried))
        }
    })
}

/// The range of the knee: from the interval over the repeats of the sustained load to that of the load no
/// longer was. None without a knee.
fn interval(group: &Group, basis: Basis) -> Option<Statement> {
    if !basis.has_line(group) {
        return None;
    }
    let (_, low, high) = basis.metrics();
    let (low, high) = (group.metrics.get(low)?, group.metrics.get(high)?);
    let (low, high, summary) = (
        low.summary.interval.low,
        high.summary.interval.high,
        &high.summary,
    );
    let size = size_of(group);
    let of = if size.is_some() { "limit" } else { "load" };
    let [from, to] = [low, high].map(|load| match size {
        Some(size) => quantity::bytes(size / load),
        None => format!("{}\u{d7}", significant(load)),
    });
    let statement = match (summary.interval.kind, summary.n) {
        (IntervalKind::Bootstrap95, _) => Statement::new(
            StatementCode::LoadlineInterval,
            format!("95% interval of that {of}: {from} to {to}."),
        ),
        (IntervalKind::Range, 1) => Statement::new(
            StatementCode::LoadlineTried,
            format!("Tried {of}s: {from} was sustained, {to} was not."),
        ),
        (IntervalKind::Range, n) => Statement::new(
            StatementCode::LoadlineRange,
            format!("Range in {n} repeats: {from} to {to}."),
        )
        .with("repeats", n as f64),
    };
    Some(match size {
        // The lower the load, the larger is its limit.
        Some(size) => statement
            .with("low_limit_bytes", size / high)
            .with("high_limit_bytes", size / low),
        None => statement.with("low_load", low).with("high_load", high),
    })
}

fn with_store(group: &Group, basis: Basis) -> Option<Statement> {
    if basis != Basis::Work || !basis.has_line(group) {
        return None;
    }
    let (load, by_ram) = (group.median(KNEE)?, group.median(KNEE_RAM)?);
    let told = by_ram < load * (1.0 - STORE_TOLD);
    let text = format!(
        "Counting the RAM of the compressed store: {}\u{d7}.",
        significant(by_ram)
    );
    told.then(|| Statement::new(StatementCode::LoadlineWithStore, text).with(KNEE_RAM, by_ram))
}

/// The load line by useful work, where the finding is about latency.
fn useful_work(group: &Group, basis: Basis) -> Option<Statement> {
    if basis == Basis::Work || !Basis::Work.has_line(group) {
        return None;
    }
    let condition = Basis::Work.condition(group);
    let text = format!("At {} {condition}.", amount(group, Basis::Work)?);
    let load = Basis::Work.carried(group)?;
    let statement = Statement::new(StatementCode::LoadlineUsefulWork, text);
    let statement = match size_of(group) {
        Some(size) => statement.with("limit_bytes", size / load),
        None => statement.with("load", load),
    };
    Some(share_of(group).stated(statement))
}

/// The load from which on visits are not made in time, where visits are due at a rate.
fn overloaded(group: &Group) -> Option<Statement> {
    let load = group.median(OVERLOAD)?;
    let text = format!(
        "From {}\u{d7} on the worker is overloaded: it makes less than {} of the visits that are due.",
        significant(load),
        share_of(group).words(),
    );
    let statement = Statement::new(StatementCode::LoadlineOverloaded, text).with(OVERLOAD, load);
    Some(share_of(group).stated(statement))
}

/// The load at which a program had no memory left.
struct Killed {
    load: f64,
    by_pager: bool,
}

fn killed(group: &Group) -> Option<Killed> {
    Some(Killed {
        load: group.median(KILLED_LOAD)?,
        by_pager: matches!(group.subject.parse(), Ok(Subject::Pager(_))),
    })
}

impl Killed {
    fn words(&self) -> String {
        let load = significant(self.load);
        match self.by_pager {
            true => format!("At {load}\u{d7} the pager exceeds its budget"),
            false => format!("At {load}\u{d7} the OOM killer ends the program"),
        }
    }

    fn stated(&self) -> Statement {
        let code = match self.by_pager {
            true => StatementCode::LoadlineOverBudget,
            false => StatementCode::LoadlineKilled,
        };
        Statement::new(code, format!("{}.", self.words())).with(KILLED_LOAD, self.load)
    }
}

#[cfg(test)]
mod tests;
