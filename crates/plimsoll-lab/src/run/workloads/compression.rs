//! The memory eater: 1 fill, 2 trim, 3 restore, 4 release.
//!
//! Memory of files is written back before the trim, in a phase of its own: the kernel unmaps dirty pages and keeps them.

use std::time::{Duration, Instant};

use crate::environment::{Cgroup, Reclaimed};
use crate::run::context::{Surroundings, TrialContext};
use crate::run::phase::{Snapshot, Worked};
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::Cost;
use crate::workload::protocol::{Command, Reply, Verification};
use crate::workload::{Stopwatch, UsageScope, Worker};
use plimsoll_model::exit::Exit;
use plimsoll_model::quantity;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::recording::model::NOT_RUN;
use plimsoll_model::scenario::workloads::compression::{finding, phase};
use plimsoll_model::scenario::{Backing, Compression, TrimMechanism};

pub(super) use crate::workload::NoRequests as Requests;

/// The part of a trial that needs an environment.
pub(super) const CONFINED: &str = "trim";

/// Share of the size that must be in the working set after fill, and have left it after trim; else the phase fails.
const REACHED: f64 = 0.95;

/// Pause between looks at the swap cache: a disk takes its time to write.
const SWAP_CACHE_PAUSE: Duration = Duration::from_millis(5);

struct Eater<'a> {
    worker: Worker,
    asked: &'a Compression,
    /// Mechanism of the trim, after it.
    mechanism: Option<String>,
}

pub(super) fn run(context: &mut TrialContext<'_, '_>, asked: &Compression) -> Result<(), TrialError> {
    let mut eater = Eater {
        worker: context.spawn()?,
        asked,
        mechanism: None,
    };
    context.watch(&[eater.worker.pid()]);
    let ended = eater.eat(context);
    context.retire(eater.worker);
    if let Some(mechanism) = eater.mechanism {
        context.param("mechanism", mechanism);
    }
    ended
}

impl Eater<'_> {
    fn eat(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        let fill = context.fill(self.asked.filling.size, self.asked.request);
        context.phase(phase::FILL, Some(1), |context, _| {
            self.call(context, &fill).map(|(cost, _)| cost)
        })?;
        context.watch_pagers(&[self.worker.pid()]);
        check_filled(context, &mut self.worker)?;
        context.rest(self.asked.filling.hold)?;
        match cannot_trim(context) {
            Some(error) => context.errors.push(error),
            None => {
                if self.asked.filling.memory == Backing::File {
                    context.phase(phase::WRITEBACK, None, |context, _| {
                        write_back(context, &mut self.worker)
                    })?;
                }
                context.phase(phase::TRIM, Some(2), |context, before| {
                    let worked = self.trim(context)?;
                    self.empty_swap_cache(context, before, worked)
                })?;
                self.check_trimmed(context)?;
                context.rest(self.asked.filling.hold)?;
            }
        }
        context.phase(phase::RESTORE, Some(3), |context, _| self.restore(context))?;
        context.phase(phase::RELEASE, Some(4), |context, _| {
            self.call(context, &Command::Release).map(|(cost, _)| cost)
        })
    }

    fn call(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        command: &Command,
    ) -> Result<(Cost, Option<Verification>), TrialError> {
        match context.ask(&mut self.worker, command)? {
            Reply::Done { cost, verification } => Ok((cost, verification)),
            other => Err(TrialError::unexpected(&other)),
        }
    }

    /// Makes the pages leave the working set by the mechanism that the trial names.
    fn trim(&mut self, context: &mut TrialContext<'_, '_>) -> Result<Worked, TrialError> {
        match self.asked.trim {
            TrimMechanism::Worker => {
                let mechanism = match context.plan.settings.subject.pager() {
                    Some(_) => "by the worker's pager",
                    None => "madvise(MADV_PAGEOUT) by the worker",
                };
                self.mechanism = Some(mechanism.to_owned());
                context.find(&mut self.worker, &Command::Trim)
            }
            TrimMechanism::ProcessMadvise => {
                self.mechanism = Some("process_madvise(MADV_PAGEOUT) by the runner".to_owned());
                self.worker
                    .trim_from_outside(
                        self.asked.filling.threads,
                        context.timeout(),
                        context.runner.stop.flag(),
                    )
                    .map(Worked::from)
                    .map_err(|error| context.explain(&error))
            }
            TrimMechanism::Cgroup => self.reclaim(context).map(Worked::from),
        }
    }

    /// Checks that the pages left, and notes how many of a file stayed in the page cache, where a restore reads no disk.
    fn check_trimmed(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        let memory = self.asked.filling.memory;
        let is_paged = context.is_paged();
        let stayed = match memory {
            // The pager's store is memory of the worker as well.
            Backing::Anonymous if !is_paged => None,
            _ => Some(context.in_core(&mut self.worker)?),
        };
        if memory == Backing::File
            && let (Some(trim), Some(cached)) = (context.finished.last_mut(), stayed)
        {
            let values = &mut trim.phase.values;
            values.insert(finding::CACHED.to_owned(), cached as f64);
        }
        check_trimmed(context, stayed);
        Ok(())
    }

    /// Frees the memory of trimmed pages that are still in the swap cache, and counts that into the trim.
    ///
    /// A page written to a disk stays in the swap cache until a reclaim: its memory is not free, and a restore would
    /// not read the disk. zram leaves nothing in the swap cache.
    fn empty_swap_cache(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        before: &Snapshot,
        mut trim: Worked,
    ) -> Result<Worked, TrialError> {
        let Some(cgroup) = context
            .cgroup()
            .filter(|_| context.plan.settings.subject.has_swap())
        else {
            return Ok(trim);
        };
        let few = few(context);
        let (watch, start) = (Stopwatch::start(UsageScope::Thread), Instant::now());
        let mut rounds = 0;
        loop {
            let cached = context
                .snapshot()?
                .swap_cache()
                .saturating_sub(before.swap_cache());
            if cached <= few || start.elapsed() > context.timeout() || context.runner.stop.requested() {
                break;
            }
            reclaim_cgroup(context, cgroup, cached)?;
            rounds += 1;
            std::thread::sleep(SWAP_CACHE_PAUSE);
        }
        if rounds == 0 {
            return Ok(trim);
        }
        if let Some(mechanism) = &mut self.mechanism {
            mechanism.push_str(", then reclaim of the swap cache");
        }
        trim.cost = trim.cost.and(watch.stop(0));
        Ok(trim)
    }

    fn reclaim(&mut self, context: &mut TrialContext<'_, '_>) -> Result<Cost, TrialError> {
        let Some(cgroup) = context.cgroup() else {
            return Err(TrialError::new(
                Exit::Missing,
                FailureCode::NotRun,
                "trim = \"cgroup\" needs a memory cgroup, and there is none",
            ));
        };
        let size = self.asked.filling.size;
        let watch = Stopwatch::start(UsageScope::Thread);
        let reclaimed = reclaim_cgroup(context, cgroup, size)?;
        self.mechanism = Some(reclaimed.mechanism.to_owned());
        Ok(watch.stop(size))
    }

    fn restore(&mut self, context: &mut TrialContext<'_, '_>) -> Result<Cost, TrialError> {
        let (cost, verification) = self.call(context, &Command::Restore)?;
        match verification {
            Some(found) if found.holds() && found.bytes == self.asked.filling.size => context.verified = true,
            Some(found) => context
                .errors
                .push(TrialError::failed(FailureCode::WrongBytes, found)),
            None => context.errors.push(TrialError::failed(
                FailureCode::WrongBytes,
                "the worker compared nothing",
            )),
        }
        Ok(cost)
    }
}

/// Has dirty pages written to their files. The bytes are those that the kernel had not yet written by itself, where it
/// counts them.
pub(super) fn write_back(
    context: &mut TrialContext<'_, '_>,
    worker: &mut Worker,
) -> Result<Worked, TrialError> {
    let dirty = context.cgroup().and_then(Cgroup::dirty);
    let mut worked = context.find(worker, &Command::WriteBack)?;
    if let Some(dirty) = dirty {
        worked.cost.bytes = worked.cost.bytes.min(dirty);
        worked.findings.set(finding::DIRTY, dirty as f64);
    }
    Ok(worked)
}

/// Bytes that may stay behind without a phase having failed.
fn few(context: &TrialContext<'_, '_>) -> u64 {
    (context.plan.settings.size() as f64 * (1.0 - REACHED)) as u64
}

fn reclaim_cgroup(
    context: &TrialContext<'_, '_>,
    cgroup: &Cgroup,
    bytes: u64,
) -> Result<Reclaimed, TrialError> {
    cgroup
        .reclaim(bytes, context.timeout(), context.runner.stop.flag())
        .map_err(|error| match context.runner.stop.cause() {
            Some(cause) => TrialError::stopped(&cause),
            None => TrialError::failed(FailureCode::Trim, error),
        })
}

/// Why nothing can be trimmed here, if so.
fn cannot_trim(context: &TrialContext<'_, '_>) -> Option<TrialError> {
    match &context.surroundings {
        // A pager needs no environment.
        Surroundings::Lacking(missing) if missing.is_empty() && context.is_paged() => None,
        Surroundings::Lacking(missing) => Some(lacking("trim", missing)),
        Surroundings::Made(_) if context.is_paged() => None,
        Surroundings::Made(environment)
            if environment.swap_device().is_none() && context.plan.settings.memory().goes_to_swap() =>
        {
            Some(TrialError::failed(
                FailureCode::NotRun,
                format_args!("trim {NOT_RUN}: the subject is `none`, so there is no swap to trim to"),
            ))
        }
        Surroundings::Made(_) => None,
    }
}

/// Checks that the fill stayed in the working set: else the later phases measure something else.
pub(super) fn check_filled(
    context: &mut TrialContext<'_, '_>,
    worker: &mut Worker,
) -> Result<(), TrialError> {
    let (size, limit) = (context.plan.settings.size(), context.plan.settings.limit);
    let is_paged = context.is_paged();
    let resident = match context.plan.settings.memory() {
        Backing::Anonymous if !is_paged => context.finished.last().map_or(0, |fill| fill.after.target()),
        // Not its resident files: its program is one. A pager's tables and store are none of the size.
        _ => context.in_core(worker)?,
    };
    if (resident as f64) < size as f64 * REACHED {
        context.errors.push(TrialError::failed(
            FailureCode::SizeNotReached,
            format_args!(
                "size not reached: {} of {} were in the working set after fill (the cgroup's limit is {}); \
                 raise `limit` or lower `size`",
                quantity::bytes(resident as f64),
                quantity::bytes(size as f64),
                quantity::bytes(limit as f64),
            ),
        ));
    }
    Ok(())
}

/// Counts the pages that stayed: pages that another program reclaimed during the rest are out as well. `in_core` are the
/// bytes in RAM of memory with files.
fn check_trimmed(context: &mut TrialContext<'_, '_>, in_core: Option<u64>) {
    let (size, few) = (context.plan.settings.size(), few(context));
    let foreign = context.foreign_swap();
    let memory = context.plan.settings.memory();
    let is_paged = context.is_paged();
    let empty = context
        .finished
        .first()
        .map_or(0, |fill| fill.before.working_set(memory));
    let Some(trim) = context.finished.last_mut() else {
        return;
    };
    let (before, after) = (trim.before.working_set(memory), trim.after.working_set(memory));
    trim.phase.bytes = before.saturating_sub(after);
    match in_core {
        // The working set of a pager: its store is as resident as the pages were.
        Some(in_core) if is_paged => trim.phase.bytes = size.saturating_sub(in_core),
        // Pages of the program, which is a file, left as well.
        Some(_) => trim.phase.bytes = trim.phase.bytes.min(size),
        None => {}
    }
    trim.phase.gb_per_s = quantity::gb_per_s(trim.phase.bytes, trim.phase.seconds);
    // The working set may have grown by more than the fill: by a file's bytes, by the program's own.
    let stayed = in_core.unwrap_or(after.saturating_sub(empty)).min(size);
    let cached = match is_paged {
        // The growth is of other programs.
        true => 0,
        false => trim.after.swap_cache().saturating_sub(trim.before.swap_cache()),
    };
    let moved = size - stayed;
    if cached > few {
        context.errors.push(TrialError::failed(
            FailureCode::Trim,
            format_args!(
                "{} of {} stayed in the swap cache after the trim, so their memory is not free and restore does \
                 not read them; is the disk slow?",
                quantity::bytes(cached as f64),
                quantity::bytes(size as f64),
            ),
        ));
    }
    let is_short = (moved as f64) < size as f64 * REACHED;
    if is_short && (trim.phase.bytes < size || in_core.is_some()) {
        let cause = match foreign {
            Some(foreign) => format!(
                "pages of other cgroups take {} of the swap device",
                quantity::bytes(foreign as f64)
            ),
            None if memory == Backing::File => {
                "the rest is in the page cache; is memory locked, or `swap-dir` in memory?".to_owned()
            }
            None if is_paged => "the rest does not fit into the pager's budget; raise `limit`".to_owned(),
            None => "is the swap device full, or memory locked?".to_owned(),
        };
        context.errors.push(TrialError::failed(
            FailureCode::Trim,
            format_args!(
                "trim moved only {} of {} out of the working set; {cause}",
                quantity::bytes(moved as f64),
                quantity::bytes(size as f64),
            ),
        ));
    }
}
