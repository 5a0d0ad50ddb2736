//! The starts of tasks, from `sacct` or `scontrol`.

use std::collections::BTreeMap;

use plimsoll_model::sanitize::sanitize;
use serde::Serialize;

use super::{Job, Slurm};
use crate::plan::{Plan, TaskId};
use crate::{FleetError, script};

/// Slurm's record of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Accounting {
    pub task: TaskId,
    pub source: Source,
    /// Starts after the first.
    pub restarts: u32,
    /// Slurm's word for the state of the last start: `COMPLETED`, `NODE_FAIL`.
    pub state: String,
    /// The host of each start, of the last start alone from `scontrol`.
    pub hosts: Vec<String>,
}

/// The command that knows the starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Sacct,
    Scontrol,
}

pub(super) fn read(slurm: &Slurm, plan: &Plan, job: &Job) -> Result<Vec<Accounting>, FleetError> {
    if let Ok(text) = sacct(slurm, job) {
        let found = of_sacct(&text, plan, job);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(of_scontrol(&scontrol(slurm, job)?, plan))
}

fn sacct(slurm: &Slurm, job: &Job) -> Result<String, FleetError> {
    let mut command = slurm.command("sacct");
    command.args(job.clusters()).arg(format!("--jobs={}", job.number));
    command.args(["--duplicates", "--allocations", "--parsable2", "--noheader"]);
    // The time of a start without a zone sorts as text.
    command.arg("--format=JobID,Start,State,NodeList");
    script::output(&mut command)
}

/// Lines `12_0|2026-11-30T10:00:00|NODE_FAIL|node7`, one for each start.
pub(super) fn of_sacct(text: &str, plan: &Plan, job: &Job) -> Vec<Accounting> {
    let mut starts: BTreeMap<usize, Vec<[&str; 3]>> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('|');
        let (Some(id), Some(start), Some(state), Some(host)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let index = id
            .split_once('_')
            .filter(|(number, _)| *number == job.number.to_string());
        let index = index.and_then(|(_, index)| index.parse().ok());
        // A task that never started: `12_[3-5%2]`, `Unknown`.
        if let Some(index) = index {
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
    let mut command = slurm.command("scontrol");
    command.args(job.clusters()).args(["--oneliner", "show", "job"]);
    script::output(command.arg(job.number.to_string()))
}

/// Lines of words `KEY=VALUE`, one for each task.
pub(super) fn of_scontrol(text: &str, plan: &Plan) -> Vec<Accounting> {
    let account = |line: &str| {
        let value = |key: &str| {
            let values = line
                .split(' ')
                .filter_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            values.into_iter().next()
        };
        // A record of waiting tasks has a list: `ArrayTaskId=3-5%2`.
        let index: usize = value("ArrayTaskId")?.parse().ok()?;
        let account = Accounting {
            task: plan.tasks.get(index)?.id.clone(),
            source: Source::Scontrol,
            restarts: value("Restarts")?.parse().ok()?,
            state: state_of(value("JobState")?),
            hosts: value("NodeList").and_then(host_of).into_iter().collect(),
        };
        Some((index, account))
    };
    let accounts: BTreeMap<usize, Accounting> = text.lines().filter_map(account).collect();
    accounts.into_values().collect()
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
