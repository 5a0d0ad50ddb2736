//! One trial: an environment is made, a worker goes through the phases, everything is undone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Laboratory;
use super::phase::{Finished, Snapshot};
use super::recorder::plain_event;
use crate::analysis::{
    self,
    compression::{self, PhaseRows},
};
use crate::environment::{self, Cgroup, CgroupVersion, Environment, Missing, Reclaimed, SwapDevice};
use crate::exit::{Exit, Failure, OrExit};
use crate::quantity;
use crate::recording::model::{Event, EventKind, NOT_RUN, Trial, TrialStatus};
use crate::sample::{CgroupFiles, Target};
use crate::scenario::{TrialPlan, TrimMechanism};
use crate::workload::protocol::{Command, Cost, Reply, Verification};
use crate::workload::{Stopwatch, UsageScope, Worker, WorkerError, WorkerOptions};

/// Share of the size that must be in the working set after fill, and have left it after trim. Less means that
/// the phase did not do what its name says.
const REACHED: f64 = 0.95;

/// Pause between looks at the swap cache: a disk takes its time to write.
const SWAP_CACHE_PAUSE: Duration = Duration::from_millis(5);

/// Why a trial is not ok, and how that ends the program.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) exit: Exit,
    pub(super) reason: String,
}

impl Trouble {
    pub(super) fn new(exit: Exit, reason: impl std::fmt::Display) -> Self {
        Trouble {
            exit,
            reason: reason.to_string(),
        }
    }
}

/// What a trial leaves behind: its record, and how it ends the program.
pub(super) struct Ended {
    pub(super) trial: Trial,
    pub(super) exit: Exit,
}

/// What a trial runs in.
enum Surroundings<'a> {
    /// An environment as asked.
    Made(&'a Environment),
    /// The machine as it is, since an environment lacks something here.
    Lacking(Vec<Missing>),
}

impl<'a> Surroundings<'a> {
    fn environment(&self) -> Option<&'a Environment> {
        match self {
            Surroundings::Made(environment) => Some(environment),
            Surroundings::Lacking(_) => None,
        }
    }
}

/// A trial while it runs.
struct Running<'a> {
    plan: &'a TrialPlan,
    surroundings: Surroundings<'a>,
    worker: Worker,
    oom_kills_before: u64,
    /// What the trim was done by, once it was.
    mechanism: Option<String>,
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
        let exit = troubles
            .iter()
            .map(|trouble| trouble.exit)
            .max()
            .unwrap_or(Exit::Done);
        trial.reasons = troubles.drain(..).map(|trouble| trouble.reason).collect();
        if !trial.reasons.is_empty() {
            trial.status = TrialStatus::Failed;
        }
        self.recorder.trial(&trial)?;
        Ok(Ended { trial, exit })
    }

    /// Makes the environment, runs the phases in it, and undoes it whatever happened.
    fn in_environment(&mut self, plan: &TrialPlan, trial: &mut Trial) -> Vec<Trouble> {
        let missing = environment::missing(&plan.settings);
        let session = match self.session.as_mut() {
            Some(session) if missing.is_empty() => session,
            // Here a cgroup could be made, so nothing is filled outside of one.
            Some(_) => return vec![lacking(&missing)],
            None => return self.with_worker(plan, Surroundings::Lacking(missing), trial),
        };
        let environment = match Environment::prepare(session, &plan.settings) {
            Ok(environment) => environment,
            Err(error) => return vec![Trouble::new(Exit::Missing, error)],
        };
        let mut troubles = match self.note_environment(plan, &environment) {
            Ok(()) => self.with_worker(plan, Surroundings::Made(&environment), trial),
            Err(failure) => vec![failure.into()],
        };
        self.watch(None);
        troubles.extend(self.tear_down(environment));
        troubles
    }

    /// Writes down what was really set up, as the kernel shows it.
    fn note_environment(&mut self, plan: &TrialPlan, environment: &Environment) -> Result<(), Failure> {
        let text = serde_json::to_string(environment.description()).or_exit(Exit::WorkloadFailed)?;
        self.progress
            .detail(format_args!("{}: {}", plan.id, environment.description()));
        let mut event = plain_event(EventKind::Environment, text);
        event.trial = Some(plan.id.clone());
        self.recorder.event(event).map(drop)
    }

    fn tear_down(&mut self, environment: Environment) -> Option<Trouble> {
        let undone = environment.tear_down(self.session.as_mut()?);
        match undone {
            Ok(report) => {
                let warned = report.left_alone.iter().try_for_each(|left| {
                    self.warn(format!("left alone, as somebody else changed it: {left}"))
                });
                warned.err().map(Trouble::from)
            }
            Err(error) => Some(Trouble::new(Exit::WorkloadFailed, error)),
        }
    }

    /// Starts the worker in the environment and takes it through the phases.
    fn with_worker(
        &mut self,
        plan: &TrialPlan,
        surroundings: Surroundings<'_>,
        trial: &mut Trial,
    ) -> Vec<Trouble> {
        let environment = surroundings.environment();
        let cgroup = environment.and_then(Environment::cgroup);
        let options = WorkerOptions {
            cgroup_procs: cgroup.map(Cgroup::procs_paths).unwrap_or_default(),
        };
        let worker = match Worker::spawn(&self.executable, &options) {
            Ok(worker) => worker,
            Err(error) => return vec![Trouble::new(Exit::Missing, error)],
        };
        if let Some(session) = self.session.as_mut()
            && let Err(error) = session.process_started(worker.pid())
        {
            return vec![Trouble::new(Exit::Missing, error)];
        }
        self.watch(Some(&target(&worker, environment)));
        let mut running = Running {
            plan,
            surroundings,
            worker,
            oom_kills_before: oom_kills(environment),
            mechanism: None,
            finished: Vec::new(),
            verified: false,
            troubles: Vec::new(),
        };
        if let Err(trouble) = running.compression(self) {
            // What ended it comes before what was seen on the way.
            running.troubles.insert(0, trouble);
        }
        let Running {
            worker,
            mechanism,
            finished,
            verified,
            troubles,
            ..
        } = running;
        let pid = worker.pid();
        drop(worker);
        if let Some(session) = self.session.as_mut()
            && let Err(error) = session.process_ended(pid)
        {
            self.progress.warn(&error.to_string());
        }
        if let Some(mechanism) = mechanism {
            trial.params.insert("mechanism".to_owned(), mechanism);
        }
        trial.verified = verified;
        let rows: Vec<PhaseRows> = finished.iter().map(Finished::rows).collect();
        trial.phases = finished.into_iter().map(|finished| finished.phase).collect();
        trial.metrics = compression::metrics(trial, &rows, self.manifest.calibration.as_ref());
        troubles
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
            seed: self.seed(lab.manifest.plan.seed),
            thp: settings.thp,
        };
        self.phase(lab, "fill", 1, |running, lab, _| {
            running.call(lab, &fill).map(|(cost, _)| cost)
        })?;
        self.check_filled();
        hold(lab, settings.hold)?;
        match self.cannot_trim() {
            Some(trouble) => self.troubles.push(trouble),
            None => {
                self.phase(lab, "trim", 2, |running, lab, before| {
                    let cost = running.trim(lab)?;
                    running.empty_swap_cache(lab, before, cost)
                })?;
                self.check_trimmed();
                hold(lab, settings.hold)?;
            }
        }
        self.phase(lab, "restore", 3, |running, lab, _| running.restore(lab))?;
        self.phase(lab, "release", 4, |running, lab, _| {
            running.call(lab, &Command::Release).map(|(cost, _)| cost)
        })?;
        Ok(())
    }

    fn phase(
        &mut self,
        lab: &mut Laboratory,
        name: &str,
        number: u32,
        work: impl FnOnce(&mut Self, &mut Laboratory, &Snapshot) -> Result<Cost, Trouble>,
    ) -> Result<(), Trouble> {
        let id = &self.plan.id;
        let finished = lab.phase(id, name, Some(number), |lab, before| work(self, lab, before))?;
        self.finished.push(finished);
        Ok(())
    }
}

impl Running<'_> {
    /// Carries out a command in the worker.
    fn call(&mut self, lab: &Laboratory, command: &Command) -> Result<(Cost, Option<Verification>), Trouble> {
        match self.worker.call(command, self.timeout(), lab.stop.flag()) {
            Ok(Reply::Done { cost, verification }) => Ok((cost, verification)),
            Ok(other) => Err(Trouble::new(
                Exit::WorkloadFailed,
                format_args!("the worker answered {other:?}"),
            )),
            Err(error) => Err(self.explain(lab, &error)),
        }
    }

    /// Makes the pages leave the working set by the mechanism that the trial names.
    fn trim(&mut self, lab: &Laboratory) -> Result<Cost, Trouble> {
        match self.plan.settings.trim {
            TrimMechanism::Worker => {
                self.mechanism = Some("madvise(MADV_PAGEOUT) by the worker".to_owned());
                self.call(lab, &Command::Trim).map(|(cost, _)| cost)
            }
            TrimMechanism::ProcessMadvise => {
                self.mechanism = Some("process_madvise(MADV_PAGEOUT) by the runner".to_owned());
                self.worker
                    .trim_from_outside(self.timeout(), lab.stop.flag())
                    .map_err(|error| self.explain(lab, &error))
            }
            TrimMechanism::Cgroup => self.reclaim(lab),
        }
    }

    /// Frees the memory of trimmed pages that are still in the swap cache, and counts that into the trim.
    ///
    /// A page that was written to a disk stays there until somebody reclaims it: until then its memory is not free,
    /// and a restore would find it without reading. zram leaves nothing in the swap cache.
    fn empty_swap_cache(
        &mut self,
        lab: &mut Laboratory,
        before: &Snapshot,
        trim: Cost,
    ) -> Result<Cost, Trouble> {
        let Some(cgroup) = self.surroundings.environment().and_then(Environment::cgroup) else {
            return Ok(trim);
        };
        let few = self.few();
        let (watch, start) = (Stopwatch::start(UsageScope::Thread), Instant::now());
        let mut rounds = 0;
        loop {
            let cached = lab.snapshot()?.swap_cache().saturating_sub(before.swap_cache());
            if cached <= few || start.elapsed() > self.timeout() || lab.stop.requested() {
                break;
            }
            self.reclaim_cgroup(lab, cgroup, cached)?;
            rounds += 1;
            std::thread::sleep(SWAP_CACHE_PAUSE);
        }
        if rounds == 0 {
            return Ok(trim);
        }
        if let Some(mechanism) = &mut self.mechanism {
            mechanism.push_str(", then reclaim of the swap cache");
        }
        Ok(trim.and(watch.stop(0)))
    }

    /// Bytes that may stay behind without a phase having failed.
    fn few(&self) -> u64 {
        (self.plan.settings.size as f64 * (1.0 - REACHED)) as u64
    }

    fn reclaim_cgroup(&self, lab: &Laboratory, cgroup: &Cgroup, bytes: u64) -> Result<Reclaimed, Trouble> {
        cgroup
            .reclaim(bytes, self.timeout(), lab.stop.flag())
            .map_err(|error| match lab.stop.cause() {
                Some(cause) => Trouble::new(cause.exit(), cause),
                None => Trouble::new(Exit::WorkloadFailed, error),
            })
    }

    fn reclaim(&mut self, lab: &Laboratory) -> Result<Cost, Trouble> {
        let Some(cgroup) = self.surroundings.environment().and_then(Environment::cgroup) else {
            return Err(Trouble::new(
                Exit::Missing,
                "trim = \"cgroup\" needs a memory cgroup, and there is none",
            ));
        };
        let size = self.plan.settings.size;
        let watch = Stopwatch::start(UsageScope::Thread);
        let reclaimed = self.reclaim_cgroup(lab, cgroup, size)?;
        self.mechanism = Some(reclaimed.mechanism.to_owned());
        Ok(watch.stop(size))
    }

    fn restore(&mut self, lab: &Laboratory) -> Result<Cost, Trouble> {
        let (cost, verification) = self.call(lab, &Command::Restore)?;
        match verification {
            Some(found) if found.holds() => self.verified = true,
            Some(found) => self
                .troubles
                .push(Trouble::new(Exit::WorkloadFailed, wrong_bytes(&found))),
            None => self
                .troubles
                .push(Trouble::new(Exit::WorkloadFailed, "the worker compared nothing")),
        }
        Ok(cost)
    }

    /// Why nothing can be trimmed here, if so.
    fn cannot_trim(&self) -> Option<Trouble> {
        match &self.surroundings {
            Surroundings::Lacking(missing) => Some(lacking(missing)),
            Surroundings::Made(environment) if environment.swap_device().is_none() => Some(Trouble::new(
                Exit::WorkloadFailed,
                format_args!("trim {NOT_RUN}: the subject is `none`, so there is no swap to trim to"),
            )),
            Surroundings::Made(_) => None,
        }
    }

    /// A fill that did not stay in the working set makes trim and restore say something else than they seem to.
    fn check_filled(&mut self) {
        let (size, limit) = (self.plan.settings.size, self.plan.settings.limit);
        let Some(resident) = self.finished.last().map(|finished| finished.after.target()) else {
            return;
        };
        if (resident as f64) < size as f64 * REACHED {
            self.troubles.push(Trouble::new(
                Exit::WorkloadFailed,
                format_args!(
                    "size not reached: {} of {} were in the working set after fill (the cgroup's limit is {}); \
                     raise `limit` or lower `size`",
                    quantity::bytes(resident as f64),
                    quantity::bytes(size as f64),
                    quantity::bytes(limit as f64),
                ),
            ));
        }
    }

    /// What counts is what stayed: pages that somebody else took during the rest are gone all the same.
    fn check_trimmed(&mut self) {
        let (size, few) = (self.plan.settings.size, self.few());
        let empty = self.finished.first().map_or(0, |fill| fill.before.target());
        let Some(trim) = self.finished.last_mut() else {
            return;
        };
        trim.phase.bytes = trim.before.target().saturating_sub(trim.after.target());
        trim.phase.gb_per_s = analysis::gb_per_s(trim.phase.bytes, trim.phase.seconds);
        // The working set may have grown by more than the fill: by a file's bytes, by the program's own.
        let stayed = trim.after.target().saturating_sub(empty).min(size);
        let cached = trim.after.swap_cache().saturating_sub(trim.before.swap_cache());
        let moved = size - stayed;
        if cached > few {
            self.troubles.push(Trouble::new(
                Exit::WorkloadFailed,
                format_args!(
                    "{} of {} stayed in the swap cache after the trim, so their memory is not free and restore does \
                     not read them; is the disk slow?",
                    quantity::bytes(cached as f64),
                    quantity::bytes(size as f64),
                ),
            ));
        }
        if (moved as f64) < size as f64 * REACHED && trim.phase.bytes < size {
            self.troubles.push(Trouble::new(
                Exit::WorkloadFailed,
                format_args!(
                    "trim moved only {} of {} out of the working set; is the swap device full, or memory locked?",
                    quantity::bytes(moved as f64),
                    quantity::bytes(size as f64),
                ),
            ));
        }
    }

    /// Says what ended a command, in the order of what is known for certain: a stop, the OOM killer, the error.
    fn explain(&self, lab: &Laboratory, error: &WorkerError) -> Trouble {
        if let Some(cause) = lab.stop.cause() {
            return Trouble::new(cause.exit(), cause);
        }
        if let WorkerError::Died { signal, .. } = error {
            if oom_kills(self.surroundings.environment()) > self.oom_kills_before {
                return Trouble::new(Exit::Killed, self.out_of_memory());
            }
            let exit = if signal.is_some() {
                Exit::Killed
            } else {
                Exit::WorkloadFailed
            };
            return Trouble::new(exit, error);
        }
        Trouble::new(Exit::WorkloadFailed, error)
    }

    fn out_of_memory(&self) -> String {
        let settings = &self.plan.settings;
        format!(
            "the OOM killer ended the worker: it needs {}, its cgroup's limit is {} and the subject is `{}`; \
             raise `limit`, lower `size`, or choose a subject with more swap",
            quantity::bytes(settings.size as f64),
            quantity::bytes(settings.limit as f64),
            settings.subject,
        )
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.plan.settings.phase_timeout)
    }

    /// The same bytes in the same repeat of every subject, other bytes in every repeat.
    fn seed(&self, seed: u64) -> u64 {
        seed.wrapping_add(u64::from(self.plan.repeat))
    }
}

/// What did not run for want of something; the run's warnings say how to get it.
fn lacking(missing: &[Missing]) -> Trouble {
    let what: Vec<&str> = missing.iter().map(|missing| missing.what.as_str()).collect();
    Trouble::new(
        Exit::Missing,
        format_args!("trim {NOT_RUN}, for want of {}", what.join(", ")),
    )
}

/// What to watch in the samples while `worker` runs.
fn target(worker: &Worker, environment: Option<&Environment>) -> Target {
    Target {
        workers: vec![worker.pid()],
        cgroup: environment
            .and_then(Environment::cgroup)
            .map(|cgroup| match cgroup.version() {
                CgroupVersion::V1 => CgroupFiles::v1(cgroup.path()),
                CgroupVersion::V2 => CgroupFiles::v2(cgroup.path()),
            }),
        zram: environment
            .and_then(Environment::swap_device)
            .and_then(SwapDevice::zram_name),
    }
}

/// OOM kills in the environment's cgroup so far; 0 where that cannot be known.
fn oom_kills(environment: Option<&Environment>) -> u64 {
    environment
        .and_then(Environment::cgroup)
        .and_then(|cgroup| cgroup.oom_kills().ok())
        .unwrap_or(0)
}

fn wrong_bytes(found: &Verification) -> String {
    match found.first_wrong {
        Some(offset) => format!(
            "{} of {} bytes read back differ from what was written, the first at offset {offset}",
            found.wrong_bytes, found.bytes
        ),
        None => format!(
            "the checksum of what restore read is {:016x}, that of what was written {:016x}",
            found.checksum, found.expected_checksum
        ),
    }
}

/// Rests, so that what the kernel does on its own shows in the samples. Ends early when a stop is asked for.
fn hold(lab: &Laboratory, seconds: f64) -> Result<(), Trouble> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    loop {
        if let Some(cause) = lab.stop.cause() {
            return Err(Trouble::new(cause.exit(), cause));
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// The mechanism as it is written in a scenario file.
fn trim_name(trim: TrimMechanism) -> &'static str {
    match trim {
        TrimMechanism::Worker => "worker",
        TrimMechanism::ProcessMadvise => "process-madvise",
        TrimMechanism::Cgroup => "cgroup",
    }
}

/// The record of a trial of which nothing has run.
fn new_trial(plan: &TrialPlan) -> Trial {
    let settings = &plan.settings;
    let mut params: BTreeMap<String, String> = plan.params.iter().cloned().collect();
    params.insert("class".to_owned(), settings.class.to_string());
    params.insert("size".to_owned(), settings.size.to_string());
    params.insert("trim".to_owned(), trim_name(settings.trim).to_owned());
    Trial {
        id: plan.id.clone(),
        subject: settings.subject.to_string(),
        params,
        repeat: plan.repeat,
        status: TrialStatus::Ok,
        reasons: Vec::new(),
        verified: false,
        span_ns: (0, 0),
        phases: Vec::new(),
        metrics: BTreeMap::new(),
    }
}
