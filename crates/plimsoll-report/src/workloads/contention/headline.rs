//! The headline of a contention run.

use crate::analysis::Group;
use crate::workloads::contention::{
    ASKER_LOST, COMPRESSED, HOLDER_LOST, HOLDER_SWAPPED, SLOWEST_ASK, SLOWEST_RATIO, TRIM_START,
    TRIM_START_PERCENT,
};
use crate::workloads::sentence::{Told, brief, bullets_of_groups, range};
use plimsoll_model::quantity::{bytes, counted, seconds, significant};

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

fn finding_of_one(group: &Group) -> String {
    let (subject, state) = (&group.subject, holder(group));
    match group.median(TRIM_START_PERCENT) {
        Some(demand) => {
            let at = significant(demand);
            brief(&[
                format!("On {subject} the kernel began to trim the {state} program at {at}% of the limit."),
                format!("The kernel began to trim the {state} program at {at}% of the limit."),
            ])
        }
        None => brief(&[
            format!("On {subject} the kernel never trimmed the {state} program."),
            format!("The kernel never trimmed the {state} program."),
        ]),
    }
}

fn finding_of_many(groups: &[&Group]) -> String {
    let demands: Vec<f64> = groups
        .iter()
        .filter_map(|group| group.median(TRIM_START_PERCENT))
        .collect();
    match range(&demands) {
        Some(range) => format!(
            "The kernel began to trim the first program at {range}% of the limit in {}.",
            counted(demands.len(), "group")
        ),
        None => format!(
            "The kernel never trimmed the first program in {}.",
            counted(groups.len(), "group")
        ),
    }
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
            "{} of it was in swap, and the compressed store took {}.",
            bytes(swapped),
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
