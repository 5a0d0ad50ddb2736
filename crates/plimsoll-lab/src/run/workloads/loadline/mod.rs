//! One worker visits its memory, at one load after the other, until the knee is found.
//!
//! Each load is a point: a fresh worker fills its memory, warms up, and is measured; then every page is checked. It begins
//! when the cgroup holds nothing of the worker before. The load changes the size or, with a fixed working set, the limit. A
//! point records that the OOM killer ended its worker: that is a result of the load.
//!
//! A kill that says nothing about the load gets it another worker: see [`kill`].
//!
//! With `file-percent`, a part of the visited pages is that of a file without a name, which the worker writes back to the
//! disk before it warms up. Then the kernel takes pages from the page cache and from anonymous memory, as `vm.swappiness`
//! weighs them.

mod cpu_time;
mod kill;
mod own_cost;
mod pace;
mod pattern;
mod search;
mod tally;
mod values;
mod visit;
mod visitor;
mod visitors;
mod words;

use std::time::Duration;

use crate::environment::{Environment, file_system};

use crate::run::context::{Surroundings, TrialContext};
use crate::run::phase::{Snapshot, Worked};
use crate::run::swap_use::SwapPeak;
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::Findings;
use crate::workload::protocol::{Command, Reply};
use crate::workload::{PagerBudget, Worker, WorkerError};
use kill::{KillCause, cause_of_kill};
use plimsoll_model::exit::Exit;
use plimsoll_model::recording::{FailureCode, Warning, WarningCode};
use plimsoll_model::scenario::workloads::finding::OVER_BUDGET;
use plimsoll_model::scenario::workloads::loadline::Point;
use plimsoll_model::scenario::workloads::loadline::finding::{
    ACHIEVED, EARLY_KILLS, KILLED, LIMIT, LOAD, SIZE, VISITS,
};
use plimsoll_model::scenario::{Loadline, WorkloadKind};
use search::next_load;
use values::{Stretch, net, store_bytes};
use visit::Visit;
use visitors::Preparation;

pub(super) use visit::Visits as Requests;

/// The part of a trial that needs an environment.
pub(super) const CONFINED: &str = "loadline";

/// Workers that a load gets at most: a kill that comes too early is rare, three at one load are the load's doing.
pub(super) const TRIES: u32 = 3;
/// Pause between two looks at the swap while a worker works.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// State that the points of a trial share.
struct Sweep<'a> {
    loadline: &'a Loadline,
    /// Steps of computing after a visit, once the first worker has found them.
    steps: Option<u64>,
    /// Bytes that compressed stores took before the trial.
    store_before: i64,
    /// The most swap that was seen in use during a try.
    swap: SwapPeak,
    /// Workers that the OOM killer has ended at the present load although it was not the load's doing.
    early_kills: u32,
    /// The largest load that a worker completed so far.
    completed: f64,
}

pub(super) fn run(context: &mut TrialContext<'_, '_>, loadline: &Loadline) -> Result<(), TrialError> {
    if let Surroundings::Lacking(missing) = &context.surroundings
        && !context.needs_no_environment()
    {
        // Outside of a cgroup nothing is over a limit.
        return Err(lacking("loadline", missing));
    }
    if loadline.file_percent > 0
        && let Some(file_system) = file_system(&context.plan.settings.swap_dir)
    {
        context.param("file-system", file_system);
    }
    let before = context.snapshot()?;
    let mut sweep = Sweep {
        loadline,
        steps: None,
        store_before: store_bytes(&context.plan.settings.subject, &before),
        swap: SwapPeak::default(),
        early_kills: 0,
        completed: 0.0,
    };
    let mut points: Vec<Point> = Vec::new();
    let mut early_kills = 0;
    let mut achieved = None;
    while let Some(load) = next_load(&points, loadline) {
        let again = points.iter().any(|point| point.load == load);
        sweep.point(context, load, again)?;
        early_kills += sweep.early_kills;
        let values = context.finished.last().map(|finished| &finished.phase.values);
        // Of the first, lowest load.
        achieved = achieved.or(values.and_then(|values| values.get(ACHIEVED).copied()));
        let point = values.and_then(Point::of);
        let point =
            point.ok_or_else(|| TrialError::failed(FailureCode::Inconsistent, "a point has no values"))?;
        if !point.killed {
            sweep.completed = sweep.completed.max(load);
        }
        points.push(point);
    }
    if early_kills > 0 {
        let text = format!(
            "{}: the OOM killer ended the worker {early_kills} times although its swap was free or a larger load was \
             completed; each load was tried up to {TRIES} times",
            context.plan.id,
        );
        context.runner.warn(Warning::new(WarningCode::EarlyKill, text))?;
    }
    if let (Some(rate), Some(achieved)) = (loadline.rate, achieved)
        && achieved < loadline.target_work
    {
        let text = format!(
            "{}: at the lowest load, {:.0}% of the {rate} visits a second that were due were made; lower `rate` or \
             `compute`, or raise `threads`",
            context.plan.id,
            100.0 * achieved,
        );
        context.runner.warn(Warning::new(WarningCode::Overload, text))?;
    }
    // A wrong page has ended the trial before.
    context.verified = points.iter().any(|point| !point.killed);
    Ok(())
}

impl Sweep<'_> {
    /// Measures at one load (`again` for a repetition), with another worker after an early kill.
    fn point(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        load: f64,
        again: bool,
    ) -> Result<(), TrialError> {
        let again = if again { " again" } else { "" };
        let name = format!("{}{again}", self.loadline.phase(load));
        self.early_kills = 0;
        loop {
            context.drain()?;
            self.set_limit(context, load)?;
            let mut worker = context.spawn()?;
            context.watch(&[worker.pid()]);
            self.swap = SwapPeak::default();
            let measured = self.visit(context, &mut worker, load, &name);
            context.retire(worker);
            if measured? {
                return Ok(());
            }
        }
    }

    /// Sets the limit of the cgroup, which is empty, where the working set is the same at every load.
    fn set_limit(&self, context: &TrialContext<'_, '_>, load: f64) -> Result<(), TrialError> {
        let settings = &context.plan.settings;
        let (_, limit) = self.loadline.size_and_limit(load, settings.limit);
        let limit = settings.cgroup_limit_of(limit);
        let Some(cgroup) = context.cgroup().filter(|_| self.loadline.working_set.is_some()) else {
            return Ok(());
        };
        let set = match settings.subject.has_swap() {
            true => cgroup.set_limit(limit, context.timeout(), context.runner.stop.flag()),
            false => cgroup.set_limit_without_swap(limit, context.timeout(), context.runner.stop.flag()),
        };
        set.map_err(|error| TrialError::failed(FailureCode::Limit, error))
    }

    /// One try; false after an early kill.
    fn visit(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        worker: &mut Worker,
        load: f64,
        phase: &str,
    ) -> Result<bool, TrialError> {
        let (size, limit) = self.loadline.size_and_limit(load, context.plan.settings.limit);
        let own = self.prepare(context, worker, (size, limit))?;
        if own.is_none() && self.is_tried_again(context, load)? {
            return Ok(false);
        }
        let mut counts = true;
        let ended = context.phase(phase, None, |context, before| {
            let measured = match &own {
                Some(_) => self.measure(context, worker, before, (size, limit))?,
                None => None,
            };
            if own.is_some() && measured.is_none() && self.is_tried_again(context, load)? {
                counts = false;
                // A phase that does not count is none: its end says why.
                return Err(TrialError::failed(
                    FailureCode::OutOfMemory,
                    "the OOM killer ended the worker, which was not the load's doing",
                ));
            }
            let mut worked = measured.unwrap_or_else(killed);
            let findings = &mut worked.findings;
            findings.set(EARLY_KILLS, f64::from(self.early_kills));
            findings.values.extend(own.into_iter().flat_map(|own| own.values));
            findings.set(LOAD, load);
            findings.set(SIZE, size as f64);
            findings.set(LIMIT, limit as f64);
            net(findings, self.loadline);
            Ok(worked)
        });
        if !counts {
            return Ok(false);
        }
        ended.map(|()| true)
    }

    /// Counts a kill that was not the load's doing; true where the load has another try, false where the kill is its
    /// result. An error where it is neither.
    fn is_tried_again(&mut self, context: &TrialContext<'_, '_>, load: f64) -> Result<bool, TrialError> {
        let device = context.environment().and_then(Environment::swap_device);
        let cause = cause_of_kill(self.swap, device.map(|device| device.size), load, self.completed);
        self.early_kills += u32::from(cause != KillCause::Load);
        match cause {
            KillCause::Load => Ok(false),
            _ if self.early_kills < TRIES => Ok(true),
            // Three at one load are the load's doing.
            KillCause::Early => Ok(false),
            KillCause::Disturbance => {
                let beyond = match self.completed > load {
                    true => format!(" and load {} was completed", self.completed),
                    false => String::new(),
                };
                Err(TrialError::new(
                    Exit::Killed,
                    FailureCode::OutOfMemory,
                    format_args!(
                        "cannot measure load {load}: the OOM killer ended {TRIES} workers in a row though their own swap was \
                         not full{beyond}; stop the programs that the kernel swaps out, or raise `limit`"
                    ),
                ))
            }
        }
    }

    /// Carries out a command; `None` if the OOM killer ended the worker. Looks at the swap meanwhile.
    fn ask(
        &mut self,
        context: &TrialContext<'_, '_>,
        worker: &mut Worker,
        command: &Command,
    ) -> Result<Option<Reply>, TrialError> {
        let killed_before = context.oom_killed();
        worker.send(command).map_err(|error| context.explain(&error))?;
        let mut left = context.timeout();
        loop {
            match worker.answer(LOOK_EVERY.min(left), context.runner.stop.flag()) {
                Ok(reply) => return Ok(Some(reply)),
                Err(WorkerError::Timeout { .. }) if left > LOOK_EVERY => left -= LOOK_EVERY,
                Err(WorkerError::Timeout { .. }) => {
                    let limit = context.timeout();
                    return Err(context.explain(&WorkerError::Timeout { limit }));
                }
                Err(WorkerError::Died { .. })
                    if context.oom_killed() > killed_before && context.go_on().is_ok() =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(context.explain(&error)),
            }
            self.swap.look(context, worker);
        }
    }

    /// Has the worker fill its memory and warm up. Returns its findings, or `None` after an OOM kill.
    fn prepare(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        worker: &mut Worker,
        (size, limit): (u64, u64),
    ) -> Result<Option<Findings>, TrialError> {
        let mut fill = context.fill_beside_file(size, self.loadline.file_bytes(size));
        if let Command::Fill { placement, .. } = &mut fill
            && let Some(pager) = &mut placement.pager
        {
            pager.budget = PagerBudget::Own(limit);
        }
        if self.ask(context, worker, &fill)?.is_none() {
            return Ok(None);
        }
        context.watch_pagers(&[worker.pid()]);
        let prepare = Visit::Prepare(Preparation {
            pattern: self.loadline.pattern,
            compute: self.loadline.compute,
            steps: self.steps,
            // Half as long as the measurement: uniform choices need none, uneven ones have their hot pages back soon.
            warm_up: self.loadline.duration / 2.0,
            seed: context.seed(),
            threads: self.loadline.threads,
            write_percent: self.loadline.write_percent,
            rate: self.loadline.rate,
        });
        let prepare = Command::work(WorkloadKind::Loadline, &prepare);
        let Some(reply) = self.ask(context, worker, &prepare)? else {
            return Ok(None);
        };
        let findings = Worked::of_reply(reply)?.findings;
        let steps = findings.values.get("compute_steps").map(|&steps| steps as u64);
        self.steps = self.steps.or(steps);
        Ok(Some(findings))
    }

    /// Measures, and then has every page checked; nothing if the worker was killed for either.
    fn measure(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        worker: &mut Worker,
        before: &Snapshot,
        (size, limit): (u64, u64),
    ) -> Result<Option<Worked>, TrialError> {
        let seconds = self.loadline.duration;
        let refaults_before = file_refaults(context);
        let Some(reply) = self.ask(
            context,
            worker,
            &Command::work(WorkloadKind::Loadline, &Visit::Measure { seconds }),
        )?
        else {
            return Ok(None);
        };
        let mut worked = Worked::of_reply(reply)?;
        let after = context.snapshot()?;
        let store = store_bytes(&context.plan.settings.subject, &after) - self.store_before;
        let stretch = Stretch {
            before,
            after: &after,
            size,
            file_size: self.loadline.file_bytes(size),
            limit,
            store: store.max(0),
            file_refaults: [refaults_before, file_refaults(context)],
        };
        values::set(&mut worked.findings, worked.cost, &stretch);
        if !self.check(context, worker)? {
            return Ok(None);
        }
        Ok(Some(match worked.findings.values.get(OVER_BUDGET) {
            Some(over) => beyond_budget(*over),
            None => worked,
        }))
    }

    /// Has the worker read every page, its tag and its counter; false if the OOM killer ended it for that.
    fn check(&mut self, context: &TrialContext<'_, '_>, worker: &mut Worker) -> Result<bool, TrialError> {
        let Some(reply) = self.ask(
            context,
            worker,
            &Command::work(WorkloadKind::Loadline, &Visit::Check),
        )?
        else {
            return Ok(false);
        };
        let found = Worked::of_reply(reply)?.findings.values;
        match (found.get("wrong_tags"), found.get("uncounted_visits")) {
            (Some(0.0), Some(0.0)) => Ok(true),
            (wrong, uncounted) => Err(TrialError::failed(
                FailureCode::WrongBytes,
                format_args!(
                    "pages hold wrong contents: {} wrong tags, and their counters are {} visits off",
                    wrong.unwrap_or(&f64::NAN),
                    uncounted.unwrap_or(&f64::NAN),
                ),
            )),
        }
    }
}

/// A point at which the worker was killed: no useful work.
fn killed() -> Worked {
    let mut worked = Worked::default();
    worked.findings.set(VISITS, 0.0);
    worked.findings.set(KILLED, 1.0);
    worked
}

/// A point at which the pager took more RAM than its budget, by so many bytes: the load does not fit, and its visits are no
/// useful work of the budget.
fn beyond_budget(over: f64) -> Worked {
    let mut worked = killed();
    worked.findings.set(OVER_BUDGET, over);
    worked
}

/// Pages of files that the cgroup has read again so far.
fn file_refaults(context: &TrialContext<'_, '_>) -> Option<u64> {
    context.cgroup()?.file_refaults()
}
