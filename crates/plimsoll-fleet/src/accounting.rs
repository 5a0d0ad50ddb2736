//! The engine's own record of each task: `accounting.json`.
//!
//! Only the engine knows a task that waits, and a start that ended before the program began. As engines forget, the last answer stays
//! in the fleet's folder.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_model::sanitize::sanitize;
use serde::{Deserialize, Serialize};

use crate::plan::TaskId;
use crate::{FleetError, Folder};

const FILE: &str = "accounting.json";
const VERSION: u32 = 1;
/// Slurm allows arrays of up to 4 million tasks; a record has about 150 bytes.
const MOST_BYTES: u64 = 1 << 30;

/// The engine's record of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accounting {
    pub task: TaskId,
    pub source: Source,
    /// Starts after the first.
    pub restarts: u32,
    /// Slurm's word for the state of the last start: `PENDING`, `COMPLETED`, `NODE_FAIL`.
    pub state: String,
    /// The host of each start, of the last start alone from `scontrol`.
    pub hosts: Vec<String>,
}

/// The command that knows the starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Sacct,
    Scontrol,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    /// The job of the engine that it describes.
    job: String,
    tasks: Vec<Accounting>,
}

/// Adds an answer of the engine about a submitted job to the records in the folder.
///
/// # Errors
/// The system's.
pub(crate) fn add(folder: &Path, job: &str, answer: Vec<Accounting>) -> Result<(), FleetError> {
    let folder = Folder::open(folder)?;
    let known: Option<Document> = match folder.read_json(FILE, MOST_BYTES, VERSION) {
        Ok(known) => known,
        // Damaged: the answer is better than nothing.
        Err(FleetError::Format { .. }) => None,
        Err(error) => return Err(error),
    };
    folder.write_json(FILE, &merged(known, job, answer))
}

/// The records after an answer about a job. It may lack tasks of this job: without an accounting database, Slurm forgets a task some
/// minutes after its end. Records of another job, an earlier submission, are dropped.
fn merged(known: Option<Document>, job: &str, answer: Vec<Accounting>) -> Document {
    let known = known.filter(|known| known.job == job);
    let known = known.map(|known| known.tasks).unwrap_or_default();
    let by_task = known.into_iter().map(|record| (record.task.clone(), record));
    let mut records: BTreeMap<TaskId, Accounting> = by_task.collect();
    for record in answer {
        let record = match records.remove(&record.task) {
            Some(known) => updated(known, record),
            None => record,
        };
        records.insert(record.task.clone(), record);
    }
    Document {
        version: VERSION,
        job: job.to_owned(),
        tasks: records.into_values().collect(),
    }
}

/// The record after an answer about its task. `scontrol` does not know the hosts of earlier starts: if there is no new start, it adds
/// only the state to a record of `sacct`, and the host of a start that waited for one.
fn updated(known: Accounting, answer: Accounting) -> Accounting {
    let has_new_start = known.restarts != answer.restarts;
    // Slurm has forgotten the task, and answers as for one that never started.
    if !has_new_start && answer.hosts.is_empty() && !known.hosts.is_empty() {
        return known;
    }
    if has_new_start || known.source != Source::Sacct || answer.source != Source::Scontrol {
        return answer;
    }
    let mut hosts = known.hosts;
    // One fewer than starts.
    if u32::try_from(hosts.len()) == Ok(known.restarts) {
        hosts.extend(answer.hosts);
    }
    Accounting {
        state: answer.state,
        hosts,
        ..known
    }
}

/// The records in a fleet's folder.
///
/// # Errors
/// A file that cannot be read, or has unexpected content.
pub fn read(folder: &Path) -> Result<BTreeMap<TaskId, Accounting>, FleetError> {
    let document: Option<Document> = Folder::open(folder)?.read_json(FILE, MOST_BYTES, VERSION)?;
    let tasks = document.map(|document| document.tasks).unwrap_or_default();
    let by_task = tasks.into_iter().map(|mut record| {
        for text in record.hosts.iter_mut().chain([&mut record.state]) {
            *text = sanitize(text).into_owned();
        }
        (record.task.clone(), record)
    });
    Ok(by_task.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(task: &str, source: Source, restarts: u32, state: &str, hosts: &[&str]) -> Accounting {
        Accounting {
            task: task.parse().expect("an id"),
            source,
            restarts,
            state: state.to_owned(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        }
    }

    fn document(tasks: Vec<Accounting>) -> Document {
        merged(None, "12", tasks)
    }

    #[test]
    fn a_task_that_slurm_has_forgotten_keeps_its_record() {
        let ended = record("a", Source::Scontrol, 1, "NODE_FAIL", &["h1"]);
        let waits = record("b", Source::Scontrol, 0, "PENDING", &[]);
        let runs = record("b", Source::Scontrol, 0, "RUNNING", &["h2"]);
        let known = document(vec![ended.clone(), waits]);
        let later = merged(Some(known), "12", vec![runs.clone()]);
        assert_eq!(later.job, "12");
        assert_eq!(later.tasks, [ended.clone(), runs.clone()]);
        let all_forgotten = merged(Some(later), "12", Vec::new());
        assert_eq!(all_forgotten.tasks, [ended, runs]);
    }

    #[test]
    fn a_second_submission_begins_with_new_records() {
        let known = || document(vec![record("a", Source::Sacct, 2, "FAILED", &["h1", "h2", "h3"])]);
        let waits = record("b", Source::Scontrol, 0, "PENDING", &[]);
        let new = merged(Some(known()), "13", vec![waits.clone()]);
        assert_eq!(new.job, "13");
        assert_eq!(new.tasks, [waits]);
        assert!(merged(Some(known()), "13", Vec::new()).tasks.is_empty());
        // Another cluster.
        assert!(merged(Some(known()), "12;far", Vec::new()).tasks.is_empty());
    }

    #[test]
    fn the_controller_forgets_no_host_of_the_database() {
        let after = |known: &Accounting, answer: Accounting| {
            merged(Some(document(vec![known.clone()])), "12", vec![answer]).tasks
        };
        let known = record("a", Source::Sacct, 1, "RUNNING", &["h1", "h2"]);
        let ended = record("a", Source::Scontrol, 1, "COMPLETED", &["h2"]);
        let expected = record("a", Source::Sacct, 1, "COMPLETED", &["h1", "h2"]);
        assert_eq!(after(&known, ended.clone()), *std::slice::from_ref(&expected));
        assert_eq!(after(&expected, ended.clone()), *std::slice::from_ref(&expected));
        // The second start had no host yet.
        let waits = record("a", Source::Sacct, 1, "PENDING", &["h1"]);
        assert_eq!(after(&waits, ended.clone()), *std::slice::from_ref(&expected));
        // A start that the database did not know, and an answer of the database itself.
        let third = record("a", Source::Scontrol, 2, "RUNNING", &["h3"]);
        assert_eq!(after(&known, third.clone()), [third]);
        assert_eq!(after(&ended, known.clone()), [known]);
    }
}
