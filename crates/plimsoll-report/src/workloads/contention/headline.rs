//! The headline of a contention run.

use std::collections::BTreeSet;

use crate::analysis::Group;
use crate::workloads::contention::{
    ASKER_LOST, COMPRESSED, HOLDER_LOST, HOLDER_SWAPPED, SLOWEST_ASK, SLOWEST_RATIO, TRIM_START,
    TRIM_START_PERCENT,
};
use crate::workloads::sentence::{Told, brief_text, bullets_of_groups, range};
use plimsoll_model::quantity::{bytes, counted, seconds, significant};
use plimsoll_model::recording::{Statement, StatementCode};
use plimsoll_model::scenario::Subject;

/// The demand at which trimming began, then a bullet or more for each group.
pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let measured: Vec<&Group> = groups
        .iter()
        .copied()
        .filter(|group| group.median(SLOWEST_ASK).is_some())
        .collect();
    match measured[..] {
        [] => None,
        [group] => Some(Told {
            finding: finding_of_one(group),
            bullets: details(group),
        }),
        _ => Some(Told {
            finding: finding_of_many(&measured),
            bullets: bullets_of_groups(measured.iter().map(|group| details_in_one(group)).collect()),
        }),
    }
}

/// The details of a group of several.
fn details_in_one(group: &Group) -> Statement {
    let details = details(group);
    let texts: Vec<&str> = details.iter().map(|detail| &*detail.text).collect();
    let mut text = format!("{}: {}", group.label, texts.join(" "));
    let demand = group.median(TRIM_START_PERCENT);
    if let Some(demand) = demand {
        text += &format!(" Trimming began at {}% of the limit.", significant(demand));
    }
    let statement = Statement::new(StatementCode::ContentionGroup, text)
        .naming("group", &group.label)
        .with(TRIM_START_PERCENT, demand);
    let values = details.into_iter().flat_map(|detail| detail.values);
    values.fold(statement, |statement, (name, value)| statement.with(name, value))
}

/// The state of the program that is trimmed.
fn holder(group: &Group) -> &'static str {
    let stopped = group
        .params
        .get("suspended")
        .is_some_and(|suspended| suspended == "true");
    if stopped { "stopped" } else { "idle" }
}

fn trimmer(group: &Group) -> &'static str {
    match is_on_pager(group) {
        true => "pool of the pagers",
        false => "kernel",
    }
}

fn is_on_pager(group: &Group) -> bool {
    matches!(group.subject.parse(), Ok(Subject::Pager(_)))
}

fn finding_of_one(group: &Group) -> Statement {
    let (subject, state, trimmer) = (&group.subject, holder(group), trimmer(group));
    let demand = group.median(TRIM_START_PERCENT);
    let (code, done) = match demand {
        Some(demand) => (
            StatementCode::ContentionTrimmed,
            format!(
                "began to trim the {state} program at {}% of the limit",
                significant(demand)
            ),
        ),
        None => (
            StatementCode::ContentionNotTrimmed,
            format!("never trimmed the {state} program"),
        ),
    };
    let texts = [
        format!("On {subject} the {trimmer} {done}."),
        format!("The {trimmer} {done}."),
    ];
    found(brief_text(code, texts), demand.as_slice(), 1)
        .naming("group", &group.label)
        .naming("trimmer", trimmer)
        .naming("state", state)
}

fn finding_of_many(groups: &[&Group]) -> Statement {
    let demands: Vec<f64> = groups
        .iter()
        .filter_map(|group| group.median(TRIM_START_PERCENT))
        .collect();
    let trimmers: BTreeSet<&str> = groups.iter().map(|group| trimmer(group)).collect();
    let trimmers: Vec<&str> = trimmers.into_iter().collect();
    let trimmer = trimmers.join(" or the ");
    let statement = match range(&demands) {
        Some(range) => Statement::new(
            StatementCode::ContentionTrimmed,
            format!(
                "The {trimmer} began to trim the first program at {range}% of the limit in {}.",
                counted(demands.len(), "group")
            ),
        ),
        None => Statement::new(
            StatementCode::ContentionNotTrimmed,
            format!(
                "The {trimmer} never trimmed the first program in {}.",
                counted(groups.len(), "group")
            ),
        ),
    };
    let stated = if demands.is_empty() {
        groups.len()
    } else {
        demands.len()
    };
    found(statement, &demands, stated).naming("trimmer", trimmers.join(", "))
}

/// The statement with the demands at the start of trimming, and the number of its groups.
fn found(statement: Statement, demands: &[f64], groups: usize) -> Statement {
    let statement = statement.with("groups", groups as f64);
    match demands {
        [] => statement,
        _ => statement.with_range(TRIM_START_PERCENT, demands),
    }
}

/// The memory that each program lost, its place, and the cost to the second program.
fn details(group: &Group) -> Vec<Statement> {
    [requested(group), lost(group), place(group), slowest(group)]
        .into_iter()
        .flatten()
        .collect()
}

fn requested(group: &Group) -> Option<Statement> {
    let start = group.median(TRIM_START)?;
    let text = format!(
        "The second program had requested {} when trimming began.",
        bytes(start)
    );
    Some(Statement::new(StatementCode::ContentionRequested, text).with(TRIM_START, start))
}

fn lost(group: &Group) -> Option<Statement> {
    let (holder, asker) = group.median(HOLDER_LOST).zip(group.median(ASKER_LOST))?;
    let text = format!(
        "At the end the first program had lost {}% of its memory, the second program {}%.",
        significant(holder),
        significant(asker)
    );
    let statement = Statement::new(StatementCode::ContentionLost, text)
        .with(HOLDER_LOST, holder)
        .with(ASKER_LOST, asker);
    Some(statement)
}

/// The place of the memory that the first program lost.
fn place(group: &Group) -> Option<Statement> {
    let (swapped, store) = group.median(HOLDER_SWAPPED).zip(group.median(COMPRESSED))?;
    let (code, place) = match is_on_pager(group) {
        true => (StatementCode::ContentionWithoutFrame, "had no frame"),
        false => (StatementCode::ContentionSwapped, "was in swap"),
    };
    let text = format!(
        "{} of it {place}, and the compressed store took {}.",
        bytes(swapped),
        bytes(store)
    );
    let statement = || {
        Statement::new(code, text)
            .with(HOLDER_SWAPPED, swapped)
            .with(COMPRESSED, store)
    };
    (store > 0.0).then(statement)
}

fn slowest(group: &Group) -> Option<Statement> {
    let slowest = group.median(SLOWEST_ASK)?;
    let ratio = group.median(SLOWEST_RATIO);
    let against =
        ratio.map(|ratio| format!(", {} times as long as those before trimming", significant(ratio)));
    let text = format!(
        "The slowest request took {}{}.",
        seconds(slowest),
        against.unwrap_or_default()
    );
    let statement = Statement::new(StatementCode::ContentionSlowest, text)
        .with(SLOWEST_ASK, slowest)
        .with(SLOWEST_RATIO, ratio);
    Some(statement)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::groups::{Dot, measured};
    use plimsoll_model::recording::model::TrialStatus;

    fn group(subject: &str, start: Option<f64>) -> Group {
        let one = |value: f64| Dot {
            trial: "a#1".into(),
            value,
            status: TrialStatus::Ok,
        };
        let known = [
            (SLOWEST_ASK, Some(0.5)),
            (TRIM_START_PERCENT, start),
            (HOLDER_SWAPPED, Some(1048576.0)),
            (COMPRESSED, Some(1048576.0)),
        ];
        let metrics = known
            .into_iter()
            .filter_map(|(name, value)| Some((name.into(), measured(vec![one(value?)], || 1)?)));
        Group {
            places: Vec::new(),
            label: subject.to_owned(),
            workload: "contention".to_owned(),
            subject: subject.to_owned(),
            params: BTreeMap::from([("suspended".to_owned(), "true".to_owned())]),
            trials: vec!["a#1".into()],
            failed: 0,
            untrustworthy: false,
            metrics: metrics.collect(),
            phases: Vec::new(),
        }
    }

    /// The only test of the whole text.
    #[test]
    fn text_of_a_group() {
        let told = told(&[&group("pager:lz4", Some(62.5))]).expect("told");
        let texts: Vec<&str> = std::iter::once(&told.finding)
            .chain(&told.bullets)
            .map(|statement| &*statement.text)
            .collect();
        insta::assert_snapshot!(texts.join("\n"), @"
        On pager:lz4 the pool of the pagers began to trim the stopped program at 62.5% of the limit.
        1.00 MiB of it had no frame, and the compressed store took 1.00 MiB.
        The slowest request took 500 ms.
        ");
    }

    #[test]
    fn the_finding_names_the_trimmer() {
        use StatementCode::{
            ContentionNotTrimmed, ContentionSwapped, ContentionTrimmed, ContentionWithoutFrame,
        };
        let (zram, pager) = (group("zram", Some(112.5)), group("pager:lz4", Some(62.5)));
        let never = group("pager", None);
        for (groups, code, trimmer, values) in [
            (
                vec![&pager],
                ContentionTrimmed,
                "pool of the pagers",
                vec![1.0, 62.5, 62.5],
            ),
            (vec![&zram], ContentionTrimmed, "kernel", vec![1.0, 112.5, 112.5]),
            (
                vec![&zram, &pager],
                ContentionTrimmed,
                "kernel, pool of the pagers",
                vec![2.0, 112.5, 62.5],
            ),
            (
                vec![&never, &never],
                ContentionNotTrimmed,
                "pool of the pagers",
                vec![2.0],
            ),
        ] {
            let finding = told(&groups).expect("told").finding;
            assert_eq!((finding.code, &*finding.names["trimmer"]), (code, trimmer));
            // The number of groups, the highest and the lowest demand.
            assert_eq!(
                finding.values.values().copied().collect::<Vec<_>>(),
                values,
                "{finding}"
            );
            assert_eq!(
                finding.names.get("state").map(String::as_str),
                (groups.len() == 1).then_some("stopped")
            );
        }
        let places = |group: &Group| told(&[group]).expect("told").bullets[0].code;
        assert_eq!(
            (places(&pager), places(&zram)),
            (ContentionWithoutFrame, ContentionSwapped)
        );
    }
}
