//! The engine of the kernel: real cgroups and real swap, so that these tests take the machine lock.

mod ends;
mod killed;
mod limits;
mod own_swap;
mod recorded;
mod signals;
mod terminal;
mod transparent;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_lab::environment::{Environment, Session};
use plimsoll_proc::cgroup::Hierarchy;
use plimsoll_testkit::capability;

const MIB: u64 = 1 << 20;

/// The longest wait for a state.
const PATIENCE: Duration = Duration::from_secs(60);

/// The machine with zram swap, for one test.
struct Swapped {
    session: Session,
    environment: Option<Environment>,
    /// The state folder of the command.
    state: tempfile::TempDir,
}

impl Swapped {
    /// With `bytes` of swap; `None` where the machine cannot have it.
    fn with(bytes: u64) -> Option<Swapped> {
        let root = rustix::process::geteuid().is_root();
        let there = Path::new("/sys/class/zram-control/hot_add").exists();
        let cgroup = Hierarchy::of_this_process().is_ok();
        let usable = capability(
            "cgroup",
            root && cgroup,
            "needs root and a memory cgroup hierarchy",
        ) && capability("zram", root && there, "needs root and the zram module");
        usable.then(|| {
            let mut session = crate::machine::alone_as("kernel-engine");
            let settings = crate::machine::settings("zram", 32 * MIB, 48 * MIB, bytes);
            let environment = Environment::prepare(&mut session, &settings).expect("swap");
            Swapped {
                session,
                environment: Some(environment),
                state: tempfile::tempdir().expect("a folder"),
            }
        })
    }

    fn new() -> Option<Swapped> {
        Swapped::with(256 * MIB)
    }

    /// `plimsoll exec` on the engine of the kernel, without the command that follows.
    fn exec(&self, ram: &str) -> Command {
        let mut command = super::exec();
        command
            .args(["--engine", "kernel", "--ram", ram])
            .env("PLIMSOLL_STATE_DIR", self.state.path());
        command
    }

    /// Journals that the command left.
    fn journals(&self) -> usize {
        fs::read_dir(self.state.path().join("runs")).map_or(0, Iterator::count)
    }

    /// Checks that the command left neither a cgroup nor a journal.
    fn assert_nothing_left(&self) {
        assert_eq!(cgroups(), Vec::<PathBuf>::new());
        assert_eq!(self.journals(), 0);
    }
}

impl Drop for Swapped {
    fn drop(&mut self) {
        if let Some(environment) = self.environment.take() {
            // A failed test must not end in a second panic; the session tries again.
            let _ = environment.tear_down(&mut self.session);
        }
    }
}

/// The cgroups of programs.
fn cgroups() -> Vec<PathBuf> {
    let own = Hierarchy::of_this_process().expect("a hierarchy").own;
    let entries = fs::read_dir(own).expect("its cgroups").flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("plimsoll-exec-"))
        .map(|entry| entry.path())
        .collect()
}

/// A program whose output is read.
struct Running {
    child: Child,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let child = command.stdout(Stdio::piped()).spawn().expect("plimsoll starts");
        Running { child }
    }

    /// The next line of its output.
    fn line(&mut self) -> String {
        plimsoll_testkit::next_line(&mut self.child)
    }

    fn signal(&self, signal: i32) {
        let process = plimsoll_os::Pidfd::open(self.child.id()).expect("it is there");
        process.send_signal(signal).expect("it takes signals");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(what: &str, mut met: impl FnMut() -> bool) {
    let start = Instant::now();
    while !met() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process is there and runs.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim_start();
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}
