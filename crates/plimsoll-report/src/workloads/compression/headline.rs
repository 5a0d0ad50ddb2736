//! The headline of a compression run.

use crate::analysis::Group;
use crate::workloads::compression::{COMPRESSION, RESTORE_SPEED, STORED, TRIM_SPEED, WRITEBACK_SPEED};
use crate::workloads::memory_of;
use crate::workloads::sentence::{Told, brief, bullets_of_groups, range};
use plimsoll_model::quantity::{bytes, counted, significant};

/// Groups listed one by one; of more, the finding names the extremes.
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
    let full = format!("{subject}{}.", named.join(", "));
    if stored.len() <= NAMED_GROUPS && brief(std::slice::from_ref(&full)) == full {
        return vec![full];
    }
    let of_subject = format!("{}: ", first.subject);
    let mut finding = extremes(groups, by_class.then_some(&*of_subject));
    // Without ratios, or with one for all.
    finding.extend(summed(groups, subject.trim_end()));
    finding.extend(summed(groups, "Stored:"));
    finding.push(full);
    std::iter::once(brief(&finding))
        .chain(named_bullets(named))
        .collect()
}

/// `Stored: 2.50:1 in 4 groups.`, a range where they differ.
fn summed(groups: &[&Group], stored: &str) -> Option<String> {
    let ratios = medians(groups, COMPRESSION);
    let range = range(&ratios)?;
    Some(format!(
        "{stored} {}:1 in {}.",
        range.replace(" to ", ":1 to "),
        counted(ratios.len(), "group")
    ))
}

/// The groups whose data shrank most and least, by name, the longest sentence first; none where all look the same. With
/// `of_subject`, the subject of all as the beginning of a sentence, the names are those of the data.
fn extremes(groups: &[&Group], of_subject: Option<&str>) -> Vec<String> {
    let shrunk: Vec<(&Group, String)> = groups
        .iter()
        .filter_map(|group| Some((*group, significant(group.median(COMPRESSION)?))))
        .collect();
    let ratio = |(group, _): &&(&Group, String)| group.median(COMPRESSION).unwrap_or_default();
    let by_ratio = |a: &&(&Group, String), b: &&(&Group, String)| ratio(a).total_cmp(&ratio(b));
    let (Some((_, most)), Some((_, least))) =
        (shrunk.iter().max_by(by_ratio), shrunk.iter().min_by(by_ratio))
    else {
        return Vec::new();
    };
    if most == least {
        return Vec::new();
    }
    let alike = |shown: &str| -> Vec<&Group> {
        let alike = shrunk.iter().filter(|(_, ratio)| ratio == shown);
        alike.map(|(group, _)| *group).collect()
    };
    let (most_of, least_of) = (alike(most), alike(least));
    let names = [name_of(&most_of, groups), name_of(&least_of, groups)];
    let data = [data_of(&most_of), data_of(&least_of)];
    let of_groups = format!(", of {}", counted(shrunk.len(), "group"));
    let named = match of_subject {
        Some(of_subject) => vec![(of_subject, &data), ("", &data)],
        None => vec![("", &names), ("", &data)],
    };
    let sentence = |of_subject: &str, [most_of, least_of]: &[String; 2], of_groups: &str| {
        format!("{of_subject}{most_of} shrank most, {most}:1, and {least_of} least, {least}:1{of_groups}.")
    };
    let differ = named
        .into_iter()
        .filter(|(_, [most_of, least_of])| most_of != least_of);
    differ
        .flat_map(|(of_subject, names)| {
            [of_groups.as_str(), ""].map(|count| sentence(of_subject, names, count))
        })
        .collect()
}

/// The name of groups that shrank alike: of one group its own; of all groups of one class the class; else the first, and
/// the number of the others.
fn name_of(alike: &[&Group], all: &[&Group]) -> String {
    let [first, others @ ..] = alike else {
        return String::new();
    };
    let class = |group: &&Group| group.params.get("class") == first.params.get("class");
    let is_whole_class =
        others.iter().all(class) && all.iter().filter(|group| class(group)).count() == alike.len();
    match (others.len(), first.params.get("class").filter(|_| is_whole_class)) {
        (0, _) => first.label.clone(),
        (_, Some(class)) => class.clone(),
        (others, None) => format!("{} and {}", first.label, counted(others, "other")),
    }
}

/// The classes of groups.
fn data_of(alike: &[&Group]) -> String {
    let classes = alike.iter().filter_map(|group| group.params.get("class"));
    let mut classes: Vec<&str> = classes.map(String::as_str).collect();
    classes.sort_unstable();
    classes.dedup();
    classes.join(" and ")
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
    use std::collections::BTreeMap;

    use super::*;
    use crate::analysis::groups;
    use crate::workloads::sentence::MOST_WORDS;
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

    /// "Stored: 1.00:1 to 64.0:1 in 10 groups." named none of them.
    #[test]
    fn of_many_groups_the_finding_names_the_best_and_the_worst() {
        let stored = |subject: &str, class: &str, ratio: f64| {
            let mut trial = trial("anonymous", subject, &[(COMPRESSION, ratio)]);
            trial.id = format!("c/{subject}/{class}#1");
            trial.params = BTreeMap::from([("class".to_owned(), class.to_owned())]);
            trial
        };
        let finding = |trials: &[Trial]| {
            let groups = groups(trials);
            let finding = told(&groups.iter().collect::<Vec<_>>()).unwrap().finding;
            assert!(finding.split_whitespace().count() <= MOST_WORDS, "{finding}");
            finding
        };
        let subjects = ["zram:lz4", "zram:lzo-rle", "zswap", "zram:zstd", "zram"];
        let all: Vec<Trial> = subjects
            .iter()
            .enumerate()
            .flat_map(|(place, subject)| {
                [
                    stored(subject, "random", 1.0),
                    stored(subject, "runs20", 3.0 + place as f64),
                ]
            })
            .collect();
        assert_eq!(
            finding(&all),
            "zram runs20 shrank most, 7.00:1, and random least, 1.00:1, of 10 groups."
        );
        let of_one = ["random", "runs20", "constant", "ratio=2.5"];
        let of_one: Vec<Trial> = (1..)
            .zip(of_one)
            .map(|(ratio, class)| stored("zram", class, f64::from(ratio)))
            .collect();
        assert_eq!(
            finding(&of_one),
            "zram: ratio=2.5 shrank most, 4.00:1, and random least, 1.00:1, of 4 groups."
        );
        let alike: Vec<Trial> = subjects.map(|subject| stored(subject, "ratio=2.5", 2.5)).into();
        assert_eq!(finding(&alike), "Stored: 2.50:1 in 5 groups.");
        let long = "file=/a folder/with a name/of very many words/that no sentence of twenty words/can hold twice/at all";
        let of_long: Vec<Trial> = (1..)
            .zip(subjects)
            .map(|(ratio, subject)| stored(subject, long, f64::from(ratio)))
            .collect();
        assert_eq!(finding(&of_long), "Stored: 1.00:1 to 5.00:1 in 5 groups.");
    }
}
