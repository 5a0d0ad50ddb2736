//! One trial: an environment is made, a worker goes through the phases, everything is undone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Laboratory;
use super::phase::Finished;
use crate::analysis;
use crate::environment::{Cgroup, Environment};
use crate::exit::{Exit, Failure};
use crate::recording::model::{Event, EventKind, Trial, TrialStatus};
use crate::scenario::{Settings, TrialPlan, TrimMechanism};
use crate::workload::protocol::{Command, Cost, Reply};
use crate::workload::{Worker, WorkerError};

/// Share of the size that must be in the working set after fill, and have left it after trim. Less means that
/// the phase did not do what its name says.
const REACHED: f64 = 0.95;

/// Why a trial is not ok, and how that ends the program.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) exit: Exit,
    pub(super) reason: String,
}

impl Trouble {
    pub(super) fn new(exit: Exit, reason: impl std::fmt::Display) -> Self {
        Trouble { exit, reason: reason.to_string() }
    }
}

/// What a trial leaves behind: its record, and how it ends the program.
pub(super) struct Ended {
    pub(super) trial: Trial,
    pub(super) exit: Exit,
}

/// A trial while it runs.
struct Running<'a> {
    plan: &'a TrialPlan,
    environment: Option<&'a Environment>,
    worker: Worker,
    oom_kills_before: u64,
    finished: Vec<Finished>,
    verified: bool,
    troubles: Vec<Trouble>,
}

impl Laboratory<'_> {
    /// Runs one trial from set-up to tear-down. A trial that goes wrong is a failed trial, not an error; an error
    /// is what ends the run (the recording cannot be written).
    pub(super) fn trial(&mut self, plan: &TrialPlan) -> Result<Ended, Failure> {
        let mut event = Event {
            t_ns: 0,
            kind: EventKind::TrialStart,
            trial: Some(plan.id.clone()),
            phase: None,
            number: None,
            text: String::new(),
        };
        let start = self.recorder.event(event.clone())?;
        let mut trial = new_trial(plan);
        let mut troubles = self.in_environment(plan, &mut trial);
        event.kind = EventKind::TrialEnd;
        trial.span_ns = (start, self.recorder.event(event)?);
        let exit = troubles.iter().map(|trouble| trouble.exit).max().unwrap_or(Exit::Done);
        trial.reasons = troubles.drain(..).map(|trouble| trouble.reason).collect();
        if !trial.reasons.is_empty() {
            trial.status = TrialStatus::Failed;
        }
        self.recorder.trial(&trial)?;
        Ok(Ended { trial, exit })
    }

    /// Makes the environment, runs the phases in it, and undoes it whatever happened.
    fn in_environment(&mut self, plan: &TrialPlan, trial: &mut Trial) -> Vec<Trouble> {
        let Some(session) = self.session.as_mut() else {
            return self.with_worker(plan, None, trial);
        };
        let environment = match Environment::prepare(session, &plan.settings) {
            Ok(environment) => environment,
            Err(error) => return vec![Trouble::new(Exit::Missing, error)],
        };
        trial.params.extend(environment.description());
        let mut troubles = self.with_worker(plan, Some(&environment), trial);
        self.watch(None);
        if let Some(session) = self.session.as_mut()
            && let Err(error) = environment.tear_down(session)
        {
            troubles.push(Trouble::new(Exit::WorkloadFailed, error));
        }
        troubles
    }

    /// Starts the worker in the environment and takes it through the phases.
    fn with_worker(
        &mut self,
        plan: &TrialPlan,
        environment: Option<&Environment>,
        trial: &mut Trial,
    ) -> Vec<Trouble> {
        let cgroup = environment.and_then(Environment::cgroup);
        let worker = match Worker::spawn(&self.executable, &cgroup.map(Cgroup::procs_paths).unwrap_or_default()) {
            Ok(worker) => worker,
            Err(error) => return vec![Trouble::new(Exit::Missing, error)],
        };
        self.watch(Some((worker.pid(), environment)));
        let mut running = Running {
            plan,
            environment,
            worker,
            oom_kills_before: cgroup.map_or(0, Cgroup::oom_kills),
            finished: Vec::new(),
            verified: false,
            troubles: Vec::new(),
        };
        if let Err(trouble) = running.compression(self) {
            running.troubles.push(trouble);
        }
        trial.verified = running.verified;
        trial.metrics = analysis::compression::metrics(&running.measured(), self.calibration.as_ref());
        trial.phases = running.finished.into_iter().map(|finished| finished.phase).collect();
        running.troubles
    }
}

impl Running<'_> {
    /// The memory eater: 1 fill, 2 trim, 3 restore, 4 release.
    fn compression(&mut self, lab: &mut Laboratory) -> Result<(), Trouble> {
        let settings = &self.plan.settings;
        let fill = Command::Fill {
            bytes: settings.size,
            request: settings.request,
            class: settings.class.clone(),
            seed: self.seed(lab.seed),
            thp: settings.thp,
        };
        self.phase(lab, "fill", 1, |running, lab| running.call(lab, &fill).map(|(cost, _)| cost))?;
        self.check_filled()?;
        hold(lab, settings.hold)?;
        match self.cannot_trim() {
            Some(reason) => self.troubles.push(Trouble::new(Exit::Missing, reason)),
            None => {
                self.phase(lab, "trim", 2, |running, lab| running.trim(lab))?;
                self.check_trimmed();
                hold(lab, settings.hold)?;
            }
        }
        self.phase(lab, "restore", 3, |running, lab| running.restore(lab))?;
        self.phase(lab, "release", 4, |running, lab| running.call(lab, &Command::Release).map(|(cost, _)| cost))?;
        Ok(())
    }

    fn phase(
        &mut self,
        lab: &mut Laboratory,
        name: &str,
        number: u32,
        work: impl FnOnce(&mut Self, &mut Laboratory) -> Result<Cost, Trouble>,
    ) -> Result<(), Trouble> {
        let id = &self.plan.id;
        let finished = lab.phase(id, name, Some(number), |lab, _| work(self, lab))?;
        self.finished.push(finished);
        Ok(())
    }
}

impl Running<'_> {
    /// Carries out a command in the worker.
    fn call(&mut self, lab: &Laboratory, command: &Command) -> Result<(Cost, Option<bool>), Trouble> {
        match self.worker.call(command, self.timeout(), lab.stop.flag()) {
            Ok(Reply::Done { cost, verification }) => {
                let verdict = verification.as_ref().map(|found| found.holds());
                if let Some(found) = verification.filter(|found| !found.holds()) {
                    self.troubles.push(Trouble::new(Exit::WorkloadFailed, wrong_bytes(&found)));
                }
                Ok((cost, verdict))
            }
            Ok(other) => Err(Trouble::new(Exit::WorkloadFailed, format_args!("the worker answered {other:?}"))),
            Err(error) => Err(self.explain(lab, error)),
        }
    }

    fn restore(&mut self, lab: &Laboratory) -> Result<Cost, Trouble> {
        let (cost, verdict) = self.call(lab, &Command::Restore)?;
        self.verified = verdict == Some(true);
        Ok(cost)
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.plan.settings.phase_timeout)
    }
}
