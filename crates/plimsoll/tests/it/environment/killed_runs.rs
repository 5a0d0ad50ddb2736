//! A run that is killed with SIGKILL, and the cleanup after it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use plimsoll_lab::environment::{Cap, CapError, Environment, RunState, Session, cleanup_in};
use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy, MemoryCgroup, PROCESSES};
use serde_json::{Value, json};

use super::{MIB, NEVER, Traces, again, has_cgroup, has_zram, has_zswap, is_role, read, session, settings};

const ROLE: &str = "environment::killed_runs::hanging_role";
const CAPPING_ROLE: &str = "environment::killed_runs::capping_role";
/// Environment variable with the subject, or with the cgroup to cap.
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
    assert_eq!(plimsoll_testkit::next_line(&mut worker), "inside");
    let swap = &environment.swap_device().unwrap().path;
    let made = json!({"worker": worker.id(), "cgroup": cgroup.path(), "swap": swap});
    println!("\nready {made}");
    // Longer than any test: the end comes from outside.
    worker.wait().unwrap();
}

/// Lowers the cap of a cgroup, then sleeps until the test kills it.
#[test]
fn capping_role() {
    if !is_role(CAPPING_ROLE) {
        return;
    }
    let state = PathBuf::from(std::env::var(STATE).unwrap());
    let mut session = Session::open_in(&state, "killed", &[], None, &NEVER).unwrap();
    let folder = PathBuf::from(std::env::var(SUBJECT).unwrap());
    let mut cap = session.open_cap(&folder).unwrap();
    session.set_cap(&mut cap, 32 * MIB, || false).unwrap();
    println!("\nready {}", json!({}));
    // Longer than any test: the test kills this process.
    std::thread::sleep(std::time::Duration::from_secs(600));
}

/// Starts a role, and waits until it is ready. Returns its process, and the parts that it has printed.
fn start(role: &str, subject: &str, state: &Path) -> (Child, Value) {
    let mut child = again(role)
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
    let (mut child, made) = start(ROLE, subject, state.path());
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

/// A cgroup below the mount. Its drop removes the cgroup.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A `kill -9` ended `size`, and the restart of the service created a cgroup with the same path and the same cap. The
/// next run refused this cgroup as capped, and `cleanup` removed its cap and turned its OOM killer on.
#[test]
fn a_recreated_cgroup_is_not_the_capped_one() {
    if !has_cgroup() {
        return;
    }
    let hierarchy = Hierarchy::of_this_process().unwrap();
    let v1 = hierarchy.version == CgroupVersion::V1;
    let name = format!("plimsoll-made-again-{}", std::process::id());
    let group = Group(hierarchy.mount.join(name));
    let folder = group.0.as_path();
    fs::create_dir(folder).unwrap();
    let inode = fs::metadata(folder).unwrap().ino();
    let file = folder.join(Cap::file(hierarchy.version));
    let before = read(&file);
    let state = tempfile::tempdir().unwrap();
    let (mut child, _) = start(CAPPING_ROLE, folder.to_str().unwrap(), state.path());
    child.kill().unwrap();
    child.wait().unwrap();
    let lowered = read(&file);
    assert_ne!(lowered, before);
    let changes = outstanding(state.path());
    assert_eq!(changes.len(), if v1 { 2 } else { 1 }, "{changes:#?}");
    for change in &changes {
        assert_eq!(change["inode"], inode, "{changes:#?}");
    }
    let session = Session::open_in(state.path(), "next", &[], None, &NEVER).unwrap();
    let refused = session.open_cap(folder);
    assert!(matches!(refused, Err(CapError::KilledRun { .. })), "{refused:?}");
    drop(refused);

    fs::remove_dir(folder).unwrap();
    fs::create_dir(folder).unwrap();
    let second = MemoryCgroup::new(folder, hierarchy.version);
    fs::write(&file, &lowered).unwrap();
    if v1 {
        second.let_oom_kill(false).unwrap();
    }
    session.open_cap(folder).unwrap();
    let _ = session.finish().unwrap();
    let report = cleanup_in(state.path(), None).unwrap();
    assert_eq!(report.runs[0].state, RunState::Undone, "{report:?}");
    assert_eq!(report.runs[0].left_alone.len(), changes.len(), "{report:?}");
    assert_eq!(read(&file), lowered);
    assert!(!v1 || second.oom_control().unwrap().kill_disabled);
}
