//! A program of the user runs whole, under one limit after the other, until its knee is found.
//!
//! Each run is a point. The first one, under the largest limit, is the base, which has to succeed: the others are compared
//! with it. A point that the OOM killer ends, that ends otherwise than the base, or that takes too long has a status: that
//! is a result of its limit.

mod search;
mod watch;

use std::time::Duration;

use crate::environment::{Cgroup, Environment, EnvironmentError};
use crate::program::Content;
use crate::run::context::{Surroundings, TrialContext};
use crate::run::phase::{Snapshot, Worked};
use crate::run::swap_use::is_free;
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::{Cost, Findings};
use plimsoll_model::exit::Exit;
use plimsoll_model::quantity;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::scenario::workloads::command::finding::{
    ANON_PEAK, COST, CPU_SYSTEM, CPU_USER, EARLY_KILLS, EXIT_CODE, FILE_PEAK, LEFT, LIMIT, LIMIT_HITS,
    MAJOR_FAULTS, METRIC, OUTPUT, PEAK, PEAK_SAMPLED, PSI_FULL, PSI_SOME, REFAULT_ANON, REFAULT_FILE,
    SLOWDOWN, STATUS, SWAP_PEAK, WALL,
};
use plimsoll_model::scenario::workloads::command::{MetricPattern, Point, Status, base_cost};
use plimsoll_model::scenario::{PageCache, ProgramRun};
use search::next_limit;
use watch::{Watched, watched_run};

pub(super) use crate::workload::NoRequests as Requests;

/// The part of a trial that needs an environment.
pub(super) const CONFINED: &str = "command";

/// Runs that a limit gets at most, if the OOM killer ends them although swap is free.
const TRIES: u32 = 3;
/// Patience of a search with a run, in times of the base and in times of the slowest run that is tolerated, and seconds on
/// top.
const PATIENCE: f64 = 10.0;
const BEYOND_TOLERATED: f64 = 2.0;
const GRACE: f64 = 2.0;

/// State that the runs of a trial share.
struct Runs<'a> {
    run: &'a ProgramRun,
    pattern: Option<MetricPattern>,
    base: Option<Base>,
    points: Vec<Point>,
    /// Runs that the OOM killer ended under the present limit although swap was free.
    early_kills: u32,
}

/// The run that others are compared with.
#[derive(Debug, Clone, Copy)]
struct Base {
    seconds: f64,
    stdout: Content,
}

pub(super) fn run(context: &mut TrialContext<'_, '_>, run: &ProgramRun) -> Result<(), TrialError> {
    let environment = match context.surroundings {
        Surroundings::Made(environment) => environment,
        // Without a cgroup there is no limit.
        Surroundings::Lacking(ref missing) => return Err(lacking("command", missing)),
    };
    let Some(cgroup) = environment.cgroup() else {
        return Err(lacking("command", &[]));
    };
    let pattern = run.metric.as_deref().map(MetricPattern::new).transpose();
    let mut runs = Runs {
        run,
        // The scenario was read with it.
        pattern: pattern.map_err(|error| TrialError::failed(FailureCode::Inconsistent, error))?,
        base: None,
        points: Vec::new(),
        early_kills: 0,
    };
    let limit = context.plan.settings.limit;
    if run.cache == PageCache::Warm {
        runs.warm_up(context, cgroup, run.base_limit(limit))?;
    }
    while let Some(limit) = next_limit(&runs.points, run, limit) {
        let again = runs.points.iter().any(|point| point.limit == limit);
        runs.point(context, environment, cgroup, limit, again)?;
    }
    context.verified = true;
    Ok(())
}

impl Runs<'_> {
    /// A run that reads the files of the program, and that counts for nothing else.
    fn warm_up(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        cgroup: &Cgroup,
        limit: u64,
    ) -> Result<(), TrialError> {
        prepare(context, cgroup, limit, PageCache::Cold)?;
        let patience = context.timeout();
        context.phase("warm-up", None, |context, _| {
            let watched = watched_run(context, cgroup, self.run, self.pattern.as_ref(), patience)?;
            match self.status(&watched) {
                Status::Done => Ok(cost_of(&watched)),
                status => Err(self.failed(context, status, &watched)),
            }
        })
    }

    /// Measures under a limit (`again` for a repetition), with another run after an early kill.
    fn point(
        &mut self,
        context: &mut TrialContext<'_, '_>,
        environment: &Environment,
        cgroup: &Cgroup,
        limit: u64,
        again: bool,
    ) -> Result<(), TrialError> {
        let again = if again { " again" } else { "" };
        let name = format!("{}{again}", ProgramRun::phase(limit));
        self.early_kills = 0;
        loop {
            prepare(context, cgroup, limit, self.run.cache)?;
            let mut counts = true;
            let ended = context.phase(&name, None, |context, before| {
                let patience = self.patience(context);
                let watched = watched_run(context, cgroup, self.run, self.pattern.as_ref(), patience)?;
                let status = self.status(&watched);
                if status == Status::Killed && self.is_early(environment, &watched) {
                    counts = false;
                    // A phase that does not count is none: its end says why.
                    return Err(TrialError::failed(
                        FailureCode::OutOfMemory,
                        "the OOM killer ended the program although its swap was free",
                    ));
                }
                if self.base.is_none() && status != Status::Done || self.has_varying_output(limit, status) {
                    return Err(self.failed(context, status, &watched));
                }
                let after = context.snapshot()?;
                let mut worked = Worked::from(cost_of(&watched));
                self.counts(&mut worked.findings, &watched, (limit, status));
                self.end(&mut worked.findings, &watched, status);
                pressure(&mut worked.findings, before, &after);
                Ok(worked)
            });
            if counts {
                return ended;
            }
        }
    }

    /// Longest time of the next run.
    fn patience(&self, context: &TrialContext<'_, '_>) -> Duration {
        let timeout = context.timeout();
        match self.base.filter(|_| self.run.search) {
            Some(base) => timeout.min(longest_run(base.seconds, self.run.tolerate)),
            None => timeout,
        }
    }

    /// Whether the program wrote something else than at the base although nothing has changed: then another output says
    /// nothing about a limit.
    fn has_varying_output(&self, limit: u64, status: Status) -> bool {
        let of_base = self.points.iter().all(|point| point.limit == limit);
        status == Status::OtherOutput && of_base && !self.points.is_empty()
    }

    /// Counts a kill that is not the limit's doing: the cgroup's swap is free, and its statistics lag behind.
    fn is_early(&mut self, environment: &Environment, watched: &Watched) -> bool {
        let free = environment
            .swap_device()
            .is_some_and(|device| is_free(watched.levels.swap, device.size));
        if free && self.early_kills + 1 < TRIES {
            self.early_kills += 1;
            return true;
        }
        false
    }

    fn status(&self, watched: &Watched) -> Status {
        let Some(finished) = &watched.finished else {
            return Status::Killed;
        };
        let other_output = |base: Base| self.run.same_output && base.stdout != finished.stdout;
        match () {
            () if watched.oom_kills > 0 => Status::Killed,
            () if watched.timed_out => Status::Timeout,
            () if finished.code() != 0 => Status::OtherExit,
            () if self.run.cost(finished.seconds, finished.metric).is_none() => Status::NoMetric,
            () if self.base.is_some_and(other_output) => Status::OtherOutput,
            () => Status::Done,
        }
    }

    /// Sets the counters and levels of the cgroup in a run.
    fn counts(&self, findings: &mut Findings, watched: &Watched, (limit, status): (u64, Status)) {
        findings.set(LIMIT, limit as f64);
        findings.set(STATUS, status.number());
        if self.early_kills > 0 {
            findings.set(EARLY_KILLS, f64::from(self.early_kills));
        }
        let optional = [
            (LIMIT_HITS, watched.limit_hits),
            (MAJOR_FAULTS, watched.major_faults),
            (REFAULT_ANON, watched.refaults_anon),
            (REFAULT_FILE, watched.refaults_file),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                findings.set(name, value as f64);
            }
        }
        let levels = &watched.levels;
        findings.set(PEAK, watched.peak.unwrap_or(levels.usage) as f64);
        findings.set(PEAK_SAMPLED, f64::from(u8::from(watched.peak.is_none())));
        findings.set(FILE_PEAK, levels.file as f64);
        if levels.samples > 0 {
            findings.set(ANON_PEAK, levels.anon as f64);
            findings.set(SWAP_PEAK, levels.swap as f64);
        }
        findings.set(LEFT, watched.left as f64);
    }

    /// Sets the end of a run and its cost, and compares it with the others.
    fn end(&mut self, findings: &mut Findings, watched: &Watched, status: Status) {
        let mut cost = None;
        if let Some(finished) = &watched.finished {
            findings.set(WALL, finished.seconds);
            findings.set(CPU_USER, finished.end.usage.user_us as f64 / 1e6);
            findings.set(CPU_SYSTEM, finished.end.usage.system_us as f64 / 1e6);
            findings.set(EXIT_CODE, f64::from(finished.code()));
            findings.set(OUTPUT, finished.stdout.bytes as f64);
            if let (true, Some(metric)) = (self.pattern.is_some(), finished.metric) {
                findings.set(METRIC, metric);
            }
            if matches!(status, Status::Done | Status::OtherOutput) {
                cost = self.run.cost(finished.seconds, finished.metric);
            }
            if let Some(cost) = cost {
                findings.set(COST, cost);
            }
            if status == Status::Timeout && self.run.metric.is_none() {
                // It would have taken longer.
                cost = Some(finished.seconds);
            }
            self.base.get_or_insert(Base {
                seconds: finished.seconds,
                stdout: finished.stdout,
            });
        }
        self.points.extend(Point::of(&findings.values));
        if let Some((cost, base)) = cost.zip(base_cost(&self.points)) {
            findings.set(SLOWDOWN, cost / base - 1.0);
        }
    }

    /// The error of a base that did not succeed.
    fn failed(&self, context: &TrialContext<'_, '_>, status: Status, watched: &Watched) -> TrialError {
        let command = self.run.command_line();
        let limit = quantity::bytes(self.run.base_limit(context.plan.settings.limit) as f64);
        let subject = &context.plan.settings.subject;
        let last_words = watched
            .finished
            .as_ref()
            .map_or(String::new(), |finished| last_lines(&finished.last_words));
        match (status, &watched.finished) {
            (Status::Killed, _) | (_, None) => TrialError::new(
                Exit::Killed,
                FailureCode::OutOfMemory,
                format_args!(
                    "the OOM killer ended `{command}` under its largest limit of {limit} on the subject `{subject}`; raise \
                     `limit`, or choose a subject with more swap"
                ),
            ),
            (Status::Timeout, Some(finished)) => TrialError::failed(
                FailureCode::PhaseTimeout,
                format_args!(
                    "cannot wait for `{command}` longer than {:.1} s; raise `phase-timeout`",
                    finished.seconds
                ),
            ),
            (Status::OtherOutput, Some(_)) => TrialError::failed(
                FailureCode::ProgramFailed,
                format_args!(
                    "cannot compare the output of `{command}`: two runs under its largest limit of {limit} wrote different \
                     text to stdout; make its output reproducible, or remove `same-output`"
                ),
            ),
            (Status::NoMetric, Some(_)) => TrialError::failed(
                FailureCode::ProgramFailed,
                format_args!(
                    "cannot measure `{command}`: it printed no number above 0 that `metric` ({}) finds{last_words}; correct \
                     the pattern, or remove it to measure wall time",
                    self.run.metric.as_deref().unwrap_or_default()
                ),
            ),
            (_, Some(finished)) => {
                let how = match finished.end.signal {
                    Some(signal) => format!("signal {signal} ended it"),
                    None => format!("exit code {}", finished.code()),
                };
                TrialError::failed(
                    FailureCode::ProgramFailed,
                    format_args!(
                        "cannot measure `{command}`: under its largest limit of {limit} it failed: {how}{last_words}; correct \
                         the command until it ends with exit code 0 by itself"
                    ),
                )
                .of_end(finished.end.code, finished.end.signal)
            }
        }
    }
}

/// Waits until the cgroup holds nothing of the run before, empties its page cache for a cold start, and sets the limit.
fn prepare(
    context: &TrialContext<'_, '_>,
    cgroup: &Cgroup,
    limit: u64,
    cache: PageCache,
) -> Result<(), TrialError> {
    context.drain()?;
    let (timeout, stop) = (context.timeout(), context.runner.stop.flag());
    let refused = |error: EnvironmentError| match context.go_on() {
        Ok(()) => TrialError::failed(FailureCode::Limit, error),
        Err(stopped) => stopped,
    };
    if cache == PageCache::Cold {
        let held = cgroup.usage().map_err(refused)?;
        cgroup.reclaim(held, timeout, stop).map_err(refused)?;
    }
    let set = match context.plan.settings.subject.has_swap() {
        true => cgroup.set_limit(limit, timeout, stop),
        false => cgroup.set_limit_without_swap(limit, timeout, stop),
    };
    set.map_err(refused)
}

fn longest_run(base_s: f64, tolerate: f64) -> Duration {
    let times = PATIENCE.max(BEYOND_TOLERATED * (1.0 + tolerate));
    Duration::from_secs_f64(times * base_s + GRACE)
}

fn cost_of(watched: &Watched) -> Cost {
    let Some(finished) = &watched.finished else {
        return Cost::default();
    };
    let usage = &finished.end.usage;
    Cost {
        seconds: finished.seconds,
        bytes: 0,
        cpu_user_s: usage.user_us as f64 / 1e6,
        cpu_system_s: usage.system_us as f64 / 1e6,
        minor_faults: usage.minor_faults,
        major_faults: usage.major_faults,
    }
}

fn pressure(findings: &mut Findings, before: &Snapshot, after: &Snapshot) {
    for (name, percent) in [PSI_SOME, PSI_FULL].into_iter().zip(after.pressure_since(before)) {
        if let Some(percent) = percent {
            findings.set(name, percent);
        }
    }
}

/// The last lines that a program wrote to stderr, as a part of an error.
fn last_lines(text: &str) -> String {
    const MOST_LINES: usize = 4;
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(MOST_LINES)..].join(" | ");
    match last.is_empty() {
        true => String::new(),
        false => format!("; it wrote `{last}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that took twelve times as long was ended although twenty times as long was tolerated.
    #[test]
    fn a_tolerated_run_is_never_too_long() {
        for tolerate in [0.05, 5.0, 20.0, 100.0] {
            let slowest = Duration::from_secs_f64(60.0 * (1.0 + tolerate));
            assert!(longest_run(60.0, tolerate) > slowest + slowest / 2, "{tolerate}");
        }
        assert_eq!(longest_run(1.0, 0.05), Duration::from_secs(12));
    }

    #[test]
    fn the_last_lines_of_stderr_are_one_line() {
        assert_eq!(last_lines(""), "");
        assert_eq!(last_lines("one\n\ntwo\n"), "; it wrote `one | two`");
        let many: String = (0..100).map(|line| format!("line {line}\n")).collect();
        assert!(last_lines(&many).contains("`line 96 | ") && last_lines(&many).ends_with("line 99`"));
    }
}
