//! The results of all tasks as one data set of Parquet files.
//!
//! ```text
//! tasks/ID/ -> data/run=RUN/host=HOST/task=ID/{samples,trials,metrics}.parquet    by rename from data/.collect/
//! all tasks -> data/tasks.parquet                                                 one row per task, whatever its state
//! ```
//!
//! The data set is a function of the plan, of `tasks/`, and of the engine's record of the tasks (`accounting.json`). A task whose result is in it already is passed over, by the digest of its
//! documents. A task that has no usable result any more leaves the data set, and `tasks.parquet` has the reason. Rows of other runs
//! in the same data set stay.
//!
//! Everything below `tasks/` comes from other machines: it is read without links and with limits, one task at a time, and memory
//! does not depend on the length of recordings.
//!
//! - Invariant: a task's folder has all of its files, whole. Checked by `a_kill_at_any_moment_and_a_second_run_give_the_same_data`.
//! - Invariant: every task of the plan has one row in `tasks.parquet`. Checked by `random_damage_is_listed_or_changes_nothing`.

pub mod columns;
mod data_set;
mod rows;
mod source;
mod state;
mod task_row;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use plimsoll_model::recording::table::{TableError, Writer};
use plimsoll_model::recording::{CopyError, RecordingError, RecordingFolder, copy_samples, for_each_trial};
use plimsoll_model::sanitize::{sanitize, shorten};

pub use state::{Collected, Rows, State, TaskState};

use self::data_set::{DataSet, METRICS, SAMPLES, TRIALS, host_folder, task_folder};
use self::rows::RowError;
use self::source::{Finished, Found, corrupt};
use crate::accounting::{self, Accounting};
use crate::fingerprint::Fingerprint;
use crate::plan::{self, Plan, Task};
use crate::{FleetError, Folder, sha256};

/// Most trials of a task, as of a plan of trials.
const TRIALS_MAX: u64 = 10_000;
/// Most values of a task: 200 for each of its trials.
const METRICS_MAX: u64 = 2_000_000;
/// Longest address in the name of a host.
const ADDRESS_MAX: usize = 60;
/// Names without a task that [`Collected::unknown`] has.
const UNKNOWN_MAX: usize = 20;
const NAME_MAX: usize = 100;

/// Collects the results in the fleet's folder `folder` into the data set `data`, which may have those of other runs.
///
/// # Errors
/// Those of the data set. An error of one task is the state of that task.
pub fn collect(folder: &Path, plan: &Plan, data: &Path) -> Result<Collected, FleetError> {
    let tasks = Folder::open(folder)?.folder(plan::TASKS)?;
    let set = DataSet::open(&Folder::make(data)?, &plan.run)?;
    let mut table = set.tasks_table()?;
    let (unknown, unknown_count) = match &tasks {
        Some(tasks) => unknown_names(tasks, plan)?,
        None if set.has_results()? => {
            return Err(FleetError::refused(
                format_args!(
                    "cannot collect {}: its folder {} is missing, and the data set has results of it",
                    folder.display(),
                    plan::TASKS
                ),
                format_args!("restore it, or remove {}", data.display()),
            ));
        }
        None => (Vec::new(), 0),
    };
    // It adds to the results, and does not replace them.
    let (mut records, records_error) = match accounting::read(folder) {
        Ok(records) => (records, None),
        Err(error) => (BTreeMap::new(), Some(error.to_string())),
    };
    let mut collected = Collected {
        tasks: Vec::with_capacity(plan.tasks.len()),
        unknown,
        unknown_count,
        copied: 0,
        kept: 0,
        records_error,
    };
    let mut addresses = Addresses::of(plan);
    for task in &plan.tasks {
        let mut found = source::read(tasks.as_ref(), &task.id, &plan.engine);
        if let Ok(finished) = &mut found.result {
            addresses.apply(task, &mut finished.host);
        }
        let taken = match &found.result {
            Ok(finished) => take(&set, task, finished)?,
            Err(state) => Taken::Not(state.clone()),
        };
        match taken {
            Taken::Copied(_) => collected.copied += 1,
            Taken::Kept(_) => collected.kept += 1,
            Taken::Not(_) => {}
        }
        let finished = found
            .result
            .as_ref()
            .ok()
            .map(|found| (&found.result, &found.host));
        let state = state_of(task, &found, taken, records.remove(&task.id));
        let row = task_row::row(&plan.run, task, &state, finished);
        table.write(row).map_err(|error| set.not_written(error))?;
        collected.tasks.push(state);
    }
    retain(&set, &collected)?;
    set.finish(table)?;
    Ok(collected)
}

/// The addresses of hosts in a plan, as a host knows neither its own nor its class.
struct Addresses<'p> {
    classes: HashMap<String, &'p str>,
    /// The address of the first host of each name.
    of_names: HashMap<String, &'p str>,
}

impl<'p> Addresses<'p> {
    fn of(plan: &'p Plan) -> Addresses<'p> {
        Addresses {
            classes: plan.host_classes(),
            of_names: HashMap::new(),
        }
    }

    /// Gives a host its class in the plan, and a name that no host with another address has: boards and clones of an image often have
    /// the same name.
    fn apply(&mut self, task: &'p Task, host: &mut Fingerprint) {
        let address = task.host.as_deref();
        let class = address.and_then(|address| self.classes.get(address));
        host.class = class.map(|class| (*class).to_owned());
        let Some(address) = address else { return };
        let first = self.of_names.entry(host.host.clone()).or_insert(address);
        if *first != address {
            host.host = match address.len() {
                0..=ADDRESS_MAX => format!("{} ({address})", host.host),
                _ => format!("{} ({})", host.host, &sha256::of_bytes(address)[..12]),
            };
        }
    }
}

/// The share of a task in the data set.
enum Taken {
    Copied(Rows),
    Kept(Rows),
    Not(State),
}

fn take(set: &DataSet, task: &Task, finished: &Finished) -> Result<Taken, FleetError> {
    let host = finished.host.host.as_str();
    if let Some(rows) = set.kept(host, &task.id, &finished.digest) {
        return Ok(Taken::Kept(rows));
    }
    if let Err(state) = source::check(finished) {
        return Ok(Taken::Not(state));
    }
    let new = set.begin()?;
    match copy(&finished.recording, &new) {
        Ok(rows) => {
            set.publish(&new, (host, &task.id), &finished.digest, rows)?;
            Ok(Taken::Copied(rows))
        }
        Err(TaskError::Source(state)) => Ok(Taken::Not(state)),
        Err(TaskError::Output(error)) => Err(error),
    }
}

/// The failure of the copy of a task.
enum TaskError {
    /// The result cannot be used.
    Source(State),
    /// The data set cannot be written.
    Output(FleetError),
}

impl From<RecordingError> for TaskError {
    fn from(error: RecordingError) -> TaskError {
        let state = match &error {
            RecordingError::Io { source, .. } => source::unusable(source, &error),
            _ => corrupt(&error),
        };
        TaskError::Source(state)
    }
}

impl From<FleetError> for TaskError {
    fn from(error: FleetError) -> TaskError {
        TaskError::Output(error)
    }
}

/// Writes the files of a task into an empty folder.
fn copy(recording: &Folder, new: &Folder) -> Result<Rows, TaskError> {
    let source = recording.recording()?;
    let mut samples = new.create(SAMPLES)?;
    let samples = copy_samples(&source, &mut samples).map_err(|error| match error {
        CopyError::Read(error) => TaskError::from(error),
        CopyError::Write(error) => written(new, SAMPLES, error),
    })?;
    let rows = copy_trials(&source, new)?;
    Ok(Rows { samples, ..rows })
}

fn copy_trials(source: &RecordingFolder, new: &Folder) -> Result<Rows, TaskError> {
    let table = |name: &'static str, columns| -> Result<Writer<BufWriter<File>>, TaskError> {
        let output = BufWriter::new(new.create(name)?);
        Writer::new(output, columns).map_err(|error| written(new, name, error))
    };
    let mut trials = table(TRIALS, columns::TRIALS)?;
    let mut metrics = table(METRICS, columns::METRICS)?;
    let failed = |name: &'static str| {
        move |error: RowError| match error {
            RowError::Table(TableError::Io(error)) => written(new, name, error),
            error => TaskError::Source(corrupt(error)),
        }
    };
    let mut rows = Rows::default();
    let mut ids = HashSet::new();
    for_each_trial(source, |trial| {
        if rows.trials == TRIALS_MAX || !ids.insert(trial.id.clone()) {
            let reason = "its results have a trial twice, or more than 10,000";
            return Err(TaskError::Source(corrupt(reason)));
        }
        rows::write_trial(&trial, &mut trials).map_err(failed(TRIALS))?;
        rows.trials += 1;
        let left = METRICS_MAX - rows.metrics;
        rows.metrics += rows::write_metrics(&trial, &mut metrics, left).map_err(failed(METRICS))?;
        Ok(())
    })?;
    trials.close(&[]).map_err(|error| written(new, TRIALS, error))?;
    metrics.close(&[]).map_err(|error| written(new, METRICS, error))?;
    Ok(rows)
}

fn written(new: &Folder, name: &str, error: io::Error) -> TaskError {
    TaskError::Output(FleetError::io("write", &new.path().join(name), error))
}

fn state_of(task: &Task, found: &Found, taken: Taken, engine: Option<Accounting>) -> TaskState {
    let (state, rows) = match taken {
        Taken::Copied(rows) | Taken::Kept(rows) => (State::Done, Some(rows)),
        Taken::Not(state) => (state, None),
    };
    let of_result = found
        .result
        .as_ref()
        .ok()
        .map(|finished| finished.host.host.clone());
    let of_attempt = || found.attempts.last().map(|attempt| attempt.host.clone());
    TaskState {
        id: task.id.clone(),
        host: of_result.or_else(of_attempt).or_else(|| task.host.clone()),
        state,
        attempts: found.attempts.clone(),
        unreadable: found.unreadable,
        exit: found.exit,
        engine,
        rows,
    }
}

/// Removes the folders of tasks that are not done, or whose result is now of another host. A result that cannot be read now may be
/// read later: its copy stays.
fn retain(set: &DataSet, collected: &Collected) -> Result<(), FleetError> {
    let done = collected.tasks.iter().filter(|task| task.state == State::Done);
    let current: HashMap<String, String> = done
        .filter_map(|task| Some((task_folder(&task.id), host_folder(task.host.as_deref()?))))
        .collect();
    let unreadable = collected.tasks.iter();
    let unreadable: HashSet<String> = unreadable
        .filter(|task| matches!(task.state, State::Unreadable { .. }))
        .map(|task| task_folder(&task.id))
        .collect();
    set.retain(|host, task| {
        current.get(task).is_some_and(|current| current == host) || unreadable.contains(task)
    })
}

/// The first names in the folder of the tasks that belong to no task of the plan, and the number of all of them. Names that begin with
/// a dot are results on their way.
fn unknown_names(tasks: &Folder, plan: &Plan) -> Result<(Vec<String>, usize), FleetError> {
    let known: HashSet<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    let is_known = |name: &str| {
        let id = name.strip_suffix(".attempts").unwrap_or(name);
        name.starts_with('.') || known.contains(id)
    };
    let names = tasks.names()?;
    let unknown = names.iter().filter(|name| !name.to_str().is_some_and(is_known));
    let shown = unknown.clone().take(UNKNOWN_MAX).map(|name| {
        let name = name.to_string_lossy();
        sanitize(&shorten(&name, NAME_MAX)).into_owned()
    });
    Ok((shown.collect(), unknown.count()))
}
