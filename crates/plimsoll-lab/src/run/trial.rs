//! One trial: an environment is made, a worker goes through the phases, everything is undone.

use std::collections::BTreeMap;
use std::time::Instant;

use super::context::{Surroundings, TrialContext};
use super::phase::Finished;
use super::recorder::plain_event;
use super::trial_error::{TrialError, lacking};
use super::{Runner, left_alone, workloads};
use crate::environment::{self, Environment};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::model::{Event, EventKind, Trial, TrialStatus};
use plimsoll_model::recording::{FailureCode, PhaseRows};

use plimsoll_model::quantity::ratio;
use plimsoll_model::scenario::TrialPlan;
use plimsoll_sample::Programs;

/// Programs outside of the run that a trial's record names, and the least share of all CPUs of one.
const MOST_PROGRAMS: usize = 5;
const TOLD_PERCENT: f64 = 0.5;

/// A trial that ended: its record, and its exit code.
pub(super) struct Ended {
    pub(super) trial: Trial,
    pub(super) exit: Exit,
}

impl Runner<'_> {
    /// Runs one trial from set-up to tear-down. A failed trial is not an error; an unwritable recording is.
    pub(super) fn trial(&mut self, plan: &TrialPlan) -> Result<Ended, Failure> {
        let mut event = Event {
            trial: Some(plan.id.clone()),
            ..plain_event(EventKind::TrialStart, "")
        };
        let background = self.start_background(plan);
        let start = self.recorder.event(event.clone())?;
        let mut trial = new_trial(plan);
        let others = Others::watch();
        self.start_neighbour()?;
        let mut errors = match background {
            Ok(background) => {
                let mut errors = self.in_environment(plan, &mut trial);
                errors.extend(background.and_then(|background| self.end_background(background, &mut trial)));
                errors
            }
            Err(error) => vec![error],
        };
        trial.metrics.extend(self.end_neighbour()?);
        trial.other_programs = others.percent(self.manifest.host.cpus);
        event.kind = EventKind::TrialEnd;
        trial.span_ns = (start, self.recorder.event(event)?);
        let exit = errors.iter().map(|error| error.exit).max().unwrap_or(Exit::Done);
        trial.failures = errors.drain(..).map(|error| error.failure).collect();
        let messages = trial.failures.iter().map(|failure| failure.message.clone());
        trial.reasons = messages.collect();
        if !trial.failures.is_empty() {
            trial.status = TrialStatus::Failed;
        }
        self.recorder.trial(&trial)?;
        Ok(Ended { trial, exit })
    }

    /// Makes the environment, runs the phases in it, and undoes it, also after an error.
    fn in_environment(&mut self, plan: &TrialPlan, trial: &mut Trial) -> Vec<TrialError> {
        let missing = environment::missing(&plan.settings);
        let session = match self.session.as_mut() {
            Some(session) if environment::can_prepare(&plan.settings) => session,
            // Here a cgroup could be made, so nothing is filled outside of one.
            Some(_) if !missing.is_empty() => {
                return vec![lacking(workloads::confined(&plan.settings.workload), &missing)];
            }
            _ => return self.work(plan, Surroundings::Lacking(missing), trial),
        };
        let environment = match Environment::prepare(session, &plan.settings) {
            Ok(environment) => environment,
            Err(error) => return vec![TrialError::new(Exit::Missing, FailureCode::Environment, error)],
        };
        let mut errors = match self.note_environment(plan, &environment) {
            Ok(()) => self.work(plan, Surroundings::Made(&environment), trial),
            Err(failure) => vec![failure.into()],
        };
        self.watch(None);
        errors.extend(self.tear_down(environment));
        errors
    }

    /// Records the environment as read back from the kernel.
    fn note_environment(&mut self, plan: &TrialPlan, environment: &Environment) -> Result<(), Failure> {
        let text = serde_json::to_string(environment.description()).or_exit(Exit::WorkloadFailed)?;
        self.progress
            .detail(format_args!("{}: {}", plan.id, environment.description()));
        let mut event = plain_event(EventKind::Environment, text);
        event.trial = Some(plan.id.clone());
        self.recorder.event(event).map(drop)
    }

    fn tear_down(&mut self, environment: Environment) -> Option<TrialError> {
        let undone = environment.tear_down(self.session.as_mut()?);
        match undone {
            Ok(report) => {
                let warned = report
                    .left_alone
                    .iter()
                    .try_for_each(|left| self.warn(left_alone(left)));
                warned.err().map(TrialError::from)
            }
            Err(error) => Some(TrialError::failed(FailureCode::Undo, error)),
        }
    }

    /// Runs the trial's workload, and fills the trial's record.
    fn work(
        &mut self,
        plan: &TrialPlan,
        surroundings: Surroundings<'_>,
        trial: &mut Trial,
    ) -> Vec<TrialError> {
        let mut context = TrialContext::new(self, plan, surroundings);
        let ended = workloads::run(&mut context, &plan.settings.workload);
        let TrialContext {
            finished,
            verified,
            mut errors,
            params,
            lists,
            ..
        } = context;
        if let Err(error) = ended {
            // The error that ended it comes first.
            errors.insert(0, error);
        }
        trial.params.extend(params);
        trial.lists.extend(lists);
        trial.verified = verified;
        let rows: Vec<PhaseRows> = finished.iter().map(Finished::rows).collect();
        trial.phases = finished.into_iter().map(|finished| finished.phase).collect();
        trial.metrics =
            (self.services.metrics)(trial, &plan.settings, &rows, self.manifest.calibration.as_ref());
        errors
    }
}

/// The programs outside of the run since the start of a trial.
struct Others {
    start: Instant,
    before: Programs,
}

impl Others {
    fn watch() -> Others {
        Others {
            start: Instant::now(),
            before: Programs::now(),
        }
    }

    /// Their CPU time in percent of all CPUs: the first few that used at least [`TOLD_PERCENT`].
    fn percent(&self, cpus: u32) -> Vec<(String, f64)> {
        let all_us = self.start.elapsed().as_secs_f64() * 1e6 * f64::from(cpus);
        let spent = Programs::now().others_since(&self.before, std::process::id());
        let shares = spent
            .into_iter()
            .filter_map(|(name, us)| Some((name, ratio(100.0 * us as f64, all_us)?)));
        shares
            .take(MOST_PROGRAMS)
            .take_while(|(_, percent)| *percent >= TOLD_PERCENT)
            .collect()
    }
}

/// The record of a trial of which nothing has run.
fn new_trial(plan: &TrialPlan) -> Trial {
    let settings = &plan.settings;
    let mut params: BTreeMap<String, String> = plan.params.iter().cloned().collect();
    for (name, value) in settings.workload.params(settings) {
        params.insert(name.to_owned(), value);
    }
    if let Some(level) = settings.background {
        params.insert("background".to_owned(), level.to_string());
    }
    Trial {
        id: plan.id.clone(),
        workload: settings.workload.kind().name().to_owned(),
        subject: settings.subject.to_string(),
        params,
        repeat: plan.repeat,
        status: TrialStatus::Ok,
        reasons: Vec::new(),
        untrustworthy: BTreeMap::new(),
        failures: Vec::new(),
        other_programs: Vec::new(),
        verified: false,
        span_ns: (0, 0),
        phases: Vec::new(),
        metrics: BTreeMap::new(),
        lists: BTreeMap::new(),
    }
}
