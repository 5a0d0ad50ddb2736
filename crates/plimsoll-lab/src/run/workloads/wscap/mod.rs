//! One worker scans its memory, first uncapped, then under a cap, then with its working set emptied once.
//!
//! The OOM killer sometimes ends a worker in a small cgroup although swap is free (see [`super::loadline`]). Such a kill
//! says nothing about the cap: the work begins anew with another worker.

mod balance;
mod scan;

use std::time::Duration;

use super::compression::{check_filled, write_back};
use super::loadline::TRIES;
use crate::environment::{Cgroup, Environment, EnvironmentError};

use crate::run::context::{Surroundings, TrialContext};
use crate::run::phase::Worked;
use crate::run::swap_use::SwapPeak;
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::protocol::{Command, Reply};
use crate::workload::{Cost, Worker, WorkerError};
use plimsoll_model::quantity;
use plimsoll_model::recording::model::NOT_RUN;
use plimsoll_model::recording::{FailureCode, Warning, WarningCode};
use plimsoll_sample::{ProfileError, Profiler, Symbols, kernel_symbols};

use plimsoll_model::scenario::workloads::finding::OVER_BUDGET;
use plimsoll_model::scenario::workloads::wscap::{finding, phase};
use plimsoll_model::scenario::{Backing, CapBy, WorkloadKind, Wscap};
use scan::Scan;
pub(super) use scan::Scanner as Requests;

/// The part of a trial that needs an environment.
pub(super) const CONFINED: &str = "capped";

/// Pause between two looks at the worker while it scans: as often as the system is sampled.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Share of the size that may stay resident when the working set is emptied: the kernel has some pages in hand just then.
const MAY_STAY: f64 = 0.05;
/// Times that the working set is emptied at most, and the rest in seconds between two: on a busy disk, up to a tenth of 16
/// MiB stay the first time, as the kernel still has them in hand (it reads ahead, or they are in a list of another CPU).
const EMPTYING_TRIES: u32 = 5;
const EMPTYING_PAUSE: f64 = 0.1;

/// Mechanism of a pager.
const PAGER: &str = "budget of the worker's pager";
/// Mechanism of `cap-by=balance`.
const BALANCE: &str = "madvise(MADV_PAGEOUT) by a thread of the worker, once a second";

pub(super) fn run(context: &mut TrialContext<'_, '_>, wscap: &Wscap) -> Result<(), TrialError> {
    let mut symbols = kernel_symbols();
    let mut early_kills = 0;
    let ended = loop {
        let mut scanner = Experiment {
            worker: context.spawn()?,
            wscap: wscap.clone(),
            symbols,
            swap: SwapPeak::default(),
        };
        context.watch(&[scanner.worker.pid()]);
        let ended = scanner.work(context);
        context.retire(scanner.worker);
        symbols = scanner.symbols;
        let was_killed = ended.is_err() && context.oom_killed() > 0;
        let device = context.environment().and_then(Environment::swap_device);
        let was_free = device.is_some_and(|device| scanner.swap.own_is_free(device.size));
        early_kills += u32::from(was_killed && was_free);
        if !restarts(was_killed && was_free, early_kills) {
            break ended;
        }
        let text = format!(
            "{}: the OOM killer ended the worker although swap was free; try {} of {TRIES} begins with another worker",
            context.plan.id,
            early_kills + 1,
        );
        context.runner.warn(Warning::new(WarningCode::EarlyKill, text))?;
        context.restart();
        // The next worker fills its memory without a cap.
        lift(context, wscap)?;
        context.drain()?;
    };
    if early_kills > 0 {
        context.param("early-kills", early_kills.to_string());
    }
    if context.is_paged() {
        context.param(
            "fault-path",
            "not measured: the pager resolves the faults in the program",
        );
    } else if let Err(why) = symbols {
        context.param("fault-path", format!("not measured: {why}"));
    }
    ended
}

/// Whether the work begins anew with another worker, after so many kills that came although swap was free.
fn restarts(was_early: bool, early_kills: u32) -> bool {
    was_early && early_kills < TRIES
}

/// Lifts the cap, if one can be set.
fn lift(context: &TrialContext<'_, '_>, wscap: &Wscap) -> Result<(), TrialError> {
    let Some(cgroup) = context.cgroup() else {
        return Ok(());
    };
    let lifted = match wscap.cap_by {
        CapBy::Limit => set_limit(context, cgroup, context.plan.settings.limit),
        CapBy::High => set_high(context, cgroup, None),
        CapBy::Balance => Ok(()),
    };
    lifted.or_else(|error| {
        context.go_on()?;
        Err(TrialError::failed(FailureCode::Limit, error))
    })
}

struct Experiment {
    worker: Worker,
    wscap: Wscap,
    /// The kernel's symbols, or the reason why the trial has no profile.
    symbols: Result<Symbols, ProfileError>,
    /// The most swap that was seen in use.
    swap: SwapPeak,
}

impl Experiment {
    fn work(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        let hold = self.wscap.filling.hold;
        let fill = context.fill(self.wscap.filling.size, self.wscap.request());
        context.phase(phase::FILL, Some(1), |context, _| {
            context.find(&mut self.worker, &fill)
        })?;
        context.watch_pagers(&[self.worker.pid()]);
        check_filled(context, &mut self.worker)?;
        context.rest(hold)?;
        context.phase(phase::UNCAPPED, Some(2), |context, _| {
            self.scan(context, phase::UNCAPPED, Held::Freely)
        })?;
        let capped = match (cannot_cap(context), context.cgroup()) {
            (Some(error), _) => {
                context.errors.push(error);
                false
            }
            (None, _) if context.is_paged() => {
                self.capped_pager(context)?;
                true
            }
            (None, None) => false,
            (None, Some(cgroup)) => {
                self.capped(context, cgroup)?;
                true
            }
        };
        if capped {
            context.rest(hold)?;
            context.phase(phase::EMPTIED, Some(4), |context, _| self.emptied(context))?;
        }
        context.phase(phase::VERIFY, Some(5), |context, _| self.verify(context))
    }

    /// Scans with the cap as the pager's budget. The scan restores the former budget.
    fn capped_pager(&mut self, context: &mut TrialContext<'_, '_>) -> Result<(), TrialError> {
        let cap = self.wscap.cap();
        context.param("mechanism", PAGER);
        context.phase(phase::CAPPED, Some(3), |context, _| {
            self.scan(context, phase::CAPPED, Held::InBudget(cap))
        })?;
        let capped = context.finished.last();
        let over = capped.and_then(|capped| capped.phase.values.get(OVER_BUDGET).copied());
        if let Some(over) = over {
            context.errors.push(TrialError::failed(
                FailureCode::Limit,
                format_args!(
                    "the pager took {} more than its cap of {}: the compressed data and the pager's own tables leave no room for pages; lower `load` or raise `size`",
                    quantity::bytes(over),
                    quantity::bytes(cap as f64),
                ),
            ));
        }
        Ok(())
    }

    /// Scans under the cap, which is gone afterwards.
    fn capped(&mut self, context: &mut TrialContext<'_, '_>, cgroup: &Cgroup) -> Result<(), TrialError> {
        let cap = self.wscap.cap();
        if self.wscap.filling.memory == Backing::File {
            // The kernel lowers no limit below dirty pages.
            write_back(context, &mut self.worker)?;
        }
        let (mechanism, balance, set) = match self.wscap.cap_by {
            CapBy::Limit => (cgroup.limit_file(), Held::Freely, set_limit(context, cgroup, cap)),
            CapBy::High => ("memory.high", Held::Freely, set_high(context, cgroup, Some(cap))),
            CapBy::Balance => (BALANCE, Held::Balanced(cap), Ok(())),
        };
        context.param("mechanism", mechanism);
        if let Err(error) = set {
            // The rest of the trial is as good without it.
            context.go_on()?;
            context.errors.push(TrialError::failed(
                FailureCode::NotRun,
                format_args!("capped {NOT_RUN}: {error}"),
            ));
            return Ok(());
        }
        context.phase(phase::CAPPED, Some(3), |context, _| {
            self.scan(context, phase::CAPPED, balance)
        })?;
        lift(context, &self.wscap)
    }

    /// Empties the working set, and scans: it refills.
    fn emptied(&mut self, context: &mut TrialContext<'_, '_>) -> Result<Worked, TrialError> {
        let size = self.wscap.filling.size;
        let mut emptied = self.empty(context)?;
        for _ in 1..EMPTYING_TRIES {
            if not_emptied(emptied.stayed, size).is_none() {
                break;
            }
            context.rest(EMPTYING_PAUSE)?;
            emptied = emptied.and(self.empty(context)?);
        }
        context.errors.extend(not_emptied(emptied.stayed, size));
        let mut worked = self.scan(context, phase::EMPTIED, Held::Freely)?;
        worked.findings.set(finding::EMPTYING, emptied.trimmed.seconds);
        worked.findings.set(finding::STAYED, emptied.stayed as f64);
        let mut before = emptied.trimmed;
        if let Some(written) = emptied.written {
            worked.findings.set(finding::WRITEBACK, written.seconds);
            before = written.and(emptied.trimmed);
        }
        worked.cost = before.and(worked.cost);
        Ok(worked)
    }

    /// Trims the working set once.
    fn empty(&mut self, context: &mut TrialContext<'_, '_>) -> Result<Emptied, TrialError> {
        let written = match self.wscap.filling.memory {
            // The kernel unmaps a dirty page of a file and keeps it.
            Backing::File => Some(write_back(context, &mut self.worker)?.cost),
            Backing::Anonymous | Backing::Memfd => None,
        };
        let trimmed = context.find(&mut self.worker, &Command::Trim)?.cost;
        let stayed = match self.wscap.filling.memory {
            // The store of a pager is memory of the worker too.
            Backing::Anonymous if !context.is_paged() => {
                context.snapshot()?.target().saturating_sub(own_bytes(context))
            }
            _ => context.in_core(&mut self.worker)?,
        };
        Ok(Emptied {
            written,
            trimmed,
            stayed,
        })
    }

    /// Has the worker scan, and measures its resident memory and profile meanwhile.
    fn scan(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        name: &str,
        held: Held,
    ) -> Result<Worked, TrialError> {
        let scan = Command::work(
            WorkloadKind::Wscap,
            &Scan {
                seconds: self.wscap.duration,
                balance: held.balance(),
                ram: held.budget(),
            },
        );
        let mut profiler = self.profiler(context);
        self.worker.send(&scan).map_err(|error| context.explain(&error))?;
        let own = own_bytes(context);
        let refaults = file_refaults(context);
        let mut resident: Option<(u64, u64)> = None;
        let mut left = context.timeout();
        let reply = loop {
            match self
                .worker
                .answer(LOOK_EVERY.min(left), context.runner.stop.flag())
            {
                Ok(reply) => break reply,
                Err(WorkerError::Timeout { .. }) if left > LOOK_EVERY => left -= LOOK_EVERY,
                Err(error) => return Err(context.explain(&error)),
            }
            self.swap.look(context, &self.worker);
            let now = context.snapshot()?;
            let now = context.working_set(&now).saturating_sub(own);
            let (least, most) = resident.unwrap_or((now, now));
            resident = Some((least.min(now), most.max(now)));
            if let Some(profiler) = &mut profiler {
                profiler.drain();
            }
        };
        let mut worked = Worked::of_reply(reply)?;
        if let Some((least, most)) = resident {
            worked.findings.set(finding::RESIDENT_MIN, least as f64);
            worked.findings.set(finding::RESIDENT_MAX, most as f64);
        }
        if let (Some(before), Some(after)) = (refaults, file_refaults(context))
            && let Some(scans) = worked.findings.values.get(finding::SCANS)
            && let Some(each) = quantity::ratio(after.saturating_sub(before) as f64, *scans)
        {
            worked.findings.set(finding::FILE_REFAULTS, each);
        }
        if let (Some(profiler), Ok(symbols)) = (profiler, &self.symbols) {
            let profile = profiler.finish(symbols);
            worked
                .findings
                .set(finding::PROFILE_SAMPLES, profile.samples as f64);
            worked.findings.set(finding::PROFILE_LOST, profile.lost as f64);
            if let Some(percent) = profile.fault_path_percent {
                worked.findings.set(finding::FAULT_PATH, percent);
            }
            worked.profile = profile.functions;
        }
        if let Some(rates) = worked.findings.lists.remove(finding::RATE) {
            context.lists.push((format!("{name}_{}", finding::RATE), rates));
        }
        Ok(worked)
    }

    /// Starts a profile of the worker's CPU time, or notes the reason why it cannot.
    fn profiler(&mut self, context: &TrialContext<'_, '_>) -> Option<Profiler> {
        // A pager resolves its faults in the program, which has no symbols.
        if context.is_paged() {
            return None;
        }
        match Profiler::start(self.worker.pid(), self.symbols.as_ref().ok()?) {
            Ok(profiler) => Some(profiler),
            Err(why) => {
                self.symbols = Err(why);
                None
            }
        }
    }

    /// Compares every byte with the fill, and the first byte of each page with the last scan.
    fn verify(&mut self, context: &mut TrialContext<'_, '_>) -> Result<Worked, TrialError> {
        match context.ask(&mut self.worker, &Command::Restore)? {
            Reply::Done {
                cost,
                verification: Some(found),
            } => {
                if found.holds() && found.bytes == self.wscap.filling.size {
                    context.verified = true;
                } else {
                    context
                        .errors
                        .push(TrialError::failed(FailureCode::WrongBytes, found));
                }
                Ok(cost.into())
            }
            other => Err(TrialError::unexpected(&other)),
        }
    }
}

/// How the working set is held at a cap during a scan, besides the cgroup.
#[derive(Debug, Clone, Copy)]
enum Held {
    /// Not at all.
    Freely,
    /// By a thread of the worker that looks once a second.
    Balanced(u64),
    /// By the budget of the worker's pager.
    InBudget(u64),
}

impl Held {
    fn balance(self) -> Option<u64> {
        match self {
            Held::Balanced(cap) => Some(cap),
            Held::Freely | Held::InBudget(_) => None,
        }
    }

    /// The budget of the worker's pager, if that is the cap.
    fn budget(self) -> Option<u64> {
        match self {
            Held::InBudget(cap) => Some(cap),
            Held::Freely | Held::Balanced(_) => None,
        }
    }
}

/// The working set after it was trimmed.
struct Emptied {
    /// Cost of writing dirty pages of a file.
    written: Option<Cost>,
    trimmed: Cost,
    /// Bytes that are still resident.
    stayed: u64,
}

impl Emptied {
    /// This and then `later`.
    fn and(self, later: Emptied) -> Emptied {
        let written = self.written.zip(later.written);
        Emptied {
            written: written.map(|(first, second)| first.and(second)),
            trimmed: self.trimmed.and(later.trimmed),
            stayed: later.stayed,
        }
    }
}

/// Why nothing can be capped here, if so.
fn cannot_cap(context: &TrialContext<'_, '_>) -> Option<TrialError> {
    match &context.surroundings {
        _ if context.needs_no_environment() => None,
        Surroundings::Lacking(missing) => Some(lacking(phase::CAPPED, missing)),
        Surroundings::Made(_) if context.is_paged() => None,
        Surroundings::Made(environment)
            if environment.swap_device().is_none() && context.plan.settings.memory().goes_to_swap() =>
        {
            Some(TrialError::failed(
                FailureCode::NotRun,
                format_args!("capped {NOT_RUN}: the subject is `none`, so memory above the cap has no swap"),
            ))
        }
        Surroundings::Made(_) => None,
    }
}

/// Resident bytes of the worker besides its filled memory.
fn own_bytes(context: &TrialContext<'_, '_>) -> u64 {
    let Some(fill) = context.finished.first() else {
        return 0;
    };
    match context.plan.settings.memory() {
        Backing::Anonymous => fill.before.target(),
        // The fill itself reads pages of the program, which is a file too.
        Backing::Memfd | Backing::File => context
            .working_set(&fill.after)
            .saturating_sub(context.plan.settings.size()),
    }
}

/// Pages of files that the trial's cgroup has read again so far; `None` of other memory, and where they are not counted.
fn file_refaults(context: &TrialContext<'_, '_>) -> Option<u64> {
    match context.plan.settings.memory() {
        Backing::File => context.cgroup()?.file_refaults(),
        Backing::Anonymous | Backing::Memfd => None,
    }
}

/// That emptying left more of `size` bytes resident than it may, if so: then the scan after it does not refill.
fn not_emptied(stayed: u64, size: u64) -> Option<TrialError> {
    (stayed as f64 > MAY_STAY * size as f64).then(|| {
        TrialError::failed(
            FailureCode::Trim,
            format_args!(
                "{} of {} stayed in the working set when it was emptied; is the swap device full, or memory locked?",
                quantity::bytes(stayed as f64),
                quantity::bytes(size as f64),
            ),
        )
    })
}

fn set_high(
    context: &TrialContext<'_, '_>,
    cgroup: &Cgroup,
    bytes: Option<u64>,
) -> Result<(), EnvironmentError> {
    cgroup.set_high(bytes, context.timeout(), context.runner.stop.flag())
}

fn set_limit(context: &TrialContext<'_, '_>, cgroup: &Cgroup, bytes: u64) -> Result<(), EnvironmentError> {
    cgroup.set_limit(bytes, context.timeout(), context.runner.stop.flag())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cap of 8 MiB on zswap met the OOM killer twice, beside other load.
    #[test]
    fn a_kill_with_free_swap_restarts_the_work_up_to_three_times() {
        assert!(restarts(true, 1) && restarts(true, TRIES - 1));
        assert!(!restarts(true, TRIES), "three kills are the cap's doing");
        assert!(
            !restarts(false, 0),
            "a kill with the swap full is the cap's doing"
        );
    }

    #[test]
    fn a_working_set_that_stays_resident_is_an_error() {
        assert!(not_emptied(0, 100 << 20).is_none() && not_emptied(5 << 20, 100 << 20).is_none());
        let error = not_emptied(50 << 20, 100 << 20).unwrap();
        assert_eq!(error.failure.code, FailureCode::Trim);
        let bytes = [50, 100].map(|mib| quantity::bytes(f64::from(mib << 20)));
        assert!(
            bytes.iter().all(|bytes| error.failure.message.contains(bytes)),
            "{error:?}"
        );
    }
}
