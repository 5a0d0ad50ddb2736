//! The memory eater: 1 fill, 2 trim, 3 restore, 4 release.

use std::time::{Duration, Instant};

use crate::environment::{Cgroup, Reclaimed};
use crate::exit::Exit;
use crate::quantity;
use crate::recording::model::NOT_RUN;
use crate::run::phase::Snapshot;
use crate::run::stage::{Stage, Surroundings};
use crate::run::trial::{Trouble, lacking};
use crate::scenario::{Compression, TrimMechanism};
use crate::workload::protocol::{Command, Cost, Reply, Verification};
use crate::workload::{Stopwatch, UsageScope, Worker};

/// Share of the size that must be in the working set after fill, and have left it after trim. Less means that
/// the phase did not do what its name says.
const REACHED: f64 = 0.95;

/// Pause between looks at the swap cache: a disk takes its time to write.
const SWAP_CACHE_PAUSE: Duration = Duration::from_millis(5);

/// The eater of one trial.
struct Eater<'a> {
    worker: Worker,
    asked: &'a Compression,
    /// What the trim was done by, once it was.
    mechanism: Option<String>,
}

/// Takes one worker through the four events.
pub(super) fn run(stage: &mut Stage<'_, '_>, asked: &Compression) -> Result<(), Trouble> {
    let mut eater = Eater {
        worker: stage.spawn()?,
        asked,
        mechanism: None,
    };
    stage.watch(&[eater.worker.pid()]);
    let ended = eater.eat(stage);
    stage.retire(eater.worker);
    if let Some(mechanism) = eater.mechanism {
        stage.param("mechanism", mechanism);
    }
    ended
}

impl Eater<'_> {
    fn eat(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), Trouble> {
        let fill = stage.fill(self.asked.size, self.asked.request);
        stage.phase("fill", Some(1), |stage, _| {
            self.call(stage, &fill).map(|(cost, _)| cost)
        })?;
        check_filled(stage);
        stage.rest(self.asked.hold)?;
        match cannot_trim(stage) {
            Some(trouble) => stage.troubles.push(trouble),
            None => {
                stage.phase("trim", Some(2), |stage, before| {
                    let cost = self.trim(stage)?;
                    self.empty_swap_cache(stage, before, cost)
                })?;
                check_trimmed(stage);
                stage.rest(self.asked.hold)?;
            }
        }
        stage.phase("restore", Some(3), |stage, _| self.restore(stage))?;
        stage.phase("release", Some(4), |stage, _| {
            self.call(stage, &Command::Release).map(|(cost, _)| cost)
        })
    }

    /// Carries out a command in the worker.
    fn call(
        &mut self,
        stage: &mut Stage<'_, '_>,
        command: &Command,
    ) -> Result<(Cost, Option<Verification>), Trouble> {
        match stage.ask(&mut self.worker, command)? {
            Reply::Done { cost, verification } => Ok((cost, verification)),
            other => Err(Trouble::unexpected(&other)),
        }
    }

    /// Makes the pages leave the working set by the mechanism that the trial names.
    fn trim(&mut self, stage: &mut Stage<'_, '_>) -> Result<Cost, Trouble> {
        match self.asked.trim {
            TrimMechanism::Worker => {
                self.mechanism = Some("madvise(MADV_PAGEOUT) by the worker".to_owned());
                self.call(stage, &Command::Trim).map(|(cost, _)| cost)
            }
            TrimMechanism::ProcessMadvise => {
                self.mechanism = Some("process_madvise(MADV_PAGEOUT) by the runner".to_owned());
                self.worker
                    .trim_from_outside(stage.timeout(), stage.lab.stop.flag())
                    .map_err(|error| stage.explain(&error))
            }
            TrimMechanism::Cgroup => self.reclaim(stage),
        }
    }

    /// Frees the memory of trimmed pages that are still in the swap cache, and counts that into the trim.
    ///
    /// A page that was written to a disk stays there until somebody reclaims it: until then its memory is not free,
    /// and a restore would find it without reading. zram leaves nothing in the swap cache.
    fn empty_swap_cache(
        &mut self,
        stage: &mut Stage<'_, '_>,
        before: &Snapshot,
        trim: Cost,
    ) -> Result<Cost, Trouble> {
        let Some(cgroup) = stage.cgroup() else {
            return Ok(trim);
        };
        let few = few(stage);
        let (watch, start) = (Stopwatch::start(UsageScope::Thread), Instant::now());
        let mut rounds = 0;
        loop {
            let cached = stage.snapshot()?.swap_cache().saturating_sub(before.swap_cache());
            if cached <= few || start.elapsed() > stage.timeout() || stage.lab.stop.requested() {
                break;
            }
            reclaim_cgroup(stage, cgroup, cached)?;
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

    fn reclaim(&mut self, stage: &mut Stage<'_, '_>) -> Result<Cost, Trouble> {
        let Some(cgroup) = stage.cgroup() else {
            return Err(Trouble::new(
                Exit::Missing,
                "trim = \"cgroup\" needs a memory cgroup, and there is none",
            ));
        };
        let size = self.asked.size;
        let watch = Stopwatch::start(UsageScope::Thread);
        let reclaimed = reclaim_cgroup(stage, cgroup, size)?;
        self.mechanism = Some(reclaimed.mechanism.to_owned());
        Ok(watch.stop(size))
    }

    fn restore(&mut self, stage: &mut Stage<'_, '_>) -> Result<Cost, Trouble> {
        let (cost, verification) = self.call(stage, &Command::Restore)?;
        match verification {
            Some(found) if found.holds() => stage.verified = true,
            Some(found) => stage.troubles.push(Trouble::new(Exit::WorkloadFailed, found)),
            None => stage
                .troubles
                .push(Trouble::new(Exit::WorkloadFailed, "the worker compared nothing")),
        }
        Ok(cost)
    }
}

/// Bytes that may stay behind without a phase having failed.
fn few(stage: &Stage<'_, '_>) -> u64 {
    (stage.plan.settings.size() as f64 * (1.0 - REACHED)) as u64
}

fn reclaim_cgroup(stage: &Stage<'_, '_>, cgroup: &Cgroup, bytes: u64) -> Result<Reclaimed, Trouble> {
    cgroup
        .reclaim(bytes, stage.timeout(), stage.lab.stop.flag())
        .map_err(|error| match stage.lab.stop.cause() {
            Some(cause) => Trouble::new(cause.exit(), cause),
            None => Trouble::new(Exit::WorkloadFailed, error),
        })
}

/// Why nothing can be trimmed here, if so.
fn cannot_trim(stage: &Stage<'_, '_>) -> Option<Trouble> {
    match &stage.surroundings {
        Surroundings::Lacking(missing) => Some(lacking("trim", missing)),
        Surroundings::Made(environment) if environment.swap_device().is_none() => Some(Trouble::new(
            Exit::WorkloadFailed,
            format_args!("trim {NOT_RUN}: the subject is `none`, so there is no swap to trim to"),
        )),
        Surroundings::Made(_) => None,
    }
}

/// A fill that did not stay in the working set makes what comes after it say something else than it seems to.
pub(super) fn check_filled(stage: &mut Stage<'_, '_>) {
    let (size, limit) = (stage.plan.settings.size(), stage.plan.settings.limit);
    let Some(resident) = stage.finished.last().map(|finished| finished.after.target()) else {
        return;
    };
    if (resident as f64) < size as f64 * REACHED {
        stage.troubles.push(Trouble::new(
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
fn check_trimmed(stage: &mut Stage<'_, '_>) {
    let (size, few) = (stage.plan.settings.size(), few(stage));
    let empty = stage.finished.first().map_or(0, |fill| fill.before.target());
    let Some(trim) = stage.finished.last_mut() else {
        return;
    };
    trim.phase.bytes = trim.before.target().saturating_sub(trim.after.target());
    trim.phase.gb_per_s = quantity::gb_per_s(trim.phase.bytes, trim.phase.seconds);
    // The working set may have grown by more than the fill: by a file's bytes, by the program's own.
    let stayed = trim.after.target().saturating_sub(empty).min(size);
    let cached = trim.after.swap_cache().saturating_sub(trim.before.swap_cache());
    let moved = size - stayed;
    if cached > few {
        stage.troubles.push(Trouble::new(
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
        stage.troubles.push(Trouble::new(
            Exit::WorkloadFailed,
            format_args!(
                "trim moved only {} of {} out of the working set; is the swap device full, or memory locked?",
                quantity::bytes(moved as f64),
                quantity::bytes(size as f64),
            ),
        ));
    }
}
