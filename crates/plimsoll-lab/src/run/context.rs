//! The context of a running trial: environment, workers, phases and the trial's record.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::Runner;
use super::phase::{Finished, Snapshot, Worked};
use super::trial_error::TrialError;
use crate::environment::{Cgroup, Environment, Missing, SwapDevice};
use crate::workload::protocol::{Command, IN_CORE, Placement, Reply};
use crate::workload::{PagerBudget, PagerRequest, TrialPool, Worker, WorkerError, WorkerOptions};
use plimsoll_model::exit::{Exit, Failure};
use plimsoll_model::quantity;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::recording::model::{Event, EventKind};
use plimsoll_model::scenario::{Backing, FillClass, ThpMode, TrialPlan};
use plimsoll_pager::pool::Limits;
use plimsoll_sample::{CgroupFiles, Target};

/// Where a trial runs.
pub(super) enum Surroundings<'a> {
    Made(&'a Environment),
    /// The machine as it is, without an environment, for lack of these.
    Lacking(Vec<Missing>),
}

pub(super) struct TrialContext<'a, 'l> {
    /// The run that it is a part of.
    pub(super) runner: &'a mut Runner<'l>,
    pub(super) plan: &'a TrialPlan,
    pub(super) surroundings: Surroundings<'a>,
    oom_kills_before: u64,
    /// The pool of its workers' pagers, if they share one, and the limits of a member.
    pool: Option<(TrialPool, Limits)>,
    pub(super) finished: Vec<Finished>,
    /// Whether the trial has verified every byte that it read back.
    pub(super) verified: bool,
    /// Errors that did not end the trial.
    pub(super) errors: Vec<TrialError>,
    /// Parameters that became known while it ran.
    pub(super) params: Vec<(String, String)>,
    /// Metrics with several values.
    pub(super) lists: Vec<(String, Vec<f64>)>,
}

impl<'a, 'l> TrialContext<'a, 'l> {
    pub(super) fn new(
        runner: &'a mut Runner<'l>,
        plan: &'a TrialPlan,
        surroundings: Surroundings<'a>,
    ) -> TrialContext<'a, 'l> {
        let mut context = TrialContext {
            runner,
            plan,
            surroundings,
            oom_kills_before: 0,
            pool: None,
            finished: Vec::new(),
            verified: false,
            errors: Vec::new(),
            params: Vec::new(),
            lists: Vec::new(),
        };
        context.oom_kills_before = context.oom_kills();
        context
    }

    pub(super) fn environment(&self) -> Option<&'a Environment> {
        match self.surroundings {
            Surroundings::Made(environment) => Some(environment),
            Surroundings::Lacking(_) => None,
        }
    }

    /// The cgroup of the trial's workers, if any.
    pub(super) fn cgroup(&self) -> Option<&'a Cgroup> {
        self.environment().and_then(Environment::cgroup)
    }

    /// Whether the trial runs as asked although it has no environment: a pager needs none.
    pub(super) fn needs_no_environment(&self) -> bool {
        let lacks_nothing =
            matches!(&self.surroundings, Surroundings::Lacking(missing) if missing.is_empty());
        lacks_nothing && self.is_paged()
    }

    /// Whether the worker's memory belongs to a pager.
    pub(super) fn is_paged(&self) -> bool {
        self.plan.settings.subject.pager().is_some()
    }

    /// Has the pagers of all workers that start from now on share one budget, the trial's limit, each within `limits`. Does
    /// nothing if the subject is no pager.
    pub(super) fn share_budget(&mut self, limits: Limits) -> Result<(), TrialError> {
        if !self.is_paged() {
            return Ok(());
        }
        let pool = TrialPool::new(self.plan.settings.limit);
        let pool = pool.map_err(|error| TrialError::new(Exit::Missing, FailureCode::Environment, error))?;
        self.pool = Some((pool, limits));
        Ok(())
    }

    /// The pager of a worker whose mappings have `bytes` in all at most; `None` if the subject is no pager.
    pub(super) fn pager(&self, bytes: u64) -> Option<PagerRequest> {
        let settings = &self.plan.settings;
        settings.subject.pager().map(|options| PagerRequest {
            budget: match &self.pool {
                Some((pool, limits)) => PagerBudget::Pool(pool.request(*limits)),
                None => PagerBudget::Own(settings.limit),
            },
            bytes,
            options: *options,
            folder: settings.swap_dir.clone(),
        })
    }

    /// Starts a worker in the trial's cgroup.
    pub(super) fn spawn(&mut self) -> Result<Worker, TrialError> {
        self.spawn_with(Vec::new())
    }

    /// Starts a worker in the trial's cgroup, in whose environment these variables are set or taken out.
    pub(super) fn spawn_with(
        &mut self,
        variables: Vec<(&'static str, Option<OsString>)>,
    ) -> Result<Worker, TrialError> {
        let cgroup = self.cgroup().map(|cgroup| cgroup.group().clone());
        self.runner.start_worker(&WorkerOptions {
            cgroup,
            neighbour: false,
            variables,
        })
    }

    /// Ends a worker, and waits for its end. Returns how long that took.
    pub(super) fn retire(&mut self, worker: Worker) -> Duration {
        self.runner.retire_worker(worker)
    }

    /// Watches these processes and the environment in the samples and the snapshots from now on.
    pub(super) fn watch(&mut self, pids: &[u32]) {
        let environment = self.environment();
        let target = Target {
            workers: pids.to_vec(),
            cgroup: self
                .cgroup()
                .map(|cgroup| CgroupFiles::of(cgroup.path(), cgroup.version())),
            zram: environment
                .and_then(Environment::swap_device)
                .and_then(SwapDevice::zram_name),
            swap_device: environment
                .and_then(Environment::swap_device)
                .map(|device| device.path.clone()),
            held: None,
        };
        self.runner.watch(Some(&target));
    }

    /// Has the samples find the pagers that these processes have by now: the command that fills
    /// a worker's memory makes its pager.
    pub(super) fn watch_pagers(&mut self, pids: &[u32]) {
        if self.is_paged() {
            self.watch(pids);
        }
    }

    /// A command that fills `bytes` with the trial's class of data, mapped in requests of `request` bytes.
    pub(super) fn fill(&self, bytes: u64, request: u64) -> Command {
        let settings = &self.plan.settings;
        Command::Fill {
            bytes,
            request,
            class: settings.class().cloned().unwrap_or(FillClass::Random),
            seed: self.seed(),
            thp: settings.thp().unwrap_or(ThpMode::System),
            placement: Placement {
                memory: settings.memory(),
                threads: settings.threads(),
                folder: match settings.memory() {
                    Backing::File => settings.swap_dir.clone(),
                    Backing::Anonymous | Backing::Memfd => PathBuf::new(),
                },
                file_bytes: 0,
                pager: self.pager(bytes),
            },
        }
    }

    /// A command that fills `bytes`, of which the last `file_bytes` are those of a file in `swap-dir`, in one mapping each.
    pub(super) fn fill_beside_file(&self, bytes: u64, file_bytes: u64) -> Command {
        let mut fill = self.fill(bytes, bytes);
        if let Command::Fill { placement, .. } = &mut fill
            && file_bytes > 0
        {
            placement.folder.clone_from(&self.plan.settings.swap_dir);
            placement.file_bytes = file_bytes;
        }
        fill
    }

    /// Bytes of the workers in their working sets: their anonymous memory, or all of it where the filled memory has files.
    pub(super) fn working_set(&self, snapshot: &Snapshot) -> u64 {
        snapshot.working_set(self.plan.settings.memory())
    }

    /// Bytes of a worker's filled memory that are in RAM, also where they are not mapped.
    pub(super) fn in_core(&mut self, worker: &mut Worker) -> Result<u64, TrialError> {
        let found = self.find(worker, &Command::InCore)?.findings;
        // The worker always finds it.
        Ok(found.values.get(IN_CORE).map_or(0, |bytes| *bytes as u64))
    }

    /// Carries out a command in a worker, and waits for its answer.
    pub(super) fn ask(&mut self, worker: &mut Worker, command: &Command) -> Result<Reply, TrialError> {
        worker
            .call(command, self.timeout(), self.runner.stop.flag())
            .map_err(|error| self.explain(&error))
    }

    /// Carries out a command whose reply has findings.
    pub(super) fn find(&mut self, worker: &mut Worker, command: &Command) -> Result<Worked, TrialError> {
        let reply = self.ask(worker, command)?;
        Worked::of_reply(reply)
    }

    /// Runs one phase. `number` is the event's number for people. The span in the recording includes the calls to
    /// the workers; the seconds are their own, around the work alone.
    pub(super) fn phase<W: Into<Worked>>(
        &mut self,
        name: &str,
        number: Option<u32>,
        work: impl FnOnce(&mut Self, &Snapshot) -> Result<W, TrialError>,
    ) -> Result<(), TrialError> {
        let trial = self.plan.id.clone();
        self.runner.progress.phase(&trial, name);
        let before = self.runner.snapshot()?;
        let mut event = Event {
            trial: Some(trial),
            phase: Some(name.to_owned()),
            number,
            ..Event::new(0, EventKind::PhaseStart, "")
        };
        let start = self.runner.recorder.event(event.clone())?;
        let worked = work(self, &before);
        event.kind = EventKind::PhaseEnd;
        if let Err(error) = &worked {
            event.text.clone_from(&error.failure.message);
        }
        let end = self.runner.recorder.event(event)?;
        let worked = worked?.into();
        let after = self.runner.snapshot()?;
        self.finished
            .push(Finished::new(name, (start, end), worked, before, after));
        Ok(())
    }

    /// Rests, so that the samples show the kernel's own activity. A stop ends the rest.
    pub(super) fn rest(&mut self, seconds: f64) -> Result<(), TrialError> {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        loop {
            self.go_on()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// Returns an error after a stop.
    pub(super) fn go_on(&self) -> Result<(), TrialError> {
        match self.runner.stop.cause() {
            Some(cause) => Err(TrialError::stopped(&cause)),
            None => Ok(()),
        }
    }

    /// The cause that ended a command, the most certain first: a stop, the OOM killer, the error.
    pub(super) fn explain(&self, error: &WorkerError) -> TrialError {
        if let Some(cause) = self.runner.stop.cause() {
            return TrialError::stopped(&cause);
        }
        match error {
            WorkerError::Died { .. } if self.oom_killed() > 0 => self.out_of_memory(),
            _ => TrialError::of_worker(error),
        }
    }

    /// Drops the findings of a killed worker, so that another can repeat the work from the first phase. The phase events
    /// stay in the recording.
    pub(super) fn restart(&mut self) {
        self.finished.clear();
        self.errors.clear();
        self.params.clear();
        self.lists.clear();
        self.verified = false;
        self.oom_kills_before = self.oom_kills();
    }

    /// Processes that the OOM killer has killed in the trial's cgroup since its start or the last restart.
    pub(super) fn oom_killed(&self) -> u64 {
        self.oom_kills().saturating_sub(self.oom_kills_before)
    }

    /// OOM kills in the environment's cgroup so far; 0 if unknown.
    fn oom_kills(&self) -> u64 {
        self.cgroup()
            .and_then(|cgroup| cgroup.oom_kills().ok())
            .unwrap_or(0)
    }

    /// An OOM kill in the trial's cgroup.
    pub(super) fn out_of_memory(&self) -> TrialError {
        let settings = &self.plan.settings;
        let advice = match self.foreign_swap() {
            Some(foreign) => format!(
                "pages of other cgroups take {} of its swap; stop the programs that the kernel swaps out",
                quantity::bytes(foreign as f64)
            ),
            None if settings.memory() == Backing::File || settings.subject.pager().is_some() => {
                "raise `limit`, or lower `size`".to_owned()
            }
            None => "raise `limit`, lower `size`, or choose a subject with more swap".to_owned(),
        };
        TrialError::new(
            Exit::Killed,
            FailureCode::OutOfMemory,
            format_args!(
                "the OOM killer ended the worker: it needs {}, its cgroup's limit is {} and the subject is `{}`; {advice}",
                quantity::bytes(settings.size() as f64),
                quantity::bytes(settings.limit as f64),
                settings.subject,
            ),
        )
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.plan.settings.phase_timeout)
    }

    /// The same bytes in the same repeat of every subject, other bytes in every repeat.
    pub(super) fn seed(&self) -> u64 {
        let seed = self.runner.manifest.plan.seed;
        seed.wrapping_add(u64::from(self.plan.repeat))
    }

    /// Notes a parameter that became known while the trial ran.
    pub(super) fn param(&mut self, name: &str, value: impl Into<String>) {
        self.params.push((name.to_owned(), value.into()));
    }

    pub(super) fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        self.runner.snapshot()
    }
}
