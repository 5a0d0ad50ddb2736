//! The starts of tasks, from `sacct` or `scontrol`.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, SystemTime};

use plimsoll_model::sanitize::sanitize;

use super::{Job, Slurm, is_forgotten};
use crate::accounting::{Accounting, Source};
use crate::plan::Plan;
use crate::{FleetError, Submitted, script};

/// The index of the record of an array whose waiting tasks were cancelled (`NO_VAL`): it has no list of them.
const NO_INDEX: &str = "4294967294";
/// The clocks of this host and of Slurm's database may differ by this much.
const MOST_CLOCK_DIFFERENCE: Duration = Duration::from_secs(600);

pub(super) fn read(slurm: &Slurm, plan: &Plan, submitted: &Submitted) -> Result<Vec<Accounting>, FleetError> {
    let job: Job = submitted.job.parse()?;
    if let Ok(text) = sacct(slurm, &job, submitted) {
        let found = of_sacct(&text, plan, &job);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(of_scontrol(&scontrol(slurm, &job)?, plan))
}

fn sacct(slurm: &Slurm, job: &Job, submitted: &Submitted) -> Result<String, FleetError> {
    let mut command = with_whole_lists(slurm.command("sacct"));
    command.args(job.clusters()).arg(format!("--jobs={}", job.number));
    // Every start of the job, and every older job of the same number.
    command
        .arg("--duplicates")
        .args(start_time(submitted, SystemTime::now()));
    command.args(["--allocations", "--parsable2", "--noheader"]);
    // The time of a start without a zone sorts as text.
    command.arg("--format=JobID,Start,State,NodeList");
    script::output(&mut command)
}

/// The option that leaves out older jobs. It is relative, as sacct reads other times in the time zone of its host. `None` if the
/// time of the submission cannot be read.
pub(super) fn start_time(submitted: &Submitted, now: SystemTime) -> Option<String> {
    let at = humantime::parse_rfc3339(&submitted.at).ok()?;
    let age = now.duration_since(at).unwrap_or_default() + MOST_CLOCK_DIFFERENCE;
    Some(format!("--starttime=now-{}minutes", age.as_secs().div_ceil(60)))
}

/// Without this, Slurm ends a list of waiting tasks after 64 bytes.
fn with_whole_lists(mut command: Command) -> Command {
    command.env("SLURM_BITSTR_LEN", "0");
    command
}

/// Lines `12_0|2026-11-30T10:00:00|NODE_FAIL|node7`, one for each start, and `12_[3-5%2]|Unknown|PENDING|` for waiting tasks.
pub(super) fn of_sacct(text: &str, plan: &Plan, job: &Job) -> Vec<Accounting> {
    let mut starts: BTreeMap<usize, Vec<[&str; 3]>> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('|');
        let (Some(id), Some(start), Some(state), Some(host)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let list = id
            .split_once('_')
            .filter(|(number, _)| *number == job.number.to_string());
        let list = list.map_or("", |(_, list)| list.trim_start_matches('[').trim_end_matches(']'));
        for index in indices(list, plan.tasks.len()) {
            starts.entry(index).or_default().push([start, state, host]);
        }
    }
    let account = |(index, mut starts): (usize, Vec<[&str; 3]>)| {
        starts.sort_unstable();
        let hosts = starts.iter().filter_map(|[_, _, host]| host_of(host));
        Some(Accounting {
            task: plan.tasks.get(index)?.id.clone(),
            source: Source::Sacct,
            restarts: u32::try_from(starts.len().saturating_sub(1)).unwrap_or(u32::MAX),
            state: state_of(starts.last()?[1]),
            hosts: hosts.collect(),
        })
    };
    starts.into_iter().filter_map(account).collect()
}

fn scontrol(slurm: &Slurm, job: &Job) -> Result<String, FleetError> {
    let mut command = with_whole_lists(slurm.command("scontrol"));
    command.args(job.clusters()).args(["--oneliner", "show", "job"]);
    match script::output(command.arg(job.number.to_string())) {
        Err(error) if is_forgotten(&error) => Ok(String::new()),
        output => output,
    }
}

/// Lines of words `KEY=VALUE`, one for each task that has started, and one with a list for waiting tasks.
pub(super) fn of_scontrol(text: &str, plan: &Plan) -> Vec<Accounting> {
    let mut accounts: BTreeMap<usize, Accounting> = BTreeMap::new();
    let mut state_of_others = None;
    for line in text.lines() {
        let value = |key: &str| {
            let values = line
                .split(' ')
                .filter_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            values.into_iter().next()
        };
        let (Some(list), Some(state)) = (value("ArrayTaskId"), value("JobState")) else {
            continue;
        };
        if list == NO_INDEX {
            state_of_others = Some(state_of(state));
        }
        let restarts = value("Restarts").and_then(|count| count.parse().ok());
        let hosts: Vec<String> = value("NodeList").and_then(host_of).into_iter().collect();
        for index in indices(list, plan.tasks.len()) {
            let account = Accounting {
                task: plan.tasks[index].id.clone(),
                source: Source::Scontrol,
                restarts: restarts.unwrap_or(0),
                state: state_of(state),
                hosts: hosts.clone(),
            };
            accounts.insert(index, account);
        }
    }
    if let Some(state) = state_of_others {
        // Slurm starts the tasks of an array in their order, and may have forgotten the first ones.
        let first = accounts.keys().next_back().map_or(0, |last| last + 1);
        let others = plan.tasks.iter().enumerate().skip(first);
        accounts.extend(others.map(|(index, task)| {
            let account = Accounting {
                task: task.id.clone(),
                source: Source::Scontrol,
                restarts: 0,
                state: state.clone(),
                hosts: Vec::new(),
            };
            (index, account)
        }));
    }
    accounts.into_values().collect()
}

/// The indices below `count` of Slurm's list: `7`, `3-5,8-14:2%2`. Slurm may end a long list with `...`.
pub(super) fn indices(list: &str, count: usize) -> Vec<usize> {
    let list = list.split('%').next().unwrap_or_default();
    let of_part = |part: &str| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        let step = step.parse().ok().filter(|step| *step > 0)?;
        Some((first..=last.min(count.checked_sub(1)?)).step_by(step))
    };
    list.split(',').filter_map(of_part).flatten().collect()
}

/// `None` for a task without a host.
fn host_of(text: &str) -> Option<String> {
    let has_host = !text.is_empty() && text != "(null)" && text != "None assigned";
    has_host.then(|| sanitize(text).into_owned())
}

/// The word without a further text: `CANCELLED by 1000`.
fn state_of(text: &str) -> String {
    sanitize(text.split(' ').next().unwrap_or_default()).into_owned()
}
