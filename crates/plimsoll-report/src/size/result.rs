//! The result of a search from its trials.

use xxhash_rust::xxh3::xxh3_64;

use super::advice;
use crate::analysis::Group;
use crate::analysis::statistics::{IntervalKind, Summary, summarise};
use crate::memory_settings::whole;
use crate::workloads::command::{KNEE, bracket_of, points, sized};
use plimsoll_model::recording::model::{Phase, Trial, TrialStatus};
use plimsoll_model::recording::size::{EngineSize, ProgramSize, SIZE_SCHEMA, SizeInterval, SizePoint};
use plimsoll_model::scenario::workloads::command::finding::{ANON_PEAK, FILE_PEAK, LIMIT, PEAK, SWAP_PEAK};
use plimsoll_model::scenario::workloads::command::{Bracket, Point, compared};
use plimsoll_model::scenario::{Plan, ProgramRun};

/// The measure of a search without a metric.
const WALL_TIME: &str = "wall time";

/// The size of the program that a run measured under several limits; none of other runs. Of a run with several programs
/// it is that of the first one in the plan.
pub(crate) fn of(plan: &Plan, groups: &[Group], trials: &[Trial]) -> Option<ProgramSize> {
    let run = plan
        .trials
        .iter()
        .find_map(|trial| sized(&trial.settings.workload))?;
    let of_program = |group: &&Group| {
        let id = group.trials.first()?;
        let planned = plan.trials.iter().find(|trial| trial.id.as_str() == &**id)?;
        let workload = &planned.settings.workload;
        sized(workload).filter(|other| are_alike(run, other) && group.workload == workload.kind().name())
    };
    let members: Vec<&Group> = groups
        .iter()
        .filter(|group| of_program(group).is_some())
        .collect();
    let engines: Vec<EngineSize> = members
        .iter()
        .map(|group| engine(run, name(group, &members), group, trials))
        .collect();
    let bases: Vec<&Phase> = members
        .iter()
        .flat_map(|group| group.counted(trials))
        .filter_map(base)
        .collect();
    let most = |name: &str| {
        let values = bases.iter().filter_map(|phase| phase.values.get(name).copied());
        values.reduce(f64::max).map(|bytes| bytes as u64)
    };
    let (peak, file) = (most(PEAK), most(FILE_PEAK));
    Some(ProgramSize {
        schema: SIZE_SCHEMA,
        command: run.command.clone(),
        tolerance: run.tolerate,
        measure: run.metric.clone().unwrap_or_else(|| WALL_TIME.to_owned()),
        cache: run.cache.name().to_owned(),
        peak_bytes: peak.unwrap_or(0),
        peak_anon_bytes: most(ANON_PEAK),
        peak_file_bytes: file,
        reclaimable_percent: peak.zip(file).and_then(|(peak, file)| share(file, peak)),
        engines,
    })
}

/// Whether two runs have comparable points.
fn are_alike(one: &ProgramRun, other: &ProgramRun) -> bool {
    let key = |run: &ProgramRun| (run.command.clone(), run.metric.clone(), run.cache);
    key(one) == key(other) && one.tolerate == other.tolerate
}

/// The subject of a group or, if several groups have it, the label.
fn name<'g>(group: &'g Group, all: &[&Group]) -> &'g str {
    let same = all.iter().filter(|other| other.subject == group.subject);
    match same.count() {
        1 => &group.subject,
        _ => &group.label,
    }
}

/// Percent of a part of the whole, at most 100.
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| 100.0 * (part as f64 / whole as f64).min(1.0))
}

/// The phase of the base: the first one under the largest limit.
fn base(trial: &Trial) -> Option<&Phase> {
    let limit = |phase: &Phase| phase.values.get(LIMIT).copied();
    let largest = trial.phases.iter().filter_map(limit).reduce(f64::max)?;
    trial.phases.iter().find(|phase| limit(phase) == Some(largest))
}

fn engine(run: &ProgramRun, name: &str, group: &Group, trials: &[Trial]) -> EngineSize {
    let counted = group.counted(trials);
    let brackets: Vec<Bracket> = counted
        .iter()
        .filter_map(|trial| bracket_of(trial, run))
        .collect();
    let mut engine = EngineSize {
        engine: name.to_owned(),
        points: measured(&group.usable(trials)),
        repeats: u32::try_from(counted.len()).unwrap_or(u32::MAX),
        untrustworthy: !counted.is_empty()
            && counted
                .iter()
                .all(|trial| trial.status_of(KNEE) != TrialStatus::Ok),
        knee_bytes: None,
        knee_low_bytes: None,
        knee_high_bytes: None,
        interval: SizeInterval::Range,
        recommended_bytes: None,
        swap_bytes: None,
        headroom_bytes: None,
        headroom_reason: None,
        advice: Vec::new(),
    };
    // A repeat whose base is not tolerated has no least limit.
    if brackets.is_empty() || brackets.len() < counted.len() {
        return engine;
    }
    let ends = Ends::of(&brackets, group.identity());
    engine.interval = ends.kind;
    if let Some((knee, low)) = ends.knee {
        engine.knee_bytes = Some(knee as u64);
        engine.knee_low_bytes = Some(low as u64);
        engine.knee_high_bytes = Some(ends.high as u64);
    }
    engine.recommended_bytes = Some(whole(ends.high as u64));
    engine.swap_bytes = counted
        .iter()
        .zip(&brackets)
        .filter_map(|(trial, bracket)| swap_at(trial, &bracket.high))
        .max();
    advice::add(&mut engine, run);
    engine
}

/// The knee and its interval over the repeats.
struct Ends {
    kind: SizeInterval,
    /// The median, and the lower end; none if a repeat tolerated every limit.
    knee: Option<(f64, f64)>,
    high: f64,
}

impl Ends {
    fn of(brackets: &[Bracket], identity: &str) -> Ends {
        let summary = |name: &str, values: Option<Vec<f64>>| -> Option<Summary> {
            summarise(&values?, xxh3_64(format!("{name}/{identity}").as_bytes()))
        };
        let high: Vec<f64> = brackets.iter().map(|one| one.high.limit as f64).collect();
        let largest = high.iter().copied().fold(0.0, f64::max);
        let too_small = |one: &Bracket| one.low.map(|low| low.limit as f64);
        let low = summary("low", brackets.iter().map(too_small).collect());
        let knee = summary("knee", brackets.iter().map(Bracket::knee).collect());
        let high = summary("high", Some(high));
        let is_bootstrap = |one: &Summary| one.interval.kind == IntervalKind::Bootstrap95;
        Ends {
            kind: match high.as_ref().is_some_and(is_bootstrap) {
                true => SizeInterval::Bootstrap95,
                false => SizeInterval::Range,
            },
            knee: knee.zip(low).map(|(knee, low)| (knee.median, low.interval.low)),
            high: high.map_or(largest, |high| high.interval.high),
        }
    }
}

/// Every point of these trials, the largest limit first.
fn measured(trials: &[&Trial]) -> Vec<SizePoint> {
    let of_trial = |trial: &&Trial| {
        let repeat = trial.repeat;
        compared(&points(trial)).into_iter().map(move |point| SizePoint {
            repeat,
            limit_bytes: point.limit,
            slowdown: Some(point.slowdown).filter(|slowdown| slowdown.is_finite()),
            status: point.status.name().to_owned(),
        })
    };
    let mut all: Vec<SizePoint> = trials.iter().flat_map(of_trial).collect();
    all.sort_by_key(|point| (std::cmp::Reverse(point.limit_bytes), point.repeat));
    all
}

/// Most swap of the program's cgroup under the limit of a point.
fn swap_at(trial: &Trial, point: &Point) -> Option<u64> {
    let under_it = |phase: &&Phase| {
        Point::of(&phase.values).is_some_and(|found| (found.limit, found.cost) == (point.limit, point.cost))
    };
    let phase = trial.phases.iter().find(under_it)?;
    phase.values.get(SWAP_PEAK).map(|bytes| *bytes as u64)
}
