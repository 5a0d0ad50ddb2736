//! Consumers that together need more than there is, started one after the other: 1 rest, 2 load, 3 recovery.

mod budget;
mod consumer;
mod load;
mod usage;

use std::time::{Duration, Instant};

use crate::guard::trial;
use crate::run::context::{Surroundings, TrialContext};
use crate::run::phase::Worked;
use crate::run::probes::{Probes, Readings};
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::Worker;
use crate::workload::protocol::{Command, Reply};
use crate::workload::{Cost, Findings};
use budget::{Budget, over_budget};
use consumer::{Allocate, Asked, Consume};
use load::Load;
use plimsoll_model::columns::Row;
use plimsoll_model::quantity::{self, ratio};
use plimsoll_model::recording::FailureCode;
use plimsoll_model::scenario::workloads::finding::OVER_BUDGET;
use plimsoll_model::scenario::workloads::thrash::{
    Distinct, LEAST_SHARE, LONGEST_RECOVERY, finding, mechanism,
};
use plimsoll_model::scenario::{Thrash, WorkloadKind};
use plimsoll_pager::pool::Limits;
use usage::{Paging, Use, usage};

pub(super) use consumer::Consumer as Requests;

/// The part of a trial that needs an environment.
pub(super) const CONFINED: &str = "thrash";

/// Shortest rest in seconds: a baseline needs some hundred wakeups and some small sets.
const LEAST_REST: f64 = 0.5;
/// Seconds between the commands to the first consumer and its start: all commands are read by then.
const LEAD: f64 = 0.2;
/// How often a wait looks for a stop and for a killed process.
const LOOK_UP: Duration = Duration::from_millis(50);
/// Seconds of one look at the recovery: its values are good to that.
const LOOK: f64 = 0.25;
/// Looks in a row that must be as before the load.
const QUIET_LOOKS: u32 = 2;

/// Share of the swap from which on it was used up: its last pages go between two looks, and the count of them lags.
const NEARLY_FULL: f64 = 0.9;

struct Crew {
    consumers: Vec<Worker>,
    probes: Probes,
    /// The most bytes that the cgroup had in swap when a wait looked. A kill frees some, so that it tells too little
    /// afterwards. Nothing where the kernel does not account them.
    most_swap: Option<u64>,
    /// Of a trial with pagers.
    budget: Option<Budget>,
    /// The worker that guards the cgroup, if the trial has a guard.
    guard: Option<Worker>,
}

/// Takes the consumers through rest, load and recovery.
pub(super) fn run(context: &mut TrialContext<'_, '_>, thrash: &Thrash) -> Result<(), TrialError> {
    if let Surroundings::Lacking(missing) = &context.surroundings
        && !context.needs_no_environment()
    {
        // Outside of a cgroup nothing would keep the load from the rest of the machine.
        return Err(lacking("thrash", missing));
    }
    if context.is_paged() {
        let mechanism = match context.cgroup() {
            Some(_) => mechanism::IN_CGROUP,
            None => mechanism::WITHOUT_CGROUP,
        };
        context.param("mechanism", mechanism);
        context.share_budget(Limits {
            minimum: LEAST_SHARE,
            ..Limits::default()
        })?;
    }
    let mut crew = Crew {
        probes: Probes::spawn(context)?,
        consumers: Vec::new(),
        most_swap: None,
        budget: context
            .is_paged()
            .then(|| Budget::new(context.plan.settings.limit)),
        guard: None,
    };
    let ended = crew
        .experiment(context, thrash)
        .map_err(|error| crew.with_swap(context, error));
    let ended = ended.and(crew.end_guard(context).map(drop));
    crew.probes.retire(context);
    for consumer in crew.consumers {
        context.retire(consumer);
    }
    ended
}

/// Metrics of the rest, which the recovery must reach again.
struct Baseline {
    usage: Use,
    readings: Readings,
}

/// The moment that a recovery counts from.
struct CommonEnd {
    at: Instant,
    /// The machine then, as soon as it could be read.
    row: Row,
}

#[derive(Default)]
struct Recovery {
    /// Looks in a row, up to the latest, that were as before the load.
    quiet: u32,
    /// Seconds from the common end to the end of the last look that was not.
    unlike_s: f64,
}

impl Recovery {
    /// Takes in a look that ended so many seconds after the common end.
    fn look(&mut self, is_back: bool, seconds: f64) {
        if is_back {
            self.quiet += 1;
        } else {
            self.quiet = 0;
            self.unlike_s = seconds;
        }
    }

    /// Seconds that it took, once it is certain.
    fn took_s(&self) -> Option<f64> {
        (self.quiet >= QUIET_LOOKS).then_some(self.unlike_s)
    }
}

impl Crew {
    fn experiment(&mut self, context: &mut TrialContext<'_, '_>, thrash: &Thrash) -> Result<(), TrialError> {
        // Before anything is measured, so that no start of a process is.
        for _ in 0..thrash.consumers {
            context.go_on()?;
            self.consumers.push(context.spawn()?);
        }
        self.allocate(context, thrash)?;
        // Finds the pagers too.
        let pids: Vec<u32> = self.consumers.iter().map(Worker::pid).collect();
        context.watch(&pids);
        self.probes.begin(context)?;
        self.begin_guard(context, thrash)?;
        let mut baseline = None;
        context.phase("rest", Some(1), |context, before| {
            let (worked, found) = self.rest(context, thrash, &before.row)?;
            baseline = Some(found);
            Ok(worked)
        })?;
        // Before the phase, whose beginning is that of the load.
        self.probes.lap(context)?;
        let mut common_end = None;
        context.phase("load", Some(2), |context, _| {
            let (worked, end) = self.load(context, thrash)?;
            common_end = Some(end);
            Ok(worked)
        })?;
        // The phases have set them, or the trial has ended.
        if let Some((baseline, end)) = baseline.zip(common_end) {
            context.phase("recovery", Some(3), |context, before| {
                self.recover(context, &before.row, &baseline, &end)
            })?;
        }
        self.probes.end(context)?;
        self.verify(context)
    }

    /// Begins the guard of the cgroup, if the trial has one. It spares the probes.
    fn begin_guard(&mut self, context: &mut TrialContext<'_, '_>, thrash: &Thrash) -> Result<(), TrialError> {
        let (Some(policy), Some(cgroup)) = (thrash.guard, context.cgroup()) else {
            return Ok(());
        };
        let worker = context.runner.start_worker(&trial::worker_options())?;
        let worker = self.guard.insert(worker);
        let begun = trial::begin(worker, policy, cgroup.path(), self.probes.pids());
        begun.map_err(|error| context.explain(&error))
    }

    /// Ends the guard, after which all consumers run. Returns its findings.
    fn end_guard(&mut self, context: &mut TrialContext<'_, '_>) -> Result<Findings, TrialError> {
        let Some(mut worker) = self.guard.take() else {
            return Ok(Findings::default());
        };
        let ended = trial::end(&mut worker);
        context.retire(worker);
        ended.map_err(|error| context.explain(&error))
    }

    /// Has every consumer allocate its memory, and build its pager if it has one.
    fn allocate(&mut self, context: &mut TrialContext<'_, '_>, thrash: &Thrash) -> Result<(), TrialError> {
        let asked = Asked::Allocate(Allocate {
            bytes: thrash.consumer_size,
            pager: context.pager(thrash.consumer_size),
        });
        let command = Command::work(WorkloadKind::Thrash, &asked);
        for consumer in &mut self.consumers {
            context.ask(consumer, &command)?;
        }
        Ok(())
    }

    fn usage(&self, before: &Row, after: &Row) -> Use {
        let paging = self.budget.as_ref().map_or(Paging::Swap, |_| Paging::Pagers);
        usage(before, after, paging)
    }

    fn rest(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        thrash: &Thrash,
        before: &Row,
    ) -> Result<(Worked, Baseline), TrialError> {
        let begun = Instant::now();
        // The start of the consumers is no part of the baseline.
        self.probes.lap(context)?;
        context.rest(thrash.hold.max(LEAST_REST))?;
        let readings = self.probes.lap(context)?;
        let usage = self.usage(before, &context.snapshot()?.row);
        let mut findings = Findings::default();
        readings.note(&mut findings);
        note_usage(&mut findings, "", &usage);
        let worked = worked(readings.cost(), begun, findings);
        Ok((worked, Baseline { usage, readings }))
    }

    /// From the first consumer's start to the common end, and until the last one has finished its cycle.
    fn load(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        thrash: &Thrash,
    ) -> Result<(Worked, CommonEnd), TrialError> {
        let origin = Instant::now();
        self.send(context, thrash, origin)?;
        let at = |seconds: f64| origin + Duration::from_secs_f64(LEAD + seconds);
        self.wait_until(context, at(0.0))?;
        let started = context.snapshot()?.row;
        self.wait_until(context, at(thrash.all_started()))?;
        let all_started = context.snapshot()?.row;
        self.wait_until(context, at(thrash.all_started().midpoint(thrash.seconds())))?;
        let mut readings = self.probes.lap(context)?;
        // Under thrashing, a probe may answer seconds late. The second half begins when all have answered.
        let answered = Instant::now();
        let end = at(thrash.seconds());
        self.wait_until(context, end)?;
        let ended = context.snapshot()?.row;
        let second_half = self.probes.lap(context)?;
        readings.merge(&second_half);
        let mut load = Load::default();
        for consumer in &mut self.consumers {
            let (timeout, stop) = (context.timeout(), context.runner.stop.flag());
            let reply = consumer.answer(timeout, stop);
            load.take(reply.map_err(|error| context.explain(&error))?)?;
        }
        let mut findings = load.findings();
        findings.set("lead_s", LEAD);
        if let Some(budget) = &self.budget {
            findings.set(OVER_BUDGET, budget.most() as f64);
        }
        readings.note(&mut findings);
        let length = end.saturating_duration_since(answered);
        note_second_half(&mut findings, &second_half, length);
        note_usage(&mut findings, "", &self.usage(&started, &ended));
        note_usage(&mut findings, "all_active_", &self.usage(&all_started, &ended));
        check_distinct(context, thrash, &load);
        context.lists.extend(load.lists);
        let worked = worked(load.cost.and(readings.cost()), origin, findings);
        let end = CommonEnd { at: end, row: ended };
        Ok((worked, end))
    }

    /// Sends every consumer its start and the common end, relative to the message.
    fn send(
        &mut self,
        context: &TrialContext<'_, '_>,
        thrash: &Thrash,
        origin: Instant,
    ) -> Result<(), TrialError> {
        for (number, consumer) in self.consumers.iter_mut().enumerate() {
            let gone = origin.elapsed().as_secs_f64();
            let asked = Asked::Consume(Consume {
                writes: thrash.writes,
                sleep: thrash.sleep,
                start: (LEAD + number as f64 * thrash.stagger - gone).max(0.0),
                together: (LEAD + thrash.all_started() - gone).max(0.0),
                end: (LEAD + thrash.seconds() - gone).max(0.0),
                // Consumers of one trial write different bytes at different places.
                seed: context.seed().rotate_left(32) ^ (number as u64 + 1),
            });
            let command = Command::work(WorkloadKind::Thrash, &asked);
            consumer.send(&command).map_err(|error| context.explain(&error))?;
        }
        Ok(())
    }

    /// Looks until the machine is as it was at rest, or for as long as a recovery is watched.
    fn recover(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        before: &Row,
        baseline: &Baseline,
        end: &CommonEnd,
    ) -> Result<Worked, TrialError> {
        let begun = Instant::now();
        let mut readings = Readings::empty();
        let mut recovery = Recovery::default();
        // The first look is from the common end on, as are the probes' latencies: it holds the cycles that ended late.
        let mut earlier = end.row;
        while recovery.took_s().is_none() && begun.elapsed().as_secs_f64() < LONGEST_RECOVERY {
            context.rest(LOOK)?;
            let lap = self.probes.lap(context)?;
            let now = context.snapshot()?.row;
            let is_back = baseline.is_back(&self.usage(&earlier, &now), &lap);
            recovery.look(is_back, end.at.elapsed().as_secs_f64());
            readings.merge(&lap);
            earlier = now;
        }
        let mut findings = Findings::default();
        readings.note(&mut findings);
        note_usage(&mut findings, "", &self.usage(before, &earlier));
        // An event that did not happen has no time.
        if let Some(seconds) = recovery.took_s() {
            findings.set(finding::RECOVERY, seconds);
        }
        let recovered = recovery.took_s().is_some();
        findings.set(finding::RECOVERED, f64::from(u8::from(recovered)));
        for (name, value) in self.end_guard(context)?.values {
            findings.set(&name, value);
        }
        Ok(worked(readings.cost(), begun, findings))
    }

    /// Has every consumer verify its kept pages.
    fn verify(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        for (number, consumer) in self.consumers.iter_mut().enumerate() {
            let found = match context.ask(consumer, &Command::work(WorkloadKind::Thrash, &Asked::Verify))? {
                Reply::Done {
                    verification: Some(found),
                    ..
                } => found,
                other => {
                    return Err(TrialError::unexpected(&other));
                }
            };
            if !found.holds() {
                return Err(TrialError::failed(
                    FailureCode::WrongBytes,
                    format_args!(
                        "consumer {}: {} of {} bytes differ from the written ones, the first at offset {:?}",
                        number + 1,
                        found.wrong_bytes,
                        found.bytes,
                        found.first_wrong,
                    ),
                ));
            }
        }
        context.verified = true;
        Ok(())
    }

    /// Waits until then; returns an error after a stop, the end of a consumer, or if its pagers exceed their budget for long.
    fn wait_until(&mut self, context: &mut TrialContext<'_, '_>, until: Instant) -> Result<(), TrialError> {
        loop {
            context.go_on()?;
            if context.oom_killed() > 0 {
                return Err(context.out_of_memory());
            }
            for consumer in &mut self.consumers {
                consumer.check().map_err(|error| context.explain(&error))?;
            }
            // A look that cannot be read is left out: the next one is near.
            let swap = context.cgroup().and_then(|cgroup| cgroup.swap().ok().flatten());
            self.most_swap = self.most_swap.max(swap);
            if let Some(budget) = self.budget.as_mut().filter(|budget| budget.is_due())
                && budget.look(&context.snapshot()?.row).is_lasting()
            {
                return Err(over_budget(context, budget));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_UP));
        }
    }

    /// Says of a trial that the OOM killer ended how much of the swap was used.
    fn with_swap(&self, context: &TrialContext<'_, '_>, error: TrialError) -> TrialError {
        match self.most_swap {
            Some(used)
                if error.failure.code == FailureCode::OutOfMemory
                    && context.plan.settings.subject.has_swap() =>
            {
                let words = swap_words(used, context.plan.settings.swap_size, context.foreign_swap());
                TrialError::new(
                    error.exit,
                    error.failure.code,
                    format_args!("{}; {words}", error.failure.message),
                )
            }
            _ => error,
        }
    }
}

/// The consumers' use of swap at the OOM kill, with an explanation if much was free. `foreign` bytes are of other cgroups.
fn swap_words(used: u64, size: u64, foreign: Option<u64>) -> String {
    let mut words = format!(
        "the consumers were seen to use at most {} of {} of swap",
        quantity::bytes(used as f64),
        quantity::bytes(size as f64),
    );
    let all = used.saturating_add(foreign.unwrap_or(0));
    if (all as f64) < NEARLY_FULL * size as f64 {
        words += ", so that it was not too small: the kernel's reclaim of a small cgroup works on statistics that lag, \
                  and sometimes kills with swap free; a larger `limit` or `scale` helps";
    }
    words
}

/// The cost of workers together, on the clock of the runner. Their work is writes of a byte and visits of a page, not
/// a stream, so it has no GB/s.
fn worked(cost: Cost, begun: Instant, findings: Findings) -> Worked {
    Worked {
        cost: Cost {
            seconds: begun.elapsed().as_secs_f64(),
            bytes: 0,
            ..cost
        },
        findings,
        profile: Vec::new(),
    }
}

/// Notes the findings of the probes in the second half of the time in which all consumers work, and its measured length. Notes
/// nothing without a length: a probe answered after the common end, or the consumers do not work together.
fn note_second_half(findings: &mut Findings, readings: &Readings, length: Duration) {
    if length.is_zero() {
        return;
    }
    findings.set(finding::SECOND_HALF, length.as_secs_f64());
    findings.set(finding::SECOND_HALF_WAKEUPS, readings.wakeup_count());
    for (name, latencies) in [
        (finding::SECOND_HALF_WAKEUP, readings.wakeup()),
        (finding::SECOND_HALF_LAUNCH, readings.launch()),
    ] {
        if let Some(ns) = latencies.percentile(99.0) {
            findings.set(name, ns as f64 / 1e9);
        }
    }
}

fn note_usage(findings: &mut Findings, prefix: &str, usage: &Use) {
    for (name, value) in usage.values() {
        if let Some(value) = value {
            findings.set(&format!("{prefix}{name}"), value);
        }
    }
}

/// Checks that the generator's choices fall on as many distinct pages as chance predicts: else the load is not
/// uniform. Does not read the memory.
fn check_distinct(context: &mut TrialContext<'_, '_>, thrash: &Thrash, load: &Load) {
    let sum = |name: &str| load.list(name).iter().sum::<f64>();
    let (pages, cycles) = (sum("consumer_counted_pages"), sum("consumer_counted_cycles"));
    let expected = Distinct::expected(thrash);
    if let Some(touched) = ratio(pages, cycles)
        && !expected.agrees(touched, cycles)
    {
        context.errors.push(TrialError::failed(
            FailureCode::Inconsistent,
            format_args!(
                "the places that the generator chose for a cycle are on {} distinct pages in the mean of {cycles} cycles, \
                 where n(1-(1-1/n)^W) is {}",
                quantity::significant(touched),
                quantity::significant(expected.mean),
            ),
        ));
    }
}

impl Baseline {
    /// Whether a look at the machine was no worse than the rest, with the scatter of a quiet machine: twice the
    /// latency and a millisecond, a hundred pages a second, five percent of time stalled.
    fn is_back(&self, usage: &Use, readings: &Readings) -> bool {
        let near = |now: Option<f64>, then: Option<f64>, factor: f64, margin: f64| {
            now.unwrap_or(0.0) <= factor * then.unwrap_or(0.0) + margin
        };
        let ms = |latency: Option<u64>| latency.map(|ns| ns as f64 / 1e6);
        let wakeup = |readings: &Readings| ms(readings.wakeup().percentile(99.0));
        let small_set = |readings: &Readings| ms(readings.small_set().percentile(50.0));
        near(usage.pages_in_per_s, self.usage.pages_in_per_s, 1.0, 100.0)
            && near(usage.stalled_percent, self.usage.stalled_percent, 1.0, 5.0)
            && near(wakeup(readings), wakeup(&self.readings), 2.0, 1.0)
            && near(small_set(readings), small_set(&self.readings), 2.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_pager::{BuildError, Pager};

    #[test]
    fn a_recovery_that_did_not_happen_has_no_seconds() {
        let mut recovery = Recovery::default();
        for (is_back, seconds) in [(false, 1.0), (true, 1.25), (false, 1.5), (true, 1.75)] {
            recovery.look(is_back, seconds);
            assert_eq!(recovery.took_s(), None, "at {seconds} s");
        }
        recovery.look(true, 2.0);
        assert_eq!(
            recovery.took_s(),
            Some(1.5),
            "from the end of the last look that was not as before"
        );
    }

    #[test]
    fn a_second_half_without_length_has_no_findings() {
        let noted = |length| {
            let mut findings = Findings::default();
            note_second_half(&mut findings, &Readings::empty(), length);
            findings.values
        };
        assert!(noted(Duration::ZERO).is_empty());
        let values = noted(Duration::from_millis(1500));
        assert_eq!(values.get(finding::SECOND_HALF), Some(&1.5));
    }

    #[test]
    fn a_load_without_effect_recovers_at_the_common_end() {
        let mut recovery = Recovery::default();
        recovery.look(true, 0.3);
        recovery.look(true, 0.55);
        assert_eq!(recovery.took_s(), Some(0.0));
    }

    /// A check of the scenario promises that each consumer gets a pager.
    #[test]
    fn the_least_share_is_the_least_budget_of_a_pager() {
        let refused = Pager::builder().ram(LEAST_SHARE - 1).build();
        assert!(
            matches!(refused, Err(BuildError::TooLittleRam { least, .. }) if least == LEAST_SHARE),
            "{refused:?}"
        );
    }

    #[test]
    fn an_oom_kill_with_free_swap_has_an_explanation() {
        let free = swap_words(60 << 20, 200 << 20, None);
        let used = "the consumers were seen to use at most 60.0 MiB of 200 MiB of swap";
        assert_eq!(
            free,
            format!(
                "{used}, so that it was not too small: the kernel's reclaim of a small cgroup works on statistics that lag, \
                 and sometimes kills with swap free; a larger `limit` or `scale` helps"
            )
        );
        assert_eq!(
            swap_words(199 << 20, 200 << 20, None),
            "the consumers were seen to use at most 199 MiB of 200 MiB of swap"
        );
        let filled_by_others = swap_words(60 << 20, 200 << 20, Some(130 << 20));
        assert_eq!(filled_by_others, used);
    }
}
