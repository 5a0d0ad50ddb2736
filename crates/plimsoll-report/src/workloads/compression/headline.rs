//! The headline of a compression run.

use crate::analysis::Group;
use crate::workloads::compression::{COMPRESSION, RESTORE_SPEED, STORED, TRIM_SPEED};
use crate::workloads::sentence::range;
use plimsoll_model::quantity::{bytes, significant};

/// Groups listed one by one; of more, the sentence gives a range.
const NAMED_GROUPS: usize = 3;

pub(super) fn sentence(groups: &[&Group]) -> Option<String> {
    let speed = |verb: &str, metric: &str| {
        let values: Vec<f64> = groups.iter().filter_map(|group| group.median(metric)).collect();
        range(&values).map(|range| format!("{verb} ran at {range} GB/s"))
    };
    let mut clauses = Vec::new();
    clauses.extend(shrinkage(groups));
    clauses.extend(speed("trim", TRIM_SPEED));
    clauses.extend(speed("restore", RESTORE_SPEED));
    if clauses.is_empty() {
        return None;
    }
    Some(format!("Measured: {}.", clauses.join("; ")))
}

/// How far each kind of data shrank, or the range where there are too many to name.
fn shrinkage(groups: &[&Group]) -> Option<String> {
    let stored: Vec<(&Group, String)> = groups
        .iter()
        .filter_map(|group| Some((*group, size_of_stored(group)?)))
        .collect();
    let (first, _) = stored.first()?;
    let one_subject = stored.iter().all(|(group, _)| group.subject == first.subject);
    if stored.len() > NAMED_GROUPS {
        let ratios: Vec<f64> = groups
            .iter()
            .filter_map(|group| group.median(COMPRESSION))
            .collect();
        return Some(format!(
            "stored data shrank {} times in {} groups",
            range(&ratios)?,
            ratios.len()
        ));
    }
    let named: Vec<String> = stored
        .iter()
        .map(|(group, size)| {
            let class = group.params.get("class").filter(|_| one_subject);
            format!("{} {size}", class.unwrap_or(&group.label))
        })
        .collect();
    let who = if one_subject {
        format!("{} stored ", first.subject)
    } else {
        "stored ".to_owned()
    };
    Some(who + &named.join(", "))
}

/// The ratio or, where nothing was left to compress, the bytes.
fn size_of_stored(group: &Group) -> Option<String> {
    let ratio = group
        .median(COMPRESSION)
        .map(|ratio| format!("{}:1", significant(ratio)));
    ratio.or_else(|| Some(format!("in {}", bytes(group.median(STORED)?))))
}
