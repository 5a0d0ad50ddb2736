//! What a contention run showed.

use crate::analysis::Group;
use crate::workloads::contention::{
    ASKER_LOST, COMPRESSED, HOLDER_LOST, HOLDER_SWAPPED, SLOWEST_ASK, SLOWEST_RATIO, TRIM_START,
    TRIM_START_PERCENT,
};
use plimsoll_model::quantity::{bytes, seconds, significant};

/// What the numbers say: a sentence a group, or of the first and the rest as a count where there are many.
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
    let who = if stopped {
        "a stopped program"
    } else {
        "an idle program"
    };
    let slowest = group.median(SLOWEST_ASK)?;
    let Some((start, demand)) = group.median(TRIM_START).zip(group.median(TRIM_START_PERCENT)) else {
        return Some(format!(
            "On {} {who} was never trimmed; the slowest ask took {}.",
            group.subject,
            seconds(slowest)
        ));
    };
    let mut text = format!(
        "On {} {who} was trimmed when the other one had asked for {}, both together for {}% of the limit",
        group.subject,
        bytes(start),
        significant(demand)
    );
    if let Some((holder, asker)) = group.median(HOLDER_LOST).zip(group.median(ASKER_LOST)) {
        text += &format!(
            "; in the end it had lost {}% of its memory, the one that asked {}%",
            significant(holder),
            significant(asker)
        );
    }
    if let Some((swapped, store)) = group.median(HOLDER_SWAPPED).zip(group.median(COMPRESSED))
        && store > 0.0
    {
        text += &format!(
            "; {} of it lay in swap, and the compressed store took {}",
            bytes(swapped),
            bytes(store)
        );
    }
    text += &format!("; the slowest ask took {}", seconds(slowest));
    if let Some(ratio) = group.median(SLOWEST_RATIO) {
        text += &format!(", {} times as long as those before", significant(ratio));
    }
    Some(text + ".")
}
