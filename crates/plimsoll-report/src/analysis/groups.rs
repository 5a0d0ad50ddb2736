//! Trials that differ in nothing but their repeat, side by side.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use super::statistics::{Summary, summarise};
use plimsoll_model::recording::model::{Trial, TrialStatus};

/// The repeats of one trial: one combination of subject and parameters of a section.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its distinguishing parameters, for an axis or a table: `zram:lz4 random`.
    pub label: String,
    /// The kind of work, by its name.
    pub workload: String,
    pub subject: String,
    pub params: BTreeMap<String, String>,
    /// Ids of its trials, failed ones too.
    pub trials: Vec<String>,
    /// Number of failed trials, excluded from all values.
    pub failed: usize,
    /// True if no trial of the group is ok: main metrics of all of them are untrustworthy.
    pub untrustworthy: bool,
    pub metrics: BTreeMap<String, Measured>,
    /// Phases in the order in which they ran.
    pub phases: Vec<PhaseGroup>,
}

impl Group {
    /// The median of a metric, if a trial has it.
    pub fn median(&self, metric: &str) -> Option<f64> {
        Some(self.metrics.get(metric)?.summary.median)
    }

    /// Unique key of the group, equal between runs of one scenario: a trial's id without its
    /// repeat (`zram/zram:lz4/random`).
    pub fn identity(&self) -> &str {
        self.trials.first().map_or("", |id| shared_part(id))
    }

    /// The group with its trustworthy metrics and phases alone.
    pub fn trusted(&self) -> Group {
        let mut group = self.clone();
        group.metrics.retain(|_, measured| !measured.untrustworthy());
        group.phases.retain(|phase| !phase.seconds.untrustworthy());
        for phase in &mut group.phases {
            phase.gb_per_s = phase.gb_per_s.take().filter(|speed| !speed.untrustworthy());
        }
        group
    }

    /// Its trials that did not fail, in the order of `trials`: each figure has a dot of them.
    pub fn usable<'a>(&self, trials: &'a [Trial]) -> Vec<&'a Trial> {
        let own = trials.iter().filter(|trial| self.trials.contains(&trial.id));
        own.filter(|trial| is_usable(trial)).collect()
    }

    /// Its trials that a summary is of: those that are ok or, where none is, the untrustworthy ones. What is drawn of
    /// trials themselves, without a figure to sum up, is drawn of these.
    pub fn counted<'a>(&self, trials: &'a [Trial]) -> Vec<&'a Trial> {
        trusted(self.usable(trials), |trial| trial.status)
    }
}

/// Whether a trial is in the figures of its group: where a phase could not run here, those of the others hold.
fn is_usable(trial: &Trial) -> bool {
    trial.status != TrialStatus::Failed || trial.lacks_only_a_phase()
}

/// Those that are ok or, where none is, all.
fn trusted<T>(mut all: Vec<T>, status: impl Fn(&T) -> TrialStatus) -> Vec<T> {
    if all.iter().any(|one| status(one) == TrialStatus::Ok) {
        all.retain(|one| status(one) == TrialStatus::Ok);
    }
    all
}

#[derive(Debug, Clone, PartialEq)]
pub struct PhaseGroup {
    pub name: String,
    /// Wall seconds.
    pub seconds: Measured,
    /// GB/s; none where nothing was moved.
    pub gb_per_s: Option<Measured>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Each trial that has the value and did not fail, with its status for this value.
    pub dots: Vec<Dot>,
    /// Summary of the trustworthy values or, without any, of all.
    pub summary: Summary,
}

impl Measured {
    /// Whether the value is trustworthy in no trial.
    pub fn untrustworthy(&self) -> bool {
        self.dots.iter().all(|dot| dot.status != TrialStatus::Ok)
    }

    /// The values of the summary: the trustworthy ones or, without any, all.
    pub fn values(&self) -> Vec<f64> {
        summed_up(&self.dots)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    pub trial: String,
    pub value: f64,
    pub status: TrialStatus,
}

/// Groups trials by everything but the repeat. Of two sections that differ in a key that is no parameter (a limit, a hold)
/// the trials are never repeats of each other, so that the id decides, not the parameters.
pub fn groups(trials: &[Trial]) -> Vec<Group> {
    let mut members: Vec<Vec<&Trial>> = Vec::new();
    for trial in trials {
        let same = |group: &&mut Vec<&Trial>| repeated(group[0]) == repeated(trial);
        match members.iter_mut().find(same) {
            Some(group) => group.push(trial),
            None => members.push(vec![trial]),
        }
    }
    // Not in the order in which they happened to run: two runs of one scenario are read side by side.
    members.sort_by_key(|group| (&group[0].subject, by_number(&group[0].params), repeated(group[0])));
    let labels = labels(&members);
    let labelled = members.iter().zip(labels);
    labelled.map(|(trials, label)| group(trials, label)).collect()
}

/// Parameters as they are put in order: 4 before 16.
fn by_number(params: &BTreeMap<String, String>) -> Vec<(&str, Option<u64>, &str)> {
    params
        .iter()
        .map(|(name, value)| (name.as_str(), value.parse().ok(), value.as_str()))
        .collect()
}

/// The key shared by the repeats of a trial.
fn repeated(trial: &Trial) -> &str {
    shared_part(&trial.id)
}

/// A trial's id without the `#<repeat>` at its end.
fn shared_part(id: &str) -> &str {
    match id.rsplit_once('#') {
        Some((shared, repeat)) if repeat.parse::<u32>().is_ok() => shared,
        _ => id,
    }
}

/// The groups' labels, no two alike: with the section where subject and parameters are the same in several, and the
/// whole id where that is not enough either.
fn labels(groups: &[Vec<&Trial>]) -> Vec<String> {
    let short: Vec<String> = groups
        .iter()
        .map(|trials| label(trials[0], &telling_params(groups, &trials[0].workload)))
        .collect();
    let with_section: Vec<String> = groups
        .iter()
        .zip(&short)
        .map(|(trials, label)| match repeated(trials[0]).split_once('/') {
            Some((section, _)) if !is_only(label, &short) => format!("{label} ({section})"),
            _ => label.clone(),
        })
        .collect();
    groups
        .iter()
        .zip(&with_section)
        .map(|(trials, label)| match is_only(label, &with_section) {
            true => label.clone(),
            false => repeated(trials[0]).to_owned(),
        })
        .collect()
}

fn is_only(label: &str, labels: &[String]) -> bool {
    labels.iter().filter(|other| *other == label).count() == 1
}

/// Parameters that are not the same in all groups of a kind of work.
fn telling_params(groups: &[Vec<&Trial>], workload: &str) -> BTreeSet<String> {
    let groups: Vec<&Vec<&Trial>> = groups
        .iter()
        .filter(|group| group[0].workload == workload)
        .collect();
    let names: BTreeSet<&String> = groups.iter().flat_map(|group| group[0].params.keys()).collect();
    let differs = |name: &&&String| {
        let mut values = groups.iter().map(|group| group[0].params.get(name.as_str()));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    names.iter().filter(differs).map(|name| (*name).clone()).collect()
}

fn group(trials: &[&Trial], label: String) -> Group {
    let first = trials[0];
    let usable = || trials.iter().filter(|trial| is_usable(trial));
    let measure = |name: &str, value: &dyn Fn(&Trial) -> Option<f64>| {
        let dots: Vec<Dot> = usable()
            .filter_map(|trial| {
                Some(Dot {
                    trial: trial.id.clone(),
                    value: value(trial).filter(|value| value.is_finite())?,
                    status: trial.status_of(name),
                })
            })
            .collect();
        measured(dots, xxh3_64(format!("{label}/{name}").as_bytes()))
    };
    let metric_names: BTreeSet<&String> = usable().flat_map(|trial| trial.metrics.keys()).collect();
    let metrics = metric_names
        .into_iter()
        .filter_map(|name| {
            let value = |trial: &Trial| trial.metrics.get(name).copied();
            Some((name.clone(), measure(name, &value)?))
        })
        .collect();
    let mut phase_names: Vec<&String> = Vec::new();
    for phase in usable().flat_map(|trial| &trial.phases) {
        if !phase_names.contains(&&phase.name) {
            phase_names.push(&phase.name);
        }
    }
    let phases = phase_names
        .into_iter()
        .filter_map(|name| {
            let phase = |trial: &Trial| trial.phases.iter().find(|phase| &phase.name == name).cloned();
            let speed = |trial: &Trial| {
                phase(trial)
                    .map(|phase| phase.gb_per_s)
                    .filter(|&speed| speed > 0.0)
            };
            Some(PhaseGroup {
                name: name.clone(),
                seconds: measure(&format!("{name}.seconds"), &|trial| {
                    phase(trial).map(|phase| phase.seconds)
                })?,
                gb_per_s: measure(&format!("{name}.gb_per_s"), &speed),
            })
        })
        .collect();
    Group {
        workload: first.workload.clone(),
        subject: first.subject.clone(),
        params: first.params.clone(),
        trials: trials.iter().map(|trial| trial.id.clone()).collect(),
        failed: trials.len() - usable().count(),
        untrustworthy: usable().count() > 0 && usable().all(|trial| trial.status != TrialStatus::Ok),
        metrics,
        phases,
        label,
    }
}

/// Subject and class, then the other parameters that tell the groups apart.
fn label(trial: &Trial, headline: &BTreeSet<String>) -> String {
    let mut label = trial.subject.clone();
    if let Some(class) = trial.params.get("class") {
        label = format!("{label} {class}");
    }
    for (name, value) in &trial.params {
        // The subject may be a swept parameter too; the mechanism and the library follow from what was asked.
        if headline.contains(name) && !matches!(name.as_str(), "class" | "subject" | "mechanism" | "library")
        {
            label = format!("{label} {name}={value}");
        }
    }
    label
}

/// A value over its dots, with an interval resampled from `seed`; `None` without dots.
pub fn measured(dots: Vec<Dot>, seed: u64) -> Option<Measured> {
    let summary = summarise(&summed_up(&dots), seed)?;
    Some(Measured { dots, summary })
}

fn summed_up(dots: &[Dot]) -> Vec<f64> {
    let dots = trusted(dots.iter().collect(), |dot| dot.status);
    dots.into_iter().map(|dot| dot.value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeats of one trial with these verdicts, each with its number as a figure.
    fn repeats(statuses: &[TrialStatus]) -> Vec<Trial> {
        let repeat = |(number, &status): (usize, &TrialStatus)| Trial {
            id: format!("made-up#{}", number + 1),
            status,
            metrics: [("figure".to_owned(), number as f64)].into(),
            ..Trial::made_up("compression", Vec::new())
        };
        statuses.iter().enumerate().map(repeat).collect()
    }

    #[test]
    fn the_trials_that_count_are_those_that_a_median_is_of() {
        use TrialStatus::{Failed, Ok, Untrustworthy};
        for (statuses, counted) in [
            (vec![Ok, Failed, Untrustworthy, Ok], vec![0.0, 3.0]),
            (vec![Failed, Untrustworthy, Untrustworthy], vec![1.0, 2.0]),
            (vec![Failed], Vec::new()),
        ] {
            // A trial of another group is none of its own.
            let mut trials = repeats(&statuses);
            trials.push(Trial {
                id: "other#1".to_owned(),
                ..trials[0].clone()
            });
            let groups = groups(&trials);
            let group = groups.iter().find(|group| group.identity() == "made-up");
            let group = group.expect("the group");
            let figures = group.counted(&trials).into_iter();
            let figures: Vec<f64> = figures.map(|trial| trial.metrics["figure"]).collect();
            assert_eq!(figures, counted, "{statuses:?}");
            let summed_up = group.metrics.get("figure").map(Measured::values);
            assert_eq!(summed_up.unwrap_or_default(), counted, "{statuses:?}");
        }
    }

    #[test]
    fn a_trial_in_which_a_phase_could_not_run_counts_with_the_others() {
        let mut trials = repeats(&[TrialStatus::Failed]);
        trials[0].reasons = vec![format!(
            "trim {}: no swap",
            plimsoll_model::recording::model::NOT_RUN
        )];
        let groups = groups(&trials);
        assert_eq!(groups[0].counted(&trials), [&trials[0]]);
        assert_eq!(groups[0].metrics["figure"].values(), [0.0]);
    }
}
