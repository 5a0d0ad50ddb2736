//! The scenarios that `plimsoll size` runs: the pilot, one run without pressure, and the search.

use plimsoll_lab::environment::{self, safe_size};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::scenario::{Document, Machine, Overrides, Plan, Source, Subject, quoted};

use super::request::Request;

pub(super) const MIB: u64 = 1 << 20;
/// The base has a tenth more than the peak, and at least so much: the peak of a small program varies by more.
const LEAST_ROOM: u64 = 8 * MIB;
/// Longest run, in times of the run without pressure: the search itself gives up a run earlier than that, but the base
/// may meet other load.
const PATIENCE: f64 = 12.0;
/// Seconds on top, for programs that end at once.
const GRACE: f64 = 60.0;
/// Longest and shortest values of the keys.
const DAY: f64 = 86_400.0;
const LEAST_TIME: f64 = 0.001;
/// Runs of the program in a search, at most, with the one that warms the cache.
const MOST_RUNS: f64 = 18.0;
/// Seconds of a trial besides the runs of the program, at most.
const SET_UP: f64 = 60.0;
/// The longest run of the whole plan.
const LONGEST: f64 = 365.0 * DAY;
/// Longest pilot: a program that is still running then cannot be sized.
const LONGEST_PILOT: f64 = 7.0 * DAY;

/// The name of the section, and of the scenario.
const NAME: &str = "size";

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pilot {
    pub(super) peak: u64,
    pub(super) wall_s: f64,
}

/// One run on no engine, with as much memory as the machine can give.
pub(super) fn pilot(request: &Request, machine: &Machine) -> Result<Plan, Failure> {
    let of_limit = |limit: u64| {
        let mut keys = keys(request, &[Subject::NoSwap], limit);
        keys.push(("repeat", "1".to_owned()));
        keys.push(("phase-timeout", LONGEST_PILOT.to_string()));
        // A pilot has no base that its output could differ from.
        keys.retain(|(name, _)| *name != "same-output");
        resolved(request, "size-pilot", &keys, LONGEST, machine)
    };
    let largest = machine.available.min(machine.cgroup_limit.unwrap_or(u64::MAX));
    let plan = of_limit(largest / MIB * MIB)?;
    match too_large(&plan, machine)? {
        // Other programs may take some memory before the run begins.
        Some(largest) if largest >= MIB => of_limit((largest - largest / 8).next_multiple_of(MIB)),
        _ => Ok(plan),
    }
}

/// The search on every engine.
pub(super) fn search(request: &Request, pilot: &Pilot, machine: &Machine) -> Result<Plan, Failure> {
    let timeout = PATIENCE * pilot.wall_s * (1.0 + request.tolerate) + GRACE;
    let trials = f64::from(request.repeat) * request.engines.len() as f64;
    let time_limit = trials * (MOST_RUNS * timeout + SET_UP) + SET_UP;
    let of_limit = |limit: u64| {
        let mut keys = keys(request, &request.engines, limit);
        keys.push(("search", "true".to_owned()));
        keys.push(("tolerate", request.tolerate.to_string()));
        keys.push(("run-time", pilot.wall_s.clamp(LEAST_TIME, DAY).to_string()));
        keys.push(("repeat", request.repeat.to_string()));
        keys.push(("phase-timeout", timeout.min(LONGEST_PILOT).to_string()));
        resolved(request, NAME, &keys, time_limit.min(LONGEST), machine)
    };
    let room = (pilot.peak / 10).max(LEAST_ROOM);
    let plan = of_limit(mebibytes(pilot.peak + room))?;
    // The base needs no more than the peak: with less room than wanted it still fits.
    match too_large(&plan, machine)? {
        Some(largest) => of_limit(largest.max(mebibytes(pilot.peak))),
        None => Ok(plan),
    }
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(MIB)
}

/// The keys of both sections, with their values in TOML. Sizes are whole units of the scenario's grammar, as formatted
/// quantities are rounded.
fn keys(request: &Request, engines: &[Subject], limit: u64) -> Vec<(&'static str, String)> {
    let list = |words: Vec<String>| format!("[{}]", words.join(", "));
    let mut keys = vec![
        ("workload", quoted("command")),
        (
            "command",
            list(request.command.iter().map(|word| quoted(word)).collect()),
        ),
        (
            "subject",
            list(engines.iter().map(|engine| quoted(&engine.to_string())).collect()),
        ),
        ("limit", quoted(&format!("{}M", limit / MIB))),
        // All memory of the base fits into swap.
        (
            "swap-size",
            quoted(&format!("{}M", (limit + limit / 10) / MIB + 16)),
        ),
        ("cache", quoted(request.cache.name())),
        ("same-output", request.same_output.to_string()),
    ];
    if let Some(metric) = &request.metric {
        keys.push(("metric", quoted(metric)));
        keys.push(("higher-is-better", request.higher_is_better.to_string()));
    }
    keys
}

/// The plan of a scenario with one section of these keys.
fn resolved(
    request: &Request,
    name: &str,
    keys: &[(&str, String)],
    time_limit: f64,
    machine: &Machine,
) -> Result<Plan, Failure> {
    let title = format!("RAM that {} needs", request.program());
    let mut text = format!(
        "[scenario]\nname = {}\ntitle = {}\n\n[global]\ntime-limit = {}\n\n[{NAME}]\n",
        quoted(name),
        quoted(&title),
        time_limit.ceil(),
    );
    for (key, value) in keys {
        text += &format!("{key} = {value}\n");
    }
    let source = Source::new("the scenario of `plimsoll size`", text);
    let document = Document::parse(&source).or_exit(Exit::Usage)?;
    document
        .resolve(machine, &Overrides::default())
        .or_exit(Exit::Usage)
}

/// The largest safe limit, if a trial is too large for the machine.
fn too_large(plan: &Plan, machine: &Machine) -> Result<Option<u64>, Failure> {
    let mut least = None;
    for trial in &plan.trials {
        let settings = &trial.settings;
        let disk = match settings.has_swap_file() {
            true => Some(environment::disk_free(&settings.swap_dir).or_exit(Exit::Missing)?),
            false => None,
        };
        if let Err(error) = safe_size(machine, disk, settings) {
            least = Some(least.map_or(error.largest, |other: u64| other.min(error.largest)));
        }
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::size::request::tests::request;
    use plimsoll_model::scenario::{AllocatorSet, Workload};

    const GIB: u64 = 1 << 30;

    fn machine(available: u64) -> Machine {
        Machine {
            ram: 16 * GIB,
            available,
            cgroup_limit: None,
            cpus: 2,
            allocators: AllocatorSet::default(),
        }
    }

    #[test]
    fn the_base_has_room_above_the_peak_and_the_words_stay_apart() {
        let mut request = request(&["prog", "two words", "q\"uote\\", "\u{7f}\n"]);
        request.engines = vec![Subject::NoSwap, Subject::Zram(Some("lz4".to_owned()))];
        request.tolerate = 0.1;
        let pilot = Pilot {
            peak: 500 * MIB,
            wall_s: 2.0,
        };
        let plan = search(&request, &pilot, &machine(12 * GIB)).unwrap();
        assert_eq!(plan.trials.len(), 2 * 3);
        let settings = &plan.trials[0].settings;
        assert_eq!(settings.limit, 550 * MIB);
        assert!(settings.swap_size >= settings.limit);
        let Workload::Command(run) = &settings.workload else {
            panic!("{:?}", settings.workload)
        };
        assert_eq!(run.command, request.command);
        assert_eq!((run.search, run.tolerate, run.run_time), (true, 0.1, 2.0));
        // A run that is slower than tolerated is not cut short at once.
        assert!(settings.phase_timeout > 4.0 * pilot.wall_s);
        assert!(plan.time_limit() > plan.bounds().seconds);
        let ids: Vec<&str> = plan.trials[..2]
            .iter()
            .map(|trial| trial.section.as_str())
            .collect();
        assert_eq!(ids, [NAME, NAME]);
    }

    #[test]
    fn repeats_are_interleaved() {
        let mut request = request(&["prog"]);
        request.engines = vec![Subject::NoSwap, Subject::SwapFile];
        let pilot = Pilot {
            peak: 50 * MIB,
            wall_s: 0.1,
        };
        let plan = search(&request, &pilot, &machine(12 * GIB)).unwrap();
        let repeats: Vec<u32> = plan.trials.iter().map(|trial| trial.repeat).collect();
        assert_eq!(repeats, [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn the_pilot_leaves_the_reserve_and_has_one_run_on_no_engine() {
        let request = request(&["prog"]);
        let machine = machine(8 * GIB);
        let plan = pilot(&request, &machine).unwrap();
        assert_eq!(plan.trials.len(), 1);
        let settings = &plan.trials[0].settings;
        assert_eq!(settings.subject, Subject::NoSwap);
        assert!(settings.limit + environment::memory_reserve(machine.ram) < machine.available);
        assert!(settings.limit > machine.available / 2);
        assert!(safe_size(&machine, None, settings).is_ok());
    }

    #[test]
    fn a_base_without_room_for_a_tenth_more_has_what_is_there() {
        let request = request(&["prog"]);
        let machine = machine(8 * GIB);
        let limit = pilot(&request, &machine).unwrap().trials[0].settings.limit;
        let most = Pilot {
            peak: limit + limit / 10,
            wall_s: 1.0,
        };
        let plan = search(&request, &most, &machine).unwrap();
        let settings = &plan.trials[0].settings;
        assert!(settings.limit >= most.peak && settings.limit < most.peak + most.peak / 10);
        assert!(safe_size(&machine, None, settings).is_ok());
    }
}
