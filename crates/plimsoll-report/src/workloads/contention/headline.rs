//! The headline of a contention run.

use crate::analysis::Group;
use crate::workloads::contention::{
    ASKER_LOST, COMPRESSED, HOLDER_LOST, HOLDER_SWAPPED, SLOWEST_ASK, SLOWEST_RATIO, TRIM_START,
    TRIM_START_PERCENT,
};
use plimsoll_model::quantity::{bytes, seconds, significant};

/// A sentence per group; of many groups the first ones and the number of the others.
pub(super) fn sentence(groups: &[&Group]) -> Option<String> {
    const NAMED: usize = 4;
    let sentences: Vec<String> = groups.iter().filter_map(|group| of_group(group)).collect();
    let more = sentences.len().saturating_sub(NAMED);
    let mut text = sentences.get(..NAMED.min(sentences.len()))?.join(" ");
    if more > 0 {
        text += &format!(" The other {more} groups are in the tables.");
    }
    (!text.is_empty()).then_some(text)
}

fn of_group(group: &Group) -> Option<String> {
    let stopped = group
        .params
        .get("suspended")
        .is_some_and(|suspended| suspended == "true");
    let holder_state = if stopped {
        "a stopped program"
    } else {
        "an idle program"
    };
    let slowest = group.median(SLOWEST_ASK)?;
    let Some((start, demand)) = group.median(TRIM_START).zip(group.median(TRIM_START_PERCENT)) else {
        return Some(format!(
            "On {} the kernel never trimmed {holder_state}; the slowest request took {}.",
            group.subject,
            seconds(slowest)
        ));
    };
    let mut text = format!(
        "On {} the kernel trimmed {holder_state} when the other had requested {}, both together {}% of the limit",
        group.subject,
        bytes(start),
        significant(demand)
    );
    if let Some((holder, asker)) = group.median(HOLDER_LOST).zip(group.median(ASKER_LOST)) {
        text += &format!(
            "; at the end it had lost {}% of its memory, the requester {}%",
            significant(holder),
            significant(asker)
        );
    }
    if let Some((swapped, store)) = group.median(HOLDER_SWAPPED).zip(group.median(COMPRESSED))
        && store > 0.0
    {
        text += &format!(
            "; {} of it was in swap, and the compressed store took {}",
            bytes(swapped),
            bytes(store)
        );
    }
    text += &format!("; the slowest request took {}", seconds(slowest));
    if let Some(ratio) = group.median(SLOWEST_RATIO) {
        text += &format!(", {} times as long as those before trimming", significant(ratio));
    }
    Some(text + ".")
}
