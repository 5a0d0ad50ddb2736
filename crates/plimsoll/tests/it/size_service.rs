//! `plimsoll size --cgroup` and `--pid`: services in cgroups of their own, found, refused, killed and restored.

mod processes;
mod real;
mod refusals;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use plimsoll_lab::environment::Cap;
use plimsoll_lab::workload::protocol::{self, Placement};
use plimsoll_model::scenario::{FillClass, ThpMode};
use plimsoll_proc::cgroup::Hierarchy;
use plimsoll_testkit::capability;
use serde_json::Value;

use crate::kept::Kept;

const MIB: u64 = 1 << 20;
const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// The hierarchy, where this user may make cgroups in it.
fn hierarchy() -> Option<Hierarchy> {
    let found = Hierarchy::of_this_process();
    let root = rustix::process::geteuid().is_root();
    let usable = capability(
        "cgroup",
        root && found.is_ok(),
        "needs root and a memory cgroup hierarchy",
    );
    usable.then(|| found.expect("checked"))
}

fn wait_until(event: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for {event}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A cgroup of this test's, removed when dropped, with its processes.
struct Group {
    folder: PathBuf,
    hierarchy: Hierarchy,
}

impl Group {
    fn new(name: &str) -> Option<Group> {
        let hierarchy = hierarchy()?;
        let folder = hierarchy
            .mount
            .join(format!("plimsoll-size-{name}-{}", std::process::id()));
        fs::create_dir(&folder).expect("a cgroup");
        Some(Group { folder, hierarchy })
    }

    fn cap_file(&self) -> PathBuf {
        self.folder.join(Cap::file(self.hierarchy.version))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The memory of its processes may still be being freed.
        for _ in 0..500 {
            if fs::remove_dir(&self.folder).is_ok() || !self.folder.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn read(path: &Path) -> String {
    let text = fs::read_to_string(path);
    text.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .trim()
        .to_owned()
}

/// A command that moves itself into the cgroup, then executes the words.
fn inside(folder: &Path, words: &[&str]) -> Command {
    let mut command = plimsoll_testkit::command("sh");
    command
        .args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""])
        .arg(folder)
        .args(words);
    command
}

/// A process that sleeps in the cgroup.
fn sleeper(folder: &Path) -> Kept {
    let child = Kept(inside(folder, &["sleep", "600"]).spawn().expect("a shell"));
    wait_until("a sleeper", || {
        let pids = read(&folder.join("cgroup.procs"));
        let name = fs::read_to_string(format!("/proc/{}/comm", child.pid())).unwrap_or_default();
        pids.lines().any(|pid| pid == child.pid().to_string()) && name.trim() == "sleep"
    });
    child
}

/// A process of a service that holds memory, all touched once.
struct Worker {
    process: Kept,
    input: Option<ChildStdin>,
}

impl Worker {
    /// Starts it in the cgroup.
    fn start(folder: &Path) -> Worker {
        let mut child = inside(folder, &[PLIMSOLL, "worker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        Worker {
            input: child.stdin.take(),
            process: Kept(child),
        }
    }

    fn fill(&mut self, bytes: u64) {
        self.send(&protocol::Command::Fill {
            bytes,
            request: bytes,
            class: FillClass::Random,
            seed: 1,
            thp: ThpMode::Never,
            placement: Placement::default(),
        });
    }

    fn send(&mut self, command: &protocol::Command) {
        let line = serde_json::to_string(command).expect("a command") + "\n";
        let input = self.input.as_mut().expect("its input");
        input.write_all(line.as_bytes()).expect("it lives");
    }

    /// A worker that has filled `bytes` of memory, and its output after the reply.
    fn filled(folder: &Path, bytes: u64) -> (Worker, BufReader<ChildStdout>) {
        let mut worker = Worker::start(folder);
        worker.fill(bytes);
        let mut output = BufReader::new(worker.process.0.stdout.take().expect("its output"));
        // The first line says that it is up.
        for _ in 0..2 {
            let read = output.read_line(&mut String::new()).expect("a reply");
            assert!(read > 0, "it is killed");
        }
        (worker, output)
    }

    /// A worker with `bytes` of memory that it does not touch again.
    fn cold(folder: &Path, bytes: u64) -> Worker {
        Worker::filled(folder, bytes).0
    }

    /// A worker with `bytes` of memory that it reads again and again.
    fn hot(folder: &Path, bytes: u64) -> Worker {
        let (mut worker, mut output) = Worker::filled(folder, bytes);
        let mut input = worker.input.take().expect("its input");
        std::thread::spawn(move || {
            let again = serde_json::to_string(&protocol::Command::Restore).expect("a command") + "\n";
            let mut reply = String::new();
            // Until it is killed.
            while input.write_all(again.as_bytes()).is_ok()
                && output.read_line(&mut reply).is_ok_and(|bytes| bytes > 0)
            {
                reply.clear();
            }
        });
        worker
    }
}

/// `plimsoll size`, with a state folder and a folder for recordings of its own.
struct Sizing {
    state: tempfile::TempDir,
    output: tempfile::TempDir,
}

impl Sizing {
    fn new() -> Sizing {
        Sizing {
            state: tempfile::tempdir().expect("a folder"),
            output: tempfile::tempdir().expect("a folder"),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.wrap(plimsoll_testkit::command(PLIMSOLL), arguments)
    }

    /// The words of the sizing after those of another command.
    fn wrap(&self, mut command: Command, arguments: &[&str]) -> Command {
        command
            .arg("size")
            .args(arguments)
            .arg("--output")
            .arg(self.output.path())
            .env("PLIMSOLL_STATE_DIR", self.state.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("plimsoll starts")
    }

    /// Starts a sizing of the cgroup and waits for the first lower cap, which comes after one interval: a two-hundredth of the
    /// duration.
    fn started(&self, folder: &Path, cap_file: &Path, duration: &str) -> Kept {
        let before = read(cap_file);
        let path = folder.to_str().expect("text");
        let options = ["--cgroup", path, "--duration", duration, "--psi", "1%", "--json"];
        let child = self.command(&options).spawn();
        let mut child = Kept(child.expect("plimsoll starts"));
        wait_until("a lower cap", || {
            let ended = child.0.try_wait().expect("a child");
            assert!(ended.is_none(), "the sizing ended: {ended:?}");
            read(cap_file) != before
        });
        child
    }

    /// Starts a sizing and waits until its recording has a phase. It may not have lowered the cap yet.
    fn begun(&self, arguments: &[&str]) -> Kept {
        let child = Kept(self.command(arguments).spawn().expect("plimsoll starts"));
        wait_until("a recording", || {
            let recording = self.recording();
            recording.is_some_and(|folder| {
                let events = fs::read_to_string(folder.join("events.jsonl"));
                events.is_ok_and(|text| text.contains("phase-start"))
            })
        });
        child
    }

    /// The only recording.
    fn recording(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.output.path()).expect("the folder");
        let mut found = entries.map(|entry| entry.expect("an entry").path());
        let first = found.next();
        assert!(found.next().is_none(), "two recordings");
        first
    }

    /// The results of the only recording.
    fn results(&self) -> Value {
        let path = self.recording().expect("a recording").join("results.json");
        serde_json::from_str(&read(&path)).expect("JSON")
    }

    fn assert_no_journal(&self) {
        let journals = fs::read_dir(self.state.path().join("runs"));
        let left: Vec<_> = journals.into_iter().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }

    fn cleanup(&self) -> Output {
        plimsoll_testkit::command(PLIMSOLL)
            .args(["cleanup", "--json"])
            .env("PLIMSOLL_STATE_DIR", self.state.path())
            .output()
            .expect("plimsoll starts")
    }
}

fn code(output: &Output) -> i32 {
    let text = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    assert!(!text.contains("panicked"), "{text}");
    code.unwrap_or_else(|| panic!("a signal ended it: {text}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
