//! Trials that differ in nothing but their repeat, side by side.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::name_map::NameMap;
use super::statistics::{MIN_FOR_INTERVAL, Summary, summarise};
use plimsoll_model::recording::model::{Phase, Trial, TrialStatus};

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
    pub trials: Vec<Arc<str>>,
    /// Places of its trials in the list that the groups were made of.
    pub(crate) places: Vec<usize>,
    /// Number of failed trials, excluded from all values.
    pub failed: usize,
    /// True if no trial of the group is ok: main metrics of all of them are untrustworthy.
    pub untrustworthy: bool,
    pub metrics: NameMap<Measured>,
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

    /// The group with its trustworthy metrics and phases alone: the group itself if it has no others.
    pub fn trusted(&self) -> Cow<'_, Group> {
        let speeds = |phase: &PhaseGroup| phase.gb_per_s.as_ref().is_some_and(Measured::untrustworthy);
        let doubtful = self.metrics.values().any(Measured::untrustworthy)
            || self
                .phases
                .iter()
                .any(|phase| phase.seconds.untrustworthy() || speeds(phase));
        if !doubtful {
            return Cow::Borrowed(self);
        }
        let mut group = self.clone();
        group.metrics.retain(|_, measured| !measured.untrustworthy());
        group.phases.retain(|phase| !phase.seconds.untrustworthy());
        for phase in &mut group.phases {
            phase.gb_per_s = phase.gb_per_s.take().filter(|speed| !speed.untrustworthy());
        }
        Cow::Owned(group)
    }

    /// Its trials that did not fail, in the order of `trials`, the list that the groups were made of: each value has a
    /// dot of them.
    pub fn usable<'a>(&self, trials: &'a [Trial]) -> Vec<&'a Trial> {
        let own = self.places.iter().filter_map(|&place| trials.get(place));
        own.filter(|trial| is_usable(trial)).collect()
    }

    /// Its trials that a summary is of: those that are ok or, where none is, the untrustworthy ones. What is drawn of
    /// trials themselves, without a value to sum up, is drawn of these.
    pub fn counted<'a>(&self, trials: &'a [Trial]) -> Vec<&'a Trial> {
        trusted(self.usable(trials), |trial| trial.status)
    }
}

/// Whether a trial is in the values of its group: where a phase could not run here, those of the others hold.
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
    pub name: Arc<str>,
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
    pub trial: Arc<str>,
    pub value: f64,
    pub status: TrialStatus,
}

/// Groups trials by everything but the repeat. Of two sections that differ in a key that is no parameter (a limit, a hold)
/// the trials are never repeats of each other, so that the id decides, not the parameters.
pub fn groups(trials: &[Trial]) -> Vec<Group> {
    let mut members: HashMap<&str, Members<'_>> = HashMap::new();
    for (place, trial) in trials.iter().enumerate() {
        let group = members.entry(repeated(trial)).or_insert_with(|| Members {
            first: trial,
            trials: Vec::new(),
            places: Vec::new(),
        });
        group.trials.push(trial);
        group.places.push(place);
    }
    let mut members: Vec<Members<'_>> = members.into_values().collect();
    // Not in the order in which they happened to run: two runs of one scenario are read side by side.
    members.sort_by_cached_key(|group| {
        let first = group.first;
        (&first.subject, by_number(&first.params), repeated(first))
    });
    let labels = labels(&members);
    let labelled = members.into_iter().zip(labels);
    let mut names = Names::default();
    labelled
        .map(|(members, label)| group(members, label, &mut names))
        .collect()
}

/// The names of metrics and phases, each once for all groups.
#[derive(Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn shared(&mut self, name: &str) -> Arc<str> {
        match self.0.get(name) {
            Some(known) => Arc::clone(known),
            None => {
                let new: Arc<str> = Arc::from(name);
                self.0.insert(Arc::clone(&new));
                new
            }
        }
    }
}

/// The trials of a group, with their places in the list of all.
struct Members<'a> {
    first: &'a Trial,
    trials: Vec<&'a Trial>,
    places: Vec<usize>,
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
fn labels(groups: &[Members<'_>]) -> Vec<String> {
    let differing = differing_params(groups);
    let no_params = BTreeSet::new();
    let short: Vec<String> = groups
        .iter()
        .map(|group| {
            let differing = differing.get(group.first.workload.as_str());
            label(group.first, differing.unwrap_or(&no_params))
        })
        .collect();
    let uses = uses_of(&short);
    let with_section: Vec<String> = groups
        .iter()
        .zip(&short)
        .map(|(group, label)| match repeated(group.first).split_once('/') {
            Some((section, _)) if uses[label.as_str()] > 1 => format!("{label} ({section})"),
            _ => label.clone(),
        })
        .collect();
    let uses = uses_of(&with_section);
    groups
        .iter()
        .zip(&with_section)
        .map(|(group, label)| match uses[label.as_str()] {
            1 => label.clone(),
            _ => repeated(group.first).to_owned(),
        })
        .collect()
}

/// How often each label occurs.
fn uses_of(labels: &[String]) -> HashMap<&str, usize> {
    let mut uses = HashMap::new();
    for label in labels {
        *uses.entry(label.as_str()).or_insert(0) += 1;
    }
    uses
}

/// For each kind of work the parameters that are not the same in all of its groups.
fn differing_params<'a>(groups: &[Members<'a>]) -> HashMap<&'a str, BTreeSet<&'a str>> {
    /// A parameter: its value in the first group that has it, the groups that have that value.
    struct Seen<'a> {
        value: &'a str,
        groups: usize,
    }
    let mut kinds: HashMap<&str, (usize, BTreeMap<&str, Seen<'_>>)> = HashMap::new();
    for group in groups {
        let (count, params) = kinds.entry(&group.first.workload).or_default();
        *count += 1;
        for (name, value) in &group.first.params {
            let seen = params.entry(name).or_insert(Seen { value, groups: 0 });
            seen.groups += usize::from(seen.value == value);
        }
    }
    let differing = |(kind, (count, params)): (&'a str, (usize, BTreeMap<&'a str, Seen<'a>>))| {
        let differing = params.into_iter().filter(|(_, seen)| seen.groups != count);
        (kind, differing.map(|(name, _)| name).collect())
    };
    kinds.into_iter().map(differing).collect()
}

fn group(members: Members<'_>, label: String, names: &mut Names) -> Group {
    let Members {
        first,
        trials,
        places,
    } = members;
    let ids: Vec<Arc<str>> = trials.iter().map(|trial| Arc::from(trial.id.as_str())).collect();
    let usable = || trials.iter().filter(|trial| is_usable(trial));
    let measure = |name: &str, value: &dyn Fn(&Trial) -> Option<f64>| {
        let dots = trials.iter().zip(&ids).filter(|(trial, _)| is_usable(trial));
        let dots = dots.filter_map(|(trial, id)| {
            Some(Dot {
                trial: Arc::clone(id),
                value: value(trial).filter(|value| value.is_finite())?,
                status: trial.status_of(name),
            })
        });
        let mut dots: Vec<Dot> = dots.collect();
        dots.shrink_to_fit();
        measured(dots, || xxh3_64(format!("{label}/{name}").as_bytes()))
    };
    let metric_names: BTreeSet<&String> = usable().flat_map(|trial| trial.metrics.keys()).collect();
    let metrics = metric_names
        .into_iter()
        .filter_map(|name| {
            let value = |trial: &Trial| trial.metrics.get(name).copied();
            Some((names.shared(name), measure(name, &value)?))
        })
        .collect();
    let phases = phases_by_name(usable().copied())
        .into_iter()
        .filter_map(|(name, phases)| {
            let phase = |trial: &Trial| phases.get(trial.id.as_str()).copied();
            let speed = |trial: &Trial| Some(phase(trial)?.gb_per_s).filter(|&speed| speed > 0.0);
            Some(PhaseGroup {
                name: names.shared(name),
                seconds: measure(&format!("{name}.seconds"), &|trial| Some(phase(trial)?.seconds))?,
                gb_per_s: measure(&format!("{name}.gb_per_s"), &speed),
            })
        })
        .collect();
    Group {
        workload: first.workload.clone(),
        subject: first.subject.clone(),
        params: first.params.clone(),
        places,
        failed: trials.len() - usable().count(),
        untrustworthy: usable().count() > 0 && usable().all(|trial| trial.status != TrialStatus::Ok),
        trials: ids,
        metrics,
        phases,
        label,
    }
}

/// The first phase of each name in each of these trials, by the trial's id, in the order in which the names first occur.
fn phases_by_name<'a>(
    trials: impl Iterator<Item = &'a Trial>,
) -> Vec<(&'a str, HashMap<&'a str, &'a Phase>)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut names: Vec<(&str, HashMap<&str, &Phase>)> = Vec::new();
    for trial in trials {
        for phase in &trial.phases {
            let place = *places.entry(&phase.name).or_insert(names.len());
            if place == names.len() {
                names.push((&phase.name, HashMap::new()));
            }
            names[place].1.entry(&trial.id).or_insert(phase);
        }
    }
    names
}

/// Subject and class, then the other parameters that tell the groups apart.
fn label(trial: &Trial, headline: &BTreeSet<&str>) -> String {
    let mut label = trial.subject.clone();
    if let Some(class) = trial.params.get("class") {
        label.extend([" ", class]);
    }
    for (name, value) in &trial.params {
        // The subject may be a swept parameter too; the others follow from what was asked.
        let apart = matches!(
            name.as_str(),
            "class" | "subject" | "mechanism" | "library" | "fault-path"
        );
        if headline.contains(name.as_str()) && !apart {
            label.extend([" ", name, "=", value]);
        }
    }
    label
}

/// A value over its dots, with an interval resampled from `seed`, which is not asked for if there are too few dots for one;
/// `None` without dots.
pub fn measured(dots: Vec<Dot>, seed: impl FnOnce() -> u64) -> Option<Measured> {
    let values = summed_up(&dots);
    let seed = if values.len() < MIN_FOR_INTERVAL {
        0
    } else {
        seed()
    };
    let summary = summarise(&values, seed)?;
    Some(Measured { dots, summary })
}

fn summed_up(dots: &[Dot]) -> Vec<f64> {
    let dots = trusted(dots.iter().collect(), |dot| dot.status);
    dots.into_iter().map(|dot| dot.value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_model::recording::{FailureCode, TrialFailure};

    /// Repeats of one trial with these verdicts, each with its number as a value.
    fn repeats(statuses: &[TrialStatus]) -> Vec<Trial> {
        let repeat = |(number, &status): (usize, &TrialStatus)| Trial {
            id: format!("made-up#{}", number + 1),
            status,
            metrics: [("number".to_owned(), number as f64)].into(),
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
            let values = group.counted(&trials).into_iter();
            let values: Vec<f64> = values.map(|trial| trial.metrics["number"]).collect();
            assert_eq!(values, counted, "{statuses:?}");
            let summed_up = group.metrics.get("number").map(Measured::values);
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
        let counted = |trials: &[Trial]| groups(trials)[0].counted(trials).len();
        assert_eq!(counted(&trials), 1);
        assert_eq!(groups(&trials)[0].metrics["number"].values(), [0.0]);
        // The code decides, if there is one; a trial with two failures has more than that problem.
        let failure = |code| TrialFailure::new(code, &*trials[0].reasons[0]);
        let (not_run, trim) = (failure(FailureCode::NotRun), failure(FailureCode::Trim));
        for (failures, expected) in [
            (vec![not_run.clone()], 1),
            (vec![trim.clone()], 0),
            (vec![not_run, trim], 0),
        ] {
            let trial = Trial {
                failures,
                ..trials[0].clone()
            };
            assert_eq!(counted(&[trial]), expected);
        }
    }
}
