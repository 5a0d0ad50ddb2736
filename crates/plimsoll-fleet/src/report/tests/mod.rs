//! Data sets for tests: written as `collect` writes them, from a description of hosts.

mod comparison;
mod report;
mod views;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use plimsoll_model::recording::table::{Column, Value, Writer};
use serde_json::json;

use super::{FailOn, ReportOutcome, write};
use crate::FleetError;
use crate::collect::columns;
use crate::plan::{self, Binary, Engine, Plan, PlannedScenario, Task};

/// A trial of each repeat, of one group.
pub(super) const GROUP: &str = "zram/zram:lz4/random";
const RESTORE: &str = "restore.seconds";
const HASH: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A host with one task.
#[derive(Clone)]
pub(super) struct MadeHost {
    name: String,
    class: String,
    algorithm: &'static str,
    kernel: &'static str,
    swappiness: &'static str,
    /// Seconds of the phase `restore`, a trial each.
    restore: Vec<f64>,
    status: &'static str,
    state: &'static str,
}

/// Equal hosts whose values differ by chance alone, by up to 2%.
pub(super) fn hosts(count: usize, seconds: f64) -> Vec<MadeHost> {
    let host = |index: usize| {
        let noise = |repeat: usize| 1.0 + ((index * 7 + repeat * 13) % 41) as f64 / 1000.0 - 0.02;
        MadeHost {
            name: format!("host{index:03}"),
            class: "big".to_owned(),
            algorithm: "lz4",
            kernel: "6.12.1",
            swappiness: "60",
            restore: (0..3).map(|repeat| seconds * noise(repeat)).collect(),
            status: "ok",
            state: "done",
        }
    };
    (0..count).map(host).collect()
}

pub(super) struct MadeSet {
    folder: tempfile::TempDir,
    plan: Plan,
}

impl MadeSet {
    pub(super) fn new(run: &str, hosts: &[MadeHost]) -> MadeSet {
        let folder = tempfile::tempdir().unwrap();
        let mut tasks = table(&folder.path().join("data/tasks.parquet"), columns::TASKS);
        for (index, host) in hosts.iter().enumerate() {
            let task = format!("{index:04}");
            tasks.write(task_row(run, &task, host)).unwrap();
            if host.state == "done" {
                let place = format!("data/run={run}/host={}/task={task}", host.name);
                write_task(&folder.path().join(place), host);
            }
        }
        tasks.close(&[]).unwrap();
        let plan = plan(run, hosts.len());
        plan.write(folder.path()).unwrap();
        MadeSet { folder, plan }
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(super) fn report(&self) -> (ReportOutcome, String) {
        self.against(None, &[]).unwrap()
    }

    pub(super) fn against(
        &self,
        baseline: Option<&MadeSet>,
        conditions: &[&str],
    ) -> Result<(ReportOutcome, String), FleetError> {
        let conditions: Vec<FailOn> = conditions.iter().map(|text| text.parse().unwrap()).collect();
        let baseline = baseline.map(MadeSet::data);
        let mut html = Vec::new();
        let outcome = write(
            &self.data(),
            &self.plan,
            baseline.as_deref(),
            &mut html,
            &conditions,
        )?;
        Ok((outcome, String::from_utf8(html).unwrap()))
    }
}

fn plan(run: &str, tasks: usize) -> Plan {
    let task = |index: usize| Task {
        id: format!("{index:04}").parse().unwrap(),
        host: None,
        repeat: 1,
    };
    Plan {
        version: plan::VERSION,
        run: run.parse().unwrap(),
        created: "2026-11-30T12:00:00Z".to_owned(),
        scenario: PlannedScenario {
            name: "swap <b>devices</b>".to_owned(),
            sha256: HASH.to_owned(),
        },
        changes: vec!["size=1GiB".to_owned()],
        quick: false,
        binary: Binary {
            sha256: HASH.to_owned(),
            bytes: 1,
            version: "0.1.0".to_owned(),
        },
        engine: Engine::Slurm {
            partition: "all".to_owned(),
            time_limit_minutes: 10,
        },
        at_most: 8,
        stop_after: None,
        retries: 1,
        privileges: Vec::new(),
        tasks: (0..tasks).map(task).collect(),
    }
}

fn table(path: &Path, columns: &'static [Column]) -> Writer<File> {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    Writer::new(File::create(path).unwrap(), columns).unwrap()
}

/// A row with the values of these names; the others are absent or nothing.
fn row(columns: &[Column], values: &[(&str, Value)]) -> Vec<Value> {
    use plimsoll_model::recording::table::Kind;
    let value = |column: &Column| match values.iter().find(|(name, _)| *name == column.name) {
        Some((_, value)) => value.clone(),
        None if column.optional => Value::Absent,
        None => match column.kind {
            Kind::Text => text(""),
            Kind::Integer => Value::Integer(0),
            Kind::Number => Value::Number(0.0),
            Kind::Flag => Value::Flag(false),
        },
    };
    for (name, _) in values {
        assert!(
            columns.iter().any(|column| column.name == *name),
            "no column {name}"
        );
    }
    columns.iter().map(value).collect()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn task_row(run: &str, task: &str, host: &MadeHost) -> Vec<Value> {
    let settings = BTreeMap::from([("/proc/sys/vm/swappiness", host.swappiness)]);
    let swap = json!([{ "kind": "zram", "bytes": 1 << 30, "algorithm": host.algorithm }]);
    let attempts = json!([{ "number": 1, "host": host.name, "outcome": host.state, "exit": 3 }]);
    let mut values = vec![
        ("run", text(run)),
        ("task", text(task)),
        ("state", text(host.state)),
        ("attempts", Value::Integer(1)),
        ("attempt_list", Value::Text(attempts.to_string())),
        ("host", text(&host.name)),
    ];
    if host.state == "done" {
        values.extend([
            ("started", text("2026-11-30T12:00:00Z")),
            ("ended", text("2026-11-30T12:10:00Z")),
            ("engine_restarts", Value::Integer(1)),
            ("binary_sha256", text(HASH)),
            ("class", text(&host.class)),
            ("kernel", text(host.kernel)),
            ("swap", Value::Text(swap.to_string())),
            ("settings", Value::Text(json!(settings).to_string())),
        ]);
    } else {
        values.push(("reason", text("the worker <b>was killed</b>")));
        values.push(("engine_state", text("NODE_FAIL")));
    }
    row(columns::TASKS, &values)
}

fn write_task(folder: &Path, host: &MadeHost) {
    let mut trials = table(&folder.join("trials.parquet"), columns::TRIALS);
    let mut metrics = table(&folder.join("metrics.parquet"), columns::METRICS);
    for (index, seconds) in host.restore.iter().enumerate() {
        let trial = format!("{GROUP}#{}", index + 1);
        let shared = [
            ("trial", text(&trial)),
            ("workload", text("compression")),
            ("subject", text("zram:lz4")),
            ("params", text("{}")),
            ("repeat", Value::Integer(index as i64 + 1)),
            ("status", text(host.status)),
        ];
        trials.write(row(columns::TRIALS, &shared)).unwrap();
        let mut metric = |values: Vec<(&str, Value)>| {
            let all = [&shared[..], &values].concat();
            metrics.write(row(columns::METRICS, &all)).unwrap();
        };
        let trusted = Value::Flag(host.status == "ok");
        metric(vec![
            ("phase", text("restore")),
            ("metric", text("seconds")),
            ("unit", text("seconds")),
            ("value", Value::Number(*seconds)),
            ("trusted", trusted.clone()),
        ]);
        metric(vec![
            ("metric", text("compression_ratio")),
            ("unit", text("ratio")),
            ("better", text("more")),
            ("headline", Value::Flag(true)),
            ("value", Value::Number(2.5)),
            ("trusted", trusted.clone()),
        ]);
        metric(vec![
            ("metric", text("stored_bytes")),
            ("unit", text("bytes")),
            ("value", Value::Number(1e9 + index as f64)),
            ("trusted", trusted),
        ]);
    }
    trials.close(&[]).unwrap();
    metrics.close(&[]).unwrap();
}
