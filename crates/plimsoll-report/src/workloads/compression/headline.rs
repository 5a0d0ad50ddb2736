//! The headline of a compression run.

use crate::analysis::Group;
use crate::workloads::compression::{COMPRESSION, RESTORE_SPEED, STORED, TRIM_SPEED, WRITEBACK_SPEED};
use crate::workloads::memory_of;
use crate::workloads::sentence::{Told, brief, bullets_of_groups, is_brief, range, with_medians};
use plimsoll_model::quantity::{bytes, counted, significant};
use plimsoll_model::recording::{Statement, StatementCode};

/// Groups listed one by one; of more, the finding names the extremes.
const NAMED_GROUPS: usize = 3;

pub(super) fn told(groups: &[&Group]) -> Option<Told> {
    let (swapped, of_files): (Vec<&Group>, Vec<&Group>) = groups
        .iter()
        .copied()
        .partition(|group| memory_of(&group.params).goes_to_swap());
    let speed = |code: StatementCode, verb: &str, metric: &str| {
        let speeds = medians(&swapped, metric);
        let text = format!("{verb} speed: {} GB/s.", range(&speeds)?);
        Some(Statement::new(code, text).with_range(metric, &speeds))
    };
    let mut said: Vec<Statement> = shrinkage(&swapped);
    said.extend(speed(StatementCode::CompressionTrimSpeed, "Trim", TRIM_SPEED));
    said.extend(speed(
        StatementCode::CompressionRestoreSpeed,
        "Restore",
        RESTORE_SPEED,
    ));
    said.extend(speeds_of_files(&of_files));
    Told::of_statements(said)
}

fn medians(groups: &[&Group], metric: &str) -> Vec<f64> {
    groups.iter().filter_map(|group| group.median(metric)).collect()
}

/// `File pages: written at 0.9, trimmed clean at 3.0, read back at 0.5 to 0.6 GB/s.`
fn speeds_of_files(groups: &[&Group]) -> Option<Statement> {
    let parts = [
        ("written at", WRITEBACK_SPEED),
        ("trimmed clean at", TRIM_SPEED),
        ("read back at", RESTORE_SPEED),
    ]
    .map(|(verb, metric)| (verb, metric, medians(groups, metric)));
    let words = parts
        .iter()
        .filter_map(|(verb, _, speeds)| Some(format!("{verb} {}", range(speeds)?)));
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        return None;
    }
    let text = format!("File pages: {} GB/s.", words.join(", "));
    let statement = Statement::new(StatementCode::CompressionFileSpeeds, text);
    let with = |statement: Statement, (_, metric, speeds): &(&str, &str, Vec<f64>)| {
        statement.with_range(metric, speeds)
    };
    Some(parts.iter().fold(statement, with))
}

/// How far each kind of data shrank: the finding and, where that is a range, the groups.
fn shrinkage(groups: &[&Group]) -> Vec<Statement> {
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
    let text = format!("{subject}{}.", named.join(", "));
    let full = one_by_one(text, &stored, one_subject);
    if stored.len() <= NAMED_GROUPS && is_brief(&full.text) {
        return vec![full];
    }
    let of_subject = format!("{}: ", first.subject);
    let mut finding = extremes(groups, by_class.then_some(&*of_subject));
    // Without ratios, or with one for all.
    finding.extend(summed(groups, subject.trim_end()));
    finding.extend(summed(groups, "Stored:"));
    finding.push(full);
    let bullets = stored.iter().zip(named).map(|((group, _), text)| {
        let bullet = Statement::new(StatementCode::CompressionGroup, text + ".");
        with_medians(bullet, group, &[size_metric(group)]).naming("group", &group.label)
    });
    let bullets = bullets_of_groups(bullets.collect());
    std::iter::once(brief(finding)).chain(bullets).collect()
}

/// The statement that lists the groups.
fn one_by_one(text: String, stored: &[(&Group, String)], one_subject: bool) -> Statement {
    let values = |metric: &str| {
        let of_metric = stored.iter().filter(|(group, _)| size_metric(group) == metric);
        let values: Vec<f64> = of_metric.filter_map(|(group, _)| group.median(metric)).collect();
        values
    };
    let statement = Statement::new(StatementCode::CompressionStored, text)
        .with("groups", stored.len() as f64)
        .with_range(COMPRESSION, &values(COMPRESSION))
        .with_range(STORED, &values(STORED));
    match stored.first().filter(|_| one_subject) {
        Some((first, _)) => statement.naming("subject", &first.subject),
        None => statement,
    }
}

/// `Stored: 2.50:1 in 4 groups.`, a range where they differ.
fn summed(groups: &[&Group], stored: &str) -> Option<Statement> {
    let ratios = medians(groups, COMPRESSION);
    let text = format!(
        "{stored} {}:1 in {}.",
        range(&ratios)?.replace(" to ", ":1 to "),
        counted(ratios.len(), "group")
    );
    Some(of_ratios(StatementCode::CompressionRange, text, &ratios))
}

/// A statement about the ratios of all groups.
fn of_ratios(code: StatementCode, text: String, ratios: &[f64]) -> Statement {
    Statement::new(code, text)
        .with("groups", ratios.len() as f64)
        .with_range(COMPRESSION, ratios)
}

/// The groups whose data shrank most and least, by name, the longest sentence first; none where all look the same. With
/// `of_subject`, the subject of all as the beginning of a sentence, the names are those of the data.
fn extremes(groups: &[&Group], of_subject: Option<&str>) -> Vec<Statement> {
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
    let ratios = medians(groups, COMPRESSION);
    let sentence = |of_subject: &str, [most_of, least_of]: &[String; 2], of_groups: &str| {
        let text = format!(
            "{of_subject}{most_of} shrank most, {most}:1, and {least_of} least, {least}:1{of_groups}."
        );
        of_ratios(StatementCode::CompressionExtremes, text, &ratios)
            .naming("most", most_of)
            .naming("least", least_of)
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

/// The ratio or, where nothing was left to compress, the bytes.
fn size_of_stored(group: &Group) -> Option<String> {
    let value = group.median(size_metric(group))?;
    Some(match size_metric(group) {
        COMPRESSION => format!("{}:1", significant(value)),
        _ => format!("in {}", bytes(value)),
    })
}

fn size_metric(group: &Group) -> &'static str {
    match group.median(COMPRESSION) {
        Some(_) => COMPRESSION,
        None => STORED,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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

    fn told(trials: &[Trial]) -> Told {
        let groups = groups(trials);
        super::told(&groups.iter().collect::<Vec<_>>()).unwrap()
    }

    /// A speed without a disk and one with it, in one range, would say nothing of either.
    #[test]
    fn file_pages_have_a_statement_of_their_own() {
        use StatementCode::{CompressionFileSpeeds, CompressionRestoreSpeed, CompressionTrimSpeed};
        let file = trial(
            "file",
            "none",
            &[(WRITEBACK_SPEED, 0.5), (TRIM_SPEED, 4.0), (RESTORE_SPEED, 0.25)],
        );
        let speeds = |statement: &Statement| {
            let value = |metric: &str| statement.values.get(&format!("high_{metric}")).copied();
            [WRITEBACK_SPEED, TRIM_SPEED, RESTORE_SPEED].map(value)
        };
        let alone = told(std::slice::from_ref(&file));
        assert!(alone.bullets.is_empty(), "{alone:?}");
        assert_eq!(alone.finding.code, CompressionFileSpeeds);
        assert_eq!(speeds(&alone.finding), [Some(0.5), Some(4.0), Some(0.25)]);
        let anonymous = trial(
            "anonymous",
            "zram",
            &[(COMPRESSION, 2.0), (TRIM_SPEED, 1.0), (RESTORE_SPEED, 1.0)],
        );
        let both = told(&[anonymous, file]);
        assert_eq!(both.finding.code, StatementCode::CompressionStored);
        assert_eq!(both.finding.values["high_compression_ratio"], 2.0);
        let bullets: Vec<_> = both
            .bullets
            .iter()
            .map(|bullet| (bullet.code, speeds(bullet)))
            .collect();
        assert_eq!(
            bullets,
            [
                (CompressionTrimSpeed, [None, Some(1.0), None]),
                (CompressionRestoreSpeed, [None, None, Some(1.0)]),
                (CompressionFileSpeeds, [Some(0.5), Some(4.0), Some(0.25)]),
            ]
        );
    }

    fn stored(subject: &str, class: &str, ratio: f64) -> Trial {
        let mut trial = trial("anonymous", subject, &[(COMPRESSION, ratio)]);
        trial.id = format!("c/{subject}/{class}#1");
        trial.params = BTreeMap::from([("class".to_owned(), class.to_owned())]);
        trial
    }

    const SUBJECTS: [&str; 5] = ["zram:lz4", "zram:lzo-rle", "zswap", "zram:zstd", "zram"];

    /// Random data and data that shrink, the most on zram.
    fn on_each_subject() -> Vec<Trial> {
        let of_subject = |(place, subject): (usize, &&str)| {
            [
                stored(subject, "random", 1.0),
                stored(subject, "runs20", 3.0 + place as f64),
            ]
        };
        SUBJECTS.iter().enumerate().flat_map(of_subject).collect()
    }

    /// The only test of the whole text.
    #[test]
    fn text_of_many_groups() {
        let told = told(&on_each_subject());
        insta::assert_snapshot!(told.finding, @"zram runs20 shrank most, 7.00:1, and random least, 1.00:1, of 10 groups.");
    }

    /// "Stored: 1.00:1 to 64.0:1 in 10 groups." named none of them.
    #[test]
    fn of_many_groups_the_finding_names_the_best_and_the_worst() {
        let finding = |trials: &[Trial]| {
            let finding = told(trials).finding;
            assert!(is_brief(&finding.text), "{finding}");
            let [low, high, groups] = ["low_compression_ratio", "high_compression_ratio", "groups"]
                .map(|name| finding.values[name]);
            let names = ["most", "least"].map(|role| finding.names.get(role).cloned());
            (finding.code, names, (low, high, groups))
        };
        let names = |most: &str, least: &str| [Some(most.to_owned()), Some(least.to_owned())];
        assert_eq!(
            finding(&on_each_subject()),
            (
                StatementCode::CompressionExtremes,
                names("zram runs20", "random"),
                (1.0, 7.0, 10.0)
            )
        );
        let of_one = ["random", "runs20", "constant", "ratio=2.5"];
        let of_one: Vec<Trial> = (1..)
            .zip(of_one)
            .map(|(ratio, class)| stored("zram", class, f64::from(ratio)))
            .collect();
        assert_eq!(
            finding(&of_one),
            (
                StatementCode::CompressionExtremes,
                names("ratio=2.5", "random"),
                (1.0, 4.0, 4.0)
            )
        );
        let alike: Vec<Trial> = SUBJECTS.map(|subject| stored(subject, "ratio=2.5", 2.5)).into();
        assert_eq!(
            finding(&alike),
            (StatementCode::CompressionRange, [None, None], (2.5, 2.5, 5.0))
        );
        let long = "file=/a folder/with a name/of very many words/that no sentence of twenty words/can hold twice/at all";
        let of_long: Vec<Trial> = (1..)
            .zip(SUBJECTS)
            .map(|(ratio, subject)| stored(subject, long, f64::from(ratio)))
            .collect();
        assert_eq!(
            finding(&of_long),
            (StatementCode::CompressionRange, [None, None], (1.0, 5.0, 5.0))
        );
    }
}
