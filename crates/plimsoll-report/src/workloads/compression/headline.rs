//! The headline of a compression run.

use crate::analysis::Group;
use crate::workloads::compression::{COMPRESSION, RESTORE_SPEED, STORED, TRIM_SPEED};
use crate::workloads::sentence::{Told, brief, bullets_of_groups, range};
use plimsoll_model::quantity::{bytes, counted, significant};

/// Groups listed one by one; of more, the finding gives a range.
const NAMED_GROUPS: usize = 3;

pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let speed = |verb: &str, metric: &str| {
        let values: Vec<f64> = groups.iter().filter_map(|group| group.median(metric)).collect();
        range(&values).map(|range| format!("{verb} speed: {range} GB/s."))
    };
    let mut said: Vec<String> = shrinkage(groups);
    said.extend(speed("Trim", TRIM_SPEED));
    said.extend(speed("Restore", RESTORE_SPEED));
    let mut said = said.into_iter();
    Some(Told {
        finding: said.next()?,
        bullets: said.collect(),
    })
}

/// How far each kind of data shrank: the finding and, where that is a range, the groups.
fn shrinkage(groups: &[&Group]) -> Vec<String> {
    let stored: Vec<(&Group, String)> = groups
        .iter()
        .filter_map(|group| Some((*group, size_of_stored(group)?)))
        .collect();
    let Some((first, _)) = stored.first() else {
        return Vec::new();
    };
    let one_subject = stored.iter().all(|(group, _)| group.subject == first.subject);
    let named: Vec<String> = stored
        .iter()
        .map(|(group, size)| {
            let class = group.params.get("class").filter(|_| one_subject);
            format!("{} {size}", class.unwrap_or(&group.label))
        })
        .collect();
    let subject = if one_subject {
        format!("{} stored ", first.subject)
    } else {
        "Stored: ".to_owned()
    };
    let ratios: Vec<f64> = groups
        .iter()
        .filter_map(|group| group.median(COMPRESSION))
        .collect();
    let full = format!("{subject}{}.", named.join(", "));
    // Without the subject, whose name can be too long.
    let [summed, shortest] = match range(&ratios) {
        Some(range) => {
            let text = format!(
                "{}:1 in {}.",
                range.replace(" to ", ":1 to "),
                counted(ratios.len(), "group")
            );
            [subject.as_str(), "Stored: "].map(|subject| format!("{subject}{text}"))
        }
        None => [full.clone(), full.clone()],
    };
    if stored.len() <= NAMED_GROUPS {
        let finding = brief(&[full.clone(), summed, shortest]);
        if finding == full {
            return vec![finding];
        }
        return std::iter::once(finding).chain(named_bullets(named)).collect();
    }
    std::iter::once(brief(&[summed, shortest]))
        .chain(named_bullets(named))
        .collect()
}

fn named_bullets(named: Vec<String>) -> Vec<String> {
    bullets_of_groups(named.into_iter().map(|one| one + ".").collect())
}

/// The ratio or, where nothing was left to compress, the bytes.
fn size_of_stored(group: &Group) -> Option<String> {
    let ratio = group
        .median(COMPRESSION)
        .map(|ratio| format!("{}:1", significant(ratio)));
    ratio.or_else(|| Some(format!("in {}", bytes(group.median(STORED)?))))
}
