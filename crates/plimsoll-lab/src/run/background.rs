//! The background of a trial: a level of memory that a worker holds on the machine, from before the first phase until
//! the end of the last.

use std::time::{Duration, Instant};

use super::Runner;
use super::trial_error::TrialError;
use crate::environment::Trip;
use crate::hold::{Background, Ending, HoldError, Summary, time_to_reach};
use crate::workload::Worker;
use plimsoll_model::exit::Exit;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::recording::background::{CPU, HELD, WITHIN};
use plimsoll_model::recording::model::Trial;
use plimsoll_model::scenario::{Machine, Plan, TrialPlan};
use plimsoll_proc::PidStat;

/// Time between two looks at a level that is not reached yet.
const LOOK: Duration = Duration::from_millis(50);

/// Why a background was not held to the end of its trial.
#[derive(Debug, thiserror::Error)]
enum BackgroundError {
    #[error("cannot hold the background: {0}")]
    Hold(#[from] HoldError),
    #[error("cannot hold the background for the whole trial: {0}; give a lower level")]
    Reserve(Trip),
    #[error("cannot reach the background within {:.0} s; raise `phase-timeout`, or give a lower level", .0.as_secs_f64())]
    Timeout(Duration),
}

impl From<BackgroundError> for TrialError {
    fn from(error: BackgroundError) -> TrialError {
        let exit = match &error {
            BackgroundError::Hold(HoldError::Killed { .. }) => Exit::Killed,
            BackgroundError::Hold(_) | BackgroundError::Reserve(_) => Exit::Missing,
            BackgroundError::Timeout(_) => Exit::WorkloadFailed,
        };
        TrialError::new(exit, FailureCode::Background, error)
    }
}

/// Longest time that the backgrounds of a plan should take to be reached.
pub(super) fn time(plan: &Plan, machine: &Machine) -> Duration {
    let levels = plan.trials.iter().filter_map(|trial| trial.settings.background);
    levels.map(|level| time_to_reach(level, machine)).sum()
}

impl Runner<'_> {
    /// Begins the level of a trial, if it has one, and waits until the machine is there.
    pub(super) fn start_background(&mut self, plan: &TrialPlan) -> Result<Option<Background>, TrialError> {
        let Some(level) = plan.settings.background else {
            return Ok(None);
        };
        self.progress.phase(&plan.id, "background");
        let background = Background::begin(level, |options| {
            Worker::spawn(&self.executable, options).map_err(HoldError::Worker)
        })
        .map_err(BackgroundError::from)?;
        self.background = Some(background.pid());
        if let Some(session) = self.session.as_mut() {
            session
                .process_started(background.pid())
                .map_err(|error| TrialError::new(Exit::Missing, FailureCode::WorkerStart, error))?;
        }
        let limit = Duration::from_secs_f64(plan.settings.phase_timeout);
        let start = Instant::now();
        let failed = loop {
            if let Some(cause) = self.stop.cause() {
                break TrialError::stopped(&cause);
            }
            if background.has_ended() || start.elapsed() > limit {
                break BackgroundError::Timeout(limit).into();
            }
            if background.has_reached() {
                return Ok(Some(background));
            }
            std::thread::sleep(LOOK);
        };
        // If it ended by itself, it knows better.
        Err(self
            .retire_background(background)
            .err()
            .map_or(failed, TrialError::from))
    }

    /// Ends the level of a trial, and adds its metrics to the trial. Returns the error of a level that ended before.
    pub(super) fn end_background(&mut self, background: Background, trial: &mut Trial) -> Option<TrialError> {
        match self.retire_background(background) {
            Ok(summary) => {
                trial.metrics.extend(metrics(&summary));
                None
            }
            Err(error) => Some(error.into()),
        }
    }

    fn retire_background(&mut self, background: Background) -> Result<Summary, BackgroundError> {
        self.background = None;
        let (worker, held) = background.end();
        if let Some(worker) = worker {
            self.retire_worker(worker);
        }
        match held? {
            (_, Ending::Reserve(trip)) => Err(BackgroundError::Reserve(trip)),
            (summary, Ending::Elapsed | Ending::Stopped) => Ok(summary),
        }
    }

    /// CPU seconds of the worker that holds the background so far; 0 without one.
    pub(super) fn background_cpu_s(&self) -> f64 {
        let mut buffer = Vec::new();
        let stat = self
            .background
            .and_then(|pid| PidStat::read(pid, &mut buffer).ok());
        stat.map_or(0.0, |stat| (stat.user_us + stat.system_us) as f64 / 1e6)
    }
}

fn metrics(summary: &Summary) -> impl Iterator<Item = (String, f64)> {
    let reached = summary.reached_s.is_some();
    let known = [
        (HELD, reached.then_some(summary.held.mean)),
        (WITHIN, summary.within().map(|share| 100.0 * share)),
        (CPU, summary.cpu_percent),
    ];
    known
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WorkerError;

    #[test]
    fn a_background_that_is_not_held_fails_its_trial() {
        let trip = Trip::Reserve {
            available: 1,
            reserve: 2,
        };
        let died = WorkerError::Died {
            status: None,
            signal: Some(9),
        };
        let killed = HoldError::Killed {
            held: 1,
            source: died,
        };
        let too_much = HoldError::Reserve { left: 1, reserve: 2 };
        for (error, exit) in [
            (BackgroundError::Reserve(trip), Exit::Missing),
            (BackgroundError::Hold(too_much), Exit::Missing),
            (BackgroundError::Hold(killed), Exit::Killed),
            (
                BackgroundError::Timeout(Duration::from_secs(1)),
                Exit::WorkloadFailed,
            ),
        ] {
            let failed = TrialError::from(error);
            assert_eq!(
                (failed.exit, failed.failure.code),
                (exit, FailureCode::Background)
            );
        }
    }
}
