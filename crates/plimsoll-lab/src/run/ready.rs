//! A run that has the machine and has not begun, so that its caller can look at the machine first.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::recording::{Warning, WarningCode};
use plimsoll_sample::command_line;
use plimsoll_sample::stop::Stop;

use super::time_limit::TimeLimit;
use super::{
    Options, Outcome, Progress, Runner, Services, background, check_room, check_settings, check_sizes,
    requirements, run_name,
};
use crate::environment::{self, EnvironmentError, Session};

/// A run before its first change and its recording. Its drop gives the machine away.
#[derive(Debug)]
pub struct Ready {
    options: Options,
    name: String,
    /// The right to change this machine; `None` where no trial can be done as asked.
    session: Option<Session>,
    stop: Arc<Stop>,
    warnings: Vec<Warning>,
}

impl Ready {
    /// Checks a plan, and takes the machine, for which it waits as long as the options say.
    ///
    /// # Errors
    /// When this machine cannot run the plan, or is not free in time; a signal.
    pub fn take_machine(mut options: Options, progress: &dyn Progress) -> Result<Ready, Failure> {
        let stop = Stop::install()
            .map_err(|error| anyhow::anyhow!("cannot take over signals: {error}"))
            .or_exit(Exit::Missing)?;
        let warnings = requirements::adapt(&mut options.plan);
        check_settings(&options.plan)?;
        match options.wait {
            None => requirements::refuse(&options.plan, &options.machine)?,
            Some(_) => requirements::requirements(&options.plan).refuse(&options.plan)?,
        }
        let name = run_name(&options.plan.scenario);
        let session = open_session(&options, &name, &stop, progress)?;
        Ok(Ready {
            options,
            name,
            session,
            stop,
            warnings,
        })
    }

    /// Whether it has the machine. A run without it changes nothing.
    pub fn has_machine(&self) -> bool {
        self.session.is_some()
    }

    /// Whether a signal has asked it to stop. Its run then ends at once.
    pub fn is_stopped(&self) -> bool {
        self.stop.requested()
    }

    /// Gives the machine away for some work, such as a cleanup, and takes it again.
    ///
    /// # Errors
    /// Those of the work; when the machine is not free again in time; a signal.
    pub fn without_machine(
        mut self,
        work: impl FnOnce() -> Result<(), Failure>,
        progress: &dyn Progress,
    ) -> Result<Ready, Failure> {
        drop(self.session.take());
        work()?;
        self.session = open_session(&self.options, &self.name, &self.stop, progress)?;
        Ok(self)
    }

    /// Makes the recording's folder in another one than that of the options.
    pub fn set_output(&mut self, output: PathBuf) {
        self.options.output = output;
    }

    /// Runs the plan and leaves the machine as it was.
    ///
    /// # Errors
    /// When the run cannot start or cannot write its recording. A failed trial is in the results.
    pub fn run(mut self, services: &Services, progress: &mut dyn Progress) -> Result<Outcome, Failure> {
        self.check()?;
        let Ready {
            options,
            name,
            session,
            stop,
            warnings,
        } = self;
        let mut runner = Runner::open(&options, name, session, stop, services, progress)?;
        for warning in warnings {
            runner.warn(warning)?;
        }
        let limit = Duration::from_secs_f64(options.plan.time_limit())
            .saturating_add(background::time(&options.plan, &options.machine));
        let limit = TimeLimit::start(limit, Arc::clone(&runner.stop));
        let ran = limit.and_then(|_limit| runner.go(&options.plan));
        runner.conclude(ran)
    }

    /// Checks the requirements that only the owner of the machine can, and adds warnings.
    fn check(&mut self) -> Result<(), Failure> {
        let options = &mut self.options;
        if let Some(session) = &mut self.session {
            requirements::refuse_algorithms(&options.plan, session)?;
        }
        if options.wait.is_some() {
            // The memory of the other run is free again.
            options.machine = environment::machine().or_exit(Exit::Missing)?;
            check_sizes(&options.plan, &options.machine)?;
        }
        let place = options.resume.as_ref().unwrap_or(&options.output);
        self.warnings
            .extend(check_room(&options.plan, place, options.size)?);
        let Some(session) = &self.session else {
            return Ok(());
        };
        for run in session.dead_runs().or_exit(Exit::Missing)? {
            self.warnings.push(Warning::new(
                WarningCode::KilledRun,
                format!(
                    "the killed run {run} left changes on this machine; undo them with `plimsoll cleanup`"
                ),
            ));
        }
        Ok(())
    }
}

/// Takes the machine lock, if at least one trial can run.
fn open_session(
    options: &Options,
    name: &str,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Session>, Failure> {
    let possible = options
        .plan
        .trials
        .iter()
        .any(|trial| environment::can_prepare(&trial.settings));
    if !possible {
        return Ok(None);
    }
    let command = command_line();
    let opened = match (Session::open(name, &command, None, stop.flag()), options.wait) {
        (Err(EnvironmentError::Busy { holder, .. }), Some(_)) => {
            progress.warn(&format!("waiting for {holder} to end"));
            Session::open(name, &command, options.wait, stop.flag())
        }
        (opened, _) => opened,
    };
    opened
        .map(Some)
        .or_exit(stop.cause().map_or(Exit::Missing, |cause| cause.exit()))
}
