//! One worker visits its memory, at one load after the other, until the knee is found.
//!
//! Each load is a point: a fresh worker fills its memory, warms up, and is measured; then every page is checked. It begins
//! when the cgroup holds nothing of the worker before. The load changes the size or, with a fixed working set, the limit. A point records that the OOM killer ended its worker: that is a
//! result of the load.
//!
//! The OOM killer sometimes ends a worker although swap is free. A cgroup's reclaim goes by statistics that lag behind: the
//! inactive list looks full and is empty, so that one reclaim after the other gets nothing. Or other programs have filled
//! the swap device. Such a kill, and one below a load that was completed, says nothing about the load, which gets another
//! worker.

mod cpu_time;
mod own_cost;
mod pace;
mod pattern;
mod search;
mod tally;
mod visit;
mod visitor;
mod words;

use std::time::Duration;

use crate::environment::Environment;

use crate::run::context::{Surroundings, TrialContext};
use crate::run::phase::{Snapshot, Worked};
use crate::run::swap_use::SwapPeak;
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::protocol::{Command, Reply};
use crate::workload::{Cost, Findings};
use crate::workload::{Worker, WorkerError};
use cpu_time::crowding;
use plimsoll_model::columns::col;
use plimsoll_model::exit::Exit;
use plimsoll_model::recording::{FailureCode, Warning, WarningCode};
use plimsoll_model::scenario::workloads::loadline::Point;
use plimsoll_model::scenario::workloads::loadline::finding::{
    ACHIEVED, CPU_PER_VISIT, CPU_SYSTEM, CPU_USER, EARLY_KILLS, HARD_FAULTS, KILLED, LIMIT, LOAD, NET,
    PSI_FULL, PSI_SOME, RAM_LOAD, RESIDENT, STORE, SWAP_OUT, SWAPPED, VISITS,
};
use plimsoll_model::scenario::{Loadline, Subject, WorkloadKind};
use search::next_load;
use visit::{Preparation, Visit};

pub(super) use visit::Visits;

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
    if let Surroundings::Lacking(missing) = &context.surroundings {
        // Outside of a cgroup nothing is over a limit.
        return Err(lacking("loadline", missing));
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
        let figures = context.finished.last().map(|finished| &finished.phase.figures);
        // Of the first, lowest load.
        achieved = achieved.or(figures.and_then(|figures| figures.get(ACHIEVED).copied()));
        let point = figures.and_then(Point::of);
        let point =
            point.ok_or_else(|| TrialError::failed(FailureCode::Inconsistent, "a point has no figures"))?;
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
        let own = self.prepare(context, worker, size)?;
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
            findings
                .figures
                .extend(own.into_iter().flat_map(|own| own.figures));
            findings.set(LOAD, load);
            findings.set("size_bytes", size as f64);
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
        size: u64,
    ) -> Result<Option<Findings>, TrialError> {
        let fill = context.fill(size, size);
        if self.ask(context, worker, &fill)?.is_none() {
            return Ok(None);
        }
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
        let steps = findings.figures.get("compute_steps").map(|&steps| steps as u64);
        self.steps = self.steps.or(steps);
        Ok(Some(findings))
    }

    /// Measures, and then has every page checked; nothing if the worker was killed for either.
    fn measure(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        worker: &mut Worker,
        before: &Snapshot,
        size_and_limit: (u64, u64),
    ) -> Result<Option<Worked>, TrialError> {
        let seconds = self.loadline.duration;
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
        self.figures(
            context,
            &mut worked.findings,
            worked.cost,
            (before, &after),
            size_and_limit,
        );
        Ok(self.check(context, worker)?.then_some(worked))
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
        let found = Worked::of_reply(reply)?.findings.figures;
        match (found.get("wrong_tags"), found.get("uncounted_visits")) {
            (Some(0.0), Some(0.0)) => Ok(true),
            (wrong, uncounted) => Err(TrialError::failed(
                FailureCode::WrongBytes,
                format_args!(
                    "pages hold what was not written to them: {} wrong tags, and their counters are {} visits off",
                    wrong.unwrap_or(&f64::NAN),
                    uncounted.unwrap_or(&f64::NAN),
                ),
            )),
        }
    }

    /// System metrics of the measured interval.
    fn figures(
        &self,
        context: &TrialContext<'_, '_>,
        findings: &mut Findings,
        cost: Cost,
        (before, after): (&Snapshot, &Snapshot),
        (size, limit): (u64, u64),
    ) {
        let settings = &context.plan.settings;
        let store = (store_bytes(&settings.subject, after) - self.store_before).max(0);
        let seconds = cost.seconds;
        findings.set(HARD_FAULTS, cost.major_faults as f64 / seconds);
        findings.set(CPU_USER, 100.0 * cost.cpu_user_s / seconds);
        findings.set(CPU_SYSTEM, 100.0 * cost.cpu_system_s / seconds);
        findings.set(STORE, store as f64);
        findings.set(RAM_LOAD, size as f64 / (limit as f64 + store as f64));
        if let Some(&visits) = findings.figures.get("visits") {
            findings.set(CPU_PER_VISIT, (cost.cpu_user_s + cost.cpu_system_s) / visits);
        }
        for (name, column) in [(RESIDENT, col::TARGET_ANON), (SWAPPED, col::TARGET_SWAP)] {
            if let Some(bytes) = after.row.get(column) {
                findings.set(name, bytes as f64);
            }
        }
        let elapsed_us = after.row.t_ns.saturating_sub(before.row.t_ns) as f64 / 1e3;
        for (name, percent) in [PSI_SOME, PSI_FULL].into_iter().zip(after.pressure_since(before)) {
            if let Some(percent) = percent {
                findings.set(name, percent);
            }
        }
        if let (Some(from), Some(to)) = (before.row.get(col::PSWPOUT), after.row.get(col::PSWPOUT)) {
            findings.set(SWAP_OUT, (to - from) as f64 / elapsed_us * 1e6);
        }
    }
}

/// The cause of a kill by the OOM killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillCause {
    /// The worker had filled its swap, or has none.
    Load,
    /// The worker's swap and the device were free: the kernel's statistics lag.
    Early,
    /// Others had filled the device, or a larger load was completed.
    Disturbance,
}

/// Why a worker was killed at `load` on a device of `size` bytes, if `completed` is the largest load that was completed.
fn cause_of_kill(swap: SwapPeak, size: Option<u64>, load: f64, completed: f64) -> KillCause {
    if completed > load {
        return KillCause::Disturbance;
    }
    match size {
        Some(size) if swap.is_filled_by_others(size) => KillCause::Disturbance,
        Some(size) if swap.own_is_free(size) => KillCause::Early,
        _ => KillCause::Load,
    }
}

/// A point at which the worker was killed: no useful work.
fn killed() -> Worked {
    let mut worked = Worked::default();
    worked.findings.set(VISITS, 0.0);
    worked.findings.set(KILLED, 1.0);
    worked
}

/// Time of a visit without choice, clock and computing. Visits at a rate wait for their time, which is none of theirs.
fn net(findings: &mut Findings, loadline: &Loadline) {
    let figure = |name: &str| findings.figures.get(name).copied().filter(|&value| value > 0.0);
    if let (Some(visits_per_s), Some(own), None) = (figure(VISITS), figure("own_s"), loadline.rate) {
        let own = own * crowding(loadline.threads);
        findings.set(NET, f64::from(loadline.threads) / visits_per_s - own);
    }
}

/// RAM that the subject's compressed store takes.
fn store_bytes(subject: &Subject, snapshot: &Snapshot) -> i64 {
    let column = match subject {
        Subject::Zram(_) => col::ZRAM_MEM_USED_TOTAL,
        Subject::Zswap(_) => col::ZSWAP_POOL,
        Subject::SwapFile | Subject::NoSwap | Subject::Allocator(_) => return 0,
    };
    snapshot.row.get(column).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker was killed at load 1.12, and 1.5 and 2 ran to the end: the load line was then given as 1.09.
    #[test]
    fn a_kill_below_a_completed_load_is_a_disturbance() {
        let full = SwapPeak::of(96, 96);
        assert_eq!(cause_of_kill(full, Some(100), 1.12, 2.0), KillCause::Disturbance);
        assert_eq!(cause_of_kill(full, None, 0.9, 1.0), KillCause::Disturbance);
        assert_eq!(cause_of_kill(full, Some(100), 3.0, 2.0), KillCause::Load);
        assert_eq!(
            cause_of_kill(SwapPeak::default(), None, 1.5, 1.0),
            KillCause::Load
        );
    }

    #[test]
    fn a_kill_is_judged_by_the_swap_of_the_worker_itself() {
        let cause = |own, device| cause_of_kill(SwapPeak::of(own, device), Some(100), 3.0, 2.0);
        assert_eq!(cause(12, 96), KillCause::Disturbance, "others filled the device");
        assert_eq!(cause(12, 14), KillCause::Early);
        assert_eq!(cause(91, 96), KillCause::Load);
    }
}
