//! The groups of a run that differ in one thing alone: the candidates for a recommendation.

use std::collections::{BTreeMap, HashMap};

use crate::analysis::Group;
use plimsoll_model::recording::model::TrialStatus;
use plimsoll_model::scenario::{FillClass, Plan, Settings, Subject, WorkloadKind};

/// A group with the settings of its trials.
pub(super) struct Measurement<'a> {
    pub(super) group: &'a Group,
    pub(super) settings: &'a Settings,
}

/// Groups that are alike but for their candidate.
pub(super) struct Stratum<'a> {
    pub(super) workload: WorkloadKind,
    /// Content of the filled memory.
    pub(super) class: Option<&'a FillClass>,
    /// Whether the workload visits pages of a file beside anonymous ones.
    pub(super) visits_file: bool,
    /// The parameters that all candidates share.
    pub(super) conditions: BTreeMap<String, String>,
    /// By name.
    pub(super) candidates: Vec<Candidate<'a>>,
    /// Candidates whose trials all failed.
    pub(super) failed: Vec<String>,
}

/// A value of the thing that differs, with its groups: several of sections that are alike.
#[derive(Clone)]
pub(super) struct Candidate<'a> {
    pub(super) name: String,
    pub(super) groups: Vec<&'a Group>,
}

/// The repeats of one metric of a candidate.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Repeats {
    pub(super) trustworthy: Vec<f64>,
    pub(super) untrustworthy: usize,
    /// Trials that did not fail and lack the metric.
    pub(super) without: usize,
}

impl Candidate<'_> {
    pub(super) fn repeats(&self, metric: &str) -> Repeats {
        let mut repeats = Repeats::default();
        for group in &self.groups {
            let dots = group
                .metrics
                .get(metric)
                .map_or(&[][..], |measured| measured.dots.as_slice());
            let trusted = dots.iter().filter(|dot| dot.status == TrialStatus::Ok);
            let before = repeats.trustworthy.len();
            repeats.trustworthy.extend(trusted.map(|dot| dot.value));
            repeats.untrustworthy += dots.len() - (repeats.trustworthy.len() - before);
            repeats.without += (group.trials.len() - group.failed).saturating_sub(dots.len());
        }
        // Whichever order the trials ran in.
        repeats.trustworthy.sort_by(f64::total_cmp);
        repeats
    }
}

/// Whether the data stand for a program's: the user's own bytes, or a mixture of the stated ratio. The other classes are
/// extremes and patterns that no program has.
pub(super) fn stands_for_data(class: &FillClass) -> bool {
    matches!(class, FillClass::Ratio(_) | FillClass::File(_))
}

/// The groups whose trials the plan lists.
pub(super) fn measurements<'a>(groups: &'a [Group], plan: &'a Plan) -> Vec<Measurement<'a>> {
    let planned: HashMap<&str, &Settings> = plan
        .trials
        .iter()
        .map(|trial| (trial.id.as_str(), &trial.settings))
        .collect();
    let measured = groups.iter().filter_map(|group| {
        let settings = planned.get(&**group.trials.first()?)?;
        Some(Measurement { group, settings })
    });
    measured.collect()
}

/// The name of a candidate and the settings without it; `None` if the measurement has none.
pub(super) type Split = fn(&Settings) -> Option<(String, Settings)>;

/// The strata of the measurements, in the order in which they first occur. `param` is the name of the parameter that differs.
pub(super) fn strata<'a>(measured: &[Measurement<'a>], param: &str, split: Split) -> Vec<Stratum<'a>> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut strata: Vec<Stratum<'a>> = Vec::new();
    for one in measured {
        let Some((name, shared)) = split(one.settings) else {
            continue;
        };
        // The folder of a swap file is part of the subject.
        let shared = Settings {
            swap_dir: Default::default(),
            ..shared
        };
        // Settings have no map with keys other than text, so that they always have a document.
        let Ok(key) = serde_json::to_string(&shared) else {
            continue;
        };
        let place = *places.entry(key).or_insert(strata.len());
        if place == strata.len() {
            strata.push(Stratum {
                workload: one.settings.workload.kind(),
                class: one.settings.class(),
                visits_file: one.settings.visits_file(),
                conditions: conditions(one.group, param),
                candidates: Vec::new(),
                failed: Vec::new(),
            });
        }
        let stratum = &mut strata[place];
        if one.group.failed == one.group.trials.len() {
            stratum.failed.push(name);
            continue;
        }
        match stratum
            .candidates
            .iter_mut()
            .find(|candidate| candidate.name == name)
        {
            Some(known) => known.groups.push(one.group),
            None => stratum.candidates.push(Candidate {
                name,
                groups: vec![one.group],
            }),
        }
    }
    for stratum in &mut strata {
        stratum.candidates.sort_by(|a, b| a.name.cmp(&b.name));
    }
    strata
}

/// The parameters of a group that are settings, without the one that differs.
fn conditions(group: &Group, param: &str) -> BTreeMap<String, String> {
    let mut conditions = group.params.clone();
    // The mechanism follows from the settings.
    conditions.retain(|name, _| name != param && name != "mechanism");
    if param != "subject" {
        conditions.insert("subject".to_owned(), group.subject.clone());
    }
    conditions
}

/// The subject as the candidate. No command makes a program use a pager, or another allocator.
pub(super) fn by_subject(settings: &Settings) -> Option<(String, Settings)> {
    let own = &settings.subject;
    let is_setting = own.allocator().is_none() && own.pager().is_none();
    is_setting.then(|| (own.to_string(), settings.with_subject(Subject::NoSwap)))
}
