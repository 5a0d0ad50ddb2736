//! Fleets on Slurm: its daemons on three hosts in network namespaces, which share the memory and the machine lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use plimsoll_fleet::accounting::{Accounting, Source};
use plimsoll_fleet::plan::Plan;
use plimsoll_fleet::slurm;
use plimsoll_fleet::task::{Attempt, AttemptOutcome, ResultStatus, TaskResult};
use plimsoll_fleet::{Cancelled, Submitted};
use plimsoll_testkit::{again, capability, command, role, write_script};

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fleet/slurm.sh");
/// Role of the test's second process, beside the controller of the cluster.
const INSIDE: &str = "inside";
/// On a busy machine; other tests may hold it first.
const LONGEST: Duration = Duration::from_secs(1800);
const SCENARIO: &str = "[scenario]\nname = \"on-slurm\"\n[global]\nworkload = \"compression\"\nsize = \"16M\"\nhold = 3\nrepeat = 1\n\
                        class = \"ratio=3\"\nsubject = \"zram\"\n";
/// Fails task 1 at its first start, and task 2 always.
const FAILING: &str = "#!/bin/sh
while [ \"$1\" != --task ]; do shift; done
case $2-${SLURM_RESTART_COUNT:-0} in
*1-0 | *2-*) exit 2 ;;
esac
mkdir \"tasks/$2\"
";
/// Fails task 1 when task 2 has started, so that no place is left for the other tasks. Task 2 is done some time after that
/// failure. Every wait ends: the task then exits with 3.
const STOPPING: &str = "#!/bin/sh
while [ \"$1\" != --task ]; do shift; done
: >\"tasks/$2.started\"
n=0
later() {
    n=$((n + 1))
    [ $n -lt 1200 ] || exit 3
    sleep 0.1
}
case $2 in
*1)
    until [ -e tasks/*2.started ]; do later; done
    exit 2
    ;;
*2)
    until [ -e logs/failed-*/*1 ]; do later; done
    # Until the waiting tasks are cancelled.
    sleep 5
    ;;
esac
mkdir \"tasks/$2\"
";
/// Ends well after SIGTERM only.
const SLEEPER: &str = "#!/bin/sh
while [ \"$1\" != --task ]; do shift; done
trap 'sleep 1; : >tasks/$2; exit 5' TERM
: >\"tasks/$2.started\"
sleep 300 &
wait
";

fn is_possible() -> bool {
    let tools = ["slurmctld", "slurmd", "munged", "sbatch"];
    let is_there = |tool: &&str| {
        let folders = ["/usr/bin", "/usr/sbin"];
        folders.iter().any(|folder| Path::new(folder).join(tool).exists())
    };
    let missing = tools
        .iter()
        .filter(|tool| !is_there(tool))
        .copied()
        .collect::<Vec<_>>();
    capability(
        "root",
        rustix::process::geteuid().is_root(),
        "the test is not root",
    ) && capability("slurm", missing.is_empty(), &format!("no {}", missing.join(", ")))
}

/// Runs this test again beside the controller of a new cluster.
fn in_a_cluster(test: &str) {
    let inside = again(test, INSIDE);
    let mut cluster = command(CLUSTER);
    cluster.arg(inside.get_program()).args(inside.get_args());
    let changed = inside.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let status = cluster.envs(changed).status().expect("bash starts");
    // Of a test that failed in its middle.
    let cleaned = command(PLIMSOLL)
        .arg("cleanup")
        .output()
        .expect("plimsoll starts");
    assert!(status.success(), "{status}; cleanup: {}", text(&cleaned));
}

fn text(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// A folder of `fleet plan`, submitted by `fleet submit`.
struct Fleet {
    folder: PathBuf,
    plan: Plan,
    submitted: Submitted,
}

impl Fleet {
    fn submit(name: &str, options: &[&str]) -> Fleet {
        let cluster = PathBuf::from(std::env::var_os("CLUSTER").expect("the folder of the cluster"));
        let scenario = cluster.join("small.toml");
        std::fs::write(&scenario, SCENARIO).expect("a scenario");
        let folder = cluster.join(name);
        let mut planning = command(PLIMSOLL);
        planning
            .args(["fleet", "plan"])
            .arg(scenario)
            .arg("--folder")
            .arg(&folder);
        let planned = planning.args(["--slurm", "fleet"]).args(options).output();
        let planned = planned.expect("plimsoll starts");
        assert!(planned.status.success(), "{}", text(&planned));
        let output = command(PLIMSOLL).args(["fleet", "submit"]).arg(&folder).output();
        let output = output.expect("plimsoll starts");
        assert!(output.status.success(), "{}", text(&output));
        Fleet {
            plan: Plan::read(&folder).expect("a plan"),
            submitted: Submitted::read(&folder).expect("a file").expect("a job"),
            folder,
        }
    }

    fn task(&self, index: usize) -> &str {
        self.plan.tasks[index].id.as_str()
    }

    /// The last attempt of a task that has begun its recording, whose process lives.
    fn recording(&self) -> Option<Attempt> {
        self.plan.tasks.iter().find_map(|task| {
            let attempt = self.attempts(task.id.as_str()).pop()?;
            let folder = format!("tasks/{}.attempts/{}", task.id, attempt.number);
            let mut entries = std::fs::read_dir(self.folder.join(folder)).ok()?;
            let has_recording =
                entries.any(|entry| entry.is_ok_and(|entry| entry.path().join("manifest.json").exists()));
            (has_recording && attempt.outcome == AttemptOutcome::Running).then_some(attempt)
        })
    }

    fn attempts(&self, task: &str) -> Vec<Attempt> {
        let folder = self.folder.join(format!("tasks/{task}.attempts"));
        let numbers = (1..).take_while(|number| folder.join(number.to_string()).exists());
        let read = |number: u32| {
            let text = std::fs::read(folder.join(number.to_string()).join("attempt.json")).ok()?;
            serde_json::from_slice(&text).ok()
        };
        numbers.filter_map(read).collect()
    }

    fn result(&self, task: &str) -> TaskResult {
        let path = self.folder.join("tasks").join(task).join("result.json");
        let text = std::fs::read(&path)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", path.display(), self.logs()));
        serde_json::from_slice(&text).expect("a result")
    }

    fn logs(&self) -> String {
        let logs = std::fs::read_dir(self.folder.join("logs")).expect("a folder");
        let logs = logs
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.is_file());
        logs.map(|path| std::fs::read_to_string(path).unwrap_or_default())
            .collect()
    }

    fn accounting(&self) -> BTreeMap<String, Accounting> {
        let accounts = slurm::accounting(&self.plan, &self.submitted).expect("Slurm's accounts");
        let accounts = accounts.into_iter();
        accounts
            .map(|account| (account.task.to_string(), account))
            .collect()
    }

    /// The tasks in the document of `fleet collect`, by id.
    fn collect(&self) -> BTreeMap<String, serde_json::Value> {
        let collect = command(PLIMSOLL)
            .args(["fleet", "collect", "--json"])
            .arg(&self.folder)
            .output();
        let output = collect.expect("plimsoll starts");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
        assert_eq!(document["engine_error"], serde_json::Value::Null);
        let tasks = document["tasks"].as_array().expect("tasks").iter();
        tasks
            .map(|task| (task["id"].as_str().expect("an id").to_owned(), task.clone()))
            .collect()
    }

    fn has_ended(&self) -> bool {
        let queue = command("squeue")
            .args(["--noheader", "--jobs", &self.submitted.job])
            .output()
            .expect("squeue starts");
        queue.status.success() && queue.stdout.is_empty()
    }
}

/// Polls `value` until it is there.
fn wait_for<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONGEST;
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(Instant::now() < end, "no {what} in {LONGEST:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn all_results_arrive_although_a_host_dies() {
    if role().as_deref() == Some(INSIDE) {
        lose_a_host();
        // The hosts that are left.
        fail_tasks();
        stop_after_a_failure();
        cancel_tasks();
    } else if is_possible() {
        in_a_cluster("fleet::slurm::all_results_arrive_although_a_host_dies");
    }
}

fn lose_a_host() {
    let fleet = Fleet::submit("real", &["--tasks", "6", "--at-most", "3", "--retries", "1"]);
    let lost = wait_for("attempt", || fleet.recording());
    let killed = command(CLUSTER).args(["kill", &lost.host]).status();
    assert!(killed.expect("bash starts").success(), "{}", lost.host);
    // A real host would have lost its swap and cgroups. If another task has taken the machine, this fails, and a later
    // task undoes them.
    command(PLIMSOLL)
        .arg("cleanup")
        .output()
        .expect("plimsoll starts");
    wait_for("end of the job", || fleet.has_ended().then_some(()));

    let mut restarted = Vec::new();
    let accounts = fleet.accounting();
    for task in &fleet.plan.tasks {
        let task = task.id.as_str();
        let result = fleet.result(task);
        assert_eq!(result.status, ResultStatus::Done, "{task}: {}", fleet.logs());
        assert!(result.recording, "{task}");
        let attempts = fleet.attempts(task);
        let last = attempts.last().expect("an attempt");
        assert_eq!(
            (last.number, last.outcome),
            (result.attempt, AttemptOutcome::Done)
        );
        let account = &accounts[task];
        assert_eq!(
            (account.source, account.state.as_str()),
            (Source::Scontrol, "COMPLETED")
        );
        assert_eq!(account.hosts, [last.host.as_str()]);
        assert_eq!(result.engine_restarts.unwrap_or(0), account.restarts);
        if account.restarts > 0 {
            restarted.push(task.to_owned());
        }
    }
    // All tasks of the host: it has one at a time.
    assert_eq!(restarted, [lost.task.to_string()]);
    let attempts = fleet.attempts(&restarted[0]);
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0].host, lost.host);
    assert_ne!(attempts[1].host, lost.host);
    let collected = fleet.collect();
    for (task, account) in &accounts {
        assert_eq!(collected[task]["state"], "done", "{task}");
        assert_eq!(collected[task]["engine"]["restarts"], account.restarts, "{task}");
    }
    // Slurm forgets the job; the fleet's folder does not.
    let kept = plimsoll_fleet::accounting::read(&fleet.folder).expect("a file");
    assert_eq!(
        kept.into_values().collect::<Vec<_>>(),
        accounts.into_values().collect::<Vec<_>>()
    );
    assert!(matches!(
        attempts[0].outcome,
        AttemptOutcome::Running | AttemptOutcome::Dead
    ));
    let cleanup = command(PLIMSOLL).args(["cleanup", "--json"]).output();
    let report: serde_json::Value =
        serde_json::from_slice(&cleanup.expect("plimsoll starts").stdout).expect("a document");
    let runs = report["runs"].as_array().expect("runs");
    // Other tests may run meanwhile.
    let is_ours = |run: &&serde_json::Value| {
        run["run"]
            .as_str()
            .is_some_and(|name| name.starts_with("on-slurm"))
    };
    assert_eq!(runs.iter().find(is_ours), None, "a task left changes");
}

/// A failed task starts again up to its retries.
fn fail_tasks() {
    let stub = PathBuf::from(std::env::var_os("CLUSTER").expect("a folder")).join("failing.sh");
    write_script(&stub, FAILING);
    let stub = stub.to_str().expect("text");
    let options = ["--tasks", "2", "--at-most", "2", "--retries", "1"];
    let fleet = Fleet::submit("failing", &[&options[..], &["--binary", stub]].concat());
    wait_for("end of the job", || fleet.has_ended().then_some(()));
    let accounts = fleet.accounting();
    let first = &accounts[fleet.task(0)];
    assert_eq!((first.state.as_str(), first.restarts), ("COMPLETED", 1));
    let second = &accounts[fleet.task(1)];
    assert_eq!((second.state.as_str(), second.restarts), ("FAILED", 1));
    // The stub writes no documents: the engine alone knows its starts.
    let collected = fleet.collect();
    let second = &collected[fleet.task(1)];
    assert_eq!(
        (&second["state"], &second["reason"]),
        (&"missing".into(), &"no attempt and no result in tasks/".into())
    );
    assert_eq!(
        (&second["engine"]["state"], &second["engine"]["restarts"]),
        (&"FAILED".into(), &1.into())
    );
}

/// The first failed task cancels the waiting ones, and the running one finishes. Tasks have no retries here: between two starts
/// of a task, Slurm would start the waiting ones.
fn stop_after_a_failure() {
    let stub = PathBuf::from(std::env::var_os("CLUSTER").expect("a folder")).join("stopping.sh");
    write_script(&stub, STOPPING);
    let stub = stub.to_str().expect("text");
    let options = [
        "--tasks",
        "4",
        "--at-most",
        "2",
        "--retries",
        "0",
        "--stop-after",
        "1",
    ];
    let fleet = Fleet::submit("stopping", &[&options[..], &["--binary", stub]].concat());
    wait_for("end of the job", || fleet.has_ended().then_some(()));
    let accounts = fleet.accounting();
    let state = |index: usize| {
        let account = accounts.get(fleet.task(index));
        account.map_or("unknown", |account| account.state.as_str())
    };
    let states: Vec<&str> = (0..4).map(state).collect();
    assert_eq!(
        states[..2],
        ["FAILED", "COMPLETED"],
        "{states:?}: {}",
        fleet.logs()
    );
    assert!(fleet.folder.join("tasks").join(fleet.task(1)).exists());
    assert!(states[2..].contains(&"CANCELLED"), "{states:?}: {}", fleet.logs());
    for index in 2..4 {
        let started = format!("{}.started", fleet.task(index));
        let has_started = fleet.folder.join("tasks").join(started).exists();
        assert!(!has_started, "{index}: {states:?}: {}", fleet.logs());
    }
}

/// Waiting tasks never start, and running tasks undo their changes before `fleet cancel` returns.
fn cancel_tasks() {
    let stub = PathBuf::from(std::env::var_os("CLUSTER").expect("a folder")).join("sleeper.sh");
    write_script(&stub, SLEEPER);
    let stub = stub.to_str().expect("text");
    let fleet = Fleet::submit("cancelled", &["--tasks", "3", "--at-most", "1", "--binary", stub]);
    let tasks = fleet.folder.join("tasks");
    wait_for("task", || {
        tasks
            .join(format!("{}.started", fleet.task(0)))
            .exists()
            .then_some(())
    });
    let cancelled: Cancelled = slurm::cancel(&fleet.plan, &fleet.folder, &fleet.submitted).expect("Slurm");
    assert_eq!(cancelled.stopped.len(), 3, "{cancelled:?}");
    assert_eq!(cancelled.left, Vec::<String>::new());
    assert!(
        tasks.join(fleet.task(0)).exists(),
        "no time to undo its changes: {}",
        fleet.logs()
    );
    assert!(!tasks.join(format!("{}.started", fleet.task(1))).exists());
    let accounts = fleet.accounting();
    for index in 0..3 {
        assert_eq!(accounts[fleet.task(index)].state, "CANCELLED", "{index}");
    }
}
