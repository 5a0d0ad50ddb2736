//! `plimsoll run` on the real kernel: its recordings, its ends, and that it leaves nothing behind.

mod background;
pub(crate) mod bad_luck;
mod beside_swap;
mod callers;
mod contention_pager;
mod devices;
mod hostile_kills;
mod interruptions;
mod loadline_points;
mod neighbour;
mod page_cache;
pub(crate) mod pager;
mod pager_options;
mod recommendations;
mod refusals;
mod requirements;
mod size;
mod stores;
mod thrash_guard;
mod thrash_pagers;
mod tour;
mod watched;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll_model::for_each_workload;
use plimsoll_testkit::capability;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A module of tests for each workload.
macro_rules! workloads {
    ($($(#[$doc:meta])* $workload:ident($settings:ident) $module:ident $name:literal;)*) => {
        $(mod $module;)*
    };
}

for_each_workload!(workloads);

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// Small enough for a minute of tests, large enough for a phase to be seen.
const SIZE: &str = "size=32M";

/// Whether experiments with zram in a memory cgroup can run here.
fn has_laboratory() -> bool {
    let root = rustix::process::geteuid().is_root();
    let zram = Path::new("/sys/class/zram-control").exists();
    capability("cgroup", root, "needs root")
        && capability("zram", root && zram, "needs root and the zram module")
}

/// A run of a test: a folder for its recordings, and its arguments.
struct Run {
    folder: TempDir,
    arguments: Vec<String>,
}

/// Cleans up until nothing of a killed run is left: the run of another test may hold the machine meanwhile, for as long
/// as a test waits for the machine.
fn undo_killed(name: &str) {
    let journals: &Path = "/var/lib/plimsoll/runs".as_ref();
    let deadline = Instant::now() + crate::machine::WAIT;
    loop {
        let cleanup = plimsoll_testkit::command(PLIMSOLL)
            .args(["cleanup", "--json"])
            .output()
            .expect("plimsoll starts");
        let said = String::from_utf8_lossy(&cleanup.stderr);
        assert!(cleanup.status.code().is_some_and(|code| code <= 7), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        if find(journals, name, 1).is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "cleanup never undid {name}: {said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How a run ended.
struct Ended {
    /// Exit code; -1 after a signal.
    code: i32,
    stderr: String,
    /// The JSON document on standard output; null where there was none.
    results: Value,
}

impl Run {
    /// `plimsoll run compression --json --wait` with 32 MiB, one repeat and `arguments`.
    fn new(arguments: &[&str]) -> Run {
        Run::of(
            "compression",
            &[&["--set", SIZE, "--set", "hold=0.1", "--repeat", "1"], arguments].concat(),
        )
    }

    fn of(scenario: &str, arguments: &[&str]) -> Run {
        let mut all: Vec<String> = ["run", scenario, "--json", "--wait"].map(str::to_owned).to_vec();
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        Run {
            folder: tempfile::tempdir().expect("a folder"),
            arguments: all,
        }
    }

    fn command(&self) -> Command {
        self.command_of(Path::new(PLIMSOLL))
    }

    /// The command with another file of the program.
    fn command_of(&self, program: &Path) -> Command {
        let mut command = plimsoll_testkit::command(program);
        command
            .env("XDG_CACHE_HOME", crate::heap::cache())
            .args(&self.arguments)
            .arg("--output")
            .arg(self.folder.path());
        command
    }

    /// Runs to the end, and checks that nothing is left behind.
    fn finish(&self) -> Ended {
        let ended = Ended::of(self.command().output().expect("plimsoll starts"));
        self.assert_nothing_left();
        ended
    }

    fn start(&self) -> Started<'_> {
        self.start_by(self.command())
    }

    fn start_by(&self, mut command: Command) -> Started<'_> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("plimsoll starts");
        Started {
            run: self,
            child: Some(child),
        }
    }

    /// The folder of the recording, once there is one.
    fn recording(&self) -> Option<PathBuf> {
        let mut entries = std::fs::read_dir(self.folder.path())
            .expect("the folder")
            .filter_map(Result::ok);
        entries.next().map(|entry| entry.path())
    }

    fn name(&self) -> Option<String> {
        Some(self.recording()?.file_name()?.to_str()?.to_owned())
    }

    /// No journal and no cgroup of this run. (Devices carry no name of their run; journals list them.)
    fn assert_nothing_left(&self) {
        let Some(name) = self.name() else { return };
        let journals = Path::new("/var/lib/plimsoll/runs");
        for folder in [journals, Path::new("/sys/fs/cgroup")] {
            let left = find(folder, &name, 6);
            assert!(left.is_empty(), "{name} left behind: {left:?}");
        }
    }
}

/// Paths below `folder` whose file name contains `name`.
fn find(folder: &Path, name: &str, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().contains(name) {
            found.push(path);
        } else if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(find(&path, name, depth - 1));
        }
    }
    found
}

/// Sends a signal to a process that lives.
fn send(pid: u32, signal: Signal) {
    let process = Pid::from_raw(pid as i32).expect("a process id");
    kill_process(process, signal).expect("it lives");
}

/// Whether a process has ended, or does within a minute. A zombie has: its new parent may wait late.
fn ends_soon(pid: u32) -> bool {
    let ended = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with('Z'))
    };
    (0..1200).any(|_| {
        let ended = ended();
        if !ended {
            std::thread::sleep(Duration::from_millis(50));
        }
        ended
    })
}

/// A run that goes on.
struct Started<'a> {
    run: &'a Run,
    child: Option<Child>,
}

impl Started<'_> {
    fn pid(&self) -> u32 {
        self.child.as_ref().expect("not ended").id()
    }

    fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// The process ids of the run's workers, as they were started: the wake-up probe comes first.
    fn children(&self) -> Vec<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.pid());
        let text = std::fs::read_to_string(children).expect("the run lives");
        let pids = text.split_whitespace();
        pids.map(|pid| pid.parse().expect("a number")).collect()
    }

    /// The process id of the trial's worker: the latest that was started.
    fn worker(&self) -> u32 {
        *self.children().last().expect("a worker")
    }

    /// Stops the trial's worker (SIGSTOP) and returns it: it answers nothing until [`Started::resume`].
    fn stop_worker(&self) -> u32 {
        let worker = self.worker();
        send(worker, Signal::STOP);
        worker
    }

    /// Lets a stopped worker go on.
    fn resume(&self, worker: u32) {
        send(worker, Signal::CONT);
    }

    /// Waits until an event of the recording is `kind` of `phase` ("" for events without one).
    fn await_event(&mut self, kind: &str, phase: &str) {
        // Long, as the run may wait for those of other tests.
        let deadline = Instant::now() + Duration::from_secs(600);
        while Instant::now() < deadline {
            let events = self.run.recording().map(|folder| folder.join("events.jsonl"));
            let text = events
                .and_then(|path| std::fs::read_to_string(path).ok())
                .unwrap_or_default();
            let seen = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .any(|event| event["kind"] == kind && event["phase"].as_str().unwrap_or_default() == phase);
            if seen {
                return;
            }
            let child = self.child.as_mut().expect("not ended");
            if child.try_wait().expect("a child").is_some() {
                let output = self
                    .child
                    .take()
                    .expect("a child")
                    .wait_with_output()
                    .expect("output");
                panic!(
                    "ended before {kind} {phase}: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("no {kind} {phase} within ten minutes");
    }

    fn wait(mut self) -> Ended {
        Ended::of(
            self.child
                .take()
                .expect("not ended")
                .wait_with_output()
                .expect("output"),
        )
    }

    /// Waits for the end, and checks that nothing is left behind.
    fn finish(self) -> Ended {
        let run = self.run;
        let ended = self.wait();
        run.assert_nothing_left();
        ended
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Ended {
    fn of(output: Output) -> Ended {
        Ended {
            code: output.status.code().unwrap_or(-1),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            results: serde_json::from_slice(&output.stdout).unwrap_or(Value::Null),
        }
    }

    fn trials(&self) -> &[Value] {
        self.results["trials"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The trials of a section.
    fn of_section(&self, section: &str) -> Vec<&Value> {
        let is_of = |trial: &&Value| {
            let id = trial["id"].as_str().and_then(|id| id.split('/').next());
            id == Some(section)
        };
        self.trials().iter().filter(is_of).collect()
    }

    /// The run succeeded. Exit code 7 counts as success: on a busy machine, values may be untrustworthy.
    fn assert_went_well(&self) {
        assert!([0, 7].contains(&self.code), "exit {}: {}", self.code, self.stderr);
        for trial in self.trials() {
            assert_ne!(trial["status"], "failed", "{trial:#}");
            assert_eq!(trial["verified"], true, "{trial:#}");
        }
    }

    /// The run ended with this exit code, and each of its trials failed for this reason.
    fn assert_failed(&self, exit: i32, code: &str) {
        assert_eq!(self.code, exit, "{}\n{:#}", self.stderr, self.results);
        assert!(!self.trials().is_empty(), "{}\n{:#}", self.stderr, self.results);
        for trial in self.trials() {
            assert_eq!(trial["status"], "failed", "{trial:#}");
            assert!(failure_codes(trial).contains(&code), "{code}: {trial:#}");
        }
    }

    /// The run was stopped for `code` and says so with `name`; a trial that this ended has no other reason.
    fn assert_stopped(&self, exit: i32, code: &str, name: &str) {
        assert_eq!(self.code, exit, "{}\n{:#}", self.stderr, self.results);
        assert_eq!(self.results["status"], "interrupted", "{:#}", self.results);
        assert!(self.warning_codes().contains(&"stopped"), "{:#}", self.results);
        assert!(self.stderr.contains(name), "{name}: {}", self.stderr);
        let failed = self.trials().iter().filter(|trial| trial["status"] == "failed");
        for trial in failed {
            assert_eq!(failure_codes(trial), [code], "{trial:#}");
        }
    }

    /// The run was refused before it began, with an error that has these names of keys, options, files and values.
    fn assert_refused(&self, exit: i32, names: &[&str]) {
        assert_eq!(self.code, exit, "{}\n{:#}", self.stderr, self.results);
        assert!(self.results.is_null(), "{:#}", self.results);
        for name in names {
            assert!(self.stderr.contains(name), "`{name}` is not in: {}", self.stderr);
        }
    }

    fn warning_codes(&self) -> Vec<&str> {
        codes(&self.results["warnings"])
    }
}

/// The codes of a trial's failures, the one that ended it first.
fn failure_codes(trial: &Value) -> Vec<&str> {
    codes(&trial["failures"])
}

/// The codes of a list of warnings or failures.
fn codes(list: &Value) -> Vec<&str> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|one| one["code"].as_str()).collect()
}

/// The phases of a trial that ran, in their order.
fn phases(trial: &Value) -> &[Value] {
    trial["phases"].as_array().expect("phases")
}

fn phase<'t>(trial: &'t Value, name: &str) -> &'t Value {
    let found = phases(trial).iter().find(|phase| phase["name"] == name);
    found.unwrap_or_else(|| panic!("no phase {name}: {trial:#}"))
}

/// The names of the phases that ran, in their order.
fn phase_names(trial: &Value) -> Vec<&str> {
    let names = phases(trial).iter().map(|phase| phase["name"].as_str());
    names.map(|name| name.expect("a name")).collect()
}

/// A value that a phase must have.
fn phase_value(phase: &Value, name: &str) -> f64 {
    let value = phase["values"][name].as_f64();
    value.unwrap_or_else(|| panic!("no {name}: {phase:#}"))
}

/// Whether no confounder spoils a metric of a trial.
fn is_trusted(trial: &Value, name: &str) -> bool {
    trial["untrustworthy"][name].is_null()
}

/// A metric that a trial must have.
fn metric(trial: &Value, name: &str) -> f64 {
    let metric = trial["metrics"][name].as_f64();
    metric.unwrap_or_else(|| panic!("no {name}: {trial:#}"))
}
