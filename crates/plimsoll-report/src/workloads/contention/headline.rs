//! The headline of a contention run.

use crate::analysis::Group;
use crate::workloads::contention::{
    ASKER_LOST, COMPRESSED, HOLDER_LOST, HOLDER_SWAPPED, SLOWEST_ASK, SLOWEST_RATIO, TRIM_START,
    TRIM_START_PERCENT,
};
use crate::workloads::sentence::{Told, brief, bullets_of_groups, range};
use plimsoll_model::quantity::{bytes, counted, seconds, significant};
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
            bullets: bullets_of_groups(
                measured
                    .iter()
                    .map(|group| {
                        let mut text = format!("{}: {}", group.label, details(group).join(" "));
                        if let Some(demand) = group.median(TRIM_START_PERCENT) {
                            text += &format!(" Trimming began at {}% of the limit.", significant(demand));
                        }
                        text
                    })
                    .collect(),
            ),
        }),
    }
}

/// The state of the program that is trimmed.
fn holder(group: &Group) -> &'static str {
    let stopped = group
        .params
        .get("suspended")
        .is_some_and(|suspended| suspended == "true");
    if stopped { "stopped" } else { "idle" }
}

/// The trimmer of the programs.
fn trimmer(group: &Group) -> &'static str {
    match group.subject.parse() {
        Ok(Subject::Pager(_)) => "the pool of the pagers",
        _ => "the kernel",
    }
}

fn finding_of_one(group: &Group) -> String {
    let (subject, state, trimmer) = (&group.subject, holder(group), trimmer(group));
    match group.median(TRIM_START_PERCENT) {
        Some(demand) => {
            let at = significant(demand);
            brief(&[
                format!("On {subject} {trimmer} began to trim the {state} program at {at}% of the limit."),
                sentence(&format!(
                    "{trimmer} began to trim the {state} program at {at}% of the limit."
                )),
            ])
        }
        None => brief(&[
            format!("On {subject} {trimmer} never trimmed the {state} program."),
            sentence(&format!("{trimmer} never trimmed the {state} program.")),
        ]),
    }
}

fn finding_of_many(groups: &[&Group]) -> String {
    let demands: Vec<f64> = groups
        .iter()
        .filter_map(|group| group.median(TRIM_START_PERCENT))
        .collect();
    let mut trimmers: Vec<&str> = groups.iter().map(|group| trimmer(group)).collect();
    trimmers.dedup();
    let trimmer = match trimmers[..] {
        [trimmer] => trimmer,
        _ => "the kernel or the pool of the pagers",
    };
    sentence(&match range(&demands) {
        Some(range) => format!(
            "{trimmer} began to trim the first program at {range}% of the limit in {}.",
            counted(demands.len(), "group")
        ),
        None => format!(
            "{trimmer} never trimmed the first program in {}.",
            counted(groups.len(), "group")
        ),
    })
}

/// A text with a capital at its start.
fn sentence(text: &str) -> String {
    text.replacen("the ", "The ", 1)
}

/// The memory that each program lost, its place, and the cost to the requester.
fn details(group: &Group) -> Vec<String> {
    let mut bullets = Vec::new();
    if let Some(start) = group.median(TRIM_START) {
        bullets.push(format!("The other program had requested {} then.", bytes(start)));
    }
    if let Some((holder, asker)) = group.median(HOLDER_LOST).zip(group.median(ASKER_LOST)) {
        bullets.push(format!(
            "At the end the first program had lost {}% of its memory, the requester {}%.",
            significant(holder),
            significant(asker)
        ));
    }
    if let Some((swapped, store)) = group.median(HOLDER_SWAPPED).zip(group.median(COMPRESSED))
        && store > 0.0
    {
        bullets.push(format!(
            "{} of it {}, and the compressed store took {}.",
            bytes(swapped),
            match group.subject.parse() {
                Ok(Subject::Pager(_)) => "had no frame",
                _ => "was in swap",
            },
            bytes(store)
        ));
    }
    if let Some(slowest) = group.median(SLOWEST_ASK) {
        let against = group.median(SLOWEST_RATIO).map_or(String::new(), |ratio| {
            format!(", {} times as long as those before trimming", significant(ratio))
        });
        bullets.push(format!("The slowest request took {}{against}.", seconds(slowest)));
    }
    bullets
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

    #[test]
    fn the_sentence_names_the_trimmer() {
        let said = |groups: &[&Group]| told(groups).expect("told");
        let (zram, pager) = (group("zram", Some(112.5)), group("pager:lz4", Some(62.5)));
        let of_pager = said(&[&pager]);
        assert_eq!(
            of_pager.finding,
            "On pager:lz4 the pool of the pagers began to trim the stopped program at 62.5% of the limit."
        );
        assert!(
            of_pager.bullets.iter().any(|said| said.contains("had no frame")),
            "{:?}",
            of_pager.bullets
        );
        assert_eq!(
            said(&[&zram]).finding,
            "On zram the kernel began to trim the stopped program at 112% of the limit."
        );
        assert!(
            said(&[&zram, &pager])
                .finding
                .starts_with("The kernel or the pool of the pagers began to trim the first program at "),
        );
        let never = group("pager", None);
        assert_eq!(
            said(&[&never, &never]).finding,
            "The pool of the pagers never trimmed the first program in 2 groups."
        );
    }
}
