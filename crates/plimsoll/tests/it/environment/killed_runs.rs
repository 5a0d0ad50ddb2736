//! A run that is killed with SIGKILL, and the cleanup after it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use plimsoll_lab::environment::{Environment, RunState, Session, cleanup_in};
use plimsoll_proc::cgroup::PROCESSES;
use serde_json::{Value, json};

use super::{NEVER, Traces, again, has_zram, has_zswap, is_role, session, settings};

const ROLE: &str = "environment::killed_runs::hanging_role";
const SUBJECT: &str = "PLIMSOLL_TEST_SUBJECT";
const STATE: &str = "PLIMSOLL_TEST_STATE";

/// Prepares an environment, prints its parts and hangs until it is killed.
#[test]
fn hanging_role() {
    if !is_role(ROLE) {
        return;
    }
    let state = PathBuf::from(std::env::var(STATE).unwrap());
    let mut session = Session::open_in(&state, "killed", &[], None, &NEVER).unwrap();
    let mut asked = settings(&std::env::var(SUBJECT).unwrap());
    asked.page_cluster = Some(2);
    let environment = Environment::prepare(&mut session, &asked).unwrap();
    let cgroup = environment.cgroup().unwrap();
    let script = format!(
        "echo $$ > {} && echo inside && exec sleep 600 > /dev/null",
        cgroup.group().file(PROCESSES).display()
    );
    let mut worker = plimsoll_testkit::command("sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    session.process_started(worker.id()).unwrap();
    // Its cgroup is the proof that the run started it.
    let mut line = String::new();
    BufReader::new(worker.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let swap = &environment.swap_device().unwrap().path;
    let made = json!({"worker": worker.id(), "cgroup": cgroup.path(), "swap": swap});
    println!("\nready {made}");
    // Longer than any test: the end comes from outside.
    worker.wait().unwrap();
}

/// Starts the role and waits until everything is made. Returns its process, and the parts that it has printed.
fn start(subject: &str, state: &Path) -> (Child, Value) {
    let mut child = again(ROLE)
        .env(SUBJECT, subject)
        .env(STATE, state)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.find_map(|line| line.unwrap().strip_prefix("ready ").map(str::to_owned));
    let line = line.expect("the helper ended early; its message is above");
    (child, serde_json::from_str(&line).unwrap())
}

/// The changes in the journal of the role that are not undone.
fn outstanding(state: &Path) -> Vec<Value> {
    let text = fs::read_to_string(state.join("runs/killed.jsonl")).unwrap();
    let mut changes: Vec<Value> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(change) = line.get("change") {
            changes.push(change.clone());
        }
        if let Some(undone) = line.get("undone") {
            changes.retain(|change| change["number"] != undone["number"]);
        }
    }
    changes.iter().map(|change| change["change"].clone()).collect()
}

fn kill_and_clean_up(subject: &str) {
    // The machine is held by this test; the killed run has a state folder of its own.
    let session = session("test-killed");
    let state = tempfile::tempdir().unwrap();
    let before = Traces::now();
    let (mut child, made) = start(subject, state.path());
    let worker = made["worker"].as_u64().unwrap();
    let cgroup = PathBuf::from(made["cgroup"].as_str().unwrap());
    let alive = cleanup_in(state.path(), None).unwrap();
    assert_eq!(alive.runs[0].state, RunState::Live);
    let during = Traces::now();
    assert_ne!(during, before);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(Traces::now(), during, "a killed run cannot have undone anything");
    assert!(Path::new(&format!("/proc/{worker}")).exists() && cgroup.exists());

    let changes = outstanding(state.path());
    let report = cleanup_in(state.path(), None).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.runs[0].state, RunState::Undone);
    for (kind, field, value) in [
        ("process", "pid", made["worker"].clone()),
        ("swap-on", "path", made["swap"].clone()),
        ("cgroup", "path", made["cgroup"].clone()),
        ("value", "path", json!("/proc/sys/vm/page-cluster")),
    ] {
        let is_it = |change: &&Value| change["kind"] == kind && change[field] == value;
        assert_eq!(changes.iter().filter(is_it).count(), 1, "{kind}: {changes:#?}");
    }
    assert_eq!(report.runs[0].undone.len(), changes.len(), "{report:?}");
    assert_eq!(Traces::now(), before);
    assert!(!cgroup.exists());
    assert!(
        !Path::new(&format!("/proc/{worker}/exe")).exists(),
        "the worker still runs"
    );
    assert!(
        cleanup_in(state.path(), None).unwrap().runs.is_empty(),
        "nothing is left to clean up"
    );
    let _ = session.finish().unwrap();
}

#[test]
fn zram_of_a_killed_run_is_undone() {
    if has_zram() {
        kill_and_clean_up("zram");
    }
}

#[test]
fn zswap_and_swap_file_of_a_killed_run_are_undone() {
    if has_zswap() {
        kill_and_clean_up("zswap");
    }
}
