//! `plimsoll run --task`: real runs, killed at random moments, and started twice.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll_testkit::capability;
use serde_json::Value;
use tempfile::TempDir;

use crate::hostile::{Seed, rounds};

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
const ID: &str = "node-a.1";

/// The folder of tasks of a fleet, and its one task.
struct Fleet {
    _folder: TempDir,
    tasks: PathBuf,
    /// A state folder for its runs alone.
    state: Option<PathBuf>,
}

impl Fleet {
    fn new() -> Fleet {
        let folder = tempfile::tempdir().expect("a folder");
        Fleet {
            tasks: folder.path().join("tasks"),
            _folder: folder,
            state: None,
        }
    }

    /// A fleet whose runs have a lock of their own, for a test that has the machine.
    fn apart() -> Fleet {
        let fleet = Fleet::new();
        let state = fleet.tasks.with_file_name("state");
        Fleet {
            state: Some(state),
            ..fleet
        }
    }

    /// The task with these arguments of `run`.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = plimsoll_testkit::command(PLIMSOLL);
        command
            .arg("run")
            .args(arguments)
            .args(["--task", ID, "--output"])
            .arg(&self.tasks)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(state) = &self.state {
            command.env("PLIMSOLL_STATE_DIR", state);
        }
        command
    }

    /// A run of a second with zram in a cgroup.
    fn real(&self) -> Command {
        self.holding("hold=0.3")
    }

    /// The same with these rests between the phases.
    fn holding(&self, hold: &str) -> Command {
        self.command(&[
            "compression",
            "size=32M",
            "class=random",
            hold,
            "--repeat",
            "1",
            "--wait",
            "--json",
        ])
    }

    fn start(&self) -> Child {
        self.real().spawn().expect("plimsoll starts")
    }

    fn result(&self) -> Value {
        json(&self.tasks.join(ID).join("result.json"))
    }

    /// Outcome and exit code of each attempt.
    fn attempts(&self) -> Vec<(String, Option<u64>)> {
        let folder = self.tasks.join(format!("{ID}.attempts"));
        (1..=names(&folder).len())
            .map(|number| {
                let attempt = json(&folder.join(number.to_string()).join("attempt.json"));
                assert_eq!(attempt["number"], number);
                assert_eq!(attempt["task"], ID);
                let outcome = attempt["outcome"].as_str().expect("an outcome").to_owned();
                (outcome, attempt["exit"].as_u64())
            })
            .collect()
    }

    /// One whole result, attempts without parts, and nothing of the runs on this machine.
    fn assert_one_result(&self) {
        assert_eq!(names(&self.tasks), [ID.to_owned(), format!("{ID}.attempts")]);
        assert_eq!(
            names(&self.tasks.join(ID)),
            ["host.json", "recording", "result.json"]
        );
        let result = self.result();
        assert_eq!(result["status"], "done");
        let recording = self.tasks.join(ID).join("recording");
        assert_eq!(
            json(&recording.join("results.json"))["trials"]
                .as_array()
                .map(Vec::len),
            Some(1)
        );
        assert!(recording.join("report.html").is_file());
        let attempts = self.attempts();
        let done: Vec<_> = (1_u64..)
            .zip(&attempts)
            .filter(|(_, (outcome, _))| outcome == "done")
            .collect();
        assert_eq!(done.len(), 1, "{attempts:?}");
        assert_eq!(result["attempt"], done[0].0);
        for (number, (outcome, _)) in (1..).zip(&attempts) {
            assert!(outcome != "running", "{attempts:?}");
            let folder = self.tasks.join(format!("{ID}.attempts/{number}"));
            assert_eq!(names(&folder), ["attempt.json"]);
        }
        assert!(self.journals().is_empty(), "{:?}", self.journals());
    }

    /// The journals of its runs.
    fn journals(&self) -> Vec<PathBuf> {
        let state = self.state.as_deref().unwrap_or("/var/lib/plimsoll".as_ref());
        let entries = fs::read_dir(state.join("runs")).into_iter().flatten();
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let tasks = self.tasks.to_str().expect("text").to_owned();
        paths
            .filter(|path| fs::read_to_string(path).is_ok_and(|text| text.contains(&tasks)))
            .collect()
    }
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

fn code(output: &Output) -> i32 {
    let code = output.status.code();
    code.unwrap_or_else(|| panic!("a signal: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Starts a task, and returns it with the rest of its messages as soon as it waits for the machine.
fn start_waiting(mut command: Command) -> (Child, BufReader<ChildStderr>) {
    let mut child = command.spawn().expect("plimsoll starts");
    let mut messages = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("waiting for ") {
        let length = messages.read_line(&mut said).expect("text");
        assert!(length > 0, "it ended without a wait: {said}");
    }
    (child, messages)
}

/// Waits for the end of such a task.
fn end((child, mut messages): (Child, BufReader<ChildStderr>)) -> Output {
    let mut output = child.wait_with_output().expect("output");
    messages.read_to_end(&mut output.stderr).expect("its messages");
    output
}

/// The swap areas of the machine.
fn swap_areas() -> Vec<String> {
    let text = fs::read_to_string("/proc/swaps").expect("the swap areas");
    let areas = text.lines().skip(1);
    areas
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect()
}

fn has_laboratory() -> bool {
    let root = rustix::process::geteuid().is_root();
    let zram = Path::new("/sys/class/zram-control").exists();
    capability("cgroup", root, "needs root")
        && capability("zram", root && zram, "needs root and the zram module")
}

#[test]
fn a_task_killed_at_any_moment_and_started_again_gives_one_result() {
    if !has_laboratory() {
        return;
    }
    // The time of an undisturbed run, in which the kills are.
    let fleet = Fleet::new();
    let start = Instant::now();
    let output = fleet.start().wait_with_output().expect("output");
    assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
    fleet.assert_one_result();
    let whole = start.elapsed().min(Duration::from_secs(10));
    for number in rounds(2) {
        let fleet = Fleet::new();
        let mut seed = Seed::of(number);
        for _ in 0..3 {
            let mut child = fleet.start();
            let moment = seed.below(whole.as_millis() as usize);
            std::thread::sleep(Duration::from_millis(moment as u64));
            child.kill().expect("a child");
            child.wait().expect("a child");
        }
        let output = fleet.start().wait_with_output().expect("output");
        assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
        fleet.assert_one_result();
        let attempts = fleet.attempts();
        assert!(
            attempts
                .iter()
                .all(|(outcome, _)| outcome == "done" || outcome == "dead"),
            "{attempts:?}"
        );
    }
}

#[test]
fn a_task_started_twice_at_once_gives_one_result_and_is_skipped_then() {
    if !has_laboratory() {
        return;
    }
    let fleet = Fleet::new();
    let rivals = [fleet.start(), fleet.start()];
    for rival in rivals {
        let output = rival.wait_with_output().expect("output");
        assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
    }
    fleet.assert_one_result();
    let (result, attempts) = (fleet.result(), fleet.attempts());
    let output = fleet.real().output().expect("plimsoll starts");
    assert_eq!(code(&output), 0);
    let skipped: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(skipped, result, "it prints the result that is there");
    assert_eq!((fleet.result(), fleet.attempts()), (result, attempts));
    let host = json(&fleet.tasks.join(ID).join("host.json"));
    assert_eq!(host["version"], 1);
    assert!(
        host["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0),
        "{host}"
    );
}

/// The second start had looked for dead tasks while the first one lived. So it measured beside the zram device of the first,
/// and its result had that device as swap of the host.
#[test]
fn a_task_that_waits_for_one_that_is_killed_measures_a_clean_machine() {
    if !has_laboratory() {
        return;
    }
    let _machine = crate::machine::alone();
    let fleet = Fleet::apart();
    let before = swap_areas();
    let mut first = fleet.holding("hold=600").spawn().expect("plimsoll starts");
    let deadline = Instant::now() + Duration::from_secs(600);
    while swap_areas() == before {
        assert!(Instant::now() < deadline, "no swap within ten minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = start_waiting(fleet.real());
    first.kill().expect("a child");
    first.wait().expect("a child");
    assert_ne!(swap_areas(), before, "the first one could not turn it off");
    let output = end(second);
    assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
    fleet.assert_one_result();
    let attempts = fleet.attempts();
    let outcomes: Vec<&str> = attempts.iter().map(|(outcome, _)| outcome.as_str()).collect();
    assert_eq!(outcomes, ["dead", "done"]);
    let result = fleet.tasks.join(ID);
    let events = fs::read_to_string(result.join("recording/events.jsonl")).expect("events");
    assert!(!events.contains("killed-run"), "{events}");
    let host = json(&result.join("host.json"));
    assert_eq!(
        host["swap"].as_array().map(Vec::len),
        Some(before.len()),
        "{host}"
    );
    assert_eq!(swap_areas(), before);
}

/// The second start had looked for a result before its wait. So it measured in full, and its result was discarded.
#[test]
fn a_task_that_another_start_finishes_during_the_wait_is_skipped() {
    if !has_laboratory() {
        return;
    }
    let fleet = Fleet::new();
    let machine = crate::machine::alone();
    let starts = [start_waiting(fleet.real()), start_waiting(fleet.real())];
    drop(machine);
    let outputs = starts.map(end);
    for output in &outputs {
        assert_eq!(code(output), 0, "{}", String::from_utf8_lossy(&output.stderr));
    }
    fleet.assert_one_result();
    assert_eq!(fleet.attempts().len(), 1, "{:?}", fleet.attempts());
    let result = fleet.result();
    let printed = outputs
        .iter()
        .map(|output| serde_json::from_slice::<Value>(&output.stdout).expect("JSON"));
    assert_eq!(printed.filter(|printed| *printed == result).count(), 1);
}

#[test]
fn an_interrupted_task_has_failed_and_can_run_again() {
    if !has_laboratory() {
        return;
    }
    let fleet = Fleet::new();
    let child = fleet.start();
    let deadline = Instant::now() + Duration::from_secs(600);
    let events = || {
        let folder = fleet.tasks.join(format!("{ID}.attempts/1"));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| fs::read_to_string(entry.path().join("events.jsonl")).ok())
            .collect::<String>()
    };
    while !events().contains("trial-start") {
        assert!(Instant::now() < deadline, "no trial within ten minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it lives");
    let output = child.wait_with_output().expect("output");
    assert_eq!(code(&output), 5, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fleet.attempts(), [("failed".to_owned(), Some(5))]);
    let attempt = fleet.tasks.join(format!("{ID}.attempts/1"));
    assert_eq!(names(&attempt), ["attempt.json", "recording"]);
    assert!(!fleet.tasks.join(ID).exists());
    let output = fleet.real().output().expect("plimsoll starts");
    assert_eq!(code(&output), 0, "{}", String::from_utf8_lossy(&output.stderr));
    fleet.assert_one_result();
}

#[test]
fn a_run_that_cannot_start_is_a_failed_attempt_each_time() {
    let fleet = Fleet::new();
    for _ in 0..2 {
        let output = fleet
            .command(&["no-such-scenario"])
            .output()
            .expect("plimsoll starts");
        assert_eq!(code(&output), 1);
    }
    let failed = ("failed".to_owned(), Some(1));
    assert_eq!(fleet.attempts(), [failed.clone(), failed]);
    assert_eq!(names(&fleet.tasks), [format!("{ID}.attempts")]);
}

#[test]
fn a_task_excludes_options_without_a_result() {
    let fleet = Fleet::new();
    for option in [
        &["--check"][..],
        &["--dry-run"],
        &["--show"],
        &["--open"],
        &["--resume", "@latest"],
    ] {
        let output = fleet.command(option).output().expect("plimsoll starts");
        assert_eq!(code(&output), 1, "{option:?}");
    }
    let mut command = plimsoll_testkit::command(PLIMSOLL);
    let output = command
        .args(["run", "tour", "--task", "../x", "--output"])
        .arg(&fleet.tasks);
    assert_eq!(code(&output.output().expect("plimsoll starts")), 1);
    assert!(!fleet.tasks.exists());
}

#[test]
fn root_runs_no_task_in_a_folder_of_another_user() {
    use std::os::unix::fs::PermissionsExt;
    if !capability("root", rustix::process::geteuid().is_root(), "needs root") {
        return;
    }
    let fleet = Fleet::new();
    fs::create_dir(&fleet.tasks).expect("a folder");
    fs::set_permissions(&fleet.tasks, fs::Permissions::from_mode(0o777)).expect("a mode");
    let output = fleet
        .command(&["no-such-scenario"])
        .output()
        .expect("plimsoll starts");
    assert_eq!(code(&output), 3);
    assert!(names(&fleet.tasks).is_empty());
}
