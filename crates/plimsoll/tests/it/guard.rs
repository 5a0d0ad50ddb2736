//! `plimsoll guard`: its lock, its scopes, its ends and its lines, without pressure.

mod pressure;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use plimsoll_proc::PidStat;
use plimsoll_proc::cgroup::{CgroupVersion, Hierarchy, PROCESSES};
use plimsoll_testkit::capability;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::kept::Kept;
use tempfile::TempDir;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");
/// Longest wait for a state of a process or for a line of a guard.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two looks of a wait.
const LOOK: Duration = Duration::from_millis(20);
/// The user of tests that need one without privileges.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn root_with_cgroup() -> bool {
    let found = Hierarchy::of_this_process();
    capability(
        "cgroup",
        is_root() && found.is_ok(),
        "needs root and a memory cgroup hierarchy",
    )
}

fn wait_until(what: &str, mut met: impl FnMut() -> bool) {
    let start = Instant::now();
    while !met() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(LOOK);
    }
}

fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process id");
    kill_process(pid, signal).expect("it lives");
}

/// Whether a signal has stopped a process; an ended one is not stopped.
fn is_stopped(pid: u32) -> bool {
    PidStat::read(pid, &mut Vec::new()).is_ok_and(|stat| stat.is_stopped())
}

fn sleeper() -> Kept {
    let child = plimsoll_testkit::command("sleep").arg("600").spawn();
    Kept(child.expect("sleep(1) starts"))
}

/// A cgroup of a test, without a limit of its own, removed when dropped.
struct Group(PathBuf);

impl Group {
    /// A cgroup below that of this test.
    fn new(name: &str) -> Group {
        let hierarchy = Hierarchy::of_this_process().expect("checked");
        Group::below(&hierarchy.own, name)
    }

    fn below(parent: &Path, name: &str) -> Group {
        let folder = parent.join(format!("guarded-{name}-{}", std::process::id()));
        fs::create_dir(&folder).expect("root can make a cgroup");
        Group(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of ASCII")
    }

    fn name(&self) -> &str {
        self.0.file_name().and_then(|name| name.to_str()).expect("ASCII")
    }

    fn take_in(&self, pid: u32) {
        fs::write(self.0.join(PROCESSES), pid.to_string()).expect("root moves it");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes may still be ending.
        let start = Instant::now();
        while self.0.exists() && fs::remove_dir(&self.0).is_err() && start.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
    }
}

/// A state folder of a test: guards with different ones do not exclude each other.
struct State(TempDir);

impl State {
    fn new() -> State {
        State(tempfile::tempdir().expect("a folder"))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = plimsoll_testkit::command(PLIMSOLL);
        command.args(words).env("PLIMSOLL_STATE_DIR", self.0.path());
        command
    }

    /// A guard that ends by itself.
    fn guard(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(&["guard"]);
        command.args(arguments).output().expect("plimsoll starts")
    }

    /// Journals, and files that a journal left behind.
    fn journals(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path().join("runs")).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

/// A guard that prints its decisions as JSON. When it is dropped it gets time to continue what it has stopped.
struct Guard {
    child: Child,
    lines: Receiver<Value>,
    seen: Vec<Value>,
}

/// What a guard left when it had ended.
struct Ended {
    code: Option<i32>,
    errors: String,
    lines: Vec<Value>,
}

impl Guard {
    /// Starts a guard and waits until it has begun.
    fn start(state: &State, arguments: &[&str]) -> Guard {
        let mut command = state.command(&["guard", "--json"]);
        command.args(arguments);
        Guard::of(command)
    }

    fn of(mut command: Command) -> Guard {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("plimsoll starts");
        let output = child.stdout.take().expect("its output");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut guard = Guard {
            child,
            lines,
            seen: Vec::new(),
        };
        guard.wait_for("its begin", |line| line["decision"] == "begun");
        guard
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line, and returns it.
    fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.wait_meanwhile(what, wanted, || ())
    }

    /// The same, with something to do until the line comes.
    fn wait_meanwhile(
        &mut self,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
        mut meanwhile: impl FnMut(),
    ) -> Value {
        let start = Instant::now();
        loop {
            meanwhile();
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if wanted(&line) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    assert!(start.elapsed() < PATIENCE, "no {what}: {:#?}", self.seen);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = self.finish();
                    panic!("it ended before {what}: {} {:#?}", ended.errors, ended.lines);
                }
            }
        }
    }

    fn end_by(mut self, signal: Signal) -> Ended {
        send(self.pid(), signal);
        self.finish()
    }

    /// Waits for the end.
    fn finish(&mut self) -> Ended {
        let start = Instant::now();
        let mut status = None;
        wait_until("the end of a guard", || {
            // A full pipe would stop it.
            self.seen.extend(self.lines.try_iter());
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        // The lines of a pipe that is read later than its writer ended.
        while let Ok(line) = self.lines.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
            self.seen.push(line);
        }
        let mut errors = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut errors).expect("text");
        }
        Ended {
            code: status.and_then(|status| status.code()),
            errors,
            lines: std::mem::take(&mut self.seen),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // SIGKILL would leave processes stopped.
        if matches!(self.child.try_wait(), Ok(None)) {
            send(self.pid(), Signal::TERM);
        }
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && start.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// It ended as asked, and its last line says so.
    fn assert_went_well(&self) {
        assert_eq!(self.code, Some(0), "{} {:#?}", self.errors, self.lines);
        assert!(self.errors.is_empty(), "{}", self.errors);
        let decisions: Vec<&Value> = self.lines.iter().map(|line| &line["decision"]).collect();
        assert_eq!(
            decisions.first(),
            Some(&&Value::from("begun")),
            "{:#?}",
            self.lines
        );
        assert_eq!(
            decisions.last(),
            Some(&&Value::from("ended")),
            "{:#?}",
            self.lines
        );
    }

    /// Lines about orders that name this process.
    fn naming(&self, pid: u32) -> Vec<&Value> {
        self.lines.iter().filter(|line| line["pid"] == pid).collect()
    }
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The lines of a guard with `--json`.
fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let documents = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    documents.collect()
}

#[test]
fn two_guards_are_refused_and_the_second_names_the_first() {
    let (state, sleeper) = (State::new(), sleeper());
    let pid = sleeper.pid().to_string();
    let first = Guard::start(&state, &["--pid", &pid]);
    assert_eq!(state.journals().len(), 1);
    let output = state.guard(&["--pid", &pid, "--duration", "60"]);
    assert_eq!(code(&output), Some(3), "{output:?}");
    let said = errors(&output);
    assert!(said.contains(&first.pid().to_string()), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
    // A cleanup does not touch a living guard.
    let output = state
        .command(&["cleanup", "--json"])
        .output()
        .expect("plimsoll starts");
    assert_eq!(code(&output), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(report["runs"][0]["state"], "live", "{report:#}");
    // A dry run changes nothing, and needs no right to.
    let output = state.guard(&["--pid", &pid, "--duration", "0.1", "--dry-run"]);
    assert_eq!(code(&output), Some(0), "{output:?}");
    assert_eq!(
        state.journals().len(),
        1,
        "the journal of the first is left alone"
    );
    first.end_by(Signal::TERM).assert_went_well();
    assert!(state.journals().is_empty(), "{:?}", state.journals());
    // The first is gone.
    let output = state.guard(&["--pid", &pid, "--duration", "0.1"]);
    assert_eq!(code(&output), Some(0), "{output:?}");
}

#[test]
fn each_signal_is_the_usual_end() {
    let (state, sleeper) = (State::new(), sleeper());
    let pid = sleeper.pid().to_string();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        Guard::start(&state, &["--pid", &pid])
            .end_by(signal)
            .assert_went_well();
        assert!(state.journals().is_empty(), "{signal:?}");
    }
}

#[test]
fn a_guard_ends_with_its_scope() {
    let state = State::new();
    let mut sleeper = sleeper();
    let pid = sleeper.pid().to_string();
    let mut guard = Guard::start(&state, &["--pid", &pid]);
    sleeper.kill();
    let ended = guard.finish();
    assert_eq!(ended.code, Some(2), "{}", ended.errors);
    assert!(ended.errors.contains(&pid), "{}", ended.errors);
    assert!(state.journals().is_empty());
    if !root_with_cgroup() {
        return;
    }
    let group = Group::new("removed");
    let mut guard = Guard::start(&state, &["--cgroup", group.path()]);
    fs::remove_dir(group.path()).expect("it is empty");
    let ended = guard.finish();
    assert_eq!(ended.code, Some(2), "{}", ended.errors);
    assert!(ended.errors.contains(group.name()), "{}", ended.errors);
    assert!(state.journals().is_empty());
}

#[test]
fn bad_scopes_are_refused() {
    let state = State::new();
    let own = std::process::id().to_string();
    let has_cgroups = Hierarchy::of_this_process().is_ok();
    for (arguments, remedies) in [
        (
            &["--cgroup", "/no/such/cgroup"][..],
            &["/no/such/cgroup", "plimsoll ps --cgroups"][..],
        ),
        (&["--pid", "4000000000"], &["4000000000", "plimsoll ps"]),
        (&["--pid", "0"], &["plimsoll ps"]),
        (&["--pid", "self"], &["--pid"]),
        (&["--cgroup", "/", "--pid", &own], &["--cgroup", "--pid"]),
        (&["--policy", "nonsense"], &["nonsense", "auto", "relay", "kill"]),
        (&["--duration", "0"], &["--duration"]),
        (&["--duration", "soon"], &["--duration"]),
    ] {
        if arguments.contains(&"/no/such/cgroup") && !has_cgroups {
            continue;
        }
        // A guard that were not refused would end by itself.
        let limited = [arguments, &["--dry-run"]].concat();
        let output = state.guard(&limited);
        let said = errors(&output);
        assert_eq!(code(&output), Some(1), "{arguments:?}: {said}");
        for remedy in remedies {
            assert!(said.contains(remedy), "{arguments:?} without `{remedy}`: {said}");
        }
        assert!(output.stdout.is_empty(), "{arguments:?}: {output:?}");
    }
    assert_eq!(fs::read_dir(state.0.path()).expect("the folder").count(), 0);
}

/// A tree of processes may be a part of a cgroup, and cgroup v1 has neither file. On cgroup v2, the VM has the throttle.
#[test]
fn a_throttle_takes_cgroup_v2_and_no_tree() {
    let (state, sleeper) = (State::new(), sleeper());
    let pid = sleeper.pid().to_string();
    let is_v2 = Hierarchy::of_this_process().is_ok_and(|found| found.version == CgroupVersion::V2);
    let of_machine: &[&str] = &[];
    let of_tree: &[&str] = &["--pid", &pid];
    for (scope, exit, remedies) in [
        (of_tree, 1, &["throttle", "--cgroup"]),
        (of_machine, 3, &["throttle", "cgroup v2"]),
    ] {
        if scope.is_empty() && is_v2 {
            continue;
        }
        let output = state.guard(&[scope, &["--policy", "throttle", "--dry-run"]].concat());
        let said = errors(&output);
        assert_eq!(code(&output), Some(exit), "{said}");
        for remedy in remedies {
            assert!(said.contains(remedy), "without `{remedy}`: {said}");
        }
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

/// The machine is the scope, of which such a guard may stop the processes of its own user.
#[test]
fn without_root_a_guard_works_on_own_processes() {
    if !capability("setpriv", is_root(), "needs root to become another user") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
    let program = path.join("plimsoll");
    plimsoll_testkit::copy_program(PLIMSOLL, &program);
    let as_nobody = |program: &Path| {
        let mut command = plimsoll_testkit::command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(program).current_dir(path);
        command.env("PLIMSOLL_STATE_DIR", path.join("state"));
        command
    };
    let theirs = as_nobody("sleep".as_ref()).arg("600").spawn();
    let theirs = Kept(theirs.expect("setpriv starts"));
    let pid = theirs.pid().to_string();
    for scope in [&[][..], &["--pid", &pid]] {
        let mut command = as_nobody(&program);
        command.args(["guard", "--duration", "1", "--json"]).args(scope);
        let output = command.output().expect("setpriv starts");
        assert_eq!(code(&output), Some(0), "{scope:?}: {}", errors(&output));
        let lines = lines(&output);
        assert_eq!(lines[0]["decision"], "begun", "{lines:#?}");
        assert_eq!(lines[0]["only_user"], NOBODY, "{lines:#?}");
        assert_eq!(lines.last().expect("a line")["decision"], "ended", "{lines:#?}");
        let journals = fs::read_dir(path.join("state/runs")).expect("it had a journal");
        assert_eq!(journals.count(), 0);
    }
    // Another user's processes are no reason to fail, but their journals are.
    let mut command = as_nobody(&program);
    let state = State::new();
    command
        .args(["guard", "--duration", "1"])
        .env("PLIMSOLL_STATE_DIR", state.0.path());
    let output = command.output().expect("setpriv starts");
    assert_eq!(code(&output), Some(3), "{output:?}");
    assert!(
        errors(&output).contains("PLIMSOLL_STATE_DIR"),
        "{}",
        errors(&output)
    );
}

#[test]
fn a_duration_ends_it_and_its_lines_are_json() {
    let (state, sleeper) = (State::new(), sleeper());
    let pid = sleeper.pid().to_string();
    let scope = ["--pid", &pid, "--duration", "0.5"];
    let start = Instant::now();
    let output = state.guard(&[&scope[..], &["--json", "--policy", "packs"]].concat());
    assert!(start.elapsed() >= Duration::from_millis(500));
    assert_eq!(code(&output), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    let lines = lines(&output);
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let scope_name = lines[0]["scope"].as_str().expect("a scope");
    assert!(scope_name.contains(&pid), "{scope_name}");
    assert_eq!(lines[0]["policy"], "packs");
    assert_eq!(
        (&lines[1]["decision"], &lines[1]["continued"]),
        (&"ended".into(), &0.into())
    );
    assert!(lines[1]["t_s"].as_f64() >= Some(0.5), "{lines:#?}");
    for line in &lines {
        assert!(
            line["text"].as_str().is_some_and(|text| !text.is_empty()),
            "{line:#}"
        );
    }
    assert!(state.journals().is_empty());

    // The same for people, and for no reader at all.
    let output = state.guard(&scope);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(code(&output), Some(0), "{output:?}");
    for words in [scope_name, "auto", "ended", "0 stops"] {
        assert!(text.contains(words), "`{words}`: {text}");
    }
    let output = state.guard(&[&scope[..], &["--quiet"]].concat());
    assert_eq!((code(&output), output.stdout.len()), (Some(0), 0), "{output:?}");
}

#[test]
fn a_guard_that_cannot_write_its_decisions_ends() {
    let (state, sleeper) = (State::new(), sleeper());
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("a device");
    let output = state
        .command(&["guard", "--json", "--pid", &sleeper.pid().to_string()])
        .stdout(full)
        .output()
        .expect("plimsoll starts");
    assert_eq!(code(&output), Some(3), "{output:?}");
    assert!(!output.stderr.is_empty());
    assert!(state.journals().is_empty());
}
