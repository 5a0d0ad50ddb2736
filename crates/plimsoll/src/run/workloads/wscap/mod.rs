//! One worker scans its memory, first uncapped, then under a cap, then with its working set emptied once.

mod balance;
mod scan;

use std::time::Duration;

use super::compression::check_filled;
use crate::environment::{Cgroup, EnvironmentError};
use crate::exit::Exit;
use crate::quantity;
use crate::recording::model::NOT_RUN;
use crate::run::phase::Worked;
use crate::run::stage::{Stage, Surroundings};
use crate::run::trial::{Trouble, lacking};
use crate::sample::{ProfileError, Profiler, Symbols};
use crate::scenario::workloads::wscap::{finding, phase};
use crate::scenario::{CapBy, WorkloadKind, Wscap};
use crate::workload::protocol::{Command, Reply};
use crate::workload::{Worker, WorkerError};
use scan::Scan;

pub(super) use scan::Scanner;

/// Pause between two looks at the worker while it scans: as often as the system is sampled.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Share of the size that may stay resident when the working set is emptied: the kernel has some pages in hand just then.
const MAY_STAY: f64 = 0.05;

/// What holds the worker to its cap where the cgroup does not.
const BALANCE: &str = "madvise(MADV_PAGEOUT) by a thread of the worker, once a second";

/// Runs the trial's work.
pub(super) fn run(stage: &mut Stage<'_, '_>, wscap: &Wscap) -> Result<(), Trouble> {
    let mut scanner = Experiment {
        worker: stage.spawn()?,
        wscap: wscap.clone(),
        symbols: Symbols::read(),
    };
    stage.watch(&[scanner.worker.pid()]);
    let ended = scanner.work(stage);
    stage.retire(scanner.worker);
    if let Err(why) = scanner.symbols {
        stage.param("fault-path", format!("not measured: {why}"));
    }
    ended
}

/// The worker of one trial.
struct Experiment {
    worker: Worker,
    wscap: Wscap,
    /// The kernel's symbols, or why no share of CPU time can be told.
    symbols: Result<Symbols, ProfileError>,
}

impl Experiment {
    fn work(&mut self, stage: &mut Stage<'_, '_>) -> Result<(), Trouble> {
        let hold = self.wscap.hold;
        let fill = stage.fill(self.wscap.size, self.wscap.request());
        stage.phase(phase::FILL, Some(1), |stage, _| {
            stage.find(&mut self.worker, &fill)
        })?;
        check_filled(stage);
        stage.rest(hold)?;
        stage.phase(phase::UNCAPPED, Some(2), |stage, _| {
            self.scan(stage, phase::UNCAPPED, None)
        })?;
        match (cannot_cap(stage), stage.cgroup()) {
            (Some(trouble), _) => stage.troubles.push(trouble),
            (None, None) => {}
            (None, Some(cgroup)) => {
                self.capped(stage, cgroup)?;
                stage.rest(hold)?;
                stage.phase(phase::EMPTIED, Some(4), |stage, _| self.emptied(stage))?;
            }
        }
        stage.phase(phase::VERIFY, Some(5), |stage, _| self.verify(stage))
    }

    /// Scans under the cap, which is gone afterwards.
    fn capped(&mut self, stage: &mut Stage<'_, '_>, cgroup: &Cgroup) -> Result<(), Trouble> {
        let cap = self.wscap.cap();
        let (mechanism, balance, set) = match self.wscap.cap_by {
            CapBy::Limit => (cgroup.limit_file(), None, set_limit(stage, cgroup, cap)),
            CapBy::High => ("memory.high", None, set_high(stage, cgroup, Some(cap))),
            CapBy::Balance => (BALANCE, Some(cap), Ok(())),
        };
        stage.param("mechanism", mechanism);
        if let Err(error) = set {
            // The rest of the trial is as good without it.
            stage.go_on()?;
            stage.troubles.push(Trouble::new(
                Exit::WorkloadFailed,
                format_args!("capped {NOT_RUN}: {error}"),
            ));
            return Ok(());
        }
        stage.phase(phase::CAPPED, Some(3), |stage, _| {
            self.scan(stage, phase::CAPPED, balance)
        })?;
        let lifted = match self.wscap.cap_by {
            CapBy::Limit => set_limit(stage, cgroup, stage.plan.settings.limit),
            CapBy::High => set_high(stage, cgroup, None),
            CapBy::Balance => Ok(()),
        };
        lifted.or_else(|error| {
            stage.go_on()?;
            Err(Trouble::new(Exit::WorkloadFailed, error))
        })
    }

    /// Empties the working set once, and scans: it refills.
    fn emptied(&mut self, stage: &mut Stage<'_, '_>) -> Result<Worked, Trouble> {
        let emptied = stage.find(&mut self.worker, &Command::Trim)?.cost;
        let stayed = stage.snapshot()?.target().saturating_sub(own_bytes(stage));
        stage.troubles.extend(not_emptied(stayed, self.wscap.size));
        let mut worked = self.scan(stage, phase::EMPTIED, None)?;
        worked.findings.set(finding::EMPTYING, emptied.seconds);
        worked.findings.set(finding::STAYED, stayed as f64);
        worked.cost = emptied.and(worked.cost);
        Ok(worked)
    }

    /// Has the worker scan, and looks at it meanwhile: how much of it is resident, and what its CPU time is spent in.
    fn scan(
        &mut self,
        stage: &mut Stage<'_, '_>,
        name: &str,
        balance: Option<u64>,
    ) -> Result<Worked, Trouble> {
        let scan = Command::work(
            WorkloadKind::Wscap,
            &Scan {
                seconds: self.wscap.duration,
                balance,
            },
        );
        let mut profiler = self.profiler();
        self.worker.send(&scan).map_err(|error| stage.explain(&error))?;
        let own = own_bytes(stage);
        let mut resident: Option<(u64, u64)> = None;
        let mut left = stage.timeout();
        let reply = loop {
            match self.worker.answer(LOOK_EVERY.min(left), stage.lab.stop.flag()) {
                Ok(reply) => break reply,
                Err(WorkerError::Timeout { .. }) if left > LOOK_EVERY => left -= LOOK_EVERY,
                Err(error) => return Err(stage.explain(&error)),
            }
            let now = stage.snapshot()?.target().saturating_sub(own);
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
            stage.lists.push((format!("{name}_{}", finding::RATE), rates));
        }
        Ok(worked)
    }

    /// Samples of the worker's CPU time from now on, where that is allowed; else it is written down why not.
    fn profiler(&mut self) -> Option<Profiler> {
        match Profiler::start(self.worker.pid(), self.symbols.as_ref().ok()?) {
            Ok(profiler) => Some(profiler),
            Err(why) => {
                self.symbols = Err(why);
                None
            }
        }
    }

    /// Compares every byte with what was filled in, and that of each page with what was written last.
    fn verify(&mut self, stage: &mut Stage<'_, '_>) -> Result<Worked, Trouble> {
        match stage.ask(&mut self.worker, &Command::Restore)? {
            Reply::Done {
                cost,
                verification: Some(found),
            } => {
                if found.holds() {
                    stage.verified = true;
                } else {
                    stage.troubles.push(Trouble::new(Exit::WorkloadFailed, found));
                }
                Ok(cost.into())
            }
            other => Err(Trouble::unexpected(&other)),
        }
    }
}

/// Why nothing can be capped here, if so.
fn cannot_cap(stage: &Stage<'_, '_>) -> Option<Trouble> {
    match &stage.surroundings {
        Surroundings::Lacking(missing) => Some(lacking(phase::CAPPED, missing)),
        Surroundings::Made(environment) if environment.swap_device().is_none() => Some(Trouble::new(
            Exit::WorkloadFailed,
            format_args!(
                "capped {NOT_RUN}: the subject is `none`, so there is no swap for what does not fit under the cap"
            ),
        )),
        Surroundings::Made(_) => None,
    }
}

/// What the worker held before it filled anything: its program's own.
fn own_bytes(stage: &Stage<'_, '_>) -> u64 {
    stage.finished.first().map_or(0, |fill| fill.before.target())
}

/// That emptying left more of `size` bytes resident than it may, if so: then the scan after it does not refill.
fn not_emptied(stayed: u64, size: u64) -> Option<Trouble> {
    (stayed as f64 > MAY_STAY * size as f64).then(|| {
        Trouble::new(
            Exit::WorkloadFailed,
            format_args!(
                "{} of {} stayed in the working set when it was emptied; is the swap device full, or memory locked?",
                quantity::bytes(stayed as f64),
                quantity::bytes(size as f64),
            ),
        )
    })
}

fn set_high(stage: &Stage<'_, '_>, cgroup: &Cgroup, bytes: Option<u64>) -> Result<(), EnvironmentError> {
    cgroup.set_high(bytes, stage.timeout(), stage.lab.stop.flag())
}

fn set_limit(stage: &Stage<'_, '_>, cgroup: &Cgroup, bytes: u64) -> Result<(), EnvironmentError> {
    cgroup.set_limit(bytes, stage.timeout(), stage.lab.stop.flag())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_of_an_emptied_working_set_is_told() {
        assert!(not_emptied(0, 100 << 20).is_none() && not_emptied(5 << 20, 100 << 20).is_none());
        let trouble = not_emptied(50 << 20, 100 << 20).unwrap();
        assert!(
            trouble.reason.starts_with("50.0 MiB of 100 MiB stayed"),
            "{}",
            trouble.reason
        );
    }
}
