//! The folder of a data set, as one collection at a time writes it.
//!
//! ```text
//! open (lock, empty .collect/) -> begin -> publish (rename) ... -> retain -> finish (tasks.parquet by rename)
//!                                  kept (nothing to do)
//! ```
//!
//! A kill leaves whole folders of tasks, and `.collect/`, which the next collection empties. A power cut may leave folders of tasks
//! whose files are not whole: the id of the boot stays in `.collect/` until all files are on disk, and after another boot the next
//! collection copies every task again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};

use plimsoll_model::recording::table::{self, TableError, Value, Writer};
use serde::{Deserialize, Serialize};

use super::columns;
use super::state::Rows;
use crate::folder::FolderLock;
use crate::plan::{RunName, TaskId};
use crate::views;
use crate::{FleetError, Folder};

pub(super) const SAMPLES: &str = "samples.parquet";
pub(super) const TRIALS: &str = "trials.parquet";
pub(super) const METRICS: &str = "metrics.parquet";
const TASKS: &str = "tasks.parquet";
/// Of a task: the digest of its source. Its name begins with `_`, which readers of data sets pass over.
const SOURCE: &str = "_source.json";
const LOCK: &str = ".lock";
const WORK: &str = ".collect";
const BOOT: &str = "boot";
const NEW: &str = "new";
const OLD: &str = "old";
const SOURCE_VERSION: u32 = 1;
const DOCUMENT_MAX: u64 = 1 << 16;

/// `_source.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    version: u32,
    digest: String,
    rows: Rows,
    /// Length of each file by its name.
    bytes: BTreeMap<String, u64>,
}

/// An open data set.
pub(super) struct DataSet {
    data: Folder,
    run_name: RunName,
    run: Folder,
    work: Folder,
    /// Whether files of an earlier collection are known to be whole.
    trusted: bool,
    /// Held until the end.
    _lock: FolderLock,
}

pub(super) type TasksTable = Writer<BufWriter<File>>;

impl DataSet {
    /// Opens or makes a data set for the collection of a run.
    pub(super) fn open(data: &Folder, run: &RunName) -> Result<DataSet, FleetError> {
        let lock = lock(data)?;
        let work = data.make_folder(WORK)?;
        let boot = plimsoll_proc::sysctl::boot_id()
            .map_err(|error| FleetError::refused(error, "mount /proc, then collect again"))?;
        let before = work.read(BOOT, DOCUMENT_MAX)?;
        let trusted = before.is_none_or(|before| before == boot.as_bytes());
        for name in work.names()? {
            if name != BOOT {
                work.remove(&name)?;
            }
        }
        // After a power cut, the id stays that of the earlier boot until every task was copied again.
        if trusted {
            work.write(BOOT, boot.as_bytes(), 0o644)?;
        }
        Ok(DataSet {
            run: data.make_folder(format!("run={run}"))?,
            data: data.clone(),
            run_name: run.clone(),
            work,
            trusted,
            _lock: lock,
        })
    }

    /// The rows of a task if the data set has its result already.
    pub(super) fn kept(&self, host: &str, task: &TaskId, digest: &str) -> Option<Rows> {
        if !self.trusted {
            return None;
        }
        let host = self.run.folder(host_folder(host)).ok()??;
        let task = host.folder(task_folder(task)).ok()??;
        let source = task.read_json::<Source>(SOURCE, DOCUMENT_MAX, SOURCE_VERSION);
        let source = source.ok()??;
        let is_whole = [SAMPLES, TRIALS, METRICS].iter().all(|name| {
            let file = task.file(name, u64::MAX).ok().flatten();
            let length = file.and_then(|file| Some(file.metadata().ok()?.len()));
            length.is_some() && length == source.bytes.get(*name).copied()
        });
        (is_whole && source.digest == digest).then_some(source.rows)
    }

    /// An empty folder for the files of a task.
    pub(super) fn begin(&self) -> Result<Folder, FleetError> {
        self.work.remove(NEW)?;
        self.work.make_folder(NEW)
    }

    /// Makes the folder of [`DataSet::begin`] that of a task, in place of an earlier one.
    pub(super) fn publish(
        &self,
        new: &Folder,
        (host, task): (&str, &TaskId),
        digest: &str,
        rows: Rows,
    ) -> Result<(), FleetError> {
        let mut bytes = BTreeMap::new();
        for name in [SAMPLES, TRIALS, METRICS] {
            let path = new.path().join(name);
            let missing = || FleetError::io("read", &path, std::io::ErrorKind::NotFound);
            let file = new.file(name, u64::MAX)?.ok_or_else(missing)?;
            let file = file
                .metadata()
                .map_err(|source| FleetError::io("read", &path, source))?;
            bytes.insert(name.to_owned(), file.len());
        }
        let source = Source {
            version: SOURCE_VERSION,
            digest: digest.to_owned(),
            rows,
            bytes,
        };
        let document = serde_json::to_vec_pretty(&source)
            .map_err(|error| FleetError::format(&new.path().join(SOURCE), error))?;
        let path = new.path().join(SOURCE);
        new.create(SOURCE)?
            .write_all(&document)
            .map_err(|error| FleetError::io("write", &path, error))?;
        let host = self.run.make_folder(host_folder(host))?;
        let task = task_folder(task);
        let failed = |error| FleetError::io("replace", &host.path().join(&task), error);
        if host.has(&task) {
            host.rename(&task, &self.work, OLD).map_err(failed)?;
        }
        self.work.rename(NEW, &host, &task).map_err(failed)?;
        self.work.remove(OLD)
    }

    /// Removes the tasks of this run for which `is_current` is false, by host and folder.
    pub(super) fn retain(&self, is_current: impl Fn(&str, &str) -> bool) -> Result<(), FleetError> {
        for host_name in self.run.names()? {
            let Some(host) = host_name.to_str().filter(|name| name.starts_with("host=")) else {
                continue;
            };
            let Some(folder) = self.run.folder(host)? else {
                continue;
            };
            let mut is_empty = true;
            for name in folder.names()? {
                let is_task = name.to_str().filter(|name| name.starts_with("task="));
                match is_task {
                    Some(task) if !is_current(host, task) => folder.remove(task)?,
                    _ => is_empty = false,
                }
            }
            if is_empty {
                self.run.remove(host)?;
            }
        }
        Ok(())
    }

    /// Starts the table of the tasks, with the rows of other runs.
    pub(super) fn tasks_table(&self) -> Result<TasksTable, FleetError> {
        let file = self.work.create(TASKS)?;
        let path = self.data.path().join(TASKS);
        let damaged = |error: TableError| match error {
            TableError::Io(source) => FleetError::io("read", &path, source),
            error => FleetError::format(
                &path,
                format_args!("{error}; remove it and collect every run again"),
            ),
        };
        let failed = |error: TableError| self.not_written(error);
        let table = Writer::new(BufWriter::new(file), columns::TASKS);
        let mut table = table.map_err(|error| failed(error.into()))?;
        if !self.data.has(TASKS) {
            return Ok(table);
        }
        let mut earlier = table::open(&path, columns::TASKS).map_err(damaged)?;
        while let Some(rows) = earlier.next_group().map_err(damaged)? {
            for row in rows {
                let is_of_this =
                    matches!(row.first(), Some(Value::Text(run)) if run == self.run_name.as_str());
                if !is_of_this {
                    table.write(row).map_err(failed)?;
                }
            }
        }
        Ok(table)
    }

    /// The error of a row of the tasks that was not written.
    pub(super) fn not_written(&self, error: TableError) -> FleetError {
        let path = self.work.path().join(TASKS);
        match error {
            TableError::Io(source) => FleetError::io("write", &path, source),
            error => FleetError::format(&path, error),
        }
    }

    /// Whether it has results of this run.
    pub(super) fn has_results(&self) -> Result<bool, FleetError> {
        Ok(!self.run.names()?.is_empty())
    }

    /// Waits until all files are on disk, and makes the table that of the data set.
    pub(super) fn finish(self, table: TasksTable) -> Result<(), FleetError> {
        let path = self.data.path().join(TASKS);
        let failed = |error| FleetError::io("write", &path, error);
        table.close(&[]).map_err(failed)?;
        self.work.write(views::FILE, views::SQL.as_bytes(), 0o644)?;
        self.data.sync_file_system()?;
        for name in [views::FILE, TASKS] {
            self.work.rename(name, &self.data, name).map_err(failed)?;
        }
        self.data.sync()?;
        self.data.remove(WORK)
    }
}

fn lock(data: &Folder) -> Result<FolderLock, FleetError> {
    let locked = data.lock(LOCK);
    locked.map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => FleetError::refused(
            format_args!(
                "cannot collect into {}: another collection writes it",
                data.path().display()
            ),
            "wait for its end",
        ),
        _ => FleetError::io("lock", data.path(), error),
    })
}

/// The folder of a host: its name with every byte but letters, digits and `._-` as `%XX`, as readers of Hive-style partitions expect.
pub(super) fn host_folder(host: &str) -> String {
    let mut folder = String::from("host=");
    for byte in host.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => folder.push(byte.into()),
            _ => folder.push_str(&format!("%{byte:02X}")),
        }
    }
    folder
}

pub(super) fn task_folder(task: &TaskId) -> String {
    format!("task={task}")
}
