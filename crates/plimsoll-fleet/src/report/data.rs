//! A data set of `collect` in memory: its tasks, its hosts, and the values of each metric by class.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use plimsoll_model::recording::table::{self, Column, TableError, Value};
use plimsoll_model::sanitize::sanitize;
use plimsoll_report::analysis::statistics::median;
use plimsoll_report::comparison::nature;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::settings::{self, Majority};
use crate::collect::columns;
use crate::fingerprint::SwapDevice;
use crate::{FleetError, Folder};

const TASKS_FILE: &str = "tasks.parquet";
const METRICS_FILE: &str = "metrics.parquet";
/// Name of a folder with this data set in a fleet's folder.
const DATA: &str = "data";
const DONE: &str = "done";

/// The columns that a report reads.
static TASKS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let names = [
        "run",
        "task",
        "host",
        "state",
        "reason",
        "attempts",
        "attempt_list",
        "engine_restarts",
        "engine_state",
        "started",
        "ended",
        "binary_sha256",
        "class",
        "kernel",
        "swap",
        "settings",
    ];
    picked(columns::TASKS, &names)
});
static METRICS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let names = [
        "trial", "workload", "phase", "metric", "headline", "value", "status",
    ];
    picked(columns::METRICS, &names)
});

fn picked(columns: &[Column], names: &[&str]) -> Vec<Column> {
    let named = |name: &&str| columns.iter().find(|column| column.name == *name).copied();
    // A name without a column would shift the values of the others.
    let picked = names.iter().map(named).collect::<Option<_>>();
    picked.expect("each name is that of a column")
}

#[derive(Debug)]
pub(super) struct DataSet {
    pub(super) run: String,
    pub(super) path: PathBuf,
    pub(super) tasks: Vec<Task>,
    /// Hosts with a result, by name.
    pub(super) hosts: Vec<Host>,
    /// By class, group and metric.
    pub(super) measures: BTreeMap<Key, Measure>,
}

/// A row of the table of tasks.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) host: Option<String>,
    /// `done`, `failed`, `missing`, `corrupt` or `unreadable`.
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) attempts: u64,
    pub(super) attempt_list: Vec<Attempt>,
    pub(super) engine_restarts: u64,
    pub(super) engine_state: Option<String>,
    pub(super) started: Option<String>,
}

/// An attempt in the table of tasks.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attempt {
    pub(super) number: u64,
    pub(super) host: String,
    pub(super) outcome: String,
    pub(super) exit: Option<i64>,
}

impl Task {
    pub(super) fn is_done(&self) -> bool {
        self.state == DONE
    }
}

#[derive(Debug, Clone)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) class: String,
    /// With the kernel, the program and the swap devices.
    pub(super) settings: BTreeMap<String, String>,
    ended: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) class: String,
    /// A trial's id without its repeat.
    pub(super) group: String,
    /// `PHASE.seconds`, or a metric of a trial.
    pub(super) metric: String,
}

/// A metric of a group on the hosts of a class.
#[derive(Debug, Default)]
pub(super) struct Measure {
    /// By index of [`DataSet::hosts`], ascending.
    pub(super) hosts: BTreeMap<usize, HostValues>,
}

/// The values of all trials on a host.
#[derive(Debug, Default, Clone)]
pub(super) struct HostValues {
    pub(super) trusted: Vec<f64>,
    untrusted: Vec<f64>,
}

impl HostValues {
    /// Trials with a value.
    pub(super) fn trials(&self) -> usize {
        self.trusted.len() + self.untrusted.len()
    }

    /// The host's value: the median of the trustworthy values or, without any, of all; and whether it is trustworthy.
    pub(super) fn value(&self) -> Option<(f64, bool)> {
        match median(&self.trusted) {
            Some(value) => Some((value, true)),
            None => median(&self.untrusted).map(|value| (value, false)),
        }
    }
}

impl Measure {
    /// The trustworthy values of the hosts.
    pub(super) fn trusted(&self) -> impl Iterator<Item = (usize, f64)> {
        let values = self.hosts.iter();
        values.filter_map(|(host, values)| Some((*host, values.value().filter(|(_, trusted)| *trusted)?.0)))
    }
}

impl DataSet {
    /// Reads the run `run` of the data set at `path`, or at `data` in it. `None` is the only run of the data set. Reads headline
    /// metrics, the times of phases that a report of a run shows, and `wanted` metrics.
    pub(super) fn read(
        path: &Path,
        run: Option<&str>,
        wanted: &BTreeSet<&str>,
    ) -> Result<DataSet, FleetError> {
        let inner = path.join(DATA);
        let path = match !path.join(TASKS_FILE).exists() && inner.join(TASKS_FILE).exists() {
            true => inner,
            false => path.to_owned(),
        };
        let file = path.join(TASKS_FILE);
        let mut rows: Vec<Row> = Vec::new();
        for_each(&file, &TASKS, |row| rows.push(row))?;
        let runs: BTreeSet<String> = rows
            .iter_mut()
            .map(|row| row[0].text().unwrap_or_default())
            .collect();
        let run = match (run, runs.len()) {
            (Some(run), _) => run.to_owned(),
            (None, 1) => runs.into_iter().next().unwrap_or_default(),
            (None, count) => {
                let reason = format!("cannot compare with {}: it has {count} runs", path.display());
                return Err(FleetError::refused(reason, "name a data set of one run"));
            }
        };
        let mut data = DataSet {
            run,
            path,
            tasks: Vec::new(),
            hosts: Vec::new(),
            measures: BTreeMap::new(),
        };
        let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
        for row in rows {
            data.add_task(row, &mut hosts);
        }
        if data.tasks.is_empty() {
            return Err(FleetError::format(
                &file,
                format!("it has no task of the run {}", data.run),
            ));
        }
        data.hosts = hosts.into_values().collect();
        data.read_metrics(wanted)?;
        Ok(data)
    }

    fn add_task(&mut self, mut row: Row, hosts: &mut BTreeMap<String, Host>) {
        let mut columns = row.iter_mut();
        let mut next = || columns.next().map(std::mem::take).unwrap_or_default();
        if next().text().is_none_or(|run| run != self.run) {
            return;
        }
        let task = Task {
            id: next().line().unwrap_or_default(),
            host: next().line(),
            state: next().line().unwrap_or_default(),
            reason: next().line(),
            attempts: next().integer().unwrap_or(0),
            attempt_list: next().json().unwrap_or_default(),
            engine_restarts: next().integer().unwrap_or(0),
            engine_state: next().line(),
            started: next().line(),
        };
        let ended = next().line().unwrap_or_default();
        let binary = next().line();
        let class = next().line();
        let kernel = next().line().unwrap_or_default();
        let swap: Vec<SwapDevice> = next().json().unwrap_or_default();
        let values: BTreeMap<String, String> = next().json().unwrap_or_default();
        if let (true, Some(name), Some(class)) = (task.is_done(), &task.host, class) {
            let host = Host {
                name: name.clone(),
                class,
                settings: settings::of(&values, &kernel, &swap, binary.as_deref()),
                ended,
            };
            // The last state of the host, if a setting was changed between two tasks.
            if hosts.get(name).is_none_or(|before| before.ended <= host.ended) {
                hosts.insert(name.clone(), host);
            }
        }
        self.tasks.push(task);
    }

    fn read_metrics(&mut self, wanted: &BTreeSet<&str>) -> Result<(), FleetError> {
        let places = self.places()?;
        let hosts: HashMap<String, usize> = self
            .hosts
            .iter()
            .enumerate()
            .map(|(index, host)| (host.name.clone(), index))
            .collect();
        for index in 0..self.tasks.len() {
            let task = &self.tasks[index];
            if !task.is_done() {
                continue;
            }
            let host = task.host.as_ref().and_then(|host| hosts.get(host)).copied();
            let read = match (host, places.get(&task.id)) {
                (Some(host), Some(folder)) => self.read_task(&folder.join(METRICS_FILE), host, wanted),
                (None, _) => Err("it has no description of its host".to_owned()),
                (_, None) => Err("the data set lacks its metrics".to_owned()),
            };
            if let Err(reason) = read {
                let task = &mut self.tasks[index];
                task.state = "corrupt".to_owned();
                task.reason = Some(reason);
            }
        }
        Ok(())
    }

    /// The folders of the run's tasks.
    fn places(&self) -> Result<HashMap<String, PathBuf>, FleetError> {
        let mut places = HashMap::new();
        let Some(run) = Folder::open(&self.path)?.folder(format!("run={}", self.run))? else {
            return Ok(places);
        };
        for host in run.names()? {
            let Some(folder) = run.folder(&host)? else {
                continue;
            };
            for task in folder.names()? {
                if let Some(id) = task.to_str().and_then(|name| name.strip_prefix("task=")) {
                    places.insert(id.to_owned(), folder.path().join(&task));
                }
            }
        }
        Ok(places)
    }

    fn read_task(&mut self, path: &Path, host: usize, wanted: &BTreeSet<&str>) -> Result<(), String> {
        let class = self.hosts[host].class.clone();
        let measures = &mut self.measures;
        let read = for_each(path, &METRICS, |mut row| {
            let mut columns = row.iter_mut();
            let mut next = || columns.next().map(std::mem::take).unwrap_or_default();
            let (trial, workload) = (
                next().line().unwrap_or_default(),
                next().text().unwrap_or_default(),
            );
            let (phase, name) = (next().line(), next().line().unwrap_or_default());
            let headline = next() == Value::Flag(true);
            let Value::Number(value) = next() else { return };
            let status = next().text();
            let metric = match &phase {
                Some(phase) => format!("{phase}.{name}"),
                None => name,
            };
            let shown = match phase {
                Some(_) => {
                    plimsoll_report::workloads::has_timed_phases(&workload) && nature(&metric).headline
                }
                None => headline,
            };
            if !value.is_finite() || !(shown || wanted.contains(metric.as_str())) {
                return;
            }
            let key = Key {
                class: class.clone(),
                group: shared_part(&trial).to_owned(),
                metric,
            };
            let values = measures.entry(key).or_default().hosts.entry(host).or_default();
            match status.as_deref() {
                Some("ok") => values.trusted.push(value),
                Some("untrustworthy") => values.untrusted.push(value),
                _ => {}
            }
        });
        read.map_err(|error| sanitize(&error.to_string()).into_owned())
    }

    /// The settings of the majority of each class.
    pub(super) fn majorities(&self) -> BTreeMap<&str, Majority<'_>> {
        let of_class = |(class, hosts): (_, Vec<usize>)| {
            let settings: Vec<_> = hosts.iter().map(|host| &self.hosts[*host].settings).collect();
            (class, Majority::of(&settings))
        };
        self.classes().into_iter().map(of_class).collect()
    }

    /// The classes with their hosts, by name.
    pub(super) fn classes(&self) -> BTreeMap<&str, Vec<usize>> {
        let mut classes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, host) in self.hosts.iter().enumerate() {
            classes.entry(&host.class).or_default().push(index);
        }
        classes
    }
}

type Row = Vec<Value>;

/// Hands over each row of a table.
fn for_each(path: &Path, columns: &'static [Column], mut each: impl FnMut(Row)) -> Result<(), FleetError> {
    let failed = |error: TableError| match error {
        TableError::Io(source) => FleetError::io("read", path, source),
        other => FleetError::format(path, other),
    };
    let mut reader = table::open(path, columns).map_err(failed)?;
    while let Some(rows) = reader.next_group().map_err(failed)? {
        rows.into_iter().for_each(&mut each);
    }
    Ok(())
}

/// A trial's id without `#REPEAT`.
fn shared_part(id: &str) -> &str {
    match id.rsplit_once('#') {
        Some((shared, repeat)) if repeat.parse::<u32>().is_ok() => shared,
        _ => id,
    }
}

/// The content of a value.
trait Content {
    fn text(&self) -> Option<String>;
    /// A line of foreign text.
    fn line(&self) -> Option<String> {
        self.text().map(|text| sanitize(&text).into_owned())
    }
    fn integer(&self) -> Option<u64>;
    fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.text()?).ok()
    }
}

impl Content for Value {
    fn text(&self) -> Option<String> {
        match self {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn integer(&self) -> Option<u64> {
        match self {
            Value::Integer(value) => u64::try_from(*value).ok(),
            _ => None,
        }
    }
}
