//! Memory is mapped, touched, released and used again, by every method.

mod steps;

use std::time::{Duration, Instant};

use crate::environment::MissingKind;
use crate::run::context::{Surroundings, TrialContext};
use crate::run::phase::Worked;
use crate::run::trial_error::{TrialError, lacking};
use crate::workload::Findings;
use crate::workload::Worker;
use crate::workload::protocol::Command;
use plimsoll_model::columns::col;
use plimsoll_model::recording::FailureCode;
use plimsoll_model::scenario::workloads::map::REALLY_BACK_PERCENT;
use plimsoll_model::scenario::{Map, Mapping, ReleaseMethod, Workload, WorkloadKind, shuffle};
use steps::Step;

pub(super) use steps::Steps as Requests;

/// The part of a trial that needs an environment.
pub(super) const CONFINED: &str = "map";

/// Share of the memory that must be back for `back_s`.
const BACK: f64 = REALLY_BACK_PERCENT / 100.0;
/// Pause between two looks: with a shorter one the looks dominate the measurement.
const PAUSE: Duration = Duration::from_millis(1);
/// Longest time for a reclaim of lazily released pages.
const PRESSURE: Duration = Duration::from_secs(5);

/// Runs the trial's work: each way that fits is a phase, in another order in each repeat.
pub(super) fn run(context: &mut TrialContext<'_, '_>, map: &Map) -> Result<(), TrialError> {
    context.param("mapping", map.mapping.name());
    context.param("touch", map.touch.name());
    if let Surroundings::Lacking(missing) = &context.surroundings
        && missing
            .iter()
            .any(|missing| missing.kind == MissingKind::HugePages)
    {
        return Err(lacking("map", missing));
    }
    // Without an environment the run has no swap of its own.
    let asked_for_swap = context.plan.settings.subject.has_swap();
    let swap = asked_for_swap && context.environment().is_some();
    let lacks = match &context.surroundings {
        Surroundings::Made(_) => None,
        Surroundings::Lacking(missing) => {
            let paged_out = |swap| ReleaseMethod::PageOut.fits(map.mapping, swap);
            let what = match paged_out(asked_for_swap) && !paged_out(swap) {
                true => "pageout, and the wait for memory to be back,",
                false => "the wait for memory to be back",
            };
            Some(lacking(what, missing))
        }
    };
    let mut ways = ReleaseMethod::ALL.to_vec();
    ways.retain(|way| way.fits(map.mapping, swap));
    shuffle(&mut ways, context.runner.manifest.plan.seed, context.plan.repeat);
    let mut worker = context.spawn()?;
    context.watch(&[worker.pid()]);
    let ended = ways.into_iter().try_for_each(|way| {
        context.go_on()?;
        context.phase(way.name(), None, |context, _| match way {
            ReleaseMethod::Exit => exit(context, map),
            _ => release(context, &mut worker, map, way),
        })
    });
    context.retire(worker);
    context.verified = ended.is_ok() && context.errors.is_empty();
    context.errors.extend(lacks);
    ended
}

/// The system's accounts of a worker's memory. They do not show reserved huge pages, whose use neither charges the
/// cgroup nor changes MemFree.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// Bytes charged to the trial's cgroup, which no other program changes.
    charged: Option<u64>,
    /// MemFree of the whole machine, which everybody moves.
    free: Option<i64>,
}

impl Held {
    fn look(context: &mut TrialContext<'_, '_>) -> Result<Held, TrialError> {
        if let Workload::Map(map) = &context.plan.settings.workload
            && map.mapping == Mapping::Hugetlb
        {
            return Ok(Held {
                charged: None,
                free: None,
            });
        }
        Ok(Held {
            charged: context.cgroup().and_then(|cgroup| cgroup.usage().ok()),
            free: context.snapshot()?.row.get(col::MEM_FREE),
        })
    }

    /// Share of the memory taken from `before` to `full` that is back now; `None` if unknown.
    fn back(self, before: Held, full: Held) -> [Option<f64>; 2] {
        let share = |low: f64, high: f64, now: f64| (high > low).then(|| (high - now) / (high - low));
        let charged = || {
            let bytes = |held: Held| held.charged.map(|bytes| bytes as f64);
            share(bytes(before)?, bytes(full)?, bytes(self)?)
        };
        // Memory that is taken is free no more.
        let free = || {
            let taken = |held: Held| held.free.map(|bytes| -(bytes as f64));
            share(taken(before)?, taken(full)?, taken(self)?)
        };
        [charged(), free()]
    }
}

/// One method: map, touch, compare, release, wait until the system has the memory, use it again, release it again,
/// compare. The phase's cost excludes the comparison and the second return.
fn release(
    context: &mut TrialContext<'_, '_>,
    worker: &mut Worker,
    map: &Map,
    way: ReleaseMethod,
) -> Result<Worked, TrialError> {
    let mut all = Worked::default();
    let before = Held::look(context)?;
    step(context, worker, &mapped(context, map), &mut all)?;
    let full = Held::look(context)?;
    compare(context, worker, &Step::Compare, "touch")?;
    step(context, worker, &Step::Release { way }, &mut all)?;
    let back = await_back(context, map, before, full, &mut all.findings)?;
    step(context, worker, &Step::Reuse, &mut all)?;
    step(context, worker, &Step::Release { way }, &mut Worked::default())?;
    if !back {
        press(context, before, full, &mut all.findings)?;
    }
    compare(context, worker, &Step::Check, way.title())?;
    timed_alone(&mut all);
    Ok(all)
}

/// Verifies the memory's content `after` a step, untimed.
fn compare(
    context: &mut TrialContext<'_, '_>,
    worker: &mut Worker,
    with: &Step,
    after: &str,
) -> Result<(), TrialError> {
    let mut found = Worked::default();
    step(context, worker, with, &mut found)?;
    let wrong = found.findings.values.get("wrong_pages").copied();
    if wrong != Some(0.0) {
        let error = format!(
            "after {after} {} pages held wrong contents",
            wrong.unwrap_or(f64::NAN)
        );
        context
            .errors
            .push(TrialError::failed(FailureCode::WrongBytes, error));
    }
    Ok(())
}

/// Process exit: the end of one process, and a new one that maps and touches. The start of its program is not counted.
fn exit(context: &mut TrialContext<'_, '_>, map: &Map) -> Result<Worked, TrialError> {
    let mut all = Worked::default();
    let mut worker = context.spawn()?;
    let before = Held::look(context)?;
    let first = mapped(context, map);
    let mapped = step(context, &mut worker, &first, &mut all);
    let full = Held::look(context);
    let mapped = mapped.and_then(|()| compare(context, &mut worker, &Step::Compare, "touch"));
    let ended = context.retire(worker);
    mapped?;
    all.findings.set("release_s", ended.as_secs_f64());
    await_back(context, map, before, full?, &mut all.findings)?;
    let mut worker = context.spawn()?;
    let mut again = Worked::default();
    let mapped = step(context, &mut worker, &first, &mut again);
    let mapped =
        mapped.and_then(|()| compare(context, &mut worker, &Step::Compare, "touch in a new process"));
    context.retire(worker);
    mapped?;
    let value = |name: &str| again.findings.values.get(name).copied().unwrap_or(0.0);
    all.findings.set("reuse_s", value("map_s") + value("touch_s"));
    all.cost = all.cost.and(again.cost);
    timed_alone(&mut all);
    Ok(all)
}

fn mapped(context: &TrialContext<'_, '_>, map: &Map) -> Step {
    let settings = &context.plan.settings;
    Step::Map {
        bytes: map.size,
        mapping: map.mapping,
        touch: map.touch,
        folder: settings.swap_dir.clone(),
    }
}

/// Has a step done, and adds its cost and findings.
fn step(
    context: &mut TrialContext<'_, '_>,
    worker: &mut Worker,
    step: &Step,
    all: &mut Worked,
) -> Result<(), TrialError> {
    let worked = context.find(worker, &Command::work(WorkloadKind::Map, step))?;
    all.cost = all.cost.and(worked.cost);
    all.findings.values.extend(worked.findings.values);
    Ok(())
}

/// Looks until the system has the memory back, at most as long as `hold` says. Finds `back_s` and `back_percent` by
/// the cgroup's charge, and `free_s` by MemFree; unknown metrics are absent. Returns whether the memory came back.
fn await_back(
    context: &mut TrialContext<'_, '_>,
    map: &Map,
    before: Held,
    full: Held,
    findings: &mut Findings,
) -> Result<bool, TrialError> {
    let patience = Duration::from_secs_f64(map.hold);
    let release_s = findings.values.get("release_s").copied().unwrap_or(0.0);
    let start = Instant::now();
    let mut looks = 0;
    loop {
        let waited = start.elapsed();
        let [charged, free] = Held::look(context)?.back(before, full);
        looks += 1;
        // At the first look it was back when the call returned.
        let since_call = release_s + if looks == 1 { 0.0 } else { waited.as_secs_f64() };
        for (name, share) in [("back_s", charged), ("free_s", free)] {
            if share.is_some_and(|share| share >= BACK) && !findings.values.contains_key(name) {
                findings.set(name, since_call);
            }
        }
        let found = |name: &str| findings.values.contains_key(name);
        let both = (charged.is_none() || found("back_s")) && (free.is_none() || found("free_s"));
        if both || waited >= patience {
            if let Some(share) = charged {
                findings.set("back_percent", 100.0 * share.clamp(0.0, 1.0));
            }
            return Ok(findings.values.contains_key("back_s"));
        }
        context.go_on()?;
        std::thread::sleep(PAUSE);
    }
}

/// Reclaims the cgroup by the size of the memory: lazily freed memory (MADV_FREE) returns under pressure. Finds
/// `pressure_percent`, the share that returned, after a complete reclaim, and `pressure_s` if all of it returned.
fn press(
    context: &mut TrialContext<'_, '_>,
    before: Held,
    full: Held,
    findings: &mut Findings,
) -> Result<(), TrialError> {
    let Some(cgroup) = context.cgroup() else {
        return Ok(());
    };
    let held = full
        .charged
        .unwrap_or(0)
        .saturating_sub(before.charged.unwrap_or(0));
    if held == 0 {
        return Ok(());
    }
    let start = Instant::now();
    let asked = cgroup.reclaim(held, PRESSURE, context.runner.stop.flag());
    let pressure_s = start.elapsed().as_secs_f64();
    context.go_on()?;
    let [charged, _] = Held::look(context)?.back(before, full);
    // A reclaim that ends early is a result: the kernel cannot free this memory. A reclaim that ran out of time is none.
    if let Some(share) = charged.filter(|_| asked.is_ok()) {
        findings.set("pressure_percent", 100.0 * share.clamp(0.0, 1.0));
        if share >= BACK {
            findings.set("pressure_s", pressure_s);
        }
    }
    Ok(())
}

/// A phase's seconds exclude the looks.
fn timed_alone(worked: &mut Worked) {
    let values = &worked.findings.values;
    let timed = ["map_s", "touch_s", "memset_s", "release_s", "reuse_s"];
    worked.cost.seconds = timed.iter().filter_map(|name| values.get(*name)).sum();
}
