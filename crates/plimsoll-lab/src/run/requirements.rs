//! The requirements of a whole plan, checked before anything starts.

use std::collections::BTreeSet;

use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::{Warning, WarningCode};
use plimsoll_model::scenario::{Plan, Settings, Subject};
use plimsoll_sample::{Profiler, kernel_symbols};
use serde::Serialize;

use super::{check_sizes, fallback};
use crate::environment::{self, Missing, MissingKind, Session};
use plimsoll_model::scenario::Machine;

/// A missing requirement, and how many trials need it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lack {
    #[serde(flatten)]
    pub missing: Missing,
    pub trials: usize,
}

/// The missing requirements of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Requirements for lack of which the run is refused.
    pub refused: Vec<Lack>,
    /// Privileges for lack of which phases will not run.
    pub degraded: Vec<Lack>,
    /// Metrics that will be absent, and requirements that only the run can check.
    pub notes: Vec<String>,
    /// The settings with which the trials that lack nothing run.
    rest: Vec<String>,
    /// Trials that the run is refused for, and all.
    trials: (usize, usize),
}

/// A plan that this machine cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequirementsError {
    #[error(
        "cannot run `{scenario}` on this machine: {trials} of {of} trials lack a requirement:\n{}{}",
        listed(missing),
        without(rest)
    )]
    Missing {
        scenario: String,
        trials: usize,
        of: usize,
        missing: Vec<Lack>,
        /// Settings with which the other trials run.
        rest: Vec<String>,
    },
}

fn listed(missing: &[Lack]) -> String {
    let lines: Vec<String> = missing
        .iter()
        .map(|lack| format!("  - {}", lack.missing))
        .collect();
    lines.join("\n")
}

fn without(rest: &[String]) -> String {
    match rest {
        [] => String::new(),
        rest => {
            let options: Vec<String> = rest.iter().map(|change| format!("--set '{change}'")).collect();
            format!("\nto run the other trials: {}", options.join(" "))
        }
    }
}

/// Moves the trials on the default zram that this user cannot set up to a pager, and those on a missing one to a swap file.
/// Returns a warning for each kind of trials that moved, and for each section that left a subject out.
pub fn adapt(plan: &mut Plan) -> Vec<Warning> {
    let omitted = plan.omitted.iter();
    let omitted = omitted.map(|text| Warning::new(WarningCode::SubjectOmitted, text.clone()));
    let mut warnings: Vec<Warning> = omitted.collect();
    let lacks = |settings: &Settings, kinds: &[MissingKind]| {
        let missing = environment::missing(settings);
        missing.iter().any(|missing| kinds.contains(&missing.kind))
    };
    let to_pager = fallback::without_privilege(plan, |zram, pager| {
        zram.workload.kind().tests_pagers()
            && lacks(zram, &[MissingKind::Privilege, MissingKind::Cgroup])
            && environment::missing(pager).is_empty()
            && pager.check().is_ok()
    });
    let to_file = fallback::without_zram(plan, |settings| lacks(settings, &[MissingKind::Zram]));
    warnings.extend(to_pager.into_iter().chain(to_file));
    warnings
}

/// The missing requirements of a plan on this machine. Changes nothing.
pub fn requirements(plan: &Plan) -> Requirements {
    let mut found = of_plan(plan, environment::missing);
    if names_algorithms(plan) && !environment::zram_algorithms_known() && found.refused.is_empty() {
        found.notes.push(
            "the algorithms of zram are unknown until there is a zram device; a run checks them before its first trial"
                .to_owned(),
        );
    }
    found.notes.extend(missing_profile(plan));
    found
}

/// Refuses a plan with a missing requirement, and trials that violate the machine's reserve or do not fit their swap.
pub(super) fn refuse(plan: &Plan, machine: &Machine) -> Result<(), Failure> {
    of_plan(plan, environment::missing).refuse(plan)?;
    check_sizes(plan, machine)
}

/// Refuses a plan with an algorithm that zram lacks, if only a new device can tell.
pub(super) fn refuse_algorithms(plan: &Plan, session: &mut Session) -> Result<(), Failure> {
    let unknown = names_algorithms(plan) && !environment::zram_algorithms_known();
    if !unknown {
        return Ok(());
    }
    let known = session.zram_algorithms().or_exit(Exit::Missing)?;
    of_plan(plan, |settings| {
        environment::missing_beside(settings, Some(&known))
    })
    .refuse(plan)
}

fn names_algorithms(plan: &Plan) -> bool {
    let mut trials = plan.trials.iter();
    trials.any(|trial| matches!(&trial.settings.subject, Subject::Zram(Some(_))))
}

impl Requirements {
    /// # Errors
    /// [`Exit::Missing`] with every requirement that the run is refused for.
    pub fn refuse(&self, plan: &Plan) -> Result<(), Failure> {
        if self.refused.is_empty() {
            return Ok(());
        }
        let (trials, of) = self.trials;
        let error = RequirementsError::Missing {
            scenario: plan.scenario.clone(),
            trials,
            of,
            missing: self.refused.clone(),
            rest: self.rest.clone(),
        };
        Err(Failure::new(Exit::Missing, error))
    }
}

fn of_plan(plan: &Plan, missing: impl Fn(&Settings) -> Vec<Missing>) -> Requirements {
    let mut found = Requirements {
        trials: (0, plan.trials.len()),
        ..Requirements::default()
    };
    let mut refused_trials = BTreeSet::new();
    for trial in &plan.trials {
        for missing in missing(&trial.settings) {
            let refuses = missing.kind.refuses();
            let list = if refuses {
                &mut found.refused
            } else {
                &mut found.degraded
            };
            if refuses {
                refused_trials.insert(trial.id.as_str());
            }
            match list.iter_mut().find(|lack| lack.missing == missing) {
                Some(lack) => lack.trials += 1,
                None => list.push(Lack { missing, trials: 1 }),
            }
        }
    }
    found.trials.0 = refused_trials.len();
    found.rest = rest(plan, &refused_trials);
    found
}

/// The subjects of each section that lack nothing, as changes of the scenario; none if a section has no such subject.
fn rest(plan: &Plan, refused: &BTreeSet<&str>) -> Vec<String> {
    let mut sections: Vec<(&str, Vec<String>, bool)> = Vec::new();
    for trial in &plan.trials {
        let subject = trial.settings.subject.to_string();
        let lacking = refused.contains(trial.id.as_str());
        let section = match sections.iter_mut().find(|(name, ..)| *name == trial.section) {
            Some(section) => section,
            None => {
                sections.push((trial.section.as_str(), Vec::new(), false));
                sections.last_mut().expect("the section was just added")
            }
        };
        section.2 |= lacking;
        if !lacking && !section.1.contains(&subject) {
            section.1.push(subject);
        }
    }
    let mut rest = Vec::new();
    for (name, subjects, _) in sections.iter().filter(|(.., lacking)| *lacking) {
        // A subject whose other trials lack something is no remedy.
        let partly = |trial: &plimsoll_model::scenario::TrialPlan| {
            refused.contains(trial.id.as_str()) && subjects.contains(&trial.settings.subject.to_string())
        };
        if subjects.is_empty()
            || plan
                .trials
                .iter()
                .any(|trial| trial.section == *name && partly(trial))
        {
            return Vec::new();
        }
        let quoted: Vec<String> = subjects.iter().map(|subject| format!("\"{subject}\"")).collect();
        rest.push(format!("{name}.subject=[{}]", quoted.join(", ")));
    }
    rest
}

/// Whether the trials that take a CPU profile have none here, with the reason.
fn missing_profile(plan: &Plan) -> Option<String> {
    let mut workloads = plan.trials.iter().map(|trial| &trial.settings.workload);
    let profiled = workloads.find(|workload| workload.takes_cpu_profile())?;
    let profile = kernel_symbols().and_then(|symbols| Profiler::start(std::process::id(), &symbols));
    let error = profile.err()?;
    let name = profiled.kind().name();
    Some(format!("the trials of {name} have no CPU profile: {error}"))
}
