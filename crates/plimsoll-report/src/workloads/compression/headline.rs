//! The headline of a compression run.

use crate::analysis::Group;
use crate::workloads::compression::{COMPRESSION, RESTORE_SPEED, STORED, TRIM_SPEED, WRITEBACK_SPEED};
use crate::workloads::memory_of;
use crate::workloads::sentence::{Told, brief, bullets_of_groups, range};
use plimsoll_model::quantity::{bytes, counted, significant};

/// Groups listed one by one; of more, the finding gives a range.
const NAMED_GROUPS: usize = 3;

pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let (swapped, of_files): (Vec<&Group>, Vec<&Group>) = groups
        .iter()
        .copied()
        .partition(|group| memory_of(&group.params).goes_to_swap());
    let speed = |verb: &str, metric: &str| {
        range(&medians(&swapped, metric)).map(|range| format!("{verb} speed: {range} GB/s."))
    };
    let mut said: Vec<String> = shrinkage(&swapped);
    said.extend(speed("Trim", TRIM_SPEED));
    said.extend(speed("Restore", RESTORE_SPEED));
    said.extend(speeds_of_files(&of_files));
    let mut said = said.into_iter();
    Some(Told {
        finding: said.next()?,
        bullets: said.collect(),
    })
}

fn medians(groups: &[&Group], metric: &str) -> Vec<f64> {
    groups.iter().filter_map(|group| group.median(metric)).collect()
}

/// `File pages: written at 0.9, trimmed clean at 3.0, read back at 0.5 to 0.6 GB/s.`
fn speeds_of_files(groups: &[&Group]) -> Option<String> {
    let parts = [
        ("written at", WRITEBACK_SPEED),
        ("trimmed clean at", TRIM_SPEED),
        ("read back at", RESTORE_SPEED),
    ];
    let speed = |(verb, metric): (&str, &str)| Some(format!("{verb} {}", range(&medians(groups, metric))?));
    let speeds: Vec<String> = parts.into_iter().filter_map(speed).collect();
    (!speeds.is_empty()).then(|| format!("File pages: {} GB/s.", speeds.join(", ")))
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
    // The name of the data, where the groups differ in nothing else.
    let mut classes: Vec<Option<&String>> = stored
        .iter()
        .map(|(group, _)| group.params.get("class"))
        .collect();
    classes.sort_unstable();
    classes.dedup();
    let by_class = one_subject && classes.len() == stored.len();
    let named: Vec<String> = stored
        .iter()
        .map(|(group, size)| {
            let class = group.params.get("class").filter(|_| by_class);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::groups;
    use plimsoll_model::recording::model::Trial;

    fn trial(memory: &str, subject: &str, metrics: &[(&str, f64)]) -> Trial {
        let mut trial = Trial::made_up("compression", Vec::new());
        trial.id = format!("c/{subject}/random/memory={memory}#1");
        trial.subject = subject.to_owned();
        trial.params = [("class", "random"), ("memory", memory)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        trial.metrics = metrics
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value))
            .collect();
        trial
    }

    /// A speed without a disk and one with it, in one range, would say nothing of either.
    #[test]
    fn file_pages_have_a_sentence_of_their_own() {
        let file = trial(
            "file",
            "none",
            &[(WRITEBACK_SPEED, 0.5), (TRIM_SPEED, 4.0), (RESTORE_SPEED, 0.25)],
        );
        let words = "File pages: written at 0.50, trimmed clean at 4.00, read back at 0.25 GB/s.";
        let said = |trials: &[Trial]| {
            let groups = groups(trials);
            let told = told(&groups.iter().collect::<Vec<_>>()).unwrap();
            std::iter::once(told.finding)
                .chain(told.bullets)
                .collect::<Vec<String>>()
        };
        assert_eq!(said(std::slice::from_ref(&file)), [words]);
        let anonymous = trial(
            "anonymous",
            "zram",
            &[(COMPRESSION, 2.0), (TRIM_SPEED, 1.0), (RESTORE_SPEED, 1.0)],
        );
        let both = said(&[anonymous, file]);
        assert!(both[0].contains("2.00:1"), "{both:?}");
        assert_eq!(
            both[1..],
            ["Trim speed: 1.00 GB/s.", "Restore speed: 1.00 GB/s.", words]
        );
    }
}
